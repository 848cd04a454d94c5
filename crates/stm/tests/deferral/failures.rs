//! S4-panic: operations that fail, and objects that were left in an unknown state.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use enact_stm::{Deferrable, Deferred, Poisoned, TCell, atomically};
use tokio::sync::oneshot;

use crate::{BOTH, Task, is_held, message, object, once, panic_of, private_of, step_aside};

// Case S4-panic.
#[test]
fn the_object_is_poisoned_and_released_and_the_transaction_stays_committed() {
    for how in BOTH {
        let (x, o) = (TCell::new(0), object(5));
        let panic = panic_of(|| {
            once(|tx| {
                tx.write(&x, 1)?;
                how.defer(tx, (&o,), |_| panic!("the disk is gone")).map(|_: Deferred<()>| ())
            });
        });
        assert_eq!(panic, "the disk is gone", "{how:?}: it reaches the caller");
        assert_eq!(once(|tx| tx.read(&x)), 1);
        assert!(o.is_poisoned() && !is_held(&*o));
        assert_eq!(once(|tx| tx.try_open(&o).map(Result::err)), Some(Poisoned));
        for refused in [
            panic_of(|| once(|tx| tx.open(&o).copied())),
            panic_of(|| once(|tx| how.defer(tx, (&o,), |_| ()).map(drop))),
        ] {
            assert_eq!(refused, Poisoned.to_string(), "{how:?}");
        }
    }
}

// Case S4-panic.
#[test]
fn the_operations_behind_it_run_and_the_first_panic_is_told() {
    for how in BOTH {
        let (a, b, c) = (object(0), object(0), object(0));
        let panic = catch_unwind(AssertUnwindSafe(|| {
            once(|tx| {
                how.defer(tx, (&a,), |(count,)| **count = 1).map(drop)?;
                how.defer(tx, (&b,), |(count,)| {
                    **count = 2;
                    panic!("first");
                })
                .map(|_: Deferred<()>| ())?;
                how.defer(tx, (), |()| panic!("second")).map(|_: Deferred<()>| ())?;
                how.defer(tx, (&c,), |(count,)| **count = 3).map(drop)
            });
        }));
        assert_eq!(message(&*panic.expect_err("it panics")), "first", "{how:?}");
        assert_eq!((a.is_poisoned(), b.is_poisoned(), c.is_poisoned()), (false, true, false));
        assert_eq!((private_of(a), private_of(b), private_of(c)), (1, 2, 3));
    }
}

// Case S4-panic.
#[test]
fn all_objects_of_the_operation_are_poisoned_and_waiting_transactions_go_on() {
    let (a, b) = (object(()), object(()));
    let (fail, fails) = oneshot::channel::<()>();
    let fails = Mutex::new(Some(fails));
    let mut failing = Task::new(atomically(|tx| {
        let fails = fails.lock().expect("no panic").take().expect("one attempt");
        tx.defer_async((&a, &b), |_| {
            Box::pin(async move {
                fails.await.expect("the test goes on");
                panic!("both are lost");
            })
        })
        .map(|_: Deferred<()>| ())
    }));
    assert!(failing.poll().is_none());
    let mut waiters = [&a, &b].map(|o| Task::new(atomically(|tx| Ok(tx.try_open(o)?.is_err()))));
    assert!(waiters.iter_mut().all(|waiter| waiter.poll().is_none()));
    fail.send(()).expect("the operation waits");
    assert_eq!(panic_of(|| failing.poll()), "both are lost");
    for waiter in &mut waiters {
        assert_eq!((waiter.wakes(), waiter.poll()), (1, Some(true)));
    }
}

// Case S4-panic.
#[test]
fn an_async_operation_may_panic_at_any_of_its_steps() {
    for step in 0..3 {
        let o = object(0);
        let panic = panic_of(|| {
            once(|tx| {
                tx.defer_async((&o,), move |(count,)| {
                    assert_ne!(step, 0, "before its first step");
                    Box::pin(async move {
                        assert_ne!(step, 1, "in its first step");
                        **count += 1;
                        step_aside().await;
                        assert_ne!(step, 2, "after it has waited");
                    })
                })
                .map(drop)
            });
        });
        let expected = ["before its first step", "in its first step", "after it has waited"][step];
        assert!(panic.contains(expected), "{panic}");
        assert!(o.is_poisoned() && !is_held(&*o));
        assert_eq!(private_of(o), usize::from(step == 2));
    }
}

#[test]
fn an_operation_that_says_so_poisons_without_a_panic_and_its_outcome_is_told() {
    for how in BOTH {
        let (a, b) = (object(()), object(()));
        let outcome = once(|tx| {
            how.defer(tx, (&a, &b), |(a, _)| {
                a.poison();
                Err::<(), _>("half written")
            })
        });
        assert_eq!(outcome.take(), Some(Err("half written")), "{how:?}");
        assert_eq!((a.is_poisoned(), b.is_poisoned()), (true, false), "only the one that it named");
    }
}

#[test]
fn heal_gives_a_new_private_part_and_takes_the_object_into_service_again() {
    for how in BOTH {
        let o = Arc::new(Deferrable::new(TCell::new(7), vec!["old"]));
        panic_of(|| once(|tx| how.defer(tx, (&o,), |_| panic!("lost")).map(|_: Deferred<()>| ())));
        assert!(o.is_poisoned());
        o.heal(vec!["new"]);
        assert!(!o.is_poisoned() && !is_held(&*o));
        let shared = once(|tx| {
            let shared = tx.open(&o)?;
            how.defer(tx, (&o,), |(list,)| list.push("used")).map(drop)?;
            tx.read(shared)
        });
        assert_eq!(shared, 7, "the shared part is as it was");
        assert_eq!(private_of(o), ["new", "used"], "{how:?}");
    }
}

#[test]
fn the_outcome_of_an_operation_that_panicked_is_none() {
    for how in BOTH {
        let kept = Mutex::new(None);
        panic_of(|| {
            once(|tx| {
                let outcome = how.defer(tx, (), |()| -> u32 { panic!("no number") })?;
                *kept.lock().expect("no panic") = Some(outcome);
                Ok(())
            });
        });
        let outcome = kept.into_inner().expect("no panic").expect("the closure has run");
        assert_eq!(outcome.take(), None, "{how:?}");
    }
}
