//! What this thread is doing: whether it is inside a transaction or a deferred operation, and whether it may block.
use crate::domain::DOMAIN;
use crate::fate::Fate;
use crate::lock::OwnerId;
use crate::transaction::Worker;
use std::cell::{Cell, RefCell};

/// Runs a blocking piece of work where blocking does no harm.
pub(crate) type HandOver = fn(Box<dyn FnOnce() + Send + '_>);

struct Local {
    /// The worker that this thread reuses.
    worker: Cell<Option<Box<Worker>>>,
    is_in_transaction: Cell<bool>,
    /// The owner for whom a deferred operation runs here.
    operation: Cell<Option<OwnerId>>,
    hand_over: Cell<Option<HandOver>>,
    /// What the transactions that begin here depend on, and whether there is something.
    dependency: RefCell<Option<Fate>>,
    is_dependent: Cell<bool>,
}

impl Drop for Local {
    fn drop(&mut self) {
        // loom takes statics away before the locals of its main thread.
        if let Some(worker) = self.worker.take()
            && !cfg!(enact_loom)
        {
            DOMAIN.workers.give_back(worker);
        }
    }
}

enact_sync::thread_local! {
    static LOCAL: Local = Local {
        worker: Cell::new(None),
        is_in_transaction: Cell::new(false),
        operation: Cell::new(None),
        hand_over: Cell::new(None),
        dependency: RefCell::new(None),
        is_dependent: Cell::new(false),
    };
}

/// Takes a worker for an attempt, and marks this thread as inside a transaction until [`leave`] or [`finish`].
///
/// # Panics
/// If the thread is inside a transaction.
#[inline]
pub(crate) fn enter() -> Box<Worker> {
    LOCAL
        .try_with(|local| {
            assert!(
                !local.is_in_transaction.replace(true),
                "a transaction was started inside the closure of another one; nest with `tx.nested` or pass `tx` on"
            );
            let mut worker = local.worker.take().unwrap_or_else(|| DOMAIN.workers.take());
            worker.in_operation = local.operation.get().is_some();
            worker.is_dependent = local.is_dependent.get();
            worker
        })
        .unwrap_or_else(|_| {
            let mut worker = DOMAIN.workers.take();
            worker.in_operation = false;
            worker.is_dependent = false;
            worker
        })
}

/// Marks this thread as inside a transaction, until [`leave`]; false if it was already.
pub(crate) fn enter_again() -> bool {
    LOCAL.try_with(|local| !local.is_in_transaction.replace(true)).unwrap_or(false)
}

/// Marks this thread as outside of any transaction. While a thread ends it has no locals any more, and nothing to mark.
#[inline]
pub(crate) fn leave() {
    let _ = LOCAL.try_with(|local| local.is_in_transaction.set(false));
}

/// [`leave`]s, and gives the worker back.
#[inline]
pub(crate) fn finish(worker: Box<Worker>) {
    let mut worker = Some(worker);
    let _ = LOCAL.try_with(|local| {
        local.is_in_transaction.set(false);
        worker = local.worker.replace(worker.take());
    });
    if let Some(other) = worker {
        DOMAIN.workers.give_back(other);
    }
}

/// Gives a worker back to this thread or, if it has one, to the pool.
pub(crate) fn give_back(worker: Box<Worker>) {
    let mut worker = Some(worker);
    let _ = LOCAL.try_with(|local| worker = local.worker.replace(worker.take()));
    if let Some(other) = worker {
        DOMAIN.workers.give_back(other);
    }
}

/// True inside the closure of a transaction.
pub(crate) fn is_in_transaction() -> bool {
    LOCAL.try_with(|local| local.is_in_transaction.get()).unwrap_or(false)
}

/// Runs `work` as part of a deferred operation of `owner`.
pub(crate) fn in_operation<R>(owner: OwnerId, work: impl FnOnce() -> R) -> R {
    struct Restore(Option<OwnerId>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = LOCAL.try_with(|local| local.operation.set(self.0));
        }
    }
    let before = LOCAL.try_with(|local| local.operation.replace(Some(owner))).unwrap_or_default();
    let _restore = Restore(before);
    work()
}

/// The owner for whom this thread runs a deferred operation.
pub(crate) fn operation() -> Option<OwnerId> {
    LOCAL.try_with(|local| local.operation.get()).unwrap_or_default()
}

/// Sets what the transactions that begin on this thread depend on; gives what it was.
pub(crate) fn set_dependency(dependency: Option<Fate>) -> Option<Fate> {
    LOCAL
        .try_with(|local| {
            local.is_dependent.set(dependency.is_some());
            local.dependency.replace(dependency)
        })
        .unwrap_or_default()
}

/// What the transactions that begin on this thread depend on.
pub(crate) fn dependency() -> Option<Fate> {
    LOCAL.try_with(|local| local.dependency.borrow().clone()).unwrap_or_default()
}

/// Sets how this thread blocks; see [`hooks::hand_over_on_this_thread`](crate::hooks).
pub(crate) fn set_hand_over(hand_over: Option<HandOver>) -> Option<HandOver> {
    LOCAL.try_with(|local| local.hand_over.replace(hand_over)).unwrap_or_default()
}

/// How to run what blocks, on a thread with other duties.
pub(crate) fn hand_over() -> Option<HandOver> {
    LOCAL.try_with(|local| local.hand_over.get()).unwrap_or_default()
}
