//! Asynchronous turns: polled, suspended, woken.
use std::pin::Pin;
use std::sync::atomic::fence;
use std::task::{Context, Poll};

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::undecided::enter_tentatively;
use super::waker::TurnWaker;
use super::{ActorCell, Body, Next, in_turn_span};
use crate::deadlock::{Owner, TurnId};
use crate::frame::{self, Awaited, Polled};
use crate::turn::{Panic, Suspended};

/// An asynchronous turn under way.
pub(super) struct Task {
    pub(super) turn: Pin<Box<dyn Suspended>>,
    pub(super) handler: &'static str,
    pub(super) waker: Arc<TurnWaker>,
    /// What the next poll is done with, unless the turn is suspended.
    pub(super) polled: Option<Box<Polled>>,
    /// Whether the mailbox knows that it holds the actor.
    pub(super) is_held: bool,
    /// Whether it has ever been suspended.
    pub(super) has_waited: bool,
}

/// A turn that has ended, whose memory another one of the same handler can have.
pub(super) type Shell = Pin<Box<dyn Suspended>>;

/// What a turn was polled with that has ended: for the next one.
pub(super) struct Spare {
    pub(super) waker: Arc<TurnWaker>,
    pub(super) polled: Box<Polled>,
}

impl Spare {
    fn of(waker: Arc<TurnWaker>) -> Self {
        let mut polled = Box::<Polled>::default();
        polled.begin(waker.turn());
        Self { waker, polled }
    }

    /// Makes it the next turn's, unless somebody still keeps a waker of the last one.
    fn reuse(mut self, turn: TurnId, holds: bool) -> Option<Self> {
        if self.waker.is_shared() && !cfg!(plant = "reuse_a_kept_waker") {
            return None;
        }
        // What was done with a waker before it was given back is over.
        fence(Ordering::Acquire);
        self.waker.begin(turn, holds);
        self.polled.begin(turn);
        Some(self)
    }
}

impl Task {
    /// What the turn waits for, if it is one promise and nothing else could end the wait.
    fn waits_alone<'p>(&self, polled: &'p Polled) -> Option<&'p Awaited> {
        // Anything else that keeps a waker could end the wait before.
        if self.waker.is_shared() {
            return None;
        }
        // A waker that was given back has been used before; from here on nobody has one.
        fence(Ordering::Acquire);
        if self.waker.is_woken() { None } else { polled.waits().only() }
    }
}

impl ActorCell {
    pub(super) fn begin_task(
        self: &Arc<Self>,
        body: &mut Body,
        handler: &'static str,
        holds: bool,
        turn: Pin<Box<dyn Suspended>>,
    ) -> Next {
        let (Spare { waker, polled }, is_held) = match body.undecided() {
            Some(undecided) => (Spare::of(Arc::clone(&undecided.waker)), true),
            None => (self.spare(body, holds), false),
        };
        let polled = Some(polled);
        self.poll_task(body, Task { turn, handler, waker, polled, is_held, has_waited: false })
    }

    /// What a turn is polled with that has not been polled yet.
    pub(super) fn spare(self: &Arc<Self>, body: &mut Body, holds: bool) -> Spare {
        let turn = TurnId::fresh();
        let kept = body.take_spare().and_then(|spare| spare.reuse(turn, holds));
        kept.unwrap_or_else(|| Spare::of(TurnWaker::new(self, turn, holds)))
    }

    pub(super) fn resume(self: &Arc<Self>, body: &mut Body, turn: TurnId) -> Next {
        body.lender.put_back();
        let cooperative = &mut body.extras_mut().cooperative;
        match cooperative.remove(&turn) {
            Some(task) => {
                let has_others = !cooperative.is_empty() || body.has_outer_callers();
                self.has_suspended.store(has_others, Ordering::Relaxed);
                self.poll_task(body, task)
            }
            None => self.resume_caller(body, turn),
        }
    }

    /// Polls a turn, and keeps it if it goes on.
    pub(super) fn poll_task(self: &Arc<Self>, body: &mut Body, mut task: Task) -> Next {
        let _tentatively = enter_tentatively(body);
        loop {
            let begins_with = task.polled.take();
            let was_suspended = begins_with.is_none();
            let (polled, verdict) = begins_with.map_or_else(|| task.waker.resume(), |polled| (polled, None));
            if was_suspended || body.undecided().is_some() {
                // Acquire: pairs with the wake-up whose poll this is. Release: the next one sees whether the turn holds the
                // actor.
                task.waker.woken.swap(false, Ordering::AcqRel);
            }
            task.waker.take_hold();
            let turn = task.turn.as_mut();
            let outcome = task.waker.poll_with(|waker| {
                frame::begin_poll(polled, waker, verdict);
                let poll = || turn.poll(&mut Context::from_waker(waker), &self.identity);
                in_turn_span(&self.identity, task.handler, poll)
            });
            let polled = frame::end_poll();
            if let Poll::Ready(ended) = outcome {
                if task.is_held && body.undecided().is_none() {
                    self.mailbox.unhold();
                }
                body.extras_mut().keep(Spare { waker: task.waker, polled }, task.turn);
                return self.turn_ended(body, ended);
            }
            let alone = if body.undecided().is_none() { task.waits_alone(&polled) } else { None };
            match alone {
                Some(_) if !task.waker.holds() => {
                    self.call_or_suspend(body, task, polled);
                    return Next::GoOn;
                }
                Some(wait) if self.has_answered_here(wait) => {
                    task.polled = Some(polled);
                    if task.is_held {
                        self.mailbox.take_wake_up();
                    }
                    continue;
                }
                _ => {}
            }
            self.put_inner_callers_away(body);
            if task.waker.holds() {
                self.put_outer_callers_away(body);
            }
            self.suspend(body, task, polled);
            return Next::GoOn;
        }
    }

    /// Has the actor that a held turn waits for, and for nothing else, answer on this thread, if it is the next one to run
    /// here. Returns whether the turn can go on.
    ///
    /// Then neither is put away and fetched again. Only that answer, and a signal, could end the turn's wait; a signal is
    /// obeyed when the other actor's turn has returned, which is soon, because that turn calls nobody synchronously. It may
    /// wait for others in turn: if they do not answer here, either, it is suspended, and then this one.
    fn has_answered_here(&self, wait: &Awaited) -> bool {
        wait.asked().is_some_and(|asked| self.scheduler.run_next_here(asked))
            && wait.is_over()
            && (!self.mailbox.is_signalled() || cfg!(plant = "go_on_against_a_signal"))
    }

    /// The code of a turn has ended. A tentative turn goes on until it is decided.
    #[inline]
    pub(super) fn turn_ended(self: &Arc<Self>, body: &mut Body, ended: Result<(), Panic>) -> Next {
        self.announce_change();
        let undecided = body.extras.as_deref_mut().and_then(|extras| extras.undecided.as_mut());
        if let Some(turn) = undecided.and_then(|undecided| undecided.turn.as_mut()) {
            turn.ended = Some(ended);
            return Next::GoOn;
        }
        self.begin_next(&mut body.lender);
        self.after_turn(body, ended)
    }

    pub(super) fn suspend(&self, body: &mut Body, mut task: Task, mut polled: Box<Polled>) {
        polled.leave_waker(&task.waker);
        if !task.waker.holds() {
            self.begin_next(&mut body.lender);
            if !std::mem::replace(&mut task.has_waited, true) {
                // Until now the answer needed what any other message needs: the actor.
                task.turn.as_mut().now_owed_by(Owner::Turn(task.waker.own()));
            }
        } else if body.undecided().is_none() && !std::mem::replace(&mut task.is_held, true) {
            self.mailbox.hold(&task.waker);
        }
        // A tentative turn is woken by its fate, too, and then looks again at everything else.
        let is_tentative = body.undecided().is_some_and(|undecided| Arc::ptr_eq(&undecided.waker, &task.waker));
        let outside = (!is_tentative && task.waker.is_outside()).then(|| Arc::clone(&task.waker));
        // A waker given back before we looked was used before that; the wake-up is then seen by the judge.
        fence(Ordering::Acquire);
        task.waker.suspend(polled, is_tentative || outside.is_some());
        if task.waker.holds() {
            body.extras_mut().held = Some(task);
        } else {
            self.has_suspended.store(true, Ordering::Relaxed);
            body.extras_mut().cooperative.insert(task.waker.turn(), task);
        }
        if let Some(waker) = outside {
            waker.let_go();
        }
    }
}
