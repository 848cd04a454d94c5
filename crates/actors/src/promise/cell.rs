//! The place where an answer arrives: one writer wins, every reader gets it once.
//!
//! # States
//! *Pending* with a list of waiters; *settled* with an answer, until the last reader has taken it or given it up.
//!
//! # Who may touch what
//! Everything lies behind one lock, held for a few instructions. No code of the user runs under it: wakers are cloned
//! before it is taken; wakers and callbacks run, answers are copied, and what is dropped is dropped, after it is released.
//!
//! # Shared answers
//! The first of several readers moves the answer to where all find it ([`Shared`]), and each copies it there without the
//! lock. So copies are made side by side, which asks for `T: Sync`, and a copy that reads the same promise finds what it
//! asks for. The last reader takes the value itself, unless another one is still copying it.
//!
//! # Nothing is lost, nothing runs twice
//! A waiter is added only while the cell is pending, and the settling writer takes the whole list in the step that
//! ends that state: each callback runs exactly once, either here or, when the answer was there first, in the caller.
//! Callbacks that settle further promises are queued rather than nested, so that a chain of any length needs a
//! constant amount of stack. A panic of any of them ends where it was called, and keeps no other from its turn.
#![expect(unsafe_code, reason = "a cell is made where it stays")]
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::task::{Poll, Waker};

use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::unmodelled::Arc;
use enact_sync::{SpinLock, SpinLockGuard};

use crate::deadlock::Owner;
use crate::turn::{contain, wake};
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
    answer: Option<Answer<T>>,
    /// Only before it comes.
    waiters: Waiters<T>,
    readers: usize,
    /// Known once the promise has been cloned, which asks for `T: Clone + Sync`.
    share: Option<fn(Outcome<T>) -> Shared<T>>,
    /// None as long as it is the actor that was asked.
    owner: Option<Owner>,
    next_ticket: u64,
}

/// An answer as its readers find it.
enum Answer<T> {
    Own(Outcome<T>),
    Shared(Shared<T>),
}

/// What several readers share; one word, so that it makes no answer longer.
type Shared<T> = Arc<Box<dyn Copied<T>>>;

/// An answer that several threads may copy at a time.
trait Copied<T>: Send + Sync {
    fn copy(&self) -> Outcome<T>;
    fn into_own(self: Box<Self>) -> Outcome<T>;
}

impl<T: Clone + Send + Sync> Copied<T> for Outcome<T> {
    fn copy(&self) -> Self {
        self.clone()
    }

    fn into_own(self: Box<Self>) -> Self {
        *self
    }
}

impl<T> Answer<T> {
    /// One reader's share of it: the value itself for the last one that has it, a copy for the others.
    #[inline]
    fn into_share(self) -> Outcome<T> {
        match self {
            Self::Own(outcome) => outcome,
            Self::Shared(shared) => copy_or_take(shared),
        }
    }
}

#[cold]
fn copy_or_take<T>(shared: Shared<T>) -> Outcome<T> {
    let share = move || match Arc::try_unwrap(shared) {
        Ok(last) => last.into_own(),
        Err(shared) => shared.copy(),
    };
    contain_callback(share).flatten()
}

/// Runs `f`, which is the user's; a panic of it is the outcome.
pub(super) fn contain_callback<R>(f: impl FnOnce() -> R) -> Outcome<R> {
    contain(f).map_err(|panic| Box::new(ActorError::CallbackPanicked { text: Arc::clone(panic.text()) }))
}

enum Waiter<T> {
    Waker(u64, Waker),
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

    /// Takes all tasks out.
    fn take_tasks(&mut self) -> Vec<Waker> {
        let mut tasks = Vec::new();
        self.take().for_each(|waiter| match waiter {
            Waiter::Waker(_, waker) => tasks.push(waker),
            callback @ Waiter::Callback(_) => self.push(callback),
        });
        tasks
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
        matches!(self, Self::Waker(id, _) if *id == ticket)
    }

    fn wakes(&self, waker: &Waker) -> bool {
        matches!(self, Self::Waker(_, known) if known.will_wake(waker))
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
        let answer = answer.map(Answer::Own);
        let state = State { answer, waiters: Waiters::None, readers: 1, share: None, owner, next_ticket: 0 };
        Self { state: SpinLock::new(state), is_settled, asked }
    }

    /// Whether the answer has come.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        // Acquire: a reader that sees it settled sees what was done before.
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

    /// Wakes all tasks that wait, answer or not; those that still wait leave a waker again.
    pub(crate) fn wake_readers(&self) {
        let tasks = self.state.lock().waiters.take_tasks();
        tasks.into_iter().for_each(wake);
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
            Waiter::Waker(_, waker) => wake(waker),
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
        let answer = self.state.lock().take();
        answer.into_share()
    }

    /// Takes this reader's share of the answer, or leaves `waker` under the reader's ticket.
    ///
    /// # Panics
    /// If the reader has already taken its share.
    #[inline]
    pub(crate) fn poll(&self, ticket: &mut Option<u64>, waker: &Waker) -> Poll<Outcome<T>> {
        if self.is_settled() || !self.leave(ticket, waker) {
            return Poll::Ready(self.take());
        }
        Poll::Pending
    }

    /// Leaves `waker` under the reader's ticket, a new one if it has none, unless the answer has come. Returns whether the
    /// waker is there.
    fn leave(&self, ticket: &mut Option<u64>, waker: &Waker) -> bool {
        if ticket.is_some_and(|known| self.state.lock().keeps(known, waker)) {
            return true;
        }
        let own = waker.clone();
        let mut state = self.state.lock();
        let is_pending = !self.is_settled();
        let unused = if is_pending { state.leave(ticket, own) } else { Some(own) };
        drop(state);
        drop(unused);
        is_pending
    }

    /// Leaves `waker` under a ticket of the reader's own, unless the answer has come, and returns whether it did. The
    /// promise may have been given away since, and its next reader have left another waker under the same ticket.
    pub(crate) fn leave_waker(&self, ticket: u64, waker: Waker) -> bool {
        let mut state = self.state.lock();
        let is_pending = !self.is_settled();
        if is_pending && !state.waiters.all().iter().any(|known| known.is_task(ticket) && known.wakes(&waker)) {
            state.waiters.push(Waiter::Waker(ticket, waker));
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
            callback(cell.take());
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
        T: Clone + Sync,
    {
        let mut state = self.state.lock();
        state.readers += 1;
        state.share = Some(|outcome| Arc::new(Box::new(outcome)));
    }
}

impl<T> State<T> {
    /// The waker left under `ticket`.
    fn left(&mut self, ticket: u64) -> Option<&mut Waker> {
        self.waiters.all().iter_mut().find_map(|waiter| match waiter {
            Waiter::Waker(id, waker) if *id == ticket => Some(waker),
            _ => None,
        })
    }

    /// Whether what was left under `ticket` wakes the same as `waker`.
    fn keeps(&mut self, ticket: u64, waker: &Waker) -> bool {
        self.left(ticket).is_some_and(|left| left.will_wake(waker))
    }

    /// Leaves `waker` under the reader's ticket, a new one if it has none; the waker that was there before.
    fn leave(&mut self, ticket: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        if let Some(left) = ticket.and_then(|known| self.left(known)) {
            return Some(std::mem::replace(left, waker));
        }
        let own = *ticket.get_or_insert(self.next_ticket);
        self.next_ticket += u64::from(own == self.next_ticket);
        self.waiters.push(Waiter::Waker(own, waker));
        None
    }

    /// Puts the answer where its readers find it, where there is none yet.
    #[inline]
    fn give(&mut self, outcome: Outcome<T>) -> Option<Outcome<T>> {
        // Nothing is dropped under the lock, not even what the compiler does not know to be nothing.
        std::mem::forget(self.answer.replace(Answer::Own(outcome)));
        None
    }

    /// A settled answer for one reader, which leaves it for those that are still to come.
    #[inline]
    fn take(&mut self) -> Answer<T> {
        self.readers -= 1;
        let answer = self.answer.take().expect(TAKEN_ONCE);
        if self.readers > 0 { self.share(answer) } else { answer }
    }

    #[cold]
    fn share(&mut self, answer: Answer<T>) -> Answer<T> {
        let shared = match answer {
            Answer::Own(outcome) => self.share.expect("a second reader comes from a clone")(outcome),
            Answer::Shared(shared) => shared,
        };
        self.answer = Some(Answer::Shared(Arc::clone(&shared)));
        Answer::Shared(shared)
    }
}

const TAKEN_ONCE: &str = "a reader takes its share once";

type Job = Box<dyn FnOnce() + Send>;

enact_sync::thread_local! {
    /// Callbacks still to run on this thread; `Some` while one runs. Without a destructor, so that it is there for
    /// those of other thread locals; it has nothing to free when no callback runs.
    static JOBS: ManuallyDrop<RefCell<Option<VecDeque<Job>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
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
        if let Err(panic) = contain(|| crate::frame::outside_turns(job)) {
            tracing::error!(text = &**panic.text(), "a value dropped by a promise panicked");
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
