//! The messages between engines as bytes.
//!
//! They are encoded as records are. A moment of a monotonic clock means nothing elsewhere, so a deadline travels as the time that is left.
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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
    /// Tells a coordinator what a participant says.
    Said(ToCoordinator<E>),
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
        let decide =
            Decide { tx, attempt, coordinator: coordinator.clone(), slot: Some(Slot(3)), decision: Decision::Commit };
        let answer = Answer { calls: vec![vec![]], answers: vec![None], state: Some("opened".into()), in_line: false };
        let vote = Vote::Yes { slot: Slot(3), answer, durability: Durability::TwoPhase, early: None };
        let said = [Said::Vote(vote), Said::Vote(Vote::Expired(Vec::new())), Said::Ack(Slot(3)), Said::Ask(Slot(3))];
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
        all.extend(
            said.map(|said| {
                Envelope::Said(ToCoordinator { to: coordinator.clone(), from: key("a"), tx, attempt, said })
            }),
        );
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
