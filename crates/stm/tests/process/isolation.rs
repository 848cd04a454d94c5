//! Isolation and opacity. Cases I1 to I10; random histories are checked elsewhere.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use enact_stm::{Abort, TCell, TVar, Tx, atomically, snapshot};

use crate::forms::{FORMS, Form, elsewhere, set};
use crate::my_turn;

/// Repeats `work` on another thread as long as `meanwhile` runs on this one, and at least once.
fn beside<R>(work: impl Fn(usize) + Sync, meanwhile: impl FnOnce() -> R) -> R {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                work(n);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
        is_over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

// Case I1.
#[test]
fn two_that_have_read_both_do_not_clear_one_each() {
    let _turn = my_turn();
    for form in FORMS {
        for _ in 0..50 {
            let (cells, both_have_read) = ([TCell::new(1), TCell::new(1)], Barrier::new(2));
            thread::scope(|scope| {
                for mine in &cells {
                    let (cells, both_have_read) = (&cells, &both_have_read);
                    scope.spawn(move || {
                        form.run(atomically(|tx| {
                            let sum = tx.read(&cells[0])? + tx.read(&cells[1])?;
                            if tx.attempt() == 1 {
                                both_have_read.wait();
                            }
                            if sum == 2 {
                                tx.write(mine, 0)?;
                            }
                            Ok(())
                        }));
                    });
                }
            });
            assert_eq!(cells.map(TCell::into_inner).iter().sum::<i32>(), 1, "{form:?}");
        }
    }
}

// Case I2.
#[test]
fn an_invariant_of_two_variables_is_never_seen_broken_in_between() {
    let _turn = my_turn();
    for form in FORMS {
        let (low, high, boxed) = (TCell::new(1), TCell::new(2), TVar::new(2));
        let raise = || {
            atomically(|tx| {
                tx.update(&high, |n| n + 10)?;
                tx.update(&boxed, |n| n + 10)?;
                tx.update(&low, |n| n + 10)
            })
            .run();
        };
        form.run(atomically(|tx| {
            let low = tx.read(&low)?;
            if tx.attempt() == 1 {
                elsewhere(raise);
            }
            // Inside the closure: an attempt that will fail must not see it either.
            assert_eq!((tx.read(&high)?, *tx.read(&boxed)?), (low + 1, low + 1), "{form:?}");
            Ok(())
        }));
        beside(
            |_| raise(),
            || {
                for _ in 0..1_000 {
                    form.run(atomically(|tx| {
                        let seen = (tx.read(&low)?, tx.read(&high)?, *tx.read(&boxed)?);
                        assert!(seen.0 + 1 == seen.1 && seen.1 == seen.2, "{form:?}: {seen:?}");
                        Ok(())
                    }));
                }
            },
        );
    }
}

// Case I3.
#[test]
fn no_division_by_zero_and_no_wild_index_in_an_attempt_that_will_fail() {
    let _turn = my_turn();
    for form in FORMS {
        let (a, b) = (TCell::new(1), TCell::new(2));
        let (index, list) = (TCell::new(9_usize), TVar::new(vec![0; 10]));
        let quotient = form.run(atomically(|tx| {
            let first = tx.read(&a)?;
            if tx.attempt() == 1 {
                // From now on the old `a` and the new `b` are equal.
                elsewhere(|| atomically(|tx| tx.write(&b, 1).and(tx.write(&a, 0))).run());
            }
            Ok(10 / (tx.read(&b)? - first))
        }));
        assert_eq!(quotient, 10, "{form:?}");
        let item = form.run(atomically(|tx| {
            let index_seen = tx.read(&index)?;
            if tx.attempt() == 1 {
                elsewhere(|| atomically(|tx| tx.write(&index, 0).and(tx.write(&list, vec![7]).map(drop))).run());
            }
            Ok(tx.read(&list)?[index_seen])
        }));
        assert_eq!(item, 7, "{form:?}");
    }
}

/// A tree whose links are variables.
struct Node {
    key: u32,
    left: Link,
    right: Link,
}

type Link = TVar<Option<Arc<Node>>>;

fn node(key: u32, left: Option<Arc<Node>>, right: Option<Arc<Node>>) -> Option<Arc<Node>> {
    Some(Arc::new(Node { key, left: TVar::new(left), right: TVar::new(right) }))
}

/// The depth at which `key` lies.
fn depth<'t>(
    tx: &mut Tx<'t, '_>,
    root: &'t Link,
    key: u32,
    mut on_the_way: impl FnMut(u32),
) -> Result<Option<u32>, Abort> {
    let mut link = root;
    for depth in 0..10 {
        let Some(node) = tx.read(link)? else { return Ok(None) };
        on_the_way(depth);
        link = match key.cmp(&node.key) {
            std::cmp::Ordering::Less => &node.left,
            std::cmp::Ordering::Equal => return Ok(Some(depth)),
            std::cmp::Ordering::Greater => &node.right,
        };
    }
    panic!("the look-up goes in circles")
}

/// Rotates the tree at its root, to the right if its left child has the smaller key 1, otherwise back.
fn rotate<'t>(tx: &mut Tx<'t, '_>, root: &'t Link) -> Result<(), Abort> {
    let top = tx.read(root)?.as_ref().expect("the tree is not empty");
    let (down, up) = if top.key == 3 { (&top.left, true) } else { (&top.right, false) };
    let child = tx.read(down)?.as_ref().expect("the tree has two inner nodes");
    let inner = if up { &child.right } else { &child.left };
    let moved = tx.read(inner)?.clone();
    tx.write(down, moved)?;
    tx.write(inner, Some(Arc::clone(top)))?;
    tx.write(root, Some(Arc::clone(child)))?;
    Ok(())
}

// Case I4.
#[test]
fn a_look_up_beside_rotations_ends_and_finds() {
    let _turn = my_turn();
    for form in FORMS {
        let one = node(1, node(0, None, None), node(2, None, None));
        let root = TVar::new(node(3, one, node(4, None, None)));
        let rotate_once = || atomically(|tx| rotate(tx, &root)).run();
        let found = form.run(atomically(|tx| {
            let is_first = tx.attempt() == 1;
            // A rotation at every step of the look-up.
            depth(tx, &root, 2, |_| {
                if is_first {
                    elsewhere(rotate_once);
                }
            })
        }));
        assert!(found.is_some(), "{form:?}");
        beside(
            |_| rotate_once(),
            || {
                for n in 0..1_000 {
                    let key = n % 5;
                    let found = form.run(atomically(|tx| depth(tx, &root, key, |_| {})));
                    assert!(found.is_some_and(|depth| depth <= 2), "{form:?}: {key} at {found:?}");
                }
            },
        );
    }
}

// Case I5.
#[test]
fn an_inner_variable_is_never_seen_with_a_value_that_was_not_committed() {
    let _turn = my_turn();
    for form in FORMS {
        let outer = TVar::new(Arc::new(TVar::new(0)));
        let replace = |n: usize| {
            let number = i32::try_from(n % 1000).expect("small");
            atomically(|tx| {
                let inner = tx.write(&outer, Arc::new(TVar::new(-1)))?;
                tx.write(&**inner, -2)?;
                tx.write(&**inner, number)?;
                Ok(())
            })
            .run();
            let undone = enact_stm::try_atomically(|tx| {
                let inner = tx.read(&outer)?;
                tx.write(&**inner, -3)?;
                Err::<(), _>(enact_stm::Failed::Error(()))
            });
            assert_eq!(undone.run(), Err(()));
        };
        form.run(atomically(|tx| {
            let inner = tx.read(&outer)?;
            if tx.attempt() == 1 {
                elsewhere(|| replace(1));
            }
            assert!(*tx.read(&**inner)? >= 0, "{form:?}");
            Ok(())
        }));
        beside(replace, || {
            for _ in 0..1_000 {
                let seen = form.run(atomically(|tx| {
                    let inner = tx.read(&outer)?;
                    let seen = *tx.read(&**inner)?;
                    assert!(seen >= 0, "{form:?}");
                    Ok(seen)
                }));
                assert!(seen >= 0, "{form:?}");
                let seen = snapshot(|tx| tx.read(&outer).and_then(|inner| tx.read(&**inner)).copied());
                assert!(seen >= 0, "in a snapshot");
            }
        });
    }
}

// Case I6.
#[test]
fn a_report_on_a_closed_batch_is_final() {
    let _turn = my_turn();
    for form in FORMS {
        for reports_from_a_snapshot in [false, true] {
            // Receipts go into the open batch; the report on a closed one must hold for ever.
            let (batch, receipts) = (TCell::new(0_usize), [TCell::new(0), TCell::new(0)]);
            let mut report = None;
            let reported = std::sync::Mutex::new(&mut report);
            form.run(atomically(|tx| {
                let open = tx.read(&batch)?;
                tx.update(&receipts[open], |sum| sum + 100)?;
                if tx.attempt() == 1 {
                    elsewhere(|| {
                        set(&batch, 1);
                        let seen = if reports_from_a_snapshot {
                            snapshot(|tx| Ok((tx.read(&batch)?, tx.read(&receipts[0])?)))
                        } else {
                            atomically(|tx| Ok((tx.read(&batch)?, tx.read(&receipts[0])?))).run()
                        };
                        **reported.lock().expect("not poisoned") = Some(seen);
                    });
                }
                Ok(())
            }));
            assert_eq!(report, Some((1, 0)), "{form:?}");
            assert_eq!(receipts.map(TCell::into_inner), [0, 100], "the receipt has gone into the open batch, {form:?}");
        }
    }
}

// Case I7.
#[test]
fn a_transaction_sees_whatever_was_committed_before_it_began() {
    let _turn = my_turn();
    for form in [Form::Thread, Form::Own] {
        let (cell, boxed) = (TCell::new(0), TVar::new(0));
        let (says, said) = mpsc::sync_channel(0);
        thread::scope(|scope| {
            let (cell, boxed) = (&cell, &boxed);
            scope.spawn(move || {
                for n in 1..=300 {
                    form.run(atomically(|tx| tx.write(cell, n).and(tx.write(boxed, n).map(drop))));
                    says.send(n).expect("the reader listens");
                }
            });
            for committed in said {
                let transaction = form.run(atomically(|tx| Ok((tx.read(cell)?, *tx.read(boxed)?))));
                let past = snapshot(|tx| Ok((tx.read(cell)?, *tx.read(boxed)?)));
                for seen in [transaction, past] {
                    assert!(seen.0 == seen.1 && seen.0 >= committed, "{seen:?} after {committed}");
                }
            }
        });
    }
}

// Case I8.
#[test]
fn all_snapshots_agree_on_the_order_of_independent_writers() {
    let _turn = my_turn();
    let (x, y) = (TCell::new(0_u32), TVar::new(0_u32));
    let look = || {
        let mut seen: Vec<(u32, u32)> = Vec::new();
        // Until both writers have got somewhere.
        while seen.len() < 500 || seen.last().is_some_and(|(x, y)| *x < seen[0].0 + 10 || *y < seen[0].1 + 10) {
            seen.push(if seen.len().is_multiple_of(2) {
                snapshot(|tx| Ok((tx.read(&x)?, *tx.read(&y)?)))
            } else {
                atomically(|tx| Ok((tx.read(&x)?, *tx.read(&y)?))).run()
            });
        }
        seen
    };
    let two_look = || {
        thread::scope(|scope| {
            let other = scope.spawn(look);
            let mut seen = look();
            seen.extend(other.join().expect("the reader ends"));
            seen
        })
    };
    let raise_x = |_| atomically(|tx| tx.update(&x, |n| n + 1).map(drop)).run();
    let raise_y = |_| atomically(|tx| tx.update(&y, |n| n + 1).map(drop)).run();
    let mut seen = beside(raise_x, || beside(raise_y, two_look));
    seen.sort_unstable();
    assert!(seen.is_sorted_by_key(|(_, y)| *y), "two readers saw two writes in opposite orders");
}

// Case I9.
#[test]
fn a_sum_of_a_thousand_beside_a_writer_is_exact_and_takes_two_attempts_at_most() {
    let _turn = my_turn();
    let accounts: Vec<_> = (0..1000).map(|_| TCell::new(100_i64)).collect();
    let transfer = |n: usize| {
        let (from, to) = (&accounts[n * 7 % 1000], &accounts[n * 13 % 1000]);
        atomically(|tx| {
            tx.update(from, |sum| sum - 1)?;
            tx.update(to, |sum| sum + 1)
        })
        .run();
    };
    for form in FORMS {
        beside(transfer, || {
            for _ in 0..100 {
                let (sum, attempts) = form.run(atomically(|tx| {
                    let sum: i64 = accounts.iter().map(|account| tx.read(account)).sum::<Result<_, _>>()?;
                    assert_eq!(sum, 100_000, "{form:?}, attempt {}", tx.attempt());
                    Ok((sum, tx.attempt()))
                }));
                assert!(sum == 100_000 && attempts <= 2, "{form:?}: {sum} in {attempts} attempts");
                // By its type, the closure of a snapshot runs once.
                let sum: i64 = snapshot(|tx| accounts.iter().map(|account| tx.read(account)).sum());
                assert_eq!(sum, 100_000, "in a snapshot");
            }
        });
    }
}

// Case I10.
#[test]
fn a_value_that_has_changed_and_changed_back_is_a_conflict() {
    let _turn = my_turn();
    for form in FORMS {
        for is_boxed in [false, true] {
            let (cell, boxed, copy) = (TCell::new(1), TVar::new(1), TCell::new(0));
            let attempts = form.run(atomically(|tx| {
                let seen = if is_boxed { *tx.read(&boxed)? } else { tx.read(&cell)? };
                if tx.attempt() == 1 {
                    elsewhere(|| {
                        for value in [2, 1] {
                            if is_boxed { set(&boxed, value) } else { set(&cell, value) }
                        }
                    });
                }
                tx.write(&copy, seen)?;
                Ok(tx.attempt())
            }));
            assert!(attempts >= 2, "{form:?}: validated by version, not by value");
            assert_eq!(copy.into_inner(), 1);
        }
    }
}
