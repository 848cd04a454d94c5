//! What has the entities of a model: one engine, or many on several machines.
use std::sync::Arc;
use std::time::Duration;

use enact_journal::{EntityKey, Journal};

use super::{Command, DiskState, Engine, EraseError, Metrics, News, ReadError, Receipt, SubmitError, Vault};
use crate::admission::Strategies;
use crate::changes::{ChangesOf, Cursor};
use crate::model::Model;
use crate::participant::{HistoryOf, HistoryPart, ReadMode, View};
use crate::record::Erasure;
use crate::tx::{Timestamp, TxId};

/// All entities of a model, wherever they are: what an interface to them asks.
///
/// An [`Engine`] has them all in one process. Cheap to clone; all clones are one.
pub trait Entities: Clone + Send + Sync + 'static {
    /// The contract of the entities.
    type Model: Model;

    /// The contract of the entities.
    fn model(&self) -> &Self::Model;

    /// The strategies of admission.
    fn strategies(&self) -> &Strategies;

    /// Makes the event of `command` happen, with everything it calls, or nothing of it; see [`Engine::submit`].
    ///
    /// # Errors
    /// See [`SubmitError`] on what each one says about the effect.
    ///
    /// # Cancel safety
    /// The command takes its course even if the future is dropped.
    fn submit(
        &self,
        command: Command<<Self::Model as Model>::Event>,
    ) -> impl Future<Output = Result<Receipt, SubmitError>> + Send;

    /// Reads the entity `key`; see [`Engine::read`].
    ///
    /// # Errors
    /// See [`ReadError`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on anything else.
    fn read(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> impl Future<Output = Result<View<<Self::Model as Model>::State>, ReadError>> + Send;

    /// Reads what has happened to the entity `key`; see [`Engine::history`].
    ///
    /// # Errors
    /// See [`ReadError`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on anything else.
    fn history(
        &self,
        key: &EntityKey,
        part: HistoryPart,
        deadline: Duration,
    ) -> impl Future<Output = Result<HistoryOf<Self::Model>, ReadError>> + Send;

    /// How many shards there are, counted from 0, each with changes of its own.
    fn shards(&self) -> u16 {
        1
    }

    /// Reads changes of the entities of a shard behind `after`; see [`Engine::changes`].
    ///
    /// # Errors
    /// See [`ReadError`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    fn changes(
        &self,
        shard: u16,
        after: Cursor,
        limit: usize,
        deadline: Duration,
    ) -> impl Future<Output = Result<ChangesOf<Self::Model>, ReadError>> + Send;

    /// Tells when to look for changes again; see [`Engine::news`]. Nothing if entities are elsewhere, too, whose changes are not announced
    /// here: a follower looks time and again.
    fn news(&self) -> Option<News> {
        None
    }

    /// What seals and opens personal values, if there are keys for them; see [`Engine::keep_personal`].
    fn vault(&self) -> Option<&Vault> {
        None
    }

    /// Erases the personal values of `subject`; see [`Engine::erase`].
    ///
    /// # Errors
    /// See [`EraseError`] on what each one says about the effect.
    ///
    /// # Cancel safety
    /// It takes its course even if the future is dropped.
    fn erase(&self, subject: &EntityKey, by: Option<&str>) -> impl Future<Output = Result<Erasure, EraseError>> + Send {
        let _ = (subject, by);
        std::future::ready(Err(EraseError::NoKeys))
    }

    /// The time that a command would have now.
    fn time(&self) -> Timestamp;

    /// What has been counted here since the start.
    fn metrics(&self) -> Metrics;

    /// Why nothing is taken any more, if it is so.
    fn failure(&self) -> Option<String>;

    /// The state of the disk on which records are kept.
    fn disk(&self) -> DiskState;

    /// What the node is to others, if there are any.
    fn membership(&self) -> Option<Membership> {
        None
    }
}

/// A node among those that share the entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Its name.
    pub node: Arc<str>,
    /// How it stands to the others.
    pub standing: Standing,
    /// The shards that it serves, in order.
    pub shards: Vec<u16>,
    /// What it has counted.
    pub counts: NodeCounts,
}

/// How a node stands to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They count on it: it holds its lease, and serves its part.
    Joined,
    /// It has lost its lease: others may serve its part. It tries to join again.
    Apart,
    /// It has another contract than the entities are served under, and waits until all nodes of that one have stopped.
    Waiting,
}

/// What a node has counted since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Commands and reads that it has sent to another node.
    pub forwarded: u64,
    /// Shards that it has begun to serve.
    pub opened: u64,
    /// Shards that another writer has taken from it, or whose journal has failed.
    pub given_up: u64,
    /// Leases that it has lost.
    pub leases_lost: u64,
}

impl<M: Model, J: Journal> Entities for Engine<M, J> {
    type Model = M;

    fn model(&self) -> &M {
        self.model()
    }

    fn strategies(&self) -> &Strategies {
        self.strategies()
    }

    fn submit(&self, command: Command<M::Event>) -> impl Future<Output = Result<Receipt, SubmitError>> + Send {
        self.submit(command)
    }

    fn read(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> impl Future<Output = Result<View<M::State>, ReadError>> + Send {
        self.read(key, mode, after, deadline)
    }

    fn history(
        &self,
        key: &EntityKey,
        part: HistoryPart,
        deadline: Duration,
    ) -> impl Future<Output = Result<HistoryOf<M>, ReadError>> + Send {
        self.history(key, part, deadline)
    }

    fn changes(
        &self,
        _shard: u16,
        after: Cursor,
        limit: usize,
        deadline: Duration,
    ) -> impl Future<Output = Result<ChangesOf<M>, ReadError>> + Send {
        self.changes(after, limit, deadline)
    }

    fn news(&self) -> Option<News> {
        Some(self.news())
    }

    fn vault(&self) -> Option<&Vault> {
        self.vault()
    }

    fn erase(&self, subject: &EntityKey, by: Option<&str>) -> impl Future<Output = Result<Erasure, EraseError>> + Send {
        self.erase(subject, by)
    }

    fn time(&self) -> Timestamp {
        self.time()
    }

    fn metrics(&self) -> Metrics {
        self.metrics()
    }

    fn failure(&self) -> Option<String> {
        self.failure()
    }

    fn disk(&self) -> DiskState {
        self.disk()
    }
}
