//! Where an actor's state is, between and during turns, and what replaces it.
//!
//! A cell does not know the type of its state, so that the runtime is compiled once and not for each type of actor. Who has
//! a handle, a context or a message of an actor of type `A` does: they are made with the cell, and no other way.
#![expect(unsafe_code, reason = "types that a cell does not know are seen again")]
use std::any::Any;
use std::pin::Pin;

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::ActorCell;
use crate::turn::{Lease, Suspended, contain};
use crate::{Actor, Cx, Identity};

/// A state, whatever its type.
pub(crate) type State = Box<dyn Any + Send>;

/// Makes a copy of a state.
pub(crate) type Copy = fn(&(dyn Any + Send)) -> State;

/// How actors of type `A` are copied, if they are.
pub(crate) fn copy_of<A: Actor>() -> Option<Copy> {
    fn copy<A: Actor>(state: &(dyn Any + Send)) -> State {
        let copy = A::COPY.expect("asked only of actors that are copied");
        Box::new(copy(state.downcast_ref().expect("the state is of the actor's type")))
    }
    A::COPY.map(|_| copy::<A> as Copy)
}

/// Where the state is between and during turns.
pub(crate) struct Slot {
    /// `None` while a turn has it.
    pub(crate) current: Option<State>,
    /// A tentative turn is to leave the state as it is, and to go on with a copy, before it writes.
    pub(crate) copies_before_write: bool,
    /// Hardly any actor ever has some.
    others: Option<Box<Others>>,
}

/// States of an actor that are not its present one.
#[derive(Default)]
struct Others {
    /// The state before a tentative turn that has written.
    original: Option<State>,
    /// What the next turn begins with.
    next: Option<State>,
}

impl Slot {
    pub(super) fn new(state: State) -> Self {
        Self { current: Some(state), copies_before_write: false, others: None }
    }

    /// What a tentative turn has made of the state is the state; gives what it was.
    pub(super) fn keep(&mut self) -> Option<State> {
        self.copies_before_write = false;
        self.take_original()
    }

    /// The state is what it was before a tentative turn; gives what that has made of it.
    pub(super) fn restore(&mut self) -> Option<State> {
        self.copies_before_write = false;
        let original = self.take_original().filter(|_| !cfg!(plant = "keep_what_was_tried"));
        original.and_then(|original| self.current.replace(original))
    }

    fn take_original(&mut self) -> Option<State> {
        self.others.as_mut()?.original.take()
    }

    fn take_next(&mut self) -> Option<State> {
        self.others.as_mut()?.next.take()
    }

    pub(super) fn take_all(&mut self) -> [Option<State>; 2] {
        [self.current.take(), self.take_next()]
    }
}

/// A state that a turn owns; given back when dropped.
pub(crate) struct Lent {
    state: Option<State>,
    cell: Arc<ActorCell>,
    copies_before_write: bool,
}

impl Lent {
    /// The state, unless some turn owns it.
    pub(crate) fn take(cell: &Arc<ActorCell>) -> Option<Self> {
        let mut slot = cell.state.lock();
        let state = slot.current.take()?;
        Some(Self { state: Some(state), cell: Arc::clone(cell), copies_before_write: slot.copies_before_write })
    }

    pub(crate) fn cell(&self) -> &Arc<ActorCell> {
        &self.cell
    }

    /// The state, which is of type `A`.
    #[inline]
    pub(crate) fn state<A: Actor>(&self) -> &A {
        let state = self.state.as_deref().expect("a lease has the state until it is dropped");
        debug_assert!(state.is::<A>(), "the state is of the actor's type");
        // SAFETY: a lease of type `A` is made only for cells of actors of that type.
        unsafe { &*(&raw const *state).cast::<A>() }
    }

    /// As [`state`](Self::state), after a tentative turn has been given a copy.
    #[inline]
    pub(crate) fn state_to_write<A: Actor>(&mut self) -> &mut A {
        if self.copies_before_write {
            self.copy();
        }
        let state = self.state.as_deref_mut().expect("a lease has the state until it is dropped");
        debug_assert!(state.is::<A>(), "the state is of the actor's type");
        // SAFETY: as in `state`.
        unsafe { &mut *(&raw mut *state).cast::<A>() }
    }

    #[cold]
    fn copy(&mut self) {
        let copy = self.cell.copy.expect("only actors that can be copied have tentative turns");
        let state = self.state.as_deref().expect("a lease has the state until it is dropped");
        let copied = copy(state);
        let original = self.state.replace(copied);
        self.copies_before_write = false;
        let mut slot = self.cell.state.lock();
        slot.others.get_or_insert_default().original = original;
        slot.copies_before_write = false;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.cell.state.lock().current = self.state.take();
    }
}

/// What an actor's plain turns are lent, one after the other, so that it is fetched once.
pub(crate) struct Lender {
    cell: Arc<ActorCell>,
    lent: Option<Lent>,
    /// A turn that can wait, from its beginning to its first poll.
    pub(crate) started: Option<Pin<Box<dyn Suspended>>>,
}

impl Lender {
    pub(crate) fn new(cell: Arc<ActorCell>) -> Self {
        Self { cell, lent: None, started: None }
    }

    pub(crate) fn cell(&self) -> &Arc<ActorCell> {
        &self.cell
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.cell.identity
    }

    /// For a plain turn of an actor of type `A`, which this is.
    #[inline]
    pub(crate) fn lend<A: Actor>(&mut self) -> (&mut Lease<A>, &Cx<A>) {
        let lent =
            self.lent.get_or_insert_with(|| Lent::take(&self.cell).expect("no turn has the state between two turns"));
        // SAFETY: a lease is nothing but what is lent, and the messages of a cell are those of its actor's type.
        let lease = unsafe { &mut *(&raw mut *lent).cast::<Lease<A>>() };
        // SAFETY: a context is nothing but the cell.
        let cx = unsafe { &*(&raw const self.cell).cast::<Cx<A>>() };
        (lease, cx)
    }

    /// For a turn that owns the state.
    pub(crate) fn give_away<A: Actor>(&mut self) -> Lease<A> {
        let lent = self.lent.take().or_else(|| Lent::take(&self.cell));
        Lease::new(lent.expect("no turn has the state between two turns"))
    }

    pub(crate) fn cx<A: Actor>(&self) -> Cx<A> {
        Cx::new(Arc::clone(&self.cell))
    }

    /// Puts the state back, for turns of another kind and for what replaces it.
    pub(crate) fn put_back(&mut self) {
        self.lent = None;
    }
}

impl ActorCell {
    /// Has the next turn begin with `state`.
    pub(crate) fn set_next(&self, state: State) {
        let replaced = self.state.lock().others.get_or_insert_default().next.replace(state);
        self.has_next.store(true, Ordering::Release);
        drop(replaced);
    }

    /// Puts the next state in place, if there is one and no turn has the present one.
    #[inline]
    pub(super) fn begin_next(&self) {
        if self.has_next.load(Ordering::Acquire) {
            self.put_next_in_place();
        }
    }

    #[cold]
    fn put_next_in_place(&self) {
        let mut slot = self.state.lock();
        if slot.current.is_none() {
            return;
        }
        self.has_next.store(false, Ordering::Relaxed);
        let next = slot.take_next();
        let old = next.and_then(|next| slot.current.replace(next));
        drop(slot);
        // A destructor that panics has no turn to fail.
        let _dropped = contain(|| drop(old));
        self.announce_change();
    }
}
