//! The embedded journal: a segment log in a directory, for one machine.
//!
//! # Threads
//! One writer takes whatever is queued, writes it with one call, syncs once, then answers: appends that arrive while a sync is under
//! way share the next one. Long groups are answered and [summed up](summary) by a thread beside it. Two readers wait for the disk instead of their callers. One thread saves snapshots, one watches that
//! the files stay where they are, and one makes checkpoints, compacts segments and reads what a start has not. Futures run on any
//! executor.
//!
//! # Files
//! ```text
//! lock                     names the process that has the journal open; the lock itself is on the directory
//! manifest                 what the log must have at least
//! segment-0000000001.log   sealed segments and, last, the one that is written to
//! segment-0000000002.log
//! segment-….log.cut-1      bytes that a crash has left at the end of a segment, for a closer look; not used
//! attestations             signed statements of what the log was, if there is a key to sign with
//! checkpoint               can be deleted at any time
//! snapshots.redb           can be deleted at any time
//! ```
//!
//! # Layers
//! [`commits`] decides order and answers, [`tail`] writes, [`summary`] keeps what a segment is sealed with, [`recover`] opens, [`checkpoint`] makes that short, [`store`] reads,
//! [`attestations`] signs, [`compaction`] makes room, [`format`](self::format) and [`segment`] know the bytes, [`look`](mod@look) reads beside a writer. Each states its part of why nothing is lost.
//!
//! # Limits
//! All entities have an entry in memory (their key and about 80 bytes), but for [forgotten](Journal::forget) classes.
//! No records but theirs are ever removed. Damage to the groups behind the high-water mark of a log that was not closed, those of
//! the last 100 ms, cannot be told from a torn write: they are cut.

mod answer;
mod attestations;
mod build;
mod catalog;
mod checkpoint;
mod classes;
mod commits;
mod compaction;
mod contents;
mod draft;
mod format;
mod heads;
mod look;
mod manifest;
mod output;
mod reader;
mod recover;
mod salvage;
mod scan;
mod sealed;
mod segment;
mod snapshots;
mod store;
mod summary;
mod tail;
mod upkeep;
mod verify;
mod watch;
mod window;
mod workers;
mod writer;

use std::future::{Future, ready};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use attestations::Attestations;
pub use attestations::{Attested, Attester, Signed};
pub use build::{BuildError, LogBuilder};
use classes::Classes;
use commits::Commits;
pub use look::{Look, look, look_on};
pub use salvage::{Diagnosis, Finding, Harmless, Salvage};
use scan::Tips;
use snapshots::Snapshots;
use store::Store;
use upkeep::{Discards, Upkeep};
pub use verify::{Verification, adopt, adopt_on, verify, verify_attested, verify_attested_on, verify_on};
use watch::{Sizes, Watch};
use workers::Workers;
use writer::{Attesting, Writer};

use crate::damage::Damage;
use crate::disk::{DirectoryError, Disk, LockError, OsDisk};
use crate::journal::{AppendError, CloseError, Journal, Limits, Loaded, ReadError, SnapshotError, Volume};
use crate::record::{EntityKey, NewRecord, Position, Record, Seq, Snapshot};
use crate::reply::{Awaited, reply};

const READER_COUNT: usize = 2;
const PANICKED: &str = "a thread of the journal has panicked";

/// How an embedded journal is opened; the defaults are right for production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The length at which a segment is sealed and the next one begun: 4 KiB to 256 MiB, 64 MiB by default.
    pub segment_bytes: u32,
    /// The most bytes that may wait for the disk; beyond, appends are refused as overloaded. 64 MiB by default. A batch
    /// that comes alone is always taken.
    pub queue_bytes: usize,
    /// For how long the high-water mark may lag behind what is durable: so much of the end of the log can be lost after
    /// a crash without notice if the file is damaged as well. 100 ms by default. A clean close leaves no lag.
    pub mark_lag: Duration,
    /// How many bytes of sealed segments have no [checkpoint](Embedded::open) at most, unless it would be longer than a quarter
    /// of them: so much of the log is read at a start, besides the last segment. 256 MiB by default.
    pub checkpoint_bytes: u64,
    /// For how long a journal is open before records of [forgotten](Journal::forget) classes are discarded, and only if the classes are to be
    /// forgotten then, too: a clock that was wrong at the start has been put right by then. An hour by default. What a
    /// [tombstone](crate::Kind::TOMBSTONE) stands for is not discarded before, either.
    pub discard_after: Duration,
    /// For how long records may wait to be [attested](Attester), if the journal is opened with a key. An hour by default. Sealed segments are
    /// attested at once, and so is all of the log when it is closed.
    pub attest_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            queue_bytes: 64 << 20,
            mark_lag: Duration::from_millis(100),
            checkpoint_bytes: 256 << 20,
            discard_after: Duration::from_secs(60 * 60),
            attest_after: Duration::from_secs(60 * 60),
        }
    }
}

/// A journal in a directory of this machine.
///
/// Dropping it writes what was submitted, syncs and waits for its threads, as [`close`](Journal::close) does.
///
/// ```
/// use enact_journal::{Embedded, EntityKey, Journal, Kind, NewRecord, Options, Seq};
/// # fn block_on<F: Future>(future: F) -> F::Output { enact_journal_kit::contract::block_on(future) }
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # block_on(async {
/// let journal = Embedded::open(&path, Options::default())?;
/// let account = EntityKey::new("Account", "NL01")?;
/// let record = |n, payload: &[u8]| NewRecord {
///     entity: account.clone(),
///     expected: Seq(n),
///     kind: Kind(1),
///     payload: payload.to_vec(),
/// };
/// // Two appends under way at once; they share a sync, and the order of the calls is the order of the records.
/// let (first, second) = (journal.append(vec![record(0, b"open")]), journal.append(vec![record(1, b"deposit")]));
/// first.await?;
/// second.await?;
/// journal.close().await?;
///
/// let journal = Embedded::open(&path, Options::default())?;
/// assert_eq!(journal.read(&account, Seq(1)).await?[0].payload, b"deposit");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Embedded {
    store: Arc<Store>,
    snapshots: Arc<Snapshots>,
    readers: Workers,
    saver: Workers,
    discards: Discards,
    watch: Arc<Watch>,
    writer: Option<JoinHandle<()>>,
}

/// Why a journal could not be opened or verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory is not acceptable.
    #[error("cannot use the data directory: {0}")]
    Directory(DirectoryError),
    /// Another process has the directory.
    #[error("the data directory is in use by {holder}")]
    InUse {
        /// Who, as far as is known.
        holder: String,
    },
    /// The log is damaged; nothing was changed.
    #[error("the journal does not open: {0}")]
    Damaged(Damage),
    /// The directory holds a log, or what is left of one, and no manifest.
    #[error(
        "the data directory has no manifest: restore it; or, if an earlier version of the program wrote the directory, \
         take the log as it is with `enact journal adopt --data DIR`"
    )]
    NoManifest,
    /// An option is out of its range.
    #[error("segment_bytes is {segment_bytes}, it must be between {} and {}", MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES)]
    SegmentBytes {
        /// The value given.
        segment_bytes: u32,
    },
    /// The operating system failed.
    #[error("cannot open the journal, {file}: {why}")]
    Io {
        /// The file.
        file: String,
        /// What the operating system said.
        why: String,
    },
}

const MIN_SEGMENT_BYTES: u32 = 4 << 10;
const MAX_SEGMENT_BYTES: u32 = 256 << 20;

impl OpenError {
    fn io(file: &str, error: &io::Error) -> Self {
        Self::Io { file: file.to_owned(), why: error.to_string() }
    }
}

// The messages say all that these causes say, so they are not sources as well.
impl From<DirectoryError> for OpenError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<Damage> for OpenError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<LockError> for OpenError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::InUse { holder } => Self::InUse { holder },
            LockError::Io(error) => Self::io("lock", &error),
        }
    }
}

impl Embedded {
    /// Opens the journal in `directory`, or begins one there; the directory is made if there is none.
    ///
    /// A group of records that a crash has torn is cut off with a warning: nobody was told that it is durable. The bytes
    /// are kept in a file beside the segment.
    ///
    /// # Errors
    /// When the directory is unsuitable or in use, when the log is damaged or has no manifest, or as the operating system
    /// reports. Damage is named with its place, and the log is left as it is.
    ///
    /// # Blocking
    /// Reads the log behind its last checkpoint, which is all of it as long as it is short, to see that it is what was written.
    /// The segments before are read in the background, with rests. If one of them is damaged, the journal
    /// [fails](Journal::failed), and the next start says where; no record of it is ever given out.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(OsDisk::at(directory)?), options)
    }

    /// Opens the journal on `disk` without the classes of which `is_over` holds, as if they had been
    /// [forgotten](Journal::forget) right after.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Blocking
    /// As [`open`](Self::open).
    pub fn open_without(
        disk: Arc<dyn Disk>,
        options: Options,
        is_over: impl Fn(&str) -> bool + Send,
    ) -> Result<Self, OpenError> {
        Self::start(disk, options, None, Classes::new(is_over))
    }

    /// As [`open_without`](Self::open_without), and has `attester` sign what is written: when a segment is sealed, when the journal is closed, and
    /// after [`Options::attest_after`]. [`verify_attested`] holds the log against that.
    ///
    /// Appends never wait for it. What cannot be attested is logged, and the journal goes on.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Blocking
    /// As [`open`](Self::open).
    pub fn open_attested(
        disk: Arc<dyn Disk>,
        options: Options,
        attester: Attester,
        is_over: impl Fn(&str) -> bool + Send,
    ) -> Result<Self, OpenError> {
        Self::start(disk, options, Some(attester), Classes::new(is_over))
    }

    /// Opens the journal on `disk`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<Self, OpenError> {
        Self::start(disk, options, None, Classes::default())
    }

    fn start(
        disk: Arc<dyn Disk>,
        options: Options,
        attester: Option<Attester>,
        tips: Tips<'_>,
    ) -> Result<Self, OpenError> {
        let Options { segment_bytes, queue_bytes, mark_lag, checkpoint_bytes, discard_after, attest_after } = options;
        if !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&segment_bytes) {
            return Err(OpenError::SegmentBytes { segment_bytes });
        }
        let lock = disk.lock()?;
        let recovered = recover::recover(Arc::clone(&disk), segment_bytes, tips)?;
        let (log, segment_count) = (recovered.tail.log, recovered.catalog.segment_count());
        let commits = Commits::new(recovered.tips, recovered.catalog, recovered.last, queue_bytes);
        let store = Arc::new(Store { disk, log, commits });
        let snapshots = Arc::new(Snapshots::new(Arc::clone(&store)));
        let attestations = attester.map(|attester| Arc::new(Attestations::new(Arc::clone(&store.disk), log, attester)));
        let failed = |error: io::Error| OpenError::io("thread", &error);
        let readers = Workers::start("enact-journal-read", READER_COUNT).map_err(failed)?;
        let saver = Workers::start("enact-journal-save", 1).map_err(failed)?;
        let seals = recovered.tail.seals.clone();
        let watch = Watch::new(Arc::clone(&store.disk), segment_count).map_err(|error| OpenError::io(".", &error))?;
        let watch = Arc::new(watch);
        let upkeep = Upkeep::start(
            Arc::clone(&store),
            Arc::clone(&watch),
            attestations.clone(),
            seals,
            recovered.checkpoint,
            checkpoint_bytes,
        );
        let upkeep = upkeep.map_err(failed)?;
        let discards = upkeep.discards(discard_after, &store.commits);
        let tail = recovered.tail;
        let attesting = attestations.map(|attestations| Attesting::start(attestations, attest_after)).transpose();
        let writer = Writer::new(
            Arc::clone(&store),
            Arc::clone(&snapshots),
            tail,
            lock,
            mark_lag,
            segment_count,
            Arc::clone(&watch),
            upkeep,
            attesting.map_err(failed)?,
        )
        .map_err(|error| OpenError::io(".", &error))?;
        let name = "enact-journal-write".to_owned();
        let writer = thread::Builder::new().name(name).spawn(move || writer.run()).map_err(failed)?;
        Ok(Self { store, snapshots, readers, saver, discards, watch, writer: Some(writer) })
    }

    /// How many entities of `class` have records; none of a class that is [forgotten](Journal::forget).
    pub fn count(&self, class: &str) -> usize {
        self.store.commits.count(class)
    }

    /// Runs `read` on a reader thread.
    fn read_with<T, R>(&self, read: R) -> impl Future<Output = Result<T, ReadError>> + Send + 'static + use<T, R>
    where
        T: Send + 'static,
        R: FnOnce(&Store) -> Result<T, ReadError> + Send + 'static,
    {
        let (reply, awaited) = reply();
        let store = Arc::clone(&self.store);
        self.readers.run(move || reply.answer(read(&store)));
        async { awaited.await.unwrap_or_else(|| Err(ReadError::Io { file: ".".to_owned(), why: PANICKED.to_owned() })) }
    }
}

impl Journal for Embedded {
    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<> {
        let submitted = self.store.commits.submit(&batch);
        async {
            let in_doubt = || Err(AppendError::InDoubt { why: PANICKED.to_owned() });
            submitted?.await.unwrap_or_else(in_doubt)
        }
    }

    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        let has_more = self.store.commits.last(entity).map_or(true, |(last, _)| last > after);
        let entity = entity.clone();
        let reading = has_more.then(|| self.read_with(move |store| store.read(&entity, after)));
        async {
            match reading {
                Some(reading) => reading.await,
                None => Ok(Vec::new()),
            }
        }
    }

    fn load(&self, entity: &EntityKey) -> impl Future<Output = Result<Loaded, ReadError>> + Send {
        let has_records = self.store.commits.last(entity).map_or(true, |(last, _)| last > Seq::NONE);
        let loading = has_records.then(|| {
            let (entity, snapshots) = (entity.clone(), Arc::clone(&self.snapshots));
            self.read_with(move |store| {
                store.commits.last(&entity)?;
                let snapshot = snapshots.load(&entity)?;
                let covered = snapshot.as_ref().map_or(Seq::NONE, |snapshot| snapshot.seq);
                Ok(Loaded { records: store.read(&entity, covered)?, snapshot })
            })
        });
        async {
            match loading {
                Some(loading) => loading.await,
                None => Ok(Loaded::default()),
            }
        }
    }

    fn last(&self, entity: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<> {
        ready(self.store.commits.last(entity).map(|(seq, _)| seq))
    }

    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        self.read_with(move |store| store.feed(after, limit))
    }

    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<> {
        let submitted = self.submit_snapshot(snapshot);
        async {
            let lost = || Err(SnapshotError::Unavailable { why: PANICKED.to_owned() });
            submitted?.await.unwrap_or_else(lost)
        }
    }

    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<> {
        let has_records = self.store.commits.last(entity).map_or(true, |(last, _)| last > Seq::NONE);
        let entity = entity.clone();
        let snapshots = Arc::clone(&self.snapshots);
        let loading = has_records.then(|| {
            self.read_with(move |store| {
                store.commits.last(&entity)?;
                snapshots.load(&entity)
            })
        });
        async {
            match loading {
                Some(loading) => loading.await,
                None => Ok(None),
            }
        }
    }

    fn limits(&self) -> Limits {
        Limits::LOCAL
    }

    fn volume(&self) -> Volume {
        let Sizes { bytes, free_bytes } = self.watch.sizes();
        Volume { last: Some(self.store.commits.durable()), bytes: Some(bytes), free_bytes }
    }

    fn failed(&self) -> impl Future<Output = Option<String>> + Send + 'static + use<> {
        self.store.commits.failed()
    }

    fn forget(&self, is_over: impl Fn(&str) -> bool) {
        let commits = &self.store.commits;
        commits.forget(&is_over);
        self.discards.allow(commits, is_over);
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        let closed = self.store.commits.begin_close();
        async { closed.await.unwrap_or_else(|| Err(CloseError::Poisoned { why: PANICKED.to_owned() })) }
    }
}

impl Embedded {
    fn submit_snapshot(&self, snapshot: Snapshot) -> Result<Awaited<Result<(), SnapshotError>>, SnapshotError> {
        Limits::LOCAL.check_snapshot(&snapshot)?;
        let Snapshot { entity, seq, .. } = &snapshot;
        let Ok((last, _)) = self.store.commits.last(entity) else { return Err(SnapshotError::Closed) };
        if *seq > last {
            return Err(SnapshotError::Ahead { entity: entity.clone(), seq: *seq, last });
        }
        let (reply, awaited) = reply();
        self.snapshots.submit(snapshot, reply);
        let snapshots = Arc::clone(&self.snapshots);
        self.saver.run(move || snapshots.save_pending());
        Ok(awaited)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.store.commits.begin_close());
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(PANICKED);
        }
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("disk", &self.store.disk).finish_non_exhaustive()
    }
}
