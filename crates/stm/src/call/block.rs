//! Running on a thread that sleeps while there is nothing to do.
use super::{Atomically, Body};
use crate::call::engine::Patience;
use crate::context;
use crate::hooks::Retracted;
use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::thread::{self, Thread};
use enact_sync::unmodelled;
use std::cell::OnceCell;
use std::future::Future;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

struct Unpark {
    thread: Thread,
    is_notified: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: unmodelled::Arc<Self>) {
        self.is_notified.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// This thread, as something to be woken.
struct Parker(unmodelled::Arc<Unpark>);

impl Parker {
    fn new() -> Self {
        Self(unmodelled::Arc::new(Unpark { thread: thread::current(), is_notified: AtomicBool::new(false) }))
    }

    fn waker(&self) -> Waker {
        Waker::from(unmodelled::Arc::clone(&self.0))
    }

    /// Sleeps until woken or until the deadline.
    fn park(&self, deadline: Option<Instant>) {
        while !self.0.is_notified.swap(false, Ordering::Acquire) {
            match deadline {
                None => thread::park(),
                Some(deadline) if Instant::now() < deadline => thread::park_until(deadline),
                Some(_) => return,
            }
        }
    }
}

impl<'env, B: Body<'env>> Atomically<'env, B> {
    /// Drives to the end. Almost always that is one attempt, which needs no waker.
    #[inline]
    pub(super) fn drive_blocking(&mut self) -> Result<B::Output, Retracted> {
        match self.try_once_on_thread() {
            Some(result) => result,
            None => self.drive_on(),
        }
    }

    #[cold]
    fn drive_on(&mut self) -> Result<B::Output, Retracted> {
        let parker = OnceCell::new();
        loop {
            let waker = || parker.get_or_init(Parker::new).waker();
            if let Poll::Ready(result) = self.drive(Patience::Thread, &waker) {
                return result;
            }
            assert!(
                context::hand_over().is_none(),
                "a transaction would have to wait on a thread that must not block: use `.await` instead of `.run()`"
            );
            parker.get_or_init(Parker::new).park(self.deadline());
        }
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let parker = Parker::new();
    let waker = parker.waker();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = std::pin::Pin::new(&mut future).poll(&mut cx) {
            return output;
        }
        parker.park(None);
    }
}
