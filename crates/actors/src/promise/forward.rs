//! Handing the duty to answer to somebody else.
use enact_stm::hooks::Decision;
use enact_sync::unmodelled::Arc;

use super::cell::Outcome;
use crate::deadlock::Owner;
use crate::turn::Reply;
use crate::{ActorError, Promise, tentative};

/// The end of a turn that lets somebody else answer in its place.
///
/// A handler that returns `Forward<T>` is asked for a `T` like any other; its caller's promise is handed on and kept
/// directly by the turn that answers: no second promise, no wait. It is made by the `forward(cx)` view of a handle, by
/// [`Cx::forward`](crate::Cx::forward) from a promise, or by [`Cx::reply`](crate::Cx::reply) from a value.
///
/// *Unique and last by type*: the message goes out when the handler returns the value, and at no other moment. It
/// cannot be cloned, sent, or kept in the actor, and a handler can return only one. One that is dropped sends nothing.
///
/// Source: M. Andrieux, *Safe concurrent abstractions for multicore OCaml*, 2.2.3 and 3.3.1; K. Fernandez-Reyes et
/// al., *Forward to a Promising Future*.
///
/// ```
/// # use enact_actors::*;
/// struct Worker;
/// #[actor]
/// impl Worker {
///     fn square(&self, n: i64) -> i64 {
///         n * n
///     }
/// }
/// struct Desk {
///     worker: WorkerRef,
/// }
/// #[actor]
/// impl Desk {
///     fn square(&mut self, cx: &Cx<Self>, n: i64) -> Forward<i64> {
///         if n == 0 { cx.reply(0) } else { self.worker.forward(cx).square(n) }
///     }
/// }
/// let system = System::builder().workers(1).build()?;
/// let desk = system.spawn(Desk { worker: system.spawn(Worker) });
/// assert_eq!(desk.square(7).wait(), Ok(49));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a forward takes effect only as the value that the handler returns"]
pub struct Forward<T: Send + 'static> {
    /// Not `Send`, so that neither a message nor an actor's state can hold a forward.
    hand_on: Box<dyn FnOnce(Reply<T>)>,
}

impl<T: Send + 'static> Forward<T> {
    pub(crate) fn new(hand_on: impl FnOnce(Reply<T>) + 'static) -> Self {
        Self { hand_on: Box::new(hand_on) }
    }

    pub(crate) fn to_promise(promise: Promise<T>) -> Self {
        Self::new(move |reply| {
            if let Some(source) = promise.source() {
                reply.now_owed_by(Owner::Needs(Arc::downgrade(&source)));
            }
            tentative::follow(move |decision| match decision {
                Decision::Committed => promise.on_settled(move |outcome: Outcome<T>| reply.settle(outcome)),
                Decision::Aborted => reply.fail(ActorError::Retracted),
            });
        })
    }

    pub(crate) fn hand_on(self, reply: Reply<T>) {
        (self.hand_on)(reply);
    }
}

impl<T: Send + 'static> std::fmt::Debug for Forward<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forward").finish_non_exhaustive()
    }
}
