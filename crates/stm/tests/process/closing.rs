//! What a transaction that runs alone does to itself and to others, in every form. The commits of all others wait for it, and so
//! would those of any other test of the process.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use enact_stm::hooks::{self, Decision, Fate, Retracted};
use enact_stm::{Deferrable, GaveUp, TCell, TxLock, atomically, snapshot, synchronized};

use crate::executor::{Step, block_on};
use crate::forms::{FORMS, elsewhere, panic_of, set};
use crate::my_turn;
use crate::undecided::Undecided;

#[test]
fn every_way_to_start_a_transaction_inside_another_one_panics_and_the_thread_goes_on() {
    let _turn = my_turn();
    let x = TCell::new(0);
    let ways: [&dyn Fn(); 4] = [
        &|| assert_eq!(atomically(|tx| tx.read(&x)).run(), 0),
        &|| assert_eq!(snapshot(|tx| tx.read(&x)), 0),
        &|| assert_eq!(synchronized(|tx| tx.read(&x)), 0),
        &|| assert!(Step::new(atomically(|tx| tx.read(&x))).poll().is_ready()),
    ];
    for way in ways {
        let message = panic_of(|| {
            atomically(|tx| {
                tx.write(&x, 1)?;
                way();
                Ok(())
            })
            .run();
        });
        assert!(message.contains("started inside the closure of another one"), "{message}");
        way();
    }
    assert_eq!(x.into_inner(), 0);
}

#[test]
fn an_irrevocable_transaction_that_asks_to_wait_panics_and_lets_the_others_go_on() {
    let _turn = my_turn();
    let x = TCell::new(0);
    let message = panic_of(|| synchronized(|tx| if tx.read(&x)? == 0 { tx.retry::<()>() } else { Ok(()) }));
    assert!(message.contains("an irrevocable transaction asked to wait"), "{message}");
    elsewhere(|| set(&x, 1));
    synchronized(|tx| tx.write(&x, 2));
    assert_eq!(x.into_inner(), 2);
}

#[test]
fn a_panic_while_running_alone_leaves_an_ordinary_thread() {
    let _turn = my_turn();
    let x = TCell::new(0);
    let message = panic_of(|| synchronized(|tx| tx.write(&x, 7).map(|_| -> u32 { panic!("on purpose") })));
    assert_eq!(message, "on purpose");
    // This thread has no privilege left: it conflicts and runs again like any other.
    let attempts = atomically(|tx| {
        let seen = tx.read(&x)?;
        if tx.attempt() == 1 {
            elsewhere(|| set(&x, 1));
        }
        tx.write(&x, seen + 1)?;
        Ok(tx.attempt())
    })
    .run();
    assert!(attempts >= 2);
    assert_eq!(x.into_inner(), 2);
}

#[test]
fn a_commit_that_panics_promises_no_operation() {
    let _turn = my_turn();
    let (log, x) = (Arc::new(Deferrable::new((), 0)), TCell::new(0));
    panic_of(|| {
        atomically(|tx| {
            tx.commute(&x, |_| panic!("on purpose"))?;
            tx.defer((&log,), |(log,)| **log += 1).map(drop)
        })
        .run();
    });
    // This waits until no deferred operation is under way.
    synchronized(|tx| tx.write(&x, 1));
    atomically(|tx| tx.open(&log).map(drop)).run();
    assert_eq!(Arc::into_inner(log).expect("nobody has it").into_inner().1, 0);
}

#[test]
fn an_irrevocable_transaction_waits_for_locks_that_are_released_after_a_commit() {
    let _turn = my_turn();
    let (lock, x) = (TxLock::new(), TCell::new(0));
    let (says, said) = mpsc::channel();
    let (tells, told) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            let told = Arc::new(Mutex::new(told));
            atomically(|tx| {
                lock.acquire(tx)?;
                let (says, told) = (says.clone(), Arc::clone(&told));
                hooks::on_commit(tx, move || {
                    says.send(()).expect("the test listens");
                    told.lock().expect("not poisoned").recv().expect("the test says so");
                });
                Ok(())
            })
            .run();
        });
        said.recv().expect("it has committed");
        let mut alone = Step::new(atomically(|tx| {
            tx.irrevocable()?;
            let is_held = lock.holder(tx)?.is_some();
            tx.write(&x, 1)?;
            Ok(is_held)
        }));
        assert!(alone.poll().is_pending(), "the lock is still to be released");
        tells.send(()).expect("the other thread listens");
        assert!(!block_on(&mut alone.into_inner()), "it has been released");
    });
    assert!(!lock.is_held());
}

#[test]
fn an_irrevocable_transaction_takes_two_tries() {
    let _turn = my_turn();
    let (x, effects) = (TCell::new(0), AtomicU32::new(0));
    let alone = |most| {
        atomically(|tx| {
            tx.irrevocable()?;
            effects.fetch_add(1, Ordering::SeqCst);
            tx.update(&x, |n| n + 1)
        })
        .tries(most)
        .run()
    };
    assert_eq!(alone(1), Err(GaveUp::OutOfTries { attempts: 1 }));
    assert_eq!(effects.load(Ordering::SeqCst), 0);
    assert_eq!(alone(2), Ok(1));
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

#[test]
fn a_transaction_is_given_up_while_others_run_alone() {
    let _turn = my_turn();
    for form in FORMS {
        let (x, y) = (TCell::new(0_u32), TCell::new(0_u32));
        synchronized(|tx| {
            let committing = elsewhere(|| {
                form.run_limited(atomically(|tx| tx.update(&x, |n| n + 1)).timeout(Duration::from_millis(2)))
            });
            assert_eq!(committing, Err(GaveUp::OutOfTime { attempts: 1 }), "{form:?}");
            let queued = atomically(|tx| {
                tx.irrevocable()?;
                tx.update(&x, |n| n + 1)
            });
            let queued = elsewhere(|| form.run_limited(queued.timeout(Duration::from_millis(2))));
            assert_eq!(queued, Err(GaveUp::OutOfTime { attempts: 1 }), "{form:?}");
            tx.write(&y, 1)
        });
        set(&x, 5);
        assert_eq!(synchronized(|tx| tx.update(&x, |n| n + 1)), 6, "{form:?}");
    }
}

#[test]
fn a_dependent_that_wants_to_run_alone_does_not_close_the_serial_lock_before_the_decision() {
    let _turn = my_turn();
    for commits in [true, false] {
        let (x, y) = (TCell::new(0), TCell::new(0));
        thread::scope(|scope| {
            let first = Undecided::begin(scope, &x, 1);
            let alone = atomically(|tx| {
                tx.irrevocable()?;
                tx.update(&y, |n| n + 1)
            });
            let mut step = Step::new(hooks::depending_on(first.fate.clone(), alone));
            assert!(step.poll().is_pending());
            // Others commit, the dependency among them.
            set(&y, 5);
            first.decide(commits);
            let result = block_on(&mut step.into_inner());
            assert_eq!(result, if commits { Ok(6) } else { Err(Retracted) });
        });
    }
}

#[test]
fn an_attempt_that_others_may_depend_on_is_not_left_open_before_a_closed_serial_lock() {
    let _turn = my_turn();
    let (x, fates) = (TCell::new(0), Mutex::new(Vec::new()));
    let (opens, is_open) = mpsc::channel();
    let is_opened = Mutex::new(Some(is_open));
    thread::scope(|scope| {
        let transaction = atomically(|tx| {
            fates.lock().expect("not poisoned").push(hooks::fate(tx));
            if let Some(is_open) = is_opened.lock().expect("not poisoned").take() {
                let (closes, is_closed) = mpsc::channel();
                scope.spawn(move || {
                    synchronized(|_| {
                        closes.send(()).expect("the closure waits for it");
                        is_open.recv().expect("the test opens it");
                        Ok(())
                    });
                });
                is_closed.recv().expect("the serial lock is closed");
            }
            tx.write(&x, 1)
        });
        let mut step = Step::new(transaction);
        assert!(step.poll().is_pending());
        let decisions = || fates.lock().expect("not poisoned").iter().map(Fate::decision).collect::<Vec<_>>();
        assert_eq!(decisions(), [Some(Decision::Aborted)], "the thread that polls this task may wait for that first");
        opens.send(()).expect("the serial lock is closed");
        assert_eq!(block_on(&mut step.into_inner()), 1);
        assert_eq!(decisions().last(), Some(&Some(Decision::Committed)));
    });
}

#[test]
fn nor_is_one_that_waits_with_its_thread() {
    let _turn = my_turn();
    let x = TCell::new(0);
    let (closes, is_closed) = mpsc::channel();
    let (opens, is_open) = mpsc::channel();
    let (gives, given) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            synchronized(|_| {
                closes.send(()).expect("the test listens");
                is_open.recv().expect("the test opens it");
                Ok(())
            });
        });
        is_closed.recv().expect("the serial lock is closed");
        scope.spawn(|| {
            let gives = gives;
            atomically(|tx| {
                gives.send(hooks::fate(tx)).expect("the test listens");
                tx.write(&x, 1)
            })
            .run()
        });
        let fate = given.recv().expect("there is an attempt");
        let decided = block_on(&mut std::future::poll_fn(|cx| fate.poll(cx.waker())));
        assert_eq!(decided, Decision::Aborted, "what runs alone may wait for something that waits for it");
        opens.send(()).expect("the serial lock is closed");
    });
    assert_eq!(given.iter().last().expect("there was another").decision(), Some(Decision::Committed));
}
