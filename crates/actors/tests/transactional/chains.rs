//! Chains of turns that depend on each other.
use std::sync::Arc;

use enact_actors::Promise;
use enact_stm::{Tx, atomically};

use crate::probe::{Probe, probe};
use crate::subject::{Directed, FORMS, Form, Subject, Turn, answer, note, plain, system, transact};
use crate::undecided::{Shared, Undecided, shared, value_of};

for_both_kinds![
    a_chain_of_1000_turns_is_decided_by_its_beginning,
    a_chain_of_1000_turns_of_one_actor_is_decided_by_its_beginning,
    a_chain_of_1000_transactions_completes_without_blocked_threads,
    a_chain_of_1000_transactions_ends_with_the_first,
    a_chain_of_three_transactions_counts_each_once,
];

const LENGTH: u32 = 1_000;

/// A turn of the actor at `place` that sends one like it to the next.
fn relay<A: Subject>(actors: Arc<[A::Ref]>, place: usize, probe: Probe) -> Turn<A> {
    plain(move |actor: &mut A, _| {
        let noted = actor.note(place as u32);
        match actors.get(place + 1) {
            Some(next) => drop(next.send(relay(Arc::clone(&actors), place + 1, probe))),
            None => probe.signal(noted),
        }
        noted
    })
}

// Case TA-chain.
fn a_chain_of_1000_turns_is_decided_by_its_beginning<A: Subject>() {
    for commits in [true, false] {
        let system = system(2);
        let actors: Arc<[A::Ref]> = (0..LENGTH).map(|_| system.spawn(A::new())).collect();
        let (probe, signals) = probe();
        let (t1, ask) = {
            let actors = Arc::clone(&actors);
            Undecided::begin(move |tx| Ok(actors[0].ask_within(tx, relay(Arc::clone(&actors), 0, probe.clone()))))
        };
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), LENGTH - 1, "the whole chain has run");
        }
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 0));
        for (place, actor) in (0..).zip(&*actors) {
            // Each has sent before it answers: the next one's message is in its mailbox.
            assert_eq!(actor.noted(), if commits { vec![place] } else { vec![] });
        }
        for actor in &*actors {
            assert_eq!(actor.ask(note(5)).wait(), Ok(5), "nobody is left waiting");
        }
    }
}

// Case TA-chain.
fn a_chain_of_1000_turns_of_one_actor_is_decided_by_its_beginning<A: Subject>() {
    fn countdown<A: Subject>(left: u32, probe: Probe) -> Turn<A> {
        plain(move |actor: &mut A, cx| {
            match left {
                0 => probe.signal(0),
                _ => drop(cx.handle().send(countdown(left - 1, probe))),
            }
            actor.note(left)
        })
    }
    for commits in [true, false] {
        let system = system(2);
        let a = system.spawn(A::new());
        let (probe, signals) = probe();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| Ok(a.ask_within(tx, countdown(LENGTH, probe.clone()))))
        };
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, LENGTH));
        if commits {
            signals.next();
        }
        assert_eq!(a.noted(), if commits { (0..=LENGTH).rev().collect() } else { vec![] });
    }
}

/// Signalled by the turns of [`relay_in_transactions`] at the end of the chain.
const REACHED: u32 = 0;
const DONE: u32 = 1;

/// A turn of the actor at `place` in which a transaction sends one like it to the next.
fn relay_in_transactions<A: Subject>(actors: Arc<[A::Ref]>, sum: Shared<u32>, place: usize, probe: Probe) -> Turn<A> {
    let (is_last, at_the_end) = (place + 1 == actors.len(), probe.clone());
    let body = move |tx: &mut Tx<'_, 'static>| {
        match actors.get(place + 1) {
            Some(next) => {
                next.send_within(tx, relay_in_transactions(Arc::clone(&actors), sum, place + 1, probe.clone()));
            }
            None => probe.signal(REACHED),
        }
        tx.commute(sum, |n| n + 1)?;
        Ok(place as u32)
    };
    let rest = move |actor: &mut A, n| {
        if is_last {
            at_the_end.signal(DONE);
        }
        actor.note(n)
    };
    transact(Form::Held, body, rest)
}

#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("it is there on Linux").count()
}

#[cfg(not(target_os = "linux"))]
fn threads() -> usize {
    0
}

fn chain_of_transactions<A: Subject>(commits: bool) {
    let system = system(2);
    let actors: Arc<[A::Ref]> = (0..LENGTH).map(|_| system.spawn(A::new())).collect();
    let sum = shared(0);
    let (probe, signals) = probe();
    let (t1, ask) = {
        let actors = Arc::clone(&actors);
        Undecided::begin(move |tx| {
            let turn = relay_in_transactions(Arc::clone(&actors), sum, 0, probe.clone());
            Ok(actors[0].ask_within(tx, turn))
        })
    };
    if A::IS_SPECULATIVE {
        assert_eq!(signals.next(), REACHED);
        // Other tests have threads, too; if each wait had one, there would be a thousand.
        assert!(threads() < LENGTH as usize / 2);
    }
    t1.decide(commits);
    assert_eq!(ask.promise().wait(), answer(commits, 0));
    if commits {
        while signals.next() != DONE {}
    }
    for (place, actor) in (0..).zip(&*actors) {
        assert_eq!(actor.noted(), if commits { vec![place] } else { vec![] });
    }
    assert_eq!(value_of(sum), if commits { LENGTH } else { 0 });
}

// Case S0-deep.
fn a_chain_of_1000_transactions_completes_without_blocked_threads<A: Subject>() {
    chain_of_transactions::<A>(true);
}

// Case S0-deep.
fn a_chain_of_1000_transactions_ends_with_the_first<A: Subject>() {
    chain_of_transactions::<A>(false);
}

// Case S0-chain.
fn a_chain_of_three_transactions_counts_each_once<A: Subject>() {
    const CHAINS: usize = 100;
    for form in FORMS {
        for middle_is_transaction in [true, false] {
            let system = system(2);
            let counters = [0; 3].map(shared);
            let chains: Vec<[A::Ref; 2]> = (0..CHAINS).map(|_| [(); 2].map(|()| system.spawn(A::new()))).collect();
            let last = move || {
                let count = move |tx: &mut Tx<'_, 'static>| tx.update(counters[2], |n| n + 1);
                transact(form, count, |actor: &mut A, _| actor.note(3))
            };
            let answers: Vec<Promise<u32>> = chains
                .iter()
                .map(|[second, third]| {
                    atomically(|tx| {
                        let third = third.clone();
                        let turn = if middle_is_transaction {
                            let count = move |tx: &mut Tx<'_, 'static>| {
                                third.send_within(tx, last());
                                tx.update(counters[1], |n| n + 1)
                            };
                            transact(form, count, |actor: &mut A, _| actor.note(2))
                        } else {
                            plain(move |actor: &mut A, _| {
                                third.send(last());
                                actor.note(2)
                            })
                        };
                        let ask = second.ask_within(tx, turn);
                        tx.update(counters[0], |n| n + 1)?;
                        Ok(ask)
                    })
                    .run()
                    .promise()
                })
                .collect();
            assert_eq!(Promise::join_all(answers).wait(), Ok(vec![2; CHAINS]));
            for [second, third] in &chains {
                assert_eq!((second.noted(), third.noted()), (vec![2], vec![3]), "{form:?}");
            }
            let middle = if middle_is_transaction { CHAINS as u32 } else { 0 };
            assert_eq!(counters.map(value_of), [CHAINS as u32, middle, CHAINS as u32], "{form:?}");
        }
    }
}
