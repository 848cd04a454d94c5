//! One measured window: threads that start together, repeat their operation, and stop when the time is over.

use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::{Figures, Run};

/// How often the blocks of one thread were executed.
#[derive(Debug, Default)]
pub struct Attempts(Cell<u64>);

impl Attempts {
    /// Counts one execution; the first thing that a block does.
    #[inline]
    pub fn count(&self) {
        self.0.set(self.0.get() + 1);
    }
}

/// What one thread has done.
#[derive(Debug)]
pub(super) struct Work<T> {
    /// Operations that returned.
    pub(super) operations: u64,
    attempts: u64,
    /// What the workload keeps besides.
    pub(super) kept: T,
}

/// What all threads have done.
#[derive(Debug)]
pub(super) struct Window<T> {
    /// By number of the thread.
    pub(super) works: Vec<Work<T>>,
    lap: Lap,
}

/// The time that a window took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lap {
    wall: Duration,
    cpu: Duration,
}

/// Where a window began.
pub(super) struct Start {
    wall: Instant,
    cpu: Duration,
}

impl Start {
    pub(super) fn now() -> Self {
        Self { cpu: cpu_time(), wall: Instant::now() }
    }

    pub(super) fn lap(&self) -> Lap {
        Lap { wall: self.wall.elapsed(), cpu: cpu_time().saturating_sub(self.cpu) }
    }
}

/// User and system time that this process has used.
///
/// # Panics
/// Never: CPU time is not negative.
#[must_use]
pub fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("CPU time is not negative")
}

impl Lap {
    /// Figures of operations that cannot fail.
    pub(super) fn figures(self, operations: u64) -> Figures {
        Figures { operations, aborts: None, beside: None, wall: self.wall, cpu: self.cpu }
    }
}

/// The sign by which a thread sees that the time is over.
pub(super) struct Clock<'a> {
    over: &'a AtomicBool,
    attempts: Attempts,
}

impl Clock<'_> {
    /// Repeats `operation` until the time is over, at least once; returns how often.
    #[inline]
    pub(super) fn repeat(&self, mut operation: impl FnMut(&Attempts)) -> u64 {
        let mut operations = 0;
        loop {
            operation(&self.attempts);
            operations += 1;
            // Relaxed: nothing is published by it; the threads are joined.
            if self.over.load(Ordering::Relaxed) {
                return operations;
            }
        }
    }
}

impl<T: Send> Window<T> {
    /// Runs `work` on `threads` threads, which get their numbers, for `length`; then calls `end`, for threads that wait.
    pub(super) fn run(
        threads: usize,
        length: Duration,
        work: impl Fn(usize, &Clock<'_>) -> (u64, T) + Sync,
        end: impl FnOnce(),
    ) -> Self {
        let over = AtomicBool::new(false);
        let start = Barrier::new(threads + 1);
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|number| {
                    let (over, start, work) = (&over, &start, &work);
                    scope.spawn(move || {
                        let clock = Clock { over, attempts: Attempts::default() };
                        start.wait();
                        let (operations, kept) = work(number, &clock);
                        Work { operations, attempts: clock.attempts.0.get(), kept }
                    })
                })
                .collect();
            start.wait();
            let started = Start::now();
            thread::sleep(length);
            over.store(true, Ordering::Relaxed);
            let lap = started.lap();
            end();
            let works = running.into_iter().map(|thread| thread.join().expect("a workload does not panic")).collect();
            Self { works, lap }
        })
    }
}

impl<T> Window<T> {
    /// Figures of the threads below `workers`; those above only disturb.
    pub(super) fn figures(&self, workers: usize) -> Figures {
        let (working, disturbing) = self.works.split_at(workers);
        let operations: u64 = working.iter().map(|work| work.operations).sum();
        let attempts: u64 = working.iter().map(|work| work.attempts).sum();
        let beside: u64 = disturbing.iter().map(|work| work.operations).sum();
        Figures {
            aborts: attempts.checked_sub(operations),
            beside: (!disturbing.is_empty()).then_some(beside),
            ..self.lap.figures(operations)
        }
    }
}

/// Runs the same work on all threads of `run`.
pub(super) fn alike<T: Send>(run: Run, work: impl Fn(usize, &Clock<'_>) -> (u64, T) + Sync) -> Window<T> {
    Window::run(run.threads, run.length, work, || ())
}
