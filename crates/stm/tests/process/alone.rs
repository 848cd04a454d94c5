//! Progress: priority, running alone, irrevocable transactions.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;

use enact_stm::{Deferrable, TCell, TVar, atomically, hooks, snapshot, statistics, synchronized};

use crate::{add_one, elsewhere, my_turn, poll, set};

#[test]
fn a_long_transaction_beside_short_ones_gets_priority_and_finally_runs_alone() {
    let _turn = my_turn();
    let (cells, done) = ([const { 0 }; 50].map(TCell::new), TCell::new(0));
    let before = statistics();
    let attempts = atomically(|tx| {
        let sum: u32 = cells.iter().map(|cell| tx.read(cell)).sum::<Result<_, _>>()?;
        let others = elsewhere(|| {
            let mut other = atomically(|tx| tx.update(&cells[7], |n| n + 1));
            // It gives way often while the long one has priority, and cannot commit at all while that runs alone.
            (0..100).find(|_| poll(&mut other).is_ready())
        });
        assert!(others.is_some() || tx.attempt() > 8, "an ordinary transaction is in nobody's way");
        tx.write(&done, sum)?;
        Ok(tx.attempt())
    })
    .run();
    let counts = statistics().since(&before);
    assert!(attempts > 8, "{attempts}");
    assert!(counts.prioritised >= 1 && counts.aborts_stood_back >= 1, "{counts:?}");
    assert_eq!(counts.alone, 1, "{counts:?}");
    assert_eq!(done.into_inner(), cells.map(TCell::into_inner).iter().sum::<u32>(), "what it saw is what there is");
}

#[test]
fn a_transaction_that_has_had_priority_or_was_alone_is_ordinary_again() {
    let _turn = my_turn();
    let x = TCell::new(0);
    for _ in 0..2 {
        atomically(|tx| {
            let seen = tx.read(&x)?;
            if tx.attempt() <= 70 {
                elsewhere(|| poll(&mut atomically(|tx| tx.update(&x, |n| n + 1))).is_ready());
            }
            tx.write(&x, seen)
        })
        .run();
        let before = statistics();
        elsewhere(|| add_one(&x));
        add_one(&x);
        let after = statistics().since(&before);
        assert_eq!((after.commits, after.prioritised, after.alone, after.aborts_stood_back), (2, 0, 0, 0));
    }
}

#[test]
fn an_irrevocable_transaction_runs_once_while_the_commits_of_others_wait() {
    let _turn = my_turn();
    let (x, y, runs) = (TCell::new(0), TVar::new(0), AtomicU32::new(0));
    let mut other = atomically(|tx| tx.update(&x, |n| n + 1));
    synchronized(|tx| {
        runs.fetch_add(1, Ordering::Relaxed);
        let seen = tx.read(&x)?;
        elsewhere(|| {
            assert!(poll(&mut other).is_pending(), "no commit of another");
            // Reading goes on, in a transaction and in a snapshot.
            assert_eq!(atomically(|tx| tx.read(&x)).run(), 0);
            assert_eq!(snapshot(|tx| Ok((tx.read(&x)?, *tx.read(&y)?))), (0, 0));
        });
        tx.write(&x, seen + 10)?;
        tx.write(&y, 5).map(drop)
    });
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(poll(&mut other), Poll::Ready(11));
    assert_eq!(y.into_inner(), 5);
}

#[test]
fn irrevocable_transactions_have_side_effects_once_beside_any_others() {
    let _turn = my_turn();
    let (x, effects) = (TCell::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..500).for_each(|_| drop(add_one(&x).to_string())));
            scope.spawn(|| {
                for _ in 0..100 {
                    synchronized(|tx| {
                        effects.fetch_add(1, Ordering::Relaxed);
                        tx.update(&x, |n| n + 1)
                    });
                }
            });
        }
    });
    assert_eq!((x.into_inner(), effects.into_inner()), (1200, 200));
}

#[test]
fn what_is_said_before_becoming_irrevocable_is_run_again() {
    let _turn = my_turn();
    let (x, before, after) = (TCell::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let seen = atomically(|tx| {
        before.fetch_add(1, Ordering::Relaxed);
        let seen = tx.read(&x)?;
        if tx.attempt() == 1 {
            elsewhere(|| set(&x, 7));
        }
        tx.irrevocable()?;
        after.fetch_add(1, Ordering::Relaxed);
        tx.irrevocable()?;
        tx.write(&x, seen + 1)
    })
    .run();
    assert_eq!((seen, before.into_inner(), after.into_inner()), (8, 2, 1));
}

/// A deferred operation that is under way on another thread until it is told to end.
fn beside_an_operation(work: impl FnOnce(&mpsc::Sender<()>), inside: impl Fn() + Send + Sync + 'static) {
    let (says, said) = mpsc::channel();
    let (ends, end) = mpsc::channel::<()>();
    let (end, inside) = (Arc::new(Mutex::new(end)), Arc::new(inside));
    thread::scope(|scope| {
        scope.spawn(move || {
            atomically(|tx| {
                let (says, end, inside) = (says.clone(), Arc::clone(&end), Arc::clone(&inside));
                tx.defer((), move |()| {
                    says.send(()).expect("the test listens");
                    end.lock().expect("not poisoned").recv().expect("the test says when");
                    inside();
                })
                .map(drop)
            })
            .run();
        });
        said.recv().expect("the operation has begun");
        work(&ends);
    });
}

#[test]
fn an_irrevocable_transaction_waits_for_deferred_operations_which_may_commit() {
    let _turn = my_turn();
    let x = Arc::new(TCell::new(0));
    let mine = Arc::clone(&x);
    beside_an_operation(
        |ends| {
            let mut alone = atomically(|tx| {
                tx.irrevocable()?;
                tx.update(&*x, |n| n * 10)
            });
            assert!(poll(&mut alone).is_pending());
            assert_eq!(elsewhere(|| poll(&mut atomically(|tx| tx.update(&*x, |n| n + 1)))), Poll::Ready(1));
            let mut defers = atomically(|tx| tx.defer((), |()| ()).map(drop));
            assert!(poll(&mut defers).is_pending(), "no operation begins behind it");
            ends.send(()).expect("the operation listens");
            assert_eq!(alone.run_to_end(), 20);
            defers.run_to_end();
        },
        move || drop(add_one(&mine).to_string()),
    );
    assert_eq!(snapshot(|tx| tx.read(&*x)), 20);
}

/// Goes on with a future on this thread.
trait RunToEnd: Future + Unpin + Sized {
    fn run_to_end(mut self) -> Self::Output {
        loop {
            if let Poll::Ready(output) = poll(&mut self) {
                return output;
            }
            thread::yield_now();
        }
    }
}

impl<F: Future + Unpin> RunToEnd for F {}

#[test]
fn a_deferred_operation_that_asks_to_run_alone_panics_instead_of_waiting_for_itself() {
    let _turn = my_turn();
    let (x, log) = (Arc::new(TCell::new(0)), Arc::new(Deferrable::new((), ())));
    let mine = Arc::clone(&x);
    let transaction = atomically(|tx| {
        let mine = Arc::clone(&mine);
        tx.defer((&log,), move |_| synchronized(|tx| tx.write(&*mine, 1))).map(drop)
    });
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| transaction.run())).expect_err("it panics");
    let message = panic.downcast_ref::<&str>().expect("a message");
    assert!(message.contains("a deferred operation asked to run alone"), "{message}");
    assert!(log.is_poisoned());
    synchronized(|tx| tx.write(&*x, 2));
}

#[test]
fn a_commit_that_is_cancelled_at_the_closed_serial_lock_has_no_effect() {
    let _turn = my_turn();
    let (x, undone) = (TCell::new(0), Arc::new(AtomicU32::new(0)));
    synchronized(|tx| {
        elsewhere(|| {
            let mut other = atomically(|tx| {
                let undone = Arc::clone(&undone);
                hooks::on_abort(tx, move || drop(undone.fetch_add(1, Ordering::Relaxed).to_string()));
                tx.write(&x, 5)
            });
            assert!(poll(&mut other).is_pending());
            assert_eq!(undone.load(Ordering::Relaxed), 0, "it only waits");
        });
        assert_eq!(undone.load(Ordering::Relaxed), 1);
        tx.update(&x, |n| n + 1)
    });
    assert_eq!((add_one(&x), x.into_inner()), (2, 2));
}

#[test]
fn who_is_cancelled_in_the_queue_for_running_alone_lets_the_next_one_pass() {
    let _turn = my_turn();
    let x = TCell::new(0);
    let alone = || {
        atomically(|tx| {
            tx.irrevocable()?;
            tx.update(&x, |n| n + 1)
        })
    };
    let (mut first, mut second, mut third) = (alone(), alone(), alone());
    synchronized(|tx| {
        elsewhere(|| {
            assert!(poll(&mut first).is_pending());
            assert!(poll(&mut second).is_pending());
            assert!(poll(&mut third).is_pending());
        });
        drop(second);
        tx.update(&x, |n| n + 1)
    });
    // The first one's turn has come, and it goes without having had it.
    drop(first);
    assert_eq!(poll(&mut third), Poll::Ready(2));
    assert_eq!(add_one(&x), 3);
}

#[test]
fn a_dependent_goes_on_with_the_attempt_that_has_waited() {
    let _turn = my_turn();
    let (x, y) = (TCell::new(0), TCell::new(0));
    let (fate, dependent) = (Mutex::new(None), Mutex::new(None));
    let before = statistics();
    atomically(|tx| {
        tx.write(&x, 1)?;
        *fate.lock().expect("not poisoned") = Some(hooks::fate(tx));
        elsewhere(|| {
            let fate = fate.lock().expect("not poisoned").clone().expect("made");
            let mut waits = hooks::depending_on(fate, atomically(|tx| tx.write(&y, 1).map(|_| tx.attempt())));
            assert!(poll(&mut waits).is_pending());
            *dependent.lock().expect("not poisoned") = Some(waits);
        });
        Ok(())
    })
    .run();
    let mut dependent = dependent.into_inner().expect("not poisoned").expect("made");
    assert_eq!(poll(&mut dependent), Poll::Ready(Ok(1)));
    assert_eq!(statistics().since(&before).commits, 2);
}

#[test]
fn an_irrevocable_transaction_does_not_take_commits_that_are_refused_for_conflicts() {
    let _turn = my_turn();
    let cells: Vec<TCell<u64>> = (0..50).map(|_| TCell::new(0)).collect();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    atomically(|tx| cells.iter().try_for_each(|cell| tx.update(cell, |n| n + 1).map(drop))).run();
                }
            });
        }
        for _ in 0..3_000 {
            synchronized(|tx| {
                let mut sum = 0;
                for cell in &cells {
                    sum += tx.read(cell)?;
                }
                assert_eq!(sum % 50, 0);
                Ok(())
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
