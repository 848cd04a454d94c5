//! Running many actors on few threads.
//!
//! Each worker has a queue of its own and a slot for the actor it has just sent to, whose message is still in its
//! cache; what is sent from outside goes through the injector. A worker without work searches the others' queues,
//! then their slots, then sleeps. Fairness: an actor takes a bounded batch of turns and goes to the back; the slot is
//! taken a bounded number of times in a row; the injector is looked at first every so often; an actor in the slot of a
//! worker with a long turn is taken by a searching one.
pub(crate) mod idle;
mod local;
mod placement;
pub(crate) mod population;
mod spare;
mod worker;

use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use crossbeam_deque::{Injector, Stealer};
use crossbeam_utils::CachePadded;
use enact_stm::Tx;
use enact_stm::hooks::Decision;
use enact_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use enact_sync::thread;
use enact_sync::unmodelled::Arc;
use enact_sync::{Mutex, SpinLock};

use self::idle::Idle;
use self::population::Population;
use self::spare::Spares;
use self::worker::Core;
use crate::cell::{ActorCell, Body, Signal};
use crate::deadlock::Wait;
use crate::error::ExitReason;
use crate::parker::Parker;
use crate::{Actor, ActorError, ActorId, Handle, Spec, frame, tentative};

/// How long an actor lets messages gather that it could only fetch a few at a time.
const GATHERING: Duration = Duration::from_micros(2);

/// An actor that is runnable.
pub(crate) type Task = Box<Body>;

pub(crate) struct Scheduler {
    injector: Injector<Task>,
    stealers: Vec<Stealer<Task>>,
    slots: Vec<CachePadded<SpinLock<Option<Task>>>>,
    /// Written whenever a worker looks for work, and so kept apart from what every message reads.
    idle: CachePadded<Idle>,
    spares: Spares,
    population: Population,
    /// Threads that run a turn to its end without a core.
    blocked: AtomicUsize,
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
}

impl Scheduler {
    /// Starts `workers` threads.
    pub(crate) fn start(
        workers: usize,
        thread_name: String,
        stack_bytes: usize,
        tokio: tokio::runtime::Handle,
    ) -> io::Result<Arc<Self>> {
        let cores: Vec<Box<Core>> = (0..workers).map(|index| Box::new(Core::new(index))).collect();
        let scheduler = Arc::new(Self {
            injector: Injector::new(),
            stealers: cores.iter().map(|core| core.deque.stealer()).collect(),
            slots: cores.iter().map(|_| CachePadded::new(SpinLock::new(None))).collect(),
            idle: CachePadded::new(Idle::new(workers)),
            spares: Spares::default(),
            population: Population::default(),
            blocked: AtomicUsize::new(0),
            accepts_only_own: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            quiet: Parker::default(),
            threads: Mutex::default(),
            thread_name,
            stack_bytes,
            tokio,
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

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
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
    pub(crate) fn schedule(&self, task: Task) {
        let mut task = Some(task);
        let worth_a_wake_up = local::with_core_of(self, |core| {
            let displaced = std::mem::replace(&mut *self.slots[core.index].lock(), task.take());
            if let Some(displaced) = displaced {
                core.deque.push(displaced);
            }
            self.idle.can_help() && core.is_worth_a_wake_up()
        });
        self.finish_scheduling(task, worth_a_wake_up);
    }

    /// Puts an actor that has used its batch up at the back of the queue.
    pub(crate) fn schedule_behind(&self, task: Task) {
        let mut task = Some(task);
        let worth_a_wake_up = local::with_core_of(self, |core| {
            task.take().into_iter().for_each(|task| core.deque.push(task));
            self.idle.can_help() && core.is_worth_a_wake_up()
        });
        self.finish_scheduling(task, worth_a_wake_up);
    }

    /// Puts what is not in a worker's own queue into everybody's, and wakes somebody if that is worth it.
    #[inline]
    fn finish_scheduling(&self, task: Option<Task>, worth_a_wake_up: Option<bool>) {
        if let Some(task) = task {
            self.injector.push(task);
            self.idle.work_added();
        } else if worth_a_wake_up == Some(true) {
            self.idle.ask_for_help();
        }
    }

    /// Has `actor` take one turn on this thread, inside of the one that it is in, if it is the next to run here, and if that
    /// turn makes no synchronous call: those can wait for anything, also for the end of the actor whose turn this is.
    pub(crate) fn run_next_here(&self, actor: ActorId) -> bool {
        let is_brief = |body: &mut Task| body.cell().id() == actor && body.is_brief_next();
        let next = local::with_core_of(self, |core| {
            if core.may_nest() { self.slots[core.index].lock().take_if(is_brief) } else { None }
        });
        let Some(body) = next.flatten() else { return false };
        body.take_brief_turn();
        true
    }

    /// Waits for two microseconds, unless there is something else to run.
    ///
    /// An actor that keeps up with a stream of messages would fetch them a few at a time, and with each fetch take the
    /// mailbox out of the senders' caches: everybody would be slower than the slower one of the two.
    pub(crate) fn let_messages_gather(&self) {
        if cfg!(any(enact_loom, enact_shuttle)) || self.has_other_work() {
            return;
        }
        let since = Instant::now();
        while since.elapsed() < GATHERING {
            enact_sync::hint::spin_loop();
        }
    }

    /// Whether an actor waits in a queue, or in the slot of this worker.
    fn has_other_work(&self) -> bool {
        let has_next = local::with_core_of(self, |core| self.slots[core.index].lock().is_some());
        has_next != Some(false) || self.has_queued_work()
    }

    fn has_queued_work(&self) -> bool {
        !self.injector.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    fn has_work(&self) -> bool {
        self.has_queued_work() || self.slots.iter().any(|slot| slot.lock().is_some())
    }

    /// Whether this thread may send messages now.
    #[inline]
    pub(crate) fn accepts(&self) -> bool {
        !self.accepts_only_own.load(Ordering::Relaxed) || local::is_worker_of(self)
    }

    /// Refuses what comes from outside from now on.
    pub(crate) fn accept_only_own(&self) {
        self.accepts_only_own.store(true, Ordering::SeqCst);
    }

    /// Ends every actor, after the turn that it is in.
    pub(crate) fn close(&self) {
        self.accept_only_own();
        self.closing.store(true, Ordering::SeqCst);
        for actor in self.population.all() {
            actor.signal(Signal::Stop(ExitReason::Shutdown));
        }
        self.idle.wake_all();
    }

    fn has_ended(&self) -> bool {
        self.closing.load(Ordering::SeqCst) && self.population.is_empty()
    }

    pub(crate) fn forget(&self, actor: &ActorCell) {
        if self.population.remove(actor) {
            self.quiet.unpark();
            if self.has_ended() {
                self.idle.wake_all();
            }
        }
    }

    /// Adds an actor; whether it may take anything up.
    fn admit(&self, actor: &Arc<ActorCell>) -> bool {
        self.population.add(actor);
        // Looked at after it was added: either `close` finds the actor, or the actor finds the system closing.
        !self.closing.load(Ordering::SeqCst) && self.accepts()
    }

    pub(crate) fn population(&self) -> &Population {
        &self.population
    }

    /// Waits until nothing is runnable and no turn is under way; whether that was before `deadline`.
    pub(crate) fn wait_until_settled(&self, deadline: Instant) -> bool {
        self.wait_until(deadline, || {
            self.idle.all_asleep()
                && self.blocked.load(Ordering::SeqCst) == 0
                && !self.has_work()
                && self.population.all().iter().all(|actor| actor.is_settled())
        })
    }

    /// Waits until every actor has ended; whether that was before `deadline`.
    pub(crate) fn wait_until_empty(&self, deadline: Instant) -> bool {
        self.wait_until(deadline, || self.population.is_empty())
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

/// Makes an actor, in a tentative turn when that is definitive.
pub(crate) fn spawn<A: Actor>(scheduler: &Arc<Scheduler>, spec: Spec<A>, parent: Option<&Arc<ActorCell>>) -> A::Ref {
    let (cell, body) = ActorCell::create(spec, Arc::clone(scheduler), parent);
    let handle = Handle::new(&cell);
    if frame::is_tentative() {
        tentative::follow(move |decision| match decision {
            Decision::Committed => begin(body),
            Decision::Aborted => body.discard(ExitReason::Retracted),
        });
    } else if scheduler.admit(&cell) {
        // Nobody has sent anything yet, but the system may have begun to close.
        cell.schedule(cell.mailbox.settle(body));
        if scheduler.accepts_only_own.load(Ordering::Relaxed) {
            // A shutdown may have seen it before it was idle, and waits for it.
            scheduler.quiet.unpark();
        }
    } else {
        body.discard(ExitReason::Shutdown);
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
    let (cell, body) = ActorCell::create(spec, Arc::clone(scheduler), parent);
    let handle = Handle::new(&cell);
    let body = Arc::new(Mutex::new(Some(body)));
    if cfg!(plant = "begin_before_the_commit") {
        body.lock().take().into_iter().for_each(begin);
    }
    let unwanted = Arc::clone(&body);
    tentative::perform_within(
        tx,
        move || body.lock().take().into_iter().for_each(begin),
        move || unwanted.lock().take().into_iter().for_each(|body| body.discard(ExitReason::Retracted)),
    );
    A::Ref::from(handle)
}

/// Lets an actor begin that was held back, and that may have messages by now.
fn begin(body: Task) {
    let scheduler = Arc::clone(body.cell().scheduler());
    if scheduler.admit(body.cell()) {
        scheduler.schedule(body);
    } else {
        // Not by a signal: the workers may have gone home while it was held back.
        body.discard(ExitReason::Shutdown);
    }
}

/// Whether this thread belongs to a system.
pub(crate) fn is_worker() -> bool {
    local::is_worker()
}

/// Blocks this thread for `wait` until `parker` is woken; the error if the wait can never end.
///
/// A worker's other actors are run by another thread meanwhile.
pub(crate) fn block(wait: Wait, parker: &Arc<Parker>) -> Option<ActorError> {
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
    if !cfg!(plant = "keep_the_worker")
        && let Some((core, scheduler)) = local::take_core_and_scheduler()
    {
        scheduler.hand_over(core);
    }
}
