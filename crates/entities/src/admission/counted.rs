//! How often something is there.

use std::collections::BTreeMap;

use crate::model::{Field, Location};

/// Numbers and whole fields, each as often as it was entered.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    numbers: BTreeMap<Field, usize>,
    fields: BTreeMap<u64, usize>,
}

impl Counted {
    pub(super) fn count(&mut self, at: &Location, change: impl Fn(usize) -> usize) {
        match at {
            Location::Number(field) => count(&mut self.numbers, *field, change),
            Location::Place(place) => count(&mut self.fields, place.field, change),
        }
    }

    pub(super) fn has(&self, at: &Location) -> bool {
        match at {
            Location::Number(field) => self.numbers.contains_key(field),
            Location::Place(place) => self.fields.contains_key(&place.field),
        }
    }
}

pub(super) fn count<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K, change: impl Fn(usize) -> usize) {
    let found = change(counts.get(&key).copied().unwrap_or(0));
    match found {
        0 => counts.remove(&key),
        found => counts.insert(key, found),
    };
}
