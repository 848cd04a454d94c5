//! Snapshots that are in nobody's way: what only Enact has, compared with itself.
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use enact_stm::{Abort, TCell, TVar, Tx, atomically, snapshot};

use super::StmBenchError;
use crate::measure::{Contender, Sample, Stopwatch};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    /// One thread replaces the values of 1,000 variables while another reads them: in snapshots of all of them, one after the
    /// other, or in one snapshot that lasts.
    BesideSnapshot,
    /// Snapshots of one cell: before 1,000 threads have run transactions at the same time, and after. From the second round on
    /// other crowds have gone before.
    AfterCrowd,
}

const VARIABLES: usize = 1_000;
const CROWD: usize = 1_000;
/// Between two looks at the clock.
const BLOCK: u64 = 1_000;

impl Scene {
    pub(super) const ALL: [Self; 2] = [Self::BesideSnapshot, Self::AfterCrowd];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BesideSnapshot => "beside_snapshot",
            Self::AfterCrowd => "after_crowd",
        }
    }

    /// What is compared; every run is of this length.
    pub(super) fn contenders(self, length: Duration) -> Vec<Contender<'static, StmBenchError>> {
        match self {
            Self::BesideSnapshot => vec![
                Contender::new("short snapshots", move || Ok(beside(length, read_again_and_again))),
                Contender::new("one that lasts", move || Ok(beside(length, read_on))),
            ],
            Self::AfterCrowd => vec![
                Contender::new("before", move || Ok(look(length))),
                Contender::new("after", move || {
                    come_and_go();
                    Ok(look(length))
                }),
            ],
        }
    }
}

/// Replacements beside a reader, which reads until the sign is given and counts its sweeps.
fn beside(length: Duration, read: fn(&[TVar<u64>], &AtomicBool, &AtomicU64)) -> Sample {
    let variables: Vec<_> = (0..VARIABLES as u64).map(TVar::new).collect();
    let (is_over, sweeps) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| read(&variables, &is_over, &sweeps));
        while sweeps.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
        let mut n = 0;
        let (watch, replaced) = repeat(length, || {
            atomically(|tx| tx.update(&variables[n as usize % VARIABLES], |seen| seen + VARIABLES as u64).map(drop))
                .run();
            n += 1;
        });
        let sample = Sample::new(watch.stop(), replaced);
        is_over.store(true, Ordering::Relaxed);
        sample
    })
}

fn sweep<'t>(tx: &mut Tx<'t, '_>, variables: &'t [TVar<u64>]) -> Result<u64, Abort> {
    variables.iter().try_fold(0, |sum: u64, variable| Ok(sum.wrapping_add(*tx.read(variable)?)))
}

fn read_again_and_again(variables: &[TVar<u64>], is_over: &AtomicBool, sweeps: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        snapshot(|tx| sweep(tx, variables));
        sweeps.fetch_add(1, Ordering::Relaxed);
    }
}

fn read_on(variables: &[TVar<u64>], is_over: &AtomicBool, sweeps: &AtomicU64) {
    snapshot(|tx| {
        let first = sweep(tx, variables)?;
        while !is_over.load(Ordering::Relaxed) {
            sweeps.fetch_add(1, Ordering::Relaxed);
            assert_eq!(sweep(tx, variables)?, first, "a snapshot sees one state");
        }
        Ok(())
    });
}

/// Snapshots of one cell.
fn look(length: Duration) -> Sample {
    let cell = TCell::new(7);
    let (watch, seen) = repeat(length, || assert_eq!(snapshot(|tx| tx.read(&cell)), 7));
    Sample::new(watch.stop(), seen)
}

/// Threads that all run a transaction while all others are there.
fn come_and_go() {
    let all_are_there = Barrier::new(CROWD);
    thread::scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(|| {
                atomically(|_| Ok(())).run();
                all_are_there.wait();
            });
        }
    });
}

/// Repeats `operation` for so long; gives how often.
fn repeat(length: Duration, mut operation: impl FnMut()) -> (Stopwatch, u64) {
    let (watch, start) = (Stopwatch::start(), Instant::now());
    let mut count = 0;
    while start.elapsed() < length {
        (0..BLOCK).for_each(|_| operation());
        count += BLOCK;
    }
    (watch, count)
}
