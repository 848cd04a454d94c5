//! One measured window: threads that start together, repeat their operation, and stop when the time is over.

use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
    elapsed: Duration,
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
            let started = Instant::now();
            thread::sleep(length);
            over.store(true, Ordering::Relaxed);
            let elapsed = started.elapsed();
            end();
            let works = running.into_iter().map(|thread| thread.join().expect("a workload does not panic")).collect();
            Self { works, elapsed }
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
            per_second: self.rate(operations),
            aborts_per_second: attempts.checked_sub(operations).map(|aborts| self.rate(aborts)),
            beside_per_second: (!disturbing.is_empty()).then(|| self.rate(beside)),
        }
    }

    fn rate(&self, count: u64) -> f64 {
        rate(count, self.elapsed)
    }
}

/// A count by the second.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn rate(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// Runs the same work on all threads of `run`.
pub(super) fn alike<T: Send>(run: Run, work: impl Fn(usize, &Clock<'_>) -> (u64, T) + Sync) -> Window<T> {
    Window::run(run.threads, run.length, work, || ())
}
