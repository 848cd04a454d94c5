//! Actors, a clock and counters for workers that are no threads.
use std::cell::Cell;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use enact_sync::unmodelled::Arc;

use super::super::cost::LastCost;
use super::super::crossing::Crossings;
use super::super::own_queue::{Machine, Task};

/// When simulated time begins: no matter when, as only differences count.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    static CROSSINGS: Cell<Crossings> = const { Cell::new(Crossings::NONE) };
}

/// The time, so many nanoseconds after time began.
pub(super) fn instant(ns: u64) -> Instant {
    *BEGAN + Duration::from_nanos(ns)
}

/// It is this time from now on for what a worker decides that has met so many crossings.
pub(super) fn set(now_ns: u64, crossings: Crossings) {
    NOW_NS.set(now_ns);
    CROSSINGS.set(crossings);
}

/// Simulated workers.
pub(super) struct Simulated;

impl Machine for Simulated {
    type Task = Runnable;

    fn now() -> Instant {
        instant(NOW_NS.get())
    }

    fn crossings() -> Crossings {
        CROSSINGS.get()
    }
}

/// A simulated actor that is runnable.
pub(super) struct Runnable(Arc<Body>);

pub(super) struct Body {
    actor: usize,
    last_cost: LastCost,
}

impl Runnable {
    pub(super) fn new(actor: usize) -> Self {
        Self(Arc::new(Body { actor, last_cost: LastCost::default() }))
    }

    /// Which one it is.
    pub(super) fn index(&self) -> usize {
        self.0.actor
    }
}

impl Task for Runnable {
    type Actor = Arc<Body>;

    fn actor(&self) -> &Arc<Body> {
        &self.0
    }

    fn last_cost(actor: &Arc<Body>) -> &LastCost {
        &actor.last_cost
    }
}
