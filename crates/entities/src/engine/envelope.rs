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
    use std::path::Path;
    use std::sync::Arc;

    use enact_journal_kit::golden;
    use enact_rebel::{EventCall, Source, Value, check};

    use super::*;
    use crate::admission::{Answer, Decision, Prospect, Rejection, Unanswered, Undecided, Wait, Why};
    use crate::message::{Said, Vote};
    use crate::model::{Action, Asked, Call, Condition, Question, Work};
    use crate::participant::Durability;
    use crate::reason::{Reason, Refusal};
    use crate::tx::{Attempt, Slot};

    const SPEC: &str = "
class Account
  balance: Money = EUR 0.00
  initial unopened
    on Pay(amount: Money, to: Account, share: Integer): opened
      post: this.balance += amount
  opened
";

    fn key(id: &str) -> EntityKey {
        EntityKey::new("Account", id).expect("a key")
    }

    fn pay() -> EventCall {
        let spec = Arc::new(check(vec![Source::new("bank.rebel", SPEC)]).expect("it is Rebel"));
        let class = spec.class("Account").expect("declared");
        let to = Value::Reference(class.reference(class.key("b").expect("a name")));
        let amount = Value::Money("EUR 10.00".parse().expect("an amount"));
        let arguments = vec![("amount", amount), ("to", to), ("share", Value::Integer(-3))];
        class.event("Pay").expect("declared").call(arguments).expect("they fit")
    }

    /// The name of a kind of message. A kind that is new has none, and needs a golden message.
    fn name(envelope: &Envelope<EventCall>) -> &'static str {
        match envelope {
            Envelope::Prepare(_) => "prepare",
            Envelope::Decide { decide: Decide { decision: Decision::Commit, .. }, .. } => "decide-commit",
            Envelope::Decide { .. } => "decide-abort",
            Envelope::LetDue { .. } => "let-due",
            Envelope::Due { .. } => "due",
            Envelope::Said { message, unrecorded } => match (&message.said, unrecorded) {
                (Said::Vote(Vote::Yes { .. }), _) => "yes",
                (Said::Vote(Vote::No(_)), _) => "no",
                (Said::Vote(Vote::Unanswered(_)), _) => "unanswered",
                (Said::Vote(Vote::OutOfOrder), _) => "out-of-order",
                (Said::Vote(Vote::Expired(_)), _) => "expired",
                (Said::Vote(Vote::Busy), _) => "busy",
                (Said::Vote(Vote::NotRecorded), Some(Unrecorded::StorageFull { .. })) => "not-recorded-full",
                (Said::Vote(Vote::NotRecorded), Some(Unrecorded::Failed { .. })) => "not-recorded-failed",
                (Said::Vote(Vote::NotRecorded), Some(Unrecorded::Overloaded) | None) => "not-recorded",
                (Said::Ack(_), _) => "ack",
                (Said::Ask(_), _) => "ask",
            },
        }
    }

    fn votes() -> Vec<Vote<EventCall>> {
        let event = |call| Call::event(key("b"), call);
        let answer = Answer {
            calls: vec![vec![event(pay())], vec![]],
            answers: vec![None, Some(Value::Integer(7))],
            state: Some("opened".into()),
            in_line: false,
        };
        let guard = Reason::Guard {
            text: "not enough money".to_owned(),
            values: vec![("balance".to_owned(), "EUR 5.00".to_owned())],
        };
        let refusal = Refusal { entity: key("a"), event: "Pay".to_owned(), reasons: vec![guard], callers: Vec::new() };
        let asked = [Question::Field("balance".to_owned()), Question::Initialized, Question::Possible(pay())]
            .map(|question| Asked { key: key("b"), question, to_change: false });
        let undecided = Undecided::Number {
            name: "balance".to_owned(),
            low: "EUR 0.00".to_owned(),
            high: "EUR 10.00".to_owned(),
            needed: Some("at least EUR 6.00".to_owned()),
        };
        let why =
            Why::Verdict { undecided: vec![undecided], if_committed: Prospect::Passes, if_aborted: Prospect::Fails };
        let (waiting, event) = ("Pay".to_owned(), "Pay".to_owned());
        let wait = Wait { waiting, tx: TxId::from_u128(8), event, others: 1, why };
        vec![
            Vote::Yes { slot: Slot(3), answer, durability: Durability::TwoPhase, early: None },
            Vote::No(Rejection { refusal, before: 1, calls: vec![vec![]], answers: vec![None] }),
            Vote::Unanswered(Unanswered { position: 0, asked: asked.into() }),
            Vote::OutOfOrder,
            Vote::Expired(vec![wait]),
            Vote::Busy,
            Vote::NotRecorded,
        ]
    }

    fn all() -> Vec<Envelope<EventCall>> {
        let (tx, attempt, coordinator) = (TxId::from_u128(7), Attempt::FIRST.next_round(), key("c"));
        let decide = |slot, decision| {
            let (coordinator, durability) = (coordinator.clone(), Durability::TwoPhase);
            let decide = Decide { tx, attempt, coordinator, slot, decision, durability };
            Envelope::Decide { to: key("a"), decide }
        };
        let said = |said, unrecorded| {
            let message = ToCoordinator { to: coordinator.clone(), from: key("a"), tx, attempt, said };
            Envelope::Said { message, unrecorded }
        };
        let actions = [
            Action::Event(pay()),
            Action::Condition(Condition::in_state(["opened"], "it is open")),
            Action::Ask(Question::InState(vec!["opened".to_owned()])),
        ];
        let branch = Branch { tx, attempt, work: Work::of(actions), at: Timestamp(-5) };
        let preparation = Preparation {
            to: key("a"),
            coordinator: coordinator.clone(),
            branch,
            left_ms: u64::MAX,
            ordered: true,
            sole: false,
            certain: true,
            calls_known: true,
            version: 2,
        };
        let (full, failed) = ("it is".to_owned(), "it cannot be read".to_owned());
        let mut all = vec![
            Envelope::Prepare(preparation),
            decide(Some(Slot(3)), Decision::Commit),
            decide(None, Decision::Abort),
            Envelope::LetDue { entity: key("a"), by: Timestamp(9), left_ms: 5, coordinator: coordinator.clone(), tx },
            Envelope::Due { coordinator: coordinator.clone(), tx, has_happened: true },
            said(Said::Ack(Slot(3)), None),
            said(Said::Ask(Slot(3)), None),
            said(Said::Vote(Vote::NotRecorded), Some(Unrecorded::StorageFull { why: full })),
            said(Said::Vote(Vote::NotRecorded), Some(Unrecorded::Failed { why: failed })),
        ];
        all.extend(votes().into_iter().map(|vote| {
            let unrecorded = (vote == Vote::NotRecorded).then_some(Unrecorded::Overloaded);
            said(Said::Vote(vote), unrecorded)
        }));
        all
    }

    #[test]
    fn a_message_is_read_as_it_was_written_and_never_in_part() {
        for envelope in all() {
            let bytes = envelope.encode();
            assert_eq!(Envelope::decode(&bytes).as_ref(), Ok(&envelope));
            for end in 0..bytes.len() {
                assert!(Envelope::<EventCall>::decode(&bytes[..end]).is_err(), "{end} bytes of {envelope:?}");
            }
        }
    }

    #[test]
    fn a_message_of_another_version_is_refused_with_the_number_of_that() {
        for envelope in all() {
            let bytes = envelope.encode();
            let version = bytes[0] + 1;
            let later = [&[version], &bytes[1..]].concat();
            let refused = Envelope::<EventCall>::decode(&later);
            assert_eq!(refused, Err(MessageError(DecodeError::Version { version })), "{envelope:?}");
        }
    }

    /// See docs/compatibility.md for what has to be done when this fails.
    #[test]
    fn golden_messages_of_every_release_are_read() {
        let messages: Vec<golden::Named> = all().iter().map(|message| (name(message), message.encode())).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        golden::check(&folder, env!("CARGO_PKG_VERSION"), &messages, |kind, bytes| {
            let read = Envelope::<EventCall>::decode(bytes).map_err(|cause| cause.to_string())?;
            if name(&read) == kind { Ok(()) } else { Err(format!("it is read as {}", name(&read))) }
        });
    }
}
