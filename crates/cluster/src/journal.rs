//! The journal of one shard, wherever it is.

use enact_journal::nats::Nats;
#[cfg(feature = "postgres")]
use enact_journal::postgres::Postgres;
use enact_journal::{
    AppendError, CheckError, CloseError, EntityKey, Group, Journal, Limits, Loaded, NewRecord, Position, ReadError,
    Record, Seq, Snapshot, SnapshotError, Verified, Volume,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// The journal of a shard.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShardJournal {
    /// In streams of NATS.
    Streams(Nats),
    /// In tables of `PostgreSQL`.
    #[cfg(feature = "postgres")]
    Tables(Postgres),
}

/// What the journal does, whichever it is.
macro_rules! either {
    ($shard:expr, $journal:ident => $does:expr) => {
        match $shard {
            ShardJournal::Streams($journal) => $does,
            #[cfg(feature = "postgres")]
            ShardJournal::Tables($journal) => $does,
        }
    };
}

impl ShardJournal {
    /// The reign of this writer, larger than those of all before it; of one that only looks, what it looks at.
    pub(crate) fn epoch(&self) -> u64 {
        either!(self, journal => journal.epoch())
    }

    /// Whole groups of records after `after`, which is the end of one: at least one group if something follows that was durable when the
    /// journal was opened. A group is what became durable together: one batch, or several.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// As [`feed`](Journal::feed).
    pub fn groups(&self, after: Position) -> BoxFuture<'static, Result<Vec<Group>, ReadError>> {
        either!(self, journal => journal.groups(after).boxed())
    }

    /// Reads every record that was durable when the journal was opened.
    pub(crate) fn verify(&self) -> BoxFuture<'static, Result<Verified, ReadError>> {
        either!(self, journal => journal.verify().boxed())
    }
}

impl Journal for ShardJournal {
    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<> {
        either!(self, journal => journal.append(batch).boxed())
    }

    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        either!(self, journal => journal.read(entity, after).boxed())
    }

    async fn load(&self, entity: &EntityKey) -> Result<Loaded, ReadError> {
        either!(self, journal => journal.load(entity).await)
    }

    fn last(&self, entity: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<> {
        either!(self, journal => journal.last(entity).boxed())
    }

    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        either!(self, journal => journal.feed(after, limit).boxed())
    }

    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<> {
        either!(self, journal => journal.save_snapshot(snapshot).boxed())
    }

    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<> {
        either!(self, journal => journal.load_snapshot(entity).boxed())
    }

    fn limits(&self) -> Limits {
        either!(self, journal => journal.limits())
    }

    fn volume(&self) -> Volume {
        either!(self, journal => journal.volume())
    }

    fn failed(&self) -> impl Future<Output = Option<String>> + Send + 'static + use<> {
        either!(self, journal => journal.failed().boxed())
    }

    async fn check(&self) -> Result<(), CheckError> {
        either!(self, journal => journal.check().await)
    }

    fn forget(&self, is_over: impl Fn(&str) -> bool) {
        either!(self, journal => journal.forget(is_over));
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        either!(self, journal => journal.close().boxed())
    }
}
