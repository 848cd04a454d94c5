//! Handles: the only way to an actor.
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::task::Poll;

use enact_stm::hooks::{self, Fate};
use enact_sync::unmodelled::Arc;

use crate::cell::{ActorCell, CellRef, Signal};
use crate::deadlock::{Owner, Wait};
use crate::error::{Exit, ExitReason};
use crate::parker::Parker;
use crate::turn::{self, Call, Duty, Lease, Message, Post, Reply, Told, Value};
use crate::within::{Ask, Within};
use crate::{Actor, ActorError, ActorId, Cx, Forward, Identity, Promise, frame, scheduler, tentative};

/// What every handle can do, whatever its actor's type; the handles made by [`#[actor]`](macro@crate::actor) give
/// access to it.
///
/// A handle is one pointer. Clones are equal and address the same actor. An actor whose last handle is dropped stops
/// when its mailbox is empty, no turn is under way and no delayed one is to come ([`Spec::keep_alive`] prevents it).
///
/// ```
/// # use enact_actors::*;
/// # struct Counter { n: i64 }
/// # #[actor] impl Counter { fn add(&mut self, k: i64) { self.n += k } }
/// # let system = System::builder().workers(1).build()?;
/// let counter: CounterRef = system.spawn(Counter { n: 1 });
/// counter.tell().add(2);
/// // Infrastructure can reach the state without a handler; FIFO with the messages above.
/// let n = counter.run(|counter, _cx| counter.n);
/// assert_eq!(n.wait(), Ok(3));
///
/// let exit = counter.watch();
/// counter.stop();
/// assert_eq!(exit.wait().unwrap().reason, ExitReason::Stopped);
/// assert!(matches!(counter.add(1).wait(), Err(ActorError::Stopped { .. })));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// [`Spec::keep_alive`]: crate::Spec::keep_alive
pub struct Handle<A: Actor>(CellRef, PhantomData<fn(A) -> A>);

/// What became of a one-way message at the mailbox.
///
/// It may be ignored: a sender that must know whether a message was taken up asks for the answer instead.
///
/// ```
/// # use enact_actors::*;
/// # struct Log; #[actor] impl Log { fn line(&mut self, _text: String) {} }
/// # let system = System::builder().workers(1).build()?;
/// # let log = system.spawn(Log);
/// log.tell().line("one".into());
/// assert!(log.tell().line("two".into()).accepted().is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent(Result<(), Box<ActorError>>);

impl Sent {
    #[inline]
    fn told(sent: Result<(), Box<ActorError>>) -> Self {
        if let Err(error) = &sent {
            log_refusal(error);
        }
        Self(sent)
    }

    /// Whether the message is in the mailbox.
    ///
    /// # Errors
    /// [`ActorError::Stopped`] or [`ActorError::Full`] if it was refused, [`ActorError::Deadlock`] if the wait for room
    /// could never have ended.
    pub fn accepted(self) -> Result<(), ActorError> {
        self.0.map_err(|error| *error)
    }
}

#[cold]
fn log_refusal(error: &ActorError) {
    tracing::debug!(%error, "a one-way message was refused");
}

impl<A: Actor> Handle<A> {
    #[inline]
    pub(crate) fn new(cell: &Arc<ActorCell>) -> Self {
        Self(CellRef::new(cell), PhantomData)
    }

    pub(crate) fn cell(&self) -> &Arc<ActorCell> {
        &self.0
    }

    /// The actor's id.
    #[must_use]
    pub fn id(&self) -> ActorId {
        self.0.id()
    }

    /// The actor's name and id, as they appear in errors and logs.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.0.identity().clone()
    }

    /// Runs `f` as a turn of the actor, in order with this sender's messages.
    ///
    /// For infrastructure that works with any actor; within a program, declare a handler.
    pub fn run<R: Send + 'static>(&self, f: impl FnOnce(&mut A, &Cx<A>) -> R + Send + 'static) -> Promise<R> {
        struct Run;
        impl<A> Call<A> for Run {
            const NAME: &'static str = "run";
        }
        self.ask(turn::plain(Run, move |_: Run, state: &mut Lease<A>, cx: &Cx<A>| Value(f(state, cx))))
    }

    /// Has the actor stop when it has taken up what is in its mailbox now, and its turns under way have ended. What is
    /// sent to it from now on fails with [`ActorError::Stopped`].
    pub fn stop(&self) {
        let cell = Arc::clone(&self.0);
        tentative::perform(move || cell.schedule(cell.mailbox.drain()));
    }

    /// Has the actor stop after the turn that it is in. What is in its mailbox, and the turns that are suspended, fail
    /// with [`ActorError::Stopped`].
    pub fn kill(&self) {
        let cell = Arc::clone(&self.0);
        tentative::perform(move || cell.signal(Signal::Stop(ExitReason::Stopped)));
    }

    /// The promise of the actor's end; kept at once if it has ended.
    pub fn watch(&self) -> Promise<Exit> {
        self.0.watch()
    }

    /// Whether the actor has ended. One that has not may do so at any moment.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.life().has_ended()
    }

    /// Sends a message that is to be answered.
    #[doc(hidden)]
    #[inline]
    pub fn ask<M: Message<A>>(&self, message: M) -> Promise<M::Value> {
        let (promise, resolver) = Promise::asking(self.id());
        // Whether it was accepted is for the promise to say.
        let _accepted = self.send(message, Reply::to(resolver), tentative::dependency());
        promise
    }

    /// Sends a message of a transaction that is to be answered.
    #[doc(hidden)]
    pub fn ask_within<M: Message<A>>(&self, within: &Within<'_>, message: M) -> Ask<M::Value> {
        let (promise, resolver) = Promise::asking(self.id());
        let _accepted = self.send(message, Reply::to(resolver), Some(within.fate.clone()));
        Ask::new(promise)
    }

    /// Sends a message without wanting an answer.
    #[doc(hidden)]
    #[inline]
    pub fn tell<M: Message<A>>(&self, message: M) -> Sent {
        Sent::told(self.send(message, Told, tentative::dependency()))
    }

    /// Sends a message of a transaction without wanting an answer.
    #[doc(hidden)]
    pub fn tell_within<M: Message<A>>(&self, within: &Within<'_>, message: M) -> Sent {
        Sent::told(self.send(message, Told, Some(within.fate.clone())))
    }

    /// Has the actor answer in the place of the turn that returns this.
    #[doc(hidden)]
    pub fn forward<M: Message<A>>(&self, message: M) -> Forward<M::Value> {
        let target = self.clone();
        Forward::new(move |reply| {
            reply.now_owed_by(Owner::Actor(target.id()));
            let _accepted = target.send(message, reply, tentative::dependency());
        })
    }

    /// Has the message taken up before this returns.
    #[doc(hidden)]
    pub fn call<M: Message<A>>(&self, message: M) -> Result<M::Value, ActorError> {
        assert!(
            !hooks::is_in_a_transaction(),
            "`call` was used inside a transaction, whose own messages are answered after its commit only: use `within`"
        );
        tentative::wait_until_definitive();
        let (promise, resolver) = Promise::asking(self.id());
        match if self.is_near() { self.0.mailbox.claim() } else { None } {
            Some(activation) => _ = message.post(Reply::to(resolver), Post::claimed(&self.0, activation)),
            None => _ = self.send(message, Reply::to(resolver), tentative::dependency()),
        }
        block_on(promise)
    }

    /// Whether a call may run on this thread: it is in a turn of the same system, and has enough stack for another.
    fn is_near(&self) -> bool {
        frame::is_turn_in(self.cell().scheduler()) && scheduler::has_room_for_a_turn()
    }

    #[inline]
    fn send<M: Message<A>>(
        &self,
        message: M,
        duty: impl Duty<M::Value>,
        dependency: Option<Fate>,
    ) -> Result<(), Box<ActorError>> {
        message.post(duty, Post::sending(&self.0, dependency))
    }
}

/// Waits for `promise` on this thread, handing its worker's queue over if it has one.
fn block_on<T: Send + 'static>(mut promise: Promise<T>) -> Result<T, ActorError> {
    let parker = Arc::new(Parker::default());
    let waker = Arc::clone(&parker).into();
    loop {
        let source = promise.source();
        if let Poll::Ready(outcome) = promise.poll_cell(&waker) {
            return outcome.map_err(|error| *error);
        }
        if let Some(source) = source
            && let Some(error) = scheduler::block(Wait::Answer(source), &parker)
        {
            return Err(error);
        }
    }
}

impl<A: Actor> Clone for Handle<A> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<A: Actor> PartialEq for Handle<A> {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl<A: Actor> Eq for Handle<A> {}

impl<A: Actor> Hash for Handle<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl<A: Actor> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.identity())
    }
}
