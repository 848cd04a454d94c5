//! The program's heap: the system's, which counts allocations while it is told to.
//!
//! # Why here
//! Only a whole program has a global allocator. `savina` counts in separate runs that nobody times; in every other run,
//! all that is added to an allocation is to look at [`IS_COUNTING`], which nobody writes then: a load from the core's own
//! cache and a branch that is always predicted.
//!
//! # Ordering
//! Everything is relaxed. The counting run is told so before the run's first message is sent, and read after its last actor
//! has gone, and both are ordered by the messages; an allocation of a thread that has nothing to do with the run may be
//! counted or not.
#![expect(unsafe_code, reason = "an allocator cannot be written without; it only passes on what it is given")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use enact_bench::measure::Allocations;

#[global_allocator]
static HEAP: Counting = Counting;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// What all threads allocate while `run` runs.
pub(crate) fn count(run: &mut dyn FnMut()) -> Allocations {
    let so_far = || (COUNT.load(Relaxed), BYTES.load(Relaxed));
    let (count_before, bytes_before) = so_far();
    IS_COUNTING.store(true, Relaxed);
    run();
    IS_COUNTING.store(false, Relaxed);
    let (count, bytes) = so_far();
    Allocations { count: count - count_before, bytes: bytes - bytes_before }
}

struct Counting;

fn note(bytes: usize) {
    if IS_COUNTING.load(Relaxed) {
        COUNT.fetch_add(1, Relaxed);
        BYTES.fetch_add(bytes as u64, Relaxed);
    }
}

// SAFETY: every method passes its arguments on to the system's allocator and returns what that returns, and `note` neither
// allocates nor panics, so the contract is kept as `System` keeps it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller owes us what we owe the system: a layout of a size other than 0.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size.saturating_sub(layout.size()));
        // SAFETY: the caller owes us that `block` came from this allocator, hence from the system's, with this layout,
        // and that the new size is neither 0 nor too large.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller owes us that `block` came from this allocator, hence from the system's, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;

    use super::*;

    /// One test, because the counters are the whole process's.
    #[test]
    fn allocations_of_all_threads_are_counted_while_somebody_counts() {
        let mut bytes = Vec::<u8>::new();
        let counted = count(&mut || {
            let mut grown = Vec::<u8>::with_capacity(1_000);
            grown.reserve_exact(5_000);
            bytes = thread::spawn(|| black_box(vec![0_u8; 1 << 20])).join().expect("it allocates");
            drop(black_box(grown));
        });
        assert!(counted.count >= 3, "{counted:?}");
        assert!((5_000 + (1 << 20)..5_000 + (1 << 20) + 100_000).contains(&counted.bytes), "{counted:?}");
        let before = COUNT.load(Relaxed);
        drop(black_box(vec![1_u8; 64]));
        assert_eq!(COUNT.load(Relaxed), before, "nobody counts");
    }
}
