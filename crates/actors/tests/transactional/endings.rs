//! Actors that end while messages of theirs are undecided.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use enact_actors::{ActorError, Ask, ExitReason, OnPanic, Promise, Restarts, Shutdown, Spec, System};

use crate::probe::{Probe, probe};
use crate::subject::{Directed, Eager, Patient, Subject, Turn, answer, held, note, plain, settle, system};
use crate::undecided::Undecided;

for_both_kinds![
    a_stop_waits_until_undecided_messages_are_decided,
    a_kill_fails_what_waits_behind_an_undecided_message,
    the_last_handle_that_is_dropped_ends_an_actor_after_its_undecided_messages,
    a_message_to_an_actor_that_has_ended_fails_within_a_transaction,
    a_promise_of_a_dropped_message_fails_with_retracted_whatever_becomes_of_it,
    a_shutdown_waits_for_what_is_undecided,
    a_shutdown_at_its_deadline_does_not,
    suspended_turns_go_on_before_an_undecided_message,
    a_child_that_fails_while_a_message_is_undecided_restarts_its_parent_once,
];

fn undecided<A: Subject>(
    actor: &A::Ref,
    turn: impl Fn() -> Turn<A> + Send + 'static,
) -> (Undecided<Ask<u32>>, Promise<u32>) {
    let actor = actor.clone();
    let (t1, ask) = Undecided::begin(move |tx| Ok(actor.ask_within(tx, turn())));
    (t1, ask.promise())
}

fn noting_probe<A: Subject>(probe: Probe) -> impl Fn() -> Turn<A> + Send + 'static {
    move || {
        let probe = probe.clone();
        plain(move |actor: &mut A, _| {
            probe.signal(1);
            actor.note(1)
        })
    }
}

fn stopped<A: Subject>(actor: &A::Ref) -> Result<u32, ActorError> {
    Err(ActorError::Stopped { actor: actor.identity() })
}

fn a_stop_waits_until_undecided_messages_are_decided<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let (probe, signals) = probe();
        let (t1, first) = undecided::<A>(&a, noting_probe(probe));
        let (second, exit) = (a.run(|a, _| a.notes().to_vec()), a.watch());
        a.stop();
        assert_eq!(a.ask(note(3)).wait(), stopped::<A>(&a));
        settle(&system);
        assert!(!exit.is_ready() && !second.is_ready());
        t1.decide(commits);
        assert_eq!(first.wait(), answer(commits, 1));
        assert_eq!(second.wait(), Ok(if commits { vec![1] } else { vec![] }));
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Stopped);
        drop(signals);
    }
}

fn a_kill_fails_what_waits_behind_an_undecided_message<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let (probe, signals) = probe();
        let (t1, first) = undecided::<A>(&a, noting_probe(probe));
        let (second, exit) = (a.ask(note(2)), a.watch());
        settle(&system);
        a.kill();
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1);
            settle(&system);
            assert!(!exit.is_ready() && !first.is_ready(), "it is in a turn until that is decided");
            t1.decide(commits);
            assert_eq!(first.wait(), answer(commits, 1));
        } else {
            assert_eq!(first.wait(), stopped::<A>(&a), "it is in no turn");
            t1.decide(commits);
            assert!(signals.is_silent());
        }
        assert_eq!(second.wait(), stopped::<A>(&a));
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Stopped);
    }
}

#[test]
fn a_kill_in_the_middle_of_a_tentative_turn_is_obeyed_when_that_is_decided() {
    let _turn = crate::my_turn();
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(Eager::new());
        let (probe, signals) = probe();
        let (t1, promise) = undecided::<Eager>(&a, move || {
            let probe = probe.clone();
            held(move |a: &mut Eager, _| {
                Box::pin(async move {
                    probe.signal(1);
                    std::future::pending::<()>().await;
                    a.note(1)
                })
            })
        });
        assert_eq!(signals.next(), 1);
        let exit = a.watch();
        a.kill();
        settle(&system);
        assert!(!exit.is_ready() && !promise.is_ready());
        t1.decide(commits);
        let ended = if commits { stopped::<Eager>(&a) } else { Err(ActorError::Retracted) };
        assert_eq!(promise.wait(), ended, "cut short as an ordinary turn, or never begun");
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Stopped);
    }
}

fn the_last_handle_that_is_dropped_ends_an_actor_after_its_undecided_messages<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let exit = a.watch();
        let handle = Mutex::new(Some(a));
        let (t1, ask) = Undecided::begin(move |tx| {
            let a = handle.lock().expect("not poisoned").take().expect("one attempt");
            Ok(a.ask_within(tx, note(1)))
        });
        let promise = ask.promise();
        settle(&system);
        assert!(!exit.is_ready());
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, 1));
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Released);
    }
}

fn a_message_to_an_actor_that_has_ended_fails_within_a_transaction<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        a.kill();
        a.watch().wait().expect("it ends");
        let (t1, (ask, sent)) = {
            let a = a.clone();
            Undecided::begin(move |tx| Ok((a.ask_within(tx, note(1)), a.send_within(tx, note(1)))))
        };
        assert_eq!(sent.accepted(), stopped::<A>(&a).map(drop));
        t1.decide(commits);
        assert_eq!(ask.promise().wait(), stopped::<A>(&a));
    }
}

fn a_promise_of_a_dropped_message_fails_with_retracted_whatever_becomes_of_it<A: Subject>() {
    let system = system(1);
    let a = system.spawn(A::new());
    let calls = Arc::new(AtomicU32::new(0));
    let (t1, first) = undecided::<A>(&a, || note(1));
    let (t2, second) = undecided::<A>(&a, || note(2));
    let joined = {
        let calls = Arc::clone(&calls);
        Promise::join_all([first, second]).map(move |_| calls.fetch_add(1, Ordering::SeqCst))
    };
    t2.abort();
    t1.commit();
    assert_eq!(joined.wait(), Err(ActorError::Retracted));
    assert_eq!((a.noted(), calls.load(Ordering::SeqCst)), (vec![1], 0));
}

fn a_shutdown_waits_for_what_is_undecided<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
        let (t1, promise) = undecided::<A>(&a, move || {
            let b = b.clone();
            plain(move |_, _| {
                b.send(note(2));
                1
            })
        });
        settle(&system);
        let shutdown = system.shutdown(Duration::from_secs(600));
        assert!(!promise.is_ready() && !shutdown.is_ready());
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, 1));
        assert_eq!(shutdown.wait(), Ok(Shutdown::Drained));
    }
}

fn a_shutdown_at_its_deadline_does_not<A: Subject>() {
    let system = system(1);
    let a = system.spawn(A::new());
    let (t1, promise) = undecided::<A>(&a, || note(1));
    settle(&system);
    let cut_short = system.shutdown(Duration::ZERO).wait();
    assert!(matches!(cut_short, Ok(Shutdown::CutShort { .. })), "{cut_short:?}");
    t1.commit();
    let answered = promise.wait();
    if A::IS_SPECULATIVE {
        // It was in a turn, which has become definitive.
        assert_eq!(answered, Ok(1));
    } else {
        assert_eq!(answered, stopped::<A>(&a));
    }
    a.watch().wait().expect("it ends");
}

fn suspended_turns_go_on_before_an_undecided_message<A: Subject>() {
    use crate::subject::cooperative;
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let (go_on, resolver) = Promise::<()>::pair();
        let (probe, signals) = probe();
        let suspended = a.ask(cooperative(move |cx| {
            Box::pin(async move {
                probe.signal(0);
                go_on.await.expect("it is kept");
                cx.with(|a: &mut A| a.note(a.notes().len() as u32 + 10))
            })
        }));
        signals.next();
        let (t1, promise) = undecided::<A>(&a, || note(1));
        settle(&system);
        resolver.resolve(());
        assert_eq!(
            suspended.wait(),
            Ok(10),
            "the message waits, because this turn must not see what may never have been"
        );
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, 1));
    }
}

#[test]
fn dropping_a_system_beside_an_undecided_message_ends() {
    let _turn = crate::my_turn();
    fn check<A: Subject>(commits: bool) {
        let system: System = system(1);
        let a = system.spawn(A::new());
        let (t1, promise) = undecided::<A>(&a, || note(1));
        settle(&system);
        let dropping = std::thread::spawn(move || drop(system));
        t1.decide(commits);
        dropping.join().expect("it ends");
        assert!(promise.is_ready());
    }
    for commits in [true, false] {
        check::<Eager>(commits);
        check::<Patient>(commits);
    }
}

fn a_child_that_fails_while_a_message_is_undecided_restarts_its_parent_once<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let makes = Arc::new(AtomicU32::new(0));
        let made = Arc::clone(&makes);
        let a = system.spawn(Spec::restarting(Restarts::at_most(5, Duration::from_secs(600)), move || {
            A::with_notes(&[made.fetch_add(1, Ordering::SeqCst)])
        }));
        let child = a.run(|_, cx| cx.spawn(Spec::new(A::new()).on_panic(OnPanic::Escalate))).wait().expect("no panic");
        let (t1, promise) = undecided::<A>(&a, || note(7));
        settle(&system);
        child.send(plain(|_, _| panic!("on purpose")));
        child.watch().wait().expect("it ends");
        settle(&system);
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, 7));
        let noted = a.noted();
        assert_eq!(makes.load(Ordering::SeqCst), 2);
        // An eager actor was in the turn, and is restarted after it; a patient one was not, and takes the message up then.
        assert_eq!(noted, if commits && !A::IS_SPECULATIVE { vec![1, 7] } else { vec![1] });
    }
}
