//! Messages and the turns they become.
//!
//! A message is a closure over its arguments, with the reply it owes. Three kinds, chosen by the handler's signature:
//! *plain* runs to completion; *held* is a future that owns the state until it ends, the actor being held meanwhile;
//! *cooperative* is a future beside which the actor takes other messages. Each answers with a value or hands the duty
//! to answer on.
use std::any::Any;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use enact_stm::hooks::{Decision, Fate};
use enact_sync::unmodelled::Arc;

use crate::cell::{ActorCell, Stored};
use crate::deadlock::Owner;
use crate::error::panic_text;
use crate::{Actor, ActorError, Cx, Forward, Identity, Resolver};

/// The duty to answer; none if the message was told.
pub struct Reply<T: Send + 'static>(Option<Resolver<T>>);

impl<T: Send + 'static> Reply<T> {
    pub(crate) fn to(resolver: Resolver<T>) -> Self {
        Self(Some(resolver))
    }

    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn settle(self, outcome: Result<T, ActorError>) {
        if let Some(resolver) = self.0 {
            resolver.settle(outcome);
        }
    }

    pub(crate) fn now_owed_by(&self, owner: Owner) {
        if let Some(resolver) = &self.0 {
            resolver.now_owed_by(owner);
        }
    }
}

/// What a handler returns, seen as a way to answer.
pub trait Answer {
    /// What the caller gets.
    type Value: Send + 'static;

    /// Answers, or has somebody else answer.
    fn give(self, reply: Reply<Self::Value>);
}

/// The answer of a handler that returns a value.
pub struct Value<T>(pub T);

impl<T: Send + 'static> Answer for Value<T> {
    type Value = T;

    fn give(self, reply: Reply<T>) {
        reply.settle(Ok(self.0));
    }
}

impl<T: Send + 'static> Answer for Forward<T> {
    type Value = T;

    fn give(self, reply: Reply<T>) {
        self.hand_on(reply);
    }
}

/// A call of a handler, not yet sent.
pub trait Message<A: Actor>: Send + 'static {
    /// What the caller gets.
    type Value: Send + 'static;

    /// The message with the reply it owes.
    fn owing(self, reply: Reply<Self::Value>) -> Envelope<A>;
}

/// A message in a mailbox.
pub struct Envelope<A: Actor> {
    pub(crate) handler: &'static str,
    pub(crate) turn: Turn<A>,
    /// Without its commit, the message was never sent.
    pub(crate) dependency: Option<Fate>,
}

pub(crate) enum Turn<A: Actor> {
    Plain(Box<dyn PlainTurn<A>>),
    Held(Box<dyn Start<Lease<A>, A>>),
    Cooperative(Box<dyn Start<(), A>>),
}

impl<A: Actor> Envelope<A> {
    fn new(handler: &'static str, turn: Turn<A>) -> Self {
        Self { handler, turn, dependency: None }
    }

    /// What the message depends on, as long as that is open.
    pub(crate) fn open_fate(&self) -> Option<Fate> {
        self.dependency.clone().filter(|fate| fate.decision().is_none())
    }

    /// Whether what the message depends on was aborted.
    pub(crate) fn is_retracted(&self) -> bool {
        self.dependency.as_ref().is_some_and(|fate| fate.decision() == Some(Decision::Aborted))
    }

    /// Answers the message with an error instead of taking it up.
    pub(crate) fn refuse(self, error: ActorError) {
        // Arguments are the user's: a destructor that panics ends here.
        let _dropped = catch_unwind(AssertUnwindSafe(|| match self.turn {
            Turn::Plain(turn) => turn.refuse(error),
            Turn::Held(turn) => turn.refuse(error),
            Turn::Cooperative(turn) => turn.refuse(error),
        }));
    }
}

/// What a panicking turn said.
pub(crate) struct Panic(pub(crate) Arc<str>);

impl Panic {
    fn from_payload(payload: &(dyn Any + Send)) -> Self {
        Self(panic_text(payload))
    }

    pub(crate) fn as_error(&self, actor: &Identity) -> ActorError {
        ActorError::Panicked { actor: actor.clone(), text: Arc::clone(&self.0) }
    }
}

/// Runs `f`; a panic ends here.
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Panic::from_payload(&*payload))
}

/// A turn that runs to completion.
pub(crate) trait PlainTurn<A: Actor>: Send {
    fn run(self: Box<Self>, state: &mut Lease<A>, cx: &Cx<A>) -> Result<(), Panic>;
    fn refuse(self: Box<Self>, error: ActorError);
}

/// A turn that becomes a future when it is given its `Grant`: the state, or nothing.
pub(crate) trait Start<Grant, A: Actor>: Send {
    fn start(self: Box<Self>, grant: Grant, cx: Cx<A>) -> Result<Box<dyn Suspended>, Panic>;
    fn refuse(self: Box<Self>, error: ActorError);
}

/// An asynchronous turn that has begun.
pub(crate) trait Suspended: Send {
    /// Goes on. When it is ready it has answered, and given the state back if it had it.
    fn poll(&mut self, cx: &mut Context<'_>, actor: &Identity) -> Poll<Result<(), Panic>>;
    /// From now on the answer needs the progress of `owner`.
    fn now_owed_by(&self, owner: Owner);
    /// Ends the turn where it is, and answers with `error`.
    fn cut_short(self: Box<Self>, error: ActorError);
}

struct Owing<F, T: Send + 'static> {
    handler: F,
    reply: Reply<T>,
}

/// A plain handler's call.
pub struct Plain<F> {
    name: &'static str,
    handler: F,
}

/// A call of the plain handler `name`.
pub fn plain<A, N, F>(name: &'static str, handler: F) -> Plain<F>
where
    A: Actor,
    N: Answer,
    F: FnOnce(&mut Lease<A>, &Cx<A>) -> N + Send + 'static,
{
    Plain { name, handler }
}

impl<A, N, F> Message<A> for Plain<F>
where
    A: Actor,
    N: Answer,
    F: FnOnce(&mut Lease<A>, &Cx<A>) -> N + Send + 'static,
{
    type Value = N::Value;

    fn owing(self, reply: Reply<N::Value>) -> Envelope<A> {
        Envelope::new(self.name, Turn::Plain(Box::new(Owing { handler: self.handler, reply })))
    }
}

impl<A, N, F> PlainTurn<A> for Owing<F, N::Value>
where
    A: Actor,
    N: Answer,
    F: FnOnce(&mut Lease<A>, &Cx<A>) -> N + Send,
{
    fn run(self: Box<Self>, state: &mut Lease<A>, cx: &Cx<A>) -> Result<(), Panic> {
        let Self { handler, reply } = *self;
        match contain(|| handler(state, cx)) {
            Ok(answer) => contain(|| answer.give(reply)),
            Err(panic) => {
                reply.settle(Err(panic.as_error(&cx.identity())));
                Err(panic)
            }
        }
    }

    fn refuse(self: Box<Self>, error: ActorError) {
        self.reply.settle(Err(error));
    }
}

/// The state of an actor while a turn owns it; given back when dropped, also by a panic.
///
/// A tentative turn owns the state itself only until it writes: from then on it has a copy, which replaces the state if
/// the turn becomes definitive.
pub struct Lease<A: Actor> {
    state: Option<Box<A>>,
    cell: Arc<ActorCell<A>>,
    copies_before_write: bool,
}

impl<A: Actor> Lease<A> {
    /// The state, unless some turn owns it.
    pub(crate) fn take(cell: &Arc<ActorCell<A>>) -> Option<Self> {
        let mut slot = cell.state.lock();
        let state = slot.current.take()?.into_inner();
        Some(Self { state: Some(state), cell: Arc::clone(cell), copies_before_write: slot.copies_before_write })
    }

    #[cold]
    fn copy(&mut self) {
        let copy = A::COPY.expect("only actors that can be copied have tentative turns")(self);
        let original = self.state.replace(Box::new(copy));
        self.copies_before_write = false;
        let mut slot = self.cell.state.lock();
        (slot.original, slot.copies_before_write) = (original.map(Stored::new), false);
    }
}

impl<A: Actor> Deref for Lease<A> {
    type Target = A;

    fn deref(&self) -> &A {
        self.state.as_ref().expect("a lease has the state until it is dropped")
    }
}

impl<A: Actor> DerefMut for Lease<A> {
    fn deref_mut(&mut self) -> &mut A {
        if self.copies_before_write {
            self.copy();
        }
        self.state.as_mut().expect("a lease has the state until it is dropped")
    }
}

impl<A: Actor> Drop for Lease<A> {
    fn drop(&mut self) {
        self.cell.state.lock().current = self.state.take().map(Stored::new);
    }
}

/// The call of a handler that owns the state until it ends.
pub struct Held<F> {
    name: &'static str,
    handler: F,
}

/// A call of the held handler `name`.
pub fn held<A, N, F, R>(name: &'static str, handler: F) -> Held<F>
where
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(Lease<A>, Cx<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    Held { name, handler }
}

impl<A, N, F, R> Message<A> for Held<F>
where
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(Lease<A>, Cx<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    type Value = N::Value;

    fn owing(self, reply: Reply<N::Value>) -> Envelope<A> {
        Envelope::new(self.name, Turn::Held(Box::new(Owing { handler: self.handler, reply })))
    }
}

impl<A, N, F, R> Start<Lease<A>, A> for Owing<F, N::Value>
where
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(Lease<A>, Cx<A>) -> R + Send,
    R: Future<Output = N> + Send + 'static,
{
    fn start(self: Box<Self>, lease: Lease<A>, cx: Cx<A>) -> Result<Box<dyn Suspended>, Panic> {
        let Self { handler, reply } = *self;
        begin(reply, &cx.identity(), || handler(lease, cx))
    }

    fn refuse(self: Box<Self>, error: ActorError) {
        self.reply.settle(Err(error));
    }
}

/// The call of a handler beside which the actor takes other messages.
pub struct Cooperative<F> {
    name: &'static str,
    handler: F,
}

/// A call of the cooperative handler `name`.
pub fn cooperative<A, N, F, R>(name: &'static str, handler: F) -> Cooperative<F>
where
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(Cx<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    Cooperative { name, handler }
}

impl<A, N, F, R> Message<A> for Cooperative<F>
where
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(Cx<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    type Value = N::Value;

    fn owing(self, reply: Reply<N::Value>) -> Envelope<A> {
        Envelope::new(self.name, Turn::Cooperative(Box::new(Owing { handler: self.handler, reply })))
    }
}

impl<A, N, F, R> Start<(), A> for Owing<F, N::Value>
where
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(Cx<A>) -> R + Send,
    R: Future<Output = N> + Send + 'static,
{
    fn start(self: Box<Self>, (): (), cx: Cx<A>) -> Result<Box<dyn Suspended>, Panic> {
        let Self { handler, reply } = *self;
        begin(reply, &cx.identity(), || handler(cx))
    }

    fn refuse(self: Box<Self>, error: ActorError) {
        self.reply.settle(Err(error));
    }
}

fn begin<N, R>(
    reply: Reply<N::Value>,
    actor: &Identity,
    handler: impl FnOnce() -> R,
) -> Result<Box<dyn Suspended>, Panic>
where
    N: Answer + 'static,
    R: Future<Output = N> + Send + 'static,
{
    match contain(handler) {
        Ok(future) => Ok(Box::new(Progress { future: Some(Box::pin(future)), reply: Some(reply) })),
        Err(panic) => {
            reply.settle(Err(panic.as_error(actor)));
            Err(panic)
        }
    }
}

struct Progress<N: Answer, R> {
    /// `None` once it has ended.
    future: Option<Pin<Box<R>>>,
    reply: Option<Reply<N::Value>>,
}

impl<N: Answer, R: Future<Output = N>> Progress<N, R> {
    /// Drops the future, which gives the state back, before anybody learns of the answer.
    fn end(&mut self, answer: impl FnOnce(Reply<N::Value>)) -> Result<(), Panic> {
        let dropped = contain(|| self.future = None);
        let answered = contain(|| self.reply.take().map_or((), answer));
        dropped.and(answered)
    }
}

impl<N: Answer + 'static, R: Future<Output = N> + Send + 'static> Suspended for Progress<N, R> {
    fn poll(&mut self, cx: &mut Context<'_>, actor: &Identity) -> Poll<Result<(), Panic>> {
        let future = self.future.as_mut().expect("a turn is polled until it has ended");
        match contain(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => Poll::Ready(self.end(|reply| answer.give(reply))),
            Err(panic) => {
                let error = panic.as_error(actor);
                // The first panic is the one to report.
                let _ended = self.end(|reply| reply.settle(Err(error)));
                Poll::Ready(Err(panic))
            }
        }
    }

    fn now_owed_by(&self, owner: Owner) {
        if let Some(reply) = &self.reply {
            reply.now_owed_by(owner);
        }
    }

    fn cut_short(mut self: Box<Self>, error: ActorError) {
        let _ended = self.end(|reply| reply.settle(Err(error)));
    }
}
