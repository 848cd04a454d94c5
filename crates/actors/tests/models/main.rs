//! Small programs of actors whose interleavings shuttle explores, 100,000 random ones each. In a normal build each runs
//! once.
//!
//! ```text
//! RUSTFLAGS="--cfg enact_shuttle" cargo test --profile models -p enact-actors --test models
//! ```

mod callers;
mod circles;
mod lives;
mod mailbox;
#[path = "../mixed/play.rs"]
mod play;
#[path = "../mixed/program.rs"]
mod program;
mod promises;
#[path = "../mixed/random.rs"]
mod random;
mod scheduler;
mod selective;
#[path = "../mixed/serial.rs"]
mod serial;
mod transactions;

use std::sync::{Mutex, PoisonError};

use enact_actors::System;

/// How many random schedules of a scenario, in all its variants, shuttle takes, unless `ENACT_SCHEDULES` says more
/// or fewer.
const SCHEDULES: usize = 100_000;

static TURN: Mutex<()> = Mutex::new(());

/// Explores a scenario.
fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    explore_one_of(1, scenario);
}

/// Explores a scenario that is one of so many variants.
fn explore_one_of(variants: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let schedules = std::env::var("ENACT_SCHEDULES").map_or(SCHEDULES, |n| n.parse().expect("a number of schedules"));
    // Only in a normal build do all scenarios share the state of transactions.
    let _turn = (!cfg!(enact_shuttle)).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    enact_sync::explore(schedules / variants, scenario);
}

/// Explores a scenario in a system with this many workers.
fn model(workers: usize, scenario: impl Fn(&System) + Send + Sync + 'static) {
    explore(move || {
        let system = System::builder().workers(workers).build().expect("threads");
        scenario(&system);
    });
}
