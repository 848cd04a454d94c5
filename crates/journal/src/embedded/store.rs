//! Reads durable records: of one entity along its back-pointers, or of all in order of their positions.

use std::io;
use std::sync::Arc;

use super::commits::Commits;
use super::format::{Address, Frame, GROUP_HEADER_LEN, GroupHeader, LogId, RECORD_HEADER_LEN, Stored};
use super::recover::damage;
use super::segment::is_damage;
use super::window::Window;
use crate::damage::{Damage, Flaw};
use crate::disk::Disk;
use crate::journal::ReadError;
use crate::record::{EntityKey, Kind, Position, Record, Seq};

/// Bytes of payload after which a feed returns what it has.
const FEED_BYTES_MAX: usize = 8 << 20;

/// One record of all logs: where it stands, and its checksum, which covers the log's id, the place and the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) address: Address,
    pub(super) checksum: u32,
}

/// The durable records of a log.
pub(super) struct Store {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) log: LogId,
    pub(super) commits: Commits,
}

impl Store {
    /// The records of `entity` after `after`, from its tombstone on if it has one.
    pub(super) fn read(&self, entity: &EntityKey, after: Seq) -> Result<Vec<Record>, ReadError> {
        let (mut seq, mut at) = self.commits.last(entity)?;
        let mut window = Window::backward(&*self.disk);
        let count = if at.is_of_tombstone() { 1 } else { seq.0.saturating_sub(after.0) };
        let mut records = Vec::with_capacity(count as usize);
        while seq > after {
            let stored = self.record(&mut window, at)?;
            if stored.key != entity.as_str() || stored.seq != seq {
                let flaw = Flaw::Chain { entity: entity.clone(), expected: seq, found: stored.seq };
                return Err(damaged(at, flaw).into());
            }
            records.push(to_record(entity.clone(), &stored));
            if stored.kind == Kind::TOMBSTONE {
                break;
            }
            at = stored.previous;
            seq.0 -= 1;
        }
        records.reverse();
        Ok(records)
    }

    /// The fingerprint of record `seq` of `entity`, which must be durable, or of the tombstone behind it; the default one for
    /// [`Seq::NONE`].
    pub(super) fn fingerprint(&self, entity: &EntityKey, seq: Seq) -> Result<Fingerprint, ReadError> {
        if seq == Seq::NONE {
            return Ok(Fingerprint::default());
        }
        let (mut found, mut address) = self.commits.tip(entity);
        let mut window = Window::backward(&*self.disk);
        loop {
            let stored = self.record(&mut window, address)?;
            // What stands before a tombstone may not be there, and a snapshot of it is of no use.
            if found <= seq || stored.kind == Kind::TOMBSTONE {
                return Ok(Fingerprint { address, checksum: stored.checksum });
            }
            (found, address) = (Seq(found.0 - 1), stored.previous);
        }
    }

    /// Whether the log has record `seq` of `entity`, and it is the one that `fingerprint` is of.
    pub(super) fn has(&self, entity: &EntityKey, seq: Seq, fingerprint: Fingerprint) -> Result<bool, ReadError> {
        if seq == Seq::NONE {
            return Ok(fingerprint == Fingerprint::default());
        }
        match self.record(&mut Window::backward(&*self.disk), fingerprint.address) {
            Ok(stored) => {
                let is_of_entity = stored.key == entity.as_str() && stored.seq == seq;
                Ok(is_of_entity && stored.checksum == fingerprint.checksum)
            }
            // Damage, or no record of this log at all: whatever reads the entity's records tells which.
            Err(ReadError::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// At most `limit` records after `after`, without those that were discarded or that a tombstone stands for.
    pub(super) fn feed(&self, after: Position, limit: usize) -> Result<Vec<Record>, ReadError> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut last = after;
        // Most logs have none, and need no look at the entity of each record.
        let has_tombstones = self.commits.counts().1 > 0;
        while records.len() < limit
            && bytes < FEED_BYTES_MAX
            && let Some(start) = self.commits.locate_after(last)?
        {
            // What was read behind the end before is not what stands there by now.
            let mut window = Window::forward(&*self.disk);
            let mut offset = start.offset;
            let before = last;
            while offset < start.end && records.len() < limit && bytes < FEED_BYTES_MAX {
                let group = Address::new(start.segment, offset);
                let header = window.get(start.segment, offset, GROUP_HEADER_LEN)?;
                let header = GroupHeader::decode(header, self.log, group).map_err(|flaw| damaged(group, flaw))?;
                let has_next = header.first.0 + u64::from(header.count) > last.next().0;
                let mut at = offset + GROUP_HEADER_LEN as u32;
                let mut left = if has_next { header.count } else { 0 };
                while left > 0 {
                    let address = Address::new(start.segment, at);
                    let frame = self.frame(&mut window, address)?;
                    at += frame.len() as u32;
                    let (first, count) = (frame.first(), frame.count());
                    left = left.saturating_sub(count);
                    let end = Position(first.0 + u64::from(count) - 1);
                    if end <= last || records.len() == limit {
                        continue;
                    }
                    if first > last.next() {
                        let flaw = Flaw::Order { expected: last.next(), found: first };
                        return Err(damaged(address, flaw).into());
                    }
                    last = end;
                    let Frame::Record(stored) = frame else { continue };
                    let entity = stored.key.parse().map_err(|_| damaged(address, Flaw::Malformed))?;
                    if has_tombstones && self.commits.is_superseded(&entity, stored.seq) {
                        continue;
                    }
                    bytes += stored.payload.len();
                    records.push(to_record(entity, &stored));
                }
                let end = u64::from(offset) + header.len() as u64;
                offset = u32::try_from(end).map_err(|_| damaged(group, Flaw::Short))?;
            }
            if last == before {
                let end = Address::new(start.segment, start.end);
                return Err(damaged(end, Flaw::Order { expected: last.next(), found: Position::START }).into());
            }
        }
        Ok(records)
    }

    fn record<'w>(&self, window: &'w mut Window<'_>, at: Address) -> Result<Stored<'w>, ReadError> {
        match self.frame(window, at)? {
            Frame::Record(stored) => Ok(stored),
            Frame::Gap(_) => Err(damaged(at, Flaw::Record).into()),
        }
    }

    fn frame<'w>(&self, window: &'w mut Window<'_>, at: Address) -> Result<Frame<'w>, ReadError> {
        let len = Frame::needed_len(window.get(at.segment(), at.offset(), RECORD_HEADER_LEN)?);
        let len = len.map_err(|flaw| damaged(at, flaw))?;
        let bytes = window.get(at.segment(), at.offset(), len)?;
        Frame::decode(bytes, self.log, at).map_err(|flaw| damaged(at, flaw).into())
    }
}

pub(super) fn to_record(entity: EntityKey, stored: &Stored<'_>) -> Record {
    Record { entity, seq: stored.seq, position: stored.position, kind: stored.kind, payload: stored.payload.to_vec() }
}

fn damaged(at: Address, flaw: Flaw) -> Damage {
    damage(at.segment(), at.offset().into(), flaw)
}

/// What the operating system says of `file`; a missing file is damage, as is one that was compacted and is not what was written.
pub(super) fn read_failure(file: String, error: &io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::NotFound => Damage { file, offset: 0, flaw: Flaw::Missing }.into(),
        _ if is_damage(error) => Damage { file, offset: 0, flaw: Flaw::Unlisted }.into(),
        _ => ReadError::Io { file, why: error.to_string() },
    }
}
