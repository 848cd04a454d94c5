//! A lock for sections of a few instructions.
//!
//! Taking it costs one locked instruction and giving it back none, half of what a lock costs whose waiters sleep. A
//! thread that finds it taken looks again, and lets other threads run when that takes long: its owner may have been interrupted.
#![expect(unsafe_code, reason = "a lock vouches that only one has what it protects")]
use std::sync::atomic::{AtomicBool, Ordering};

use lock_api::{GuardSend, RawMutex};

/// How often a waiter looks before it lets other threads run.
const LOOKS: u32 = 64;

/// A mutual exclusion lock whose waiters do not sleep: for sections that are short and run nobody else's code.
pub type SpinLock<T> = lock_api::Mutex<RawSpinLock, T>;

/// What keeps a [`SpinLock`]; gives it back when dropped.
pub type SpinLockGuard<'a, T> = lock_api::MutexGuard<'a, RawSpinLock, T>;

/// The state of a [`SpinLock`].
#[derive(Debug)]
pub struct RawSpinLock(AtomicBool);

impl RawSpinLock {
    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        while self.0.load(Ordering::Relaxed) {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

// SAFETY: `lock` returns to one caller at a time: that whose exchange has changed the flag from false to true, which only
// `unlock` of the one before makes false again. Acquire and Release order what the owners do.
unsafe impl RawMutex for RawSpinLock {
    const INIT: Self = Self(AtomicBool::new(false));

    type Guard = GuardSend;

    #[inline]
    fn lock(&self) -> GuardSend {
        loop {
            match self.try_lock() {
                Some(guard) => return guard,
                None => self.wait(),
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        (!self.0.swap(true, Ordering::Acquire)).then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardSend) {
        self.0.store(false, Ordering::Release);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interpreter takes minutes for thousands.
    const ROUNDS: u64 = if cfg!(miri) { 100 } else { 10_000 };

    #[test]
    fn one_owner_at_a_time_sees_what_the_others_have_done() {
        let count = SpinLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut count = count.lock();
                        let seen = *count;
                        std::hint::spin_loop();
                        *count = seen + 1;
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 4 * ROUNDS);
    }
}
