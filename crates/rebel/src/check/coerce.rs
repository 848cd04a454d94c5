//! Values of one type where another is expected, and two types that meet.

use super::expression::Typed;
use crate::model::Builtin;
use crate::model::expr::{Expr, ExprKind};
use crate::value::{Type, Value};

/// The value as one of type `ty`: as it is, with more decimals, or after a look at its currency.
pub(super) fn coerce(typed: Typed, ty: &Type) -> Result<Typed, Typed> {
    match (typed.ty(), ty.present()) {
        (Type::Money, wanted @ Type::MoneyOf(currency)) => match &typed.expr.kind {
            ExprKind::Literal(Value::Money(money)) if money.currency() != *currency => {
                let own = Type::MoneyOf(money.currency());
                Err(as_type(typed, &own))
            }
            ExprKind::Literal(_) => Ok(as_type(typed, ty)),
            _ => {
                let (currency, wanted) = (*currency, wanted.clone());
                Ok(as_type(apply(Builtin::InCurrency(currency), typed, wanted), ty))
            }
        },
        _ => widen(typed, ty),
    }
}

/// The value as one of type `ty`, if every value of its type is one there.
pub(super) fn widen(typed: Typed, ty: &Type) -> Result<Typed, Typed> {
    if is_kind_of(typed.ty(), ty) {
        return Ok(as_type(typed, ty));
    }
    match (typed.ty(), ty.present()) {
        (Type::Integer, wanted @ Type::Decimal(decimals)) => {
            Ok(as_type(apply(Builtin::Widen(*decimals), typed, wanted.clone()), ty))
        }
        (Type::Decimal(few), wanted @ Type::Decimal(many)) if few < many => {
            Ok(as_type(apply(Builtin::Widen(*many), typed, wanted.clone()), ty))
        }
        _ => Err(typed),
    }
}

/// Two values.
type Both = (Typed, Typed);

/// Two values as ones of the same type.
pub(super) fn unify(left: Typed, right: Typed) -> Result<Both, Box<Both>> {
    let ty = left.ty().clone();
    match widen(right, &ty) {
        Ok(right) => Ok((left, right)),
        Err(right) => {
            let ty = right.ty().clone();
            match widen(left, &ty) {
                Ok(left) => Ok((left, right)),
                Err(left) => either_present(left, right),
            }
        }
    }
}

/// Unifies what is optional on one side and of another width on the other.
fn either_present(left: Typed, right: Typed) -> Result<Both, Box<Both>> {
    let optional = |of: &Typed| Type::Optional(of.ty().clone().into());
    match (left.ty(), right.ty()) {
        (Type::Optional(_), Type::Optional(_)) => Err(Box::new((left, right))),
        (Type::Optional(inner), _) if matches!((&**inner, right.ty()), (Type::MoneyOf(_), Type::Money)) => {
            let ty = optional(&right);
            Ok((as_type(left, &ty), as_type(right, &ty)))
        }
        (_, Type::Optional(inner)) if matches!((left.ty(), &**inner), (Type::Money, Type::MoneyOf(_))) => {
            let ty = optional(&left);
            Ok((as_type(left, &ty), as_type(right, &ty)))
        }
        _ => Err(Box::new((left, right))),
    }
}

/// Whether the values of `narrow` are values of `wide`, as they are.
fn is_kind_of(narrow: &Type, wide: &Type) -> bool {
    match (narrow, wide) {
        (narrow, wide) if narrow == wide => true,
        (Type::Optional(narrow), Type::Optional(wide)) | (Type::List(narrow), Type::List(wide)) => {
            is_kind_of(narrow, wide)
        }
        (narrow, Type::Optional(wide)) => is_kind_of(narrow, wide),
        (Type::MoneyOf(_), Type::Money) => true,
        (Type::Personal(narrow), Type::Personal(wide)) => is_kind_of(narrow, wide),
        (Type::Set(narrow), Type::Set(wide)) => is_kind_of(narrow, wide),
        (Type::Map(narrow), Type::Map(wide)) => is_kind_of(&narrow.0, &wide.0) && is_kind_of(&narrow.1, &wide.1),
        _ => false,
    }
}

impl Typed {
    /// What tells the order of the values: the place in its enum of one that is a variant, and any other itself.
    pub(super) fn ranked(self) -> Self {
        match self.ty() {
            Type::Enum(enumeration) => {
                let rank = Builtin::Rank(enumeration.clone());
                apply(rank, self, Type::Integer)
            }
            _ => self,
        }
    }
}

/// The same value under another type.
fn as_type(typed: Typed, ty: &Type) -> Typed {
    if typed.ty() == ty {
        return typed;
    }
    let span = typed.expr.span();
    Typed { expr: Expr::new(typed.expr.kind, ty.clone(), span), depth: typed.depth }
}

/// What the language computes of one operand.
pub(super) fn apply(builtin: Builtin, operand: Typed, ty: Type) -> Typed {
    let (span, depth) = (operand.expr.span(), operand.depth);
    Typed::node(ExprKind::Apply(builtin, vec![operand.expr]), ty, span, depth)
}
