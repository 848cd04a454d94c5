//! Which operators are defined for which types: the table in `docs/rebel.md`.

use super::expression::Typed;
use crate::model::expr::{Comparison, ExprKind, NumberKind, Operator};
use crate::source::Span;
use crate::syntax::tree::Binary;
use crate::value::{Rounding, Type, Value};

/// An operator that is not defined for its operands.
pub(super) struct Undefined {
    pub(super) message: String,
    pub(super) help: Option<String>,
}

fn number_kind(ty: &Type) -> Option<NumberKind> {
    match ty {
        Type::Integer => Some(NumberKind::Integer),
        Type::Money => Some(NumberKind::Money),
        Type::Percentage => Some(NumberKind::Percentage),
        _ => None,
    }
}

pub(super) fn negate(operand: Typed, span: Span) -> Result<Typed, Undefined> {
    let ty = operand.ty().clone();
    match number_kind(&ty) {
        Some(kind) => Ok(Typed::node(ExprKind::Negate(kind, operand.expr.into()), ty, span, operand.depth)),
        None => Err(Undefined { message: format!("`-` is not defined for {ty}"), help: None }),
    }
}

pub(super) fn binary(
    operator: Binary,
    left: Typed,
    right: Typed,
    span: Span,
    rounding: Rounding,
) -> Result<Typed, Undefined> {
    let types = (left.ty().clone(), right.ty().clone());
    let depth = left.depth.max(right.depth);
    let built = match operator {
        Binary::And => Some((ExprKind::And(left.expr.into(), right.expr.into()), Type::Boolean)),
        Binary::Or => Some((ExprKind::Or(left.expr.into(), right.expr.into()), Type::Boolean)),
        Binary::In if *right.ty() == Type::Set(Box::new(left.ty().clone())) => {
            Some((ExprKind::In(left.expr.into(), right.expr.into()), Type::Boolean))
        }
        Binary::In => None,
        Binary::Compare(comparison) => compare(comparison, left, right).map(|kind| (kind, Type::Boolean)),
        Binary::Add => sum(Operator::Add, left, right),
        Binary::Subtract => sum(Operator::Subtract, left, right),
        Binary::Multiply => product(left, right, rounding),
    };
    match built {
        Some((kind, ty)) => Ok(Typed::node(kind, ty, span, depth)),
        None => Err(undefined(operator, &types.0, &types.1)),
    }
}

fn compare(comparison: Comparison, left: Typed, right: Typed) -> Option<ExprKind> {
    let is_zero = |typed: &Typed| matches!(typed.expr.kind, ExprKind::Literal(Value::Integer(0)));
    let has_zero = |ty: &Type| matches!(ty, Type::Money | Type::Percentage);
    let has_equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
    if has_zero(left.ty()) && is_zero(&right) {
        Some(ExprKind::CompareZero(comparison, left.expr.into()))
    } else if is_zero(&left) && has_zero(right.ty()) {
        Some(ExprKind::CompareZero(comparison.mirrored(), right.expr.into()))
    } else if left.ty() == right.ty() && (has_equality || left.ty().is_ordered()) {
        let kind = number_kind(left.ty());
        Some(ExprKind::Compare(comparison, kind, left.expr.into(), right.expr.into()))
    } else {
        None
    }
}

/// `left + right` or `left - right`.
pub(super) fn sum(operator: Operator, left: Typed, right: Typed) -> Option<(ExprKind, Type)> {
    let ty = left.ty().clone();
    let kind = match (&ty, right.ty()) {
        (Type::Date, Type::Integer) => NumberKind::Date,
        (Type::Date, Type::Date) if operator == Operator::Subtract => NumberKind::Integer,
        (Type::Set(element), added) if **element == *added => {
            let (set, element) = (left.expr.into(), right.expr.into());
            let is_insert = operator == Operator::Add;
            let kind = if is_insert { ExprKind::Insert(set, element) } else { ExprKind::Remove(set, element) };
            return Some((kind, ty));
        }
        (a, b) if a == b => number_kind(a)?,
        _ => return None,
    };
    let ty = if kind == NumberKind::Integer { Type::Integer } else { ty };
    Some((ExprKind::Arithmetic(operator, kind, left.expr.into(), right.expr.into()), ty))
}

fn product(left: Typed, right: Typed, rounding: Rounding) -> Option<(ExprKind, Type)> {
    match (left.ty(), right.ty()) {
        (Type::Money, Type::Percentage) => {
            Some((ExprKind::Share(rounding, left.expr.into(), right.expr.into()), Type::Money))
        }
        (Type::Percentage, Type::Money) | (Type::Integer, Type::Money | Type::Percentage) => {
            product(right, left, rounding)
        }
        (ty, Type::Integer) => {
            let (kind, ty) = (number_kind(ty)?, ty.clone());
            Some((ExprKind::Arithmetic(Operator::Multiply, kind, left.expr.into(), right.expr.into()), ty))
        }
        _ => None,
    }
}

fn undefined(operator: Binary, left: &Type, right: &Type) -> Undefined {
    let symbol = match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::And => "and",
        Binary::Or => "or",
        Binary::In => "in",
        Binary::Compare(Comparison::Equal) => "==",
        Binary::Compare(Comparison::Unequal) => "!=",
        Binary::Compare(Comparison::Less) => "<",
        Binary::Compare(Comparison::LessOrEqual) => "<=",
        Binary::Compare(Comparison::Greater) => ">",
        Binary::Compare(Comparison::GreaterOrEqual) => ">=",
    };
    let help = match (operator, left, right) {
        (Binary::Add | Binary::Subtract | Binary::Compare(_), Type::Money, Type::Integer)
        | (Binary::Add | Binary::Subtract | Binary::Compare(_), Type::Integer, Type::Money) => {
            Some("write an amount with its currency, as in `EUR 5.00`")
        }
        (Binary::Add | Binary::Subtract, Type::Money, Type::Percentage) => {
            Some("a percentage of an amount is `amount * rate`")
        }
        (Binary::Multiply, Type::Percentage, Type::Percentage) | (Binary::Multiply, Type::Money, Type::Money) => {
            Some("multiply by an Integer or, for Money, by a Percentage")
        }
        (Binary::In, _, _) => Some("`x in s` needs a set of the type of `x`"),
        _ => None,
    };
    Undefined { message: format!("`{symbol}` is not defined for {left} and {right}"), help: help.map(str::to_owned) }
}
