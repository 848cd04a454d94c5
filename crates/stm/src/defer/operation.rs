//! Operations between the commit that has promised them and their end.
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use enact_sync::Mutex;
use enact_sync::unmodelled::Arc;

use super::objects::{Objects, release};
use crate::call::block_on;
use crate::context;
use crate::lock::{Account, OwnerId, TxLock};
use crate::serial_lock::Underway;
use crate::transaction::{Abort, Descriptor, Tx};

type Panic = Box<dyn Any + Send>;

/// What an operation has given, for the thread that has deferred it.
///
/// The value is there when [`run`](crate::Atomically::run) or `.await` of the transaction is over. Return it from the
/// closure to get at it.
#[must_use = "the outcome of the operation is in here"]
pub struct Deferred<R>(Arc<Mutex<Option<R>>>);

impl<R> Deferred<R> {
    /// The outcome. `None` before the operation has ended, after it has panicked, and if it was taken before.
    #[must_use]
    pub fn take(&self) -> Option<R> {
        self.0.lock().take()
    }
}

impl<R> fmt::Debug for Deferred<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").finish_non_exhaustive()
    }
}

/// An operation that has not run.
pub(crate) enum Operation {
    /// Blocks the thread it runs on.
    Blocking(Box<dyn FnOnce(OwnerId) -> Result<(), Panic> + Send>),
    /// Is polled.
    Task(Box<dyn FnOnce(OwnerId) -> Running + Send>),
}

type Running = Pin<Box<dyn Future<Output = Result<(), Panic>> + Send>>;

impl<'t> Tx<'t, '_> {
    /// Runs `operation` right after this transaction has committed, atomically with it.
    ///
    /// The objects are acquired by this transaction: from its commit until the operation ends no other transaction can
    /// [`open`](Self::open) them, so nobody sees the one without the other. Operations of one transaction run in the order
    /// in which they were deferred, and each sees what the transaction and earlier operations have done. If the attempt
    /// does not commit, nothing runs. The operation may start transactions, which may open what it holds, and defer again.
    ///
    /// The call of `run` or `.await` is over when the operation has ended. A panic in it poisons its objects, releases
    /// them, lets the others run, and then goes on to that caller. An error is a value: return it, and find it in the
    /// [`Deferred`]; [`Held::poison`](super::Held::poison) takes an object out of service.
    ///
    /// An operation that opens an object of another transaction's operation waits for it, so several can wait for each
    /// other: list everything that the operation needs. The one that closes such a circle on its own thread panics, as
    /// below, with the [names](super::Deferrable::named) of the locks, and the others go on. That is exact, and so it
    /// does not see a wait that something else might end: one that is awaited, has a limit, is on another thread, is
    /// for a lock of an explicit [`Owner`](crate::Owner), or belongs to a transaction that has read other variables as
    /// well. Nor may an operation wait for a transaction of others that defers: one that wants to run irrevocably holds
    /// these up until operations have ended.
    ///
    /// # Errors
    /// If another transaction's operation has one of the objects: the transaction sleeps until it is released. If the
    /// attempt has to be run again.
    ///
    /// # Blocking
    /// The operation runs on the thread that runs or polls the transaction.
    ///
    /// # Panics
    /// If an object is poisoned or listed twice; if the transaction runs in an operation that has the object in its
    /// hands; if it runs in an operation and closes a circle of operations that wait for each other.
    /// In a [`snapshot`](crate::snapshot).
    pub fn defer<O, R>(
        &mut self,
        objects: O,
        operation: impl FnOnce(&mut O::Held) -> R + Send + 'static,
    ) -> Result<Deferred<R>, Abort>
    where
        O: Objects<'t>,
        R: Send + 'static,
    {
        let (shares, outcome, deferred) = self.prepare(objects)?;
        let operation = Operation::Blocking(Box::new(move |owner| {
            context::in_operation(owner, || {
                let locks = O::locks(&shares);
                if cfg!(planted = "release_before_the_operation") {
                    release(locks.as_ref(), owner);
                }
                let result = take::<O>(shares).and_then(|mut held| {
                    let result = catch_unwind(AssertUnwindSafe(|| operation(&mut held)));
                    O::put_back(held, result.is_err());
                    result
                });
                end(owner, locks.as_ref(), result, &outcome)
            })
        }));
        self.add_operation(operation);
        Ok(deferred)
    }

    /// As [`defer`](Self::defer), for an operation that awaits: while it does, it has its objects and no thread.
    ///
    /// # Errors
    /// As for [`defer`](Self::defer).
    ///
    /// # Cancel safety
    /// If the future of the transaction is dropped while the operation awaits, the operation is carried through on a
    /// thread of its own: from there on it must not need what its executor gives to its threads.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{Deferrable, atomically};
    /// use std::sync::Arc;
    /// let socket = Arc::new(Deferrable::new((), Vec::new()));
    /// atomically(|tx| {
    ///     tx.defer_async((&socket,), |(socket,)| {
    ///         Box::pin(async move {
    ///             std::future::ready(()).await;
    ///             socket.push("sent");
    ///         })
    ///     })
    ///     .map(drop)
    /// })
    /// .run();
    /// assert_eq!(Arc::into_inner(socket).unwrap().into_inner().1, ["sent"]);
    /// ```
    pub fn defer_async<O, R>(
        &mut self,
        objects: O,
        operation: impl for<'h> FnOnce(&'h mut O::Held) -> Pin<Box<dyn Future<Output = R> + Send + 'h>> + Send + 'static,
    ) -> Result<Deferred<R>, Abort>
    where
        O: Objects<'t>,
        R: Send + 'static,
    {
        let (shares, outcome, deferred) = self.prepare(objects)?;
        let operation = Operation::Task(Box::new(move |owner| {
            Box::pin(async move {
                let locks = O::locks(&shares);
                let result = match take::<O>(shares) {
                    Ok(mut held) => {
                        let result = match catch_unwind(AssertUnwindSafe(|| operation(&mut held))) {
                            Ok(future) => Caught(future).await,
                            Err(panic) => Err(panic),
                        };
                        O::put_back(held, result.is_err());
                        result
                    }
                    Err(panic) => Err(panic),
                };
                end(owner, locks.as_ref(), result, &outcome)
            })
        }));
        self.add_operation(operation);
        Ok(deferred)
    }

    #[expect(clippy::type_complexity, reason = "three things that belong to one operation")]
    fn prepare<O: Objects<'t>, R>(
        &mut self,
        objects: O,
    ) -> Result<(O::Shares, Arc<Mutex<Option<R>>>, Deferred<R>), Abort> {
        self.descriptor.needs_log()?;
        self.owner();
        objects.acquire(self)?;
        let outcome = Arc::new(Mutex::new(None));
        Ok((objects.into_shares(), Arc::clone(&outcome), Deferred(outcome)))
    }
}

fn take<'t, O: Objects<'t>>(shares: O::Shares) -> Result<O::Held, Panic> {
    catch_unwind(AssertUnwindSafe(|| O::take(shares)))
}

/// Keeps the outcome, and lets others at the objects, which were put back.
fn end<R>(owner: OwnerId, locks: &[TxLock], result: Result<R, Panic>, outcome: &Mutex<Option<R>>) -> Result<(), Panic> {
    let result = result.map(|value| *outcome.lock() = Some(value));
    if !cfg!(planted = "release_before_the_operation") {
        release(locks, owner);
    }
    result
}

/// A future whose panic is a value.
struct Caught<F>(F);

impl<F: Future + Unpin> Future for Caught<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut self.0).poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

/// What is left to do for a transaction that has committed.
pub(crate) struct AfterCommit {
    owner: OwnerId,
    operations: Operations,
    running: Option<Running>,
    /// Locks to be released at the very end.
    acquired: Vec<TxLock>,
    underway: Option<Underway>,
    panic: Option<Panic>,
}

/// Operations in their order: almost always one, which takes no allocation.
pub(crate) struct Operations {
    first: Option<Operation>,
    others: VecDeque<Operation>,
}

impl Operations {
    /// Takes all out, and leaves what they were in.
    pub(crate) fn take(from: &mut Vec<Operation>) -> Self {
        let others = if from.len() > 1 { from.drain(1..).collect() } else { VecDeque::new() };
        Self { first: from.pop(), others }
    }

    fn len(&self) -> usize {
        self.others.len() + usize::from(self.first.is_some())
    }

    fn next(&mut self) -> Option<Operation> {
        self.first.take().or_else(|| self.others.pop_front())
    }
}

impl AfterCommit {
    /// Takes what a committed attempt has left, if anything. An explicit owner keeps the locks that were acquired,
    /// unless it is gone.
    pub(crate) fn take(
        descriptor: &mut Descriptor,
        explicit: Option<&Account>,
        underway: Option<Underway>,
    ) -> Option<Self> {
        let (owner, operations, acquired) = descriptor.take_operations(explicit);
        if operations.len() == 0 && acquired.is_empty() {
            return None;
        }
        descriptor.slot.counters.operations.add(operations.len() as u64);
        let owner = owner?;
        Some(Self { owner, operations, running: None, acquired, underway, panic: None })
    }

    /// True if [`poll`](Self::poll) goes to the end, and needs no waker.
    pub(crate) fn is_blocking(&self) -> bool {
        let is_task = |operation: &Operation| matches!(operation, Operation::Task(_));
        self.running.is_none() && !self.operations.first.iter().chain(&self.operations.others).any(is_task)
    }

    /// Goes on with the operations, in their order.
    pub(crate) fn poll(&mut self, waker: &dyn Fn() -> Waker) -> Poll<Result<(), Panic>> {
        loop {
            let ended = if let Some(running) = &mut self.running {
                let waker = waker();
                let mut cx = Context::from_waker(&waker);
                match context::in_operation(self.owner, || running.as_mut().poll(&mut cx)) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(result) => {
                        self.running = None;
                        result
                    }
                }
            } else {
                match self.operations.next() {
                    None => break,
                    Some(Operation::Task(start)) => {
                        self.running = Some(start(self.owner));
                        continue;
                    }
                    Some(Operation::Blocking(work)) => run_blocking(self.owner, work),
                }
            };
            if let Err(panic) = ended {
                self.panic.get_or_insert(panic);
            }
        }
        for lock in self.acquired.drain(..) {
            lock.release_if_held(self.owner);
        }
        self.underway = None;
        Poll::Ready(self.panic.take().map_or(Ok(()), Err))
    }

    /// Finishes on a thread of its own what nobody waits for any more.
    pub(crate) fn carry_through(self) {
        struct Rest(AfterCommit);
        impl Future for Rest {
            type Output = Result<(), Panic>;
            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                self.0.poll(&|| cx.waker().clone())
            }
        }
        // The one that would have been told of a panic has gone; the objects are poisoned.
        enact_sync::thread::spawn(move || drop(block_on(Rest(self))));
    }
}

/// Runs a blocking operation here or, on a thread with other duties, where that does no harm.
fn run_blocking(owner: OwnerId, work: Box<dyn FnOnce(OwnerId) -> Result<(), Panic> + Send>) -> Result<(), Panic> {
    let Some(hand_over) = context::hand_over() else { return work(owner) };
    let (mut work, mut result) = (Some(work), Ok(()));
    let handed_over = catch_unwind(AssertUnwindSafe(|| {
        hand_over(Box::new(|| {
            if let Some(work) = work.take() {
                result = work(owner);
            }
        }));
    }));
    // If it was not run, its objects would stay locked for ever.
    if let Some(work) = work {
        result = work(owner);
    }
    result.and(handed_over)
}
