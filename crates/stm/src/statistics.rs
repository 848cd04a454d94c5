//! What transactions have done so far.
use std::sync::atomic::Ordering;

use enact_sync::unmodelled::AtomicU64;

use crate::domain::DOMAIN;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One descriptor's counts, written by it alone.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Count,)*
        }

        /// What the transactions of this process have done since it started. Made by [`statistics`].
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Statistics {
            /// What has happened since `earlier` was taken.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }

            /// Every count with its name, in the order of the fields: for an exporter of metrics.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }
        }
    };
}

counters! {
    /// Transactions that have committed writes.
    commits,
    /// Transactions that have ended well without a write.
    read_only_commits,
    /// Of those, the ones that read a snapshot of the past, without a log and without a conflict.
    snapshots,
    /// Attempts given up because a variable was locked by a commit for too long.
    aborts_locked,
    /// Attempts given up because something they had read was changed by a commit.
    aborts_changed,
    /// Attempts given up so that an older, starving transaction comes first.
    aborts_stood_back,
    /// Commits that found the serial lock closed, because another transaction ran alone, and had to wait.
    held_up,
    /// Attempts that asked to wait with `retry`.
    retries,
    /// Transactions that were really put to sleep.
    sleeps,
    /// Transactions rolled back by an error of the user.
    errors,
    /// Attempts ended by a panic.
    panics,
    /// Attempts run with priority, after many conflicts.
    prioritised,
    /// Attempts run alone: after still more conflicts, as irrevocable, or between others that run alone, which had held up
    /// their commit.
    alone,
    /// Deferred operations of transactions that have committed.
    operations,
    /// Attempts that had run to their end and were given up because what they depended on was aborted.
    retracted,
}

/// A count that one thread at a time adds to and any may read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add_one(&self) {
        self.add(1);
    }

    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The sum over all descriptors. Counts of transactions that run meanwhile may or may not be in it.
///
/// # Example
/// ```
/// use enact_stm::{TCell, atomically, statistics};
/// let before = statistics();
/// let n = TCell::new(0);
/// atomically(|tx| tx.write(&n, 1)).run();
/// assert!(statistics().since(&before).commits >= 1);
/// ```
#[must_use]
pub fn statistics() -> Statistics {
    let mut sum = Statistics::default();
    for slot in DOMAIN.descriptors.all_slots() {
        sum.add(&slot.counters);
    }
    sum
}
