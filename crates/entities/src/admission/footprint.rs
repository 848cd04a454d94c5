//! What the work of one transaction needs and does, cell by cell.

use super::cell::Doing;
use crate::model::{Content, Effects, Field, Linear, Location, Made, Place, Term};

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
}

impl Footprint {
    pub(super) const fn of(linear: Linear) -> Self {
        Self { linear, more: None }
    }

    pub(super) fn of_effects(effects: Effects) -> Self {
        let Effects { deltas, assigned, made, puts, hidden, reads } = effects;
        let linear = Linear { deltas, assigned, puts, ..Linear::default() };
        Self { linear, more: Some(More { made, hidden, reads }) }
    }

    /// The footprint as thresholds, contents and constants, if there is no more to it.
    pub(super) fn as_linear(&self) -> Option<&Linear> {
        self.more.is_none().then_some(&self.linear)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = (Field, Doing<i128>)> {
        let deltas = self.linear.deltas.iter().map(|&(field, amount)| (field, Doing::Adds(amount)));
        let assigned = self.linear.assigned.iter().map(|&(field, value)| (field, Doing::Gives(value)));
        let made = self.more.iter().flat_map(|more| &more.made);
        let made = made.map(|made| (made.field, Doing::Makes(made.function, made.image.clone())));
        deltas.chain(assigned).chain(made)
    }

    pub(super) fn places(&self) -> impl Iterator<Item = (&Place, Doing<String>)> {
        let puts = self.linear.puts.iter().map(|put| (&put.place, Doing::Gives(put.value.clone())));
        let hidden = self.more.iter().flat_map(|more| &more.hidden);
        puts.chain(hidden.map(|place| (place, Doing::Hides)))
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
        let made = self.more.iter().flat_map(|more| &more.made).map(|made| made.field);
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

/// Whether `linear` changes a sum.
pub(super) fn moves(linear: &Linear, terms: &[Term]) -> bool {
    added(linear, terms) != 0 || terms.iter().any(|term| linear.assigned.iter().any(|(field, _)| *field == term.field))
}

/// Whether the order of two events shows in what they leave.
pub(super) fn differ_by_order(first: &Linear, second: &Linear) -> bool {
    let adds = |linear: &Linear, field: Field| linear.deltas.iter().any(|(other, _)| *other == field);
    let gives_other = |first: &Linear, second: &Linear| {
        let is_other = |&(field, value): &(Field, i128)| {
            adds(second, field) || second.assigned.iter().any(|&(other, found)| other == field && found != value)
        };
        first.assigned.iter().any(is_other)
    };
    let puts_other =
        |put: &Content| second.puts.iter().any(|other| other.place == put.place && other.value != put.value);
    gives_other(first, second) || gives_other(second, first) || first.puts.iter().any(puts_other)
}

impl Linear {
    /// What is added to `field`.
    pub(super) fn delta(&self, field: Field) -> i128 {
        self.deltas.iter().find_map(|&(f, delta)| (f == field).then_some(delta)).unwrap_or(0)
    }
}
