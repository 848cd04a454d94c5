//! Turns at a state, one at a time, taken by the thread that brings them.
//!
//! # Problem
//! What is asked of an entity takes a microsecond or two; to hand it over to another thread, and to wake that thread, takes ten
//! times as long. But a thread must not wait for another one that is in a turn, which may be a long one.
//!
//! # States
//! `Free` (no turn goes on), `Taken` (one does, and its thread works off the queue before the state is free again), `Ended` (a turn has
//! panicked, and there is no state any more). A turn that finds the state free happens at once, on the thread of the caller; any
//! other joins the queue, and the thread that has the state takes it there. A thread takes a few turns of others; if there are more,
//! a task of the runtime goes on with them.
//!
//! # Order
//! Turns happen in the order of the calls: the queue is first in, first out, and a state is free only when its queue is empty, both
//! seen under one lock.
//!
//! # Nothing waits for ever
//! The lock of the queue is held for a push, a pop or a move of the state, never in a turn. The thread that has the state gives it
//! up only under this lock with an empty queue, or hands it to a task. A turn that panics drops what is queued, and with it the senders
//! of its answers.
//!
//! # Source
//! Hendler, Incze, Shavit and Tzafrir, *Flat Combining and the Synchronization-Parallelism Tradeoff*, 2010.
use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use enact_sync::Mutex;
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::origin::{self, Origin};

/// How many turns of others a thread takes in a row.
const TURNS_IN_A_ROW: usize = 16;

/// A state that is changed in turns.
pub(super) struct Turns<S> {
    place: Mutex<Place<S>>,
    has_ended: AtomicBool,
}

enum Place<S> {
    Free(Box<S>),
    Taken(VecDeque<Turn<S>>),
    Ended { why: String },
}

type Turn<S> = Box<dyn FnOnce(&mut S) + Send>;

/// A turn has panicked, and the state is gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(super) struct Ended {
    pub(super) why: String,
}

impl<S: Send + 'static> Turns<S> {
    /// The state that `make` leads to. Turns that come before wait for it; if it is there at once, no task is needed.
    pub(super) fn made_by<F>(make: impl FnOnce(Weak<Self>) -> F) -> Arc<Self>
    where
        F: Future<Output = Box<S>> + Send + 'static,
    {
        let taken = Self { place: Mutex::new(Place::Taken(VecDeque::new())), has_ended: AtomicBool::new(false) };
        let turns = Arc::new(taken);
        let mut making = Box::pin(AssertUnwindSafe(make(Arc::downgrade(&turns))).catch_unwind());
        match making.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(made) => turns.made(made),
            Poll::Pending => {
                let turns = Arc::clone(&turns);
                origin::spawn(async move { turns.made(making.await) });
            }
        }
        turns
    }

    fn made(self: &Arc<Self>, made: Result<Box<S>, Box<dyn Any + Send>>) {
        match made {
            Ok(state) => self.go_on(state),
            Err(panic) => {
                self.end(&*panic);
            }
        }
    }

    /// Whether a turn has panicked.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Takes a turn: now, or behind those that are waiting.
    pub(super) fn take<R, T>(self: &Arc<Self>, turn: T) -> Answer<R>
    where
        R: Send + 'static,
        T: FnOnce(&mut S) -> Answer<R> + Send + 'static,
    {
        let mut state = {
            let mut place = self.place.lock();
            match &mut *place {
                Place::Free(_) => {
                    let Place::Free(state) = mem::replace(&mut *place, Place::Taken(VecDeque::new())) else {
                        unreachable!("it was free")
                    };
                    state
                }
                Place::Taken(queue) => {
                    let (answer, awaited) = oneshot::channel();
                    // The thread that takes it may work for another request.
                    let origin = Origin::current();
                    let turn = move |state: &mut S| Origin::sync_scope(origin, || turn(state));
                    // Nobody may be left to hear it.
                    queue.push_back(Box::new(move |state| drop(answer.send(turn(state)))));
                    return Answer::Queued(awaited);
                }
                Place::Ended { why } => return Answer::Ended(Ended { why: why.clone() }),
            }
        };
        match catch_unwind(AssertUnwindSafe(|| turn(&mut state))) {
            Ok(answer) => {
                self.go_on(state);
                answer
            }
            Err(panic) => Answer::Ended(self.end(&*panic)),
        }
    }

    /// Gives the state up, or takes the turns that wait for it first, if need be in a task.
    fn go_on(self: &Arc<Self>, state: Box<S>) {
        if let Some(state) = self.take_some(state) {
            let turns = Arc::clone(self);
            tokio::spawn(async move {
                let mut state = Some(state);
                while let Some(taken) = state {
                    yield_now().await;
                    state = turns.take_some(taken);
                }
            });
        }
    }

    /// Takes some of the turns that wait; the state, if there are more.
    fn take_some(&self, mut state: Box<S>) -> Option<Box<S>> {
        for _ in 0..TURNS_IN_A_ROW {
            let turn = {
                let mut place = self.place.lock();
                let Place::Taken(queue) = &mut *place else { unreachable!("the state is here") };
                match queue.pop_front() {
                    Some(turn) => turn,
                    None => {
                        *place = Place::Free(state);
                        return None;
                    }
                }
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| turn(&mut state))) {
                self.end(&*panic);
                return None;
            }
        }
        Some(state)
    }

    fn end(&self, panic: &(dyn Any + Send)) -> Ended {
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        let why = format!("it panicked: {}", text.unwrap_or("it does not say why"));
        self.has_ended.store(true, Ordering::Release);
        let left = mem::replace(&mut *self.place.lock(), Place::Ended { why: why.clone() });
        drop(left);
        Ended { why }
    }
}

/// The answer of a turn, now or later.
///
/// # Cancel safety
/// The turn happens whether it is awaited or not.
#[derive(Debug)]
pub(super) enum Answer<T> {
    /// It is here, unless it has been taken.
    Now(Option<T>),
    /// The turn has happened and owes it.
    Later(oneshot::Receiver<T>),
    /// The turn has not happened.
    Queued(oneshot::Receiver<Self>),
    /// There will be none.
    Ended(Ended),
}

// Nothing in it is pinned.
impl<T> Unpin for Answer<T> {}

impl<T> Answer<T> {
    /// An answer that is here.
    pub(super) fn now(answer: T) -> Self {
        Self::Now(Some(answer))
    }

    /// An answer that is owed, and what pays it.
    pub(super) fn later() -> (oneshot::Sender<T>, Self) {
        let (owed, awaited) = oneshot::channel();
        (owed, Self::Later(awaited))
    }

    /// The answer, if it is here.
    pub(super) fn here(self) -> Result<T, Self> {
        match self {
            Self::Now(Some(answer)) => Ok(answer),
            other => Err(other),
        }
    }

    /// Itself, unless it is here.
    pub(super) fn unless_here(self) -> Option<Self> {
        (!matches!(self, Self::Now(_))).then_some(self)
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A sender is dropped without an answer when a turn panics.
        let lost = || Ended { why: "it panicked before it answered".to_owned() };
        loop {
            match &mut *self {
                Self::Now(answer) => return Poll::Ready(Ok(answer.take().expect("polled after its end"))),
                Self::Ended(ended) => return Poll::Ready(Err(ended.clone())),
                Self::Later(awaited) => return pin!(awaited).poll(cx).map(|answer| answer.map_err(|_| lost())),
                Self::Queued(awaited) => match pin!(awaited).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(answer)) => *self = answer,
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(lost())),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn counter() -> Arc<Turns<Vec<u32>>> {
        Turns::made_by(|_| std::future::ready(Box::default()))
    }

    fn push(turns: &Arc<Turns<Vec<u32>>>, number: u32) -> Answer<usize> {
        turns.take(move |numbers| {
            numbers.push(number);
            Answer::now(numbers.len())
        })
    }

    /// Has a thread stay in a turn until told otherwise.
    fn occupy(
        turns: &Arc<Turns<Vec<u32>>>,
        runtime: &tokio::runtime::Runtime,
    ) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
        let ((begin, begun), (over, wait)) = (mpsc::channel(), mpsc::channel());
        let (turns, runtime) = (Arc::clone(turns), runtime.handle().clone());
        let thread = thread::spawn(move || {
            let _runtime = runtime.enter();
            drop(turns.take(move |_| {
                begin.send(()).expect("the test goes on");
                wait.recv().expect("the test goes on");
                Answer::now(())
            }));
        });
        begun.recv().expect("the thread goes on");
        (over, thread)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
    }

    #[test]
    fn a_turn_at_a_free_state_happens_in_the_call() {
        let turns = counter();
        for number in 1..=3 {
            assert!(matches!(push(&turns, number), Answer::Now(Some(length)) if length == number as usize));
        }
    }

    #[test]
    fn an_answer_is_here_unless_it_is_owed() {
        assert!(matches!(Answer::now(1).here(), Ok(1)));
        let (owed, answer) = Answer::later();
        let answer = answer.here().expect_err("it is owed");
        owed.send(2).expect("it is awaited");
        assert_eq!(runtime().block_on(answer), Ok(2));
    }

    /// More than a thread takes in a row, so that the last ones happen in a task.
    #[test]
    fn turns_that_meet_another_one_happen_after_it_in_the_order_of_the_calls() {
        let (runtime, turns) = (runtime(), counter());
        let (over, thread) = occupy(&turns, &runtime);
        let numbers = 1..=3 * u32::try_from(TURNS_IN_A_ROW).expect("a few");
        let answers: Vec<_> = numbers.clone().map(|number| push(&turns, number)).collect();
        assert!(answers.iter().all(|answer| matches!(answer, Answer::Queued(_))));
        over.send(()).expect("the thread waits");
        thread.join().expect("no panic");
        runtime.block_on(async {
            for (answer, number) in answers.into_iter().zip(1..) {
                assert_eq!(answer.await, Ok(number));
            }
            let all = turns.take(|numbers| Answer::now(numbers.clone()));
            assert_eq!(all.await, Ok(numbers.collect()));
        });
    }

    /// The thread works for one request, and takes turns for another one and for none.
    #[test]
    fn a_turn_that_another_thread_takes_is_for_the_request_that_it_is_asked_for() {
        let origin = |request: &str| Origin::new(request.into(), tracing::Span::none());
        let (runtime, turns) = (runtime(), counter());
        let ((begin, begun), (over, wait)) = (mpsc::channel(), mpsc::channel());
        let occupied = Arc::clone(&turns);
        let thread = thread::spawn(move || {
            Origin::sync_scope(Some(origin("own")), || {
                drop(occupied.take(move |_| {
                    begin.send(()).expect("the test goes on");
                    wait.recv().expect("the test goes on");
                    Answer::now(())
                }));
            });
        });
        begun.recv().expect("the thread goes on");
        let told = || turns.take(|_| Answer::now(Origin::with_current(|origin| origin.request().to_owned())));
        let (other, none) = (Origin::sync_scope(Some(origin("other")), told), told());
        over.send(()).expect("the thread waits");
        thread.join().expect("no panic");
        assert_eq!(runtime.block_on(other), Ok(Some("other".to_owned())));
        assert_eq!(runtime.block_on(none), Ok(None));
    }

    #[test]
    fn a_panic_ends_the_turns_that_wait_and_those_that_come() {
        let (runtime, turns) = (runtime(), counter());
        let (over, thread) = occupy(&turns, &runtime);
        let panics: Answer<()> = turns.take(|_| panic!("of course"));
        let behind = push(&turns, 1);
        assert!(!turns.has_ended());
        over.send(()).expect("the thread waits");
        thread.join().expect("no panic");
        assert!(turns.has_ended());
        runtime.block_on(async {
            for ended in [panics.await.err(), behind.await.err(), push(&turns, 2).await.err()] {
                assert!(ended.is_some_and(|ended| ended.to_string().starts_with("it panicked")));
            }
        });
    }

    #[test]
    fn what_a_state_owes_is_lost_with_it() {
        let turns = Turns::made_by(|_| std::future::ready(Box::new(Vec::new())));
        let owed: Answer<u32> = turns.take(|debts: &mut Vec<oneshot::Sender<u32>>| {
            let (debt, answer) = Answer::later();
            debts.push(debt);
            answer
        });
        let panics: Answer<()> = turns.take(|_| panic!("of course"));
        runtime().block_on(async {
            assert!(panics.await.is_err() && owed.await.is_err());
        });
    }

    #[test]
    fn turns_wait_until_the_state_is_made_and_end_if_it_cannot_be() {
        let runtime = runtime();
        runtime.block_on(async {
            let (make, made) = oneshot::channel();
            let turns = Turns::made_by(|_| async move { made.await.expect("it is made") });
            let waiting = push(&turns, 2);
            make.send(Box::new(vec![1])).expect("it is waited for");
            assert_eq!(waiting.await, Ok(2));

            let (make, made) = oneshot::channel::<Box<Vec<u32>>>();
            let turns = Turns::made_by(|_| async move { made.await.expect("it is made") });
            let waiting = push(&turns, 1);
            drop(make);
            assert!(waiting.await.is_err() && turns.has_ended());
        });
    }
}
