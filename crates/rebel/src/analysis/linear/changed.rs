//! What the effects of one call make of the fields: numbers that are added or put, and contents of places.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::folding::{Folding, Sum, kind_of, kind_of_type, stand_in, whole};
use super::{Content, Delta, Place, Term};
use crate::evaluate::Done;
use crate::model::expr::{EffectOperator, Expr, ExprKind, NumberKind, Update};
use crate::value::{Currency, Name, Type, Value};

/// Elements that one call puts into sets or takes out at most: each is looked for among the others.
const PUTS_MAX: usize = 256;

/// What the effects of a call make of the fields.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) deltas: Vec<Delta>,
    pub(super) assigned: Vec<Delta>,
    pub(super) puts: Vec<Content>,
}

impl Changed {
    fn adds(&mut self, field: &Name, amount: i128, currency: Option<Currency>) {
        if amount != 0 {
            self.deltas.push(Delta { field: field.clone(), amount, currency });
        }
    }

    /// Puts elements into a set, or takes them out; `None` if one of them is put in and taken out, which is a fault.
    fn put_elements(&mut self, field: &Name, elements: &Arc<BTreeSet<Value>>, is_in: bool) -> Option<()> {
        for element in elements.iter() {
            let place = Place { field: field.clone(), element: Some(element.clone()) };
            let content = Content { place, value: Value::Boolean(is_in) };
            match self.puts.iter().find(|known| known.place == content.place) {
                Some(known) if known.value != content.value => return None,
                Some(_) => {}
                None if self.puts.len() == PUTS_MAX => return None,
                None => self.puts.push(content),
            }
        }
        Some(())
    }
}

impl Folding<'_> {
    /// Adds what an effect makes of a field. Conditions that do not depend on the instance are looked through.
    pub(super) fn effect(&mut self, field: &Name, value: &Expr, changed: &mut Changed) -> Option<()> {
        match &value.kind {
            ExprKind::Field(slot) if slot.name == *field => Some(()),
            _ if !value.reads_fields() => {
                let value = self.constant(value)?;
                self.becomes(field, value, changed)
            }
            ExprKind::If(condition, accepted, otherwise) if self.is_of_any_call() && !condition.reads_fields() => {
                self.effect(field, accepted, changed)?;
                self.effect(field, otherwise, changed)
            }
            ExprKind::If(condition, accepted, otherwise) if !condition.reads_fields() => {
                let Value::Boolean(truth) = self.constant(condition)? else { return None };
                self.effect(field, if truth { accepted } else { otherwise }, changed)
            }
            ExprKind::Updated(_, updates) => {
                let Some(mut evaluator) = self.evaluator() else { return self.any_of(field, updates, changed) };
                // Where no field has a value, nothing that is evaluated reads one.
                self.updates(field, &evaluator.done(updates, &[]).ok()?, changed)
            }
            ExprKind::Insert(set, element) | ExprKind::Remove(set, element) => {
                let is_in = matches!(value.kind, ExprKind::Insert(..));
                changed.puts.push(self.element(set, element, is_in).filter(|put| put.place.field == *field)?);
                Some(())
            }
            _ => {
                let sum = self.sum(value)?;
                let [term] = sum.terms.as_slice() else { return None };
                if term.is_negative || term.field != *field {
                    return None;
                }
                changed.adds(field, sum.constant, sum.currency);
                Some(())
            }
        }
    }

    /// What the updates may make of a field in any call.
    fn any_of(&mut self, field: &Name, updates: &[Update], changed: &mut Changed) -> Option<()> {
        updates.iter().try_for_each(|update| match update {
            Update::At { way, value, .. } if !way.is_empty() || value.reads_fields() => None,
            Update::At { operator: EffectOperator::Becomes, value, .. } => {
                self.becomes(field, stand_in(value.ty()), changed)
            }
            Update::At { operator, value, .. } => {
                let done = Done { way: Vec::new(), operator: *operator, value: stand_in(value.ty()) };
                self.updates(field, &[done], changed)
            }
            Update::If(governing, ..) | Update::For(governing, _) if governing.reads_fields() => None,
            Update::If(_, accepted, otherwise) => {
                self.any_of(field, accepted, changed)?;
                self.any_of(field, otherwise, changed)
            }
            Update::For(_, inner) => self.any_of(field, inner, changed),
        })
    }

    fn becomes(&self, field: &Name, value: Value, changed: &mut Changed) -> Option<()> {
        if !self.has_one_content(field) {
            return None;
        }
        match value.number().filter(|_| kind_of(&value).is_some()) {
            Some(amount) => {
                changed.assigned.push(Delta { field: field.clone(), amount, currency: value.currency() });
            }
            None => changed.puts.push(whole(field, value)),
        }
        Some(())
    }

    /// What several updates make of a field as a whole.
    fn updates(&mut self, field: &Name, done: &[Done], changed: &mut Changed) -> Option<()> {
        if let [Done { way, operator: EffectOperator::Becomes, value }] = done {
            return way.is_empty().then(|| self.becomes(field, value.clone(), changed))?;
        }
        let ty = self.class.fields.iter().find(|known| known.name == *field).map(|known| &known.ty)?;
        let (kind, mut constant, mut currency) = (kind_of_type(ty), 0_i128, None);
        for Done { way, operator, value } in done {
            if !way.is_empty() || *operator == EffectOperator::Becomes {
                return None;
            }
            let is_added = *operator == EffectOperator::Increases;
            match (ty, value) {
                (Type::Set(_), Value::Set(elements)) => changed.put_elements(field, elements, is_added)?,
                _ => {
                    let fits =
                        kind_of(value) == kind || kind == Some(NumberKind::Date) && matches!(value, Value::Integer(_));
                    let amount = value.number().filter(|_| kind.is_some() && fits)?;
                    let amount = if is_added { amount } else { amount.checked_neg()? };
                    constant = constant.checked_add(amount)?;
                    let known = currency.get_or_insert(value.currency());
                    (*known == value.currency()).then_some(())?;
                    let terms = vec![Term { field: field.clone(), is_negative: false }];
                    self.range(&Sum { kind: kind?, terms, constant, currency: value.currency() })?;
                }
            }
        }
        changed.adds(field, constant, currency.flatten());
        Some(())
    }
}
