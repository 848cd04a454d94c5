//! Sleeping and waking.
#[cfg(not(enact_loom))]
use enact_stm::snapshot;
use enact_stm::{TCell, atomically};
use enact_sync::Arc;

use crate::{beside, model};

//   buyer                           seller
//   reads 0, retries
//                                   writes 1, finds nobody asleep
//   enters its sleeper              <- the entry sees the new version, or the commit sees the sleeper
#[test]
fn retry_and_commit_never_lose_a_wake_up() {
    model(|| {
        let stock = Arc::new(TCell::new(0));
        let other = Arc::clone(&stock);
        let buyer = move || {
            atomically(|tx| match tx.read(&*other)? {
                0 => tx.retry(),
                n => tx.write(&*other, n - 1),
            })
            .run()
        };
        let left = beside(buyer, || {
            atomically(|tx| tx.write(&*stock, 1)).run();
        });
        assert_eq!(left, 0);
    });
}

//   waiter                          counter
//   reads 0: not yet
//                                   0 -> 1: not yet, so it is not woken
//   sleeps until at least 2
//                                   1 -> 2: must wake it
#[test]
fn a_condition_that_is_met_is_never_missed() {
    model(|| {
        let stock = Arc::new(TCell::new(0));
        let other = Arc::clone(&stock);
        let seen = beside(
            move || atomically(|tx| tx.wait_for(&*other, |n| *n >= 2)).run(),
            || {
                for _ in 0..2 {
                    atomically(|tx| tx.update(&*stock, |n| n + 1)).run();
                }
            },
        );
        assert_eq!(seen, 2);
    });
}

//   waiter                          writer
//   left: reads a = 0, retries
//                                   a := 1
//   right: reads b = 0, retries
//   sleeps on a and b               <- the change of a must keep it awake, though the right side never read a
#[test]
fn an_alternative_waits_for_what_both_sides_have_read() {
    model(|| {
        let pair = Arc::new((TCell::new(0), TCell::new(0)));
        let other = Arc::clone(&pair);
        let waiter = move || {
            atomically(|tx| {
                tx.or_else(
                    |tx| if tx.read(&other.0)? == 0 { tx.retry() } else { Ok(1) },
                    |tx| if tx.read(&other.1)? == 0 { tx.retry() } else { Ok(2) },
                )
            })
            .run()
        };
        let seen = beside(waiter, || {
            atomically(|tx| tx.write(&pair.0, 1)).run();
        });
        assert_eq!(seen, 1);
    });
}

// loom would explore three threads for hours.
//   here                   first             second
//                          reads 0, sleeps   reads 0, sleeps
//   writes 2: wakes both
//                          takes 1           takes 1 <- nobody sleeps on
#[cfg(not(enact_loom))]
#[test]
fn two_sleepers_are_both_woken() {
    model(|| {
        let stock = Arc::new(TCell::new(0));
        let take = |stock: &TCell<i32>| {
            atomically(|tx| match tx.read(stock)? {
                0 => tx.retry(),
                n => tx.write(stock, n - 1),
            })
            .run();
        };
        let (first, second) = (Arc::clone(&stock), Arc::clone(&stock));
        let first = enact_sync::thread::spawn(move || take(&first));
        beside(
            move || take(&second),
            || {
                atomically(|tx| tx.write(&*stock, 2)).run();
            },
        );
        first.join().expect("no thread of a model panics");
        assert_eq!(snapshot(|tx| tx.read(&*stock)), 0);
    });
}
