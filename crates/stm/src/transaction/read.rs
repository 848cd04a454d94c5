//! Reading: the present state, checked, or a snapshot of the past, never in conflict.
#![expect(unsafe_code, reason = "an attempt reads values that its epoch protects")]
use enact_sync::atomic::{Ordering, fence, ordered};
use enact_sync::{hint, thread};

use super::{Abort, Cause, Descriptor, Mode, Reason};
use crate::descriptor::ANNOUNCED;
use crate::domain::{CHOOSES, DOMAIN};
use crate::transaction::log::Read;
use crate::variable::cell::CellCore;
use crate::variable::node;
use crate::variable::versioned_lock::{FLAGS, LOCKED, VersionedLock, WAITED, owner, version};

/// A lock is held for some tens of nanoseconds, unless its holder has lost its processor.
const SPINS: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 96 };

impl Descriptor {
    /// The bits in a cell.
    ///
    /// The one look that almost always is enough, so that it can be inlined; everything else is in
    /// [`read_cell_at_length`](Self::read_cell_at_length).
    #[inline]
    pub(super) fn read_cell(&mut self, cell: &CellCore) -> Result<u64, Abort> {
        let word = cell.versioned_lock.load(Ordering::Acquire);
        let value = cell.value.load(Ordering::Acquire);
        // Pairs with the release store of the value: a reader of a value that is being published sees the lock.
        fence(Ordering::Acquire);
        if word & LOCKED == 0
            && cell.versioned_lock.load(Ordering::Relaxed) == word
            && (version(word) <= self.time || self.published(word))
        {
            if self.mode != Mode::Logged {
                return Ok(value);
            }
            if self.has_room() {
                self.reads.push(Read { versioned_lock: &raw const cell.versioned_lock, seen: word & !WAITED });
                return Ok(value);
            }
        }
        self.read_cell_at_length(cell)
    }

    /// True if a read is logged without a look for more memory.
    #[inline]
    fn has_room(&self) -> bool {
        self.reads.len() < self.reads.capacity()
    }

    #[inline(never)]
    fn read_cell_at_length(&mut self, cell: &CellCore) -> Result<u64, Abort> {
        if self.mode != Mode::Logged {
            return Ok(self.read_cell_of_snapshot(cell));
        }
        let mut spins = 0;
        loop {
            let word = cell.versioned_lock.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                let value = cell.value.load(Ordering::Acquire);
                // As above.
                fence(Ordering::Acquire);
                if cell.versioned_lock.load(Ordering::Relaxed) == word {
                    if version(word) <= self.time || self.published(word) {
                        self.reads.push(Read { versioned_lock: &raw const cell.versioned_lock, seen: word & !WAITED });
                        return Ok(value);
                    }
                    self.extend(version(word))?;
                }
                continue;
            }
            self.spin(&mut spins)?;
        }
    }

    /// The address of the node that a variable leads to; good until the attempt ends.
    ///
    /// One look, as in [`read_cell`](Self::read_cell).
    #[inline]
    pub(super) fn read_node(&mut self, variable: &VersionedLock) -> Result<u64, Abort> {
        if self.pinned && self.mode == Mode::Logged {
            let word = variable.load(Ordering::Acquire);
            if word & LOCKED == 0 && self.slot.pin.is_covering() && self.has_room() {
                let address = word & !FLAGS;
                // SAFETY: the address was loaded under an announcement that covers it.
                let mark = unsafe { node::header(address) }.mark.load(Ordering::Relaxed);
                if version(mark) <= self.time || self.published(mark) {
                    self.reads.push(Read { versioned_lock: variable, seen: address });
                    return Ok(address);
                }
            }
        }
        self.read_node_at_length(variable)
    }

    #[inline(never)]
    fn read_node_at_length(&mut self, variable: &VersionedLock) -> Result<u64, Abort> {
        self.pin();
        if self.mode != Mode::Logged {
            return Ok(self.read_node_of_snapshot(variable));
        }
        let mut spins = 0;
        loop {
            let word = variable.load(Ordering::Acquire);
            if !self.slot.pin.covers() {
                continue;
            }
            if word & LOCKED == 0 {
                let address = word & !FLAGS;
                // SAFETY: the address was loaded under an announcement that covers it.
                let mark = unsafe { node::header(address) }.mark.load(Ordering::Relaxed);
                if version(mark) <= self.time || self.published(mark) {
                    self.reads.push(Read { versioned_lock: variable, seen: address });
                    return Ok(address);
                }
                self.extend(version(mark))?;
                continue;
            }
            self.spin(&mut spins)?;
        }
    }

    /// The address that a link leads to, 0 for none; its count is kept until the attempt ends.
    ///
    /// A link is a cell whose word must be covered by the announcement before it is used. In a snapshot the word
    /// belongs to the snapshot's time, and the link's chain keeps its count as long as the snapshot runs.
    #[inline]
    pub(super) fn read_link(&mut self, link: &CellCore) -> Result<u64, Abort> {
        match self.see_link(link) {
            Some(address) => Ok(address),
            None => self.read_link_at_length(link),
        }
    }

    /// One look, as in [`read_cell`](Self::read_cell). Walks consist of it: what it finds stays in registers.
    #[expect(clippy::inline_always, reason = "a call passes the address through memory, a third of a step of a walk")]
    #[inline(always)]
    pub(super) fn see_link(&mut self, link: &CellCore) -> Option<u64> {
        if !self.pinned || self.mode != Mode::Logged {
            return None;
        }
        let word = link.versioned_lock.load(Ordering::Acquire);
        let address = link.value.load(Ordering::Acquire);
        // As in `read_cell`.
        fence(Ordering::Acquire);
        if word & LOCKED == 0
            && link.versioned_lock.load(Ordering::Relaxed) == word
            && (self.slot.pin.is_covering() || cfg!(planted = "read_links_of_any_epoch"))
            && (version(word) <= self.time || self.published(word))
            && self.has_room()
        {
            self.reads.push(Read { versioned_lock: &raw const link.versioned_lock, seen: word & !WAITED });
            return Some(address);
        }
        None
    }

    #[inline(never)]
    fn read_link_at_length(&mut self, link: &CellCore) -> Result<u64, Abort> {
        self.pin();
        loop {
            let address = self.read_cell(link)?;
            let is_covered = cfg!(planted = "read_links_of_any_epoch") || self.slot.pin.covers();
            if is_covered || self.mode != Mode::Logged {
                return Ok(address);
            }
        }
    }

    #[inline]
    fn published(&self, mark: u64) -> bool {
        self.owner != 0 && owner(mark) == self.owner
    }

    #[cold]
    fn spin(&mut self, spins: &mut u32) -> Result<(), Abort> {
        *spins += 1;
        if *spins > SPINS && !self.alone {
            return Err(self.abort(Reason::Conflict(Cause::Locked)));
        }
        wait_a_little(*spins);
        Ok(())
    }

    /// Moves the snapshot to a time at which `version` is part of it, if nothing that was read has changed.
    #[cold]
    pub(super) fn extend(&mut self, version: u64) -> Result<(), Abort> {
        let clock = &DOMAIN.clock;
        if clock.load(Ordering::Acquire) < version {
            clock.fetch_max(version, Ordering::AcqRel);
        }
        let time = clock.load(Ordering::Acquire);
        ordered();
        if !cfg!(planted = "skip_validation") && !self.is_unchanged() {
            return Err(self.abort(Reason::Conflict(Cause::Changed)));
        }
        self.time = time;
        Ok(())
    }

    /// Extends to the present: what the attempt has read is current, after everything that happened before this call.
    pub(crate) fn catch_up(&mut self) -> Result<(), Abort> {
        self.extend(0)
    }

    fn is_unchanged(&self) -> bool {
        self.reads.iter().all(|read| {
            let now = read.lock().load(Ordering::Acquire) & !WAITED;
            now == read.seen || (self.alone && now == read.seen | LOCKED && Self::settles(read))
        })
    }

    /// Waits until a variable is unlocked, for a transaction that runs alone: the lock may be one of a commit that is
    /// about to be refused. True if it has left what was read.
    #[cold]
    pub(super) fn settles(read: &Read) -> bool {
        let mut spins = 0;
        loop {
            let now = read.lock().load(Ordering::Acquire) & !WAITED;
            if now & LOCKED == 0 {
                return now == read.seen;
            }
            spins += 1;
            wait_a_little(spins);
        }
    }

    #[cold]
    pub(super) fn begin_snapshot(&mut self) {
        self.pin();
        self.slot.snapshot.store(ANNOUNCED, Ordering::Relaxed);
        DOMAIN.snapshots.fetch_add(CHOOSES + 1, Ordering::AcqRel);
        // Pairs with the fence of a commit: either it sees the announcement, or it is seen here as under way or over.
        fence(Ordering::SeqCst);
        let newest = DOMAIN.descriptors.slots().map(|slot| slot.published_before_now()).max().unwrap_or(0);
        if DOMAIN.clock.load(Ordering::Acquire) < newest {
            DOMAIN.clock.fetch_max(newest, Ordering::AcqRel);
        }
        self.time = DOMAIN.clock.load(Ordering::Acquire);
        ordered();
        // From here on commits know which values to keep for this reader.
        self.slot.snapshot.store(self.time, Ordering::Release);
        DOMAIN.snapshots.fetch_sub(CHOOSES, Ordering::AcqRel);
    }

    #[cold]
    pub(super) fn end_snapshot(&mut self) {
        self.mode = Mode::Logged;
        self.slot.snapshot.store(0, Ordering::Release);
        DOMAIN.snapshots.fetch_sub(1, Ordering::AcqRel);
    }

    #[inline]
    fn read_cell_of_snapshot(&mut self, cell: &CellCore) -> u64 {
        let word = cell.versioned_lock.load(Ordering::Acquire);
        let value = cell.value.load(Ordering::Acquire);
        // As in `read_cell`.
        fence(Ordering::Acquire);
        if word & LOCKED == 0 && version(word) <= self.time && cell.versioned_lock.load(Ordering::Relaxed) == word {
            return value;
        }
        self.read_past_of_cell(cell)
    }

    /// Reads a cell that is being written, or is newer than the snapshot.
    #[cold]
    fn read_past_of_cell(&mut self, cell: &CellCore) -> u64 {
        let mut spins = 0;
        loop {
            let word = cell.versioned_lock.load(Ordering::Acquire);
            if word & LOCKED != 0 {
                spins += 1;
                wait_a_little(spins);
                continue;
            }
            let value = cell.value.load(Ordering::Acquire);
            fence(Ordering::Acquire);
            if version(word) <= self.time {
                if cell.versioned_lock.load(Ordering::Relaxed) == word {
                    return value;
                }
                continue;
            }
            let past = cell.past.load(Ordering::Acquire);
            if !self.slot.pin.follows() {
                continue;
            }
            let node = self.find_past(past);
            let node =
                node.unwrap_or_else(|| unreachable!("a value of time {} is gone, although it is read", self.time));
            // SAFETY: a cell's chain is of nodes of words; `find_past` gives nodes that stay in it as long as the
            // snapshot runs.
            return *unsafe { node::value::<u64>(node) };
        }
    }

    fn read_node_of_snapshot(&mut self, variable: &VersionedLock) -> u64 {
        let mut spins = 0;
        loop {
            let word = variable.load(Ordering::Acquire);
            if !self.slot.pin.follows() {
                continue;
            }
            if word & LOCKED != 0 {
                spins += 1;
                wait_a_little(spins);
                continue;
            }
            let node = self.find_past(word & !FLAGS);
            return node.unwrap_or_else(|| unreachable!("a value of time {} is gone, although it is read", self.time));
        }
    }

    /// The newest node of a chain that belongs to the snapshot; it stays there until the snapshot has ended.
    fn find_past(&self, mut address: u64) -> Option<u64> {
        while address != 0 {
            // SAFETY: the first address was loaded under an announcement that covers it. The others are of the chain as it
            // was then, because nodes are taken out of it but never put in behind others: they are older, and were not
            // retired before.
            let header = unsafe { node::header(address) };
            if version(header.mark.load(Ordering::Relaxed)) <= self.time {
                return Some(address);
            }
            address = header.past.load(Ordering::Acquire);
        }
        None
    }
}

/// Waits for a commit that is under way: it takes some tens of nanoseconds, unless it has lost its processor.
pub(crate) fn wait_a_little(spins: u32) {
    if spins.is_multiple_of(64) || cfg!(any(enact_loom, enact_shuttle)) {
        thread::yield_now();
    } else {
        hint::spin_loop();
    }
}
