//! Why the records of a shard are not sound.

use enact_journal::ReadError;
pub use enact_journal::Verified;

use crate::journals::OpenError;

/// What is wrong with the records of a shard, or why they cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The journal cannot be looked at, or some of it is missing.
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
            Self::Open(cause) => cause.is_damage(),
            Self::Read(cause) => matches!(cause, ReadError::Damaged(_)),
        }
    }
}
