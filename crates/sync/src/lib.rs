//! One set of names for the primitives that the concurrent cores of Enact are written with.
//!
//! A normal build gets the standard library's atomics and `parking_lot`'s locks. `--cfg enact_loom` and
//! `--cfg enact_shuttle` replace them by the models of those checkers, so that the code that ships is the code that is
//! checked. The names of these switches are our own because other crates react to a plain `loom`.
//!
//! Locks do not poison: a panic inside a critical section of ours is contained by the turn or the transaction around
//! it, and state behind a lock is changed only in steps that cannot panic half way.
#![forbid(unsafe_code)]

#[cfg(any(enact_loom, enact_shuttle))]
#[path = "model.rs"]
mod imp;
#[cfg(not(any(enact_loom, enact_shuttle)))]
#[path = "native.rs"]
mod imp;

pub use imp::{Arc, Condvar, Mutex, MutexGuard, thread_local};

/// Atomic integers, pointers and fences.
pub mod atomic {
    pub use crate::imp::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}

/// Spin hints.
pub mod hint {
    pub use crate::imp::hint::spin_loop;
}

/// Threads, as the checker of this build knows them.
pub mod thread {
    pub use crate::imp::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
}

/// The standard library's own, in every build: for what no model explores.
///
/// Trait objects and wakers need `std`'s reference counts, and a process-wide static outlives every model.
pub mod unmodelled {
    pub use std::sync::atomic::AtomicU64;
    pub use std::sync::{Arc, LazyLock, OnceLock, Weak};
}

/// Runs `scenario` once in a normal build; in a model build, explores its interleavings.
///
/// loom explores exhaustively (bounded by `LOOM_MAX_PREEMPTIONS`), shuttle takes `schedules` random schedules.
///
/// # Panics
/// When `scenario` panics in any explored interleaving.
pub fn explore(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    imp::explore(schedules, scenario);
}
