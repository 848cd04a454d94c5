//! How everything in progress changes each place.
//!
//! Additions to one place commute, and so do changes that make the same of the same. Whatever else meets in one place has an order
//! that shows: under [`Strategy::Serializable`](super::Strategy::Serializable) one of the two waits, and nothing has to be
//! evaluated to tell. In some states two of them happen to commute all the same; then they wait in vain.

use std::collections::BTreeMap;

use enact_rebel::Manner;

use super::index::{Class, Holder};
use crate::model::{Change, Place};

/// What is in progress, counted by place and manner.
#[derive(Clone, Debug, Default)]
pub(super) struct Manners(BTreeMap<Place, BTreeMap<Manner, usize>>);

impl Manners {
    pub(super) fn enter(&mut self, changes: &[Change]) {
        for Change { place, manner } in changes {
            *self.0.entry(place.clone()).or_default().entry(*manner).or_insert(0) += 1;
        }
    }

    pub(super) fn leave(&mut self, changes: &[Change]) {
        for Change { place, manner } in changes {
            let manners = self.0.get_mut(place).expect("a change leaves as often as it came");
            let count = manners.get_mut(manner).expect("a change leaves as often as it came");
            *count -= 1;
            manners.retain(|_, count| *count > 0);
            if manners.is_empty() {
                self.0.remove(place);
            }
        }
    }

    /// The first of `changes` that meets another manner in its place.
    pub(super) fn first_different<'a>(&self, changes: &'a [Change]) -> Option<&'a Change> {
        let meets_other = |change: &&Change| {
            self.0.get(&change.place).is_some_and(|found| found.keys().any(|manner| differ(*manner, change.manner)))
        };
        changes.iter().find(meets_other)
    }

    pub(super) fn holder(&self, place: &Place) -> Holder {
        let mut manners = self.0.get(place).into_iter().flat_map(BTreeMap::keys);
        match (manners.next(), manners.next()) {
            (None, _) => Holder::Nothing,
            (Some(manner), None) => Holder::Of(Class::of_manner(*manner)),
            (Some(_), Some(_)) => Holder::Several,
        }
    }
}

/// Whether two events meet in some place in different manners.
pub(super) fn meet_differently(one: &[Change], other: &[Change]) -> bool {
    let meets =
        |change: &Change| other.iter().any(|other| other.place == change.place && differ(other.manner, change.manner));
    one.iter().any(meets)
}

pub(super) fn differ(one: Manner, other: Manner) -> bool {
    one != other || one == Manner::Other
}
