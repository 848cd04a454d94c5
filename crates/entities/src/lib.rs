//! Entities: durable objects that change only by declared events, many of them in one atomic step, without locks where none
//! are needed.
//!
//! [`Engine`] is what an application uses. What it drives is pure: every other type is a state machine that takes inputs and
//! the present moment and gives outputs; it holds no clock, thread, file, socket or random number. Its driver
//! carries the messages, writes the records and keeps the time, and can do so in production, in a simulation or in a
//! model checker.
//!
//! * [`Model`]: what the engine must know of the classes it runs.
//! * [`Rebel`]: the classes of a checked specification as a `Model`.
//! * [`Admission`]: which transactions may be open at one entity at the same time.
//! * [`Participant`]: one entity in the commit protocol, with its promises, its reads and its recovery.
//! * [`Coordinator`]: transactions over many entities, all or nothing.
//! * [`Record`], [`Snapshot`]: what is journaled.
//! * [`audit`](fn@audit), [`miscalls`], [`disagreements`]: whether the contract allows what is journaled, and journals agree; [`Cuts`]: where they do.
//!
//! # Example
//! The driver of the machines is a loop that carries what they put out to where it belongs:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//! use enact_entities::{
//!     Begin, Call, Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, Durability, EntityKey, Input, Millis,
//!     Output, Participant, ParticipantOptions, Rebel, Reply, Strategy, Timestamp, ToParticipant, TxId, Written,
//! };
//! use enact_rebel::{Source, Value, check};
//!
//! let spec = check(vec![Source::new("shop.rebel", "
//!     class Stock
//!       pieces: Integer = 0
//!       initial empty
//!         on Fill(by: Integer): filled
//!           post: this.pieces += by
//!       filled
//!         on Take(by: Integer)
//!           pre: \"not enough in stock\": pieces - by >= 0
//!           post: this.pieces -= by
//!     class Order
//!       initial open
//!         on Place(from: Stock, by: Integer): placed
//!           sync: from.Take(by)
//!       final placed
//! ")]).unwrap();
//! let spec = Arc::new(spec);
//! let model = Arc::new(Rebel::new(Arc::clone(&spec)));
//! let call = |class, event, arguments: Vec<(&'static str, Value)>| {
//!     spec.class(class).unwrap().event(event).unwrap().call(arguments).unwrap()
//! };
//!
//! let options = CoordinatorOptions::new(Durability::Shared);
//! let mut coordinator = Coordinator::new(Arc::clone(&model), EntityKey::new("Coordinator", "1")?, options);
//! let mut participants: BTreeMap<EntityKey, Participant<Rebel>> = BTreeMap::new();
//! let mut run = |tx, entity: &str, event| {
//!     let calls = vec![Call::event(entity.parse().unwrap(), event)];
//!     let begin = Begin { tx: TxId::from_u128(tx), calls, at: Timestamp(0), deadline: Millis(2_000), idempotency: None };
//!     let mut inputs = vec![CoordinatorInput::Begin(begin)];
//!     let mut told = None;
//!     while let Some(input) = inputs.pop() {
//!         for output in coordinator.step(input, Millis(0)) {
//!             match output {
//!                 // A real one writes the records and says so when they are durable.
//!                 CoordinatorOutput::Append { write, .. } => {
//!                     inputs.push(CoordinatorInput::Written { write, result: Written::Durable });
//!                 }
//!                 CoordinatorOutput::Send { to, message } => {
//!                     let participant = participants.entry(to.clone()).or_insert_with(|| {
//!                         let options = ParticipantOptions::new(Strategy::default());
//!                         Participant::new(Arc::clone(&model), to, options).unwrap()
//!                     });
//!                     let input = match message {
//!                         ToParticipant::Prepare(prepare) => Input::Prepare(prepare),
//!                         ToParticipant::Decide(decide) => Input::Decide(decide),
//!                     };
//!                     for output in participant.step(input, Millis(0)) {
//!                         if let Output::Send(up) = output {
//!                             inputs.push(CoordinatorInput::Heard(up));
//!                         }
//!                     }
//!                 }
//!                 CoordinatorOutput::Reply { reply, .. } => told = Some(reply),
//!                 CoordinatorOutput::LetDue { .. } => unreachable!("no class has timers"),
//!                 CoordinatorOutput::Halt => unreachable!("every record was durable"),
//!             }
//!         }
//!     }
//!     told.unwrap()
//! };
//!
//! let stock = spec.class("Stock").unwrap();
//! let tea = Value::Reference(stock.reference(stock.key("tea").unwrap()));
//! let place = |by| call("Order", "Place", vec![("from", tea.clone()), ("by", Value::Integer(by))]);
//! let is_done = |reply: &Reply| matches!(reply, Reply::Answered { result: Ok(_), .. });
//! assert!(is_done(&run(1, "Stock/tea", call("Stock", "Fill", vec![("by", Value::Integer(10))]))));
//! assert!(is_done(&run(2, "Order/1", place(7))));
//! let Reply::Answered { result: Err(refusal), .. } = run(3, "Order/2", place(7)) else { panic!("only 3 are left") };
//! assert_eq!(refusal.to_string(), "Stock/tea refuses Take: not enough in stock with pieces = 3, by = 7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod admission;
mod audit;
mod by_key;
mod changes;
mod coordinator;
mod engine;
mod message;
mod model;
mod participant;
mod reason;
mod rebel;
mod record;
mod small_map;
mod tx;

pub use enact_journal::{EntityKey, Volume};
pub use enact_rebel::Manner;

pub use self::admission::{
    Admission, Answer, Applied, Branch, Consequences, Decision, EarlyRelease, FieldRange, InProgress, Limits, Prospect,
    Range, Rejection, Request, Strategies, Strategy, Unanswered, Undecided, UnknownClass, Values, Verdict, Wait, Why,
};
pub use self::audit::{
    Acted, Audited, AuditedOf, Contradiction, Cuts, Decided, Disagreement, DisagreementKind, Held, Holding, Judged,
    Miscall, audit, disagreements, miscalls,
};
pub use self::changes::{Changes, ChangesOf, Cursor, EntityChange, ParseCursorError};
pub use self::coordinator::{
    Begin, Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, CoordinatorRecoveryError,
    CoordinatorSnapshot, Reply,
};
pub use self::engine::{
    Awaited, Command, DelayCount, DiskState, Doubt, DurationCounts, Durations, Engine, EngineOptions, Entities,
    EntityError, EraseError, EventCount, Keeping, Kept, KeyStore, Link, ManualClock, Membership, MessageError, Metrics,
    Network, News, NodeCounts, OTHER, Origin, REQUEST_SPANS, ReadError, Receipt, Retention, ShutdownError, Standing,
    SubmitError, SystemClock, Transport, Vault, VaultError, Waits, WallClock, timer_key,
};
pub use self::message::{Decide, Precommit, Prepare, Said, ToCoordinator, ToParticipant, Vote};
pub use self::model::{
    Action, Asked, Bound, Call, Calls, Change, Condition, Content, Cover, Demand, Due, Effects, Field, Forecast, Image,
    Linear, Location, Made, Model, Place, Question, Relation, Term, Threshold, Work,
};
pub use self::participant::{
    Durability, Happened, History, HistoryOf, HistoryPart, Input, Output, Participant, ParticipantOptions, Read,
    ReadId, ReadMode, RecoveryError, View, WriteId, Written,
};
pub use self::reason::{Caller, Reason, Refusal};
pub use self::rebel::Rebel;
pub use self::record::{
    AnswerRecord, DecisionRecord, DecodeError, Done, Erasure, Idempotency, Pending, Prepared, Record, Snapshot,
    Tombstone,
};
pub use self::tx::{Attempt, Millis, ParseTxIdError, Slot, Timestamp, TxId};
