//! The statistics, exactly.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use enact_stm::{
    Deferrable, Failed, Statistics, TCell, TVar, atomically, hooks, snapshot, statistics, synchronized, try_atomically,
};

use crate::{add_one, elsewhere, my_turn, poll, set};

/// What `work` adds to the statistics.
fn count(work: impl FnOnce()) -> Statistics {
    let before = statistics();
    work();
    statistics().since(&before)
}

/// The counts that are not 0.
fn changed(work: impl FnOnce()) -> Vec<(&'static str, u64)> {
    count(work).iter().filter(|(_, n)| *n != 0).collect()
}

#[test]
fn statistics_count_each_way_in_which_a_transaction_ends() {
    let _turn = my_turn();
    let (x, y) = (TCell::new(0), TVar::new(0));
    assert_eq!(changed(|| set(&x, 1)), [("commits", 1)]);
    assert_eq!(changed(|| drop(atomically(|tx| tx.read(&y).copied()).run().to_string())), [("read_only_commits", 1)]);
    assert_eq!(changed(|| assert_eq!(snapshot(|tx| tx.read(&x)), 1)), [("read_only_commits", 1), ("snapshots", 1)]);
    let fails = || assert_eq!(try_atomically(|_| Err::<(), _>(Failed::Error(()))).run(), Err(()));
    assert_eq!(changed(fails), [("errors", 1)]);
    let panics = || {
        let transaction = atomically(|tx| tx.read(&x).map(|n| assert!(n == 0, "on purpose")));
        assert!(catch_unwind(AssertUnwindSafe(|| transaction.run())).is_err());
    };
    assert_eq!(changed(panics), [("panics", 1)]);
    let waits = || {
        let mut waits = atomically(|tx| if tx.read(&x)? < 2 { tx.retry() } else { Ok(()) });
        assert!(poll(&mut waits).is_pending());
        elsewhere(|| set(&x, 2));
        assert!(poll(&mut waits).is_ready());
    };
    assert_eq!(changed(waits), [("commits", 1), ("read_only_commits", 1), ("retries", 1), ("sleeps", 1)]);
    let does_not_sleep = || {
        atomically(|tx| {
            let seen = tx.read(&x)?;
            if seen == 3 {
                return Ok(());
            }
            elsewhere(|| set(&x, 3));
            tx.retry()
        })
        .run();
    };
    assert_eq!(changed(does_not_sleep), [("commits", 1), ("read_only_commits", 1), ("retries", 1)]);
    assert_eq!(changed(|| drop(synchronized(|tx| tx.write(&x, 9)).to_string())), [("commits", 1), ("alone", 1)]);
}

#[test]
fn statistics_count_conflicts_by_their_cause() {
    let _turn = my_turn();
    let x = TCell::new(0);
    let conflicts = || {
        atomically(|tx| {
            let seen = tx.read(&x)?;
            if tx.attempt() <= 3 {
                elsewhere(|| add_one(&x));
            }
            tx.write(&x, seen + 10)
        })
        .run();
    };
    assert_eq!(changed(conflicts), [("commits", 4), ("aborts_changed", 3)]);
    assert_eq!(x.into_inner(), 13);
}

#[test]
fn statistics_count_operations_and_retractions() {
    let _turn = my_turn();
    let (x, log) = (TCell::new(0), Arc::new(Deferrable::new((), 0)));
    let defers = count(|| {
        atomically(|tx| {
            for _ in 0..3 {
                tx.defer((&log,), |(log,)| **log += 1).map(drop)?;
            }
            tx.defer((), |()| ()).map(drop)
        })
        .run();
    });
    assert_eq!(defers.operations, 4);
    let undone = count(|| {
        let result = try_atomically(|tx| {
            tx.defer((&log,), |(log,)| **log += 1).map(drop)?;
            Err::<(), _>(Failed::Error(()))
        });
        assert_eq!(result.run(), Err(()));
    });
    assert_eq!(undone.operations, 0);
    let fate = std::sync::Mutex::new(None);
    let fails = try_atomically(|tx| {
        *fate.lock().expect("not poisoned") = Some(hooks::fate(tx));
        Err::<(), _>(Failed::Error(()))
    });
    assert_eq!(fails.run(), Err(()));
    let fate = fate.into_inner().expect("not poisoned").expect("made");
    let retracted = || assert!(hooks::depending_on(fate, atomically(|tx| tx.write(&x, 1))).run().is_err());
    assert_eq!(changed(retracted), [("retracted", 1)]);
}

#[test]
fn statistics_name_every_count_once() {
    let _turn = my_turn();
    let mut names: Vec<_> = statistics().iter().map(|(name, _)| name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    for name in ["commits", "aborts_changed", "sleeps", "operations"] {
        assert!(names.contains(&name), "{name}");
    }
    let now = statistics();
    assert!(now.since(&now).iter().all(|(_, n)| n == 0));
}

// Case H13.
#[test]
fn blind_writers_do_not_conflict() {
    let _turn = my_turn();
    let (x, boxed) = (TCell::new(0), TVar::new(0));
    let both = count(|| {
        let attempts = atomically(|tx| {
            tx.write(&x, 1)?;
            tx.write(&boxed, 1)?;
            elsewhere(|| atomically(|tx| tx.write(&x, 2).and(tx.write(&boxed, 2).map(drop))).run());
            Ok(tx.attempt())
        })
        .run();
        assert_eq!(attempts, 1);
    });
    assert_eq!((both.commits, both.aborts_changed, both.aborts_locked), (2, 0, 0));
    assert_eq!((x.into_inner(), boxed.into_inner()), (1, 1), "the one that commits last");
}

// Case C1.
#[test]
fn increments_that_commute_never_make_each_other_run_again() {
    let _turn = my_turn();
    let (x, boxed) = (TCell::new(0), TVar::new(0));
    let forced = count(|| {
        for _ in 0..100 {
            let attempts = atomically(|tx| {
                tx.commute(&x, |n| n + 1)?;
                tx.commute(&boxed, |n| n + 1)?;
                elsewhere(|| atomically(|tx| tx.commute(&x, |n| n + 1).and(tx.commute(&boxed, |n| n + 1))).run());
                Ok(tx.attempt())
            });
            assert_eq!(attempts.run(), 1);
        }
    });
    assert_eq!((forced.commits, forced.aborts_changed, forced.aborts_locked), (200, 0, 0));
    let free = count(|| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        atomically(|tx| tx.commute(&x, |n| n + 1).and(tx.commute(&boxed, |n| n + 1))).run();
                    }
                });
            }
        });
    });
    // A commit whose thread loses its processor may still be in the way for too long.
    assert_eq!((free.commits, free.aborts_changed), (4000, 0));
    assert_eq!((x.into_inner(), boxed.into_inner()), (4200, 4200));
}

// Case I9.
#[test]
fn a_sum_that_has_lost_once_reads_a_snapshot_and_loses_no_more() {
    let _turn = my_turn();
    let cells: Vec<_> = (0..1000).map(|_| TCell::new(1_i32)).collect();
    let sum = count(|| {
        let (sum, attempts) = atomically(|tx| {
            let mut sum = 0;
            for (n, cell) in cells.iter().enumerate() {
                if n % 100 == 50 {
                    elsewhere(|| {
                        atomically(|tx| {
                            tx.update(&cells[n - 50], |n| n - 1)?;
                            tx.update(&cells[n + 1], |n| n + 1)
                        })
                        .run()
                    });
                }
                sum += tx.read(cell)?;
            }
            Ok((sum, tx.attempt()))
        })
        .run();
        assert_eq!((sum, attempts), (1000, 2));
    });
    assert_eq!((sum.aborts_changed, sum.snapshots, sum.read_only_commits), (1, 1, 1));
}
