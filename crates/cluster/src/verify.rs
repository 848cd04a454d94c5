//! Reads all records of a shard, beside the node that serves it.

use std::collections::HashMap;

use enact_journal::nats::{Nats, OpenError, Options as JournalOptions};
use enact_journal::{EntityKey, Journal, Position, ReadError, Seq};

const PAGE: usize = 1000;

/// What a shard has, all of which can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many entities have records.
    pub entities: usize,
    /// How many records there are.
    pub records: u64,
}

/// What is wrong with the records of a shard, or why they cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The journal cannot be looked at, or messages are missing from its stream.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record is damaged, or cannot be read for the moment.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A record of an entity does not follow the one before it.
    #[error("record {found} of {entity} stands where record {expected} should be")]
    Chain {
        /// The entity.
        entity: EntityKey,
        /// The record that should follow.
        expected: Seq,
        /// The record that does.
        found: Seq,
    },
}

impl VerifyError {
    /// Whether records are damaged or missing; otherwise they could not be read for the moment.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Open(cause) => matches!(cause, OpenError::Holes { .. } | OpenError::Owners { .. }),
            Self::Read(cause) => matches!(cause, ReadError::Damaged(_)),
            Self::Chain { .. } => true,
        }
    }
}

/// Reads every record that `shard` has at this moment: each has its checksum, positions have no gap, and each entity's records follow each
/// other. Changes nothing, and does not disturb the node that serves the shard. Takes memory for each entity.
///
/// # Errors
/// When something is wrong, the first of it; or when records cannot be read.
///
/// # Panics
/// Outside of a tokio runtime with timers and network.
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn verify(servers: &str, shard: u16) -> Result<Verified, VerifyError> {
    let journal = Nats::look(JournalOptions { shard, ..JournalOptions::at(servers) }).await?;
    let mut lasts: HashMap<EntityKey, Seq> = HashMap::new();
    let mut position = Position::START;
    loop {
        let page = journal.feed(position, PAGE).await?;
        let Some(end) = page.last() else { break };
        position = end.position;
        for record in page {
            let expected = lasts.get(&record.entity).copied().unwrap_or(Seq::NONE).next();
            if record.seq != expected {
                return Err(VerifyError::Chain { entity: record.entity, expected, found: record.seq });
            }
            lasts.insert(record.entity, record.seq);
        }
    }
    Ok(Verified { entities: lasts.len(), records: position.0 })
}
