//! An actor from the inside: mailbox, state, suspended turns, and the loop that runs them.
//!
//! # Who may touch what
//! * `mailbox` - anybody; it decides who runs (see there).
//! * the body - whoever has it: it lies in the mailbox while the actor is idle, then in a run queue, then with its runner.
//! * `state` - the turn that runs, through a [`Lease`](crate::turn::Lease) that puts it back when dropped; if it is not there,
//!   a turn has it, or the body for the next plain one. What replaces it later is left there by whoever decides so, and put
//!   in place between two turns.
//! * `timers`, `rare`, `ending` - turns, timers and other actors, each behind its own short lock.
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
mod choosing;
mod counted;
mod failing;
mod intake;
mod state;
mod task;
mod undecided;

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::task::Waker;

use enact_sync::Mutex;
use enact_sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use enact_sync::unmodelled::{Arc, OnceLock, Weak};

use self::choosing::Found;
pub(crate) use self::counted::CellRef;
use self::counted::Running;
use self::state::Slot;
pub(crate) use self::state::{Lender, Lent, State};
pub(crate) use self::task::TurnWaker;
use self::task::{Spare, Task};
use self::undecided::{Outlook, Undecided, enter_tentatively, open_fate};
use crate::deadlock::TurnId;
use crate::ending::Ending;
use crate::error::{Exit, ExitReason};
use crate::identity::{HashById, Name};
use crate::mailbox::lanes::Lanes;
use crate::mailbox::records::{self, Front, Guard, Kind, Record, Records, Reserved};
use crate::mailbox::{Mailbox, Rest, Schedule};
use crate::scheduler::Scheduler;
use crate::scheduler::population::Listed;
use crate::spec::{self, Spec, Supervision, WhenFull};
use crate::timer::{Timer, Timers};
use crate::turn::{Begun, Message, Post, Told};
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
    /// Whether there is a next state.
    has_next: AtomicBool,
    /// Whether turns wait for a change of the state.
    has_waiting: AtomicBool,
    when_full: WhenFull,
    keep_alive: bool,
    pub(crate) state: Slot,
    identity: Identity,
    me: Weak<Self>,
    parent: Option<Weak<ActorCell>>,
    /// How the state is copied for a tentative turn, if it can be.
    copy: Option<state::Copy>,
    /// Nothing once the actor has ended without any.
    timers: OnceLock<Option<Arc<Timers>>>,
    rare: Mutex<Option<Box<Rare>>>,
    ending: Ending,
    /// Cooperative turns under way, for whoever asks from outside.
    under_way: AtomicU32,
    pub(crate) listed: Listed,
}

/// What hardly any actor ever has.
#[derive(Default)]
struct Rare {
    /// The state before a tentative turn that has written.
    original: Option<State>,
    /// The state that the next turn begins with.
    next: Option<State>,
    /// Cooperative turns that wait for a change of the state.
    waiting: Vec<Waker>,
}

/// The right to run an actor, and what only its runner touches.
///
/// In the order of memory: what every turn needs, then what only some do, then what failures do.
#[repr(C)]
pub(crate) struct Body {
    lender: Lender,
    /// What was taken out of the mailbox and not taken up yet.
    pub(crate) batch: Records,
    /// Where those go from there that have priorities or guards.
    lanes: Option<Box<Lanes>>,
    held: Option<Box<Task>>,
    undecided: Option<Box<Undecided>>,
    spare: Option<Spare>,
    cooperative: HashMap<TurnId, Task, HashById>,
    supervision: Supervision,
    restarts: VecDeque<tokio::time::Instant>,
}

impl Body {
    /// Whether turns are under way that hold nothing.
    pub(crate) fn has_suspended(&self) -> bool {
        !self.cooperative.is_empty()
    }

    /// Whether messages were taken out of the mailbox that are to be taken up.
    pub(crate) fn has_messages(&self) -> bool {
        !self.batch.is_empty() || self.lanes.as_ref().is_some_and(|lanes| lanes.have_messages())
    }

    /// Whether the next turn runs to its end without a synchronous call.
    pub(crate) fn is_brief_next(&self) -> bool {
        let is_brief = |front: Front<'_>| !front.operations.may_call && front.if_free().is_some();
        let is_free = self.lanes.is_none() && self.held.is_none() && self.undecided.is_none();
        is_free && self.batch.front().is_some_and(is_brief)
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
            if matches!(cell.run_batch(&mut self, &mut budget), Next::GoOn) {
                cell.rest(self, budget);
            }
        });
    }

    /// Takes the [brief](Self::is_brief_next) turn that is the next.
    pub(crate) fn take_brief_turn(mut self: Box<Self>) {
        let cell = Running::of(&self);
        frame::run_turns(&cell, || {
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
        let lanes = A::HAS_PRIORITIES.then(|| Box::new(Lanes::new(true)));
        let (state, copy, mailbox) = (Box::new(state), state::copy_of::<A>(), (mailbox, keep_alive));
        let (cell, mut body) = Self::new(state, copy, name, mailbox, supervision, scheduler, parent);
        body.lanes = lanes;
        (cell, body)
    }

    fn new(
        state: State,
        copy: Option<state::Copy>,
        name: Name,
        (mailbox, keep_alive): (spec::Mailbox, bool),
        supervision: Supervision,
        scheduler: Arc<Scheduler>,
        parent: Option<&Arc<Self>>,
    ) -> (Arc<Self>, Box<Body>) {
        let (capacity, when_full) = match mailbox {
            spec::Mailbox::Unbounded => (usize::MAX, WhenFull::Fail),
            spec::Mailbox::Bounded { capacity, when_full } => (capacity.get(), when_full),
        };
        let cell = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            identity: Identity::new(ActorId::fresh(), name),
            scheduler,
            handles: AtomicUsize::new(0),
            keep_alive,
            when_full,
            copy,
            mailbox: Mailbox::new(capacity),
            state: Slot::new(state),
            has_next: AtomicBool::new(false),
            timers: OnceLock::new(),
            rare: Mutex::default(),
            has_waiting: AtomicBool::new(false),
            under_way: AtomicU32::new(0),
            listed: Listed::default(),
            ending: Ending::default(),
            parent: parent.map(Arc::downgrade),
        });
        let body = Body {
            lender: Lender::new(Arc::clone(&cell)),
            batch: Records::default(),
            lanes: None,
            held: None,
            undecided: None,
            spare: None,
            cooperative: HashMap::default(),
            supervision,
            restarts: VecDeque::new(),
        };
        (cell, Box::new(body))
    }

    /// This, to be kept.
    pub(crate) fn me(&self) -> Arc<Self> {
        self.me.upgrade().expect("what is borrowed is there")
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

    pub(crate) fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Adds a timer that is not armed yet.
    pub(crate) fn add_timer(&self, repeats: bool) -> Timer {
        let timers = self.timers.get_or_init(|| Some(Arc::new(Timers::of(Weak::clone(&self.me)))));
        timers.as_ref().map_or_else(Timer::of_nobody, |timers| timers.add(repeats))
    }

    fn stopped(&self) -> ActorError {
        ActorError::Stopped { actor: self.identity.clone() }
    }

    fn full(&self) -> ActorError {
        ActorError::Full { actor: self.identity.clone(), capacity: self.mailbox.capacity() }
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
            || self.timers.get().is_some_and(|timers| timers.as_ref().is_some_and(|timers| timers.keep_alive()))
    }

    /// Whether it is idle and has no turn under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.mailbox.is_idle() && self.under_way.load(Ordering::Relaxed) == 0
    }

    /// Adds a turn that the actor owes itself; dropped only when it is gone.
    pub(crate) fn push_own<A: Actor, M: Message<A, Value = ()>>(self: &Arc<Self>, message: M) {
        // Whether it was accepted is for nobody to know.
        let _accepted = message.post(Told, Post::owing(self));
    }

    /// Has the turn that polls with `waker` look again when the state may have changed.
    pub(crate) fn wake_on_change(&self, waker: &Waker) {
        let mut rare = self.rare.lock();
        let waiting = &mut rare.get_or_insert_default().waiting;
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
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
        self.take_waiting().into_iter().for_each(Waker::wake);
    }

    fn take_waiting(&self) -> Vec<Waker> {
        self.rare.lock().as_mut().map(|rare| std::mem::take(&mut rare.waiting)).unwrap_or_default()
    }

    /// Runs what the caller has put into the body of an actor that it has claimed, on this thread.
    pub(crate) fn run_claimed(self: &Arc<Self>, mut body: Box<Body>) {
        if body.lanes.is_some() || body.is_guarded_next() {
            // What the caller has put there is a message like those that come meanwhile: one of them may be the next.
            if self.mailbox.is_bounded() {
                self.mailbox.take_room();
            }
            return body.take_turns(1);
        }
        frame::run_turns(self, || {
            if matches!(self.begin_turn(&mut body), Next::GoOn) {
                // What has come meanwhile is not the caller's to wait for.
                self.rest(body, 0);
            }
        });
    }

    /// Takes turns until the budget or the batch is used up.
    fn run_batch(self: &Arc<Self>, body: &mut Body, budget: &mut usize) -> Next {
        loop {
            if body.undecided.is_some() {
                body.lender.put_back();
                match self.look_at_fate(body) {
                    Outlook::Open => {}
                    Outlook::Decided(Next::GoOn) => continue,
                    Outlook::Decided(Next::Ended) => return Next::Ended,
                }
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
                *budget -= 1;
                continue;
            }
            if body.held.is_some() || body.undecided.is_some() {
                if !self.mailbox.take_wake_up() {
                    break;
                }
                *budget -= 1;
                body.lender.put_back();
                let task = body.held.take();
                if let Some(task) = task
                    && matches!(self.poll_task(body, *task), Next::Ended)
                {
                    return Next::Ended;
                }
                continue;
            }
            if body.lanes.is_none() {
                if matches!(self.run_free(body, budget), Next::Ended) {
                    return Next::Ended;
                }
                if body.held.is_some() {
                    continue;
                }
            }
            if body.lanes.is_some() {
                match self.choose(body) {
                    Found::Message => {}
                    Found::LookAgain => {
                        *budget -= 1;
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
            if body.lanes.is_none() && front.operations.guard != Guard::None {
                // From here on, until nothing waits any more.
                body.lanes = Some(Box::new(Lanes::new(false)));
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
            *budget -= 1;
        }
        Next::GoOn
    }

    /// Takes up what is at the front of the batch, as long as nothing has to be asked before: no turn holds the actor, and
    /// these messages have neither guards nor fates.
    fn run_free(self: &Arc<Self>, body: &mut Body, budget: &mut usize) -> Next {
        while *budget > 0 && body.held.is_none() && !self.mailbox.is_signalled() {
            let Some((handler, kind)) = body.batch.front().and_then(Front::if_free) else { break };
            self.mailbox.make_room();
            let begun = self.begin_front(body, handler, kind, budget);
            if let Begun::Ended = begun
                && !self.has_next.load(Ordering::Acquire)
            {
                self.announce_change();
            } else if matches!(self.go_on_after(body, handler, kind, begun), Next::Ended) {
                return Next::Ended;
            }
        }
        Next::GoOn
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
            *budget -= 1;
            return in_turn_span(&self.identity, handler, || body.batch.begin_front(&mut body.lender, &mut 1));
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
