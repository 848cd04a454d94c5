//! Snapshot readers beside commits.
use crate::{beside, model};
use enact_stm::{TCell, TVar, atomically, snapshot};
use enact_sync::Arc;

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
