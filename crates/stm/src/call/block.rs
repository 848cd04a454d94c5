//! Running on a thread that sleeps while there is nothing to do.
use super::{Atomically, Body};
use crate::call::engine::Patience;
use crate::context;
use crate::fate::Decision;
use crate::hooks::Retracted;
use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::{Condvar, Mutex, hint, unmodelled};
use std::cell::OnceCell;
use std::future::Future;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

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
        match self.try_once_on_thread() {
            Some(result) => result,
            None => self.drive_on(),
        }
    }

    #[cold]
    fn drive_on(&mut self) -> Result<O, Retracted> {
        let parker = OnceCell::new();
        loop {
            let waker = || parker.get_or_init(Parker::default).waker();
            if let Poll::Ready(result) = self.drive(Patience::Thread, &waker) {
                return result;
            }
            sleep(parker.get_or_init(Parker::default), self.deadline());
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
