//! What a decision has changed, so that those are woken that wait for it.

use std::collections::BTreeSet;

use super::index::Key;
use super::progress::Entry;
use crate::model::{Location, Model};

/// What decisions have changed.
#[derive(Debug, Default)]
pub(super) struct Changed {
    keys: BTreeSet<Key>,
    /// Whether the cells did not describe what was in progress.
    is_everything: bool,
    /// Whether anybody wants to know.
    is_asked: bool,
}

impl Changed {
    pub(super) fn begin(is_asked: bool, is_everything: bool) -> Self {
        let mut changed = Self { keys: BTreeSet::new(), is_everything, is_asked };
        changed.add(Key::Any);
        changed
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.keys.contains(key)
    }

    pub(super) fn cell_count(&self) -> usize {
        self.keys.iter().filter(|key| key.is_cell()).count()
    }

    pub(super) const fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// What `entry` changes and needs.
    pub(super) fn add_touched<M: Model>(&mut self, entry: &Entry<M>) {
        self.add_changes(entry);
        let needed = entry.taken.iter().filter(|_| self.is_asked).flat_map(|taken| taken.footprint.needed());
        for location in needed {
            if let Location::Place(place) = &location {
                self.keys.insert(Key::Place(place.whole()));
            }
            self.keys.insert(Key::of(location));
        }
    }

    /// What `entry` changes.
    pub(super) fn add_changes<M: Model>(&mut self, entry: &Entry<M>) {
        let written = entry.taken.iter().filter(|_| self.is_asked).flat_map(|taken| taken.footprint.written());
        for location in written {
            if let Location::Place(place) = &location {
                let others =
                    if place.element.is_some() { Key::Place(place.whole()) } else { Key::Elements(place.field) };
                self.keys.insert(others);
            }
            self.keys.insert(Key::of(location));
        }
        for change in entry.changes.iter().filter(|_| self.is_asked).flatten() {
            self.keys.insert(Key::Manner(change.place.clone()));
        }
    }

    pub(super) fn add(&mut self, key: Key) {
        if self.is_asked {
            self.keys.insert(key);
        }
    }
}
