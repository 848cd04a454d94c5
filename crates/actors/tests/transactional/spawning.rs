//! `spawn`: at once in a definitive turn, with the transaction of the message in a tentative one, with the transaction
//! inside of one.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use enact_actors::{Actor, Ask, Cx, ExitReason, OnPanic, Spec, System};
use enact_stm::{Failed, atomically, try_atomically};

use crate::probe::probe;
use crate::subject::{Directed, Subject, answer, held, note, plain, settle, system};
use crate::undecided::{Undecided, conflict_if, shared};

for_both_kinds![
    an_actor_of_a_definitive_turn_runs_at_once,
    an_actor_of_a_tentative_turn_runs_nothing_before_the_transaction_has_committed,
    one_actor_is_there_after_three_lost_attempts,
    no_actor_is_there_after_an_error,
    a_transaction_in_a_turn_makes_a_child_of_that_actor,
    a_part_that_fails_takes_its_actors_with_it,
    a_part_that_fails_takes_its_messages_with_it_and_the_rest_goes_on,
    an_actor_of_a_tentative_turn_waits_whichever_way_it_is_made,
    an_actor_of_a_transaction_in_a_tentative_turn_is_delayed_once_and_needs_both,
    an_actor_made_and_stopped_in_one_tentative_turn_takes_up_what_was_sent_before,
    an_actor_made_in_a_tentative_turn_can_be_called_there,
];

/// How many actors of this name there are.
fn count(system: &System, name: &str) -> usize {
    system.actors().iter().filter(|actor| actor.name() == name).count()
}

fn child<A: Subject>() -> Spec<A> {
    Spec::new(A::new()).name("child")
}

// Case TA-spawn-D, S0-T1b.
fn an_actor_of_a_definitive_turn_runs_at_once<A: Subject>() {
    let system = system(2);
    let a = system.spawn(A::new());
    let (probe, signals) = probe();
    let turn = a.ask(plain(move |_: &mut A, cx| {
        cx.spawn(child::<A>()).send(plain(move |_, _| {
            probe.signal(1);
            0
        }));
        signals.next()
    }));
    assert_eq!(turn.wait(), Ok(1), "before the turn that has made it ends");
}

// Case TA-spawn-T, S0-T1c.
fn an_actor_of_a_tentative_turn_runs_nothing_before_the_transaction_has_committed<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::with_notes(&[1]));
        let (probe, signals) = probe();
        let (made, is_made) = std::sync::mpsc::channel();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let (probe, made) = (probe.clone(), made.clone());
                let turn = plain(move |_: &mut A, cx| {
                    let new = cx.spawn(child::<A>());
                    let probe = probe.clone();
                    new.send(plain(move |new: &mut A, _| {
                        probe.signal(1);
                        new.note(1)
                    }));
                    made.send(new).expect("the test listens");
                    cx.become_next(A::with_notes(&[2]));
                    0
                });
                Ok(a.ask_within(tx, turn))
            })
        };
        // A patient actor has not run the turn yet.
        let early = A::IS_SPECULATIVE.then(|| is_made.recv().expect("the turn has run"));
        if let Some(new) = &early {
            // What is sent by others waits in its mailbox.
            new.send(note(2));
        }
        settle(&system);
        assert!(signals.is_silent());
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 0));
        assert_eq!(a.noted(), if commits { [2] } else { [1] }, "the next message is taken up");
        if commits {
            let new = early.unwrap_or_else(|| is_made.recv().expect("the turn has run"));
            assert_eq!(new.noted(), if A::IS_SPECULATIVE { vec![1, 2] } else { vec![1] });
            assert_eq!(count(&system, "child"), 1);
        } else if let Some(new) = early {
            new.ask(note(3)).wait().expect_err("it never was");
            assert_eq!(count(&system, "child"), 0);
            assert!(signals.is_silent());
        }
    }
}

// Case TA-spawn-A, S0-T1a.
fn one_actor_is_there_after_three_lost_attempts<A: Subject>() {
    let system = system(1);
    let (probe, signals) = probe();
    let (t1, mut new) = {
        let (system, attempts) = (system.clone(), AtomicU32::new(0));
        Undecided::begin(move |tx| {
            let (attempt, probe) = (attempts.fetch_add(1, Ordering::SeqCst), probe.clone());
            let new = system.spawn_within(tx, child::<A>());
            new.send_within(
                tx,
                plain(move |new: &mut A, _| {
                    probe.signal(attempt);
                    new.note(attempt)
                }),
            );
            Ok(new)
        })
    };
    for _ in 0..3 {
        settle(&system);
        assert!(signals.is_silent(), "it runs nothing, not even tentatively");
        let lost = std::mem::replace(&mut new, t1.conflict());
        lost.ask(note(9)).wait().expect_err("it never was");
        assert_ne!(lost.id(), new.id());
    }
    let early = new.ask(note(100));
    assert!(!early.is_ready());
    t1.commit();
    assert_eq!(early.wait(), Ok(100));
    assert_eq!(new.noted(), [3, 100], "what was sent in the transaction is there when it starts");
    assert_eq!((count(&system, "child"), signals.so_far()), (1, vec![3]));
}

// Case TA-spawn-A.
fn no_actor_is_there_after_an_error<A: Subject>() {
    for panics in [false, true] {
        let system = system(1);
        let token = Arc::new(());
        let (t1, new) = {
            let (system, token) = (system.clone(), Arc::clone(&token));
            Undecided::begin(move |tx| {
                let token = Arc::clone(&token);
                let new = system.spawn_within(tx, child::<A>());
                new.send_within(tx, plain(move |_: &mut A, _| Arc::strong_count(&token) as u32));
                Ok(new)
            })
        };
        if panics {
            t1.panic();
        } else {
            t1.abort();
        }
        new.ask(note(9)).wait().expect_err("it never was");
        drop(new);
        assert_eq!(count(&system, "child"), 0);
        drop(system);
        assert_eq!(Arc::strong_count(&token), 1, "nothing is left of it, nor of what was sent to it");
    }
}

// Case TA-spawn-A.
fn a_transaction_in_a_turn_makes_a_child_of_that_actor<A: Subject>() {
    for by_context in [true, false] {
        let system = system(2);
        let parent = system.spawn(A::new());
        let contended = shared(0);
        let made = parent.run(move |_, cx| {
            atomically(|tx| {
                let new = if by_context {
                    cx.spawn_within(tx, child::<A>().on_panic(OnPanic::Escalate))
                } else {
                    // Does not escalate, but is made by the actor whose turn it is.
                    A::new().spawn_within(tx)
                };
                conflict_if(tx, contended, tx.attempt() <= 2)?;
                Ok(new)
            })
            .run()
        });
        let new = made.wait().expect("no panic");
        assert_eq!(new.ask(note(1)).wait(), Ok(1));
        if by_context {
            assert_eq!(count(&system, "child"), 1);
            new.send(plain(|_: &mut A, _| panic!("on purpose")));
            let exit = parent.watch().wait().expect("it ends");
            assert!(matches!(exit.reason, ExitReason::Failed { .. }), "{exit:?}");
        }
    }
}

// Case TA-spawn-A.
fn a_part_that_fails_takes_its_actors_with_it<A: Subject>() {
    let system = system(2);
    let (lost, kept) = atomically(|tx| {
        let kept = system.spawn_within(tx, child::<A>());
        let mut lost = None;
        let part = tx.nested(|tx| {
            let new = system.spawn_within(tx, child::<A>());
            new.send_within(tx, note(1));
            kept.send_within(tx, note(2));
            lost = Some(new);
            Err::<(), _>(Failed::Error(()))
        })?;
        assert_eq!(part, Err(()));
        kept.send_within(tx, note(3));
        Ok((lost.expect("it was made"), kept))
    })
    .run();
    assert_eq!(kept.noted(), [3]);
    lost.ask(note(9)).wait().expect_err("it never was");
    assert_eq!(count(&system, "child"), 1);
}

// Case S0-T1f.
fn a_part_that_fails_takes_its_messages_with_it_and_the_rest_goes_on<A: Subject>() {
    for outer_stands in [true, false] {
        let system = system(2);
        let a = system.spawn(A::new());
        let b = a.clone();
        let (t1, asks) = Undecided::begin(move |tx| {
            let first = b.ask_within(tx, note(1));
            let mut inner = None;
            let part = tx.nested(|tx| {
                inner = Some(b.ask_within(tx, note(2)));
                Err::<(), _>(Failed::Error(()))
            })?;
            assert_eq!(part, Err(()));
            Ok([first, inner.expect("it was sent"), b.ask_within(tx, note(3))])
        });
        let [first, inner, last] = asks.map(Ask::promise);
        if outer_stands {
            t1.commit();
        } else {
            t1.abort();
        }
        assert_eq!(first.wait(), answer(outer_stands, 1));
        assert_eq!(inner.wait(), answer(false, 2));
        assert_eq!(last.wait(), answer(outer_stands, 3));
        assert_eq!(a.noted(), if outer_stands { vec![1, 3] } else { vec![] });
    }
}

type Make<A> = fn(&System, &Cx<A>) -> <A as Actor>::Ref;

// Case TA-spawn-T.
fn an_actor_of_a_tentative_turn_waits_whichever_way_it_is_made<A: Subject>() {
    let ways: [Make<A>; 3] = [|_, cx| cx.spawn(A::new()), |_, _| A::new().spawn(), |system, _| system.spawn(A::new())];
    for way in ways {
        for commits in [true, false] {
            let system = system(1);
            let a = system.spawn(A::new());
            let (probe, signals) = probe();
            let (t1, ask) = {
                let (a, system) = (a.clone(), system.clone());
                Undecided::begin(move |tx| {
                    let (probe, system) = (probe.clone(), system.clone());
                    let making = plain(move |a: &mut A, cx| {
                        way(&system, cx).send(plain(move |_, _| {
                            probe.signal(1);
                            0
                        }));
                        a.note(1)
                    });
                    Ok(a.ask_within(tx, making))
                })
            };
            settle(&system);
            assert!(signals.is_silent());
            t1.decide(commits);
            assert_eq!(ask.promise().wait(), answer(commits, 1));
            if commits {
                assert_eq!(signals.next(), 1);
            } else {
                settle(&system);
                assert!(signals.is_silent());
            }
        }
    }
}

// Case TA-spawn-A.
fn an_actor_of_a_transaction_in_a_tentative_turn_is_delayed_once_and_needs_both<A: Subject>() {
    for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
        let system = system(1);
        let a = system.spawn(A::new());
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let making = held(move |a: &mut A, cx| {
                    Box::pin(async move {
                        let t2 = try_atomically(|tx| {
                            let new = cx.spawn_within(tx, child::<A>());
                            new.send_within(tx, note(5));
                            if second { Ok(new) } else { Err(Failed::Error(new)) }
                        });
                        // Not with the end of the turn: it is there as soon as its transaction has committed.
                        let (Ok(new) | Err(new)) = t2.await;
                        let made = new.ask(note(6)).await.is_ok();
                        a.note(u32::from(made))
                    })
                });
                Ok(a.ask_within(tx, making))
            })
        };
        settle(&system);
        assert_eq!(count(&system, "child"), 0);
        t1.decide(first);
        assert_eq!(ask.promise().wait(), answer(first, u32::from(second)));
        assert_eq!(a.noted(), if first { vec![u32::from(second)] } else { vec![] });
    }
}

fn an_actor_made_and_stopped_in_one_tentative_turn_takes_up_what_was_sent_before<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let (probe, signals) = probe();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let probe = probe.clone();
                let making = plain(move |a: &mut A, cx| {
                    let new = cx.spawn(child::<A>());
                    new.send(plain(move |_, _| {
                        probe.signal(1);
                        0
                    }));
                    new.stop();
                    a.note(1)
                });
                Ok(a.ask_within(tx, making))
            })
        };
        settle(&system);
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 1));
        settle(&system);
        assert_eq!(signals.so_far(), if commits { vec![1] } else { vec![] });
        assert_eq!(count(&system, "child"), 0);
    }
}

fn an_actor_made_in_a_tentative_turn_can_be_called_there<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let making = plain(move |a: &mut A, cx| {
                    let new = cx.spawn(child::<A>());
                    a.note(new.have(cx, note(4)).expect("it is there when the call is"))
                });
                Ok(a.ask_within(tx, making))
            })
        };
        settle(&system);
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 4));
        assert_eq!(a.noted(), if commits { vec![4] } else { vec![] });
    }
}
