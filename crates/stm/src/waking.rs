//! Waking others: tasks, of whatever executor.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes one after the other.
///
/// A waker that panics has said so through the panic hook. It is the fault of its executor, and it must neither keep others
/// from being woken nor undo what they are woken for.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
