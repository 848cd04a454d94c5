//! An actor that waits for the fate of a transaction: with a tentative turn, before a message, or to begin at all.
use std::task::{Poll, Waker};

use enact_stm::hooks::{Decision, Fate};
use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::waker::TurnWaker;
use super::{Activation, ActorCell, Next};
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
    pub(super) fn is_tentative(&self, activation: &Activation) -> bool {
        activation.undecided().is_some_and(|undecided| undecided.turn.is_some())
    }

    /// The next suspended turn that was woken, while the actor waits before a message.
    pub(super) fn overtaking(&self, activation: &mut Activation) -> Option<TurnId> {
        let Activation { extras: Some(extras), batch, .. } = activation else { return None };
        if extras.undecided.is_none() || extras.cooperative.is_empty() {
            return None;
        }
        self.mailbox.take_more(batch);
        let turn = match &mut extras.selective {
            Some(selective) => selective.take_resumption(batch)?,
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
    pub(super) fn wait_for(
        self: &Arc<Self>,
        activation: &mut Activation,
        fate: Fate,
        turn: Option<TentativeTurn>,
    ) -> TurnId {
        let id = TurnId::fresh();
        match turn {
            None => self.mailbox.hold_before_message(id),
            Some(_) => self.mailbox.hold_firmly(id),
        }
        activation.extras_mut().undecided = Some(Undecided { fate, waker: TurnWaker::new(self, id, true), turn });
        id
    }

    /// Goes on if the fate that the actor waits for is decided; else it will be woken.
    pub(super) fn look_at_fate(self: &Arc<Self>, activation: &mut Activation) -> Outlook {
        let Some(extras) = activation.extras.as_deref_mut() else { return Outlook::Open };
        let Some(Undecided { fate, waker, .. }) = &extras.undecided else { return Outlook::Open };
        if extras.held.is_none() && !cfg!(planted = "wake_only_once") {
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
            (Some(turn), Decision::Committed) => self.go_on_definitively(activation, turn),
            (Some(turn), Decision::Aborted) => {
                self.retract(activation, &turn);
                Next::GoOn
            }
        })
    }

    /// Takes up the first message of the batch, which belongs to an open transaction.
    pub(super) fn begin_tentatively(self: &Arc<Self>, activation: &mut Activation, fate: Fate) -> Next {
        activation.lender.copy_before_write();
        let tentative = Tentative::new(fate.clone());
        let is_cooperative = activation.batch.front().is_some_and(|front| front.operations.kind == Kind::Cooperative);
        let turn = TentativeTurn { tentative, is_cooperative, ended: None };
        self.wait_for(activation, fate, Some(turn));
        let next = self.begin_turn(activation);
        activation.lender.put_back();
        next
    }

    /// The transaction that the turn belongs to has committed.
    pub(super) fn go_on_definitively(self: &Arc<Self>, activation: &mut Activation, turn: TentativeTurn) -> Next {
        let original = activation.lender.keep();
        let _dropped = contain(|| drop(original));
        turn.tentative.commit();
        if let Some(ended) = turn.ended {
            self.mailbox.unhold();
            self.begin_next(&mut activation.lender);
            return self.after_turn(activation, ended);
        }
        self.mailbox.obey_signals();
        // A turn that has asked for its actor's end does not go on after the await.
        while let Some(signal) = self.mailbox.next_signal() {
            if matches!(self.obey(activation, signal), Next::Ended) {
                return Next::Ended;
            }
        }
        // Unless a restart has cut it short.
        let Some(mut async_turn) = activation.take_held() else { return Next::GoOn };
        if turn.is_cooperative {
            async_turn.is_held = false;
            async_turn.waker.holds.store(false, Ordering::Relaxed);
            self.mailbox.unhold();
        }
        // Polled whether it was woken or not: a wake-up may have gone to where the turn was held.
        self.poll_async_turn(activation, async_turn)
    }

    /// The transaction that the turn belongs to was aborted: the turn has never been.
    pub(super) fn retract(&self, activation: &mut Activation, turn: &TentativeTurn) {
        // What destructors do on the way has never been, either.
        let _tentatively = frame::enter_tentatively(Arc::clone(&turn.tentative));
        if let Some(mut async_turn) = activation.take_held() {
            drop(async_turn.waker.resume());
            async_turn.turn.as_mut().cut_short(ActorError::Retracted);
        }
        self.mailbox.unhold();
        turn.tentative.abort();
        let tried = activation.lender.restore();
        if contain(|| drop(tried)).is_err() {
            tracing::error!(actor = %self.identity, "the destructor of a state that was taken back panicked");
        }
    }
}

/// What a message depends on that is not decided.
#[inline]
pub(super) fn open_fate(message: Front<'_>) -> Option<&Fate> {
    message.open_fate().filter(|_| !cfg!(planted = "take_up_the_undecided"))
}

/// Marks the turn that begins or goes on as tentative, if it is.
pub(super) fn enter_tentatively(activation: &Activation) -> Option<frame::Tentatively> {
    let turn = activation.undecided()?.turn.as_ref()?;
    Some(frame::enter_tentatively(Arc::clone(&turn.tentative)))
}
