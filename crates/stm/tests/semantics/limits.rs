//! Transactions with a limit: given up with no effect when they have run or waited long enough.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use enact_stm::{Abort, Deferrable, GaveUp, Owner, TCell, Tx, TxLock, atomically, hooks, try_atomically};

use crate::executor::Step;
use crate::forms::{FORMS, elsewhere, panic_of, set};

const FAR: Duration = Duration::from_secs(3600);

/// Adds one to the cell, and loses to somebody else in the first `losses` attempts.
fn lose<'t>(tx: &mut Tx<'t, '_>, cell: &'t TCell<u32>, losses: u32) -> Result<u32, Abort> {
    let seen = tx.read(cell)?;
    if tx.attempt() <= losses {
        elsewhere(|| set(cell, seen + 10));
    }
    tx.write(cell, seen + 1)
}

/// Waits for ever.
fn wait<'t>(tx: &mut Tx<'t, '_>, cell: &'t TCell<u32>) -> Result<(), Abort> {
    tx.read(cell)?;
    tx.retry()
}

#[test]
fn a_transaction_runs_as_often_as_it_may_and_not_once_more() {
    for form in FORMS {
        for losses in 0..4 {
            let (x, undone) = (TCell::new(0), Arc::new(AtomicU32::new(0)));
            let result = form.run_limited(
                atomically(|tx| {
                    let undone = Arc::clone(&undone);
                    hooks::on_abort(tx, move || {
                        undone.fetch_add(1, Ordering::SeqCst);
                    });
                    lose(tx, &x, losses)
                })
                .tries(3),
            );
            let runs = losses + 1;
            if runs <= 3 {
                assert_eq!((result, x.into_inner()), (Ok(10 * losses + 1), 10 * losses + 1), "{form:?}");
            } else {
                assert_eq!((result, x.into_inner()), (Err(GaveUp::OutOfTries { attempts: 3 }), 30), "{form:?}");
            }
            assert_eq!(undone.load(Ordering::SeqCst), losses.min(3), "{form:?}");
        }
    }
}

#[test]
fn a_last_try_that_asks_to_wait_does_not_wait() {
    let x = TCell::new(0);
    let mut once = Step::new(atomically(|tx| wait(tx, &x)).tries(1));
    assert!(matches!(once.poll(), std::task::Poll::Ready(Err(GaveUp::OutOfTries { attempts: 1 }))));
    assert!(!once.is_registered());
    let mut twice = Step::new(atomically(|tx| wait(tx, &x)).tries(2));
    assert!(twice.poll().is_pending());
    set(&x, 1);
    assert!(matches!(twice.poll(), std::task::Poll::Ready(Err(GaveUp::OutOfTries { attempts: 2 }))));
    assert!(!twice.is_registered());
}

#[test]
fn no_tries_at_all_is_refused() {
    let x = TCell::new(0);
    let message = panic_of(|| atomically(|tx| tx.read(&x)).tries(0));
    assert!(message.contains("tried once at least"), "{message}");
}

#[test]
fn after_its_time_a_transaction_makes_no_second_attempt_and_the_first_one_counts() {
    for form in FORMS {
        let x = TCell::new(0);
        assert_eq!(form.run_limited(atomically(|tx| lose(tx, &x, 0)).timeout(Duration::ZERO)), Ok(1), "{form:?}");
        let late = form.run_limited(atomically(|tx| lose(tx, &x, 1)).timeout(Duration::ZERO));
        assert_eq!((late, x.into_inner()), (Err(GaveUp::OutOfTime { attempts: 1 }), 11), "{form:?}");
    }
}

#[test]
fn a_sleeping_transaction_is_given_up_when_its_time_is_over() {
    for form in FORMS {
        for time in [Duration::ZERO, Duration::from_millis(2)] {
            let x = TCell::new(0);
            let result = form.run_limited(atomically(|tx| wait(tx, &x)).timeout(time));
            assert_eq!(result, Err(GaveUp::OutOfTime { attempts: 1 }), "{form:?}");
        }
    }
}

#[test]
fn a_transaction_with_time_left_wakes_as_any_other() {
    let x = TCell::new(0);
    let mut waiter = Step::new(atomically(|tx| if tx.read(&x)? == 0 { tx.retry() } else { Ok(7) }).timeout(FAR));
    assert!(waiter.poll().is_pending());
    assert!(waiter.poll().is_pending());
    set(&x, 1);
    assert_eq!(waiter.wakes(), 1);
    assert!(matches!(waiter.poll(), std::task::Poll::Ready(Ok(7))));
    waiter.cancel();
    assert!(!waiter.is_registered(), "the alarm has gone with the transaction");
    // No clock knows the end of such a time.
    assert_eq!(atomically(|tx| tx.read(&x)).timeout(Duration::MAX).run(), Ok(1));
}

#[test]
fn the_earlier_of_two_deadlines_ends_the_wait() {
    for form in FORMS {
        let x = TCell::new(0);
        let soon = std::time::Instant::now() + Duration::from_millis(2);
        let inner = form.run_limited(atomically(|tx| tx.read(&x).and_then(|_| tx.retry_until(soon))).timeout(FAR));
        assert!(inner.is_ok(), "{form:?}");
        let far = std::time::Instant::now() + FAR;
        let outer = atomically(|tx| tx.read(&x).and_then(|_| tx.retry_until(far))).timeout(Duration::from_millis(2));
        assert_eq!(form.run_limited(outer), Err(GaveUp::OutOfTime { attempts: 1 }), "{form:?}");
    }
}

#[test]
fn an_error_of_the_user_is_no_limit() {
    let x = TCell::new(0_u32);
    let failed = try_atomically(|tx| {
        tx.write(&x, 1)?;
        tx.fail::<(), _>("refused")
    });
    assert_eq!(failed.tries(1).timeout(FAR).run(), Ok(Err("refused")));
    assert_eq!(x.into_inner(), 0);
}

#[test]
fn what_has_committed_has_no_limit() {
    for form in FORMS {
        let log = Arc::new(Deferrable::new((), 0));
        let (goes, go) = mpsc::channel::<()>();
        let go = std::sync::Mutex::new(Some(go));
        let operation = atomically(|tx| {
            let go = go.lock().expect("not poisoned").take().expect("runs once");
            tx.defer((&log,), move |(log,)| {
                go.recv().expect("the test says so");
                **log += 1;
            })
            .map(drop)
        });
        thread::scope(|scope| {
            scope.spawn(|| {
                // Only when the transaction has committed is the object taken.
                let is_taken = || {
                    atomically(|tx| tx.open(&log).map(drop)).tries(1).run() == Err(GaveUp::OutOfTries { attempts: 1 })
                };
                while !is_taken() {
                    thread::yield_now();
                }
                goes.send(()).expect("the operation listens");
            });
            assert_eq!(form.run_limited(operation.timeout(Duration::ZERO)), Ok(()), "{form:?}");
        });
        assert_eq!(Arc::into_inner(log).expect("nobody has it").into_inner().1, 1, "{form:?}");
    }
}

#[test]
fn a_lock_that_cannot_be_had_in_time_is_not_acquired() {
    let (clerk, other, drawer) = (Owner::new(), Owner::new(), TxLock::new());
    atomically(|tx| drawer.acquire(tx)).owned_by(&clerk).run();
    let refused = atomically(|tx| drawer.acquire(tx)).owned_by(&other).timeout(Duration::from_millis(2)).run();
    assert!(matches!(refused, Err(GaveUp::OutOfTime { .. })));
    atomically(|tx| drawer.release(tx)).owned_by(&clerk).run();
    assert!(!drawer.is_held());
}
