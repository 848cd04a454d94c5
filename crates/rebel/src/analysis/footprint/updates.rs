//! What is made of places inside of a field, as conditions and collections say.

use super::walk::Walk;
use super::{Mode, Place};
use crate::analysis::effect::{is_number, reads};
use crate::model::expr::{EffectOperator, Expr, ExprKind, Update, Way};
use crate::source::Span;
use crate::value::{Name, Type};

/// Where updates stand.
#[derive(Clone, Copy)]
pub(super) struct Inside<'a> {
    pub(super) field: &'a Name,
    pub(super) ty: &'a Type,
    pub(super) span: Span,
    /// Whether they happen whatever the instance and the arguments are.
    pub(super) is_certain: bool,
    /// Whether the field itself decides whether they happen.
    pub(super) reads_own: bool,
}

pub(super) fn updates<'a>(walk: &mut Walk<'a, '_>, all: &'a [Update], inside: &Inside<'_>) {
    for update in all {
        match update {
            Update::At { way, operator, value } => at(walk, (way, *operator, value), inside),
            Update::If(condition, accepted, otherwise) => {
                walk.read(condition);
                let inside = inside.below(condition);
                updates(walk, accepted, &inside);
                updates(walk, otherwise, &inside);
            }
            Update::For(domain, inner) => {
                walk.read(domain);
                let inside = inside.below(domain);
                walk.within(domain, |walk| updates(walk, inner, &inside));
            }
        }
    }
}

fn at(walk: &mut Walk<'_, '_>, (way, operator, value): (&[Way], EffectOperator, &Expr), inside: &Inside<'_>) {
    let mut depends = inside.reads_own || reads(value, |name| name == inside.field);
    for key in way.iter().filter_map(|way| if let Way::Entry(key) = way { Some(key) } else { None }) {
        walk.read(key);
        depends |= reads(key, |name| name == inside.field);
    }
    walk.read(value);
    let adds = operator != EffectOperator::Becomes && is_number(value.ty()) && !depends;
    match way {
        [] if operator == EffectOperator::Becomes => walk.assign(Place::Field(inside.field.clone()), inside),
        [] if adds => walk.touch(Place::Field(inside.field.clone()), Mode::Add, inside.span),
        [] => match inside.ty {
            Type::Set(_) | Type::Map(..) => parts(walk, operator, value, inside),
            _ => walk.replace(Place::Field(inside.field.clone()), inside.span),
        },
        [Way::Entry(key)] => {
            let place = Place::Entry(inside.field.clone(), walk.names.term(key));
            match operator {
                EffectOperator::Becomes => walk.assign(place, inside),
                _ if adds => walk.touch(place, Mode::Add, inside.span),
                _ => walk.replace(place, inside.span),
            }
        }
        [Way::Entry(key), ..] => {
            let place = Place::Entry(inside.field.clone(), walk.names.term(key));
            walk.replace(place, inside.span);
        }
        [Way::Member(_), ..] => walk.replace(Place::Field(inside.field.clone()), inside.span),
    }
}

/// Elements that come and go, and entries that go.
fn parts(walk: &mut Walk<'_, '_>, operator: EffectOperator, value: &Expr, inside: &Inside<'_>) {
    let mode = if operator == EffectOperator::Increases { Mode::Insert } else { Mode::Delete };
    let terms = match &value.kind {
        ExprKind::Set(items) => items.iter().map(|item| walk.names.term(item)).collect(),
        _ => vec![walk.names.each(value)],
    };
    for term in terms {
        let place = match inside.ty {
            Type::Map(..) => Place::Entry(inside.field.clone(), term),
            _ => Place::Element(inside.field.clone(), term),
        };
        walk.touch(place, mode, inside.span);
    }
}

impl Walk<'_, '_> {
    /// The place gets another value; if that depends on the instance or the arguments, it may keep the one it has.
    fn assign(&mut self, place: Place, inside: &Inside<'_>) {
        if inside.is_certain {
            self.touch(place, Mode::Assign, inside.span);
        } else {
            self.replace(place, inside.span);
        }
    }

    /// The place gets a value that is made of the one it has.
    fn replace(&mut self, place: Place, span: Span) {
        self.touch(place.clone(), Mode::Read, span);
        self.touch(place, Mode::Assign, span);
    }
}

impl Inside<'_> {
    /// Where `of` decides whether something happens.
    fn below(&self, of: &Expr) -> Self {
        Self { is_certain: false, reads_own: self.reads_own || reads(of, |name| name == self.field), ..*self }
    }
}
