//! A hash map whose buckets are variables.
//!
//! # Shape
//! A table of buckets that never changes, and below it tries: a bucket that would hold more than [`ENTRIES_MAX`] entries
//! is replaced by [`FAN`] buckets that tell its entries apart by the next bits of their hashes. So growing writes one
//! bucket, the one that is full, and nobody meets a table that is being moved. Buckets that were split stay split.
//!
//! A bucket is replaced as a whole; its entries are shared between the old and the new one.
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use crate::{Abort, TVar, Tx};

/// A bucket with more entries is split, as long as there are bits left to tell them apart.
const ENTRIES_MAX: usize = 8;

const FAN_BITS: u32 = 4;
const FAN: usize = 1 << FAN_BITS;

/// A hash map.
///
/// # Conflicts
/// Each bucket is a variable of its own: transactions conflict if one of them inserts, replaces or removes an entry in a
/// bucket that the other looks at, be it for a key that is not there. A bucket holds 8 entries at most, apart from
/// those with equal hashes; a full one is split without touching any other, so that growth conflicts with nothing else.
/// There is no shared count of the entries.
///
/// # Complexity
/// Looking up reads one variable if [`with_capacity`](Self::with_capacity) was right, and one more for every factor of 16
/// beyond. Inserting and removing also copy a bucket of references. Memory is not given back before the map is dropped,
/// apart from that of the entries.
///
/// # Example
/// ```
/// use enact_stm::{TMap, atomically};
/// let (waiting, seated) = (TMap::new(), TMap::new());
/// atomically(|tx| waiting.insert(tx, "Ada", 3).map(drop)).run();
/// let table = atomically(|tx| {
///     // In no state that anybody sees is Ada on both lists, or on none.
///     let Some(&party) = waiting.remove(tx, "Ada")? else { return Ok(None) };
///     seated.insert(tx, "Ada", party)?;
///     Ok(seated.get(tx, "Ada")?.copied())
/// })
/// .run();
/// assert_eq!(table, Some(3));
/// ```
#[derive(Debug)]
pub struct TMap<K: Send + Sync + 'static, V: Send + Sync + 'static, S = RandomState> {
    hasher: S,
    /// As many as a power of two.
    table: Box<[Bucket<K, V>]>,
}

type Bucket<K, V> = TVar<Content<K, V>>;
type Entries<K, V> = Vec<Arc<Entry<K, V>>>;

#[derive(Debug)]
enum Content<K: Send + Sync + 'static, V: Send + Sync + 'static> {
    Entries(Entries<K, V>),
    /// By the next bits of the hash.
    Split(Box<[Bucket<K, V>]>),
}

#[derive(Debug)]
struct Entry<K, V> {
    hash: u64,
    key: K,
    value: V,
}

/// Where a key is, or would be.
struct Found<'t, K: Send + Sync + 'static, V: Send + Sync + 'static> {
    bucket: &'t Bucket<K, V>,
    entries: &'t Entries<K, V>,
    /// The entry with the key.
    index: Option<usize>,
    /// Bits of the hash that have led here.
    bits: u32,
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> TMap<K, V> {
    /// An empty map that expects few entries.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty map that finds its entries fastest if there are about `capacity`. Any number fits.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, RandomState::new())
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S> TMap<K, V, S> {
    /// As [`with_capacity`](TMap::with_capacity), with a hash function of your choice.
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        // Buckets that are half full on average are rarely split.
        let width = (capacity / (ENTRIES_MAX / 2)).next_power_of_two().max(FAN);
        Self { hasher, table: buckets(vec![Vec::new(); width]) }
    }

    /// All entries, in no particular order.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    ///
    /// # Complexity
    /// Reads every bucket, so it conflicts with any change unless it is in a snapshot.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{TMap, atomically, snapshot};
    /// let stock = TMap::new();
    /// atomically(|tx| ["nut", "bolt"].into_iter().try_for_each(|part| stock.insert(tx, part, 40).map(drop))).run();
    /// let sum = snapshot(|tx| Ok(stock.entries(tx)?.into_iter().map(|(_, count)| count).sum::<u32>()));
    /// assert_eq!(sum, 80);
    /// ```
    pub fn entries<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Vec<(&'t K, &'t V)>, Abort> {
        let mut found = Vec::new();
        self.for_each_bucket(tx, |entries| found.extend(entries.iter().map(|entry| (&entry.key, &entry.value))))?;
        Ok(found)
    }

    /// The number of entries.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    ///
    /// # Complexity
    /// As [`entries`](Self::entries): a count that is kept would make all changes conflict.
    pub fn len<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<usize, Abort> {
        let mut len = 0;
        self.for_each_bucket(tx, |entries| len += entries.len())?;
        Ok(len)
    }

    /// True if there is no entry. Costs and conflicts as [`len`](Self::len).
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn is_empty<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<bool, Abort> {
        Ok(self.len(tx)? == 0)
    }

    fn for_each_bucket<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        mut look: impl FnMut(&'t Entries<K, V>),
    ) -> Result<(), Abort> {
        let mut rest: Vec<&'t Bucket<K, V>> = self.table.iter().collect();
        while let Some(bucket) = rest.pop() {
            match tx.read(bucket)? {
                Content::Entries(entries) => look(entries),
                Content::Split(parts) => rest.extend(parts),
            }
        }
        Ok(())
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, V: Send + Sync + 'static, S: BuildHasher> TMap<K, V, S> {
    /// The value of `key`.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn get<'t, Q>(&'t self, tx: &mut Tx<'t, '_>, key: &Q) -> Result<Option<&'t V>, Abort>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Ok(self.find(tx, self.hasher.hash_one(key), key)?.value())
    }

    /// True if there is an entry for `key`.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn contains_key<'t, Q>(&'t self, tx: &mut Tx<'t, '_>, key: &Q) -> Result<bool, Abort>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Ok(self.get(tx, key)?.is_some())
    }

    /// Adds an entry, or replaces the one with an equal key, and gives the value that was replaced.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn insert<'t>(&'t self, tx: &mut Tx<'t, '_>, key: K, value: V) -> Result<Option<&'t V>, Abort> {
        let hash = self.hasher.hash_one(&key);
        let found = self.find(tx, hash, &key)?;
        let entry = Arc::new(Entry { hash, key, value });
        let mut entries = Vec::with_capacity(found.entries.len() + 1);
        entries.extend(found.entries.iter().cloned());
        match found.index {
            Some(index) => entries[index] = entry,
            None => entries.push(entry),
        }
        tx.write(found.bucket, Content::of(entries, found.bits))?;
        Ok(found.value())
    }

    /// Removes the entry for `key`, and gives its value.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn remove<'t, Q>(&'t self, tx: &mut Tx<'t, '_>, key: &Q) -> Result<Option<&'t V>, Abort>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let found = self.find(tx, self.hasher.hash_one(key), key)?;
        if let Some(index) = found.index {
            let mut entries = found.entries.clone();
            entries.swap_remove(index);
            tx.write(found.bucket, Content::Entries(entries))?;
        }
        Ok(found.value())
    }

    fn find<'t, Q>(&'t self, tx: &mut Tx<'t, '_>, hash: u64, key: &Q) -> Result<Found<'t, K, V>, Abort>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut bucket = &self.table[hash as usize & (self.table.len() - 1)];
        let mut bits = self.table.len().trailing_zeros();
        loop {
            match tx.read(bucket)? {
                Content::Split(parts) => {
                    bucket = &parts[part(hash, bits)];
                    bits += FAN_BITS;
                }
                Content::Entries(entries) => {
                    let index = entries.iter().position(|entry| entry.hash == hash && entry.key.borrow() == key);
                    return Ok(Found { bucket, entries, index, bits });
                }
            }
        }
    }
}

impl<'t, K: Send + Sync + 'static, V: Send + Sync + 'static> Found<'t, K, V> {
    fn value(&self) -> Option<&'t V> {
        self.index.map(|index| &self.entries[index].value)
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Content<K, V> {
    /// A bucket for these entries, split if there are too many. `bits` of their hashes are equal.
    fn of(entries: Entries<K, V>, bits: u32) -> Self {
        if entries.len() <= ENTRIES_MAX || bits + FAN_BITS > u64::BITS {
            return Self::Entries(entries);
        }
        let mut parts = vec![Vec::new(); FAN];
        for entry in entries {
            parts[part(entry.hash, bits)].push(entry);
        }
        Self::Split(parts.into_iter().map(|part| TVar::new(Self::of(part, bits + FAN_BITS))).collect())
    }
}

/// Which part of a split bucket a hash belongs to, of whose bits so many were used on the way to it.
fn part(hash: u64, bits: u32) -> usize {
    (hash >> bits) as usize & (FAN - 1)
}

fn buckets<K: Send + Sync + 'static, V: Send + Sync + 'static>(all: Vec<Entries<K, V>>) -> Box<[Bucket<K, V>]> {
    all.into_iter().map(|entries| TVar::new(Content::Entries(entries))).collect()
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static, S: Default> Default for TMap<K, V, S> {
    fn default() -> Self {
        Self::with_capacity_and_hasher(0, S::default())
    }
}
