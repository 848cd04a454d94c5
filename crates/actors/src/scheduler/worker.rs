//! A worker: the loop that looks for runnable actors and runs them.
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Worker as Deque};
use enact_stm::hooks;
use enact_sync::SpinLock;
use enact_sync::unmodelled::Arc;

use super::calls::{Call, Calls};
use super::cost::Costs;
use super::crossing;
use super::judge::Judge;
use super::policy::is_worth_a_move;
use super::waiting::Waiting;
use super::{Runnable, Scheduler, TURNS_PER_LOOK, is_model, local};
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
    costs: Costs,
    judge: Judge,
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
    /// `line` is what it costs that a cache line comes from another core.
    pub(crate) fn new(index: usize, line: Duration) -> Self {
        Self {
            index,
            deque: Deque::new_fifo(),
            slot_streak: 0,
            due_outside: 0,
            due_own: 0,
            wanted_since: None,
            nested: 0,
            costs: Costs::default(),
            judge: Judge::new(line),
            waiting: Waiting::default(),
            calls: Calls::default(),
        }
    }

    /// Whether runs are timed here.
    #[inline]
    pub(crate) const fn are_runs_timed(&self) -> bool {
        self.costs.are_timed()
    }

    /// Makes an actor the next one where runs are timed. Returns whether what waits here now is worth a wake-up.
    pub(crate) fn add_next_timed(&mut self, scheduler: &Scheduler, runnable: Runnable) -> bool {
        let (tail_ns, next_ns) = (self.costs.tail_of_running_ns(), self.costs.of(&runnable));
        let is_offered = is_worth_a_move(next_ns, tail_ns);
        scheduler.boards[self.index].offer_next(is_offered);
        let displaced = scheduler.slots[self.index].lock().replace(runnable);
        if let Some(displaced) = displaced {
            self.push_timed(scheduler, displaced);
        }
        is_offered || self.is_worth_a_wake_up(scheduler, tail_ns.saturating_add(next_ns))
    }

    /// Puts an actor at the back of the queue where runs are timed. Returns whether what waits here now is worth a wake-up.
    pub(crate) fn add_last_timed(&mut self, scheduler: &Scheduler, runnable: Runnable) -> bool {
        let tail_ns = self.costs.tail_of_running_ns();
        self.push_timed(scheduler, runnable);
        self.is_worth_a_wake_up(scheduler, tail_ns)
    }

    fn push_timed(&mut self, scheduler: &Scheduler, runnable: Runnable) {
        self.costs.enqueue(self.costs.of(&runnable));
        self.deque.push(runnable);
        scheduler.boards[self.index].show_backlog(self.costs.backlog(self.deque.len()));
    }

    /// Whether the queue, in front of which there is so much else, is worth a wake-up.
    pub(crate) fn is_worth_a_wake_up(&self, scheduler: &Scheduler, ahead_ns: u64) -> bool {
        // It ends when this worker reads the clock next.
        let is_strict = scheduler.boards[self.index].strict_until() > 0;
        is_model() || self.costs.backlog(self.deque.len()).is_worth_a_wake_up(ahead_ns, is_strict)
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
        let now = self.costs.count();
        if let Some(now) = now {
            self.beat(scheduler, now);
        }
        if !self.calls.are_none() {
            return self.next_for_calls(scheduler);
        }
        let is_due = now.filter(|&now| scheduler.watch.is_due(now));
        let held_up = is_due.and_then(|now| self.next_held_up(scheduler, now));
        let next = held_up.or_else(|| self.next_actor(scheduler))?;
        self.costs.begin(&next);
        Some(Work::Run(next))
    }

    /// The worker has read the clock.
    fn beat(&mut self, scheduler: &Scheduler, now: Instant) {
        self.waiting.enter_patient(now);
        scheduler.watch.beat(self.index, now);
        if scheduler.boards.len() > 1 {
            self.show(scheduler, now);
        }
    }

    /// Lets other workers see what they go by.
    fn show(&mut self, scheduler: &Scheduler, now: Instant) {
        self.costs.time_if_long();
        let board = &scheduler.boards[self.index];
        board.show_backlog(self.costs.backlog(self.deque.len()));
        let now = scheduler.watch.micros(now);
        board.show_strict(self.judge.look(now, crossing::counted(), board.strict_until()));
        if !self.costs.are_timed() {
            board.offer_next(false);
        }
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
        self.costs.pause();
        self.judge.pause();
        scheduler.idle.start_searching();
        loop {
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
            let is_needed = || scheduler.has_work_for(self.index) || scheduler.has_ended();
            scheduler.idle.sleep(self.index, is_needed, || scheduler.quiet.unpark());
        }
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

    /// Looks for work elsewhere that is worth taking. Another worker's slot comes last: its owner is about to take it, unless
    /// its present turn is long.
    fn search(&self, scheduler: &Scheduler) -> Option<Runnable> {
        let now = Instant::now();
        let others = self.others(scheduler);
        for _ in 0..SEARCH_ROUNDS {
            let found = inject(scheduler).or_else(|| {
                let mut owners =
                    others.clone().filter(|&other| scheduler.is_queue_worth_a_theft(self.index, other, now));
                owners.find_map(|owner| insist(|| scheduler.stealers[owner].steal_batch_and_pop(&self.deque)))
            });
            if found.is_some() {
                return found;
            }
            enact_sync::thread::yield_now();
        }
        let mut owners = others.filter(|&other| scheduler.is_next_worth_a_theft(self.index, other, now));
        let found = owners.find_map(|owner| scheduler.slots[owner].lock().take());
        if found.is_none() {
            scheduler.have_others_be_as_strict(self.index, now);
        }
        found
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
    while let Some(mut core) = scheduler.spares.take() {
        crossing::count_for(core.index);
        core.judge.pause();
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

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use super::super::cost::Cost;
    use super::*;
    use crate::actor::tests::Bare;
    use crate::cell::ActorCell;
    use crate::error::ExitReason;
    use crate::{Spec, System};

    const LONG: u64 = 20_000;
    const SHORT: u64 = 300;

    /// A system whose two workers have nothing to do.
    fn at_rest() -> (System, Arc<Scheduler>) {
        let system = System::builder().workers(2).build().unwrap();
        let scheduler = Arc::clone(system.spawn(Bare).cell().scheduler());
        (system, scheduler)
    }

    /// An actor with such runs.
    fn runnable(scheduler: &Arc<Scheduler>, run_ns: u64, tail_ns: u64) -> Runnable {
        let (cell, activation) = ActorCell::create(Spec::new(Bare).keep_alive(), Arc::clone(scheduler), None);
        cell.mailbox.cost.set(Cost { run_ns, tail_ns });
        activation
    }

    /// The tail of a long run, and what it makes runnable one after the other: whether the last of it is worth a wake-up, and
    /// whether it is offered where it is.
    #[test]
    fn where_runs_are_timed_an_actor_is_moved_by_what_its_own_runs_cost_and_by_what_is_ahead_of_it() {
        let cases = [
            ("a chain sends on at the end", 0, vec![LONG], false, false),
            ("one that computes on afterwards", LONG, vec![LONG], true, true),
            ("a short one beside a long run", LONG, vec![SHORT], false, false),
            ("short ones beside a long run", 0, vec![SHORT; 20], false, false),
            ("two long ones at the end", 0, vec![LONG, LONG], true, false),
            ("a short one behind a long one", 0, vec![SHORT, LONG], false, false),
            ("a long one behind a short one", 0, vec![LONG, SHORT], false, false),
        ];
        let (_system, scheduler) = at_rest();
        for (name, tail_ns, made, wakes, offers) in cases {
            let mut core = Core::new(0, Duration::ZERO);
            core.costs = Costs::of_long_runs();
            let running = runnable(&scheduler, LONG, tail_ns);
            core.costs.begin(&running);
            let all = made.iter().map(|&run_ns| core.add_next_timed(&scheduler, runnable(&scheduler, run_ns, 0)));
            assert_eq!(all.last(), Some(wakes), "{name}");
            assert_eq!(scheduler.boards[0].offers_next(), offers, "{name}");
            let next = scheduler.slots[0].lock().take();
            let left = std::iter::from_fn(|| core.deque.pop()).chain(next).chain([running]);
            left.for_each(|activation| activation.discard(ExitReason::Stopped));
        }
    }

    #[test]
    fn a_strict_worker_leaves_short_work_alone_and_keeps_its_own_unless_it_is_stuck() {
        let (_system, scheduler) = at_rest();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        for worker in [0, 1] {
            (0..2).for_each(|worker| scheduler.watch.beat(worker, now));
            assert!(scheduler.is_next_worth_a_theft(1, 0, now));
            scheduler.boards[worker].show_strict(scheduler.watch.micros(later));
            assert!(!scheduler.is_next_worth_a_theft(1, 0, now), "worker {worker} is strict");
            scheduler.boards[0].offer_next(true);
            assert!(scheduler.is_next_worth_a_theft(1, 0, now), "it is no short work");
            scheduler.boards[0].offer_next(false);
            let stuck = now + Duration::from_millis(1);
            assert!(scheduler.is_next_worth_a_theft(1, 0, stuck), "it is stuck");
            (0..2).for_each(|worker| scheduler.watch.beat(worker, later));
            assert!(scheduler.is_next_worth_a_theft(1, 0, later), "it is strict no more");
            scheduler.boards[worker].show_strict(0);
        }
    }
}
