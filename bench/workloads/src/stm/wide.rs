//! `read10k`: a transaction that reads 10,000 variables.

use super::locks::{Lock, Locks};
use super::window::{Attempts, alike};
use super::{Figures, Refusal, Run, Stm, Verified};

const VARIABLES: usize = 10_000;

/// Many variables that stay as they are, and one for each thread.
pub(super) trait Wide: Send + Sync {
    fn new(threads: usize) -> Self;
    /// Sums all variables, adds 1 to the thread's own, returns the sum.
    fn read_and_write(&self, thread: usize, attempts: &Attempts) -> i64;
    /// Sums all variables.
    fn read_only(&self, attempts: &Attempts) -> i64;
    /// What the thread has added to its own variable.
    fn own(&self, thread: usize) -> i64;
}

pub(super) struct InStm<S: Stm> {
    shared: Vec<S::Cell>,
    own: Vec<S::Cell>,
}

impl<S: Stm> Wide for InStm<S> {
    fn new(threads: usize) -> Self {
        let cells = |n: usize, number| (0..n).map(|_| S::cell(number)).collect();
        Self { shared: cells(VARIABLES, 1), own: cells(threads, 0) }
    }

    #[inline]
    fn read_and_write(&self, thread: usize, attempts: &Attempts) -> i64 {
        let own = &self.own[thread];
        S::atomically(|tx| {
            attempts.count();
            let mut sum = 0;
            for cell in &self.shared {
                sum += S::load(tx, cell)?;
            }
            let value = S::load(tx, own)?;
            S::store(tx, own, value + 1)?;
            Ok(sum)
        })
    }

    #[inline]
    fn read_only(&self, attempts: &Attempts) -> i64 {
        S::read_only(|tx| {
            attempts.count();
            let mut sum = 0;
            for cell in &self.shared {
                sum += S::load(tx, cell)?;
            }
            Ok(sum)
        })
    }

    fn own(&self, thread: usize) -> i64 {
        S::atomically(|tx| S::load(tx, &self.own[thread]))
    }
}

/// Shared and own numbers under one lock.
pub(super) struct Locked<L: Locks>(L::Lock<(Vec<i64>, Vec<i64>)>);

impl<L: Locks> Wide for Locked<L> {
    fn new(threads: usize) -> Self {
        Self(Lock::new((vec![1; VARIABLES], vec![0; threads])))
    }

    #[inline]
    fn read_and_write(&self, thread: usize, _: &Attempts) -> i64 {
        self.0.with(|(shared, own)| {
            own[thread] += 1;
            shared.iter().sum()
        })
    }

    #[inline]
    fn read_only(&self, _: &Attempts) -> i64 {
        self.0.with(|(shared, _)| shared.iter().sum())
    }

    fn own(&self, thread: usize) -> i64 {
        self.0.with(|(_, own)| own[thread])
    }
}

/// Every thread reads all and writes its own.
pub(super) fn read_and_write<W: Wide>(run: Run) -> Result<Figures, Refusal> {
    let variables = W::new(run.threads);
    let window = alike(run, |number, clock| {
        let mut sums = 0;
        let operations = clock.repeat(|attempts| sums += variables.read_and_write(number, attempts));
        (operations, sums)
    });
    for (number, work) in window.works.iter().enumerate() {
        verify_sums(work.operations, work.kept)?;
        Verified::Counter.expect(work.operations.cast_signed(), variables.own(number))?;
    }
    Ok(window.figures(run.threads))
}

/// Every thread reads all.
pub(super) fn read_only<W: Wide>(run: Run) -> Result<Figures, Refusal> {
    let variables = W::new(run.threads);
    let window = alike(run, |_, clock| {
        let mut sums = 0;
        let operations = clock.repeat(|attempts| sums += variables.read_only(attempts));
        (operations, sums)
    });
    for work in &window.works {
        verify_sums(work.operations, work.kept)?;
    }
    Ok(window.figures(run.threads))
}

fn verify_sums(operations: u64, sums: i64) -> Result<(), Refusal> {
    Verified::SumSeen.expect(operations.cast_signed() * VARIABLES.cast_signed() as i64, sums)
}
