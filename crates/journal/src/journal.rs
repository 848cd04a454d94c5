//! The journal's contract.
//!
//! # Three results
//! An append is durable (`Ok`), [refused](AppendError::Refused) (certainly without effect, now and after any crash) or
//! [in doubt](AppendError::InDoubt) (it may be there or not; reopening the journal decides, once and for all). A
//! journal that has answered "in doubt" refuses further appends until it is reopened, so that nothing is ever built on
//! an unknown. A journal at the other end of a network finds the fate of an append out by itself, however long that
//! takes, and answers "in doubt" only when it is closed or dropped before it has.
//!
//! # Order
//! Appends take effect in the order of the calls. Several may be under way; each is checked against those before it,
//! as if they had succeeded. If one of them turns out refused (a full disk), those waiting behind it are refused too.
//!
//! # One writer
//! Where several may have a journal open, one of them writes: that which has opened it last. What an earlier one appends
//! from then on is [refused](Refusal::Fenced), also what was on its way, and everything that it was told to be durable
//! stands before what the new one appends.
//!
//! # Atomicity
//! All records of a batch become durable, or none, whatever crashes. No read ever shows part of a batch that is not
//! durable.

use std::future::Future;

use crate::damage::Damage;
use crate::record::{EntityKey, NewRecord, Position, Record, Seq, Snapshot};

/// What a journal takes at most.
///
/// The bytes of a record are those of its key and of its payload. All limits are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all records of a batch together.
    pub batch_bytes: usize,
    /// Records of a batch.
    pub batch_records: usize,
    /// Bytes of one record; also those of the payload of a snapshot.
    pub record_bytes: usize,
}

impl Limits {
    /// Those of a journal that is bound by nothing but memory and its disk.
    pub(crate) const LOCAL: Self = Self { batch_bytes: 16 << 20, batch_records: usize::MAX, record_bytes: 16 << 20 };

    /// The bytes of `batch`.
    ///
    /// # Errors
    /// When it is more than a batch may be, in records or bytes, or one of its records is more than a record may be.
    pub(crate) fn check(&self, batch: &[NewRecord]) -> Result<usize, Refusal> {
        let (records, limit) = (batch.len(), self.batch_records);
        if records > limit {
            return Err(Refusal::TooMany { records, limit });
        }
        let bytes = batch.iter().map(NewRecord::bytes).sum();
        if bytes > self.batch_bytes {
            return Err(Refusal::TooLarge { bytes, limit: self.batch_bytes });
        }
        match batch.iter().find(|record| record.bytes() > self.record_bytes) {
            Some(record) => Err(Refusal::RecordTooLarge {
                entity: record.entity.clone(),
                bytes: record.bytes(),
                limit: self.record_bytes,
            }),
            None => Ok(bytes),
        }
    }

    /// # Errors
    /// When `snapshot` is more than one may be.
    pub(crate) fn check_snapshot(&self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let (bytes, limit) = (snapshot.payload.len(), self.record_bytes);
        if bytes > limit { Err(SnapshotError::TooLarge { bytes, limit }) } else { Ok(()) }
    }
}

/// How much a journal holds, as far as it knows that without asking anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// The position of the last durable record.
    pub last: Option<Position>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// Bytes that its file system has left for this process.
    pub free_bytes: Option<u64>,
}

/// All that a journal has of one entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The newest snapshot that is to be had.
    pub snapshot: Option<Snapshot>,
    /// The durable records after it, in order, all of them.
    pub records: Vec<Record>,
}

impl Loaded {
    /// The last durable record, or [`Seq::NONE`].
    pub fn last(&self) -> Seq {
        let covered = self.snapshot.as_ref().map_or(Seq::NONE, |snapshot| snapshot.seq);
        self.records.last().map_or(covered, |record| record.seq)
    }
}

/// Durable, ordered records of entities, appended by compare-and-append.
///
/// Its contract is a set of tests for any implementation, in `testing/journal` of the repository.
///
/// ```
/// use enact_journal::{EntityKey, Journal, Kind, Memory, NewRecord, Position, Seq};
/// # fn block_on<F: Future>(future: F) -> F::Output { enact_journal_kit::contract::block_on(future) }
/// # block_on(async {
/// let journal = Memory::new();
/// let account = EntityKey::new("Account", "NL01")?;
/// let opened = NewRecord { entity: account.clone(), expected: Seq::NONE, kind: Kind(1), payload: b"open".to_vec() };
/// assert_eq!(journal.append(vec![opened.clone()]).await?, Position(1));
///
/// // Another owner that believes the account to be new is fenced off.
/// assert!(journal.append(vec![opened]).await.is_err());
/// assert_eq!(journal.read(&account, Seq::NONE).await?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait Journal: Send + Sync + 'static {
    /// Appends `batch` atomically; its position is that of the last record of the batch.
    ///
    /// Each record must follow `expected` within its entity; several records of one entity in one batch follow each
    /// other. An empty batch is a barrier: it becomes durable when all appends before it are, and its position is the
    /// last one in the journal at that point.
    ///
    /// # Cancel safety
    /// The append is submitted by the call, not by polling. Dropping the future does not take it back.
    ///
    /// # Errors
    /// [`AppendError::Refused`] or [`AppendError::InDoubt`]; see the module on the difference.
    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<Self>;

    /// The durable records of `entity` after `after`, in order, all of them; those before a [tombstone](crate::Kind::TOMBSTONE) may be
    /// left out.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// When the journal is closed, damaged, or cannot be read. A result is complete or it is an error.
    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<Self>;

    /// The newest snapshot of `entity` with all durable records after it, as [`load_snapshot`](Self::load_snapshot) and
    /// [`read`](Self::read) have them.
    ///
    /// A journal at the other end of a network answers in one round trip. The default asks for one after the other.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// As [`load_snapshot`](Self::load_snapshot) and [`read`](Self::read).
    fn load(&self, entity: &EntityKey) -> impl Future<Output = Result<Loaded, ReadError>> + Send {
        async move {
            let snapshot = self.load_snapshot(entity).await?;
            let covered = snapshot.as_ref().map_or(Seq::NONE, |snapshot| snapshot.seq);
            Ok(Loaded { records: self.read(entity, covered).await?, snapshot })
        }
    }

    /// The last durable record of `entity`, or [`Seq::NONE`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// When the journal is closed or cannot be read.
    fn last(&self, entity: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<Self>;

    /// Durable records of all entities after `after`, in order of their positions, at most `limit`. What was
    /// [discarded](Self::forget) is left out, and all that a [tombstone](crate::Kind::TOMBSTONE) stands for may be.
    ///
    /// Fewer may be returned to bound memory; an empty result (with `limit` above zero) means that nothing durable
    /// follows yet.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// When the journal is closed, damaged, or cannot be read. No position of a record that is there is ever skipped.
    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<Self>;

    /// Keeps `snapshot` for its entity, unless a newer one is there.
    ///
    /// A snapshot can be rebuilt from the records: losing one costs time, never data.
    ///
    /// # Cancel safety
    /// The save is submitted by the call. Dropping the future does not take it back.
    ///
    /// # Errors
    /// See [`SnapshotError`]; the snapshot that was there stays.
    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<Self>;

    /// The newest snapshot of `entity` that is to be had.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// When the journal is closed, or when the snapshot includes records that the journal does not have, which means
    /// that the journal has lost records.
    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<Self>;

    /// What it takes at most; the same for as long as it is open.
    fn limits(&self) -> Limits;

    /// How much it holds. The default knows nothing.
    ///
    /// Waits for no disk and no network: sizes of files may be as old as the journal's last look at them.
    fn volume(&self) -> Volume {
        Volume::default()
    }

    /// Waits until the journal has failed and takes no appends any more; the reason, or `None` once it is closed.
    ///
    /// A journal also fails without being used: when its files vanish, for example. The default waits for ever, for a
    /// journal that fails only while it is used.
    fn failed(&self) -> impl Future<Output = Option<String>> + Send + 'static + use<Self> {
        std::future::pending()
    }

    /// Looks whether the journal is still kept as it has to be, so that nothing that is acknowledged gets lost. Changes nothing.
    ///
    /// The default finds nothing, for a journal that nobody else can change.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// See [`CheckError`].
    fn check(&self) -> impl Future<Output = Result<(), CheckError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Lets the journal forget the entities of all classes of which `is_over` holds, so that they need no memory any more.
    ///
    /// A forgotten entity has no records to [`read`](Self::read), and no further ones are taken. Its records may be discarded
    /// later, as long as it is said again that the class is over, so that they take no space. As long as none of the class was, they stay in the [`feed`](Self::feed) and come back when
    /// the journal is opened again. A class with appends under way is not forgotten yet. A journal need not forget anything, which is
    /// the default.
    fn forget(&self, is_over: impl Fn(&str) -> bool) {
        let _ = is_over;
    }

    /// Makes durable what was submitted, then refuses everything: appends, reads and snapshots.
    ///
    /// Closing again is allowed and reports the same result.
    ///
    /// # Cancel safety
    /// Closing begins with the call. Dropping the future does not stop it.
    ///
    /// # Errors
    /// When the journal had been poisoned or its last write failed; each append has had its own answer.
    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<Self>;
}

/// Why an append is not known to be durable.
///
/// Exhaustive on purpose: there is no fourth result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Certainly no effect.
    #[error("append refused: {0}")]
    Refused(#[from] Refusal),
    /// It may be durable or not; the journal refuses further appends until it is reopened, which settles it.
    #[error("append in doubt, reopen the journal to learn its fate: {why}")]
    InDoubt {
        /// What happened.
        why: String,
    },
}

/// Why an append certainly had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The entity's last record, counting appends under way, is not the expected one: somebody else has appended.
    #[error("{entity} is at record {actual}, not at the expected {expected}")]
    Conflict {
        /// The entity.
        entity: EntityKey,
        /// What the append expected.
        expected: Seq,
        /// What is there.
        actual: Seq,
    },
    /// Another writer has taken the journal over. The batch has no effect, now and for ever, and neither has any other
    /// that this writer would append.
    #[error("the journal was taken over by {by} in epoch {epoch}, this writer appends nothing any more")]
    Fenced {
        /// The reign of the new writer: later ones have larger numbers.
        epoch: u64,
        /// The name under which the new writer has taken it over.
        by: String,
    },
    /// The batch has more records than a batch may have.
    #[error("the batch has {records} records, at most {limit} are allowed: split it")]
    TooMany {
        /// Its records.
        records: usize,
        /// The limit.
        limit: usize,
    },
    /// A record is larger than a record may be.
    #[error("a record of {entity} has {bytes} bytes, at most {limit} are allowed")]
    RecordTooLarge {
        /// The entity.
        entity: EntityKey,
        /// The size of the record.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The batch is larger than a batch may be.
    #[error("the batch has {bytes} bytes, at most {limit} are allowed: split it")]
    TooLarge {
        /// The size of the batch.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Too much is under way already; try again when some of it has been answered.
    #[error("{queued} bytes are waiting to be written and {bytes} more exceed the limit of {limit}: try again later")]
    Overloaded {
        /// Bytes under way.
        queued: usize,
        /// The size of the batch.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The disk is full; appends are accepted again when there is space.
    #[error("the disk is full: {why}")]
    StorageFull {
        /// What the disk said.
        why: String,
    },
    /// The class of the entity has been [forgotten](Journal::forget).
    #[error("{entity} is of a class that was forgotten, nothing is appended to it any more")]
    Forgotten {
        /// The entity.
        entity: EntityKey,
    },
    /// The entity has a [tombstone](crate::Kind::TOMBSTONE).
    #[error("{entity} has a tombstone, nothing is appended to it any more")]
    Ended {
        /// The entity.
        entity: EntityKey,
    },
    /// The journal is closed.
    #[error("the journal is closed")]
    Closed,
    /// An earlier write failed or is in doubt; the journal must be reopened.
    #[error("the journal takes no appends until it is reopened: {why}")]
    Poisoned {
        /// The failure.
        why: String,
    },
}

/// Why records or a snapshot could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The journal is closed.
    #[error("the journal is closed")]
    Closed,
    /// Bytes on the disk are not what was written; nothing is skipped to get past them.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The journal cannot be reached, or cannot answer for the moment; the same read may succeed later.
    #[error("the journal cannot be read for the moment: {why}")]
    Unavailable {
        /// What happened.
        why: String,
    },
    /// The operating system could not read.
    #[error("cannot read {file}: {why}")]
    Io {
        /// The file.
        file: String,
        /// What the operating system said.
        why: String,
    },
}

/// What a [look](Journal::check) at a journal has found.
///
/// Exhaustive on purpose: there is no third result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// What is acknowledged may get lost, or some of it is.
    #[error("the journal is not safe: {why}")]
    Unsafe {
        /// What is wrong, and what to do.
        why: String,
    },
    /// Nothing is known for the moment.
    #[error("the journal cannot be checked for the moment: {why}")]
    Unavailable {
        /// What happened.
        why: String,
    },
}

/// Why a snapshot was not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The snapshot includes records that are not durable.
    #[error("the snapshot of {entity} includes record {seq}, durable is {last}")]
    Ahead {
        /// The entity.
        entity: EntityKey,
        /// The last record in the snapshot.
        seq: Seq,
        /// The last durable record.
        last: Seq,
    },
    /// The snapshot is larger than [one may be](Limits::record_bytes).
    #[error("the snapshot has {bytes} bytes, at most {limit} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The journal is closed.
    #[error("the journal is closed")]
    Closed,
    /// The store of snapshots failed; records are not touched by that.
    #[error("cannot keep the snapshot: {why}")]
    Unavailable {
        /// What happened.
        why: String,
    },
}

/// Why a journal did not close cleanly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// A write failed earlier or while closing.
    #[error("the journal was closed after a failure: {why}")]
    Poisoned {
        /// The failure.
        why: String,
    },
}
