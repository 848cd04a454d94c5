//! Results, calls and promises of every kernel in every variant.
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Variant::{Await, Forward, Held, Native, Rayon, Seq, Sync};
use super::probe::Probe;
use super::program::Version;
use super::*;

fn stage(workers: usize) -> Stage {
    Stage::with(at_least_one(workers)).expect("threads")
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static PROMISES: AtomicU64 = AtomicU64::new(0);

/// Counts for the one test that has it.
struct Counted;

impl Probe for Counted {
    fn called() {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }

    fn promised() {
        PROMISES.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs every version of `program` once, and compares what it does with `expected`: calls and promises.
#[track_caller]
fn check_counts<T: Program>(program: &T, stage: &Stage, expected: &[(Variant, u64, u64)]) {
    let versions = program.versions::<Counted>(stage);
    let found = versions.into_iter().map(|mut version| {
        CALLS.store(0, Ordering::Relaxed);
        PROMISES.store(0, Ordering::Relaxed);
        version.measure(program, 1).unwrap_or_else(|wrong| panic!("{:?}: {wrong:?}", version.variant));
        (version.variant, CALLS.load(Ordering::Relaxed), PROMISES.load(Ordering::Relaxed))
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// Section 4 of the paper: what each way to call makes of the same kernels. The caller outside has a promise, too.
#[test]
fn calls_and_promises_are_those_of_the_definitions() {
    let stage = stage(2);
    let native = (Native, 0, 0);
    let syracuse = [(Await, 1_349, 1_349), (Forward, 1_349, 1), (Sync, 1_349, 1), native];
    check_counts(&Ackermann, &stage, &[(Await, 10_307, 10_307), (Forward, 10_307, 5_094), (Sync, 10_307, 1), native]);
    check_counts(&Syracuse, &stage, &syracuse);
    let asking = [(Await, 1_349, 1_349), (Held, 1_349, 1_349), (Sync, 1_349, 1), native];
    check_counts(&Asking, &stage, &asking);
    let ring = [(Await, 10_001, 10_001), (Forward, 10_001, 1), (Sync, 10_001, 1), native];
    check_counts(&Ring::default(), &stage, &ring);
    check_counts(&Matrix::new(20), &stage, &[(Await, 21, 21), (Seq, 0, 0), (Rayon, 0, 0)]);
}

/// Every version with one and with three workers, several kernels in a run.
#[track_caller]
fn check_results<T: Program>(program: &T) {
    for workers in [1, 3] {
        let stage = stage(workers);
        for mut version in program.versions::<Unwatched>(&stage) {
            let ended = version.measure(program, 3);
            let sample = ended.unwrap_or_else(|wrong| panic!("{:?}, {workers} workers: {wrong:?}", version.variant));
            assert_eq!(sample.work, 3);
        }
    }
}

#[test]
fn ring_ends_where_the_hops_end() {
    for (actors, hops) in [(1, 0), (1, 5), (2, 7), (10, 9), (10, 10), (10, 107), (100, 99), (130, 131)] {
        check_results(&Ring { actors, hops });
    }
}

#[test]
fn product_of_few_rows_is_right() {
    for rows in [1, 2, 33] {
        check_results(&Matrix::new(rows));
    }
}

#[test]
fn product_of_512_rows_is_right() {
    let (matrix, stage) = (Matrix::new(512), stage(2));
    for mut version in matrix.versions::<Unwatched>(&stage) {
        assert_eq!(version.measure(&matrix, 1).map(|sample| sample.work), Ok(1), "{:?}", version.variant);
    }
}

/// 10,000 callers wait for one another, on a stack that has 13 bytes for each.
#[test]
fn nested_awaits_take_no_stack() {
    const STACK_BYTES: usize = 128 << 10;
    let system = System::builder().workers(2).stack_bytes(STACK_BYTES).build().expect("threads");
    let stage = Stage { system, pool: stage(1).pool };
    check_await(&Ring::default(), &stage);
    check_await(&Syracuse, &stage);
}

fn check_await<T: Program<Found: Debug>>(program: &T, stage: &Stage) {
    let mut versions = program.versions::<Unwatched>(stage).into_iter();
    let mut awaiting = versions.find(|version| version.variant == Await).expect("every kernel has it");
    assert_eq!(awaiting.measure(program, 2).map(|sample| sample.work), Ok(2));
}

#[test]
fn a_wrong_result_among_right_ones_is_refused() {
    let mut results = [1, 1, 2, 1].into_iter();
    let mut wrong = Version::new(Await, 4, || Ok(results.next().expect("four kernels")));
    let refusal = Failure::Wrong(WrongKernel::Number { found: 2, expected: 1 });
    assert_eq!(wrong.measure(&Syracuse, 4), Err(refusal));

    assert!(Ackermann.verify(&124).is_err());
    assert!(Asking.verify(&1_349).is_err());
    assert!(Ring::default().verify(&442).is_err());
    assert_eq!(Ring::default().verify(&443), Ok(()));
    assert!(Matrix::new(2).verify(&vec![vec![0.0; 2]; 2]).is_err());
}

#[test]
fn a_broken_promise_is_a_failure() {
    let broken = || {
        let (promise, resolver) = enact::Promise::pair();
        drop(resolver);
        promise.wait()
    };
    assert!(matches!(Version::new(Await, 1, broken).measure(&Syracuse, 1), Err(Failure::Broken(_))));
}
