//! The turns that have suspended on one worker, on their way into the graph of waits.
use std::mem;
use std::time::{Duration, Instant};

use enact_sync::unmodelled::{Arc, Weak};

use crate::cell::TurnWaker;

/// How long a turn waits at least before a busy worker enters it, and at most twice as long plus one look at the clock: long
/// for an answer, and short for a wait that never ends.
const PATIENCE: Duration = Duration::from_millis(5);
/// How many turns are listed before those that have ended are taken off.
const LISTED_MIN: usize = 256;

#[derive(Default)]
pub(super) struct Waiting {
    turns: Vec<Weak<TurnWaker>>,
    /// How many were left when the ended ones were taken off.
    left: usize,
    /// When those were last looked through.
    since: Option<Instant>,
}

impl Waiting {
    #[inline]
    pub(super) fn add(&mut self, turn: &Arc<TurnWaker>) {
        if self.turns.len() >= LISTED_MIN.max(2 * self.left) {
            self.take_ended_off();
        }
        self.turns.push(Arc::downgrade(turn));
    }

    #[cold]
    fn take_ended_off(&mut self) {
        self.turns.retain(|turn| turn.strong_count() > 0);
        self.left = self.turns.len();
    }

    /// All that are listed, to be entered.
    pub(super) fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Enters those that are still suspended.
    pub(super) fn enter(self) {
        self.turns.iter().filter_map(Weak::upgrade).for_each(|turn| turn.enter());
    }

    /// Enters those that have been suspended for a while.
    pub(super) fn enter_patient(&mut self, now: Instant) {
        if self.turns.is_empty() || now - *self.since.get_or_insert(now) < PATIENCE {
            return;
        }
        self.since = Some(now);
        self.turns.retain(|turn| turn.upgrade().is_some_and(|turn| turn.enter_later()));
    }
}
