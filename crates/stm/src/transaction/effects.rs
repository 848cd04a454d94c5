//! What an attempt has besides its reads and writes: rarely anything, so it is kept apart.
use super::{Kind, Worker};
use crate::defer::Operation;
use crate::fate::Fate;
use crate::lock::{OwnerId, TxLock};
use crate::transaction::log::{State, Write};
use crate::variable::node::Free;
use crate::variable::stamp::FLAGS;
use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;
use std::any::TypeId;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

/// A condition on the value of a variable: over the bits of a cell or the address of a node, whose type is `of`.
#[derive(Clone)]
pub struct Condition {
    pub(crate) of: Option<TypeId>,
    pub(crate) test: Arc<dyn Fn(u64) -> bool + Send + Sync>,
}

/// What is to happen when the fate of the attempt, or of the nested part in which it was said, is known.
pub(crate) struct Effect {
    pub(crate) on_commit: Option<Box<dyn FnOnce() + Send>>,
    pub(crate) on_abort: Option<Box<dyn FnOnce() + Send>>,
}

/// A function that is applied to whatever the commit finds in a variable.
pub(super) struct Commute {
    pub(super) entry: usize,
    pub(super) apply: Box<dyn Fn(u64) -> u64 + Send>,
}

/// A write that a nested part has replaced.
pub(super) struct Undo {
    pub(super) entry: usize,
    pub(super) value: u64,
    pub(super) state: State,
}

/// The rarely used part of an attempt.
#[derive(Default)]
pub(crate) struct Extras {
    /// The nested part that runs now, 0 outside of any, and how many there have been.
    pub(super) part: u32,
    pub(super) parts: u32,
    pub(super) commutes: Vec<Commute>,
    pub(super) undo: Vec<Undo>,
    /// Nodes that will not be published; the attempt may still refer to them.
    pub(super) spent: Vec<(u64, Free)>,
    /// Conditions under which the reads with these indices are worth a wake-up.
    pub(super) conditions: Vec<(usize, Condition)>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) effects: Vec<Effect>,
    /// With the part each belongs to.
    pub(super) fates: Vec<(u32, Fate)>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) owner: Option<OwnerId>,
    /// Locks that this attempt has acquired, and those that it has released.
    pub(crate) acquired: Vec<TxLock>,
    pub(crate) released: Vec<TxLock>,
}

impl fmt::Debug for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extras").finish_non_exhaustive()
    }
}

impl Worker {
    /// The rarely used part, to be added to.
    pub(super) fn add(&mut self) -> &mut Extras {
        self.busy = true;
        &mut self.extras
    }

    /// Puts values in place of functions, with all locks held. Runs code of users, which may panic.
    #[cold]
    pub(super) fn apply_commutes(&mut self) {
        for n in 0..self.extras.commutes.len() {
            let entry = self.extras.commutes[n].entry;
            let Write { kind, value, locked, state, .. } = self.writes[entry];
            let before = match (state, kind) {
                // It was read after all, and the function was applied then.
                (State::Known, _) => continue,
                (State::Applied, _) => value,
                (State::Commutes, Kind::Node(_)) => locked & !FLAGS,
                (State::Commutes, Kind::Cell(cell)) => {
                    // SAFETY: the attempt still borrows the cell.
                    unsafe { &*cell }.value.load(Ordering::Acquire)
                }
            };
            let after = (self.extras.commutes[n].apply)(before);
            if state == State::Applied {
                self.discard(kind, value);
            }
            self.writes[entry].value = after;
            self.writes[entry].state = State::Applied;
        }
    }

    /// The fate of the part of the attempt that runs now: each nested part has its own, because it can fail by itself.
    pub(super) fn fate(&mut self) -> Fate {
        let part = self.extras.part;
        if let Some((_, fate)) = self.extras.fates.iter().rfind(|(of, _)| *of == part) {
            return fate.clone();
        }
        let fate = Fate::pending();
        self.add().fates.push((part, fate.clone()));
        fate
    }

    /// True if somebody may depend on this attempt.
    pub(crate) fn has_fates(&self) -> bool {
        !self.extras.fates.is_empty()
    }

    /// True if whoever depends on this attempt got to know it after `fate` was there.
    pub(crate) fn has_only_fates_younger_than(&self, fate: &Fate) -> bool {
        self.extras.fates.iter().all(|(_, own)| fate.is_older_than(own))
    }

    /// Forgets the rarely used part of an attempt that has ended; what is still in it has not taken effect.
    #[cold]
    pub(super) fn clear_extras(&mut self) {
        self.busy = false;
        let extras = &mut self.extras;
        (extras.part, extras.parts) = (0, 0);
        assert!(extras.undo.is_empty(), "every nested part of an attempt is left before it ends");
        self.kept.clear();
        extras.commutes.clear();
        extras.conditions.clear();
        extras.deadline = None;
        extras.owner = None;
        for (address, free) in extras.spent.drain(..) {
            // SAFETY: never published, so only this attempt knew the address; it has ended.
            unsafe { free(address) };
        }
        extras.operations.clear();
        extras.acquired.clear();
        extras.released.clear();
        debug_assert!(extras.effects.is_empty() && extras.fates.is_empty(), "fates are decided before an attempt ends");
    }

    /// Decides what the attempt did not get to: everything it has promised for its abort happens.
    #[cold]
    pub(crate) fn decide_abort(&mut self) {
        self.take_undecided().abort();
    }

    /// Tells whoever depends on the attempt that it has committed.
    #[cold]
    pub(crate) fn decide_commit(&mut self) {
        self.take_undecided().commit();
    }

    fn take_undecided(&mut self) -> Undecided {
        let extras = &mut self.extras;
        Undecided { fates: std::mem::take(&mut extras.fates), effects: std::mem::take(&mut extras.effects) }
    }
}

/// Fates and effects of an attempt or of a part of it, which happen in one way or the other.
pub(super) struct Undecided {
    pub(super) fates: Vec<(u32, Fate)>,
    pub(super) effects: Vec<Effect>,
}

impl Undecided {
    /// Aborts, the latest first. If an effect panics, the others happen all the same before the panic goes on.
    pub(super) fn abort(self) {
        for (_, fate) in self.fates.into_iter().rev() {
            fate.abort();
        }
        run_all(self.effects.into_iter().rev().filter_map(|effect| effect.on_abort));
    }

    /// Commits, in order. If an effect panics, the others happen all the same before the panic goes on.
    fn commit(self) {
        for (_, fate) in self.fates {
            fate.commit();
        }
        run_all(self.effects.into_iter().filter_map(|effect| effect.on_commit));
    }
}

fn run_all(effects: impl Iterator<Item = Box<dyn FnOnce() + Send>>) {
    let mut first = None;
    for effect in effects {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(effect)) {
            first.get_or_insert(panic);
        }
    }
    if let Some(panic) = first {
        resume_unwind(panic);
    }
}

impl crate::transaction::Tx<'_, '_> {
    /// Notes a lock that this attempt has acquired.
    pub(crate) fn acquired(&mut self, lock: TxLock) {
        self.worker.add().acquired.push(lock);
    }

    /// Notes a lock that this attempt has released.
    pub(crate) fn released(&mut self, lock: TxLock) {
        self.worker.add().released.push(lock);
    }

    /// Notes an operation for after the commit.
    pub(crate) fn add_operation(&mut self, operation: Operation) {
        self.worker.add().operations.push(operation);
    }
}

impl Worker {
    /// True if there are operations to be run after the commit, or locks to be released then.
    pub(crate) fn has_follow_up(&self, releases: bool) -> bool {
        !self.extras.operations.is_empty() || (releases && !self.extras.acquired.is_empty())
    }

    /// Takes out what a committed attempt has left to do: for whom, its operations, and the locks that it has acquired
    /// more often than released.
    pub(crate) fn take_operations(&mut self) -> (Option<OwnerId>, Vec<Operation>, Vec<TxLock>) {
        let extras = &mut self.extras;
        let mut left = std::mem::take(&mut extras.acquired);
        for released in &extras.released {
            if let Some(index) = left.iter().position(|lock| lock.is_same(released)) {
                left.swap_remove(index);
            }
        }
        (extras.owner, std::mem::take(&mut extras.operations), left)
    }
}
