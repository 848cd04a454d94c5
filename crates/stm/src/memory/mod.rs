//! When the memory of a replaced value may be used again.
//!
//! # The problem
//! A transaction holds references into values that others replace meanwhile. They may be freed only when no transaction
//! can have such a reference, and a reader that stalls (its closure sleeps, its thread is not scheduled) must not keep
//! everything that is replaced meanwhile: memory stays bounded.
//!
//! # Interval-based reclamation
//! Every node knows the epoch of its *birth*. It is *retired* when nothing leads to it any more, and the epoch after that
//! is noted. Every descriptor announces an interval of epochs while it is pinned: from the epoch in which it was pinned
//! to the newest one in which it has loaded an address. A retired node is freed if no announced interval meets its life.
//!
//! * A reader that has loaded an address sees the epoch unchanged since it announced it, or announces the new one and
//!   loads again ([`Pin::covers`]). So the node's birth is not after the interval, and it was retired after the interval
//!   began: the two meet.
//! * What a transaction makes is born, by its label, in the newest epoch that it has announced, not in a later one that it
//!   has not noticed. So its announcement covers its own values too, after others have got hold of them and replaced them:
//!   it still publishes variables inside them, and shows them to conditions.
//! * A stalled reader announces nothing new. What is born later does not meet its interval and is freed: it keeps at most
//!   what was alive when it stalled.
//! * The announcement is followed by a full fence and so is the retirement, so that either the reader loads the new
//!   address or the scan sees the announcement.
//!
//! # Counts of links
//! A `TLink` leads to a node that is counted, and that other links and the user may lead to as well. What a commit
//! retires is not the node but the count that the link had. The life of that count is the time in which the link led
//! there: it is born in the newest epoch that the commit which published it had announced, which lies in the link, and
//! retired with its replacement. A reader that has found the node through this link meets that life, as above, so the
//! count is there and the node with it; a reader that has found it through another link relies on that link's count. A
//! node that moves from link to link for ever beside a stalled reader keeps nothing: each count is young.
//!
//! # Snapshots
//! A snapshot that runs for long would announce an ever longer interval, and keep everything that is replaced
//! meanwhile. It does not need to: the values that belong to its time are not even retired, because every commit that
//! replaces one leaves it in the variable's chain of past values as long as the snapshot runs (see
//! `transaction/past.rs`). What the interval protects is the way there: the current node and the newer ones of its
//! chain, from the load of the versioned lock until the value of the snapshot's time is found. So a snapshot announces
//! one epoch at a time, and leaves the one before when it notices a new one ([`Pin::follows`]). It keeps two values of
//! a variable at most: that of its time, and that of the epoch it has announced last.
//!
//! # When values are dropped
//! Retired nodes lie in the slot of their descriptor. They are freed, as far as no announcement forbids it, by the
//! descriptor when there are [`garbage::BATCH`] more, before its thread sleeps in a transaction, and when it goes to
//! the pool; by every other descriptor that comes round to this slot, one slot a batch of its own; and by [`collect`].
//!
//! # Source
//! Two-global-epoch interval-based reclamation: Wen, Izraelevitz, Cai, Beadle, Scott, *Interval-Based Memory
//! Reclamation*, `PPoPP` 2018, section 3.3. We differ in that fences and epochs of retirement are paid once a batch.

mod garbage;
mod pin;
mod ring;

use crossbeam_utils::CachePadded;
use enact_sync::atomic::{AtomicU64, Ordering};
pub(crate) use garbage::{BATCH, Garbage};
pub(crate) use pin::Pin;

use crate::context;
use crate::domain::DOMAIN;

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

/// Drops every replaced value that no running transaction can refer to, whichever thread has replaced it. Returns how many
/// replaced values stay, because transactions run that may refer to them.
///
/// Without this call a replaced value is dropped, as soon as no transaction can refer to it,
/// * when the thread that has replaced it next sleeps in a transaction (`run` or `.await` that has to wait), or ends;
/// * when this thread has replaced 128 values more, or all threads together 128 times as many as there are threads that
///   have run transactions at the same time.
///
/// So the last values that a thread has replaced stay until it does something, or another thread does. Call this where a
/// value has something that must not be kept waiting, like a connection, and after bursts. A value that leaves a
/// [`Parcel`](crate::Parcel) has no part in this: it goes to its taker with the commit. A value that was kept for a
/// [`snapshot`](crate::snapshot) leaves its variable with the next commit that writes it, or with the variable.
///
/// Destructors run on this thread. A panic of one is reported by the panic hook, and ends there.
///
/// # Panics
/// Inside a transaction.
///
/// # Complexity
/// Linear in the values that wait and in the threads that have run transactions at the same time.
///
/// # Example
/// ```
/// use enact_stm::{TVar, atomically, collect};
/// use std::sync::Arc;
/// let connection = Arc::new("a socket");
/// let current = TVar::new(Arc::clone(&connection));
/// atomically(|tx| tx.write(&current, Arc::new("another")).map(drop)).run();
/// assert_eq!(collect(), 0);
/// assert_eq!(Arc::strong_count(&connection), 1, "the first one is closed with our own handle");
/// ```
pub fn collect() -> usize {
    assert!(!context::is_in_transaction(), "values are collected inside a transaction, which may refer to them");
    DOMAIN.descriptors.all_slots().map(|slot| slot.garbage.collect()).sum()
}
