//! Panics in tentative turns, and in transactions that have sent something.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use enact_actors::{ActorError, ExitReason, OnPanic, Promise, Restarts, Spec};
use enact_stm::{Tx, atomically, try_atomically};

use crate::probe::probe;
use crate::subject::{Directed, FORMS, Subject, answer, held, note, plain, settle, system, transact};
use crate::undecided::{Undecided, shared, value_of};

for_both_kinds![
    a_tentative_turn_that_panics_is_seen_by_its_supervision_with_the_commit_or_never,
    a_restart_happens_once_and_the_message_is_not_taken_up_again,
    a_resumed_actor_keeps_what_the_turn_has_changed_with_the_commit_only,
    a_panic_after_an_await_of_a_tentative_turn_counts_with_the_commit,
    a_panic_in_a_transaction_of_a_tentative_turn_undoes_that_and_counts_with_the_commit,
    what_a_turn_has_sent_before_its_panic_goes_out_with_the_commit,
    a_transaction_that_panics_or_fails_takes_its_messages_back_and_its_sender_sees_why,
    a_turn_whose_transaction_panics_takes_its_messages_back,
];

fn text_of(answer: &Result<u32, ActorError>) -> &str {
    match answer {
        Err(ActorError::Panicked { text, .. }) => text,
        other => panic!("no panic: {other:?}"),
    }
}

// Case TA-panic.
fn a_tentative_turn_that_panics_is_seen_by_its_supervision_with_the_commit_or_never<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::with_notes(&[7]));
        let (probe, signals) = probe();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let probe = probe.clone();
                let turn = plain(move |a: &mut A, _| {
                    a.note(1);
                    probe.signal(1);
                    panic!("broken")
                });
                Ok(a.ask_within(tx, turn))
            })
        };
        let (promise, next, exit) = (ask.promise(), a.ask(note(2)), a.watch());
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1);
        }
        settle(&system);
        assert!(!promise.is_ready() && !next.is_ready() && !exit.is_ready());
        t1.decide(commits);
        let answered = promise.wait();
        if commits {
            assert_eq!(text_of(&answered), "broken");
            assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Panicked { text: "broken".into() });
            assert_eq!(next.wait(), Err(ActorError::Stopped { actor: a.identity() }));
        } else {
            assert_eq!((answered, next.wait()), (answer(false, 0), Ok(2)));
            assert_eq!(a.noted(), [7, 2]);
        }
        let runs = usize::from(!A::IS_SPECULATIVE && commits);
        assert_eq!(signals.so_far().len(), runs, "it is run once at most");
    }
}

// Case TA-panic.
fn a_restart_happens_once_and_the_message_is_not_taken_up_again<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let makes = Arc::new(AtomicUsize::new(0));
        let (probe, signals) = probe();
        let made = Arc::clone(&makes);
        let a = system.spawn(Spec::restarting(Restarts::at_most(5, Duration::from_secs(600)), move || {
            made.fetch_add(1, Ordering::SeqCst);
            A::new()
        }));
        a.send(note(1));
        let (t1, ()) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let probe = probe.clone();
                a.send_within(
                    tx,
                    plain(move |_: &mut A, _| {
                        probe.signal(1);
                        panic!("broken")
                    }),
                );
                Ok(())
            })
        };
        settle(&system);
        assert_eq!(makes.load(Ordering::SeqCst), 1);
        t1.decide(commits);
        a.send(note(2));
        assert_eq!(a.noted(), if commits { vec![2] } else { vec![1, 2] });
        assert_eq!(makes.load(Ordering::SeqCst), if commits { 2 } else { 1 });
        assert_eq!(signals.so_far().len(), usize::from(A::IS_SPECULATIVE || commits));
    }
}

// Case TA-panic.
fn a_resumed_actor_keeps_what_the_turn_has_changed_with_the_commit_only<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(Spec::new(A::new()).on_panic(OnPanic::Resume));
        let (t1, ()) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                a.send_within(
                    tx,
                    plain(|a: &mut A, _| {
                        a.note(1);
                        panic!("broken")
                    }),
                );
                Ok(())
            })
        };
        settle(&system);
        t1.decide(commits);
        assert_eq!(a.noted(), if commits { vec![1] } else { vec![] });
    }
}

// Case TA-panic.
fn a_panic_after_an_await_of_a_tentative_turn_counts_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(Spec::new(A::new()).on_panic(OnPanic::Resume));
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let turn = held(|a: &mut A, cx| {
                    Box::pin(async move {
                        a.note(1);
                        cx.yield_now().await;
                        panic!("broken")
                    })
                });
                Ok(a.ask_within(tx, turn))
            })
        };
        let promise = ask.promise();
        settle(&system);
        assert!(!promise.is_ready());
        t1.decide(commits);
        let answered = promise.wait();
        if commits {
            assert_eq!(text_of(&answered), "broken");
        } else {
            assert_eq!(answered, answer(false, 0));
        }
        assert_eq!(a.noted(), if commits { vec![1] } else { vec![] });
    }
}

// Case TA-panic.
fn a_panic_in_a_transaction_of_a_tentative_turn_undoes_that_and_counts_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        for form in FORMS {
            let system = system(1);
            let a = system.spawn(Spec::new(A::new()).on_panic(OnPanic::Resume));
            let y = shared(0);
            let (t1, ask) = {
                let a = a.clone();
                Undecided::begin(move |tx| {
                    let body = move |tx: &mut Tx<'_, 'static>| {
                        let written = tx.write(y, 1)?;
                        assert!(written != 1, "broken");
                        Ok(written)
                    };
                    Ok(a.ask_within(tx, transact(form, body, |a: &mut A, n| a.note(n))))
                })
            };
            let promise = ask.promise();
            settle(&system);
            assert!(!promise.is_ready(), "{form:?}");
            t1.decide(commits);
            let answered = promise.wait();
            if commits {
                assert_eq!(text_of(&answered), "broken", "{form:?}");
            } else {
                assert_eq!(answered, answer(false, 0), "{form:?}");
            }
            assert_eq!((a.noted(), value_of(y)), (vec![], 0), "{form:?}");
        }
    }
}

// Case TA-panic.
fn what_a_turn_has_sent_before_its_panic_goes_out_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(Spec::new(A::new()).on_panic(OnPanic::Resume));
        let b = system.spawn(A::new());
        let (through, resolver) = Promise::<u32>::pair();
        let resolver = std::sync::Mutex::new(Some(resolver));
        let (t1, ()) = {
            let (a, b) = (a.clone(), b.clone());
            Undecided::begin(move |tx| {
                let (b, resolver) = (b.clone(), resolver.lock().expect("not poisoned").take());
                a.send_within(
                    tx,
                    plain(move |_: &mut A, _| {
                        b.send(note(2));
                        resolver.expect("one attempt").resolve(5);
                        panic!("broken")
                    }),
                );
                Ok(())
            })
        };
        settle(&system);
        assert!(!through.is_ready());
        t1.decide(commits);
        assert_eq!(through.wait().ok(), commits.then_some(5));
        drop(a.noted());
        assert_eq!(b.noted(), if commits { vec![2] } else { vec![] }, "as those of an ordinary turn that panics");
    }
}

// Case S0-exn.
fn a_transaction_that_panics_or_fails_takes_its_messages_back_and_its_sender_sees_why<A: Subject>() {
    for panics in [true, false] {
        let system = system(2);
        let a = system.spawn(A::new());
        let x = shared(0);
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                tx.write(x, 1)?;
                Ok(a.ask_within(tx, note(1)))
            })
        };
        if panics {
            t1.panic();
        } else {
            t1.abort();
        }
        assert_eq!(ask.promise().wait(), answer(false, 0));
        assert_eq!((a.noted(), value_of(x)), (vec![], 0));
    }
}

// Case S0-exn.
fn a_turn_whose_transaction_panics_takes_its_messages_back<A: Subject>() {
    let system = system(2);
    let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
    let to = b.clone();
    let turn = a.ask(plain(move |_: &mut A, _| {
        let failed = try_atomically(|tx| {
            to.send_within(tx, note(1));
            Err::<(), _>("7x".parse::<u32>().expect_err("no number").into())
        });
        let error = failed.run().expect_err("it fails");
        atomically(|tx| {
            to.send_within(tx, note(2));
            let _: u32 = tx.write(shared(0), 1)?;
            panic!("broken after {error}")
        })
        .run()
    }));
    assert!(text_of(&turn.wait()).starts_with("broken after invalid digit"));
    assert_eq!(b.noted(), []);
}
