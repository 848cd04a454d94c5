//! The models' primitives in the shape of the production ones: locks whose guards come without a poison result.
use std::time::Instant;

#[cfg(enact_loom)]
use loom::sync as model;
#[cfg(enact_loom)]
pub use loom::thread_local;
#[cfg(enact_loom)]
pub(crate) use loom::{hint, thread};
pub(crate) use model::atomic;
pub use model::{Arc, MutexGuard};
#[cfg(enact_shuttle)]
use shuttle::sync as model;
#[cfg(enact_shuttle)]
pub use shuttle::thread_local;
#[cfg(enact_shuttle)]
pub(crate) use shuttle::{hint, thread};

/// As `spawn`: a model takes no notice of names and sizes.
///
/// # Errors
/// None in a model.
pub fn spawn_named(
    _name: String,
    _stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    Ok(thread::spawn(body))
}

/// No thread of a model is known to have ended.
pub fn has_ended(_thread: &thread::JoinHandle<()>) -> bool {
    false
}

/// A mutual exclusion lock of the model; see `parking_lot::Mutex`.
#[derive(Debug)]
pub struct Mutex<T>(model::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self(model::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes the value out of an owned lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Checkers know no spinning: what matters is which thread has the lock.
pub type SpinLock<T> = Mutex<T>;
/// What keeps a [`SpinLock`].
pub type SpinLockGuard<'a, T> = MutexGuard<'a, T>;

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// A condition variable of the model; see `parking_lot::Condvar`.
#[derive(Debug)]
pub struct Condvar(model::Condvar);

impl Condvar {
    /// A condition variable with no waiter.
    pub fn new() -> Self {
        Self(model::Condvar::new())
    }

    /// Gives the lock up, sleeps until notified and takes the lock again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// As [`wait`](Self::wait): a model has no clock, so the deadline never passes.
    pub fn wait_until<'a, T>(&self, guard: MutexGuard<'a, T>, _deadline: Instant) -> (MutexGuard<'a, T>, bool) {
        (self.wait(guard), false)
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

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(enact_loom)]
#[doc(hidden)]
pub use loom::lazy_static as model_lazy_static;
#[cfg(enact_shuttle)]
#[doc(hidden)]
pub use shuttle::lazy_static as model_lazy_static;

#[doc(hidden)]
#[macro_export]
macro_rules! define_global {
    ($(#[$attribute:meta])* $name:ident $type:ty, $value:expr) => {
        $crate::model_lazy_static! {
            $(#[$attribute])*
            pub(crate) static ref $name: $type = $value;
        }
    };
}

#[cfg(enact_loom)]
pub(crate) fn explore(_schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // A scenario of transactions takes more steps than the default allows, and still ends.
    builder.max_branches = 100_000;
    builder.check(scenario);
}

/// Memory is only used as far as a stack grows.
#[cfg(enact_shuttle)]
const STACK_BYTES: usize = 1 << 20;

#[cfg(enact_shuttle)]
pub(crate) fn explore(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    // Turns inside turns need more than the default, and all threads of a model share one pool of stacks.
    config.stack_size = STACK_BYTES;
    shuttle::Runner::new(shuttle::scheduler::RandomScheduler::new(schedules), config).run(scenario);
}
