//! Small programs whose interleavings are explored: by loom, all of them with few preemptions; by shuttle, 100,000 random
//! ones each. In a normal build each runs once.
//!
//! ```text
//! RUSTFLAGS="--cfg enact_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --profile models -p enact-stm --test models
//! RUSTFLAGS="--cfg enact_shuttle" cargo test --profile models -p enact-stm --test models
//! ```

mod cells;
mod deferral;
mod dependencies;
mod serial_lock;
// loom would explore three threads for hours; it has the models of two.
#[cfg(not(enact_loom))]
mod histories;
mod links;
mod memory;
#[cfg(not(enact_loom))]
#[path = "../histories/program.rs"]
mod program;
mod snapshots;
mod waiting;

use std::sync::{Mutex, PoisonError};

use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::thread;

/// How many random schedules of a scenario shuttle takes, unless `ENACT_SCHEDULES` says otherwise.
const SCHEDULES: usize = 100_000;

static TURN: Mutex<()> = Mutex::new(());

/// Explores a scenario.
fn model(scenario: impl Fn() + Send + Sync + 'static) {
    let schedules = std::env::var("ENACT_SCHEDULES").map_or(SCHEDULES, |n| n.parse().expect("a number of schedules"));
    // Only in a normal build do all scenarios share one memory: what one has replaced could wait for a reader of another.
    let _turn = (!cfg!(any(enact_loom, enact_shuttle))).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    enact_sync::explore(schedules, scenario);
}

/// Runs both at the same time.
fn beside<A: Send + 'static>(other: impl FnOnce() -> A + Send + 'static, here: impl FnOnce()) -> A {
    let other = thread::spawn(other);
    here();
    other.join().expect("no thread of a model panics")
}

/// Lets others run until they have set the flag.
fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}
