//! Rebel: a small, total language for objects with a life cycle, guards, effects and atomic synchronisation.
#![forbid(unsafe_code)]

mod analysis;
mod check;
mod diagnostic;
mod evaluate;
mod instance;
pub mod limits;
mod model;
mod source;
mod step;
mod syntax;
mod value;
mod violation;

pub use self::{
    analysis::{Bound, Delta, Judgement, Linear, Outline, Relation, Term, Threshold, Verdict},
    check::check,
    diagnostic::{Code, Diagnostic, Label, Report},
    instance::{Action, ArgumentError, EventCall, Instance, Sync},
    model::{Class, Event, Field, Param, Spec, State, StateKind},
    source::{Source, Span},
    value::{
        Bindings, Currency, Date, Enumeration, Fault, Iban, Key, KeyType, Money, Name, Percentage, Reference, Rounding,
        Timestamp, Type, Value, ValueError, Variant,
    },
    violation::Violation,
};
