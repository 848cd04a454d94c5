//! The calls that a worker follows.
//!
//! A cooperative turn that waits for the actor which is the next to run on its worker is not suspended: its *call*
//! stands on the worker's stack while that actor takes one turn (see `cell/callers.rs`). Nobody but the worker knows
//! that it may go on then, so a worker does nothing else before it has looked at the caller. If it is wanted for
//! something else, or if its thread blocks, it has all callers suspended first.
//!
//! Calls that are not answered cost a little more than without all this, so a worker that has met some does without for
//! a while.
use enact_sync::SpinLock;
use enact_sync::unmodelled::Arc;

use super::{Runnable, local};
use crate::cell::ActorCell;
use crate::deadlock::TurnId;

/// How many calls there are at a time: so many callers are suspended within a few milliseconds. In a model, so few that
/// some turns are suspended at once.
const CALLS_MAX: usize = if cfg!(enact_shuttle) { 2 } else { 16_384 };
/// How many turns are suspended at once for each call that was not answered.
const SKIPPED: usize = if cfg!(enact_shuttle) { 0 } else { 16 };

/// A turn that waits for what its worker runs next.
pub(crate) struct Call {
    caller: Arc<ActorCell>,
    turn: TurnId,
    /// Where the promise lies that it waits for.
    promise: usize,
    /// Whether the called actor has taken its turn.
    was_followed: bool,
}

#[derive(Default)]
pub(super) struct Calls {
    stack: Vec<Call>,
    skips: usize,
}

impl Calls {
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.stack.is_empty()
    }

    /// Adds a call of the actor in `slot`, if that is the one which is to keep the promise. Returns whether it
    /// did.
    pub(super) fn add(
        &mut self,
        slot: &SpinLock<Option<Runnable>>,
        caller: &Arc<ActorCell>,
        turn: TurnId,
        promise: usize,
    ) -> bool {
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        let is_next = slot.lock().as_ref().is_some_and(|called| called.is_called_for(promise));
        if is_next && self.stack.len() < CALLS_MAX {
            self.stack.push(Call { caller: Arc::clone(caller), turn, promise, was_followed: false });
            return true;
        }
        false
    }

    /// Takes the actor that the last call is of out of `slot`, unless it has had its turn, or another one is there.
    pub(super) fn take_called(&mut self, slot: &SpinLock<Option<Runnable>>) -> Option<Runnable> {
        let last = self.stack.last_mut()?;
        if std::mem::replace(&mut last.was_followed, true) {
            return None;
        }
        slot.lock().take_if(|called| called.is_called_for(last.promise))
    }

    /// The last call.
    pub(super) fn pop(&mut self) -> Option<Call> {
        self.stack.pop()
    }

    /// All calls.
    pub(super) fn take(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.stack)
    }

    fn skip(&mut self) {
        self.skips += SKIPPED;
    }
}

impl Call {
    /// Has the caller go on if it has its answer, or suspends it.
    pub(super) fn look(self) {
        if !self.caller.look_at_caller(self.turn) {
            local::with_core(|core, _| core.calls.skip());
        }
    }
}
