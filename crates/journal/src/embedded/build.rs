//! Builds the log of a new directory from groups: whole or not at all.
//!
//! The directory is built beside its place, under its name with `.new` at the end, and renamed when all of it is durable.
//! A rename replaces no directory that has anything in it. Until then there are no syncs but those of full segments.
//!
//! A builder that is killed leaves its directory behind, and loses the lock on it. The next one takes its place: it removes
//! a directory that nobody has locked and that has the file [`UNDER_WAY`], which is gone before the log is complete. A
//! directory without this file may be anything, and stays.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use super::contents::Contents;
use super::draft::{Draft, Previous};
use super::format::{Address, LogId};
use super::manifest::{HighWater, Manifest};
use super::scan::Tip;
use super::tail::{Tail, WriteFailure};
use super::{MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES, OpenError};
use crate::damage::Flaw;
use crate::discarded::Discarded;
use crate::disk::{DirectoryError, Disk, DiskLock, LOCK, LockError, OsDisk, sync_parent};
use crate::journal::Limits;
use crate::record::{EntityKey, Group, Kind, NewRecord, Position, Record, Seq};

/// An empty file in a directory that is being built.
const UNDER_WAY: &str = "under-way";

/// Why a log was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The directory has something in it, or there is another file.
    #[error("{} is there already, and not empty", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// Something has the name that a log has before it is complete, and is not what a builder has left that was killed.
    #[error(
        "{} is there, which is where the log would be built: nobody knows what is in it, so look at it, and move it away or \
         remove it",
        path.display()
    )]
    Unfinished {
        /// The path.
        path: PathBuf,
    },
    /// Another process is building a log of this name.
    #[error("another process is building {}", path.display())]
    UnderWay {
        /// Its path until it is complete.
        path: PathBuf,
    },
    /// A record does not follow those before, or is longer than a journal takes.
    #[error("record {position} cannot be taken: {flaw}")]
    Record {
        /// Its position.
        position: Position,
        /// What is wrong.
        flaw: Flaw,
    },
    /// Records of an entity were discarded, and the tombstone that stands for them is not among the groups.
    #[error("records of {entity} were discarded, and nothing that stands for them was taken: nobody knows its state")]
    Incomplete {
        /// The entity.
        entity: EntityKey,
    },
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The operating system failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
}

impl BuildError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<'_> {
        |error| Self::Io { path: path.into(), error }
    }
}

/// A log that is being built in a directory of its own, with the groups of another one.
///
/// It has an id of its own, so its segments are never taken for those of the other, and the same positions. Each group is
/// one of the new log, too. Dropping the builder removes what was built; what a process leaves behind that is killed, the
/// next one removes that builds a log of the same name.
///
/// Takes memory for one group and an entry for each entity.
///
/// ```
/// use enact_journal::{Embedded, EntityKey, Group, Journal, Kind, LogBuilder, Options, Position, Record, Seq};
/// # fn block_on<F: Future>(future: F) -> F::Output { enact_journal_kit::contract::block_on(future) }
///
/// # let place = tempfile::tempdir()?;
/// let path = place.path().join("data");
/// let entity = EntityKey::new("Account", "NL01")?;
/// let record = Record { entity, seq: Seq(1), position: Position(1), kind: Kind(1), payload: b"open".to_vec() };
/// let mut log = LogBuilder::begin(&path, Options::default().segment_bytes)?;
/// log.push(Group::new(Position(1), Position(1), vec![record.clone()]))?;
/// log.finish()?;
///
/// let journal = Embedded::open(&path, Options::default())?;
/// assert_eq!(block_on(journal.feed(Position::START, 9))?, [record]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LogBuilder {
    path: PathBuf,
    unfinished: Unfinished,
    tail: Tail,
    tips: HashMap<EntityKey, Tip>,
    discarded: Discarded,
    next: Position,
    lock: DiskLock,
}

/// A group that is to be written.
struct Parts {
    draft: Draft,
    previous: Vec<Previous>,
    held: Vec<Part>,
}

/// What a segment holds of a part of a group.
enum Part {
    /// A record, and how many of its entity were discarded before it.
    Record(EntityKey, Seq, u64),
    Gap(u32),
}

impl Parts {
    /// None, with space for so many.
    fn with_capacity(count: usize) -> Self {
        let draft = Draft::in_space_of(Vec::new());
        Self { draft, previous: Vec::with_capacity(count), held: Vec::with_capacity(count) }
    }

    /// Adds a record that follows the one at `previous`, but for so many that were discarded.
    fn push(&mut self, record: NewRecord, previous: Previous, skipped: u64) {
        self.draft.add(&record);
        self.previous.push(previous);
        self.held.push(Part::Record(record.entity, record.expected.next(), skipped));
    }

    /// Adds what stands for the positions from `from` on before `to`, which have no records.
    fn skip(&mut self, from: Position, to: Position) {
        if from < to {
            let count = (to.0 - from.0) as u32;
            self.draft.skip(count);
            self.previous.push(Previous::At(Address::default()));
            self.held.push(Part::Gap(count));
        }
    }
}

impl Part {
    fn add_to(&self, contents: &mut Contents, address: Address) {
        match self {
            Self::Record(entity, seq, skipped) => contents.add(entity, *seq, address, *skipped),
            Self::Gap(count) => contents.skip(*count),
        }
    }
}

/// A directory that is removed when it is dropped, unless it has another name by then.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What cannot be removed is found by the next builder, which says so.
        fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

impl LogBuilder {
    /// Begins a log in `directory`, which is empty or not there, with segments of this length; see
    /// [`Options::segment_bytes`](super::Options::segment_bytes).
    ///
    /// # Errors
    /// When there is something in the directory or an unfinished one beside it, or as the operating system reports.
    pub fn begin(directory: &Path, segment_bytes: u32) -> Result<Self, BuildError> {
        if !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&segment_bytes) {
            return Err(OpenError::SegmentBytes { segment_bytes }.into());
        }
        check_empty(directory)?;
        let mut name = directory.components().as_path().as_os_str().to_owned();
        name.push(".new");
        let unfinished = PathBuf::from(name);
        if unfinished.symlink_metadata().is_ok() {
            remove_remainder(&unfinished)?;
        }
        let of_directory = |error: DirectoryError| BuildError::Open(error.into());
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::at(&unfinished).map_err(of_directory)?);
        let lock = disk.lock().map_err(under_way(&unfinished))?;
        let unfinished = Unfinished(unfinished);
        disk.create(UNDER_WAY).map_err(BuildError::io(&unfinished.0))?;
        let log = LogId(disk.fresh_id());
        let manifest = Manifest::create(&*disk, log, HighWater::default(), &[]);
        let manifest = manifest.map_err(BuildError::io(&unfinished.0))?;
        let tail = Tail::new(disk, log, segment_bytes, manifest);
        let (path, tips, discarded, next) = (directory.into(), HashMap::new(), Discarded::default(), Position(1));
        Ok(Self { path, unfinished, tail, tips, discarded, next, lock })
    }

    /// Writes the next group. Where it has no records, the log has none, too.
    ///
    /// # Errors
    /// When a record is not the next of its entity but for discarded ones, or does not have the next position, or as the operating
    /// system reports. The builder takes no further group then.
    pub fn push(&mut self, group: Group) -> Result<(), BuildError> {
        let (first, last) = (group.first(), group.last());
        if first != self.next {
            let flaw = Flaw::Order { expected: self.next, found: first };
            return Err(BuildError::Record { position: first, flaw });
        }
        let mut parts = Parts::with_capacity(group.records().len());
        let mut in_group: HashMap<EntityKey, (u32, Seq)> = HashMap::new();
        for record in group {
            let Record { entity, seq, position, kind, payload } = record;
            let wrong = |flaw| Err(BuildError::Record { position, flaw });
            self.discarded.add(position.0 - self.next.0);
            parts.skip(self.next, position);
            let tip = self.tips.get(&entity).copied().unwrap_or_default();
            let (before, expected) = match in_group.insert(entity.clone(), (parts.held.len() as u32, seq)) {
                Some((index, seq)) => (Previous::InGroup(index), seq),
                None => (Previous::At(tip.address), tip.seq),
            };
            let Some(skipped) = self.discarded.skip(&entity, expected.next(), seq) else {
                return wrong(Flaw::Chain { entity, expected: expected.next(), found: seq });
            };
            self.discarded.see(&entity, kind);
            let record = NewRecord { entity, expected: Seq(seq.0 - 1), kind, payload };
            if record.bytes() > Limits::LOCAL.record_bytes {
                return wrong(Flaw::Malformed);
            }
            parts.push(record, before, skipped);
            self.next = position.next();
        }
        self.discarded.add(last.next().0 - self.next.0);
        parts.skip(self.next, last.next());
        self.next = last.next();
        let Parts { mut draft, previous, held } = parts;
        let adds = |contents: &mut Contents, addresses: &[Address]| {
            held.iter().zip(addresses).for_each(|(part, address)| part.add_to(contents, *address));
        };
        let addresses = self.tail.append_unsynced(&mut draft, &previous, adds).map_err(|failure| match failure {
            WriteFailure::Full(error) | WriteFailure::Before(error) | WriteFailure::InDoubt(error) => {
                BuildError::io(&self.unfinished.0)(error)
            }
        })?;
        for (part, address) in held.into_iter().zip(addresses) {
            if let Part::Record(entity, seq, _) = part {
                self.tips.insert(entity, Tip { seq, address });
            }
        }
        Ok(())
    }

    /// Whether records are left out of which nobody knows of which entity they were.
    pub fn has_gaps(&self) -> bool {
        self.discarded.is_any_unexplained()
    }

    /// Writes a group with the [tombstone](crate::Kind::TOMBSTONE) of an entity behind the last one, at a position of its own: it
    /// stands for the records that are left out.
    ///
    /// # Errors
    /// As [`push`](Self::push), and when it is none.
    pub fn bury(&mut self, tombstone: Record) -> Result<(), BuildError> {
        let position = self.next;
        if tombstone.kind != Kind::TOMBSTONE {
            return Err(BuildError::Record { position, flaw: Flaw::Malformed });
        }
        self.push(Group::of(vec![Record { position, ..tombstone }]))
    }

    /// Makes the log durable and gives the directory its name; the last position.
    ///
    /// # Errors
    /// When there is something in the directory by now, when an entity is [incomplete](BuildError::Incomplete), or as the operating
    /// system reports; there is no log then.
    pub fn finish(self) -> Result<Position, BuildError> {
        let Self { path, unfinished, mut tail, next, lock, discarded, .. } = self;
        if let Some(entity) = discarded.incomplete() {
            return Err(BuildError::Incomplete { entity: entity.clone() });
        }
        let failed = |error| BuildError::io(&unfinished.0)(error);
        if let Some(active) = &tail.active {
            active.file.sync().map_err(&failed)?;
        }
        let settled = tail.settle_mark().and_then(|()| tail.disk.remove(UNDER_WAY)).and_then(|()| tail.disk.sync());
        settled.map_err(&failed)?;
        check_empty(&path)?;
        match fs::rename(&unfinished.0, &path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Err(BuildError::Exists { path }),
            renamed => renamed.map_err(BuildError::io(&path))?,
        }
        drop((unfinished, lock));
        sync_parent(&path).map_err(BuildError::io(&path))?;
        Ok(Position(next.0 - 1))
    }
}

impl fmt::Debug for LogBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogBuilder").field("path", &self.path).field("next", &self.next).finish_non_exhaustive()
    }
}

/// Removes what a builder has left at `path` that was killed.
fn remove_remainder(path: &Path) -> Result<(), BuildError> {
    let unfinished = || BuildError::Unfinished { path: path.into() };
    let disk = OsDisk::existing(path).map_err(|_| unfinished())?;
    if disk.is_locked().map_err(BuildError::io(path))? {
        return Err(BuildError::UnderWay { path: path.into() });
    }
    let names = disk.names().map_err(BuildError::io(path))?;
    // The lock is there before anything else.
    let is_of_builder = names.iter().any(|name| name == UNDER_WAY) || names.iter().all(|name| name == LOCK);
    if !is_of_builder {
        return Err(unfinished());
    }
    let _lock = disk.lock().map_err(under_way(path))?;
    fs::remove_dir_all(path).map_err(BuildError::io(path))
}

fn under_way(path: &Path) -> impl Fn(LockError) -> BuildError + use<'_> {
    |error| match error {
        LockError::InUse { .. } => BuildError::UnderWay { path: path.into() },
        LockError::Io(error) => BuildError::io(path)(error),
    }
}

/// Fails unless `directory` is empty or not there.
fn check_empty(directory: &Path) -> Result<(), BuildError> {
    let is_empty = match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(BuildError::io(directory)(error)),
        Ok(found) if found.is_dir() => fs::read_dir(directory).map_err(BuildError::io(directory))?.next().is_none(),
        Ok(_) => false,
    };
    if is_empty { Ok(()) } else { Err(BuildError::Exists { path: directory.into() }) }
}
