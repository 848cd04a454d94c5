//! Turns that wait for what their thread runs next.
//!
//! A cooperative turn that waits lets go of its actor, which takes other messages. If the next thing that its thread
//! runs is the message that the turn waits for, none of what a suspended turn has is needed: a waker of its own in the
//! promise, a wake-up in the mailbox, a place on its worker's list for the graph of waits. Such a turn is a *caller*.
//! It goes on when that message has been taken up and has been answered. The turn that answers may be a caller in turn:
//! callers lie on stacks, and each waits for the one above it, and the last one for the turn that runs. No stack of the
//! thread grows by that.
//!
//! * *Inner* callers have called their own actor. They lie with it, and it has them go on itself, also in later runs:
//!   as long as it has any it runs or is runnable.
//! * *Outer* callers have called the actor that is the next one on their worker, where their call (`scheduler/calls.rs`)
//!   stands on a stack. The worker has the called actor take one turn, and then looks at the caller, before it does
//!   anything else.
//!
//! # When the answer does not come
//! The turn that was to answer waits itself for something else, or hands its answer on. Then the callers are suspended
//! as all other turns are, from the last one on: each leaves its waker with its promise, or is woken if the answer has
//! come since.
//!
//! # Circles of waits
//! The graph of waits knows no callers, and need not: a caller waits for the turn that runs, over those above it. What
//! waits for a caller has it that the caller's actor owes the answer, and so finds the turn that holds that actor, if
//! one does. For that, an actor suspends its outer callers before it runs for anything else than a call of the same
//! worker, and before a turn holds it; and a thread that blocks suspends all that stand on its stack.
//!
//! # Fairness
//! An answered inner caller takes turns with the messages that wait. A worker follows calls as long as it would the
//! actors that were just sent to, and then suspends all callers if others wait.
use std::collections::VecDeque;
use std::mem;

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::async_turn::{AsyncTurn, Shell, Spare};
use super::counted::Running;
use super::{Activation, ActorCell, Next};
use crate::deadlock::TurnId;
use crate::frame::{self, Awaited, Polled};
use crate::mailbox::Schedule;
use crate::mailbox::records::Resumption;
use crate::scheduler;

/// How many inner callers there are before the longest waiting one is suspended: so many are suspended within a
/// fraction of a millisecond. In a model, so few that some are.
const CALLERS_MAX: usize = if cfg!(enact_shuttle) { 2 } else { 2048 };

/// The callers of an actor.
#[derive(Default)]
pub(super) struct Callers {
    inner: VecDeque<Caller>,
    /// How many inner ones there have ever been.
    count: u64,
    /// Whether one of them had the last turn.
    had_turn: bool,
    outer: Vec<(TurnId, Caller)>,
    /// The worker on whose stack the outer ones stand.
    worker: usize,
    /// Whether a turn of this run has become an outer one.
    has_called: bool,
}

struct Caller {
    turn: Shell,
    handler: &'static str,
    wait: Awaited,
    /// What the turn is polled with, if it was suspended before: others know it by that. Else the next turn has it.
    spare: Option<Spare>,
}

impl Callers {
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.inner.is_empty() && self.outer.is_empty()
    }

    /// The run is over in which a turn has become an outer one.
    #[inline]
    pub(super) fn forget_call(&mut self) {
        self.has_called = false;
    }

    /// All of them, which are to be cut short.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Shell> + use<> {
        let outer = mem::take(&mut self.outer).into_iter().map(|(_, caller)| caller);
        mem::take(&mut self.inner).into_iter().chain(outer).map(|caller| caller.turn)
    }
}

impl Activation {
    #[inline]
    pub(super) fn has_inner_callers(&self) -> bool {
        self.extras().is_some_and(|extras| !extras.callers.inner.is_empty())
    }

    #[inline]
    pub(super) fn has_outer_callers(&self) -> bool {
        self.extras().is_some_and(|extras| !extras.callers.outer.is_empty())
    }

    /// Whether a turn of this run has become an outer caller: what it has called comes next.
    #[inline]
    pub(super) fn has_called(&self) -> bool {
        self.extras().is_some_and(|extras| extras.callers.has_called)
    }

    /// Whether the last inner caller can go on.
    pub(super) fn has_answered_caller(&self) -> bool {
        let last = self.extras().and_then(|extras| extras.callers.inner.back());
        last.is_some_and(|caller| caller.wait.is_over())
    }

    /// Whether the actor can take a turn of this promise, and nothing is to be asked before.
    pub(crate) fn is_called_for(&self, promise: usize) -> bool {
        let is_free =
            self.selective().is_none() && !self.is_held() && self.undecided().is_none() && !self.has_inner_callers();
        is_free && self.batch.free_front_promise() == Some(promise)
    }

    /// How many inner callers there have ever been, if there are any.
    fn last_caller(&self) -> Option<u64> {
        let callers = &self.extras()?.callers;
        if callers.inner.is_empty() { None } else { Some(callers.count) }
    }

    /// The last inner caller, if it has its answer and no message is to come before it.
    fn take_answered_caller(&mut self) -> Option<Caller> {
        let is_behind_message = !self.batch.is_empty();
        if !self.has_answered_caller() {
            return None;
        }
        let callers = &mut self.extras.as_mut()?.callers;
        callers.had_turn = !(callers.had_turn && is_behind_message);
        if callers.had_turn { callers.inner.pop_back() } else { None }
    }

    /// Whether this turn is an outer caller.
    pub(crate) fn has_outer_caller(&self, turn: TurnId) -> bool {
        self.extras().is_some_and(|extras| extras.callers.outer.iter().rev().any(|(known, _)| *known == turn))
    }

    /// Runs one turn, for a call of this worker.
    pub(crate) fn take_called_turn(mut self: Box<Self>, worker: usize) {
        let cell = Running::of(&self);
        frame::run_turns(&cell, || {
            if self.extras().is_some_and(|extras| extras.callers.worker != worker) {
                cell.put_outer_callers_away(&mut self);
            }
            if matches!(cell.run_steps(&mut self, &mut 1), Next::GoOn) {
                cell.rest(self, 0);
            }
        });
    }

    /// Has an outer caller go on if it has its answer, or suspends it; which of the two.
    pub(crate) fn look_at_caller(mut self: Box<Self>, turn: TurnId) -> bool {
        let cell = Running::of(&self);
        frame::run_turns(&cell, || {
            let Some(caller) = self.take_outer_caller(turn) else {
                cell.rest(self, 0);
                return true;
            };
            let is_answered = caller.wait.is_over();
            if matches!(cell.go_on_or_suspend(&mut self, caller), Next::GoOn) {
                cell.rest(self, 0);
            }
            is_answered
        })
    }

    fn take_outer_caller(&mut self, turn: TurnId) -> Option<Caller> {
        let outer = &mut self.extras.as_mut()?.callers.outer;
        let at = outer.iter().rposition(|(known, _)| *known == turn)?;
        Some(outer.remove(at).1)
    }
}

impl ActorCell {
    /// Makes a cooperative turn that waits for one promise a caller, or suspends it.
    pub(super) fn call_or_suspend(
        self: &Arc<Self>,
        activation: &mut Activation,
        async_turn: AsyncTurn,
        mut polled: Box<Polled>,
    ) {
        let Some(wait) = polled.waits().only() else {
            return self.suspend_beside_callers(activation, async_turn, polled);
        };
        let (turn, promise) = (async_turn.waker.turn(), wait.promise());
        // A message that was sent by this turn is behind those of the batch.
        let may_be_inner =
            wait.asked() == Some(self.id()) && activation.batch.is_empty() && activation.selective().is_none();
        let worker = if may_be_inner { None } else { self.scheduler.call_next(self, turn, promise) };
        if !may_be_inner && worker.is_none() {
            return self.suspend_beside_callers(activation, async_turn, polled);
        }
        let Some(wait) = polled.take_only() else { return };
        self.begin_next(&mut activation.lender);
        if worker.is_some() {
            // Those wait for this turn, which does not answer them.
            self.put_inner_callers_away(activation);
        }
        let AsyncTurn { turn: code, handler, waker, has_waited, .. } = async_turn;
        let spare = Spare { waker, polled };
        let extras = activation.extras_mut();
        let spare = if has_waited {
            Some(spare)
        } else {
            extras.keep_spare(spare);
            None
        };
        let caller = Caller { turn: code, handler, wait, spare };
        if let Some(worker) = worker {
            extras.callers.worker = worker;
            extras.callers.has_called = true;
            extras.callers.outer.push((turn, caller));
            self.has_suspended.store(true, Ordering::Relaxed);
        } else {
            self.add_inner_caller(activation, caller);
        }
    }

    fn add_inner_caller(self: &Arc<Self>, activation: &mut Activation, caller: Caller) {
        let Callers { inner, count, .. } = &mut activation.extras_mut().callers;
        inner.push_back(caller);
        *count += 1;
        if inner.len() > CALLERS_MAX
            && let Some(first) = inner.pop_front()
        {
            self.put_away(activation, first);
        }
    }

    /// Suspends a turn, and the callers that wait for it.
    fn suspend_beside_callers(
        self: &Arc<Self>,
        activation: &mut Activation,
        async_turn: AsyncTurn,
        polled: Box<Polled>,
    ) {
        self.put_inner_callers_away(activation);
        self.suspend(activation, async_turn, polled);
    }

    /// Has the last inner caller go on, or takes up the next message. Suspends all inner callers if the last one has
    /// not called for that.
    pub(super) fn run_beside_callers(self: &Arc<Self>, activation: &mut Activation, budget: &mut usize) -> Next {
        let answered = activation.take_answered_caller();
        let last = activation.last_caller();
        let next = match answered {
            Some(caller) => {
                scheduler::spend_turn(budget);
                Some(self.go_on(activation, caller))
            }
            None if activation.has_answered_caller() || self.is_called(activation) => {
                self.take_up_free(activation, budget)
            }
            None => None,
        };
        let is_over =
            next.is_none() || (last.is_some() && activation.last_caller() == last && !activation.has_answered_caller());
        if is_over {
            self.put_inner_callers_away(activation);
        }
        next.unwrap_or(Next::GoOn)
    }

    /// Whether the next message is what the last inner caller waits for.
    fn is_called(&self, activation: &mut Activation) -> bool {
        if activation.batch.is_empty() {
            self.mailbox.take_more(&mut activation.batch);
        }
        let last = activation.extras().and_then(|extras| extras.callers.inner.back());
        last.is_some_and(|caller| activation.batch.free_front_promise() == Some(caller.wait.promise()))
    }

    /// Suspends all inner callers unless the actor has something to do.
    pub(super) fn rest_beside_callers(self: &Arc<Self>, activation: &mut Activation) {
        if activation.batch.is_empty() && !activation.has_answered_caller() {
            self.mailbox.take_more(&mut activation.batch);
            if activation.batch.is_empty() {
                self.put_inner_callers_away(activation);
            }
        }
    }

    /// Suspends all inner callers.
    #[inline]
    pub(super) fn put_inner_callers_away(self: &Arc<Self>, activation: &mut Activation) {
        if activation.has_inner_callers() {
            let inner = mem::take(&mut activation.extras_mut().callers.inner);
            inner.into_iter().for_each(|caller| self.put_away(activation, caller));
        }
    }

    /// Suspends all outer callers.
    #[inline]
    pub(super) fn put_outer_callers_away(self: &Arc<Self>, activation: &mut Activation) {
        if activation.has_outer_callers() {
            let outer = mem::take(&mut activation.extras_mut().callers.outer);
            outer.into_iter().for_each(|(_, caller)| self.put_away(activation, caller));
        }
    }

    /// As [`Activation::look_at_caller`], whether the actor is idle or not.
    pub(crate) fn look_at_caller(&self, turn: TurnId) -> bool {
        if let Some(activation) = self.mailbox.claim_for_caller(turn) {
            return activation.look_at_caller(turn);
        }
        if cfg!(planted = "overlook_a_caller") {
            return true;
        }
        self.schedule(self.mailbox.push_resumption(Resumption(turn)).unwrap_or(Schedule(None)));
        true
    }

    /// Goes on with a turn that was woken and is not suspended: an outer caller, or one that is no more.
    pub(super) fn resume_caller(self: &Arc<Self>, activation: &mut Activation, turn: TurnId) -> Next {
        match activation.take_outer_caller(turn) {
            Some(caller) => self.go_on_or_suspend(activation, caller),
            // It has ended in the poll in which it was woken, or was cut short by a restart.
            None => Next::GoOn,
        }
    }

    fn go_on_or_suspend(self: &Arc<Self>, activation: &mut Activation, caller: Caller) -> Next {
        self.has_suspended.store(activation.has_suspended(), Ordering::Relaxed);
        if caller.wait.is_over() {
            return self.go_on(activation, caller);
        }
        self.put_away(activation, caller);
        Next::GoOn
    }

    fn go_on(self: &Arc<Self>, activation: &mut Activation, caller: Caller) -> Next {
        activation.lender.put_back();
        let (mut async_turn, polled, _answered) = self.unpack(activation, caller);
        async_turn.polled = Some(polled);
        self.poll_async_turn(activation, async_turn)
    }

    fn put_away(self: &Arc<Self>, activation: &mut Activation, caller: Caller) {
        let (async_turn, mut polled, wait) = self.unpack(activation, caller);
        polled.wait_for(wait);
        self.suspend(activation, async_turn, polled);
    }

    fn unpack(self: &Arc<Self>, activation: &mut Activation, caller: Caller) -> (AsyncTurn, Box<Polled>, Awaited) {
        let Caller { turn, handler, wait, spare } = caller;
        let has_waited = spare.is_some();
        let Spare { waker, polled } = spare.unwrap_or_else(|| self.spare(activation, false));
        (AsyncTurn { turn, handler, waker, polled: None, is_held: false, has_waited }, polled, wait)
    }
}
