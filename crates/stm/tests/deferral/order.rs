//! S4-L1, S4-order, S4-abort, S4-free: when operations run, and in which order.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use enact_stm::{Failed, TCell, TMap, TVar, atomically, hooks, statistics, try_atomically};

use crate::{BOTH, How, Task, elsewhere, is_held, object, once, panic_of, private_of};

// Case S4-L1.
#[test]
fn an_operation_sees_what_its_transaction_did_after_the_call() {
    for how in BOTH {
        let (a, o) = (Arc::new(TCell::new(0)), object(()));
        let seen = once(|tx| {
            tx.write(&*a, 1)?;
            let shared = Arc::clone(&a);
            let seen = how.defer(tx, (&o,), move |_| once(|tx| tx.read(&*shared)))?;
            tx.write(&*a, 2)?;
            Ok(seen)
        });
        assert_eq!(seen.take(), Some(2), "{how:?}");
        assert_eq!(seen.take(), None, "the outcome is taken once");
    }
}

// Case S4-order.
#[test]
fn operations_run_in_order_and_the_object_is_released_after_the_last() {
    for (first, second) in [(How::Blocking, How::Async), (How::Async, How::Blocking)] {
        let o = object(vec![]);
        let held = once(|tx| {
            first.defer(tx, (&o,), |(list,)| list.push("first")).map(drop)?;
            let shared = Arc::clone(&o);
            second.defer(tx, (&o,), move |(list,)| {
                assert_eq!(**list, ["first"], "the second sees what the first did");
                list.push("second");
                is_held(&*shared)
            })
        });
        assert_eq!(held.take(), Some(true), "{second:?}: held until the last operation ends");
        assert!(!is_held(&*o));
        assert_eq!(private_of(o), ["first", "second"]);
    }
}

// Case S4-order.
#[test]
fn each_operation_releases_its_own_objects_when_it_ends() {
    for how in BOTH {
        let (a, b) = (object(()), object(()));
        let held = once(|tx| {
            how.defer(tx, (&a,), |_| ()).map(drop)?;
            let (a, b2) = (Arc::clone(&a), Arc::clone(&b));
            how.defer(tx, (&b,), move |_| (is_held(&*a), is_held(&*b2)))
        });
        assert_eq!(held.take(), Some((false, true)), "{how:?}");
    }
}

// Case S4-abort.
#[test]
fn an_attempt_that_fails_runs_nothing_and_the_next_one_runs_it_once() {
    for how in BOTH {
        let (o, x) = (object(0), TCell::new(0));
        let attempts = once(|tx| {
            how.defer(tx, (&o,), |(count,)| **count += 1).map(drop)?;
            let seen = tx.read(&x)?;
            if tx.attempt() == 1 {
                elsewhere(|| once(|tx| tx.update(&x, |x| x + 1)));
            }
            tx.write(&x, seen + 10)?;
            Ok(tx.attempt())
        });
        assert_eq!((attempts, x.into_inner()), (2, 11), "{how:?}: the conflict was forced");
        assert_eq!(private_of(o), 1);
    }
}

// Case S4-abort.
#[test]
fn a_transaction_that_waits_after_deferring_runs_it_once() {
    for how in BOTH {
        let (o, x) = (object(0), TCell::new(0));
        once(|tx| {
            how.defer(tx, (&o,), |(count,)| **count += 1).map(drop)?;
            if tx.read(&x)? == 0 {
                elsewhere(|| {
                    assert!(!is_held(&*o), "nothing is held by an attempt that has not committed");
                    once(|tx| tx.write(&x, 1))
                });
                return tx.retry();
            }
            Ok(())
        });
        assert_eq!(private_of(o), 1, "{how:?}");
    }
}

// Case S4-abort.
#[test]
fn after_an_error_or_a_panic_of_the_closure_nothing_runs_and_the_object_is_free() {
    for how in BOTH {
        let o = object(0);
        let failed = try_atomically(|tx| {
            how.defer(tx, (&o,), |(count,)| **count += 1).map(drop)?;
            Err::<(), _>(Failed::Error("changed its mind"))
        });
        assert_eq!(failed.run(), Err("changed its mind"));
        let panicked = panic_of(|| {
            once(|tx| -> Result<(), _> {
                how.defer(tx, (&o,), |(count,)| **count += 1).map(drop)?;
                panic!("in the closure")
            });
        });
        assert_eq!(panicked, "in the closure");
        assert!(!is_held(&*o) && !o.is_poisoned());
        assert_eq!(private_of(o), 0, "{how:?}");
    }
}

// Case S4-abort.
#[test]
fn what_a_failed_part_deferred_does_not_run_and_its_objects_are_not_acquired() {
    for how in BOTH {
        let (a, b, kept) = (object(0), object(0), object(0));
        once(|tx| {
            how.defer(tx, (&kept,), |(count,)| **count += 1).map(drop)?;
            let failed = tx.nested(|tx| {
                how.defer(tx, (&a,), |(count,)| **count += 1).map(drop)?;
                Err::<(), _>(Failed::Error(()))
            })?;
            assert_eq!(failed, Err(()));
            tx.or_else(
                |tx| {
                    how.defer(tx, (&b,), |(count,)| **count += 1).map(drop)?;
                    tx.retry()
                },
                |tx| how.defer(tx, (&kept,), |(count,)| **count += 10).map(drop),
            )?;
            let (a, b) = (Arc::clone(&a), Arc::clone(&b));
            how.defer(tx, (), move |()| assert!(!is_held(&*a) && !is_held(&*b))).map(drop)
        });
        assert_eq!((private_of(a), private_of(b), private_of(kept)), (0, 0, 11), "{how:?}");
    }
}

/// Says when it is gone.
struct Canary(Arc<AtomicBool>);

impl Drop for Canary {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

// Case S4-free.
#[test]
fn what_an_operation_refers_to_lives_until_it_ends_and_no_longer() {
    for how in BOTH {
        let is_gone = Arc::new(AtomicBool::new(false));
        let x = TVar::new(Some(Arc::new(Canary(Arc::clone(&is_gone)))));
        let o = object(());
        let gone_during = once(|tx| {
            let canary = tx.read(&x)?.clone();
            let seen = how.defer(tx, (&o,), move |_| {
                // Whatever others replace meanwhile.
                let canary = canary.as_ref().expect("it was there");
                canary.0.load(Ordering::SeqCst)
            })?;
            tx.write(&x, None)?;
            Ok(seen)
        });
        assert_eq!(gone_during.take(), Some(false), "{how:?}");
        // Replaced values are freed in batches, by the threads that replace more.
        let mut rounds = 0;
        while !is_gone.load(Ordering::SeqCst) {
            once(|tx| tx.write(&x, None).map(drop));
            rounds += 1;
            assert!(rounds < 1_000_000, "{how:?}: nothing refers to the value any more, and it is not freed");
        }
    }
}

#[test]
fn an_operation_without_objects_runs_once_after_the_commit() {
    for how in BOTH {
        let x = Arc::new(TCell::new(0));
        let before = statistics().operations;
        let seen = once(|tx| {
            tx.write(&*x, 1)?;
            let x = Arc::clone(&x);
            how.defer(tx, (), move |()| once(|tx| tx.update(&*x, |x| x + 1)))
        });
        assert_eq!(seen.take(), Some(2), "{how:?}");
        assert!(statistics().operations > before);
    }
}

#[test]
fn an_operation_is_refused_in_a_snapshot() {
    let o = object(());
    for how in BOTH {
        let of_object = panic_of(|| enact_stm::snapshot(|tx| how.defer(tx, (&o,), |_| ()).map(drop)));
        let of_nothing = panic_of(|| enact_stm::snapshot(|tx| how.defer(tx, (), |()| ()).map(drop)));
        for message in [of_object, of_nothing] {
            assert!(message.starts_with("a snapshot only reads"), "{message}");
        }
    }
}

#[test]
fn up_to_four_objects_are_given_to_an_operation_in_the_order_of_the_list() {
    for how in BOTH {
        let (a, b, c, d) = (object(1_u8), object(2_u16), object(3_u32), object(4_u64));
        let seen = atomically(|tx| {
            how.defer(tx, (&a, &b, &c, &d), |(a, b, c, d)| {
                **d = 40;
                (**a, **b, **c, **d)
            })
        });
        assert_eq!(seen.run().take(), Some((1, 2, 3, 40)), "{how:?}");
        assert_eq!(private_of(d), 40);
    }
}

#[test]
fn an_object_found_in_a_container_is_held_also_if_it_is_taken_out_by_the_same_transaction() {
    for how in BOTH {
        let (connections, o) = (TMap::new(), object(vec!["open"]));
        once(|tx| connections.insert(tx, "client", Arc::clone(&o)).map(drop));
        once(|tx| {
            let found = connections.get(tx, "client")?.expect("it was put there");
            connections.remove(tx, "client")?;
            let shared = Arc::clone(found);
            how.defer(tx, (found,), move |(steps,)| {
                assert!(is_held(&*shared));
                steps.push("closed");
            })
            .map(drop)
        });
        let steps = once(|tx| how.defer(tx, (&o,), |(steps,)| steps.clone()));
        assert_eq!(steps.take().expect("it has run"), ["open", "closed"], "{how:?}");
    }
}

#[test]
fn operations_of_a_dependent_transaction_run_once_what_it_depends_on_has_committed_and_not_before() {
    for (how, commits) in BOTH.into_iter().flat_map(|how| [(how, true), (how, false)]) {
        let (x, o) = (TCell::new(0), object(0));
        let (fate, fates) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let first = scope.spawn({
                let x = &x;
                move || {
                    try_atomically(|tx| {
                        tx.write(x, 1)?;
                        fate.send(hooks::fate(tx)).expect("the test listens");
                        goes.recv().expect("the test goes on");
                        if commits { Ok(()) } else { Err(Failed::Error(())) }
                    })
                    .run()
                }
            });
            let deferring = atomically(|tx| {
                let seen = tx.read(&x)?;
                how.defer(tx, (&o,), move |(value,)| **value = seen + 10).map(drop)
            });
            let mut dependent = Task::new(hooks::depending_on(fates.recv().expect("the first runs"), deferring));
            assert!(dependent.poll().is_none());
            assert!(!is_held(&*o), "{how:?}: not committed, so nothing is held");
            go.send(()).expect("the first waits");
            assert_eq!(first.join().expect("no panic").is_ok(), commits);
            let outcome = dependent.finish();
            assert_eq!(outcome.is_ok(), commits);
        });
        assert_eq!(private_of(o), if commits { 11 } else { 0 }, "{how:?}");
    }
}
