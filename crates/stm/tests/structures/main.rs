//! The containers: against plain models, in forced interleavings, and under many threads.

mod concurrent;
mod granularity;
mod memory;
mod models;
mod parcels;
mod waiting;

use std::sync::{Mutex, MutexGuard, PoisonError};

use enact_stm::{Abort, Tx, atomically};

/// Until dropped, no other test has many threads, or counts attempts: a transaction that has lost often gets priority, and
/// those of all others are tried again.
fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One transaction.
fn once<'env, R>(body: impl for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Abort>) -> R {
    atomically(body).run()
}

/// Runs a transaction whose first attempt is interrupted before it commits, after everything in it was done, by a whole
/// other transaction; gives the number of attempts that it took. 1 means that the two do not conflict.
fn attempts_beside<'env, R, Q>(
    first: impl for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Abort>,
    other: impl for<'t> Fn(&mut Tx<'t, 'env>) -> Result<Q, Abort> + Sync,
) -> u32 {
    let _turn = my_turn();
    once(|tx| {
        first(tx)?;
        if tx.attempt() == 1 {
            std::thread::scope(|scope| scope.spawn(|| drop(once(&other))).join().expect("the other commits"));
        }
        Ok(tx.attempt())
    })
}
