//! What comes from Clojure's refs: functions that commute, slow readers, `ensure`, joined transactions. Cases C1 to C8;
//! C6 is with the errors.
use std::thread;

use enact_stm::{Abort, Failed, TCell, TVar, Tx, Variable, atomically, snapshot, try_atomically};

use crate::forms::{FORMS, Form, elsewhere, set};
use crate::my_turn;

// Case C1.
#[test]
fn every_increment_that_commutes_counts() {
    let _turn = my_turn();
    for form in FORMS {
        let (cell, boxed) = (TCell::new(0), TVar::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        form.run(atomically(|tx| {
                            tx.commute(&cell, |n| n + 1)?;
                            tx.commute(&boxed, |n| n + 1)
                        }));
                    }
                });
            }
        });
        assert_eq!((cell.into_inner(), boxed.into_inner()), (4000, 4000), "{form:?}");
    }
}

/// The number of the attempt that commits `work` on a variable that another transaction changes in the first one.
fn attempts<V: Variable<Value = i32> + Sync>(
    form: Form,
    variable: &V,
    work: impl for<'t> Fn(&mut Tx<'t, '_>, &'t V) -> Result<(), Abort>,
) -> u32 {
    form.run(atomically(|tx| {
        work(tx, variable)?;
        if tx.attempt() == 1 {
            elsewhere(|| atomically(|tx| tx.commute(variable, |n| n + 100)).run());
        }
        Ok(tx.attempt())
    }))
}

// Case C1.
#[test]
fn a_function_that_commutes_is_applied_to_what_the_commit_finds() {
    let _turn = my_turn();
    for form in FORMS {
        let (cell, boxed) = (TCell::new(1), TVar::new(1));
        attempts(form, &cell, |tx, cell| tx.commute(cell, |n| n * 2).and(tx.commute(cell, |n| n + 1)));
        attempts(form, &boxed, |tx, boxed| tx.commute(boxed, |n| n * 2).and(tx.commute(boxed, |n| n + 1)));
        assert_eq!(
            (cell.into_inner(), boxed.into_inner()),
            (203, 203),
            "in the order in which they were given, {form:?}"
        );
    }
}

// Case C2.
#[test]
fn a_read_after_a_commute_includes_it_and_is_validated() {
    let _turn = my_turn();
    for form in FORMS {
        let (cell, boxed) = (TCell::new(1), TVar::new(1));
        let on_cell = attempts(form, &cell, |tx, cell| {
            tx.commute(cell, |n| n + 1)?;
            assert!([2, 102].contains(&tx.read(cell)?));
            tx.commute(cell, |n| n * 2)
        });
        let on_boxed = attempts(form, &boxed, |tx, boxed| {
            tx.commute(boxed, |n| n + 1)?;
            assert!([2, 102].contains(tx.read(boxed)?));
            tx.commute(boxed, |n| n * 2)
        });
        assert!(on_cell >= 2 && on_boxed >= 2, "a change of the other makes it run again, {form:?}");
        assert_eq!((cell.into_inner(), boxed.into_inner()), (204, 204), "{form:?}");
    }
}

// Case C3.
#[test]
fn a_write_after_a_commute_is_allowed_and_replaces_it() {
    let _turn = my_turn();
    for form in FORMS {
        let (cell, boxed) = (TCell::new(1), TVar::new(1));
        attempts(form, &cell, |tx, cell| {
            tx.commute(cell, |n| n + 1)?;
            tx.write(cell, 50)?;
            tx.commute(cell, |n| n + 2)
        });
        attempts(form, &boxed, |tx, boxed| {
            tx.commute(boxed, |n| n + 1)?;
            tx.write(boxed, 50)?;
            tx.commute(boxed, |n| n + 2)
        });
        assert_eq!((cell.into_inner(), boxed.into_inner()), (52, 52), "{form:?}");
    }
}

// Case C3.
#[test]
fn an_update_after_a_commute_is_allowed_and_sees_it() {
    let _turn = my_turn();
    for form in FORMS {
        let (cell, boxed) = (TCell::new(1), TVar::new(1));
        attempts(form, &cell, |tx, cell| tx.commute(cell, |n| n + 1).and(tx.update(cell, |n| n * 10).map(drop)));
        attempts(form, &boxed, |tx, boxed| tx.commute(boxed, |n| n + 1).and(tx.update(boxed, |n| n * 10).map(drop)));
        assert_eq!((cell.into_inner(), boxed.into_inner()), (1020, 1020), "{form:?}");
    }
}

// Case C4.
#[test]
fn a_slow_reader_beside_five_hundred_commits_takes_two_attempts() {
    let _turn = my_turn();
    for form in FORMS {
        let (cells, boxed) = ([TCell::new(0), TCell::new(0)], TVar::new(0));
        let writes = || {
            for _ in 0..500 {
                atomically(|tx| {
                    cells.iter().try_for_each(|cell| tx.update(cell, |n| n + 1).map(drop))?;
                    tx.update(&boxed, |n| n + 1).map(drop)
                })
                .run();
            }
        };
        let (seen, attempts) = form.run(atomically(|tx| {
            let first = tx.read(&cells[0])?;
            // Every attempt is that slow.
            elsewhere(writes);
            Ok(([first, tx.read(&cells[1])?, *tx.read(&boxed)?], tx.attempt()))
        }));
        assert_eq!((seen, attempts), ([500; 3], 2), "the second one reads the past, as of its beginning, {form:?}");
        let seen = snapshot(|tx| {
            let first = tx.read(&cells[0])?;
            elsewhere(writes);
            Ok([first, tx.read(&cells[1])?, *tx.read(&boxed)?])
        });
        assert_eq!(seen, [1000; 3], "a snapshot does so from the start");
    }
}

// Case C5.
#[test]
fn what_was_only_read_is_ensured() {
    let _turn = my_turn();
    for form in FORMS {
        // Each may write its own only as long as the other's is 0.
        let (ours, theirs) = (TCell::new(0), TVar::new(0));
        form.run(atomically(|tx| {
            let is_free = *tx.read(&theirs)? == 0;
            if tx.attempt() == 1 {
                elsewhere(|| {
                    atomically(|tx| if tx.read(&ours)? == 0 { tx.write(&theirs, 1).map(drop) } else { Ok(()) }).run();
                });
            }
            if is_free {
                tx.write(&ours, 1)?;
            }
            Ok(())
        }));
        assert_eq!((ours.into_inner(), theirs.into_inner()), (0, 1), "{form:?}");
    }
}

// Case C7.
#[test]
fn a_function_that_is_passed_the_transaction_joins_it() {
    let _turn = my_turn();
    fn deposit<'t>(tx: &mut Tx<'t, '_>, account: &'t TCell<i64>, sum: i64) -> Result<i64, Abort> {
        tx.update(account, |balance| balance + sum)
    }
    for form in FORMS {
        let account = TCell::new(1);
        let refused = form.run(try_atomically(|tx| {
            deposit(tx, &account, 10)?;
            let inside = tx.nested(|tx| Ok::<_, Failed<i64>>(deposit(tx, &account, 100)?))?;
            Err::<(), _>(Failed::Error(inside.expect("it does not fail")))
        }));
        assert_eq!(refused, Err(111), "the part has seen what the whole had written, {form:?}");
        assert_eq!(account.into_inner(), 1, "and it is undone with the whole, {form:?}");
    }
}

// Case C8.
#[test]
fn a_snapshot_reads_what_was_there_when_it_began() {
    let _turn = my_turn();
    let (cells, boxed) = ([const { 0 }; 3].map(TCell::new), [const { 0 }; 3].map(TVar::new));
    let seen = snapshot(|tx| {
        for n in 1..=3 {
            elsewhere(|| {
                set(&cells[n - 1], 1);
                set(&boxed[n - 1], 1);
                // A younger snapshot reads younger values beside it.
                let young = snapshot(|tx| cells.iter().map(|cell| tx.read(cell)).sum::<Result<usize, _>>());
                assert_eq!(young, n);
            });
        }
        let cells: usize = cells.iter().map(|cell| tx.read(cell)).sum::<Result<_, _>>()?;
        let boxed: usize = boxed.iter().map(|boxed| tx.read(boxed).copied()).sum::<Result<_, _>>()?;
        Ok((cells, boxed))
    });
    assert_eq!(seen, (0, 0));
}
