//! What an attempt has besides its reads and writes: rarely anything, so it is kept apart.
#![expect(unsafe_code, reason = "the write set holds addresses of variables and values")]
use std::any::TypeId;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::Descriptor;
use crate::contain::{contain, drop_each};
use crate::context;
use crate::defer::{Await, Operation, Operations};
use crate::fate::Fate;
use crate::lock::{Account, OwnerId, TxLock};
use crate::serial_lock::Underway;
use crate::transaction::Abort;
use crate::transaction::log::{State, Write};
use crate::variable::cell::CellCore;
use crate::variable::node::{Form, Free};
use crate::variable::versioned_lock::{FLAGS, VersionedLock};

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
    /// The commit that is tried leaves operations or locks to be released.
    pub(crate) starts_operations: bool,
    pub(crate) owner: Option<OwnerId>,
    /// Locks that this attempt has acquired, and those that it has released.
    pub(crate) acquired: Vec<TxLock>,
    pub(crate) released: Vec<TxLock>,
    /// Locks of others that this attempt waits for, with all their alternatives.
    pub(crate) awaited: Vec<(TxLock, OwnerId)>,
    /// Versioned locks that this attempt has read and nobody changes while the operation around it sleeps.
    pub(crate) own: Vec<usize>,
    /// This attempt has looked at the holder of a lock.
    pub(crate) looks_at_holders: bool,
}

impl fmt::Debug for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extras").finish_non_exhaustive()
    }
}

impl Descriptor {
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
            let Write { versioned_lock, of, value, locked, state } = self.writes[entry];
            let before = match (state, of.map(|of| of.form)) {
                // It was read after all, and the function was applied then.
                (State::Known, _) => continue,
                (State::Applied, _) => value,
                (State::Commutes, Some(Form::Node)) => locked & !FLAGS,
                (State::Commutes, None | Some(Form::Link)) => {
                    // SAFETY: the attempt still borrows the cell, or the link, which begins with one.
                    unsafe { &*versioned_lock.cast::<CellCore>() }.value.load(Ordering::Acquire)
                }
            };
            let after = (self.extras.commutes[n].apply)(before);
            if state == State::Applied {
                self.discard(of, value);
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

    /// True if what depends on this attempt got to know it after `fate` was there.
    pub(crate) fn has_only_fates_younger_than(&self, fate: &Fate) -> bool {
        self.extras.fates.iter().all(|(_, own)| fate.is_older_than(own))
    }

    /// Forgets the rarely used part of an attempt that has ended; what is still in it has not taken effect. The result
    /// of the attempt stands, so a panic of a destructor ends here.
    #[cold]
    pub(super) fn clear_extras(&mut self) {
        self.busy = false;
        let extras = &mut self.extras;
        (extras.part, extras.parts) = (0, 0);
        assert!(extras.undo.is_empty(), "every nested part of an attempt is left before it ends");
        self.kept.clear();
        drop_each(extras.commutes.drain(..));
        drop_each(extras.conditions.drain(..));
        extras.deadline = None;
        extras.owner = None;
        extras.starts_operations = false;
        for (address, free) in extras.spent.drain(..) {
            contain(|| {
                // SAFETY: never published, so only this attempt knew the address; it has ended.
                unsafe { free(address) }
            });
        }
        drop_each(extras.operations.drain(..));
        extras.acquired.clear();
        extras.released.clear();
        extras.awaited.clear();
        extras.own.clear();
        extras.looks_at_holders = false;
        debug_assert!(extras.effects.is_empty() && extras.fates.is_empty(), "fates are decided before an attempt ends");
    }

    /// Decides what the attempt did not get to: everything it has promised for its abort happens.
    #[inline]
    pub(crate) fn decide_abort(&mut self) {
        if self.has_undecided() {
            self.take_undecided().abort();
        }
    }

    /// Tells what depends on the attempt that it has committed.
    #[inline]
    pub(crate) fn decide_commit(&mut self) {
        if self.has_undecided() {
            self.take_undecided().commit();
        }
    }

    #[inline]
    fn has_undecided(&self) -> bool {
        !self.extras.fates.is_empty() || !self.extras.effects.is_empty()
    }

    #[cold]
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
        self.descriptor.add().acquired.push(lock);
    }

    /// Notes that this attempt has read what is of the operation around it, if that has `holder` for its owner: true then.
    pub(crate) fn reads_what_is_own(&mut self, holder: OwnerId, versioned_lock: &VersionedLock) -> bool {
        let is_own = context::operation() == Some(holder);
        if is_own {
            self.descriptor.add().own.push(std::ptr::from_ref(versioned_lock).addr());
        }
        is_own
    }

    /// Retries because another has the lock.
    #[cold]
    pub(crate) fn retry_for<R>(&mut self, lock: &TxLock, holder: OwnerId) -> Result<R, Abort> {
        self.descriptor.needs_log()?;
        self.descriptor.add().awaited.push((lock.clone(), holder));
        self.retry()
    }

    /// Notes that it may be worth a wake-up if a lock goes from one to the other.
    pub(crate) fn looks_at_holders(&mut self) {
        self.descriptor.add().looks_at_holders = true;
    }

    /// Notes a lock that this attempt has released.
    pub(crate) fn released(&mut self, lock: TxLock) {
        self.descriptor.add().released.push(lock);
    }

    /// Notes an operation for after the commit.
    pub(crate) fn add_operation(&mut self, operation: Operation) {
        self.descriptor.add().operations.push(operation);
    }
}

impl Descriptor {
    /// Counts what the commit that follows leaves to be done, if anything: operations and, with `releases`, locks.
    pub(crate) fn begin_operations(&mut self, releases: bool) -> Option<Underway> {
        let extras = &mut self.extras;
        extras.starts_operations = !extras.operations.is_empty() || (releases && !extras.acquired.is_empty());
        extras.starts_operations.then(Underway::begin)
    }

    /// Takes out what a committed attempt has left to do: for whom, its operations, and the locks that it has acquired
    /// more often than released, unless an explicit owner holds them.
    pub(crate) fn take_operations(&mut self, explicit: Option<&Account>) -> (Option<OwnerId>, Operations, Vec<TxLock>) {
        let extras = &mut self.extras;
        let mut left = std::mem::take(&mut extras.acquired);
        if explicit.is_some_and(|account| account.enter(&left, &extras.released)) {
            left.clear();
        }
        for released in &extras.released {
            if let Some(index) = left.iter().position(|lock| lock.is_same(released)) {
                left.swap_remove(index);
            }
        }
        (extras.owner, Operations::take(&mut extras.operations), left)
    }
}

impl Descriptor {
    /// What the operation around this attempt waits for, if it is locks and nothing else can wake it.
    pub(crate) fn waits_for_locks_alone(&self) -> Option<Vec<Await>> {
        let extras = &self.extras;
        if extras.deadline.is_some() || extras.looks_at_holders {
            return None;
        }
        let mut awaits = Vec::new();
        for (word, seen, condition) in self.waits() {
            let address = std::ptr::from_ref(word).addr();
            if condition.is_some() {
                return None;
            }
            match extras.awaited.iter().find(|(lock, _)| lock.address() == address) {
                Some((lock, holder)) => awaits.push(Await { lock: lock.clone(), holder: *holder, seen }),
                None if extras.own.contains(&address) => {}
                None => return None,
            }
        }
        Some(awaits)
    }
}
