//! A worker: the loop that looks for runnable actors and runs them.
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Worker as Deque};
use enact_stm::hooks;
use enact_sync::SpinLock;
use enact_sync::unmodelled::Arc;

use super::calls::{Call, Calls};
use super::pace::Pace;
use super::waiting::Waiting;
use super::{Runnable, Scheduler, TURNS_PER_LOOK, local};
use crate::tentative;

/// How many actors in a row are taken from the slot of the one just sent to, before those that wait longer have a turn.
pub(super) const SLOT_STREAK_MAX: u32 = 16;
/// How many turns of others one run may nest, about as many as it may take itself.
const NESTED_TURNS_MAX: usize = 128;
/// How long a run goes on while something from outside waits: much longer than what it costs to begin another.
const QUANTUM: Duration = Duration::from_micros(100);
/// How often a searching worker looks around before it sleeps.
const SEARCH_ROUNDS: u32 = 4;

/// How many batches, of some tens of actors at most, are taken from a worker that is stuck.
const BATCHES_MAX: u32 = 8;
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
            || self.pace.average_ns() >= COST_OF_A_MOVE_NS
            || self.deque.len() >= BACKLOG_MAX
            || self.pace.average_ns().saturating_mul(self.deque.len() as u64) >= BACKLOG_MAX_NS
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
        let now = self.pace.count(Instant::now);
        if let Some(now) = now {
            self.waiting.enter_patient(now);
            scheduler.watch.beat(self.index, now);
        }
        if !self.calls.are_none() {
            return self.next_for_calls(scheduler);
        }
        let is_due = now.filter(|&now| scheduler.watch.is_due(now));
        let held_up = is_due.and_then(|now| self.next_held_up(scheduler, now));
        held_up.or_else(|| self.next_actor(scheduler)).map(Work::Run)
    }

    /// One of the actors that wait behind the long run of another worker, if there are any. Those behind it come to the
    /// back of its queue, all of which is due then: what has waited waits for no streak.
    #[cold]
    #[inline(never)]
    fn next_held_up(&mut self, scheduler: &Scheduler, now: Instant) -> Option<Runnable> {
        let mut held_up = self.others(scheduler).filter(|&other| scheduler.is_held_up(other, now));
        held_up.find_map(|other| {
            let stealer = &scheduler.stealers[other];
            let first = insist(|| stealer.steal_batch_and_pop(&self.deque));
            if first.is_none() {
                return scheduler.slots[other].lock().take();
            }
            // Each takes no more than half.
            let more = (1..BATCHES_MAX).map_while(|_| insist(|| stealer.steal_batch(&self.deque)));
            more.for_each(drop);
            self.due_own = self.deque.len();
            first
        })
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
                scheduler.watch.beat(self.index, Instant::now());
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
            let is_needed = || scheduler.has_stuck_work() || scheduler.has_ended();
            scheduler.idle.sleep(self.index, times, has_work, is_needed, || scheduler.quiet.unpark());
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
        let others = self.others(scheduler);
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

    /// The other workers, the next one first.
    fn others(&self, scheduler: &Scheduler) -> impl Iterator<Item = usize> + Clone + use<> {
        let (own, workers) = (self.index, scheduler.stealers.len());
        (1..workers).map(move |offset| (own + offset) % workers)
    }
}

/// Takes an actor from outside, and leaves the next ones to workers that are free before this one is done.
fn inject(scheduler: &Scheduler) -> Option<Runnable> {
    insist(|| scheduler.injector.steal())
}

fn insist<T>(mut steal: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(taken) => return Some(taken),
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
