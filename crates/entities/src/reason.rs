//! Why an event was refused, in the words of its contract.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::EntityKey;
use crate::tx::Timestamp;

/// One thing that stands in the way of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// The life cycle has no such event in the present state.
    LifeCycle {
        /// The event.
        event: String,
        /// The state the entity is in.
        state: String,
        /// The states in which the event may happen.
        allowed: Vec<String>,
    },
    /// The event demands a role.
    Role {
        /// The event.
        event: String,
        /// The roles of which the caller has none. Without any it needs a caller, and none is known.
        roles: Vec<String>,
    },
    /// A precondition does not hold.
    Guard {
        /// The precondition in the words of its author.
        text: String,
        /// What it saw: each name with its value.
        values: Vec<(String, String)>,
    },
    /// The effect would break an invariant of the class.
    Invariant {
        /// The invariant in the words of its author.
        text: String,
        /// What it saw: each name with its value.
        values: Vec<(String, String)>,
    },
    /// An arithmetic operation has no result: overflow, division by zero, two currencies.
    Arithmetic {
        /// The operation, and what is wrong with it.
        what: String,
    },
    /// A condition on the entity does not hold.
    Condition {
        /// The condition in the words of its author.
        text: String,
        /// The life-cycle state that the entity is in.
        state: String,
    },
    /// The event is none of the contract: its name, an argument, or what it would call.
    Malformed {
        /// What is wrong.
        what: String,
    },
    /// There can be no such entity: no class has the name, or the id is not one of its ids.
    NoSuchEntity,
    /// The transaction touches too many entities.
    TooManyParticipants {
        /// The most that are allowed.
        limit: usize,
    },
    /// Too many events happen in the transaction.
    TooManyEvents {
        /// The most that are allowed.
        limit: usize,
    },
    /// The calls of the transaction are nested too deeply.
    TooDeep {
        /// The deepest nesting that is allowed.
        limit: usize,
    },
    /// Another event is due and comes first. A coordinator lets it happen and begins anew; no client is told.
    Due {
        /// The event.
        event: String,
        /// From when on it has been due.
        at: Timestamp,
    },
    /// The event of a timer has happened or been refused, or is due at another time by now.
    NotDue {
        /// The event.
        event: String,
    },
    /// Too many due events come before the transaction.
    TooManyDue {
        /// The most that are allowed.
        limit: usize,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LifeCycle { event, state, allowed } if allowed.is_empty() => {
                write!(f, "{event} is not possible in state {state}")
            }
            Self::LifeCycle { event, state, allowed } => {
                write!(f, "{event} is not possible in state {state}, only in {}", allowed.join(", "))
            }
            Self::Role { event, roles } if roles.is_empty() => {
                write!(f, "{event} needs a caller, and none is known")
            }
            Self::Role { event, roles } => {
                let needed = if roles.len() == 1 { "the role" } else { "one of the roles" };
                write!(f, "{event} needs {needed} {}, which the caller does not have", roles.join(", "))
            }
            Self::Guard { text, values } => with_values(f, text, values),
            Self::Invariant { text, values } => {
                f.write_str("invariant broken: ")?;
                with_values(f, text, values)
            }
            Self::Arithmetic { what } | Self::Malformed { what } => f.write_str(what),
            Self::Condition { text, state } => write!(f, "{text}, and it is in state {state}"),
            Self::NoSuchEntity => f.write_str("there can be no such entity"),
            Self::TooManyParticipants { limit } => write!(f, "the transaction touches more than {limit} entities"),
            Self::TooManyEvents { limit } => write!(f, "the transaction has more than {limit} events"),
            Self::TooDeep { limit } => write!(f, "the calls of the transaction are nested deeper than {limit}"),
            Self::Due { event, .. } => write!(f, "{event} is due and comes first"),
            Self::NotDue { event } => write!(f, "{event} is not what is due next"),
            Self::TooManyDue { limit } => write!(f, "more than {limit} due events come before the transaction"),
        }
    }
}

fn with_values(f: &mut fmt::Formatter<'_>, text: &str, values: &[(String, String)]) -> fmt::Result {
    f.write_str(text)?;
    for (i, (name, value)) in values.iter().enumerate() {
        write!(f, "{}{name} = {value}", if i == 0 { " with " } else { ", " })?;
    }
    Ok(())
}

/// An event that was refused, where, and why: every reason, not only the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub struct Refusal {
    /// The entity that refuses.
    pub entity: EntityKey,
    /// The event asked of it; or else the conditions.
    pub event: String,
    /// Why, at least one reason.
    pub reasons: Vec<Reason>,
    /// The events that lead to it, from the one that the client called on; nothing if the client called it itself, or if it is
    /// the state that the transaction leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<Caller>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entity, event, reasons, callers } = self;
        let is_condition = |reason: &Reason| matches!(reason, Reason::Condition { .. });
        match callers.last() {
            Some(caller) if reasons.iter().all(is_condition) => {
                write!(f, "{entity} does not meet what {caller} demands: {}", Reasons(reasons))
            }
            _ => write!(f, "{entity} refuses {event}: {}", Reasons(reasons)),
        }
    }
}

/// An event that calls another one, or asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// Its entity.
    pub entity: EntityKey,
    /// Its name.
    pub event: String,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.entity, self.event)
    }
}

impl Refusal {
    /// Whether another event is due there and comes first.
    pub(crate) fn is_early(&self) -> bool {
        matches!(self.reasons[..], [Reason::Due { .. }])
    }

    /// Whether too many due events come before it.
    pub(crate) fn is_behind_too_many(&self) -> bool {
        matches!(self.reasons[..], [Reason::TooManyDue { .. }])
    }

    /// Whether an event of a timer comes too late or too early.
    pub(crate) fn is_not_due(&self) -> bool {
        matches!(self.reasons[..], [Reason::NotDue { .. }])
    }
}

struct Reasons<'a>(&'a [Reason]);

impl fmt::Display for Reasons<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, reason) in self.0.iter().enumerate() {
            write!(f, "{}{reason}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
