//! What this thread is doing: whether it is inside a transaction or a deferred operation, and whether it may block.
use crate::domain::DOMAIN;
use crate::lock::OwnerId;
use crate::transaction::Worker;
use std::cell::{Cell, RefCell};

/// Runs a blocking piece of work where blocking does no harm.
pub(crate) type HandOver = fn(Box<dyn FnOnce() + Send + '_>);

struct Local {
    /// The worker that this thread reuses.
    worker: RefCell<Home>,
    is_in_transaction: Cell<bool>,
    /// The owner for whom a deferred operation runs here.
    operation: Cell<Option<OwnerId>>,
    hand_over: Cell<Option<HandOver>>,
}

/// Gives its worker to the pool when the thread ends.
struct Home(Option<Box<Worker>>);

impl Drop for Home {
    fn drop(&mut self) {
        // loom takes statics away before the locals of its main thread.
        if let Some(worker) = self.0.take()
            && !cfg!(enact_loom)
        {
            DOMAIN.workers.give_back(worker);
        }
    }
}

enact_sync::thread_local! {
    static LOCAL: Local = Local {
        worker: RefCell::new(Home(None)),
        is_in_transaction: Cell::new(false),
        operation: Cell::new(None),
        hand_over: Cell::new(None),
    };
}

/// Takes a worker for a transaction that begins on this thread.
///
/// # Panics
/// If the thread is inside a transaction.
#[inline]
pub(crate) fn take_worker() -> Box<Worker> {
    let (worker, operation) = LOCAL
        .try_with(|local| {
            assert!(
                !local.is_in_transaction.get(),
                "a transaction was started inside the closure of another one; nest with `tx.nested` or pass `tx` on"
            );
            (local.worker.borrow_mut().0.take(), local.operation.get())
        })
        .unwrap_or_default();
    let mut worker = worker.unwrap_or_else(|| DOMAIN.workers.take());
    worker.in_operation = operation.is_some();
    worker
}

/// Gives a worker back to this thread or, if it has one, to the pool.
#[inline]
pub(crate) fn give_back(worker: Box<Worker>) {
    let mut worker = Some(worker);
    let _ = LOCAL.try_with(|local| {
        let mut home = local.worker.borrow_mut();
        if home.0.is_none() {
            home.0 = worker.take();
        }
    });
    if let Some(worker) = worker {
        DOMAIN.workers.give_back(worker);
    }
}

/// Marks this thread as inside a transaction until dropped.
pub(crate) struct Inside;

impl Inside {
    #[inline]
    pub(crate) fn enter() -> Self {
        let _ = LOCAL.try_with(|local| local.is_in_transaction.set(true));
        Self
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        let _ = LOCAL.try_with(|local| local.is_in_transaction.set(false));
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

/// Forbids or allows this thread to block; see [`hooks::forbid_waiting_on_this_thread`](crate::hooks).
pub(crate) fn set_hand_over(hand_over: Option<HandOver>) -> Option<HandOver> {
    LOCAL.try_with(|local| local.hand_over.replace(hand_over)).unwrap_or_default()
}

/// How to run what blocks, on a thread that must not.
pub(crate) fn hand_over() -> Option<HandOver> {
    LOCAL.try_with(|local| local.hand_over.get()).unwrap_or_default()
}
