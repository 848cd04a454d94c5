//! Entities: durable objects that change only by declared events, many of them in one atomic step, without locks where none
//! are needed.
//!
//! This is the pure part. Every type here is a state machine that takes inputs and the present moment and gives outputs;
//! it holds no clock, thread, file, socket or random number. Whoever drives it carries the messages, writes the records
//! and keeps the time, and can do so in production, in a simulation or in a model checker.
//!
//! * [`Model`]: what the engine must know of the classes it runs.
//! * [`Rebel`]: the classes of a checked specification as a `Model`.
//! * [`Admission`]: which transactions may be open at one entity at the same time.
//! * [`Participant`]: one entity in the commit protocol, with its promises, its reads and its recovery.
//! * [`Coordinator`]: transactions over many entities, all or nothing.
//! * [`Record`], [`Snapshot`]: what is journaled.
#![forbid(unsafe_code)]

mod admission;
mod coordinator;
mod message;
mod model;
mod participant;
mod reason;
mod rebel;
mod record;
mod tx;

pub use enact_journal::EntityKey;

pub use self::admission::{
    Admission, Answer, Applied, Consequences, Decision, FieldRange, InProgress, Limits, Prospect, Range, Request,
    Strategy, Verdict, Wait, Why,
};
pub use self::coordinator::{
    Begin, Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, CoordinatorRecoveryError,
    CoordinatorSnapshot, Reply,
};
pub use self::message::{Decide, Prepare, Said, ToCoordinator, ToParticipant, Vote};
pub use self::model::{
    Action, Bound, Call, Calls, Condition, Demand, Field, Linear, Model, Relation, Term, Threshold, Work,
};
pub use self::participant::{
    Durability, Input, Output, Participant, ParticipantOptions, Read, ReadId, ReadMode, RecoveryError, View, WriteId,
    Written,
};
pub use self::reason::{Reason, Refusal};
pub use self::rebel::Rebel;
pub use self::record::{
    AnswerRecord, DecisionRecord, DecodeError, Done, Idempotency, Pending, Prepared, Record, Snapshot,
};
pub use self::tx::{Attempt, Millis, ParseTxIdError, Slot, Timestamp, TxId};
