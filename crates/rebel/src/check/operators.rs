//! Which operators are defined for which types: the table in `docs/rebel.md`.

use super::coerce::{unify, widen};
use super::expression::Typed;
use crate::model::Builtin;
use crate::model::expr::{Comparison, ExprKind, NumberKind, Operator};
use crate::source::Span;
use crate::syntax::tree::Binary;
use crate::value::{Decimal, Rounding, Type, Value};

/// An operator that is not defined for its operands.
pub(super) struct Undefined {
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// The kind of number that admission reasons about.
pub(super) fn number_kind(ty: &Type) -> Option<NumberKind> {
    match ty {
        Type::Integer => Some(NumberKind::Integer),
        Type::Money | Type::MoneyOf(_) => Some(NumberKind::Money),
        Type::Percentage => Some(NumberKind::Percentage),
        _ => None,
    }
}

pub(super) fn negate(operand: Typed, span: Span) -> Result<Typed, Undefined> {
    let ty = operand.ty().clone();
    match (number_kind(&ty), &ty) {
        (Some(kind), _) => Ok(Typed::node(ExprKind::Negate(kind, operand.expr.into()), ty, span, operand.depth)),
        (None, Type::Decimal(_) | Type::Duration | Type::Period) => {
            let depth = operand.depth;
            Ok(Typed::node(ExprKind::Apply(Builtin::Negate, vec![operand.expr]), ty, span, depth))
        }
        _ => Err(Undefined { message: format!("`-` is not defined for {ty}"), help: for_optional(&ty) }),
    }
}

/// What is computed, and its type.
type Built = Option<(ExprKind, Type)>;

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
        Binary::In => contains(left, right).map(|kind| (kind, Type::Boolean)),
        Binary::Compare(comparison) => compare(comparison, left, right).map(|kind| (kind, Type::Boolean)),
        Binary::Add => sum(Operator::Add, left, right),
        Binary::Subtract => sum(Operator::Subtract, left, right),
        Binary::Multiply => product(left, right, rounding),
        Binary::Divide => quotient(left, right, rounding),
        Binary::Quotient => whole(Builtin::Quotient, left, right),
        Binary::Remainder => whole(Builtin::Remainder, left, right),
        Binary::Otherwise => otherwise(left, right),
    };
    match built {
        Some((kind, ty)) => Ok(Typed::node(kind, ty, span, depth)),
        None => Err(undefined(operator, &types.0, &types.1)),
    }
}

fn contains(element: Typed, of: Typed) -> Option<ExprKind> {
    let (of_ty, is_set) = (of.ty().clone(), matches!(of.ty(), Type::Set(_)));
    let wanted = match &of_ty {
        Type::Set(element) => element,
        Type::List(element) => &**element,
        Type::Map(types) => &types.0,
        _ => return None,
    };
    let element = widen(element, wanted).ok()?;
    Some(match is_set {
        true => ExprKind::In(element.expr.into(), of.expr.into()),
        false => ExprKind::Apply(Builtin::Has, vec![element.expr, of.expr]),
    })
}

fn compare(comparison: Comparison, left: Typed, right: Typed) -> Option<ExprKind> {
    let is_zero = |typed: &Typed| matches!(typed.expr.kind, ExprKind::Literal(Value::Integer(0)));
    let has_zero = |ty: &Type| matches!(ty, Type::Money | Type::MoneyOf(_) | Type::Percentage);
    if has_zero(left.ty()) && is_zero(&right) {
        return Some(ExprKind::CompareZero(comparison, left.expr.into()));
    }
    if is_zero(&left) && has_zero(right.ty()) {
        return Some(ExprKind::CompareZero(comparison.mirrored(), right.expr.into()));
    }
    let (left, right) = unify(left, right).ok()?;
    let ty = left.ty().clone();
    if comparison.is_ordered() && matches!(ty, Type::Enum(_)) {
        let (left, right) = (left.ranked().expr.into(), right.ranked().expr.into());
        return Some(ExprKind::Compare(comparison, Some(NumberKind::Integer), left, right));
    }
    let is_defined = !comparison.is_ordered() || ty.is_ordered() || ty == Type::String;
    is_defined.then(|| ExprKind::Compare(comparison, number_kind(&ty), left.expr.into(), right.expr.into()))
}

/// `left + right` or `left - right`.
pub(super) fn sum(operator: Operator, left: Typed, right: Typed) -> Built {
    if let Type::Set(element) = left.ty() {
        let (ty, element) = (left.ty().clone(), element.clone());
        return match widen(right, &element) {
            Ok(right) => {
                let (set, element) = (left.expr.into(), right.expr.into());
                let is_insert = operator == Operator::Add;
                Some((if is_insert { ExprKind::Insert(set, element) } else { ExprKind::Remove(set, element) }, ty))
            }
            Err(right) => widen(right, &ty).ok().map(|right| computed(operator, left, right, ty)),
        };
    }
    if let (Type::MoneyOf(_), Type::Money) | (Type::Money, Type::MoneyOf(_)) = (left.ty(), right.ty()) {
        // One that has a value is in the currency that is known.
        let ty = if *left.ty() == Type::Money { right.ty() } else { left.ty() }.clone();
        let kind = ExprKind::Arithmetic(operator, NumberKind::Money, left.expr.into(), right.expr.into());
        return Some((kind, ty));
    }
    let (left, right) = unify(left, right).unwrap_or_else(|both| *both);
    let is_difference = operator == Operator::Subtract;
    let ty = left.ty().clone();
    let kind = match (&ty, right.ty()) {
        (Type::Date, Type::Integer) => NumberKind::Date,
        (Type::Date, Type::Date) if is_difference => {
            let kind = ExprKind::Arithmetic(operator, NumberKind::Integer, left.expr.into(), right.expr.into());
            return Some((kind, Type::Integer));
        }
        (Type::Timestamp, Type::Timestamp) if is_difference => {
            return Some(computed(operator, left, right, Type::Duration));
        }
        (Type::Date | Type::Timestamp | Type::Period, Type::Period)
        | (Type::Timestamp | Type::Duration, Type::Duration)
        | (Type::Decimal(_), Type::Decimal(_)) => return Some(computed(operator, left, right, ty)),
        (Type::String, Type::String) | (Type::List(_), Type::List(_)) if !is_difference && ty == *right.ty() => {
            return Some(computed(operator, left, right, ty));
        }
        (a, b) => {
            number_kind(a).filter(|kind| Some(*kind) == number_kind(b) && (*kind != NumberKind::Money || a == b))?
        }
    };
    Some((ExprKind::Arithmetic(operator, kind, left.expr.into(), right.expr.into()), ty))
}

fn computed(operator: Operator, left: Typed, right: Typed, ty: Type) -> (ExprKind, Type) {
    let builtin = if operator == Operator::Add { Builtin::Add } else { Builtin::Subtract };
    (ExprKind::Apply(builtin, vec![left.expr, right.expr]), ty)
}

fn product(left: Typed, right: Typed, rounding: Rounding) -> Built {
    let (a, b) = (left.ty().clone(), right.ty().clone());
    let rounded = |left: Typed, right: Typed, ty: Type| {
        Some((ExprKind::Apply(Builtin::Multiply(rounding), vec![left.expr, right.expr]), ty))
    };
    match (&a, &b) {
        (Type::Money | Type::MoneyOf(_), Type::Percentage) => {
            Some((ExprKind::Share(rounding, left.expr.into(), right.expr.into()), a))
        }
        (Type::Decimal(p), Type::Decimal(q)) => {
            let decimals = p.checked_add(*q).filter(|decimals| *decimals <= Decimal::DECIMALS_MAX)?;
            rounded(left, right, Type::Decimal(decimals))
        }
        (Type::Money | Type::MoneyOf(_), Type::Decimal(_))
        | (Type::Decimal(_), Type::Percentage | Type::Integer)
        | (Type::Duration | Type::Period, Type::Integer) => rounded(left, right, a),
        (ty, Type::Integer) => {
            let kind = number_kind(ty)?;
            Some((ExprKind::Arithmetic(Operator::Multiply, kind, left.expr.into(), right.expr.into()), a))
        }
        (Type::Percentage | Type::Decimal(_), Type::Money | Type::MoneyOf(_))
        | (Type::Percentage, Type::Decimal(_))
        | (Type::Integer, _) => product(right, left, rounding),
        _ => None,
    }
}

fn quotient(left: Typed, right: Typed, rounding: Rounding) -> Built {
    let ty = left.ty().clone();
    match (&ty, right.ty()) {
        (Type::Money | Type::MoneyOf(_) | Type::Decimal(_), Type::Integer | Type::Decimal(_)) => {
            Some((ExprKind::Apply(Builtin::Divide(rounding), vec![left.expr, right.expr]), ty))
        }
        _ => None,
    }
}

fn whole(builtin: Builtin, left: Typed, right: Typed) -> Built {
    let is_defined = *left.ty() == Type::Integer && *right.ty() == Type::Integer;
    is_defined.then(|| (ExprKind::Apply(builtin, vec![left.expr, right.expr]), Type::Integer))
}

fn otherwise(left: Typed, right: Typed) -> Built {
    let Type::Optional(present) = left.ty() else { return None };
    let (present, optional) = (present.clone(), left.ty().clone());
    let (right, ty) = match widen(right, &present) {
        Ok(right) => (right, Type::clone(&present)),
        Err(right) => (widen(right, &optional).ok()?, optional),
    };
    Some((ExprKind::Otherwise(left.expr.into(), right.expr.into()), ty))
}

fn symbol(operator: Binary) -> &'static str {
    match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::Quotient => "div",
        Binary::Remainder => "mod",
        Binary::Otherwise => "??",
        Binary::And => "and",
        Binary::Or => "or",
        Binary::In => "in",
        Binary::Compare(Comparison::Equal) => "==",
        Binary::Compare(Comparison::Unequal) => "!=",
        Binary::Compare(Comparison::Less) => "<",
        Binary::Compare(Comparison::LessOrEqual) => "<=",
        Binary::Compare(Comparison::Greater) => ">",
        Binary::Compare(Comparison::GreaterOrEqual) => ">=",
    }
}

/// What to do with what may be absent.
pub(super) fn for_optional(ty: &Type) -> Option<String> {
    matches!(ty, Type::Optional(_)).then(|| {
        "the value may be `none`: write `x ?? other` for another one, or `x!` where its absence is a fault".to_owned()
    })
}

fn undefined(operator: Binary, left: &Type, right: &Type) -> Undefined {
    let help = match (operator, left, right) {
        (Binary::Otherwise, _, _) => Some("`??` stands behind a value that may be `none`"),
        (Binary::Compare(_), Type::Percentage, Type::Decimal(_))
        | (Binary::Compare(_), Type::Decimal(_), Type::Percentage) => Some("a share is a percentage: `0.5` is `50%`"),
        (Binary::Divide, Type::Integer, Type::Integer) => {
            Some("say `a div b` for whole numbers, or `divide(a, b, 2)` for one with two decimals")
        }
        (Binary::Add | Binary::Subtract | Binary::Compare(_), Type::MoneyOf(_), Type::MoneyOf(_)) => {
            Some("amounts of different currencies have neither a sum nor an order")
        }
        (Binary::Add | Binary::Subtract | Binary::Compare(_), Type::Money | Type::MoneyOf(_), Type::Integer)
        | (Binary::Add | Binary::Subtract | Binary::Compare(_), Type::Integer, Type::Money | Type::MoneyOf(_)) => {
            Some("write an amount with its currency, as in `EUR 5.00`")
        }
        (Binary::Add | Binary::Subtract, Type::Money | Type::MoneyOf(_), Type::Percentage) => {
            Some("a percentage of an amount is `amount * rate`")
        }
        (Binary::Multiply, Type::Decimal(_), Type::Decimal(_)) => {
            Some("a product has the decimals of both factors, 18 at most; `round` one of them first")
        }
        (Binary::Multiply, Type::Percentage, Type::Percentage)
        | (Binary::Multiply, Type::Money | Type::MoneyOf(_), Type::Money | Type::MoneyOf(_)) => {
            Some("multiply by an Integer, a Decimal or, for Money, by a Percentage")
        }
        (Binary::In, _, _) => {
            Some("`x in s` needs a set or a list of the type of `x`, a map with such keys, or a range")
        }
        _ => None,
    };
    let help = help.map(str::to_owned).or_else(|| for_optional(left)).or_else(|| for_optional(right));
    Undefined { message: format!("`{}` is not defined for {left} and {right}", symbol(operator)), help }
}
