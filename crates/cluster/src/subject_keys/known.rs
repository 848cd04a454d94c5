//! What a node knows of the keys.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::entry::Entry;

/// The last entry of each data subject, as far as the stream was followed, and what is to be overwritten.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By digest.
    subjects: HashMap<Box<str>, Last>,
    /// The messages with keys that have their end, and are overwritten by now or not.
    unfinished: BTreeSet<(Box<str>, u64)>,
}

/// The last entry of a data subject.
#[derive(Debug)]
struct Last {
    sequence: u64,
    generation: u32,
    /// Hidden; nothing if it is destroyed.
    key: Option<Arc<[u8]>>,
}

impl Known {
    /// Takes down an entry, in whatever order they are heard of.
    pub(super) fn apply(&mut self, digest: &str, sequence: u64, entry: &Entry) {
        let last = self.subjects.get(digest);
        let end_of = match last {
            Some(last) if last.sequence == sequence => return,
            Some(last) if last.sequence > sequence => matches!(entry, Entry::Live { .. }).then_some(sequence),
            Some(last) => last.key.as_ref().map(|_| last.sequence),
            None => None,
        };
        if let Some(key) = end_of {
            self.unfinished.insert((digest.into(), key));
        }
        if last.is_none_or(|last| last.sequence < sequence) {
            let (generation, key) = match entry {
                Entry::Live { generation, key } => (*generation, Some(key.as_slice().into())),
                Entry::Destroyed { generation } => (*generation, None),
            };
            self.subjects.insert(digest.into(), Last { sequence, generation, key });
        }
    }

    /// The key of this generation, hidden, or that it is destroyed; nothing if there was none.
    pub(super) fn key(&self, digest: &str, generation: u32) -> Option<Option<Arc<[u8]>>> {
        let last = self.subjects.get(digest).filter(|last| (1..=last.generation).contains(&generation))?;
        Some(last.key.clone().filter(|_| last.generation == generation))
    }

    /// Whether all keys up to `generation` have their end for certain.
    pub(super) fn has_ended(&self, digest: &str, generation: u32) -> bool {
        let last = self.subjects.get(digest);
        last.is_some_and(|last| last.generation > generation || (last.generation == generation && last.key.is_none()))
    }

    pub(super) fn unfinished(&self, digest: &str) -> Vec<u64> {
        let of_subject = (Box::from(digest), 0)..=(Box::from(digest), u64::MAX);
        self.unfinished.range(of_subject).map(|(_, sequence)| *sequence).collect()
    }

    /// Those of all data subjects, with their digests.
    pub(super) fn all_unfinished(&self) -> Vec<(Box<str>, u64)> {
        self.unfinished.iter().cloned().collect()
    }

    pub(super) fn overwritten(&mut self, digest: &str, sequence: u64) {
        self.unfinished.remove(&(Box::from(digest), sequence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All orders of `items`.
    fn orders(items: &[usize]) -> Vec<Vec<usize>> {
        let Some((first, rest)) = items.split_first() else { return vec![Vec::new()] };
        let shorter = orders(rest).into_iter();
        shorter
            .flat_map(|order| (0..=order.len()).map(move |at| [&order[..at], &[*first], &order[at..]].concat()))
            .collect()
    }

    #[test]
    fn in_whatever_order_entries_are_heard_of_the_last_one_counts_and_all_earlier_keys_are_to_be_overwritten() {
        let live = |generation| Entry::Live { generation, key: vec![u8::try_from(generation).expect("small")] };
        let ended = |generation| Entry::Destroyed { generation };
        let history = [live(1), ended(1), live(2), ended(2), live(3)];
        for len in 1..=history.len() {
            for order in orders(&(0..len).collect::<Vec<_>>()) {
                let mut known = Known::default();
                // Twice, as a node hears of what it has written itself.
                for &at in order.iter().chain(&order) {
                    known.apply("d", 10 + at as u64, &history[at]);
                }
                let keys: Vec<_> = (0..=4).map(|generation| known.key("d", generation)).collect();
                let expected: Vec<Option<Option<Arc<[u8]>>>> = match len {
                    1 => vec![None, Some(Some([1].into())), None, None, None],
                    2 => vec![None, Some(None), None, None, None],
                    3 => vec![None, Some(None), Some(Some([2].into())), None, None],
                    4 => vec![None, Some(None), Some(None), None, None],
                    _ => vec![None, Some(None), Some(None), Some(Some([3].into())), None],
                };
                assert_eq!(keys, expected, "{order:?}");
                let ended: Vec<u64> = [10, 12].into_iter().take(len / 2).collect();
                let all: Vec<_> = ended.iter().map(|sequence| (Box::from("d"), *sequence)).collect();
                assert_eq!((known.unfinished("d"), known.all_unfinished()), (ended, all), "{order:?}");
                assert!(known.unfinished("c").is_empty());
                let has_ended: Vec<bool> = (1..=3).map(|generation| known.has_ended("d", generation)).collect();
                assert_eq!(has_ended, [len >= 2, len >= 4, false], "{order:?}");
                known.overwritten("d", 10);
                assert_eq!(known.unfinished("d").len(), (len / 2).saturating_sub(1), "{order:?}");
            }
        }
    }
}
