//! Figures 1(a) to 1(d) of the paper: transaction 1 sends to actor 2, whose tentative turn sends to actor 3 or runs
//! transaction 2.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use enact_stm::{Failed, Tx, atomically, try_atomically};

use crate::probe::probe;
use crate::subject::{Directed, FORMS, Subject, answer, held, note, plain, settle, system, transact};
use crate::undecided::{Undecided, shared, value_of};

for_both_kinds![
    figure_1a_s0_1a_a_turn_that_has_ended_waits_for_the_transaction_before_the_next_message,
    figure_1a_s0_1a_become_holds_or_is_discarded,
    figure_1b_s0_1b_s0_t1d_what_a_tentative_turn_sends_depends_on_the_first_transaction,
    figure_1b_a_turn_that_has_ended_and_the_one_it_caused_are_both_undone_and_redone_by_the_next_attempt,
    figure_1c_s0_1c_a_transaction_in_a_tentative_turn_waits_and_nothing_waits_again,
    figure_1c_s0_1c_code_after_the_transaction_never_runs_if_the_first_aborts,
    figure_1d_s0_1d_what_the_second_transaction_sends_depends_on_that_one_only,
    figure_1d_a_first_transaction_that_aborts_takes_the_second_and_its_messages_with_it,
];

fn figure_1a_s0_1a_a_turn_that_has_ended_waits_for_the_transaction_before_the_next_message<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let b = system.spawn(A::new());
        let (probe, signals) = probe();
        let x = shared(0);
        let (t1, ask) = {
            let (b, probe) = (b.clone(), probe.clone());
            Undecided::begin(move |tx| {
                let probe = probe.clone();
                let first = plain(move |b: &mut A, _| {
                    probe.signal(1);
                    b.note(1)
                });
                let ask = b.ask_within(tx, first);
                tx.write(x, 1)?;
                Ok(ask)
            })
        };
        let second = b.ask(plain(move |b: &mut A, _| {
            probe.signal(2);
            b.note(2)
        }));
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1, "it is taken up at once");
        }
        let promise = ask.promise();
        settle(&system);
        assert!(signals.is_silent() && !promise.is_ready() && !second.is_ready());
        t1.decide(commits);
        assert_eq!((promise.wait(), second.wait()), (answer(commits, 1), Ok(2)));
        assert_eq!(b.noted(), if commits { vec![1, 2] } else { vec![2] });
        assert_eq!(value_of(x), u32::from(commits));
        let turns_later = if commits && !A::IS_SPECULATIVE { vec![1, 2] } else { vec![2] };
        assert_eq!(signals.so_far(), turns_later, "a turn is run once");
    }
}

fn figure_1a_s0_1a_become_holds_or_is_discarded<A: Subject>() {
    for commits in [true, false] {
        let system = system(2);
        let b = system.spawn(A::with_notes(&[1]));
        let (t1, ()) = {
            let b = b.clone();
            Undecided::begin(move |tx| {
                b.send_within(
                    tx,
                    plain(|b: &mut A, cx| {
                        cx.become_next(A::with_notes(&[2]));
                        b.note(9)
                    }),
                );
                Ok(())
            })
        };
        let next = b.ask(note(3));
        t1.decide(commits);
        assert_eq!(next.wait(), Ok(3));
        assert_eq!(b.noted(), [if commits { 2 } else { 1 }, 3]);
    }
}

fn figure_1b_s0_1b_s0_t1d_what_a_tentative_turn_sends_depends_on_the_first_transaction<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [b, c, d] = [(); 3].map(|()| system.spawn(A::new()));
        let (probe, signals) = probe();
        let (t1, ask) = {
            let [b, c, d] = [&b, &c, &d].map(Clone::clone);
            Undecided::begin(move |tx| {
                let (c, d, probe) = (c.clone(), d.clone(), probe.clone());
                let to_d = plain(move |d: &mut A, _| {
                    probe.signal(4);
                    d.note(4)
                });
                let to_c = plain(move |c: &mut A, _| {
                    d.send(to_d);
                    c.note(3)
                });
                let to_b = plain(move |b: &mut A, _| {
                    c.send(to_c);
                    b.note(2)
                });
                Ok(b.ask_within(tx, to_b))
            })
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 4, "delivered at once, however far");
        }
        let promise = ask.promise();
        settle(&system);
        assert!(!promise.is_ready() && signals.is_silent());
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, 2));
        // Each is asked when the one before it is known to have sent.
        let noted = [b.noted(), c.noted(), d.noted()];
        assert_eq!(noted, if commits { [vec![2], vec![3], vec![4]] } else { [vec![], vec![], vec![]] });
    }
}

fn figure_1b_a_turn_that_has_ended_and_the_one_it_caused_are_both_undone_and_redone_by_the_next_attempt<A: Subject>() {
    let system = system(2);
    let [b, c] = [(); 2].map(|()| system.spawn(A::new()));
    let (t1, first) = {
        let (b, c, attempts) = (b.clone(), c.clone(), AtomicU32::new(0));
        Undecided::begin(move |tx| {
            let (c, attempt) = (c.clone(), attempts.fetch_add(1, Ordering::SeqCst));
            let sending = plain(move |b: &mut A, _| {
                c.send(note(20 + attempt));
                b.note(10 + attempt)
            });
            Ok(b.ask_within(tx, sending))
        })
    };
    let second = t1.conflict();
    assert_eq!(first.promise().wait(), answer(false, 0));
    t1.commit();
    assert_eq!(second.promise().wait(), Ok(11));
    assert_eq!((b.noted(), c.noted()), (vec![11], vec![21]));
}

fn figure_1c_s0_1c_a_transaction_in_a_tentative_turn_waits_and_nothing_waits_again<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let b = system.spawn(A::new());
        let [x, y] = [0, 0].map(shared);
        let (t1, ask) = {
            let b = b.clone();
            Undecided::begin(move |tx| {
                tx.write(x, 1)?;
                // What it reads is checked after the first has committed.
                let t2 = move |tx: &mut Tx<'_, 'static>| {
                    let seen = tx.read(x)?;
                    tx.write(y, 10 + seen)
                };
                Ok(b.ask_within(tx, transact(form, t2, |b: &mut A, n| b.note(n))))
            })
        };
        t1.commit();
        assert_eq!(ask.promise().wait(), Ok(11), "{form:?}");
        assert_eq!((b.noted(), value_of(y)), (vec![11], 11), "{form:?}");
    }
    // No second wait: from the commit of the second transaction on, the rest of the turn is definitive, and what it sends
    // is taken up though the turn goes on.
    let system = system(2);
    let [b, c] = [(); 2].map(|()| system.spawn(A::new()));
    let y = shared(0);
    let (t1, ask) = {
        let (b, c) = (b.clone(), c.clone());
        Undecided::begin(move |tx| {
            let c = c.clone();
            let turn = held(move |b: &mut A, _| {
                Box::pin(async move {
                    atomically(|tx| tx.write(y, 1)).await;
                    let answer = c.ask(note(5)).await;
                    b.note(answer.expect("it is answered in the middle of the turn"))
                })
            });
            Ok(b.ask_within(tx, turn))
        })
    };
    t1.commit();
    assert_eq!(ask.promise().wait(), Ok(5));
}

fn figure_1c_s0_1c_code_after_the_transaction_never_runs_if_the_first_aborts<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let b = system.spawn(A::new());
        let y = shared(0);
        let (probe, signals) = probe();
        let (t1, ask) = {
            let b = b.clone();
            Undecided::begin(move |tx| {
                let [inside, after] = [probe.clone(), probe.clone()];
                let t2 = move |tx: &mut Tx<'_, 'static>| {
                    inside.signal(1);
                    tx.write(y, 1)
                };
                let rest = move |b: &mut A, n| {
                    after.signal(2);
                    b.note(n)
                };
                b.send_within(tx, transact(form, t2, rest));
                Ok(b.ask_within(tx, note(3)))
            })
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1, "{form:?}");
        }
        t1.abort();
        assert_eq!(ask.promise().wait(), answer(false, 0), "{form:?}");
        assert_eq!(b.noted(), [], "{form:?}");
        assert_eq!((value_of(y), signals.so_far()), (0, vec![]), "{form:?}");
    }
}

fn figure_1d_s0_1d_what_the_second_transaction_sends_depends_on_that_one_only<A: Subject>() {
    for second_commits in [true, false] {
        let system = system(2);
        let [b, c] = [(); 2].map(|()| system.spawn(A::new()));
        let y = shared(0);
        let (probe, signals) = probe();
        let (t1, ask) = {
            let (b, c) = (b.clone(), c.clone());
            Undecided::begin(move |tx| {
                let (c, probe) = (c.clone(), probe.clone());
                let turn = held(move |b: &mut A, _| {
                    Box::pin(async move {
                        let t2 = try_atomically(|tx| {
                            let probe = probe.clone();
                            c.send_within(
                                tx,
                                plain(move |c: &mut A, _| {
                                    probe.signal(3);
                                    c.note(3)
                                }),
                            );
                            tx.write(y, 1)?;
                            if second_commits { Ok(()) } else { Err(Failed::Error(())) }
                        });
                        b.note(u32::from(t2.await.is_ok()))
                    })
                });
                Ok(b.ask_within(tx, turn))
            })
        };
        if A::IS_SPECULATIVE && second_commits {
            assert_eq!(signals.next(), 3, "delivered at once");
        }
        let promise = ask.promise();
        assert!(!promise.is_ready());
        t1.commit();
        assert_eq!(promise.wait(), Ok(u32::from(second_commits)), "the turn stands even if its transaction does not");
        assert_eq!(b.noted(), [u32::from(second_commits)]);
        assert_eq!(c.noted(), if second_commits { vec![3] } else { vec![] });
        assert_eq!(value_of(y), u32::from(second_commits));
    }
}

fn figure_1d_a_first_transaction_that_aborts_takes_the_second_and_its_messages_with_it<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let [b, c] = [(); 2].map(|()| system.spawn(A::new()));
        let (probe, signals) = probe();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let (t1, ask) = {
            let (b, c, sent) = (b.clone(), c.clone(), Arc::clone(&sent));
            Undecided::begin(move |tx| {
                let (c, sent, probe) = (c.clone(), Arc::clone(&sent), probe.clone());
                let t2 = move |tx: &mut Tx<'_, 'static>| {
                    let probe = probe.clone();
                    let to_c = plain(move |c: &mut A, _| {
                        probe.signal(3);
                        c.note(3)
                    });
                    sent.lock().expect("not poisoned").push(c.ask_within(tx, to_c));
                    Ok(0)
                };
                Ok(b.ask_within(tx, transact(form, t2, |b: &mut A, n| b.note(n))))
            })
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 3, "{form:?}: delivered at once");
        }
        let promise = ask.promise();
        settle(&system);
        assert!(!promise.is_ready());
        t1.abort();
        assert_eq!(promise.wait(), answer(false, 0), "{form:?}");
        let asks = std::mem::take(&mut *sent.lock().expect("not poisoned"));
        assert_eq!(asks.len(), usize::from(A::IS_SPECULATIVE), "{form:?}: its body runs once or never");
        for ask in asks {
            assert_eq!(ask.promise().wait(), answer(false, 0), "{form:?}");
        }
        assert_eq!((b.noted(), c.noted()), (vec![], vec![]), "{form:?}");
    }
}
