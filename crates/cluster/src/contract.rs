//! What the entities of a shard were written under.

use enact_entities::Model;
use enact_journal::nats::Nats;
use futures_util::future::BoxFuture;

/// Decides under which contract the entities of a shard are served.
pub trait Contract<M: Model>: Send + Sync + 'static {
    /// The model for the engine of the shard whose journal this is; what is in the journal may have been written under an earlier one.
    /// Called whenever the node gets the shard, before anything is served.
    ///
    /// # Errors
    /// When the entities of the shard cannot be served under it, or that cannot be told now.
    fn adopt<'a>(&'a self, shard: u16, journal: &'a Nats) -> BoxFuture<'a, Result<M, NotAdopted>>;
}

/// Why the entities of a shard are not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotAdopted {
    /// What is wrong.
    pub why: String,
    /// Whether it stays so. The node fails then; otherwise it tries again.
    pub is_final: bool,
}
