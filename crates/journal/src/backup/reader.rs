//! Reads a backup and checks every byte of it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{
    BODY_BYTES_MAX, BackupError, BackupTotals, FOOTER_MAGIC, GAPS_SINCE, GROUP_MAGIC, HASH_LEN, HEADER_LEN, MAGIC,
    RECORD_HEADER_LEN, VERSION, VERSIONS, header_checksum,
};
use crate::damage::{Damage, Flaw};
use crate::discarded::Discarded;
use crate::journal::Limits;
use crate::numbers::{counted_at, u16_at, u32_at, u64_at};
use crate::record::{EntityKey, Group, Kind, Position, Record, Seq};

const BUFFER_BYTES: usize = 1 << 20;

/// The groups of a backup, in order; see [`BackupWriter`](super::BackupWriter) for an example.
///
/// A group comes when its checksums were verified and its records follow those before. Whether the file is complete, and
/// is what was written, is known at the end only: then there are [`totals`](Self::totals). After damage, or an error of
/// the operating system, nothing follows.
///
/// Takes memory for one group and an entry for each entity.
#[derive(Debug)]
pub struct BackupReader {
    path: PathBuf,
    file: BufReader<File>,
    hasher: Sha256,
    log: u64,
    version: u16,
    /// What was read so far.
    totals: BackupTotals,
    seqs: HashMap<EntityKey, Seq>,
    discarded: Discarded,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The end was reached and is right.
    Complete,
    Failed,
}

impl BackupReader {
    /// Begins to read the backup at `path`.
    ///
    /// # Errors
    /// When the file does not begin as a backup does, or as the operating system reports.
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let file = File::open(path).map_err(BackupError::io(path))?;
        let mut reader = Self {
            path: path.into(),
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            hasher: Sha256::new(),
            log: 0,
            version: VERSION,
            totals: BackupTotals { bytes: 0, group_count: 0, last: Position::START, hash: [0; HASH_LEN] },
            seqs: HashMap::new(),
            discarded: Discarded::default(),
            state: State::Reading,
        };
        let header = reader.read_hashed(HEADER_LEN)?;
        let flaw = if header[..8] != MAGIC {
            Some(Flaw::BackupHeader)
        } else if !VERSIONS.contains(&u16_at(&header, 8)) {
            Some(Flaw::Version { found: u16_at(&header, 8) })
        } else {
            (u32_at(&header, 12) != header_checksum(&header, 12)).then_some(Flaw::BackupHeader)
        };
        (reader.log, reader.version) = (u64_at(&header, 16), u16_at(&header, 8));
        match flaw {
            Some(flaw) => Err(reader.damage(0, flaw).into()),
            None => Ok(reader),
        }
    }

    /// The id of the log that was backed up; zero if its journal has none.
    pub fn log(&self) -> u64 {
        self.log
    }

    /// What the backup consists of, when its end was reached and all of it is what was written.
    pub fn totals(&self) -> Option<BackupTotals> {
        (self.state == State::Complete).then_some(self.totals)
    }

    fn damage(&self, offset: u64, flaw: Flaw) -> Damage {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        Damage { file: name.to_string_lossy().into_owned(), offset, flaw }
    }

    /// The next `len` bytes.
    fn read_hashed(&mut self, len: usize) -> Result<Vec<u8>, BackupError> {
        let bytes = self.read(len)?;
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    fn read(&mut self, len: usize) -> Result<Vec<u8>, BackupError> {
        let mut bytes = Vec::new();
        let done = self.file.by_ref().take(len as u64).read_to_end(&mut bytes);
        done.map_err(BackupError::io(&self.path))?;
        self.totals.bytes += bytes.len() as u64;
        if bytes.len() < len {
            return Err(self.damage(self.totals.bytes, Flaw::Short).into());
        }
        Ok(bytes)
    }

    fn next_group(&mut self) -> Result<Option<Group>, BackupError> {
        let start = self.totals.bytes;
        let header = self.read_hashed(HEADER_LEN)?;
        if header[..4] == FOOTER_MAGIC {
            return self.take_footer(start, &header).map(|()| None);
        }
        let len = u32_at(&header, 16) as usize;
        let is_valid = header[..4] == GROUP_MAGIC && u32_at(&header, 4) == header_checksum(&header, 4);
        if !is_valid || len > BODY_BYTES_MAX {
            return Err(self.damage(start, Flaw::GroupHeader).into());
        }
        let body = self.read_hashed(len)?;
        if u32_at(&header, 24) != crc32c::crc32c(&body) {
            return Err(self.damage(start + HEADER_LEN as u64, Flaw::Record).into());
        }
        let first = self.totals.last.next();
        let records = self.decode(start, u64_at(&header, 8), &body)?;
        let last = self.totals.last;
        if last < first || last.0 - first.0 + 1 != u64::from(u32_at(&header, 20)) {
            return Err(self.damage(start, Flaw::GroupHeader).into());
        }
        self.totals.group_count += 1;
        Ok(Some(Group::new(first, last, records)))
    }

    /// The records of the group at `start`, of which the first has position `first`.
    fn decode(&mut self, start: u64, first: u64, body: &[u8]) -> Result<Vec<Record>, Damage> {
        let mut position = self.totals.last.next();
        if first != position.0 {
            return Err(self.damage(start, Flaw::Order { expected: position, found: Position(first) }));
        }
        let mut records = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let at = start + (HEADER_LEN + body.len() - rest.len()) as u64;
            let malformed = || self.damage(at, Flaw::Malformed);
            if self.version >= GAPS_SINCE
                && let Some((count, after)) = gap(rest)
            {
                let last = position.0.checked_add(count - 1).filter(|last| *last < u64::MAX).ok_or_else(malformed)?;
                self.discarded.add(count);
                self.totals.last = Position(last);
                position = self.totals.last.next();
                rest = after;
                continue;
            }
            let (stored, after) = Stored::decode(rest).ok_or_else(malformed)?;
            let Stored { entity, seq, kind, payload } = stored;
            let last = self.seqs.entry(entity.clone()).or_default();
            let expected = last.next();
            *last = seq;
            if self.discarded.skip(&entity, expected, seq).is_none() {
                return Err(self.damage(at, Flaw::Chain { entity, expected, found: seq }));
            }
            self.discarded.see(&entity, kind);
            records.push(Record { entity, seq, position, kind, payload: payload.to_vec() });
            self.totals.last = position;
            position = position.next();
            rest = after;
        }
        Ok(records)
    }

    fn take_footer(&mut self, start: u64, footer: &[u8]) -> Result<(), BackupError> {
        let hash = self.hasher.clone().finalize();
        if self.read(HASH_LEN)? != hash[..] {
            return Err(self.damage(start, Flaw::BackupHash).into());
        }
        self.totals.hash = hash.into();
        let BackupTotals { group_count, last, .. } = self.totals;
        let counted = [group_count, last.0, last.0];
        if [8, 16, 24].map(|at| u64_at(footer, at)) != counted {
            return Err(self.damage(start, Flaw::FooterMismatch).into());
        }
        let end = self.totals.bytes;
        let more = self.file.read(&mut [0]).map_err(BackupError::io(&self.path))?;
        if more > 0 { Err(self.damage(end, Flaw::Trailing).into()) } else { Ok(()) }
    }
}

impl Iterator for BackupReader {
    type Item = Result<Group, BackupError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state != State::Reading {
            return None;
        }
        let group = self.next_group().transpose();
        match &group {
            Some(Ok(_)) => {}
            Some(Err(_)) => self.state = State::Failed,
            None => self.state = State::Complete,
        }
        group
    }
}

/// How many positions the gap at the start of `bytes` has, if there is one, and what follows it.
fn gap(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (header, rest) = bytes.split_at_checked(RECORD_HEADER_LEN)?;
    let count = counted_at(header, 0).ok().filter(|count| *count > 0)?;
    header[8..].iter().all(|byte| *byte == 0).then_some((count, rest))
}

/// A record as it stands in a backup.
struct Stored<'a> {
    entity: EntityKey,
    seq: Seq,
    kind: Kind,
    payload: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Decodes the record at the start of `bytes`; what follows it comes with it.
    fn decode(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = bytes.split_at_checked(RECORD_HEADER_LEN)?;
        let seq = Seq(counted_at(header, 0).ok()?);
        let payload_len = u32_at(header, 8) as usize;
        let (key, rest) = rest.split_at_checked(usize::from(u16_at(header, 12)))?;
        let (payload, rest) = rest.split_at_checked(payload_len)?;
        let entity = str::from_utf8(key).ok()?.parse().ok()?;
        let is_small = key.len() + payload_len <= Limits::LOCAL.record_bytes;
        is_small.then_some((Self { entity, seq, kind: Kind(header[14]), payload }, rest))
    }
}
