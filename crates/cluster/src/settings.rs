//! What all nodes have in common, read by those that are none.

use enact_journal::nats::Servers;

use crate::JoinError;
use crate::bucket::Bucket;
use crate::connect::connect;
use crate::view::{Revised, SETTINGS, Settings};

/// What all nodes have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// How many shards there are.
    pub shards: u16,
    /// What tells the contract that the entities are served under from others.
    pub contract: String,
}

/// What the nodes whose servers these are have in common.
///
/// # Errors
/// When no server can be reached, no node has ever joined there, or the shards are being restored.
///
/// # Panics
/// Outside of a tokio runtime with timers and network.
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn agreed(servers: &Servers) -> Result<Agreed, JoinError> {
    let client = connect(servers, "enact shards").await?;
    let Settings { shards, contract, .. } = settings(&Bucket::existing(&client).await?).await?.value;
    Ok(Agreed { shards, contract })
}

/// How many shards the nodes whose servers these are have.
///
/// # Errors
/// As [`agreed`].
///
/// # Panics
/// As [`agreed`].
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn shards(servers: &Servers) -> Result<u16, JoinError> {
    Ok(agreed(servers).await?.shards)
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
