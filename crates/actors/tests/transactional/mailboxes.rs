//! Bounded mailboxes: within a transaction a full one refuses, whatever it does elsewhere.
use enact_actors::{ActorError, Mailbox, Promise, Spec, WhenFull};
use enact_stm::atomically;

use crate::probe::{Probe, probe};
use crate::subject::{Directed, Subject, answer, cooperative, note, plain, settle, system};
use crate::undecided::Undecided;

for_both_kinds![
    a_full_mailbox_refuses_within_a_transaction_even_if_it_would_wait_elsewhere,
    an_undecided_message_takes_room_until_it_is_decided,
    a_full_mailbox_refuses_in_a_transaction_of_a_turn,
    a_turn_that_goes_on_before_an_undecided_message_gives_its_room_back_once,
];

/// An actor with room for so many messages, which is in a turn that ends when the probe is signalled.
fn busy<A: Subject>(system: &enact_actors::System, capacity: usize, when_full: WhenFull) -> (A::Ref, Probe) {
    let a = system.spawn(Spec::new(A::new()).mailbox(Mailbox::bounded(capacity, when_full)));
    let (started, is_started) = probe();
    let (release, released) = probe();
    a.send(plain(move |_, _| {
        started.signal(0);
        released.next()
    }));
    is_started.next();
    (a, release)
}

fn a_full_mailbox_refuses_within_a_transaction_even_if_it_would_wait_elsewhere<A: Subject>() {
    for when_full in [WhenFull::Wait, WhenFull::Fail] {
        for commits in [true, false] {
            let system = system(2);
            let (a, release) = busy::<A>(&system, 2, when_full);
            let full = Err(ActorError::Full { actor: a.identity(), capacity: 2 });
            let first = a.ask(note(1));
            let (t1, (second, third, fourth)) = {
                let a = a.clone();
                Undecided::begin(move |tx| {
                    let second = a.ask_within(tx, note(2));
                    Ok((second, a.ask_within(tx, note(3)), a.send_within(tx, note(4))))
                })
            };
            assert_eq!(fourth.accepted(), full);
            assert_eq!(third.promise().wait(), full.map(|()| 0), "{when_full:?}");
            release.signal(0);
            t1.decide(commits);
            assert_eq!((first.wait(), second.promise().wait()), (Ok(1), answer(commits, 2)), "{when_full:?}");
            assert_eq!(a.noted(), if commits { vec![1, 2] } else { vec![1] });
        }
    }
}

fn an_undecided_message_takes_room_until_it_is_decided<A: Subject>() {
    let system = system(2);
    let (a, release) = busy::<A>(&system, 1, WhenFull::Fail);
    let (t1, ask) = {
        let a = a.clone();
        Undecided::begin(move |tx| Ok(a.ask_within(tx, note(1))))
    };
    assert_eq!(a.ask(note(2)).wait(), Err(ActorError::Full { actor: a.identity(), capacity: 1 }));
    t1.abort();
    release.signal(0);
    assert_eq!(ask.promise().wait(), answer(false, 1));
    assert_eq!(a.ask(note(3)).wait(), Ok(3));
    assert_eq!(a.noted(), [3]);
}

fn a_full_mailbox_refuses_in_a_transaction_of_a_turn<A: Subject>() {
    let system = system(2);
    let (a, release) = busy::<A>(&system, 1, WhenFull::Wait);
    let sender = system.spawn(A::new());
    let to = a.clone();
    let sent = sender.run(move |_, _| {
        let sent = atomically(|tx| Ok([to.send_within(tx, note(1)), to.send_within(tx, note(2))]));
        sent.run().map(|sent| sent.accepted().is_ok())
    });
    assert_eq!(sent.wait(), Ok([true, false]));
    release.signal(0);
    assert_eq!(a.noted(), [1]);
}

fn a_turn_that_goes_on_before_an_undecided_message_gives_its_room_back_once<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(Spec::new(A::new()).mailbox(Mailbox::bounded(1, WhenFull::Fail)));
        let (opened, opens) = Promise::<u32>::pair();
        let (begun, begins) = Promise::pair();
        let going_on = a.ask(cooperative(move |_| {
            Box::pin(async move {
                begins.resolve(());
                opened.await.unwrap()
            })
        }));
        begun.wait().unwrap();
        let (t1, ask) = {
            let a = a.clone();
            Undecided::begin(move |tx| Ok(a.ask_within(tx, note(1))))
        };
        opens.resolve(7);
        assert_eq!(going_on.wait(), Ok(7), "before the transaction is decided");
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), answer(commits, 1));
        settle(&system);
        // There is room for one, and for no more.
        let (started, is_started) = probe();
        let (release, released) = probe();
        let busy = a.ask(plain(move |_, _| {
            started.signal(0);
            released.next()
        }));
        is_started.next();
        let (first, second) = (a.ask(note(2)), a.ask(note(3)));
        release.signal(4);
        assert_eq!((busy.wait(), first.wait()), (Ok(4), Ok(2)));
        assert_eq!(second.wait(), Err(ActorError::Full { actor: a.identity(), capacity: 1 }));
    }
}
