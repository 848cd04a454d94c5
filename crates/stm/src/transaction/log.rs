//! What an attempt has read and what it wants to write.
//!
//! # Who may touch what
//! The descriptor whose attempt it is. The pointers are to the versioned locks of variables that the attempt borrows
//! for `'t`, so they are good until the logs are cleared at its end.
#![expect(unsafe_code, reason = "an entry refers to a variable that its attempt borrows")]
use std::any::TypeId;

use crate::variable::node::Type;
use crate::variable::versioned_lock::VersionedLock;

/// A variable that was read, and its versioned lock without flags.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    pub(super) versioned_lock: *const VersionedLock,
    pub(super) seen: u64,
}

/// A variable that is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    /// The versioned lock, and leave to use the whole of the variable's core, of which it is the first field.
    pub(super) versioned_lock: *const VersionedLock,
    /// What kind of variable it is, none for a cell.
    pub(super) of: Option<&'static Type>,
    /// The bits of a cell's value, or the address of what is written into another variable.
    pub(super) value: u64,
    /// The versioned lock that the commit has locked.
    pub(super) locked: u64,
    pub(super) state: State,
}

/// Where the value of a write comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is there.
    Known,
    /// Functions are to be applied to what the commit finds.
    Commutes,
    /// Some of these functions have been applied.
    Applied,
}

impl Read {
    /// The versioned lock of the variable.
    #[inline]
    pub(super) fn lock(&self) -> &VersionedLock {
        // SAFETY: entries are made of variables that the attempt borrows, and leave the log when it ends.
        unsafe { &*self.versioned_lock }
    }
}

impl Write {
    /// The versioned lock of the variable.
    #[inline]
    pub(super) fn lock(&self) -> &VersionedLock {
        // SAFETY: as for what is read.
        unsafe { &*self.versioned_lock }
    }

    /// The type of the variable, none for a cell.
    pub(super) fn id(&self) -> Option<TypeId> {
        self.of.map(|of| of.id)
    }
}

/// The write set, in the order of first writes.
///
/// A 64-bit filter answers most questions for variables that were not written. Up to [`LINEAR`] entries are searched one
/// by one, more by a hash table of indices.
#[derive(Debug, Default)]
pub(super) struct WriteSet {
    filter: u64,
    entries: Vec<Write>,
    /// Open addressing over `entries`: index + 1, 0 for a free place. Empty as long as the set is small.
    index: Vec<u32>,
}

const LINEAR: usize = 16;

#[inline]
fn hash(versioned_lock: *const VersionedLock) -> u64 {
    // Versioned locks are 8 bytes apart at least.
    (versioned_lock.addr() as u64 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The place of a variable in a 64-bit filter.
#[inline]
pub(super) fn filter_bit(versioned_lock: *const VersionedLock) -> u64 {
    1 << (hash(versioned_lock) >> 58)
}

impl WriteSet {
    /// False if the variable is not in the set: the answer to most reads.
    #[inline]
    pub(super) fn may_have(&self, versioned_lock: *const VersionedLock) -> bool {
        self.filter != 0 && self.filter & filter_bit(versioned_lock) != 0
    }

    #[inline(never)]
    pub(super) fn find(&self, versioned_lock: *const VersionedLock) -> Option<usize> {
        if !self.may_have(versioned_lock) {
            return None;
        }
        if self.index.is_empty() {
            return self.entries.iter().rposition(|write| write.versioned_lock == versioned_lock);
        }
        self.probe(versioned_lock).ok()
    }

    /// The index of the entry, or the free place for one.
    fn probe(&self, versioned_lock: *const VersionedLock) -> Result<usize, usize> {
        let mask = self.index.len() - 1;
        let mut place = (hash(versioned_lock) >> 20) as usize & mask;
        loop {
            match self.index[place] {
                0 => return Err(place),
                n if self.entries[n as usize - 1].versioned_lock == versioned_lock => return Ok(n as usize - 1),
                _ => place = (place + 1) & mask,
            }
        }
    }

    /// Adds a variable that is not in the set.
    #[inline]
    pub(super) fn push(&mut self, write: Write) {
        self.filter |= filter_bit(write.versioned_lock);
        self.entries.push(write);
        if self.entries.len() > LINEAR {
            self.index_last();
        }
    }

    #[cold]
    fn index_last(&mut self) {
        if self.index.len() < 2 * self.entries.len() {
            self.index = vec![0; (4 * self.entries.len()).next_power_of_two()];
            for n in 0..self.entries.len() {
                self.insert(n);
            }
        } else {
            self.insert(self.entries.len() - 1);
        }
    }

    fn insert(&mut self, n: usize) {
        if let Err(place) = self.probe(self.entries[n].versioned_lock) {
            self.index[place] = u32::try_from(n + 1).expect("fewer than 2^32 variables in one transaction");
        }
    }

    /// Takes back what was added after the first `len` entries.
    pub(super) fn truncate(&mut self, len: usize) -> Vec<Write> {
        let cut = self.entries.split_off(len);
        self.filter = self.entries.iter().fold(0, |filter, write| filter | filter_bit(write.versioned_lock));
        self.index.clear();
        if len > LINEAR {
            self.index_last();
        }
        cut
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.filter = 0;
        self.entries.clear();
        if !self.index.is_empty() {
            self.index.clear();
        }
    }

    /// Empties the set into the entries.
    pub(super) fn take(&mut self) -> Vec<Write> {
        let entries = std::mem::take(&mut self.entries);
        self.clear();
        entries
    }

    /// Gives the memory of entries back that were taken.
    pub(super) fn reuse(&mut self, mut entries: Vec<Write>) {
        entries.clear();
        self.entries = entries;
    }

    #[inline]
    pub(super) fn filter(&self) -> u64 {
        self.filter
    }
}

impl std::ops::Deref for WriteSet {
    type Target = [Write];

    #[inline]
    fn deref(&self) -> &[Write] {
        &self.entries
    }
}

impl std::ops::DerefMut for WriteSet {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Write] {
        &mut self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(versioned_lock: *const VersionedLock) -> Write {
        Write { versioned_lock, of: None, value: 0, locked: 0, state: State::Known }
    }

    #[test]
    fn a_write_set_finds_what_was_added_and_nothing_else_at_every_size() {
        enact_sync::explore(1, || {
            let locks: Vec<VersionedLock> = (0..200).map(VersionedLock::new).collect();
            let mut set = WriteSet::default();
            for n in 0..locks.len() {
                for (k, word) in locks.iter().enumerate() {
                    assert_eq!(set.find(word), (k < n).then_some(k), "with {n} entries");
                }
                set.push(write(&locks[n]));
            }
            for len in [199, 20, 17, 16, 3, 0] {
                set.truncate(len);
                for (k, word) in locks.iter().enumerate() {
                    assert_eq!(set.find(word), (k < len).then_some(k), "cut back to {len}");
                }
            }
        });
    }
}
