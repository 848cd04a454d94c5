//! What a tentative turn does to others, besides sending: it happens when the transaction of the message commits, and not
//! at all if that aborts.
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use enact_actors::{ActorError, Ask, Cx, ExitReason, Promise, Resolver, Spec, System, Timer};
use enact_stm::{Deferrable, Tx, atomically};
use tokio::runtime::Runtime;

use crate::probe::probe;
use crate::subject::{Directed, FORMS, Subject, Turn, answer, note, plain, settle, system, transact};
use crate::undecided::{Undecided, shared};

for_both_kinds![
    a_delayed_turn_is_asked_for_with_the_commit,
    a_repeated_turn_is_asked_for_with_the_commit,
    a_timer_is_cancelled_with_the_commit,
    a_timer_made_and_cancelled_in_one_tentative_turn_never_rings,
    a_link_is_made_and_undone_with_the_commit,
    a_watch_is_set_with_the_commit,
    an_actor_stops_itself_with_the_commit,
    another_actor_is_stopped_or_killed_with_the_commit,
    a_promise_is_kept_with_the_commit,
    deferred_operations_follow_the_commit_of_their_own_transaction,
    a_deferred_operation_of_a_definitive_turn_leaves_the_worker_to_others,
    spawn_and_become_of_a_tentative_turn_end_with_its_transaction,
    a_callback_is_called_after_the_commit,
    a_shutdown_begins_with_the_commit,
    effects_and_messages_keep_their_order_after_a_wait_in_a_plain_handler,
];

const SECOND: Duration = Duration::from_secs(1);

/// A clock that moves only when told to, and a system that goes by it.
fn paused() -> (Runtime, System) {
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let clock = clock.expect("a runtime without I/O");
    let system = System::builder().workers(1).tokio(clock.handle().clone()).build().expect("a thread for the worker");
    (clock, system)
}

fn ring<A: Subject>(actor: &mut A, _: &Cx<A>) {
    actor.note(1);
}

fn pass(clock: &Runtime, time: Duration) {
    clock.block_on(async {
        // Lets timers that were just set take their place.
        tokio::task::yield_now().await;
        tokio::time::advance(time).await;
        // And those that are due ring.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
}

/// Sends `turn` to `actor` in a transaction that stays open. An eager actor has ended the turn when this returns.
fn send_undecided<A: Subject>(
    system: &System,
    actor: &A::Ref,
    turn: impl Fn() -> Turn<A> + Send + 'static,
) -> (Undecided<Ask<u32>>, Promise<u32>) {
    let actor = actor.clone();
    let (t1, ask) = Undecided::begin(move |tx| Ok(actor.ask_within(tx, turn())));
    settle(system);
    (t1, ask.promise())
}

fn a_delayed_turn_is_asked_for_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        let (clock, system) = paused();
        let a = system.spawn(A::new());
        let (t1, done) = send_undecided::<A>(&system, &a, || {
            plain(|_, cx| {
                cx.after(Duration::ZERO, ring);
                0
            })
        });
        pass(&clock, SECOND);
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 0));
        pass(&clock, SECOND);
        assert_eq!(a.noted(), if commits { vec![1] } else { vec![] });
        pass(&clock, SECOND);
        assert_eq!(a.noted().len(), usize::from(commits), "once");
    }
}

fn a_repeated_turn_is_asked_for_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        let (clock, system) = paused();
        let a = system.spawn(A::new());
        let (t1, done) = send_undecided::<A>(&system, &a, || {
            plain(|_, cx| {
                cx.every(SECOND, ring);
                0
            })
        });
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 0));
        for rings in 1..4 {
            pass(&clock, SECOND);
            assert_eq!(a.noted().len(), if commits { rings } else { 0 });
        }
    }
}

fn a_timer_is_cancelled_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        let (clock, system) = paused();
        let a = system.spawn(A::new());
        let timer = a.run(|_, cx| cx.after(SECOND, ring)).wait().expect("no panic");
        let (t1, done) = send_undecided::<A>(&system, &a, move || {
            let timer = timer.clone();
            plain(move |_, _| {
                timer.cancel();
                0
            })
        });
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 0));
        pass(&clock, SECOND);
        assert_eq!(a.noted(), if commits { vec![] } else { vec![1] });
    }
}

fn a_timer_made_and_cancelled_in_one_tentative_turn_never_rings<A: Subject>() {
    for commits in [true, false] {
        let (clock, system) = paused();
        let a = system.spawn(A::new());
        let (made, is_made) = mpsc::channel::<Timer>();
        let (t1, done) = send_undecided::<A>(&system, &a, move || {
            let made = made.clone();
            plain(move |_, cx| {
                let timer = cx.after(SECOND, ring);
                timer.cancel();
                made.send(timer).expect("the test listens");
                0
            })
        });
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 0));
        pass(&clock, 2 * SECOND);
        assert_eq!(a.noted(), []);
        for timer in is_made {
            assert!(!timer.cancel(), "nothing is left to be cancelled");
        }
    }
}

fn a_link_is_made_and_undone_with_the_commit<A: Subject>() {
    for links in [true, false] {
        for commits in [true, false] {
            let system = system(1);
            let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
            let other = b.clone();
            if !links {
                let other = b.clone();
                a.run(move |_, cx| cx.link(&other)).wait().expect("no panic");
            }
            let (t1, done) = send_undecided::<A>(&system, &a, move || {
                let other = other.clone();
                plain(move |_, cx| {
                    if links {
                        cx.link(&other);
                    } else {
                        cx.unlink(&other);
                    }
                    0
                })
            });
            t1.decide(commits);
            assert_eq!(done.wait(), answer(commits, 0));
            b.send(plain(|_, _| panic!("on purpose")));
            let exit = b.watch().wait().expect("it ends");
            assert!(exit.reason.is_failure());
            if links == commits {
                let exit = a.watch().wait().expect("it ends, too");
                assert_eq!(exit.reason, ExitReason::Failed { because_of: b.identity() });
            } else {
                assert_eq!(a.noted(), [], "it is alive");
            }
        }
    }
}

fn a_watch_is_set_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
        let (probe, signals) = probe();
        let other = b.clone();
        let (t1, done) = send_undecided::<A>(&system, &a, move || {
            let (other, probe) = (other.clone(), probe.clone());
            plain(move |_, cx| {
                cx.watch(&other, move |a: &mut A, _, exit| {
                    probe.signal(u32::from(exit.reason == ExitReason::Stopped));
                    a.note(1);
                });
                0
            })
        });
        b.stop();
        b.watch().wait().expect("it ends");
        settle(&system);
        assert!(signals.is_silent());
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 0));
        if commits {
            assert_eq!((signals.next(), a.noted()), (1, vec![1]));
        } else {
            settle(&system);
            assert_eq!((signals.is_silent(), a.noted()), (true, vec![]));
        }
    }
}

fn an_actor_stops_itself_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let (t1, done) = send_undecided::<A>(&system, &a, || {
            plain(|_: &mut A, cx| {
                cx.stop();
                1
            })
        });
        let next = a.ask(note(2));
        settle(&system);
        assert!(!a.has_ended() && !next.is_ready());
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 1));
        if commits {
            assert_eq!(a.watch().wait().expect("it ends").reason, ExitReason::Stopped);
            assert_eq!(next.wait(), Err(ActorError::Stopped { actor: a.identity() }));
        } else {
            assert_eq!((next.wait(), a.noted()), (Ok(2), vec![2]));
        }
    }
}

fn another_actor_is_stopped_or_killed_with_the_commit<A: Subject>() {
    for kills in [true, false] {
        for commits in [true, false] {
            let system = system(1);
            let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
            let other = b.clone();
            let (t1, done) = send_undecided::<A>(&system, &a, move || {
                let other = other.clone();
                plain(move |_, _| {
                    if kills {
                        other.kill();
                    } else {
                        other.stop();
                    }
                    0
                })
            });
            assert_eq!(b.ask(note(1)).wait(), Ok(1), "nothing has happened to it");
            t1.decide(commits);
            assert_eq!(done.wait(), answer(commits, 0));
            if commits {
                assert_eq!(b.watch().wait().expect("it ends").reason, ExitReason::Stopped);
            } else {
                assert_eq!(b.noted(), [1]);
            }
        }
    }
}

fn a_promise_is_kept_with_the_commit<A: Subject>() {
    for fails in [true, false] {
        for commits in [true, false] {
            let system = system(1);
            let a = system.spawn(A::new());
            let (promise, resolver) = Promise::<u32>::pair();
            let resolver = Arc::new(Mutex::new(Some(resolver)));
            let (t1, done) = send_undecided::<A>(&system, &a, move || {
                let resolver: Arc<Mutex<Option<Resolver<u32>>>> = Arc::clone(&resolver);
                plain(move |_, _| {
                    let resolver = resolver.lock().expect("not poisoned").take().expect("one turn has it");
                    if fails {
                        resolver.fail(ActorError::Abandoned);
                    } else {
                        resolver.resolve(5);
                    }
                    0
                })
            });
            assert!(!promise.is_ready());
            t1.decide(commits);
            assert_eq!(done.wait(), answer(commits, 0));
            let kept = promise.wait();
            match (commits, fails) {
                (true, true) => assert_eq!(kept, Err(ActorError::Abandoned)),
                (true, false) => assert_eq!(kept, Ok(5)),
                (false, _) => drop(kept.expect_err("nobody is left who could answer")),
            }
        }
    }
}

fn deferred_operations_follow_the_commit_of_their_own_transaction<A: Subject>() {
    for commits in [true, false] {
        for form in FORMS {
            let system = system(1);
            let a = system.spawn(A::new());
            let log = &*Box::leak(Box::new(Arc::new(Deferrable::new((), Vec::new()))));
            let (probe, signals) = probe();
            let (t1, done) = send_undecided::<A>(&system, &a, move || {
                let probe = probe.clone();
                let body = move |tx: &mut Tx<'_, 'static>| {
                    let probe = probe.clone();
                    tx.defer((log,), move |(log,)| {
                        log.push(1);
                        probe.signal(log.len() as u32);
                    })
                    .map(|_outcome| 1)
                };
                transact(form, body, |a: &mut A, n| a.note(n))
            });
            assert!(signals.is_silent() && !done.is_ready());
            t1.decide(commits);
            assert_eq!(done.wait(), answer(commits, 1), "{form:?}");
            // Before the turn goes on, as ever.
            assert_eq!(signals.so_far(), if commits { vec![1] } else { vec![] }, "{form:?}");
        }
    }
}

fn a_deferred_operation_of_a_definitive_turn_leaves_the_worker_to_others<A: Subject>() {
    for form in FORMS {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
        let (started, is_started) = probe();
        let (release, released) = probe();
        let released = Arc::new(Mutex::new(released));
        let body = move |tx: &mut Tx<'_, 'static>| {
            let (started, released) = (started.clone(), Arc::clone(&released));
            tx.defer((), move |()| {
                started.signal(0);
                released.lock().expect("not poisoned").next()
            })
            .map(|_outcome| 1)
        };
        let turn = a.ask(transact(form, body, |a: &mut A, n| a.note(n)));
        is_started.next();
        assert_eq!(b.ask(note(2)).wait(), Ok(2), "{form:?}: on the only worker");
        assert!(!turn.is_ready(), "{form:?}");
        release.signal(0);
        assert_eq!(turn.wait(), Ok(1), "{form:?}");
    }
}

// Case S0-T1c.
fn spawn_and_become_of_a_tentative_turn_end_with_its_transaction<A: Subject>() {
    let system = system(1);
    let a = system.spawn(A::with_notes(&[1]));
    let (probe, signals) = probe();
    let (t1, done) = send_undecided::<A>(&system, &a, move || {
        let probe = probe.clone();
        plain(move |_: &mut A, cx| {
            cx.become_next(A::with_notes(&[2]));
            let new = cx.spawn(Spec::new(A::new()).name("new"));
            new.send(plain(move |_, _| {
                probe.signal(1);
                0
            }));
            0
        })
    });
    let next = a.ask(note(3));
    t1.abort();
    assert_eq!((done.wait(), next.wait()), (answer(false, 0), Ok(3)));
    assert_eq!((a.noted(), signals.is_silent()), (vec![1, 3], true));
    assert_eq!(system.actors().iter().filter(|actor| actor.name() == "new").count(), 0);
}

fn a_callback_is_called_after_the_commit<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let (probe, signals) = probe();
        let (t1, done) = send_undecided::<A>(&system, &a, move || {
            let probe = probe.clone();
            plain(move |_, _| {
                let and_then = probe.clone();
                drop(Promise::ready(1).map(move |n| probe.signal(n)));
                drop(Promise::ready(2).and_then(move |n| {
                    and_then.signal(n);
                    Promise::ready(n)
                }));
                0
            })
        });
        assert!(signals.is_silent());
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 0));
        assert_eq!(signals.so_far(), if commits { vec![1, 2] } else { vec![] });
    }
}

fn a_shutdown_begins_with_the_commit<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let other = crate::subject::system(1);
        let a = system.spawn(A::new());
        let b = other.spawn(A::new());
        let (t1, done) = {
            let other = other.clone();
            send_undecided::<A>(&system, &a, move || {
                let other = other.clone();
                plain(move |_, _| {
                    drop(other.shutdown(60 * SECOND));
                    0
                })
            })
        };
        assert_eq!(b.ask(note(1)).wait(), Ok(1));
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 0));
        if commits {
            assert_eq!(b.watch().wait().expect("it ends").reason, ExitReason::Shutdown);
        } else {
            assert_eq!(b.noted(), [1]);
        }
    }
}

fn effects_and_messages_keep_their_order_after_a_wait_in_a_plain_handler<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
        let other = b.clone();
        let (t1, done) = send_undecided::<A>(&system, &a, move || {
            let other = other.clone();
            plain(move |_, _| {
                other.stop();
                atomically(|tx| tx.write(shared(0), 1)).run();
                u32::from(other.send(note(1)).accepted().is_ok())
            })
        });
        t1.decide(commits);
        assert_eq!(done.wait(), answer(commits, 0), "it was stopped before");
        if !commits {
            assert_eq!(b.noted(), []);
        }
    }
}
