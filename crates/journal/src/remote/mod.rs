//! What journals at the other end of a network have in common: who may append, in which order, and what becomes of it.
//!
//! `queue` takes appends, `writer` makes groups of them and has one on its way at a time, and a [`Log`](writer::Log) says how one is
//! sent and where entities end. `fingerprints` keep which entities there are, `groups` makes whole groups of pages,
//! `numbering` gives those of another log their places. What is asked, and how an answer is judged, differs.

mod builder;
mod fingerprints;
mod groups;
mod numbering;
mod queue;
mod verified;
mod writer;

use std::future::{Future, ready};
use std::sync::Arc;

use futures_util::future::Either;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

pub use self::builder::RemoteBuilder;
pub(crate) use self::fingerprints::Fingerprints;
pub(crate) use self::groups::{Page, whole_groups};
pub use self::numbering::GroupError;
pub(crate) use self::numbering::Numbering;
#[cfg(feature = "postgres")]
pub(crate) use self::numbering::parts;
pub(crate) use self::queue::Queue;
pub(crate) use self::verified::Chains;
pub use self::verified::Verified;
use self::writer::Writer;
pub(crate) use self::writer::{Fate, Group, Log, Place};
use crate::journal::{AppendError, CloseError, Limits, ReadError, SnapshotError};
use crate::record::{NewRecord, Position, Snapshot};

const GONE: &str = "the runtime of the journal has ended";

/// A journal that is open: what is appended goes to its queue, and what is read is asked by `R`, in the runtime in which it was opened.
///
/// Dropping it writes what was submitted, in the background, as long as its runtime runs.
pub(crate) struct Remote<R> {
    runtime: Handle,
    queue: Arc<Queue>,
    reader: Arc<R>,
    /// What is done as long as the journal is open.
    beside: Option<AbortHandle>,
}

impl<R: Send + Sync + 'static> Remote<R> {
    /// A journal that `log` writes to while `beside` runs.
    pub(crate) fn written<L: Log>(
        queue: Queue,
        reader: Arc<R>,
        log: L,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (runtime, queue) = (Handle::current(), Arc::new(queue));
        let beside = runtime.spawn(beside).abort_handle();
        runtime.spawn(Writer::new(Arc::clone(&queue), log).run());
        Self { runtime, queue, reader, beside: Some(beside) }
    }

    /// A journal that is only read.
    pub(crate) fn read_only(limits: Limits, reader: Arc<R>) -> Self {
        let queue = Arc::new(Queue::reading(limits));
        Self { runtime: Handle::current(), queue, reader, beside: None }
    }

    pub(crate) fn reader(&self) -> &R {
        &self.reader
    }

    pub(crate) fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<R> {
        let submitted = self.queue.submit(batch);
        async {
            let in_doubt = || Err(AppendError::InDoubt { why: GONE.to_owned() });
            submitted?.await.unwrap_or_else(in_doubt)
        }
    }

    /// Runs `read` in the runtime of the journal.
    pub(crate) fn read_with<T, F, Q>(
        &self,
        read: Q,
    ) -> impl Future<Output = Result<T, ReadError>> + Send + 'static + use<T, F, Q, R>
    where
        T: Send + 'static,
        Q: FnOnce(Arc<R>) -> F,
        F: Future<Output = Result<T, ReadError>> + Send + 'static,
    {
        if !self.queue.is_readable() {
            return Either::Left(ready(Err(ReadError::Closed)));
        }
        let reading = self.runtime.spawn(read(Arc::clone(&self.reader)));
        Either::Right(async { reading.await.unwrap_or_else(|_| Err(ReadError::Unavailable { why: GONE.to_owned() })) })
    }

    /// Runs `save` in the runtime of the journal, unless `snapshot` is more than one may be.
    pub(crate) fn save_with<F, S>(
        &self,
        snapshot: Snapshot,
        save: S,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<F, S, R>
    where
        S: FnOnce(Arc<R>, Snapshot) -> F,
        F: Future<Output = Result<(), SnapshotError>> + Send + 'static,
    {
        let submitted = if self.queue.keeps_snapshots() {
            let checked = self.queue.limits().check_snapshot(&snapshot);
            checked.map(|()| self.runtime.spawn(save(Arc::clone(&self.reader), snapshot)))
        } else {
            Err(SnapshotError::Closed)
        };
        async {
            let gone = |_| Err(SnapshotError::Unavailable { why: GONE.to_owned() });
            submitted?.await.unwrap_or_else(gone)
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.queue.limits()
    }

    pub(crate) fn failed(&self) -> impl Future<Output = Option<String>> + Send + 'static + use<R> {
        self.queue.failed()
    }

    pub(crate) fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<R> {
        self.beside.iter().for_each(AbortHandle::abort);
        let closed = self.queue.begin_close();
        async { closed.await.unwrap_or_else(|| Err(CloseError::Poisoned { why: GONE.to_owned() })) }
    }
}

impl<R> Drop for Remote<R> {
    fn drop(&mut self) {
        self.beside.iter().for_each(AbortHandle::abort);
        drop(self.queue.begin_close());
    }
}
