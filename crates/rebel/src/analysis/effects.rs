//! What a call does, in every state in which it happens, and what it depends on.

use std::cell::Cell;
use std::sync::Arc;

use super::abstraction::{Abstract, Denomination, Domain};
use super::change::{hash, reads_time};
use super::effect::reads;
use super::interval::Interval;
use super::linear::{Content, Delta, Place};
use crate::evaluate::Evaluator;
use crate::instance::EventCall;
use crate::limits::FUEL;
use crate::model::expr::{Effect, Expr, ExprKind, Operator};
use crate::model::{Body, Class, Event};
use crate::value::{Bindings, Currency, Key, Name, Timestamp, Type, Value};

/// What a call does in every state in which it happens, each field once: what is not named stays as it is.
///
/// Numbers are in the smallest unit of their type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// The state it leads to, if that is one for all states; else each stays as it is.
    pub target: Option<Name>,
    /// What is added to numbers; zero is among it.
    pub deltas: Vec<Delta>,
    /// The numbers that fields get, whatever they were.
    pub assigned: Vec<Delta>,
    /// The numbers that are made of what was there, each with what tells equal functions of nothing else; nothing if it depends
    /// on more.
    pub made: Vec<(Name, Option<u64>)>,
    /// What is in some places after the call, whatever was there.
    pub puts: Vec<Content>,
    /// The other fields that change.
    pub hidden: Vec<Name>,
    /// The fields on which it depends otherwise: whether it happens, what it needs of others and returns, and effects that read
    /// more than the field that they change.
    pub reads: Vec<Name>,
}

impl Class {
    /// What `call` does, whatever the instance, and what it depends on; `None` if it does different things in different states, has
    /// variants, may change what is [due](Class::due), or does not fit the class.
    ///
    /// It tells of instances that are of this class ([`Class::verify`]): an invariant over fields that the call does not change is not
    /// among what it depends on.
    ///
    /// # Complexity
    /// Linear in the event and the invariants.
    #[must_use]
    pub fn effects(&self, key: &Key, call: &EventCall, at: Timestamp) -> Option<Effects> {
        let event = self.event(call.event())?;
        if !key.has_type(&self.key_type) || !event.argument_errors(call).is_empty() {
            return None;
        }
        if call.due().is_some() || !self.keeps_timers(event) {
            return None;
        }
        let body = one_body(event)?;
        let first = event.transitions.first()?;
        let stays = event.transitions.iter().all(|transition| transition.source == transition.target);
        let leads_to_one = event.transitions.iter().all(|transition| transition.target == first.target);
        let target = match (stays, leads_to_one) {
            (true, _) => None,
            (false, true) => Some(first.target.clone()),
            (false, false) => return None,
        };
        let mut found = Effects { target, ..Effects::default() };
        let mut constants = Evaluator::new(self.scope(key, Bindings::nothing(), Some(call), at));
        for effect in &body.effects {
            self.add_effect(effect, call, at, &mut constants, &mut found);
        }
        self.add_reads(body, &mut found);
        Some(found)
    }

    fn add_effect(
        &self,
        effect: &Effect,
        call: &EventCall,
        at: Timestamp,
        constants: &mut Evaluator<'_>,
        found: &mut Effects,
    ) {
        let (field, value) = (&effect.field.name, &effect.value);
        let ty = self.fields.iter().find(|known| known.name == *field).map(|known| &known.ty);
        let is_number = ty.is_some_and(is_number);
        let is_own = |expr: &Expr| matches!(&expr.kind, ExprKind::Field(slot) if slot.name == *field);
        let mut constant = |expr: &Expr| if reads(expr, |_| true) { None } else { constants.value(expr, &[]).ok() };
        if let ExprKind::Arithmetic(operator @ (Operator::Add | Operator::Subtract), _, own, by) = &value.kind
            && is_own(own)
            && let Some(by) = constant(by)
            && let Some(amount) = by.number()
            && let Some(amount) = if *operator == Operator::Add { Some(amount) } else { amount.checked_neg() }
        {
            return found.deltas.push(Delta { field: field.clone(), amount, currency: by.currency() });
        }
        if let ExprKind::Insert(set, element) | ExprKind::Remove(set, element) = &value.kind
            && is_own(set)
            && let Some(element) = constant(element)
        {
            let place = Place { field: field.clone(), element: Some(element) };
            let value = Value::Boolean(matches!(value.kind, ExprKind::Insert(..)));
            return found.puts.push(Content { place, value });
        }
        match constant(value) {
            Some(constant) if is_number => match constant.number() {
                Some(amount) => {
                    found.assigned.push(Delta { field: field.clone(), amount, currency: constant.currency() });
                }
                None => found.hidden.push(field.clone()),
            },
            Some(constant) if ty.is_some_and(is_single) => {
                found.puts.push(Content { place: Place { field: field.clone(), element: None }, value: constant });
            }
            _ if is_number => {
                let is_of_itself = !reads(value, |name| name != field);
                let function = is_of_itself.then(|| hash(&(call, field, reads_time(value).then_some(at))));
                found.made.push((field.clone(), function));
            }
            _ => found.hidden.push(field.clone()),
        }
    }

    fn add_reads(&self, body: &Body, found: &mut Effects) {
        let changed: Vec<&Name> = body.effects.iter().map(|effect| &effect.field.name).collect();
        let mut names: Vec<Name> = Vec::new();
        let mut add = |expr: &Expr, own: Option<&Name>| {
            expr.walk(&mut |expr| {
                if let ExprKind::Field(slot) | ExprKind::NewField(slot) = &expr.kind
                    && own != Some(&slot.name)
                    && !names.contains(&slot.name)
                {
                    names.push(slot.name.clone());
                }
            });
        };
        body.guards.iter().for_each(|guard| add(&guard.expr, None));
        body.statements.iter().flat_map(|statement| statement.expressions()).for_each(|expr| add(expr, None));
        body.returned.iter().for_each(|returned| add(&returned.value, None));
        body.effects.iter().for_each(|effect| add(&effect.value, Some(&effect.field.name)));
        let touched = self.invariants.iter().filter(|rule| reads(&rule.expr, |name| changed.contains(&name)));
        touched.for_each(|rule| add(&rule.expr, None));
        found.reads = names;
    }

    /// Between which numbers of `currency` the call makes of a number between `low` and `high` in `field`, which it makes of nothing else;
    /// `None` if that is not known.
    #[must_use]
    pub fn image(
        &self,
        (key, call, at): (&Key, &EventCall, Timestamp),
        field: &str,
        (low, high): (i128, i128),
        currency: Option<Currency>,
    ) -> Option<(i128, i128)> {
        let body = one_body(self.event(call.event())?)?;
        let effect = body.effects.iter().find(|effect| *effect.field.name == *field)?;
        let denomination = currency.map_or(Denomination::None, Denomination::Known);
        let fuel = Cell::new(FUEL);
        let mut fields = vec![Abstract::Any; self.fields.len()];
        *fields.get_mut(effect.field.index)? = Abstract::Number(Interval { low, high }, denomination);
        let params = call.arguments().iter().map(|(_, value)| Abstract::of(value)).collect();
        let domain = Domain { class: self, fields, params, event: Some((key, at)), fuel: &fuel };
        match domain.value(&effect.value) {
            // Where a number would not fit, the call does not happen.
            (Abstract::Number(range, found), faults) if found == denomination && !faults.mismatch => {
                Some((range.low, range.high))
            }
            _ => None,
        }
    }
}

/// What the event does, if that is one for all states that allow it.
fn one_body(event: &Event) -> Option<&Arc<Body>> {
    let first = &event.transitions.first()?.body;
    let is_same =
        |transition: &crate::model::Transition| transition.variant.is_none() && Arc::ptr_eq(&transition.body, first);
    event.transitions.iter().all(is_same).then_some(first)
}

const fn is_number(ty: &Type) -> bool {
    matches!(ty, Type::Integer | Type::Money | Type::MoneyOf(_) | Type::Percentage | Type::Date | Type::Timestamp)
}

/// Whether values of the type are compared as a whole by their texts.
const fn is_single(ty: &Type) -> bool {
    !matches!(ty, Type::Set(_) | Type::List(_) | Type::Map(_) | Type::Record(_) | Type::Optional(_))
}
