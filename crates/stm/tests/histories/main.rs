//! Histories of random transactions on real threads, checked for opacity: every attempt, also one that was thrown away, has
//! seen a state that some serial order in agreement with real time explains.
mod program;

use enact_check::{Criterion, History};
use program::Store;

/// Runs `count` transactions on each of `threads` threads over `variables` variables of each kind.
fn check(seed: u64, threads: u64, count: u64, variables: usize, steps_max: usize) {
    let store = Store::new(variables);
    let recorders: Vec<_> = std::thread::scope(|scope| {
        let store = &store;
        let running: Vec<_> = (1..=threads)
            .map(|thread| scope.spawn(move || program::run(store, thread, seed, count, steps_max)))
            .collect();
        running.into_iter().map(|thread| thread.join().expect("no transaction panics")).collect()
    });
    let coverage = History::merge(recorders)
        .check(Criterion::Opaque)
        .unwrap_or_else(|error| panic!("seed {seed}, {threads} threads, {variables} variables of each kind: {error}"));
    println!("seed {seed}: {coverage:?}");
}

// Case I11.
#[test]
fn a_million_random_transactions_are_opaque() {
    check(1, 2, 200_000, 2, 3);
    check(2, 4, 75_000, 4, 6);
    check(3, 2, 150_000, 50, 12);
}
