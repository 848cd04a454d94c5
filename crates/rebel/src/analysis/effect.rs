//! What effects make of their fields, by form, and the sums that they and conditions consist of.

use crate::model::Builtin;
use crate::model::expr::{Expr, ExprKind, Operator, Update};
use crate::value::{Name, Type};

/// What an effect makes of its field.
pub(super) enum Form<'a> {
    /// It adds these to the number that is there. None of them reads the field.
    Adds(Vec<Addend<'a>>),
    /// It puts elements into the set, or takes them out.
    Moves { is_in: bool, elements: Vec<Elements<'a>> },
    /// It makes something of places inside of it.
    Updates(&'a [Update]),
    /// It takes the entry under this key out of the map.
    Drops(&'a Expr),
    /// It puts this in the place of what is there.
    Becomes(&'a Expr),
}

/// A part of a sum.
#[derive(Clone, Copy)]
pub(super) struct Addend<'a> {
    pub(super) is_negative: bool,
    pub(super) value: &'a Expr,
}

/// Elements of a set.
#[derive(Clone, Copy)]
pub(super) enum Elements<'a> {
    One(&'a Expr),
    /// Those of another set.
    Each(&'a Expr),
}

impl<'a> Elements<'a> {
    pub(super) fn expr(self) -> &'a Expr {
        match self {
            Elements::One(expr) | Elements::Each(expr) => expr,
        }
    }
}

/// The form of an effect that gives `field` this value.
pub(super) fn form<'a>(field: &Name, value: &'a Expr) -> Form<'a> {
    let is_own = |expr: &Expr| is_field(expr, field);
    match &value.kind {
        ExprKind::Updated(of, updates) if is_own(of) => return Form::Updates(updates),
        ExprKind::Apply(Builtin::Without, operands) => {
            if let [map, key] = operands.as_slice()
                && is_own(map)
            {
                return Form::Drops(key);
            }
        }
        _ => {}
    }
    if let Some(others) = added(value, field, &is_own) {
        return Form::Adds(others);
    }
    match moved(value, field) {
        Some((is_in, elements)) => Form::Moves { is_in, elements },
        None => Form::Becomes(value),
    }
}

/// What `value` adds to the number that is its own, if it is such a sum and the rest of it does not read `field`.
fn added<'a>(value: &'a Expr, field: &Name, is_own: &dyn Fn(&Expr) -> bool) -> Option<Vec<Addend<'a>>> {
    if !is_number(value.ty()) {
        return None;
    }
    let (own, others): (Vec<_>, Vec<_>) = addends(value)?.into_iter().partition(|addend| is_own(addend.value));
    let is_alone = matches!(own.as_slice(), [own] if !own.is_negative)
        && !others.iter().any(|other| reads(other.value, |name| name == field));
    is_alone.then_some(others)
}

/// The elements that `value` puts into the set that `field` is, or takes out of it, if it is nothing else.
fn moved<'a>(value: &'a Expr, field: &Name) -> Option<(bool, Vec<Elements<'a>>)> {
    let (mut set, mut moved) = (value, Vec::new());
    while !is_field(set, field) {
        let (inner, is_in, elements) = match &set.kind {
            ExprKind::Insert(inner, element) => (&**inner, true, Elements::One(element)),
            ExprKind::Remove(inner, element) => (&**inner, false, Elements::One(element)),
            ExprKind::Apply(builtin @ (Builtin::Add | Builtin::Subtract), operands)
                if matches!(set.ty(), Type::Set(_)) =>
            {
                let [inner, other] = operands.as_slice() else { return None };
                (inner, *builtin == Builtin::Add, Elements::Each(other))
            }
            _ => return None,
        };
        moved.push((is_in, elements));
        set = inner;
    }
    let (is_in, _) = *moved.first()?;
    let is_alike = moved.iter().all(|(other, _)| *other == is_in);
    is_alike.then(|| (is_in, moved.into_iter().rev().map(|(_, elements)| elements).collect()))
}

/// Parts of one sum at most.
const ADDENDS_MAX: usize = 64;

/// The parts of the sum of numbers that `expr` is, itself if it is none, in the order of evaluation; `None` if there are too
/// many. Named values are looked through.
pub(super) fn addends(expr: &Expr) -> Option<Vec<Addend<'_>>> {
    let (mut found, mut open) = (Vec::new(), vec![Addend { is_negative: false, value: expr }]);
    let mut looked_at = 0;
    while let Some(Addend { is_negative, value }) = open.pop() {
        looked_at += 1;
        if looked_at > 4 * ADDENDS_MAX || found.len() == ADDENDS_MAX {
            return None;
        }
        let mut part = |flips: bool, value| open.push(Addend { is_negative: is_negative != flips, value });
        match &value.kind {
            ExprKind::Let(named) => part(false, &named.value),
            ExprKind::Arithmetic(operator @ (Operator::Add | Operator::Subtract), _, left, right) => {
                part(*operator == Operator::Subtract, right);
                part(false, left);
            }
            ExprKind::Negate(_, operand) => part(true, operand),
            ExprKind::Apply(builtin, operands) if operands.iter().all(|operand| is_number(operand.ty())) => {
                match (builtin, operands.as_slice()) {
                    (Builtin::Add | Builtin::Subtract, [left, right]) => {
                        part(*builtin == Builtin::Subtract, right);
                        part(false, left);
                    }
                    (Builtin::Negate, [operand]) => part(true, operand),
                    (Builtin::Widen(_) | Builtin::InCurrency(_), [operand]) => part(false, operand),
                    _ => found.push(Addend { is_negative, value }),
                }
            }
            _ => found.push(Addend { is_negative, value }),
        }
    }
    Some(found)
}

/// Whether sums and the order of its values are those of whole numbers of some unit.
pub(super) fn is_number(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Integer
            | Type::Money
            | Type::MoneyOf(_)
            | Type::Percentage
            | Type::Date
            | Type::Timestamp
            | Type::Decimal(_)
            | Type::Duration
    )
}

/// Whether `expr` reads a field of which `is_meant` holds, as it is before or after the event.
pub(crate) fn reads(expr: &Expr, is_meant: impl Fn(&Name) -> bool) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| {
        found |= matches!(&expr.kind, ExprKind::Field(slot) | ExprKind::NewField(slot) if is_meant(&slot.name));
    });
    found
}

fn is_field(expr: &Expr, name: &Name) -> bool {
    matches!(&expr.kind, ExprKind::Field(slot) if slot.name == *name)
}
