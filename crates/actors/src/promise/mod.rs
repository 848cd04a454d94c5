//! Promises: answers that are on their way.
//!
//! A message sent to an actor yields a [`Promise`] at once. It is passed around, combined, awaited in any executor, or
//! waited for on a plain thread. It always ends: with the value, or with an [`ActorError`] that says why none comes.
//! [`Resolver`] is the other end, for answers that are given later than the turn that was asked.
pub(crate) mod cell;
mod combine;
mod forward;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use enact_stm::hooks::{self, Decision};
use enact_sync::unmodelled::Arc;

use self::cell::Cell;
pub(crate) use self::cell::Outcome;
pub use self::forward::Forward;
use crate::deadlock::{self, Owner, Source};
use crate::parker::Parker;
use crate::{ActorError, ActorId, frame, scheduler, tentative};

/// An answer that is on its way, or has arrived.
///
/// The message it answers was sent when the promise was made: nothing here is lazy, and dropping a promise takes
/// nothing back. `.await` it in any executor, [`wait`](Self::wait) for it on a plain thread, or go on from it with
/// [`map`](Self::map), [`and_then`](Self::and_then) and the others.
///
/// **Readers.** A promise has one reader, which gets the value itself; no `Clone` is asked for. If `T: Clone + Sync`, the
/// promise can be cloned, and each clone is a reader of its own: all get the same answer, the last one the value
/// itself, the others a copy. Readers copy it on their own threads, side by side, and a panic of `T::clone` fails the one
/// that copies. The last one, too, copies while another still does.
///
/// **Waiting.** In an `async fn(&mut self, ..)` handler an `.await` keeps the actor's turn (*get*); in an
/// `async fn(cx: Cx<Self>, ..)` handler other messages are taken meanwhile (*await*). Neither blocks a worker.
///
/// # Errors
/// Whatever ends the turn that owes the answer ends the promise: see [`ActorError`].
///
/// # Cancel safety
/// Dropping the future stops nothing: the message is taken up all the same, and its answer discarded.
///
/// ```
/// # use enact_actors::*;
/// # struct Counter { n: i64 }
/// # #[actor] impl Counter { fn add(&mut self, k: i64) -> i64 { self.n += k; self.n } }
/// # let system = System::builder().workers(1).build()?;
/// let counter = system.spawn(Counter { n: 40 });
/// let answer: Promise<i64> = counter.add(2);
/// let shared = answer.clone();
/// assert_eq!(answer.map(|n| n * 10).wait(), Ok(420));
/// assert_eq!(shared.wait(), Ok(42));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the answer comes with `.await`, or `wait()` on a plain thread; to send without one, use the `tell()` view"]
pub struct Promise<T: Send + 'static> {
    /// `None` once this reader has its share.
    cell: Option<Arc<Cell<T>>>,
    /// Where this reader's waker stands, once it has left one.
    ticket: Option<u64>,
}

/// The end of a promise at which the answer is given.
///
/// Dropped without an answer, it fails the promise with [`ActorError::Abandoned`].
///
/// ```
/// # use enact_actors::*;
/// let (promise, resolver) = Promise::pair();
/// resolver.resolve("done");
/// assert_eq!(promise.wait(), Ok("done"));
/// ```
#[must_use = "a dropped resolver fails its promise"]
pub struct Resolver<T: Send + 'static> {
    /// `None` once the answer is given.
    cell: Option<Arc<Cell<T>>>,
}

impl<T: Send + 'static> Promise<T> {
    /// A promise, and the resolver that keeps it.
    pub fn pair() -> (Self, Resolver<T>) {
        Self::owed_by(Owner::Unknown)
    }

    pub(crate) fn owed_by(owner: Owner) -> (Self, Resolver<T>) {
        Self::both_ends(Arc::new(Cell::owed_by(owner)))
    }

    /// A promise that `actor` is asked for.
    #[inline]
    pub(crate) fn asking(actor: ActorId) -> (Self, Resolver<T>) {
        Self::both_ends(Cell::asking(actor))
    }

    #[inline]
    fn both_ends(cell: Arc<Cell<T>>) -> (Self, Resolver<T>) {
        (Self::reading(Arc::clone(&cell)), Resolver { cell: Some(cell) })
    }

    /// A promise that is kept already.
    pub fn ready(value: T) -> Self {
        Self::reading(Arc::new(Cell::settled(Ok(value))))
    }

    /// A promise that has failed already.
    pub fn failed(error: ActorError) -> Self {
        Self::failed_with(Box::new(error))
    }

    fn failed_with(error: Box<ActorError>) -> Self {
        Self::reading(Arc::new(Cell::settled(Err(error))))
    }

    fn reading(cell: Arc<Cell<T>>) -> Self {
        Self { cell: Some(cell), ticket: None }
    }

    /// Whether an answer, value or error, has arrived.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.cell.as_ref().is_some_and(|cell| cell.is_settled())
    }

    /// Waits on this thread until the answer is there.
    ///
    /// # Errors
    /// What the promise failed with.
    ///
    /// # Panics
    /// On a worker thread of a [`System`](crate::System): a handler that waits is written `async` and awaits, or uses
    /// the `call(cx)` view. On a thread that drives a tokio runtime, whose timers and I/O would stand still: in a task, or
    /// in the future of `block_on`. Such a future awaits the promise, or waits in `tokio::task::spawn_blocking`. Inside a
    /// transaction, whose own messages are answered after its commit only.
    ///
    /// # Blocking
    /// Until the answer comes; bound it with [`timeout`](Self::timeout).
    pub fn wait(self) -> Result<T, ActorError> {
        assert!(
            !scheduler::is_worker(),
            "`wait` would block a worker thread: await the promise in an `async` handler, or use `call(cx)`"
        );
        scheduler::assert_may_block("`wait`");
        assert!(
            !hooks::is_in_a_transaction(),
            "`wait` was called inside a transaction, whose own messages are answered after its commit only"
        );
        self.wait_here().map_err(|error| *error)
    }

    fn wait_here(mut self) -> Outcome<T> {
        let parker = Arc::new(Parker::default());
        let waker = Waker::from(Arc::clone(&parker));
        loop {
            match self.poll_cell(&waker) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => parker.park(),
            }
        }
    }

    /// Takes the answer if it is there; otherwise leaves `waker` to be woken when it comes.
    ///
    /// # Panics
    /// If the answer was taken before.
    pub(crate) fn poll_cell(&mut self, waker: &Waker) -> Poll<Outcome<T>> {
        let cell = self.cell.as_ref().expect("a promise is polled no more once it was ready");
        let polled = cell.poll(&mut self.ticket, waker);
        if polled.is_ready() {
            self.cell = None;
        }
        polled
    }

    pub(crate) fn source(&self) -> Option<Arc<dyn Source>> {
        self.cell.as_ref().map(|cell| Arc::clone(cell) as Arc<dyn Source>)
    }

    /// Hands this reader's share to `callback`, now or when it comes.
    pub(crate) fn on_settled(mut self, callback: impl FnOnce(Outcome<T>) + Send + 'static) {
        let cell = self.cell.take().expect("a promise is used no more once it was ready");
        if let Some(ticket) = self.ticket.take() {
            // The reader goes on as a callback; the waker it left as a task is forgotten.
            cell.forget(ticket);
            frame::forget_wait(&cell, ticket);
        }
        cell.on_settled(Box::new(callback));
    }
}

impl<T: Send + 'static> Future for Promise<T> {
    type Output = Result<T, ActorError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { cell, ticket } = &mut *self;
        let waiting = cell.as_ref().expect("a promise is polled no more once it was ready");
        if waiting.is_settled() {
            if frame::end_wait(waiting, *ticket) {
                let outcome = waiting.take();
                *cell = None;
                return Poll::Ready(outcome.map_err(|error| *error));
            }
        } else if let Some(own) = frame::wait_at_the_end(waiting, *ticket, cx.waker()) {
            *ticket = Some(own);
            return Poll::Pending;
        }
        if let Some(error) = frame::take_verdict(waiting) {
            drop(std::mem::replace(&mut *self, Self { cell: None, ticket: None }));
            return Poll::Ready(Err(error));
        }
        let has_waited = *ticket;
        let polled = waiting.poll(ticket, cx.waker());
        if polled.is_pending() {
            ticket.iter().for_each(|&reader| frame::note_wait(waiting, reader));
        } else {
            if let Some(reader) = has_waited {
                frame::forget_wait(waiting, reader);
            }
            *cell = None;
        }
        polled.map_err(|error| *error)
    }
}

impl<T: Clone + Send + Sync + 'static> Clone for Promise<T> {
    /// One more reader.
    ///
    /// # Panics
    /// If this reader has already been given the answer.
    fn clone(&self) -> Self {
        let cell = self.cell.as_ref().expect("a promise is cloned before it was awaited");
        cell.share();
        Self::reading(Arc::clone(cell))
    }
}

impl<T: Send + 'static> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            cell.release(self.ticket);
            if let Some(reader) = self.ticket {
                frame::forget_wait(&cell, reader);
            }
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Resolver<T> {
    /// Keeps the promise.
    pub fn resolve(self, value: T) {
        self.settle(Ok(value));
    }

    /// Fails the promise.
    pub fn fail(self, error: ActorError) {
        self.settle(Err(Box::new(error)));
    }

    #[inline]
    pub(crate) fn settle(mut self, outcome: Outcome<T>) {
        if let Some(cell) = self.cell.take() {
            settle(cell, outcome);
        }
    }

    /// Whether a reader is left. An answer that nobody wants need not be computed.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.cell.as_ref().is_some_and(|cell| cell.is_wanted())
    }

    /// Where the promise lies that is to be kept.
    pub(crate) fn promise(&self) -> Option<usize> {
        self.cell.as_ref().map(|cell| Arc::as_ptr(cell).addr())
    }

    /// From now on the answer needs the progress of `owner`.
    pub(crate) fn now_owed_by(&self, owner: Owner) {
        if let Some(cell) = &self.cell {
            cell.set_owner(owner.clone());
            deadlock::owner_changed(owner);
        }
    }
}

impl<T: Send + 'static> Drop for Resolver<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            settle(cell, Err(Box::new(ActorError::Abandoned)));
        }
    }
}

/// Settles `cell`, in a tentative turn when that is definitive.
#[inline]
fn settle<T: Send + 'static>(cell: Arc<Cell<T>>, outcome: Outcome<T>) {
    if frame::is_tentative() { settle_when_definitive(cell, outcome) } else { cell.settle(outcome) }
}

#[cold]
fn settle_when_definitive<T: Send + 'static>(cell: Arc<Cell<T>>, outcome: Outcome<T>) {
    tentative::follow(move |decision| match decision {
        Decision::Committed => cell.settle(outcome),
        Decision::Aborted => cell.settle(Err(Box::new(ActorError::Retracted))),
    });
}

impl<T: Send + 'static> fmt::Debug for Resolver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("wanted", &self.is_wanted()).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Source for Cell<T> {
    fn owner(&self) -> Option<Owner> {
        Self::owner(self)
    }

    fn asked(&self) -> Option<ActorId> {
        Self::asked(self)
    }

    fn is_settled(&self) -> bool {
        Self::is_settled(self)
    }

    fn leave_waker(&self, ticket: u64, waker: Waker) -> bool {
        Self::leave_waker(self, ticket, waker)
    }

    fn wake_readers(&self) {
        Self::wake_readers(self);
    }
}
