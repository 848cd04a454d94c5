//! What this thread is doing: whether it is inside a transaction or a deferred operation, and whether it may block.
#![expect(clippy::missing_const_for_thread_local, reason = "loom's locals take no constant initializers")]
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

use crate::domain::DOMAIN;
use crate::fate::Fate;
use crate::lock::OwnerId;
use crate::transaction::Descriptor;

/// Runs a blocking piece of work where blocking does no harm.
pub(crate) type HandOver = fn(Box<dyn FnOnce() + Send + '_>);

/// What every transaction looks at. Nothing in it has a destructor, so that it is there as long as the thread is: also the
/// transactions of other locals' destructors are known.
struct Local {
    /// The descriptor that this thread reuses; [`Ending`] gives it back.
    descriptor: Cell<ManuallyDrop<Option<Box<Descriptor>>>>,
    is_in_transaction: Cell<bool>,
    /// Nobody takes the descriptor from here any more.
    has_ended: Cell<bool>,
    /// The owner for whom a deferred operation runs here.
    operation: Cell<Option<OwnerId>>,
    hand_over: Cell<Option<HandOver>>,
    /// Transactions that begin here depend on something.
    is_dependent: Cell<bool>,
}

const _: () = assert!(!std::mem::needs_drop::<Local>(), "it outlives the destructors of the thread's locals");

/// Gives the descriptor of a thread back that ends.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        // The locals of a model's thread end together, and loom takes statics away before those of its main thread.
        let descriptor = LOCAL.try_with(|local| {
            local.has_ended.set(true);
            local.replace_descriptor(None)
        });
        if let Ok(Some(descriptor)) = descriptor
            && !cfg!(enact_loom)
        {
            DOMAIN.descriptors.give_back(descriptor);
        }
    }
}

enact_sync::thread_local! {
    static ENDING: Ending = Ending;
}

enact_sync::thread_local! {
    static LOCAL: Local = {
        // So that it is dropped when the thread ends. A thread that is ending already has nothing to be given back.
        let has_ended = ENDING.try_with(|_| ()).is_err();
        Local {
            descriptor: Cell::new(ManuallyDrop::new(None)),
            is_in_transaction: Cell::new(false),
            has_ended: Cell::new(has_ended),
            operation: Cell::new(None),
            hand_over: Cell::new(None),
            is_dependent: Cell::new(false),
        }
    };
}

enact_sync::thread_local! {
    /// What the transactions that begin here depend on.
    static DEPENDENCY: RefCell<Option<Fate>> = RefCell::new(None);
}

impl Local {
    #[inline]
    fn replace_descriptor(&self, descriptor: Option<Box<Descriptor>>) -> Option<Box<Descriptor>> {
        ManuallyDrop::into_inner(self.descriptor.replace(ManuallyDrop::new(descriptor)))
    }

    /// Leaves a descriptor here; gives the one that has to go to the pool, if any.
    #[inline]
    fn keep(&self, descriptor: Box<Descriptor>) -> Option<Box<Descriptor>> {
        if self.has_ended.get() { Some(descriptor) } else { self.replace_descriptor(Some(descriptor)) }
    }
}

/// Takes a descriptor for an attempt, and marks this thread as inside a transaction until [`leave`] or [`finish`].
///
/// # Panics
/// If the thread is inside a transaction.
#[inline]
pub(crate) fn enter() -> Box<Descriptor> {
    LOCAL.with(|local| {
        assert!(
            !local.is_in_transaction.replace(true),
            "a transaction was started inside the closure of another one; nest with `tx.nested` or pass `tx` on"
        );
        let mut descriptor = local.replace_descriptor(None).unwrap_or_else(|| DOMAIN.descriptors.take());
        descriptor.in_operation = local.operation.get().is_some();
        descriptor.is_dependent = local.is_dependent.get();
        descriptor
    })
}

/// Marks this thread as inside a transaction, until [`leave`]; false if it was already.
pub(crate) fn enter_again() -> bool {
    LOCAL.with(|local| !local.is_in_transaction.replace(true))
}

/// Marks this thread as outside of any transaction.
#[inline]
pub(crate) fn leave() {
    LOCAL.with(|local| local.is_in_transaction.set(false));
}

/// [`leave`]s, and gives the descriptor back.
#[inline]
pub(crate) fn finish(descriptor: Box<Descriptor>) {
    let other = LOCAL.with(|local| {
        local.is_in_transaction.set(false);
        local.keep(descriptor)
    });
    if let Some(other) = other {
        DOMAIN.descriptors.give_back(other);
    }
}

/// Gives a descriptor back to this thread or, if it has one, to the pool.
pub(crate) fn give_back(descriptor: Box<Descriptor>) {
    if let Some(other) = LOCAL.with(|local| local.keep(descriptor)) {
        DOMAIN.descriptors.give_back(other);
    }
}

/// True inside the closure of a transaction.
pub(crate) fn is_in_transaction() -> bool {
    LOCAL.with(|local| local.is_in_transaction.get())
}

/// Runs `work` as part of a deferred operation of `owner`.
pub(crate) fn in_operation<R>(owner: OwnerId, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<OwnerId>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOCAL.with(|local| local.operation.set(self.0));
        }
    }
    let before = LOCAL.with(|local| local.operation.replace(Some(owner)));
    let _restore = Restore(before);
    work()
}

/// The owner for whom this thread runs a deferred operation.
pub(crate) fn operation() -> Option<OwnerId> {
    LOCAL.with(|local| local.operation.get())
}

/// Sets what the transactions that begin on this thread depend on; gives what it was.
pub(crate) fn set_dependency(dependency: Option<Fate>) -> Option<Fate> {
    LOCAL.with(|local| local.is_dependent.set(dependency.is_some()));
    DEPENDENCY.try_with(|known| known.replace(dependency)).unwrap_or_default()
}

/// What the transactions that begin on this thread depend on.
pub(crate) fn dependency() -> Option<Fate> {
    DEPENDENCY.try_with(|known| known.borrow().clone()).unwrap_or_default()
}

/// Sets how this thread blocks; see [`hooks::hand_over_on_this_thread`](crate::hooks).
pub(crate) fn set_hand_over(hand_over: Option<HandOver>) -> Option<HandOver> {
    LOCAL.with(|local| local.hand_over.replace(hand_over))
}

/// How to run what blocks, on a thread with other duties.
pub(crate) fn hand_over() -> Option<HandOver> {
    LOCAL.with(|local| local.hand_over.get())
}
