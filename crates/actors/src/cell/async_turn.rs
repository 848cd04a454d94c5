//! Asynchronous turns: polled, suspended, woken.
use std::pin::Pin;
use std::sync::atomic::fence;
use std::task::{Context, Poll};

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::undecided::enter_tentatively;
use super::waker::TurnWaker;
use super::{Activation, ActorCell, Next, in_turn_span};
use crate::deadlock::{Owner, TurnId};
use crate::frame::{self, Awaited, Polled};
use crate::turn::{Panic, Suspended};

/// An asynchronous turn under way.
pub(super) struct AsyncTurn {
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
        if self.waker.is_shared() && !cfg!(planted = "reuse_a_kept_waker") {
            return None;
        }
        // What was done with a waker before it was given back is over.
        fence(Ordering::Acquire);
        self.waker.begin(turn, holds);
        self.polled.begin(turn);
        Some(self)
    }
}

impl AsyncTurn {
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
        activation: &mut Activation,
        handler: &'static str,
        holds: bool,
        turn: Pin<Box<dyn Suspended>>,
    ) -> Next {
        let (Spare { waker, polled }, is_held) = match activation.undecided() {
            Some(undecided) => (Spare::of(Arc::clone(&undecided.waker)), true),
            None => (self.spare(activation, holds), false),
        };
        let polled = Some(polled);
        self.poll_async_turn(activation, AsyncTurn { turn, handler, waker, polled, is_held, has_waited: false })
    }

    /// What a turn is polled with that has not been polled yet.
    pub(super) fn spare(self: &Arc<Self>, activation: &mut Activation, holds: bool) -> Spare {
        let turn = TurnId::fresh();
        let kept = activation.take_spare().and_then(|spare| spare.reuse(turn, holds));
        kept.unwrap_or_else(|| Spare::of(TurnWaker::new(self, turn, holds)))
    }

    pub(super) fn resume(self: &Arc<Self>, activation: &mut Activation, turn: TurnId) -> Next {
        activation.lender.put_back();
        let cooperative = &mut activation.extras_mut().cooperative;
        match cooperative.remove(&turn) {
            Some(async_turn) => {
                let has_others = !cooperative.is_empty() || activation.has_outer_callers();
                self.has_suspended.store(has_others, Ordering::Relaxed);
                self.poll_async_turn(activation, async_turn)
            }
            None => self.resume_caller(activation, turn),
        }
    }

    /// Polls a turn, and keeps it if it goes on.
    pub(super) fn poll_async_turn(self: &Arc<Self>, activation: &mut Activation, mut async_turn: AsyncTurn) -> Next {
        let _tentatively = enter_tentatively(activation);
        loop {
            let begins_with = async_turn.polled.take();
            let was_suspended = begins_with.is_none();
            let (polled, verdict) = begins_with.map_or_else(|| async_turn.waker.resume(), |polled| (polled, None));
            if was_suspended || activation.undecided().is_some() {
                // Acquire: pairs with the wake-up whose poll this is. Release: the next one sees whether the turn holds
                // the actor.
                async_turn.waker.woken.swap(false, Ordering::AcqRel);
            }
            async_turn.waker.take_hold();
            let turn = async_turn.turn.as_mut();
            let outcome = async_turn.waker.poll_with(|waker| {
                frame::begin_poll(polled, waker, verdict);
                let poll = || turn.poll(&mut Context::from_waker(waker), &self.identity);
                in_turn_span(self, async_turn.handler, poll)
            });
            let polled = frame::end_poll();
            if let Poll::Ready(ended) = outcome {
                if async_turn.is_held && activation.undecided().is_none() {
                    self.mailbox.unhold();
                }
                activation.extras_mut().keep(Spare { waker: async_turn.waker, polled }, async_turn.turn);
                return self.turn_ended(activation, ended);
            }
            #[cfg(feature = "simulation")]
            if async_turn.waker.holds() && super::are_turns_traced() {
                self.scheduler.tape().suspend_turn(self.id());
            }
            let alone = if activation.undecided().is_none() { async_turn.waits_alone(&polled) } else { None };
            match alone {
                Some(_) if !async_turn.waker.holds() => {
                    self.call_or_suspend(activation, async_turn, polled);
                    return Next::GoOn;
                }
                Some(wait) if self.has_answered_here(wait) => {
                    async_turn.polled = Some(polled);
                    if async_turn.is_held {
                        self.mailbox.take_wake_up();
                    }
                    continue;
                }
                _ => {}
            }
            self.put_inner_callers_away(activation);
            if async_turn.waker.holds() {
                self.put_outer_callers_away(activation);
            }
            self.suspend(activation, async_turn, polled);
            return Next::GoOn;
        }
    }

    /// Has the actor that a held turn waits for, and for nothing else, answer on this thread, if it is the next one to run
    /// here. Returns whether the turn can go on.
    ///
    /// Then neither is put away and fetched again. Only that answer, and a signal, could end the turn's wait; a signal is
    /// obeyed when the other actor's turn has returned, which is soon, because that turn calls nobody synchronously. It
    /// may wait for others in turn: if they do not answer here, either, it is suspended, and then this one.
    fn has_answered_here(&self, wait: &Awaited) -> bool {
        wait.asked().is_some_and(|asked| self.scheduler.run_next_here(asked))
            && wait.is_over()
            && (!self.mailbox.is_signalled() || cfg!(planted = "go_on_against_a_signal"))
    }

    /// The code of a turn has ended. A tentative turn goes on until it is decided.
    #[inline]
    pub(super) fn turn_ended(self: &Arc<Self>, activation: &mut Activation, ended: Result<(), Panic>) -> Next {
        self.announce_change();
        let undecided = activation.extras.as_deref_mut().and_then(|extras| extras.undecided.as_mut());
        if let Some(turn) = undecided.and_then(|undecided| undecided.turn.as_mut()) {
            turn.ended = Some(ended);
            return Next::GoOn;
        }
        self.begin_next(&mut activation.lender);
        self.after_turn(activation, ended)
    }

    pub(super) fn suspend(&self, activation: &mut Activation, mut async_turn: AsyncTurn, mut polled: Box<Polled>) {
        polled.leave_waker(&async_turn.waker);
        if !async_turn.waker.holds() {
            self.begin_next(&mut activation.lender);
            if !std::mem::replace(&mut async_turn.has_waited, true) {
                // Until now the answer needed what any other message needs: the actor.
                async_turn.turn.as_mut().now_owed_by(Owner::Turn(async_turn.waker.own()));
            }
        } else if activation.undecided().is_none() && !std::mem::replace(&mut async_turn.is_held, true) {
            self.mailbox.hold(&async_turn.waker);
        }
        // A tentative turn is woken by its fate, too, and then looks again at everything else.
        let is_tentative =
            activation.undecided().is_some_and(|undecided| Arc::ptr_eq(&undecided.waker, &async_turn.waker));
        let outside = (!is_tentative && async_turn.waker.is_outside()).then(|| Arc::clone(&async_turn.waker));
        // A waker given back before we looked was used before that; the wake-up is then seen by the judge.
        fence(Ordering::Acquire);
        async_turn.waker.suspend(polled, is_tentative || outside.is_some());
        if async_turn.waker.holds() {
            activation.extras_mut().held = Some(async_turn);
        } else {
            self.has_suspended.store(true, Ordering::Relaxed);
            activation.extras_mut().cooperative.insert(async_turn.waker.turn(), async_turn);
        }
        if let Some(waker) = outside {
            waker.let_go();
        }
    }
}
