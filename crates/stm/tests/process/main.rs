//! What can be seen only if nothing else runs in the process: the statistics, who runs alone, how much memory is in use.
//! The tests take turns.
mod alone;
mod bounded;
mod circles;
mod counted;
mod dropped;
mod gate;

use enact_stm::{TCell, Variable, atomically};
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

/// Has the process for itself until dropped.
fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` on another thread, and returns when it is done: in the middle of a closure this is a forced interleaving.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

fn set<V: Variable>(variable: &V, value: V::Value)
where
    V::Value: Clone,
{
    atomically(|tx| tx.write(variable, value.clone()).map(drop)).run();
}

fn add_one(cell: &TCell<u32>) -> u32 {
    atomically(|tx| tx.update(cell, |n| n + 1)).run()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
