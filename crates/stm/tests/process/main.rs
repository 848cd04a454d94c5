//! What can be seen only if nothing else runs in the process: the statistics, what runs alone, how much memory is in use; and
//! what keeps others waiting, such as many threads that want the same. The tests take turns.
mod alone;
mod bounded;
mod circles;
mod clojure;
mod closing;
mod counted;
mod dropped;
mod dropping;
mod isolation;
mod serial_lock;

#[path = "../semantics/executor.rs"]
#[allow(dead_code, reason = "the other program needs more of it")]
mod executor;
#[path = "../semantics/forms.rs"]
#[allow(dead_code, reason = "the other program needs more of it")]
mod forms;
#[path = "../semantics/undecided.rs"]
mod undecided;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use enact_stm::{TCell, atomically};
use forms::{elsewhere, set};

/// Has the process for itself until dropped.
fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add_one(cell: &TCell<u32>) -> u32 {
    atomically(|tx| tx.update(cell, |n| n + 1)).run()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
