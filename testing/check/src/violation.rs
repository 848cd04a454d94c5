//! What is wrong with a history, by its name, with the attempts that contradict each other.

use std::fmt;

use crate::history::{AttemptId, Token, Variable};

/// Why a history does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The recording contradicts itself: nothing is said about the transactions.
    #[error("the recording is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// No serial order explains what the transactions have read and written.
    #[error(transparent)]
    Violation(#[from] Violation),
}

impl CheckError {
    /// The name of the violation, if it is one.
    #[must_use]
    pub const fn anomaly(&self) -> Option<Anomaly> {
        match self {
            Self::Malformed(_) => None,
            Self::Violation(violation) => Some(violation.anomaly()),
        }
    }
}

/// What a recorder must not tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A token does not tell which write it comes from.
    #[error("{first} and {second} both wrote {token} to {variable}")]
    TokenReused {
        /// The variable.
        variable: Variable,
        /// What was written twice.
        token: Token,
        /// One of the writers.
        first: AttemptId,
        /// The other, or the same again.
        second: AttemptId,
    },
    /// The token of the time before all writes was written.
    #[error("{writer} wrote the initial token to {variable}")]
    InitialWritten {
        /// The variable.
        variable: Variable,
        /// The writer.
        writer: AttemptId,
    },
    /// Some committed writes of a variable name what they replaced and others do not.
    #[error("only some writes of {variable} name what they replaced")]
    OrdersMixed {
        /// The variable.
        variable: Variable,
    },
    /// Two committed writes name the same token as replaced, and not both writers have read it.
    #[error("{first} and {second} both replaced {replaced} of {variable}")]
    ReplacedTwice {
        /// The variable.
        variable: Variable,
        /// What both replaced.
        replaced: Token,
        /// One of the writers.
        first: AttemptId,
        /// The other.
        second: AttemptId,
    },
    /// The committed write cannot be reached from the initial token by going from what is replaced to what replaced it.
    #[error("{writer} replaced {replaced} of {variable}, which was never the committed version")]
    ReplacedNothing {
        /// The variable.
        variable: Variable,
        /// What was replaced as the writer says.
        replaced: Token,
        /// The writer.
        writer: AttemptId,
    },
    /// The tickets are not in the order of time.
    #[error("{attempt} ended before it began")]
    EndsBeforeItBegins {
        /// The attempt.
        attempt: AttemptId,
    },
}

/// The name of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// An attempt does not see its own writes, or reads two versions of one variable.
    Internal,
    /// A token was read that nobody wrote.
    Unwritten,
    /// Aborted read: a token was read whose writer aborted.
    G1a,
    /// Intermediate read: a token was read that its writer overwrote itself.
    G1b,
    /// Dirty write: attempts have overwritten each other in a circle.
    G0,
    /// Circular information flow: a cycle of writes that were overwritten or read.
    G1c,
    /// An update was based on a version that was not the last one.
    LostUpdate,
    /// Read skew: a cycle in which one read misses one write; no snapshot explains it.
    GSingle,
    /// Write skew and its kin: a cycle in which several reads miss writes.
    G2Item,
    /// A serial order exists, but none in which what had ended comes before what then began.
    RealTime,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Internal => "internal contradiction",
            Self::Unwritten => "unwritten read",
            Self::G1a => "G1a (aborted read)",
            Self::G1b => "G1b (intermediate read)",
            Self::G0 => "G0 (dirty write)",
            Self::G1c => "G1c (circular information flow)",
            Self::LostUpdate => "lost update",
            Self::GSingle => "G-single (read skew)",
            Self::G2Item => "G2-item (write skew)",
            Self::RealTime => "real-time violation",
        })
    }
}

/// What no serial order explains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// [`Anomaly::Internal`]: after its own earlier operation an attempt reads something else.
    #[error("{}: {attempt} read {found} of {variable} after it had read or written {expected}", self.anomaly())]
    Changed {
        /// The attempt.
        attempt: AttemptId,
        /// The variable.
        variable: Variable,
        /// What it had read or written last.
        expected: Token,
        /// What it then read.
        found: Token,
    },
    /// [`Anomaly::Internal`]: an attempt reads what it only later writes.
    #[error("{}: {attempt} read {token} of {variable} before it wrote it", self.anomaly())]
    Foreseen {
        /// The attempt.
        attempt: AttemptId,
        /// The variable.
        variable: Variable,
        /// What it read.
        token: Token,
    },
    /// [`Anomaly::Unwritten`].
    #[error("{}: {reader} read {token} of {variable}", self.anomaly())]
    Unwritten {
        /// The reader.
        reader: AttemptId,
        /// The variable.
        variable: Variable,
        /// What it read.
        token: Token,
    },
    /// [`Anomaly::G1a`].
    #[error("{}: {reader} read {token} of {variable}, and {writer} aborted", self.anomaly())]
    AbortedRead {
        /// The reader.
        reader: AttemptId,
        /// Whose write it has seen.
        writer: AttemptId,
        /// The variable.
        variable: Variable,
        /// What it read.
        token: Token,
    },
    /// [`Anomaly::G1b`].
    #[error("{}: {reader} read {token} of {variable}, which {writer} overwrote itself", self.anomaly())]
    IntermediateRead {
        /// The reader.
        reader: AttemptId,
        /// Whose write it has seen.
        writer: AttemptId,
        /// The variable.
        variable: Variable,
        /// What it read.
        token: Token,
    },
    /// Every other anomaly.
    #[error(transparent)]
    Cycle(#[from] Cycle),
}

impl Violation {
    /// The name.
    #[must_use]
    pub const fn anomaly(&self) -> Anomaly {
        match self {
            Self::Changed { .. } | Self::Foreseen { .. } => Anomaly::Internal,
            Self::Unwritten { .. } => Anomaly::Unwritten,
            Self::AbortedRead { .. } => Anomaly::G1a,
            Self::IntermediateRead { .. } => Anomaly::G1b,
            Self::Cycle(cycle) => cycle.anomaly,
        }
    }
}

/// Attempts each of which must precede the next one, and the last one the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The name that its dependencies give it.
    pub anomaly: Anomaly,
    /// The dependencies; each begins where the one before ends.
    pub steps: Vec<Step>,
}

/// Why one attempt must precede another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The attempt that must come first.
    pub from: AttemptId,
    /// Whether it has committed.
    pub is_committed: bool,
    /// Why.
    pub dependency: Dependency,
    /// The attempt that must come later.
    pub to: AttemptId,
}

/// What one attempt owes to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// ww: it has overwritten, at once or later, what the first wrote.
    Write {
        /// The variable.
        variable: Variable,
        /// What the first wrote.
        before: Token,
        /// What the second wrote.
        after: Token,
    },
    /// wr: it has read what the first wrote.
    Read {
        /// The variable.
        variable: Variable,
        /// What it read.
        token: Token,
    },
    /// rw: it has replaced what the first read.
    Anti {
        /// The variable.
        variable: Variable,
        /// What the first read.
        before: Token,
        /// What the second wrote.
        after: Token,
    },
    /// It began when the first had ended.
    RealTime,
}

impl std::error::Error for Cycle {}

/// More steps than anybody reads.
const STEPS_SHOWN_MAX: usize = 20;

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: each of these precedes the next one", self.anomaly)?;
        self.steps.iter().take(STEPS_SHOWN_MAX).try_for_each(|step| write!(f, "\n  {step}"))?;
        match self.steps.len().saturating_sub(STEPS_SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, is_committed, dependency, to } = self;
        let fate = if *is_committed { "" } else { " (aborted)" };
        write!(f, "{from}{fate}, ")?;
        match dependency {
            Dependency::Write { variable, before, after } => {
                write!(f, "which wrote {before} to {variable} before {to} wrote {after}")
            }
            Dependency::Read { variable, token } => write!(f, "which wrote {token} to {variable}, where {to} read it"),
            Dependency::Anti { variable, before, after } => {
                write!(f, "which read {before} of {variable}, where {to} then wrote {after}")
            }
            Dependency::RealTime => write!(f, "which ended before {to} began"),
        }
    }
}
