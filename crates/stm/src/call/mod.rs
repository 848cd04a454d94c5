//! Transactions as a whole: attempts until one commits, sleeping, waiting, running alone, what follows the commit.

mod awake;
mod block;
mod engine;
mod limit;
mod timer;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

pub(crate) use block::block_on;
use enact_sync::Arc;
pub use limit::{GaveUp, Limited};
use smallvec::SmallVec;

use crate::defer::{AfterCommit, Sleep};
use crate::fate::Fate;
use crate::hooks::Retracted;
use crate::lock::{Account, Owner};
use crate::serial_lock::{Priority, Ticket, Turn};
use crate::sleepers::{Claim, Sleeper};
use crate::transaction::{Abort, Descriptor, Failed, Kept, Mode, Tx};

/// A transaction that has not run yet: [`run`](Self::run) it on this thread, or `.await` it.
///
/// Made by [`atomically`] and [`try_atomically`].
///
/// # Cancel safety
/// Dropping the future before it is ready rolls the transaction back, unless it has committed already and waits for its
/// deferred operations: those are then carried through on a thread of their own.
#[must_use = "a transaction does nothing until it is run or awaited"]
// The output is a parameter, and nothing here asks for `B: Body<'env>`, because the compiler forgets `'env` when it finds
// out whether a task that awaits a transaction is `Send`: it could not show the bound for every `'env`.
pub struct Atomically<'env, B, O> {
    body: B,
    progress: Progress<O>,
    _env: PhantomData<fn(&'env ()) -> &'env ()>,
}

/// How far a transaction has come.
enum Progress<O> {
    /// Nothing has run and nothing special was asked for: most transactions commit in the first attempt from here, and
    /// never need a course.
    Fresh,
    UnderWay(Box<Course<O>>),
    Over,
}

/// What a transaction knows from one attempt to the next.
struct Course<O> {
    owner: Option<Account>,
    dependency: Option<Fate>,
    stage: Stage<O>,
    /// Attempts so far, and how many of them were lost to others.
    attempts: u32,
    losses: u32,
    mode: Mode,
    may_read_past: bool,
    kept: Kept,
    priority: Option<Priority>,
    ticket: Option<Ticket>,
    /// On the locks that the next attempt has waited for awake.
    claims: Vec<Claim>,
    /// What the ticket is good for, while an attempt runs.
    turn: Turn,
    is_irrevocable: bool,
    /// The transaction may be given up.
    is_limited: bool,
}

/// Where a transaction is between two steps.
enum Stage<O> {
    /// The next step is an attempt.
    Ready,
    /// Sleeps until something it has read changes.
    Asleep(Nap),
    /// The closure has ended well; its commit waits for the dependency or for the serial lock.
    Finished {
        descriptor: Box<Descriptor>,
        verdict: Verdict<O>,
    },
    /// Waits for its turn at the serial lock before it tries again.
    Queued,
    /// Has committed, and its deferred operations run.
    Committed {
        after: AfterCommit,
        output: O,
    },
    Over,
}

struct Nap {
    sleeper: Arc<Sleeper>,
    addresses: SmallVec<[usize; 2]>,
    deadline: Option<Instant>,
    /// Set when a task first waits for the deadline.
    alarm: Option<timer::Alarm>,
    /// Set while the sleep of an operation can become one of a circle.
    circle: Option<Sleep>,
}

/// What a closure that has ended wants.
#[derive(Debug)]
pub enum Verdict<O> {
    /// Publish everything.
    Commit(O),
    /// Publish nothing, and give this.
    RollBack(O),
}

/// What a transaction runs: a closure, seen through the way in which it may end. Sealed in effect: made by [`atomically`]
/// and [`try_atomically`] only.
pub trait Body<'env> {
    /// What the transaction gives.
    type Output;

    #[doc(hidden)]
    fn attempt(&self, tx: &mut Tx<'_, 'env>) -> Result<Verdict<Self::Output>, Abort>;
}

/// A closure that ends well or is run again.
#[derive(Debug)]
pub struct Total<F, R>(F, PhantomData<fn() -> R>);

/// A closure that may also end with an error of the user.
#[derive(Debug)]
pub struct Partial<F, R, E>(F, PhantomData<fn() -> (R, E)>);

impl<'env, F, R> Body<'env> for Total<F, R>
where
    F: for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Abort>,
{
    type Output = R;

    #[inline]
    fn attempt(&self, tx: &mut Tx<'_, 'env>) -> Result<Verdict<R>, Abort> {
        (self.0)(tx).map(Verdict::Commit)
    }
}

impl<'env, F, R, E> Body<'env> for Partial<F, R, E>
where
    F: for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Failed<E>>,
{
    type Output = Result<R, E>;

    #[inline]
    fn attempt(&self, tx: &mut Tx<'_, 'env>) -> Result<Verdict<Result<R, E>>, Abort> {
        match (self.0)(tx) {
            Ok(value) => Ok(Verdict::Commit(Ok(value))),
            Err(Failed::Error(error)) => Ok(Verdict::RollBack(Err(error))),
            Err(Failed::Abort(abort)) => Err(abort),
        }
    }
}

/// A transaction over everything that `body` reads and writes: all of it happens at one moment, or none.
///
/// `body` may run several times; only the last attempt counts. It must have no side effects besides those on transactional
/// variables. The compiler refuses an assignment to a captured variable (`Fn`). It cannot refuse the rest: a `Cell`, a
/// `Mutex` or an atomic is changed by every attempt, and not undone. Use [`Tx::defer`] for input and output, and
/// [`Tx::attempt`] for the number of the attempt. Transactions are serializable, in an order that respects real time;
/// what running code sees is one consistent state, also in attempts that will fail. A transaction that has lost to
/// others many times gets priority and finally runs alone, so each ends.
///
/// A panic in `body` rolls the transaction back and goes on to the caller.
///
/// # Example
/// ```
/// use enact_stm::{TCell, atomically};
/// let (a, b) = (TCell::new(70_i64), TCell::new(30_i64));
/// let sum = atomically(|tx| {
///     let amount = 20;
///     tx.update(&a, |balance| balance - amount)?;
///     tx.update(&b, |balance| balance + amount)?;
///     Ok(tx.read(&a)? + tx.read(&b)?)
/// })
/// .run();
/// assert_eq!(sum, 100);
/// ```
#[inline]
pub fn atomically<'env, R, F>(body: F) -> Atomically<'env, Total<F, R>, R>
where
    F: for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Abort>,
{
    Atomically::new(Total(body, PhantomData))
}

/// As [`atomically`], for a `body` that may fail: an error rolls everything back and is given to the caller.
///
/// # Example
/// ```
/// use enact_stm::{TVar, try_atomically};
/// let text = TVar::new(String::from("4x"));
/// let number = try_atomically(|tx| Ok(tx.read(&text)?.parse::<u32>()?)).run();
/// assert!(number.is_err());
/// ```
#[inline]
pub fn try_atomically<'env, R, E, F>(body: F) -> Atomically<'env, Partial<F, R, E>, Result<R, E>>
where
    F: for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Failed<E>>,
{
    Atomically::new(Partial(body, PhantomData))
}

/// Reads one consistent state, as of now, without a log and without a conflict: it never aborts and delays nobody.
///
/// In a tentative turn of an actor, it first waits until the turn is definitive.
///
/// # Panics
/// If `body` writes, waits, defers or asks for a version. Inside a transaction.
///
/// # Example
/// ```
/// use enact_stm::{TCell, snapshot};
/// let accounts: Vec<_> = (0..10).map(TCell::new).collect();
/// let sum = snapshot(|tx| accounts.iter().map(|account| tx.read(account)).sum::<Result<i32, _>>());
/// assert_eq!(sum, 45);
/// ```
pub fn snapshot<'env, R, F>(body: F) -> R
where
    F: for<'t> FnOnce(&mut Tx<'t, 'env>) -> Result<R, Abort>,
{
    let mut attempt = engine::Attempt::enter();
    if attempt.descriptor().is_dependent {
        attempt.leave();
        block::await_dependency();
        attempt.enter_again();
    }
    let descriptor = attempt.descriptor();
    (descriptor.mode, descriptor.attempt, descriptor.extras.owner) = (Mode::SnapshotOnly, 1, None);
    attempt.descriptor().begin();
    let result = body(&mut Tx::new(attempt.descriptor()));
    let counters = &attempt.descriptor().slot.counters;
    counters.snapshots.add_one();
    counters.read_only_commits.add_one();
    if attempt.descriptor().is_busy() {
        attempt.leave();
        attempt.descriptor().decide_commit();
    }
    attempt.finish();
    result.unwrap_or_else(|abort| unreachable!("a snapshot has no reason to abort: {abort:?}"))
}

/// Runs `body` irrevocably: alone, once, sure to commit, so that it may do what cannot be undone.
///
/// Waits for its turn, and until no deferred operation is under way; meanwhile others commit, apart from transactions that
/// would start new operations. While `body` runs, others can run and read, and their commits wait. A commit that waits
/// comes before all that ask to run alone after it. This is the last resort: [`Tx::defer`] keeps others going.
///
/// # Panics
/// If `body` asks to wait, or needs a lock that is held under an explicit [`Owner`]; if called inside a transaction or
/// inside a deferred operation, which it would wait for.
///
/// # Example
/// ```
/// use enact_stm::{TCell, synchronized};
/// let launched = TCell::new(false);
/// synchronized(|tx| {
///     println!("this line is printed once");
///     tx.write(&launched, true)
/// });
/// assert!(launched.into_inner());
/// ```
pub fn synchronized<'env, R, F>(body: F) -> R
where
    F: for<'t> FnOnce(&mut Tx<'t, 'env>) -> Result<R, Abort>,
{
    let body = std::cell::RefCell::new(Some(body));
    atomically(|tx| {
        tx.irrevocable()?;
        let body = body.borrow_mut().take().expect("an irrevocable transaction runs once");
        body(tx)
    })
    .run()
}

impl<'env, B: Body<'env, Output = O>, O> Atomically<'env, B, O> {
    #[inline]
    fn new(body: B) -> Self {
        Self { body, progress: Progress::Fresh, _env: PhantomData }
    }

    /// Runs the transaction on this thread, sleeping while it has to wait, and then its deferred operations.
    ///
    /// # Panics
    /// Inside a transaction, and if the closure or a deferred operation panics.
    #[inline]
    pub fn run(mut self) -> O {
        self.drive_blocking().unwrap_or_else(Retracted::unwind)
    }

    /// Lets the transaction acquire and release locks for `owner`, instead of for itself alone.
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.progress.course().owner = Some(owner.account().clone());
        self
    }

    pub(crate) fn depending_on(mut self, fate: Fate) -> Self {
        self.progress.course().dependency = Some(fate);
        self
    }

    pub(crate) fn run_dependent(mut self) -> Result<O, Retracted> {
        self.drive_blocking()
    }

    pub(crate) fn poll_dependent(&mut self, cx: &mut Context<'_>) -> Poll<Result<O, Retracted>> {
        self.drive(engine::Patience::Task, &|| cx.waker().clone())
    }
}

impl<'env, B: Body<'env, Output = O>, O> Future for Atomically<'env, B, O> {
    type Output = O;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O> {
        self.get_mut().poll_dependent(cx).map(|result| result.unwrap_or_else(Retracted::unwind))
    }
}

// The closure and the output are never pinned: they are moved like any value.
impl<B, O> Unpin for Atomically<'_, B, O> {}

impl<O> Progress<O> {
    /// The course, which begins with this call if there was none.
    #[cold]
    fn course(&mut self) -> &mut Course<O> {
        if let Self::Fresh = self {
            *self = Self::UnderWay(Box::default());
        }
        match self {
            Self::UnderWay(course) => course,
            Self::Fresh | Self::Over => panic!("a transaction was polled after it was over"),
        }
    }
}

impl<O> Default for Course<O> {
    fn default() -> Self {
        Self {
            owner: None,
            dependency: None,
            stage: Stage::Ready,
            attempts: 0,
            losses: 0,
            mode: Mode::Logged,
            may_read_past: true,
            kept: Kept::default(),
            priority: None,
            ticket: None,
            claims: Vec::new(),
            turn: Turn::Open,
            is_irrevocable: false,
            is_limited: false,
        }
    }
}

impl<O> Drop for Course<O> {
    fn drop(&mut self) {
        self.abandon();
        self.step_down();
    }
}

impl<O> Course<O> {
    /// Ends what is under way.
    #[cold]
    fn abandon(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Ready | Stage::Queued | Stage::Over => {}
            Stage::Asleep(nap) => drop(nap),
            Stage::Finished { descriptor, .. } => drop(engine::Attempt::resume(descriptor)),
            Stage::Committed { after, .. } => after.carry_through(),
        }
    }
}

impl<B, O> fmt::Debug for Atomically<'_, B, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Atomically").finish_non_exhaustive()
    }
}
