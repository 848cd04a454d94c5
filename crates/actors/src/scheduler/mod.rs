//! Running many actors on few threads.
//!
//! Each worker has a queue of its own and a slot for the actor it has just sent to, whose message is still in its
//! cache; what is sent from outside goes through the injector. A worker without work searches the others' queues,
//! then their slots, then sleeps. Fairness: an actor takes a bounded batch of turns and goes to the back; the slot is
//! taken a bounded number of times in a row; an actor in the slot of a worker with a long turn is taken by a searching
//! one, or by one that [looks](watch) for what waits behind long turns.
//!
//! # What comes from outside
//! Sends of other threads, and the wake-ups of timers and I/O, make actors runnable through the injector. A worker looks
//! there before each run. It takes as many actors in a row as wait when it takes the first one, then as many of its
//! own, and looks again. Its own come in the order of its queue, at the back of which it puts the slot's, so none of them
//! comes twice. An actor from outside therefore waits for at most two runs of each runnable actor: the one under
//! way, or one that came from outside before it, and one of the worker's own. Neither side can starve the other.
//!
//! Two runs are a number of turns and not a time. A run also looks every few turns, and ends when it sees
//! that something from outside has waited for a quantum.
//!
//! A worker takes one actor at a time from the injector and leaves the others there: they would wait for all of its
//! runs if it took them along, while another worker passes by.
mod board;
mod calls;
pub(crate) mod cost;
pub(crate) mod crossing;
pub(crate) mod idle;
mod judge;
mod line;
mod local;
mod own_queue;
mod pace;
mod placement;
mod policy;
mod queues;
pub(crate) mod registry;
#[cfg(feature = "simulation")]
pub(crate) mod simulation;
mod sleepers;
mod spare;
mod stack;
mod waiting;
mod watch;
mod worker;

use std::task::Waker;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use enact_stm::Tx;
use enact_stm::hooks::Decision;
use enact_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use enact_sync::unmodelled::Arc;
use enact_sync::{Mutex, thread};

use self::calls::Call;
use self::idle::Idle;
use self::own_queue::OwnQueue;
use self::queues::Queues;
use self::registry::Registry;
use self::spare::Spares;
use self::waiting::Waiting;
use self::worker::{Core, Threads};
use crate::cell::{Activation, ActorCell, Signal, TurnWaker};
use crate::deadlock::{TurnId, Wait};
use crate::error::ExitReason;
use crate::mailbox::records::Kind;
use crate::parker::Parker;
use crate::{Actor, ActorError, ActorId, Handle, Spec, frame, io, tentative};

/// How long an actor lets messages gather that it could only fetch a few at a time.
const GATHERING: Duration = Duration::from_micros(2);

/// After how many turns a run looks whether something from outside waits.
const TURNS_PER_LOOK: usize = 8;

/// An actor that is runnable.
pub(crate) type Runnable = Box<Activation>;

pub(crate) struct Scheduler {
    queues: Queues<Runnable>,
    /// Written whenever a worker looks for work, and so kept apart from what every message reads.
    idle: CachePadded<Idle>,
    spares: Spares,
    registry: Registry,
    /// Threads that run a turn to its end without a core.
    blocked: AtomicUsize,
    /// Whether senders are asked: only workers may send, or what is sent is recorded.
    asks_senders: AtomicBool,
    /// Whether only workers may send and spawn.
    accepts_only_own: AtomicBool,
    /// Whether every actor is to end.
    closing: AtomicBool,
    /// Woken when all workers sleep, and when the last actor has ended.
    quiet: Parker,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    thread_name: String,
    stack_bytes: usize,
    tokio: tokio::runtime::Handle,
    #[cfg(feature = "simulation")]
    tape: simulation::Tape,
}

impl Scheduler {
    /// Starts `workers` threads.
    pub(crate) fn start(
        workers: usize,
        thread_name: String,
        stack_bytes: usize,
        tokio: tokio::runtime::Handle,
    ) -> std::io::Result<Arc<Self>> {
        // One worker crosses with nobody.
        let line = if workers > 1 { line::cost() } else { Duration::ZERO };
        let cores: Vec<Box<Core>> = (0..workers).map(|index| Box::new(Core::new(index, line))).collect();
        let scheduler = Arc::new(Self {
            queues: Queues::of(cores.iter().map(|core| &core.own.deque), Instant::now()),
            idle: CachePadded::new(Idle::new(workers)),
            spares: Spares::default(),
            registry: Registry::default(),
            blocked: AtomicUsize::new(0),
            asks_senders: AtomicBool::new(false),
            accepts_only_own: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            quiet: Parker::default(),
            threads: Mutex::default(),
            thread_name,
            stack_bytes,
            tokio,
            #[cfg(feature = "simulation")]
            tape: simulation::Tape::default(),
        });
        for core in cores {
            scheduler.spares.offer(core);
            if let Err(error) = scheduler.start_thread() {
                scheduler.close();
                scheduler.spares.close();
                return Err(error);
            }
        }
        Ok(scheduler)
    }

    fn start_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let scheduler = Arc::clone(self);
        let thread = thread::spawn_named(self.thread_name.clone(), self.stack_bytes, move || worker::run(&scheduler))?;
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread::has_ended(thread));
        threads.push(thread);
        Ok(())
    }

    pub(crate) fn tokio(&self) -> &tokio::runtime::Handle {
        &self.tokio
    }

    /// Makes an actor that was just sent to, or woken, the next one of this worker.
    pub(crate) fn schedule(&self, runnable: Runnable) {
        let mut runnable = Some(runnable);
        let add = |core: &mut Core| core.own.add_next(&self.queues, &self.idle.sleepers, &mut runnable);
        if local::with_core_of(self, add) != Some(true) {
            self.finish_scheduling(runnable, OwnQueue::add_next_timed);
        }
    }

    /// Puts an actor that has used its batch up at the back of the queue.
    pub(crate) fn schedule_behind(&self, runnable: Runnable) {
        let mut runnable = Some(runnable);
        let add = |core: &mut Core| core.own.add_last(&self.idle.sleepers, &mut runnable);
        if local::with_core_of(self, add) != Some(true) {
            self.finish_scheduling(runnable, OwnQueue::add_last_timed);
        }
    }

    /// Adds what was not added yet: as `add_timed` does where runs are timed, and to everybody's queue if this is no worker.
    /// Wakes somebody if that is worth it.
    #[inline(never)]
    fn finish_scheduling(
        &self,
        runnable: Option<Runnable>,
        add_timed: fn(&mut OwnQueue<Threads>, &Queues<Runnable>, Runnable) -> bool,
    ) {
        let mut runnable = runnable;
        let finish = |core: &mut Core| core.own.finish_adding(&self.queues, runnable.take(), add_timed);
        let is_worth_it = local::with_core_of(self, finish);
        if let Some(runnable) = runnable {
            self.queues.injector.push(runnable);
            self.idle.work_added();
        } else if is_worth_it == Some(true) {
            self.idle.ask_for_help();
        }
    }

    /// Has `actor` begin one turn on this thread, inside of the one that it is in, if it is the next to run here, and
    /// if that turn makes no synchronous call: those can wait for anything, also for the end of the actor whose turn
    /// this is. It returns when that turn has ended or is suspended.
    pub(crate) fn run_next_here(&self, actor: ActorId) -> bool {
        let next = local::with_core_and_stack_of(self, |core, stack| {
            let is_brief = |activation: &mut Runnable| {
                activation.cell().id() == actor
                    && activation.brief_next().is_some_and(|kind| kind == Kind::Plain || stack.is_half_left())
            };
            let own = &mut core.own;
            if own.may_nest(&self.queues) { self.queues.slots[own.index].lock().take_if(is_brief) } else { None }
        });
        let Some(activation) = next.flatten() else { return false };
        activation.take_brief_turn();
        true
    }

    /// Has the turn of `caller` stand on this worker's stack, if the next actor to run here keeps the promise that the
    /// turn waits for. The worker, if so.
    pub(crate) fn call_next(&self, caller: &Arc<ActorCell>, turn: TurnId, promise: usize) -> Option<usize> {
        let added = local::with_core_of(self, |core| {
            let worker = core.own.index;
            core.calls.add(&self.queues.slots[worker], caller, turn, promise).then_some(worker)
        });
        added.flatten()
    }

    /// Waits for two microseconds, unless there is something else to run.
    ///
    /// An actor that keeps up with a stream of messages would fetch them a few at a time, and with each fetch take the
    /// mailbox out of the senders' caches: everybody would be slower than the slower one of the two.
    pub(crate) fn let_messages_gather(&self) {
        if is_model() || self.has_other_work() {
            return;
        }
        let since = Instant::now();
        while since.elapsed() < GATHERING {
            enact_sync::hint::spin_loop();
        }
    }

    /// Whether an actor waits in a queue, or in the slot of this worker.
    fn has_other_work(&self) -> bool {
        let has_next = local::with_core_of(self, |core| self.queues.slots[core.own.index].lock().is_some());
        has_next != Some(false) || self.queues.have_queued_work()
    }

    /// Whether this thread may send a message to `actor` now.
    #[inline]
    pub(crate) fn accepts(&self, actor: &ActorCell) -> bool {
        !self.asks_senders.load(Ordering::Relaxed) || self.accepts_after_asking(actor)
    }

    #[cold]
    #[cfg_attr(not(feature = "simulation"), expect(unused_variables, reason = "only a recording asks who is sent to"))]
    fn accepts_after_asking(&self, actor: &ActorCell) -> bool {
        #[cfg(feature = "simulation")]
        self.tape.send(actor.id());
        self.may_spawn()
    }

    /// Whether this thread may make actors now.
    fn may_spawn(&self) -> bool {
        !self.accepts_only_own.load(Ordering::Relaxed) || local::is_worker_of(self)
    }

    /// Refuses what comes from outside from now on.
    pub(crate) fn accept_only_own(&self) {
        self.accepts_only_own.store(true, Ordering::SeqCst);
        self.asks_senders.store(true, Ordering::SeqCst);
    }

    /// Has senders be asked while they are recorded.
    #[cfg(feature = "simulation")]
    fn ask_senders(&self, are_recorded: bool) {
        let asks = are_recorded || self.accepts_only_own.load(Ordering::SeqCst);
        self.asks_senders.store(asks, Ordering::SeqCst);
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn tape(&self) -> &simulation::Tape {
        &self.tape
    }

    /// Ends every actor, after the turn that it is in.
    pub(crate) fn close(&self) {
        self.accept_only_own();
        self.closing.store(true, Ordering::SeqCst);
        for actor in self.registry.all() {
            actor.signal(Signal::Stop(ExitReason::Shutdown));
        }
        self.idle.wake_all();
    }

    fn has_ended(&self) -> bool {
        self.closing.load(Ordering::SeqCst) && self.registry.is_empty()
    }

    pub(crate) fn forget(&self, actor: &ActorCell) {
        if self.registry.remove(actor) {
            self.quiet.unpark();
            if self.has_ended() {
                self.idle.wake_all();
            }
        }
    }

    /// Adds an actor. Returns whether it may take anything up.
    fn admit(&self, actor: &Arc<ActorCell>) -> bool {
        self.registry.add(actor);
        // Looked at after it was added: either `close` finds the actor, or the actor finds the system closing.
        !self.closing.load(Ordering::SeqCst) && self.may_spawn()
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Waits until nothing is runnable and no turn is under way. Returns whether that was before `deadline`.
    pub(crate) fn wait_until_settled(&self, deadline: Instant) -> bool {
        self.wait_until(deadline, || {
            self.idle.all_asleep()
                && self.blocked.load(Ordering::SeqCst) == 0
                && !self.queues.have_work()
                && self.registry.all().iter().all(|actor| actor.is_settled())
        })
    }

    /// Waits until every actor has ended. Returns whether that was before `deadline`.
    pub(crate) fn wait_until_empty(&self, deadline: Instant) -> bool {
        self.wait_until(deadline, || self.registry.is_empty())
    }

    fn wait_until(&self, deadline: Instant, mut done: impl FnMut() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if !self.quiet.park_until(deadline) {
                return done();
            }
        }
    }

    /// Waits for the threads to end, unless this is one of them.
    pub(crate) fn join(&self) {
        if local::is_worker_of(self) {
            return;
        }
        loop {
            let Some(thread) = self.threads.lock().pop() else { return };
            if thread.join().is_err() {
                tracing::error!("a worker thread panicked");
            }
        }
    }

    /// Lets another thread go on with `core` while this one blocks.
    fn hand_over(self: &Arc<Self>, core: Box<Core>) {
        self.blocked.fetch_add(1, Ordering::SeqCst);
        if self.spares.offer(core) && self.start_thread().is_err() {
            // No thread to be had: this worker's actors wait, unless somebody has taken the core meanwhile.
            if let Some(core) = self.spares.withdraw() {
                self.unblocked();
                local::put_core(core);
            }
        }
    }

    /// A thread without a core has ended its turn.
    fn unblocked(&self) {
        self.blocked.fetch_sub(1, Ordering::SeqCst);
        self.quiet.unpark();
    }
}

/// Whether a model runs this. It explores what several workers do, not what it costs.
const fn is_model() -> bool {
    cfg!(any(enact_loom, enact_shuttle))
}

/// Takes a turn off what is left of a batch, or all of it if this worker is wanted for what comes from outside.
#[inline]
pub(crate) fn spend_turn(budget: &mut usize) {
    *budget -= 1;
    if budget.is_multiple_of(TURNS_PER_LOOK) && *budget > 0 && is_wanted_outside() {
        *budget = 0;
    }
}

/// Has this worker enter a suspended turn in the graph of waits, unless that goes on soon. Any other thread enters it now.
#[inline]
pub(crate) fn list_suspended(turn: &Arc<TurnWaker>) {
    if local::with_core(|core, _| core.waiting.add(turn)).is_none() {
        turn.enter();
    }
}

/// Whether the run that runs here has lasted for a quantum since something from outside began to wait.
///
/// The thread knows its scheduler. So does the actor, but in a line that its senders write to.
#[inline(never)]
fn is_wanted_outside() -> bool {
    local::with_core(|core, scheduler| core.own.is_wanted_outside(&scheduler.queues)).unwrap_or(false)
}

/// Makes an actor, in a tentative turn when that is definitive.
pub(crate) fn spawn<A: Actor>(scheduler: &Arc<Scheduler>, spec: Spec<A>, parent: Option<&Arc<ActorCell>>) -> A::Ref {
    let (cell, activation) = ActorCell::create(spec, Arc::clone(scheduler), parent);
    let handle = Handle::new(&cell);
    if frame::is_tentative() {
        tentative::follow(move |decision| match decision {
            Decision::Committed => begin(activation),
            Decision::Aborted => activation.discard(ExitReason::Retracted),
        });
    } else if scheduler.admit(&cell) {
        // Nobody has sent anything yet, but the system may have begun to close.
        cell.schedule(cell.mailbox.settle(activation));
        if scheduler.accepts_only_own.load(Ordering::Relaxed) {
            // A shutdown may have seen it before it was idle, and waits for it.
            scheduler.quiet.unpark();
        }
    } else {
        activation.discard(ExitReason::Shutdown);
    }
    A::Ref::from(handle)
}

/// Makes an actor that begins when `tx` commits.
pub(crate) fn spawn_within<A: Actor>(
    tx: &mut Tx<'_, '_>,
    scheduler: &Arc<Scheduler>,
    spec: Spec<A>,
    parent: Option<&Arc<ActorCell>>,
) -> A::Ref {
    let (cell, activation) = ActorCell::create(spec, Arc::clone(scheduler), parent);
    let handle = Handle::new(&cell);
    let activation = Arc::new(Mutex::new(Some(activation)));
    if cfg!(planted = "begin_before_the_commit") {
        activation.lock().take().into_iter().for_each(begin);
    }
    let unwanted = Arc::clone(&activation);
    tentative::perform_within(
        tx,
        move || activation.lock().take().into_iter().for_each(begin),
        move || unwanted.lock().take().into_iter().for_each(|activation| activation.discard(ExitReason::Retracted)),
    );
    A::Ref::from(handle)
}

/// Lets an actor begin that was held back, and that may have messages by now.
fn begin(activation: Runnable) {
    let scheduler = Arc::clone(activation.cell().scheduler());
    if scheduler.admit(activation.cell()) {
        scheduler.schedule(activation);
    } else {
        // Not by a signal: the workers may have gone home while it was held back.
        activation.discard(ExitReason::Shutdown);
    }
}

/// Whether a turn may run on this thread inside of the one that it is in: on a worker, with enough of its stack left.
pub(crate) fn has_room_for_a_turn() -> bool {
    local::has_room_for_a_turn()
}

/// Whether this thread belongs to a system.
pub(crate) fn is_worker() -> bool {
    local::is_worker()
}

/// Panics if `what` would block a thread that drives a tokio runtime.
pub(crate) fn assert_may_block(what: &str) {
    assert!(
        is_worker() || io::may_block(),
        "{what} would block a thread that drives a tokio runtime, with its timers and I/O: await the promise, or go to \
         `tokio::runnable::spawn_blocking`"
    );
}

/// Blocks this thread for `wait` until `parker` is woken; the error if the wait can never end.
///
/// A worker's other actors are run by another thread meanwhile.
///
/// # Panics
/// On a thread that drives a tokio runtime.
pub(crate) fn block(wait: Wait, parker: &Arc<Parker>) -> Option<ActorError> {
    assert_may_block(match &wait {
        Wait::Answer(_) => "`call`",
        Wait::Actor(_) => "a send to a full mailbox",
    });
    // What this thread's turns lead to is known before they are entered, so that the wait that closes a circle is told
    // of it.
    local::with_core(|core, _| core.calls.take()).into_iter().flatten().for_each(Call::look);
    local::with_core(|core, _| core.waiting.take()).into_iter().for_each(Waiting::enter);
    let blocked = frame::block(wait, &Waker::from(Arc::clone(parker)));
    park(parker);
    blocked.and_then(frame::Blocked::end)
}

/// Blocks this thread until `parker` is woken, for something that comes without any actor's doing.
pub(crate) fn park(parker: &Parker) {
    hand_over();
    parker.park();
}

/// Has another thread run this worker's other actors from here on, if this is a worker.
fn hand_over() {
    if !cfg!(planted = "keep_the_worker")
        && let Some((core, scheduler)) = local::take_core_and_scheduler()
    {
        scheduler.hand_over(core);
    }
}
