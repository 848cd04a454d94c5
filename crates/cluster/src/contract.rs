//! What the entities of a shard were written under.

use enact_entities::Model;
use futures_util::future::BoxFuture;

use crate::ShardJournal;

/// The contract of a node: decides whether the entities of a shard can be served under it.
pub trait Contract<M: Model>: Send + Sync + 'static {
    /// Finds out what the contract means for the shard whose journal this is; what is in the journal may have been written under an earlier one.
    /// Writes nothing. Called whenever the node gets the shard, before anything is served.
    ///
    /// # Errors
    /// When the entities of the shard cannot be served under it, or that cannot be told now.
    fn examine<'a>(
        &'a self,
        shard: u16,
        journal: &'a ShardJournal,
    ) -> BoxFuture<'a, Result<Box<dyn Adoption<M>>, NotAdopted>>;
}

/// A contract that a shard allows.
pub trait Adoption<M: Model>: Send {
    /// The model for the engine of the shard, after what has to be written was written to its journal, in which nothing has changed since.
    /// Called when all shards allow the contract.
    ///
    /// # Errors
    /// When the journal cannot be written.
    fn adopt(self: Box<Self>, journal: &ShardJournal) -> BoxFuture<'_, Result<M, NotAdopted>>;
}

/// Why the entities of a shard are not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotAdopted {
    /// What is wrong.
    pub why: String,
    /// Whether it stays so. The contract is not adopted then; otherwise the node tries again.
    pub is_final: bool,
}
