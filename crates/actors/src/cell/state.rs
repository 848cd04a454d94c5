//! Where an actor's state is, between and during turns, and what replaces it.
use enact_sync::atomic::Ordering;
use std::any::Any;
use std::marker::PhantomData;

use enact_sync::unmodelled::Arc;

use super::ActorCell;
use crate::turn::{Lease, contain};
use crate::{Actor, Cx};

/// A state that no turn has.
///
/// Its type is erased: a handle is `Send` because of what every [`Actor`] is, and not because of what the state consists
/// of. Otherwise the compiler would follow the handles in states from actor to actor, and give up on a long chain.
pub(crate) struct Stored<A>(Box<dyn Any + Send>, PhantomData<fn() -> A>);

impl<A: Actor> Stored<A> {
    pub(crate) fn new(state: Box<A>) -> Self {
        Self(state, PhantomData)
    }

    pub(crate) fn into_inner(self) -> Box<A> {
        self.0.downcast().expect("what is stored is a state of the actor's type")
    }
}

/// Where the state is between and during turns.
pub(crate) struct Slot<A> {
    /// `None` while a turn has it.
    pub(crate) current: Option<Stored<A>>,
    /// A tentative turn is to leave the state as it is, and to go on with a copy, before it writes.
    pub(crate) copies_before_write: bool,
    /// The state before a tentative turn that has written.
    pub(crate) original: Option<Stored<A>>,
    /// What the next turn begins with.
    pub(super) next: Option<Stored<A>>,
}

impl<A> Slot<A> {
    /// What a tentative turn has made of the state is the state; gives what it was.
    pub(super) fn keep(&mut self) -> Option<Stored<A>> {
        self.copies_before_write = false;
        self.original.take()
    }

    /// The state is what it was before a tentative turn; gives what that has made of it.
    pub(super) fn restore(&mut self) -> Option<Stored<A>> {
        self.copies_before_write = false;
        let original = self.original.take().filter(|_| !cfg!(plant = "keep_what_was_tried"));
        original.and_then(|original| self.current.replace(original))
    }

    pub(super) fn take_all(&mut self) -> [Option<Stored<A>>; 2] {
        [self.current.take(), self.next.take()]
    }
}

/// What plain turns of one activation are lent, one after the other, so that it is fetched once.
pub(super) struct Lender<A: Actor> {
    cx: Cx<A>,
    lease: Option<Lease<A>>,
}

impl<A: Actor> Lender<A> {
    pub(super) fn new(cell: &Arc<ActorCell<A>>) -> Self {
        Self { cx: Cx::new(Arc::clone(cell)), lease: None }
    }

    pub(super) fn lend(&mut self) -> (&mut Lease<A>, &Cx<A>) {
        let take = || Lease::take(self.cx.cell()).expect("no turn has the state between two turns");
        (self.lease.get_or_insert_with(take), &self.cx)
    }

    /// Puts the state back, for turns of another kind and for what replaces it.
    pub(super) fn put_back(&mut self) {
        self.lease = None;
    }
}

impl<A: Actor> ActorCell<A> {
    /// Has the next turn begin with `state`.
    pub(crate) fn set_next(&self, state: A) {
        let replaced = self.state.lock().next.replace(Stored::new(Box::new(state)));
        self.has_next.store(true, Ordering::Release);
        drop(replaced);
    }

    /// Puts the next state in place, if there is one and no turn has the present one.
    pub(super) fn begin_next(&self) {
        if !self.has_next.load(Ordering::Acquire) {
            return;
        }
        let mut slot = self.state.lock();
        if slot.current.is_none() {
            return;
        }
        self.has_next.store(false, Ordering::Relaxed);
        let next = slot.next.take();
        let old = next.and_then(|next| slot.current.replace(next));
        drop(slot);
        // A destructor that panics has no turn to fail.
        let _dropped = contain(|| drop(old));
        self.announce_change();
    }
}
