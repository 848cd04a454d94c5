//! An actor from the inside: mailbox, state, suspended turns, and the loop that runs them.
//!
//! # Who may touch what
//! * `mailbox` - anybody; it decides who runs (see there).
//! * the activation - the thread that has it: it lies in the mailbox while the actor is idle, then in a run queue, then
//!   with its runner.
//! * `state` - the turn that runs, through a [`Lease`](crate::turn::Lease) that puts it back when dropped; if it is not
//!   there, a turn has it, or the activation for the next plain one. What replaces it later is left there by the turn
//!   that decides so, and put in place between two turns.
//! * `life` - turns, timers and other actors, behind a short lock of its own.
//!
//! # Rules
//! A turn:
//! * **R1** Only the thread that has the activation takes a message up, and only while no turn holds the actor.
//! * **R2** A held turn owns the state across its suspensions. While it waits, only signals and its own wake-up make the
//!   actor runnable.
//! * **R3** A cooperative turn owns nothing. When it is woken, its resumption is a message at the back of the mailbox.
//! * **R4** A signal comes before all messages, and after the turn that the actor is in.
//!
//! A message of an open transaction:
//! * **R5** An actor that can be copied takes the message up as a [tentative](crate::tentative) turn, and then nothing else
//!   before the transaction is decided: the actor is held, whatever the kind of the turn, and also after its code has
//!   ended. Signals wait, too, because the actor is in that turn.
//! * **R6** Any other actor is held before the message, which stays at the head of the mailbox. A signal then ends the
//!   actor as if it were idle. The fate wakes the held actor.
//! * **R7** Suspended cooperative turns overtake such a message: one of them may have to go on for the transaction to
//!   commit. They must not see a tentative state, so an actor that has any does not work ahead.
mod async_turn;
mod callers;
mod choosing;
mod counted;
mod extras;
mod failing;
mod intake;
mod run;
mod state;
mod suspended;
mod undecided;
mod waker;

use std::convert::Infallible;
use std::task::Waker;

use enact_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use enact_sync::unmodelled::Arc;

use self::async_turn::{AsyncTurn, Spare};
pub(crate) use self::counted::CellRef;
use self::counted::Running;
use self::extras::Extras;
use self::run::Next;
#[cfg(feature = "simulation")]
pub(crate) use self::run::SHORT_BATCH;
use self::state::StateSlot;
pub(crate) use self::state::{Lender, Lent, State};
use self::undecided::Undecided;
pub(crate) use self::waker::TurnWaker;
use crate::error::{Exit, ExitReason};
use crate::identity::Name;
use crate::life::{Life, Rare};
use crate::mailbox::records::{self, Guard, Kind, Record, Records, Reserved};
use crate::mailbox::selective::SelectiveQueue;
use crate::mailbox::{Mailbox, Schedule};
use crate::scheduler::registry::Listed;
use crate::scheduler::{self, Scheduler};
use crate::spec::{OnPanic, Spec};
use crate::timer::{Timer, Timers};
use crate::turn::{Begun, Message, Post, Told, wake};
use crate::{Actor, ActorError, ActorId, Identity, frame};

/// How many turns an actor takes before it goes to the back of the queue; in a model, so few that it does.
pub(crate) const TURNS_PER_RUN: usize = if cfg!(enact_shuttle) { 2 } else { 128 };

/// What overtakes an actor's messages.
pub(crate) enum Signal {
    /// End now, after the turn that runs.
    Stop(ExitReason),
    /// A child has escalated its failure.
    ChildFailed(Exit),
}

/// An actor, whatever its type.
///
/// In the order of memory: what senders and the runner need for every message, then what is hardly ever used.
#[repr(C)]
pub(crate) struct ActorCell {
    /// The system that runs it.
    scheduler: Arc<Scheduler>,
    /// Live handles; the actor is released when none is left.
    handles: AtomicUsize,
    /// Messages, signals, and the activation while the actor is idle.
    pub(crate) mailbox: Mailbox,
    /// The user's struct, unless a turn or the activation has it.
    pub(crate) state: StateSlot,
    /// Whether the turn that runs has left a state that replaces the present one.
    has_next: AtomicBool,
    /// Whether turns wait for a change of the state.
    has_waiting: AtomicBool,
    /// Whether cooperative turns are suspended, for questions from outside.
    has_suspended: AtomicBool,
    /// Whether the actor lives on without handles.
    keep_alive: bool,
    /// Its place in the registry.
    pub(crate) listed: Listed,
    /// Number and name.
    identity: Identity,
    /// Supervision, timers and promises of the end, behind a lock of their own.
    life: Life,
}

#[cfg(not(any(enact_loom, enact_shuttle)))]
const _: () = assert!(size_of::<ActorCell>() <= 184 && size_of::<Activation>() <= 72, "an idle actor has little more");

/// The right to run an actor, and what only its runner touches.
///
/// In the order of memory: what every turn needs, then what only some do.
#[repr(C)]
pub(crate) struct Activation {
    /// The reference to the actor, and the lease of the state for the next plain turn.
    lender: Lender,
    /// What was taken out of the mailbox and not taken up yet.
    pub(crate) batch: Records,
    /// What only some actors need: suspended turns, selective receive, callers, an undecided transaction.
    extras: Option<Box<Extras>>,
}

impl Activation {
    #[inline]
    fn extras(&self) -> Option<&Extras> {
        self.extras.as_deref()
    }

    #[inline]
    fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    #[inline]
    fn selective(&self) -> Option<&SelectiveQueue> {
        self.extras()?.selective.as_ref()
    }

    fn selective_mut(&mut self) -> Option<&mut SelectiveQueue> {
        self.extras.as_mut()?.selective.as_mut()
    }

    #[inline]
    fn undecided(&self) -> Option<&Undecided> {
        self.extras()?.undecided.as_ref()
    }

    fn take_selective(&mut self) -> Option<SelectiveQueue> {
        self.extras.as_mut()?.selective.take()
    }

    fn take_held(&mut self) -> Option<AsyncTurn> {
        self.extras.as_mut()?.held.take()
    }

    fn take_spare(&mut self) -> Option<Spare> {
        self.extras.as_mut()?.spares.pop()
    }

    /// Whether a turn holds the actor.
    #[inline]
    fn is_held(&self) -> bool {
        self.extras().is_some_and(|extras| extras.held.is_some())
    }

    /// Whether turns are under way that hold nothing.
    pub(crate) fn has_suspended(&self) -> bool {
        self.extras().is_some_and(|extras| !extras.cooperative.is_empty() || !extras.callers.are_none())
    }

    /// Whether messages were taken out of the mailbox that are to be taken up, or a turn is to go on.
    pub(crate) fn has_work(&self) -> bool {
        !self.batch.is_empty()
            || self.selective().is_some_and(SelectiveQueue::have_messages)
            || self.has_answered_caller()
    }

    /// The kind of the next turn, if it makes no synchronous call before it ends or is suspended.
    pub(crate) fn brief_next(&self) -> Option<Kind> {
        if self.selective().is_some() || self.is_held() || self.undecided().is_some() || self.has_inner_callers() {
            return None;
        }
        let front = self.batch.front().filter(|front| !front.operations.may_call)?;
        front.if_free().map(|(_, kind)| kind)
    }

    /// Whether the first message of the batch has a guard.
    fn is_guarded_next(&self) -> bool {
        self.batch.front().is_some_and(|front| front.operations.guard != Guard::None)
    }

    /// Adds a message of the owner's.
    pub(crate) fn take_along<R: Record>(&mut self, record: R) {
        let reserve = |record| Ok::<_, Infallible>(Reserved { room: self.batch.push(record), guard: (), outcome: () });
        let Ok(()) = records::put(record, None, reserve).map_err(|(_, never)| match never {});
    }

    /// Runs a batch of turns.
    pub(crate) fn run(self: Box<Self>) {
        self.take_turns(TURNS_PER_RUN);
    }

    /// Runs `budget` turns.
    pub(crate) fn take_turns(mut self: Box<Self>, mut budget: usize) {
        let cell = Running::of(&self);
        frame::run_turns(&cell, || {
            cell.put_outer_callers_away(&mut self);
            if matches!(cell.run_steps(&mut self, &mut budget), Next::GoOn) {
                cell.rest(self, budget);
            }
        });
    }

    /// Begins the [brief](Self::brief_next) turn that is the next.
    pub(crate) fn take_brief_turn(mut self: Box<Self>) {
        let cell = Running::of(&self);
        frame::run_turns(&cell, || {
            cell.put_outer_callers_away(&mut self);
            if matches!(cell.run_free(&mut self, &mut 1), Next::GoOn) {
                cell.rest(self, 0);
            }
        });
    }

    /// Ends an actor that has never begun: nobody runs it, so this thread may.
    pub(crate) fn discard(mut self: Box<Self>, reason: ExitReason) {
        let cell = Arc::clone(self.lender.cell());
        cell.end(&mut self, reason);
    }

    pub(crate) fn cell(&self) -> &Arc<ActorCell> {
        self.lender.cell()
    }
}

impl ActorCell {
    /// An actor that does not run before its activation is put into its mailbox or into a run queue.
    pub(crate) fn create<A: Actor>(
        spec: Spec<A>,
        scheduler: Arc<Scheduler>,
        parent: Option<&Arc<Self>>,
    ) -> (Arc<Self>, Box<Activation>) {
        let Spec { state, name, mailbox, supervision, keep_alive, .. } = spec;
        let name = name.map_or_else(Name::of_type::<A>, |name| Name::Given(name.into()));
        let cell = Arc::new(Self {
            scheduler,
            handles: AtomicUsize::new(0),
            mailbox: Mailbox::new(mailbox),
            state: StateSlot::new::<A>(Box::new(state)),
            has_next: AtomicBool::new(false),
            has_waiting: AtomicBool::new(false),
            has_suspended: AtomicBool::new(false),
            keep_alive,
            listed: Listed::default(),
            identity: Identity::new(ActorId::fresh(), name),
            life: Life::default(),
        });
        let mut activation =
            Box::new(Activation { lender: Lender::new(Arc::clone(&cell)), batch: Records::default(), extras: None });
        if A::HAS_PRIORITIES {
            activation.extras_mut().selective = Some(SelectiveQueue::new(true));
        }
        if !supervision.is_default() {
            let extras = activation.extras_mut();
            extras.parent =
                parent.filter(|_| supervision.otherwise == OnPanic::Escalate).map(Arc::downgrade).unwrap_or_default();
            extras.supervision = supervision;
        }
        (cell, activation)
    }

    pub(crate) fn id(&self) -> ActorId {
        self.identity.id()
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    pub(crate) fn life(&self) -> &Life {
        &self.life
    }

    /// Adds a timer that is not armed yet.
    pub(crate) fn add_timer(self: &Arc<Self>, repeats: bool) -> Timer {
        let timers_of = || Arc::new(Timers::of(Arc::downgrade(self)));
        let timers = self.life.with(|rare| Arc::clone(rare.timers.get_or_insert_with(timers_of)));
        timers.map_or_else(Timer::of_nobody, |timers| timers.add(repeats))
    }

    fn stopped(&self) -> ActorError {
        ActorError::Stopped { actor: self.identity.clone() }
    }

    fn full(&self, capacity: usize) -> ActorError {
        ActorError::Full { actor: self.identity.clone(), capacity }
    }

    #[inline]
    pub(crate) fn schedule(&self, Schedule(activation): Schedule) {
        if let Some(activation) = activation {
            self.scheduler.schedule(activation);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.schedule(self.mailbox.signal(signal));
    }

    fn is_needed(&self) -> bool {
        self.keep_alive
            || self.handles.load(Ordering::Acquire) > 0
            || self.life.with_any(|rare| rare.timers.as_ref().is_some_and(|timers| timers.keep_alive())) == Some(true)
    }

    /// Whether it is idle and has no turn under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.mailbox.is_idle() && !self.has_suspended.load(Ordering::Relaxed)
    }

    /// Adds a turn that the actor owes itself; dropped only when it is gone.
    pub(crate) fn push_own<A: Actor, M: Message<A, Value = ()>>(self: &Arc<Self>, message: M) {
        // Whether it was accepted is for nobody to know.
        let _accepted = message.post(Told, Post::owing(self));
    }

    /// Has the turn that polls with `waker` look again when the state may have changed.
    pub(crate) fn wake_on_change(&self, waker: &Waker) {
        let is_known = |rare: &mut Rare| rare.waiting.iter().any(|known| known.will_wake(waker));
        if self.life.with_any(is_known) != Some(true) {
            // Not under the lock: another executor's code.
            let own = waker.clone();
            self.life.with(|rare| rare.waiting.push(own));
        }
        // Relaxed: turns of one actor follow each other, and only they wait and announce.
        self.has_waiting.store(true, Ordering::Relaxed);
    }

    /// The state may have changed.
    #[inline]
    pub(crate) fn announce_change(&self) {
        if self.has_waiting.load(Ordering::Relaxed) {
            self.wake_waiting();
        }
    }

    #[cold]
    fn wake_waiting(&self) {
        self.has_waiting.store(false, Ordering::Relaxed);
        self.take_waiting().into_iter().for_each(wake);
    }

    fn take_waiting(&self) -> Vec<Waker> {
        self.life.with_any(|rare| std::mem::take(&mut rare.waiting)).unwrap_or_default()
    }

    /// Runs what the caller has put into the activation of an actor that it has claimed, on this thread.
    pub(crate) fn run_claimed(self: &Arc<Self>, mut activation: Box<Activation>) {
        if activation.selective().is_some() || activation.is_guarded_next() {
            // What the caller has put there is a message like those that come meanwhile: one of them may be the next.
            if self.mailbox.is_bounded() {
                self.mailbox.take_room();
            }
            return activation.take_turns(1);
        }
        frame::run_turns(self, || {
            self.put_outer_callers_away(&mut activation);
            if matches!(self.begin_turn(&mut activation), Next::GoOn) {
                // What has come meanwhile is not the caller's to wait for.
                self.rest(activation, 0);
            }
        });
    }

    /// Whether the next message of a batch can follow a plain turn that has ended, without a look at anything but that
    /// message.
    #[inline]
    pub(crate) fn goes_on_at_once(&self) -> bool {
        !self.mailbox.is_signalled() && !self.has_next.load(Ordering::Acquire)
    }

    /// Begins the first message of the batch, and perhaps others like it, as many as `budget` says at most. A turn that
    /// can wait is in a span while it is polled.
    #[inline(always)]
    fn begin_front(&self, activation: &mut Activation, handler: &'static str, kind: Kind, budget: &mut usize) -> Begun {
        if kind == Kind::Plain && are_turns_traced() {
            scheduler::spend_turn(budget);
            return in_turn_span(self, handler, || activation.batch.begin_front(&mut activation.lender, &mut 1));
        }
        if matches!(kind, Kind::Held | Kind::Cooperative)
            && let Some(extras) = &mut activation.extras
        {
            activation.lender.started = extras.shells.pop();
        }
        activation.batch.begin_front(&mut activation.lender, budget)
    }

    #[inline]
    fn go_on_after(
        self: &Arc<Self>,
        activation: &mut Activation,
        handler: &'static str,
        kind: Kind,
        begun: Begun,
    ) -> Next {
        match begun {
            Begun::Ended => {
                if self.has_next.load(Ordering::Acquire) {
                    activation.lender.put_back();
                }
                self.turn_ended(activation, Ok(()))
            }
            Begun::Panicked(panic) => {
                activation.lender.put_back();
                self.turn_ended(activation, Err(panic))
            }
            Begun::Started => {
                let turn = activation.lender.started.take().expect("a turn that has started is with the lender");
                self.begin_task(activation, handler, kind == Kind::Held, turn)
            }
            Begun::Resumes(turn) => self.resume(activation, turn),
        }
    }
}

/// Runs `turn` in a span of its own, if anybody wants to see it.
#[inline]
fn in_turn_span<R>(actor: &ActorCell, handler: &'static str, turn: impl FnOnce() -> R) -> R {
    // The macro looks at the level after it has prepared everything for the `log` crate.
    if !are_turns_traced() {
        return turn();
    }
    #[cfg(feature = "simulation")]
    let _noted = actor.scheduler.tape().begin_turn(actor.id());
    tracing::trace_span!("turn", actor = %actor.identity, handler).in_scope(turn)
}

#[inline]
fn are_turns_traced() -> bool {
    tracing::level_filters::LevelFilter::current() >= tracing::level_filters::LevelFilter::TRACE
}
