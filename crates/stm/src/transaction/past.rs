//! What a commit leaves for the snapshots that run beside it.
//!
//! A replaced value goes into the variable's chain if a running snapshot reads at a time at which it was current. A chain
//! belongs to its variable; only the holder of its lock changes it. Every commit removes what no snapshot needs any
//! more, so a chain is never longer than the number of snapshots that run, and one.
#![expect(unsafe_code, reason = "past values are read while a snapshot protects them")]
use enact_sync::atomic::{AtomicU64, Ordering};

use super::Descriptor;
use crate::descriptor::ANNOUNCED;
use crate::domain::DOMAIN;
use crate::variable::node::{self, Free};
use crate::variable::versioned_lock::version;

impl Descriptor {
    /// Collects the times of running snapshots, of which there were so many when all locks were held.
    #[inline]
    pub(super) fn find_snapshots(&mut self, count: u64) {
        if count != 0 || !self.snapshots.is_empty() {
            self.collect_snapshots(count);
        }
    }

    #[cold]
    fn collect_snapshots(&mut self, count: u64) {
        self.snapshots.clear();
        if count == 0 {
            return;
        }
        let times =
            DOMAIN.descriptors.slots().map(|slot| slot.snapshot.load(Ordering::Acquire)).filter(|time| *time != 0);
        self.snapshots.extend(times);
    }

    /// True if a running snapshot reads a value that was current from the version of `mark` until before `until`.
    #[inline]
    pub(super) fn is_needed(&self, mark: u64, until: u64) -> bool {
        let from = version(mark);
        self.snapshots.iter().any(|time| *time == ANNOUNCED || (from..until).contains(time))
    }

    /// Takes out of the chain at `link`, whose newer neighbour has version `newer`, what no snapshot needs.
    ///
    /// # Safety
    /// The caller has locked the variable that the chain belongs to, and `free` frees its nodes.
    #[cold]
    pub(super) unsafe fn prune(&mut self, mut link: &AtomicU64, mut newer: u64, free: Free) {
        loop {
            let address = link.load(Ordering::Relaxed);
            if address == 0 {
                return;
            }
            // SAFETY: a node in the chain is not retired, and only we take nodes out of it now. The reference ends
            // before the next round unless the node stays in the chain.
            let header = unsafe { node::header(address) };
            let mark = header.mark.load(Ordering::Relaxed);
            if self.is_needed(mark, newer) {
                newer = version(mark);
                link = &header.past;
            } else {
                link.store(header.past.load(Ordering::Relaxed), Ordering::Release);
                // SAFETY: it has just been unlinked from the only chain it was in.
                unsafe { self.retire(address, free, header.birth) };
            }
        }
    }
}
