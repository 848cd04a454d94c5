//! Which subjects have keys, and where: all that the store keeps in memory.

use std::collections::HashMap;

use super::format::{Digest, Identity, Place};

/// The last key of each subject. All before it were destroyed.
pub(super) struct Index(HashMap<Digest, Last>);

/// The last key of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) generation: u32,
    /// Where the key is, if it was not destroyed.
    pub(super) live: Option<Place>,
}

impl Index {
    /// An index for so many subjects, which may become more.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(HashMap::with_capacity(count))
    }

    pub(super) fn last(&self, digest: &Digest) -> Option<Last> {
        self.0.get(digest).copied()
    }

    /// Where the live key of the subject is.
    pub(super) fn live(&self, digest: &Digest) -> Option<Place> {
        self.last(digest)?.live
    }

    /// The generation of the key that a subject without a live one gets. There are fewer than places of slots.
    pub(super) fn next_generation(&self, digest: &Digest) -> u32 {
        self.last(digest).map_or(0, |last| last.generation) + 1
    }

    /// Adds the next key of a subject, which may have been destroyed since; returns whether it can be the next one.
    #[must_use]
    pub(super) fn add(&mut self, identity: Identity, live: Option<Place>) -> bool {
        let Identity { digest, generation } = identity;
        let follows = self.live(&digest).is_none() && self.next_generation(&digest) == generation;
        if follows {
            self.0.insert(digest, Last { generation, live });
        }
        follows
    }

    /// The subject has no live key from now on.
    pub(super) fn end(&mut self, digest: &Digest) {
        if let Some(last) = self.0.get_mut(digest) {
            last.live = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_follow_each_other_and_one_key_lives_at_a_time() {
        let mut index = Index::with_capacity(0);
        let place = |count| Place::FIRST.after(count).unwrap();
        let (ada, bob) = ([1; 16], [2; 16]);
        for (digest, generation, live, expected) in [
            (ada, 2, None, false),
            (ada, 1, Some(place(0)), true),
            (ada, 2, Some(place(1)), false),
            (bob, 1, None, true),
            (bob, 1, None, false),
            (bob, 3, None, false),
            (bob, 2, Some(place(2)), true),
        ] {
            assert_eq!(index.add(Identity { digest, generation }, live), expected, "{generation} of {digest:?}");
        }
        assert_eq!((index.live(&ada), index.live(&bob)), (Some(place(0)), Some(place(2))));
        index.end(&bob);
        assert_eq!(index.last(&bob), Some(Last { generation: 2, live: None }));
        assert!(index.add(Identity { digest: bob, generation: 3 }, Some(place(3))));
    }

    #[test]
    fn an_entry_takes_24_bytes() {
        assert_eq!(size_of::<(Digest, Last)>(), 24);
    }
}
