//! Why an expression has no value, and why a step does not happen.

use enact_rebel::{Name, Reference};

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// A number, a day or a time is out of range.
    Overflow,
    /// Amounts of different currencies.
    CurrencyMismatch,
    /// A field is asked for that has no value.
    Absent,
    /// A read event is refused.
    Refused,
    /// A fresh identity without a seed.
    NoSeed,
    /// A collection or a range has too many elements.
    TooManyElements,
    /// Values that are no identity.
    NoKey,
    /// A division by zero.
    DivisionByZero,
    /// A number that is finer than a currency.
    Inexact,
    /// A list without an element at a position, a map without a key.
    NoElement,
    /// `!` behind `none`.
    IsNone,
    /// Two values for one entry of a map.
    TwoValues,
    /// A position outside of a text.
    OutOfRange,
    /// A text that is too long.
    TooLong,
}

/// A reason why a step does not happen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// An identity that is none of the class.
    Key,
    /// There is no such event.
    UnknownEvent,
    /// A parameter without a value, or with one of another type, or an argument without a parameter.
    Argument(Name),
    /// The caller has none of the roles, or none is known where one is needed.
    Role,
    /// The event is internal and the first of the step.
    Internal,
    /// The event only reads.
    Read,
    /// The state does not have the event.
    LifeCycle,
    /// A guard does not hold; its text.
    Guard(Name),
    /// An expression has no value; where, as written.
    Fault(Fault, Name),
    /// A condition on another instance does not hold; its text.
    Condition(Name),
    /// An invariant does not hold at the end; its text.
    Invariant(Name),
    /// The step is too large: of what it has too many.
    Limit(&'static str),
}

/// A step that does not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The events that lead to what refuses.
    pub path: Vec<(Reference, Name)>,
    /// The instance that refuses.
    pub at: Reference,
    /// All reasons of the first kind that refuses.
    pub reasons: Vec<Reason>,
}
