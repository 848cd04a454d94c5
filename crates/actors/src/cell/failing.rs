//! Failures and what supervision makes of them, stops, and the end.
use std::collections::VecDeque;

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::extras::Extras;
use super::{Activation, ActorCell, Next, Signal};
use crate::error::{Exit, ExitReason};
use crate::mailbox::selective::SelectiveQueue;
use crate::spec::{OnPanic, Supervision};
use crate::turn::{Panic, contain};
use crate::{ActorError, Restarts};

impl ActorCell {
    #[inline]
    pub(super) fn after_turn(self: &Arc<Self>, activation: &mut Activation, ended: Result<(), Panic>) -> Next {
        match ended {
            Ok(()) => Next::GoOn,
            Err(panic) => self.after_panic(activation, &panic),
        }
    }

    #[cold]
    fn after_panic(self: &Arc<Self>, activation: &mut Activation, panic: &Panic) -> Next {
        let text = Arc::clone(panic.text());
        tracing::error!(actor = %self.identity, text = &*text, "a turn panicked");
        self.fail(activation, ExitReason::Panicked { text })
    }

    pub(super) fn obey(self: &Arc<Self>, activation: &mut Activation, signal: Signal) -> Next {
        activation.lender.put_back();
        match signal {
            Signal::Stop(reason) => {
                self.end(activation, reason);
                Next::Ended
            }
            Signal::ChildFailed(exit) => self.fail(activation, ExitReason::Failed { because_of: exit.actor }),
        }
    }

    /// What supervision makes of a failure.
    pub(super) fn fail(self: &Arc<Self>, activation: &mut Activation, reason: ExitReason) -> Next {
        if self.restart(activation) {
            return Next::GoOn;
        }
        match activation.extras().map(|extras| extras.supervision.otherwise).unwrap_or_default() {
            OnPanic::Resume => return Next::GoOn,
            OnPanic::Stop => self.end(activation, reason),
            OnPanic::Escalate => {
                let exit = Exit { actor: self.identity.clone(), reason: reason.clone() };
                let parent = activation.extras().and_then(|extras| extras.parent.upgrade());
                self.end(activation, reason);
                if let Some(parent) = parent {
                    parent.signal(Signal::ChildFailed(exit));
                }
            }
        }
        Next::Ended
    }

    /// Replaces the state, if it may be restarted once more and its maker does not panic.
    pub(super) fn restart(self: &Arc<Self>, activation: &mut Activation) -> bool {
        let Some(Extras { supervision: Supervision { restart: Some((limit, make)), .. }, restarts, .. }) =
            activation.extras.as_deref_mut()
        else {
            return false;
        };
        if !admit_restart(*limit, restarts) {
            return false;
        }
        let Ok(state) = contain(make) else { return false };
        self.cut_short(activation, &ActorError::Restarted { actor: self.identity.clone() });
        let timers = self.life.with_any(|rare| rare.timers.clone()).flatten();
        timers.into_iter().for_each(|timers| timers.cancel_all());
        let old = activation.lender.replace(state);
        if let Some(selective) = activation.selective_mut() {
            selective.ask_again();
        }
        // A destructor that panics has no turn to fail.
        let _dropped = contain(|| drop(old));
        tracing::info!(actor = %self.identity, "restarted");
        true
    }

    /// Ends all turns under way with `error`.
    pub(super) fn cut_short(&self, activation: &mut Activation, error: &ActorError) {
        if let Some(extras) = activation.extras.as_deref_mut() {
            let (callers, cooperative) = (extras.callers.take(), std::mem::take(&mut extras.cooperative));
            extras.undecided = None;
            self.has_suspended.store(false, Ordering::Relaxed);
            for mut async_turn in extras.held.take().into_iter().chain(cooperative.into_values()) {
                drop(async_turn.waker.resume());
                async_turn.turn.as_mut().cut_short(error.clone());
            }
            for mut caller in callers {
                caller.as_mut().cut_short(error.clone());
            }
        }
        self.mailbox.unhold();
        drop(self.take_waiting());
    }

    /// Ends the actor. The caller owns the run, which is never given up again.
    pub(super) fn end(self: &Arc<Self>, activation: &mut Activation, reason: ExitReason) {
        activation.lender.put_back();
        let stopped = self.stopped();
        let queued = self.mailbox.close();
        self.cut_short(activation, &stopped);
        let selective = activation.take_selective().into_iter().flat_map(SelectiveQueue::into_queues);
        for mut records in selective.chain([std::mem::take(&mut activation.batch), queued]) {
            while !records.is_empty() {
                records.refuse_front(stopped.clone());
            }
        }
        let states = activation.lender.take_all();
        if contain(|| drop(states)).is_err() {
            tracing::error!(actor = %self.identity, "the state's destructor panicked");
        }
        // The maker may own handles, its own among them.
        let extras = activation.extras.take();
        if contain(|| drop(extras)).is_err() {
            tracing::error!(actor = %self.identity, "the destructor of the state's maker panicked");
        }
        self.end_life(reason);
        self.scheduler.forget(self);
    }
}

impl Drop for ActorCell {
    fn drop(&mut self) {
        // It was to begin with a transaction, or when a turn is definitive, and nobody is left to decide that.
        if !self.life.has_ended() {
            self.end_life(ExitReason::Released);
            self.scheduler.forget(self);
        }
    }
}

/// Whether one more restart is within the limit; counts it if so.
fn admit_restart(limit: Restarts, past: &mut VecDeque<tokio::time::Instant>) -> bool {
    let now = tokio::time::Instant::now();
    let is_old = |at: &tokio::time::Instant| now.duration_since(*at) > limit.within;
    while past.front().is_some_and(is_old) {
        past.pop_front();
    }
    let admitted = past.len() < limit.count;
    if admitted {
        past.push_back(now);
    }
    admitted
}
