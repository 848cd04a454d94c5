//! An operator moves a shard: a *pin* says which node should own it, as long as that one is alive.

use std::time::Duration;

use enact_journal::nats::Servers;
use tokio::time::{Instant, sleep};

use crate::JoinError;
use crate::bucket::{Bucket, Wrote};
use crate::connect::connect;
use crate::settings::settings;
use crate::view::{Claim, PIN, Pin, SHARD, View};

const PAUSE: Duration = Duration::from_millis(100);

/// Why a shard is not where it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// No server can be reached, or no node has ever joined there.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// There is no such shard.
    #[error("there is no shard {shard}: they are 0 to {last}")]
    NoShard {
        /// The number that was asked for.
        shard: u16,
        /// The last one.
        last: u16,
    },
    /// No node of this name should own shards: none is alive, or it gives its shards away, or waits with another contract.
    #[error("no node {node} is there to serve shards: `enact cluster status` shows those that are")]
    NoNode {
        /// The name.
        node: String,
    },
    /// The shard was not served there in time. It will be, as soon as that is possible.
    #[error("shard {shard} is not served by {node} yet: {hint}")]
    Late {
        /// The shard.
        shard: u16,
        /// The node that should serve it.
        node: String,
        /// What may keep it from that.
        hint: &'static str,
    },
}

impl From<String> for MoveError {
    fn from(why: String) -> Self {
        Self::Join(JoinError::unreachable(why))
    }
}

/// Lets `node` own `shard`, and waits until it serves it; without a node, the one that should own it if nobody had moved it. The shard stays
/// there until it is moved again; while the node is not alive, or gives its shards away, it is owned by another one.
///
/// The present owner hands the shard over. With `force` it is not waited for, which is for a node that is alive and does not answer: what it has under
/// way is in doubt then, and what it is asked to read may be out of date until it sees that it has lost the shard. It writes nothing any
/// more once the other node has it.
///
/// Returns the name of the node.
///
/// # Errors
/// When there is no such shard or node, no server can be reached, or it takes longer than `patience`: then the shard may still move.
///
/// # Panics
/// Outside of a tokio runtime with timers and network.
///
/// # Cancel safety
/// The shard may move.
pub async fn move_shard(
    servers: &Servers,
    shard: u16,
    node: Option<&str>,
    force: bool,
    patience: Duration,
) -> Result<String, MoveError> {
    let client = connect(servers, "enact cluster").await?;
    let bucket = Bucket::existing(&client).await?;
    let deadline = Instant::now() + patience;
    let settings = settings(&bucket).await?.value;
    if shard >= settings.shards {
        return Err(MoveError::NoShard { shard, last: settings.shards - 1 });
    }
    if let Some(node) = node
        && !bucket.look().await?.owners().contains(&node)
    {
        return Err(MoveError::NoNode { node: node.to_owned() });
    }
    let pinned = pin(&bucket, shard, node, deadline).await?;
    let mut is_forced = !force;
    loop {
        let view = bucket.look().await?;
        let owner = view.placement(settings.shards).get(usize::from(shard)).map(|node| (*node).to_owned());
        let holder = view.holder(shard);
        // A server that is behind shows who should have had the shard before.
        let is_shown = view.has_pin(shard, pinned);
        if is_shown
            && let (Some(owner), Some(holder)) = (&owner, holder)
            && holder.node == *owner
            && holder.epoch.is_some()
        {
            return Ok(owner.clone());
        }
        if let Some(owner) = owner.as_deref().filter(|_| is_shown && !is_forced) {
            is_forced = give(&bucket, &view, shard, owner).await;
        }
        if Instant::now() > deadline {
            let hint = if force {
                "look at its log"
            } else {
                "the present owner may not answer; `--force` does not wait for it"
            };
            return Err(MoveError::Late { shard, node: owner.unwrap_or_default(), hint });
        }
        sleep(PAUSE).await;
    }
}

/// Says which node should own the shard, or that nobody says so any more. Returns the revision of that.
async fn pin(bucket: &Bucket, shard: u16, node: Option<&str>, deadline: Instant) -> Result<u64, String> {
    let key = format!("{PIN}{shard}");
    let pin = Pin { node: node.unwrap_or_default().to_owned() };
    while Instant::now() < deadline {
        let revision = bucket.revision(&key).await?;
        if let Wrote::Yes(revision) = bucket.write(&key, &pin, revision, None).await {
            return Ok(revision);
        }
    }
    Err("nothing can be written there".to_owned())
}

/// Gives the claim to the shard to `owner` in the name of the one that has it. Returns whether `owner` has it.
async fn give(bucket: &Bucket, view: &View, shard: u16, owner: &str) -> bool {
    let Some(incarnation) = view.lease(owner).map(|lease| lease.value.incarnation) else { return false };
    if view.holder(shard).is_some_and(|holder| holder.node == owner) {
        return true;
    }
    let claim = Claim { node: owner.to_owned(), incarnation, epoch: None };
    let revision = view.claim(shard).map_or(0, |claim| claim.revision);
    matches!(bucket.write(&format!("{SHARD}{shard}"), &claim, revision, None).await, Wrote::Yes(_))
}
