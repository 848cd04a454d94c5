//! What all nodes have in common, read by those that are none.

use enact_journal::nats::Servers;

use crate::JoinError;
use crate::bucket::Bucket;
use crate::connect::connect;
use crate::journals::{Journals, ShardJournals};
use crate::view::{Revised, SETTINGS, Settings};

/// What all nodes have in common.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// How many shards there are.
    pub shards: u16,
    /// What tells the contract that the entities are served under from others.
    pub contract: String,
    /// The journals of the shards.
    pub journals: ShardJournals,
}

/// What the nodes whose servers these are have in common, if the journals of the shards are where they are expected.
///
/// # Errors
/// When no server can be reached, no node has ever joined there, the journals are elsewhere, or the shards are being restored.
///
/// # Panics
/// Outside of a tokio runtime with timers and network.
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn agreed(servers: &Servers, journals: &Journals) -> Result<Agreed, JoinError> {
    let client = connect(servers, "enact shards").await?;
    let settings = settings(&Bucket::existing(&client).await?).await?.value;
    let journals = journals.agreed(servers, &settings).await?;
    let Settings { shards, contract, .. } = settings;
    Ok(Agreed { shards, contract, journals })
}

/// The settings, as the first node has written them.
pub(crate) async fn settings(bucket: &Bucket) -> Result<Revised<Settings>, JoinError> {
    find(bucket).await?.ok_or_else(|| JoinError::unreachable("no node has joined there"))
}

/// The settings, if a node has written some; fails if the shards are being restored.
pub(crate) async fn find(bucket: &Bucket) -> Result<Option<Revised<Settings>>, JoinError> {
    let found = bucket.read::<Settings>(SETTINGS).await.map_err(JoinError::unreachable)?;
    match found {
        Some(Revised { value: Settings { shards, is_restoring: true, .. }, .. }) => {
            Err(JoinError::Restoring { shards })
        }
        found => Ok(found),
    }
}
