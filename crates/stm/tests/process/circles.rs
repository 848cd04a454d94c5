//! Deferred operations that wait for each other: the one that closes the circle is told of it, and nobody else is.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use enact_stm::{Deferrable, Owner, TCell, TxLock, atomically, statistics};

use crate::{my_turn, set};

type Object = Arc<Deferrable<(), ()>>;

fn object(name: &'static str) -> Object {
    Arc::new(Deferrable::named(name, (), ()))
}

/// Runs `work` and gives the message of its panic, if it panics.
fn told(work: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(work)).err()?;
    Some(panic.downcast_ref::<String>().expect("a message with names").clone())
}

/// Lets others run until so many transactions have slept since `before`.
fn wait_for_sleeps(before: u64, count: u64) {
    while statistics().sleeps < before + count {
        thread::yield_now();
    }
}

/// Starts a thread with an operation on `own`, which does `work`; gives what it was told when it has ended. The call is over
/// when `work` has begun.
fn operate<'s>(
    scope: &'s Scope<'s, '_>,
    own: &Object,
    work: impl FnOnce() + Send + 'static,
) -> ScopedJoinHandle<'s, Option<String>> {
    let (own, work) = (Arc::clone(own), Arc::new(Mutex::new(Some(work))));
    let begun = Arc::new(Barrier::new(2));
    let begins = Arc::clone(&begun);
    let running = scope.spawn(move || {
        told(|| {
            atomically(|tx| {
                let (begins, work) = (Arc::clone(&begins), Arc::clone(&work));
                tx.defer((&own,), move |_| {
                    begins.wait();
                    let work = work.lock().expect("not poisoned").take();
                    work.expect("an operation runs once")();
                })
                .map(drop)
            })
            .run();
        })
    });
    begun.wait();
    running
}

/// Opens an object, poisoned or not.
fn open(object: &Object) {
    atomically(|tx| tx.try_open(object).map(drop)).run();
}

/// A channel on which an operation waits before it reaches for others.
fn signal() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
    let (sends, receives) = mpsc::channel();
    (sends, move || receives.recv().expect("the test sends"))
}

/// Operations on each of `names`, each of which opens the next one; they go for it one after the other, from the first on.
fn circle(names: &[&'static str]) -> Vec<Option<String>> {
    let objects: Vec<_> = names.iter().map(|name| object(name)).collect();
    let before = statistics().sleeps;
    thread::scope(|scope| {
        let running: Vec<_> = (0..names.len())
            .map(|n| {
                let (go, gone) = signal();
                let next = Arc::clone(&objects[(n + 1) % names.len()]);
                let running = operate(scope, &objects[n], move || {
                    gone();
                    open(&next);
                });
                (go, running)
            })
            .collect();
        let mut running = running.into_iter().enumerate();
        let started: Vec<_> = running
            .by_ref()
            .map(|(n, (go, running))| {
                wait_for_sleeps(before, n as u64);
                go.send(()).expect("the operation listens");
                running
            })
            .collect();
        started.into_iter().map(|running| running.join().expect("the panic was caught")).collect()
    })
}

#[test]
fn of_two_operations_that_wait_for_each_other_the_later_one_is_told_the_names() {
    let _turn = my_turn();
    let told = circle(&["index", "accounts.log"]);
    assert_eq!(told[0], None, "it goes on when the other one has ended");
    let text = told[1].as_deref().expect("it closes the circle");
    let expected =
        r#"deferred operation holding "accounts.log" waits for "index", whose holder waits for "accounts.log""#;
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn of_three_operations_that_wait_for_each_other_the_last_one_is_told_the_names() {
    let _turn = my_turn();
    let told = circle(&["a", "b", "c"]);
    assert_eq!(told[..2], [None, None]);
    let text = told[2].as_deref().expect("it closes the circle");
    let expected =
        r#"deferred operation holding "c" waits for "a", whose holder waits for "b", whose holder waits for "c""#;
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn an_operation_that_waits_for_its_own_object_under_another_owner_is_told() {
    let _turn = my_turn();
    let own = object("own");
    let same = Arc::clone(&own);
    let told = thread::scope(|scope| {
        let opens = move || atomically(|tx| tx.try_open(&same).map(drop)).owned_by(&Owner::new()).run();
        operate(scope, &own, opens).join().expect("the panic was caught")
    });
    let text = told.expect("it waits for itself");
    assert!(text.starts_with(r#"deferred operation holding "own" waits for "own";"#), "{text}");
}

#[test]
fn locks_of_a_transaction_with_operations_are_held_until_these_have_ended_and_are_named_too() {
    let _turn = my_turn();
    let (drawer, log) = (TxLock::named("drawer"), object("log"));
    let before = statistics().sleeps;
    thread::scope(|scope| {
        let (go, gone) = signal();
        let held = drawer.clone();
        let running = operate(scope, &log, move || {
            gone();
            atomically(|tx| held.subscribe(tx)).run();
        });
        let text = told(|| {
            atomically(|tx| {
                drawer.acquire(tx)?;
                let (log, go) = (Arc::clone(&log), go.clone());
                tx.defer((), move |()| {
                    go.send(()).expect("the operation listens");
                    wait_for_sleeps(before, 1);
                    open(&log);
                })
                .map(drop)
            })
            .run();
        });
        let text = text.expect("it closes the circle");
        let expected = r#"deferred operation holding "drawer" waits for "log", whose holder waits for "drawer""#;
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(running.join().expect("it goes on"), None);
    });
}

/// An operation on `a` that waits for `b` or `c`; that on `b` waits for `a`, and that on `c` does `work` given `a`.
fn alternatives(
    work: impl FnOnce(&Object) + Send + 'static,
    before_the_last: impl FnOnce(),
    end: impl FnOnce(),
) -> [Option<String>; 3] {
    let [a, b, c] = ["a", "b", "c"].map(object);
    thread::scope(|scope| {
        let (go, gone) = signal();
        let (first, second) = (Arc::clone(&b), Arc::clone(&c));
        let either = operate(scope, &a, move || {
            gone();
            atomically(|tx| tx.or_else(|tx| tx.try_open(&first).map(drop), |tx| tx.try_open(&second).map(drop))).run();
        });
        let (of_b, of_c) = (Arc::clone(&a), Arc::clone(&a));
        let others = [operate(scope, &b, move || open(&of_b)), operate(scope, &c, move || work(&of_c))];
        before_the_last();
        go.send(()).expect("the operation listens");
        end();
        let [second, third] = others.map(|other| other.join().expect("the panic was caught"));
        [either.join().expect("the panic was caught"), second, third]
    })
}

#[test]
fn an_operation_all_of_whose_alternatives_wait_for_it_is_told() {
    let _turn = my_turn();
    let before = statistics().sleeps;
    let [text, second, third] = alternatives(open, || wait_for_sleeps(before, 2), || ());
    let text = text.expect("it closes two circles");
    let expected = r#"deferred operation holding "a" waits for "b", whose holder waits for "a""#;
    assert!(text.starts_with(expected), "{text}");
    assert_eq!((second, third), (None, None));
}

#[test]
fn an_operation_with_an_alternative_outside_the_circle_is_not_told() {
    let _turn = my_turn();
    let before = statistics().sleeps;
    let (end, ends) = signal();
    let told = alternatives(
        |_| ends(),
        || wait_for_sleeps(before, 1),
        || {
            wait_for_sleeps(before, 2);
            end.send(()).expect("the operation listens");
        },
    );
    assert_eq!(told, [None, None, None]);
}

/// Two operations that wait for each other, the first one with `patience`, and not for ever: nobody is told.
fn ends(patience: impl FnOnce(&Object) + Send + 'static, end: impl FnOnce()) {
    let [a, b] = ["a", "b"].map(object);
    let before = statistics().sleeps;
    thread::scope(|scope| {
        let (go, gone) = signal();
        let (other, first) = (Arc::clone(&b), Arc::clone(&a));
        let patient = operate(scope, &a, move || {
            gone();
            patience(&other);
        });
        let closes = operate(scope, &b, move || open(&first));
        wait_for_sleeps(before, 1);
        go.send(()).expect("the operation listens");
        end();
        assert_eq!(patient.join().expect("it ends"), None);
        assert_eq!(closes.join().expect("it ends"), None);
    });
}

#[test]
fn a_wait_with_a_limit_is_not_told() {
    let _turn = my_turn();
    ends(
        |other| assert!(atomically(|tx| tx.try_open(other).map(drop)).timeout(Duration::from_millis(5)).run().is_err()),
        || (),
    );
    ends(|other| assert!(atomically(|tx| tx.try_open(other).map(drop)).tries(1).run().is_err()), || ());
    ends(
        |other| {
            let deadline = Instant::now() + Duration::from_millis(5);
            atomically(|tx| tx.or_else(|tx| tx.try_open(other).map(drop), |tx| tx.retry_until(deadline).map(drop)))
                .run();
        },
        || (),
    );
}

#[test]
fn a_wait_that_a_variable_can_end_is_not_told() {
    let _turn = my_turn();
    let flag = Arc::new(TCell::new(0));
    let before = statistics().sleeps;
    let looks = Arc::clone(&flag);
    ends(
        move |other| {
            atomically(|tx| match tx.read(&*looks)? {
                0 => tx.try_open(other).map(drop),
                _ => Ok(()),
            })
            .run();
        },
        || {
            wait_for_sleeps(before, 2);
            set(&flag, 1);
        },
    );
}

#[test]
fn a_wait_for_an_operation_that_ends_is_not_told() {
    let _turn = my_turn();
    let [a, b, c] = ["a", "b", "c"].map(object);
    let before = statistics().sleeps;
    thread::scope(|scope| {
        let (go, gone) = signal();
        let ends = operate(scope, &c, gone);
        let (next, last) = (Arc::clone(&b), Arc::clone(&c));
        let second = operate(scope, &b, move || open(&last));
        wait_for_sleeps(before, 1);
        let first = operate(scope, &a, move || open(&next));
        wait_for_sleeps(before, 2);
        go.send(()).expect("the operation listens");
        for running in [ends, second, first] {
            assert_eq!(running.join().expect("it ends"), None);
        }
    });
}

#[test]
fn a_lock_without_a_name_is_shown_by_its_type_and_place() {
    let (lock, object) = (TxLock::new(), Deferrable::new((), 7_u8));
    assert!(lock.to_string().starts_with("TxLock at 0x"), "{lock}");
    assert!(format!("{object:?}").contains("Deferrable<(), u8> at 0x"), "{object:?}");
    assert_eq!(TxLock::named("drawer").to_string(), "\"drawer\"");
}
