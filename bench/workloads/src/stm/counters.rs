//! `counter` and `counter_own`: the smallest transaction, contended and not.

use std::sync::atomic::{AtomicI64, Ordering};

use super::locks::Lock;
use super::window::{Attempts, alike};
use super::{Figures, Refusal, Run, Stm, Verified};

/// A number that many threads add to.
pub(super) trait Counter: Send + Sync {
    fn new() -> Self;
    /// Adds 1.
    fn add(&self, attempts: &Attempts);
    /// What has been added.
    fn value(&self) -> i64;
}

/// One variable.
pub(super) struct InStm<S: Stm>(S::Cell);

impl<S: Stm> Counter for InStm<S> {
    fn new() -> Self {
        Self(S::cell(0))
    }

    #[inline]
    fn add(&self, attempts: &Attempts) {
        S::atomically(|tx| {
            attempts.count();
            let value = S::load(tx, &self.0)?;
            S::store(tx, &self.0, value + 1)
        });
    }

    fn value(&self) -> i64 {
        S::atomically(|tx| S::load(tx, &self.0))
    }
}

impl<L: Lock<i64>> Counter for L {
    fn new() -> Self {
        Lock::new(0)
    }

    #[inline]
    fn add(&self, _: &Attempts) {
        self.with(|value| *value += 1);
    }

    fn value(&self) -> i64 {
        self.with(|value| *value)
    }
}

impl Counter for AtomicI64 {
    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn add(&self, _: &Attempts) {
        self.fetch_add(1, Ordering::AcqRel);
    }

    fn value(&self) -> i64 {
        self.load(Ordering::Acquire)
    }
}

/// Alone on its cache lines, and on those that are fetched with them.
#[repr(align(128))]
struct Apart<C>(C);

/// One counter for all threads.
pub(super) fn shared<C: Counter>(run: Run) -> Result<Figures, Refusal> {
    let counter = Apart(C::new());
    let window = alike(run, |_, clock| (clock.repeat(|attempts| counter.0.add(attempts)), ()));
    let added: u64 = window.works.iter().map(|work| work.operations).sum();
    Verified::Counter.expect(added.cast_signed(), counter.0.value())?;
    Ok(window.figures(run.threads))
}

/// One counter for each thread.
pub(super) fn own<C: Counter>(run: Run) -> Result<Figures, Refusal> {
    let counters: Vec<_> = (0..run.threads).map(|_| Apart(C::new())).collect();
    let window = alike(run, |number, clock| (clock.repeat(|attempts| counters[number].0.add(attempts)), ()));
    for (work, counter) in window.works.iter().zip(&counters) {
        Verified::Counter.expect(work.operations.cast_signed(), counter.0.value())?;
    }
    Ok(window.figures(run.threads))
}
