//! The set as a hash table: 2^14 buckets, one variable a bucket, which holds its few keys.

use std::sync::Arc;

use super::Stm;
use super::locks::{Lock, Locks};
use super::set::Set;
use super::window::Attempts;

const BUCKETS: usize = 1 << 14;

fn bucket_of(key: u64) -> usize {
    // Fibonacci hashing: the top 14 bits of the product.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BUCKETS.trailing_zeros())) as usize
}

/// Buckets that are replaced as a whole; shared, so that a memory that clones what it reads clones no keys.
pub(super) struct InStm<S: Stm>(Vec<S::Var<Arc<[u64]>>>);

impl<S: Stm> Set for InStm<S> {
    fn new() -> Self {
        let empty: Arc<[u64]> = Arc::new([]);
        Self((0..BUCKETS).map(|_| S::var(Arc::clone(&empty))).collect())
    }

    #[inline]
    fn insert(&self, key: u64, attempts: &Attempts) -> bool {
        let bucket = &self.0[bucket_of(key)];
        S::atomically(|tx| {
            attempts.count();
            let keys = S::read(tx, bucket)?;
            if keys.contains(&key) {
                return Ok(false);
            }
            let mut with = Vec::with_capacity(keys.len() + 1);
            with.extend_from_slice(&keys);
            with.push(key);
            S::write(tx, bucket, with.into())?;
            Ok(true)
        })
    }

    #[inline]
    fn remove(&self, key: u64, attempts: &Attempts) -> bool {
        let bucket = &self.0[bucket_of(key)];
        S::atomically(|tx| {
            attempts.count();
            let keys = S::read(tx, bucket)?;
            if !keys.contains(&key) {
                return Ok(false);
            }
            let without: Arc<[u64]> = keys.iter().copied().filter(|&k| k != key).collect();
            S::write(tx, bucket, without)?;
            Ok(true)
        })
    }

    #[inline]
    fn contains(&self, key: u64, attempts: &Attempts) -> bool {
        let bucket = &self.0[bucket_of(key)];
        S::atomically(|tx| {
            attempts.count();
            Ok(S::read(tx, bucket)?.contains(&key))
        })
    }

    fn survey(&self) -> (Vec<u64>, usize) {
        survey(self.0.iter().map(|bucket| S::atomically(|tx| Ok(S::read(tx, bucket)?.to_vec()))))
    }
}

/// All buckets under one lock.
pub(super) struct Locked<L: Locks>(L::Lock<Vec<Vec<u64>>>);

impl<L: Locks> Set for Locked<L> {
    fn new() -> Self {
        Self(Lock::new(vec![Vec::new(); BUCKETS]))
    }

    #[inline]
    fn insert(&self, key: u64, _: &Attempts) -> bool {
        self.0.with(|buckets| {
            let bucket = &mut buckets[bucket_of(key)];
            let missing = !bucket.contains(&key);
            if missing {
                bucket.push(key);
            }
            missing
        })
    }

    #[inline]
    fn remove(&self, key: u64, _: &Attempts) -> bool {
        self.0.with(|buckets| {
            let bucket = &mut buckets[bucket_of(key)];
            let at = bucket.iter().position(|&k| k == key);
            at.map(|at| bucket.swap_remove(at)).is_some()
        })
    }

    #[inline]
    fn contains(&self, key: u64, _: &Attempts) -> bool {
        self.0.with(|buckets| buckets[bucket_of(key)].contains(&key))
    }

    fn survey(&self) -> (Vec<u64>, usize) {
        self.0.with(|buckets| survey(buckets.iter().cloned()))
    }
}

fn survey(buckets: impl Iterator<Item = Vec<u64>>) -> (Vec<u64>, usize) {
    let (mut all, mut misplaced) = (Vec::new(), 0);
    for (number, keys) in buckets.enumerate() {
        misplaced += keys.iter().filter(|&&key| bucket_of(key) != number).count();
        all.extend(keys);
    }
    (all, misplaced)
}
