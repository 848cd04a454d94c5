//! Workers: what runs an attempt, one at a time, on whatever thread.
//!
//! A worker owns the logs that attempts reuse and a *slot*, the part of it that others look at. Workers are taken from
//! the thread that runs a transaction, or from a pool; an attempt that waits for its dependency keeps its worker and goes
//! on with it on any thread. A thread that ends gives its worker to the pool.
//!
//! # Slots in use
//! A look at all workers follows the list of the slots *in use*: those of workers outside the pool. So a
//! snapshot, a closing gate and a collection take time linear in the threads that run transactions, not in those that ever
//! have. A slot is put in front before its worker is used and taken out after, under the lock of the pool; it is never freed,
//! because others may be looking at it, and is used again with its worker.
//!
//! * A slot that is taken out keeps its `next`. It was in front of everything that was in use then, and it comes back only
//!   at the very front: the list is always in the order in which slots came into use, the latest first. So a walk that
//!   comes to a slot which is taken out, or which has come back, still meets every slot behind it that stays in use; it may
//!   meet some twice.
//! * A walk that does not meet a new slot has read the front before that was put there. The walk comes after a fence, and a
//!   worker puts its slot there before the fence of its first announcement: so the worker sees what was done before the
//!   walk, as if its announcement had been too late.
//! * What the worker has published goes into the clock before its slot is taken out, so that a snapshot, which asks the slots
//!   and then the clock, has it in its time. Shown by the model `a_snapshot_sees_what_a_thread_has_left_that_is_gone`.
#![expect(unsafe_code, reason = "slots are looked at by all threads and never freed")]
use crate::domain::DOMAIN;
use crate::memory::{Garbage, Pin};
use crate::statistics::Counters;
use crate::transaction::{Worker, wait_a_little};
use crate::variable::stamp::OWNER_MAX;
use crossbeam_utils::CachePadded;
use enact_sync::Mutex;
use enact_sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::collections::BTreeMap;

/// The time of a snapshot that has been announced and does not know its time yet.
pub(crate) const ANNOUNCED: u64 = 1;

/// What others may read of a worker. Written by the worker alone, apart from the garbage that others take.
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
    pub(crate) garbage: Garbage,
    /// The number of the worker, from 1.
    pub(crate) owner: u64,
    /// The neighbours in the list of those in use: behind, and in front. Changed under the lock of the pool, where alone
    /// `previous` is read.
    next: Link,
    previous: Link,
    /// The slot made before this one.
    older: Option<&'static CachePadded<Slot>>,
}

/// A reference to a slot, or none.
#[derive(Debug)]
struct Link(AtomicPtr<CachePadded<Slot>>);

impl Link {
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    const fn none() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    #[cfg(any(enact_loom, enact_shuttle))]
    fn none() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    fn get(&self) -> Option<&'static CachePadded<Slot>> {
        let address = self.0.load(Ordering::Acquire);
        // SAFETY: null, or what `set` has made of a reference that lives for ever.
        unsafe { address.as_ref() }
    }

    fn set(&self, slot: Option<&'static CachePadded<Slot>>) {
        let address = slot.map_or(std::ptr::null_mut(), |slot| std::ptr::from_ref(slot).cast_mut());
        self.0.store(address, Ordering::Release);
    }
}

/// All workers there are.
#[derive(Debug)]
pub(crate) struct Workers {
    /// The slot that came into use last.
    in_use: CachePadded<Link>,
    pool: Mutex<Pool>,
}

/// The workers that no thread has at the moment, by their numbers, so that the lowest are used first, which fit into stamps;
/// and the slot made last.
#[derive(Debug)]
struct Pool {
    idle: BTreeMap<u64, Box<Worker>>,
    newest: Option<&'static CachePadded<Slot>>,
}

impl Workers {
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    pub(crate) const fn new() -> Self {
        let pool = Mutex::new(Pool { idle: BTreeMap::new(), newest: None });
        Self { in_use: CachePadded::new(Link::none()), pool }
    }

    #[cfg(any(enact_loom, enact_shuttle))]
    pub(crate) fn new() -> Self {
        let pool = Mutex::new(Pool { idle: BTreeMap::new(), newest: None });
        Self { in_use: CachePadded::new(Link::none()), pool }
    }

    /// A worker of the pool, the one with the lowest number, or a new one.
    pub(crate) fn take(&self) -> Box<Worker> {
        let mut pool = self.pool.lock();
        match pool.idle.pop_first() {
            Some((_, worker)) => {
                self.put_into_use(worker.slot);
                worker
            }
            None => {
                let slot = pool.add_slot();
                self.put_into_use(slot);
                Box::new(Worker::new(slot))
            }
        }
    }

    /// Gives a worker back that runs no attempt. Called outside of transactions: values are dropped here.
    pub(crate) fn give_back(&self, mut worker: Box<Worker>) {
        if worker.has_retired() {
            worker.collect();
        }
        let slot = worker.slot;
        let published = slot.published.load(Ordering::Relaxed);
        if DOMAIN.clock.load(Ordering::Relaxed) < published && !cfg!(plant = "forget_who_is_gone") {
            DOMAIN.clock.fetch_max(published, Ordering::AcqRel);
        }
        let mut pool = self.pool.lock();
        self.take_out_of_use(slot);
        pool.idle.insert(slot.owner, worker);
    }

    /// Puts a slot in front of those in use. Called under the lock of the pool.
    fn put_into_use(&self, slot: &'static CachePadded<Slot>) {
        let first = self.in_use.get();
        slot.previous.set(None);
        slot.next.set(first);
        if let Some(behind) = first {
            behind.previous.set(Some(slot));
        }
        self.in_use.set(Some(slot));
    }

    /// Takes a slot out from between its neighbours. Called under the lock of the pool.
    fn take_out_of_use(&self, slot: &'static CachePadded<Slot>) {
        let (previous, next) = (slot.previous.get(), slot.next.get());
        previous.map_or(&*self.in_use, |previous| &previous.next).set(next);
        if let Some(next) = next {
            next.previous.set(previous);
        }
    }

    /// The slots in use. Takes time linear in their number.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &'static CachePadded<Slot>> {
        std::iter::successors(self.in_use.get(), |slot| slot.next.get())
    }

    /// The slot that comes after one in the order of all there have ever been, which begins again at its end.
    pub(crate) fn next_slot(&self, slot: Option<&'static CachePadded<Slot>>) -> Option<&'static CachePadded<Slot>> {
        slot.and_then(|slot| slot.older).or_else(|| self.pool.lock().newest)
    }

    /// All slots there have ever been.
    pub(crate) fn all_slots(&self) -> impl Iterator<Item = &'static CachePadded<Slot>> {
        let newest = self.pool.lock().newest;
        std::iter::successors(newest, |slot| slot.older)
    }
}

impl Pool {
    fn add_slot(&mut self) -> &'static CachePadded<Slot> {
        let slot = Box::leak(Box::new(CachePadded::new(Slot {
            commits: AtomicU64::new(0),
            published: AtomicU64::new(0),
            snapshot: AtomicU64::new(0),
            pin: Pin::new(),
            counters: Counters::default(),
            garbage: Garbage::new(),
            owner: self.newest.map_or(1, |slot| slot.owner + 1),
            next: Link::none(),
            previous: Link::none(),
            older: self.newest,
        })));
        self.newest = Some(slot);
        slot
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An interpreter takes minutes for thousands.
    const MANY: usize = if cfg!(miri) { 100 } else { 3_000 };

    fn numbers(workers: &Workers) -> Vec<u64> {
        workers.slots().map(|slot| slot.owner).collect()
    }

    #[test]
    fn slots_in_use_are_those_of_workers_outside_the_pool() {
        enact_sync::explore(1, || {
            let workers = Workers::new();
            let mut taken: Vec<_> = (0..MANY).map(|_| workers.take()).collect();
            assert_eq!(numbers(&workers).len(), MANY, "all at the same time");
            // From the middle, the front and the end.
            for n in [MANY / 2, MANY - 2, 0] {
                workers.give_back(taken.remove(n));
            }
            assert_eq!(numbers(&workers).len(), MANY - 3);
            let last = taken.pop().expect("one of many");
            taken.into_iter().for_each(|worker| workers.give_back(worker));
            assert_eq!(numbers(&workers), [last.slot.owner], "the crowd has gone");
            let again = [workers.take(), workers.take()];
            assert_eq!(numbers(&workers), [2, 1, last.slot.owner], "used again, the lowest numbers first");
            assert_eq!(workers.all_slots().count(), MANY);
            drop(again);
        });
    }

    #[test]
    fn a_walk_goes_on_from_a_slot_that_has_been_taken_out_or_has_come_back() {
        enact_sync::explore(1, || {
            let workers = Workers::new();
            let stays = workers.take();
            let (second, third) = (workers.take(), workers.take());
            let mut walk = workers.slots();
            assert_eq!(walk.next().map(|slot| slot.owner), Some(3));
            let mut later = workers.slots().skip(1);
            assert_eq!(later.next().map(|slot| slot.owner), Some(2));
            workers.give_back(third);
            workers.give_back(second);
            assert_eq!(workers.take().slot.owner, 2);
            assert!(walk.any(|slot| slot.owner == stays.slot.owner));
            assert!(later.any(|slot| slot.owner == stays.slot.owner));
        });
    }
}
