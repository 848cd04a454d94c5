//! An actor that waits for the fate of a transaction: with a tentative turn, before a message, or to begin at all.
use enact_sync::atomic::Ordering;
use std::task::{Poll, Waker};

use enact_stm::hooks::{Decision, Fate};
use enact_sync::unmodelled::Arc;

use super::waker::TurnWaker;
use super::{ActorCell, Body, Next};
use crate::deadlock::TurnId;
use crate::mailbox::records::{Front, Guard, Kind};
use crate::tentative::Tentative;
use crate::turn::{Panic, contain};
use crate::{ActorError, frame};

/// What an actor waits for before it takes anything else up.
pub(super) struct Undecided {
    pub(super) fate: Fate,
    pub(super) waker: Arc<TurnWaker>,
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

impl ActorCell {
    pub(super) fn is_tentative(&self, body: &Body) -> bool {
        body.undecided().is_some_and(|undecided| undecided.turn.is_some())
    }

    /// The next suspended turn that was woken, while the actor waits before a message.
    pub(super) fn overtaking(&self, body: &mut Body) -> Option<TurnId> {
        let Body { extras: Some(extras), batch, .. } = body else { return None };
        if extras.undecided.is_none() || extras.cooperative.is_empty() {
            return None;
        }
        self.mailbox.take_more(batch);
        let turn = match &mut extras.lanes {
            Some(lanes) => lanes.take_resumption(batch)?,
            None => batch.take_resumption()?,
        };
        self.mailbox.make_room();
        Some(turn)
    }

    /// What the actor waits for before it takes this message up, unless that is decided or it works ahead.
    pub(super) fn fate_before<'q>(&self, message: Front<'q>, has_suspended: bool) -> Option<&'q Fate> {
        let fate = open_fate(message)?;
        let works_ahead = self.state.can_be_copied() && !has_suspended && message.operations.guard == Guard::None;
        (!works_ahead).then_some(fate)
    }

    /// Holds the actor until `fate` is decided.
    pub(super) fn wait_for(self: &Arc<Self>, body: &mut Body, fate: Fate, turn: Option<TentativeTurn>) -> TurnId {
        let id = TurnId::fresh();
        match turn {
            None => self.mailbox.hold_before_message(id),
            Some(_) => self.mailbox.hold_firmly(id),
        }
        body.extras_mut().undecided = Some(Undecided { fate, waker: TurnWaker::new(self, id, true), turn });
        id
    }

    /// Goes on if the fate that the actor waits for is decided; else it will be woken.
    pub(super) fn look_at_fate(self: &Arc<Self>, body: &mut Body) -> Outlook {
        let Some(extras) = body.extras.as_deref_mut() else { return Outlook::Open };
        let Some(Undecided { fate, waker, .. }) = &extras.undecided else { return Outlook::Open };
        if extras.held.is_none() && !cfg!(plant = "wake_only_once") {
            // Nobody polls a turn that would do this.
            waker.woken.store(false, Ordering::Release);
        }
        let Poll::Ready(decision) = fate.poll(&Waker::from(Arc::clone(waker))) else { return Outlook::Open };
        let turn = extras.undecided.take().and_then(|undecided| undecided.turn);
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

    /// Takes up the first message of the batch, which belongs to an open transaction.
    pub(super) fn begin_tentatively(self: &Arc<Self>, body: &mut Body, fate: Fate) -> Next {
        body.lender.copy_before_write();
        let tentative = Tentative::new(fate.clone());
        let is_cooperative = body.batch.front().is_some_and(|front| front.operations.kind == Kind::Cooperative);
        let turn = TentativeTurn { tentative, is_cooperative, ended: None };
        self.wait_for(body, fate, Some(turn));
        let next = self.begin_turn(body);
        body.lender.put_back();
        next
    }

    /// The transaction that the turn belongs to has committed.
    pub(super) fn go_on_definitively(self: &Arc<Self>, body: &mut Body, turn: TentativeTurn) -> Next {
        let original = body.lender.keep();
        let _dropped = contain(|| drop(original));
        turn.tentative.commit();
        if let Some(ended) = turn.ended {
            self.mailbox.unhold();
            self.begin_next(&mut body.lender);
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
        let Some(mut task) = body.take_held() else { return Next::GoOn };
        if turn.is_cooperative {
            task.is_held = false;
            task.waker.holds.store(false, Ordering::Relaxed);
            self.mailbox.unhold();
        }
        // Polled whether it was woken or not: a wake-up may have gone to where the turn was held.
        self.poll_task(body, task)
    }

    /// The transaction that the turn belongs to was aborted: the turn has never been.
    pub(super) fn retract(&self, body: &mut Body, turn: &TentativeTurn) {
        // What destructors do on the way has never been, either.
        let _tentatively = frame::enter_tentatively(Arc::clone(&turn.tentative));
        if let Some(mut task) = body.take_held() {
            drop(task.waker.resume());
            task.turn.as_mut().cut_short(ActorError::Retracted);
        }
        self.mailbox.unhold();
        turn.tentative.abort();
        let tried = body.lender.restore();
        if contain(|| drop(tried)).is_err() {
            tracing::error!(actor = %self.identity, "the destructor of a state that was taken back panicked");
        }
    }
}

/// What a message depends on that is not decided.
#[inline]
pub(super) fn open_fate(message: Front<'_>) -> Option<&Fate> {
    message.open_fate().filter(|_| !cfg!(plant = "take_up_the_undecided"))
}

/// Marks the turn that begins or goes on as tentative, if it is.
pub(super) fn enter_tentatively(body: &Body) -> Option<frame::Tentatively> {
    let turn = body.undecided()?.turn.as_ref()?;
    Some(frame::enter_tentatively(Arc::clone(&turn.tentative)))
}
