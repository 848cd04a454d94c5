//! What a delayed transaction waits for, and what decides it: in words, with the values of the moment.
//!
//! Nothing of this is kept. It is worked out when somebody asks: at a deadline, or because a client wants to know.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::tx::TxId;

/// What one transaction waits for at one entity: another transaction, or several that do the same there and matter alike.
///
/// Displayed as `balance is between EUR 20.00 and EUR 100.00 and must be at least EUR 60.00: it depends on Withdraw of 0192…
/// (fails if it commits, passes if it aborts)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// What waits: the names of its events here, or its conditions or questions; nothing if it is a read.
    pub waiting: String,
    /// The transaction waited for; of several, the one that was admitted first.
    pub tx: TxId,
    /// What that transaction does at this entity: the names of its events, or its conditions or questions.
    pub event: String,
    /// How many others do the same and are waited for alike.
    pub others: usize,
    /// Why.
    pub why: Why,
}

/// Why a transaction is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Why {
    /// Whether the waiting event is possible depends on it.
    Verdict {
        /// What the waiting event needs and is not decided.
        undecided: Vec<Undecided>,
        /// What becomes of the waiting event if the other commits.
        if_committed: Prospect,
        /// What becomes of the waiting event if the other aborts.
        if_aborted: Prospect,
    },
    /// What the waiting one is told depends on it: the answers to its questions, what its events call, or the state they lead to.
    Answer {
        /// What it asks for and is not decided.
        undecided: Vec<Undecided>,
    },
    /// The order of the two shows.
    Order {
        /// The place that both change, each in its own way; nothing if what they do has to be evaluated to tell.
        place: Option<String>,
        /// How many older transactions are delayed here.
        older: usize,
        /// Whether it would not have to wait as the only part of its transaction.
        in_part: bool,
    },
    /// The waiting event would take away what the other relies on.
    Reliance {
        /// What the waiting event would do.
        change: String,
        /// What the other relies on.
        on: String,
    },
    /// It is committed and not applied, because it stands in line. What has several parts waits until it is applied.
    Unapplied,
    /// It stands before the waiting one, which is committed and in line, and is not decided.
    Line,
    /// There are too many outcomes to look at until it is decided.
    Outcomes {
        /// How many are looked at.
        outcomes_max: usize,
    },
    /// As many are open as may be.
    Bound {
        /// How many.
        open: usize,
    },
    /// It came earlier and has been overtaken often enough.
    Turn {
        /// How often.
        overtaken: usize,
    },
    /// The value that a read asks for depends on it.
    Value {
        /// What is not decided.
        undecided: Vec<Undecided>,
    },
    /// A read is to see what it does.
    After,
}

/// What becomes of a waiting event once one other is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prospect {
    /// It is possible.
    Passes,
    /// It is refused.
    Fails,
    /// It still depends on others.
    Depends,
}

/// Something that is not decided, as the contract names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Undecided {
    /// A number, or a sum of them.
    Number {
        /// Its name.
        name: String,
        /// The least value that it may come to have.
        low: String,
        /// The greatest value that it may come to have.
        high: String,
        /// What is needed of it, such as `at least EUR 60.00`, if anything is.
        needed: Option<String>,
    },
    /// What is no number; the life cycle is called `it`.
    Content {
        /// Its name.
        name: String,
        /// What it may come to be.
        contents: Vec<String>,
        /// What it needs to be, if that matters.
        needed: Option<String>,
    },
    /// A rule that is broken in some outcome, with what it sees there.
    Rule {
        /// The rule in the words of its author.
        reason: String,
    },
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = match self {
            Self::Number { name, low, high, needed } => {
                write!(f, "{name} is between {low} and {high}")?;
                needed
            }
            Self::Content { name, contents, needed } => {
                let quoted = |text: &String| if text.is_empty() { "\"\"".to_owned() } else { text.clone() };
                write!(f, "{name} is {}", contents.iter().map(quoted).collect::<Vec<_>>().join(" or "))?;
                needed
            }
            Self::Rule { reason } => return write!(f, "one outcome refuses it, by: {reason}"),
        };
        needed.iter().try_for_each(|needed| write!(f, " and must be {needed}"))
    }
}

/// Those waited for: `Withdraw of 0192…`, or `12 Deposit (the first of 0192…)`.
struct Named<'a>(&'a Wait);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait { tx, event, others, .. } = self.0;
        match others {
            0 => write!(f, "{event} of {tx}"),
            others => write!(f, "{} {event} (the first of {tx})", others + 1),
        }
    }
}

impl Wait {
    /// What is not decided, and on whom it depends; nothing if it is another kind of wait.
    pub(crate) fn dependency(&self) -> Option<(String, String)> {
        let Self { waiting, tx, event, others, why } = self;
        let fact = |undecided: &[Undecided], what: String| {
            let all: Vec<String> = undecided.iter().map(ToString::to_string).collect();
            if all.is_empty() { what + " depends" } else { all.join(", ") + ": it depends" }
        };
        match why {
            Why::Verdict { undecided, if_committed, if_aborted } => {
                let fact = fact(undecided, format!("whether {waiting} is possible"));
                let follows = format!("{if_committed} if it commits, {if_aborted} if it aborts");
                let on = match (if_committed, if_aborted, others) {
                    (Prospect::Depends, Prospect::Depends, _) => Named(self).to_string(),
                    (_, _, 0) => format!("{event} of {tx} ({follows})"),
                    (_, _, others) => format!("{} {event} (the first of {tx}; each: {follows})", others + 1),
                };
                Some((fact, on))
            }
            Why::Answer { undecided } => {
                Some((fact(undecided, format!("what follows from {waiting}")), Named(self).to_string()))
            }
            Why::Value { undecided } => Some((fact(undecided, "the value".to_owned()), Named(self).to_string())),
            _ => None,
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((fact, on)) = self.dependency() {
            return write!(f, "{fact} on {on}");
        }
        let Self { waiting, tx, event, .. } = self;
        let named = Named(self);
        let (are, them) = if self.others == 0 { ("is", "it") } else { ("are", "them") };
        match &self.why {
            Why::Order { place, older, in_part } => {
                match place {
                    Some(place) => write!(f, "{named} {are} open on {place}; {waiting} takes its turn after {them}")?,
                    None => write!(f, "the order of {waiting} and {named} shows; it takes its turn after {them}")?,
                }
                if *older > 0 {
                    write!(f, ", {older} older {} before it", if *older == 1 { "one is" } else { "ones are" })?;
                }
                if *in_part { write!(f, " (alone, it would not have to wait)") } else { Ok(()) }
            }
            Why::Reliance { change, on } => {
                let relies = if self.others == 0 { "relies" } else { "rely" };
                write!(f, "{waiting} would {change}; {named} {relies} on {on}")
            }
            Why::Unapplied => {
                write!(
                    f,
                    "{named} {are} decided and {are} applied after those before {them}; {waiting} is a part of a larger \
                     transaction and waits until then"
                )
            }
            Why::Line => write!(f, "{waiting} is decided and stands in line behind {named} which {are} not"),
            Why::Outcomes { outcomes_max } => {
                write!(
                    f,
                    "more than {outcomes_max} outcomes are possible while {named} {are} undecided; {waiting} waits for fewer"
                )
            }
            Why::Bound { open } => {
                let one = format!("{event} of {tx}");
                write!(f, "{open} are open, as many as may be; {waiting} waits until one is decided, such as {one}")
            }
            Why::Turn { overtaken } => {
                write!(f, "{named} came earlier")?;
                match overtaken {
                    0 => {}
                    1 => write!(f, " and was passed once")?,
                    times => write!(f, " and was passed {times} times")?,
                }
                write!(f, "; {waiting} takes its turn after it")
            }
            Why::After => write!(f, "the read is to see {named} which {are} not applied yet"),
            Why::Verdict { .. } | Why::Answer { .. } | Why::Value { .. } => Ok(()),
        }
    }
}

impl fmt::Display for Prospect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passes => "passes",
            Self::Fails => "fails",
            Self::Depends => "depends on others",
        })
    }
}
