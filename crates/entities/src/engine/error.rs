//! What a request to the engine can end in, other than success.
use std::time::Duration;

use enact_journal::{EntityKey, ReadError as JournalReadError, Seq};

use crate::admission::Wait;
use crate::participant::RecoveryError;
use crate::reason::Refusal;
use crate::record::DecodeError;
use crate::tx::TxId;

/// Why a command did not commit, or is not known to have.
///
/// *Refused*, *not now* and *in doubt* are different things: only after [`InDoubt`](Self::InDoubt) may the command have
/// had an effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A precondition failed: the answer is final for this state of affairs.
    #[error("{refusal}")]
    Refused {
        /// What failed.
        refusal: Refusal,
        /// Whether this is the answer to an earlier command with the same idempotency key.
        replayed: bool,
    },
    /// The deadline passed while the transaction waited for others. It has no effect.
    #[error("{tx} waited until its deadline for {}", Waits(waits_for))]
    Timeout {
        /// The transaction.
        tx: TxId,
        /// What it waited for.
        waits_for: Vec<Wait>,
    },
    /// Too much is under way. The command has no effect; send it again later.
    #[error("overloaded; try again in {} ms", retry_after.as_millis())]
    Overloaded {
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The journal has no space left. The command has no effect; send it again when there is space.
    #[error("the disk of the journal is full, nothing was recorded: {why}")]
    StorageFull {
        /// What the journal said.
        why: String,
    },
    /// Whether it committed will be known only after the journal has been recovered. Send it again under the same
    /// idempotency key then.
    #[error("{tx} is in doubt until the journal has been recovered")]
    InDoubt {
        /// The transaction.
        tx: TxId,
    },
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The request with this idempotency key has not been answered yet.
    #[error("the request with this idempotency key is still being processed")]
    KeyInUse,
    /// The engine is shutting down.
    #[error("the engine is stopping")]
    Stopping,
    /// The engine has failed and must be opened again.
    #[error("the engine has failed: {why}")]
    Failed {
        /// What happened.
        why: String,
    },
    /// An entity cannot be used.
    #[error(transparent)]
    Entity(#[from] EntityError),
}

/// Why a read gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The deadline passed while the read waited for transactions to be decided.
    #[error("the read waited until its deadline for {}", Waits(waits_for))]
    Timeout {
        /// What it waited for.
        waits_for: Vec<Wait>,
    },
    /// The engine is shutting down.
    #[error("the engine is stopping")]
    Stopping,
    /// The engine has failed and must be opened again.
    #[error("the engine has failed: {why}")]
    Failed {
        /// What happened.
        why: String,
    },
    /// The entity cannot be used.
    #[error(transparent)]
    Entity(#[from] EntityError),
}

/// Why an entity cannot be used. What was refused for it has had no effect.
///
/// It stays so as long as the entity is in memory, unless the error [is transient](Self::is_transient).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntityError {
    /// Its records, or those of an idempotency key, could not be read.
    #[error("{0}")]
    Journal(#[from] JournalReadError),
    /// A record is not what this program writes.
    #[error("{entity}: record {seq} of the journal: {cause}")]
    Undecodable {
        /// The entity.
        entity: EntityKey,
        /// The record.
        seq: Seq,
        /// What is wrong with it.
        cause: DecodeError,
    },
    /// A record is not one that belongs under this key.
    #[error("{entity}: record {seq} of the journal does not belong there")]
    Misplaced {
        /// Under which key it is.
        entity: EntityKey,
        /// The record.
        seq: Seq,
    },
    /// Its records contradict its contract.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// Its actor has ended, which no input can cause.
    #[error("{entity} has ended: {why}")]
    Ended {
        /// The entity.
        entity: EntityKey,
        /// Why.
        why: String,
    },
}

impl EntityError {
    /// Whether the same request may succeed later: the system could not read, and the next request reads again.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Journal(JournalReadError::Io { .. }))
    }

    pub(super) fn undecodable(entity: &EntityKey, seq: Seq, cause: DecodeError) -> Self {
        Self::Undecodable { entity: entity.clone(), seq, cause }
    }
}

struct Waits<'a>(&'a [Wait]);

impl std::fmt::Display for Waits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("its turn");
        }
        for (i, wait) in self.0.iter().enumerate() {
            write!(f, "{}{wait}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
