//! Values that are replaced as a whole: what a `TVar` points to, and what a snapshot may still need.
//!
//! # Who may touch what
//! * `mark` and `birth`: the maker of the node, before it is published; everybody may read them afterwards.
//! * `past`: the maker before publication, afterwards only the holder of the lock; any thread may follow it that
//!   protects an epoch in which the node was reachable (see [`memory`](crate::memory)).
//! * `value`: shared references only, from the moment it is in the node until the node is freed.
#![expect(unsafe_code, reason = "a value lies behind an untyped header")]
use std::any::TypeId;

use enact_sync::atomic::{AtomicU64, Ordering};
use enact_sync::unmodelled::AtomicU64 as Unmodelled;

/// What all nodes begin with.
#[derive(Debug)]
pub(crate) struct Header {
    /// Version and owner; unmodelled because the release store of the versioned lock publishes it.
    pub(crate) mark: Unmodelled,
    /// The epoch in which the node was made.
    pub(crate) birth: u64,
    /// Address of the next older node that a running snapshot may need, 0 for none.
    pub(crate) past: AtomicU64,
}

/// A value with its version.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node<T> {
    pub(crate) header: Header,
    pub(crate) value: T,
}

impl<T> Node<T> {
    /// Makes a node and gives up its ownership: the address, to be freed by [`free`] exactly once.
    pub(crate) fn leak(value: T, mark: u64, birth: u64) -> u64 {
        let header = Header { mark: Unmodelled::new(mark), birth, past: AtomicU64::new(0) };
        Box::into_raw(Box::new(Self { header, value })).expose_provenance() as u64
    }
}

impl<T: 'static> Node<T> {
    /// What is left of `T` in places that know nodes by their address only.
    pub(crate) const TYPE: &'static Type =
        &Type { form: Form::Node, free: free::<T>, free_past: free::<T>, id: TypeId::of::<T>() };
}

/// The type of a variable that is not a cell, and of its values.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) form: Form,
    /// Frees a value.
    pub(crate) free: Free,
    /// Frees a node of the variable's chain.
    pub(crate) free_past: Free,
    pub(crate) id: TypeId,
}

/// What a variable that is not a cell looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A versioned lock that is the address of a node.
    Node,
    /// A [`LinkCore`](super::link::LinkCore).
    Link,
}

/// Frees what is at one address.
pub(crate) type Free = unsafe fn(u64);

/// Drops the node at `address`, not what its `past` leads to.
///
/// # Safety
/// `address` comes from `Node::<T>::leak`, and nobody uses the node any more.
pub(crate) unsafe fn free<T>(address: u64) {
    // SAFETY: the caller says that this is a leaked `Node<T>` and that nobody else has it.
    drop(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Node<T>>(address as usize)) });
}

/// Frees the node at `first`, 0 for none, and all that its `past` leads to.
///
/// # Safety
/// `free` frees each of these nodes, and nobody uses them any more.
pub(crate) unsafe fn free_chain(first: u64, free: Free) {
    let mut address = first;
    while address != 0 {
        // SAFETY: the node is freed below, not before.
        let next = unsafe { header(address) }.past.load(Ordering::Acquire);
        // SAFETY: as the caller says; each node is in the chain once.
        unsafe { free(address) };
        address = next;
    }
}

/// The header of the node at `address`.
///
/// # Safety
/// The node stays allocated for `'a`.
#[inline]
pub(crate) unsafe fn header<'a>(address: u64) -> &'a Header {
    // SAFETY: `Node` is `repr(C)` and begins with its header; the caller keeps it allocated.
    unsafe { &*std::ptr::with_exposed_provenance::<Header>(address as usize) }
}

/// The value of the node at `address`.
///
/// # Safety
/// The node was made with this `T`, and stays allocated for `'a`.
#[inline]
pub(crate) unsafe fn value<'a, T>(address: u64) -> &'a T {
    // SAFETY: as the caller says.
    let node = unsafe { &*std::ptr::with_exposed_provenance::<Node<T>>(address as usize) };
    &node.value
}
