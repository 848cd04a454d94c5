//! What else asks for memory or others in a tentative turn waits for the transaction of the message first.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use enact_actors::{Cx, Promise};
use enact_stm::{Tx, atomically, snapshot, synchronized};

use crate::probe::{Probe, probe};
use crate::subject::{
    Directed, FORMS, Subject, Turn, answer, cooperative, held, note, plain, settle, system, transact,
};
use crate::undecided::{Shared, Undecided, set, shared, value_of};

for_both_kinds![
    a_snapshot_in_a_tentative_turn_sees_what_the_transaction_has_written,
    a_synchronized_transaction_in_a_tentative_turn_waits_first,
    a_call_in_a_tentative_turn_waits_first,
    a_thread_that_waits_in_a_plain_handler_leaves_the_worker_to_others,
    two_transactions_of_a_turn_both_come_after_the_first_one,
    a_transaction_that_waits_is_ended_by_an_abort_and_woken_by_a_commit,
    others_commit_while_a_transaction_waits_for_its_dependency,
    a_dependent_that_wants_to_run_alone_waits_without_closing_the_serial_lock,
    a_second_transaction_of_a_turn_begins_after_the_first_has_ended,
    what_a_tentative_turn_has_promised_is_done_before_its_call_runs,
    a_call_to_an_actor_with_an_undecided_message_waits_for_its_turn,
    a_transaction_that_finds_the_gate_closed_goes_on_though_its_actor_has_its_message,
    a_dependent_that_finds_the_gate_closed_goes_on_though_its_actor_has_its_message,
    answers_are_awaited_in_a_tentative_turn_until_it_is_definitive,
];

/// Sends `actor` a turn in a transaction that writes 1 to `x`; checks that the turn stops after its first signal, and that
/// it goes on as `expected` if the transaction commits.
fn check_waiting<A: Subject>(
    what: &str,
    x: Shared<u32>,
    expected: u32,
    make: impl Fn(Probe) -> Turn<A> + Send + Clone + 'static,
) {
    for commits in [true, false] {
        set(x, 0);
        let system = system(1);
        let a = system.spawn(A::new());
        let (probe, signals) = probe();
        let (t1, ask) = {
            let (a, make) = (a.clone(), make.clone());
            Undecided::begin(move |tx| {
                tx.write(x, 1)?;
                Ok(a.ask_within(tx, make(probe.clone())))
            })
        };
        let promise = ask.promise();
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1, "{what}: it runs up to there");
        }
        settle(&system);
        assert!(signals.is_silent() && !promise.is_ready(), "{what}");
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, expected), "{what}");
        assert_eq!(a.noted(), if commits { vec![expected] } else { vec![] }, "{what}");
        let last = signals.so_far().last().copied();
        assert_eq!(last, commits.then_some(2), "{what}: the rest runs with the commit only");
    }
}

fn a_snapshot_in_a_tentative_turn_sees_what_the_transaction_has_written<A: Subject>() {
    let x = shared(0);
    check_waiting::<A>("snapshot", x, 1, move |probe| {
        plain(move |a: &mut A, _| {
            probe.signal(1);
            let seen = snapshot(|tx| tx.read(x));
            probe.signal(2);
            a.note(seen)
        })
    });
}

fn a_synchronized_transaction_in_a_tentative_turn_waits_first<A: Subject>() {
    let (x, runs) = (shared(0), shared(0));
    check_waiting::<A>("synchronized", x, 1, move |probe| {
        plain(move |a: &mut A, _| {
            probe.signal(1);
            let seen = synchronized(|tx| {
                tx.update(runs, |n| n + 1)?;
                tx.read(x)
            });
            probe.signal(2);
            a.note(seen)
        })
    });
    assert_eq!(value_of(runs), 1, "once, for the commit");
}

fn a_call_in_a_tentative_turn_waits_first<A: Subject>() {
    let others = system(1);
    let b = others.spawn(A::new());
    let to = b.clone();
    check_waiting::<A>("call", shared(0), 7, move |probe| {
        let to = to.clone();
        plain(move |a: &mut A, cx| {
            probe.signal(1);
            let given = to.have(cx, note(7)).expect("it answers");
            probe.signal(2);
            a.note(given)
        })
    });
    assert_eq!(b.noted(), [7], "once, for the commit");
}

fn a_thread_that_waits_in_a_plain_handler_leaves_the_worker_to_others<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let wait = plain(|a: &mut A, _| {
                    let y = shared(0);
                    let value = atomically(|tx| tx.write(y, 3)).run();
                    a.note(value)
                });
                Ok(a.ask_within(tx, wait))
            })
        };
        settle(&system);
        for n in 0..10 {
            assert_eq!(b.ask(note(n)).wait(), Ok(n), "on the only worker");
        }
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 3));
    }
}

// Case S0-2nd.
fn two_transactions_of_a_turn_both_come_after_the_first_one<A: Subject>() {
    for form in FORMS {
        for commits in [true, false] {
            let system = system(2);
            let a = system.spawn(A::new());
            let [x, y, z] = [0; 3].map(shared);
            let (t1, ask) = {
                let a = a.clone();
                Undecided::begin(move |tx| {
                    tx.write(x, 1)?;
                    let second = move |tx: &mut Tx<'_, 'static>| {
                        let seen = tx.read(x)?;
                        tx.write(y, 10 + seen)
                    };
                    let rest = move |a: &mut A, given: u32| {
                        let third = atomically(|tx| {
                            let seen = tx.read(y)?;
                            tx.write(z, 100 + seen)
                        });
                        a.note(given);
                        a.note(third.run())
                    };
                    Ok(a.ask_within(tx, transact(form, second, rest)))
                })
            };
            settle(&system);
            t1.decide(commits);
            assert_eq!(ask.promise().wait(), answer(commits, 111), "{form:?}");
            assert_eq!(a.noted(), if commits { vec![11, 111] } else { vec![] }, "{form:?}");
            assert_eq!([x, y, z].map(value_of), if commits { [1, 11, 111] } else { [0; 3] }, "{form:?}");
        }
    }
}

// Case S0-retry.
fn a_transaction_that_waits_is_ended_by_an_abort_and_woken_by_a_commit<A: Subject>() {
    for form in FORMS {
        for commits in [true, false] {
            let system = system(1);
            let a = system.spawn(A::new());
            let y = shared(0);
            let (probe, signals) = probe();
            let (t1, ask) = {
                let a = a.clone();
                Undecided::begin(move |tx| {
                    let probe = probe.clone();
                    let waits = move |tx: &mut Tx<'_, 'static>| {
                        let seen = tx.read(y)?;
                        probe.signal(seen);
                        if seen == 0 { tx.retry() } else { Ok(seen) }
                    };
                    tx.write(y, 5)?;
                    Ok(a.ask_within(tx, transact(form, waits, |a: &mut A, n| a.note(n))))
                })
            };
            if A::IS_SPECULATIVE {
                assert_eq!(signals.next(), 0, "{form:?}");
            }
            settle(&system);
            t1.decide(commits);
            assert_eq!(ask.promise().wait(), answer(commits, 5), "{form:?}");
            assert_eq!(a.noted(), if commits { vec![5] } else { vec![] }, "{form:?}");
        }
        // The commit is not what it waits for, and it goes on waiting.
        let system = system(1);
        let a = system.spawn(A::new());
        let y = shared(0);
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let waits = move |tx: &mut Tx<'_, 'static>| {
                    let seen = tx.read(y)?;
                    if seen == 0 { tx.retry() } else { Ok(seen) }
                };
                Ok(a.ask_within(tx, transact(form, waits, |a: &mut A, n| a.note(n))))
            })
        };
        let promise = ask.promise();
        settle(&system);
        t1.commit();
        settle(&system);
        assert!(!promise.is_ready(), "{form:?}");
        set(y, 6);
        assert_eq!(promise.wait(), Ok(6), "{form:?}");
    }
}

// Case S0-nolock.
fn others_commit_while_a_transaction_waits_for_its_dependency<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let a = system.spawn(A::new());
        let v = shared(0);
        let (probe, signals) = probe();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let probe = probe.clone();
                let second = move |tx: &mut Tx<'_, 'static>| {
                    let value = tx.update(v, |n| n + 1)?;
                    probe.signal(value);
                    Ok(value)
                };
                Ok(a.ask_within(tx, transact(form, second, |a: &mut A, n| a.note(n))))
            })
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1, "{form:?}");
        }
        // The third transaction: on this very thread, so it would not come back if it had to wait for the second.
        set(v, 10);
        t1.commit();
        assert_eq!(ask.promise().wait(), Ok(11), "{form:?}: and the second runs again");
        assert_eq!((signals.next(), value_of(v)), (11, 11), "{form:?}");
    }
}

// Case S0-gate.
fn a_dependent_that_wants_to_run_alone_waits_without_closing_the_serial_lock<A: Subject>() {
    for form in FORMS {
        for commits in [true, false] {
            let system = system(1);
            let a = system.spawn(A::new());
            let [x, y, other] = [0; 3].map(shared);
            let (t1, ask) = {
                let a = a.clone();
                Undecided::begin(move |tx| {
                    tx.write(x, 1)?;
                    let alone = move |tx: &mut Tx<'_, 'static>| {
                        tx.irrevocable()?;
                        let seen = tx.read(x)?;
                        tx.write(y, seen + 1)
                    };
                    Ok(a.ask_within(tx, transact(form, alone, |a: &mut A, n| a.note(n))))
                })
            };
            settle(&system);
            // The gate is open to others, and to the first.
            set(other, 1);
            t1.decide(commits);
            assert_eq!(ask.promise().wait(), answer(commits, 2), "{form:?}");
            assert_eq!([x, y, other].map(value_of), if commits { [1, 2, 1] } else { [0, 0, 1] }, "{form:?}");
        }
    }
}

// Case S0-one.
fn a_second_transaction_of_a_turn_begins_after_the_first_has_ended<A: Subject>() {
    let system = system(2);
    let a = system.spawn(A::new());
    let x = shared(0);
    let one_by_one = a.ask(plain(move |_: &mut A, _| {
        let first = atomically(|tx| tx.update(x, |n| n + 1));
        let second = atomically(|tx| tx.update(x, |n| n + 10));
        // Nothing begins before it is run: the second sees the first, in whatever order they were made.
        let second = second.run();
        first.run() * 100 + second
    }));
    assert_eq!(one_by_one.wait(), Ok(1_110));
    let joined = a.ask(plain(move |_: &mut A, _| {
        let total = atomically(|tx| {
            let inner = tx.nested(|tx| Ok::<_, enact_stm::Failed<()>>(tx.update(x, |n| n + 100)?))?;
            Ok(tx.read(x)? + inner.expect("it stands"))
        });
        total.run()
    }));
    assert_eq!(joined.wait(), Ok(222));
    let nested = a.ask(plain(move |_: &mut A, _| atomically(|_| Ok(atomically(|tx| tx.read(x)).run())).run()));
    nested.wait().expect_err("a transaction inside of another one's closure panics");
    assert_eq!(value_of(x), 111);
}

fn a_call_to_an_actor_with_an_undecided_message_waits_for_its_turn<A: Subject>() {
    for workers in [1, 2] {
        for commits in [true, false] {
            let system = system(workers);
            let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
            let (t1, ask) = {
                let b = b.clone();
                Undecided::begin(move |tx| Ok(b.ask_within(tx, note(1))))
            };
            let other = system.spawn(A::new());
            assert_eq!(other.ask(note(0)).wait(), Ok(0));
            let to = b.clone();
            let (calls, is_calling) = probe();
            let called = a.ask(plain(move |_, cx| {
                calls.signal(0);
                to.have(cx, note(2)).expect("it answers")
            }));
            is_calling.next();
            assert_eq!(other.ask(note(0)).wait(), Ok(0), "the worker is free");
            assert!(!called.is_ready());
            t1.decide(commits);
            assert_eq!((ask.promise().wait(), called.wait()), (answer(commits, 1), Ok(2)));
            assert_eq!(b.noted(), if commits { vec![1, 2] } else { vec![2] });
        }
    }
}

/// Keeps all commits waiting until the probe is signalled; they do when this returns.
fn close_gate() -> Probe {
    let (closes, is_closed) = probe();
    let (open, is_open) = probe();
    thread::spawn(move || {
        synchronized(|_| {
            closes.signal(0);
            is_open.next();
            Ok(())
        });
    });
    is_closed.next();
    open
}

/// A cooperative turn whose transaction has to wait for the gate lets its actor take up other messages: the first is the
/// transaction's own, which waits for the transaction.
fn a_transaction_that_finds_the_gate_closed_goes_on_though_its_actor_has_its_message<A: Subject>() {
    let system = system(1);
    let a = system.spawn(A::new());
    let (opens, gate) = mpsc::channel();
    let turn = a.ask(cooperative(move |cx: Cx<A>| {
        Box::pin(async move {
            let is_first = AtomicBool::new(true);
            atomically(|tx| {
                cx.handle().send_within(tx, note(2));
                if is_first.swap(false, Ordering::SeqCst) {
                    opens.send(close_gate()).expect("the test listens");
                }
                tx.write(shared(0), 1)
            })
            .await;
            cx.with(|a| a.note(1))
        })
    }));
    settle(&system);
    gate.recv().expect("the closure runs").signal(0);
    assert_eq!(turn.wait(), Ok(1));
    let mut noted = a.noted();
    noted.sort_unstable();
    assert_eq!(noted, [1, 2]);
}

fn a_dependent_that_finds_the_gate_closed_goes_on_though_its_actor_has_its_message<A: Subject>() {
    let system = system(1);
    let [a, busy] = [(); 2].map(|()| system.spawn(A::new()));
    let (t1, ask) = {
        let a = a.clone();
        Undecided::begin(move |tx| {
            let turn = cooperative(move |cx: Cx<A>| {
                Box::pin(async move {
                    atomically(|tx| {
                        cx.handle().send_within(tx, note(2));
                        tx.write(shared(0), 1)
                    })
                    .await;
                    cx.with(|a| a.note(1))
                })
            });
            Ok(a.ask_within(tx, turn))
        })
    };
    settle(&system);
    let (started, is_started) = probe();
    let (release, released) = probe();
    busy.send(plain(move |_, _| {
        started.signal(0);
        released.next()
    }));
    is_started.next();
    // The gate is closed after the first transaction has committed, and before the only worker finds that out.
    t1.commit();
    let gate = close_gate();
    release.signal(0);
    settle(&system);
    gate.signal(0);
    assert_eq!(ask.promise().wait(), Ok(1));
    let mut noted = a.noted();
    noted.sort_unstable();
    assert_eq!(noted, [1, 2]);
}

fn answers_are_awaited_in_a_tentative_turn_until_it_is_definitive<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b, c] = [(); 3].map(|()| system.spawn(A::new()));
        let (t1, ask) = {
            let (a, b) = (a.clone(), b.clone());
            Undecided::begin(move |tx| {
                let (b, c) = (b.clone(), c.clone());
                let asking = held(move |a: &mut A, _| {
                    Box::pin(async move {
                        let answers = Promise::join_all([b.ask(note(1)), c.ask(note(2))]).await;
                        a.note(answers.expect("no panic").iter().sum())
                    })
                });
                Ok(a.ask_within(tx, asking))
            })
        };
        settle(&system);
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 3));
        assert_eq!((a.noted(), b.noted()), if commits { (vec![3], vec![1]) } else { (vec![], vec![]) });
    }
}

fn what_a_tentative_turn_has_promised_is_done_before_its_call_runs<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
        let (t1, ask) = {
            let (a, b) = (a.clone(), b.clone());
            Undecided::begin(move |tx| {
                let b = b.clone();
                let (promise, resolver) = Promise::pair();
                let calling = plain(move |a: &mut A, cx| {
                    resolver.resolve(());
                    let given = b.have(cx, plain(move |_, _| u32::from(promise.is_ready())));
                    a.note(given.expect("no panic"))
                });
                Ok(a.ask_within(tx, calling))
            })
        };
        settle(&system);
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 1));
        assert_eq!(a.noted(), if commits { vec![1] } else { vec![] });
    }
}
