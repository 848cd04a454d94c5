//! What conditions and values of an event depend on.

use super::names::class_of;
use super::walk::Walk;
use super::{Mode, Place};
use crate::analysis::effect::{Addend, addends, is_number};
use crate::model::Builtin;
use crate::model::expr::{Aggregate, Asks, Comparison, Expr, ExprKind, Fold, Query, Slot};
use crate::source::Span;
use crate::value::{Name, Type};

impl Walk<'_, '_> {
    /// What a condition reads that only has to hold: thresholds, where it is some.
    pub(super) fn condition(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::And(left, right) => {
                self.condition(left);
                self.condition(right);
            }
            ExprKind::Let(named) if self.lets > 0 => {
                self.lets -= 1;
                self.condition(&named.value);
            }
            ExprKind::Compare(comparison, _, left, right) if has_threshold(*comparison) => {
                self.threshold(left, Some(right));
            }
            ExprKind::CompareZero(comparison, operand) if has_threshold(*comparison) => self.threshold(operand, None),
            ExprKind::Within(_, operands, _) => {
                let [value, low, high] = &**operands;
                self.threshold(value, Some(low));
                self.threshold(value, Some(high));
            }
            _ => self.read(expr),
        }
    }

    /// A comparison of two sums, or of one with zero: a threshold for each number of the instance that is a part of one of them.
    fn threshold(&mut self, left: &Expr, right: Option<&Expr>) {
        for sum in [Some(left), right].into_iter().flatten() {
            let Some(parts) = addends(sum) else {
                self.read(sum);
                continue;
            };
            for Addend { value, .. } in parts {
                match number(value) {
                    Some(place) => self.touch_value(false, place, Mode::Test, value.span()),
                    None => self.read(value),
                }
            }
        }
    }

    /// What the value of `expr` depends on.
    pub(super) fn read(&mut self, expr: &Expr) {
        let span = expr.span();
        match &expr.kind {
            ExprKind::Field(slot) | ExprKind::NewField(slot) => self.place(expr, Place::Field(slot.name.clone()), span),
            ExprKind::SizeOf(of) if let Some(slot) = field(of) => self.place(of, Place::Size(slot.name.clone()), span),
            ExprKind::In(element, set) if field(set).is_some() => self.part(set, element, Place::Element, span),
            ExprKind::Apply(builtin, operands) if let Some((map, key)) = entry(builtin, operands) => {
                self.part(map, key, Place::Entry, span);
            }
            ExprKind::Let(named) => {
                if self.known.insert(std::ptr::from_ref(&**named)) {
                    // It stands in no `for` and in no aggregate.
                    let locals = std::mem::take(&mut self.names.locals);
                    self.read(&named.value);
                    self.names.locals = locals;
                }
            }
            ExprKind::Ask(of, query) => self.ask(of, query, span),
            ExprKind::Aggregate(aggregate) => self.aggregate(aggregate),
            _ => expr.operands().into_iter().for_each(|operand| self.read(operand)),
        }
    }

    fn place(&mut self, field: &Expr, place: Place, span: Span) {
        self.touch_value(matches!(field.kind, ExprKind::NewField(_)), place, Mode::Read, span);
    }

    /// An entry or an element of a field, or all of it if which one it is depends on a place.
    fn part(&mut self, of: &Expr, key: &Expr, make: fn(Name, super::Term) -> Place, span: Span) {
        self.read(key);
        let Some(slot) = field(of) else { return };
        let place = match self.names.is_fixed(key) {
            true => make(slot.name.clone(), self.names.term(key)),
            false => Place::Field(slot.name.clone()),
        };
        self.place(of, place, span);
    }

    fn ask(&mut self, of: &Expr, query: &Query, span: Span) {
        self.read(of);
        let instance = self.names.term(of);
        let Some(class) = class_of(of.ty()) else { return };
        match &query.asks {
            Asks::Field(name) => self.question(instance, class, Place::Field(name.clone()), span),
            Asks::Initialized => self.question(instance, class, Place::Existence, span),
            Asks::InState(_) => self.question(instance, class, Place::State, span),
            Asks::Possible { event, arguments } | Asks::Result { event, arguments } => {
                self.possible(&instance, class, event, arguments, span);
            }
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate) {
        if let Fold::Sum(_, start) = &aggregate.fold {
            self.read(start);
        }
        self.read(&aggregate.domain);
        self.within(&aggregate.domain, |walk| {
            let parts = aggregate.filter.iter().chain([&aggregate.body]).chain(&aggregate.value);
            parts.for_each(|part| walk.read(part));
        });
    }

    /// Looks at what stands behind `for` or in an aggregate, whose variable goes through `domain`.
    pub(super) fn within(&mut self, domain: &Expr, look: impl FnOnce(&mut Self)) {
        self.names.enter(domain);
        look(self);
        self.names.leave();
    }
}

/// The number of the instance that `expr` is.
fn number(expr: &Expr) -> Option<Place> {
    match &expr.kind {
        ExprKind::Field(slot) if is_number(expr.ty()) || *expr.ty() == Type::Time => {
            Some(Place::Field(slot.name.clone()))
        }
        ExprKind::SizeOf(of) => field(of).map(|slot| Place::Size(slot.name.clone())),
        _ => None,
    }
}

/// The field that `expr` is, before or after the event.
fn field(expr: &Expr) -> Option<&Slot> {
    match &expr.kind {
        ExprKind::Field(slot) | ExprKind::NewField(slot) => Some(slot),
        _ => None,
    }
}

/// The map, a field, and the key, if it is an entry that is looked at.
fn entry<'e>(builtin: &Builtin, operands: &'e [Expr]) -> Option<(&'e Expr, &'e Expr)> {
    let ((Builtin::Has, [key, map]) | (Builtin::Element | Builtin::Get, [map, key])) = (builtin, operands) else {
        return None;
    };
    (field(map).is_some() && matches!(map.ty(), Type::Map(_))).then_some((map, key))
}

fn has_threshold(comparison: Comparison) -> bool {
    comparison != Comparison::Unequal
}
