//! A run of an actor: turns in a row on one thread, until the budget is used up or there is nothing to do.
//!
//! [`ActorCell::next_step`] chooses what comes next, by the rules of [`cell`](super); [`ActorCell::run_steps`] does it.
use std::ops::RangeInclusive;

use enact_stm::hooks::Fate;
use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::choosing::Found;
use super::undecided::{Outlook, enter_tentatively, open_fate};
use super::{Activation, ActorCell, Signal};
use crate::deadlock::TurnId;
use crate::error::ExitReason;
use crate::mailbox::Rest;
use crate::mailbox::records::{Front, Guard};
use crate::mailbox::selective::SelectiveQueue;
use crate::turn::Begun;
use crate::{ActorError, scheduler};

/// So many messages at a time are a stream, and too few to be worth what it costs to fetch them.
pub(crate) const SHORT_BATCH: RangeInclusive<usize> = 4..=64;

/// What a run does after one step.
pub(super) enum Next {
    GoOn,
    /// The actor is gone.
    Ended,
}

/// What a run does next.
enum Step {
    /// The run is over.
    Stop,
    /// A look at what was undecided has changed what comes next.
    Decided(Next),
    /// A guard was asked, which counts as a turn, and another look is necessary.
    LookAgain,
    Obey(Signal),
    /// A suspended turn goes on before the messages.
    Resume(TurnId),
    /// The turn that holds the actor goes on.
    ResumeHeld,
    /// Messages that nothing has to be asked about.
    TakeUpFree,
    /// From here on, until nothing waits any more, guards choose among the messages.
    ReceiveSelectively,
    /// The first message waits for the transaction that it belongs to.
    WaitFor(Fate),
    /// The first message belongs to an open transaction.
    BeginTentatively(Fate),
    /// The transaction of the first message was rolled back.
    RefuseRetracted,
    Begin,
}

impl ActorCell {
    /// Takes turns until the budget or the batch is used up.
    pub(super) fn run_steps(self: &Arc<Self>, activation: &mut Activation, budget: &mut usize) -> Next {
        loop {
            let (next, is_turn) = match self.next_step(activation, budget) {
                Step::Stop => return Next::GoOn,
                Step::Decided(next) => (next, false),
                Step::LookAgain => (Next::GoOn, true),
                Step::Obey(signal) => (self.obey(activation, signal), false),
                Step::Resume(turn) => (self.resume(activation, turn), true),
                Step::ResumeHeld => (self.resume_held(activation), true),
                Step::TakeUpFree => (self.run_free(activation, budget), false),
                Step::ReceiveSelectively => {
                    activation.extras_mut().selective = Some(SelectiveQueue::new(false));
                    (Next::GoOn, false)
                }
                Step::WaitFor(fate) => {
                    self.wait_for(activation, fate, None);
                    (Next::GoOn, false)
                }
                Step::BeginTentatively(fate) => {
                    self.mailbox.make_room();
                    (self.begin_tentatively(activation, fate), true)
                }
                Step::RefuseRetracted => {
                    self.mailbox.make_room();
                    activation.batch.refuse_front(ActorError::Retracted);
                    (Next::GoOn, true)
                }
                Step::Begin => {
                    self.mailbox.make_room();
                    (self.begin_turn(activation), true)
                }
            };
            if matches!(next, Next::Ended) {
                return Next::Ended;
            }
            if is_turn {
                scheduler::spend_turn(budget);
            }
        }
    }

    fn next_step(self: &Arc<Self>, activation: &mut Activation, budget: &mut usize) -> Step {
        // R5, R6: the fate decides what the actor may do.
        if activation.undecided().is_some() {
            activation.lender.put_back();
            if let Outlook::Decided(next) = self.look_at_fate(activation) {
                return Step::Decided(next);
            }
        }
        if activation.has_called() {
            *budget = 0;
        }
        // Not before a look at the fate: the turn that has used the budget up may have begun the wait for it, or may have
        // been polled by a wake-up that was meant for it.
        if *budget == 0 {
            return Step::Stop;
        }
        // R4, R5.
        if !self.is_tentative(activation)
            && let Some(signal) = self.mailbox.next_signal()
        {
            return Step::Obey(signal);
        }
        // R7.
        if let Some(turn) = self.overtaking(activation) {
            return Step::Resume(turn);
        }
        // R2, R5, R6.
        if activation.is_held() || activation.undecided().is_some() {
            return if self.mailbox.take_wake_up() { Step::ResumeHeld } else { Step::Stop };
        }
        if activation.selective().is_none() {
            if activation.has_inner_callers() || activation.batch.front().is_some_and(|front| front.if_free().is_some())
            {
                return Step::TakeUpFree;
            }
        } else {
            match self.choose(activation) {
                Found::Message => {}
                Found::LookAgain => return Step::LookAgain,
                Found::Nothing => return Step::Stop,
                Found::End => return Step::Decided(Next::Ended),
            }
        }
        let Some(front) = activation.batch.front() else { return Step::Stop };
        if self.mailbox.is_signalled() {
            return Step::Decided(Next::GoOn);
        }
        if activation.selective().is_none() && front.operations.guard != Guard::None {
            return Step::ReceiveSelectively;
        }
        // R6, R7.
        if let Some(fate) = self.fate_before(front, activation.has_suspended()) {
            return Step::WaitFor(fate.clone());
        }
        // R5.
        if let Some(fate) = open_fate(front) {
            return Step::BeginTentatively(fate.clone());
        }
        let is_retracted = front.is_retracted() && !cfg!(planted = "take_up_the_retracted");
        if is_retracted { Step::RefuseRetracted } else { Step::Begin }
    }

    fn resume_held(self: &Arc<Self>, activation: &mut Activation) -> Next {
        activation.lender.put_back();
        match activation.take_held() {
            Some(turn) => self.poll_async_turn(activation, turn),
            None => Next::GoOn,
        }
    }

    /// Takes up what is at the front of the batch, as long as nothing has to be asked before: no turn holds the actor, and
    /// these messages have neither guards nor fates.
    pub(super) fn run_free(self: &Arc<Self>, activation: &mut Activation, budget: &mut usize) -> Next {
        while *budget > 0 && !activation.is_held() && !activation.has_called() && !self.mailbox.is_signalled() {
            let next = if activation.has_inner_callers() {
                self.run_beside_callers(activation, budget)
            } else if let Some(next) = self.take_up_free(activation, budget) {
                next
            } else {
                break;
            };
            if matches!(next, Next::Ended) {
                return Next::Ended;
            }
        }
        Next::GoOn
    }

    /// Takes up the first message of the batch, and perhaps others like it, if nothing has to be asked before.
    #[inline(always)]
    pub(super) fn take_up_free(self: &Arc<Self>, activation: &mut Activation, budget: &mut usize) -> Option<Next> {
        let (handler, kind) = activation.batch.front().and_then(Front::if_free)?;
        self.mailbox.make_room();
        let begun = self.begin_front(activation, handler, kind, budget);
        if let Begun::Ended = begun
            && !self.has_next.load(Ordering::Acquire)
        {
            self.announce_change();
            return Some(Next::GoOn);
        }
        Some(self.go_on_after(activation, handler, kind, begun))
    }

    /// Goes on, gives the run up, or ends the actor.
    pub(super) fn rest(self: &Arc<Self>, mut activation: Box<Activation>, mut budget: usize) {
        loop {
            if activation.has_inner_callers() && !cfg!(planted = "rest_beside_callers") {
                self.rest_beside_callers(&mut activation);
            }
            if let Some(extras) = &mut activation.extras {
                extras.callers.forget_call();
                extras.keep_little();
                if extras.can_go() {
                    activation.extras = None;
                }
            }
            match self.mailbox.rest(activation, budget > 0, || self.is_needed()) {
                Rest::GoOn(again) => {
                    activation = again;
                    let before = budget;
                    if matches!(self.run_steps(&mut activation, &mut budget), Next::Ended) {
                        return;
                    }
                    if SHORT_BATCH.contains(&(before - budget)) {
                        self.scheduler.let_messages_gather();
                    }
                }
                Rest::Idle => return,
                Rest::Again(activation) => return self.scheduler.schedule_behind(activation),
                Rest::Drained(mut activation) => return self.end(&mut activation, ExitReason::Stopped),
                Rest::Released(mut activation) => return self.end(&mut activation, ExitReason::Released),
            }
        }
    }

    /// Makes the first message of the batch a turn.
    pub(super) fn begin_turn(self: &Arc<Self>, activation: &mut Activation) -> Next {
        let Some(front) = activation.batch.front() else { return Next::GoOn };
        let (handler, kind) = (front.operations.handler, front.operations.kind);
        let _tentatively = enter_tentatively(activation);
        let begun = self.begin_front(activation, handler, kind, &mut 1);
        self.go_on_after(activation, handler, kind, begun)
    }
}
