//! An actor from the inside: mailbox, state, suspended turns, and the loop that runs them.
//!
//! # Who may touch what
//! * `mailbox` - anybody; it decides who runs (see there).
//! * the body, in the mailbox - whoever owns `Running`; taken out for the activation and put back at its end.
//! * `state` - the turn that runs, through a [`Lease`] that puts it back when dropped; `None` means that a turn has it.
//!   What replaces it later is left there by whoever decides so, and put in place between two turns.
//! * `timers`, `changes`, `ending` - turns, timers and other actors, each behind its own short lock.
//!
//! # A turn's way
//! A message is taken up only while the actor is `Running` and no turn holds it. A held turn owns the state across its
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
mod failing;
mod state;
mod task;
mod undecided;

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use enact_sync::Mutex;
use enact_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use enact_sync::unmodelled::{Arc, Weak};

pub(crate) use self::state::Stored;
use self::state::{Lender, Slot};
use self::task::Task;
use self::undecided::{Outlook, Undecided, enter_tentatively};
use crate::deadlock::TurnId;
use crate::ending::Ending;
use crate::error::{Exit, ExitReason};
use crate::frame;
use crate::identity::Name;
use crate::mailbox::{self, Mailbox, Rest, Schedule};
use crate::scheduler::Scheduler;
use crate::spec::{self, Spec, Supervision, WhenFull};
use crate::timer::Timers;
use crate::turn::{self, Envelope, Lease, Message, Reply, Turn, Value};
use crate::{Actor, ActorError, ActorId, Cx, Identity};

/// How many turns an actor takes before it goes to the back of the queue; in a model, so few that it does.
const TURNS_PER_ACTIVATION: usize = if cfg!(enact_shuttle) { 2 } else { 128 };

/// An actor, whatever its type.
pub(crate) trait Process: Send + Sync {
    fn id(&self) -> ActorId;
    fn identity(&self) -> Identity;
    fn scheduler(&self) -> &Arc<Scheduler>;
    fn ending(&self) -> &Ending;
    /// Runs a batch of turns. Only for the run queue that the actor was scheduled in.
    fn activate(self: Arc<Self>);
    fn signal(self: Arc<Self>, signal: Signal);
    /// Whether it is idle and has no turn under way.
    fn is_settled(&self) -> bool;
}

/// What overtakes an actor's messages.
pub(crate) enum Signal {
    /// End now, after the turn that runs.
    Stop(ExitReason),
    /// A child has escalated its failure.
    ChildFailed(Exit),
}

/// An entry in the mailbox.
pub(crate) enum Entry<A: Actor> {
    Message(Envelope<A>),
    /// A cooperative turn was woken.
    Resume(TurnId),
}

pub(crate) struct ActorCell<A: Actor> {
    identity: Identity,
    scheduler: Arc<Scheduler>,
    /// Live handles; the actor is released when none is left.
    handles: AtomicUsize,
    keep_alive: bool,
    when_full: WhenFull,
    pub(crate) mailbox: Mailbox<Entry<A>, Signal, Box<Body<A>>>,
    pub(crate) state: Mutex<Slot<A>>,
    /// Whether `state` has a next one.
    has_next: AtomicBool,
    pub(crate) timers: Arc<Timers>,
    /// Cooperative turns that wait for a change of the state.
    changes: Mutex<Vec<Waker>>,
    /// Whether there are any.
    has_waiting: AtomicBool,
    /// Cooperative turns under way, for whoever asks from outside.
    under_way: AtomicUsize,
    ending: Ending,
    parent: Option<Weak<dyn Process>>,
}

/// What only the runner touches.
pub(crate) struct Body<A: Actor> {
    batch: VecDeque<Entry<A>>,
    held: Option<Task<A>>,
    undecided: Option<Undecided<A>>,
    cooperative: HashMap<TurnId, Task<A>>,
    supervision: Supervision<A>,
    restarts: VecDeque<tokio::time::Instant>,
}

impl<A: Actor> mailbox::Body<Entry<A>> for Box<Body<A>> {
    fn batch(&mut self) -> &mut VecDeque<Entry<A>> {
        &mut self.batch
    }

    fn has_suspended(&self) -> bool {
        !self.cooperative.is_empty()
    }
}

/// What a batch does after one entry.
enum Next {
    GoOn,
    /// The actor is gone.
    Ended,
}

impl<A: Actor> ActorCell<A> {
    pub(crate) fn new(
        id: ActorId,
        spec: Spec<A>,
        scheduler: Arc<Scheduler>,
        parent: Option<&Arc<dyn Process>>,
    ) -> Arc<Self> {
        let name = spec.name.map_or_else(Name::of_type::<A>, |name| Name::Given(name.into()));
        let (capacity, when_full) = match spec.mailbox {
            spec::Mailbox::Unbounded => (usize::MAX, WhenFull::Fail),
            spec::Mailbox::Bounded { capacity, when_full } => (capacity.get(), when_full),
        };
        Arc::new(Self {
            identity: Identity::new(id, name),
            scheduler,
            handles: AtomicUsize::new(0),
            keep_alive: spec.keep_alive,
            when_full,
            mailbox: Mailbox::new(
                capacity,
                Box::new(Body {
                    batch: VecDeque::new(),
                    held: None,
                    undecided: None,
                    cooperative: HashMap::new(),
                    supervision: spec.supervision,
                    restarts: VecDeque::new(),
                }),
            ),
            state: Mutex::new(Slot {
                current: Some(Stored::new(Box::new(spec.state))),
                copies_before_write: false,
                original: None,
                next: None,
            }),
            has_next: AtomicBool::new(false),
            timers: Arc::default(),
            changes: Mutex::default(),
            has_waiting: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            ending: Ending::default(),
            parent: parent.map(Arc::downgrade),
        })
    }

    pub(crate) fn stopped(&self) -> ActorError {
        ActorError::Stopped { actor: self.identity.clone() }
    }

    pub(crate) fn full(&self) -> ActorError {
        ActorError::Full { actor: self.identity.clone(), capacity: self.mailbox.capacity() }
    }

    pub(crate) fn when_full(&self) -> WhenFull {
        self.when_full
    }

    pub(crate) fn schedule(self: &Arc<Self>, schedule: Schedule) {
        if schedule == Schedule::Now {
            self.scheduler.schedule(Arc::clone(self) as Arc<dyn Process>);
        }
    }

    /// One more handle.
    pub(crate) fn retain(&self) {
        // Relaxed: whoever adds a handle has one, or is in a turn of the actor.
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// One handle less; without any, the actor looks whether it is still needed.
    pub(crate) fn release(self: &Arc<Self>) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.schedule(self.mailbox.nudge());
        }
    }

    fn is_needed(&self) -> bool {
        self.keep_alive || self.handles.load(Ordering::Acquire) > 0 || self.timers.keep_alive()
    }

    /// Adds a turn that the actor owes itself; dropped only when it is gone.
    pub(crate) fn push_own(self: &Arc<Self>, handler: &'static str, f: impl FnOnce(&mut A, &Cx<A>) + Send + 'static) {
        let message = turn::plain(handler, move |state: &mut Lease<A>, cx: &Cx<A>| {
            f(state, cx);
            Value(())
        });
        match self.mailbox.push_own(Entry::Message(message.owing(Reply::none()))) {
            Ok(schedule) => self.schedule(schedule),
            Err(entry) => self.refuse(entry, &self.stopped()),
        }
    }

    pub(crate) fn refuse(&self, entry: Entry<A>, error: &ActorError) {
        if let Entry::Message(envelope) = entry {
            envelope.refuse(error.clone());
        }
    }

    /// Has the turn that polls with `waker` look again when the state may have changed.
    pub(crate) fn wake_on_change(&self, waker: &Waker) {
        let mut waiting = self.changes.lock();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        // Relaxed: turns of one actor follow each other, and only they wait and announce.
        self.has_waiting.store(true, Ordering::Relaxed);
    }

    /// The state may have changed.
    pub(crate) fn announce_change(&self) {
        if !self.has_waiting.load(Ordering::Relaxed) {
            return;
        }
        self.has_waiting.store(false, Ordering::Relaxed);
        let waiting = std::mem::take(&mut *self.changes.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Runs `envelope` on this thread as a turn of an actor that the caller has claimed.
    pub(crate) fn run_claimed(self: &Arc<Self>, mut body: Box<Body<A>>, envelope: Envelope<A>) {
        let _frame = frame::enter(Arc::clone(self) as Arc<dyn Process>);
        let mut lender = Lender::new(self);
        let next = self.begin_turn(&mut body, &mut lender, envelope);
        drop(lender);
        if matches!(next, Next::GoOn) {
            // What has come meanwhile is not the caller's to wait for.
            self.rest(body, 0);
        }
    }

    /// Takes turns until the budget or the batch is used up.
    fn run_batch(self: &Arc<Self>, body: &mut Body<A>, budget: &mut usize) -> Next {
        let mut lender = Lender::new(self);
        loop {
            if body.undecided.is_some() {
                lender.put_back();
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
                lender.put_back();
                match self.obey(body, signal) {
                    Next::GoOn => continue,
                    Next::Ended => return Next::Ended,
                }
            }
            if let Some(turn) = self.overtaking(body) {
                lender.put_back();
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
                lender.put_back();
                let task = body.held.take();
                if let Some(task) = task
                    && matches!(self.poll_task(body, task), Next::Ended)
                {
                    return Next::Ended;
                }
                continue;
            }
            let Some(entry) = body.batch.pop_front() else { break };
            let open_fate = match &entry {
                Entry::Message(envelope) => envelope.open_fate(),
                Entry::Resume(_) => None,
            };
            if let Some(fate) = &open_fate
                && (A::COPY.is_none() || !body.cooperative.is_empty())
                && !cfg!(plant = "take_up_the_undecided")
            {
                body.batch.push_front(entry);
                self.wait_for(body, fate.clone(), None);
                continue;
            }
            if self.mailbox.is_bounded() {
                self.mailbox.make_room();
            }
            let next = match (entry, open_fate) {
                (Entry::Message(envelope), Some(fate)) if !cfg!(plant = "take_up_the_undecided") => {
                    self.begin_tentatively(body, &mut lender, envelope, fate)
                }
                (Entry::Message(envelope), None)
                    if envelope.is_retracted() && !cfg!(plant = "take_up_the_retracted") =>
                {
                    envelope.refuse(ActorError::Retracted);
                    Next::GoOn
                }
                (Entry::Message(envelope), _) => self.begin_turn(body, &mut lender, envelope),
                (Entry::Resume(turn), _) => {
                    lender.put_back();
                    self.resume(body, turn)
                }
            };
            if matches!(next, Next::Ended) {
                return Next::Ended;
            }
            *budget -= 1;
        }
        Next::GoOn
    }

    /// Goes on, gives the activation up, or ends the actor.
    fn rest(self: &Arc<Self>, mut body: Box<Body<A>>, mut budget: usize) {
        loop {
            match self.mailbox.rest(body, budget > 0, || self.is_needed()) {
                Rest::GoOn(again) => {
                    body = again;
                    if matches!(self.run_batch(&mut body, &mut budget), Next::Ended) {
                        return;
                    }
                }
                Rest::Idle => return,
                Rest::Again => return self.scheduler.schedule_behind(Arc::clone(self) as Arc<dyn Process>),
                Rest::Drained(mut body) => return self.end(&mut body, ExitReason::Stopped),
                Rest::Released(mut body) => return self.end(&mut body, ExitReason::Released),
            }
        }
    }

    /// Makes a message a turn.
    fn begin_turn(self: &Arc<Self>, body: &mut Body<A>, lender: &mut Lender<A>, envelope: Envelope<A>) -> Next {
        let Envelope { handler, turn, .. } = envelope;
        let _tentatively = enter_tentatively(body);
        match turn {
            Turn::Plain(turn) => {
                let span = turn_span(&self.identity, handler);
                let _entered = span.enter();
                let (lease, cx) = lender.lend();
                let ended = turn.run(lease, cx);
                if ended.is_err() || self.has_next.load(Ordering::Acquire) {
                    lender.put_back();
                }
                self.turn_ended(body, ended)
            }
            Turn::Held(turn) => {
                lender.put_back();
                let lease = Lease::take(self).expect("no turn has the state between two turns");
                self.begin_task(body, handler, true, turn.start(lease, Cx::new(Arc::clone(self))))
            }
            Turn::Cooperative(turn) => {
                lender.put_back();
                self.begin_task(body, handler, false, turn.start((), Cx::new(Arc::clone(self))))
            }
        }
    }
}

fn turn_span(actor: &Identity, handler: &'static str) -> tracing::Span {
    // The macro looks at the level after it has prepared everything for the `log` crate.
    if tracing::level_filters::LevelFilter::current() < tracing::level_filters::LevelFilter::TRACE {
        return tracing::Span::none();
    }
    tracing::trace_span!("turn", %actor, handler)
}

impl<A: Actor> Process for ActorCell<A> {
    fn id(&self) -> ActorId {
        self.identity.id()
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    fn ending(&self) -> &Ending {
        &self.ending
    }

    fn activate(self: Arc<Self>) {
        let mut body = self.mailbox.begin();
        let _frame = frame::enter(Arc::clone(&self) as Arc<dyn Process>);
        let mut budget = TURNS_PER_ACTIVATION;
        if matches!(self.run_batch(&mut body, &mut budget), Next::GoOn) {
            self.rest(body, budget);
        }
    }

    fn signal(self: Arc<Self>, signal: Signal) {
        self.schedule(self.mailbox.signal(signal));
    }

    fn is_settled(&self) -> bool {
        self.mailbox.is_idle() && self.under_way.load(Ordering::Relaxed) == 0
    }
}
