//! Which places an event changes in any call, and in which ways: [`Class::changes`](crate::Class::changes) for all arguments.

use super::Does;
use crate::analysis::effect::{Elements, Form, form, reads};
use crate::analysis::footprint::{Mode, Part, Place, Role};
use crate::model::expr::{EffectOperator, Expr, ExprKind, Update};
use crate::model::{Class, Event};
use crate::source::Span;
use crate::value::{Name, Type};

/// A place that an event changes.
#[derive(Clone)]
pub(super) struct Changed<'a> {
    pub(super) place: Place,
    pub(super) way: Way<'a>,
    pub(super) because: Span,
}

/// A way to change a place.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    Adds,
    Inserts,
    Removes,
    /// It gets this value, which does not depend on the instance.
    Gives(&'a Expr),
    /// It gets what follows from nothing else in the instance than itself.
    Makes(&'a Expr),
    /// It gets what depends on more.
    Other(&'a Expr),
}

/// Whether two ways to change one place are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Same {
    Always,
    /// If the arguments are the same, or what else the calls bring along.
    WithArguments,
    Never,
}

impl<'a> Way<'a> {
    /// Whether this way of `event` and that of another, or the same, are one.
    pub(super) fn same(self, event: &Event, other: Way<'a>, other_event: &Event) -> Same {
        match (self, other) {
            (Way::Adds, Way::Adds) | (Way::Inserts, Way::Inserts) | (Way::Removes, Way::Removes) => Same::Always,
            (Way::Gives(a), Way::Gives(b)) => match (&a.kind, &b.kind) {
                (ExprKind::Literal(a), ExprKind::Literal(b)) if a == b => Same::Always,
                (ExprKind::Literal(_), ExprKind::Literal(_)) => Same::Never,
                _ if a == b && is_constant(a) => Same::Always,
                _ => Same::WithArguments,
            },
            // Equal calls make the same of the same, and the caller is a part of the call.
            (Way::Makes(_), Way::Makes(_)) if event.name == other_event.name => Same::WithArguments,
            _ => Same::Never,
        }
    }

    pub(super) fn does(self, place: &Place) -> Does {
        match self {
            Way::Adds => Does::Adds,
            Way::Inserts => Does::Inserts,
            Way::Removes => Does::Removes,
            Way::Gives(value) if is_constant(value) => Does::Assigns,
            Way::Gives(_) => Does::AssignsArguments,
            Way::Makes(value) | Way::Other(value) => match value.ty() {
                Type::Set(_) | Type::List(_) | Type::Map(_) | Type::Record(_) => Does::Alters,
                _ if matches!(self, Way::Makes(_)) && matches!(place, Place::Field(_)) => Does::Computes,
                _ => Does::ComputesOfOthers,
            },
        }
    }
}

/// Whether the value is the same in each call.
fn is_constant(expr: &Expr) -> bool {
    let mut varies = false;
    expr.walk(&mut |expr| {
        varies |= matches!(
            &expr.kind,
            ExprKind::Param(_)
                | ExprKind::Now
                | ExprKind::Today
                | ExprKind::CallerId
                | ExprKind::HasRole(_)
                | ExprKind::Fresh(..)
                | ExprKind::Ask(..)
        );
    });
    !varies
}

/// What the parts change.
pub(super) fn changes<'a>(class: &Class, parts: &[Part<'a>]) -> Vec<Changed<'a>> {
    let mut found = Vec::new();
    for part in parts {
        let Role::Effect(effect) = part.role else { continue };
        let field = &effect.field.name;
        let mut ways = Vec::new();
        value_changes(class, field, &effect.value, &mut ways);
        for way in ways {
            let because = effect.value.span();
            let mode = match way {
                Way::Inserts => Mode::Insert,
                Way::Removes => Mode::Delete,
                _ => {
                    found.push(Changed { place: Place::Field(field.clone()), way, because });
                    continue;
                }
            };
            let touches = part.touches.iter().filter(|touch| touch.mode == mode);
            found.extend(touches.map(|touch| Changed { place: touch.place.clone(), way, because }));
        }
    }
    found
}

/// The ways in which the field changes where it gets this value: all that there may be.
fn value_changes<'a>(class: &Class, field: &Name, value: &'a Expr, ways: &mut Vec<Way<'a>>) {
    let reads_any = |expr: &Expr| reads(expr, |_| true);
    match &value.kind {
        ExprKind::Field(slot) if slot.name == *field => return,
        ExprKind::If(condition, accepted, otherwise) if !reads_any(condition) => {
            value_changes(class, field, accepted, ways);
            return value_changes(class, field, otherwise, ways);
        }
        ExprKind::Updated(_, updates) => {
            let ty = class.fields.iter().find(|known| known.name == *field).map(|known| &known.ty);
            let mut found = Vec::new();
            if ty.is_some_and(|ty| update_changes(ty, updates, &mut found).is_some()) {
                return ways.extend(found);
            }
        }
        _ => {}
    }
    ways.push(match form(field, value) {
        Form::Moves { is_in, elements } if matches!(elements[..], [Elements::One(element)] if !reads_any(element)) => {
            if is_in {
                Way::Inserts
            } else {
                Way::Removes
            }
        }
        Form::Adds(others) if !others.iter().any(|other| reads_any(other.value)) => Way::Adds,
        _ if !reads_any(value) => Way::Gives(value),
        _ if !reads(value, |name| name != field) => Way::Makes(value),
        _ => Way::Other(value),
    });
}

/// The ways of updates that do not depend on the instance; nothing of others.
fn update_changes<'a>(ty: &Type, updates: &'a [Update], ways: &mut Vec<Way<'a>>) -> Option<()> {
    let reads_any = |expr: &Expr| reads(expr, |_| true);
    updates.iter().try_for_each(|update| match update {
        Update::At { way, operator, value } => {
            if !way.is_empty() || *operator == EffectOperator::Becomes || reads_any(value) {
                return None;
            }
            ways.push(match ty {
                Type::Set(_) if *operator == EffectOperator::Increases => Way::Inserts,
                Type::Set(_) => Way::Removes,
                Type::Integer | Type::Money | Type::MoneyOf(_) | Type::Percentage | Type::Date => Way::Adds,
                _ => return None,
            });
            Some(())
        }
        Update::If(governing, ..) | Update::For(governing, _) if reads_any(governing) => None,
        Update::If(_, accepted, otherwise) => {
            update_changes(ty, accepted, ways)?;
            update_changes(ty, otherwise, ways)
        }
        Update::For(_, inner) => update_changes(ty, inner, ways),
    })
}
