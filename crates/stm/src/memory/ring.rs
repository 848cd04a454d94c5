//! Retired nodes on their way from the descriptor that retires to the thread that frees.
//!
//! # Who may touch what
//! `tail` is the descriptor's. `head` belongs to one taker at a time, which the lock of the garbage sees to. The places
//! from `head` to before `tail` are the taker's, the others are the descriptor's: each hands places over by a release
//! store to its end, which the other loads with acquire. Shown by the model
//! `a_value_is_dropped_once_whichever_thread_collects`.
#![expect(unsafe_code, reason = "two threads own different places of one ring")]
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;

use enact_sync::atomic::{AtomicU64, Ordering};

use super::garbage::{BATCH, Retired};

/// A queue of [`BATCH`] places with one end for the descriptor and one for a taker.
pub(super) struct Ring {
    head: AtomicU64,
    tail: AtomicU64,
    places: Box<[Cell; BATCH]>,
}

type Cell = UnsafeCell<MaybeUninit<Retired>>;

// SAFETY: each place has one owner at a time, as said above, and `Retired` may go to any thread.
unsafe impl Sync for Ring {}

impl Ring {
    pub(super) fn new() -> Self {
        let places = Box::new(std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())));
        Self { head: AtomicU64::new(0), tail: AtomicU64::new(0), places }
    }

    /// Adds a node; false if there is no room.
    ///
    /// # Safety
    /// The caller is the descriptor.
    #[inline]
    pub(super) unsafe fn push(&self, node: Retired) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail - self.head.load(Ordering::Acquire) == BATCH as u64 {
            return false;
        }
        let place = self.places[tail as usize % BATCH].get();
        // SAFETY: the place is not between the ends, so it is the descriptor's, which calls this.
        unsafe { place.write(MaybeUninit::new(node)) };
        self.tail.store(tail + 1, Ordering::Release);
        true
    }

    /// Takes all nodes out.
    ///
    /// # Safety
    /// Nobody else takes at the same time.
    pub(super) unsafe fn take_all(&self, nodes: &mut Vec<Retired>) {
        let (head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Acquire));
        for n in head..tail {
            let place = self.places[n as usize % BATCH].get();
            // SAFETY: the place is between the ends, so it is the taker's, which calls this.
            let node = unsafe { place.read() };
            // SAFETY: the descriptor has written the place before it moved its end behind it.
            nodes.push(unsafe { node.assume_init() });
        }
        self.head.store(tail, Ordering::Release);
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}
