//! A transactional variable whose small value is stored in place.
#![expect(unsafe_code, reason = "a word is read while it may be written, and checked afterwards")]
use std::fmt;
use std::marker::PhantomData;

use enact_sync::atomic::{AtomicU64, Ordering};

use crate::domain::DOMAIN;
use crate::variable::Word;
use crate::variable::node::{self, Free};
use crate::variable::versioned_lock::{VersionedLock, WAITED};

/// The part of a cell that does not depend on its type.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CellCore {
    pub(crate) versioned_lock: VersionedLock,
    pub(crate) value: AtomicU64,
    /// Address of the newest `Node<u64>` that a running snapshot may need, 0 for none.
    pub(crate) past: AtomicU64,
}

/// A transactional variable for a small `Copy` value: a counter, a balance, an id, a flag.
///
/// The value lies inline beside its version, so that reading it costs two loads of one cache line and a commit allocates
/// nothing. For anything larger there is [`TVar`](crate::TVar). A cell is not `Clone`; embed it in your structures like
/// an atomic and share those.
///
/// # Example
/// ```
/// use enact_stm::{TCell, atomically};
/// let (from, to) = (TCell::new(100_i64), TCell::new(0_i64));
/// atomically(|tx| {
///     tx.update(&from, |balance| balance - 30)?;
///     tx.update(&to, |balance| balance + 30)
/// })
/// .run();
/// assert_eq!((from.into_inner(), to.into_inner()), (70, 30));
/// ```
pub struct TCell<W: Word> {
    pub(crate) core: CellCore,
    word: PhantomData<W>,
}

impl<W: Word> TCell<W> {
    /// A cell that holds `value`, at the oldest of versions.
    pub fn new(value: W) -> Self {
        Self { core: CellCore::new(value.into_bits()), word: PhantomData }
    }

    /// The value of an owned cell: no transaction can have it.
    pub fn into_inner(self) -> W {
        W::from_bits(self.core.value.load(Ordering::Acquire))
    }

    /// Replaces the value without a transaction, which exclusive access makes sound.
    pub fn set_mut(&mut self, value: W) {
        self.core.value.store(value.into_bits(), Ordering::Release);
    }
}

impl<W: Word + Default> Default for TCell<W> {
    fn default() -> Self {
        Self::new(W::default())
    }
}

impl<W: Word> fmt::Debug for TCell<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TCell").finish_non_exhaustive()
    }
}

impl CellCore {
    /// A cell with these bits, at the oldest of versions.
    pub(crate) fn new(bits: u64) -> Self {
        Self { versioned_lock: VersionedLock::new(0), value: AtomicU64::new(bits), past: AtomicU64::new(0) }
    }

    /// Frees what only snapshots of the past needed.
    ///
    /// # Safety
    /// The caller owns the cell, and `free` frees the nodes of its chain.
    pub(crate) unsafe fn free_past(&self, free: Free) {
        let past = self.past.load(Ordering::Acquire);
        if past != 0 {
            self.past.store(0, Ordering::Relaxed);
            // SAFETY: nothing else leads to these nodes, none of them was retired, and each is freed once.
            unsafe { node::free_chain(past, free) };
        }
    }
}

impl Drop for CellCore {
    fn drop(&mut self) {
        if self.versioned_lock.load(Ordering::Acquire) & WAITED != 0 {
            DOMAIN.sleepers.wake_for_good(&self.versioned_lock);
        }
        // SAFETY: the owner of the cell owns its chain, which is of words; that of a link is gone by now.
        unsafe { self.free_past(node::free::<u64>) };
    }
}
