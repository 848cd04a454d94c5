//! Snapshot readers beside commits.
use enact_stm::{TCell, TVar, atomically, snapshot};
use enact_sync::Arc;

use crate::{beside, model};

//   snapshot                 writer
//   reads a
//                            commits a and b, twice
//   reads b <- as old as a
#[test]
fn a_snapshot_of_cells_has_each_commit_wholly_or_not_at_all() {
    model(|| {
        let pair = Arc::new((TCell::new(0), TCell::new(0)));
        let other = Arc::clone(&pair);
        let writer = move || {
            for _ in 0..2 {
                atomically(|tx| {
                    tx.update(&other.0, |n| n + 1)?;
                    tx.update(&other.1, |n| n + 1)
                })
                .run();
            }
        };
        beside(writer, || {
            let (a, b) = snapshot(|tx| Ok((tx.read(&pair.0)?, tx.read(&pair.1)?)));
            assert_eq!(a, b);
        });
    });
}

//   snapshot                 writer
//   reads a
//                            commits a and b, twice
//   reads b <- as old as a
#[test]
fn a_snapshot_of_variables_has_each_commit_wholly_or_not_at_all() {
    model(|| {
        let pair = Arc::new((TVar::new(0), TVar::new(0)));
        let other = Arc::clone(&pair);
        let writer = move || {
            for _ in 0..2 {
                atomically(|tx| {
                    tx.update(&other.0, |n| n + 1)?;
                    tx.update(&other.1, |n| n + 1).map(drop)
                })
                .run();
            }
        };
        beside(writer, || {
            let (a, b) = snapshot(|tx| Ok((*tx.read(&pair.0)?, *tx.read(&pair.1)?)));
            assert_eq!(a, b);
        });
    });
}

//   reader                           writer
//                                    commits 1, sets the flag
//   sees the flag
//   takes a snapshot <- must see 1
#[test]
fn a_snapshot_sees_what_had_returned_before_it_began() {
    model(|| {
        let n = Arc::new(TCell::new(0));
        let (m, flag) = (Arc::clone(&n), Arc::new(enact_sync::atomic::AtomicBool::new(false)));
        let done = Arc::clone(&flag);
        let writer = move || {
            atomically(|tx| tx.write(&*m, 1)).run();
            done.store(true, enact_sync::atomic::Ordering::Release);
        };
        beside(writer, || {
            let returned = flag.load(enact_sync::atomic::Ordering::Acquire);
            let seen = snapshot(|tx| tx.read(&*n));
            assert!(!returned || seen == 1);
        });
    });
}

//   snapshot                                writer
//                                           commits a three times: the clock lags
//   begins
//                                           commits b at a lower version
//   reads b = 1, a <- all three, or b = 0
#[test]
fn a_snapshot_never_has_the_later_of_two_commits_without_the_earlier() {
    // The commits of one cell leave the clock behind, so that the commit of the other gets a lower version than they have.
    model(|| {
        let pair = Arc::new((TCell::new(0), TCell::new(0)));
        let other = Arc::clone(&pair);
        let writer = move || {
            for _ in 0..3 {
                atomically(|tx| tx.update(&other.0, |n| n + 1)).run();
            }
            atomically(|tx| tx.write(&other.1, 1)).run();
        };
        beside(writer, || {
            let (earlier, later) = snapshot(|tx| Ok((tx.read(&pair.0)?, tx.read(&pair.1)?)));
            assert!(later == 0 || earlier == 3, "{earlier} and {later}");
        });
    });
}

//   snapshot                                        writer
//                                                   commits twice: the clock lags
//                                                   ends, gives its slot back
//   asks the slots for their versions <- 2 counts
#[test]
fn a_snapshot_sees_what_a_thread_has_left_that_is_gone() {
    // The commits of the first cell leave the clock behind; their thread gives its slot back, and the snapshot does not ask it.
    model(|| {
        let n = Arc::new(TCell::new(0));
        let m = Arc::clone(&n);
        let writer = enact_sync::thread::spawn(move || {
            for _ in 0..2 {
                atomically(|tx| tx.update(&*m, |n| n + 1)).run();
            }
        });
        let reader = Arc::clone(&n);
        let seen = beside(move || snapshot(|tx| tx.read(&*reader)), || writer.join().expect("no panic"));
        assert!(seen <= 2);
        assert_eq!(snapshot(|tx| tx.read(&*n)), 2);
    });
}
