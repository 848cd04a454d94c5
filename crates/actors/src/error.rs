//! Why a promise failed, and why an actor is gone.
use std::fmt;
use std::time::Duration;

use enact_sync::unmodelled::Arc;

use crate::Identity;

/// Why a message has no answer.
///
/// Every promise ends with a value or with one of these; none stays open because an actor panicked, stopped or was
/// restarted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActorError {
    /// The turn that was to answer panicked. What its supervision did then does not change this answer.
    #[error("{actor} panicked: {text}")]
    Panicked {
        /// The actor whose turn it was.
        actor: Identity,
        /// What the panic said.
        text: Arc<str>,
    },
    /// A function given to a combinator of the promise panicked.
    #[error("a callback of the promise panicked: {text}")]
    CallbackPanicked {
        /// What the panic said.
        text: Arc<str>,
    },
    /// The actor had stopped, or stopped before it answered. The message was not taken up, or its turn was cut short
    /// at one of its awaits.
    #[error("{actor} has stopped")]
    Stopped {
        /// The actor that is gone.
        actor: Identity,
    },
    /// The actor was restarted while the turn that was to answer was suspended.
    #[error("{actor} was restarted before it answered")]
    Restarted {
        /// The actor that goes on with a new state.
        actor: Identity,
    },
    /// The value could only come after the turn that waits for it has ended.
    #[error("deadlock: {cycle}; let a handler of the cycle take `cx: Cx<Self>` instead of `&mut self`")]
    Deadlock {
        /// The actors that wait for each other.
        cycle: Cycle,
    },
    /// Nothing came within the time given to [`Promise::timeout`](crate::Promise::timeout).
    #[error("no answer within {after:?}")]
    Timeout {
        /// The time given.
        after: Duration,
    },
    /// The bounded mailbox had no room. The message was not taken.
    #[error("the mailbox of {actor} is full ({capacity} messages)")]
    Full {
        /// The actor that is behind.
        actor: Identity,
        /// How many messages its mailbox holds.
        capacity: usize,
    },
    /// The transaction that the message belonged to was aborted, so the message was never sent.
    #[error("the transaction that the message belonged to was aborted")]
    Retracted,
    /// The [`Resolver`](crate::Resolver) was given up, or a race had no runner.
    #[error("nobody is left who could answer")]
    Abandoned,
}

/// Actors each of which waits for the next one, and the last for the first.
#[derive(Clone, PartialEq, Eq)]
pub struct Cycle(Arc<[Identity]>);

impl Cycle {
    pub(crate) fn new(actors: Vec<Identity>) -> Self {
        Self(actors.into())
    }

    /// The actors in order of waiting, beginning with the one whose wait was refused.
    #[must_use]
    pub fn actors(&self) -> &[Identity] {
        &self.0
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for actor in self.0.iter() {
            write!(f, "{actor} waits for ")?;
        }
        self.0.first().map_or(Ok(()), |first| write!(f, "{first}"))
    }
}

impl fmt::Debug for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// The end of an actor, as its watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The actor that is gone.
    pub actor: Identity,
    /// Why.
    pub reason: ExitReason,
}

/// Why an actor is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitReason {
    /// It was told to stop or to be killed, or stopped itself.
    Stopped,
    /// Its last handle was dropped and it had nothing left to do.
    Released,
    /// A turn panicked and its supervision ended it.
    Panicked {
        /// What the panic said.
        text: Arc<str>,
    },
    /// An actor it was linked to, or a child that escalated, failed.
    Failed {
        /// Whose failure it was.
        because_of: Identity,
    },
    /// Its system was shut down.
    Shutdown,
    /// The transaction that was to make it was aborted: it never ran.
    Retracted,
}

impl ExitReason {
    /// Whether links pass this end on: a failure, not an orderly stop.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Panicked { .. } | Self::Failed { .. })
    }
}

/// How much is kept of what a panic said, in bytes: one that quotes another's error, which quotes a third, can double at each
/// step.
const PANIC_TEXT_MAX: usize = 4096;

/// What a panic said, or the beginning of it; the payload of `panic!` is text, anything else is named as such.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> Arc<str> {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without text");
    if text.len() <= PANIC_TEXT_MAX {
        return text.into();
    }
    let end = (0..=PANIC_TEXT_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default();
    format!("{}...", &text[..end]).into()
}
