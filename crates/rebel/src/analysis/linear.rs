//! Calls that need thresholds and contents, add amounts, and put values that do not depend on fields, alone or several in
//! one step.
//!
//! For such calls an admission keeps, per field, the least and the greatest number that the open events may lead to, and
//! decides in constant time: a threshold holds in every outcome if it holds at the worse end, and in none if it fails
//! at the better one. For thresholds over one field this is exact, because each end is an outcome. What is put, as an element
//! into a set or as a value into a field, is there or not: each such place has two contents at most while only equal ones
//! are open.
//!
//! # What is left out of a verdict
//! Nothing: the range of numbers is a threshold like any other, and so are the invariants, shifted by what the call
//! adds. An invariant over fields that the call does not change is left to the events that change them.

mod changed;
mod folding;

use std::mem::discriminant;
use std::sync::Arc;

pub(super) use self::folding::Obstacle;
use self::folding::{Constants, Folding};
use crate::instance::{EventCall, Instance};
use crate::model::expr::Rule;
use crate::model::{Body, Class, Event};
use crate::value::{Currency, Key, Name, Timestamp, Type, Value};

/// A call that happens exactly if the instance is in one of its states, all its thresholds hold and all its places have the
/// contents that it needs, and then stays in that state, adds its deltas, and puts numbers and contents.
///
/// Numbers are in the smallest unit of their type: minor units of the currency, 10^-16 percent, days, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The states that allow the event.
    pub states: Vec<Name>,
    /// What must hold before the event.
    pub thresholds: Vec<Threshold>,
    /// What must be in some places before the event.
    pub holds: Vec<Content>,
    /// What the events add; each field once.
    pub deltas: Vec<Delta>,
    /// The numbers that fields get, whatever they were; each field once, and none that has a delta.
    pub assigned: Vec<Delta>,
    /// What is in some places after the event, whatever was there; each place once.
    pub puts: Vec<Content>,
}

/// A field that is no number, or one element of a field that is a set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The field.
    pub field: Name,
    /// The element, if the field is a set.
    pub element: Option<Value>,
}

/// What is in a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// The place.
    pub place: Place,
    /// The value of the field; of an element, whether the set has it.
    pub value: Value,
}

impl Place {
    /// What is in this place in `instance`, or `None` if its field has no value, or no set for an element.
    #[must_use]
    pub fn content_in(&self, instance: &Instance) -> Option<Value> {
        let value = instance.fields().get(&self.field)?;
        match (&self.element, value) {
            (None, value) => Some(value.clone()),
            (Some(element), Value::Set(elements)) => Some(Value::Boolean(elements.contains(element))),
            (Some(_), _) => None,
        }
    }
}

/// A field that counts towards a [`Threshold`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The field.
    pub field: Name,
    /// Whether it is subtracted.
    pub is_negative: bool,
}

/// What a sum of fields must reach or not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The sum is at least this.
    AtLeast(i128),
    /// The sum is at most this.
    AtMost(i128),
}

/// A bound on the sum of some fields; mostly of one.
///
/// It holds only if the fields that are amounts of money are in one currency, and in `currency` if that is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    /// The fields, each once; at least one.
    pub terms: Vec<Term>,
    /// The bound.
    pub bound: Bound,
    /// The currency of the bound. `None` for numbers that are no money, and for comparisons with `0`.
    pub currency: Option<Currency>,
}

/// What an event adds to a field, or makes of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delta {
    /// The field.
    pub field: Name,
    /// The number added, which is not zero, or the number that the field gets.
    pub amount: i128,
    /// Its currency, if it is money.
    pub currency: Option<Currency>,
}

impl Bound {
    /// The stronger of two bounds on the same side.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Bound::AtLeast(a), Bound::AtLeast(b)) => Bound::AtLeast(a.max(b)),
            (Bound::AtMost(a), Bound::AtMost(b)) => Bound::AtMost(a.min(b)),
            _ => self,
        }
    }
}

impl Linear {
    /// Whether the call happens in `instance`, as [`Class::next`] would say.
    #[must_use]
    pub fn happens_in(&self, instance: &Instance) -> bool {
        self.states.contains(instance.state())
            && self.thresholds.iter().all(|threshold| threshold.holds_in(instance))
            && self.holds.iter().all(|content| content.place.content_in(instance).as_ref() == Some(&content.value))
    }
}

impl Threshold {
    /// The sum of the terms in `instance`, or `None` if a currency does not fit or a field has no number.
    #[must_use]
    pub fn sum_in(&self, instance: &Instance) -> Option<i128> {
        let mut sum: i128 = 0;
        let mut currency = self.currency;
        for term in &self.terms {
            let value = instance.fields().get(&term.field)?;
            if let Some(found) = value.currency()
                && *currency.get_or_insert(found) != found
            {
                return None;
            }
            let number = value.number()?;
            sum = if term.is_negative { sum.checked_sub(number)? } else { sum.checked_add(number)? };
        }
        Some(sum)
    }

    /// Whether it holds in `instance`.
    #[must_use]
    pub fn holds_in(&self, instance: &Instance) -> bool {
        self.sum_in(instance).is_some_and(|sum| self.decide(sum, sum) == Some(true))
    }

    /// Whether it holds for every sum from `low` to `high` (true), for none (false), or for some.
    #[must_use]
    pub fn decide(&self, low: i128, high: i128) -> Option<bool> {
        let (always, never) = match self.bound {
            Bound::AtLeast(bound) => (low >= bound, high < bound),
            Bound::AtMost(bound) => (high <= bound, low > bound),
        };
        if always { Some(true) } else { never.then_some(false) }
    }
}

impl Class {
    /// The thresholds and deltas of `calls`, which happen one after the other in one step, whatever the instance, or `None`
    /// if they have another form.
    ///
    /// A call has this form if each of its guards, and each invariant over a field it changes, compares sums and
    /// differences of single fields and constants, or asks for one value of a field or one element of a set; if its effects
    /// add constants to fields, put constants into them, or put constants into sets or take them out, as far as conditions and loops
    /// that do not depend on fields let them; if it stays in its state; and if what it needs from other instances does not depend on fields. Arguments, the identity, the time and the
    /// caller are constants of the call. Several calls only add: each must hold after what those before it add, and the invariants
    /// after all of them.
    ///
    /// A call that a timer makes happen does not have this form, nor does one that may change the time of a timer: what has it leaves
    /// what is [due](Class::due) as it is.
    ///
    /// It tells of instances that are of this class ([`Class::verify`]) and [have all times](Class::has_times), as every result of
    /// [`Class::next`] is.
    #[must_use]
    pub fn linear(&self, key: &Key, calls: &[EventCall], at: Timestamp) -> Option<Linear> {
        if !key.has_type(&self.key_type) {
            return None;
        }
        let (first, rest) = calls.split_first()?;
        let Linear { mut states, mut thresholds, holds, mut deltas, assigned, puts } =
            self.linear_act(key, first, at)?;
        let only_adds =
            |linear: &Linear| linear.holds.is_empty() && linear.assigned.is_empty() && linear.puts.is_empty();
        for call in rest {
            let mut next = self.linear_act(key, call, at)?;
            if !(only_adds(&next) && holds.is_empty() && assigned.is_empty() && puts.is_empty()) {
                return None;
            }
            states.retain(|state| next.states.contains(state));
            next.thresholds.iter_mut().try_for_each(|threshold| shift(threshold, &deltas))?;
            thresholds.extend(next.thresholds);
            add(&mut deltas, next.deltas)?;
        }
        deltas.retain(|delta| delta.amount != 0);
        // An invariant reads neither parameters nor the time, so any call will do to fold it.
        let mut invariants = Folding::new(self, Constants::Of(key, first, at));
        let names = deltas.iter().chain(&assigned).map(|delta| &delta.field);
        let changed: Vec<&Name> = names.chain(puts.iter().map(|content| &content.place.field)).collect();
        for invariant in self.invariants.iter().filter(|invariant| reads_changed(invariant, &changed)) {
            invariants.condition(&invariant.expr)?;
        }
        if !invariants.holds.is_empty() {
            return None;
        }
        for mut threshold in invariants.thresholds {
            shift(&mut threshold, &deltas)?;
            thresholds.extend(replaced(threshold, &assigned)?);
        }
        Some(Linear { states, thresholds: strongest(&thresholds)?, holds, deltas, assigned, puts })
    }

    /// One call, the invariants apart.
    fn linear_act(&self, key: &Key, call: &EventCall, at: Timestamp) -> Option<Linear> {
        let event = self.event(call.event())?;
        let call = &*event.completed(call);
        if !event.argument_errors(call).is_empty() || event.role_violation(call).is_some() {
            return None;
        }
        // Where the time of a timer changes it may fault, which no bound shows.
        if call.due().is_some() || !self.keeps_timers(event) {
            return None;
        }
        let mut states = Vec::new();
        let mut common: Option<(&Arc<Body>, Linear)> = None;
        for transition in &event.transitions {
            if transition.source != transition.target || transition.variant.is_some() {
                return None;
            }
            states.push(transition.source.clone());
            // The states of one group have one body.
            if common.as_ref().is_some_and(|(body, _)| Arc::ptr_eq(body, &transition.body)) {
                continue;
            }
            let found = Folding::new(self, Constants::Of(key, call, at)).body(&transition.body).ok()?;
            match &common {
                None => common = Some((&transition.body, found)),
                Some((_, known)) if *known == found => {}
                Some(_) => return None,
            }
        }
        Some(Linear { states, ..common?.1 })
    }
}

impl Class {
    /// What keeps the calls of `event` from having the form of [`Class::linear`], whatever the arguments and the instance; `None` if
    /// nothing does but arguments that are refused anyway. Timers, variants and the states that it leads to are not looked at.
    pub(super) fn obstacle(&self, event: &Event) -> Option<Obstacle> {
        let bodies = event.transitions.iter().map(|transition| &*transition.body);
        bodies.into_iter().find_map(|body| self.obstacle_in(body).err())
    }

    fn obstacle_in(&self, body: &Body) -> Result<(), Obstacle> {
        let Linear { mut thresholds, deltas, assigned, puts, .. } = Folding::new(self, Constants::Any).body(body)?;
        let names = deltas.iter().chain(&assigned).map(|delta| &delta.field);
        let changed: Vec<&Name> = names.chain(puts.iter().map(|content| &content.place.field)).collect();
        for invariant in self.invariants.iter().filter(|invariant| reads_changed(invariant, &changed)) {
            let mut folding = Folding::new(self, Constants::Any);
            let found = folding.condition(&invariant.expr).filter(|()| folding.holds.is_empty());
            found.ok_or(Obstacle::Condition(invariant.expr.span()))?;
            let is_assigned = |term: &Term| assigned.iter().any(|known| known.field == term.field);
            thresholds.extend(folding.thresholds.into_iter().filter(|found| !found.terms.iter().any(is_assigned)));
        }
        // The currency of an amount follows from what it is compared with, or from what is added.
        let is_open = |term: &Term| self.fields.iter().any(|field| field.name == term.field && field.ty == Type::Money);
        let adds = |term: &Term| deltas.iter().any(|delta| delta.field == term.field);
        let thresholds = strongest(&thresholds).unwrap_or_default();
        let lacks_currency = |found: &&Threshold| {
            found.currency.is_none() && found.terms.iter().any(is_open) && !found.terms.iter().any(adds)
        };
        let Some(lacking) = thresholds.iter().find(lacks_currency) else { return Ok(()) };
        let mut rules = body.guards.iter().chain(&self.invariants);
        let rule = rules.find(|rule| rule.reads.iter().any(|(name, _)| *name == lacking.terms[0].field));
        rule.map_or(Ok(()), |rule| Err(Obstacle::Condition(rule.expr.span())))
    }
}

/// Adds `more` to `deltas`, unless a field would be in two currencies.
fn add(deltas: &mut Vec<Delta>, more: Vec<Delta>) -> Option<()> {
    for delta in more {
        match deltas.iter_mut().find(|known| known.field == delta.field) {
            Some(known) if known.currency != delta.currency => return None,
            Some(known) => known.amount = known.amount.checked_add(delta.amount)?,
            None => deltas.push(delta),
        }
    }
    Some(())
}

fn reads_changed(rule: &Rule, changed: &[&Name]) -> bool {
    rule.reads.iter().any(|(name, _)| changed.contains(&name))
}

/// Turns a threshold on the fields after the event into one on those that keep their number; `Some(None)` if it always holds,
/// `None` if it never does.
fn replaced(mut threshold: Threshold, assigned: &[Delta]) -> Option<Option<Threshold>> {
    for number in assigned {
        let Some(at) = threshold.terms.iter().position(|term| term.field == number.field) else { continue };
        if threshold.currency.is_some_and(|currency| Some(currency) != number.currency) {
            return None;
        }
        let term = threshold.terms.remove(at);
        let known = if term.is_negative { number.amount.checked_neg()? } else { number.amount };
        threshold.bound = match threshold.bound {
            Bound::AtLeast(bound) => Bound::AtLeast(bound.checked_sub(known)?),
            Bound::AtMost(bound) => Bound::AtMost(bound.checked_sub(known)?),
        };
        // What is left is compared in the currency of what it is added to.
        threshold.currency = threshold.currency.or(number.currency);
    }
    if threshold.terms.is_empty() {
        return (threshold.decide(0, 0) == Some(true)).then_some(None);
    }
    if threshold.terms[0].is_negative {
        threshold.terms.iter_mut().for_each(|term| term.is_negative = !term.is_negative);
        threshold.bound = match threshold.bound {
            Bound::AtLeast(bound) => Bound::AtMost(bound.checked_neg()?),
            Bound::AtMost(bound) => Bound::AtLeast(bound.checked_neg()?),
        };
    }
    Some(Some(threshold))
}

/// Turns a threshold on the fields after the event into one on the fields before it.
fn shift(threshold: &mut Threshold, deltas: &[Delta]) -> Option<()> {
    for term in &threshold.terms {
        let Some(delta) = deltas.iter().find(|delta| delta.field == term.field) else { continue };
        let added = if term.is_negative { delta.amount.checked_neg()? } else { delta.amount };
        threshold.bound = match threshold.bound {
            Bound::AtLeast(bound) => Bound::AtLeast(bound.checked_sub(added)?),
            Bound::AtMost(bound) => Bound::AtMost(bound.checked_sub(added)?),
        };
    }
    Some(())
}

/// One threshold for every sum and side, or `None` if a sum would have to be in two currencies.
fn strongest(thresholds: &[Threshold]) -> Option<Vec<Threshold>> {
    let mut kept: Vec<Threshold> = Vec::new();
    for threshold in thresholds {
        let same_sum = thresholds.iter().filter(|other| other.terms == threshold.terms);
        let mut currencies = same_sum.filter_map(|other| other.currency);
        let currency = currencies.next();
        if currencies.any(|other| Some(other) != currency) {
            return None;
        }
        let is_same = |other: &&mut Threshold| {
            other.terms == threshold.terms && discriminant(&other.bound) == discriminant(&threshold.bound)
        };
        match kept.iter_mut().find(is_same) {
            Some(other) => other.bound = other.bound.and(threshold.bound),
            None => kept.push(Threshold { currency, ..threshold.clone() }),
        }
    }
    Some(kept)
}
