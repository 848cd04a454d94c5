//! The interpreter of expressions: total, exact, with bounded steps.
//!
//! An expression is checked before it comes here, but the values it meets may come from a journal that an older
//! specification wrote; a value of another type than declared is [`Fault::NoValue`], not a panic.

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use crate::{
    limits::FUEL,
    model::expr::{Comparison, Expr, Operator, Slot},
    value::{Bindings, Fault, Key, Money, Name, Reference, Timestamp, Value},
};

/// What an expression may read.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) class: &'a Name,
    pub(crate) key: Option<&'a Key>,
    pub(crate) fields: &'a Bindings,
    pub(crate) params: &'a Bindings,
    pub(crate) at: Timestamp,
}

/// One evaluation, with the steps it has left.
pub(crate) struct Evaluator<'a> {
    scope: Scope<'a>,
    fuel: u32,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(scope: Scope<'a>) -> Self {
        Self::with_fuel(scope, FUEL)
    }

    pub(crate) fn with_fuel(scope: Scope<'a>, fuel: u32) -> Self {
        Self { scope, fuel }
    }

    /// The steps that are left.
    pub(crate) fn fuel(&self) -> u32 {
        self.fuel
    }

    /// The same fuel, with `fields` to be read.
    pub(crate) fn with_fields(self, fields: &'a Bindings) -> Self {
        Self { scope: Scope { fields, ..self.scope }, ..self }
    }

    /// Uses up `steps` of the fuel.
    pub(crate) fn burn(&mut self, steps: usize) -> Result<(), Fault> {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        let left = self.fuel.checked_sub(steps);
        self.fuel = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Fault::OutOfFuel)
    }

    /// The truth of a condition.
    pub(crate) fn truth(&mut self, expr: &Expr, locals: &[Value]) -> Result<bool, Fault> {
        match self.value(expr, locals)? {
            Value::Boolean(truth) => Ok(truth),
            _ => Err(ill_typed(expr)),
        }
    }

    /// The value of `expr`.
    pub(crate) fn value(&mut self, expr: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        self.burn(1)?;
        Ok(match expr {
            Expr::Literal(value) => value.clone(),
            Expr::Identity => self.scope.key.ok_or_else(|| ill_typed(expr))?.value(),
            Expr::This => {
                let key = self.scope.key.ok_or_else(|| ill_typed(expr))?.clone();
                Value::Reference(Reference { class: self.scope.class.clone(), key })
            }
            Expr::Now => Value::Timestamp(self.scope.at),
            Expr::Today => Value::Date(self.scope.at.date()),
            Expr::Field(slot) => bound(self.scope.fields, slot)?,
            Expr::Param(slot) => bound(self.scope.params, slot)?,
            Expr::Local(index) => locals.get(*index).ok_or_else(|| ill_typed(expr))?.clone(),
            Expr::Arithmetic(operator, _, left, right) => {
                let (left, right) = (self.value(left, locals)?, self.value(right, locals)?);
                arithmetic(*operator, &left, &right).unwrap_or_else(|| Err(ill_typed(expr)))?
            }
            Expr::Share(rounding, amount, rate) => match (self.value(amount, locals)?, self.value(rate, locals)?) {
                (Value::Money(amount), Value::Percentage(rate)) => Value::Money(amount.share(rate, *rounding)?),
                _ => return Err(ill_typed(expr)),
            },
            Expr::Negate(_, operand) => match self.value(operand, locals)? {
                Value::Integer(number) => Value::Integer(number.checked_neg().ok_or(Fault::Overflow)?),
                Value::Money(money) => Value::Money(money.negate()?),
                Value::Percentage(percentage) => Value::Percentage(percentage.times(-1)?),
                _ => return Err(ill_typed(expr)),
            },
            Expr::Compare(comparison, left, right) => {
                let (left, right) = (self.value(left, locals)?, self.value(right, locals)?);
                if let (Value::Set(left), Value::Set(right)) = (&left, &right) {
                    self.burn(left.len().min(right.len()))?;
                }
                Value::Boolean(compare(*comparison, &left, &right))
            }
            Expr::CompareZero(comparison, operand) => {
                let number = self.value(operand, locals)?.number().ok_or_else(|| ill_typed(expr))?;
                Value::Boolean(holds(*comparison, number.cmp(&0)))
            }
            Expr::Not(operand) => Value::Boolean(!self.truth(operand, locals)?),
            Expr::And(left, right) => Value::Boolean(self.truth(left, locals)? && self.truth(right, locals)?),
            Expr::Or(left, right) => Value::Boolean(self.truth(left, locals)? || self.truth(right, locals)?),
            Expr::If(condition, accepted, otherwise) => {
                let chosen = if self.truth(condition, locals)? { accepted } else { otherwise };
                self.value(chosen, locals)?
            }
            Expr::In(element, set) => {
                let element = self.value(element, locals)?;
                Value::Boolean(self.set(set, locals)?.contains(&element))
            }
            Expr::Set(items) => {
                let elements = items.iter().map(|item| self.value(item, locals)).collect::<Result<BTreeSet<_>, _>>()?;
                Value::Set(Arc::new(elements))
            }
            Expr::Insert(set, element) => {
                let mut elements = self.copied_set(set, locals)?;
                elements.insert(self.value(element, locals)?);
                Value::Set(Arc::new(elements))
            }
            Expr::Remove(set, element) => {
                let mut elements = self.copied_set(set, locals)?;
                elements.remove(&self.value(element, locals)?);
                Value::Set(Arc::new(elements))
            }
            Expr::CurrencyOf(money) => match self.value(money, locals)? {
                Value::Money(money) => Value::Currency(money.currency()),
                _ => return Err(ill_typed(expr)),
            },
            Expr::SizeOf(set) => {
                Value::Integer(i64::try_from(self.set(set, locals)?.len()).map_err(|_| Fault::Overflow)?)
            }
            Expr::Call(function, arguments) => {
                let arguments =
                    arguments.iter().map(|argument| self.value(argument, locals)).collect::<Result<Vec<_>, _>>()?;
                self.value(&function.body, &arguments)?
            }
        })
    }

    /// The set that `expr` yields.
    pub(crate) fn set(&mut self, expr: &Expr, locals: &[Value]) -> Result<Arc<BTreeSet<Value>>, Fault> {
        match self.value(expr, locals)? {
            Value::Set(elements) => Ok(elements),
            _ => Err(ill_typed(expr)),
        }
    }

    fn copied_set(&mut self, expr: &Expr, locals: &[Value]) -> Result<BTreeSet<Value>, Fault> {
        let set = self.set(expr, locals)?;
        self.burn(set.len())?;
        Ok(Arc::unwrap_or_clone(set))
    }
}

fn bound(bindings: &Bindings, slot: &Slot) -> Result<Value, Fault> {
    bindings.get_at(slot.index, &slot.name).cloned().ok_or_else(|| Fault::NoValue { name: slot.name.clone() })
}

/// The fault of a value that has not its declared type: it names the first field or parameter that is read.
fn ill_typed(expr: &Expr) -> Fault {
    let mut name = None;
    expr.walk(&mut |expr| {
        if let Expr::Field(slot) | Expr::Param(slot) = expr {
            name.get_or_insert_with(|| slot.name.clone());
        }
    });
    Fault::NoValue { name: name.unwrap_or_else(|| "this".into()) }
}

/// `None` if the operator is not defined for the values.
fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Option<Result<Value, Fault>> {
    let integer = |number: Option<i64>| number.map(Value::Integer).ok_or(Fault::Overflow);
    Some(match (operator, left, right) {
        (Operator::Add, Value::Integer(a), Value::Integer(b)) => integer(a.checked_add(*b)),
        (Operator::Subtract, Value::Integer(a), Value::Integer(b)) => integer(a.checked_sub(*b)),
        (Operator::Multiply, Value::Integer(a), Value::Integer(b)) => integer(a.checked_mul(*b)),
        (Operator::Add, Value::Money(a), Value::Money(b)) => a.add(*b).map(Value::Money),
        (Operator::Subtract, Value::Money(a), Value::Money(b)) => a.subtract(*b).map(Value::Money),
        (Operator::Multiply, Value::Money(a), Value::Integer(b)) => a.times(*b).map(Value::Money),
        (Operator::Add, Value::Percentage(a), Value::Percentage(b)) => a.add(*b).map(Value::Percentage),
        (Operator::Subtract, Value::Percentage(a), Value::Percentage(b)) => a.subtract(*b).map(Value::Percentage),
        (Operator::Multiply, Value::Percentage(a), Value::Integer(b)) => a.times(*b).map(Value::Percentage),
        (Operator::Add, Value::Date(a), Value::Integer(b)) => a.plus(*b).map(Value::Date),
        (Operator::Subtract, Value::Date(a), Value::Integer(b)) => a.minus(*b).map(Value::Date),
        (Operator::Subtract, Value::Date(a), Value::Date(b)) => integer(a.days().checked_sub(b.days())),
        _ => return None,
    })
}

/// Amounts of different currencies compare as false, except by `!=`.
fn compare(comparison: Comparison, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Money(a), Value::Money(b)) => match order(*a, *b) {
            Some(order) => holds(comparison, order),
            None => comparison == Comparison::Unequal,
        },
        _ => holds(comparison, left.cmp(right)),
    }
}

fn order(left: Money, right: Money) -> Option<Ordering> {
    (left.currency() == right.currency()).then(|| left.minor().cmp(&right.minor()))
}

/// Whether operands in this order satisfy the comparison.
pub(crate) fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::Unequal => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}
