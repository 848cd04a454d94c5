//! What a worker lets others see of itself, on a cache line of its own: it is written rarely, and read by those that search.
use std::sync::atomic::Ordering;

use enact_sync::atomic::{AtomicBool, AtomicU64};

use super::policy::Backlog;

#[derive(Default)]
pub(super) struct Board {
    /// Whether runs are timed, beside what each in the queue costs.
    each_ns_and_timed: AtomicU64,
    /// Whether what is in the slot is worth a move.
    offers_next: AtomicBool,
    /// Until when the worker is strict, in microseconds of its scheduler's time; zero if it is not.
    strict_until: AtomicU64,
}

impl Board {
    /// Shows what those in the queue cost.
    pub(super) fn show_backlog(&self, backlog: Backlog) {
        let shown = backlog.each_ns << 1 | u64::from(backlog.is_timed);
        if self.each_ns_and_timed.load(Ordering::Relaxed) != shown {
            self.each_ns_and_timed.store(shown, Ordering::Relaxed);
        }
    }

    /// What waits in the queue, which has this length.
    pub(super) fn backlog(&self, len: usize) -> Backlog {
        let shown = self.each_ns_and_timed.load(Ordering::Relaxed);
        Backlog { len, each_ns: shown >> 1, is_timed: shown & 1 == 1 }
    }

    /// Shows whether what is in the slot is worth a move.
    pub(super) fn offer_next(&self, is_offered: bool) {
        if self.offers_next() != is_offered {
            self.offers_next.store(is_offered, Ordering::Relaxed);
        }
    }

    pub(super) fn offers_next(&self) -> bool {
        self.offers_next.load(Ordering::Relaxed)
    }

    pub(super) fn show_strict(&self, until: u64) {
        if self.strict_until() != until {
            self.strict_until.store(until, Ordering::Relaxed);
        }
    }

    pub(super) fn strict_until(&self) -> u64 {
        self.strict_until.load(Ordering::Relaxed)
    }
}
