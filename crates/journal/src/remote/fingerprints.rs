//! A set of names in eight bytes each, which may have more than was put into it and never less.

use std::hash::{BuildHasher, RandomState};

/// A set of names.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints {
    hashing: RandomState,
    sorted: Vec<u64>,
}

impl Fingerprints {
    /// The set of the names whose fingerprints by `hashing` these are, in any order and as often as they come.
    pub(crate) fn of(hashing: RandomState, mut fingerprints: Vec<u64>) -> Self {
        fingerprints.sort_unstable();
        fingerprints.dedup();
        fingerprints.shrink_to_fit();
        Self { hashing, sorted: fingerprints }
    }

    /// Whether `name` may be in the set; if not, it certainly is not.
    pub(crate) fn may_have(&self, name: &str) -> bool {
        self.sorted.binary_search(&self.hashing.hash_one(name)).is_ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_was_put_in_is_found_and_hardly_another() {
        let hashing = RandomState::new();
        let names: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let twice = names.iter().rev().chain(&names).map(|name| hashing.hash_one(name));
        let fingerprints = twice.collect();
        let set = Fingerprints::of(hashing, fingerprints);
        assert_eq!(set.len(), 1000);
        assert!(names.iter().all(|name| set.may_have(name)));
        assert!((1000..2000).filter(|n| set.may_have(&n.to_string())).count() < 3);
    }
}
