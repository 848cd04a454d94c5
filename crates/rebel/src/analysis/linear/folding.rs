//! One call, folded over the expressions of its event: what is a constant of the call is evaluated, and the rest has to be a sum of
//! fields, or a place with one content.

use std::sync::Arc;

use super::changed::Changed;
use super::{Bound, Content, Delta, Linear, Place, Term, Threshold};
use crate::analysis::interval::Interval;
use crate::evaluate::Evaluator;
use crate::instance::EventCall;
use crate::model::expr::{Comparison, Effect, Expr, ExprKind, NumberKind, Operator};
use crate::model::{Body, Class};
use crate::source::Span;
use crate::value::{Bindings, Currency, Key, Name, Timestamp, Type, Value};

/// Fields in one sum at most, so that sums of numbers in range stay far below the end of 128 bits.
const TERMS_MAX: usize = 64;

/// A sum of fields and a constant.
pub(super) struct Sum {
    pub(super) kind: NumberKind,
    pub(super) terms: Vec<Term>,
    pub(super) constant: i128,
    pub(super) currency: Option<Currency>,
}

impl Sum {
    fn negated(mut self) -> Option<Self> {
        self.terms.iter_mut().for_each(|term| term.is_negative = !term.is_negative);
        self.constant = self.constant.checked_neg()?;
        Some(self)
    }

    /// `self + other`, unless they share a field or are in different currencies.
    fn plus(mut self, other: Self, kind: NumberKind) -> Option<Self> {
        let is_shared = other.terms.iter().any(|term| self.terms.iter().any(|own| own.field == term.field));
        let currencies = (self.currency, other.currency);
        let has_too_many = self.terms.len() + other.terms.len() > TERMS_MAX;
        if is_shared || has_too_many || matches!(currencies, (Some(a), Some(b)) if a != b) {
            return None;
        }
        self.terms.extend(other.terms);
        let constant = self.constant.checked_add(other.constant)?;
        Some(Self { kind, terms: self.terms, constant, currency: self.currency.or(other.currency) })
    }
}

/// What the expressions that read no field are evaluated with.
#[derive(Clone, Copy)]
pub(super) enum Constants<'a> {
    Of(&'a Key, &'a EventCall, Timestamp),
    /// Any call: each of them has a value of its type, which says nothing, and each condition holds.
    Any,
}

/// What keeps the calls of an event from being linear, and where that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::analysis) enum Obstacle {
    Condition(Span),
    Effect(Span),
    Call(Span),
    Result(Span),
}

/// Folds one call over the expressions of its event.
pub(super) struct Folding<'a> {
    pub(super) class: &'a Class,
    constants: Constants<'a>,
    pub(super) thresholds: Vec<Threshold>,
    pub(super) holds: Vec<Content>,
    /// How many named values are still looked through.
    lets: usize,
}

/// Named values that are looked through, in one call: those that name each other are many on paths and few on the page.
const LETS_MAX: usize = 1_000;

impl<'a> Folding<'a> {
    pub(super) fn new(class: &'a Class, constants: Constants<'a>) -> Self {
        Self { class, constants, thresholds: Vec::new(), holds: Vec::new(), lets: LETS_MAX }
    }

    pub(super) fn is_of_any_call(&self) -> bool {
        matches!(self.constants, Constants::Any)
    }

    /// The linear form of a body, without its states.
    pub(super) fn body(mut self, body: &Body) -> Result<Linear, Obstacle> {
        let expressions = body.statements.iter().flat_map(|statement| statement.expressions());
        if let Some(dependent) = expressions.into_iter().find(|expr| expr.reads_fields()) {
            return Err(Obstacle::Call(dependent.span()));
        }
        // What is returned has a value.
        if let Some(returned) = body.returned.as_ref().filter(|returned| !returned.is_plain())
            && (returned.value.reads_fields() || self.constant(&returned.value).is_none())
        {
            return Err(Obstacle::Result(returned.value.span()));
        }
        for guard in &body.guards {
            self.condition(&guard.expr).ok_or(Obstacle::Condition(guard.expr.span()))?;
        }
        let mut changed = Changed::default();
        for effect in &body.effects {
            let done = self.effect(&effect.field.name, &effect.value, &mut changed);
            done.ok_or(Obstacle::Effect(effect.value.span()))?;
        }
        let Changed { deltas, assigned, puts } = changed;
        // A threshold on a number that the call replaces would need more than sums to be kept true for it.
        let is_compared = |effect: &&Effect| {
            let name = &effect.field.name;
            assigned.iter().any(|assigned: &Delta| assigned.field == *name)
                && self.thresholds.iter().flat_map(|threshold| &threshold.terms).any(|term| term.field == *name)
        };
        if let Some(effect) = body.effects.iter().find(is_compared) {
            return Err(Obstacle::Effect(effect.value.span()));
        }
        let Self { thresholds, holds, .. } = self;
        Ok(Linear { states: Vec::new(), thresholds, holds, deltas, assigned, puts })
    }

    /// That an element, a constant, is in a field that is a set, or not.
    pub(super) fn element(&self, set: &Expr, element: &Expr, is_in: bool) -> Option<Content> {
        let ExprKind::Field(slot) = &set.kind else { return None };
        if element.reads_fields() {
            return None;
        }
        let place = Place { field: slot.name.clone(), element: Some(self.constant(element)?) };
        Some(Content { place, value: Value::Boolean(is_in) })
    }

    /// Whether the field is of a type whose values are compared as a whole by their texts.
    pub(super) fn has_one_content(&self, field: &Name) -> bool {
        let field = self.class.fields.iter().find(|known| known.name == *field);
        field.is_some_and(|field| {
            !matches!(field.ty, Type::Set(_) | Type::List(_) | Type::Map(_) | Type::Record(_) | Type::Optional(_))
        })
    }

    /// Adds what a condition needs to be in a place, if it is of that form.
    fn content(&mut self, expr: &Expr, is_true: bool) -> Option<()> {
        let content = match &expr.kind {
            ExprKind::Not(inner) => return self.content(inner, !is_true),
            ExprKind::In(element, set) => self.element(set, element, is_true)?,
            ExprKind::Field(slot) => whole(&slot.name, Value::Boolean(is_true)),
            ExprKind::Compare(Comparison::Equal, None, left, right) if is_true => match (&left.kind, &right.kind) {
                (ExprKind::Field(slot), _) | (_, ExprKind::Field(slot)) => {
                    let constant = if matches!(left.kind, ExprKind::Field(_)) { right } else { left };
                    let value = (!constant.reads_fields()).then(|| self.constant(constant))??;
                    if !self.has_one_content(&slot.name) || kind_of(&value).is_some() {
                        return None;
                    }
                    whole(&slot.name, value)
                }
                _ => return None,
            },
            _ => return None,
        };
        self.holds.push(content);
        Some(())
    }

    /// Adds what a condition needs.
    pub(super) fn condition(&mut self, expr: &Expr) -> Option<()> {
        match &expr.kind {
            ExprKind::And(left, right) => {
                self.condition(left)?;
                self.condition(right)
            }
            _ if !expr.reads_fields() => matches!(self.constant(expr)?, Value::Boolean(true)).then_some(()),
            ExprKind::Let(named) => {
                self.look_through()?;
                self.condition(&named.value)
            }
            ExprKind::Compare(Comparison::Equal, None, ..) if self.content(expr, true).is_some() => Some(()),
            ExprKind::Compare(comparison, _, left, right) => {
                let (left, right) = (self.sum(left)?, self.sum(right)?);
                let kind = left.kind;
                self.comparison(*comparison, &left.plus(right.negated()?, kind)?)
            }
            ExprKind::CompareZero(comparison, operand) => {
                let sum = self.sum(operand)?;
                self.comparison(*comparison, &sum)
            }
            _ => self.content(expr, true),
        }
    }

    /// Adds `sum comparison 0`.
    fn comparison(&mut self, comparison: Comparison, sum: &Sum) -> Option<()> {
        let bound = sum.constant.checked_neg()?;
        let mut require = |bound| self.require(&sum.terms, bound, sum.currency);
        match comparison {
            Comparison::Equal => {
                require(Bound::AtLeast(bound))?;
                require(Bound::AtMost(bound))
            }
            Comparison::Unequal => None,
            Comparison::Less => require(Bound::AtMost(bound.checked_sub(1)?)),
            Comparison::LessOrEqual => require(Bound::AtMost(bound)),
            Comparison::Greater => require(Bound::AtLeast(bound.checked_add(1)?)),
            Comparison::GreaterOrEqual => require(Bound::AtLeast(bound)),
        }
    }

    /// Adds a threshold, with a positive first term.
    fn require(&mut self, terms: &[Term], bound: Bound, currency: Option<Currency>) -> Option<()> {
        let mut threshold = Threshold { terms: terms.to_vec(), bound, currency };
        if terms.first()?.is_negative {
            threshold.terms.iter_mut().for_each(|term| term.is_negative = !term.is_negative);
            threshold.bound = match bound {
                Bound::AtLeast(bound) => Bound::AtMost(bound.checked_neg()?),
                Bound::AtMost(bound) => Bound::AtLeast(bound.checked_neg()?),
            };
        }
        self.thresholds.push(threshold);
        Some(())
    }

    /// The sum that `expr` is; every operation on the way adds the thresholds of its range.
    pub(super) fn sum(&mut self, expr: &Expr) -> Option<Sum> {
        if !expr.reads_fields() {
            let value = self.constant(expr)?;
            let (constant, currency) = (value.number()?, value.currency());
            return Some(Sum { kind: kind_of(&value)?, terms: Vec::new(), constant, currency });
        }
        match &expr.kind {
            ExprKind::Let(named) => {
                self.look_through()?;
                self.sum(&named.value)
            }
            ExprKind::Field(slot) => {
                let field = self.class.fields.iter().find(|field| field.name == slot.name)?;
                let terms = vec![Term { field: slot.name.clone(), is_negative: false }];
                Some(Sum { kind: kind_of_type(&field.ty)?, terms, constant: 0, currency: None })
            }
            ExprKind::Arithmetic(operator @ (Operator::Add | Operator::Subtract), kind, left, right) => {
                let (left, right) = (self.sum(left)?, self.sum(right)?);
                let right = if *operator == Operator::Add { right } else { right.negated()? };
                let sum = left.plus(right, *kind)?;
                self.range(&sum)?;
                Some(sum)
            }
            ExprKind::Negate(_, operand) => {
                let sum = self.sum(operand)?.negated()?;
                self.range(&sum)?;
                Some(sum)
            }
            _ => None,
        }
    }

    /// Adds that `sum` lies in the range of its kind, and that its currencies match.
    pub(super) fn range(&mut self, sum: &Sum) -> Option<()> {
        let Interval { low, high } = Interval::of_kind(sum.kind);
        let (low, high) = (low.checked_sub(sum.constant)?, high.checked_sub(sum.constant)?);
        // A field is in its own range already, so adding to it can only leave the range on one side.
        let is_field = matches!(sum.terms.as_slice(), [term] if !term.is_negative);
        if !is_field || sum.constant < 0 {
            self.require(&sum.terms, Bound::AtLeast(low), sum.currency)?;
        }
        if !is_field || sum.constant >= 0 {
            self.require(&sum.terms, Bound::AtMost(high), sum.currency)?;
        }
        Some(())
    }

    fn look_through(&mut self) -> Option<()> {
        self.lets = self.lets.checked_sub(1)?;
        Some(())
    }

    pub(super) fn constant(&self, expr: &Expr) -> Option<Value> {
        match self.evaluator() {
            Some(mut evaluator) => evaluator.value(expr, &[]).ok(),
            None => Some(stand_in(expr.ty())),
        }
    }

    /// What evaluates expressions that read no field, unless it is for any call.
    pub(super) fn evaluator(&self) -> Option<Evaluator<'a>> {
        match self.constants {
            Constants::Of(key, call, at) => {
                Some(Evaluator::new(self.class.scope(key, Bindings::nothing(), Some(call), at)))
            }
            Constants::Any => None,
        }
    }
}

/// A value of the kind of number that the type is, all amounts in one currency; of other types, what stands for them.
pub(super) fn stand_in(ty: &Type) -> Value {
    match ty {
        Type::MoneyOf(_) => stand_in(&Type::Money),
        Type::Set(_) => Value::Set(Arc::default()),
        _ => Value::of_number(ty, "EUR".parse().ok(), 1).unwrap_or(Value::Boolean(true)),
    }
}

pub(super) fn whole(field: &Name, value: Value) -> Content {
    Content { place: Place { field: field.clone(), element: None }, value }
}

pub(super) fn kind_of(value: &Value) -> Option<NumberKind> {
    match value {
        Value::Integer(_) | Value::Timestamp(_) => Some(NumberKind::Integer),
        Value::Money(_) => Some(NumberKind::Money),
        Value::Percentage(_) => Some(NumberKind::Percentage),
        Value::Date(_) => Some(NumberKind::Date),
        _ => None,
    }
}

pub(super) fn kind_of_type(ty: &Type) -> Option<NumberKind> {
    match ty {
        Type::Integer | Type::Timestamp => Some(NumberKind::Integer),
        Type::Money | Type::MoneyOf(_) => Some(NumberKind::Money),
        Type::Percentage => Some(NumberKind::Percentage),
        Type::Date => Some(NumberKind::Date),
        _ => None,
    }
}
