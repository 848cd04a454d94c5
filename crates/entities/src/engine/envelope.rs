//! The messages between engines as bytes.
//!
//! They are encoded as records are. A moment of a monotonic clock means nothing elsewhere, so a deadline travels as the time that is left.
use enact_journal::{AppendError, Refusal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::committer::CommitError;
use super::error::{EntityError, SubmitError};
use super::transaction::RETRY_AFTER;
use crate::EntityKey;
use crate::admission::Branch;
use crate::message::{Decide, ToCoordinator};
use crate::record::{self, DecodeError};
use crate::tx::{Timestamp, TxId};

/// Why a message had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of another engine cannot be read: {0}")]
pub struct MessageError(#[from] DecodeError);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Envelope<E> {
    /// Asks a participant for a vote.
    Prepare(Preparation<E>),
    /// Tells a participant the decision.
    Decide { to: EntityKey, decide: Decide },
    /// Tells a coordinator what a participant says; of a promise that is not recorded, why.
    Said { message: ToCoordinator<E>, unrecorded: Option<Unrecorded> },
    /// Asks for what is due at an entity to happen.
    LetDue { entity: EntityKey, by: Timestamp, left_ms: u64, coordinator: EntityKey, tx: TxId },
    /// Tells a coordinator whether it has.
    Due { coordinator: EntityKey, tx: TxId, has_happened: bool },
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Preparation<E> {
    pub(super) to: EntityKey,
    pub(super) coordinator: EntityKey,
    pub(super) branch: Branch<E>,
    /// The time that is left until the deadline, in milliseconds.
    pub(super) left_ms: u64,
    pub(super) ordered: bool,
    pub(super) sole: bool,
    pub(super) certain: bool,
    pub(super) calls_known: bool,
    /// The version of the contract that the coordinator has.
    pub(super) version: u32,
}

/// Why an entity has recorded no promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unrecorded {
    /// For the moment.
    Overloaded,
    /// The disk of its journal is full.
    StorageFull { why: String },
    /// It cannot be read, or contradicts its contract.
    Failed { why: String },
}

impl From<&CommitError> for Unrecorded {
    fn from(cause: &CommitError) -> Self {
        match cause {
            CommitError::Append(AppendError::Refused(Refusal::StorageFull { why })) => {
                Self::StorageFull { why: why.clone() }
            }
            CommitError::Append(AppendError::Refused(
                Refusal::TooLarge { .. } | Refusal::TooMany { .. } | Refusal::RecordTooLarge { .. },
            )) => Self::Failed { why: cause.to_string() },
            _ => Self::Overloaded,
        }
    }
}

impl From<&EntityError> for Unrecorded {
    fn from(cause: &EntityError) -> Self {
        if cause.is_transient() { Self::Overloaded } else { Self::Failed { why: cause.to_string() } }
    }
}

impl Unrecorded {
    /// What the client is told, if the entity is of `engine`.
    pub(super) fn at(self, engine: &str) -> SubmitError {
        let of_engine = |why| format!("engine {engine}: {why}");
        match self {
            Self::Overloaded => SubmitError::Overloaded { retry_after: RETRY_AFTER },
            Self::StorageFull { why } => SubmitError::StorageFull { why: of_engine(why) },
            Self::Failed { why } => SubmitError::Failed { why: of_engine(why) },
        }
    }
}

impl<E: Serialize + DeserializeOwned> Envelope<E> {
    pub(super) fn encode(&self) -> Vec<u8> {
        record::encode(self)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        Ok(record::decode(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Answer, Decision};
    use crate::message::{Said, Vote};
    use crate::model::{Action, Work};
    use crate::participant::Durability;
    use crate::tx::{Attempt, Slot};

    #[test]
    fn a_message_is_read_as_it_was_written_and_never_in_part() {
        let key = |id| EntityKey::new("Account", id).expect("a key");
        let (tx, attempt, coordinator) = (TxId::from_u128(7), Attempt::FIRST.next_round(), key("c"));
        let decide = Decide {
            tx,
            attempt,
            coordinator: coordinator.clone(),
            slot: Some(Slot(3)),
            decision: Decision::Commit,
            durability: Durability::TwoPhase,
        };
        let answer = Answer { calls: vec![vec![]], answers: vec![None], state: Some("opened".into()), in_line: false };
        let vote = Vote::Yes { slot: Slot(3), answer, durability: Durability::TwoPhase, early: None };
        let said = [
            Said::Vote(vote),
            Said::Vote(Vote::Expired(Vec::new())),
            Said::Vote(Vote::NotRecorded),
            Said::Ack(Slot(3)),
            Said::Ask(Slot(3)),
        ];
        let preparation = Preparation {
            to: key("a"),
            coordinator: coordinator.clone(),
            branch: Branch { tx, attempt, work: Work::of([Action::Event("Pay".to_owned())]), at: Timestamp(-5) },
            left_ms: u64::MAX,
            ordered: true,
            sole: false,
            certain: true,
            calls_known: true,
            version: 2,
        };
        let mut all = vec![
            Envelope::Prepare(preparation),
            Envelope::Decide { to: key("a"), decide },
            Envelope::LetDue { entity: key("a"), by: Timestamp(9), left_ms: 5, coordinator: coordinator.clone(), tx },
            Envelope::Due { coordinator: coordinator.clone(), tx, has_happened: true },
        ];
        all.extend(said.map(|said| {
            let full = || Unrecorded::StorageFull { why: "it is".to_owned() };
            let unrecorded = (said == Said::Vote(Vote::NotRecorded)).then(full);
            let message = ToCoordinator { to: coordinator.clone(), from: key("a"), tx, attempt, said };
            Envelope::Said { message, unrecorded }
        }));
        for envelope in all {
            let bytes = envelope.encode();
            assert_eq!(Envelope::decode(&bytes).as_ref(), Ok(&envelope));
            let later = [&[bytes[0] + 1], &bytes[1..]].concat();
            assert!(Envelope::<String>::decode(&later).is_err(), "a later version of {envelope:?}");
            for end in 0..bytes.len() {
                assert!(Envelope::<String>::decode(&bytes[..end]).is_err(), "{end} bytes of {envelope:?}");
            }
        }
    }
}
