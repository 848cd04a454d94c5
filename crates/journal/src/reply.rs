//! One answer, from a thread of the journal to a future on any executor.
//!
//! Both halves share a slot behind a lock. The answering half fills it and wakes the waker it finds there; the awaiting
//! half, under the same lock, either finds the answer or leaves its waker: no wake-up is lost. An answering half that
//! is dropped without an answer (its thread panicked) counts as an answer, so nobody waits for ever.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use enact_sync::{Arc, Mutex};

enum Content<T> {
    Waiting(Option<Waker>),
    Answered(Option<T>),
    Taken,
}

/// The half that answers.
pub(crate) struct Reply<T>(Arc<Mutex<Content<T>>>);

/// The half that waits; `None` if the other half vanished without an answer.
pub(crate) struct Awaited<T>(Arc<Mutex<Content<T>>>);

pub(crate) fn reply<T>() -> (Reply<T>, Awaited<T>) {
    let slot = Arc::new(Mutex::new(Content::Waiting(None)));
    (Reply(Arc::clone(&slot)), Awaited(slot))
}

impl<T> Reply<T> {
    pub(crate) fn answer(self, value: T) {
        fill(&self.0, Some(value));
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        fill(&self.0, None);
    }
}

fn fill<T>(slot: &Mutex<Content<T>>, value: Option<T>) {
    let mut slot = slot.lock();
    if let Content::Waiting(waker) = &mut *slot {
        let waker = waker.take();
        *slot = Content::Answered(value);
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Awaited<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.0.lock();
        match &mut *slot {
            Content::Waiting(Some(waker)) => waker.clone_from(cx.waker()),
            Content::Waiting(waker) => *waker = Some(cx.waker().clone()),
            Content::Answered(value) => {
                let value = value.take();
                *slot = Content::Taken;
                return Poll::Ready(value);
            }
            Content::Taken => panic!("polled after it was ready"),
        }
        Poll::Pending
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc as StdArc;
    use std::task::Wake;

    use enact_sync::thread;

    use super::*;

    fn poll<T>(awaited: &mut Awaited<T>) -> Poll<Option<T>> {
        Pin::new(awaited).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn dropped_reply_is_an_answer() {
        let (reply, mut awaited) = reply::<u8>();
        assert!(poll(&mut awaited).is_pending());
        drop(reply);
        assert_eq!(poll(&mut awaited), Poll::Ready(None));
    }

    /// Explored by the model checkers: `--cfg enact_loom`, filter `interleaving`.
    #[test]
    fn every_interleaving_of_answer_and_poll_wakes_the_future() {
        enact_sync::explore(1000, || {
            for is_answered in [true, false] {
                let (reply, awaited) = reply();
                let answering = thread::spawn(move || if is_answered { reply.answer(7) } else { drop(reply) });
                assert_eq!(block_on(awaited), is_answered.then_some(7));
                answering.join().unwrap();
            }
        });
    }

    /// As that of `enact-journal-kit`, with threads that the model checkers know.
    pub(crate) fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
        struct Unpark(thread::Thread);

        impl Wake for Unpark {
            fn wake(self: StdArc<Self>) {
                self.0.unpark();
            }
        }

        let waker = Waker::from(StdArc::new(Unpark(thread::current())));
        loop {
            match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }

    #[test]
    fn answer_is_delivered_once() {
        let (reply, mut awaited) = reply();
        reply.answer(7);
        assert_eq!(poll(&mut awaited), Poll::Ready(Some(7)));
    }
}
