//! What follows from the table: messages that are decided when they are taken up, transactions that depend on others,
//! order, visibility, no deadlock.
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use enact_actors::{Ask, Promise};
use enact_stm::{Failed, TCell, Tx, atomically, snapshot, try_atomically};
use proptest::prelude::*;

use crate::probe::{Signals, probe};
use crate::subject::{
    Directed, Eager, FORMS, Form, Patient, Subject, Turn, answer, held, note, plain, settle, system, transact,
};
use crate::undecided::{Shared, Undecided, conflict_if, elsewhere, set, shared, value_of};

for_both_kinds![
    a_message_whose_transaction_has_committed_is_an_ordinary_turn,
    a_message_whose_transaction_has_aborted_is_dropped_without_a_turn,
    three_transactions_share_the_fate_of_the_one_they_depend_on,
    only_the_dependent_that_conflicts_runs_again,
    a_dependent_sees_what_its_dependency_has_written,
    undecided_and_definitive_messages_of_one_sender_keep_their_order,
    nothing_is_seen_before_the_transaction_has_committed,
    two_actors_that_send_to_each_other_in_transactions_both_end,
    a_plain_send_in_a_transaction_happens_once_an_attempt,
    what_a_transaction_in_a_turn_has_written_is_seen_before_the_turn_ends,
    a_dependency_that_commits_between_look_and_wait_is_not_missed,
    a_decision_is_not_missed_wherever_in_a_batch_of_turns_its_message_stands,
];

// Case TA-opt.
fn a_message_whose_transaction_has_committed_is_an_ordinary_turn<A: Subject>() {
    let system = system(2);
    let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
    let (started, is_started) = probe();
    let (release, released) = probe();
    a.send(plain(move |_, _| {
        started.signal(0);
        released.next()
    }));
    is_started.next();
    let ask = atomically(|tx| {
        let b = b.clone();
        // What an ordinary turn sends is definitive, and so is its answer.
        let turn = held(move |a: &mut A, _| {
            Box::pin(async move {
                let answer = b.ask(note(5)).await;
                a.note(answer.expect("it comes before this turn has ended"))
            })
        });
        Ok(a.ask_within(tx, turn))
    })
    .run();
    release.signal(0);
    assert_eq!(ask.promise().wait(), Ok(5));
    assert_eq!(a.noted(), [5]);
}

// Case TA-opt.
fn a_message_whose_transaction_has_aborted_is_dropped_without_a_turn<A: Subject>() {
    let system = system(2);
    let a = system.spawn(A::new());
    let (started, is_started) = probe();
    let (release, released) = probe();
    let (ran, runs) = probe();
    a.send(plain(move |_, _| {
        started.signal(0);
        released.next()
    }));
    is_started.next();
    let (t1, ask) = {
        let a = a.clone();
        Undecided::begin(move |tx| {
            let ran = ran.clone();
            let turn = plain(move |a: &mut A, _| {
                ran.signal(1);
                a.note(1)
            });
            Ok(a.ask_within(tx, turn))
        })
    };
    let next = a.ask(note(2));
    t1.abort();
    release.signal(0);
    assert_eq!((ask.promise().wait(), next.wait()), (answer(false, 1), Ok(2)));
    assert!(runs.is_silent());
    assert_eq!(a.noted(), [2]);
}

/// A transaction that has sent turns to three actors, in each of which another one adds one to a variable.
struct Split {
    parent: Undecided<[Ask<u32>; 3]>,
    answers: [Promise<u32>; 3],
    /// The number of each transaction that has run.
    runs: Signals,
}

fn split<A: Subject>(actors: &[A::Ref; 3], cells: [Shared<u32>; 3], form: Form) -> Split {
    let (actors, (probe, runs)) = (actors.clone(), probe());
    let (parent, asks) = Undecided::begin(move |tx| {
        Ok([0, 1, 2].map(|n| {
            let (cell, probe) = (cells[n], probe.clone());
            let child = move |tx: &mut Tx<'_, 'static>| {
                let value = tx.update(cell, |value| value + 1)?;
                probe.signal(n as u32);
                Ok(value)
            };
            actors[n].ask_within(tx, transact(form, child, |actor: &mut A, value| actor.note(value)))
        }))
    });
    if A::IS_SPECULATIVE {
        let mut have_run = [0; 3].map(|_: u32| runs.next());
        have_run.sort_unstable();
        assert_eq!(have_run, [0, 1, 2]);
    }
    Split { parent, answers: asks.map(Ask::promise), runs }
}

// Case TA-split.
fn three_transactions_share_the_fate_of_the_one_they_depend_on<A: Subject>() {
    for commits in [true, false] {
        for form in FORMS {
            let system = system(2);
            let actors = [(); 3].map(|()| system.spawn(A::new()));
            let cells = [0; 3].map(shared);
            let Split { parent, answers, runs } = split::<A>(&actors, cells, form);
            parent.decide(commits);
            for ((given, cell), actor) in answers.into_iter().zip(cells).zip(&actors) {
                assert_eq!(given.wait(), answer(commits, 1), "{form:?}");
                assert_eq!(value_of(cell), u32::from(commits), "{form:?}");
                assert_eq!(actor.noted(), if commits { vec![1] } else { vec![] }, "{form:?}");
            }
            if A::IS_SPECULATIVE || !commits {
                assert_eq!(runs.so_far(), [], "{form:?}: none runs again");
            }
        }
    }
}

// Case TA-split.
fn only_the_dependent_that_conflicts_runs_again<A: Subject>() {
    for form in FORMS {
        let system = system(2);
        let actors = [(); 3].map(|()| system.spawn(A::new()));
        let cells = [0; 3].map(shared);
        let Split { parent, answers, runs } = split::<A>(&actors, cells, form);
        // The dependents wait without a lock: this commits.
        set(cells[1], 10);
        parent.commit();
        assert_eq!(answers.map(Promise::wait), [Ok(1), Ok(11), Ok(1)], "{form:?}");
        assert_eq!(cells.map(value_of), [1, 11, 1], "{form:?}");
        if A::IS_SPECULATIVE {
            assert_eq!(runs.so_far(), [1], "{form:?}");
        }
    }
}

// Case TA-write-read.
fn a_dependent_sees_what_its_dependency_has_written<A: Subject>() {
    for form in FORMS {
        let system = system(2);
        let a = system.spawn(A::new());
        let x = shared(0);
        let (probe, signals) = probe();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| {
                let probe = probe.clone();
                tx.write(x, 1)?;
                let child = move |tx: &mut Tx<'_, 'static>| {
                    let seen = tx.read(x)?;
                    probe.signal(seen);
                    Ok(seen)
                };
                Ok(a.ask_within(tx, transact(form, child, |a: &mut A, seen| a.note(seen))))
            })
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 0, "{form:?}: the old value");
        }
        t1.commit();
        assert_eq!(ask.promise().wait(), Ok(1), "{form:?}");
        assert_eq!((signals.next(), a.noted()), (1, vec![1]), "{form:?}: the new one");
    }
}

// Case TA-order.
fn undecided_and_definitive_messages_of_one_sender_keep_their_order<A: Subject>() {
    // The order in which the two transactions are decided, too, is any.
    for (second_first, commits) in [false, true].into_iter().flat_map(|first| {
        [[true, true], [true, false], [false, true], [false, false]].map(move |commits| (first, commits))
    }) {
        let system = system(2);
        let a = system.spawn(A::new());
        let tentative = |n| {
            let a = a.clone();
            Undecided::begin(move |tx| {
                a.send_within(tx, note(n));
                Ok(())
            })
            .0
        };
        a.send(note(1));
        let t2 = tentative(2);
        a.send(note(3));
        let t4 = tentative(4);
        a.send(note(5));
        if second_first {
            t4.decide(commits[1]);
            t2.decide(commits[0]);
        } else {
            t2.decide(commits[0]);
            t4.decide(commits[1]);
        }
        let expected = (1..=5).filter(|n| (*n != 2 || commits[0]) && (*n != 4 || commits[1]));
        assert_eq!(a.noted(), expected.collect::<Vec<u32>>());
    }
}

// Case TA-visible.
fn nothing_is_seen_before_the_transaction_has_committed<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
        let (x, y) = (shared(0), shared(0));
        let (probe, signals) = probe();
        let (through, resolver) = Promise::pair();
        let resolver = Mutex::new(Some(resolver));
        let (t1, ask) = {
            let (a, b) = (a.clone(), b.clone());
            Undecided::begin(move |tx| {
                tx.write(x, 1)?;
                let (b, probe) = (b.clone(), probe.clone());
                let resolver = resolver.lock().expect("not poisoned").take().expect("one attempt");
                let turn = plain(move |a: &mut A, _| {
                    resolver.resolve(7);
                    b.send(note(2));
                    a.note(1);
                    probe.signal(1);
                    let seen = atomically(|tx| tx.write(y, 1)).run();
                    a.note(seen + 10)
                });
                Ok(a.ask_within(tx, turn))
            })
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1);
        }
        let promise = ask.promise();
        settle(&system);
        assert!(!promise.is_ready() && !through.is_ready());
        assert_eq!(snapshot(|tx| Ok((tx.read(x)?, tx.read(y)?))), (0, 0));
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, 11));
        assert_eq!(through.wait().ok(), commits.then_some(7));
        let noted = (a.noted(), b.noted());
        assert_eq!(noted, if commits { (vec![1, 11], vec![2]) } else { (vec![], vec![]) });
        assert_eq!([x, y].map(value_of), [u32::from(commits); 2]);
    }
}

// Case TA-deadlock.
fn two_actors_that_send_to_each_other_in_transactions_both_end<A: Subject>() {
    for commits in [true, false] {
        let system = system(2);
        let [one, two] = [(); 2].map(|()| system.spawn(A::new()));
        let (probe, signals) = probe();
        let signals = Mutex::new(signals);
        let (x, y) = (shared(0), shared(0));
        let of_one = {
            let (one, two) = (one.clone(), two.clone());
            held(move |actor: &mut A, _| {
                Box::pin(async move {
                    let t1 = try_atomically(|tx| {
                        let (one, probe) = (one.clone(), probe.clone());
                        let t2 = move |tx: &mut Tx<'_, 'static>| {
                            one.send_within(tx, note(3));
                            probe.signal(2);
                            let seen = tx.read(x)?;
                            tx.write(y, seen + 1)
                        };
                        two.send_within(tx, transact(Form::Held, t2, |two: &mut A, n| two.note(n)));
                        tx.write(x, 1)?;
                        if A::IS_SPECULATIVE {
                            // The message to this actor is there, while its turn is still in the first transaction.
                            signals.lock().expect("not poisoned").next();
                        }
                        if commits { Ok(()) } else { Err(Failed::Error(())) }
                    });
                    actor.note(u32::from(t1.await.is_ok()))
                })
            })
        };
        assert_eq!(one.ask(of_one).wait(), Ok(u32::from(commits)));
        assert_eq!(two.noted(), if commits { vec![2] } else { vec![] });
        assert_eq!(one.noted(), if commits { vec![1, 3] } else { vec![0] });
        assert_eq!([x, y].map(value_of), if commits { [1, 2] } else { [0, 0] });
    }
}

/// Flights with seats to sell, and a desk that sells them.
///
/// The documented counter-example: `tell()` in a transaction is a side effect like any other. `within(tx)` is part of it.
// Case TA-naive.
fn a_plain_send_in_a_transaction_happens_once_an_attempt<A: Subject>() {
    let sold = |is_naive: bool| {
        let system = system(2);
        let desk = system.spawn(A::new());
        let seats = shared(10);
        let attempts = AtomicU32::new(0);
        atomically(|tx| {
            let is_first = attempts.fetch_add(1, Ordering::SeqCst) == 0;
            let left = tx.read(seats)?;
            let sell = note(1);
            if is_naive {
                desk.send(sell);
            } else {
                desk.send_within(tx, sell);
            }
            if is_first {
                elsewhere(|| set(seats, 9));
            }
            tx.write(seats, left - 1)
        })
        .run();
        assert_eq!(value_of(seats), 8, "one by this transaction, one by the other");
        (desk.noted().len(), attempts.into_inner() as usize)
    };
    let (naive, attempts) = sold(true);
    assert!(attempts >= 2);
    assert_eq!(naive, attempts, "a seat is sold twice");
    assert_eq!(sold(false).0, 1);
}

// Case TA-isolated.
fn what_a_transaction_in_a_turn_has_written_is_seen_before_the_turn_ends<A: Subject>() {
    for form in FORMS {
        let system = system(2);
        let a = system.spawn(A::new());
        let x = shared(0);
        let (reached, is_reached) = probe();
        let (release, released) = probe();
        let turn = transact(
            form,
            move |tx| tx.write(x, 1),
            move |a: &mut A, n| {
                reached.signal(1);
                released.next();
                a.note(n)
            },
        );
        let promise = a.ask(turn);
        is_reached.next();
        assert_eq!(value_of(x), 1, "{form:?}");
        assert!(!promise.is_ready(), "{form:?}: the turn goes on");
        release.signal(0);
        assert_eq!(promise.wait(), Ok(1), "{form:?}");
    }
}

/// Decides the first transaction from within the second one's body: after that was found undecided, before it waits.
fn a_dependency_that_commits_between_look_and_wait_is_not_missed<A: Subject>() {
    for commits in [true, false] {
        for form in FORMS {
            let system = system(2);
            let a = system.spawn(A::new());
            let (x, y) = (shared(0), shared(0));
            let t1 = Arc::new(Mutex::new(None::<Undecided<Ask<u32>>>));
            let (open, is_open) = probe();
            let is_open = Arc::new(Mutex::new(is_open));
            let (undecided, ask) = {
                let (a, t1) = (a.clone(), Arc::clone(&t1));
                Undecided::begin(move |tx| {
                    let (t1, is_open) = (Arc::clone(&t1), Arc::clone(&is_open));
                    tx.write(x, 1)?;
                    let child = move |tx: &mut Tx<'_, 'static>| {
                        let seen = tx.read(x)?;
                        if A::IS_SPECULATIVE && tx.attempt() == 1 {
                            is_open.lock().expect("not poisoned").next();
                            let t1 = t1.lock().expect("not poisoned").take().expect("it is open");
                            elsewhere(move || t1.decide(commits));
                        }
                        tx.write(y, seen + 1)
                    };
                    Ok(a.ask_within(tx, transact(form, child, |a: &mut A, n| a.note(n))))
                })
            };
            if A::IS_SPECULATIVE {
                *t1.lock().expect("not poisoned") = Some(undecided);
                open.signal(0);
            } else {
                undecided.decide(commits);
            }
            assert_eq!(ask.promise().wait(), answer(commits, 2), "{form:?}");
            assert_eq!(a.noted(), if commits { vec![2] } else { vec![] }, "{form:?}");
        }
    }
}

/// An actor goes to the back of its queue after so many turns (128): also if the last one is undecided.
fn a_decision_is_not_missed_wherever_in_a_batch_of_turns_its_message_stands<A: Subject>() {
    for before in 120..136 {
        let system = system(1);
        let a = system.spawn(A::new());
        let (started, is_started) = probe();
        let (release, released) = probe();
        a.send(plain(move |_, _| {
            started.signal(0);
            released.next()
        }));
        is_started.next();
        (0..before).for_each(|n| drop(a.send(note(n))));
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| Ok(a.ask_within(tx, note(before))))
        };
        release.signal(0);
        settle(&system);
        t1.commit();
        assert_eq!(ask.promise().wait(), Ok(before));
        assert_eq!(a.noted(), (0..=before).collect::<Vec<_>>());
    }
}

#[test]
fn a_dependent_that_conflicts_while_its_dependency_is_pending_runs_again_after_it() {
    let _turn = crate::my_turn();
    for commits in [true, false] {
        for form in FORMS {
            let system = system(2);
            let a = system.spawn(Eager::new());
            let y = shared(0);
            let (probe, signals) = probe();
            let (t1, ask) = {
                let a = a.clone();
                Undecided::begin(move |tx| {
                    let probe = probe.clone();
                    let child = move |tx: &mut Tx<'_, 'static>| {
                        let value = tx.update(y, |n| n + 1)?;
                        probe.signal(value);
                        Ok(value)
                    };
                    Ok(a.ask_within(tx, transact(form, child, |a: &mut Eager, n| a.note(n))))
                })
            };
            assert_eq!(signals.next(), 1);
            set(y, 100);
            let promise = ask.promise();
            assert!(!promise.is_ready());
            t1.decide(commits);
            assert_eq!(promise.wait(), answer(commits, 101), "{form:?}");
            assert_eq!(signals.so_far(), if commits { vec![101] } else { vec![] }, "{form:?}");
            assert_eq!(value_of(y), if commits { 101 } else { 100 }, "{form:?}");
        }
    }
}

/// What a transaction of [`exactly_once`] does; one bit each, from a random number.
#[derive(Clone, Copy)]
struct Choice(u64);

impl Choice {
    fn sends_to(self, receiver: usize) -> bool {
        self.0 >> receiver & 1 == 1
    }

    /// The turn that it causes sends to the next receiver.
    fn is_passed_on(self) -> bool {
        self.0 >> 4 & 1 == 1
    }

    /// The turn that it causes runs a transaction.
    fn counts(self) -> bool {
        self.0 >> 5 & 1 == 1
    }

    fn form(self) -> Form {
        FORMS[(self.0 >> 6 & 0xff) as usize % FORMS.len()]
    }

    fn fails(self) -> bool {
        (self.0 >> 14).is_multiple_of(4)
    }

    /// Its first attempt conflicts.
    fn is_lost(self) -> bool {
        (self.0 >> 16).is_multiple_of(5)
    }
}

const RECEIVERS: usize = 3;

/// What is added to a number that is passed on.
const PASSED_ON: u32 = 5_000;

/// What each receiver is to take up, of one sender and in order.
type Taken = [Vec<u32>; RECEIVERS];

/// Any number of transactions on several threads, some of which fail by an error, some by conflicts; each sends to several
/// actors, whose turns send and run transactions, too. What an actor has noted is what the transactions that have committed
/// have caused: once, in order.
fn exactly_once<A: Subject>(seed: u64, threads: usize, rounds: u32) {
    let system = system(2);
    let receivers: [A::Ref; RECEIVERS] = [(); RECEIVERS].map(|()| system.spawn(A::new()));
    let (contended, count) = (TCell::new(0), shared(0));
    let send = |sender: usize| {
        let mut random = seed.wrapping_add(sender as u64);
        let (mut taken, mut counted) = (Taken::default(), 0);
        for round in 0..rounds {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let choice = Choice(random >> 33);
            let number = sender as u32 * 10_000 + round;
            let is_lost = AtomicBool::new(choice.is_lost());
            let transaction = try_atomically(|tx| {
                for n in (0..RECEIVERS).filter(|n| choice.sends_to(*n)) {
                    let next = choice.is_passed_on().then(|| receivers[(n + 1) % RECEIVERS].clone());
                    receivers[n].send_within(tx, caused_by(choice, number, count, next));
                }
                conflict_if(tx, &contended, is_lost.swap(false, Ordering::SeqCst))?;
                if choice.fails() { Err(Failed::Error(())) } else { Ok(()) }
            });
            if transaction.run().is_err() {
                continue;
            }
            for n in (0..RECEIVERS).filter(|n| choice.sends_to(*n)) {
                taken[n].push(number);
                counted += u32::from(choice.counts());
                if choice.is_passed_on() {
                    taken[(n + 1) % RECEIVERS].push(number + PASSED_ON);
                }
            }
        }
        (taken, counted)
    };
    let expected: Vec<(Taken, u32)> = thread::scope(|scope| {
        let senders: Vec<_> = (0..threads).map(|sender| scope.spawn(move || send(sender))).collect();
        senders.into_iter().map(|sender| sender.join().expect("no panic")).collect()
    });
    // Twice around: what is passed on in a turn is in the mailbox when that turn has ended.
    receivers.iter().for_each(|receiver| drop(receiver.noted()));
    for (n, receiver) in receivers.iter().enumerate() {
        let noted = receiver.noted();
        for (sender, (taken, _)) in expected.iter().enumerate() {
            for passed_on in [false, true] {
                let is_of =
                    |number: &&u32| **number / 10_000 == sender as u32 && (**number % 10_000 >= PASSED_ON) == passed_on;
                let noted: Vec<&u32> = noted.iter().filter(is_of).collect();
                assert_eq!(noted, taken[n].iter().filter(is_of).collect::<Vec<_>>(), "{n} {sender} {passed_on}");
            }
        }
        assert_eq!(noted.len(), expected.iter().map(|(taken, _)| taken[n].len()).sum::<usize>());
    }
    assert_eq!(value_of(count), expected.iter().map(|(_, counted)| counted).sum::<u32>());
}

/// The turn that a transaction of [`exactly_once`] causes.
fn caused_by<A: Subject>(choice: Choice, number: u32, count: Shared<u32>, next: Option<A::Ref>) -> Turn<A> {
    let pass_on = move || next.iter().for_each(|next| drop(next.send(note(number + PASSED_ON))));
    if choice.counts() {
        let body = move |tx: &mut Tx<'_, 'static>| tx.update(count, |n| n + 1);
        transact(choice.form(), body, move |actor: &mut A, _| {
            pass_on();
            actor.note(number)
        })
    } else {
        plain(move |actor: &mut A, _| {
            pass_on();
            actor.note(number)
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    // Case TA-exactly-once.
    #[test]
    fn the_messages_of_committed_attempts_are_taken_up_once_and_in_order(
        seed in any::<u64>(),
        threads in 1..5usize,
        rounds in 1..40u32,
    ) {
        let _turn = crate::my_turn();
        exactly_once::<Eager>(seed, threads, rounds);
        exactly_once::<Patient>(seed, threads, rounds);
    }
}
