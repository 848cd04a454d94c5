//! When the memory of a replaced value may be used again.
//!
//! # The problem
//! A transaction holds references into values that others replace meanwhile. They may be freed only when no transaction
//! can have such a reference, and a reader that stalls (its closure sleeps, its thread is not scheduled) must not keep
//! everything that is replaced meanwhile: memory stays bounded.
//!
//! # Interval-based reclamation
//! Every node knows the epoch of its *birth*. It is *retired* when nothing leads to it any more, and the epoch after that
//! is noted. Every worker announces an interval of epochs while it is pinned: from the epoch in which it was pinned to the
//! newest one in which it has loaded an address. A retired node is freed if no announced interval meets its life.
//!
//! * A reader that has loaded an address sees the epoch unchanged since it announced it, or announces the new one and loads
//!   again ([`Pin::covers`]). So the node's birth is not after the interval, and it was retired after the interval
//!   began: the two meet.
//! * What a transaction makes is born, by its label, in the newest epoch that it has announced, not in a later one that it
//!   has not noticed. So its announcement covers its own values too, after others have got hold of them and replaced them:
//!   it still publishes variables inside them, and shows them to conditions.
//! * A stalled reader announces nothing new. What is born later does not meet its interval and is freed: it keeps at most
//!   what was alive when it stalled.
//! * The announcement is followed by a full fence and so is the retirement, so that either the reader loads the new
//!   address or the scan sees the announcement.
//!
//! # Source
//! Two-global-epoch interval-based reclamation: Wen, Izraelevitz, Cai, Beadle, Scott, *Interval-Based Memory
//! Reclamation*, `PPoPP` 2018, section 3.3. We differ in that fences and stamps of retirement are paid once a batch.

mod garbage;
mod pin;

pub(crate) use garbage::Garbage;
pub(crate) use pin::Pin;

use crossbeam_utils::CachePadded;
use enact_sync::atomic::{AtomicU64, Ordering};

/// The epoch of the process.
pub(crate) struct Memory {
    epoch: CachePadded<AtomicU64>,
}

impl Memory {
    /// At the first epoch; 0 means *not pinned* in an announcement.
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    pub(crate) const fn new() -> Self {
        Self { epoch: CachePadded::new(AtomicU64::new(1)) }
    }

    #[cfg(any(enact_loom, enact_shuttle))]
    pub(crate) fn new() -> Self {
        Self { epoch: CachePadded::new(AtomicU64::new(1)) }
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn advance(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }
}
