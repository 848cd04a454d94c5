//! The primitives of a normal build.
pub use std::sync::Arc;
pub(crate) use std::sync::atomic;
pub use std::thread_local;
use std::time::Instant;
pub(crate) use std::{hint, thread};

pub use parking_lot::{Mutex, MutexGuard};

pub use crate::spin::{SpinLock, SpinLockGuard};

/// Starts a thread that runs `body` under this name and on a stack of this size.
///
/// # Errors
/// If the operating system refuses the thread.
pub fn spawn_named(
    name: String,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name).stack_size(stack_bytes).spawn(body)
}

/// Whether a thread is known to have ended; no thread of a model is.
pub fn has_ended(thread: &thread::JoinHandle<()>) -> bool {
    thread.is_finished()
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A condition variable with no waiter.
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Gives the lock up, sleeps until notified and takes the lock again.
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }

    /// As [`wait`](Self::wait), but no longer than until `deadline`; the flag tells whether it has passed.
    pub fn wait_until<'a, T>(&self, mut guard: MutexGuard<'a, T>, deadline: Instant) -> (MutexGuard<'a, T>, bool) {
        let late = self.0.wait_until(&mut guard, deadline).timed_out();
        (guard, late)
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! define_global {
    ($(#[$attribute:meta])* $name:ident $type:ty, $value:expr) => {
        $(#[$attribute])*
        pub(crate) static $name: $type = $value;
    };
}

pub(crate) fn explore(_schedules: usize, scenario: impl Fn()) {
    scenario();
}
