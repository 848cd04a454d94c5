//! Turns that wait for each other: of each circle one is told, and everybody goes on.
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use enact_actors::{ActorError, Cx, Forward, Promise, actor};
use enact_sync::{Condvar, Mutex, thread};

use crate::model;

/// Asks the next one, and keeps its actor meanwhile.
#[derive(Default)]
struct Node {
    next: Option<NodeRef>,
}

#[actor]
impl Node {
    fn meet(&mut self, next: NodeRef) {
        self.next = Some(next);
    }
    async fn ask(&mut self) -> Result<u32, ActorError> {
        self.next().number().await
    }
    /// By way of the next one, which hands the question on.
    async fn ask_further(&mut self) -> Result<u32, ActorError> {
        self.next().number_of_next().await
    }
    fn number_of_next(&self, cx: &Cx<Self>) -> Forward<u32> {
        self.next().forward(cx).number()
    }
    fn number(&self) -> u32 {
        1
    }
}

impl Node {
    fn next(&self) -> &NodeRef {
        self.next.as_ref().expect("they have met")
    }
}

fn at_most_one_is_told(answers: &[Result<u32, ActorError>]) {
    let told = answers.iter().filter(|answer| matches!(answer, Err(ActorError::Deadlock { .. }))).count();
    assert!(told <= 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| **answer == Ok(1)).count(), answers.len() - told, "{answers:?}");
}

//   1                                        2                  3
//   asks 2, suspends                         asks 3, suspends   asks 1, suspends
//   <- the last to suspend sees the circle
#[test]
fn of_three_held_turns_in_a_circle_at_most_one_is_told_and_all_go_on() {
    for workers in 1..=2 {
        model(workers, |system| {
            let nodes = [(); 3].map(|()| system.spawn(Node::default()));
            (0..3).for_each(|at| _ = nodes[at].tell().meet(nodes[(at + 1) % 3].clone()));
            let answers = nodes.each_ref().map(NodeRef::ask).map(|answer| answer.wait().expect("it ends"));
            at_most_one_is_told(&answers);
            nodes.iter().for_each(|node| node.kill());
        });
    }
}

//   one                                                  other
//   asks its desk, which forwards to other
//                                                        asks its desk, which forwards to one
//   <- the hand-over or the suspension sees the circle
#[test]
fn of_two_held_turns_whose_questions_are_handed_to_each_other_at_most_one_is_told_and_both_go_on() {
    for workers in 1..=2 {
        model(workers, |system| {
            let [one, desk, other, other_desk] = [(); 4].map(|()| system.spawn(Node::default()));
            let ring = [&one, &desk, &other, &other_desk];
            (0..4).for_each(|at| _ = ring[at].tell().meet(ring[(at + 1) % 4].clone()));
            let answers = [one.ask_further(), other.ask_further()].map(|answer| answer.wait().expect("it ends"));
            at_most_one_is_told(&answers);
            ring.iter().for_each(|node| node.kill());
        });
    }
}

/// ```text
/// one:   asks itself, suspends ...                        is judged
/// other:                           asks one, is judged
/// ```
#[test]
fn a_turn_that_leads_to_a_circle_and_is_not_in_it_is_not_told() {
    for workers in 1..=2 {
        model(workers, |system| {
            let [one, other] = [(); 2].map(|()| system.spawn(Node::default()));
            [&one, &other].iter().for_each(|node| _ = node.tell().meet(one.clone()));
            let answers = [one.ask(), other.ask()].map(|answer| answer.wait().expect("it ends"));
            assert!(matches!(&answers, [Err(ActorError::Deadlock { .. }), Ok(1)]), "{answers:?}");
            [one, other].iter().for_each(|node| node.kill());
        });
    }
}

/// Wakers of turns, kept by a thread that is none of the system's.
#[derive(Default)]
struct Keeper {
    kept: Mutex<Vec<Waker>>,
    arrived: Condvar,
}

impl Keeper {
    fn keep(&self, waker: &Waker) {
        self.kept.lock().push(waker.clone());
        self.arrived.notify_all();
    }

    fn take(&self) -> Waker {
        let mut kept = self.kept.lock();
        loop {
            match kept.pop() {
                Some(waker) => return waker,
                None => kept = self.arrived.wait(kept),
            }
        }
    }
}

/// Asks the next one after or while something foreign could wake it.
#[derive(Default)]
struct Pausing {
    next: Option<PausingRef>,
}

#[actor]
impl Pausing {
    fn meet(&mut self, next: PausingRef) {
        self.next = Some(next);
    }
    async fn ask_after_wake_up(&mut self, keeper: Arc<Keeper>) -> Result<u32, ActorError> {
        let mut is_kept = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut is_kept, true) {
                return Poll::Ready(());
            }
            keeper.keep(cx.waker());
            Poll::Pending
        })
        .await;
        self.next().number().await
    }
    async fn ask_beside(&mut self, keeper: Arc<Keeper>) -> Result<u32, ActorError> {
        let (mut is_kept, mut answer) = (false, self.next().number());
        poll_fn(|cx| {
            if !std::mem::replace(&mut is_kept, true) {
                keeper.keep(cx.waker());
            }
            Pin::new(&mut answer).poll(cx)
        })
        .await
    }
    fn number(&self) -> u32 {
        1
    }
}

impl Pausing {
    fn next(&self) -> &PausingRef {
        self.next.as_ref().expect("they have met")
    }
}

/// What two actors are asked, and what a thread outside does meanwhile.
type Meeting = ([Promise<Result<u32, ActorError>>; 2], Box<dyn FnOnce() + Send>);

/// Explores meetings of two actors that know each other.
fn two_meet(ask: impl Fn([&PausingRef; 2]) -> Meeting + Send + Sync + 'static) {
    let ask = Arc::new(ask);
    for workers in 1..=2 {
        let ask = Arc::clone(&ask);
        model(workers, move |system| {
            let nodes = [(); 2].map(|()| system.spawn(Pausing::default()));
            (0..2).for_each(|at| _ = nodes[at].tell().meet(nodes[1 - at].clone()));
            let (answers, outside) = ask(nodes.each_ref());
            let outside = thread::spawn(outside);
            let answers = answers.map(|answer| answer.wait().expect("it ends"));
            at_most_one_is_told(&answers);
            outside.join().expect("it ends");
            nodes.iter().for_each(|node| node.kill());
        });
    }
}

/// ```text
/// outside: wake_by_ref(turn) ...                          drop(waker)
/// worker:                    poll, ask the other, suspend
/// ```
#[test]
fn turns_whose_waker_is_dropped_long_after_the_wake_up_do_not_overlook_their_circle() {
    two_meet(|nodes| {
        let keeper = Arc::new(Keeper::default());
        let answers = nodes.map(|node| node.ask_after_wake_up(Arc::clone(&keeper)));
        let outside = move || {
            for _ in 0..2 {
                let waker = keeper.take();
                waker.wake_by_ref();
                thread::yield_now();
                drop(waker);
            }
        };
        (answers, Box::new(outside))
    });
}

/// ```text
/// outside:                                                drop both wakers
/// worker:  ask the other, suspend; the other one likewise
/// ```
#[test]
fn turns_that_nothing_outside_can_wake_any_more_do_not_overlook_their_circle() {
    two_meet(|nodes| {
        let keeper = Arc::new(Keeper::default());
        let answers = nodes.map(|node| node.ask_beside(Arc::clone(&keeper)));
        let outside = move || {
            for _ in 0..2 {
                drop(keeper.take());
            }
        };
        (answers, Box::new(outside))
    });
}
