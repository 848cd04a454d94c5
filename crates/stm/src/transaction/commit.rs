//! Publishing what an attempt has written, all of it at one moment or nothing.
#![expect(unsafe_code, reason = "the write set holds addresses of variables and values")]
use enact_sync::atomic::{Ordering, ordered};

use super::{Cause, Descriptor, Mode};
use crate::domain::{CHOOSES, DOMAIN};
use crate::transaction::log::{Read, Write};
use crate::transaction::read::wait_a_little;
use crate::variable::cell::CellCore;
use crate::variable::link::LinkCore;
use crate::variable::node::{self, Form, Free, Node};
use crate::variable::versioned_lock::{FLAGS, LOCKED, VERSION_MAX, VersionedLock, WAITED, mark, version};

/// A lock is held for some tens of nanoseconds, unless its holder has lost its processor.
const SPINS: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 128 };

/// Why a commit did not happen. Nothing is locked and nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The attempt has to be run again.
    Conflict(Cause),
    /// Somebody runs alone: the same commit may be tried again when the serial lock is open.
    Closed,
}

/// Unlocks what a commit has locked, whatever happens in between: functions of users run under these locks.
struct Locks<'w> {
    descriptor: &'w mut Descriptor,
    count: usize,
}

impl Drop for Locks<'_> {
    #[cold]
    fn drop(&mut self) {
        for write in &self.descriptor.writes[..self.count] {
            write.lock().store(write.locked, Ordering::Release);
        }
        let commits = &self.descriptor.slot.commits;
        commits.store(commits.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl Descriptor {
    /// Commits, and counts that. On success the writes are visible, and the flag tells whether [`wake`](Self::wake) has
    /// to be called.
    #[inline]
    pub(crate) fn commit(&mut self) -> Result<bool, Refused> {
        // A transaction that has deferred something passes the serial lock even without a write, because its operations may write.
        if self.writes.is_empty() && self.extras.operations.is_empty() {
            let counters = &self.slot.counters;
            counters.read_only_commits.add_one();
            if self.mode != Mode::Logged {
                counters.snapshots.add_one();
            }
            return Ok(false);
        }
        self.commit_writes()
    }

    fn commit_writes(&mut self) -> Result<bool, Refused> {
        let commits = &self.slot.commits;
        commits.store(commits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let mut locks = Locks { descriptor: self, count: 0 };
        let (highest, waited) = locks.take()?;
        // Pairs with the fences of readers, of snapshots and of the serial lock: each of them sees these locks, or is
        // seen below.
        ordered();
        let descriptor = &mut *locks.descriptor;
        if DOMAIN.serial_lock.is_attended() {
            DOMAIN.serial_lock.admit(descriptor)?;
        }
        let snapshots = DOMAIN.snapshots.load(Ordering::Acquire);
        let version = DOMAIN.clock.load(Ordering::Acquire).max(highest) + 1;
        assert!(version <= VERSION_MAX, "a variable was written 2^52 times, and there is no version for one time more");
        if snapshots >= CHOOSES && !cfg!(planted = "leave_the_clock_to_readers") {
            // A commit after this one must not get a lower version, which the snapshot could take for older.
            DOMAIN.clock.fetch_max(version, Ordering::AcqRel);
            ordered();
        }
        if !cfg!(planted = "skip_validation") && !descriptor.is_current() {
            return Err(Refused::Conflict(Cause::Changed));
        }
        if descriptor.busy {
            descriptor.apply_commutes();
        }
        descriptor.find_snapshots(snapshots);
        descriptor.publish(version);
        // Publishing has unlocked everything.
        std::mem::forget(locks);
        let counters = &self.slot.counters;
        let count = if self.writes.is_empty() { &counters.read_only_commits } else { &counters.commits };
        count.add_one();
        if !waited {
            self.writes.clear();
        }
        Ok(waited)
    }

    fn publish(&mut self, at: u64) {
        let published = &self.slot.published;
        if published.load(Ordering::Relaxed) < at {
            published.store(at, Ordering::Release);
        }
        let mark = mark(at, self.owner);
        for n in 0..self.writes.len() {
            let Write { versioned_lock, of, value, locked, .. } = self.writes[n];
            let core = versioned_lock.cast::<CellCore>();
            // SAFETY: the attempt still borrows the variable.
            let word = unsafe { &*versioned_lock };
            match of.map(|of| (of.form, of.free, of.free_past)) {
                None => {
                    // SAFETY: as above; the versioned lock is the first field of this core.
                    let cell = unsafe { &*core };
                    if self.has_past(cell) {
                        self.leave_word(cell, locked, at, DOMAIN.memory.epoch(), node::free::<u64>);
                    }
                    cell.value.store(value, Ordering::Release);
                    word.store(mark | (locked & WAITED), Ordering::Release);
                }
                Some((Form::Link, free, free_past)) => {
                    // SAFETY: as above.
                    let LinkCore { cell, birth } = unsafe { &*core.cast::<LinkCore>() };
                    let (old, born) = (cell.value.load(Ordering::Relaxed), birth.load(Ordering::Relaxed));
                    let is_left = self.has_past(cell) && self.leave_word(cell, locked, at, born, free_past);
                    // A reader that finds the word below notices this epoch, or has.
                    birth.store(self.slot.pin.newest(), Ordering::Relaxed);
                    cell.value.store(value, Ordering::Release);
                    let mark = if cfg!(planted = "publish_links_without_a_version") { locked & !FLAGS } else { mark };
                    word.store(mark | (locked & WAITED), Ordering::Release);
                    if old != 0 && !is_left {
                        // SAFETY: the stores above have unlinked it, and its count is in no chain.
                        unsafe { self.retire(old, free, born) };
                    }
                }
                Some((Form::Node, free, _)) => {
                    // SAFETY: the node is ours until the store below publishes it.
                    let new = unsafe { node::header(value) };
                    new.mark.store(mark, Ordering::Relaxed);
                    let old = locked & !FLAGS;
                    // SAFETY: the node is current, and we have the lock.
                    let header = unsafe { node::header(old) };
                    let is_needed = self.is_needed(header.mark.load(Ordering::Relaxed), at);
                    let past = if is_needed { old } else { header.past.load(Ordering::Relaxed) };
                    if past != 0 {
                        new.past.store(past, Ordering::Relaxed);
                        // SAFETY: the variable is locked, and all its nodes are freed in the same way.
                        unsafe { self.prune(&new.past, at, free) };
                    }
                    word.store(value | (locked & WAITED), Ordering::Release);
                    if !is_needed {
                        // SAFETY: the store above has unlinked it, and it is in no chain.
                        unsafe { self.retire(old, free, header.birth) };
                    }
                }
            }
        }
        let commits = &self.slot.commits;
        commits.store(commits.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// True if there is something to be done about what snapshots need of a cell that is about to be written.
    #[inline]
    fn has_past(&self, cell: &CellCore) -> bool {
        (!self.snapshots.is_empty() && !cfg!(planted = "forget_the_past")) || cell.past.load(Ordering::Relaxed) != 0
    }

    /// Leaves the word that is about to be replaced to the snapshots that need it, and says whether there are any. `free`
    /// frees the nodes of the chain, the new one too: if the word stands for something, that is the chain's from now on.
    #[cold]
    fn leave_word(&mut self, cell: &CellCore, old: u64, at: u64, birth: u64, free: Free) -> bool {
        let is_needed = self.is_needed(old, at);
        if is_needed {
            let address = Node::leak(cell.value.load(Ordering::Relaxed), old & !FLAGS, birth);
            // SAFETY: the node is ours until the store below publishes it.
            unsafe { node::header(address) }.past.store(cell.past.load(Ordering::Relaxed), Ordering::Relaxed);
            cell.past.store(address, Ordering::Release);
        }
        // SAFETY: the cell is locked, and `free` frees the nodes of its chain.
        unsafe { self.prune(&cell.past, at, free) };
        is_needed
    }

    /// True if everything read is as it was, apart from being locked by this very commit.
    #[inline]
    fn is_current(&self) -> bool {
        // Most attempts write what they read, in the same order: this is the write that is looked for next.
        let mut own = self.writes.iter().peekable();
        self.reads.iter().all(|read| {
            let now = read.lock().load(Ordering::Acquire) & !WAITED;
            now == read.seen
                || (now == read.seen | LOCKED
                    && (own.next_if(|write| write.versioned_lock == read.versioned_lock).is_some()
                        || self.is_settled(read)))
        })
    }

    /// True if a variable that is locked will be as it was read: the lock is this commit's, or goes without a change.
    #[inline(never)]
    fn is_settled(&self, read: &Read) -> bool {
        self.writes.find(read.versioned_lock).is_some() || (self.alone && Self::settles(read))
    }

    /// Wakes those who sleep on what has been published. Runs code of executors.
    #[cold]
    pub(crate) fn wake(&mut self) {
        let published = self.writes.take();
        for write in published.iter().filter(|write| write.locked & WAITED != 0) {
            DOMAIN.sleepers.wake(write.lock(), write.value, write.id());
        }
        self.writes.reuse(published);
    }

    /// The filter of what is to be written.
    pub(crate) fn footprint_of_writes(&self) -> u64 {
        self.writes.filter()
    }
}

impl Locks<'_> {
    /// Locks every variable of the write set. Gives the highest version locked, and whether anybody sleeps on one.
    #[inline]
    fn take(&mut self) -> Result<(u64, bool), Refused> {
        let (mut highest, mut waited) = (0, 0);
        let alone = self.descriptor.alone;
        for write in self.descriptor.writes.iter_mut() {
            write.locked = Self::lock(write.lock(), alone)?;
            self.count += 1;
            waited |= write.locked & WAITED;
            highest = highest.max(if write.of.is_some_and(|of| of.form == Form::Node) {
                // SAFETY: the node is current, and nobody replaces it while we have the lock.
                let header = unsafe { node::header(write.locked & !FLAGS) };
                version(header.mark.load(Ordering::Relaxed))
            } else {
                version(write.locked)
            });
        }
        Ok((highest, waited != 0))
    }

    /// Sets the lock, and gives the versioned lock as it was.
    #[inline]
    fn lock(versioned_lock: &VersionedLock, alone: bool) -> Result<u64, Refused> {
        let seen = versioned_lock.load(Ordering::Relaxed);
        if seen & LOCKED == 0
            && versioned_lock.compare_exchange(seen, seen | LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return Ok(seen);
        }
        Self::lock_at_length(versioned_lock, alone)
    }

    /// Tries to lock until it takes too long. A transaction that runs alone finds locks only of commits that will not
    /// pass the serial lock, and of deferred operations: it waits for them.
    #[cold]
    fn lock_at_length(versioned_lock: &VersionedLock, alone: bool) -> Result<u64, Refused> {
        let mut spins = 0;
        loop {
            let seen = versioned_lock.load(Ordering::Relaxed);
            if seen & LOCKED == 0
                && versioned_lock
                    .compare_exchange_weak(seen, seen | LOCKED, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                return Ok(seen);
            }
            spins += 1;
            if spins > SPINS && !alone {
                return Err(Refused::Conflict(Cause::Locked));
            }
            wait_a_little(spins);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::atomically;
    use crate::variable::TCell;

    #[test]
    fn the_commit_after_the_last_version_panics_and_changes_nothing() {
        enact_sync::explore(1, || {
            let (worn, other) = (TCell::new(1), TCell::new(1));
            worn.core.versioned_lock.store(mark(VERSION_MAX, 0), Ordering::Release);
            let both = atomically(|tx| tx.write(&other, 2).and(tx.write(&worn, 2)));
            let panic = catch_unwind(AssertUnwindSafe(|| both.run())).expect_err("there is no version left");
            let message = panic.downcast_ref::<&str>().expect("a literal");
            assert!(message.contains("no version for one time more"), "{message}");
            assert_eq!(worn.core.versioned_lock.load(Ordering::Acquire), mark(VERSION_MAX, 0), "unlocked");
            assert_eq!((worn.into_inner(), other.into_inner()), (1, 1));
        });
    }
}
