//! Descriptors: what runs an attempt, one at a time, on whatever thread.
//!
//! A descriptor owns the logs that attempts reuse and a *slot*, the part of it that others look at. Descriptors are
//! taken from the thread that runs a transaction, or from a pool; an attempt that waits for its dependency keeps its
//! descriptor and goes on with it on any thread. A thread that ends gives its descriptor to the pool.
//!
//! # Slots in use
//! A look at all descriptors follows the list of the slots *in use*: those of descriptors outside the pool. So a
//! snapshot, a closing serial lock and a collection take time linear in the threads that run transactions, not in those
//! that ever have. A slot is put in front before its descriptor is used and taken out after, under the lock of the
//! pool; it is never freed, because others may be looking at it, and is used again with its descriptor.
//!
//! * A slot that is taken out keeps its `next`. It was in front of everything that was in use then, and it comes back only
//!   at the very front: the list is always in the order in which slots came into use, the latest first. So a walk that
//!   comes to a slot which is taken out, or which has come back, still meets every slot behind it that stays in use; it
//!   may meet some twice.
//! * A walk that does not meet a new slot has read the front before that was put there. The walk comes after a fence,
//!   and a descriptor puts its slot there before the fence of its first announcement: so the descriptor sees what was
//!   done before the walk, as if its announcement had been too late.
//! * What the descriptor has published goes into the clock before its slot is taken out, so that a snapshot, which asks
//!   the slots and then the clock, has it in its time. Shown by the model
//!   `a_snapshot_sees_what_a_thread_has_left_that_is_gone`.
#![expect(unsafe_code, reason = "slots are looked at by all threads and never freed")]
use std::collections::BTreeMap;

use crossbeam_utils::CachePadded;
use enact_sync::Mutex;
use enact_sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::domain::DOMAIN;
use crate::memory::{Garbage, Pin};
use crate::statistics::Counters;
use crate::transaction::{Descriptor, wait_a_little};
use crate::variable::versioned_lock::OWNER_MAX;

/// The time of a snapshot that has been announced and does not know its time yet.
pub(crate) const ANNOUNCED: u64 = 1;

/// What others may read of a descriptor. Written by the descriptor alone, apart from the garbage that others take.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Odd from before the first lock of a commit until after its last unlock.
    pub(crate) commits: AtomicU64,
    /// A version not below any that this descriptor has published.
    pub(crate) published: AtomicU64,
    /// The time a running snapshot reads at; 0: none; [`ANNOUNCED`]: not known yet.
    pub(crate) snapshot: AtomicU64,
    /// The epochs whose nodes the attempt may be reading.
    pub(crate) pin: Pin,
    /// Counts of what attempts have come to.
    pub(crate) counters: Counters,
    /// What was retired and not freed yet.
    pub(crate) garbage: Garbage,
    /// The number of the descriptor, from 1.
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

/// All descriptors there are.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// The slot that came into use last.
    in_use: CachePadded<Link>,
    pool: Mutex<Pool>,
}

/// The descriptors that no thread has at the moment, by their numbers, so that the lowest are used first, which fit
/// into versioned locks; and the slot made last.
#[derive(Debug)]
struct Pool {
    idle: BTreeMap<u64, Box<Descriptor>>,
    newest: Option<&'static CachePadded<Slot>>,
}

impl Descriptors {
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

    /// A descriptor of the pool, the one with the lowest number, or a new one.
    pub(crate) fn take(&self) -> Box<Descriptor> {
        let mut pool = self.pool.lock();
        match pool.idle.pop_first() {
            Some((_, descriptor)) => {
                self.put_into_use(descriptor.slot);
                descriptor
            }
            None => {
                let slot = pool.add_slot();
                self.put_into_use(slot);
                Box::new(Descriptor::new(slot))
            }
        }
    }

    /// Gives a descriptor back that runs no attempt. Called outside of transactions: values are dropped here.
    pub(crate) fn give_back(&self, mut descriptor: Box<Descriptor>) {
        if descriptor.has_retired() {
            descriptor.collect();
        }
        let slot = descriptor.slot;
        let published = slot.published.load(Ordering::Relaxed);
        if DOMAIN.clock.load(Ordering::Relaxed) < published && !cfg!(planted = "forget_who_is_gone") {
            DOMAIN.clock.fetch_max(published, Ordering::AcqRel);
        }
        let mut pool = self.pool.lock();
        self.take_out_of_use(slot);
        pool.idle.insert(slot.owner, descriptor);
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
    /// A version not below that of any commit that this descriptor has begun before this call.
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

    fn numbers(descriptors: &Descriptors) -> Vec<u64> {
        descriptors.slots().map(|slot| slot.owner).collect()
    }

    #[test]
    fn slots_in_use_are_those_of_workers_outside_the_pool() {
        enact_sync::explore(1, || {
            let descriptors = Descriptors::new();
            let mut taken: Vec<_> = (0..MANY).map(|_| descriptors.take()).collect();
            assert_eq!(numbers(&descriptors).len(), MANY, "all at the same time");
            // From the middle, the front and the end.
            for n in [MANY / 2, MANY - 2, 0] {
                descriptors.give_back(taken.remove(n));
            }
            assert_eq!(numbers(&descriptors).len(), MANY - 3);
            let last = taken.pop().expect("one of many");
            taken.into_iter().for_each(|descriptor| descriptors.give_back(descriptor));
            assert_eq!(numbers(&descriptors), [last.slot.owner], "the crowd has gone");
            let again = [descriptors.take(), descriptors.take()];
            assert_eq!(numbers(&descriptors), [2, 1, last.slot.owner], "used again, the lowest numbers first");
            assert_eq!(descriptors.all_slots().count(), MANY);
            drop(again);
        });
    }

    #[test]
    fn a_walk_goes_on_from_a_slot_that_has_been_taken_out_or_has_come_back() {
        enact_sync::explore(1, || {
            let descriptors = Descriptors::new();
            let stays = descriptors.take();
            let (second, third) = (descriptors.take(), descriptors.take());
            let mut walk = descriptors.slots();
            assert_eq!(walk.next().map(|slot| slot.owner), Some(3));
            let mut later = descriptors.slots().skip(1);
            assert_eq!(later.next().map(|slot| slot.owner), Some(2));
            descriptors.give_back(third);
            descriptors.give_back(second);
            assert_eq!(descriptors.take().slot.owner, 2);
            assert!(walk.any(|slot| slot.owner == stays.slot.owner));
            assert!(later.any(|slot| slot.owner == stays.slot.owner));
        });
    }
}
