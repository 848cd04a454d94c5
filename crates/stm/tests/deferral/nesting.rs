//! S4-inner: operations that run transactions, which defer again.
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use enact_stm::{Deferrable, Owner, TCell, atomically};

use crate::{BOTH, How, elsewhere, is_held, object, once, panic_of, private_of};

// Case S4-inner.
#[test]
fn a_deferral_inside_an_operation_runs_at_the_inner_commit() {
    for outer in BOTH {
        for inner in BOTH {
            let (o, p) = (object(()), object(()));
            let steps = Arc::new(Mutex::new(vec![]));
            once(|tx| {
                let (p, steps) = (Arc::clone(&p), Arc::clone(&steps));
                outer
                    .defer(tx, (&o,), move |_| {
                        let note = |step| steps.lock().expect("no panic").push(step);
                        note("outer begins");
                        once(|tx| {
                            let steps = Arc::clone(&steps);
                            inner
                                .defer(tx, (&p,), move |_| steps.lock().expect("no panic").push("inner operation"))
                                .map(drop)
                        });
                        note("outer ends");
                    })
                    .map(drop)
            });
            let steps = steps.lock().expect("no panic").clone();
            assert_eq!(steps, ["outer begins", "inner operation", "outer ends"], "{outer:?}, {inner:?}");
            assert!(!is_held(&*o) && !is_held(&*p));
        }
    }
}

// Case S4-inner.
#[test]
fn a_transaction_in_an_operation_opens_what_the_operation_holds_and_others_wait() {
    for how in BOTH {
        let o = Arc::new(Deferrable::new(TCell::new(0), ()));
        let seen = once(|tx| {
            let shared = Arc::clone(&o);
            how.defer(tx, (&o,), move |_| {
                let inside = once(|tx| {
                    let v = tx.open(&shared)?;
                    tx.update(v, |v| v + 1)
                });
                (inside, is_held(&*shared))
            })
        });
        assert_eq!(seen.take(), Some((1, true)), "{how:?}");
    }
}

// Case S4-inner.
#[test]
fn an_async_operation_awaits_transactions_of_its_own() {
    let (o, x) = (object(vec![]), Arc::new(TCell::new(0)));
    once(|tx| {
        let x = Arc::clone(&x);
        tx.defer_async((&o,), |(list,)| {
            Box::pin(async move {
                for _ in 0..3 {
                    list.push(atomically(|tx| tx.update(&*x, |x| x + 1)).await);
                }
            })
        })
        .map(drop)
    });
    assert_eq!(private_of(o), [1, 2, 3]);
}

// Case S4-inner.
#[test]
fn an_object_of_a_later_operation_may_be_used_before_by_an_inner_one() {
    for how in BOTH {
        let (a, b) = (object(()), object(vec![]));
        once(|tx| {
            let inner = Arc::clone(&b);
            how.defer(tx, (&a,), move |_| {
                once(|tx| how.defer(tx, (&inner,), |(list,)| list.push("inner")).map(drop));
                assert!(is_held(&*inner), "the later operation still has it");
            })
            .map(drop)?;
            how.defer(tx, (&b,), |(list,)| list.push("later")).map(drop)
        });
        assert_eq!(private_of(b), ["inner", "later"], "{how:?}");
    }
}

// Case S4-inner.
#[test]
fn deferring_on_what_the_operation_works_on_itself_is_refused_and_releases_everything() {
    for how in BOTH {
        let (o, other) = (object(()), object(0));
        let message = panic_of(|| {
            once(|tx| {
                let shared = Arc::clone(&o);
                how.defer(tx, (&o,), move |_| once(|tx| how.defer(tx, (&shared,), |_| ()).map(drop))).map(drop)?;
                how.defer(tx, (&other,), |(count,)| **count += 1).map(drop)
            });
        });
        assert!(message.contains("an object that it works on itself"), "{how:?}: {message}");
        assert!(!is_held(&*o) && o.is_poisoned());
        assert_eq!(private_of(other), 1, "the operation behind it has run");
    }
}

#[test]
fn an_object_listed_twice_is_refused_in_the_closure() {
    for how in BOTH {
        let (o, p) = (object(0), object(0));
        let message = panic_of(|| once(|tx| how.defer(tx, (&o, &p, &o), |_| ()).map(drop)));
        assert_eq!(message, "a deferred operation lists an object twice", "{how:?}");
        assert!(!is_held(&*o) && !is_held(&*p) && !o.is_poisoned());
    }
}

#[test]
fn operations_of_one_explicit_owner_exclude_each_other_on_an_object() {
    for how in BOTH {
        let (o, owner) = (object(vec![]), Owner::new());
        let (begun, begins) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let channels = Mutex::new(Some((begun, goes)));
        thread::scope(|scope| {
            scope.spawn(|| {
                atomically(|tx| {
                    let (begun, goes) = channels.lock().expect("no panic").take().expect("one attempt");
                    how.defer(tx, (&o,), move |(list,)| {
                        begun.send(()).expect("the test listens");
                        goes.recv().expect("the test goes on");
                        list.push("first");
                    })
                    .map(drop)
                })
                .owned_by(&owner)
                .run();
            });
            begins.recv().expect("the first operation begins");
            let second = atomically(|tx| how.defer(tx, (&o,), |(list,)| list.push("second")).map(drop));
            let mut second = crate::Task::new(second.owned_by(&owner));
            assert!(second.poll().is_none(), "{how:?}: in use, although the owner is the same");
            go.send(()).expect("the operation waits");
            second.finish();
        });
        assert_eq!(private_of(o), ["first", "second"]);
    }
}

#[test]
fn a_transaction_in_an_operation_that_conflicts_is_run_again_by_itself() {
    let (x, o) = (Arc::new(TCell::new(0)), object(0));
    let attempts = once(|tx| {
        let x = Arc::clone(&x);
        How::Blocking.defer(tx, (&o,), move |(runs,)| {
            **runs += 1;
            once(|tx| {
                let seen = tx.read(&*x)?;
                if tx.attempt() == 1 {
                    elsewhere(|| once(|tx| tx.update(&*x, |x| x + 1)));
                }
                tx.write(&*x, seen + 10)?;
                Ok(tx.attempt())
            })
        })
    });
    assert_eq!(attempts.take(), Some(2));
    assert_eq!(private_of(o), 1, "the operation runs once");
}
