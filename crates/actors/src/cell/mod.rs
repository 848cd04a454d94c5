//! An actor from the inside: mailbox, state, suspended turns, and the loop that runs them.
//!
//! # Who may touch what
//! * `mailbox` - anybody; it decides who runs (see there).
//! * the body - the thread that has it: it lies in the mailbox while the actor is idle, then in a run queue, then with its runner.
//! * `state` - the turn that runs, through a [`Lease`](crate::turn::Lease) that puts it back when dropped; if it is not there,
//!   a turn has it, or the body for the next plain one. What replaces it later is left there by the turn that decides so, and put
//!   in place between two turns.
//! * `life` - turns, timers and other actors, behind a short lock of its own.
//!
//! # A turn's way
//! A message is taken up only by who has the body, and while no turn holds the actor. A held turn owns the state across its
//! suspensions; while it waits, only signals and its own wake-up make the actor runnable. A cooperative turn owns
//! nothing: when it is woken, its resumption is a message at the back of the mailbox.
//!
//! # A message of an open transaction
//! An actor that can be copied takes it up as a [tentative](crate::tentative) turn, and then nothing else before the
//! transaction is decided: the actor is held, whatever kind of turn it is and whether its code has ended or not. Signals
//! wait, too, because the turn is one that the actor is in. Any other actor is held before the message, which stays at the
//! head of the mailbox; a signal then ends it as if it were idle. The fate wakes the held actor.
//!
//! Suspended cooperative turns do not wait behind such a message: one of them may have to go on for the transaction to
//! commit. They must not see a tentative state either, so an actor that has any does not work ahead.
mod callers;
mod choosing;
mod counted;
mod extras;
mod failing;
mod intake;
mod state;
mod suspended;
mod task;
mod undecided;
mod waker;

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::task::Waker;

use enact_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use enact_sync::unmodelled::Arc;

use self::choosing::Found;
pub(crate) use self::counted::CellRef;
use self::counted::Running;
use self::extras::Extras;
use self::state::Slot;
pub(crate) use self::state::{Lender, Lent, State};
use self::task::{Spare, Task};
use self::undecided::{Outlook, Undecided, enter_tentatively, open_fate};
pub(crate) use self::waker::TurnWaker;
use crate::error::{Exit, ExitReason};
use crate::identity::Name;
use crate::life::{Life, Rare};
use crate::mailbox::lanes::Lanes;
use crate::mailbox::records::{self, Front, Guard, Kind, Record, Records, Reserved};
use crate::mailbox::{Mailbox, Rest, Schedule};
use crate::scheduler::population::Listed;
use crate::scheduler::{self, Scheduler};
use crate::spec::{OnPanic, Spec};
use crate::timer::{Timer, Timers};
use crate::turn::{Begun, Message, Post, Told, wake};
use crate::{Actor, ActorError, ActorId, Identity, frame};

/// How many turns an actor takes before it goes to the back of the queue; in a model, so few that it does.
const TURNS_PER_ACTIVATION: usize = if cfg!(enact_shuttle) { 2 } else { 128 };

/// So many messages at a time are a stream, and too few to be worth what it costs to fetch them.
const SHORT_BATCH: RangeInclusive<usize> = 4..=64;

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
    scheduler: Arc<Scheduler>,
    /// Live handles; the actor is released when none is left.
    handles: AtomicUsize,
    pub(crate) mailbox: Mailbox,
    pub(crate) state: Slot,
    /// Whether there is a next state.
    has_next: AtomicBool,
    /// Whether turns wait for a change of the state.
    has_waiting: AtomicBool,
    /// Whether cooperative turns are suspended, for questions from outside.
    has_suspended: AtomicBool,
    keep_alive: bool,
    pub(crate) listed: Listed,
    identity: Identity,
    life: Life,
}

#[cfg(not(any(enact_loom, enact_shuttle)))]
const _: () = assert!(size_of::<ActorCell>() <= 184 && size_of::<Body>() <= 72, "an idle actor has little more");

/// The right to run an actor, and what only its runner touches.
///
/// In the order of memory: what every turn needs, then what only some do.
#[repr(C)]
pub(crate) struct Body {
    lender: Lender,
    /// What was taken out of the mailbox and not taken up yet.
    pub(crate) batch: Records,
    extras: Option<Box<Extras>>,
}

impl Body {
    #[inline]
    fn extras(&self) -> Option<&Extras> {
        self.extras.as_deref()
    }

    #[inline]
    fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    #[inline]
    fn lanes(&self) -> Option<&Lanes> {
        self.extras()?.lanes.as_ref()
    }

    fn lanes_mut(&mut self) -> Option<&mut Lanes> {
        self.extras.as_mut()?.lanes.as_mut()
    }

    #[inline]
    fn undecided(&self) -> Option<&Undecided> {
        self.extras()?.undecided.as_ref()
    }

    fn take_lanes(&mut self) -> Option<Lanes> {
        self.extras.as_mut()?.lanes.take()
    }

    fn take_held(&mut self) -> Option<Task> {
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
        !self.batch.is_empty() || self.lanes().is_some_and(Lanes::have_messages) || self.has_answered_caller()
    }

    /// The kind of the next turn, if it makes no synchronous call before it ends or is suspended.
    pub(crate) fn brief_next(&self) -> Option<Kind> {
        if self.lanes().is_some() || self.is_held() || self.undecided().is_some() || self.has_inner_callers() {
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
    pub(crate) fn activate(self: Box<Self>) {
        self.take_turns(TURNS_PER_ACTIVATION);
    }

    /// Runs `budget` turns.
    pub(crate) fn take_turns(mut self: Box<Self>, mut budget: usize) {
        let cell = Running::of(&self);
        frame::run_turns(&cell, || {
            cell.put_outer_callers_away(&mut self);
            if matches!(cell.run_batch(&mut self, &mut budget), Next::GoOn) {
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

/// What a batch does after one entry.
enum Next {
    GoOn,
    /// The actor is gone.
    Ended,
}

impl ActorCell {
    /// An actor that does not run before its body is put into its mailbox or into a run queue.
    pub(crate) fn create<A: Actor>(
        spec: Spec<A>,
        scheduler: Arc<Scheduler>,
        parent: Option<&Arc<Self>>,
    ) -> (Arc<Self>, Box<Body>) {
        let Spec { state, name, mailbox, supervision, keep_alive, .. } = spec;
        let name = name.map_or_else(Name::of_type::<A>, |name| Name::Given(name.into()));
        let cell = Arc::new(Self {
            scheduler,
            handles: AtomicUsize::new(0),
            mailbox: Mailbox::new(mailbox),
            state: Slot::new::<A>(Box::new(state)),
            has_next: AtomicBool::new(false),
            has_waiting: AtomicBool::new(false),
            has_suspended: AtomicBool::new(false),
            keep_alive,
            listed: Listed::default(),
            identity: Identity::new(ActorId::fresh(), name),
            life: Life::default(),
        });
        let mut body =
            Box::new(Body { lender: Lender::new(Arc::clone(&cell)), batch: Records::default(), extras: None });
        if A::HAS_PRIORITIES {
            body.extras_mut().lanes = Some(Lanes::new(true));
        }
        if !supervision.is_default() {
            let extras = body.extras_mut();
            extras.parent =
                parent.filter(|_| supervision.otherwise == OnPanic::Escalate).map(Arc::downgrade).unwrap_or_default();
            extras.supervision = supervision;
        }
        (cell, body)
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
    pub(crate) fn schedule(&self, Schedule(body): Schedule) {
        if let Some(body) = body {
            self.scheduler.schedule(body);
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

    /// Runs what the caller has put into the body of an actor that it has claimed, on this thread.
    pub(crate) fn run_claimed(self: &Arc<Self>, mut body: Box<Body>) {
        if body.lanes().is_some() || body.is_guarded_next() {
            // What the caller has put there is a message like those that come meanwhile: one of them may be the next.
            if self.mailbox.is_bounded() {
                self.mailbox.take_room();
            }
            return body.take_turns(1);
        }
        frame::run_turns(self, || {
            self.put_outer_callers_away(&mut body);
            if matches!(self.begin_turn(&mut body), Next::GoOn) {
                // What has come meanwhile is not the caller's to wait for.
                self.rest(body, 0);
            }
        });
    }

    /// Takes turns until the budget or the batch is used up.
    fn run_batch(self: &Arc<Self>, body: &mut Body, budget: &mut usize) -> Next {
        loop {
            if body.undecided().is_some() {
                body.lender.put_back();
                match self.look_at_fate(body) {
                    Outlook::Open => {}
                    Outlook::Decided(Next::GoOn) => continue,
                    Outlook::Decided(Next::Ended) => return Next::Ended,
                }
            }
            if body.has_called() {
                *budget = 0;
            }
            // Not before a look at the fate: the turn that has used the budget up may have begun the wait for it, or may have
            // been polled by a wake-up that was meant for it.
            if *budget == 0 {
                break;
            }
            if !self.is_tentative(body)
                && let Some(signal) = self.mailbox.next_signal()
            {
                match self.obey(body, signal) {
                    Next::GoOn => continue,
                    Next::Ended => return Next::Ended,
                }
            }
            if let Some(turn) = self.overtaking(body) {
                if matches!(self.resume(body, turn), Next::Ended) {
                    return Next::Ended;
                }
                scheduler::spend_turn(budget);
                continue;
            }
            if body.is_held() || body.undecided().is_some() {
                if !self.mailbox.take_wake_up() {
                    break;
                }
                scheduler::spend_turn(budget);
                body.lender.put_back();
                if let Some(task) = body.take_held()
                    && matches!(self.poll_task(body, task), Next::Ended)
                {
                    return Next::Ended;
                }
                continue;
            }
            if body.lanes().is_none() {
                if matches!(self.run_free(body, budget), Next::Ended) {
                    return Next::Ended;
                }
                if body.is_held() {
                    continue;
                }
            }
            if body.lanes().is_some() {
                match self.choose(body) {
                    Found::Message => {}
                    Found::LookAgain => {
                        scheduler::spend_turn(budget);
                        continue;
                    }
                    Found::Nothing => break,
                    Found::End => return Next::Ended,
                }
            }
            let Some(front) = body.batch.front() else { break };
            if *budget == 0 || self.mailbox.is_signalled() {
                continue;
            }
            if body.lanes().is_none() && front.operations.guard != Guard::None {
                // From here on, until nothing waits any more.
                body.extras_mut().lanes = Some(Lanes::new(false));
                continue;
            }
            if let Some(fate) = self.fate_before(front, body.has_suspended()) {
                let fate = fate.clone();
                self.wait_for(body, fate, None);
                continue;
            }
            let open_fate = open_fate(front).cloned();
            self.mailbox.make_room();
            let next = if let Some(fate) = open_fate {
                self.begin_tentatively(body, fate)
            } else if front.is_retracted() && !cfg!(plant = "take_up_the_retracted") {
                body.batch.refuse_front(ActorError::Retracted);
                Next::GoOn
            } else {
                self.begin_turn(body)
            };
            if matches!(next, Next::Ended) {
                return Next::Ended;
            }
            scheduler::spend_turn(budget);
        }
        Next::GoOn
    }

    /// Takes up what is at the front of the batch, as long as nothing has to be asked before: no turn holds the actor, and
    /// these messages have neither guards nor fates.
    fn run_free(self: &Arc<Self>, body: &mut Body, budget: &mut usize) -> Next {
        while *budget > 0 && !body.is_held() && !body.has_called() && !self.mailbox.is_signalled() {
            let next = if body.has_inner_callers() {
                self.run_beside_callers(body, budget)
            } else if let Some(next) = self.take_up_free(body, budget) {
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
    fn take_up_free(self: &Arc<Self>, body: &mut Body, budget: &mut usize) -> Option<Next> {
        let (handler, kind) = body.batch.front().and_then(Front::if_free)?;
        self.mailbox.make_room();
        let begun = self.begin_front(body, handler, kind, budget);
        if let Begun::Ended = begun
            && !self.has_next.load(Ordering::Acquire)
        {
            self.announce_change();
            return Some(Next::GoOn);
        }
        Some(self.go_on_after(body, handler, kind, begun))
    }

    /// Whether the next message of a batch can follow a plain turn that has ended, without a look at anything but that
    /// message.
    #[inline]
    pub(crate) fn goes_on_at_once(&self) -> bool {
        !self.mailbox.is_signalled() && !self.has_next.load(Ordering::Acquire)
    }

    /// Goes on, gives the activation up, or ends the actor.
    fn rest(self: &Arc<Self>, mut body: Box<Body>, mut budget: usize) {
        loop {
            if body.has_inner_callers() && !cfg!(plant = "rest_beside_callers") {
                self.rest_beside_callers(&mut body);
            }
            if let Some(extras) = &mut body.extras {
                extras.callers.forget_call();
                extras.keep_little();
                if extras.can_go() {
                    body.extras = None;
                }
            }
            match self.mailbox.rest(body, budget > 0, || self.is_needed()) {
                Rest::GoOn(again) => {
                    body = again;
                    let before = budget;
                    if matches!(self.run_batch(&mut body, &mut budget), Next::Ended) {
                        return;
                    }
                    if SHORT_BATCH.contains(&(before - budget)) {
                        self.scheduler.let_messages_gather();
                    }
                }
                Rest::Idle => return,
                Rest::Again(body) => return self.scheduler.schedule_behind(body),
                Rest::Drained(mut body) => return self.end(&mut body, ExitReason::Stopped),
                Rest::Released(mut body) => return self.end(&mut body, ExitReason::Released),
            }
        }
    }

    /// Makes the first message of the batch a turn.
    fn begin_turn(self: &Arc<Self>, body: &mut Body) -> Next {
        let Some(front) = body.batch.front() else { return Next::GoOn };
        let (handler, kind) = (front.operations.handler, front.operations.kind);
        let _tentatively = enter_tentatively(body);
        let begun = self.begin_front(body, handler, kind, &mut 1);
        self.go_on_after(body, handler, kind, begun)
    }

    /// Begins the first message of the batch, and perhaps others like it, as many as `budget` says at most. A turn that can
    /// wait is in a span while it is polled.
    #[inline(always)]
    fn begin_front(&self, body: &mut Body, handler: &'static str, kind: Kind, budget: &mut usize) -> Begun {
        if kind == Kind::Plain && are_turns_traced() {
            scheduler::spend_turn(budget);
            return in_turn_span(&self.identity, handler, || body.batch.begin_front(&mut body.lender, &mut 1));
        }
        if matches!(kind, Kind::Held | Kind::Cooperative)
            && let Some(extras) = &mut body.extras
        {
            body.lender.started = extras.shells.pop();
        }
        body.batch.begin_front(&mut body.lender, budget)
    }

    #[inline]
    fn go_on_after(self: &Arc<Self>, body: &mut Body, handler: &'static str, kind: Kind, begun: Begun) -> Next {
        match begun {
            Begun::Ended => {
                if self.has_next.load(Ordering::Acquire) {
                    body.lender.put_back();
                }
                self.turn_ended(body, Ok(()))
            }
            Begun::Panicked(panic) => {
                body.lender.put_back();
                self.turn_ended(body, Err(panic))
            }
            Begun::Started => {
                let turn = body.lender.started.take().expect("a turn that has started is with the lender");
                self.begin_task(body, handler, kind == Kind::Held, turn)
            }
            Begun::Resumes(turn) => self.resume(body, turn),
        }
    }
}

/// Runs `turn` in a span of its own, if anybody wants to see it.
#[inline]
fn in_turn_span<R>(actor: &Identity, handler: &'static str, turn: impl FnOnce() -> R) -> R {
    // The macro looks at the level after it has prepared everything for the `log` crate.
    if !are_turns_traced() {
        return turn();
    }
    tracing::trace_span!("turn", %actor, handler).in_scope(turn)
}

#[inline]
fn are_turns_traced() -> bool {
    tracing::level_filters::LevelFilter::current() >= tracing::level_filters::LevelFilter::TRACE
}
