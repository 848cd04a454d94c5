//! One set of names for the primitives that the concurrent cores of Enact are written with.
//!
//! A normal build gets the standard library's atomics and `parking_lot`'s locks. `--cfg enact_loom` and
//! `--cfg enact_shuttle` replace them by the models of those checkers, so that the code that ships is the code that is
//! checked. The names of these switches are our own because other crates react to a plain `loom`.
//!
//! Locks do not poison: a panic inside a critical section of ours is contained by the turn or the transaction around
//! it, and state behind a lock is changed only in steps that cannot panic half way.
#![deny(unsafe_code)]

#[cfg(any(enact_loom, enact_shuttle))]
#[path = "model.rs"]
mod imp;
#[cfg(not(any(enact_loom, enact_shuttle)))]
#[path = "native.rs"]
mod imp;
#[cfg(not(any(enact_loom, enact_shuttle)))]
mod spin;

pub use imp::{Arc, Condvar, Mutex, MutexGuard, SpinLock, SpinLockGuard, thread_local};

/// A process-wide static; in a model build, one that is made anew for every explored interleaving.
///
/// The initial value is a constant expression in a normal build: write it out with constructors that are `const` there.
#[macro_export]
macro_rules! global {
    ($(#[$attribute:meta])* pub(crate) static $name:ident: $type:ty = $value:expr;) => {
        $crate::define_global!($(#[$attribute])* $name $type, $value);
    };
}

#[cfg(any(enact_loom, enact_shuttle))]
#[doc(hidden)]
pub use imp::model_lazy_static;

/// Atomic integers, pointers and fences.
pub mod atomic {
    pub use crate::imp::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    /// A sequentially consistent fence behind a read-modify-write or in front of nothing but loads that follow a load.
    ///
    /// The memory model asks for a fence there; on x86-64 the read-modify-write already drains the store buffer, and
    /// loads are not reordered with loads, so that nothing but the compiler has to be kept in order.
    #[inline]
    pub fn ordered() {
        #[cfg(all(target_arch = "x86_64", not(any(enact_loom, enact_shuttle, miri))))]
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        #[cfg(not(all(target_arch = "x86_64", not(any(enact_loom, enact_shuttle, miri)))))]
        fence(Ordering::SeqCst);
    }
}

/// Spin hints.
pub mod hint {
    pub use crate::imp::hint::spin_loop;
}

/// Threads, as the checker of this build knows them.
pub mod thread {
    pub use crate::imp::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
    pub use crate::imp::{has_ended, spawn_named};
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
