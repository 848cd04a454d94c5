//! The programs with which the paper's implementation was tested, and those that it gets wrong.
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use enact_actors::{Cx, Promise};
use enact_stm::{Abort, Failed, TCell, Tx, atomically, snapshot, try_atomically};

use crate::probe::probe;
use crate::subject::{Directed, FORMS, Form, Subject, cooperative, held, note, plain, settle, system, transact};
use crate::undecided::{Shared, Undecided, conflict_if, elsewhere, shared, value_of};

for_both_kinds![
    become_and_spawn_in_a_transaction_happen_once_after_a_lost_attempt_and_not_after_an_error,
    what_a_turn_reads_is_what_its_transaction_has_written_after_it_was_sent,
    a_transaction_that_only_reads_sees_what_its_dependency_has_written,
    nobody_sees_the_second_transaction_without_the_first,
    a_lost_attempt_leaves_no_effect_of_the_turn_that_it_has_caused,
    a_counter_counts_each_committed_transaction_once,
    each_transaction_leaves_one_actor_that_counted_one,
    exactly_one_transaction_raises_the_flag,
    messages_inside_and_outside_of_transactions_keep_their_order,
];

const SENDERS: u32 = 100;

// Case S0-T1a.
fn become_and_spawn_in_a_transaction_happen_once_after_a_lost_attempt_and_not_after_an_error<A: Subject>() {
    for fails in [false, true] {
        let system = system(2);
        let a = system.spawn(A::with_notes(&[1]));
        let contended = shared(0);
        let spawned = a.run(move |_, cx| {
            let is_lost = AtomicBool::new(true);
            let t1 = try_atomically(|tx| {
                cx.become_within(tx, A::with_notes(&[2]));
                let new = cx.spawn_within(tx, A::with_notes(&[3]));
                conflict_if(tx, contended, is_lost.swap(false, Ordering::SeqCst))?;
                if fails { Err(Failed::Error(new)) } else { Ok(new) }
            });
            t1.run()
        });
        let new = spawned.wait().expect("no panic");
        assert_eq!(new.is_err(), fails);
        assert_eq!(a.noted(), if fails { [1] } else { [2] });
        match new {
            Ok(new) => assert_eq!(new.noted(), [3]),
            Err(new) => drop(new.ask(note(1)).wait().expect_err("it never was")),
        }
        let settled = system.actors().len();
        // The actor of an aborted transaction is no actor; the one that has been committed is dropped with its handle.
        assert!(settled <= if fails { 1 } else { 2 }, "{settled}");
    }
}

// Case S0-stale.
fn what_a_turn_reads_is_what_its_transaction_has_written_after_it_was_sent<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let b = system.spawn(A::new());
        let [x, y] = [0; 2].map(shared);
        let (t1, ask) = {
            let (b, system) = (b.clone(), system.clone());
            Undecided::begin(move |tx| {
                let second = move |tx: &mut Tx<'_, 'static>| {
                    let seen = tx.read(x)?;
                    tx.write(y, seen)
                };
                let ask = b.ask_within(tx, transact(form, second, |b: &mut A, n| b.note(n)));
                // In place of the seed's sleep: the turn has read by now.
                elsewhere(|| settle(&system));
                tx.write(x, 1)?;
                Ok(ask)
            })
        };
        t1.commit();
        assert_eq!(ask.promise().wait(), Ok(1), "{form:?}");
        assert_eq!(snapshot(|tx| Ok((tx.read(x)?, tx.read(y)?))), (1, 1), "{form:?}");
    }
}

// Case S0-stale-ro.
fn a_transaction_that_only_reads_sees_what_its_dependency_has_written<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let b = system.spawn(A::new());
        let x = shared(0);
        let (t1, ask) = {
            let (b, system) = (b.clone(), system.clone());
            Undecided::begin(move |tx| {
                let second = move |tx: &mut Tx<'_, 'static>| tx.read(x);
                let ask = b.ask_within(tx, transact(form, second, |b: &mut A, n| b.note(n)));
                elsewhere(|| settle(&system));
                tx.write(x, 1)?;
                Ok(ask)
            })
        };
        t1.commit();
        assert_eq!((ask.promise().wait(), b.noted()), (Ok(1), vec![1]), "{form:?}");
    }
}

// Case S0-disjoint.
fn nobody_sees_the_second_transaction_without_the_first<A: Subject>() {
    for form in FORMS {
        for _ in 0..3 {
            let system = system(2);
            let b = system.spawn(A::new());
            let [x, z] = [0; 2].map(shared);
            let is_over = AtomicBool::new(false);
            let seen = thread::scope(|scope| {
                let looking = scope.spawn(|| {
                    let mut seen = Vec::new();
                    while !is_over.load(Ordering::SeqCst) {
                        let pair = snapshot(|tx| Ok((tx.read(x)?, tx.read(z)?)));
                        if seen.last() != Some(&pair) {
                            seen.push(pair);
                        }
                        thread::yield_now();
                    }
                    seen
                });
                let ask = atomically(|tx| {
                    let second = move |tx: &mut Tx<'_, 'static>| tx.write(z, 7);
                    let ask = b.ask_within(tx, transact(form, second, |b: &mut A, n| b.note(n)));
                    tx.write(x, 1)?;
                    Ok(ask)
                })
                .run();
                assert_eq!(ask.promise().wait(), Ok(7));
                is_over.store(true, Ordering::SeqCst);
                looking.join().expect("no panic")
            });
            let allowed = [(0, 0), (1, 0), (1, 7)];
            assert!(seen.is_sorted() && seen.iter().all(|pair| allowed.contains(pair)), "{form:?}: {seen:?}");
        }
    }
}

// Case S0-rerun.
fn a_lost_attempt_leaves_no_effect_of_the_turn_that_it_has_caused<A: Subject>() {
    let system = system(1);
    let b = system.spawn(A::new());
    let (probe, signals) = probe();
    let (t1, _first) = {
        let (b, attempts) = (b.clone(), AtomicU32::new(0));
        Undecided::begin(move |tx| {
            let (attempt, probe) = (attempts.fetch_add(1, Ordering::SeqCst), probe.clone());
            let turn = plain(move |b: &mut A, cx| {
                probe.signal(attempt);
                // What it does must not pile up: a note, and a message to itself.
                cx.handle().send(note(10 + attempt));
                b.note(attempt)
            });
            Ok(b.ask_within(tx, turn))
        })
    };
    settle(&system);
    let second = t1.conflict();
    settle(&system);
    t1.commit();
    assert_eq!(second.promise().wait(), Ok(1));
    drop(b.noted());
    assert_eq!(b.noted(), [1, 11]);
    assert_eq!(signals.so_far(), if A::IS_SPECULATIVE { vec![0, 1] } else { vec![1] });
}

/// Runs `work` for each of so many senders, a few at a time.
fn by_many(work: impl Fn(u32) + Sync) {
    const THREADS: u32 = 4;
    thread::scope(|scope| {
        for first in 0..THREADS {
            let work = &work;
            scope.spawn(move || (first..SENDERS).step_by(THREADS as usize).for_each(work));
        }
    });
}

// Case S0-summer.
fn a_counter_counts_each_committed_transaction_once<A: Subject>() {
    let system = system(2);
    let counter = system.spawn(A::with_notes(&[0]));
    let (sum, contended) = (TCell::new(0), TCell::new(0));
    by_many(|sender| {
        let is_lost = AtomicBool::new(sender % 3 == 0);
        atomically(|tx| {
            counter.send_within(
                tx,
                plain(|counter: &mut A, cx| {
                    let count = counter.notes()[0] + 1;
                    cx.become_next(A::with_notes(&[count]));
                    count
                }),
            );
            tx.update(&sum, |n| n + 1)?;
            conflict_if(tx, &contended, is_lost.swap(false, Ordering::SeqCst))
        })
        .run();
    });
    assert_eq!((counter.noted(), sum.into_inner()), (vec![SENDERS], SENDERS));
}

// Case S0-spawn.
fn each_transaction_leaves_one_actor_that_counted_one<A: Subject>() {
    let system = system(2);
    let contended = TCell::new(0);
    let actors = std::sync::Mutex::new(Vec::new());
    by_many(|sender| {
        let is_lost = AtomicBool::new(sender % 3 == 0);
        let new = atomically(|tx| {
            let new = system.spawn_within(tx, A::new());
            new.send_within(tx, note(1));
            conflict_if(tx, &contended, is_lost.swap(false, Ordering::SeqCst))?;
            Ok(new)
        })
        .run();
        actors.lock().expect("not poisoned").push(new);
    });
    let actors = actors.into_inner().expect("not poisoned");
    assert_eq!(actors.len(), SENDERS as usize);
    assert!(actors.iter().all(|actor| actor.noted() == [1]));
    assert_eq!(system.actors().len(), actors.len(), "no others");
}

/// Becomes one that has raised the flag, if nobody else has.
fn raise<A: Subject>(
    cx: &Cx<A>,
    is_set: Shared<u32>,
) -> impl for<'t> Fn(&mut Tx<'t, 'static>) -> Result<u32, Abort> + Send {
    move |tx| {
        if tx.read(is_set)? == 0 {
            cx.become_within(tx, A::with_notes(&[1]));
            tx.write(is_set, 1)?;
        }
        Ok(0)
    }
}

// Case S0-flag.
fn exactly_one_transaction_raises_the_flag<A: Subject>() {
    for form in FORMS {
        let system = system(2);
        let is_set = shared(0);
        let flaggers: Vec<A::Ref> = (0..SENDERS).map(|_| system.spawn(A::with_notes(&[0]))).collect();
        let turns = flaggers.iter().map(|flagger| {
            flagger.ask(match form {
                Form::Plain => plain(move |_: &mut A, cx| atomically(raise(cx, is_set)).run()),
                Form::Held => held(move |_: &mut A, cx| Box::pin(async move { atomically(raise(cx, is_set)).await })),
                Form::Cooperative => {
                    cooperative(move |cx: Cx<A>| Box::pin(async move { atomically(raise(&cx, is_set)).await }))
                }
            })
        });
        let turns: Vec<Promise<u32>> = turns.collect();
        assert_eq!(Promise::join_all(turns).wait(), Ok(vec![0; SENDERS as usize]));
        let raised: u32 = flaggers.iter().map(|flagger| flagger.noted()[0]).sum();
        assert_eq!((raised, value_of(is_set)), (1, 1), "{form:?}");
    }
}

// Case S0-mix.
fn messages_inside_and_outside_of_transactions_keep_their_order<A: Subject>() {
    let system = system(2);
    let receiver = system.spawn(A::new());
    let contended = TCell::new(0);
    by_many(|sender| {
        let number = |n| sender * 10 + n;
        receiver.send(note(number(0)));
        for n in [1, 3] {
            let is_lost = AtomicBool::new(sender % 3 == 0);
            atomically(|tx| {
                receiver.send_within(tx, note(number(n)));
                conflict_if(tx, &contended, is_lost.swap(false, Ordering::SeqCst))
            })
            .run();
            receiver.send(note(number(n + 1)));
        }
    });
    let mut by_sender = HashMap::<u32, Vec<u32>>::new();
    for number in receiver.noted() {
        by_sender.entry(number / 10).or_default().push(number % 10);
    }
    assert_eq!(by_sender.len(), SENDERS as usize);
    assert!(by_sender.values().all(|numbers| *numbers == [0, 1, 2, 3, 4]), "{by_sender:?}");
}
