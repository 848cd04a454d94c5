//! Following a variable.
use std::sync::Arc;
use std::task::Poll;
use std::thread;

use enact_stm::{TCell, TVar, Watch};

use crate::executor::Step;
use crate::forms::{set, tokio};

#[test]
fn a_watch_begins_with_the_present_value_and_skips_what_nobody_has_looked_at() {
    let (cell, boxed) = (TCell::new(1), TVar::new(1));
    let (mut on_cell, mut on_boxed) = (Watch::new(&cell), Watch::new(&boxed));
    assert_eq!((on_cell.next(|n| *n), on_boxed.next(|n| *n)), (1, 1));
    for n in 2..=4 {
        set(&cell, n);
        set(&boxed, n);
    }
    assert_eq!((on_cell.next(|n| *n), on_boxed.next(|n| *n)), (4, 4));
}

#[test]
fn a_watch_notices_a_commit_that_leaves_the_value_as_it_was() {
    let cell = TCell::new(1);
    let mut watch = Watch::new(&cell);
    assert_eq!(watch.next(|n| *n), 1);
    set(&cell, 1);
    assert_eq!(watch.next(|n| *n), 1, "it has a new version");
    let mut step = Step::new(Box::pin(watch.changed(|n| *n)));
    assert!(step.poll().is_pending(), "and now there is nothing new");
    set(&cell, 2);
    assert_eq!((step.wakes(), step.poll()), (1, Poll::Ready(2)));
}

#[test]
fn a_watch_that_is_cancelled_has_looked_at_nothing() {
    let cell = TCell::new(1);
    let mut watch = Watch::new(&cell);
    assert_eq!(watch.next(|n| *n), 1);
    {
        let mut step = Step::new(Box::pin(watch.changed(|n| *n)));
        assert!(step.poll().is_pending());
        set(&cell, 2);
        step.cancel();
        assert!(!step.is_registered());
    }
    assert_eq!(watch.next(|n| *n), 2);
}

#[test]
fn a_watch_follows_to_the_end_on_a_thread_and_in_a_task() {
    let (cell, runtime) = (Arc::new(TCell::new(0)), tokio());
    let mine = Arc::clone(&cell);
    let task = runtime.spawn(async move {
        let (mut watch, mut before) = (Watch::new(&*mine), -1);
        while before != 1000 {
            let now = watch.changed(|n| *n).await;
            assert!(now > before, "{now} after {before}");
            before = now;
        }
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut watch, mut before) = (Watch::new(&*cell), -1);
            while before != 1000 {
                let now = watch.next(|n| *n);
                assert!(now > before, "{now} after {before}");
                before = now;
            }
        });
        let driver = scope.spawn(|| runtime.block_on(task));
        for n in 1..=1000 {
            set(&*cell, n);
        }
        driver.join().expect("no panic").expect("the task sees the last value");
    });
}
