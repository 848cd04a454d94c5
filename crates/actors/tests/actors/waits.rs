//! A turn leaves its waker with a promise when a poll has ended, not while it polls: whatever becomes of the promise until
//! then, the one that waits for the answer has it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use enact_actors::{ActorError, Cx, Promise, Resolver, System, actor};
use futures_util::future::{Either, join, select};

type Work = Box<dyn FnOnce(LaterRef) -> Pin<Box<dyn Future<Output = u32> + Send>> + Send>;

/// Does the work that it is given in turns of both kinds that can wait.
struct Turn;

#[actor]
impl Turn {
    async fn held(&mut self, work: Work, later: LaterRef) -> u32 {
        work(later).await
    }
    async fn cooperative(_cx: Cx<Self>, work: Work, later: LaterRef) -> u32 {
        work(later).await
    }
    fn number(&self) -> u32 {
        1
    }
}

/// Resolves what it is told to: with one worker, when the poll in which it was told has ended, and the turn is asleep.
struct Later;

#[actor]
impl Later {
    fn resolve(&self, resolver: Resolver<u32>, value: u32) {
        resolver.resolve(value);
    }
}

/// Has both kinds of turns do what `work` makes.
fn in_turns<F: Future<Output = u32> + Send + 'static>(work: fn(LaterRef) -> F, expected: u32) {
    for workers in 1..=2 {
        let system = System::builder().workers(workers).build().unwrap();
        for kind in [TurnRef::held, TurnRef::cooperative] {
            let (turn, later) = (system.spawn(Turn), system.spawn(Later));
            let answer = kind(&turn, Box::new(move |later| Box::pin(work(later))), later);
            assert_eq!(answer.timeout(Duration::from_secs(60)).wait(), Ok(expected));
            assert_eq!(turn.number().wait(), Ok(1), "the actor goes on");
        }
    }
}

/// Polls it once, with the turn's own waker, when the answer has not come.
fn poll_once<T: Send + 'static>(promise: &mut Promise<T>) -> impl Future<Output = ()> {
    poll_fn(move |cx| {
        assert!(Pin::new(&mut *promise).poll(cx).is_pending());
        Poll::Ready(())
    })
}

#[test]
fn one_that_is_polled_twice_in_a_poll_wakes_its_turn() {
    in_turns(
        |later| async move {
            let (mut promise, resolver) = Promise::pair();
            poll_once(&mut promise).await;
            poll_once(&mut promise).await;
            later.tell().resolve(resolver, 7);
            promise.await.unwrap()
        },
        7,
    );
}

#[test]
fn one_that_is_answered_in_the_poll_that_waits_for_it_is_there_at_once() {
    in_turns(
        |_| async {
            let (mut promise, resolver) = Promise::pair();
            poll_once(&mut promise).await;
            resolver.resolve(7);
            promise.await.unwrap()
        },
        7,
    );
}

#[test]
fn one_that_is_answered_as_the_poll_ends_wakes_its_turn() {
    in_turns(
        |_| async {
            let (mut promise, resolver) = Promise::pair();
            let mut resolver = Some(resolver);
            poll_fn(move |cx| {
                let polled = Pin::new(&mut promise).poll(cx);
                if let Some(resolver) = resolver.take() {
                    resolver.resolve(7);
                    return Poll::Pending;
                }
                polled
            })
            .await
            .unwrap()
        },
        7,
    );
}

#[test]
fn one_that_was_polled_and_given_away_wakes_the_one_that_polls_it_next() {
    in_turns(
        |later| async move {
            let ((mut promise, resolver), (answer, answered)) = (Promise::pair(), Promise::pair());
            poll_once(&mut promise).await;
            thread::spawn(move || {
                let mut resolver = Some(resolver);
                let elsewhere = poll_fn(move |cx| {
                    let polled = Pin::new(&mut promise).poll(cx);
                    // Only now, so that it has to be woken.
                    resolver.take().into_iter().for_each(|resolver| _ = later.tell().resolve(resolver, 7));
                    polled
                });
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                answered.resolve(runtime.block_on(elsewhere).unwrap());
            });
            answer.await.unwrap()
        },
        7,
    );
}

#[test]
fn a_turn_that_drops_what_it_has_polled_is_woken_by_what_it_polls_next() {
    in_turns(
        |later| async move {
            let ((mut dropped, _open), (next, resolver)) = (Promise::<u32>::pair(), Promise::pair());
            poll_once(&mut dropped).await;
            drop(dropped);
            later.tell().resolve(resolver, 7);
            next.await.unwrap()
        },
        7,
    );
}

#[test]
fn two_readers_of_one_answer_have_it_both() {
    in_turns(
        |later| async move {
            let (promise, resolver) = Promise::pair();
            let mut other = promise.clone();
            poll_once(&mut other).await;
            later.tell().resolve(resolver, 7);
            let (one, other) = join(promise, other).await;
            one.unwrap() + other.unwrap()
        },
        14,
    );
}

#[test]
fn an_answer_to_the_first_of_two_that_comes_before_the_poll_ends_is_seen() {
    in_turns(
        |_| async {
            let ((promise, resolver), (open, _resolver)) = (Promise::pair(), Promise::<u32>::pair());
            let (mut both, mut resolver) = (select(promise, open), Some(resolver));
            poll_fn(move |cx| {
                let polled = Pin::new(&mut both).poll(cx);
                resolver.take().into_iter().for_each(|resolver| resolver.resolve(7));
                polled.map(|either| either.factor_first().0.unwrap())
            })
            .await
        },
        7,
    );
}

#[test]
fn a_reader_that_gives_up_takes_nobody_elses_wake_up() {
    in_turns(
        |later| async move {
            let (promise, resolver) = Promise::pair();
            let mut other = promise.clone();
            let given_up = async move {
                poll_once(&mut other).await;
                drop(other);
                later.tell().resolve(resolver, 7);
            };
            join(promise, given_up).await.0.unwrap()
        },
        7,
    );
}

#[test]
fn a_reader_that_has_waited_elsewhere_has_a_waker_of_its_own() {
    in_turns(
        |later| async move {
            let ((mut promise, resolver), (mut first, first_resolver)) = (Promise::pair(), Promise::pair());
            let mut other = promise.clone();
            let elsewhere = thread::spawn(move || {
                assert!(Pin::new(&mut other).poll(&mut Context::from_waker(Waker::noop())).is_pending());
                other
            });
            let mut other = elsewhere.join().unwrap();
            poll_once(&mut promise).await;
            poll_once(&mut other).await;
            later.tell().resolve(first_resolver, 1);
            // Woken for this one, it asks nothing of the others.
            poll_fn(|cx| Pin::new(&mut first).poll(cx)).await.unwrap();
            let mut waits = Some((other, resolver));
            poll_fn(move |cx| match waits.take() {
                None => Pin::new(&mut promise).poll(cx).map(Result::unwrap),
                Some((other, resolver)) => {
                    drop(other);
                    later.tell().resolve(resolver, 7);
                    Poll::Pending
                }
            })
            .await
        },
        7,
    );
}

#[test]
fn one_of_two_is_enough() {
    in_turns(
        |later| async move {
            let ((open, _resolver), (answered, resolver)) = (Promise::<u32>::pair(), Promise::pair());
            later.tell().resolve(resolver, 7);
            match select(pin!(open), pin!(answered)).await {
                Either::Left(_) => 0,
                Either::Right((answer, _)) => answer.unwrap(),
            }
        },
        7,
    );
}

#[test]
fn one_that_was_polled_can_still_be_mapped() {
    in_turns(
        |later| async move {
            let (mut promise, resolver) = Promise::pair();
            poll_once(&mut promise).await;
            later.tell().resolve(resolver, 6);
            promise.map(|value: u32| value + 1).await.unwrap()
        },
        7,
    );
}

#[test]
fn one_that_was_polled_with_another_waker_wakes_its_turn() {
    in_turns(
        |later| async move {
            let (mut promise, resolver) = Promise::pair();
            assert!(Pin::new(&mut promise).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            later.tell().resolve(resolver, 7);
            promise.await.unwrap()
        },
        7,
    );
}

#[test]
fn a_turn_that_has_polled_and_ends_leaves_nothing_behind() {
    let system = System::builder().workers(1).build().unwrap();
    let turn = system.spawn(Turn);
    let (resolvers, kept) = mpsc::channel();
    for kind in [TurnRef::held, TurnRef::cooperative] {
        let resolvers = resolvers.clone();
        let work: Work = Box::new(move |_| {
            Box::pin(async move {
                let (mut promise, resolver) = Promise::<u32>::pair();
                poll_once(&mut promise).await;
                resolvers.send((promise, resolver)).unwrap();
                7
            })
        });
        assert_eq!(kind(&turn, work, system.spawn(Later)).wait(), Ok(7));
        let (promise, resolver) = kept.recv().unwrap();
        resolver.fail(ActorError::Retracted);
        assert_eq!(promise.wait(), Err(ActorError::Retracted));
    }
}
