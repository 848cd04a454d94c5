//! Locks that transactions can take: owned beyond the commit, by whoever goes on with the transaction's work.
use crate::transaction::{Abort, Tx};
use crate::variable::TCell;
use crate::{atomically, context};
use enact_sync::unmodelled::{Arc, AtomicU64};
use std::fmt;
use std::sync::atomic::Ordering;

const DEPTH_BITS: u32 = 16;
const DEPTH_MASK: u64 = (1 << DEPTH_BITS) - 1;

static OWNERS: AtomicU64 = AtomicU64::new(1);

/// Who holds a lock: a transaction, or the deferred operations that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId(u64);

impl OwnerId {
    pub(crate) fn fresh() -> Self {
        Self(OWNERS.fetch_add(1, Ordering::Relaxed))
    }
}

/// Somebody for whom several transactions take and give back locks.
///
/// A transaction without an explicit owner is its own: locks that it still holds when it and its deferred operations are
/// over are released then. Under an explicit owner they stay held until a transaction of this owner releases them.
///
/// # Example
/// ```
/// use enact_stm::{Owner, TxLock, atomically};
/// let (clerk, drawer) = (Owner::new(), TxLock::new());
/// atomically(|tx| drawer.acquire(tx)).owned_by(&clerk).run();
/// assert!(drawer.is_held());
/// atomically(|tx| drawer.release(tx)).owned_by(&clerk).run();
/// assert!(!drawer.is_held());
/// ```
#[derive(Debug)]
pub struct Owner(OwnerId);

impl Owner {
    /// An owner who holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(OwnerId::fresh())
    }

    /// How the owner is named by [`TxLock::holder`].
    #[must_use]
    pub fn id(&self) -> OwnerId {
        self.0
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

/// A reentrant lock that is acquired in a transaction, and so only if the transaction commits.
///
/// Several locks acquired in one transaction are acquired together or not at all, so no order among them is needed and
/// none can deadlock. Who cannot have a lock sleeps without one and uses no processor time. Cloning shares the lock.
///
/// # Source
/// Zhou, Luchangco, Spear, *Extending Transactional Memory with Atomic Deferral*, OPODIS 2017, listing 2. There the owner is
/// a thread; here it is the logical transaction, because tasks and actors change threads.
#[derive(Clone)]
pub struct TxLock {
    /// The owner's number and the depth, 0 if free.
    state: Arc<TCell<u64>>,
}

impl TxLock {
    /// A free lock.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Arc::new(TCell::new(0)) }
    }

    /// Acquires the lock for the transaction's owner, once more if the owner has it; sleeps while another has it.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    ///
    /// # Panics
    /// If the owner has acquired it 65,535 times.
    pub fn acquire<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<(), Abort> {
        self.acquire_unless_held(tx, true)?;
        tx.acquired(self.clone());
        Ok(())
    }

    /// As [`acquire`](Self::acquire), for a deferred operation, which undoes it. True if an operation around this
    /// transaction has the lock already.
    ///
    /// Operations of other transactions are others also if the explicit owner is the same: their objects are in use.
    pub(crate) fn acquire_for_operation<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<bool, Abort> {
        let is_acquired_here = tx.has_written(&self.state);
        let is_inner = !is_acquired_here && context::operation() == Some(tx.owner());
        let depth = self.acquire_unless_held(tx, is_acquired_here || is_inner)?;
        Ok(is_inner && depth > 1)
    }

    /// Acquires the lock if it is free or, for a `reentrant` acquisition, if the owner has it. Gives the depth.
    fn acquire_unless_held<'t>(&'t self, tx: &mut Tx<'t, '_>, reentrant: bool) -> Result<u64, Abort> {
        let owner = tx.owner();
        let state = tx.read(&*self.state)?;
        let depth = match holder(state) {
            None => 1,
            Some((holder, depth)) if reentrant && holder == owner => {
                assert!(u64::from(depth) < DEPTH_MASK, "a lock was acquired {depth} times by one owner");
                u64::from(depth) + 1
            }
            Some(_) => return tx.retry(),
        };
        tx.write(&*self.state, owner.0 << DEPTH_BITS | depth)?;
        Ok(depth)
    }

    /// Makes sure that no other owner has the lock when the transaction commits; sleeps while another has it.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn subscribe<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<(), Abort> {
        match holder(tx.read(&*self.state)?) {
            None => Ok(()),
            Some((holder, _)) if holder == tx.owner() => Ok(()),
            Some(_) => tx.retry(),
        }
    }

    /// Undoes one [`acquire`](Self::acquire) of the transaction's owner; the last one frees the lock and wakes who waits.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    ///
    /// # Panics
    /// If the owner does not have the lock; the lock stays as it is.
    pub fn release<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<(), Abort> {
        let owner = tx.owner();
        let state = tx.read(&*self.state)?;
        let after = match holder(state) {
            Some((holder, 1)) if holder == owner => 0,
            Some((holder, _)) if holder == owner => state - 1,
            Some((holder, _)) => panic!("{owner:?} released a lock that is held by {holder:?}"),
            None => panic!("{owner:?} released a lock that nobody holds"),
        };
        tx.write(&*self.state, after)?;
        tx.released(self.clone());
        Ok(())
    }

    /// Who has the lock, and how often it was acquired.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn holder<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<(OwnerId, u32)>, Abort> {
        Ok(holder(tx.read(&*self.state)?))
    }

    /// True if somebody has the lock at the moment.
    ///
    /// # Panics
    /// Inside a transaction: use [`holder`](Self::holder).
    #[must_use]
    pub fn is_held(&self) -> bool {
        crate::snapshot(|tx| self.holder(tx)).is_some()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Undoes one acquisition of `owner`, from a deferred operation of it.
    pub(crate) fn release_once(&self, owner: OwnerId) {
        context::in_operation(owner, || atomically(|tx| self.release(tx)).run());
    }

    /// Undoes one acquisition of `owner`, if it still has the lock.
    pub(crate) fn release_if_held(&self, owner: OwnerId) {
        let release = || {
            atomically(|tx| match self.holder(tx)? {
                Some((holder, _)) if holder == owner => self.release(tx),
                _ => Ok(()),
            })
            .run();
        };
        context::in_operation(owner, release);
    }
}

fn holder(state: u64) -> Option<(OwnerId, u32)> {
    (state != 0).then_some((OwnerId(state >> DEPTH_BITS), (state & DEPTH_MASK) as u32))
}

impl Default for TxLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TxLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxLock").finish_non_exhaustive()
    }
}
