//! S4-atomic, S4-other, S4-multi: what others see of a transaction and its operations.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use enact_stm::{Deferrable, TCell, atomically};
use tokio::sync::oneshot;

use crate::{BOTH, Task, elsewhere, object, once};

// Case S4-atomic.
#[test]
fn nobody_sees_the_transaction_without_its_operation() {
    const ROUNDS: u32 = 150;
    for how in BOTH {
        let (x, o) = (TCell::new(0), Arc::new(Deferrable::new(TCell::new(0), ())));
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    once(|tx| {
                        tx.write(&x, round)?;
                        how.defer(tx, (&o,), move |(o,)| {
                            let v = o.shared();
                            thread::yield_now();
                            once(|tx| tx.write(v, round));
                        })
                        .map(drop)
                    });
                }
            });
            let mut seen = 0;
            while seen < ROUNDS {
                let (x, v) = once(|tx| {
                    let v = tx.open(&o)?;
                    Ok((tx.read(&x)?, tx.read(v)?))
                });
                assert_eq!(x, v, "{how:?}");
                seen = x;
            }
        });
    }
}

// Case S4-other.
#[test]
fn a_transaction_waits_for_an_operation_only_if_it_touches_the_object() {
    let (x, y) = (TCell::new(0), TCell::new(0));
    let o = Arc::new(Deferrable::new(TCell::new(0), ()));
    let (finish, finished) = oneshot::channel::<()>();
    let finished = std::sync::Mutex::new(Some(finished));
    let mut t1 = Task::new(atomically(|tx| {
        tx.write(&x, 1)?;
        let finished = finished.lock().expect("no panic").take().expect("one attempt");
        tx.defer_async((&o,), |(o,)| {
            Box::pin(async move {
                finished.await.expect("the test goes on");
                let v = o.shared();
                atomically(|tx| tx.write(v, 1)).await;
            })
        })
        .map(drop)
    }));
    assert!(t1.poll().is_none(), "committed, and its operation waits");

    let mut t2 = Task::new(atomically(|tx| {
        let v = tx.open(&o)?;
        Ok((tx.read(&x)?, tx.read(v)?, tx.attempt()))
    }));
    assert!(t2.poll().is_none());
    let t3 = once(|tx| {
        tx.write(&y, 1)?;
        Ok((tx.read(&x)?, tx.attempt()))
    });
    assert_eq!(t3, (1, 1), "what has committed is visible, and nobody is delayed by the operation");
    assert_eq!(t2.wakes(), 0);

    finish.send(()).expect("the operation waits");
    assert!(t1.poll().is_some());
    assert_eq!(t2.wakes(), 1);
    assert_eq!(t2.poll(), Some((1, 1, 2)));
}

// Case S4-other.
#[test]
fn a_blocking_operation_delays_nobody_else_either() {
    let (x, o) = (TCell::new(0), object(()));
    once(|tx| {
        tx.write(&x, 1)?;
        tx.defer((&o,), |_| {
            let y = TCell::new(0);
            let seen = elsewhere(|| once(|tx| Ok((tx.update(&y, |y| y + 1)?, tx.attempt()))));
            assert_eq!(seen, (1, 1));
        })
        .map(drop)
    });
}

// Case S4-multi.
#[test]
fn operations_on_the_same_objects_in_any_order_exclude_each_other_without_deadlock() {
    const EACH: u32 = 100;
    for how in BOTH {
        let (a, b) = (object(0), object(0));
        let is_busy = Arc::new(AtomicBool::new(false));
        thread::scope(|scope| {
            for n in 0..4 {
                let (first, second) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
                let is_busy = &is_busy;
                scope.spawn(move || {
                    for _ in 0..EACH {
                        once(|tx| {
                            let is_busy = Arc::clone(is_busy);
                            how.defer(tx, (first, second), move |(first, second)| {
                                assert!(!is_busy.swap(true, Ordering::SeqCst), "two operations at a time");
                                **first += 1;
                                **second += 1;
                                thread::yield_now();
                                is_busy.store(false, Ordering::SeqCst);
                            })
                            .map(drop)
                        });
                    }
                });
            }
        });
        assert_eq!((crate::private_of(a), crate::private_of(b)), (4 * EACH, 4 * EACH), "{how:?}");
    }
}
