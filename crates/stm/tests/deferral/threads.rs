//! Threads that must not block hand their blocking operations over.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, ThreadId};

use enact_stm::{TCell, atomically, hooks};

use crate::{Task, message, object, once};

fn to_another_thread(work: Box<dyn FnOnce() + Send + '_>) {
    thread::scope(|scope| scope.spawn(work).join()).expect("panics of operations are caught");
}

#[test]
fn on_a_thread_that_must_not_block_a_blocking_operation_is_handed_over_and_an_async_one_stays() {
    let o = object(Vec::<ThreadId>::new());
    let here = thread::current().id();
    let _forbidden = hooks::hand_over_on_this_thread(to_another_thread);
    once(|tx| {
        tx.defer((&o,), |(ran_on,)| ran_on.push(thread::current().id())).map(drop)?;
        tx.defer_async((&o,), |(ran_on,)| Box::pin(async move { ran_on.push(thread::current().id()) })).map(drop)?;
        tx.defer((&o,), |(ran_on,)| ran_on.push(thread::current().id())).map(drop)
    });
    let ran_on = crate::private_of(o);
    assert_eq!(ran_on.iter().map(|id| *id == here).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_handed_over_operation_may_wait_and_keeps_its_objects_and_its_owner() {
    let o = std::sync::Arc::new(enact_stm::Deferrable::new(TCell::new(0), ()));
    let _forbidden = hooks::hand_over_on_this_thread(to_another_thread);
    let seen = once(|tx| {
        let shared = std::sync::Arc::clone(&o);
        tx.defer((&o,), move |_| {
            let go = TCell::new(false);
            thread::scope(|scope| {
                scope.spawn(|| once(|tx| tx.write(&go, true)));
                once(|tx| {
                    tx.wait_for(&go, |go| *go)?;
                    let v = tx.open(&shared)?;
                    tx.update(v, |v| v + 1)
                })
            })
        })
    });
    assert_eq!(seen.take(), Some(1));
}

#[test]
fn a_panic_in_a_handed_over_operation_reaches_the_caller() {
    let (o, other) = (object(0), object(0));
    let _forbidden = hooks::hand_over_on_this_thread(to_another_thread);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        once(|tx| {
            tx.defer((&o,), |_| panic!("over there")).map(|_: enact_stm::Deferred<()>| ())?;
            tx.defer((&other,), |(count,)| **count += 1).map(drop)
        });
    }));
    assert_eq!(message(&*panic.expect_err("it panics")), "over there");
    assert!(o.is_poisoned());
    assert_eq!(crate::private_of(other), 1);
}

#[test]
fn an_async_operation_is_awaited_on_a_thread_with_other_duties() {
    let o = object(0);
    let forbidden = hooks::hand_over_on_this_thread(to_another_thread);
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let finished = std::sync::Mutex::new(Some(finished));
    let body = atomically(|tx| {
        let finished = finished.lock().expect("no panic").take().expect("one attempt");
        tx.defer_async((&o,), |(count,)| {
            Box::pin(async move {
                finished.await.expect("the test goes on");
                **count += 1;
            })
        })
        .map(drop)
    });
    let mut task = Task::new(body);
    assert!(task.poll().is_none());
    finish.send(()).expect("the operation waits");
    assert!(task.poll().is_some());
    drop((task, forbidden));
    assert_eq!(crate::private_of(o), 1);
}
