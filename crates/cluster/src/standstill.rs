//! No node serves anything while something is done to all shards.

use std::sync::Arc;

use enact_journal::nats::Servers;
use tokio::task::AbortHandle;

use crate::JoinError;
use crate::bucket::{Bucket, Wrote};
use crate::connect::connect;
use crate::journal::ShardJournal;
use crate::journals::{Journals, OpenError, ShardJournals};
use crate::lease::{Held, LEASE_MIN};
use crate::node::incarnation;
use crate::settings::settings;
use crate::view::{Lease, Revised, SETTINGS, Settings};

/// The name under which it has a lease, and the contract that is proposed meanwhile: no node has either.
const NAME: &str = "=standstill";

/// Keeps nodes from serving. If it ends without [`end`](Self::end) or [`cancel`](Self::cancel), nodes serve again when its lease is over.
pub struct Standstill {
    journals: ShardJournals,
    bucket: Bucket,
    lease: Arc<Held>,
    keeping: AbortHandle,
    before: Settings,
    /// Of the settings that are in force meanwhile.
    revision: u64,
}

impl std::fmt::Debug for Standstill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standstill").field("before", &self.before).finish_non_exhaustive()
    }
}

impl Standstill {
    /// Begins, if no node is alive.
    ///
    /// # Errors
    /// When a node is alive, no server can be reached, no node has ever joined there, or the journals are elsewhere.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and network.
    ///
    /// # Cancel safety
    /// It may have begun, and ends when its lease is over.
    pub async fn begin(servers: &Servers, journals: &Journals) -> Result<Self, JoinError> {
        let client = connect(servers, "enact standstill").await?;
        let bucket = Bucket::existing(&client).await?;
        let Revised { value: before, revision } = settings(&bucket).await?;
        let journals = journals.of_node(NAME).agreed(servers, &before).await?;
        let lease = Lease {
            incarnation: incarnation(),
            address: "a change of all shards".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            contract: NAME.to_owned(),
            is_leaving: true,
            is_cut_off: false,
        };
        let lease = Held::take(bucket.clone(), NAME, lease, LEASE_MIN).await?;
        let kept = Arc::clone(&lease);
        let keeping = tokio::spawn(async move { kept.keep().await }).abort_handle();
        // An earlier one may have ended without a word.
        let before = Settings { proposed: None, ..before };
        let held = Settings { proposed: Some(NAME.to_owned()), ..before.clone() };
        let mut standstill = Self { journals, bucket, lease, keeping, before, revision };
        standstill.write(&held).await?;
        // Nodes that join from now on see it.
        let view = standstill.bucket.look().await.map_err(JoinError::unreachable)?;
        let nodes: Vec<String> =
            view.nodes().map(|(node, _)| node).filter(|node| *node != NAME).map(str::to_owned).collect();
        if nodes.is_empty() {
            return Ok(standstill);
        }
        standstill.cancel().await;
        Err(JoinError::Alive { nodes })
    }

    /// How many shards there are.
    pub fn shards(&self) -> u16 {
        self.before.shards
    }

    /// Opens the journal of a shard, and takes it over from who has it.
    ///
    /// # Errors
    /// When no server can be reached, or one is not what it has to be.
    ///
    /// # Cancel safety
    /// The journal may have been taken over.
    pub async fn open(&self, shard: u16) -> Result<ShardJournal, OpenError> {
        self.journals.open(shard, NAME, 1).await
    }

    /// The journals of the shards.
    pub fn journals(&self) -> &ShardJournals {
        &self.journals
    }

    /// Ends, with `contract` as that of all from now on.
    ///
    /// # Errors
    /// When the settings cannot be written, or a node has ended this meanwhile: then the contract is the one before, and nodes with that
    /// one adopt it again.
    ///
    /// # Cancel safety
    /// The contract may have been replaced.
    pub async fn end(mut self, contract: String) -> Result<(), JoinError> {
        let after = Settings { contract, proposed: None, refused: None, ..self.before.clone() };
        let ended = self.write(&after).await;
        self.lease.give_up().await;
        ended
    }

    /// Ends, with everything as it was.
    ///
    /// # Cancel safety
    /// Nodes may serve only when its lease is over.
    pub async fn cancel(mut self) {
        let before = self.before.clone();
        if let Err(cause) = self.write(&before).await {
            tracing::warn!(%cause, "nodes serve again when a lease is over");
        }
        self.lease.give_up().await;
    }

    async fn write(&mut self, settings: &Settings) -> Result<(), JoinError> {
        match self.bucket.write(SETTINGS, settings, self.revision, None).await {
            Wrote::Yes(revision) => {
                self.revision = revision;
                Ok(())
            }
            Wrote::Conflict => Err(JoinError::unreachable("the settings were changed meanwhile")),
            Wrote::Unknown => Err(JoinError::unreachable("the settings were not stored")),
        }
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}
