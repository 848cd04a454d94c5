//! The journal of an engine: in a directory, over NATS, or over PostgreSQL.

use std::sync::Arc;

use enact_journal::disk::Disk;
use enact_journal::nats::Nats;
use enact_journal::postgres::Postgres;
use enact_journal::{
    AppendError, CloseError, Embedded, EntityKey, Journal, Limits, Loaded, NewRecord, Options, Position, ReadError,
    Record, Seq, Snapshot, SnapshotError,
};
use futures_util::future::Either;

use super::EngineError;
use crate::served::Over;

/// The journal of an engine.
pub(crate) enum Store {
    Embedded(Embedded),
    Nats(Nats),
    Postgres(Postgres),
}

impl Store {
    /// A journal on `disk`.
    pub(crate) fn on(disk: Arc<dyn Disk>) -> Result<Self, EngineError> {
        let opened = Embedded::open_on(disk, Options::default());
        opened.map(Self::Embedded).map_err(|cause| EngineError::Journal(cause.to_string()))
    }

    /// A journal of servers.
    pub(crate) async fn over(options: Over) -> Result<Self, EngineError> {
        match options {
            Over::Nats(options) => {
                Nats::open(options).await.map(Self::Nats).map_err(|cause| EngineError::Journal(cause.to_string()))
            }
            Over::Postgres(options) => {
                let opened = Postgres::open(options).await;
                opened.map(Self::Postgres).map_err(|cause| EngineError::Journal(cause.to_string()))
            }
        }
    }
}

/// What one of the journals does.
macro_rules! either {
    ($store:expr, $journal:ident => $does:expr) => {
        match $store {
            Store::Embedded($journal) => Either::Left($does),
            Store::Nats($journal) => Either::Right(Either::Left($does)),
            Store::Postgres($journal) => Either::Right(Either::Right($does)),
        }
    };
}

impl Journal for Store {
    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<> {
        either!(self, journal => journal.append(batch))
    }

    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        either!(self, journal => journal.read(entity, after))
    }

    fn load(&self, entity: &EntityKey) -> impl Future<Output = Result<Loaded, ReadError>> + Send {
        either!(self, journal => journal.load(entity))
    }

    fn last(&self, entity: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<> {
        either!(self, journal => journal.last(entity))
    }

    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        either!(self, journal => journal.feed(after, limit))
    }

    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<> {
        either!(self, journal => journal.save_snapshot(snapshot))
    }

    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<> {
        either!(self, journal => journal.load_snapshot(entity))
    }

    fn limits(&self) -> Limits {
        match self {
            Self::Embedded(journal) => journal.limits(),
            Self::Nats(journal) => journal.limits(),
            Self::Postgres(journal) => journal.limits(),
        }
    }

    fn failed(&self) -> impl Future<Output = Option<String>> + Send + 'static + use<> {
        either!(self, journal => journal.failed())
    }

    fn forget(&self, is_over: impl Fn(&str) -> bool) {
        match self {
            Self::Embedded(journal) => journal.forget(is_over),
            Self::Nats(journal) => journal.forget(is_over),
            Self::Postgres(journal) => journal.forget(is_over),
        }
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        either!(self, journal => journal.close())
    }
}
