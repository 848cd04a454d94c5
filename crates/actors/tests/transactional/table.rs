//! The table of the paper: what `become`, `send`, `atomically` and closures mean in a definitive turn (`_d_`), in a
//! tentative turn (`_t_`) and inside a transaction (`_a_`). `spawn` is in `spawning`; access to variables outside of
//! transactions does not compile (`tests/ui`).
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use enact_stm::{Failed, Tx, atomically, hooks, snapshot, synchronized, try_atomically};

use crate::probe::probe;
use crate::subject::{Directed, FORMS, Subject, Turn, answer, held, note, plain, settle, system, transact};
use crate::undecided::{Undecided, conflict_if, elsewhere, set, shared, value_of};

for_both_kinds![
    a_closure_runs_later_and_outside_of_the_transaction_it_was_made_in,
    become_counts_from_the_next_turn_and_the_last_one_wins,
    become_is_not_seen_by_a_turn_that_awaits,
    become_in_a_tentative_turn_follows_the_transaction_of_the_message,
    become_in_a_transaction_counts_in_the_last_attempt_only,
    become_does_not_count_if_its_transaction_fails,
    become_in_a_transaction_of_a_tentative_turn_needs_both,
    a_message_of_a_definitive_turn_has_no_dependency,
    a_message_of_a_tentative_turn_is_delivered_at_once_and_depends_on_the_transaction_not_on_the_turn,
    only_the_messages_of_the_last_attempt_are_taken_up,
    a_transaction_of_a_definitive_turn_commits_in_the_middle_of_it,
    a_transaction_of_a_tentative_turn_commits_after_that_of_the_message,
    a_transaction_never_happens_if_that_of_the_message_aborts,
    an_inner_part_is_the_outers_and_its_error_is_its_own,
    a_branch_that_is_given_up_takes_its_messages_back,
    a_transaction_that_waits_takes_its_messages_back_and_sends_them_again,
    a_snapshot_and_a_synchronized_transaction_send,
    a_transaction_sends_to_actors_of_several_systems,
];

fn is_inside<A: Subject>() -> Turn<A> {
    plain(|_, _| u32::from(hooks::is_in_a_transaction()))
}

// Case TA-b.
fn a_closure_runs_later_and_outside_of_the_transaction_it_was_made_in<A: Subject>() {
    let system = system(2);
    let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
    let (probe, signals) = probe();
    let made_in_a_turn = {
        let b = b.clone();
        move || {
            let (b, probe) = (b.clone(), probe.clone());
            plain(move |_: &mut A, _| {
                let captured = 5;
                b.send(plain(move |_, _| {
                    probe.signal(captured + u32::from(hooks::is_in_a_transaction()));
                    0
                }));
                0
            })
        }
    };
    a.send(made_in_a_turn());
    assert_eq!(signals.next(), 5);
    let (t1, ask) = Undecided::begin(move |tx| {
        a.send_within(tx, made_in_a_turn());
        Ok(b.ask_within(tx, is_inside()))
    });
    t1.commit();
    assert_eq!((signals.next(), ask.promise().wait()), (5, Ok(0)));
}

// Case TA-become-D.
fn become_counts_from_the_next_turn_and_the_last_one_wins<A: Subject>() {
    let system = system(1);
    let a = system.spawn(A::with_notes(&[1]));
    let rest = a.ask(plain(|a: &mut A, cx| {
        cx.become_next(A::with_notes(&[2]));
        cx.become_next(A::with_notes(&[3]));
        a.note(10) + a.notes()[0]
    }));
    assert_eq!(rest.wait(), Ok(11), "the rest of the turn has the old state");
    assert_eq!(a.noted(), [3]);
    a.send(note(4));
    assert_eq!(a.noted(), [3, 4], "the new state stays");
}

// Case TA-become-D.
fn become_is_not_seen_by_a_turn_that_awaits<A: Subject>() {
    let system = system(1);
    let a = system.spawn(A::with_notes(&[1]));
    let rest = a.ask(held(|a: &mut A, cx| {
        Box::pin(async move {
            cx.become_next(A::with_notes(&[2]));
            cx.yield_now().await;
            a.notes()[0]
        })
    }));
    assert_eq!(rest.wait(), Ok(1));
    assert_eq!(a.noted(), [2]);
}

// Case TA-become-T.
fn become_in_a_tentative_turn_follows_the_transaction_of_the_message<A: Subject>() {
    for commits in [true, false] {
        let system = system(2);
        let a = system.spawn(A::with_notes(&[1]));
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let becoming = plain(|a: &mut A, cx| {
                    cx.become_next(A::with_notes(&[2]));
                    a.note(9)
                });
                Ok(a.ask_within(tx, becoming))
            })
        };
        let next = a.run(|a, _| a.notes().to_vec());
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 9));
        assert_eq!(next.wait(), Ok(if commits { vec![2] } else { vec![1] }));
    }
}

// Case TA-become-A.
fn become_in_a_transaction_counts_in_the_last_attempt_only<A: Subject>() {
    let system = system(2);
    let a = system.spawn(A::with_notes(&[0]));
    let contended = shared(0);
    let rest = a.ask(plain(move |a: &mut A, cx| {
        let last = AtomicU32::new(0);
        atomically(|tx| {
            let attempt = tx.attempt();
            last.store(attempt, Ordering::SeqCst);
            cx.become_within(tx, A::with_notes(&[attempt]));
            conflict_if(tx, contended, attempt <= 2)
        })
        .run();
        assert_eq!(a.notes(), [0], "it counts from the next turn, though the transaction has committed");
        last.into_inner()
    }));
    let last = rest.wait().expect("no panic");
    assert!(last >= 3, "{last}");
    assert_eq!(a.noted(), [last]);
}

// Case TA-become-A.
fn become_does_not_count_if_its_transaction_fails<A: Subject>() {
    let system = system(1);
    let a = system.spawn(A::with_notes(&[0]));
    let rest = a.ask(plain(|_: &mut A, cx| {
        let failed = try_atomically(|tx| {
            cx.become_within(tx, A::with_notes(&[1]));
            Err::<(), _>(Failed::Error(7))
        });
        let error = failed.run().expect_err("it fails");
        let inner = atomically(|tx| {
            cx.become_within(tx, A::with_notes(&[2]));
            tx.nested(|tx| {
                cx.become_within(tx, A::with_notes(&[3]));
                Err::<(), _>(Failed::Error(10))
            })
        });
        error + inner.run().expect_err("the inner part fails")
    }));
    assert_eq!(rest.wait(), Ok(17));
    assert_eq!(a.noted(), [2], "that of the part that stands");
}

// Case TA-become-A.
fn become_in_a_transaction_of_a_tentative_turn_needs_both<A: Subject>() {
    for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
        let system = system(2);
        let a = system.spawn(A::with_notes(&[0]));
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let becoming = plain(move |_: &mut A, cx| {
                    let t2 = try_atomically(|tx| {
                        cx.become_within(tx, A::with_notes(&[1]));
                        if second { Ok(()) } else { Err(Failed::Error(())) }
                    });
                    u32::from(t2.run().is_ok())
                });
                Ok(a.ask_within(tx, becoming))
            })
        };
        t1.decide(first);
        assert_eq!(ask.promise().wait(), answer(first, u32::from(second)));
        assert_eq!(a.noted(), [u32::from(first && second)]);
    }
}

// Case TA-send-D.
fn a_message_of_a_definitive_turn_has_no_dependency<A: Subject>() {
    let system = system(2);
    let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
    let (probe, signals) = probe();
    // Signalled by the other actor before the turn that has sent the message ends.
    let turn = a.ask(plain(move |_: &mut A, _| {
        b.send(plain(move |b: &mut A, _| {
            probe.signal(1);
            b.note(1)
        }));
        signals.next()
    }));
    assert_eq!(turn.wait(), Ok(1));
}

// Case TA-send-T.
fn a_message_of_a_tentative_turn_is_delivered_at_once_and_depends_on_the_transaction_not_on_the_turn<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
        let (probe, signals) = probe();
        let (t1, ask) = {
            let (a, b) = (a.clone(), b.clone());
            Undecided::begin(move |tx| {
                let (b, probe) = (b.clone(), probe.clone());
                let sending = plain(move |a: &mut A, _| {
                    b.send(plain(move |b: &mut A, _| {
                        probe.signal(1);
                        b.note(2)
                    }));
                    a.note(1)
                });
                Ok(a.ask_within(tx, sending))
            })
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1, "at once");
        }
        let promise = ask.promise();
        let [of_a, of_b] = [&a, &b].map(|actor| actor.run(|actor, _| actor.notes().to_vec()));
        settle(&system);
        assert!(!of_a.is_ready() && !promise.is_ready());
        let waits = !of_b.is_ready();
        assert_eq!(waits, A::IS_SPECULATIVE, "the turn of `a` has ended, but the message depends on the transaction");
        t1.decide(commits);
        assert_eq!((promise.wait(), of_a.wait()), (answer(commits, 1), Ok(if commits { vec![1] } else { vec![] })));
        assert_eq!(b.noted(), if commits { vec![2] } else { vec![] });
        if !commits {
            assert!(signals.is_silent(), "what was undone is not done again");
        }
    }
}

// Case TA-send-A.
fn only_the_messages_of_the_last_attempt_are_taken_up<A: Subject>() {
    for commits in [true, false] {
        let system = system(2);
        let a = system.spawn(A::new());
        let (probe, signals) = probe();
        let (t1, mut asks) = {
            let (a, attempts) = (a.clone(), AtomicU32::new(0));
            Undecided::begin(move |tx| {
                let attempt = attempts.fetch_add(1, Ordering::SeqCst) + 1;
                Ok([0, 1].map(|n| {
                    let probe = probe.clone();
                    let noting = plain(move |a: &mut A, _| {
                        probe.signal(attempt);
                        a.note(10 * attempt + n)
                    });
                    a.ask_within(tx, noting)
                }))
            })
        };
        for attempt in 1..=3 {
            if A::IS_SPECULATIVE {
                assert_eq!(signals.next(), attempt, "the first message of the attempt is taken up at once");
            }
            if attempt < 3 {
                let retracted = std::mem::replace(&mut asks, t1.conflict());
                for ask in retracted {
                    assert_eq!(ask.promise().wait(), answer(false, 0));
                }
            }
        }
        t1.decide(commits);
        let answers = asks.map(|ask| ask.promise().wait());
        assert_eq!(answers, [answer(commits, 30), answer(commits, 31)]);
        assert_eq!(a.noted(), if commits { vec![30, 31] } else { vec![] });
        let rest = signals.so_far();
        match (A::IS_SPECULATIVE, commits) {
            (true, true) => assert_eq!(rest, [3], "the second message had to wait for the first"),
            (false, true) => assert_eq!(rest, [3, 3]),
            (_, false) => assert_eq!(rest, []),
        }
    }
}

// Case TA-atomic-D.
fn a_transaction_of_a_definitive_turn_commits_in_the_middle_of_it<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let a = system.spawn(A::new());
        let x = shared(0);
        let turn =
            transact(form, move |tx| tx.write(x, 5), move |_: &mut A, written| written + elsewhere(|| value_of(x)));
        assert_eq!(a.ask(turn).wait(), Ok(10), "{form:?}: others see it before the turn ends");
    }
}

// Case TA-atomic-T.
fn a_transaction_of_a_tentative_turn_commits_after_that_of_the_message<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let a = system.spawn(A::new());
        let [x, y] = [0, 0].map(shared);
        let (probe, signals) = probe();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let [in_t2, after] = [probe.clone(), probe.clone()];
                let body = move |tx: &mut Tx<'_, 'static>| {
                    in_t2.signal(1);
                    tx.write(y, 1)
                };
                let rest = move |a: &mut A, n| {
                    after.signal(2);
                    a.note(n)
                };
                tx.write(x, 1)?;
                Ok(a.ask_within(tx, transact(form, body, rest)))
            })
        };
        let promise = ask.promise();
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1, "{form:?}: its body runs at once");
        }
        settle(&system);
        assert!(signals.is_silent() && !promise.is_ready(), "{form:?}: and then it waits");
        assert_eq!(snapshot(|tx| Ok((tx.read(x)?, tx.read(y)?))), (0, 0));
        t1.commit();
        assert_eq!(promise.wait(), Ok(1), "{form:?}");
        assert_eq!(snapshot(|tx| Ok((tx.read(x)?, tx.read(y)?))), (1, 1));
        assert_eq!(a.noted(), [1], "{form:?}");
        assert_eq!(signals.so_far().last(), Some(&2), "{form:?}");
    }
}

// Case TA-atomic-T.
fn a_transaction_never_happens_if_that_of_the_message_aborts<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let a = system.spawn(A::with_notes(&[7]));
        let y = shared(0);
        let (probe, signals) = probe();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let [in_t2, after] = [probe.clone(), probe.clone()];
                let body = move |tx: &mut Tx<'_, 'static>| {
                    in_t2.signal(1);
                    tx.write(y, 1)
                };
                let rest = move |a: &mut A, n| {
                    after.signal(2);
                    a.note(n)
                };
                Ok(a.ask_within(tx, transact(form, body, rest)))
            })
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1, "{form:?}");
        }
        t1.abort();
        assert_eq!(ask.promise().wait(), answer(false, 0), "{form:?}");
        assert_eq!(a.noted(), [7], "{form:?}: the next message is taken up");
        assert_eq!((value_of(y), signals.so_far()), (0, vec![]), "{form:?}: the rest of the turn never runs");
        set(y, 3);
        assert_eq!(value_of(y), 3, "{form:?}: nobody holds it");
    }
}

// Case TA-atomic-A.
fn an_inner_part_is_the_outers_and_its_error_is_its_own<A: Subject>() {
    for (inner_stands, outer_stands) in [(true, true), (true, false), (false, true), (false, false)] {
        let system = system(2);
        let a = system.spawn(A::new());
        let [x, y] = [0, 0].map(shared);
        let asks = Mutex::new(None);
        let result = try_atomically(|tx| {
            let first = a.ask_within(tx, note(1));
            let mut second = None;
            tx.write(x, 1)?;
            let inner = tx.nested(|tx| {
                tx.write(y, 1)?;
                second = Some(a.ask_within(tx, note(2)));
                if inner_stands { Ok(()) } else { Err(Failed::Error(())) }
            })?;
            assert_eq!(inner.is_ok(), inner_stands);
            let third = a.ask_within(tx, note(3));
            *asks.lock().expect("not poisoned") = Some([first, second.expect("it was sent"), third]);
            if outer_stands { Ok(()) } else { Err(Failed::Error(())) }
        });
        assert_eq!(result.run().is_ok(), outer_stands);
        let asks = asks.into_inner().expect("not poisoned").expect("it has run");
        let expected = [outer_stands, outer_stands && inner_stands, outer_stands];
        let answers = asks.map(|ask| ask.promise().wait());
        assert_eq!(answers, [0, 1, 2].map(|n| answer(expected[n], n as u32 + 1)));
        let noted: Vec<u32> = (1..).zip(expected).filter_map(|(n, stands)| stands.then_some(n)).collect();
        assert_eq!(a.noted(), noted);
        assert_eq!([value_of(x), value_of(y)], [expected[0], expected[1]].map(u32::from));
    }
}

// Case TA-send-A.
fn a_branch_that_is_given_up_takes_its_messages_back<A: Subject>() {
    let system = system(2);
    let a = system.spawn(A::new());
    let empty = shared(0);
    let lost = Mutex::new(None);
    let kept = atomically(|tx| {
        tx.or_else(
            |tx| {
                *lost.lock().expect("not poisoned") = Some(a.ask_within(tx, note(1)));
                if tx.read(empty)? == 0 { tx.retry() } else { Ok(a.ask_within(tx, note(2))) }
            },
            |tx| Ok(a.ask_within(tx, note(3))),
        )
    })
    .run();
    let lost = lost.into_inner().expect("not poisoned").expect("it was sent");
    assert_eq!((lost.promise().wait(), kept.promise().wait()), (answer(false, 1), Ok(3)));
    assert_eq!(a.noted(), [3]);
}

// Case TA-send-A.
fn a_transaction_that_waits_takes_its_messages_back_and_sends_them_again<A: Subject>() {
    let system = system(2);
    let a = system.spawn(A::new());
    let ready = shared(0);
    let (probe, signals) = probe();
    let waiting = {
        let a = a.clone();
        std::thread::spawn(move || {
            atomically(|tx| {
                let seen = tx.read(ready)?;
                a.send_within(tx, note(seen));
                probe.signal(seen);
                if seen < 3 { tx.retry() } else { Ok(()) }
            })
            .run();
        })
    };
    for n in 1..=3 {
        signals.next();
        set(ready, n);
    }
    waiting.join().expect("no panic");
    assert_eq!(a.noted(), [3]);
}

// Case TA-send-A.
fn a_snapshot_and_a_synchronized_transaction_send<A: Subject>() {
    let system = system(2);
    let a = system.spawn(A::new());
    let x = shared(1);
    let first = snapshot(|tx| {
        let seen = tx.read(x)?;
        Ok(a.ask_within(tx, note(seen)))
    });
    let second = synchronized(|tx| {
        let seen = tx.update(x, |n| n + 1)?;
        Ok(a.ask_within(tx, note(seen)))
    });
    assert_eq!([first, second].map(|ask| ask.promise().wait()), [Ok(1), Ok(2)]);
    assert_eq!(a.noted(), [1, 2]);
}

// Case TA-send-A.
fn a_transaction_sends_to_actors_of_several_systems<A: Subject>() {
    for commits in [true, false] {
        let systems = [system(1), system(1)];
        let [a, b] = [0, 1].map(|n| systems[n].spawn(A::new()));
        let (t1, asks) = {
            let (a, b) = (a.clone(), b.clone());
            Undecided::begin(move |tx| {
                let b = b.clone();
                let passing_on = plain(move |a: &mut A, _| {
                    b.send(note(2));
                    a.note(1)
                });
                Ok(a.ask_within(tx, passing_on))
            })
        };
        systems.iter().for_each(settle);
        t1.decide(commits);
        assert_eq!(asks.promise().wait(), answer(commits, 1));
        assert_eq!((a.noted(), b.noted()), if commits { (vec![1], vec![2]) } else { (vec![], vec![]) });
    }
}
