//! Why an event is refused.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::instance::ArgumentError;
use crate::value::{Fault, Name, Timestamp, Value};

/// A reason why an event is refused, or why a stored instance is not one of its class.
///
/// Carries the facts; its text is for people. Serialisable, because answers are stored with the requests they answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Violation {
    /// The class has no such event.
    #[error("{class} has no event `{event}`")]
    UnknownEvent {
        /// The class.
        class: Name,
        /// The name given.
        event: Name,
    },
    /// There is no such class.
    #[error("there is no class `{class}`")]
    UnknownClass {
        /// The name given.
        class: Name,
    },
    /// The event demands a role.
    #[error("{}", needs_role(.event, .roles))]
    Role {
        /// The event.
        event: Name,
        /// The roles of which the caller has none. Without any it needs a caller, and none is known.
        roles: Vec<Name>,
    },
    /// The event only happens when another one calls it.
    #[error("`{event}` is internal: it only happens when another event calls it")]
    Internal {
        /// The event.
        event: Name,
    },
    /// The event only reads: it is asked, and does not happen.
    #[error("`{event}` is a read event: it is asked, and does not happen")]
    Read {
        /// The event.
        event: Name,
    },
    /// A condition on another instance does not hold.
    #[error("{text}, and it is in state `{state}`")]
    Condition {
        /// The name its author gave it, or the line as written.
        text: Name,
        /// The state the other instance is in.
        state: Name,
    },
    /// The step is larger than a step may be.
    #[error("a step has at most {limit} {what}")]
    Limit {
        /// What there is too much of.
        what: Name,
        /// How many are allowed.
        limit: usize,
    },
    /// An argument does not fit its parameter.
    #[error(transparent)]
    Argument(ArgumentError),
    /// An identity of another type than that of the class.
    #[error("the identity of {class} is of type {expected}, which `{found}` is not")]
    Key {
        /// The class.
        class: Name,
        /// The type of its identity.
        expected: String,
        /// The identity given.
        found: String,
    },
    /// The state of the instance does not allow the event.
    #[error("`{event}` is not possible in state `{state}`, only in {}", state_list(.allowed))]
    LifeCycle {
        /// The event.
        event: Name,
        /// The state the instance is in.
        state: Name,
        /// The states that allow the event.
        allowed: Vec<Name>,
    },
    /// A guard of the event does not hold.
    #[error("{text}{}", explanation(.text, .condition, .values))]
    Guard {
        /// The name its author gave it, or the condition.
        text: Name,
        /// The condition as written.
        condition: Name,
        /// The fields and parameters it read, with their values.
        values: Vec<(Name, Value)>,
    },
    /// An invariant would not hold after the event.
    #[error("{text}{}", explanation(.text, .condition, .values))]
    Invariant {
        /// The name its author gave it, or the condition.
        text: Name,
        /// The condition as written.
        condition: Name,
        /// The fields it read, with the values they would have.
        values: Vec<(Name, Value)>,
    },
    /// An expression has no value.
    #[error("{fault}, in `{place}`{}", value_list(.values))]
    Arithmetic {
        /// Why it has none.
        fault: Fault,
        /// The guard, effect, invariant or call, as written.
        place: Name,
        /// The fields and parameters it read, with their values.
        values: Vec<(Name, Value)>,
    },
    /// A stored instance is in a state that the class does not have.
    #[error("{class} has no state `{state}`")]
    UnknownState {
        /// The class.
        class: Name,
        /// The state.
        state: Name,
    },
    /// A stored instance has a field that the class does not have.
    #[error("{class} has no field `{field}`")]
    UnknownField {
        /// The class.
        class: Name,
        /// The field.
        field: Name,
    },
    /// A stored instance lacks a field, or has it with another type.
    #[error("the field `{field}` of {class} is of type {expected}, {}", found(.value))]
    Field {
        /// The class.
        class: Name,
        /// The field.
        field: Name,
        /// Its type.
        expected: String,
        /// The stored value, if there is one.
        value: Option<Value>,
    },
    /// An event of a timer is due at an instance that the step meets: it comes first.
    #[error("`{event}` has been due since {at}, and comes first")]
    Due {
        /// The event.
        event: Name,
        /// Since when.
        at: Timestamp,
    },
    /// The event of a timer that is not the next one to happen: it has happened or was refused, or its time has changed.
    #[error("no timer makes `{event}` happen at {at} next")]
    NotDue {
        /// The event.
        event: Name,
        /// The time of the timer.
        at: Timestamp,
    },
}

impl Violation {
    /// Whether it says that an expression waits for an answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, Violation::Arithmetic { fault, .. } if fault.is_unanswered())
    }
}

fn needs_role(event: &Name, roles: &[Name]) -> String {
    if roles.is_empty() {
        return format!("`{event}` needs a caller, and none is known");
    }
    let roles: Vec<_> = roles.iter().map(|role| format!("`{role}`")).collect();
    let needed = if roles.len() == 1 { "the role" } else { "one of the roles" };
    format!("`{event}` needs {needed} {}, which the caller does not have", roles.join(", "))
}

fn state_list(states: &[Name]) -> String {
    states.iter().map(|state| format!("`{state}`")).collect::<Vec<_>>().join(", ")
}

fn explanation(text: &Name, condition: &Name, values: &[(Name, Value)]) -> String {
    if text == condition { value_list(values) } else { format!(": `{condition}`{}", value_list(values)) }
}

fn value_list(values: &[(Name, Value)]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let values = values.iter().map(|(name, value)| format!("{name} = {value}"));
    format!(", where {}", values.collect::<Vec<_>>().join(", "))
}

fn found(value: &Option<Value>) -> String {
    value.as_ref().map_or_else(|| "and has no value".to_owned(), |value| format!("not `{value}`"))
}
