//! Workers: what runs an attempt, one at a time, on whatever thread.
//!
//! A worker owns the logs that attempts reuse and a *slot*, the part of it that others look at. Workers are taken from
//! the thread that runs a transaction, or from a pool; an attempt that waits for its dependency keeps its worker and goes
//! on with it on any thread. Slots are never freed: there are as many as attempts were ever in flight at once.
use crate::memory::Pin;
use crate::statistics::Counters;
use crate::transaction::{Worker, wait_a_little};
use crate::variable::stamp::OWNER_MAX;
use crossbeam_utils::CachePadded;
use enact_sync::Mutex;
use enact_sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The time of a snapshot that has been announced and does not know its time yet.
pub(crate) const ANNOUNCED: u64 = 1;

/// What others may read of a worker. Written by the worker alone.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Odd from before the first lock of a commit until after its last unlock.
    pub(crate) commits: AtomicU64,
    /// A version not below any that this worker has published.
    pub(crate) published: AtomicU64,
    /// The time a running snapshot reads at; 0: none; [`ANNOUNCED`]: not known yet.
    pub(crate) snapshot: AtomicU64,
    pub(crate) pin: Pin,
    pub(crate) counters: Counters,
    /// The number of the worker, from 1.
    pub(crate) owner: u64,
    next: Option<&'static CachePadded<Slot>>,
}

/// All workers there have ever been, and those that no thread has at the moment.
#[derive(Debug)]
pub(crate) struct Workers {
    slots: CachePadded<AtomicPtr<CachePadded<Slot>>>,
    #[expect(clippy::vec_box, reason = "a worker is large, and it moves from thread to thread in its box")]
    idle: Mutex<Vec<Box<Worker>>>,
}

impl Workers {
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    pub(crate) const fn new() -> Self {
        Self { slots: CachePadded::new(AtomicPtr::new(std::ptr::null_mut())), idle: Mutex::new(Vec::new()) }
    }

    #[cfg(any(enact_loom, enact_shuttle))]
    pub(crate) fn new() -> Self {
        Self { slots: CachePadded::new(AtomicPtr::new(std::ptr::null_mut())), idle: Mutex::new(Vec::new()) }
    }

    /// A worker of the pool, or a new one.
    pub(crate) fn take(&self) -> Box<Worker> {
        let mut idle = self.idle.lock();
        match idle.pop() {
            Some(worker) => worker,
            // Under the lock, so that the slots are numbered in the order of the list.
            None => Box::new(Worker::new(self.add_slot())),
        }
    }

    /// Gives a worker back, with its garbage: the next user frees it.
    pub(crate) fn give_back(&self, worker: Box<Worker>) {
        self.idle.lock().push(worker);
    }

    fn add_slot(&self) -> &'static CachePadded<Slot> {
        let next = self.newest();
        let number = next.map_or(1, |slot| slot.owner + 1);
        let slot: &'static mut CachePadded<Slot> = Box::leak(Box::new(CachePadded::new(Slot {
            commits: AtomicU64::new(0),
            published: AtomicU64::new(0),
            snapshot: AtomicU64::new(0),
            pin: Pin::new(),
            counters: Counters::default(),
            owner: number,
            next,
        })));
        self.slots.store(slot, Ordering::Release);
        slot
    }

    fn newest(&self) -> Option<&'static CachePadded<Slot>> {
        // SAFETY: null, or a slot that `add_slot` has leaked.
        unsafe { self.slots.load(Ordering::Acquire).as_ref() }
    }

    /// All slots. Takes time linear in their number.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &'static CachePadded<Slot>> {
        std::iter::successors(self.newest(), |slot| slot.next)
    }
}

impl Slot {
    /// The number to put into versions: 0 if it does not fit.
    pub(crate) fn mark_owner(&self) -> u64 {
        if self.owner <= OWNER_MAX { self.owner } else { 0 }
    }
}

impl Slot {
    /// A version not below that of any commit that this worker has begun before this call.
    pub(crate) fn published_before_now(&self) -> u64 {
        self.wait_for_commit();
        self.published.load(Ordering::Acquire)
    }

    /// Waits until a commit that is under way is over.
    pub(crate) fn wait_for_commit(&self) {
        let seen = self.commits.load(Ordering::Acquire);
        let mut spins = 0;
        while seen % 2 == 1 && self.commits.load(Ordering::Acquire) == seen {
            spins += 1;
            wait_a_little(spins);
        }
    }
}
