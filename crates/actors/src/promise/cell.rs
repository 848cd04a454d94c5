//! The place where an answer arrives: one writer wins, every reader gets it once.
//!
//! # States
//! *Pending* with a list of waiters; *settled* with a result; *spent* when the last reader has taken the result or
//! given it up.
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
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};

use enact_sync::SpinLock;
use enact_sync::unmodelled::Arc;
use smallvec::SmallVec;

use crate::deadlock::Owner;
use crate::error::panic_text;
use crate::{ActorError, ActorId};

pub(crate) type Outcome<T> = Result<T, ActorError>;

pub(crate) struct Cell<T>(SpinLock<State<T>>);

struct State<T> {
    answer: Answer<T>,
    readers: usize,
    /// Known once the promise has been cloned, which asks for `T: Clone`.
    duplicate: Option<fn(&T) -> T>,
    owner: Owner,
    next_ticket: u64,
}

enum Answer<T> {
    Pending(SmallVec<[Waiter<T>; 1]>),
    Settled(Outcome<T>),
    Spent,
}

enum Waiter<T> {
    Task(u64, Waker),
    Callback(Box<dyn FnOnce(Outcome<T>) + Send>),
}

impl<T: Send + 'static> Cell<T> {
    /// A pending cell with one reader.
    pub(crate) fn new(owner: Owner) -> Self {
        Self(SpinLock::new(State {
            answer: Answer::Pending(SmallVec::new()),
            readers: 1,
            duplicate: None,
            owner,
            next_ticket: 0,
        }))
    }

    /// A settled cell with one reader.
    pub(crate) fn settled(outcome: Outcome<T>) -> Self {
        Self(SpinLock::new(State {
            answer: Answer::Settled(outcome),
            readers: 1,
            duplicate: None,
            owner: Owner::Unknown,
            next_ticket: 0,
        }))
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.0.lock().answer, Answer::Pending(_))
    }

    /// Whether anybody could still read an answer.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.lock().readers > 0
    }

    /// Whose progress the answer needs; `None` once it is there.
    pub(crate) fn owner(&self) -> Option<Owner> {
        let state = self.0.lock();
        matches!(state.answer, Answer::Pending(_)).then(|| state.owner.clone())
    }

    /// The actor whose progress the answer needs, if it is an actor's and not there yet.
    pub(crate) fn owning_actor(&self) -> Option<ActorId> {
        let state = self.0.lock();
        match (&state.answer, &state.owner) {
            (Answer::Pending(_), Owner::Actor(actor)) => Some(*actor),
            _ => None,
        }
    }

    pub(crate) fn set_owner(&self, owner: Owner) {
        let replaced = std::mem::replace(&mut self.0.lock().owner, owner);
        drop(replaced);
    }

    /// Wakes all tasks that wait, answer or not.
    pub(crate) fn wake_readers(&self) {
        let mut wakers = Vec::new();
        if let Answer::Pending(waiters) = &self.0.lock().answer {
            wakers.extend(waiters.iter().filter_map(|waiter| match waiter {
                Waiter::Task(_, waker) => Some(waker.clone()),
                Waiter::Callback(_) => None,
            }));
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Settles the cell unless it was settled before, and tells everybody who waits.
    pub(crate) fn settle(self: &Arc<Self>, outcome: Outcome<T>) {
        let mut state = self.0.lock();
        if !matches!(state.answer, Answer::Pending(_)) {
            return;
        }
        let owner = std::mem::replace(&mut state.owner, Owner::Unknown);
        let (answer, unread) =
            if state.readers == 0 { (Answer::Spent, Some(outcome)) } else { (Answer::Settled(outcome), None) };
        let Answer::Pending(waiters) = std::mem::replace(&mut state.answer, answer) else { unreachable!() };
        drop(state);
        for waiter in waiters {
            match waiter {
                Waiter::Task(_, waker) => waker.wake(),
                Waiter::Callback(callback) => self.call_back(callback),
            }
        }
        drop((owner, unread));
    }

    /// Takes this reader's share of the answer, or leaves `waker` under the reader's ticket.
    ///
    /// # Panics
    /// If the reader has already taken its share.
    pub(crate) fn poll(&self, ticket: &mut Option<u64>, waker: &Waker) -> Poll<Outcome<T>> {
        let mut state = self.0.lock();
        let fresh = state.next_ticket;
        match &mut state.answer {
            Answer::Pending(waiters) => {
                let known = ticket.and_then(|known| {
                    waiters.iter_mut().find_map(|waiter| match waiter {
                        Waiter::Task(id, waker) if *id == known => Some(waker),
                        _ => None,
                    })
                });
                let replaced = if let Some(old) = known {
                    (!old.will_wake(waker)).then(|| std::mem::replace(old, waker.clone()))
                } else {
                    waiters.push(Waiter::Task(fresh, waker.clone()));
                    state.next_ticket += 1;
                    *ticket = Some(fresh);
                    None
                };
                drop(state);
                drop(replaced);
                Poll::Pending
            }
            Answer::Settled(_) => Poll::Ready(state.take()),
            Answer::Spent => unreachable!("a reader takes its share once"),
        }
    }

    /// Runs `callback` with this reader's share of the answer, now or when it comes.
    pub(crate) fn on_settled(self: &Arc<Self>, callback: Box<dyn FnOnce(Outcome<T>) + Send>) {
        let mut state = self.0.lock();
        if let Answer::Pending(waiters) = &mut state.answer {
            waiters.push(Waiter::Callback(callback));
            return;
        }
        drop(state);
        self.call_back(callback);
    }

    fn call_back(self: &Arc<Self>, callback: Box<dyn FnOnce(Outcome<T>) + Send>) {
        let cell = Arc::clone(self);
        run_in_turn(Box::new(move || {
            let outcome = cell.0.lock().take();
            callback(outcome);
        }));
    }

    /// Gives one reader's share up.
    pub(crate) fn release(&self, ticket: Option<u64>) {
        let mut state = self.0.lock();
        state.readers -= 1;
        let unread = state.readers == 0 && matches!(state.answer, Answer::Settled(_));
        let spent = unread.then(|| std::mem::replace(&mut state.answer, Answer::Spent));
        let forgotten = ticket.and_then(|ticket| state.forget(ticket));
        drop(state);
        drop((spent, forgotten));
    }

    /// Forgets the waker left under `ticket`.
    pub(crate) fn forget(&self, ticket: u64) {
        let forgotten = self.0.lock().forget(ticket);
        drop(forgotten);
    }

    /// Adds a reader.
    pub(crate) fn share(&self)
    where
        T: Clone,
    {
        let mut state = self.0.lock();
        state.readers += 1;
        state.duplicate = Some(T::clone);
    }
}

impl<T> State<T> {
    fn forget(&mut self, ticket: u64) -> Option<Waiter<T>> {
        let Answer::Pending(waiters) = &mut self.answer else { return None };
        let at = waiters.iter().position(|waiter| matches!(waiter, Waiter::Task(id, _) if *id == ticket))?;
        Some(waiters.remove(at))
    }

    /// One reader's share of a settled answer: the value itself for the last reader, a clone for the others.
    fn take(&mut self) -> Outcome<T> {
        if self.readers > 1 {
            let Answer::Settled(outcome) = &self.answer else { unreachable!("only a settled answer is taken") };
            let duplicate = self.duplicate.expect("a second reader comes from a clone");
            let copy = catch_unwind(AssertUnwindSafe(|| outcome.as_ref().map(duplicate).map_err(Clone::clone)));
            self.readers -= 1;
            return copy.unwrap_or_else(|payload| Err(ActorError::CallbackPanicked { text: panic_text(&*payload) }));
        }
        self.readers = 0;
        match std::mem::replace(&mut self.answer, Answer::Spent) {
            Answer::Settled(outcome) => outcome,
            _ => unreachable!("only a settled answer is taken"),
        }
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
