//! What coordinators and participants say to each other.
//!
//! Messages may be lost, doubled and reordered. What keeps a late one from doing harm: every message has its attempt, and
//! what concerns an admitted transaction has its slot, which an entity gives once. A doubled request that arrives after
//! the transaction has left therefore gets another slot, and the coordinator, which remembers the right one or has
//! forgotten the transaction, has it aborted.

use serde::{Deserialize, Serialize};

use crate::EntityKey;
use crate::admission::{Answer, Decision, EarlyRelease, Rejection, Request, Unanswered, Wait};
use crate::participant::Durability;
use crate::tx::{Attempt, Slot, TxId};

/// From a coordinator to a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToParticipant<E> {
    /// Asks for a vote.
    Prepare(Prepare<E>),
    /// Tells the decision.
    Decide(Decide),
}

/// Asks a participant to vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare<E> {
    /// The coordinator to answer.
    pub coordinator: EntityKey,
    /// How a yes is kept.
    pub durability: Durability,
    /// What is asked. A higher attempt or round takes the place of what is left of the lower ones.
    pub request: Request<E>,
}

/// Tells a participant that the decision to commit has its place in the journal. One that is lost costs nothing but time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precommit {
    /// The transaction.
    pub tx: TxId,
    /// The slot that it has.
    pub slot: Slot,
}

/// Tells a participant the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decide {
    /// The transaction.
    pub tx: TxId,
    /// The attempt that is decided.
    pub attempt: Attempt,
    /// The coordinator to answer.
    pub coordinator: EntityKey,
    /// The slot that is decided; an abort may leave it open and then means whatever is there of this attempt.
    pub slot: Option<Slot>,
    /// The decision.
    pub decision: Decision,
    /// How the participant keeps what it has promised.
    pub durability: Durability,
}

/// From a participant to a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToCoordinator<E> {
    /// The coordinator.
    pub to: EntityKey,
    /// The participant.
    pub from: EntityKey,
    /// The transaction.
    pub tx: TxId,
    /// Its attempt.
    pub attempt: Attempt,
    /// What is said.
    pub said: Said<E>,
}

/// What a participant says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said<E> {
    /// Its vote.
    Vote(Vote<E>),
    /// The commit has happened here and will survive a crash.
    Ack(Slot),
    /// It voted yes and has heard nothing since.
    Ask(Slot),
}

/// The vote of a participant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vote<E> {
    /// It will do what is decided, whatever happens. This holds after a crash too.
    Yes {
        /// The place of the effect in the order of the entity.
        slot: Slot,
        /// What the events call, and the state they lead to.
        answer: Answer<E>,
        /// How it is kept.
        durability: Durability,
        /// Whether it wants to be told of the [`Precommit`], and what its commit depends on.
        early: Option<EarlyRelease>,
    },
    /// It refuses.
    No(Rejection<E>),
    /// It cannot say before these are answered, and has kept nothing.
    Unanswered(Unanswered<E>),
    /// It would have to wait, which a request out of order may not.
    OutOfOrder,
    /// It waited for these until the deadline.
    Expired(Vec<Wait>),
    /// Too many wait here already.
    Busy,
    /// Its journal refused the record, without effect.
    NotRecorded,
}
