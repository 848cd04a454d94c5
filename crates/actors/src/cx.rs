//! What a turn can do beside changing its actor's state.
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::task::Poll;
use std::time::Duration;

use enact_stm::Tx;
use enact_stm::hooks::Decision;
use enact_sync::unmodelled::Arc;

use crate::cell::{ActorCell, Signal};
use crate::error::{Exit, ExitReason};
use crate::turn::{self, Call, Lease, Value};
use crate::{Actor, ActorId, Forward, Handle, Identity, Promise, Spec, Timer, frame, life, scheduler, tentative};

/// The actor as its own turn sees it.
///
/// A handler that needs it takes `cx: &Cx<Self>` after `self`; a cooperative handler takes `cx: Cx<Self>` in place of
/// `self` and reaches the state by [`with`](Self::with).
///
/// ```
/// # use enact_actors::*;
/// struct Stock {
///     items: u32,
/// }
/// #[actor]
/// impl Stock {
///     fn put(&mut self, items: u32) {
///         self.items += items;
///     }
///     // While this waits for stock, `put` and other orders are taken.
///     async fn order(cx: Cx<Self>, items: u32) -> u32 {
///         cx.wait_for(|stock| stock.items >= items).await;
///         cx.with(|stock| {
///             stock.items -= items;
///             stock.items
///         })
///     }
/// }
/// let system = System::builder().workers(2).build()?;
/// let stock = system.spawn(Stock { items: 0 });
/// let left = stock.order(3);
/// stock.tell().put(2);
/// stock.tell().put(2);
/// assert_eq!(left.wait(), Ok(1));
/// # Ok::<(), std::io::Error>(())
/// ```
#[repr(transparent)]
pub struct Cx<A: Actor> {
    cell: Arc<ActorCell>,
    /// Invariant: the state is of this type, and of no sub- or supertype.
    actor: PhantomData<fn(A) -> A>,
}

impl<A: Actor> Cx<A> {
    pub(crate) fn new(cell: Arc<ActorCell>) -> Self {
        Self { cell, actor: PhantomData }
    }

    /// This actor's id.
    #[must_use]
    pub fn id(&self) -> ActorId {
        self.cell.id()
    }

    /// This actor's name and id.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.cell.identity().clone()
    }

    /// A handle of this actor. While somebody keeps it, the actor lives.
    #[must_use]
    pub fn handle(&self) -> A::Ref {
        A::Ref::from(Handle::new(&self.cell))
    }

    /// Lends the state to `f`: how a cooperative handler reads and changes it.
    ///
    /// Between two calls with an await in between, other turns may have changed it.
    ///
    /// # Panics
    /// Outside a turn of this actor (in a task that the turn has started elsewhere, say), and in a turn that has the
    /// state already: a handler with `self`, or another `with`.
    pub fn with<R>(&self, f: impl FnOnce(&mut A) -> R) -> R {
        let result = f(&mut self.lease("with"));
        self.cell.announce_change();
        result
    }

    fn lease(&self, what: &str) -> Lease<A> {
        self.assert_turn(what);
        Lease::take_in_turn(&self.cell).unwrap_or_else(|| {
            panic!("`{what}` of {} was called in a turn that has the state already", self.cell.identity())
        })
    }

    fn assert_turn(&self, what: &str) {
        let is_turn = frame::is_turn_of(self.id());
        assert!(is_turn, "`{what}` of {} was called outside a turn of that actor", self.cell.identity());
    }

    /// Lets others go first: in a cooperative handler, whatever is in the mailbox; in one that holds the actor, other
    /// actors.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Waits until `condition` holds; when this returns it does, until the next await.
    ///
    /// The condition is looked at now, and again after each turn that may have changed the state: nothing is polled.
    ///
    /// # Panics
    /// As [`with`](Self::with): only a cooperative handler can wait for others to change the state.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Complexity
    /// Each turn of the actor costs one look per waiting turn.
    pub async fn wait_for(&self, mut condition: impl FnMut(&A) -> bool + Send) {
        poll_fn(|cx| {
            if condition(&self.lease("wait_for")) {
                return Poll::Ready(());
            }
            self.cell.wake_on_change(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Makes a new actor, a child of this one: its failure becomes this one's if it
    /// [escalates](crate::OnPanic::Escalate). A child lives on when its parent stops; [`link`](Self::link) the two to
    /// end both.
    pub fn spawn<B: Actor>(&self, spec: impl Into<Spec<B>>) -> B::Ref {
        scheduler::spawn(self.cell.scheduler(), spec.into(), Some(&self.cell))
    }

    /// As [`spawn`](Self::spawn), if `tx` commits: the handle can be used at once, the actor begins at the commit. If the
    /// attempt fails, it never was; messages to it fail with [`ActorError::Stopped`](crate::ActorError::Stopped).
    pub fn spawn_within<B: Actor>(&self, tx: &mut Tx<'_, '_>, spec: impl Into<Spec<B>>) -> B::Ref {
        scheduler::spawn_within(tx, self.cell.scheduler(), spec.into(), Some(&self.cell))
    }

    /// Has the next turn begin with `state`; the rest of this one keeps what it has. In a cooperative handler, the turn
    /// ends here at its next await.
    ///
    /// # Panics
    /// Outside a turn of this actor.
    pub fn become_next(&self, state: A) {
        self.assert_turn("become_next");
        let cell = Arc::clone(&self.cell);
        tentative::perform(move || cell.set_next(Box::new(state)));
    }

    /// As [`become_next`](Self::become_next), if `tx` commits.
    ///
    /// # Panics
    /// Outside a turn of this actor.
    pub fn become_within(&self, tx: &mut Tx<'_, '_>, state: A) {
        self.assert_turn("become_within");
        let cell = Arc::clone(&self.cell);
        tentative::perform_within(tx, move || cell.set_next(Box::new(state)), || ());
    }

    /// Waits until this turn is definitive: at once, unless its message belongs to a transaction that is still open. If
    /// that is aborted, the turn ends here.
    ///
    /// For what cannot be taken back, such as input and output of one's own.
    ///
    /// # Panics
    /// Outside a turn of this actor: a task that the turn has started elsewhere would not wait for it.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn definitive(&self) {
        poll_fn(|cx| {
            self.assert_turn("definitive");
            match tentative::poll(cx.waker()) {
                Poll::Ready(Decision::Committed) => Poll::Ready(()),
                // The thread that runs this turn ends it.
                Poll::Ready(Decision::Aborted) | Poll::Pending => Poll::Pending,
            }
        })
        .await;
    }

    /// Ends this actor after the turn that it is in. What is in the mailbox, and suspended turns, fail with
    /// [`ActorError::Stopped`](crate::ActorError::Stopped); this turn still answers.
    ///
    /// In an asynchronous handler, the turn ends at its next await.
    pub fn stop(&self) {
        let cell = Arc::clone(&self.cell);
        tentative::perform(move || cell.signal(Signal::Stop(ExitReason::Stopped)));
    }

    /// Answers with a value, in a handler that may also [forward](Forward).
    pub fn reply<T: Send + 'static>(&self, value: T) -> Forward<T> {
        Forward::new(move |reply| reply.settle(Ok(value)))
    }

    /// Answers with whatever `promise` will bring: the caller's promise is kept together with it.
    ///
    /// With [`Promise::pair`], this is how a later turn gives the answer.
    pub fn forward<T: Send + 'static>(&self, promise: Promise<T>) -> Forward<T> {
        Forward::to_promise(promise)
    }

    /// Runs `f` as a turn of this actor when `delay` has passed.
    ///
    /// The actor lives until then, even without handles. The time is tokio's.
    pub fn after(&self, delay: Duration, f: impl FnOnce(&mut A, &Self) + Send + 'static) -> Timer {
        let timer = self.cell.add_timer(false);
        let own = timer.clone();
        // The alarm owns the actor, which may have nothing else to live by.
        let cell = Arc::clone(&self.cell);
        let unused = timer.clone();
        let arm = move || {
            let clock = cell.scheduler().tokio().clone();
            own.clone().arm(&clock, delay, move || {
                let run = move |_: After, state: &mut Lease<A>, cx: &Self| {
                    if own.finish() {
                        f(state, cx);
                    }
                    Value(())
                };
                cell.push_own(turn::plain(After, run));
            });
        };
        tentative::perform_or(arm, move || _ = unused.finish());
        timer
    }

    /// Runs `f` as a turn of this actor again and again, each time when `period` has passed since its last run.
    ///
    /// Ends with the actor; it does not keep it alive. The time is tokio's.
    pub fn every(&self, period: Duration, f: impl FnMut(&mut A, &Self) + Send + 'static) -> Timer {
        let timer = self.cell.add_timer(true);
        let (own, unused) = (timer.clone(), timer.clone());
        let cx = Self::new(Arc::clone(&self.cell));
        tentative::perform_or(move || cx.repeat(&own, period, f), move || _ = unused.finish());
        timer
    }

    fn repeat(&self, timer: &Timer, period: Duration, mut f: impl FnMut(&mut A, &Self) + Send + 'static) {
        let own = timer.clone();
        let cell = Arc::downgrade(&self.cell);
        timer.arm(self.cell.scheduler().tokio(), period, move || {
            let Some(cell) = cell.upgrade() else { return };
            let run = move |_: Every, state: &mut Lease<A>, cx: &Self| {
                if own.is_pending() {
                    f(state, cx);
                    cx.repeat(&own, period, f);
                }
                Value(())
            };
            cell.push_own(turn::plain(Every, run));
        });
    }

    /// Runs `f` as a turn of this actor when `other` has ended; soon, if it has already.
    ///
    /// Does not keep either alive.
    pub fn watch<B: Actor>(&self, other: &Handle<B>, f: impl FnOnce(&mut A, &Self, Exit) + Send + 'static) {
        let cell = Arc::downgrade(&self.cell);
        let end = other.watch();
        tentative::perform(move || {
            end.on_settled(move |exit| {
                if let (Ok(exit), Some(cell)) = (exit, cell.upgrade()) {
                    let run = move |_: Watch, state: &mut Lease<A>, cx: &Self| {
                        f(state, cx, exit);
                        Value(())
                    };
                    cell.push_own(turn::plain(Watch, run));
                }
            });
        });
    }

    /// Ties the two actors' failures: if either ends by a failure ([`ExitReason::is_failure`]), so does the other. An
    /// orderly end of one leaves the other alone.
    pub fn link<B: Actor>(&self, other: &Handle<B>) {
        let (own, other) = (Arc::clone(&self.cell), Arc::clone(other.cell()));
        tentative::perform(move || life::link(&own, &other));
    }

    /// Undoes [`link`](Self::link).
    pub fn unlink<B: Actor>(&self, other: &Handle<B>) {
        let (own, other) = (Arc::clone(&self.cell), Arc::clone(other.cell()));
        tentative::perform(move || life::unlink(&own, &other));
    }
}

/// Turns that an actor owes itself, by name.
struct After;
struct Every;
struct Watch;

impl<A> Call<A> for After {
    const NAME: &'static str = "after";
}

impl<A> Call<A> for Every {
    const NAME: &'static str = "every";
}

impl<A> Call<A> for Watch {
    const NAME: &'static str = "watch";
}

impl<A: Actor> fmt::Debug for Cx<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cx({})", self.cell.identity())
    }
}
