//! What a call changes, place by place, and in which manner.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::effect::{Elements, Form, form, reads};
use super::linear::Place;
use crate::evaluate::Evaluator;
use crate::instance::EventCall;
use crate::model::Class;
use crate::model::expr::{Effect, Expr, ExprKind};
use crate::value::{Bindings, Key, Timestamp};

/// How a call changes a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Manner {
    /// It adds a number that does not depend on the instance.
    Adds,
    /// It makes of what is there something that depends on nothing else in the instance. Calls with equal numbers make the same
    /// of the same.
    Makes(u64),
    /// It makes of it something that depends on more.
    Other,
}

/// A place that a call may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The place; the life cycle has the empty name.
    pub place: Place,
    /// How it is changed.
    pub manner: Manner,
}

impl Class {
    /// What `call` may change, in whichever state it happens; each place once, and a set as a whole if it is not known which
    /// elements of it. `None` if the call does not fit the class, or only notes that a due event was refused.
    ///
    /// # Complexity
    /// Linear in the effects of the event.
    #[must_use]
    pub fn changes(&self, key: &Key, call: &EventCall, at: Timestamp) -> Option<Vec<Change>> {
        let event = self.event(call.event())?;
        if !key.has_type(&self.key_type) || !event.argument_errors(call).is_empty() || call.is_note() {
            return None;
        }
        let mut changes = Vec::new();
        let mut add = |change: Change| match changes.iter_mut().find(|known: &&mut Change| known.place == change.place)
        {
            Some(known) if known.manner != change.manner => known.manner = Manner::Other,
            Some(_) => {}
            None => changes.push(change),
        };
        let scope = self.scope(key, Bindings::nothing(), Some(call), at);
        for transition in &event.transitions {
            if transition.source != transition.target {
                let place = Place { field: "".into(), element: None };
                add(Change { place, manner: Manner::Makes(number(&transition.target)) });
            }
            for effect in &transition.body.effects {
                add(change(effect, call, at, &mut Evaluator::new(scope)));
            }
        }
        Some(changes)
    }
}

fn change(effect: &Effect, call: &EventCall, at: Timestamp, constants: &mut Evaluator<'_>) -> Change {
    let field = &effect.field.name;
    let whole = |manner| Change { place: Place { field: field.clone(), element: None }, manner };
    let value = &effect.value;
    match form(effect) {
        Form::Moves { is_in, elements } if matches!(elements[..], [Elements::One(_)]) => {
            let element = elements[0].expr();
            let element = if reads(element, |_| true) { None } else { constants.value(element, &[]).ok() };
            match element {
                Some(_) => {
                    Change { place: Place { field: field.clone(), element }, manner: Manner::Makes(number(&is_in)) }
                }
                None => whole(Manner::Other),
            }
        }
        Form::Adds(others) if !others.iter().any(|other| reads(other.value, |_| true)) => whole(Manner::Adds),
        _ if !reads(value, |_| true) => {
            whole(constants.value(value, &[]).map_or(Manner::Other, |value| Manner::Makes(number(&value))))
        }
        _ if !reads(value, |name| name != field) => {
            let time = reads_time(value).then_some(at);
            whole(Manner::Makes(number(&(call, field, time))))
        }
        _ => whole(Manner::Other),
    }
}

fn reads_time(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| found |= matches!(&expr.kind, ExprKind::Now | ExprKind::Today));
    found
}

/// The same number for equal values, on every machine.
fn number(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
