//! Failures and what supervision makes of them, stops, and the end.
use std::collections::VecDeque;

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::extras::Extras;
use super::{ActorCell, Body, Next, Signal};
use crate::error::{Exit, ExitReason};
use crate::mailbox::lanes::Lanes;
use crate::spec::{OnPanic, Supervision};
use crate::turn::{Panic, contain};
use crate::{ActorError, Restarts};

impl ActorCell {
    #[inline]
    pub(super) fn after_turn(self: &Arc<Self>, body: &mut Body, ended: Result<(), Panic>) -> Next {
        match ended {
            Ok(()) => Next::GoOn,
            Err(panic) => self.after_panic(body, &panic),
        }
    }

    #[cold]
    fn after_panic(self: &Arc<Self>, body: &mut Body, panic: &Panic) -> Next {
        let text = Arc::clone(panic.text());
        tracing::error!(actor = %self.identity, text = &*text, "a turn panicked");
        self.fail(body, ExitReason::Panicked { text })
    }

    pub(super) fn obey(self: &Arc<Self>, body: &mut Body, signal: Signal) -> Next {
        body.lender.put_back();
        match signal {
            Signal::Stop(reason) => {
                self.end(body, reason);
                Next::Ended
            }
            Signal::ChildFailed(exit) => self.fail(body, ExitReason::Failed { because_of: exit.actor }),
        }
    }

    /// What supervision makes of a failure.
    pub(super) fn fail(self: &Arc<Self>, body: &mut Body, reason: ExitReason) -> Next {
        if self.restart(body) {
            return Next::GoOn;
        }
        match body.extras().map(|extras| extras.supervision.otherwise).unwrap_or_default() {
            OnPanic::Resume => return Next::GoOn,
            OnPanic::Stop => self.end(body, reason),
            OnPanic::Escalate => {
                let exit = Exit { actor: self.identity.clone(), reason: reason.clone() };
                let parent = body.extras().and_then(|extras| extras.parent.upgrade());
                self.end(body, reason);
                if let Some(parent) = parent {
                    parent.signal(Signal::ChildFailed(exit));
                }
            }
        }
        Next::Ended
    }

    /// Replaces the state, if it may be restarted once more and its maker does not panic.
    pub(super) fn restart(self: &Arc<Self>, body: &mut Body) -> bool {
        let Some(Extras { supervision: Supervision { restart: Some((limit, make)), .. }, restarts, .. }) =
            body.extras.as_deref_mut()
        else {
            return false;
        };
        if !admit_restart(*limit, restarts) {
            return false;
        }
        let Ok(state) = contain(make) else { return false };
        self.cut_short(body, &ActorError::Restarted { actor: self.identity.clone() });
        let timers = self.life.with_any(|rare| rare.timers.clone()).flatten();
        timers.into_iter().for_each(|timers| timers.cancel_all());
        let old = body.lender.replace(state);
        if let Some(lanes) = body.lanes_mut() {
            lanes.ask_again();
        }
        // A destructor that panics has no turn to fail.
        let _dropped = contain(|| drop(old));
        tracing::info!(actor = %self.identity, "restarted");
        true
    }

    /// Ends all turns under way with `error`.
    pub(super) fn cut_short(&self, body: &mut Body, error: &ActorError) {
        if let Some(extras) = body.extras.as_deref_mut() {
            let (callers, cooperative) = (extras.callers.take(), std::mem::take(&mut extras.cooperative));
            extras.undecided = None;
            self.has_suspended.store(false, Ordering::Relaxed);
            for mut task in extras.held.take().into_iter().chain(cooperative.into_values()) {
                drop(task.waker.resume());
                task.turn.as_mut().cut_short(error.clone());
            }
            for mut caller in callers {
                caller.as_mut().cut_short(error.clone());
            }
        }
        self.mailbox.unhold();
        drop(self.take_waiting());
    }

    /// Ends the actor. The caller owns the activation, which is never given up again.
    pub(super) fn end(self: &Arc<Self>, body: &mut Body, reason: ExitReason) {
        body.lender.put_back();
        let stopped = self.stopped();
        let queued = self.mailbox.close();
        self.cut_short(body, &stopped);
        let lanes = body.take_lanes().into_iter().flat_map(Lanes::into_queues);
        for mut records in lanes.chain([std::mem::take(&mut body.batch), queued]) {
            while !records.is_empty() {
                records.refuse_front(stopped.clone());
            }
        }
        let states = body.lender.take_all();
        if contain(|| drop(states)).is_err() {
            tracing::error!(actor = %self.identity, "the state's destructor panicked");
        }
        // The maker may own handles, its own among them.
        let extras = body.extras.take();
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
