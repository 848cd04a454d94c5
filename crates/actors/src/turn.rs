//! Messages and the turns they become.
//!
//! A message is a closure over its arguments, with what says when its turn comes ([`Call`]) and the reply it owes.
//! Three kinds, chosen by the handler's signature: *plain* runs to completion; *held* is a future that owns the state
//! until it ends, the actor being held meanwhile; *cooperative* is a future beside which the actor takes other
//! messages. Each answers with a value or hands the duty to answer on.
use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use enact_stm::hooks::Fate;
use enact_sync::unmodelled::Arc;

use crate::cell::{Activation, ActorCell, Lender, Lent};
use crate::deadlock::{Owner, TurnId};
use crate::error::panic_text;
use crate::mailbox::records::{Guard, Kind, Record};
use crate::promise::Outcome;
use crate::{Actor, ActorError, Cx, Forward, Identity, Resolver};

/// What the receiver of a message owes its sender. It is a type for the sake of what owes nothing and takes no room.
pub trait Duty<T: Send + 'static>: Send + 'static {
    /// As what is handed on.
    fn into_reply(self) -> Reply<T>;

    /// Where the promise lies that it keeps.
    fn promise(&self) -> Option<usize> {
        None
    }
}

/// Nothing: the message is told.
#[derive(Clone, Copy, Debug)]
pub struct Told;

impl<T: Send + 'static> Duty<T> for Told {
    #[inline]
    fn into_reply(self) -> Reply<T> {
        Reply(None)
    }
}

/// The duty to answer; none if the message was told.
pub struct Reply<T: Send + 'static>(Option<Resolver<T>>);

impl<T: Send + 'static> Duty<T> for Reply<T> {
    #[inline]
    fn into_reply(self) -> Self {
        self
    }

    fn promise(&self) -> Option<usize> {
        self.0.as_ref().and_then(Resolver::promise)
    }
}

impl<T: Send + 'static> Reply<T> {
    pub(crate) fn to(resolver: Resolver<T>) -> Self {
        Self(Some(resolver))
    }

    #[inline]
    pub(crate) fn settle(self, outcome: Outcome<T>) {
        if let Some(resolver) = self.0 {
            resolver.settle(outcome);
        }
    }

    pub(crate) fn fail(self, error: ActorError) {
        self.settle(Err(Box::new(error)));
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

/// What a message can bring its sender.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an answer: it is not `Send + 'static`",
    label = "this cannot leave the actor",
    note = "`#[actor]` sees names and not types: if this is another name of `Forward<T>`, write `Forward<T>` in the signature"
)]
pub trait Brought {}

#[diagnostic::do_not_recommend]
impl<T: Send + 'static> Brought for T {}

/// Names an answer's type where the compiler checks it.
#[derive(Debug)]
pub struct Brings<T: Brought>(PhantomData<T>);

/// The answer of a handler that returns a value.
pub struct Value<T>(pub T);

impl<T: Send + 'static> Answer for Value<T> {
    type Value = T;

    #[inline]
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

/// What is known of a call before it is taken up: the handler's name, and what says when its turn comes.
pub trait Call<A>: Send + 'static {
    /// The handler's name as it stands in the source.
    const NAME: &'static str;
    /// Whether the handler is lent its context, with which it can call other actors synchronously.
    const TAKES_CX: bool = true;
    /// Whether it has a priority of its own.
    const IS_RANKED: bool = false;
    /// Whether it has a guard.
    const IS_GUARDED: bool = false;
    /// Whether the guard looks at nothing but the state.
    const SHARES_VERDICT: bool = false;

    /// Higher ones come first.
    fn priority(&self) -> i32 {
        0
    }

    /// Whether it can be taken up now.
    fn is_admitted(&self, _actor: &A) -> bool {
        true
    }
}

/// A call with a priority.
pub struct Ranked<K> {
    call: PhantomData<K>,
    priority: i32,
}

/// The call that `K` names, with a priority.
pub fn ranked<K>(_call: K, priority: i32) -> Ranked<K> {
    Ranked { call: PhantomData, priority }
}

impl<A, K: Call<A>> Call<A> for Ranked<K> {
    const NAME: &'static str = K::NAME;
    const IS_RANKED: bool = true;

    fn priority(&self) -> i32 {
        self.priority
    }
}

/// A call with a guard.
pub struct Guarded<K, T, G> {
    call: K,
    /// Those that the guard looks at.
    arguments: T,
    guard: G,
}

/// Gives `call` a guard over the state and `arguments`.
pub fn guarded<A, K, T, G>(call: K, arguments: T, guard: G) -> Guarded<K, T, G>
where
    K: Call<A>,
    G: Fn(&A, &T) -> bool + Send + 'static,
{
    Guarded { call, arguments, guard }
}

impl<K, T, G> Guarded<K, T, G> {
    /// The arguments that the guard has looked at, for the handler.
    pub fn into_arguments(self) -> T {
        self.arguments
    }
}

impl<A, K, T, G> Call<A> for Guarded<K, T, G>
where
    K: Call<A>,
    T: Send + 'static,
    G: Fn(&A, &T) -> bool + Send + 'static,
{
    const NAME: &'static str = K::NAME;
    const IS_RANKED: bool = K::IS_RANKED;
    const IS_GUARDED: bool = true;
    // There is only one value of them.
    const SHARES_VERDICT: bool = size_of::<T>() == 0;

    fn priority(&self) -> i32 {
        self.call.priority()
    }

    fn is_admitted(&self, actor: &A) -> bool {
        (self.guard)(actor, &self.arguments)
    }
}

/// A call of a handler, not yet sent.
pub trait Message<A: Actor>: Send + 'static {
    /// What the caller gets.
    type Value: Send + 'static;

    /// Sends it with what its receiver owes for it.
    ///
    /// # Errors
    /// If it was refused: what it is answered.
    fn post(self, duty: impl Duty<Self::Value>, post: Post<'_, A>) -> Result<(), Box<ActorError>>;
}

/// The way of one message to its actor, which is of type `A`: the cell does not know, and takes whatever is delivered.
pub struct Post<'a, A> {
    cell: &'a Arc<ActorCell>,
    way: Way,
    actor: PhantomData<fn(A) -> A>,
}

enum Way {
    /// Into the mailbox, from outside.
    Send(Option<Fate>),
    /// Into the mailbox, from the actor itself.
    Owe,
    /// To an actor that the sender has claimed, on this thread.
    Claimed(Box<Activation>),
}

impl<'a, A: Actor> Post<'a, A> {
    /// To `cell`'s mailbox; the message counts if `dependency` does.
    #[inline]
    pub(crate) fn sending(cell: &'a Arc<ActorCell>, dependency: Option<Fate>) -> Self {
        Self { cell, way: Way::Send(dependency), actor: PhantomData }
    }

    /// To `cell`'s mailbox, for what it owes itself, which is refused only when it is gone.
    pub(crate) fn owing(cell: &'a Arc<ActorCell>) -> Self {
        Self { cell, way: Way::Owe, actor: PhantomData }
    }

    /// To an actor whose `activation` the caller has claimed.
    pub(crate) fn claimed(cell: &'a Arc<ActorCell>, activation: Box<Activation>) -> Self {
        Self { cell, way: Way::Claimed(activation), actor: PhantomData }
    }

    #[inline]
    fn deliver<R: Record>(self, record: R) -> Result<(), Box<ActorError>> {
        match self.way {
            Way::Send(dependency) => self.cell.deliver(record, dependency.as_ref()),
            Way::Owe => self.cell.deliver_own(record),
            Way::Claimed(mut activation) => {
                activation.take_along(record);
                self.cell.run_claimed(activation);
                Ok(())
            }
        }
    }
}

/// What has become of a message that was taken up; fits into registers.
pub(crate) enum Begun {
    /// It has run to its end.
    Ended,
    /// It has ended so before it could wait.
    Panicked(Panic),
    /// It is a turn that can wait, which the lender has.
    Started,
    /// A turn is to go on.
    Resumes(TurnId),
}

const _: () = assert!(size_of::<Begun>() <= 2 * size_of::<usize>(), "it is returned in registers");

/// What a panicking turn said.
pub(crate) struct Panic(Box<Said>);

struct Said {
    text: Arc<str>,
}

impl Panic {
    fn from_payload(payload: &(dyn Any + Send)) -> Self {
        Self(Box::new(Said { text: panic_text(payload) }))
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        &self.0.text
    }

    pub(crate) fn as_error(&self, actor: &Identity) -> ActorError {
        ActorError::Panicked { actor: actor.clone(), text: Arc::clone(self.text()) }
    }
}

/// Runs `f`; a panic ends here.
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(f)).map_err(caught)
}

/// What was thrown. It may be the user's own, with a destructor that throws something, too.
#[cold]
fn caught(payload: Box<dyn Any + Send>) -> Panic {
    let panic = Panic::from_payload(&*payload);
    catch_unwind(AssertUnwindSafe(|| drop(payload))).unwrap_or_else(mem::forget);
    panic
}

/// Wakes the task of `waker`, which may be another executor's; a panic of it ends here, and keeps nobody else waiting.
pub(crate) fn wake(waker: Waker) {
    if let Err(panic) = contain(|| waker.wake()) {
        tracing::error!(text = &**panic.text(), "a waker panicked");
    }
}

/// An asynchronous turn that has begun.
pub(crate) trait Suspended: Send {
    /// Goes on. When it is ready it has answered, and given the state back if it had it.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>, actor: &Identity) -> Poll<Result<(), Panic>>;
    /// From now on the answer needs the progress of `owner`. Pinned, because a suspended future borrows from itself,
    /// which a reference to all of it would invalidate.
    fn now_owed_by(self: Pin<&mut Self>, owner: Owner);
    /// Ends the turn where it is, and answers with `error`.
    fn cut_short(self: Pin<&mut Self>, error: ActorError);
    /// Takes what `begun` holds, a future and the reply that is owed, if this turn has ended and was of the same type.
    fn refill(self: Pin<&mut Self>, begun: &mut dyn Any) -> bool;
}

/// A message that [`Owing`] can carry.
trait Taken<A: Actor, N: Answer>: Send + 'static {
    type Call: Call<A>;
    const KIND: Kind;

    fn call(&self) -> &Self::Call;
    /// Takes it up.
    fn begin(self, reply: Reply<N::Value>, lender: &mut Lender) -> Begun;
}

/// A call with what is owed for it.
struct Owing<M, D, A, N> {
    message: M,
    duty: D,
    of: PhantomData<fn(A) -> N>,
}

impl<M, D, A, N> Owing<M, D, A, N> {
    #[inline]
    fn new(message: M, duty: D) -> Self {
        Self { message, duty, of: PhantomData }
    }
}

impl<A: Actor, N: Answer + 'static, M: Taken<A, N>, D: Duty<N::Value>> Record for Owing<M, D, A, N> {
    const HANDLER: &'static str = <M::Call as Call<A>>::NAME;
    const KIND: Kind = M::KIND;
    const MAY_CALL: bool = matches!(M::KIND, Kind::Cooperative) || <M::Call as Call<A>>::TAKES_CX;
    const IS_RANKED: bool = <M::Call as Call<A>>::IS_RANKED;
    const GUARD: Guard = match (<M::Call as Call<A>>::IS_GUARDED, <M::Call as Call<A>>::SHARES_VERDICT) {
        (false, _) => Guard::None,
        (true, true) => Guard::State,
        (true, false) => Guard::Message,
    };

    #[inline]
    fn begin(self, lender: &mut Lender) -> Begun {
        self.message.begin(self.duty.into_reply(), lender)
    }

    fn refuse(self, error: ActorError) {
        let Self { message, duty, .. } = self;
        // Arguments are the user's: a destructor that panics ends here.
        let _dropped = contain(|| {
            duty.into_reply().fail(error);
            drop(message);
        });
    }

    fn promise(&self) -> Option<usize> {
        self.duty.promise()
    }

    fn priority(&self) -> i32 {
        self.message.call().priority()
    }

    fn is_admitted(&self, lender: &mut Lender) -> bool {
        let (state, _) = lender.lend::<A>();
        self.message.call().is_admitted(state)
    }
}

/// A plain handler's call.
pub struct Plain<K, F> {
    call: K,
    handler: F,
}

/// A call of a plain handler.
pub fn plain<K, A, N, F>(call: K, handler: F) -> Plain<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, &mut Lease<A>, &Cx<A>) -> N + Send + 'static,
{
    Plain { call, handler }
}

impl<K, A, N, F> Message<A> for Plain<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, &mut Lease<A>, &Cx<A>) -> N + Send + 'static,
{
    type Value = N::Value;

    #[inline]
    fn post(self, duty: impl Duty<N::Value>, post: Post<'_, A>) -> Result<(), Box<ActorError>> {
        post.deliver(Owing::<_, _, A, N>::new(self, duty))
    }
}

impl<K, A, N, F> Taken<A, N> for Plain<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, &mut Lease<A>, &Cx<A>) -> N + Send + 'static,
{
    type Call = K;
    const KIND: Kind = Kind::Plain;

    fn call(&self) -> &K {
        &self.call
    }

    #[inline]
    fn begin(self, reply: Reply<N::Value>, lender: &mut Lender) -> Begun {
        let (state, cx) = lender.lend::<A>();
        let Self { call, handler } = self;
        let mut reply = Some(reply);
        let ended = contain(|| {
            let answer = handler(call, state, cx);
            if let Some(reply) = reply.take() {
                answer.give(reply);
            }
        });
        let Err(panic) = ended else { return Begun::Ended };
        if let Some(reply) = reply {
            reply.fail(panic.as_error(&cx.identity()));
        }
        Begun::Panicked(panic)
    }
}

/// The state of an actor while a turn owns it; given back when dropped, also by a panic.
///
/// A tentative turn owns the state itself only until it writes: from then on it has a copy, which replaces the state if
/// the turn becomes definitive.
#[repr(transparent)]
pub struct Lease<A: Actor> {
    lent: Lent,
    /// Invariant: the state is of this type, and of no sub- or supertype.
    actor: PhantomData<fn(A) -> A>,
}

impl<A: Actor> Lease<A> {
    /// What is lent by an actor of this type.
    pub(crate) fn new(lent: Lent) -> Self {
        Self { lent, actor: PhantomData }
    }

    /// The context of a turn that owns the state.
    pub fn cx(&self) -> Cx<A> {
        Cx::new(Arc::clone(self.lent.cell()))
    }

    /// The state of the actor whose turn this thread is in, unless some turn owns it already.
    pub(crate) fn take_in_turn(cell: &Arc<ActorCell>) -> Option<Self> {
        Lent::take_in_turn(cell).map(Self::new)
    }
}

impl<A: Actor> Deref for Lease<A> {
    type Target = A;

    #[inline]
    fn deref(&self) -> &A {
        self.lent.state()
    }
}

impl<A: Actor> DerefMut for Lease<A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut A {
        self.lent.state_to_write()
    }
}

/// The call of a handler that owns the state until it ends.
pub struct Held<K, F> {
    call: K,
    handler: F,
}

/// A call of a held handler.
pub fn held<K, A, N, F, R>(call: K, handler: F) -> Held<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, Lease<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    Held { call, handler }
}

impl<K, A, N, F, R> Message<A> for Held<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, Lease<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    type Value = N::Value;

    #[inline]
    fn post(self, duty: impl Duty<N::Value>, post: Post<'_, A>) -> Result<(), Box<ActorError>> {
        post.deliver(Owing::<_, _, A, N>::new(self, duty))
    }
}

impl<K, A, N, F, R> Taken<A, N> for Held<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, Lease<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    type Call = K;
    const KIND: Kind = Kind::Held;

    fn call(&self) -> &K {
        &self.call
    }

    fn begin(self, reply: Reply<N::Value>, lender: &mut Lender) -> Begun {
        let lease = lender.give_away::<A>();
        let Self { call, handler } = self;
        start(reply, lender, || handler(call, lease))
    }
}

/// The call of a handler beside which the actor takes other messages.
pub struct Cooperative<K, F> {
    call: K,
    handler: F,
}

/// A call of a cooperative handler.
pub fn cooperative<K, A, N, F, R>(call: K, handler: F) -> Cooperative<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, Cx<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    Cooperative { call, handler }
}

impl<K, A, N, F, R> Message<A> for Cooperative<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, Cx<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    type Value = N::Value;

    #[inline]
    fn post(self, duty: impl Duty<N::Value>, post: Post<'_, A>) -> Result<(), Box<ActorError>> {
        post.deliver(Owing::<_, _, A, N>::new(self, duty))
    }
}

impl<K, A, N, F, R> Taken<A, N> for Cooperative<K, F>
where
    K: Call<A>,
    A: Actor,
    N: Answer + 'static,
    F: FnOnce(K, Cx<A>) -> R + Send + 'static,
    R: Future<Output = N> + Send + 'static,
{
    type Call = K;
    const KIND: Kind = Kind::Cooperative;

    fn call(&self) -> &K {
        &self.call
    }

    fn begin(self, reply: Reply<N::Value>, lender: &mut Lender) -> Begun {
        lender.put_back();
        let cx = lender.cx::<A>();
        let Self { call, handler } = self;
        start(reply, lender, || handler(call, cx))
    }
}

fn start<N, R>(reply: Reply<N::Value>, lender: &mut Lender, handler: impl FnOnce() -> R) -> Begun
where
    N: Answer + 'static,
    R: Future<Output = N> + Send + 'static,
{
    match contain(handler) {
        Ok(future) => {
            let mut begun = Some((future, reply));
            let shell = lender.started.take().and_then(|mut shell| shell.as_mut().refill(&mut begun).then_some(shell));
            let fresh = |(future, reply)| Box::pin(Progress { future: Some(future), reply: Some(reply) });
            lender.started = shell.or_else(|| Some(begun.map(fresh)?));
            Begun::Started
        }
        Err(panic) => {
            reply.fail(panic.as_error(lender.identity()));
            Begun::Panicked(panic)
        }
    }
}

pin_project_lite::pin_project! {
    struct Progress<N: Answer, R> {
        // `None` once it has ended.
        #[pin]
        future: Option<R>,
        reply: Option<Reply<N::Value>>,
    }
}

impl<N: Answer, R: Future<Output = N>> Progress<N, R> {
    /// Drops the future, which gives the state back, before anybody learns of the answer.
    fn end(self: Pin<&mut Self>, answer: impl FnOnce(Reply<N::Value>)) -> Result<(), Panic> {
        let mut this = self.project();
        let dropped = contain(|| this.future.set(None));
        let answered = contain(|| this.reply.take().map_or((), answer));
        dropped.and(answered)
    }
}

impl<N: Answer + 'static, R: Future<Output = N> + Send + 'static> Suspended for Progress<N, R> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>, actor: &Identity) -> Poll<Result<(), Panic>> {
        let future = self.as_mut().project().future.as_pin_mut().expect("a turn is polled until it has ended");
        match contain(|| future.poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => Poll::Ready(self.end(|reply| answer.give(reply))),
            Err(panic) => {
                let error = panic.as_error(actor);
                // The first panic is the one to report.
                let _ended = self.end(|reply| reply.fail(error));
                Poll::Ready(Err(panic))
            }
        }
    }

    fn now_owed_by(self: Pin<&mut Self>, owner: Owner) {
        if let Some(reply) = self.project().reply {
            reply.now_owed_by(owner);
        }
    }

    fn cut_short(self: Pin<&mut Self>, error: ActorError) {
        let _ended = self.end(|reply| reply.fail(error));
    }

    fn refill(self: Pin<&mut Self>, begun: &mut dyn Any) -> bool {
        let Some(begun) = begun.downcast_mut::<Option<(R, Reply<N::Value>)>>() else { return false };
        let mut this = self.project();
        if let Some((future, reply)) = begun.take() {
            this.future.set(Some(future));
            *this.reply = Some(reply);
        }
        true
    }
}
