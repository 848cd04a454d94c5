//! A hash set: a map without values.
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};

use super::TMap;
use crate::{Abort, Tx};

/// A hash set. It conflicts, grows and costs as [`TMap`] does.
///
/// # Example
/// ```
/// use enact_stm::{TSet, atomically};
/// let seen = TSet::new();
/// let is_new = |word: &'static str| atomically(|tx| seen.insert(tx, word)).run();
/// assert_eq!([is_new("to"), is_new("be"), is_new("to")], [true, true, false]);
/// ```
#[derive(Debug)]
pub struct TSet<K: Send + Sync + 'static, S = RandomState>(TMap<K, (), S>);

impl<K: Send + Sync + 'static> TSet<K> {
    /// An empty set that expects few elements.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty set that finds its elements fastest if there are about `capacity`. Any number fits.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(TMap::with_capacity(capacity))
    }
}

impl<K: Send + Sync + 'static, S> TSet<K, S> {
    /// As [`with_capacity`](TSet::with_capacity), with a hash function of your choice.
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Self(TMap::with_capacity_and_hasher(capacity, hasher))
    }

    /// All elements, in no particular order; see [`TMap::entries`].
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn elements<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Vec<&'t K>, Abort> {
        Ok(self.0.entries(tx)?.into_iter().map(|(key, ())| key).collect())
    }

    /// The number of elements; see [`TMap::len`].
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn len<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<usize, Abort> {
        self.0.len(tx)
    }

    /// True if there is no element; see [`TMap::is_empty`].
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn is_empty<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<bool, Abort> {
        self.0.is_empty(tx)
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, S: BuildHasher> TSet<K, S> {
    /// True if `key` is an element.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn contains<'t, Q>(&'t self, tx: &mut Tx<'t, '_>, key: &Q) -> Result<bool, Abort>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.contains_key(tx, key)
    }

    /// Adds an element; false if it was there, and then nothing is written.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn insert<'t>(&'t self, tx: &mut Tx<'t, '_>, key: K) -> Result<bool, Abort> {
        if self.contains(tx, &key)? {
            return Ok(false);
        }
        self.0.insert(tx, key, ())?;
        Ok(true)
    }

    /// Removes an element; false if it was not there.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn remove<'t, Q>(&'t self, tx: &mut Tx<'t, '_>, key: &Q) -> Result<bool, Abort>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Ok(self.0.remove(tx, key)?.is_some())
    }
}

impl<K: Send + Sync + 'static, S: Default> Default for TSet<K, S> {
    fn default() -> Self {
        Self::with_capacity_and_hasher(0, S::default())
    }
}
