//! The versioned lock of a variable: the one word that a reader logs, a validation compares and a commit locks.
//!
//! | variable | versioned lock |
//! |---|---|
//! | `TCell`, `TLink` | `version:52 \| owner:10 \| waited:1 \| locked:1`, beside the value or the address of the node |
//! | `TVar` | `address of the node:62 \| waited:1 \| locked:1`; the node holds version and owner |
//!
//! *locked*: a commit is about to publish; nobody else changes the word until it is unlocked. *waited*: somebody sleeps
//! until the variable changes. The owner is the descriptor that published the version, 0 for none.
//!
//! # The last version
//! A commit takes a version one higher than the highest that it has met, so versions grow by one a commit at most. Twenty
//! million commits a second, one after the other on one variable, need [`VERSION_MAX`]` / 2e7` seconds, seven years, to
//! come to the last one. The commit after that panics and changes nothing: a version that begins again at 0 would be
//! taken for old, and transactions would see what never was.
use enact_sync::atomic::AtomicU64;

pub(crate) const LOCKED: u64 = 1;
pub(crate) const WAITED: u64 = 2;
pub(crate) const FLAGS: u64 = LOCKED | WAITED;

const OWNER_BITS: u32 = 10;
const VERSION_SHIFT: u32 = OWNER_BITS + 2;

/// The highest descriptor number that fits into a versioned lock.
pub(crate) const OWNER_MAX: u64 = (1 << OWNER_BITS) - 1;

/// The highest version that fits into a versioned lock.
pub(crate) const VERSION_MAX: u64 = u64::MAX >> VERSION_SHIFT;

/// The word itself.
pub(crate) type VersionedLock = AtomicU64;

/// The version in a cell's versioned lock or in a node's mark.
#[inline]
pub(crate) const fn version(mark: u64) -> u64 {
    mark >> VERSION_SHIFT
}

/// The descriptor in a cell's versioned lock or in a node's mark.
#[inline]
pub(crate) const fn owner(mark: u64) -> u64 {
    (mark >> 2) & OWNER_MAX
}

/// Version and owner as one word without flags.
#[inline]
pub(crate) const fn mark(version: u64, owner: u64) -> u64 {
    (version << VERSION_SHIFT) | (owner << 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_gives_back_what_it_was_made_of_and_has_no_flags() {
        for (v, o) in [(0, 0), (1, OWNER_MAX), (VERSION_MAX, 7)] {
            let mark = mark(v, o);
            assert_eq!((version(mark), owner(mark), mark & FLAGS), (v, o, 0));
            assert_eq!((version(mark | FLAGS), owner(mark | FLAGS)), (v, o));
        }
    }
}
