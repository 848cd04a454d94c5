//! What a call changes, place by place, and in which manner.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::effect::{Elements, Form, form, reads};
use super::linear::Place;
use crate::evaluate::{Done, Evaluator};
use crate::instance::EventCall;
use crate::model::Class;
use crate::model::expr::{EffectOperator, Expr, ExprKind};
use crate::value::{Bindings, Key, Name, Timestamp, Type, Value};

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

/// Elements of sets that are told one by one, at most.
const ELEMENTS_MAX: usize = 256;

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
        let call = &*event.completed(call);
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
                add(Change { place, manner: Manner::Makes(hash(&transition.target)) });
            }
            for effect in &transition.body.effects {
                let field = &effect.field.name;
                let changing = Changing { class: self, field, call, at };
                changing.changes(&effect.value, &mut Evaluator::new(scope)).into_iter().for_each(&mut add);
            }
        }
        Some(changes)
    }
}

/// A call, and a field that it changes.
struct Changing<'a> {
    class: &'a Class,
    field: &'a Name,
    call: &'a EventCall,
    at: Timestamp,
}

impl Changing<'_> {
    /// What becomes of the field where it gets this value; `constants` has the values of what reads no field.
    fn changes(&self, value: &Expr, constants: &mut Evaluator<'_>) -> Vec<Change> {
        let is_own = |expr: &Expr| matches!(&expr.kind, ExprKind::Field(slot) if slot.name == *self.field);
        match &value.kind {
            _ if is_own(value) => return Vec::new(),
            // The branch that is taken counts, if the instance does not decide.
            ExprKind::If(condition, accepted, otherwise) if !reads(condition, |_| true) => {
                if let Ok(truth) = constants.truth(condition, &[]) {
                    return self.changes(if truth { accepted } else { otherwise }, constants);
                }
            }
            ExprKind::Updated(_, updates) => {
                if let Some(changes) = constants.done(updates, &[]).ok().and_then(|done| self.updates(&done)) {
                    return changes;
                }
            }
            _ => {}
        }
        vec![self.change(value, constants)]
    }

    /// What several updates make of the field as a whole, whose values do not depend on the instance; nothing is said of others.
    fn updates(&self, done: &[Done]) -> Option<Vec<Change>> {
        let ty = self.class.fields.iter().find(|field| field.name == *self.field).map(|field| &field.ty)?;
        let mut changes: Vec<Change> = Vec::new();
        for Done { way, operator, value } in done {
            if !way.is_empty() || *operator == EffectOperator::Becomes {
                return None;
            }
            match (ty, value) {
                (Type::Set(_), Value::Set(elements)) => {
                    let manner = Manner::Makes(hash(&(*operator == EffectOperator::Increases)));
                    changes.extend(elements.iter().map(|element| Change { place: self.place(Some(element)), manner }));
                    if changes.len() > ELEMENTS_MAX {
                        return None;
                    }
                }
                (Type::Integer | Type::Money | Type::MoneyOf(_) | Type::Percentage | Type::Date, _) => {
                    changes.push(Change { place: self.place(None), manner: Manner::Adds });
                }
                _ => return None,
            }
        }
        changes.dedup();
        Some(changes)
    }

    fn place(&self, element: Option<&Value>) -> Place {
        Place { field: self.field.clone(), element: element.cloned() }
    }

    fn change(&self, value: &Expr, constants: &mut Evaluator<'_>) -> Change {
        let Self { field, call, at, .. } = *self;
        let whole = |manner| Change { place: self.place(None), manner };
        match form(field, value) {
            Form::Moves { is_in, elements } if matches!(elements[..], [Elements::One(_)]) => {
                let element = elements[0].expr();
                let element = if reads(element, |_| true) { None } else { constants.value(element, &[]).ok() };
                let manner = Manner::Makes(hash(&is_in));
                element.map_or_else(
                    || whole(Manner::Other),
                    |element| Change { place: self.place(Some(&element)), manner },
                )
            }
            Form::Adds(others) if !others.iter().any(|other| reads(other.value, |_| true)) => whole(Manner::Adds),
            _ if !reads(value, |_| true) => {
                let value = constants.value(value, &[]).ok();
                whole(value.map_or(Manner::Other, |value| Manner::Makes(hash(&value))))
            }
            _ if !reads(value, |name| name != field) => {
                let time = reads_time(value).then_some(at);
                whole(Manner::Makes(hash(&(call, field, time))))
            }
            _ => whole(Manner::Other),
        }
    }
}

pub(super) fn reads_time(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| found |= matches!(&expr.kind, ExprKind::Now | ExprKind::Today));
    found
}

/// The same number for equal values, on every machine.
pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
