//! Running on a thread that sleeps while there is nothing to do.
use std::cell::OnceCell;
use std::future::Future;
use std::ops::ControlFlow;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::{Condvar, Mutex, hint, unmodelled};

use super::{Atomically, Body};
use crate::call::engine::{Next, Patience};
use crate::context;
use crate::fate::Decision;
use crate::hooks::Retracted;

/// So often a thread looks before it sleeps: most locks and turns are waited for shorter than a sleep and a wake-up take.
const SPINS: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 0 } else { 100 };

/// A thread, as something to be woken. A condition variable rather than `thread::park`, whose token loom can lose.
#[derive(Default)]
struct Sleeping {
    is_woken: Mutex<bool>,
    woken: Condvar,
    /// What `is_woken` was last, to be looked at without its lock.
    hint: AtomicBool,
}

impl Wake for Sleeping {
    fn wake(self: unmodelled::Arc<Self>) {
        {
            let mut is_woken = self.is_woken.lock();
            *is_woken = true;
            self.hint.store(true, Ordering::Relaxed);
        }
        self.woken.notify_one();
    }
}

/// This thread.
#[derive(Clone, Default)]
struct Parker(unmodelled::Arc<Sleeping>);

impl Parker {
    fn waker(&self) -> Waker {
        Waker::from(unmodelled::Arc::clone(&self.0))
    }

    /// Sleeps until woken or until the deadline.
    fn park(&self, deadline: Option<Instant>) {
        let sleeping = &*self.0;
        let mut spins = 0;
        while spins < SPINS && !sleeping.hint.load(Ordering::Relaxed) {
            spins += 1;
            hint::spin_loop();
        }
        let mut is_woken = sleeping.is_woken.lock();
        while !*is_woken {
            let is_late;
            (is_woken, is_late) = match deadline {
                None => (sleeping.woken.wait(is_woken), false),
                Some(deadline) => sleeping.woken.wait_until(is_woken, deadline),
            };
            if is_late {
                break;
            }
        }
        *is_woken = false;
        sleeping.hint.store(false, Ordering::Relaxed);
    }
}

impl<'env, B: Body<'env, Output = O>, O> Atomically<'env, B, O> {
    /// Drives to the end. Almost always that is one attempt, which needs no waker.
    #[inline]
    pub(super) fn drive_blocking(&mut self) -> Result<O, Retracted> {
        match self.step(Patience::Thread, &|| unreachable!("an attempt that does not wait needs no waker")) {
            Next::Done(result) => result,
            Next::Loop | Next::Wait => drive_on(|waker| match self.drive(Patience::Thread, waker) {
                Poll::Ready(result) => ControlFlow::Break(result),
                Poll::Pending => ControlFlow::Continue(self.deadline()),
            }),
        }
    }
}

/// Calls `drive` until it has a result, and sleeps in between until it is woken, or until the deadline that it gives.
#[cold]
pub(super) fn drive_on<R>(mut drive: impl FnMut(&dyn Fn() -> Waker) -> ControlFlow<R, Option<Instant>>) -> R {
    let parker = OnceCell::new();
    loop {
        let waker = || parker.get_or_init(Parker::default).waker();
        match drive(&waker) {
            ControlFlow::Break(result) => return result,
            ControlFlow::Continue(deadline) => sleep(parker.get_or_init(Parker::default), deadline),
        }
    }
}

/// Sleeps; a thread with other duties hands them over first.
fn sleep(parker: &Parker, deadline: Option<Instant>) {
    match context::hand_over() {
        None => parker.park(deadline),
        Some(hand_over) => {
            let parker = parker.clone();
            hand_over(Box::new(move || parker.park(deadline)));
        }
    }
}

/// Waits until what this thread's transactions depend on has committed; unwinds if it is aborted.
#[cold]
pub(super) fn await_dependency() {
    let Some(fate) = context::dependency() else { return };
    let parker = Parker::default();
    loop {
        match fate.poll(&parker.waker()) {
            Poll::Ready(Decision::Committed) => return,
            Poll::Ready(Decision::Aborted) => Retracted.unwind(),
            Poll::Pending => sleep(&parker, None),
        }
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let parker = Parker::default();
    let waker = parker.waker();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = std::pin::Pin::new(&mut future).poll(&mut cx) {
            return output;
        }
        parker.park(None);
    }
}
