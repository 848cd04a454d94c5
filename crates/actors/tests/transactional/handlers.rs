//! Handlers of every kind in tentative turns: which state they see, when it is copied, where they stop.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use enact_actors::{ActorError, Ask, Cx, Forward, Promise, actor};
use enact_stm::atomically;

use crate::probe::{Probe, Signals, probe};
use crate::subject::{Directed, Eager, Subject, Turn, answer, cooperative, held, note, plain, reading, settle, system};
use crate::undecided::Undecided;

for_both_kinds![
    a_held_turn_goes_on_as_an_ordinary_one_or_is_dropped_where_it_stands,
    a_cooperative_turn_goes_on_as_an_ordinary_one_or_is_dropped_where_it_stands,
    a_cooperative_turn_sees_what_it_has_changed_and_others_do_not_before_the_commit,
    effects_so_far_happen_with_the_commit_though_the_turn_goes_on,
    definitive_is_reached_with_the_commit_and_never_after_an_abort,
    definitive_is_ready_at_once_in_a_definitive_turn,
    a_turn_that_reads_is_tentative_too,
    an_ask_is_awaited_after_its_transaction,
];

/// Counts its copies.
struct Counted {
    notes: Vec<u32>,
    copies: Arc<AtomicU32>,
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.copies.fetch_add(1, Ordering::SeqCst);
        Self { notes: self.notes.clone(), copies: Arc::clone(&self.copies) }
    }
}

#[actor(speculative)]
impl Counted {
    fn look(&self) -> Vec<u32> {
        self.notes.clone()
    }

    fn add(&mut self, n: u32) -> Vec<u32> {
        self.notes.push(n);
        self.notes.push(n + 1);
        self.notes.clone()
    }

    async fn add_held(&mut self, cx: &Cx<Self>, n: u32) -> Vec<u32> {
        self.notes.push(n);
        cx.yield_now().await;
        self.notes.push(n + 1);
        self.notes.clone()
    }

    async fn add_cooperatively(cx: Cx<Self>, n: u32) -> Vec<u32> {
        cx.with(|counted| counted.notes.push(n));
        cx.yield_now().await;
        cx.with(|counted| counted.notes.push(n + 1));
        cx.wait_for(|counted| counted.notes.len() >= 2).await;
        cx.with(|counted| counted.notes.clone())
    }

    /// Takes no state.
    async fn stand_by(cx: Cx<Self>) -> Vec<u32> {
        cx.yield_now().await;
        vec![]
    }
}

type Within = fn(&CountedRef, &mut enact_stm::Tx<'_, '_>) -> Ask<Vec<u32>>;
type Send = fn(&CountedRef) -> Promise<Vec<u32>>;

#[test]
fn the_state_is_copied_once_in_a_tentative_turn_that_changes_it_and_never_in_another() {
    let _turn = crate::my_turn();
    let rows: [(&str, Within, Send, u32, &[u32]); 5] = [
        ("look", |counted, tx| counted.within(tx).look(), CountedRef::look, 0, &[]),
        ("add", |counted, tx| counted.within(tx).add(1), |counted| counted.add(1), 1, &[1, 2]),
        ("held", |counted, tx| counted.within(tx).add_held(1), |counted| counted.add_held(1), 1, &[1, 2]),
        (
            "cooperative",
            |counted, tx| counted.within(tx).add_cooperatively(1),
            |counted| counted.add_cooperatively(1),
            1,
            &[1, 2],
        ),
        ("without state", |counted, tx| counted.within(tx).stand_by(), CountedRef::stand_by, 0, &[]),
    ];
    for (what, within, send, copies_if_tentative, notes) in rows {
        let system = system(1);
        let counted = || {
            let copies = Arc::new(AtomicU32::new(0));
            (system.spawn(Counted { notes: vec![], copies: Arc::clone(&copies) }), copies)
        };
        for commits in [true, false] {
            let (actor, copies) = counted();
            let (t1, ask) = {
                let actor = actor.clone();
                Undecided::begin(move |tx| Ok(within(&actor, tx)))
            };
            settle(&system);
            t1.decide(commits);
            let answered = ask.promise().wait();
            assert_eq!(answered.ok().as_deref(), commits.then_some(notes), "{what}");
            assert_eq!(actor.look().wait().as_deref(), Ok(if commits { notes } else { &[] }), "{what}");
            assert_eq!(copies.load(Ordering::SeqCst), copies_if_tentative, "{what}");
        }
        let (actor, copies) = counted();
        let committed = atomically(|tx| Ok(within(&actor, tx))).run();
        // The transaction may be undecided for a moment when the message is taken up: so this one is taken up later.
        assert_eq!(committed.promise().wait().as_deref(), Ok(notes), "{what}");
        let before = copies.load(Ordering::SeqCst);
        send(&actor).wait().expect("no panic");
        assert_eq!(copies.load(Ordering::SeqCst), before, "{what}: a definitive turn");
    }
}

#[test]
fn a_message_whose_transaction_has_committed_when_it_is_taken_up_copies_nothing() {
    let _turn = crate::my_turn();
    let system = system(2);
    let copies = Arc::new(AtomicU32::new(0));
    let counted = system.spawn(Counted { notes: vec![], copies: Arc::clone(&copies) });
    let (started, is_started) = probe();
    let (release, released) = probe();
    let busy = counted.run(move |_, _| {
        started.signal(0);
        released.next()
    });
    is_started.next();
    let ask = atomically(|tx| Ok(counted.within(tx).add(1))).run();
    release.signal(0);
    assert_eq!(busy.wait(), Ok(0));
    assert_eq!(ask.promise().wait(), Ok(vec![1, 2]));
    assert_eq!(copies.load(Ordering::SeqCst), 0);
}

/// Signals when it is dropped.
struct Guard(Probe);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.signal(99);
    }
}

/// What a test of a turn in two halves needs: between them, the turn awaits a promise of the test.
struct Halves<A: Subject> {
    turn: Box<dyn Fn() -> Turn<A> + std::marker::Send>,
    /// 1 and 2 at the ends of the halves, 99 when the turn is dropped.
    signals: Signals,
    go_on: enact_actors::Resolver<()>,
}

fn halves<A: Subject>(is_cooperative: bool) -> Halves<A> {
    let (probe, signals) = probe();
    let (promise, go_on) = Promise::pair();
    let turn = move || {
        let (probe, promise) = (probe.clone(), promise.clone());
        if is_cooperative {
            cooperative(move |cx: Cx<A>| {
                Box::pin(async move {
                    let guard = Guard(probe);
                    cx.with(|a| a.note(1));
                    guard.0.signal(1);
                    promise.await.expect("it is kept");
                    guard.0.signal(2);
                    cx.with(|a| a.note(2))
                })
            })
        } else {
            held(move |a: &mut A, _| {
                Box::pin(async move {
                    let guard = Guard(probe);
                    a.note(1);
                    guard.0.signal(1);
                    promise.await.expect("it is kept");
                    guard.0.signal(2);
                    a.note(2)
                })
            })
        }
    };
    Halves { turn: Box::new(turn), signals, go_on }
}

fn undecided<A: Subject>(
    actor: &A::Ref,
    turn: impl Fn() -> Turn<A> + std::marker::Send + 'static,
) -> (Undecided<Ask<u32>>, Promise<u32>) {
    let actor = actor.clone();
    let (t1, ask) = Undecided::begin(move |tx| Ok(actor.ask_within(tx, turn())));
    (t1, ask.promise())
}

fn a_held_turn_goes_on_as_an_ordinary_one_or_is_dropped_where_it_stands<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let Halves { turn, signals, go_on } = halves::<A>(false);
        let (t1, promise) = undecided(&a, turn);
        let next = a.ask(note(3));
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1);
        }
        settle(&system);
        assert!(!next.is_ready() && signals.is_silent());
        t1.decide(commits);
        if commits {
            if !A::IS_SPECULATIVE {
                assert_eq!(signals.next(), 1);
            }
            settle(&system);
            assert!(!next.is_ready() && !promise.is_ready(), "it keeps its actor");
            go_on.resolve(());
            assert_eq!((promise.wait(), next.wait()), (Ok(2), Ok(3)));
            assert_eq!((a.noted(), signals.so_far()), (vec![1, 2, 3], vec![2, 99]));
        } else {
            assert_eq!((promise.wait(), next.wait()), (answer(false, 0), Ok(3)));
            assert_eq!(a.noted(), [3]);
            assert_eq!(signals.so_far(), if A::IS_SPECULATIVE { vec![99] } else { vec![] });
            drop(go_on);
        }
    }
}

fn a_cooperative_turn_goes_on_as_an_ordinary_one_or_is_dropped_where_it_stands<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let Halves { turn, signals, go_on } = halves::<A>(true);
        let (t1, promise) = undecided(&a, turn);
        let next = a.ask(note(3));
        if A::IS_SPECULATIVE {
            assert_eq!(signals.next(), 1);
        }
        settle(&system);
        assert!(!next.is_ready() && signals.is_silent(), "no other message is taken up, though the turn waits");
        t1.decide(commits);
        assert_eq!(next.wait(), Ok(3));
        if commits {
            assert!(!promise.is_ready(), "others are taken up while it waits");
            go_on.resolve(());
            assert_eq!(promise.wait(), Ok(2));
            assert_eq!(a.noted(), [1, 3, 2]);
        } else {
            assert_eq!(promise.wait(), answer(false, 0));
            assert_eq!(a.noted(), [3]);
            assert_eq!(signals.so_far(), if A::IS_SPECULATIVE { vec![99] } else { vec![] });
            drop(go_on);
        }
    }
}

/// A cooperative turn that is suspended before the tentative one begins, and is to look at the state after it.
fn a_cooperative_turn_sees_what_it_has_changed_and_others_do_not_before_the_commit<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let a = system.spawn(A::new());
        let looks = a.ask(cooperative(|cx: Cx<A>| {
            Box::pin(async move {
                cx.wait_for(|a| !a.notes().is_empty()).await;
                cx.with(|a| a.notes()[0])
            })
        }));
        settle(&system);
        let (t1, promise) = undecided(&a, || {
            cooperative(|cx: Cx<A>| {
                Box::pin(async move {
                    cx.with(|a| a.note(1));
                    cx.yield_now().await;
                    cx.with(|a| a.notes()[0])
                })
            })
        });
        settle(&system);
        assert!(!looks.is_ready() && !promise.is_ready());
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, 1));
        assert_eq!(a.ask(note(5)).wait(), Ok(5));
        assert_eq!(looks.wait(), Ok(if commits { 1 } else { 5 }));
    }
}

fn effects_so_far_happen_with_the_commit_though_the_turn_goes_on<A: Subject>() {
    let system = system(1);
    let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
    let (early, resolver) = Promise::<u32>::pair();
    let (late, late_resolver) = Promise::<u32>::pair();
    let resolvers = Mutex::new(Some((resolver, late_resolver)));
    let (go_on, goes_on) = Promise::<()>::pair();
    let to = b.clone();
    let (t1, promise) = undecided::<A>(&a, move || {
        let (resolver, late_resolver) = resolvers.lock().expect("not poisoned").take().expect("one attempt");
        let (to, go_on) = (to.clone(), go_on.clone());
        held(move |a: &mut A, _| {
            Box::pin(async move {
                to.send(note(1));
                resolver.resolve(1);
                go_on.await.expect("it is kept");
                to.send(note(2));
                late_resolver.resolve(2);
                a.note(3)
            })
        })
    });
    settle(&system);
    assert!(!early.is_ready());
    t1.commit();
    assert_eq!((early.wait(), b.noted()), (Ok(1), vec![1]));
    assert!(!late.is_ready() && !promise.is_ready());
    goes_on.resolve(());
    assert_eq!((late.wait(), promise.wait(), b.noted()), (Ok(2), Ok(3), vec![1, 2]));
}

fn definitive_is_reached_with_the_commit_and_never_after_an_abort<A: Subject>() {
    for is_cooperative in [false, true] {
        for commits in [true, false] {
            let system = system(1);
            let a = system.spawn(A::new());
            let (probe, signals) = probe();
            let (t1, promise) = undecided::<A>(&a, move || {
                let probe = probe.clone();
                if is_cooperative {
                    cooperative(move |cx: Cx<A>| {
                        Box::pin(async move {
                            probe.signal(1);
                            cx.definitive().await;
                            probe.signal(2);
                            cx.with(|a| a.note(2))
                        })
                    })
                } else {
                    held(move |a: &mut A, cx| {
                        Box::pin(async move {
                            probe.signal(1);
                            cx.definitive().await;
                            probe.signal(2);
                            a.note(2)
                        })
                    })
                }
            });
            settle(&system);
            assert_eq!(signals.so_far(), if A::IS_SPECULATIVE { vec![1] } else { vec![] });
            t1.decide(commits);
            assert_eq!(promise.wait(), answer(commits, 2));
            let rest = match (commits, A::IS_SPECULATIVE) {
                (true, true) => vec![2],
                (true, false) => vec![1, 2],
                (false, _) => vec![],
            };
            assert_eq!(signals.so_far(), rest);
            assert_eq!(a.noted(), if commits { vec![2] } else { vec![] });
        }
    }
}

fn definitive_is_ready_at_once_in_a_definitive_turn<A: Subject>() {
    let system = system(1);
    let a = system.spawn(A::new());
    let turn = a.ask(held(|_: &mut A, cx| {
        Box::pin(async move {
            let ready = std::pin::pin!(cx.definitive());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            u32::from(ready.poll(&mut context).is_ready())
        })
    }));
    assert_eq!(turn.wait(), Ok(1));
}

fn a_turn_that_reads_is_tentative_too<A: Subject>() {
    for commits in [true, false] {
        let system = system(1);
        let [a, b] = [(); 2].map(|()| system.spawn(A::with_notes(&[4])));
        let to = b.clone();
        let (t1, promise) = undecided::<A>(&a, move || {
            let to = to.clone();
            reading(move |a: &A, _| {
                to.send(note(5));
                a.notes()[0]
            })
        });
        settle(&system);
        assert!(!promise.is_ready());
        t1.decide(commits);
        assert_eq!(promise.wait(), answer(commits, 4));
        assert_eq!(b.noted(), if commits { vec![4, 5] } else { vec![4] });
    }
}

fn an_ask_is_awaited_after_its_transaction<A: Subject>() {
    let system = system(1);
    let [a, b] = [(); 2].map(|()| system.spawn(A::new()));
    let turn = a.ask(held(move |a: &mut A, _| {
        Box::pin(async move {
            let ask = atomically(|tx| Ok(b.ask_within(tx, note(5)))).await;
            a.note(ask.await.expect("no panic"))
        })
    }));
    assert_eq!((turn.wait(), a.noted()), (Ok(5), vec![5]));
}

#[test]
fn misuse_of_answers_within_a_transaction_panics() {
    let _turn = crate::my_turn();
    let system = system(1);
    let a = system.spawn(Eager::new());
    let caught = |work: &dyn Fn()| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).expect_err("a panic");
        let literal = panic.downcast_ref::<&str>().map(ToString::to_string);
        literal.or_else(|| panic.downcast_ref::<String>().cloned()).expect("it has a text")
    };
    let taken = caught(&|| {
        atomically(|tx| {
            drop(a.ask_within(tx, note(1)).promise());
            Ok(())
        })
        .run();
    });
    assert!(taken.contains("transaction"), "{taken}");
    let waited = caught(&|| {
        atomically(|_| {
            drop(a.ask(note(2)).wait());
            Ok(())
        })
        .run();
    });
    assert!(waited.contains("transaction"), "{waited}");
    let b = a.clone();
    let called = system
        .spawn(Eager::new())
        .ask(plain(move |_, cx| atomically(|_| Ok(b.have(cx, note(3)).expect("no answer"))).run()));
    let Err(ActorError::Panicked { text, .. }) = called.wait() else { panic!("it panics") };
    assert!(text.contains("transaction"), "{text}");
    assert_eq!(a.noted(), [2], "a plain send is no part of the transaction");
}

/// Answers by way of others.
macro_rules! switchboard {
    (#[$actor:meta] $name:ident, $reference:ident, $test:ident) => {
        #[derive(Clone)]
        struct $name {
            calls: u32,
        }

        #[$actor]
        impl $name {
            fn by_value(&mut self, cx: &Cx<Self>) -> Forward<u32> {
                self.calls += 1;
                cx.reply(5)
            }

            fn by_promise(&mut self, cx: &Cx<Self>, promise: Promise<u32>) -> Forward<u32> {
                self.calls += 1;
                cx.forward(promise)
            }

            fn by_message(&mut self, cx: &Cx<Self>, other: $reference) -> Forward<u32> {
                self.calls += 1;
                other.forward(cx).by_value()
            }

            fn calls(&self) -> u32 {
                self.calls
            }
        }

        #[test]
        fn $test() {
            let _turn = crate::my_turn();
            let ways: [fn(&$reference, &mut enact_stm::Tx<'_, '_>, $reference) -> Ask<u32>; 3] = [
                |a, tx, _| a.within(tx).by_value(),
                |a, tx, _| a.within(tx).by_promise(Promise::ready(5)),
                |a, tx, other| a.within(tx).by_message(other),
            ];
            for (way, others_calls) in ways.into_iter().zip([0, 0, 1]) {
                for commits in [true, false] {
                    let system = system(1);
                    let [a, b] = [(); 2].map(|()| system.spawn($name { calls: 0 }));
                    let (t1, ask) = {
                        let (a, b) = (a.clone(), b.clone());
                        Undecided::begin(move |tx| Ok(way(&a, tx, b.clone())))
                    };
                    let promise = ask.promise();
                    settle(&system);
                    assert!(!promise.is_ready());
                    t1.decide(commits);
                    assert_eq!(promise.wait(), answer(commits, 5));
                    assert_eq!(a.calls().wait(), Ok(u32::from(commits)));
                    assert_eq!(b.calls().wait(), Ok(if commits { others_calls } else { 0 }));
                }
            }
        }
    };
}

switchboard!(
    #[actor(speculative)]
    Hasty,
    HastyRef,
    an_answer_of_an_eager_actor_is_handed_on_with_the_commit
);
switchboard!(
    #[actor]
    Steady,
    SteadyRef,
    an_answer_of_a_patient_actor_is_handed_on_with_the_commit
);

#[derive(Default)]
struct Observed {
    looks: AtomicU32,
}

impl Clone for Observed {
    fn clone(&self) -> Self {
        Self { looks: AtomicU32::new(self.looks.load(Ordering::SeqCst)) }
    }
}

#[actor(speculative)]
impl Observed {
    fn look(&self) -> u32 {
        self.looks.fetch_add(1, Ordering::SeqCst)
    }
}

/// A limit: the type of the state does not tell that it changes.
#[test]
fn what_a_tentative_turn_changes_in_an_atomic_is_not_undone() {
    let _turn = crate::my_turn();
    let system = system(1);
    let a = system.spawn(Observed::default());
    let (t1, ask) = {
        let a = a.clone();
        Undecided::begin(move |tx| Ok(a.within(tx).look()))
    };
    settle(&system);
    t1.abort();
    assert_eq!(ask.promise().wait(), Err(ActorError::Retracted));
    assert_eq!(a.look().wait(), Ok(1));
}
