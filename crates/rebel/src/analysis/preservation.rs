//! Invariants that an event cannot break, whatever the values: it leaves them alone, or moves away from their bound.
//!
//! `balance + limit >= 0` survives a deposit, because a deposit adds to a term that counts positively. No interval
//! shows this: the bound is on the sum of two fields, each of which may be anything.

use super::abstraction::Domain;
use crate::model::Body;
use crate::model::expr::{Comparison, EffectOperator, Expr, ExprKind, Operator, Update};

/// Whether `rule`, if it holds in an instance of `domain`, holds after the effects of `body`, the range of numbers apart.
///
/// Every field it reads keeps its currency, so no mismatch can arise either.
pub(super) fn is_preserved(rule: &Expr, body: &Body, domain: &Domain<'_>) -> bool {
    let (comparison, sides) = match &rule.kind {
        ExprKind::And(left, right) => return is_preserved(left, body, domain) && is_preserved(right, body, domain),
        _ if !reads_changed(rule, body) => return true,
        ExprKind::Compare(comparison, _, left, right) => (comparison, vec![(&**left, 1), (&**right, -1)]),
        ExprKind::CompareZero(comparison, operand) => (comparison, vec![(&**operand, 1)]),
        _ => return false,
    };
    // How the difference of the sides may move.
    let wanted = match comparison {
        Comparison::Greater | Comparison::GreaterOrEqual => 1,
        Comparison::Less | Comparison::LessOrEqual => -1,
        Comparison::Equal | Comparison::Unequal => return false,
    };
    sides.into_iter().all(|(side, sign)| moves(side, sign * wanted, body, domain))
}

/// Whether `expr` times `sign` only grows or stays.
fn moves(expr: &Expr, sign: i32, body: &Body, domain: &Domain<'_>) -> bool {
    match &expr.kind {
        ExprKind::Arithmetic(Operator::Add, _, left, right) => {
            moves(left, sign, body, domain) && moves(right, sign, body, domain)
        }
        ExprKind::Arithmetic(Operator::Subtract, _, left, right) => {
            moves(left, sign, body, domain) && moves(right, -sign, body, domain)
        }
        ExprKind::Negate(_, operand) => moves(operand, -sign, body, domain),
        ExprKind::Field(slot) => {
            let effect = body.effects.iter().find(|effect| effect.field.index == slot.index);
            effect.is_none_or(|effect| is_step(&effect.value, slot.index, sign, domain))
        }
        _ => !reads_changed(expr, body),
    }
}

/// Whether a value of the field of this number is the one before it with something added whose sign is `sign`, or zero.
fn is_step(value: &Expr, field: usize, sign: i32, domain: &Domain<'_>) -> bool {
    let is_field = |expr: &Expr| matches!(&expr.kind, ExprKind::Field(slot) if slot.index == field);
    let (added, sign) = match &value.kind {
        ExprKind::Arithmetic(Operator::Add, _, old, added) if is_field(old) => (added, sign),
        ExprKind::Arithmetic(Operator::Add, _, added, old) if is_field(old) => (added, sign),
        ExprKind::Arithmetic(Operator::Subtract, _, old, taken) if is_field(old) => (taken, -sign),
        // Whichever way is taken.
        ExprKind::If(_, accepted, otherwise) => {
            return is_step(accepted, field, sign, domain) && is_step(otherwise, field, sign, domain);
        }
        ExprKind::Updated(old, updates) => return is_field(old) && are_steps(updates, sign, domain),
        _ => return is_field(value),
    };
    is_of_sign(added, sign, domain)
}

/// Whether all that the updates may do to a number is to add what has this sign. What the elements of a collection add is not
/// known.
fn are_steps(updates: &[Update], sign: i32, domain: &Domain<'_>) -> bool {
    updates.iter().all(|update| match update {
        Update::At { way, operator: EffectOperator::Increases, value } if way.is_empty() => {
            is_of_sign(value, sign, domain)
        }
        Update::At { way, operator: EffectOperator::Decreases, value } if way.is_empty() => {
            is_of_sign(value, -sign, domain)
        }
        Update::At { .. } => false,
        Update::If(_, accepted, otherwise) => are_steps(accepted, sign, domain) && are_steps(otherwise, sign, domain),
        Update::For(_, updates) => are_steps(updates, sign, domain),
    })
}

fn is_of_sign(added: &Expr, sign: i32, domain: &Domain<'_>) -> bool {
    let range = domain.range(added);
    if sign > 0 { range.low >= 0 } else { range.high <= 0 }
}

fn reads_changed(expr: &Expr, body: &Body) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| {
        if let ExprKind::Field(slot) = &expr.kind {
            found |= body.effects.iter().any(|effect| effect.field.index == slot.index);
        }
    });
    found
}
