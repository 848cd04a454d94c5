//! An actor from the inside: mailbox, state, suspended turns, and the loop that runs them.
//!
//! # Who may touch what
//! * `mailbox` - anybody; it decides who runs (see there).
//! * `body` - whoever owns the mailbox's `Running`; taken out for the activation and put back at its end.
//! * `state` - the turn that runs, through a [`Lease`] that puts it back when dropped; `None` means that a turn has it.
//! * `timers`, `changes`, `ending` - turns, timers and other actors, each behind its own short lock.
//!
//! # A turn's way
//! A message is taken up only while the actor is `Running` and no turn holds it. A held turn owns the state across its
//! suspensions; while it waits, only signals and its own wake-up make the actor runnable. A cooperative turn owns
//! nothing: when it is woken, its resumption is a message at the back of the mailbox.
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::fence;
use std::task::{Context, Poll, Wake, Waker};

use enact_sync::Mutex;
use enact_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use enact_sync::unmodelled::{Arc, Weak};

use crate::deadlock::{self, Owner, Suspension, TurnId, Wait};
use crate::ending::Ending;
use crate::error::{Exit, ExitReason};
use crate::frame::{self, Waits};
use crate::identity::Name;
use crate::mailbox::{Mailbox, Rest, Schedule};
use crate::scheduler::Scheduler;
use crate::spec::{self, OnPanic, Spec, Supervision, WhenFull};
use crate::timer::Timers;
use crate::turn::{self, Envelope, Lease, Message, Panic, Reply, Suspended, Turn, Value, contain};
use crate::{Actor, ActorError, ActorId, Cx, Identity, Restarts};

/// How many turns an actor takes before it goes to the back of the queue.
const TURNS_PER_ACTIVATION: usize = 128;

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
    pub(crate) mailbox: Mailbox<Entry<A>, Signal>,
    pub(crate) state: Mutex<Option<Box<A>>>,
    body: Mutex<Option<Box<Body<A>>>>,
    pub(crate) timers: Arc<Timers>,
    /// Cooperative turns that wait for a change of the state.
    changes: Mutex<Vec<Waker>>,
    /// Cooperative turns under way, for whoever asks from outside.
    under_way: AtomicUsize,
    ending: Ending,
    parent: Option<Weak<dyn Process>>,
}

/// What only the runner touches.
struct Body<A: Actor> {
    batch: VecDeque<Entry<A>>,
    held: Option<Task<A>>,
    cooperative: HashMap<TurnId, Task<A>>,
    supervision: Supervision<A>,
    restarts: VecDeque<tokio::time::Instant>,
}

/// An asynchronous turn under way.
struct Task<A: Actor> {
    turn: Box<dyn Suspended>,
    handler: &'static str,
    waker: Arc<TurnWaker<A>>,
    waits: Waits,
}

/// Wakes one asynchronous turn.
struct TurnWaker<A: Actor> {
    cell: Arc<ActorCell<A>>,
    turn: TurnId,
    holds: bool,
    woken: Arc<AtomicBool>,
}

impl<A: Actor> Wake for TurnWaker<A> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: what was done before the wake-up is seen by the poll that takes the flag.
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let schedule = if self.holds {
            self.cell.mailbox.wake_held(self.turn)
        } else {
            self.cell.mailbox.push_own(Entry::Resume(self.turn)).unwrap_or(Schedule::NotNeeded)
        };
        self.cell.schedule(schedule);
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
            mailbox: Mailbox::new(capacity),
            state: Mutex::new(Some(Box::new(spec.state))),
            body: Mutex::new(Some(Box::new(Body {
                batch: VecDeque::new(),
                held: None,
                cooperative: HashMap::new(),
                supervision: spec.supervision,
                restarts: VecDeque::new(),
            }))),
            timers: Arc::default(),
            changes: Mutex::default(),
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
        let message = turn::plain(handler, move |state: &mut A, cx: &Cx<A>| {
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
    }

    /// The state may have changed.
    pub(crate) fn announce_change(&self) {
        let waiting = std::mem::take(&mut *self.changes.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Runs `envelope` on this thread as a turn of an actor that the caller has claimed.
    pub(crate) fn run_claimed(self: &Arc<Self>, envelope: Envelope<A>) {
        let _frame = frame::enter(Arc::clone(self) as Arc<dyn Process>);
        let mut body = self.take_body();
        if matches!(self.begin_turn(&mut body, envelope), Next::GoOn) {
            self.rest(body);
        }
    }

    fn take_body(&self) -> Box<Body<A>> {
        self.body.lock().take().expect("only the owner of an activation has the body")
    }

    /// Takes turns until the budget or the mailbox is used up.
    fn run_batch(self: &Arc<Self>, body: &mut Body<A>) -> Next {
        let mut budget = TURNS_PER_ACTIVATION;
        while budget > 0 {
            if let Some(signal) = self.mailbox.next_signal() {
                match self.obey(body, signal) {
                    Next::GoOn => continue,
                    Next::Ended => return Next::Ended,
                }
            }
            if body.held.is_some() {
                if !self.mailbox.take_wake_up() {
                    break;
                }
                budget -= 1;
                let task = body.held.take();
                if let Some(task) = task
                    && matches!(self.poll_task(body, task), Next::Ended)
                {
                    return Next::Ended;
                }
                continue;
            }
            if body.batch.is_empty() {
                self.mailbox.take(&mut body.batch);
            }
            let Some(entry) = body.batch.pop_front() else { break };
            if self.mailbox.is_bounded() {
                self.mailbox.make_room();
            }
            let next = match entry {
                Entry::Message(envelope) => self.begin_turn(body, envelope),
                Entry::Resume(turn) => self.resume(body, turn),
            };
            if matches!(next, Next::Ended) {
                return Next::Ended;
            }
            budget -= 1;
        }
        Next::GoOn
    }

    /// Puts the body back and gives the activation up, or ends the actor.
    fn rest(self: &Arc<Self>, mut body: Box<Body<A>>) {
        // A claim takes one turn only; a signal that came meanwhile is obeyed by the activation that follows.
        let leftover = !body.batch.is_empty();
        let suspended = !body.cooperative.is_empty();
        let mut slot = self.body.lock();
        let rest = self.mailbox.rest(leftover, suspended, || self.is_needed());
        // Put back under the slot's lock, which whoever runs next waits for.
        match rest {
            Rest::Idle => *slot = Some(body),
            Rest::Again => {
                *slot = Some(body);
                drop(slot);
                self.scheduler.schedule_behind(Arc::clone(self) as Arc<dyn Process>);
            }
            Rest::Drained | Rest::Released => {
                drop(slot);
                let reason = if rest == Rest::Drained { ExitReason::Stopped } else { ExitReason::Released };
                self.end(&mut body, reason);
            }
        }
    }

    /// Makes a message a turn.
    fn begin_turn(self: &Arc<Self>, body: &mut Body<A>, envelope: Envelope<A>) -> Next {
        let Envelope { handler, turn } = envelope;
        let cx = Cx::new(Arc::clone(self));
        match turn {
            Turn::Plain(turn) => {
                let span = turn_span(&self.identity, handler);
                let _entered = span.enter();
                let mut lease = Lease::take(self).expect("no turn has the state between two turns");
                let ended = turn.run(&mut lease, &cx);
                drop(lease);
                self.announce_change();
                self.after_turn(body, ended)
            }
            Turn::Held(turn) => {
                let lease = Lease::take(self).expect("no turn has the state between two turns");
                self.begin_task(body, handler, true, turn.start(lease, cx))
            }
            Turn::Cooperative(turn) => self.begin_task(body, handler, false, turn.start((), cx)),
        }
    }

    fn begin_task(
        self: &Arc<Self>,
        body: &mut Body<A>,
        handler: &'static str,
        holds: bool,
        started: Result<Box<dyn Suspended>, Panic>,
    ) -> Next {
        let turn = match started {
            Ok(turn) => turn,
            Err(panic) => return self.after_turn(body, Err(panic)),
        };
        let id = TurnId::fresh();
        let woken = Arc::new(AtomicBool::new(false));
        let waker = Arc::new(TurnWaker { cell: Arc::clone(self), turn: id, holds, woken });
        if holds {
            self.mailbox.hold(id);
        } else {
            turn.now_owed_by(Owner::Turn(id, self.id()));
        }
        self.poll_task(body, Task { turn, handler, waker, waits: Waits::default() })
    }

    fn resume(self: &Arc<Self>, body: &mut Body<A>, turn: TurnId) -> Next {
        match body.cooperative.remove(&turn) {
            Some(task) => {
                self.under_way.fetch_sub(1, Ordering::Relaxed);
                self.poll_task(body, task)
            }
            // It has ended in the poll in which it was woken, or was cut short by a restart.
            None => Next::GoOn,
        }
    }

    /// Polls a turn, and keeps it if it goes on.
    fn poll_task(self: &Arc<Self>, body: &mut Body<A>, mut task: Task<A>) -> Next {
        let verdict = deadlock::resume(task.waker.turn);
        // Acquire: pairs with the wake-up whose poll this is.
        task.waker.woken.swap(false, Ordering::Acquire);
        let waker = Waker::from(Arc::clone(&task.waker));
        frame::begin_poll(task.waker.turn, &waker, std::mem::take(&mut task.waits), verdict);
        let span = turn_span(&self.identity, task.handler);
        let polled = span.in_scope(|| task.turn.poll(&mut Context::from_waker(&waker), &self.identity));
        task.waits = frame::end_poll();
        drop(waker);
        match polled {
            Poll::Ready(ended) => {
                if task.waker.holds {
                    self.mailbox.unhold();
                }
                self.announce_change();
                self.after_turn(body, ended)
            }
            Poll::Pending => {
                self.suspend(body, task);
                Next::GoOn
            }
        }
    }

    fn suspend(&self, body: &mut Body<A>, task: Task<A>) {
        // One is ours; whatever is left over is kept by something that the graph does not know.
        let opaque = Arc::strong_count(&task.waker) > 1 + task.waits.own_wakers();
        // A waker given back before we counted was used before that; the wake-up is then seen below.
        fence(Ordering::Acquire);
        let suspension = Suspension {
            turn: task.waker.turn,
            actor: self.identity.clone(),
            holds: task.waker.holds,
            waits: task.waits.sources().map(Wait::Answer).collect(),
            opaque,
            woken: Arc::clone(&task.waker.woken),
            waker: Waker::from(Arc::clone(&task.waker)),
        };
        if task.waker.holds {
            body.held = Some(task);
        } else {
            self.under_way.fetch_add(1, Ordering::Relaxed);
            body.cooperative.insert(task.waker.turn, task);
        }
        deadlock::suspend(vec![suspension]);
    }

    fn after_turn(self: &Arc<Self>, body: &mut Body<A>, ended: Result<(), Panic>) -> Next {
        match ended {
            Ok(()) => Next::GoOn,
            Err(Panic(text)) => {
                tracing::error!(actor = %self.identity, text = &*text, "a turn panicked");
                self.fail(body, ExitReason::Panicked { text })
            }
        }
    }

    fn obey(self: &Arc<Self>, body: &mut Body<A>, signal: Signal) -> Next {
        match signal {
            Signal::Stop(reason) => {
                self.end(body, reason);
                Next::Ended
            }
            Signal::ChildFailed(exit) => self.fail(body, ExitReason::Failed { because_of: exit.actor }),
        }
    }

    /// What supervision makes of a failure.
    fn fail(self: &Arc<Self>, body: &mut Body<A>, reason: ExitReason) -> Next {
        if self.restart(body) {
            return Next::GoOn;
        }
        match body.supervision.otherwise {
            OnPanic::Resume => return Next::GoOn,
            OnPanic::Stop => self.end(body, reason),
            OnPanic::Escalate => {
                let exit = Exit { actor: self.identity.clone(), reason: reason.clone() };
                self.end(body, reason);
                if let Some(parent) = self.parent.as_ref().and_then(Weak::upgrade) {
                    parent.signal(Signal::ChildFailed(exit));
                }
            }
        }
        Next::Ended
    }

    /// Replaces the state, if it may be restarted once more and its maker does not panic.
    fn restart(self: &Arc<Self>, body: &mut Body<A>) -> bool {
        let Some((limit, make)) = &mut body.supervision.restart else { return false };
        if !admit_restart(*limit, &mut body.restarts) {
            return false;
        }
        let Ok(state) = contain(make) else { return false };
        self.cut_short(body, &ActorError::Restarted { actor: self.identity.clone() });
        self.timers.cancel_all();
        let old = self.state.lock().replace(Box::new(state));
        // A destructor that panics has no turn to fail.
        let _dropped = contain(|| drop(old));
        tracing::info!(actor = %self.identity, "restarted");
        true
    }

    /// Ends all turns under way with `error`.
    fn cut_short(&self, body: &mut Body<A>, error: &ActorError) {
        let cooperative = std::mem::take(&mut body.cooperative);
        self.under_way.store(0, Ordering::Relaxed);
        for task in body.held.take().into_iter().chain(cooperative.into_values()) {
            deadlock::resume(task.waker.turn);
            task.turn.cut_short(error.clone());
        }
        self.mailbox.unhold();
        self.changes.lock().clear();
    }

    /// Ends the actor. The caller owns the activation, which is never given up again.
    fn end(self: &Arc<Self>, body: &mut Body<A>, reason: ExitReason) {
        let stopped = self.stopped();
        let queued = self.mailbox.close();
        self.cut_short(body, &stopped);
        self.timers.close();
        for entry in body.batch.drain(..).chain(queued) {
            self.refuse(entry, &stopped);
        }
        let state = self.state.lock().take();
        if contain(|| drop(state)).is_err() {
            tracing::error!(actor = %self.identity, "the state's destructor panicked");
        }
        // The maker may own handles, its own among them.
        body.supervision.restart = None;
        self.ending.end(&Exit { actor: self.identity.clone(), reason });
        self.scheduler.forget(self.id());
    }
}

impl<A: Actor> Drop for ActorCell<A> {
    fn drop(&mut self) {
        // The last thing that it lived by was taken back, such as a timer: it ends without another turn.
        if self.ending.exit().is_none() {
            self.ending.end(&Exit { actor: self.identity.clone(), reason: ExitReason::Released });
            self.scheduler.forget(self.identity.id());
        }
    }
}

/// Whether one more restart is within the limit; counts it if so.
fn admit_restart(limit: Restarts, past: &mut VecDeque<tokio::time::Instant>) -> bool {
    let now = tokio::time::Instant::now();
    let is_old = |at: &tokio::time::Instant| now.duration_since(*at) > limit.within;
    while past.front().is_some_and(is_old) {
        past.pop_front();
    }
    let admitted = past.len() < limit.count;
    if admitted {
        past.push_back(now);
    }
    admitted
}

fn turn_span(actor: &Identity, handler: &'static str) -> tracing::Span {
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
        self.mailbox.begin();
        let _frame = frame::enter(Arc::clone(&self) as Arc<dyn Process>);
        let mut body = self.take_body();
        if matches!(self.run_batch(&mut body), Next::GoOn) {
            self.rest(body);
        }
    }

    fn signal(self: Arc<Self>, signal: Signal) {
        self.schedule(self.mailbox.signal(signal));
    }

    fn is_settled(&self) -> bool {
        self.mailbox.is_idle() && self.under_way.load(Ordering::Relaxed) == 0
    }
}
