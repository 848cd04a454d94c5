//! Waiting: `retry`, `or_else`, deadlines, conditions, wake-ups, cancelled waiters. Cases H1 to H12.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use enact_stm::{Abort, Expired, TCell, TVar, Tx, atomically};

use crate::executor::{Step, Tasks};
use crate::forms::{FORMS, elsewhere, panic_of, set};

const FAR: Duration = Duration::from_secs(3600);

/// Waits until the cell is not 0, and gives its value.
fn non_zero<'t>(tx: &mut Tx<'t, '_>, cell: &'t TCell<u32>) -> Result<u32, Abort> {
    match tx.read(cell)? {
        0 => tx.retry(),
        n => Ok(n),
    }
}

// Case H1.
#[test]
fn a_branch_that_retries_has_written_nothing() {
    for form in FORMS {
        let (x, boxed) = (TCell::new(7), TVar::new("old"));
        form.run(atomically(|tx| {
            tx.or_else(
                |tx| {
                    tx.write(&x, 1)?;
                    tx.write(&boxed, "new")?;
                    tx.retry()
                },
                |_| Ok(()),
            )
        }));
        assert_eq!((x.into_inner(), boxed.into_inner()), (7, "old"), "{form:?}");
    }
}

// Case H2.
#[test]
fn or_else_waits_for_what_both_branches_have_read() {
    for form in FORMS {
        for changed in 0..2 {
            let cells = [TCell::new(0), TCell::new(0)];
            let (asks, asked) = mpsc::channel();
            thread::scope(|scope| {
                let (cells, asks) = (&cells, asks);
                let waiter = scope.spawn(move || {
                    form.run(atomically(|tx| {
                        tx.or_else(
                            |tx| non_zero(tx, &cells[0]),
                            |tx| {
                                let second = tx.read(&cells[1])?;
                                asks.send(()).expect("the test waits for it");
                                if second == 0 { tx.retry() } else { Ok(10 * second) }
                            },
                        )
                    }))
                });
                asked.recv().expect("the waiter has read both");
                set(&cells[changed], 3);
                assert_eq!(waiter.join().expect("the waiter wakes"), [3, 30][changed], "{form:?}");
            });
        }
    }
}

// Case H2.
#[test]
fn a_sleeper_on_two_branches_is_woken_once_by_either() {
    for changed in 0..2 {
        let cells = [TCell::new(0), TCell::new(0)];
        let mut waiter =
            Step::new(atomically(|tx| tx.or_else(|tx| non_zero(tx, &cells[0]), |tx| non_zero(tx, &cells[1]))));
        assert!(waiter.poll().is_pending());
        set(&cells[changed], 1);
        set(&cells[1 - changed], 2);
        assert_eq!(waiter.wakes(), 1, "the second change finds nobody asleep");
        assert!(waiter.poll().is_ready());
        assert!(!waiter.is_registered());
    }
}

// Case H3.
#[test]
fn the_second_branch_sees_what_was_there_before_the_first() {
    for form in FORMS {
        let x = TCell::new(0);
        let seen = form.run(atomically(|tx| {
            tx.write(&x, 1)?;
            tx.or_else(
                |tx| {
                    tx.write(&x, 2)?;
                    tx.retry()
                },
                |tx| tx.read(&x),
            )
        }));
        assert_eq!((seen, x.into_inner()), (1, 1), "{form:?}");
    }
}

// Case H4.
#[test]
fn only_the_surviving_branch_of_nested_choices_has_written() {
    // Each of the branches a, b, c, d writes its letter into its own place and into a common one.
    const LETTERS: [char; 4] = ['a', 'b', 'c', 'd'];
    fn branch<'t>(
        tx: &mut Tx<'t, '_>,
        places: &'t [TVar<char>; 4],
        common: &'t TCell<char>,
        n: usize,
        survivor: usize,
    ) -> Result<usize, Abort> {
        tx.write(&places[n], LETTERS[n])?;
        tx.write(common, LETTERS[n])?;
        if n == survivor { Ok(n) } else { tx.retry() }
    }
    for form in FORMS {
        for (survivor, letter) in LETTERS.into_iter().enumerate() {
            for is_deep in [false, true] {
                let (places, common) = ([const { '-' }; 4].map(TVar::new), TCell::new('-'));
                let got = form.run(atomically(|tx| {
                    tx.write(&common, '+')?;
                    if is_deep {
                        tx.or_else(
                            |tx| {
                                tx.or_else(
                                    |tx| branch(tx, &places, &common, 0, survivor),
                                    |tx| branch(tx, &places, &common, 1, survivor),
                                )
                            },
                            |tx| {
                                tx.or_else(
                                    |tx| branch(tx, &places, &common, 2, survivor),
                                    |tx| branch(tx, &places, &common, 3, survivor),
                                )
                            },
                        )
                    } else {
                        tx.or_else(
                            |tx| branch(tx, &places, &common, 0, survivor),
                            |tx| {
                                tx.or_else(
                                    |tx| branch(tx, &places, &common, 1, survivor),
                                    |tx| {
                                        tx.or_else(
                                            |tx| branch(tx, &places, &common, 2, survivor),
                                            |tx| branch(tx, &places, &common, 3, survivor),
                                        )
                                    },
                                )
                            },
                        )
                    }
                }));
                let expected: [char; 4] = std::array::from_fn(|n| if n == survivor { letter } else { '-' });
                assert_eq!(got, survivor, "{form:?}");
                assert_eq!(places.map(TVar::into_inner), expected, "{form:?}");
                assert_eq!(common.into_inner(), letter, "{form:?}");
            }
        }
    }
}

// Case H8.
#[test]
fn retry_with_an_empty_read_set_panics_at_once() {
    for form in FORMS {
        let x = TCell::new(0);
        let message = panic_of(|| form.run(atomically(|tx| -> Result<(), Abort> { tx.retry() })));
        assert!(message.contains("sleep for ever"), "{form:?}: {message}");
        let message = panic_of(|| {
            form.run(atomically(|tx| {
                tx.write(&x, 1)?;
                tx.retry::<()>()
            }));
        });
        assert!(message.contains("sleep for ever"), "a write is no read, {form:?}: {message}");
        assert_eq!(form.run(atomically(|tx| tx.read(&x))), 0);
    }
}

/// The turn goes round among three threads, which wait for theirs.
fn take_turn<'t>(tx: &mut Tx<'t, '_>, turn: &'t TCell<u32>, me: u32) -> Result<(), Abort> {
    if tx.read(turn)? % 3 != me {
        return tx.retry();
    }
    tx.update(turn, |turn| turn + 1).map(drop)
}

const ROUNDS: u32 = 50_000;

// Case H9.
#[test]
fn a_hand_off_among_three_threads_terminates() {
    let turn = TCell::new(0);
    thread::scope(|scope| {
        for me in 0..3 {
            let turn = &turn;
            scope.spawn(move || {
                for _ in (me..ROUNDS).step_by(3) {
                    atomically(|tx| take_turn(tx, turn, me)).run();
                }
            });
        }
    });
    assert_eq!(turn.into_inner(), ROUNDS);
}

// Case H9.
#[test]
fn a_hand_off_among_three_tasks_terminates() {
    let turn = Arc::new(TCell::new(0));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let tasks: Vec<_> = (0..3)
        .map(|me| {
            let turn = Arc::clone(&turn);
            runtime.spawn(async move {
                for _ in (me..ROUNDS).step_by(3) {
                    atomically(|tx| take_turn(tx, &turn, me)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).expect("the task ends");
    }
    let seen = atomically(|tx| tx.read(&*turn)).run();
    assert_eq!(seen, ROUNDS);
}

// Case H9.
#[test]
fn a_hand_off_among_three_tasks_wakes_only_tasks_that_have_something_to_do() {
    let turn = TCell::new(0);
    let mut tasks = Tasks::default();
    for me in 0..3 {
        let turn = &turn;
        tasks.spawn(async move {
            for _ in (me..300).step_by(3) {
                atomically(|tx| tx.wait_for(turn, move |turn| turn % 3 == me).and_then(|n| tx.write(turn, n + 1)))
                    .await;
            }
        });
    }
    let polls = tasks.run_woken().len();
    assert_eq!(tasks.count(), 0);
    assert!(polls <= 303, "one poll a turn, and the first of each: {polls}");
    drop(tasks);
    assert_eq!(turn.into_inner(), 300);
}

// Case H10.
#[test]
fn a_storm_lets_one_of_a_thousand_pass_and_wakes_in_order() {
    const WAITERS: usize = 1000;
    let (units, passed) = (TCell::new(0_u32), AtomicUsize::new(0));
    let mut tasks = Tasks::default();
    for _ in 0..WAITERS {
        tasks.spawn(async {
            atomically(|tx| {
                let units_left = non_zero(tx, &units)?;
                tx.write(&units, units_left - 1)
            })
            .await;
            passed.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(tasks.run_woken().len(), WAITERS);
    for round in 1..=5 {
        set(&units, 1);
        let woken = tasks.run_woken();
        let first_round_of_wakes = &woken[..WAITERS + 1 - round];
        assert_eq!(passed.load(Ordering::Relaxed), round, "exactly one passes");
        assert_eq!(tasks.count(), WAITERS - round, "the others wait again");
        assert!(first_round_of_wakes.is_sorted(), "in the order in which they have registered");
    }
}

// Case H10.
#[test]
fn every_unit_wakes_somebody_until_all_have_passed() {
    let units = Arc::new(TCell::new(0_u32));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let tasks: Vec<_> = (0..1000)
        .map(|_| {
            let units = Arc::clone(&units);
            runtime.spawn(async move {
                atomically(|tx| {
                    let units_left = non_zero(tx, &units)?;
                    tx.write(&*units, units_left - 1)
                })
                .await
            })
        })
        .collect();
    for _ in 0..1000 {
        atomically(|tx| tx.update(&*units, |n| n + 1)).run();
    }
    for task in tasks {
        runtime.block_on(task).expect("every waiter passes");
    }
    assert_eq!(atomically(|tx| tx.read(&*units)).run(), 0);
}

// Case H11.
#[test]
fn a_cancelled_waiter_is_removed_and_not_woken() {
    let cells: [TCell<u32>; 3] = std::array::from_fn(|_| TCell::new(0));
    let mut waiter = Step::new(atomically(|tx| {
        cells.iter().try_for_each(|cell| tx.read(cell).map(drop)).and_then(|()| tx.retry::<()>())
    }));
    assert!(waiter.poll().is_pending());
    assert!(waiter.is_registered());
    waiter.cancel();
    assert!(!waiter.is_registered(), "nothing has kept its waker");
    for cell in &cells {
        set(cell, 1);
    }
    assert_eq!(waiter.wakes(), 0);
}

// Case H11.
#[test]
fn a_million_cancelled_waiters_leave_nothing() {
    let (cell, limit) = (TCell::new(0_u32), Arc::new(0));
    for n in 0..1_000_000 {
        let mut waiter = Step::new(atomically(|tx| {
            let limit = Arc::clone(&limit);
            tx.wait_for(&cell, move |value| *value > *limit)
        }));
        assert!(waiter.poll().is_pending());
        assert_eq!((waiter.is_registered(), Arc::strong_count(&limit)), (true, 2), "waiter {n}");
        waiter.cancel();
        assert_eq!((waiter.is_registered(), Arc::strong_count(&limit)), (false, 1), "waiter {n}");
    }
}

// Case H11.
#[test]
fn a_cancelled_waiter_with_a_deadline_leaves_no_timer() {
    let cell = TCell::new(0);
    let deadline = Instant::now() + FAR;
    let waiting = || {
        Step::new(atomically(|tx| {
            tx.read(&cell)?;
            tx.retry_until(deadline)
        }))
    };
    let mut cancelled = waiting();
    assert!(cancelled.poll().is_pending());
    cancelled.cancel();
    assert!(!cancelled.is_registered(), "nobody may wake it at its deadline");
    let mut woken = waiting();
    assert!(woken.poll().is_pending());
    set(&cell, 1);
    assert_eq!(woken.wakes(), 1);
    woken.cancel();
    assert!(!woken.is_registered());
}

// Case H11.
#[test]
fn a_condition_that_is_dropped_with_its_waiter_may_run_transactions() {
    struct Sets(Arc<TCell<u32>>);
    impl Sets {
        fn is_met(&self, n: u32) -> bool {
            n > 0 && Arc::strong_count(&self.0) > 0
        }
    }
    impl Drop for Sets {
        fn drop(&mut self) {
            set(&*self.0, 7);
        }
    }
    let cell = Arc::new(TCell::new(0));
    let mut waiter = Step::new(atomically(|tx| {
        let sets = Sets(Arc::clone(&cell));
        tx.wait_for(&*cell, move |n| sets.is_met(*n))
    }));
    assert!(waiter.poll().is_pending());
    waiter.cancel();
    assert_eq!(atomically(|tx| tx.read(&*cell)).run(), 7);
}

// Case H12.
#[test]
fn a_variable_that_was_read_and_then_written_still_wakes() {
    for form in FORMS {
        for is_boxed in [false, true] {
            let (x, boxed) = (TCell::new(0), TVar::new(0));
            let (asks, asked) = mpsc::channel();
            thread::scope(|scope| {
                let (x, boxed) = (&x, &boxed);
                let waiter = scope.spawn(move || {
                    form.run(atomically(|tx| {
                        let seen = tx.update(x, |x| x + 100)? + *tx.update(boxed, |x| x + 100)?;
                        asks.send(()).expect("the test waits for it");
                        if seen == 200 { tx.retry() } else { Ok(seen) }
                    }))
                });
                asked.recv().expect("the waiter has read");
                if is_boxed {
                    set(boxed, 1);
                } else {
                    set(x, 1);
                }
                assert_eq!(waiter.join().expect("the waiter wakes"), 201, "{form:?}");
            });
            assert_eq!(x.into_inner() + boxed.into_inner(), 201, "{form:?}");
        }
    }
}

#[test]
fn a_sleeper_that_has_moved_to_another_task_is_woken_there() {
    let (cell, deadline) = (TCell::new(0), Instant::now() + Duration::from_millis(20));
    let mut waiting = atomically(|tx| {
        tx.read(&cell)?;
        tx.retry_until(deadline)
    });
    assert!(Step::new(&mut waiting).poll().is_pending());
    assert_eq!(crate::executor::block_on(waiting), Expired, "the first task is gone");
}

#[test]
fn a_deadline_ends_the_wait_and_the_run_after_it_gets_expired() {
    for form in FORMS {
        let (cell, deadline) = (TCell::new(0), Instant::now() + Duration::from_millis(2));
        let (attempts, expired) = form.run(atomically(|tx| {
            if tx.read(&cell)? == 0 {
                let expired = tx.retry_until(deadline)?;
                return Ok((tx.attempt(), Some(expired)));
            }
            Ok((tx.attempt(), None))
        }));
        assert_eq!(expired, Some(Expired), "{form:?}");
        assert!(attempts >= 1 && Instant::now() >= deadline, "{form:?}: not before the deadline");
    }
}

#[test]
fn a_deadline_alone_is_a_reason_to_wait() {
    for form in FORMS {
        let deadline = Instant::now() + Duration::from_millis(2);
        assert_eq!(form.run(atomically(|tx| tx.retry_until(deadline))), Expired, "{form:?}");
    }
}

#[test]
fn a_change_ends_a_wait_with_a_deadline_before_it() {
    for form in FORMS {
        let (cell, deadline) = (TCell::new(0), Instant::now() + FAR);
        let (asks, asked) = mpsc::channel();
        thread::scope(|scope| {
            let cell = &cell;
            let waiter = scope.spawn(move || {
                form.run(atomically(|tx| {
                    let seen = tx.read(cell)?;
                    asks.send(()).expect("the test waits for it");
                    if seen == 0 { tx.retry_until(deadline).map(|Expired| 0) } else { Ok(seen) }
                }))
            });
            asked.recv().expect("the waiter has read");
            set(cell, 8);
            assert_eq!(waiter.join().expect("the waiter wakes"), 8, "{form:?}");
        });
    }
}

#[test]
fn the_earliest_of_several_deadlines_counts() {
    for form in FORMS {
        let now = Instant::now();
        let (early, late) = (now + Duration::from_millis(2), now + FAR);
        for (first, second, expected) in [(early, late, 1), (late, early, 2)] {
            let got = form.run(atomically(|tx| {
                tx.or_else(|tx| tx.retry_until(first).map(|_| 1), |tx| tx.retry_until(second).map(|_| 2))
            }));
            assert_eq!(got, expected, "{form:?}");
        }
    }
}

#[test]
fn a_condition_keeps_the_sleeper_asleep_until_it_is_met() {
    let (cell, boxed) = (TCell::new(0_u32), TVar::new(String::new()));
    let mut on_cell = Step::new(atomically(|tx| tx.wait_for(&cell, |n| *n >= 3)));
    let mut on_boxed = Step::new(atomically(|tx| tx.wait_for(&boxed, |s| s.len() >= 3).cloned()));
    assert!(on_cell.poll().is_pending() && on_boxed.poll().is_pending());
    for n in 1..=3 {
        assert_eq!((on_cell.wakes(), on_boxed.wakes()), (0, 0), "before {n}");
        set(&cell, n);
        set(&boxed, ".".repeat(n as usize));
    }
    assert_eq!((on_cell.wakes(), on_boxed.wakes()), (1, 1));
    assert_eq!(on_cell.poll(), Poll::Ready(3));
    assert_eq!(on_boxed.poll(), Poll::Ready("...".to_owned()));
}

#[test]
fn a_condition_does_not_hide_what_another_branch_waits_for() {
    let cell = TCell::new(0_u32);
    let mut waiter =
        Step::new(atomically(|tx| tx.or_else(|tx| tx.wait_for(&cell, |n| *n > 100), |tx| non_zero(tx, &cell))));
    assert!(waiter.poll().is_pending());
    set(&cell, 1);
    assert_eq!(waiter.wakes(), 1, "the second branch has no condition");
    assert_eq!(waiter.poll(), Poll::Ready(1));
}

#[test]
fn a_condition_on_a_commuted_variable_counts_the_own_change() {
    let (cell, boxed) = (TCell::new(0_u32), TVar::new(0_u32));
    let mut on_cell = Step::new(atomically(|tx| {
        tx.commute(&cell, |n| n + 1)?;
        tx.wait_for(&cell, |n| *n == 2)
    }));
    let mut on_boxed = Step::new(atomically(|tx| {
        tx.commute(&boxed, |n| n + 1)?;
        tx.wait_for(&boxed, |n| *n == 2).copied()
    }));
    assert!(on_cell.poll().is_pending() && on_boxed.poll().is_pending());
    set(&cell, 1);
    set(&boxed, 1);
    assert_eq!((on_cell.wakes(), on_boxed.wakes()), (1, 1), "together with the own change the condition is met");
    assert_eq!((on_cell.poll(), on_boxed.poll()), (Poll::Ready(2), Poll::Ready(2)));
}

#[test]
fn a_change_between_the_read_and_the_sleep_is_not_lost() {
    for form in FORMS {
        let (cell, boxed) = (TCell::new(0_u32), TVar::new(0_u32));
        let got = form.run(atomically(|tx| {
            let seen = tx.read(&cell)? + *tx.read(&boxed)?;
            if tx.attempt() == 1 {
                elsewhere(|| set(&cell, 1));
            } else if tx.attempt() == 2 {
                elsewhere(|| set(&boxed, 1));
            }
            if seen < 2 { tx.retry() } else { Ok((seen, tx.attempt())) }
        }));
        assert_eq!(got, (2, 3), "{form:?}");
    }
}
