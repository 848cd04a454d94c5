//! Reads all records of a shard, beside the node that serves it.

use enact_journal::ReadError;
pub use enact_journal::Verified;
use enact_journal::nats::{Nats, OpenError, Options as JournalOptions, Servers};

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
}

impl VerifyError {
    /// Whether records are damaged or missing; otherwise they could not be read for the moment.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Open(cause) => matches!(cause, OpenError::Holes { .. } | OpenError::Owners { .. }),
            Self::Read(cause) => matches!(cause, ReadError::Damaged(_)),
        }
    }
}

/// Reads every record that `shard` has at this moment: each has its checksum, messages have no gap, and each entity's records follow each
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
pub async fn verify(servers: &Servers, shard: u16) -> Result<Verified, VerifyError> {
    let journal = Nats::look(JournalOptions { shard, ..JournalOptions::at(servers.clone()) }).await?;
    Ok(journal.verify().await?)
}
