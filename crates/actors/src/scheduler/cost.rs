//! What runs cost, by the clock: those under way, and those that wait.
//!
//! The clock is read where runs are long on average, and there for one of seven. Where they are short, moving one costs more
//! than any of them, and their number decides.
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::crossing::Crossings;
use super::own_queue::{Machine, Task};
use super::pace::{Pace, nanos};
use super::policy::{Backlog, COST_OF_A_MOVE_NS};

/// Of how many runs one is timed: a prime, so that it is not always the same of those that take turns.
const RUNS_PER_TIMING: u32 = 7;

/// What a run of an actor costs in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) run_ns: u64,
    /// How long it goes on after it has made another actor runnable.
    pub(super) tail_ns: u64,
}

/// In what a cost is kept: up to 16 ms, which is as good as for ever.
const UNIT_NS: u64 = 256;

/// What the last run of an actor that was timed has cost, in two halves of a word; zero if none was timed.
#[derive(Debug, Default)]
pub(crate) struct LastCost(AtomicU32);

impl LastCost {
    fn get(&self) -> Option<Cost> {
        let [run, tail] = [16, 0].map(|shift| self.0.load(Ordering::Relaxed) >> shift & u32::from(u16::MAX));
        (run != 0).then_some(Cost { run_ns: u64::from(run) * UNIT_NS, tail_ns: u64::from(tail) * UNIT_NS })
    }

    pub(super) fn set(&self, cost: Cost) {
        let [run, tail] = [cost.run_ns, cost.tail_ns]
            .map(|ns| u16::try_from(ns.div_ceil(UNIT_NS)).unwrap_or(u16::MAX))
            .map(u32::from);
        self.0.store(run.max(1) << 16 | tail, Ordering::Relaxed);
    }
}

/// A run that is timed.
struct Timing<A> {
    actor: A,
    begun: Instant,
    crossed: Crossings,
    /// When it has made another actor runnable for the first time.
    pushed: Option<Instant>,
}

type ActorOf<M> = <<M as Machine>::Task as Task>::Actor;

/// What a worker knows of what its runs cost.
pub(super) struct Costs<M: Machine> {
    /// What it costs that a cache line comes from another core.
    line: Duration,
    /// What had crossed when the clock was read last.
    crossed: Crossings,
    /// Whether runs are timed, because they are long and there are other workers.
    are_timed: bool,
    pace: Pace,
    running: Cost,
    timing: Option<Timing<ActorOf<M>>>,
    /// How many runs more are not timed.
    skips: u32,
    /// What each of those in the queue costs, on average.
    queued_ns: u64,
}

impl<M: Machine> Costs<M> {
    pub(super) fn new(line: Duration) -> Self {
        let (pace, running, crossed) = (Pace::default(), Cost::default(), Crossings::NONE);
        Self { line, crossed, are_timed: false, pace, running, timing: None, skips: 0, queued_ns: 0 }
    }

    /// Those of a worker that has had long runs.
    #[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
    pub(super) fn of_long_runs() -> Self {
        Self { are_timed: true, ..Self::new(Duration::ZERO) }
    }

    /// Counts a run that is about to begin; the time, if the clock was read.
    #[inline]
    pub(super) fn count(&mut self) -> Option<Instant> {
        if self.timing.is_some() {
            self.end_timing();
        }
        if self.pace.count() { Some(self.read_clock()) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn read_clock(&mut self) -> Instant {
        let now = M::now();
        let crossed = cost_since::<M>(&mut self.crossed, self.line);
        self.pace.read(now, crossed);
        now
    }

    /// Has runs be timed from now on if they are long.
    pub(super) const fn time_if_long(&mut self) {
        self.are_timed = self.pace.average_ns() >= COST_OF_A_MOVE_NS;
    }

    /// The worker has nothing to do from now on.
    pub(super) fn pause(&mut self, now: Instant) {
        self.pace.pause(now, cost_since::<M>(&mut self.crossed, self.line));
    }

    /// The worker has something to do again, and begins a run.
    pub(super) fn resume(&mut self, now: Instant) {
        self.crossed = M::crossings();
        self.pace.resume(now);
    }

    /// The worker goes on on another thread, which has counted other things, while the run under way stays where it is.
    pub(super) fn change_thread(&mut self) {
        (self.crossed, self.timing) = (M::crossings(), None);
    }

    /// Whether runs are timed.
    #[inline]
    pub(super) const fn are_timed(&self) -> bool {
        self.are_timed
    }

    /// The run of this actor begins.
    #[inline]
    pub(super) fn begin(&mut self, next: &M::Task) {
        if self.are_timed {
            self.begin_timed(next);
        }
    }

    #[cold]
    fn begin_timed(&mut self, next: &M::Task) {
        let known = last_cost(next).get();
        self.running = known.unwrap_or_default();
        self.skips = self.skips.saturating_sub(1);
        if known.is_none() || self.skips == 0 {
            self.skips = RUNS_PER_TIMING;
            self.timing =
                Some(Timing { actor: next.actor().clone(), begun: M::now(), crossed: M::crossings(), pushed: None });
        }
    }

    #[cold]
    fn end_timing(&mut self) {
        let Some(Timing { actor, begun, crossed, pushed }) = self.timing.take() else { return };
        let now = M::now();
        let crossed = M::crossings().since(crossed).cost(self.line);
        let tail_ns = pushed.map_or(0, |pushed| nanos(now - pushed));
        M::Task::last_cost(&actor).set(Cost { run_ns: nanos((now - begun).saturating_sub(crossed)), tail_ns });
    }

    /// The run under way has made an actor runnable. How long that run is going to go on.
    pub(super) fn tail_of_running_ns(&mut self) -> u64 {
        if let Some(timing) = &mut self.timing {
            timing.pushed.get_or_insert_with(M::now);
        }
        self.running.tail_ns
    }

    /// What the next run of this actor will cost.
    pub(super) fn of(&self, task: &M::Task) -> u64 {
        last_cost(task).get().map_or(self.pace.average_ns(), |cost| cost.run_ns)
    }

    /// An actor whose run costs so much comes into the queue.
    pub(super) const fn enqueue(&mut self, cost_ns: u64) {
        self.queued_ns = (self.queued_ns.saturating_mul(3).saturating_add(cost_ns)) / 4;
    }

    /// A queue of this length, by what those in it cost.
    pub(super) const fn backlog(&self, len: usize) -> Backlog {
        if self.are_timed {
            Backlog { len, each_ns: self.queued_ns, is_timed: true }
        } else {
            Backlog { len, each_ns: self.pace.average_ns(), is_timed: false }
        }
    }
}

/// What has crossed since then, and from then to now.
fn cost_since<M: Machine>(before: &mut Crossings, line: Duration) -> Duration {
    let counted = M::crossings();
    counted.since(std::mem::replace(before, counted)).cost(line)
}

fn last_cost<T: Task>(task: &T) -> &LastCost {
    T::last_cost(task.actor())
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_kept_to_a_quarter_of_a_microsecond_and_up_to_sixteen_milliseconds() {
        let last = LastCost::default();
        assert_eq!(last.get(), None);
        for (run_ns, tail_ns, kept) in [
            (0, 0, (UNIT_NS, 0)),
            (UNIT_NS, 1, (UNIT_NS, UNIT_NS)),
            (10_000, 5_000, (10_240, 5_120)),
            (u64::MAX, u64::MAX, (65_535 * UNIT_NS, 65_535 * UNIT_NS)),
        ] {
            last.set(Cost { run_ns, tail_ns });
            assert_eq!(last.get(), Some(Cost { run_ns: kept.0, tail_ns: kept.1 }), "{run_ns} and {tail_ns}");
        }
    }
}
