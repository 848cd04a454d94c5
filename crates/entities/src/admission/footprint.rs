//! What the work of one transaction needs and does, cell by cell.

use super::cell::Doing;
use crate::model::{Effects, Field, Linear, Location, Made, Place, Term};
use crate::tx::Timestamp;

/// The applied values.
pub(super) trait Base {
    /// The number in a field, if there is one.
    fn number(&self, field: Field) -> Option<i128>;
    /// What is in a place, if there is such a place.
    fn content(&self, place: &Place) -> Option<String>;
}

/// What the work of one transaction does, cell by cell.
#[derive(Clone, Debug)]
pub(super) struct Footprint {
    /// What it needs and does. If there is more to it, it needs nothing here.
    pub(super) linear: Linear,
    pub(super) more: Option<More>,
}

/// What is not linear.
#[derive(Clone, Debug)]
pub(super) struct More {
    made: Vec<Made>,
    hidden: Vec<Place>,
    /// What it depends on in a way that thresholds and contents do not say.
    reads: Vec<Location>,
    /// What only those have that do the same in every state; nothing if that is not known.
    twins: Option<Twins>,
}

/// Tells those that do the same in every state from all others: by a function that only they are, and the time if that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Twins {
    function: u64,
    at: Option<Timestamp>,
}

impl Footprint {
    pub(super) const fn of(linear: Linear) -> Self {
        Self { linear, more: None }
    }

    /// What is not linear; `at` is its time if that matters.
    pub(super) fn of_effects(effects: Effects, at: Option<Timestamp>) -> Self {
        let Effects { deltas, assigned, made, puts, hidden, reads } = effects;
        let linear = Linear { deltas, assigned, puts, ..Linear::default() };
        let twins = made.iter().find_map(|made| made.function).map(|function| Twins { function, at });
        Self { linear, more: Some(More { made, hidden, reads, twins }) }
    }

    /// What only those have that do the same in every state; nothing if that is not known.
    pub(super) fn twins(&self) -> Option<Twins> {
        self.more.as_ref()?.twins
    }

    /// The numbers that it makes of what was there.
    pub(super) fn made(&self) -> impl Iterator<Item = &Made> {
        self.more.iter().flat_map(|more| &more.made)
    }

    /// The places in which it leaves something that is not known.
    pub(super) fn hidden(&self) -> impl Iterator<Item = &Place> {
        self.more.iter().flat_map(|more| &more.hidden)
    }

    /// Whether it leads to another state of the life cycle.
    pub(super) fn moves_life_cycle(&self) -> bool {
        self.linear.puts.iter().any(|put| put.place == Place::LIFE_CYCLE)
    }

    /// Whether what it leaves in some place may depend on what is in others.
    pub(super) fn mixes(&self) -> bool {
        self.hidden().next().is_some() || self.made().any(|made| made.function.is_none())
    }

    /// Whether it changes a sum.
    pub(super) fn moves(&self, terms: &[Term]) -> bool {
        moves(&self.linear, terms) || self.made().any(|made| terms.iter().any(|term| term.field == made.field))
    }

    /// The footprint as thresholds, contents and constants, if there is no more to it.
    pub(super) fn as_linear(&self) -> Option<&Linear> {
        self.more.is_none().then_some(&self.linear)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = (Field, Doing<i128>)> {
        let deltas = self.linear.deltas.iter().map(|&(field, amount)| (field, Doing::Adds(amount)));
        let assigned = self.linear.assigned.iter().map(|&(field, value)| (field, Doing::Gives(value)));
        let made = self.made().map(|made| (made.field, Doing::Makes(made.function, made.image.clone())));
        deltas.chain(assigned).chain(made)
    }

    pub(super) fn places(&self) -> impl Iterator<Item = (&Place, Doing<String>)> {
        let puts = self.linear.puts.iter().map(|put| (&put.place, Doing::Gives(put.value.clone())));
        puts.chain(self.hidden().map(|place| (place, Doing::Hides)))
    }

    /// What it depends on in a way that thresholds and contents do not say.
    pub(super) fn reads(&self) -> impl Iterator<Item = &Location> {
        self.more.iter().flat_map(|more| &more.reads)
    }

    /// What it changes.
    pub(super) fn written(&self) -> impl Iterator<Item = Location> {
        let numbers = self.numbers().map(|(field, _)| Location::Number(field));
        numbers.chain(self.places().map(|(place, _)| Location::Place(place.clone())))
    }

    /// What it depends on or changes.
    pub(super) fn touched(&self) -> impl Iterator<Item = Location> {
        self.written().chain(self.needed()).chain([Location::Place(Place::LIFE_CYCLE)])
    }

    /// What it depends on beside the life cycle.
    pub(super) fn needed(&self) -> impl Iterator<Item = Location> {
        let terms = self.linear.thresholds.iter().flat_map(|threshold| &threshold.terms);
        let needed = terms.map(|term| Location::Number(term.field));
        let held = self.linear.holds.iter().map(|hold| Location::Place(hold.place.clone()));
        let read = self.reads().cloned();
        needed.chain(held).chain(read)
    }

    /// Whether it says what happens in `base`: all that it replaces is there. A number that comes in another currency than the one
    /// that is there takes away what the cells are about.
    pub(super) fn is_told_in(&self, base: &impl Base) -> bool {
        let made = self.made().map(|made| made.field);
        let mut numbers = self.linear.assigned.iter().map(|(field, _)| *field).chain(made);
        self.linear.puts.iter().all(|put| base.content(&put.place).is_some())
            && numbers.all(|field| base.number(field).is_some())
    }
}

/// What the deltas of an event add to a sum.
pub(super) fn added(linear: &Linear, terms: &[Term]) -> i128 {
    let signed = |term: &Term| {
        let delta = linear.delta(term.field);
        if term.negative { delta.saturating_neg() } else { delta }
    };
    terms.iter().map(signed).fold(0, i128::saturating_add)
}

fn moves(linear: &Linear, terms: &[Term]) -> bool {
    added(linear, terms) != 0 || terms.iter().any(|term| linear.assigned.iter().any(|(field, _)| *field == term.field))
}

/// Whether the order of two events may show in what they leave.
pub(super) fn differ_by_order(first: &Footprint, second: &Footprint) -> bool {
    let meets_number = |(field, doing): (Field, Doing<i128>)| {
        second.numbers().any(|(other, found)| other == field && !found.is_of_class(&doing))
    };
    let meets_place = |(place, doing): (&Place, Doing<String>)| {
        second.places().any(|(other, found)| {
            let (is_whole, is_other_whole) = (place.element.is_none(), other.element.is_none());
            other.field == place.field && (is_whole != is_other_whole || other == place && !found.is_of_class(&doing))
        })
    };
    first.numbers().any(meets_number) || first.places().any(meets_place)
}

impl Linear {
    /// What is added to `field`.
    pub(super) fn delta(&self, field: Field) -> i128 {
        self.deltas.iter().find_map(|&(f, delta)| (f == field).then_some(delta)).unwrap_or(0)
    }
}
