//! A transaction whose future is dropped: before its commit nothing has happened, after it everything does.
use std::future::Future;
use std::sync::{Arc, Mutex};

use enact_stm::{Deferrable, Failed, TCell, TVar, Watch, atomically, hooks, try_atomically};
use tokio::sync::oneshot;

use crate::{Task, is_held, object, once};

/// Commits `x = 1` and defers: an operation that waits for `finish`, one that blocks, one that panics if asked to.
fn transaction(
    x: &Arc<TCell<u32>>,
    o: &Arc<Deferrable<(), Vec<&'static str>>>,
    finish: oneshot::Receiver<()>,
    panics: bool,
) -> impl Future<Output = ()> + Send + 'static {
    let (x, o, finish) = (Arc::clone(x), Arc::clone(o), Mutex::new(Some(finish)));
    async move {
        atomically(|tx| {
            tx.write(&*x, 1)?;
            let finish = finish.lock().expect("no panic").take().expect("one attempt");
            tx.defer_async((&o,), |(list,)| {
                Box::pin(async move {
                    finish.await.expect("the test goes on");
                    list.push("async");
                })
            })
            .map(drop)?;
            tx.defer((&o,), move |(list,)| {
                list.push("blocking");
                assert!(!panics, "with nobody to tell");
            })
            .map(drop)
        })
        .await;
    }
}

/// Sleeps until nobody holds the object.
fn wait_until_free<P: Send>(o: &Deferrable<(), P>) {
    once(|tx| tx.try_open(o).map(drop));
}

#[test]
fn a_transaction_dropped_after_its_commit_is_carried_through() {
    let (x, o) = (Arc::new(TCell::new(0)), object(vec![]));
    let (finish, finished) = oneshot::channel();
    let mut task = Task::new(transaction(&x, &o, finished, false));
    assert!(task.poll().is_none());
    drop(task);
    assert_eq!(once(|tx| tx.read(&*x)), 1);
    assert!(is_held(&*o), "the operation has not ended");
    finish.send(()).expect("the operation still waits");
    wait_until_free(&*o);
    let seen = once(|tx| tx.defer((&o,), |(list,)| list.clone()));
    assert_eq!(seen.take(), Some(vec!["async", "blocking"]));
}

#[test]
fn a_panic_in_what_is_carried_through_poisons_the_object_and_is_told_to_nobody() {
    let (x, o) = (Arc::new(TCell::new(0)), object(vec![]));
    let (finish, finished) = oneshot::channel();
    let mut task = Task::new(transaction(&x, &o, finished, true));
    assert!(task.poll().is_none());
    drop(task);
    finish.send(()).expect("the operation still waits");
    wait_until_free(&*o);
    assert!(o.is_poisoned());
}

#[test]
fn a_task_aborted_by_its_executor_after_the_commit_is_carried_through() {
    let (x, o) = (Arc::new(TCell::new(0)), object(vec![]));
    let (finish, finished) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    runtime.block_on(async {
        let task = tokio::spawn(transaction(&x, &o, finished, false));
        atomically(|tx| tx.wait_for(&*x, |x| *x == 1)).await;
        task.abort();
        assert!(task.await.expect_err("it was aborted").is_cancelled());
    });
    drop(runtime);
    finish.send(()).expect("the operation does not need the executor");
    wait_until_free(&*o);
    let seen = once(|tx| tx.defer((&o,), |(list,)| list.clone()));
    assert_eq!(seen.take(), Some(vec!["async", "blocking"]));
}

#[test]
fn a_transaction_dropped_before_its_commit_has_done_nothing_and_holds_nothing() {
    let (x, y, o) = (TCell::new(0), TCell::new(0), object(vec![]));
    let mut task = Task::new(atomically(|tx| {
        tx.write(&x, 1)?;
        tx.defer((&o,), |(list,)| list.push("never")).map(drop)?;
        if tx.read(&y)? == 0 { tx.retry() } else { Ok(()) }
    }));
    assert!(task.poll().is_none());
    drop(task);
    once(|tx| tx.write(&y, 1));
    assert!(!is_held(&*o));
    assert_eq!(x.into_inner(), 0);
    assert_eq!(crate::private_of(o), <[&str; 0]>::default());
}

#[test]
fn tasks_of_one_thread_whose_operations_await_take_turns() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    let o = object(0);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let o = Arc::clone(&o);
                tokio::spawn(async move {
                    atomically(|tx| {
                        tx.defer_async((&o,), |(count,)| {
                            Box::pin(async move {
                                let before = **count;
                                tokio::task::yield_now().await;
                                **count = before + 1;
                            })
                        })
                        .map(drop)
                    })
                    .await;
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    assert_eq!(crate::private_of(o), 50);
}

#[test]
fn a_task_that_awaits_anything_of_this_crate_may_change_threads() {
    fn may_change_threads<F: Future + Send>(task: F) -> F {
        task
    }
    let (x, text) = (TCell::new(0), TVar::new(String::from("a")));
    let mut task = Task::new(may_change_threads(async {
        let seen = atomically(|tx| tx.update(&x, |x| x + 1)).await;
        let failed = try_atomically(|tx| {
            tx.write(&x, 5)?;
            Err::<(), _>(Failed::Error("no"))
        });
        let failed = failed.await;
        let watched = Watch::new(&text).changed(String::clone).await;
        let fate = atomically(|tx| {
            tx.write(&x, seen + 1)?;
            Ok(hooks::fate(tx))
        });
        let dependent = hooks::depending_on(fate.await, atomically(|tx| tx.read(&x))).await;
        (failed, watched, dependent)
    }));
    assert_eq!(task.poll(), Some((Err("no"), String::from("a"), Ok(2))));
}
