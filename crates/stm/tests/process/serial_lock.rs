//! The serial lock: commits between transactions that run alone, and futures that are not polled.
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::Poll;
use std::thread;

use enact_stm::{TCell, atomically, statistics, synchronized};

use crate::{add_one, elsewhere, my_turn, poll, set};

/// Lets other threads run until `condition` holds.
fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// Counts how many transactions run alone between the moment at which a commit finds the serial lock closed and that commit, while
/// `threads` threads do nothing else than to run alone. The writer is closed out by one more holder, on this thread.
fn holders_before_a_commit(threads: u32, writer: impl FnOnce(&TCell<u32>) -> u32 + Send) -> u32 {
    /// Far more than the rule allows, so that a starving writer fails the test instead of hanging it.
    const HOLDERS_MAX: u32 = 2_000;
    let (holders, is_over) = (TCell::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let mut writer = Some(writer);
        let writing = synchronized(|tx| {
            let held_up = statistics().held_up;
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in (0..HOLDERS_MAX).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                        synchronized(|tx| tx.update(&holders, |n| n + 1));
                    }
                });
            }
            let writer = writer.take().expect("an irrevocable transaction runs once");
            let writing = scope.spawn(|| {
                let seen = writer(&holders);
                is_over.store(true, Ordering::Relaxed);
                seen
            });
            wait_until(|| statistics().held_up > held_up);
            tx.write(&holders, 1)?;
            Ok(writing)
        });
        writing.join().expect("the writer does not panic")
    })
}

#[test]
fn a_commit_that_finds_the_serial_lock_closed_waits_for_at_most_one_holder_a_thread() {
    let _turn = my_turn();
    for threads in 1..=4 {
        let seen = holders_before_a_commit(threads, |holders| atomically(|tx| tx.update(holders, |n| n)).run());
        assert!(seen <= threads + 1, "{seen} holders before the commit with {threads} threads");
    }
}

#[test]
fn a_deferring_commit_that_finds_the_serial_lock_closed_waits_for_at_most_one_holder_a_thread() {
    let _turn = my_turn();
    let deferring = |holders: &TCell<u32>| {
        atomically(|tx| {
            tx.defer((), |()| ()).map(drop)?;
            tx.update(holders, |n| n)
        })
        .run()
    };
    for threads in 1..=4 {
        let seen = holders_before_a_commit(threads, deferring);
        assert!(seen <= threads + 1, "{seen} holders before the commit with {threads} threads");
    }
}

/// Runs `work` while a deferred operation is under way on another thread, and then lets the operation end.
fn beside_an_operation(work: impl FnOnce(&mpsc::Sender<()>)) {
    let (begins, begun) = mpsc::channel();
    let (end, ends) = mpsc::channel();
    let ends = Arc::new(std::sync::Mutex::new(ends));
    thread::scope(|scope| {
        scope.spawn(move || {
            atomically(|tx| {
                let (begins, ends) = (begins.clone(), Arc::clone(&ends));
                tx.defer((), move |()| {
                    begins.send(()).expect("the test listens");
                    let _ = ends.lock().expect("not poisoned").recv();
                })
                .map(drop)
            })
            .run();
        });
        begun.recv().expect("the operation begins");
        work(&end);
    });
}

/// A transaction that runs irrevocably and counts.
fn irrevocable(n: &TCell<u32>) -> impl Future<Output = u32> + Unpin {
    atomically(|tx| {
        tx.irrevocable()?;
        tx.update(n, |n| n + 1)
    })
}

#[test]
fn an_irrevocable_future_that_waits_for_operations_and_is_not_polled_holds_up_no_commit() {
    let _turn = my_turn();
    let n = TCell::new(0);
    beside_an_operation(|end| {
        let mut alone = irrevocable(&n);
        assert!(poll(&mut alone).is_pending(), "an operation is under way");
        assert!(poll(&mut atomically(|tx| tx.update(&n, |n| n + 10))).is_ready());
        end.send(()).expect("the operation listens");
        assert!(elsewhere(|| poll(&mut atomically(|tx| tx.update(&n, |n| n + 10))).is_ready()));
        wait_until(|| poll(&mut alone).is_ready());
    });
    assert_eq!(n.into_inner(), 21);
}

#[test]
fn an_irrevocable_future_whose_turn_has_come_and_that_is_not_polled_holds_up_no_commit() {
    let _turn = my_turn();
    let (n, deferred) = (TCell::new(0), Arc::new(AtomicU32::new(0)));
    let mut alone = irrevocable(&n);
    synchronized(|tx| {
        assert!(elsewhere(|| poll(&mut alone).is_pending()));
        tx.update(&n, |n| n + 1)
    });
    assert_eq!(add_one(&n), 2);
    let mut defers = atomically(|tx| {
        let deferred = Arc::clone(&deferred);
        tx.defer((), move |()| drop(deferred.fetch_add(1, Ordering::Relaxed).to_string())).map(drop)
    });
    wait_until(|| poll(&mut defers).is_ready());
    // Others run alone meanwhile, and it still gets its turn.
    assert_eq!(synchronized(|tx| tx.update(&n, |n| n + 1)), 3);
    assert_eq!(poll(&mut alone), Poll::Ready(4));
    assert_eq!(deferred.load(Ordering::Relaxed), 1);
}

#[test]
fn an_irrevocable_future_that_is_forgotten_in_the_queue_holds_up_nobody() {
    let _turn = my_turn();
    static N: OnceLock<TCell<u32>> = OnceLock::new();
    let n = N.get_or_init(TCell::default);
    synchronized(|tx| {
        for _ in 0..3 {
            let mut alone = Box::new(irrevocable(n));
            assert!(elsewhere(|| poll(&mut alone).is_pending()));
            std::mem::forget(alone);
        }
        tx.update(n, |n| n + 1)
    });
    assert_eq!(add_one(n), 2);
    assert_eq!(elsewhere(|| synchronized(|tx| tx.update(n, |n| n + 1))), 3);
    let mut alone = irrevocable(n);
    wait_until(|| poll(&mut alone).is_ready());
    assert_eq!(add_one(n), 5);
}

#[test]
fn an_irrevocable_future_that_has_panicked_and_is_kept_holds_up_nobody() {
    let _turn = my_turn();
    let n = TCell::new(0);
    let mut panics = atomically(|tx| {
        tx.irrevocable()?;
        tx.update(&n, |_| panic!("on purpose"))
    });
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut panics))).is_err());
    assert!(elsewhere(|| poll(&mut irrevocable(&n)).is_ready()));
    assert_eq!(add_one(&n), 2);
}

#[test]
fn a_transaction_that_has_to_wait_before_it_becomes_irrevocable_sleeps() {
    let _turn = my_turn();
    let (stock, before) = (TCell::new(1), statistics());
    let mut sells = atomically(|tx| {
        let left = tx.read(&stock)?;
        if left == 0 {
            return tx.retry();
        }
        if tx.attempt() == 1 {
            elsewhere(|| set(&stock, 0));
        }
        tx.irrevocable()?;
        tx.write(&stock, left - 1)
    });
    assert!(poll(&mut sells).is_pending());
    assert_eq!(statistics().since(&before).sleeps, 1);
    assert_eq!(add_one(&stock), 1);
    assert_eq!(poll(&mut sells), Poll::Ready(0));
}

#[test]
fn on_a_runtime_of_one_thread_a_task_commits_while_another_one_waits_to_run_irrevocably() {
    let _turn = my_turn();
    let n = Arc::new(TCell::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    beside_an_operation(|end| {
        let alone = Arc::clone(&n);
        let alone = runtime.spawn(async move { irrevocable(&alone).await });
        runtime.block_on(async {
            tokio::task::yield_now().await;
            atomically(|tx| tx.update(&*n, |n| n + 10)).await;
            end.send(()).expect("the operation listens");
            assert_eq!(alone.await.expect("the task does not panic"), 11);
        });
    });
}

#[test]
fn a_task_that_stops_to_poll_its_irrevocable_transaction_commits_another_one() {
    let _turn = my_turn();
    let n = TCell::new(0);
    beside_an_operation(|end| {
        let mut alone = irrevocable(&n);
        let mut task = Box::pin(async {
            // As `select!` over `&mut alone` and a branch that is ready.
            poll_fn(|cx| {
                assert!(std::pin::Pin::new(&mut alone).poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            atomically(|tx| tx.update(&n, |n| n + 10)).await;
            end.send(()).expect("the operation listens");
            alone.await
        });
        wait_until(|| poll(&mut task).is_ready());
    });
    assert_eq!(n.into_inner(), 11);
}
