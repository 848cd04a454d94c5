//! The place where an answer arrives: one writer wins, every reader gets it once.
//!
//! # States
//! *Pending* with a list of waiters; *settled* with an answer, until the last reader has taken it or given it up.
//!
//! # Who may touch what
//! Everything lies behind one lock, held for a few instructions. No code of the user runs under it, but for `T::clone`
//! when a shared answer is read, while other readers let their threads run something else, and the clone of a waker that
//! is left here. Wakers and callbacks run, and what is dropped is dropped, after it is released.
//!
//! # Nothing is lost, nothing runs twice
//! A waiter is added only while the cell is pending, and the settling writer takes the whole list in the step that
//! ends that state: each callback runs exactly once, either here or, when the answer was there first, in the caller.
//! Callbacks that settle further promises are queued rather than nested, so that a chain of any length needs a
//! constant amount of stack.
#![expect(unsafe_code, reason = "a cell is made where it stays")]
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};

use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::unmodelled::Arc;
use enact_sync::{SpinLock, SpinLockGuard};

use crate::deadlock::Owner;
use crate::error::panic_text;
use crate::{ActorError, ActorId};

/// A value, or why none comes. The error is in a box, so that the outcome of a small value fits into registers.
pub(crate) type Outcome<T> = Result<T, Box<ActorError>>;

pub(crate) struct Cell<T> {
    state: SpinLock<State<T>>,
    /// Whether the answer has come: set under the lock, read without.
    is_settled: AtomicBool,
    /// The actor that was asked, if it was one.
    asked: Option<ActorId>,
}

struct State<T> {
    /// From when it comes until the last reader has taken it or given it up.
    answer: Option<Outcome<T>>,
    /// Only before it comes.
    waiters: Waiters<T>,
    readers: usize,
    /// Known once the promise has been cloned, which asks for `T: Clone`.
    duplicate: Option<fn(&T) -> T>,
    /// None as long as it is the actor that was asked.
    owner: Option<Owner>,
    next_ticket: u64,
}

enum Waiter<T> {
    Task(u64, Waker),
    Callback(Box<dyn FnOnce(Outcome<T>) + Send>),
}

/// Hardly ever more than one.
enum Waiters<T> {
    None,
    One(Waiter<T>),
    Many(Vec<Waiter<T>>),
}

impl<T> Waiters<T> {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::None)
    }

    fn push(&mut self, waiter: Waiter<T>) {
        *self = match self.take() {
            Self::None => Self::One(waiter),
            Self::One(first) => Self::Many(vec![first, waiter]),
            Self::Many(mut waiters) => {
                waiters.push(waiter);
                Self::Many(waiters)
            }
        };
    }

    fn all(&mut self) -> &mut [Waiter<T>] {
        match self {
            Self::None => &mut [],
            Self::One(waiter) => std::slice::from_mut(waiter),
            Self::Many(waiters) => waiters,
        }
    }

    /// Takes the task with this ticket out.
    fn remove(&mut self, ticket: u64) -> Option<Waiter<T>> {
        let at = self.all().iter().position(|waiter| waiter.is_task(ticket))?;
        match self.take() {
            Self::None => None,
            Self::One(waiter) => Some(waiter),
            Self::Many(mut waiters) => {
                let removed = waiters.remove(at);
                *self = Self::Many(waiters);
                Some(removed)
            }
        }
    }

    fn for_each(self, mut f: impl FnMut(Waiter<T>)) {
        match self {
            Self::None => {}
            Self::One(waiter) => f(waiter),
            Self::Many(waiters) => waiters.into_iter().for_each(f),
        }
    }
}

impl<T> Waiter<T> {
    fn is_task(&self, ticket: u64) -> bool {
        matches!(self, Self::Task(id, _) if *id == ticket)
    }
}

impl<T: Send + 'static> Cell<T> {
    /// A pending cell with one reader, whose answer needs the progress of `owner`.
    pub(crate) fn owed_by(owner: Owner) -> Self {
        Self::new(None, Some(owner), None)
    }

    /// A pending cell with one reader, whose answer needs the progress of the actor that is asked.
    #[inline]
    pub(crate) fn asking(actor: ActorId) -> Arc<Self> {
        let place = Arc::new_uninit();
        // SAFETY: the place is long enough, and nobody else has it.
        unsafe { Arc::as_ptr(&place).cast::<Self>().cast_mut().write(Self::new(None, None, Some(actor))) };
        // SAFETY: it was written.
        unsafe { Arc::<MaybeUninit<Self>>::assume_init(place) }
    }

    /// A settled cell with one reader.
    pub(crate) fn settled(outcome: Outcome<T>) -> Self {
        Self::new(Some(outcome), None, None)
    }

    #[inline]
    fn new(answer: Option<Outcome<T>>, owner: Option<Owner>, asked: Option<ActorId>) -> Self {
        let is_settled = AtomicBool::new(answer.is_some());
        let state = State { answer, waiters: Waiters::None, readers: 1, duplicate: None, owner, next_ticket: 0 };
        Self { state: SpinLock::new(state), is_settled, asked }
    }

    /// Whether the answer has come.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        // Acquire: who sees it settled sees what was done before.
        self.is_settled.load(Ordering::Acquire)
    }

    /// The actor that was asked, if it was one.
    pub(crate) fn asked(&self) -> Option<ActorId> {
        self.asked
    }

    /// Whether anybody could still read an answer.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.lock().readers > 0
    }

    /// Whose progress the answer needs; `None` once it is there.
    pub(crate) fn owner(&self) -> Option<Owner> {
        let state = self.state.lock();
        if self.is_settled() {
            return None;
        }
        let owner = state.owner.clone().or(self.asked.map(Owner::Actor));
        Some(owner.unwrap_or(Owner::Unknown))
    }

    pub(crate) fn set_owner(&self, owner: Owner) {
        let replaced = self.state.lock().owner.replace(owner);
        drop(replaced);
    }

    /// Wakes all tasks that wait, answer or not.
    pub(crate) fn wake_readers(&self) {
        let mut wakers = Vec::new();
        wakers.extend(self.state.lock().waiters.all().iter().filter_map(|waiter| match waiter {
            Waiter::Task(_, waker) => Some(waker.clone()),
            Waiter::Callback(_) => None,
        }));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Settles the cell unless it was settled before, and tells everybody who waits.
    #[inline]
    pub(crate) fn settle(self: &Arc<Self>, outcome: Outcome<T>) {
        let mut state = self.state.lock();
        if self.is_settled() {
            return;
        }
        self.is_settled.store(true, Ordering::Release);
        let unread = if state.readers == 0 { Some(outcome) } else { state.give(outcome) };
        if matches!(state.waiters, Waiters::None) && state.owner.is_none() {
            drop(state);
        } else {
            self.tell(state);
        }
        drop(unread);
    }

    fn tell(self: &Arc<Self>, mut state: SpinLockGuard<'_, State<T>>) {
        let (owner, waiters) = (state.owner.take(), state.waiters.take());
        drop(state);
        waiters.for_each(|waiter| match waiter {
            Waiter::Task(_, waker) => waker.wake(),
            Waiter::Callback(callback) => self.call_back(callback),
        });
        drop(owner);
    }

    /// Takes this reader's share of the answer, which has come.
    ///
    /// # Panics
    /// If the reader has already taken its share.
    #[inline]
    pub(crate) fn take(&self) -> Outcome<T> {
        self.state.lock().take()
    }

    /// Takes this reader's share of the answer, or leaves `waker` under the reader's ticket.
    ///
    /// # Panics
    /// If the reader has already taken its share.
    #[inline]
    pub(crate) fn poll(&self, ticket: &mut Option<u64>, waker: &Waker) -> Poll<Outcome<T>> {
        let mut state = self.state.lock();
        if self.is_settled() {
            return Poll::Ready(state.take());
        }
        let replaced = state.leave(ticket, waker);
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    /// Leaves `waker` under a ticket of the reader's own, unless the answer has come; whether it was left.
    pub(crate) fn leave_waker(&self, ticket: u64, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let is_pending = !self.is_settled();
        if is_pending {
            state.waiters.push(Waiter::Task(ticket, waker.clone()));
        }
        is_pending
    }

    /// Runs `callback` with this reader's share of the answer, now or when it comes.
    pub(crate) fn on_settled(self: &Arc<Self>, callback: Box<dyn FnOnce(Outcome<T>) + Send>) {
        let mut state = self.state.lock();
        if !self.is_settled() {
            state.waiters.push(Waiter::Callback(callback));
            return;
        }
        drop(state);
        self.call_back(callback);
    }

    fn call_back(self: &Arc<Self>, callback: Box<dyn FnOnce(Outcome<T>) + Send>) {
        let cell = Arc::clone(self);
        run_in_turn(Box::new(move || {
            let outcome = cell.state.lock().take();
            callback(outcome);
        }));
    }

    /// Gives one reader's share up.
    pub(crate) fn release(&self, ticket: Option<u64>) {
        let mut state = self.state.lock();
        state.readers -= 1;
        let spent = if state.readers == 0 { state.answer.take() } else { None };
        let forgotten = ticket.and_then(|ticket| state.waiters.remove(ticket));
        drop(state);
        drop((spent, forgotten));
    }

    /// Forgets the waker left under `ticket`.
    pub(crate) fn forget(&self, ticket: u64) {
        let forgotten = self.state.lock().waiters.remove(ticket);
        drop(forgotten);
    }

    /// Adds a reader.
    pub(crate) fn share(&self)
    where
        T: Clone,
    {
        let mut state = self.state.lock();
        state.readers += 1;
        state.duplicate = Some(T::clone);
    }
}

impl<T> State<T> {
    /// Leaves `waker` under the reader's ticket, a new one if it has none; the waker that was there before.
    fn leave(&mut self, ticket: &mut Option<u64>, waker: &Waker) -> Option<Waker> {
        let known = ticket.and_then(|known| {
            self.waiters.all().iter_mut().find_map(|waiter| match waiter {
                Waiter::Task(id, waker) if *id == known => Some(waker),
                _ => None,
            })
        });
        if let Some(old) = known {
            return (!old.will_wake(waker)).then(|| std::mem::replace(old, waker.clone()));
        }
        let own = *ticket.get_or_insert(self.next_ticket);
        self.next_ticket += u64::from(own == self.next_ticket);
        self.waiters.push(Waiter::Task(own, waker.clone()));
        None
    }

    /// Puts the answer where its readers find it, where there is none yet.
    #[inline]
    fn give(&mut self, outcome: Outcome<T>) -> Option<Outcome<T>> {
        // Nothing is dropped under the lock, not even what the compiler does not know to be nothing.
        std::mem::forget(self.answer.replace(outcome));
        None
    }

    /// One reader's share of a settled answer: the value itself for the last reader, a clone for the others.
    #[inline]
    fn take(&mut self) -> Outcome<T> {
        self.readers -= 1;
        if self.readers > 0 {
            return self.copy();
        }
        self.answer.take().expect("a reader takes its share once")
    }

    #[cold]
    fn copy(&self) -> Outcome<T> {
        let outcome = self.answer.as_ref().expect("a reader takes its share once");
        let duplicate = self.duplicate.expect("a second reader comes from a clone");
        let copy = catch_unwind(AssertUnwindSafe(|| outcome.as_ref().map(duplicate).map_err(Clone::clone)));
        copy.unwrap_or_else(|payload| Err(Box::new(ActorError::CallbackPanicked { text: panic_text(&*payload) })))
    }
}

type Job = Box<dyn FnOnce() + Send>;

enact_sync::thread_local! {
    /// Callbacks still to run on this thread; `Some` while one runs.
    static JOBS: RefCell<Option<VecDeque<Job>>> = RefCell::new(None);
}

/// Runs `job` after the callback that this thread is in, or at once if it is in none.
fn run_in_turn(job: Job) {
    let first = JOBS.with(|jobs| match &mut *jobs.borrow_mut() {
        Some(queue) => {
            queue.push_back(job);
            None
        }
        idle => {
            *idle = Some(VecDeque::new());
            Some(job)
        }
    });
    let mut next = first;
    while let Some(job) = next {
        // The combinators contain the panics of what they are given; what is left is a destructor's.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| crate::frame::outside_turns(job))) {
            tracing::error!(text = &*panic_text(&*payload), "a value dropped by a promise panicked");
        }
        next = JOBS.with(|jobs| {
            let mut jobs = jobs.borrow_mut();
            let job = jobs.as_mut().and_then(VecDeque::pop_front);
            if job.is_none() {
                *jobs = None;
            }
            job
        });
    }
}
