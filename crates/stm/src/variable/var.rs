//! A transactional variable for a value of any type.
#![expect(unsafe_code, reason = "a variable is the address of its value")]
use std::fmt;
use std::marker::PhantomData;

use enact_sync::atomic::Ordering;

use crate::domain::DOMAIN;
use crate::variable::node::{self, Node};
use crate::variable::versioned_lock::{FLAGS, VersionedLock, WAITED};

/// A transactional variable for a value of any type.
///
/// One word: the address of an immutable value. A transaction reads by reference into that value, which stays as it is
/// until the attempt ends, whatever others commit meanwhile; nothing is cloned and no shared counter is touched. A write
/// replaces the value as a whole. A variable is not `Clone`; embed it in your structures like an atomic and share those.
///
/// A replaced value is dropped when no running transaction can have a reference to it: when that is, and how to have it
/// done at once, says [`collect`](crate::collect). A value that must leave the variable whole belongs in a
/// [`Parcel`](crate::Parcel). Interior mutability inside a value (`Cell`, `Mutex`) escapes the transactional memory.
///
/// # Example
/// ```
/// use enact_stm::{TVar, atomically};
/// let guests = TVar::new(vec!["Ada"]);
/// let count = atomically(|tx| {
///     let mut list = tx.read(&guests)?.clone();
///     list.push("Grace");
///     Ok(tx.write(&guests, list)?.len())
/// })
/// .run();
/// assert_eq!(count, 2);
/// ```
pub struct TVar<T: Send + Sync + 'static> {
    pub(crate) versioned_lock: VersionedLock,
    value: PhantomData<T>,
}

// The variable shares its value between threads and drops it on any of them: exactly as if it held the `T`, which is why
// the automatic `Send` and `Sync` through `PhantomData<T>` are the right ones.

impl<T: Send + Sync + 'static> TVar<T> {
    /// A variable that holds `value`, at the oldest of versions.
    pub fn new(value: T) -> Self {
        let birth = DOMAIN.memory.epoch();
        Self { versioned_lock: VersionedLock::new(Node::leak(value, 0, birth)), value: PhantomData }
    }

    /// The value of a variable that nobody else has, to be changed in place.
    pub fn get_mut(&mut self) -> &mut T {
        let address = self.versioned_lock.load(Ordering::Acquire) & !FLAGS;
        // SAFETY: the current node is allocated as long as the variable; exclusive access to the variable means that no
        // transaction borrows it, so that none has a reference to the value.
        unsafe { &mut (*std::ptr::with_exposed_provenance_mut::<Node<T>>(address as usize)).value }
    }

    /// The value of an owned variable: no transaction can have it.
    pub fn into_inner(self) -> T {
        let this = std::mem::ManuallyDrop::new(self);
        let address = this.part();
        // SAFETY: the node was leaked with this `T` and is freed here once, because `this` is never dropped.
        unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Node<T>>(address as usize)) }.value
    }

    /// Wakes the sleepers, frees what only snapshots of the past needed, and gives the address of the current node.
    fn part(&self) -> u64 {
        let word = self.versioned_lock.load(Ordering::Acquire);
        if word & WAITED != 0 {
            DOMAIN.sleepers.wake_for_good(&self.versioned_lock);
        }
        let current = word & !FLAGS;
        // SAFETY: the current node is allocated; called only by the owner of the variable.
        let past = unsafe { node::header(current) }.past.load(Ordering::Acquire);
        // SAFETY: the owner of the variable owns its chain: nothing else leads to these nodes, and none was retired.
        unsafe { node::free_chain(past, node::free::<T>) };
        current
    }
}

impl<T: Send + Sync + 'static> Drop for TVar<T> {
    fn drop(&mut self) {
        let current = self.part();
        // SAFETY: the current node was leaked with this `T`, and the variable that led to it is gone.
        unsafe { node::free::<T>(current) };
    }
}

impl<T: Default + Send + Sync + 'static> Default for TVar<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for TVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TVar").finish_non_exhaustive()
    }
}
