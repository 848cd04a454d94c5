//! The abstract interpreter: expressions over intervals instead of numbers.
//!
//! It runs the expressions that [`evaluate`](crate::evaluate) runs and promises: the value of an expression, if it has
//! one, is among those its abstract value stands for. What it cannot tell is [`Abstract::Any`].

use std::cell::Cell;

use super::interval::Interval;
use crate::evaluate::holds;
use crate::model::expr::{Comparison, Expr, ExprKind, NumberKind, Operator, Slot};
use crate::model::{Class, Function};
use crate::value::{Currency, Key, Reference, Timestamp, Type, Value};

/// What is known of the currency of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Denomination {
    /// No amount of money.
    None,
    Known(Currency),
    Any,
}

impl Denomination {
    /// Whether two operands have the same currency, if that can be told.
    pub(crate) fn equals(self, other: Self) -> Option<bool> {
        match (self, other) {
            (Denomination::None, Denomination::None) => Some(true),
            (Denomination::Known(a), Denomination::Known(b)) => Some(a == b),
            _ => None,
        }
    }

    /// What is known of two that are equal.
    fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Denomination::Any, known) | (known, _) => known,
        }
    }

    fn hull(self, other: Self) -> Self {
        if self == other { self } else { Denomination::Any }
    }
}

/// A set of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Abstract {
    /// Numbers of one kind, or amounts of one currency.
    Number(Interval, Denomination),
    /// One value that is no number.
    Known(Value),
    /// Anything of its type.
    Any,
}

impl Abstract {
    pub(crate) fn of(value: &Value) -> Self {
        match value.number() {
            Some(number) => Abstract::Number(
                Interval::point(number),
                value.currency().map_or(Denomination::None, Denomination::Known),
            ),
            None => Abstract::Known(value.clone()),
        }
    }

    /// Every value of a type.
    pub(crate) fn all(ty: &Type) -> Self {
        match ty {
            Type::Integer | Type::Timestamp => {
                Abstract::Number(Interval::of_kind(NumberKind::Integer), Denomination::None)
            }
            Type::Money => Abstract::Number(Interval::of_kind(NumberKind::Money), Denomination::Any),
            Type::MoneyOf(currency) => {
                Abstract::Number(Interval::of_kind(NumberKind::Money), Denomination::Known(*currency))
            }
            Type::Percentage => Abstract::Number(Interval::of_kind(NumberKind::Percentage), Denomination::None),
            Type::Date => Abstract::Number(Interval::of_kind(NumberKind::Date), Denomination::None),
            _ => Abstract::Any,
        }
    }

    fn truth(truth: Option<bool>) -> Self {
        truth.map_or(Abstract::Any, |truth| Abstract::Known(Value::Boolean(truth)))
    }

    /// The truth value, if there is only one.
    pub(crate) fn as_truth(&self) -> Option<bool> {
        match self {
            Abstract::Known(Value::Boolean(truth)) => Some(*truth),
            _ => None,
        }
    }

    /// The numbers; everything if it is not known to be one.
    pub(crate) fn range(&self) -> Interval {
        match self {
            Abstract::Number(range, _) => *range,
            _ => Interval::ALL,
        }
    }

    pub(crate) fn denomination(&self) -> Denomination {
        match self {
            Abstract::Number(_, denomination) => *denomination,
            _ => Denomination::Any,
        }
    }

    /// Whether it stands for exactly one value.
    pub(crate) fn is_single(&self) -> bool {
        match self {
            Abstract::Number(range, denomination) => {
                range.single().is_some() && matches!(denomination, Denomination::None | Denomination::Known(_))
            }
            Abstract::Known(_) => true,
            Abstract::Any => false,
        }
    }

    pub(crate) fn hull(&self, other: &Self) -> Self {
        match (self, other) {
            (Abstract::Number(a, x), Abstract::Number(b, y)) => Abstract::Number(a.hull(*b), x.hull(*y)),
            (a, b) if a == b => a.clone(),
            _ => Abstract::Any,
        }
    }
}

/// Which faults an evaluation may meet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) overflow: bool,
    pub(crate) mismatch: bool,
}

/// The abstract values that an expression may read.
#[derive(Clone)]
pub(crate) struct Domain<'a> {
    pub(crate) class: &'a Class,
    /// By slot.
    pub(crate) fields: Vec<Abstract>,
    /// By slot.
    pub(crate) params: Vec<Abstract>,
    /// The instance and the time, if they are known.
    pub(crate) event: Option<(&'a Key, Timestamp)>,
    /// Steps left, shared by all domains of one question. Without any, everything is [`Abstract::Any`].
    pub(crate) fuel: &'a Cell<u32>,
}

impl Domain<'_> {
    /// Uses up `steps` of the fuel; false if there are no more.
    pub(crate) fn burn(&self, steps: usize) -> bool {
        let left = u32::try_from(steps).ok().and_then(|steps| self.fuel.get().checked_sub(steps));
        self.fuel.set(left.unwrap_or(0));
        left.is_some()
    }

    /// The values of `expr`, and the faults met on the way.
    pub(crate) fn value(&self, expr: &Expr) -> (Abstract, Faults) {
        let mut faults = Faults::default();
        (self.evaluate(expr, &[], &mut faults), faults)
    }

    pub(crate) fn truth(&self, expr: &Expr) -> Option<bool> {
        self.value(expr).0.as_truth()
    }

    pub(crate) fn range(&self, expr: &Expr) -> Interval {
        self.value(expr).0.range()
    }

    /// Nested expressions nest calls of this function and one other, so both keep their frames small.
    fn evaluate(&self, expr: &Expr, locals: &[Abstract], faults: &mut Faults) -> Abstract {
        if !self.burn(1) {
            *faults = Faults { overflow: true, mismatch: true };
            return Abstract::Any;
        }
        match &expr.kind {
            ExprKind::If(condition, accepted, otherwise) => {
                self.choice([condition, accepted, otherwise], locals, faults)
            }
            ExprKind::And(left, right) => self.junction(left, right, false, locals, faults),
            ExprKind::Or(left, right) => self.junction(left, right, true, locals, faults),
            ExprKind::Call(function, arguments) => self.call(function, arguments, locals, faults),
            ExprKind::Let(named) => self.evaluate(&named.value, &[], faults),
            ExprKind::Set(items) => {
                self.operands(items, locals, faults);
                Abstract::Any
            }
            // What is asked may have no value, the empty text is no identity, and elements are not looked at.
            ExprKind::Ask(..)
            | ExprKind::Refer(..)
            | ExprKind::Range(..)
            | ExprKind::Within(..)
            | ExprKind::Aggregate(..)
            | ExprKind::Otherwise(..)
            | ExprKind::Present(_)
            | ExprKind::Record(..)
            | ExprKind::FieldOf(..)
            | ExprKind::With(..)
            | ExprKind::List(_)
            | ExprKind::Map(_)
            | ExprKind::Updated(..)
            | ExprKind::Apply(..) => {
                *faults = Faults { overflow: true, mismatch: true };
                Abstract::Any
            }
            _ => match expr.operands().as_slice() {
                [] => self.leaf(expr, locals),
                [operand] => self.unary(expr, operand, locals, faults),
                [left, right, ..] => self.binary(expr, left, right, locals, faults),
            },
        }
    }

    fn leaf(&self, expr: &Expr, locals: &[Abstract]) -> Abstract {
        match &expr.kind {
            ExprKind::Literal(value) => Abstract::of(value),
            ExprKind::Identity(index) => {
                let field = self.event.and_then(|(key, _)| key.field(*index));
                field.map_or(Abstract::Any, |value| Abstract::of(&value))
            }
            ExprKind::This => self.event.map_or(Abstract::Any, |(key, _)| {
                Abstract::Known(Value::Reference(Reference { class: self.class.name.clone(), key: key.clone() }))
            }),
            ExprKind::Now => self.time(Value::Timestamp),
            ExprKind::Today => self.time(|at| Value::Date(at.date())),
            ExprKind::Field(slot) => self.fields.get(slot.index).cloned().unwrap_or(Abstract::Any),
            ExprKind::Param(slot) => self.params.get(slot.index).cloned().unwrap_or(Abstract::Any),
            ExprKind::Local(index) => locals.get(*index).cloned().unwrap_or(Abstract::Any),
            _ => Abstract::Any,
        }
    }

    fn unary(&self, expr: &Expr, operand: &Expr, locals: &[Abstract], faults: &mut Faults) -> Abstract {
        let operand = self.evaluate(operand, locals, faults);
        match &expr.kind {
            ExprKind::Negate(kind, _) => {
                let (range, fits) = operand.range().negate();
                within(*kind, range, fits, operand.denomination(), faults)
            }
            ExprKind::CompareZero(comparison, _) => {
                Abstract::truth(operand.range().compare(*comparison, Interval::ZERO))
            }
            ExprKind::Not(_) => Abstract::truth(operand.as_truth().map(|truth| !truth)),
            ExprKind::CurrencyOf(_) => match operand.denomination() {
                Denomination::Known(currency) => Abstract::Known(Value::Currency(currency)),
                _ => Abstract::Any,
            },
            ExprKind::SizeOf(_) => {
                let all = Interval { low: 0, high: i64::MAX.into() };
                let size = match &operand {
                    Abstract::Known(Value::Set(set)) => i128::try_from(set.len()).map_or(all, Interval::point),
                    _ => all,
                };
                Abstract::Number(size, Denomination::None)
            }
            _ => Abstract::Any,
        }
    }

    fn binary(&self, expr: &Expr, left: &Expr, right: &Expr, locals: &[Abstract], faults: &mut Faults) -> Abstract {
        let left = self.evaluate(left, locals, faults);
        let right = self.evaluate(right, locals, faults);
        match &expr.kind {
            ExprKind::Arithmetic(operator, kind, ..) => arithmetic(*operator, *kind, &left, &right, faults),
            ExprKind::Share(rounding, ..) => {
                let (range, fits) = left.range().share(right.range(), *rounding);
                within(NumberKind::Money, range, fits, left.denomination(), faults)
            }
            ExprKind::Compare(comparison, ..) => {
                if expr.needs_one_currency() {
                    faults.mismatch |= left.denomination().equals(right.denomination()) != Some(true);
                }
                Abstract::truth(compare(*comparison, &left, &right))
            }
            ExprKind::In(..) => match (&left, &right) {
                (Abstract::Known(element), Abstract::Known(Value::Set(set))) => {
                    Abstract::truth(Some(set.contains(element)))
                }
                _ => Abstract::Any,
            },
            _ => Abstract::Any,
        }
    }

    fn choice(&self, parts: [&Expr; 3], locals: &[Abstract], faults: &mut Faults) -> Abstract {
        let [condition, accepted, otherwise] = parts;
        match self.evaluate(condition, locals, faults).as_truth() {
            Some(true) => self.evaluate(accepted, locals, faults),
            Some(false) => self.evaluate(otherwise, locals, faults),
            None => {
                let accepted = self.evaluate(accepted, locals, faults);
                accepted.hull(&self.evaluate(otherwise, locals, faults))
            }
        }
    }

    fn call(&self, function: &Function, arguments: &[Expr], locals: &[Abstract], faults: &mut Faults) -> Abstract {
        let arguments = self.operands(arguments, locals, faults);
        self.evaluate(&function.body, &arguments, faults)
    }

    fn operands(&self, operands: &[Expr], locals: &[Abstract], faults: &mut Faults) -> Vec<Abstract> {
        operands.iter().map(|operand| self.evaluate(operand, locals, faults)).collect()
    }

    fn time(&self, value: impl Fn(Timestamp) -> Value) -> Abstract {
        self.event.map_or(Abstract::Number(Interval::ALL, Denomination::None), |(_, at)| Abstract::of(&value(at)))
    }

    /// `and` (which `false` decides) or `or` (which `true` decides). The right side runs only if the left does not decide.
    fn junction(&self, left: &Expr, right: &Expr, decides: bool, locals: &[Abstract], faults: &mut Faults) -> Abstract {
        let left = self.evaluate(left, locals, faults).as_truth();
        if left == Some(decides) {
            return Abstract::truth(left);
        }
        let right = self.evaluate(right, locals, faults).as_truth();
        Abstract::truth(if right == Some(decides) || left.is_some() { right } else { None })
    }

    /// Narrows fields and parameters to what makes `expr` true, and says whether anything is left.
    pub(crate) fn assume(&mut self, expr: &Expr) -> bool {
        let is_possible = match &expr.kind {
            ExprKind::And(left, right) => self.assume(left) && self.assume(right),
            ExprKind::Compare(comparison, _, left, right) => {
                let (a, b) = (self.value(left).0, self.value(right).0);
                let (Abstract::Number(a, x), Abstract::Number(b, y)) = (a, b) else {
                    return self.truth(expr) != Some(false);
                };
                if *comparison == Comparison::Unequal {
                    return self.truth(expr) != Some(false);
                }
                // A comparison that holds is one of amounts of one currency.
                self.denominate(left, y);
                self.denominate(right, x);
                self.narrow(left, Interval::left_of(*comparison, b))
                    && self.narrow(right, Interval::left_of(comparison.mirrored(), a))
            }
            ExprKind::CompareZero(comparison, operand) => {
                self.narrow(operand, Interval::left_of(*comparison, Interval::ZERO))
            }
            _ => true,
        };
        is_possible && self.truth(expr) != Some(false)
    }

    /// Narrows what `expr` reads so that its value lies in `range`, as far as sums go.
    fn narrow(&mut self, expr: &Expr, range: Interval) -> bool {
        match &expr.kind {
            ExprKind::Field(Slot { index, .. }) => self.fields.get_mut(*index).is_none_or(|value| meet(value, range)),
            ExprKind::Param(Slot { index, .. }) => self.params.get_mut(*index).is_none_or(|value| meet(value, range)),
            ExprKind::Arithmetic(Operator::Add, _, left, right) => {
                let (a, b) = (self.range(left), self.range(right));
                self.narrow(left, range.subtract(b).0) && self.narrow(right, range.subtract(a).0)
            }
            ExprKind::Arithmetic(Operator::Subtract, _, left, right) => {
                let (a, b) = (self.range(left), self.range(right));
                self.narrow(left, range.add(b).0) && self.narrow(right, a.subtract(range).0)
            }
            ExprKind::Negate(_, operand) => self.narrow(operand, range.negate().0),
            _ => true,
        }
    }

    fn denominate(&mut self, expr: &Expr, denomination: Denomination) {
        let value = match &expr.kind {
            ExprKind::Field(slot) => self.fields.get_mut(slot.index),
            ExprKind::Param(slot) => self.params.get_mut(slot.index),
            _ => None,
        };
        if let (Some(Abstract::Number(_, known @ Denomination::Any)), Denomination::Known(_)) = (value, denomination) {
            *known = denomination;
        }
    }
}

fn meet(value: &mut Abstract, range: Interval) -> bool {
    let Abstract::Number(known, _) = value else { return true };
    let met = known.meet(range);
    *known = met.unwrap_or(*known);
    met.is_some()
}

fn within(kind: NumberKind, range: Interval, fits: bool, denomination: Denomination, faults: &mut Faults) -> Abstract {
    let all = Interval::of_kind(kind);
    faults.overflow |= !fits || !all.contains(range);
    // Outside its range there is no value, only the fault.
    Abstract::Number(range.meet(all).unwrap_or(all), denomination)
}

fn arithmetic(
    operator: Operator,
    kind: NumberKind,
    left: &Abstract,
    right: &Abstract,
    faults: &mut Faults,
) -> Abstract {
    let (range, fits) = match operator {
        Operator::Add => left.range().add(right.range()),
        Operator::Subtract => left.range().subtract(right.range()),
        Operator::Multiply => left.range().multiply(right.range()),
    };
    let denomination = if kind != NumberKind::Money {
        Denomination::None
    } else if operator == Operator::Multiply {
        left.denomination()
    } else {
        faults.mismatch |= left.denomination().equals(right.denomination()) != Some(true);
        left.denomination().joined(right.denomination())
    };
    within(kind, range, fits, denomination, faults)
}

/// The verdict of a comparison, where it has one. Amounts of different currencies are unequal; an order among them has no
/// value, which counts as false.
pub(crate) fn compare(comparison: Comparison, left: &Abstract, right: &Abstract) -> Option<bool> {
    match (left, right) {
        (Abstract::Number(a, x), Abstract::Number(b, y)) => {
            let (amounts, is_one_currency) = (a.compare(comparison, *b), x.equals(*y));
            match (comparison, is_one_currency) {
                (Comparison::Unequal, Some(false)) => Some(true),
                (_, Some(false)) => Some(false),
                (Comparison::Unequal, None) => amounts.filter(|&unequal| unequal),
                (Comparison::Equal, None) => amounts.filter(|&equal| !equal),
                (_, Some(true) | None) => amounts,
            }
        }
        (Abstract::Known(a), Abstract::Known(b)) => Some(holds(comparison, a.cmp(b))),
        _ => None,
    }
}
