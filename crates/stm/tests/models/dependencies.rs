//! Transactions that commit only after others.
use enact_stm::{Failed, TCell, atomically, hooks, snapshot, try_atomically};
use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::{Arc, Mutex};

use crate::{beside, model, wait_for};

/// Runs a transaction that sets `x` and hands its fate out, and at the same time one that depends on it and copies `x`.
fn send_and_copy(fails: bool) -> (i32, i32) {
    let cells = Arc::new((TCell::new(0), TCell::new(0)));
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (other, inbox) = (Arc::clone(&cells), Arc::clone(&sent));
    // The sender goes on when the receiver has read, so that every schedule has something undecided.
    let has_read = Arc::new(AtomicBool::new(false));
    let reads = Arc::clone(&has_read);
    let receiver = move || {
        // A fate is handed out for every attempt; the aborted ones have no effect.
        loop {
            let Some(fate) = inbox.lock().pop() else {
                enact_sync::thread::yield_now();
                continue;
            };
            let copy = atomically(|tx| {
                let x = tx.read(&other.0)?;
                reads.store(true, Ordering::Release);
                tx.write(&other.1, x + 10)
            });
            if hooks::depending_on(fate, copy).run().is_ok() || fails {
                return;
            }
        }
    };
    beside(receiver, || {
        let result = try_atomically(|tx| {
            sent.lock().push(hooks::fate(tx));
            wait_for(&has_read);
            tx.write(&cells.0, 1)?;
            if fails { Err(Failed::Error("no")) } else { Ok(()) }
        })
        .run();
        assert_eq!(result.is_err(), fails);
    });
    snapshot(|tx| Ok((tx.read(&cells.0)?, tx.read(&cells.1)?)))
}

// Case S0-stale.
//   sender               receiver
//   hands its fate out
//                        reads x = 0, waits for the fate
//   commits x = 1
//                        what it read is stale <- runs again, reads 1
#[test]
fn a_dependent_sees_what_its_dependency_has_written() {
    model(|| assert_eq!(send_and_copy(false), (1, 11)));
}

//   sender               receiver
//   hands its fate out
//                        reads x, waits for the fate
//   fails
//                        is told <- nothing of it may be written
#[test]
fn a_dependent_of_an_aborted_transaction_has_no_effect() {
    model(|| assert_eq!(send_and_copy(true), (0, 0)));
}
