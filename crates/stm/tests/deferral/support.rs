//! What the tests of deferral are written with.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use enact_stm::{Abort, Deferrable, Deferred, Objects, Tx, atomically};

/// The two ways to defer: every rule holds for both.
#[derive(Debug, Clone, Copy)]
pub(crate) enum How {
    Blocking,
    /// Awaits something before and after its work.
    Async,
}

pub(crate) const BOTH: [How; 2] = [How::Blocking, How::Async];

impl How {
    pub(crate) fn defer<'t, O, R>(
        self,
        tx: &mut Tx<'t, '_>,
        objects: O,
        operation: impl FnOnce(&mut O::Held) -> R + Send + 'static,
    ) -> Result<Deferred<R>, Abort>
    where
        O: Objects<'t>,
        R: Send + 'static,
    {
        match self {
            Self::Blocking => tx.defer(objects, operation),
            Self::Async => tx.defer_async(objects, |held| {
                Box::pin(async move {
                    step_aside().await;
                    let result = operation(held);
                    step_aside().await;
                    result
                })
            }),
        }
    }
}

/// Is ready the second time.
pub(crate) async fn step_aside() {
    let mut is_second = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_second, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// One transaction.
pub(crate) fn once<'env, R>(body: impl for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Abort>) -> R {
    atomically(body).run()
}

/// Runs `work` on another thread, which is in no transaction and in no operation, and waits for it.
pub(crate) fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join()).expect("the other thread does not panic")
}

/// An object without a shared part.
pub(crate) fn object<P>(private: P) -> Arc<Deferrable<(), P>> {
    Arc::new(Deferrable::new((), private))
}

/// The private part of an object that is not used any more.
pub(crate) fn private_of<S, P>(object: Arc<Deferrable<S, P>>) -> P {
    Arc::into_inner(object).expect("nobody else has the object").into_inner().1
}

/// True if a transaction of somebody else would have to wait for the object.
pub(crate) fn is_held<S: Send + Sync, P: Send>(object: &Deferrable<S, P>) -> bool {
    elsewhere(|| Task::new(atomically(|tx| tx.try_open(object).map(drop))).poll().is_none())
}

/// A future polled by hand, and how often it was woken.
pub(crate) struct Task<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<F: Future> Task<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default() }
    }

    /// The output, or `None` if the future has to wait.
    pub(crate) fn poll(&mut self) -> Option<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// The output of a future that others get going.
    pub(crate) fn finish(&mut self) -> F::Output {
        loop {
            if let Some(output) = self.poll() {
                return output;
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn wakes(&self) -> u32 {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("panics here have a message")
}

/// The message of the panic that `work` ends with.
pub(crate) fn panic_of<R>(work: impl FnOnce() -> R) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(_) => panic!("a panic was expected"),
        Err(panic) => message(&*panic),
    }
}
