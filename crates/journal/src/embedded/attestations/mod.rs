//! Signed statements of what the log was.
//!
//! # Problem
//! Checksums and the chain of hashes find accidents. Who can write to the directory can change a record, and make checksums, hashes and the
//! manifest anew. Without the private key, nobody makes the attestations anew.
//!
//! # What is attested
//! * *A place in the log*: its position, and the hash of its segment up to there, whose header has the hash of the segment before, and so on.
//!   So it binds every byte of the log but for footers, which say nothing that the groups do not say.
//! * *A compacted segment*: that the file with this hash stands for the segment that had that one. It is durable before the file takes the place
//!   of the other. A crash between both leaves a statement of a file that nobody has, which does no harm.
//!
//! Each attestation has the hash of the one before, so that none can be left out, but at the end.
//!
//! # When
//! When a segment is sealed, when the journal is closed, and when records have waited for
//! [`Options::attest_after`](super::Options::attest_after). The writer takes the hash, which costs it nothing; a thread signs and writes. What
//! cannot be attested is logged, and the next attestation covers it: each covers all before.
//!
//! # Crashes
//! A group is durable before it is attested, so no attestation is ahead of the log. One attestation is durable before the next one is
//! written: only the last one can be torn, and is cut. What is read of the last one is written once more before the next one builds on it,
//! for it may have come from the cache after a failed sync.
//!
//! # Logs that were there before
//! The file is made with statements of all segments that are compacted by then, and gets its name when it is whole. A log that has it is
//! compacted by a journal with a key only.

mod check;
mod statement;

use std::io;
use std::sync::Arc;

use enact_sync::Mutex;
use sha2::{Digest, Sha256};
use tracing::{info, warn};

pub(super) use self::check::Check;
pub use self::check::{Attested, Signed};
pub(super) use self::statement::Reached;
use self::statement::{LEN, Statement, Subject, is_whole};
use super::format::{Hash, LogId, segment_name, segment_number};
use super::reader::Reader;
use super::segment::{FooterReader, Segment};
use super::tail::UNFINISHED;
use crate::disk::{Disk, DiskFile};
use crate::keys::{KeyId, SigningKey};
use crate::record::Position;

pub(super) const ATTESTATIONS: &str = "attestations";

const BYTES_AT_ONCE: usize = 1 << 20;

/// Who attests what a journal writes: a key, and a clock.
pub struct Attester {
    key: SigningKey,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Attester {
    /// Signs with `key`; `clock` says the time, in milliseconds since 1970. A clock that goes back is taken to stand still.
    pub fn new(key: SigningKey, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { key, clock: Box::new(clock) }
    }
}

impl std::fmt::Debug for Attester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attester").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The attestations of a log that is open.
pub(super) struct Attestations {
    disk: Arc<dyn Disk>,
    log: LogId,
    attester: Attester,
    /// None before the first one, and after a failure: what is there is read then.
    open: Mutex<Option<Open>>,
}

/// The open file.
struct Open {
    file: Arc<dyn DiskFile>,
    end: u64,
    /// The hash of the last attestation.
    previous: Hash,
    time: u64,
    /// What was attested of the log last, and with which key.
    attested: Option<(Position, KeyId)>,
}

impl Attestations {
    pub(super) fn new(disk: Arc<dyn Disk>, log: LogId, attester: Attester) -> Self {
        Self { disk, log, attester, open: Mutex::new(None) }
    }

    /// Attests the log up to `reached`, which is durable, unless it is attested already. What hinders it is logged.
    pub(super) fn attest(&self, reached: Reached) {
        match self.write(Subject::Log, reached) {
            Ok(None) => {}
            Ok(Some((number, time))) => {
                let Reached { last, segment, .. } = reached;
                let (key, hash) = (self.attester.key.public().id(), in_hex(&reached.hash));
                info!(position = last.0, segment, hash, attestation = number, time_ms = time, %key, "attested the log");
            }
            Err(error) => warn!(%error, position = reached.last.0, "cannot attest the log"),
        }
    }

    /// Attests that `file` stands for segment `number`.
    ///
    /// # Errors
    /// As the operating system reports; then the file must not take the place of the segment.
    pub(super) fn attest_compacted(&self, number: u32, file: &str) -> io::Result<()> {
        let (hash, reached) = (file_hash(&*self.disk, file)?, end_of(&*self.disk, self.log, number)?);
        self.write(Subject::Compacted(hash), reached).map(|_| ())
    }

    /// Writes an attestation, durably; its number and time, or `None` if there is one already.
    fn write(&self, subject: Subject, reached: Reached) -> io::Result<Option<(u64, u64)>> {
        let mut open = self.open.lock();
        let mut file = match open.take() {
            Some(file) => file,
            None => self.open()?,
        };
        let key = self.attester.key.public().id();
        if subject == Subject::Log {
            match file.attested {
                Some((last, _)) if last > reached.last => {
                    let why =
                        format!("{last} is attested, and the log ends before it: `enact journal verify` says where");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                Some(attested) if attested == (reached.last, key) => {
                    *open = Some(file);
                    return Ok(None);
                }
                _ => file.attested = Some((reached.last, key)),
            }
        }
        let bytes = self.statement(subject, reached, &mut file);
        file.file.write_at(file.end, &bytes)?;
        file.file.sync()?;
        if !file.file.is_linked()? {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{ATTESTATIONS} is gone")));
        }
        file.end += LEN as u64;
        let (number, time) = (file.end / LEN as u64, file.time);
        *open = Some(file);
        Ok(Some((number, time)))
    }

    /// The bytes of the next attestation of `file`.
    fn statement(&self, subject: Subject, reached: Reached, file: &mut Open) -> Vec<u8> {
        file.time = file.time.max((self.attester.clock)());
        let key = self.attester.key.public().id();
        let statement = Statement { subject, log: self.log, time: file.time, reached, previous: file.previous, key };
        let bytes = statement.encode(&self.attester.key);
        file.previous = statement::hash(&bytes);
        bytes
    }

    /// Opens the file, or makes it.
    fn open(&self) -> io::Result<Open> {
        let file = match self.disk.open(ATTESTATIONS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.begin(),
            file => file?,
        };
        let size = file.size()?;
        let mut end = size - size % LEN as u64;
        let mut bytes = vec![0; LEN];
        let read = |at: u64, bytes: &mut [u8]| file.read_at(at, bytes).map(|_| ());
        if end > 0 {
            read(end - LEN as u64, &mut bytes)?;
            if !is_whole(&bytes) {
                end -= LEN as u64;
            }
        }
        if end < size {
            warn!(bytes = size - end, "cut off a torn attestation");
            file.set_size(end)?;
        }
        let mut open = Open { file: Arc::clone(&file), end, previous: [0; 32], time: 0, attested: None };
        if end > 0 {
            read(end - LEN as u64, &mut bytes)?;
            let wrong = |flaw: crate::damage::Flaw| io::Error::new(io::ErrorKind::InvalidData, flaw.to_string());
            let last = Statement::decode(&bytes).map_err(wrong)?;
            file.write_at(end - LEN as u64, &bytes)?;
            (open.previous, open.time) = (statement::hash(&bytes), last.time);
        }
        file.sync()?;
        let mut at = end;
        while at > 0 && open.attested.is_none() {
            at -= LEN as u64;
            read(at, &mut bytes)?;
            open.attested = match Statement::decode(&bytes) {
                Ok(Statement { subject: Subject::Log, reached, key, .. }) => Some((reached.last, key)),
                _ => None,
            };
        }
        Ok(open)
    }

    /// Makes the file, with statements of the segments that are compacted.
    fn begin(&self) -> io::Result<Open> {
        let unfinished = format!("{ATTESTATIONS}{UNFINISHED}");
        match self.disk.remove(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.create(&unfinished)?;
        let mut open = Open { file: Arc::clone(&file), end: 0, previous: [0; 32], time: 0, attested: None };
        let mut numbers: Vec<u32> = self.disk.names()?.iter().filter_map(|name| segment_number(name)).collect();
        numbers.sort_unstable();
        for number in numbers {
            if Segment::open(&*self.disk, number)?.head().is_some() {
                let hash = file_hash(&*self.disk, &segment_name(number))?;
                let reached = end_of(&*self.disk, self.log, number)?;
                let bytes = self.statement(Subject::Compacted(hash), reached, &mut open);
                file.write_at(open.end, &bytes)?;
                open.end += LEN as u64;
            }
        }
        file.sync()?;
        self.disk.rename(&unfinished, ATTESTATIONS)?;
        self.disk.sync()?;
        Ok(open)
    }
}

/// Whether the log in `disk` is attested.
pub(super) fn are_there(disk: &dyn Disk) -> bool {
    disk.look_up(ATTESTATIONS).is_ok()
}

/// SHA-256 of all bytes of the file `name`.
fn file_hash(disk: &dyn Disk, name: &str) -> io::Result<Hash> {
    let file = disk.open(name)?;
    let mut rest = usize::try_from(file.size()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut reader = Reader::new(file, 0, BYTES_AT_ONCE.min(rest));
    let mut hasher = Sha256::new();
    while rest > 0 {
        let part = reader.take(rest.min(BYTES_AT_ONCE))?;
        hasher.update(part);
        rest -= part.len();
    }
    Ok(hasher.finalize().into())
}

/// The end of the sealed segment `number`, as it was written.
fn end_of(disk: &dyn Disk, log: LogId, number: u32) -> io::Result<Reached> {
    let FooterReader { start, head, .. } = FooterReader::open(&Segment::open(disk, number)?, log, number)?;
    let last = Position((head.first.0 + head.count).saturating_sub(1));
    Ok(Reached { segment: number, end: start, last, hash: head.hash })
}

fn in_hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
