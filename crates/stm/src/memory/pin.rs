//! The interval of epochs that a descriptor announces.
use enact_sync::atomic::{AtomicU64, Ordering, ordered};

use crate::domain::DOMAIN;

/// What one descriptor announces; written by it alone.
#[derive(Debug)]
pub(crate) struct Pin {
    /// 0: not pinned.
    lower: AtomicU64,
    upper: AtomicU64,
}

impl Pin {
    pub(crate) fn new() -> Self {
        Self { lower: AtomicU64::new(0), upper: AtomicU64::new(0) }
    }

    /// Announces the present epoch.
    #[inline]
    pub(crate) fn enter(&self) {
        let epoch = DOMAIN.memory.epoch();
        self.upper.store(epoch, Ordering::Relaxed);
        // A swap, because on x86-64 it is the cheapest full fence; pairs with the fence in `Garbage::collect`.
        self.lower.swap(epoch, Ordering::AcqRel);
        ordered();
    }

    /// Withdraws the announcement: no address loaded before is used after.
    #[inline]
    pub(crate) fn leave(&self) {
        self.lower.store(0, Ordering::Release);
    }

    /// The newest epoch that is announced. What is born in it is covered, also when others have got hold of it and
    /// retire it.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.upper.load(Ordering::Relaxed)
    }

    /// True if what was loaded before this call is covered by the announcement.
    #[inline]
    pub(crate) fn is_covering(&self) -> bool {
        DOMAIN.memory.epoch() == self.upper.load(Ordering::Relaxed)
    }

    /// True if what was loaded before this call is covered by the announcement. If not, the announcement is brought up to
    /// date, and the address must be loaded again.
    #[inline]
    pub(crate) fn covers(&self) -> bool {
        self.is_covering() || self.extend()
    }

    #[cold]
    fn extend(&self) -> bool {
        self.upper.swap(DOMAIN.memory.epoch(), Ordering::AcqRel);
        ordered();
        false
    }

    /// As [`covers`](Self::covers), for a snapshot: the announcement moves on as a whole, because what has been loaded
    /// before is not used any more.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        if DOMAIN.memory.epoch() == self.upper.load(Ordering::Relaxed) {
            return true;
        }
        self.enter();
        false
    }

    /// The interval, if pinned.
    pub(super) fn interval(&self) -> Option<(u64, u64)> {
        match self.lower.load(Ordering::Acquire) {
            0 => None,
            // Read after `lower`: a newer upper end only keeps more.
            lower => Some((lower, self.upper.load(Ordering::Acquire))),
        }
    }
}
