//! One answer, from the writer to the futures of all batches of a group.
//!
//! The halves share a slot behind a lock, as those of a [reply](crate::reply) do; here, many wait for what is said once.
//! The answering half fills the slot and wakes all wakers that it finds there; each awaiting half, under the same lock,
//! either finds the answer or leaves its waker: no wake-up is lost. An answering half that is dropped without an answer
//! counts as an answer, and a waker that panics does not keep the others from being woken, so nobody waits for ever.
//!
//! # Cost
//! A batch adds a reference count and, while it waits, a waker; the writer fills one slot for all of them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::vec::IntoIter;

use enact_sync::{Arc, Mutex};

enum Content<T> {
    /// The wakers of those that have asked.
    Waiting(Vec<Waker>),
    Answered(Option<T>),
}

/// Those that are to be woken.
struct Wakers(IntoIter<Waker>);

/// The half that answers.
pub(super) struct Answer<T>(Arc<Mutex<Content<T>>>);

/// One of those that wait; `None` if the other half vanished without an answer.
pub(super) struct Share<T> {
    slot: Arc<Mutex<Content<T>>>,
    /// The index of its waker, once it has left one.
    waker: Option<usize>,
}

impl<T> Answer<T> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Content::Waiting(Vec::new()))))
    }

    /// One more that waits.
    pub(super) fn share(&self) -> Share<T> {
        Share { slot: Arc::clone(&self.0), waker: None }
    }

    /// Answers all; only the first answer counts.
    pub(super) fn give(&self, value: T) {
        self.fill(Some(value));
    }

    fn fill(&self, value: Option<T>) {
        let mut slot = self.0.lock();
        if let Content::Waiting(wakers) = &mut *slot {
            let wakers = Wakers(std::mem::take(wakers).into_iter());
            *slot = Content::Answered(value);
            drop(slot);
            wakers.wake();
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.fill(None);
    }
}

impl Wakers {
    fn wake(mut self) {
        self.0.by_ref().for_each(Waker::wake);
    }
}

impl Drop for Wakers {
    /// Wakes those behind a waker that has panicked.
    fn drop(&mut self) {
        self.0.by_ref().for_each(Waker::wake);
    }
}

impl<T: Clone> Future for Share<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let share = self.get_mut();
        let mut slot = share.slot.lock();
        let wakers = match &mut *slot {
            Content::Answered(value) => return Poll::Ready(value.clone()),
            Content::Waiting(wakers) => wakers,
        };
        match share.waker {
            Some(index) => wakers[index].clone_from(cx.waker()),
            None => {
                share.waker = Some(wakers.len());
                wakers.push(cx.waker().clone());
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc as StdArc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use enact_sync::thread;

    use super::*;
    use crate::reply::tests::block_on;

    fn poll<T: Clone>(share: &mut Share<T>, waker: &Waker) -> Poll<Option<T>> {
        Pin::new(share).poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn everybody_has_the_first_answer_and_a_dropped_one_is_an_answer() {
        for (given, expected) in [(&[7, 8][..], Some(7)), (&[], None)] {
            let answer = Answer::new();
            let mut shares = [answer.share(), answer.share(), answer.share()];
            let mut waiting = shares[..2].iter_mut();
            assert!(waiting.all(|share| poll(share, Waker::noop()).is_pending()));
            given.iter().for_each(|value| answer.give(*value));
            drop(answer);
            for share in &mut shares {
                assert_eq!(poll(share, Waker::noop()), Poll::Ready(expected));
            }
        }
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: StdArc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn everybody_is_woken_although_a_waker_panics() {
        struct Panic;

        impl Wake for Panic {
            fn wake(self: StdArc<Self>) {
                panic!("planted");
            }
        }

        let counts: [StdArc<Count>; 2] = Default::default();
        let [first, last] = counts.each_ref().map(|count| Waker::from(StdArc::clone(count)));
        let answer = Answer::new();
        let mut shares = [first, Waker::from(StdArc::new(Panic)), last].map(|waker| {
            let mut share = answer.share();
            assert!(poll(&mut share, &waker).is_pending());
            share
        });
        assert!(catch_unwind(AssertUnwindSafe(|| answer.give(7))).is_err());
        assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [1, 1]);
        assert!(shares.iter_mut().all(|share| poll(share, Waker::noop()) == Poll::Ready(Some(7))));
    }

    #[test]
    fn the_last_waker_of_each_is_woken_once() {
        let counts: [StdArc<Count>; 3] = Default::default();
        let [old, new, other] = counts.each_ref().map(|count| Waker::from(StdArc::clone(count)));
        let answer = Answer::new();
        let (mut moved, mut still) = (answer.share(), answer.share());
        for (share, waker) in [(&mut moved, &old), (&mut still, &other)] {
            assert!(poll(share, waker).is_pending());
        }
        for _ in 0..3 {
            assert!(poll(&mut moved, &new).is_pending());
        }
        answer.give(7);
        assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [0, 1, 1]);
    }

    /// Explored by the model checkers: `--cfg enact_loom`, filter `interleaving`.
    #[test]
    fn every_interleaving_of_answer_and_polls_wakes_all() {
        enact_sync::explore(1000, || {
            for is_answered in [true, false] {
                let answer = Answer::new();
                let [first, mut second] = [answer.share(), answer.share()];
                let answering = thread::spawn(move || if is_answered { answer.give(7) } else { drop(answer) });
                // It leaves a waker, or finds the answer.
                let found = poll(&mut second, Waker::noop());
                assert!(found.is_pending() || found == Poll::Ready(is_answered.then_some(7)));
                assert_eq!(block_on(first), is_answered.then_some(7));
                assert_eq!(block_on(second), is_answered.then_some(7));
                answering.join().unwrap();
            }
        });
    }
}
