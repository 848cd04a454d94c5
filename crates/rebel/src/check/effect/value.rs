//! The value of a field, built of all effects on it.

use super::super::Checker;
use super::super::expression::Typed;
use super::{Change, Effects, OnField, Part, sum};
use crate::model::Builtin;
use crate::model::expr::{Effect, EffectOperator, Expr, ExprKind, Operator, Update};
use crate::source::Span;
use crate::value::Type;

impl Checker {
    /// The effects of an event or a variant, one for each field.
    pub(in super::super) fn effects_of(&mut self, effects: Effects) -> Vec<Effect> {
        effects.fields.into_iter().filter_map(|field| self.effect_on(field)).collect()
    }

    fn effect_on(&mut self, field: OnField) -> Option<Effect> {
        let OnField { slot, ty, parts, texts } = field;
        let span = span(&parts)?;
        let old = Typed::leaf(ExprKind::Field(slot.clone()), ty.clone(), span);
        let value = match is_chosen(&parts) {
            true => chosen(&parts, old)?,
            false => {
                let depth = parts.iter().map(depth).max().unwrap_or(0);
                Typed::node(
                    ExprKind::Updated(old.expr.into(), parts.into_iter().map(update).collect()),
                    ty,
                    span,
                    depth,
                )
            }
        };
        let value = self.within_depth(value, span)?;
        Some(Effect { field: slot, value: value.expr, text: texts.join(", ").into() })
    }
}

/// Whether each path makes one change of the field as a whole, at most.
fn is_chosen(parts: &[Part]) -> bool {
    match parts {
        [] => true,
        [Part::Do(change)] => change.way.is_empty(),
        [Part::If(_, accepted, otherwise)] => is_chosen(accepted) && is_chosen(otherwise),
        _ => false,
    }
}

/// The value of a field that was `old`, of which [`is_chosen`] holds.
fn chosen(parts: &[Part], old: Typed) -> Option<Typed> {
    match parts {
        [] => Some(old),
        [Part::Do(change)] => changed(old, change),
        [Part::If(condition, accepted, otherwise)] => {
            let (accepted, otherwise) = (chosen(accepted, old.clone())?, chosen(otherwise, old.clone())?);
            let depth = condition.depth.max(accepted.depth).max(otherwise.depth);
            let kind = ExprKind::If(condition.expr.clone(), accepted.expr.into(), otherwise.expr.into());
            Some(Typed::node(kind, old.ty().clone(), condition.expr.span(), depth))
        }
        _ => None,
    }
}

fn changed(old: Typed, change: &Change) -> Option<Typed> {
    let Change { ty, value, span, .. } = change;
    let operator = match change.operator {
        EffectOperator::Becomes => return Some(value.clone()),
        EffectOperator::Increases => Operator::Add,
        EffectOperator::Decreases => Operator::Subtract,
    };
    let builtin = match ty {
        Type::List(_) => Builtin::Append,
        Type::Map(_) => Builtin::Without,
        _ => return sum(operator, old, value.clone(), ty),
    };
    if !change.is_element {
        return sum(operator, old, value.clone(), ty);
    }
    let depth = old.depth.max(value.depth);
    Some(Typed::node(ExprKind::Apply(builtin, vec![old.expr, value.expr.clone()]), ty.clone(), *span, depth))
}

fn update(part: Part) -> Update {
    let updates = |parts: Vec<Part>| parts.into_iter().map(update).collect();
    match part {
        Part::Do(Change { way, ty, operator, value, is_element: true, .. }) => {
            Update::At { way, operator, value: alone(value.expr, &ty) }
        }
        Part::Do(Change { way, operator, value, .. }) => Update::At { way, operator, value: value.expr },
        Part::If(condition, accepted, otherwise) => Update::If(condition.expr, updates(accepted), updates(otherwise)),
        Part::For(domain, parts) => Update::For(domain.expr, updates(parts)),
    }
}

/// The collection of one element that is added to a place of type `ty`, or taken away.
fn alone(element: Expr, ty: &Type) -> Expr {
    let (of, span) = (element.ty().clone(), element.span());
    match ty {
        Type::List(_) => Expr::new(ExprKind::List(vec![element]), Type::List(of.into()), span),
        _ => Expr::new(ExprKind::Set(vec![element]), Type::Set(of.into()), span),
    }
}

/// How deep its evaluation nests.
fn depth(part: &Part) -> usize {
    let of = |parts: &[Part]| parts.iter().map(depth).max().unwrap_or(0);
    1 + match part {
        Part::Do(change) => change.depth,
        Part::If(condition, accepted, otherwise) => condition.depth.max(of(accepted)).max(of(otherwise)),
        Part::For(domain, parts) => domain.depth.max(of(parts)),
    }
}

/// Where the first change stands.
fn span(parts: &[Part]) -> Option<Span> {
    parts.iter().find_map(|part| match part {
        Part::Do(change) => Some(change.span),
        Part::If(_, accepted, otherwise) => span(accepted).or_else(|| span(otherwise)),
        Part::For(_, parts) => span(parts),
    })
}
