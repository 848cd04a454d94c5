//! Tentative turns: what a turn does that may never have happened.
//!
//! # Problem
//! A message sent in a transaction reaches its actor before the transaction is decided. The actor may work on it at once,
//! but nobody outside may see anything of that work until the transaction has committed, and nothing may remain of it if
//! the transaction is aborted.
//!
//! # States
//! A turn is *definitive* if its message depends on nothing that is open. Otherwise it is *tentative*, with one
//! dependency: the [`Fate`] that its message carries. When the fate is decided as committed, the turn is definitive from
//! then on, wherever it is; when as aborted, it has never been.
//!
//! # What a tentative turn does
//! * It changes a copy of the state, made when it first writes; see [`Lease`](crate::turn::Lease).
//! * Its messages go out at once and carry the same fate.
//! * Its transactions run at once and commit after the fate has; `stm` finds the fate in the thread ([`enter`]).
//! * Everything else that others could see is an *effect* ([`perform`]): kept here in order, done when the fate is
//!   committed, taken back when it is aborted.
//!
//! # Why no circle of waits can form
//! A fate is there before the messages that carry it, a message before its turn, a turn before the transactions in it,
//! and a transaction before its own fate. So each transaction that waits for a fate is younger than it, and a chain of
//! waits ends at an attempt that waits for nothing. `stm` asserts the order in debug builds.
//!
//! That attempt may be one of a cooperative turn whose actor waits for it before it takes anything else up, the turn's own
//! resumption included. So no attempt is left open by a turn that is suspended, unless it waits for an older fate, and
//! then its actor takes nothing up: an attempt that finds `stm`'s gate closed is given up.
//!
//! # Source
//! J. Swalens, J. De Koster, W. De Meuter, *Transactional Actors: Communication in Transactions*, sections 4 and 5. We
//! differ in that a turn waits without a thread, and in that what is read before the fate is decided is checked after it.
use std::task::{Poll, Waker};

use enact_stm::Tx;
use enact_stm::hooks::{self, Decision, Fate, Retracted};
use enact_sync::Mutex;
use enact_sync::unmodelled::Arc;

use crate::turn::contain;
use crate::{frame, scheduler};

/// What one tentative turn depends on, and what it has promised to do.
pub(crate) struct Tentative {
    fate: Fate,
    effects: Mutex<Vec<Effect>>,
}

/// Told the decision, once.
type Effect = Box<dyn FnOnce(Decision) + Send>;

impl Tentative {
    pub(crate) fn new(fate: Fate) -> Arc<Self> {
        Arc::new(Self { fate, effects: Mutex::default() })
    }

    /// The dependency, unless it has committed.
    pub(crate) fn open_fate(&self) -> Option<Fate> {
        (self.fate.decision() != Some(Decision::Committed)).then(|| self.fate.clone())
    }

    /// The decision; if the fate has committed, what the turn has promised is done first.
    fn poll(&self, waker: &Waker) -> Poll<Decision> {
        let decided = self.fate.poll(waker);
        if decided == Poll::Ready(Decision::Committed) {
            self.commit();
        }
        decided
    }

    fn add(&self, effect: impl FnOnce(Decision) + Send + 'static) {
        match self.fate.decision() {
            None => self.effects.lock().push(Box::new(effect)),
            Some(Decision::Committed) => {
                self.commit();
                effect(Decision::Committed);
            }
            Some(Decision::Aborted) => effect(Decision::Aborted),
        }
    }

    /// Does what the turn has promised so far, in its order.
    pub(crate) fn commit(&self) {
        let effects = std::mem::take(&mut *self.effects.lock());
        effects.into_iter().for_each(|effect| finish(effect, Decision::Committed));
    }

    /// Takes it back, the latest first.
    pub(crate) fn abort(&self) {
        let effects = std::mem::take(&mut *self.effects.lock());
        effects.into_iter().rev().for_each(|effect| finish(effect, Decision::Aborted));
    }
}

/// What can panic is a destructor of the user's, which has no turn to fail.
fn finish(effect: Effect, decision: Decision) {
    if let Err(panic) = contain(|| effect(decision)) {
        tracing::error!(text = &**panic.text(), "an effect of a tentative turn panicked");
    }
}

/// Has `effect` told that it counts: now or, in a tentative turn, when that is definitive; or that it does not, if the
/// turn never is.
pub(crate) fn follow(effect: impl FnOnce(Decision) + Send + 'static) {
    match frame::tentative() {
        Some(tentative) if !cfg!(planted = "do_effects_at_once") => tentative.add(effect),
        _ => effect(Decision::Committed),
    }
}

/// Does `commit` now or, in a tentative turn, when that is definitive; does `abort` instead if it never is.
pub(crate) fn perform_or(commit: impl FnOnce() + Send + 'static, abort: impl FnOnce() + Send + 'static) {
    follow(move |decision| match decision {
        Decision::Committed => commit(),
        Decision::Aborted => abort(),
    });
}

/// Does `commit` now or, in a tentative turn, when that is definitive.
pub(crate) fn perform(commit: impl FnOnce() + Send + 'static) {
    perform_or(commit, || ());
}

/// Does `commit` when `tx` has committed, or `abort` when the part of it that runs now is rolled back.
pub(crate) fn perform_within(
    tx: &mut Tx<'_, '_>,
    commit: impl FnOnce() + Send + 'static,
    abort: impl FnOnce() + Send + 'static,
) {
    // In a turn that was tentative, after what it has promised before.
    hooks::on_commit(tx, move || perform(commit));
    hooks::on_abort(tx, abort);
}

/// Does what the turn that this thread is in has promised, if it is definitive by now. To be called before the turn
/// blocks: what it waits for may need that.
pub(crate) fn catch_up() {
    if let Some(tentative) = frame::tentative()
        && tentative.open_fate().is_none()
    {
        tentative.commit();
    }
}

/// What has become of the turn that this thread is in; while that is open, `waker` is left to be woken.
pub(crate) fn poll(waker: &Waker) -> Poll<Decision> {
    frame::tentative().map_or(Poll::Ready(Decision::Committed), |tentative| tentative.poll(waker))
}

/// What messages of the turn that this thread is in depend on. If that has committed in the middle of the turn, what the
/// turn has promised before is done before the message goes out.
#[inline]
pub(crate) fn dependency() -> Option<Fate> {
    if frame::is_tentative() && !cfg!(planted = "forward_no_dependency") { dependency_of_turn() } else { None }
}

#[cold]
fn dependency_of_turn() -> Option<Fate> {
    let tentative = frame::tentative()?;
    let fate = tentative.open_fate();
    if fate.is_none() {
        tentative.commit();
    }
    fate
}

/// Blocks this thread until the turn that it is in is definitive, and does what it has promised so far; leaves the turn if
/// it never is.
pub(crate) fn wait_until_definitive() {
    if !frame::is_tentative() {
        return;
    }
    let parker = Arc::default();
    let waker = Waker::from(Arc::clone(&parker));
    loop {
        match poll(&waker) {
            Poll::Ready(Decision::Committed) => return,
            Poll::Ready(Decision::Aborted) => leave(),
            Poll::Pending => scheduler::park(&parker),
        }
    }
}

/// Leaves the turn that this thread is in, which has never been.
pub(crate) fn leave() -> ! {
    std::panic::resume_unwind(Box::new(Retracted))
}
