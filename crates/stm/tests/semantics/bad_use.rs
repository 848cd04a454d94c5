//! Bad use: a clear panic instead of a hang or a wrong result, and afterwards everything works.
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Instant;
use std::{env, thread};

use enact_stm::{Abort, Deferrable, Owner, TCell, TVar, Tx, TxLock, atomically, snapshot};

use crate::executor::Step;
use crate::forms::{FORMS, elsewhere, panic_of, set};

/// Commits when it is dropped.
struct Guard<'v>(&'v TCell<i32>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        set(self.0, 1);
    }
}

#[test]
fn a_guard_that_commits_in_drop_panics_inside_a_closure_and_commits_outside() {
    let x = TCell::new(0);
    let message = panic_of(|| {
        atomically(|tx| {
            let _guard = Guard(&x);
            tx.read(&x)
        })
        .run()
    });
    assert!(message.contains("started inside the closure of another one"), "{message}");
    let guard = Guard(&x);
    assert_eq!(atomically(|tx| tx.read(&x)).run(), 0);
    drop(guard);
    assert_eq!(x.into_inner(), 1);
}

#[test]
fn a_guard_that_commits_in_drop_aborts_the_process_when_a_panic_drops_it_inside_a_closure() {
    const NAME: &str =
        "bad_use::a_guard_that_commits_in_drop_aborts_the_process_when_a_panic_drops_it_inside_a_closure";
    const INSIDE: &str = "ENACT_TEST_PANICS_BESIDE_A_GUARD";
    if env::var_os(INSIDE).is_some() {
        let x = TCell::new(0);
        atomically(|_| -> Result<(), Abort> {
            let _guard = Guard(&x);
            panic!("on purpose")
        })
        .run();
    }
    let program = env::current_exe().expect("a test is a program");
    let output = Command::new(program).args([NAME, "--exact", "--nocapture"]).env(INSIDE, "1").output();
    let output = output.expect("a test can be started again");
    assert_eq!(output.status.code(), None, "ended by a signal");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("on purpose") && text.contains("started inside the closure of another one"), "{text}");
}

#[test]
fn a_snapshot_that_does_more_than_reading_panics_and_leaves_nothing() {
    fn try_to(what: impl for<'t> Fn(&mut Tx<'t, '_>, &'t TCell<i32>, &'t TVar<i32>) -> Result<(), Abort>) -> String {
        let (x, boxed) = (TCell::new(1), TVar::new(1));
        let message = panic_of(|| snapshot(|tx| what(tx, &x, &boxed)));
        assert_eq!((x.into_inner(), boxed.into_inner()), (1, 1));
        message
    }
    let misuses = [
        try_to(|tx, x, _| tx.write(x, 2).map(drop)),
        try_to(|tx, _, boxed| tx.write(boxed, 2).map(drop)),
        try_to(|tx, x, _| tx.update(x, |n| n + 1).map(drop)),
        try_to(|tx, x, _| tx.commute(x, |n| n + 1)),
        try_to(|tx, x, _| tx.version(x).map(drop)),
        try_to(|tx, x, _| tx.read(x).and_then(|_| tx.retry())),
        try_to(|tx, x, _| tx.wait_for(x, |n| *n == 2).map(drop)),
        try_to(|tx, _, _| tx.retry_until(Instant::now()).map(drop)),
        try_to(|tx, _, _| tx.irrevocable()),
        try_to(|tx, _, _| tx.defer((), |()| ()).map(drop)),
    ];
    for message in misuses {
        assert!(message.contains("a snapshot only reads; use `atomically`"), "{message}");
    }
    let x = TCell::new(1);
    assert_eq!(snapshot(|tx| tx.read(&x)), 1);
    set(&x, 2);
}

#[test]
fn an_owner_is_forgotten_with_its_transaction() {
    let (clerk, drawer, x) = (Owner::new(), TxLock::new(), TCell::new(0));
    atomically(|tx| drawer.acquire(tx)).owned_by(&clerk).run();
    // On the same thread: a transaction of the clerk that has nothing to do with locks, and then somebody else's.
    atomically(|tx| tx.read(&x)).owned_by(&clerk).run();
    let message = panic_of(|| atomically(|tx| drawer.release(tx)).run());
    assert!(message.contains("released a lock that is held by"), "{message}");
    assert!(Step::new(atomically(|tx| drawer.acquire(tx))).poll().is_pending(), "the drawer is the clerk's");
    atomically(|tx| drawer.release(tx)).owned_by(&clerk).run();
    assert!(!drawer.is_held());
}

#[test]
fn a_transaction_that_swallows_an_abort_is_run_again_all_the_same() {
    for form in FORMS {
        let (x, y) = (TCell::new(0), TCell::new(0));
        let attempts = form.run(atomically(|tx| {
            tx.read(&x)?;
            if tx.attempt() == 1 {
                elsewhere(|| atomically(|tx| tx.write(&x, 1).and(tx.write(&y, 1))).run());
            }
            // The snapshot cannot be kept in the first attempt.
            let seen = tx.read(&y).unwrap_or(-1);
            assert_eq!(seen == -1, tx.attempt() == 1, "{form:?}");
            Ok(tx.attempt())
        }));
        assert!(attempts >= 2, "{form:?}");
    }
    let x = TCell::new(0);
    let mut waiting = Step::new(atomically(|tx| {
        if tx.read(&x)? == 0 {
            let _ = tx.retry::<()>();
        }
        Ok(())
    }));
    assert!(waiting.poll().is_pending(), "it has asked to wait");
    set(&x, 1);
    assert!(waiting.poll().is_ready());
}

#[test]
fn a_lock_in_a_list_that_could_not_be_had_as_a_whole_stays_free() {
    let (a, b) = (Arc::new(Deferrable::new((), ())), Arc::new(Deferrable::new((), ())));
    let (ends, end) = mpsc::channel::<()>();
    let (says, said) = mpsc::channel();
    let end = Arc::new(std::sync::Mutex::new(end));
    thread::scope(|scope| {
        let (b, says, end) = (&b, &says, &end);
        scope.spawn(move || {
            atomically(|tx| {
                let (says, end) = (says.clone(), Arc::clone(end));
                tx.defer((b,), move |_| {
                    says.send(()).expect("the test listens");
                    end.lock().expect("not poisoned").recv().expect("the test says so");
                })
                .map(drop)
            })
            .run();
        });
        said.recv().expect("the operation has begun");
        // The second object is not to be had. A closure that swallows that has not got the first one either.
        let mut careless = Step::new(atomically(|tx| {
            let _ = tx.defer((&a, b), |_| ());
            Ok(())
        }));
        assert!(careless.poll().is_pending());
        atomically(|tx| tx.open(&a).map(drop)).run();
        ends.send(()).expect("the operation listens");
    });
}

#[test]
fn a_future_that_is_polled_after_its_end_panics() {
    let x = TCell::new(0);
    let mut step = Step::new(atomically(|tx| tx.read(&x)));
    assert!(step.poll().is_ready());
    assert!(panic_of(|| step.poll().is_ready()).contains("polled after it was over"));
}
