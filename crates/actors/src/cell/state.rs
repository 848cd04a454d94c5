//! Where an actor's state is, between and during turns, and what replaces it.
//!
//! A cell does not know the type of its state, so that the runtime is compiled once and not for each type of actor. Who
//! has a handle, a context or a message of an actor of type `A` does: they are made with the cell, and no other way.
#![expect(unsafe_code, reason = "types that a cell does not know are seen again")]
use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::pin::Pin;

use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::unmodelled::Arc;

use super::ActorCell;
use crate::turn::{Lease, Suspended, contain};
use crate::{Actor, Cx, Identity, frame};

/// Why a state is there to be taken.
const BETWEEN_TURNS: &str = "no turn has the state between two turns";

/// A state, whatever its type.
pub(crate) type State = Box<dyn Stored>;

/// What can be done with a state whose type is not known.
pub(crate) trait Stored: Any + Send {
    /// A copy for a tentative turn.
    ///
    /// # Panics
    /// Unless actors of its type can be copied.
    fn copy(&self) -> State;
}

impl<A: Actor> Stored for A {
    fn copy(&self) -> State {
        let copy = A::COPY.expect("only actors that can be copied have tentative turns");
        Box::new(copy(self))
    }
}

/// Where an actor's state is while no turn has it: the runner of the actor takes it, and its holder puts it back.
///
/// It is there whenever `is_here`, which only those two write; so it costs no locked instruction to hand it over. For
/// plain turns, the [`Lender`] claims it and lends it where it lies.
pub(crate) struct StateSlot {
    is_here: AtomicBool,
    can_be_copied: bool,
    /// A tentative turn is to leave the state as it is, and to go on with a copy, before it writes. Only for the runner.
    copies_before_write: AtomicBool,
    kept: UnsafeCell<MaybeUninit<Kept>>,
}

/// The state, in the slot or given away.
struct Kept {
    state: State,
    /// The actor, once the state has been lent.
    cell: Option<Arc<ActorCell>>,
}

// SAFETY: what lies there is given from one thread to another and never shared.
unsafe impl Sync for StateSlot {}

impl StateSlot {
    pub(super) fn new<A: Actor>(state: State) -> Self {
        Self {
            is_here: AtomicBool::new(true),
            can_be_copied: A::COPY.is_some(),
            copies_before_write: AtomicBool::new(false),
            kept: UnsafeCell::new(MaybeUninit::new(Kept { state, cell: None })),
        }
    }

    pub(super) fn can_be_copied(&self) -> bool {
        self.can_be_copied
    }

    /// Makes the state the caller's, which leaves it where it lies. Returns whether it was here.
    ///
    /// # Safety
    /// The caller runs the actor.
    #[inline]
    unsafe fn claim(&self) -> bool {
        // Acquire: pairs with the store that put it there.
        if !self.is_here.load(Ordering::Acquire) {
            return false;
        }
        // Relaxed: nobody puts anything there before the caller has given away what it takes.
        self.is_here.store(false, Ordering::Relaxed);
        true
    }

    /// # Safety
    /// The caller runs the actor.
    #[inline]
    unsafe fn take(&self) -> Option<Kept> {
        // SAFETY: as the caller vouches.
        if !unsafe { self.claim() } {
            return None;
        }
        // SAFETY: nobody else takes it, as the caller vouches, and there is no second one to be put here.
        let kept = unsafe { self.kept.get().read() };
        // SAFETY: it is here.
        Some(unsafe { kept.assume_init() })
    }

    /// Puts back what was taken out.
    ///
    /// # Safety
    /// `at` is the slot that `kept` was taken from, and there until somebody takes `kept` out again.
    #[inline]
    unsafe fn put(at: *const Self, kept: Kept) {
        // SAFETY: the slot is there.
        let here = UnsafeCell::raw_get(unsafe { &raw const (*at).kept });
        // SAFETY: it is empty because its only value is in our hand; so nobody reads it.
        unsafe { here.write(MaybeUninit::new(kept)) };
        // Release: pairs with the load that takes it. From here on the actor may end, and the slot be gone.
        // SAFETY: the slot is there until this is seen.
        unsafe { (*at).is_here.store(true, Ordering::Release) };
    }
}

impl Drop for StateSlot {
    fn drop(&mut self) {
        if self.is_here.load(Ordering::Acquire) {
            // SAFETY: it is here, and nobody else is.
            unsafe { self.kept.get_mut().assume_init_drop() };
        }
    }
}

/// A state that a turn owns; given back when dropped.
#[repr(transparent)]
pub(crate) struct Lent(ManuallyDrop<Kept>);

impl Lent {
    /// The state of the actor whose turn this thread is in, unless some turn owns it already.
    pub(crate) fn take_in_turn(cell: &Arc<ActorCell>) -> Option<Self> {
        assert!(frame::is_turn_of(cell.id()), "a state is lent to turns of its actor");
        // SAFETY: a thread that is in a turn of the actor runs it.
        unsafe { Self::take(cell) }
    }

    /// # Safety
    /// The caller runs the actor.
    #[inline]
    unsafe fn take(cell: &Arc<ActorCell>) -> Option<Self> {
        // SAFETY: as the caller vouches.
        let mut kept = unsafe { cell.state.take() }?;
        if kept.cell.is_none() {
            kept.cell = Some(Arc::clone(cell));
        }
        Some(Self(ManuallyDrop::new(kept)))
    }

    pub(crate) fn cell(&self) -> &Arc<ActorCell> {
        self.0.cell.as_ref().expect("what is lent knows its actor")
    }

    /// The state, which is of type `A`.
    #[inline]
    pub(crate) fn state<A: Actor>(&self) -> &A {
        let state = &*self.0.state;
        debug_assert!((state as &dyn Any).is::<A>(), "the state is of the actor's type");
        // SAFETY: a lease of type `A` is made only for cells of actors of that type.
        unsafe { &*(&raw const *state).cast::<A>() }
    }

    /// As [`state`](Self::state), after a tentative turn has been given a copy.
    #[inline]
    pub(crate) fn state_to_write<A: Actor>(&mut self) -> &mut A {
        // Relaxed: it is set between two turns.
        if self.cell().state.copies_before_write.load(Ordering::Relaxed) {
            self.copy();
        }
        let state = &mut *self.0.state;
        debug_assert!((state as &dyn Any).is::<A>(), "the state is of the actor's type");
        // SAFETY: as in `state`.
        unsafe { &mut *(&raw mut *state).cast::<A>() }
    }

    #[cold]
    fn copy(&mut self) {
        let copied = self.0.state.copy();
        let original = mem::replace(&mut self.0.state, copied);
        self.cell().state.copies_before_write.store(false, Ordering::Relaxed);
        self.cell().life.with(|rare| rare.original = Some(original));
    }
}

impl Drop for Lent {
    #[inline]
    fn drop(&mut self) {
        let slot = &raw const self.cell().state;
        // SAFETY: what was lent is not used any more.
        let kept = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: it was taken from the slot of its actor, which it keeps itself.
        unsafe { StateSlot::put(slot, kept) };
    }
}

/// Lends the state to an actor's plain turns, one after the other, so that it is claimed once.
pub(crate) struct Lender {
    cell: Arc<ActorCell>,
    /// Whether the state is the lender's.
    has_state: bool,
    /// A turn that can wait, from its beginning to its first poll; before, one that has ended, for its memory.
    pub(crate) started: Option<Pin<Box<dyn Suspended>>>,
}

impl Lender {
    pub(crate) fn new(cell: Arc<ActorCell>) -> Self {
        Self { cell, has_state: false, started: None }
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
        if !self.has_state {
            self.claim();
        }
        let kept = self.cell.state.kept.get();
        // SAFETY: the state lies there and is the lender's, which is borrowed as long as the lease. That is nothing but
        // what is kept, and the messages of a cell are those of its actor's type.
        let lease = unsafe { &mut *kept.cast::<Lease<A>>() };
        // SAFETY: a context is nothing but the cell.
        let cx = unsafe { &*(&raw const self.cell).cast::<Cx<A>>() };
        (lease, cx)
    }

    fn claim(&mut self) {
        // SAFETY: the owner of the lender runs the actor.
        let was_here = unsafe { self.cell.state.claim() };
        assert!(was_here, "{BETWEEN_TURNS}");
        self.has_state = true;
        // SAFETY: the state lies there and is the lender's.
        let kept = unsafe { &mut *self.cell.state.kept.get().cast::<Kept>() };
        kept.cell.get_or_insert_with(|| Arc::clone(&self.cell));
    }

    /// For a turn that owns the state.
    pub(crate) fn give_away<A: Actor>(&mut self) -> Lease<A> {
        self.put_back();
        // SAFETY: the owner of the lender runs the actor.
        let lent = unsafe { Lent::take(&self.cell) };
        Lease::new(lent.expect(BETWEEN_TURNS))
    }

    pub(crate) fn cx<A: Actor>(&self) -> Cx<A> {
        Cx::new(Arc::clone(&self.cell))
    }

    /// Puts the state back, for turns of another kind and for what replaces it.
    pub(crate) fn put_back(&mut self) {
        if mem::take(&mut self.has_state) {
            // Release: pairs with the load that takes it.
            self.cell.state.is_here.store(true, Ordering::Release);
        }
    }

    /// The next turn is tentative: it is to copy the state before it writes.
    pub(super) fn copy_before_write(&mut self) {
        self.put_back();
        self.cell.state.copies_before_write.store(true, Ordering::Relaxed);
    }

    /// What a tentative turn has made of the state is the state; gives what it was.
    pub(super) fn keep(&mut self) -> Option<State> {
        self.put_back();
        self.take_original()
    }

    /// The state is what it was before a tentative turn; gives what that has made of it.
    pub(super) fn restore(&mut self) -> Option<State> {
        self.put_back();
        let original = self.take_original().filter(|_| !cfg!(planted = "keep_what_was_tried"));
        original.and_then(|original| self.replace(original))
    }

    /// Has the actor go on with `state`; gives what it was.
    pub(super) fn replace(&mut self, state: State) -> Option<State> {
        self.change(|kept| mem::replace(&mut kept.state, state))
    }

    /// What the actor has left.
    pub(super) fn take_all(&mut self) -> [Option<State>; 2] {
        self.put_back();
        // SAFETY: the owner of the lender runs the actor.
        let kept = unsafe { self.cell.state.take() };
        [kept.map(|kept| kept.state), self.cell.take_next_state()]
    }

    fn take_original(&self) -> Option<State> {
        self.cell.state.copies_before_write.store(false, Ordering::Relaxed);
        self.cell.life.with_any(|rare| rare.original.take()).flatten()
    }

    /// Calls `f` with the state, unless a turn has it.
    fn change<R>(&mut self, f: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        self.put_back();
        // SAFETY: the owner of the lender runs the actor.
        let mut lent = unsafe { Lent::take(&self.cell) }?;
        Some(f(&mut lent.0))
    }
}

impl ActorCell {
    /// Has the next turn begin with `state`.
    pub(crate) fn set_next(&self, state: State) {
        let mut state = Some(state);
        // What is left or replaced is dropped without the lock.
        self.life.with(|rare| mem::swap(&mut rare.next, &mut state));
        self.has_next.store(true, Ordering::Release);
    }

    fn take_next_state(&self) -> Option<State> {
        self.life.with_any(|rare| rare.next.take()).flatten()
    }

    /// Puts the next state in place, if there is one and no turn has the present one.
    #[inline]
    pub(super) fn begin_next(&self, lender: &mut Lender) {
        if self.has_next.load(Ordering::Acquire) {
            self.put_next_in_place(lender);
        }
    }

    #[cold]
    fn put_next_in_place(&self, lender: &mut Lender) {
        let replaced = lender.change(|kept| {
            self.has_next.store(false, Ordering::Relaxed);
            let next = self.take_next_state()?;
            Some(mem::replace(&mut kept.state, next))
        });
        let Some(old) = replaced else { return };
        // A destructor that panics has no turn to fail.
        let _dropped = contain(|| drop(old));
        self.announce_change();
    }
}
