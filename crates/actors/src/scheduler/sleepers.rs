//! Which workers sleep or search, without the sleep itself.
use std::sync::atomic::fence;

use enact_sync::Mutex;
use enact_sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Workers of which some sleep, each with what is needed to wake it.
pub(crate) struct Sleepers<S> {
    workers: usize,
    /// The last one to fall asleep is at the end: it is woken first, its cache being the warmest.
    asleep: Mutex<Vec<(usize, S)>>,
    asleep_count: AtomicUsize,
    searching: AtomicUsize,
    has_sentinel: AtomicBool,
}

/// Where a worker sleeps.
pub(super) enum Bed {
    /// Nowhere: it is needed.
    None,
    /// Nobody is left awake.
    OfTheLast,
    /// It looks from time to time.
    OfTheSentinel,
    OfAnother,
}

impl<S> Sleepers<S> {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers,
            asleep: Mutex::new(Vec::with_capacity(workers)),
            asleep_count: AtomicUsize::new(0),
            searching: AtomicUsize::new(0),
            has_sentinel: AtomicBool::new(false),
        }
    }

    /// Whether a worker sleeps that would find work, and none searches for it already.
    #[inline]
    pub(super) fn can_help(&self) -> bool {
        self.searching.load(Ordering::Relaxed) == 0 && self.asleep_count.load(Ordering::Relaxed) > 0
    }

    /// Takes the one that fell asleep last off the list, who is a searcher from now on and is to be woken.
    pub(super) fn wake_last(&self) -> Option<(usize, S)> {
        let mut asleep = self.asleep.lock();
        let last = asleep.pop()?;
        self.asleep_count.store(asleep.len(), Ordering::Relaxed);
        // Counted before it runs, so that work added meanwhile wakes nobody else.
        self.searching.fetch_add(1, Ordering::Relaxed);
        Some(last)
    }

    pub(super) fn start_searching(&self) {
        self.searching.fetch_add(1, Ordering::Relaxed);
    }

    /// A searcher has found work. Whether it was the last one.
    pub(super) fn stop_searching(&self) -> bool {
        self.searching.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// A searcher goes to sleep, unless it `is_needed`.
    pub(super) fn lie_down(&self, worker: usize, sleeper: S, is_needed: impl Fn() -> bool) -> Bed {
        let mut asleep = self.asleep.lock();
        asleep.push((worker, sleeper));
        let count = asleep.len();
        self.asleep_count.store(count, Ordering::Relaxed);
        drop(asleep);
        self.searching.fetch_sub(1, Ordering::Relaxed);
        // Pairs with the fence in `Idle::work_added`.
        fence(Ordering::SeqCst);
        if !cfg!(planted = "sleep_without_looking") && is_needed() && self.get_up(worker) {
            return Bed::None;
        }
        if count == self.workers {
            Bed::OfTheLast
        } else if self.has_sentinel.swap(true, Ordering::Relaxed) {
            Bed::OfAnother
        } else {
            Bed::OfTheSentinel
        }
    }

    /// The sentinel looks no longer.
    pub(super) fn end_watch(&self) {
        self.has_sentinel.store(false, Ordering::Relaxed);
    }

    /// Takes a worker that has not been woken off the list. Returns whether it was on it.
    pub(super) fn get_up(&self, worker: usize) -> bool {
        let mut asleep = self.asleep.lock();
        let Some(at) = asleep.iter().position(|(sleeper, _)| *sleeper == worker) else { return false };
        asleep.remove(at);
        self.asleep_count.store(asleep.len(), Ordering::Relaxed);
        self.searching.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// How many sleep, as far as this thread has seen.
    pub(super) fn count(&self) -> usize {
        self.asleep_count.load(Ordering::Relaxed)
    }

    pub(super) fn are_all_asleep(&self) -> bool {
        self.asleep.lock().len() == self.workers
    }
}
