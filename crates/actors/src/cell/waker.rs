//! What wakes an asynchronous turn.
//!
//! # Two wakers
//! The graph of waits must know whether anything but an answer can wake a suspended turn. So promises of this crate keep
//! the [`TurnWaker`], and all other code a [`ForeignWaker`]. The turn is polled with a borrowed waker, whose clones are
//! foreign wakers: one that awaits promises alone makes none. `foreign` counts them, and the turn itself as one more.
//!
//! A turn that suspends without foreign wakers is woken by answers only. Otherwise it takes itself out of the count: the
//! drop of the last foreign waker then wakes the turn, which suspends again, and is judged by what can wake it then.
//!
//! A wake-up through a foreign waker sets the flag, gives the waker up, and makes the turn runnable, in this order. So a
//! turn that runs because of it does not find that waker still in use, and the drop of it finds the turn woken.
#![expect(unsafe_code, reason = "a turn is polled with a borrowed waker")]
use std::mem::ManuallyDrop;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Wake, Waker};

use enact_sync::SpinLock;
use enact_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use enact_sync::unmodelled::Arc;

use super::ActorCell;
use super::suspended::Rest;
use crate::deadlock::TurnId;
use crate::mailbox::Schedule;
use crate::mailbox::records::Resumption;

/// Wakes one asynchronous turn, or an actor that waits for a fate.
pub(crate) struct TurnWaker {
    pub(super) cell: Arc<ActorCell>,
    turn: AtomicU64,
    pub(super) holds: AtomicBool,
    pub(super) woken: AtomicBool,
    /// Whether the turn is suspended and not counted in `foreign`.
    is_opaque: AtomicBool,
    /// How many foreign wakers there are, and one more for the turn itself.
    foreign: AtomicUsize,
    /// Held while the turn is entered in the graph of waits, so that it does not go on before it is there.
    pub(super) rest: SpinLock<Rest>,
}

impl TurnWaker {
    pub(super) fn new(cell: &Arc<ActorCell>, turn: TurnId, holds: bool) -> Arc<Self> {
        Arc::new(Self {
            cell: Arc::clone(cell),
            turn: AtomicU64::new(turn.0),
            holds: AtomicBool::new(holds),
            woken: AtomicBool::new(false),
            is_opaque: AtomicBool::new(false),
            foreign: AtomicUsize::new(1),
            rest: SpinLock::default(),
        })
    }

    /// Makes it the waker of the next turn. Nobody else has it.
    pub(super) fn begin(&self, turn: TurnId, holds: bool) {
        self.turn.store(turn.0, Ordering::Relaxed);
        self.holds.store(holds, Ordering::Relaxed);
        self.woken.store(false, Ordering::Relaxed);
    }

    /// The turn that is woken.
    pub(crate) fn turn(&self) -> TurnId {
        // Relaxed: it changes while nobody else has the waker.
        TurnId(self.turn.load(Ordering::Relaxed))
    }

    pub(super) fn holds(&self) -> bool {
        // Relaxed: it changes before a poll, which every wake-up that comes later has seen through `woken`.
        self.holds.load(Ordering::Relaxed)
    }

    /// Whether the turn has been woken since it was polled last.
    pub(crate) fn is_woken(&self) -> bool {
        // Acquire: pairs with the wake-up, which happens before the waker's owner lets go of it.
        self.woken.load(Ordering::Acquire)
    }

    /// Whether there are foreign wakers of the turn.
    pub(super) fn is_outside(&self) -> bool {
        self.foreign.load(Ordering::Acquire) > 1
    }

    /// Whether anybody but the caller has a waker of the turn.
    pub(super) fn is_shared(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Counts the turn in again, which is about to be polled.
    pub(super) fn take_hold(&self) {
        // Relaxed: only the turn's runner changes it.
        if self.is_opaque.load(Ordering::Relaxed) {
            self.is_opaque.store(false, Ordering::Relaxed);
            self.foreign.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the turn out of the count: it is suspended, and the drop of the last foreign waker is to wake it.
    pub(super) fn let_go(self: &Arc<Self>) {
        // Relaxed: the one that finds the count at its end sees it through the count.
        self.is_opaque.store(true, Ordering::Relaxed);
        self.count_down();
    }

    fn count_down(self: &Arc<Self>) {
        // AcqRel: the last one sees the flag, which is set before the turn is taken out of the count.
        let is_last = self.foreign.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.is_opaque.load(Ordering::Relaxed) && !cfg!(planted = "overlook_the_last_waker") {
            self.wake_by_ref();
        }
    }

    /// Sets the flag; returns whether the caller is to make the turn runnable.
    fn set_woken(&self) -> bool {
        // AcqRel: what was done before the wake-up is seen by the poll that takes the flag.
        !self.woken.swap(true, Ordering::AcqRel)
    }

    fn make_runnable(&self) {
        let schedule = if self.holds() {
            self.cell.mailbox.wake_held(self.turn())
        } else {
            self.cell.mailbox.push_resumption(Resumption(self.turn())).unwrap_or(Schedule(None))
        };
        self.cell.schedule(schedule);
    }

    /// Polls with a waker whose clones are foreign wakers.
    pub(super) fn poll_with<R>(self: &Arc<Self>, poll: impl FnOnce(&Waker) -> R) -> R {
        let borrowed = RawWaker::new(ptr::from_ref(self).cast(), &BORROWED);
        // SAFETY: the functions of `BORROWED` keep the contract of a waker as long as `self` is borrowed, which is
        // longer than `poll` has the waker. It gets a reference, and all that it can keep is a clone, which owns what
        // it points to.
        let waker = unsafe { Waker::from_raw(borrowed) };
        poll(&waker)
    }
}

impl Wake for TurnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.set_woken() {
            self.make_runnable();
        }
    }
}

/// For wakers that point to the `Arc<TurnWaker>` of somebody else.
static BORROWED: RawWakerVTable =
    RawWakerVTable::new(clone_borrowed, wake_borrowed, wake_borrowed, |_| { /* It owns nothing. */ });

/// # Safety
/// `data` points to an `Arc<TurnWaker>` that outlives `'a`.
unsafe fn borrowed<'a>(data: *const ()) -> &'a Arc<TurnWaker> {
    // SAFETY: as the caller vouches.
    unsafe { &*data.cast() }
}

/// # Safety
/// `data` is of a waker that `poll_with` has made and still lends.
unsafe fn clone_borrowed(data: *const ()) -> RawWaker {
    // SAFETY: `poll_with` has made `data` of a reference that is alive as long as it lends the waker.
    let turn = unsafe { borrowed(data) };
    let foreign = ManuallyDrop::new(Waker::from(ForeignWaker::of(turn)));
    RawWaker::new(foreign.data(), foreign.vtable())
}

/// # Safety
/// `data` is of a waker that `poll_with` has made and still lends.
unsafe fn wake_borrowed(data: *const ()) {
    // SAFETY: `poll_with` has made `data` of a reference that is alive as long as it lends the waker.
    unsafe { borrowed(data) }.wake_by_ref();
}

/// The waker of a turn that code outside of this crate is given.
struct ForeignWaker(Arc<TurnWaker>);

impl ForeignWaker {
    /// A new one. The turn is counted in, because it is polled.
    fn of(turn: &Arc<TurnWaker>) -> Arc<Self> {
        // Relaxed: the turn itself keeps the count from its end.
        turn.foreign.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self(Arc::clone(turn)))
    }
}

impl Wake for ForeignWaker {
    fn wake(self: Arc<Self>) {
        if self.0.set_woken() {
            let turn = Arc::clone(&self.0);
            drop(self);
            turn.make_runnable();
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_by_ref();
    }
}

impl Drop for ForeignWaker {
    fn drop(&mut self) {
        self.0.count_down();
    }
}
