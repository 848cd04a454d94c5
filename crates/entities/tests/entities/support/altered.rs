//! A journal that has less to say than there is.

use std::future::{Future, pending};

use enact_journal::{
    AppendError, CloseError, EntityKey, Journal, Limits, Memory, NewRecord, Position, ReadError, Record, Seq, Snapshot,
    SnapshotError, Volume,
};

/// The journal of one process, with less to say.
pub(crate) struct Altered {
    journal: Memory,
    has_ends: bool,
    /// Records behind it are discarded.
    discarded: Position,
}

impl Altered {
    /// It never says where the records of an entity end.
    pub(crate) fn without_ends(journal: Memory) -> Self {
        Self { journal, has_ends: false, discarded: Position(u64::MAX) }
    }

    /// The records behind `last` are discarded, at the end as elsewhere.
    pub(crate) fn without_records_behind(journal: Memory, last: Position) -> Self {
        Self { journal, has_ends: true, discarded: last }
    }
}

impl Journal for Altered {
    fn last(&self, entity: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<> {
        let (asking, has_ends) = (self.journal.last(entity), self.has_ends);
        async move { if has_ends { asking.await } else { pending().await } }
    }

    fn volume(&self) -> Volume {
        self.journal.volume()
    }

    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<> {
        self.journal.append(batch)
    }

    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        self.journal.read(entity, after)
    }

    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        let (reading, discarded) = (self.journal.feed(after, limit), self.discarded);
        async move { Ok(reading.await?.into_iter().filter(|record| record.position <= discarded).collect()) }
    }

    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<> {
        self.journal.save_snapshot(snapshot)
    }

    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<> {
        self.journal.load_snapshot(entity)
    }

    fn limits(&self) -> Limits {
        self.journal.limits()
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        self.journal.close()
    }
}
