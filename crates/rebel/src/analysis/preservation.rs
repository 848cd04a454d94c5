//! Invariants that an event cannot break, whatever the values: it leaves them alone, or moves away from their bound.
//!
//! `balance + limit >= 0` survives a deposit, because a deposit adds to a term that counts positively. No interval
//! shows this: the bound is on the sum of two fields, each of which may be anything.

use super::abstraction::Domain;
use crate::model::Body;
use crate::model::expr::{Comparison, Effect, Expr, ExprKind, Operator};

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
            effect.is_none_or(|effect| is_step(effect, sign, domain))
        }
        _ => !reads_changed(expr, body),
    }
}

/// Whether the effect adds something whose sign is `sign`, or zero, to its field.
fn is_step(effect: &Effect, sign: i32, domain: &Domain<'_>) -> bool {
    let is_field = |expr: &Expr| matches!(&expr.kind, ExprKind::Field(slot) if slot.index == effect.field.index);
    let (added, sign) = match &effect.value.kind {
        ExprKind::Arithmetic(Operator::Add, _, old, added) if is_field(old) => (added, sign),
        ExprKind::Arithmetic(Operator::Add, _, added, old) if is_field(old) => (added, sign),
        ExprKind::Arithmetic(Operator::Subtract, _, old, taken) if is_field(old) => (taken, -sign),
        _ => return is_field(&effect.value),
    };
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
