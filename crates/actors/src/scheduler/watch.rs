//! Which workers do not get to what waits for them.
//!
//! # Problem
//! Actors wait in the queue of the worker that made them runnable. If the run of that worker turns out long, they wait behind it, though
//! others would be glad of them: a worker that has work of its own does not search, and one that sleeps is not woken for what
//! looked like a moment's work when it was queued.
//!
//! # Rule
//! Each worker tells the time whenever it has read the clock, every tenth of a millisecond as long as its runs are short.
//! One that has not for [`STUCK_AFTER`] is *stuck*: what waits for it may be taken. Workers look for one that is stuck every
//! [`LOOK_EVERY`], whichever has its clock at hand first, and the sentinel of those that sleep does every
//! [`SENTINEL_LOOKS_EVERY`]. So what waits behind a long run begins elsewhere within a millisecond, unless all workers are
//! stuck.
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::AtomicU64;

/// How long one has not told the time that is stuck.
const STUCK_AFTER: Duration = Duration::from_micros(200);
/// How far apart looks of workers are.
const LOOK_EVERY: Duration = Duration::from_micros(300);
/// How far apart those of the sentinel are, each of which costs a wake-up.
pub(super) const SENTINEL_LOOKS_EVERY: Duration = Duration::from_micros(600);

pub(super) struct Watch {
    began: Instant,
    /// When each worker has told the time last.
    beats: Vec<CachePadded<AtomicU64>>,
    /// When the next look is due.
    next_look: CachePadded<AtomicU64>,
}

impl Watch {
    pub(super) fn new(workers: usize, began: Instant) -> Self {
        let beats = (0..workers).map(|_| CachePadded::default()).collect();
        Self { began, beats, next_look: CachePadded::default() }
    }

    /// The worker tells the time.
    pub(super) fn beat(&self, worker: usize, now: Instant) {
        self.beats[worker].store(self.micros(now), Ordering::Relaxed);
    }

    /// Whether somebody has to look, who is the one that asks then. A model has no time, and one worker nobody to look at.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        if cfg!(any(enact_loom, enact_shuttle)) || self.beats.len() < 2 {
            return false;
        }
        let (now, due) = (self.micros(now), self.next_look.load(Ordering::Relaxed));
        now >= due && {
            let next = now + micros(LOOK_EVERY);
            self.next_look.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }
    }

    /// Whether the worker has told no time for long, or has nothing to do.
    pub(super) fn is_stuck(&self, worker: usize, now: Instant) -> bool {
        self.micros(now).saturating_sub(self.beats[worker].load(Ordering::Relaxed)) >= micros(STUCK_AFTER)
    }

    /// Microseconds since the scheduler has begun.
    pub(super) fn micros(&self, now: Instant) -> u64 {
        micros(now.saturating_duration_since(self.began))
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use std::collections::VecDeque;

    use super::super::own_queue::SLOT_STREAK_MAX;
    use super::super::pace::Pace;
    use super::*;

    /// What an actor that is runnable will do.
    #[derive(Clone, Copy, PartialEq)]
    enum Run {
        /// Passes a message on to the next one, which is runnable then.
        Passes(Duration),
        /// Forks two long ones.
        Forks,
        Long,
    }

    const LONG: Duration = Duration::from_millis(20);

    /// A worker in simulated time, which does what a real one does about the clock and about others.
    #[derive(Default)]
    struct Worker {
        now: Duration,
        pace: Pace,
        slot: Option<Run>,
        streak: u32,
        /// How many of the queue come before the slot's.
        due: usize,
        queue: VecDeque<Run>,
    }

    impl Worker {
        fn send_to(&mut self, run: Run) {
            self.queue.extend(self.slot.replace(run));
        }

        fn take(&mut self) -> Option<Run> {
            if self.due > 0 {
                self.due -= 1;
                self.queue.extend(self.slot.take());
                return self.queue.pop_front();
            }
            self.streak = (self.streak + 1) % SLOT_STREAK_MAX;
            if self.streak == 0 {
                return self.queue.pop_front().or_else(|| self.slot.take());
            }
            self.slot.take().or_else(|| self.queue.pop_front())
        }
    }

    struct Machine {
        began: Instant,
        watch: Watch,
        workers: Vec<Worker>,
        looks: u32,
    }

    impl Machine {
        /// Workers that each pass messages on which cost so much.
        fn new(costs: &[Duration]) -> Self {
            let began = Instant::now();
            let worker = |cost: &Duration| Worker { queue: [Run::Passes(*cost); 10].into(), ..Worker::default() };
            let workers: Vec<Worker> = costs.iter().map(worker).collect();
            Self { began, watch: Watch::new(workers.len(), began), workers, looks: 0 }
        }

        /// The worker that is the first to be done runs what comes next there, if it has anything; when, and what that is.
        fn step(&mut self) -> Option<(Duration, Run)> {
            let first = (0..self.workers.len()).min_by_key(|&worker| self.workers[worker].now).expect("there are some");
            let begun = self.workers[first].now;
            let pace = &mut self.workers[first].pace;
            let beat = pace.count().then_some(self.began + begun);
            beat.into_iter().for_each(|now| pace.read(now, Duration::ZERO));
            let mut run = None;
            if let Some(now) = beat {
                self.watch.beat(first, now);
                if self.watch.is_due(now) {
                    self.looks += 1;
                    run = self.take_held_up(first, now);
                }
            }
            let worker = &mut self.workers[first];
            let run = run.or_else(|| worker.take());
            worker.now += match run {
                Some(Run::Passes(cost)) => cost,
                Some(Run::Forks) => Duration::from_micros(1),
                Some(Run::Long) => LONG,
                None => LOOK_EVERY,
            };
            match run? {
                passes @ Run::Passes(_) => worker.send_to(passes),
                Run::Forks => [Run::Long; 2].into_iter().for_each(|long| worker.send_to(long)),
                Run::Long => {}
            }
            Some((begun, run?))
        }

        fn take_held_up(&mut self, by: usize, now: Instant) -> Option<Run> {
            let is_held_up = |other: &usize| *other != by && self.watch.is_stuck(*other, now);
            let from = (0..self.workers.len()).filter(is_held_up).find(|&other| {
                let Worker { slot, queue, .. } = &self.workers[other];
                slot.is_some() || !queue.is_empty()
            })?;
            let mut taken = std::mem::take(&mut self.workers[from].queue);
            let first = taken.pop_front().or_else(|| self.workers[from].slot.take());
            let worker = &mut self.workers[by];
            worker.queue.append(&mut taken);
            worker.due = worker.queue.len();
            first
        }
    }

    #[test]
    fn two_long_turns_that_one_actor_forks_begin_within_a_millisecond_though_every_worker_has_work() {
        let costs = [60, 500, 5_000].map(Duration::from_nanos);
        for workers in [2, 3, 6] {
            for (own, of_others) in costs.iter().flat_map(|own| costs.map(|others| (*own, others))) {
                let mut of_workers = vec![of_others; workers];
                of_workers[0] = own;
                let mut machine = Machine::new(&of_workers);
                while machine.workers[0].now < Duration::from_millis(3) {
                    machine.step();
                }
                machine.workers[0].send_to(Run::Forks);
                let mut begun = Vec::new();
                while begun.len() < 2 {
                    begun.extend(machine.step().filter(|(_, run)| *run == Run::Long));
                }
                let apart = begun[1].0.abs_diff(begun[0].0);
                assert!(apart <= Duration::from_millis(1), "{workers} workers, {own:?} and {of_others:?}: {apart:?}");
                let elapsed = machine.workers.iter().map(|worker| worker.now).max().expect("there are some");
                let looks_max = elapsed.as_micros() / LOOK_EVERY.as_micros() + 1;
                assert!(u128::from(machine.looks) <= looks_max, "{} looks in {elapsed:?}", machine.looks);
            }
        }
    }

    #[test]
    fn one_worker_looks_at_nobody() {
        let mut machine = Machine::new(&[Duration::from_micros(1)]);
        while machine.workers[0].now < LONG {
            machine.step();
        }
        assert_eq!(machine.looks, 0);
    }
}
