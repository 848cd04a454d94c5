//! A transactional variable that leads straight to a counted node.
#![expect(unsafe_code, reason = "a link is the address of a counted node")]
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use enact_sync::atomic::{AtomicU64, Ordering};
use enact_sync::unmodelled::Arc;

use crate::domain::DOMAIN;
use crate::variable::cell::CellCore;
use crate::variable::node::{self, Form, Type};

/// The part of a link that does not depend on its type.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LinkCore {
    /// The word is the address of the value in the `Arc`, of whose counts the link has one; 0 for none.
    pub(crate) cell: CellCore,
    /// The epoch in which the word was published. Written only with the lock.
    pub(crate) birth: AtomicU64,
}

/// A transactional variable for an `Option<Arc<T>>`: a link of a list, a tree or a graph.
///
/// As a [`TVar`](crate::TVar) of an `Option<Arc<T>>`, with one step less to the node. The address of the node lies beside
/// its version in the link, so that a walk loads one thing after the other for each node, where a `TVar` leads to its value
/// and the value to the node. A read gives a [`Linked`], which refers to the node without touching its count. A write
/// allocates nothing.
///
/// A link has four words. What it led to before loses that count when no running transaction can refer to it; see
/// [`collect`](crate::collect). Nodes that refer to each other in a circle are never dropped, as with every `Arc`. Dropping
/// the first node of a long list drops the next within it: take them out one by one, with
/// [`replace_mut`](Self::replace_mut) in the `Drop` of the node, if there may be thousands.
///
/// # Example
/// ```
/// use enact_stm::{Abort, TLink, Tx, atomically};
/// use std::sync::Arc;
///
/// struct Node {
///     key: u32,
///     next: TLink<Node>,
/// }
///
/// /// Inserts a key into an ascending list.
/// fn insert<'t>(first: &'t TLink<Node>, tx: &mut Tx<'t, '_>, key: u32) -> Result<(), Abort> {
///     let mut at = first;
///     let rest = loop {
///         match tx.read(at)? {
///             Some(node) if node.key < key => at = &node.get().next,
///             rest => break rest.map(|node| node.to_arc()),
///         }
///     };
///     tx.write(at, Some(Arc::new(Node { key, next: TLink::new(rest) }))).map(drop)
/// }
///
/// let first = TLink::default();
/// for key in [3, 1, 2] {
///     atomically(|tx| insert(&first, tx, key)).run();
/// }
/// let keys = atomically(|tx| {
///     let (mut keys, mut at) = (vec![], &first);
///     while let Some(node) = tx.read(at)? {
///         keys.push(node.key);
///         at = &node.get().next;
///     }
///     Ok(keys)
/// })
/// .run();
/// assert_eq!(keys, [1, 2, 3]);
/// ```
pub struct TLink<T: Send + Sync + 'static> {
    pub(crate) core: LinkCore,
    node: PhantomData<Arc<T>>,
}

/// The node that a [`TLink`] leads to in an attempt, without a count of its own.
///
/// It refers to the node for as long as the attempt, whatever others commit meanwhile. Made by [`Tx::read`](crate::Tx::read)
/// and [`Tx::write`](crate::Tx::write).
pub struct Linked<'t, T> {
    /// As given by `Arc::into_raw`.
    node: NonNull<T>,
    attempt: PhantomData<&'t T>,
}

/// One count of the `Arc` whose value is at an address, 0 for none: what a node of a link's chain holds, which everybody else
/// reads as a word.
#[derive(Debug)]
#[repr(transparent)]
struct Counted<T> {
    address: u64,
    node: PhantomData<Arc<T>>,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        // SAFETY: the count is this one's, and is given away once.
        drop(unsafe { from_address::<T>(self.address) });
    }
}

/// Gives up ownership of a count: the address of the value, 0 for none, to be given to [`from_address`] once.
#[inline]
pub(crate) fn into_address<T>(node: Option<Arc<T>>) -> u64 {
    node.map_or(0, |node| Arc::into_raw(node).expose_provenance() as u64)
}

/// The owner of a count again.
///
/// # Safety
/// `address` comes from [`into_address`] with this `T`, and the count is not given back another time.
#[inline]
unsafe fn from_address<T>(address: u64) -> Option<Arc<T>> {
    let node = NonNull::new(std::ptr::with_exposed_provenance_mut::<T>(address as usize))?;
    // SAFETY: as the caller says; 0 was none.
    Some(unsafe { Arc::from_raw(node.as_ptr()) })
}

/// Gives a count back.
///
/// # Safety
/// As for [`from_address`].
unsafe fn release<T>(address: u64) {
    // SAFETY: as the caller says.
    drop(unsafe { from_address::<T>(address) });
}

/// Calls `look` with what is at an address.
///
/// # Safety
/// `address` comes from [`into_address`] with this `T`, and somebody keeps that count during the call.
pub(crate) unsafe fn with<T, R>(address: u64, look: impl FnOnce(&Option<Arc<T>>) -> R) -> R {
    // SAFETY: the count that this takes is not given back.
    let node = ManuallyDrop::new(unsafe { from_address::<T>(address) });
    look(&node)
}

impl<T: Send + Sync + 'static> TLink<T> {
    /// What is left of `T` in places that know links and counts by their addresses only.
    pub(crate) const TYPE: &'static Type =
        &Type { form: Form::Link, free: release::<T>, free_past: node::free::<Counted<T>>, id: TypeId::of::<Self>() };

    /// A link to `node`, or to nothing, at the oldest of versions.
    pub fn new(node: Option<Arc<T>>) -> Self {
        let core = LinkCore { cell: CellCore::new(into_address(node)), birth: AtomicU64::new(DOMAIN.memory.epoch()) };
        Self { core, node: PhantomData }
    }

    /// What an owned link leads to: no transaction can have it through this link.
    pub fn into_inner(mut self) -> Option<Arc<T>> {
        self.replace_mut(None)
    }

    /// Leads to `node` from now on, without a transaction, which exclusive access makes sound. Returns what it led to.
    pub fn replace_mut(&mut self, node: Option<Arc<T>>) -> Option<Arc<T>> {
        let before = self.core.cell.value.load(Ordering::Acquire);
        self.core.birth.store(DOMAIN.memory.epoch(), Ordering::Relaxed);
        self.core.cell.value.store(into_address(node), Ordering::Release);
        // SAFETY: the count was the link's, and the store above has taken it out. Exclusive access means that no transaction
        // borrows the link, so that none refers to the node through it.
        unsafe { from_address(before) }
    }
}

impl<T: Send + Sync + 'static> Drop for TLink<T> {
    fn drop(&mut self) {
        // SAFETY: the owner of the link owns its chain, whose nodes hold counts of a `T`.
        unsafe { self.core.cell.free_past(node::free::<Counted<T>>) };
        drop(self.replace_mut(None));
    }
}

impl<T: Send + Sync + 'static> Default for TLink<T> {
    /// A link to nothing.
    fn default() -> Self {
        Self::new(None)
    }
}

impl<T: Send + Sync + 'static> From<Arc<T>> for TLink<T> {
    fn from(node: Arc<T>) -> Self {
        Self::new(Some(node))
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for TLink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TLink").finish_non_exhaustive()
    }
}

impl<'t, T> Linked<'t, T> {
    /// The node at an address, none at 0.
    ///
    /// # Safety
    /// `address` comes from [`into_address`] with this `T`, and somebody keeps that count for `'t`.
    #[inline]
    pub(crate) unsafe fn at(address: u64) -> Option<Self> {
        let node = NonNull::new(std::ptr::with_exposed_provenance_mut::<T>(address as usize))?;
        Some(Self { node, attempt: PhantomData })
    }

    /// The address that it was made of.
    #[inline]
    pub(crate) fn address(self) -> u64 {
        self.node.addr().get() as u64
    }

    /// A reference to the node that lives as long as the attempt.
    #[inline]
    #[must_use]
    pub fn get(self) -> &'t T {
        // SAFETY: `at` was told that the count is kept for `'t`.
        unsafe { self.node.as_ref() }
    }

    /// A count of the node: to link it elsewhere, or to keep it beyond the attempt.
    #[must_use]
    pub fn to_arc(self) -> Arc<T> {
        // SAFETY: the address is of the value in an `Arc` that has a count for `'t`.
        unsafe { Arc::increment_strong_count(self.node.as_ptr()) };
        // SAFETY: the count that was just added.
        unsafe { Arc::from_raw(self.node.as_ptr()) }
    }
}

impl<T> Clone for Linked<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Linked<'_, T> {}

impl<T> Deref for Linked<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.get()
    }
}

impl<T: fmt::Debug> fmt::Debug for Linked<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Linked").field(self.get()).finish()
    }
}
