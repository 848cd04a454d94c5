//! What only some actors need, and which of the idle ones keep it.
//!
//! A turn that can wait leaves behind what it was polled with, for the actor's next one. Most of those never come: so many
//! actors keep it while they are idle, and any other gives it back when it comes to rest.
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

use enact_sync::global;
use enact_sync::unmodelled::{AtomicU64, Weak};

use super::ActorCell;
use super::async_turn::{AsyncTurn, Shell, Spare};
use super::callers::Callers;
use super::undecided::Undecided;
use crate::deadlock::TurnId;
use crate::identity::HashById;
use crate::mailbox::selective::SelectiveQueue;
use crate::spec::Supervision;

/// How many actors of the process may have extras before those that are idle give theirs back: some 16 MiB at most. In a
/// model, so few that some do.
const KEPT_MAX: u64 = if cfg!(enact_shuttle) { 1 } else { 4096 };

/// How many ended turns an actor keeps the memory of while others of its turns are suspended, and how many else. A
/// recursion ends many in a row, and begins as many.
const SPARES_MAX: usize = 128;
const SPARES_AT_REST: usize = 8;
/// How long a turn is at most whose memory is kept.
const SHELL_BYTES_MAX: usize = 512;

global! {
    /// How many actors of the process have extras.
    pub(crate) static COUNT: AtomicU64 = AtomicU64::new(0);
}

/// What an actor needs once a turn waits, a message has a priority or a guard, or a transaction is open, and for a
/// supervision other than the default.
pub(super) struct Extras {
    /// Where messages go from the batch if they have priorities or guards.
    pub(super) selective: Option<SelectiveQueue>,
    pub(super) held: Option<AsyncTurn>,
    pub(super) undecided: Option<Undecided>,
    /// What ended turns leave to the next ones; the last of each is in the cache still.
    pub(super) spares: Vec<Spare>,
    pub(super) shells: Vec<Shell>,
    pub(super) callers: Callers,
    pub(super) cooperative: HashMap<TurnId, AsyncTurn, HashById>,
    pub(super) supervision: Supervision,
    /// The actor that a failure escalates to.
    pub(super) parent: Weak<ActorCell>,
    pub(super) restarts: VecDeque<tokio::time::Instant>,
}

impl Default for Extras {
    fn default() -> Self {
        // Relaxed, here and below: it says how much memory is in use and nothing else.
        COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            selective: None,
            held: None,
            undecided: None,
            spares: Vec::new(),
            shells: Vec::new(),
            callers: Callers::default(),
            cooperative: HashMap::default(),
            supervision: Supervision::default(),
            parent: Weak::new(),
            restarts: VecDeque::new(),
        }
    }
}

impl Drop for Extras {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Extras {
    /// Keeps what a turn has left that has ended.
    pub(super) fn keep(&mut self, spare: Spare, shell: Shell) {
        self.keep_spare(spare);
        if self.shells.len() < SPARES_MAX && size_of_val(&*shell) <= SHELL_BYTES_MAX {
            self.shells.push(shell);
        }
    }

    /// As [`keep`](Self::keep), for a turn whose memory is still in use.
    #[inline]
    pub(super) fn keep_spare(&mut self, spare: Spare) {
        if self.spares.len() < SPARES_MAX {
            self.spares.push(spare);
        }
    }

    /// Gives most of what is kept back, unless turns are suspended.
    pub(super) fn keep_little(&mut self) {
        if self.cooperative.is_empty() && self.callers.are_none() {
            self.spares.truncate(SPARES_AT_REST);
            self.shells.truncate(SPARES_AT_REST);
        }
    }

    /// Whether an actor that comes to rest gives them back.
    pub(super) fn can_go(&self) -> bool {
        let is_needed = self.selective.is_some()
            || self.held.is_some()
            || self.undecided.is_some()
            || !self.callers.are_none()
            || !self.cooperative.is_empty()
            || !self.supervision.is_default();
        !is_needed && COUNT.load(Ordering::Relaxed) > KEPT_MAX
    }
}
