//! A worker: the loop that looks for runnable actors and runs them.
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Worker as Deque};
use enact_stm::hooks;
use enact_sync::SpinLock;
use enact_sync::unmodelled::Arc;

use super::calls::{Call, Calls};
use super::waiting::Waiting;
use super::{Runnable, Scheduler, TURNS_PER_LOOK, local};
use crate::tentative;

/// How many actors in a row are taken from the slot of the one just sent to, before those that wait longer have a turn.
const SLOT_STREAK_MAX: u32 = 16;
/// How many turns of others one run may nest, about as many as it may take itself.
const NESTED_TURNS_MAX: usize = 128;
/// How long a run goes on while something from outside waits: much longer than what it costs to begin another.
const QUANTUM: Duration = Duration::from_micros(100);
/// How often a searching worker looks around before it sleeps.
const SEARCH_ROUNDS: u32 = 4;

/// How many runs a worker's clock is read for.
const RUNS_PER_LOOK: u32 = 32;
/// What it costs to run an actor on another core than the one that has it in its cache: several cache lines and a wake-up.
const COST_OF_A_MOVE_NS: u64 = 1_000;
/// How much work in its queue a worker keeps for itself.
const BACKLOG_MAX_NS: u64 = 500_000;
/// How many actors it keeps for itself, whatever their work: so many are moved together, which costs less for each.
const BACKLOG_MAX: usize = 32;

/// What makes a thread a worker. Exactly one thread has it at any time.
pub(crate) struct Core {
    pub(crate) index: usize,
    pub(crate) deque: Deque<Runnable>,
    slot_streak: u32,
    /// How many actors from outside come next.
    due_outside: usize,
    /// How many of its own actors come after them, in the order of its queue.
    due_own: usize,
    /// When it was first seen that something from outside waits for the run that runs to end.
    wanted_since: Option<Instant>,
    /// How many turns have been nested in this run.
    nested: usize,
    pace: Pace,
    /// The turns that have suspended here.
    pub(super) waiting: Waiting,
    pub(super) calls: Calls,
}

/// What a worker does next.
enum Work {
    Run(Runnable),
    /// One turn of an actor, for a call.
    Answer(Runnable),
    /// A look at the callers of these calls.
    LookAt(Call),
    LookAtAll(Vec<Call>),
}

/// What a run on this worker costs of late.
#[derive(Default)]
struct Pace {
    /// When counting began; none while the worker has nothing to do.
    since: Option<Instant>,
    runs: u32,
    average_ns: u64,
}

impl Pace {
    /// Counts one more run; the time, if the clock was read.
    fn count(&mut self) -> Option<Instant> {
        self.runs += 1;
        if self.runs < RUNS_PER_LOOK && self.since.is_some() {
            return None;
        }
        let now = Instant::now();
        if let Some(since) = self.since.replace(now) {
            let average = u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX) / u64::from(self.runs);
            self.average_ns = (self.average_ns.saturating_mul(3).saturating_add(average)) / 4;
        }
        self.runs = 0;
        Some(now)
    }

    /// The worker has nothing to do for a while.
    fn pause(&mut self) {
        self.since = None;
    }
}

impl Core {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            index,
            deque: Deque::new_fifo(),
            slot_streak: 0,
            due_outside: 0,
            due_own: 0,
            wanted_since: None,
            nested: 0,
            pace: Pace::default(),
            waiting: Waiting::default(),
            calls: Calls::default(),
        }
    }

    /// Whether what this worker adds to its own queue is worth waking another: if a turn costs more than to move it, or if
    /// there is much to do. A model explores what several workers do, not what it costs.
    pub(crate) fn is_worth_a_wake_up(&self) -> bool {
        cfg!(any(enact_loom, enact_shuttle))
            || self.pace.average_ns >= COST_OF_A_MOVE_NS
            || self.deque.len() >= BACKLOG_MAX
            || self.pace.average_ns.saturating_mul(self.deque.len() as u64) >= BACKLOG_MAX_NS
    }

    /// Whether one more turn may be nested in the run that runs, which others wait behind.
    pub(crate) fn may_nest(&mut self, scheduler: &Scheduler) -> bool {
        self.nested += 1;
        let looks = self.nested.is_multiple_of(TURNS_PER_LOOK);
        self.nested <= NESTED_TURNS_MAX && !(looks && scheduler.is_waited_for() && self.has_used_its_quantum())
    }

    /// Whether something from outside has waited for the run that runs for a quantum, as far as this is asked.
    pub(crate) fn has_used_its_quantum(&mut self) -> bool {
        self.wanted_since.get_or_insert_with(Instant::now).elapsed() >= QUANTUM
    }

    /// What to do next; `None` once the system has ended.
    fn next(&mut self, scheduler: &Scheduler) -> Option<Work> {
        self.nested = 0;
        if let Some(now) = self.pace.count() {
            self.waiting.enter_patient(now);
        }
        if !self.calls.are_none() {
            return self.next_for_calls(scheduler);
        }
        self.next_actor(scheduler).map(Work::Run)
    }

    /// What to do next for the last call, or for all if others wait.
    fn next_for_calls(&mut self, scheduler: &Scheduler) -> Option<Work> {
        let slot = &scheduler.slots[self.index];
        self.slot_streak = self.slot_streak.saturating_add(1);
        let is_long = self.slot_streak > SLOT_STREAK_MAX;
        if scheduler.is_waited_for() || (is_long && !self.deque.is_empty()) {
            return Some(Work::LookAtAll(self.calls.take()));
        }
        if let Some(called) = self.calls.take_called(slot) {
            return Some(Work::Answer(called));
        }
        if is_long && slot.lock().is_some() {
            return Some(Work::LookAtAll(self.calls.take()));
        }
        self.calls.pop().map(Work::LookAt)
    }

    /// The next actor to run; `None` once the system has ended.
    fn next_actor(&mut self, scheduler: &Scheduler) -> Option<Runnable> {
        if let Some(runnable) = self.next_here(scheduler) {
            return Some(runnable);
        }
        self.pace.pause();
        scheduler.idle.start_searching();
        for times in 0.. {
            if let Some(runnable) = self.search(scheduler) {
                scheduler.idle.stop_searching();
                return Some(runnable);
            }
            if scheduler.has_ended() {
                scheduler.idle.stop_searching();
                return None;
            }
            if !cfg!(planted = "sleep_without_entering") {
                self.waiting.take().enter();
            }
            let has_work = || scheduler.has_work() || scheduler.has_ended();
            scheduler.idle.sleep(self.index, times, has_work, || scheduler.quiet.unpark());
        }
        unreachable!("a worker searches until it has found something")
    }

    /// The next actor from outside or of its own.
    fn next_here(&mut self, scheduler: &Scheduler) -> Option<Runnable> {
        let slot = &scheduler.slots[self.index];
        if (self.due_own > 0 || self.due_outside > 0 || scheduler.is_waited_for())
            && let Some(runnable) = self.next_in_shares(scheduler, slot)
        {
            return Some(runnable);
        }
        if self.slot_streak < SLOT_STREAK_MAX
            && let Some(runnable) = slot.lock().take()
        {
            self.slot_streak += 1;
            return Some(runnable);
        }
        self.slot_streak = 0;
        self.deque.pop().or_else(|| slot.lock().take())
    }

    /// The next actor while something from outside waits, or has waited until a moment ago.
    #[cold]
    #[inline(never)]
    fn next_in_shares(&mut self, scheduler: &Scheduler, slot: &SpinLock<Option<Runnable>>) -> Option<Runnable> {
        let own = if self.due_outside == 0 && self.due_own > 0 { self.next_due(slot) } else { None };
        own.or_else(|| self.next_from_outside(scheduler))
    }

    /// Takes the longest waiting of its own actors. None is taken twice while something from outside waits, so the slot's
    /// goes to the back.
    fn next_due(&mut self, slot: &SpinLock<Option<Runnable>>) -> Option<Runnable> {
        if let Some(runnable) = slot.lock().take() {
            self.deque.push(runnable);
        }
        self.due_own = self.due_own.min(self.deque.len()).saturating_sub(1);
        self.deque.pop()
    }

    /// Takes an actor from outside. As many as wait when the first is taken come in a row, and then as many of its own.
    fn next_from_outside(&mut self, scheduler: &Scheduler) -> Option<Runnable> {
        self.wanted_since = None;
        if self.due_outside == 0 && scheduler.is_waited_for() {
            self.due_outside = scheduler.injector.len();
        }
        if self.due_outside == 0 {
            return None;
        }
        let runnable = inject(scheduler);
        if runnable.is_some() {
            self.due_outside -= 1;
            self.due_own += 1;
        } else {
            // Others have taken the rest.
            self.due_outside = 0;
        }
        runnable
    }

    /// Looks for work elsewhere. Another worker's slot comes last: its owner is about to take it, unless its present
    /// turn is long.
    fn search(&self, scheduler: &Scheduler) -> Option<Runnable> {
        let workers = scheduler.stealers.len();
        let others = (1..workers).map(|offset| (self.index + offset) % workers);
        for _ in 0..SEARCH_ROUNDS {
            let found = inject(scheduler).or_else(|| {
                others.clone().find_map(|other| insist(|| scheduler.stealers[other].steal_batch_and_pop(&self.deque)))
            });
            if found.is_some() {
                return found;
            }
            enact_sync::thread::yield_now();
        }
        others.clone().find_map(|other| scheduler.slots[other].lock().take())
    }
}

/// Takes an actor from outside, and leaves the next ones to workers that are free before this one is done.
fn inject(scheduler: &Scheduler) -> Option<Runnable> {
    insist(|| scheduler.injector.steal())
}

fn insist(mut steal: impl FnMut() -> Steal<Runnable>) -> Option<Runnable> {
    loop {
        match steal() {
            Steal::Success(runnable) => return Some(runnable),
            Steal::Empty => return None,
            Steal::Retry => enact_sync::hint::spin_loop(),
        }
    }
}

/// The life of a worker thread: a core as long as it can keep it, then the next one.
pub(crate) fn run(scheduler: &Arc<Scheduler>) {
    // A model has no I/O, and its threads share the one thread that could be entered here.
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    let _io = scheduler.tokio.enter();
    let _handing_over = hooks::hand_over_on_this_thread(|work| {
        tentative::catch_up();
        super::hand_over();
        work();
    });
    local::set(Arc::clone(scheduler));
    while let Some(core) = scheduler.spares.take() {
        local::put_core(core);
        while let Some(mut core) = local::take_core() {
            let Some(step) = core.next(scheduler) else {
                scheduler.spares.close();
                break;
            };
            let worker = core.index;
            local::put_core(core);
            match step {
                Work::Run(actor) => actor.run(),
                Work::Answer(actor) => actor.take_called_turn(worker),
                Work::LookAt(call) => call.look(),
                Work::LookAtAll(calls) => calls.into_iter().for_each(Call::look),
            }
            if !local::has_core() {
                scheduler.unblocked();
            }
        }
    }
    local::clear();
}
