//! Running alone.
use crate::{beside, model};
use enact_stm::{TCell, atomically, snapshot, synchronized};
use enact_sync::Arc;

#[test]
fn an_irrevocable_transaction_runs_once_and_commits() {
    model(|| {
        let pair = Arc::new((TCell::new(0), TCell::new(0)));
        let other = Arc::clone(&pair);
        let ordinary = move || {
            atomically(|tx| {
                tx.update(&other.0, |n| n + 1)?;
                tx.update(&other.1, |n| n + 1)
            })
            .run();
        };
        beside(ordinary, || {
            let mut runs = 0;
            synchronized(|tx| {
                runs += 1;
                let (a, b) = (tx.read(&pair.0)?, tx.read(&pair.1)?);
                assert_eq!(a, b);
                tx.write(&pair.0, a + 10)?;
                tx.write(&pair.1, b + 10)
            });
            assert_eq!(runs, 1);
        });
        assert_eq!(snapshot(|tx| Ok((tx.read(&pair.0)?, tx.read(&pair.1)?))), (11, 11));
    });
}

#[test]
fn two_that_want_to_run_alone_follow_each_other() {
    model(|| {
        let n = Arc::new(TCell::new(0));
        let m = Arc::clone(&n);
        beside(
            move || synchronized(|tx| tx.update(&*m, |n| n + 1)),
            || {
                synchronized(|tx| tx.update(&*n, |n| n + 1));
            },
        );
        assert_eq!(snapshot(|tx| tx.read(&*n)), 2);
    });
}
