//! A second evaluator of checked specifications, which walks [`enact_rebel::ir`] in the plainest way.
//!
//! It is written from the meaning in `docs/rebel.md` alone and calls nothing of the interpreter: a test runs both side by side and
//! [compares](compare) them. It copies the world for every step, looks things up by their names, evaluates a named value each time it
//! is read, computes with numbers that have no end, and keeps what has happened to timers in a list.
//!
//! ```
//! use enact_naive::{Call, World, step};
//! use enact_rebel::{Source, Timestamp, Value, check};
//!
//! let spec = check(vec![Source::new("tank.rebel", "
//!     class Tank
//!       litres: Integer = 0
//!       initial empty
//!         on Fill(by: Integer): filled
//!           pre: \"it holds 100 litres\": litres + by <= 100
//!           post: this.litres += by
//!       filled
//! ")]).unwrap();
//! let tank = spec.class("Tank").unwrap();
//! let (it, now) = (tank.reference(tank.key("t1").unwrap()), Timestamp::from_millis(0));
//! let fill = |by| Call::new("Fill", [("by", Value::Integer(by))]);
//!
//! let filled = step(&spec, &World::new(), &it, &fill(60), now);
//! assert_eq!(filled.after[&it].fields["litres"], Value::Integer(60));
//! assert_eq!(step(&spec, &World::new(), &it, &fill(101), now).result.unwrap_err().reasons.len(), 1);
//! ```
//!
//! # What it shares with the interpreter
//! Values and their text forms, the civil calendar of [`Date`](enact_rebel::Date), the tables of Unicode and ISO 4217, and the checker,
//! which resolves names and inserts conversions. Everything else is its own: arithmetic, rounding, order, aggregates, effects, the
//! choice of variants, questions, calls, invariants, timers and fresh identities.
//!
//! # What it leaves out
//! It counts no steps of an evaluation, so a specification that reaches [`FUEL`](enact_rebel::limits::FUEL) is not for it.
//!
//! # Panics
//! At a construct of the language that it does not know, and at an instance that is none of its class.
#![forbid(unsafe_code)]

mod act;
mod aggregate;
mod builtin;
mod compare;
mod coverage;
mod expression;
mod number;
mod order;
mod reason;
mod seed;
mod step;
mod timer;
mod update;
mod world;

pub use compare::{Disagreement, argument, compare, same_instance};
pub use coverage::{Coverage, coverage};
pub use reason::{Fault, Reason, Refused};
pub use step::{Accepted, Task, Work, read};
pub use timer::{Due, Happened, Outcome, due, let_happen, step};
pub use world::{Call, Fields, Thing, World};
