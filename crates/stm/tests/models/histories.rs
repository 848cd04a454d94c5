//! Small random programs, whose histories are checked for opacity in every schedule.
use enact_check::{Criterion, History};
use enact_sync::Arc;

use crate::model;
use crate::program::{self, Store};

/// Two threads beside the main one, each with random transactions over a cell and a boxed variable.
fn check(seed: u64, count: u64) {
    model(move || {
        let store = Arc::new(Store::new(1));
        let others: Vec<_> = (1..=2)
            .map(|thread| {
                let store = Arc::clone(&store);
                enact_sync::thread::spawn(move || program::run(&store, thread, seed, count, 2))
            })
            .collect();
        let mut recorders = vec![program::run(&store, 3, seed, count, 2)];
        recorders.extend(others.into_iter().map(|thread| thread.join().expect("no thread of a model panics")));
        if let Err(error) = History::merge(recorders).check(Criterion::Opaque) {
            panic!("seed {seed}: {error}");
        }
    });
}

// Case I11.
//   thread 1                 thread 2                                      main
//   reads, writes, commits   reads, writes, commits                        reads, writes, commits
//                            any overlap <- one order explains all reads
#[test]
fn random_programs_are_opaque_in_every_schedule() {
    for seed in 1..=3 {
        check(seed, 2);
    }
}
