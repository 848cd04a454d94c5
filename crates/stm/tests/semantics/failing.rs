//! Errors and panics: everything is rolled back, delivered once, and nothing is left locked. Cases H5 to H7, C6, I12.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use enact_stm::{Failed, TCell, TVar, Tx, atomically, snapshot, try_atomically};

use crate::executor::Step;
use crate::forms::{FORMS, Form, elsewhere, panic_of, set, tokio};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is refused")]
struct Refused(i64);

// Case H5.
#[test]
fn a_handler_sees_the_state_before_the_part_that_failed() {
    for form in FORMS {
        let (x, boxed) = (TCell::new(5), TVar::new("old"));
        let seen = form.run(atomically(|tx| {
            let failed = tx.nested(|tx| {
                tx.write(&x, 1)?;
                tx.write(&boxed, "new")?;
                assert_eq!((tx.read(&x)?, *tx.read(&boxed)?), (1, "new"));
                Err::<(), _>(Refused(1).into())
            })?;
            Ok((failed, tx.read(&x)?, *tx.read(&boxed)?))
        }));
        assert_eq!(seen, (Err(Refused(1)), 5, "old"), "{form:?}");
        assert_eq!((x.into_inner(), boxed.into_inner()), (5, "old"), "{form:?}");
    }
}

#[test]
fn an_error_of_any_type_takes_back_the_transaction_or_the_part_that_fails_with_it() {
    for form in FORMS {
        let x = TCell::new(5);
        let failed = form.run(try_atomically(|tx| {
            let left = tx.update(&x, |x| x - 7)?;
            if left < 0 { tx.fail((left, "too little".to_owned())) } else { Ok(left) }
        }));
        assert_eq!(failed, Err((-2, "too little".to_owned())), "{form:?}");
        let nested = form.run(atomically(|tx| {
            let part = tx.nested(|tx| {
                tx.write(&x, 1)?;
                tx.fail::<(), _>('e')
            })?;
            Ok((part, tx.read(&x)?))
        }));
        assert_eq!((nested, x.into_inner()), ((Err('e'), 5), 5), "{form:?}");
    }
}

// Case H5.
#[test]
fn a_part_that_fails_gives_back_the_writes_it_has_replaced() {
    for form in FORMS {
        let (x, boxed) = (TCell::new(0), TVar::new(0));
        form.run(atomically(|tx| {
            tx.write(&x, 1)?;
            tx.write(&boxed, 1)?;
            tx.commute(&x, |x| x + 1)?;
            let inner = tx.nested(|tx| {
                tx.write(&x, 10)?;
                let kept = tx.nested(|tx| {
                    tx.write(&boxed, 20)?;
                    tx.write(&boxed, 21)?;
                    Ok::<_, Failed<Refused>>(tx.read(&x)?)
                })?;
                assert_eq!((kept, *tx.read(&boxed)?), (Ok(10), 21));
                Err::<(), _>(Refused(2).into())
            })?;
            assert_eq!((inner, tx.read(&x)?, *tx.read(&boxed)?), (Err(Refused(2)), 2, 1));
            Ok(())
        }));
        assert_eq!((x.into_inner(), boxed.into_inner()), (2, 1), "{form:?}");
    }
}

// Case H5.
#[test]
fn a_part_that_fails_gives_back_the_changes_that_it_has_read() {
    for form in FORMS {
        let (x, boxed) = (TCell::new(10), TVar::new(10));
        form.run(atomically(|tx| {
            tx.commute(&x, |x| x + 1)?;
            tx.commute(&boxed, |x| x + 1)?;
            let inner = tx.nested(|tx| {
                // Reading makes the change an ordinary write, which is undone with the part.
                assert_eq!((tx.read(&x)?, *tx.read(&boxed)?), (11, 11));
                tx.commute(&x, |x| x * 100)?;
                tx.commute(&boxed, |x| x * 100)?;
                Err::<(), _>(Refused(0).into())
            })?;
            assert_eq!(inner, Err(Refused(0)));
            tx.commute(&x, |x| x * 2)?;
            tx.commute(&boxed, |x| x * 2)
        }));
        assert_eq!((x.into_inner(), boxed.into_inner()), (22, 22), "{form:?}");
    }
}

// Case H6.
#[test]
fn an_error_undoes_all_writes_and_is_delivered_once() {
    for form in FORMS {
        let (x, boxed, many) = (TCell::new(5), TVar::new("old"), [const { 0 }; 40].map(TCell::new));
        let result = form.run(try_atomically(|tx| {
            for cell in &many {
                tx.update(cell, |n| n + 1)?;
            }
            tx.write(&x, 1)?;
            tx.write(&boxed, "new")?;
            if tx.attempt() == 1 {
                elsewhere(|| set(&many[0], 0));
                tx.commute(&x, |x| x + 1)?;
            }
            Err::<(), _>(Refused(7).into())
        }));
        assert_eq!(result, Err(Refused(7)), "{form:?}");
        assert_eq!((x.into_inner(), boxed.into_inner()), (5, "old"), "{form:?}");
        assert_eq!(many.map(TCell::into_inner), [0; 40], "{form:?}");
    }
}

/// A linked node that counts how many of its kind are alive.
struct Node {
    next: TVar<Option<Arc<Node>>>,
    alive: &'static AtomicUsize,
}

impl Node {
    fn new(alive: &'static AtomicUsize) -> Arc<Self> {
        alive.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self { next: TVar::new(None), alive })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        assert!(self.alive.fetch_sub(1, Ordering::SeqCst) > 0, "dropped once");
    }
}

// Case H7.
#[test]
fn what_was_made_in_an_aborted_branch_is_unreachable_and_dropped_once() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    /// Makes two linked nodes, and uses the variables in them.
    fn link<'t>(tx: &mut Tx<'t, '_>, head: &'t TVar<Option<Arc<Node>>>) -> Result<(), enact_stm::Abort> {
        let first = tx.write(head, Some(Node::new(&ALIVE)))?.as_ref().expect("just written");
        tx.write(&first.next, Some(Node::new(&ALIVE)))?;
        assert!(tx.read(&first.next)?.is_some());
        Ok(())
    }
    for form in FORMS {
        let (head, other) = (TVar::new(None), TCell::new(0));
        let is_empty = form.run(atomically(|tx| {
            tx.or_else(
                |tx| {
                    link(tx, &head)?;
                    tx.retry()
                },
                |tx| tx.read(&head).map(Option::is_none),
            )
        }));
        assert!(is_empty && ALIVE.load(Ordering::SeqCst) == 0, "a branch that retries, {form:?}");
        let failed = form.run(try_atomically(|tx| {
            link(tx, &head)?;
            Err::<(), _>(Refused(1).into())
        }));
        assert!(failed.is_err() && ALIVE.load(Ordering::SeqCst) == 0, "an error, {form:?}");
        panic_of(|| {
            form.run(atomically(|tx| {
                link(tx, &head)?;
                panic!("on purpose");
                #[expect(unreachable_code, reason = "gives the closure its type")]
                Ok(())
            }));
        });
        assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "a panic, {form:?}");
        let attempts = form.run(atomically(|tx| {
            let seen = tx.read(&other)?;
            link(tx, &head)?;
            if tx.attempt() == 1 {
                elsewhere(|| set(&other, seen + 1));
            }
            Ok(tx.attempt())
        }));
        assert!(attempts >= 2 && ALIVE.load(Ordering::SeqCst) == 2, "a conflict, {form:?}");
        drop(head);
        assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "{form:?}");
    }
}

/// A value that may not be negative.
fn checked(value: i64) -> Result<i64, Refused> {
    if value < 0 { Err(Refused(value)) } else { Ok(value) }
}

// Case C6.
#[test]
fn a_checked_write_that_is_rejected_fails_the_transaction_and_writes_nothing() {
    for form in FORMS {
        let (from, to) = (TCell::new(30), TCell::new(0));
        let transfer = |amount| {
            form.run(try_atomically(|tx| {
                tx.update(&to, |n| n + amount)?;
                let left = tx.read(&from)? - amount;
                tx.write(&from, checked(left)?)?;
                Ok(left)
            }))
        };
        assert_eq!((transfer(20), transfer(20)), (Ok(10), Err(Refused(-10))), "{form:?}");
        assert_eq!((from.into_inner(), to.into_inner()), (10, 20), "{form:?}");
    }
}

// Case I12.
#[test]
fn a_thousand_transactions_work_after_a_panic_on_the_same_descriptor() {
    let (x, boxed) = (TCell::new(0_u32), TVar::new(0_u32));
    for form in FORMS {
        set(&x, 0);
        set(&boxed, 0);
        let message = panic_of(|| {
            form.run(atomically(|tx| {
                tx.write(&x, 77)?;
                tx.update(&boxed, |n| n + 77)?;
                assert!(tx.read(&x)? != 77, "on purpose");
                Ok(())
            }));
        });
        assert!(message.contains("on purpose"), "{message}");
        for n in 1..=1000 {
            let seen = form.run(atomically(|tx| Ok((tx.update(&x, |x| x + 1)?, *tx.update(&boxed, |x| x + 1)?))));
            assert_eq!(seen, (n, n), "{form:?}");
        }
    }
}

// Case I12.
#[test]
fn a_task_that_panics_leaves_the_runtime_to_the_others() {
    let (runtime, x) = (tokio(), Arc::new(TCell::new(0)));
    for _ in 0..10 {
        let mine = Arc::clone(&x);
        let panics = runtime.spawn(async move {
            atomically(|tx| {
                tx.write(&*mine, 77)?;
                assert!(tx.read(&*mine)? != 77, "on purpose");
                Ok(())
            })
            .await;
        });
        assert!(runtime.block_on(panics).is_err_and(|error| error.is_panic()));
        let mine = Arc::clone(&x);
        runtime
            .block_on(runtime.spawn(async move { atomically(|tx| tx.update(&*mine, |x| x + 1)).await }))
            .expect("works");
    }
    assert_eq!(snapshot(|tx| tx.read(&*x)), 10);
}

#[test]
fn a_panic_in_a_commuted_function_leaves_nothing_locked() {
    for form in FORMS {
        let (a, b, boxed) = (TCell::new(1), TCell::new(2), TVar::new(3));
        let message = panic_of(|| {
            form.run(atomically(|tx| {
                tx.write(&a, 10)?;
                tx.commute(&boxed, |n| n + 10)?;
                tx.commute(&b, |n| if *n == 2 { panic!("on purpose") } else { *n })
            }));
        });
        assert_eq!(message, "on purpose", "{form:?}");
        assert_eq!(snapshot(|tx| Ok((tx.read(&a)?, tx.read(&b)?, *tx.read(&boxed)?))), (1, 2, 3), "{form:?}");
        elsewhere(|| {
            atomically(|tx| {
                tx.update(&a, |n| n + 100)?;
                tx.update(&b, |n| n + 100)?;
                tx.update(&boxed, |n| n + 100).map(drop)
            })
            .run();
        });
        assert_eq!((a.into_inner(), b.into_inner(), boxed.into_inner()), (101, 102, 103), "{form:?}");
    }
}

#[test]
fn a_commuted_function_that_starts_a_transaction_panics_instead_of_deadlocking() {
    static X: std::sync::LazyLock<TCell<i32>> = std::sync::LazyLock::new(|| TCell::new(0));
    let message = panic_of(|| atomically(|tx| tx.commute(&*X, |n| n + atomically(|tx| tx.read(&*X)).run())).run());
    assert!(message.contains("inside the closure of another one"), "{message}");
    set(&*X, 4);
}

#[test]
fn a_panic_in_a_condition_is_met_by_the_sleeper_and_not_by_the_commit() {
    let cell = TCell::new(0_u32);
    let mut sleeper = Step::new(atomically(|tx| {
        tx.wait_for(&cell, |n| {
            assert!(*n != 1, "on purpose");
            *n == 2
        })
    }));
    let mut other = Step::new(atomically(|tx| tx.wait_for(&cell, |n| *n == 2)));
    assert!(sleeper.poll().is_pending() && other.poll().is_pending());
    set(&cell, 1);
    assert_eq!((sleeper.wakes(), other.wakes()), (1, 0));
    let panic = catch_unwind(AssertUnwindSafe(|| sleeper.poll().is_ready()));
    assert!(panic.is_err(), "the condition panics where it was given");
    set(&cell, 2);
    assert_eq!(other.wakes(), 1, "the other sleepers of the variable are where they were");
    assert!(other.poll().is_ready());
}

#[test]
fn a_panic_of_a_value_that_is_dropped_is_no_harm_to_any_transaction() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "on purpose");
        }
    }
    for form in [Form::Thread, Form::Own] {
        let bomb = TVar::new(Bomb(false));
        let refused = form.run(try_atomically(|tx| {
            tx.write(&bomb, Bomb(true))?;
            Err::<(), _>(Refused(1).into())
        }));
        assert_eq!(refused, Err(Refused(1)), "{form:?}");
        assert!(!form.run(atomically(|tx| Ok(tx.write(&bomb, Bomb(false))?.0))), "{form:?}");
    }
}
