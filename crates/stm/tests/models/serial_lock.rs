//! Running alone.
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use enact_stm::{TCell, atomically, snapshot, synchronized};
use enact_sync::Arc;
use enact_sync::thread::yield_now;

use crate::{beside, model};

//   alone                             ordinary
//                                     reads a, b
//   closes the serial lock
//                                     commits <- refused, or was before
//   reads, commits at its first try
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

//   here                                      other
//   closes the serial lock
//                                             enters the queue, sleeps
//   commits, gives the lock back: must wake
//                                             runs alone
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

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls again and again: the serial lock guarantees progress to a task that is polled, woken or not.
fn poll_to_end<F: Future + Unpin>(mut future: F) -> F::Output {
    loop {
        if let Poll::Ready(output) = poll(&mut future) {
            return output;
        }
        yield_now();
    }
}

/// A transaction that runs irrevocably and counts.
fn irrevocable(n: &TCell<u32>) -> impl Future<Output = u32> + Unpin {
    atomically(|tx| {
        tx.irrevocable()?;
        tx.update(n, |n| n + 1)
    })
}

/// A transaction with an operation that counts.
fn deferring(n: &Arc<TCell<u32>>) -> impl Future<Output = ()> + Unpin {
    atomically(move |tx| {
        let n = Arc::clone(n);
        tx.defer((), move |()| drop(atomically(|tx| tx.update(&*n, |n| n + 1)).run().to_string())).map(drop)
    })
}

//   forgets                                  defers                here
//                                            operation under way
//   asks for the serial lock, is forgotten
//                                            polls to its end      runs alone <- neither waits for the forgotten one
#[test]
fn a_future_that_is_not_polled_again_holds_up_nobody() {
    model(|| {
        let n = Arc::new(TCell::new(0));
        let m = Arc::clone(&n);
        let forgotten = move || {
            let m: &'static TCell<u32> = Box::leak(Box::new(TCell::new(0)));
            let mut alone = Box::new(irrevocable(m));
            let is_ready = poll(&mut alone).is_ready();
            std::mem::forget(alone);
            is_ready
        };
        let forgets = enact_sync::thread::spawn(forgotten);
        let defers = move || {
            poll_to_end(deferring(&m));
            poll_to_end(atomically(|tx| tx.update(&*m, |n| n + 1)));
        };
        beside(defers, || drop(synchronized(|tx| tx.update(&*n, |n| n + 1)).to_string()));
        forgets.join().expect("no thread of a model panics");
        assert_eq!(synchronized(|tx| tx.update(&*n, |n| n + 1)), 4);
    });
}

//   alone                                           defers
//                                                   operation under way
//   looks: one operation
//                                                   the last operation ends
//   sleeps <- must see the end, or be woken by it
#[test]
fn an_irrevocable_transaction_beside_operations_waits_for_their_end_and_has_them_wait() {
    model(|| {
        let n = Arc::new(TCell::new(0));
        let m = Arc::clone(&n);
        let defers = move || {
            for _ in 0..2 {
                atomically(|tx| {
                    let n = Arc::clone(&m);
                    tx.update(&*m, |n| n + 1)?;
                    tx.defer((), move |()| drop(atomically(|tx| tx.update(&*n, |n| n + 1)).run().to_string())).map(drop)
                })
                .run();
            }
        };
        beside(defers, || {
            let seen = synchronized(|tx| tx.update(&*n, |n| n + 10));
            assert_eq!(seen % 2, 0, "no operation is under way");
        });
        assert_eq!(snapshot(|tx| tx.read(&*n)), 14);
    });
}

//   writer                                       thread 1     thread 2
//   finds the lock closed, queues
//                                                runs alone   runs alone
//   <- its turn comes before either runs again
#[test]
#[cfg(not(enact_loom))]
fn a_commit_that_finds_the_serial_lock_closed_waits_for_at_most_one_holder_a_thread() {
    use enact_stm::statistics;
    model(|| {
        let holders = Arc::new(TCell::new(0));
        let again_and_again =
            |holders: Arc<TCell<u32>>| move || while synchronized(|tx| tx.update(&*holders, |n| n + 1)) < 8 {};
        let threads = [(); 2].map(|()| enact_sync::thread::spawn(again_and_again(Arc::clone(&holders))));
        let written = Arc::clone(&holders);
        let writer = move || atomically(|tx| tx.update(&*written, |n| n)).run();
        let (writer, closed_at) = synchronized(|tx| {
            let before = statistics().held_up;
            let writer = enact_sync::thread::spawn(writer.clone());
            while statistics().held_up == before {
                yield_now();
            }
            Ok((writer, tx.read(&*holders)?))
        });
        let seen = writer.join().expect("no thread of a model panics");
        assert!(seen - closed_at <= 2, "{} holders before the commit", seen - closed_at);
        for thread in threads {
            thread.join().expect("no thread of a model panics");
        }
    });
}
