//! An actor that waits for the fate of a transaction: with a tentative turn, before a message, or to begin at all.
use enact_sync::atomic::Ordering;
use std::task::{Poll, Waker};

use enact_stm::hooks::{Decision, Fate};
use enact_sync::unmodelled::Arc;

use super::state::Lender;
use super::task::TurnWaker;
use super::{ActorCell, Body, Entry, Next};
use crate::deadlock::{self, Owner, TurnId};
use crate::error::ExitReason;
use crate::tentative::Tentative;
use crate::turn::{Envelope, Panic, Turn, contain};
use crate::{Actor, ActorError, frame};

/// What an actor waits for before it takes anything else up.
pub(super) struct Undecided<A: Actor> {
    pub(super) fate: Fate,
    pub(super) waker: Arc<TurnWaker<A>>,
    /// The turn that the fate decides; without one, the message at the head of the batch.
    pub(super) turn: Option<TentativeTurn>,
}

pub(super) struct TentativeTurn {
    pub(super) tentative: Arc<Tentative>,
    /// Whether it will let go of the actor while it waits.
    pub(super) is_cooperative: bool,
    /// How it has ended, once it has.
    pub(super) ended: Option<Result<(), Panic>>,
}

/// What has become of the fate that an actor waits for.
pub(super) enum Outlook {
    Open,
    Decided(Next),
}

impl<A: Actor> ActorCell<A> {
    pub(super) fn is_tentative(&self, body: &Body<A>) -> bool {
        body.undecided.as_ref().is_some_and(|undecided| undecided.turn.is_some())
    }

    /// The next suspended turn that was woken, while the actor waits before a message.
    pub(super) fn overtaking(&self, body: &mut Body<A>) -> Option<TurnId> {
        if body.undecided.is_none() || body.cooperative.is_empty() {
            return None;
        }
        self.mailbox.take_more(&mut body.batch);
        let at = body.batch.iter().position(|entry| matches!(entry, Entry::Resume(_)))?;
        let Some(Entry::Resume(turn)) = body.batch.remove(at) else { return None };
        if self.mailbox.is_bounded() {
            self.mailbox.make_room();
        }
        Some(turn)
    }

    /// Holds the actor until `fate` is decided.
    pub(super) fn wait_for(self: &Arc<Self>, body: &mut Body<A>, fate: Fate, turn: Option<TentativeTurn>) -> TurnId {
        let id = TurnId::fresh();
        match turn {
            None => self.mailbox.hold_before_message(id),
            Some(_) => self.mailbox.hold_firmly(id),
        }
        body.undecided = Some(Undecided { fate, waker: TurnWaker::new(self, id, true), turn });
        id
    }

    /// Goes on if the fate that the actor waits for is decided; else it will be woken.
    pub(super) fn look_at_fate(self: &Arc<Self>, body: &mut Body<A>) -> Outlook {
        let Some(Undecided { fate, waker, .. }) = &body.undecided else { return Outlook::Open };
        if body.held.is_none() && !cfg!(plant = "wake_only_once") {
            // Nobody polls a turn that would do this.
            waker.woken.store(false, Ordering::Release);
        }
        let Poll::Ready(decision) = fate.poll(&Waker::from(Arc::clone(waker))) else { return Outlook::Open };
        let turn = body.undecided.take().and_then(|undecided| undecided.turn);
        Outlook::Decided(match (turn, decision) {
            (None, _) => {
                self.mailbox.unhold();
                Next::GoOn
            }
            (Some(turn), Decision::Committed) => self.go_on_definitively(body, turn),
            (Some(turn), Decision::Aborted) => {
                self.retract(body, &turn);
                Next::GoOn
            }
        })
    }

    /// Takes up a message of an open transaction.
    pub(super) fn begin_tentatively(
        self: &Arc<Self>,
        body: &mut Body<A>,
        lender: &mut Lender<A>,
        envelope: Envelope<A>,
        fate: Fate,
    ) -> Next {
        lender.put_back();
        let tentative = Tentative::new(fate.clone());
        let is_cooperative = matches!(envelope.turn, Turn::Cooperative(_));
        let turn = TentativeTurn { tentative, is_cooperative, ended: None };
        self.state.lock().copies_before_write = true;
        self.wait_for(body, fate, Some(turn));
        let next = self.begin_turn(body, lender, envelope);
        lender.put_back();
        next
    }

    /// The transaction that the turn belongs to has committed.
    pub(super) fn go_on_definitively(self: &Arc<Self>, body: &mut Body<A>, turn: TentativeTurn) -> Next {
        let original = self.state.lock().keep();
        let _dropped = contain(|| drop(original));
        turn.tentative.commit();
        if let Some(ended) = turn.ended {
            self.mailbox.unhold();
            self.begin_next();
            return self.after_turn(body, ended);
        }
        self.mailbox.obey_signals();
        // A turn that has asked for its actor's end does not go on after the await.
        while let Some(signal) = self.mailbox.next_signal() {
            if matches!(self.obey(body, signal), Next::Ended) {
                return Next::Ended;
            }
        }
        // Unless a restart has cut it short.
        let Some(task) = body.held.take() else { return Next::GoOn };
        if turn.is_cooperative {
            task.waker.holds.store(false, Ordering::Relaxed);
            self.mailbox.unhold();
            task.turn.now_owed_by(Owner::Turn(task.waker.turn, self.identity.id()));
        }
        // Polled whether it was woken or not: a wake-up may have gone to where the turn was held.
        self.poll_task(body, task)
    }

    /// The transaction that the turn belongs to was aborted: the turn has never been.
    pub(super) fn retract(&self, body: &mut Body<A>, turn: &TentativeTurn) {
        // What destructors do on the way has never been, either.
        let _tentatively = frame::enter_tentatively(Arc::clone(&turn.tentative));
        if let Some(task) = body.held.take() {
            deadlock::resume(task.waker.turn);
            task.turn.cut_short(ActorError::Retracted);
        }
        self.mailbox.unhold();
        turn.tentative.abort();
        let tried = self.state.lock().restore();
        if contain(|| drop(tried)).is_err() {
            tracing::error!(actor = %self.identity, "the destructor of a state that was taken back panicked");
        }
    }

    /// Keeps a new actor from taking anything up.
    pub(crate) fn hold_back(&self) {
        self.mailbox.hold_firmly(TurnId::fresh());
    }

    /// Lets an actor begin that was held back.
    pub(crate) fn let_go(self: &Arc<Self>) {
        self.mailbox.unhold();
        self.schedule(self.mailbox.nudge());
    }

    /// Ends an actor that was held back: nobody runs it, so this thread may.
    pub(crate) fn discard(self: &Arc<Self>, reason: ExitReason) {
        let mut body = self.mailbox.seize();
        self.end(&mut body, reason);
    }
}

/// Marks the turn that begins or goes on as tentative, if it is.
pub(super) fn enter_tentatively<A: Actor>(body: &Body<A>) -> Option<frame::Tentatively> {
    let turn = body.undecided.as_ref()?.turn.as_ref()?;
    Some(frame::enter_tentatively(Arc::clone(&turn.tentative)))
}
