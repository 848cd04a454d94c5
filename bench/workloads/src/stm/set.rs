//! `hash20` and `bst20`: a set of keys, half full, with 10 % insertions and 10 % removals.

use super::window::{Attempts, alike};
use super::{Figures, Refusal, Run, Verified};
use crate::SplitMix64;

const KEYS: u64 = 1 << 16;
const FILL: usize = 1 << 15;

/// A set of numbers below 2^16.
pub trait Set: Send + Sync {
    /// An empty set.
    fn new() -> Self;
    /// Inserts `key`; says whether it was missing.
    fn insert(&self, key: u64, attempts: &Attempts) -> bool;
    /// Removes `key`; says whether it was there.
    fn remove(&self, key: u64, attempts: &Attempts) -> bool;
    /// Whether `key` is in the set.
    fn contains(&self, key: u64, attempts: &Attempts) -> bool;
    /// All keys, and how many of them are out of place, when nobody else uses the set.
    fn survey(&self) -> (Vec<u64>, usize);
}

/// How size and sum of keys have changed.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    size: i64,
    keys: i64,
}

impl Change {
    fn add(&mut self, sign: i64, key: u64) {
        self.size += sign;
        self.keys += sign * key.cast_signed();
    }
}

/// The mixed operations on all threads.
pub(super) fn mix<S: Set>(run: Run) -> Result<Figures, Refusal> {
    let set = S::new();
    let mut total = fill(&set);
    let window = alike(run, |number, clock| {
        let mut draws = SplitMix64::new(7 + number as u64);
        let mut change = Change::default();
        let operations = clock.repeat(|attempts| {
            let key = draws.below(KEYS);
            match draws.below(10) {
                0 => change.add(set.insert(key, attempts).into(), key),
                1 => change.add(-i64::from(set.remove(key, attempts)), key),
                _ => {
                    std::hint::black_box(set.contains(key, attempts));
                }
            }
        });
        (operations, change)
    });
    for work in &window.works {
        total.size += work.kept.size;
        total.keys += work.kept.keys;
    }
    verify(&set, total)?;
    Ok(window.figures(run.threads))
}

fn fill<S: Set>(set: &S) -> Change {
    let mut draws = SplitMix64::new(99);
    let mut filled = Change::default();
    while filled.size < FILL.cast_signed() as i64 {
        let key = draws.below(KEYS);
        filled.add(set.insert(key, &Attempts::default()).into(), key);
    }
    filled
}

fn verify<S: Set>(set: &S, expected: Change) -> Result<(), Refusal> {
    let (mut keys, misplaced) = set.survey();
    let size = keys.len();
    let sum: i64 = keys.iter().map(|key| key.cast_signed()).sum();
    keys.sort_unstable();
    keys.dedup();
    Verified::Misplaced.expect(0, (misplaced + size - keys.len()).cast_signed() as i64)?;
    Verified::Size.expect(expected.size, size.cast_signed() as i64)?;
    Verified::Keys.expect(expected.keys, sum)
}
