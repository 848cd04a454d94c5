//! What layers above need to make their own effects part of a transaction. For the actor runtime, not for users.
//!
//! * [`fate`]: what becomes of the attempt, to be given to those who work on something tentative.
//! * [`on_commit`], [`on_abort`]: effects that happen with the fate.
//! * [`depending_on`]: a transaction that commits only after another one has.
//! * [`depend_on_this_thread`]: the same for whatever begins on a thread, for code that does not know of it.
//! * [`hand_over_on_this_thread`]: threads that have more to do than to wait.
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::call::{Atomically, Body};
use crate::context;
pub use crate::fate::{Decision, Fate};
use crate::transaction::{Effect, Tx};

/// The fate of the part of a transaction that runs now: of the innermost nested part, or of the attempt. It is decided as
/// committed when the whole transaction has committed, as aborted when the part or the attempt is rolled back.
#[must_use]
pub fn fate(tx: &mut Tx<'_, '_>) -> Fate {
    tx.fate()
}

/// Calls `effect` once the transaction has committed, on the thread that has committed it, before its deferred operations.
pub fn on_commit(tx: &mut Tx<'_, '_>, effect: impl FnOnce() + Send + 'static) {
    tx.add_effect(Effect { on_commit: Some(Box::new(effect)), on_abort: None });
}

/// Calls `effect` when the part of the transaction that runs now is rolled back.
pub fn on_abort(tx: &mut Tx<'_, '_>, effect: impl FnOnce() + Send + 'static) {
    tx.add_effect(Effect { on_commit: None, on_abort: Some(Box::new(effect)) });
}

/// The transaction that this one depended on was aborted, and so this one never happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the transaction was retracted, because what it depended on was aborted")]
pub struct Retracted;

impl Retracted {
    /// Leaves the code that has asked for the transaction, which has no answer for it.
    pub(crate) fn unwind<O>(self) -> O {
        std::panic::resume_unwind(Box::new(self))
    }
}

/// Lets `transaction` commit only after the one with `fate` has.
///
/// It runs at once, and waits before its commit without a lock and without a thread. When the other has committed, it checks
/// that what it has read is current, or runs again; so it sees what the other has written. When the other is aborted, this
/// one has no effect either.
///
/// No cycle can form: a fate is there before the transaction that depends on it begins, so dependencies lead from younger
/// attempts to older ones.
pub fn depending_on<'env, B: Body<'env, Output = O>, O>(
    fate: Fate,
    transaction: Atomically<'env, B, O>,
) -> Dependent<'env, B, O> {
    debug_assert!(
        fate.decision().is_some() || !context::is_in_transaction(),
        "a dependency is older than its dependent"
    );
    Dependent(transaction.depending_on(fate))
}

/// A transaction with a dependency, to be awaited. Made by [`depending_on`].
#[must_use = "a transaction does nothing until it is awaited"]
pub struct Dependent<'env, B, O>(Atomically<'env, B, O>);

impl<'env, B: Body<'env, Output = O>, O> Dependent<'env, B, O> {
    /// Runs the transaction on this thread, sleeping until the dependency is decided.
    ///
    /// # Errors
    /// If the dependency is aborted.
    ///
    /// # Panics
    /// As [`Atomically::run`].
    pub fn run(self) -> Result<O, Retracted> {
        self.0.run_dependent()
    }
}

impl<'env, B: Body<'env, Output = O>, O> Future for Dependent<'env, B, O> {
    type Output = Result<O, Retracted>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_dependent(cx)
    }
}

impl<B, O> fmt::Debug for Dependent<'_, B, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dependent").field(&self.0).finish()
    }
}

/// True inside the closure of a transaction.
#[must_use]
pub fn is_in_a_transaction() -> bool {
    context::is_in_transaction()
}

/// How a thread with other duties gets blocking work done: the function hands these duties over, or runs the work somewhere
/// else, and returns when the work is done.
pub type HandOver = context::HandOver;

/// Has deferred operations that may block, and waits of [`Atomically::run`], go through `hand_over` on this thread, until
/// the guard is dropped.
#[must_use]
pub fn hand_over_on_this_thread(hand_over: HandOver) -> HandingOver {
    HandingOver { before: context::set_hand_over(Some(hand_over)) }
}

/// Ends what [`hand_over_on_this_thread`] has begun.
#[derive(Debug)]
pub struct HandingOver {
    before: Option<HandOver>,
}

impl Drop for HandingOver {
    fn drop(&mut self) {
        context::set_hand_over(self.before);
    }
}

/// Lets every transaction that begins on this thread depend on `fate`, or on nothing, until the guard is dropped: as
/// [`depending_on`], for code that does not know. If the dependency is aborted, the transaction unwinds with [`Retracted`]
/// as the payload.
#[must_use]
pub fn depend_on_this_thread(fate: Option<Fate>) -> Depending {
    Depending { before: context::set_dependency(fate), _on_its_thread: PhantomData }
}

/// Ends what [`depend_on_this_thread`] has begun.
#[derive(Debug)]
pub struct Depending {
    before: Option<Fate>,
    _on_its_thread: PhantomData<*const ()>,
}

impl Drop for Depending {
    fn drop(&mut self) {
        context::set_dependency(self.before.take());
    }
}
