//! All shards are filled anew: no node serves any of them before they are whole.
//!
//! What all nodes have in common, the *settings*, has a mark from before the first shard is filled until after the last one is. The
//! settings are written only in place of the revision that was read, so either a first node writes them or a restoration does, and the other one
//! sees that. A restoration that is killed leaves the mark, and nothing takes it away but an operator: a second restoration cannot tell whether the first
//! one still runs.

use enact_journal::nats::Servers;
use tokio::time::{Instant, sleep};

use crate::JoinError;
use crate::bucket::{Bucket, Wrote};
use crate::cluster::{JOIN_MAX, PAUSE};
use crate::connect::connect;
use crate::journals::{Journals, ShardJournals};
use crate::settings::find;
use crate::shard::SHARDS_MAX;
use crate::view::{SETTINGS, Settings};

/// The contract of all meanwhile: no node has it.
const NAME: &str = "=restoration";

/// Keeps nodes from serving shards that are being filled.
pub struct Restoration {
    bucket: Bucket,
    /// Of the settings that are in force meanwhile.
    revision: u64,
    shards: u16,
    journals: ShardJournals,
    database: Option<String>,
}

impl std::fmt::Debug for Restoration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restoration").field("shards", &self.shards).finish_non_exhaustive()
    }
}

impl Restoration {
    /// Begins to fill so many shards, if no node has ever joined there and no shard has a journal. Leases and claims, which the servers may
    /// keep already, are kept by so many `replicas` of them.
    ///
    /// # Errors
    /// When a node has joined, there is a journal, another restoration was begun, there are too many shards, or no server can be reached.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and network.
    ///
    /// # Cancel safety
    /// It may have begun; then the settings have to be removed by hand.
    pub async fn begin(
        servers: &Servers,
        journals: &Journals,
        shards: u16,
        replicas: usize,
    ) -> Result<Self, JoinError> {
        if !(1..=SHARDS_MAX).contains(&shards) {
            return Err(JoinError::Shards { shards });
        }
        let client = connect(servers, "enact restoration").await?;
        let bucket = Bucket::open(&client, replicas).await?;
        // Before the settings are read, so that those of a node are not overwritten.
        let revision = bucket.revision(SETTINGS).await.map_err(JoinError::unreachable)?;
        if let Some(found) = find(&bucket).await? {
            return Err(JoinError::Filled { what: format!("nodes with {} shards", found.value.shards) });
        }
        for shard in 0..=shards {
            if journals.has(&bucket, shard).await? {
                return Err(JoinError::Filled { what: format!("journals such as that of shard {shard}") });
            }
        }
        let database = journals.identify().await?;
        let held = settings(shards, NAME.to_owned(), database.clone(), true);
        let journals = journals.agreed(servers, &held).await?;
        let revision = write(&bucket, &held, revision).await?;
        Ok(Self { bucket, revision, shards, journals, database })
    }

    /// The journals of the shards, which are to be filled.
    pub fn journals(&self) -> &ShardJournals {
        &self.journals
    }

    /// Lets nodes serve the shards, which are whole: those with this `contract`.
    ///
    /// # Errors
    /// When the settings cannot be written, or somebody else has written them. Whether nodes serve the shards is not known then.
    ///
    /// # Cancel safety
    /// The restoration may have ended.
    pub async fn finish(self, contract: String) -> Result<(), JoinError> {
        let settings = settings(self.shards, contract, self.database, false);
        write(&self.bucket, &settings, self.revision).await.map(drop)
    }

    /// Ends it, when none of the shards is there. Returns whether the mark is gone for certain.
    ///
    /// # Cancel safety
    /// The mark may be left.
    pub async fn abandon(self) -> bool {
        self.bucket.remove(SETTINGS, self.revision).await
    }
}

fn settings(shards: u16, contract: String, database: Option<String>, is_restoring: bool) -> Settings {
    Settings { shards, contract, proposed: None, refused: None, database, is_restoring }
}

/// Writes the settings in place of those with the revision `expected`; the new revision.
async fn write(bucket: &Bucket, settings: &Settings, expected: u64) -> Result<u64, JoinError> {
    let deadline = Instant::now() + JOIN_MAX;
    loop {
        match bucket.write(SETTINGS, settings, expected, None).await {
            Wrote::Yes(revision) => return Ok(revision),
            Wrote::Conflict | Wrote::Unknown => {}
        }
        // An earlier try may have come through.
        match bucket.read::<Settings>(SETTINGS).await {
            Ok(Some(found)) if found.value == *settings => return Ok(found.revision),
            Ok(Some(found)) if found.revision != expected => {
                return Err(JoinError::unreachable("somebody else has written the settings"));
            }
            _ if Instant::now() > deadline => return Err(JoinError::unreachable("the settings were not stored")),
            _ => sleep(PAUSE).await,
        }
    }
}
