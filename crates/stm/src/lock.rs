//! Locks that transactions can take: owned beyond the commit, by the operation that goes on with the transaction's work.
use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use enact_sync::Mutex;
use enact_sync::unmodelled::{Arc, AtomicU64};

use crate::transaction::{Abort, Tx};
use crate::variable::TCell;
use crate::variable::versioned_lock::{LOCKED, VersionedLock, WAITED};
use crate::{atomically, context, hooks};

const DEPTH_BITS: u32 = 16;
const DEPTH_MASK: u64 = (1 << DEPTH_BITS) - 1;

static OWNERS: AtomicU64 = AtomicU64::new(2);

/// The owner of a lock: a transaction, or the deferred operations that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(NonZeroU64);

impl OwnerId {
    /// Of one transaction and its operations: an even number.
    pub(crate) fn fresh() -> Self {
        Self(NonZeroU64::new(OWNERS.fetch_add(2, Ordering::Relaxed)).expect("numbers begin with 2"))
    }

    /// Of an explicit owner: an odd number.
    fn explicit() -> Self {
        Self(Self::fresh().0 | 1)
    }

    /// True for an explicit owner, whose transactions may run on several threads.
    pub(crate) fn is_explicit(self) -> bool {
        self.0.get() & 1 != 0
    }
}

/// The owner of the locks that several transactions acquire and release.
///
/// A transaction without an explicit owner is its own: locks that it still holds when it and its deferred operations are
/// over are released then. Under an explicit owner they stay held until a transaction of this owner releases them, or
/// until the `Owner` is dropped. Owners that keep locks while their transactions wait for others can wait in a circle,
/// which nobody is told of, because any thread may release a lock for its owner: give such waits a
/// [`timeout`](crate::Atomically::timeout).
///
/// Dropping an owner releases what its transactions have acquired and not released, in one transaction for each lock,
/// which wakes the transactions that wait for it. Objects of its deferred operations are released when these have ended. A
/// transaction of the owner that commits after that releases at its end what it has acquired, as one without an owner
/// does.
///
/// # Example
/// ```
/// use enact_stm::{Owner, TxLock, atomically};
/// let (clerk, drawer) = (Owner::new(), TxLock::new());
/// atomically(|tx| drawer.acquire(tx)).owned_by(&clerk).run();
/// assert!(drawer.is_held());
/// atomically(|tx| drawer.release(tx)).owned_by(&clerk).run();
/// assert!(!drawer.is_held());
/// atomically(|tx| drawer.acquire(tx)).owned_by(&clerk).run();
/// drop(clerk);
/// assert!(!drawer.is_held());
/// ```
#[derive(Debug)]
pub struct Owner(Account);

impl Owner {
    /// An owner that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared { id: OwnerId::explicit(), balances: Mutex::new(Some(Vec::new())) };
        Self(Account(Arc::new(shared)))
    }

    /// The owner's name in [`TxLock::holder`].
    #[must_use]
    pub fn id(&self) -> OwnerId {
        self.0.id()
    }

    pub(crate) fn account(&self) -> &Account {
        &self.0
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let balances = self.0.0.balances.lock().take().unwrap_or_default();
        let held: Vec<_> = balances.into_iter().filter(|(_, count)| *count > 0).collect();
        if held.is_empty() {
            return;
        }
        let owner = self.id();
        let release = move || {
            // What is released was acquired by transactions that have committed, and depends on nothing.
            let _independent = hooks::depend_on_this_thread(None);
            for (lock, count) in held {
                lock.release_up_to(owner, count.unsigned_abs());
            }
        };
        if context::is_in_transaction() {
            enact_sync::thread::spawn(release);
        } else {
            release();
        }
    }
}

/// What the transactions of an explicit owner have acquired and not released.
#[derive(Debug, Clone)]
pub(crate) struct Account(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: OwnerId,
    /// How much more often each lock was acquired than released; none when the owner is gone. Below 0 while a release is
    /// entered before the acquisition that it undoes.
    balances: Mutex<Option<Vec<(TxLock, i64)>>>,
}

impl Account {
    pub(crate) fn id(&self) -> OwnerId {
        self.0.id
    }

    /// Enters what a committed transaction has acquired and released; false if the owner is gone.
    pub(crate) fn enter(&self, acquired: &[TxLock], released: &[TxLock]) -> bool {
        let mut balances = self.0.balances.lock();
        let Some(balances) = &mut *balances else { return false };
        let changes = acquired.iter().map(|lock| (lock, 1)).chain(released.iter().map(|lock| (lock, -1)));
        for (lock, change) in changes {
            match balances.iter_mut().find(|(known, _)| known.is_same(lock)) {
                Some((_, balance)) => *balance += change,
                None => balances.push((lock.clone(), change)),
            }
        }
        balances.retain(|(_, balance)| *balance != 0);
        true
    }
}

/// A reentrant lock that is acquired in a transaction, and so only if the transaction commits.
///
/// Several locks acquired in one transaction are acquired together or not at all, so no order among them is needed and
/// none can deadlock. A transaction that cannot have a lock sleeps without one and uses no
/// processor time; a thread looks for some 25 us before. Cloning shares the lock.
///
/// A thread that is awake may take a released lock before those that sleep, at most 32 times in a row.
///
/// # Source
/// Zhou, Luchangco, Spear, *Extending Transactional Memory with Atomic Deferral*, OPODIS 2017, listing 2. There the
/// owner is a thread; here it is the logical transaction, because tasks and actors change threads.
#[derive(Clone)]
pub struct TxLock {
    core: Arc<Core>,
}

struct Core {
    /// The owner's number and the depth, 0 if free.
    state: TCell<u64>,
    name: Name,
}

/// What a lock is called in messages.
#[derive(Debug, Clone)]
pub(crate) enum Name {
    Given(Cow<'static, str>),
    /// Of the object that it belongs to.
    Type(&'static str),
    None,
}

impl TxLock {
    /// A free lock.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Name::None)
    }

    /// As [`new`](Self::new), with a name for messages, as that of a circle of deferred operations; see [`Tx::defer`].
    #[must_use]
    pub fn named(name: impl Into<Cow<'static, str>>) -> Self {
        Self::with(Name::Given(name.into()))
    }

    pub(crate) fn with(name: Name) -> Self {
        Self { core: Arc::new(Core { state: TCell::new(0), name }) }
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
        let is_acquired_here = tx.has_written(&self.core.state);
        let is_inner = !is_acquired_here && context::operation() == Some(tx.owner());
        let depth = self.acquire_unless_held(tx, is_acquired_here || is_inner)?;
        Ok(is_inner && depth > 1)
    }

    /// Acquires the lock if it is free or, for a `reentrant` acquisition, if the owner has it. Gives the depth.
    fn acquire_unless_held<'t>(&'t self, tx: &mut Tx<'t, '_>, reentrant: bool) -> Result<u64, Abort> {
        let owner = tx.owner();
        let state = tx.read(&self.core.state)?;
        let depth = match holder(state) {
            None => 1,
            Some((holder, depth)) if reentrant && holder == owner => {
                tx.reads_what_is_own(holder, self.versioned_lock());
                assert!(u64::from(depth) < DEPTH_MASK, "a lock was acquired {depth} times by one owner");
                u64::from(depth) + 1
            }
            Some((holder, _)) => return tx.retry_for(self, holder),
        };
        tx.write(&self.core.state, owner.0.get() << DEPTH_BITS | depth)?;
        Ok(depth)
    }

    /// Makes sure that no other owner has the lock when the transaction commits; sleeps while another has it.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn subscribe<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<(), Abort> {
        self.subscribe_unless_own(tx).map(drop)
    }

    /// As [`subscribe`](Self::subscribe); true if an operation around this transaction has the lock.
    pub(crate) fn subscribe_unless_own<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<bool, Abort> {
        match holder(tx.read(&self.core.state)?) {
            None => Ok(false),
            Some((holder, _)) if holder == tx.owner() => Ok(tx.reads_what_is_own(holder, self.versioned_lock())),
            Some((holder, _)) => tx.retry_for(self, holder),
        }
    }

    /// Undoes one [`acquire`](Self::acquire) of the transaction's owner; the last one frees the lock and wakes its waiters.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    ///
    /// # Panics
    /// If the owner does not have the lock; the lock stays as it is.
    pub fn release<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<(), Abort> {
        let owner = tx.owner();
        let state = tx.read(&self.core.state)?;
        tx.write(&self.core.state, one_less(state, owner))?;
        tx.released(self.clone());
        Ok(())
    }

    /// The owner, and how often it was acquired.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn holder<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<(OwnerId, u32)>, Abort> {
        tx.looks_at_holders();
        Ok(holder(tx.read(&self.core.state)?))
    }

    /// True if somebody has the lock at the moment.
    ///
    /// # Panics
    /// Inside a transaction: use [`holder`](Self::holder).
    #[must_use]
    pub fn is_held(&self) -> bool {
        crate::snapshot(|tx| self.holder(tx)).is_some()
    }

    /// True if nobody has the lock at the moment, as far as is known without a transaction.
    pub(crate) fn is_free(&self) -> bool {
        self.core.state.core.value.load(Ordering::Acquire) == 0
    }

    /// The versioned lock of the state, at which its sleepers are entered.
    pub(crate) fn versioned_lock(&self) -> &VersionedLock {
        &self.core.state.core.versioned_lock
    }

    /// True if the state is the one that was read with this word of the versioned lock. A commit that locks it and then
    /// fails does not count.
    pub(crate) fn is_as_seen(&self, seen: u64) -> bool {
        self.versioned_lock().load(Ordering::Acquire) & !(WAITED | LOCKED) == seen
    }

    /// Where the versioned lock is.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self.versioned_lock()).addr()
    }

    /// Has the lock look as if it were held, or not, to a look without a transaction.
    #[cfg(test)]
    pub(crate) fn set_held(&self, is_held: bool) {
        self.core.state.core.value.store(u64::from(is_held) << DEPTH_BITS, Ordering::Release);
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// Undoes one acquisition of `owner`, inside a deferred operation of it: no account has it, so there is nothing to
    /// note.
    pub(crate) fn release_once(&self, owner: OwnerId) {
        atomically(|tx| {
            let state = tx.read(&self.core.state)?;
            tx.write(&self.core.state, one_less(state, owner)).map(drop)
        })
        .run();
    }

    /// Undoes so many acquisitions of `owner`, if it still has the lock.
    fn release_up_to(&self, owner: OwnerId, count: u64) {
        atomically(|tx| {
            let state = tx.read(&self.core.state)?;
            match holder(state) {
                Some((holder, depth)) if holder == owner => {
                    let after = if u64::from(depth) > count { state - count } else { 0 };
                    tx.write(&self.core.state, after).map(drop)
                }
                _ => Ok(()),
            }
        })
        .run();
    }

    /// Undoes one acquisition of `owner`, if it still has the lock.
    pub(crate) fn release_if_held(&self, owner: OwnerId) {
        let release = || {
            atomically(|tx| match holder(tx.read(&self.core.state)?) {
                Some((holder, _)) if holder == owner => self.release(tx),
                _ => Ok(()),
            })
            .run();
        };
        context::in_operation(owner, release);
    }
}

/// The holder and the depth.
pub(crate) fn holder(state: u64) -> Option<(OwnerId, u32)> {
    NonZeroU64::new(state >> DEPTH_BITS).map(|owner| (OwnerId(owner), (state & DEPTH_MASK) as u32))
}

/// The state after a release by `owner`.
fn one_less(state: u64, owner: OwnerId) -> u64 {
    match holder(state) {
        Some((holder, 1)) if holder == owner => 0,
        Some((holder, _)) if holder == owner => state - 1,
        Some((holder, _)) => panic!("{owner:?} released a lock that is held by {holder:?}"),
        None => panic!("{owner:?} released a lock that nobody holds"),
    }
}

impl Default for TxLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TxLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxLock").field("name", &format_args!("{self}")).finish_non_exhaustive()
    }
}

/// The name, or the type of the object that it belongs to or `TxLock`, with the address.
impl fmt::Display for TxLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_type = match &self.core.name {
            Name::Given(name) => return write!(f, "{name:?}"),
            Name::Type(name) => name,
            Name::None => "TxLock",
        };
        write!(f, "{of_type} at {:p}", Arc::as_ptr(&self.core))
    }
}
