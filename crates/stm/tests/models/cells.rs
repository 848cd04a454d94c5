//! Reading and committing, inline and boxed.
use enact_stm::{TCell, TVar, atomically, snapshot};
use enact_sync::Arc;

use crate::{beside, model};

//   here                              other
//   reads 0
//                                     reads 0, commits 1
//   commits <- must fail and read 1
#[test]
fn increments_of_one_cell_are_not_lost() {
    model(|| {
        let n = Arc::new(TCell::new(0));
        let m = Arc::clone(&n);
        beside(
            move || atomically(|tx| tx.update(&*m, |n| n + 1)).run(),
            || {
                atomically(|tx| tx.update(&*n, |n| n + 1)).run();
            },
        );
        assert_eq!(snapshot(|tx| tx.read(&*n)), 2);
    });
}

//   here                                            other
//   reads node 0
//                                                   commits node 1, retires node 0
//   commits <- must fail: the node is another one
#[test]
fn increments_of_one_variable_are_not_lost() {
    model(|| {
        let n = Arc::new(TVar::new(0));
        let m = Arc::clone(&n);
        beside(
            move || atomically(|tx| tx.update(&*m, |n| n + 1).copied()).run(),
            || {
                atomically(|tx| tx.update(&*n, |n| n + 1).map(drop)).run();
            },
        );
        assert_eq!(snapshot(|tx| tx.read(&*n).copied()), 2);
    });
}

//   here          other
//   reads b = 0   reads a = 0
//   locks a       locks b
//   validates b   validates a         <- one of the two must fail
#[test]
fn crossing_transactions_are_serializable() {
    // Each copies the other's value plus one: serially 0,0 becomes 2,1 or 1,2, with write skew 1,1.
    model(|| {
        let pair = Arc::new((TCell::new(0), TCell::new(0)));
        let other = Arc::clone(&pair);
        let copy = |from: &TCell<i32>, to: &TCell<i32>| {
            atomically(|tx| {
                let value = tx.read(from)?;
                tx.write(to, value + 1).map(drop)
            })
            .run();
        };
        beside(move || copy(&other.0, &other.1), || copy(&pair.1, &pair.0));
        let end = snapshot(|tx| Ok((tx.read(&pair.0)?, tx.read(&pair.1)?)));
        assert!(end == (2, 1) || end == (1, 2), "{end:?}");
    });
}

//   reader                                       writer
//   reads a = 0
//                                                commits a = 1, b = 1
//   reads b <- never 1: the attempt ends first
#[test]
fn running_code_sees_one_state_also_in_attempts_that_fail() {
    model(|| {
        let pair = Arc::new((TCell::new(0), TVar::new(0)));
        let other = Arc::clone(&pair);
        let writer = move || {
            atomically(|tx| {
                tx.update(&other.0, |n| n + 1)?;
                tx.update(&other.1, |n| n + 1).map(drop)
            })
            .run();
        };
        beside(writer, || {
            atomically(|tx| {
                let (a, b) = (tx.read(&pair.0)?, *tx.read(&pair.1)?);
                assert_eq!(a, b, "a zombie");
                // A write, so that the transaction is not one that only reads.
                tx.write(&pair.0, a)
            })
            .run();
        });
    });
}

//   here                        other
//   defers + 10 to its commit   defers + 1 to its commit
//   locks, reads 0, writes 10
//                               locks, reads 10, writes 11
#[test]
fn commuting_increments_are_not_lost_and_do_not_conflict() {
    model(|| {
        let n = Arc::new(TCell::new(0));
        let m = Arc::clone(&n);
        beside(
            move || atomically(|tx| tx.commute(&*m, |n| n + 1)).run(),
            || {
                atomically(|tx| tx.commute(&*n, |n| n + 10)).run();
            },
        );
        assert_eq!(snapshot(|tx| tx.read(&*n)), 11);
    });
}
