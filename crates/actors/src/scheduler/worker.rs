//! A worker: the loop that looks for runnable actors and runs them.
use std::time::{Duration, Instant};

use enact_stm::hooks;
use enact_sync::unmodelled::Arc;

use super::calls::{Call, Calls};
use super::cost::LastCost;
use super::crossing::{self, Crossings};
use super::own_queue::{Machine, OwnQueue, SLOT_STREAK_MAX, Task};
use super::waiting::Waiting;
use super::{Runnable, Scheduler, local};
use crate::cell::ActorCell;
use crate::tentative;

/// How often a searching worker looks around before it sleeps.
pub(super) const SEARCH_ROUNDS: u32 = 4;

/// Workers that are threads.
pub(crate) struct Threads;

impl Machine for Threads {
    type Task = Runnable;

    fn now() -> Instant {
        Instant::now()
    }

    fn crossings() -> Crossings {
        crossing::counted()
    }
}

impl Task for Runnable {
    type Actor = Arc<ActorCell>;

    fn actor(&self) -> &Arc<ActorCell> {
        self.cell()
    }

    fn last_cost(actor: &Arc<ActorCell>) -> &LastCost {
        &actor.mailbox.cost
    }
}

/// What makes a thread a worker. Exactly one thread has it at any time.
pub(crate) struct Core {
    pub(super) own: OwnQueue<Threads>,
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
        Self { own: OwnQueue::new(index, line), waiting: Waiting::default(), calls: Calls::default() }
    }

    /// What to do next; `None` once the system has ended.
    fn next(&mut self, scheduler: &Scheduler) -> Option<Work> {
        let now = self.own.count(&scheduler.queues);
        if let Some(now) = now {
            self.waiting.enter_patient(now);
        }
        if !self.calls.are_none() {
            return self.next_for_calls(scheduler);
        }
        if let Some(next) = self.own.next(&scheduler.queues, now) {
            self.own.begin(&next);
            return Some(Work::Run(next));
        }
        self.next_of_others(scheduler).map(Work::Run)
    }

    /// What to do next for the last call, or for all if others wait.
    fn next_for_calls(&mut self, scheduler: &Scheduler) -> Option<Work> {
        let slot = &scheduler.queues.slots[self.own.index];
        self.own.slot_streak = self.own.slot_streak.saturating_add(1);
        let is_long = self.own.slot_streak > SLOT_STREAK_MAX;
        if scheduler.queues.is_waited_for() || (is_long && !self.own.deque.is_empty()) {
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

    /// An actor that was found elsewhere, or here after a wake-up; `None` once the system has ended.
    fn next_of_others(&mut self, scheduler: &Scheduler) -> Option<Runnable> {
        let worker = self.own.index;
        self.own.pause(&scheduler.queues, Instant::now());
        scheduler.idle.start_searching();
        loop {
            if let Some(runnable) = self.search(scheduler) {
                scheduler.idle.stop_searching();
                self.own.resume(&scheduler.queues, &runnable, Instant::now());
                return Some(runnable);
            }
            if scheduler.has_ended() {
                scheduler.idle.stop_searching();
                return None;
            }
            if !cfg!(planted = "sleep_without_entering") {
                self.waiting.take().enter();
            }
            let is_needed = || scheduler.queues.have_work_for(worker, Instant::now()) || scheduler.has_ended();
            scheduler.idle.sleep(worker, is_needed, || scheduler.quiet.unpark());
        }
    }

    /// Looks for work elsewhere that is worth taking.
    fn search(&self, scheduler: &Scheduler) -> Option<Runnable> {
        let (queues, now) = (&scheduler.queues, Instant::now());
        for _ in 0..SEARCH_ROUNDS {
            let found = self.own.look_around(queues, now);
            if found.is_some() {
                return found;
            }
            enact_sync::thread::yield_now();
        }
        self.own.take_next_of_another(queues, now)
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
        crossing::count_for(core.own.index);
        core.own.change_thread();
        local::put_core(core);
        while let Some(mut core) = local::take_core() {
            let Some(step) = core.next(scheduler) else {
                scheduler.spares.close();
                break;
            };
            let worker = core.own.index;
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
    use super::super::cost::{Cost, Costs};
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
        let queues = &scheduler.queues;
        for (name, tail_ns, made, wakes, offers) in cases {
            let mut core = Core::new(0, Duration::ZERO);
            core.own.costs = Costs::of_long_runs();
            let running = runnable(&scheduler, LONG, tail_ns);
            core.own.begin(&running);
            let add_next = |&run_ns: &u64| core.own.add_next_timed(queues, runnable(&scheduler, run_ns, 0));
            let all = made.iter().map(add_next);
            assert_eq!(all.last(), Some(wakes), "{name}");
            assert_eq!(queues.boards[0].offers_next(), offers, "{name}");
            let next = queues.slots[0].lock().take();
            let left = std::iter::from_fn(|| core.own.deque.pop()).chain(next).chain([running]);
            left.for_each(|activation| activation.discard(ExitReason::Stopped));
        }
    }

    #[test]
    fn a_strict_worker_leaves_short_work_alone_and_keeps_its_own_unless_it_is_stuck() {
        let (_system, scheduler) = at_rest();
        let queues = &scheduler.queues;
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        for worker in [0, 1] {
            (0..2).for_each(|worker| queues.watch.beat(worker, now));
            assert!(queues.is_next_worth_a_theft(1, 0, now));
            queues.boards[worker].show_strict(queues.watch.micros(later));
            assert!(!queues.is_next_worth_a_theft(1, 0, now), "worker {worker} is strict");
            queues.boards[0].offer_next(true);
            assert!(queues.is_next_worth_a_theft(1, 0, now), "it is no short work");
            queues.boards[0].offer_next(false);
            let stuck = now + Duration::from_millis(1);
            assert!(queues.is_next_worth_a_theft(1, 0, stuck), "it is stuck");
            (0..2).for_each(|worker| queues.watch.beat(worker, later));
            assert!(queues.is_next_worth_a_theft(1, 0, later), "it is strict no more");
            queues.boards[worker].show_strict(0);
        }
    }
}
