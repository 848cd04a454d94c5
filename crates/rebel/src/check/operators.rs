//! Which operators are defined for which types: the table in `docs/rebel.md`.

use super::expression::Typed;
use crate::model::expr::{Comparison, Expr, NumberKind, Operator};
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

pub(super) fn negate(operand: Typed) -> Result<Typed, Undefined> {
    match number_kind(&operand.ty) {
        Some(kind) => Ok(Typed::node(Expr::Negate(kind, operand.expr.into()), operand.ty, operand.depth)),
        None => Err(Undefined { message: format!("`-` is not defined for {}", operand.ty), help: None }),
    }
}

pub(super) fn binary(operator: Binary, left: Typed, right: Typed, rounding: Rounding) -> Result<Typed, Undefined> {
    let types = (left.ty.clone(), right.ty.clone());
    let depth = left.depth.max(right.depth);
    let built = match operator {
        Binary::And => Some((Expr::And(left.expr.into(), right.expr.into()), Type::Boolean)),
        Binary::Or => Some((Expr::Or(left.expr.into(), right.expr.into()), Type::Boolean)),
        Binary::In if right.ty == Type::Set(Box::new(left.ty.clone())) => {
            Some((Expr::In(left.expr.into(), right.expr.into()), Type::Boolean))
        }
        Binary::In => None,
        Binary::Compare(comparison) => compare(comparison, left, right).map(|expr| (expr, Type::Boolean)),
        Binary::Add => sum(Operator::Add, left, right),
        Binary::Subtract => sum(Operator::Subtract, left, right),
        Binary::Multiply => product(left, right, rounding),
    };
    match built {
        Some((expr, ty)) => Ok(Typed::node(expr, ty, depth)),
        None => Err(undefined(operator, &types.0, &types.1)),
    }
}

fn compare(comparison: Comparison, left: Typed, right: Typed) -> Option<Expr> {
    let is_zero = |typed: &Typed| matches!(typed.expr, Expr::Literal(Value::Integer(0)));
    let has_zero = |ty: &Type| matches!(ty, Type::Money | Type::Percentage);
    let has_equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
    if has_zero(&left.ty) && is_zero(&right) {
        Some(Expr::CompareZero(comparison, left.expr.into()))
    } else if is_zero(&left) && has_zero(&right.ty) {
        Some(Expr::CompareZero(comparison.mirrored(), right.expr.into()))
    } else if left.ty == right.ty && (has_equality || left.ty.is_ordered()) {
        Some(Expr::Compare(comparison, number_kind(&left.ty), left.expr.into(), right.expr.into()))
    } else {
        None
    }
}

/// `left + right` or `left - right`.
pub(super) fn sum(operator: Operator, left: Typed, right: Typed) -> Option<(Expr, Type)> {
    let kind = match (&left.ty, &right.ty) {
        (Type::Date, Type::Integer) => NumberKind::Date,
        (Type::Date, Type::Date) if operator == Operator::Subtract => NumberKind::Integer,
        (Type::Set(element), ty) if **element == *ty => {
            let (set, element) = (left.expr.into(), right.expr.into());
            let is_insert = operator == Operator::Add;
            return Some((if is_insert { Expr::Insert(set, element) } else { Expr::Remove(set, element) }, left.ty));
        }
        (a, b) if a == b => number_kind(a)?,
        _ => return None,
    };
    let ty = if kind == NumberKind::Integer { Type::Integer } else { left.ty };
    Some((Expr::Arithmetic(operator, kind, left.expr.into(), right.expr.into()), ty))
}

fn product(left: Typed, right: Typed, rounding: Rounding) -> Option<(Expr, Type)> {
    match (&left.ty, &right.ty) {
        (Type::Money, Type::Percentage) => {
            Some((Expr::Share(rounding, left.expr.into(), right.expr.into()), Type::Money))
        }
        (Type::Percentage, Type::Money) | (Type::Integer, Type::Money | Type::Percentage) => {
            product(right, left, rounding)
        }
        (ty, Type::Integer) => {
            let kind = number_kind(ty)?;
            Some((Expr::Arithmetic(Operator::Multiply, kind, left.expr.into(), right.expr.into()), left.ty))
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
