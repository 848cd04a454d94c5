//! The interpreter of expressions: total, exact, with bounded steps.
//!
//! An expression is checked before it comes here, but the values it meets may come from a journal that an older
//! specification wrote; a value of another type than declared is [`Fault::NoValue`], not a panic.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::instance::{EventCall, Question};
use crate::limits::FUEL;
use crate::model::Function;
use crate::model::expr::{Arguments, Asks, Comparison, Expr, Operator, Query, Slot};
use crate::value::{Bindings, Fault, Key, Name, Reference, Rounding, Timestamp, Value};

/// What an expression may read.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) class: &'a Name,
    pub(crate) key: Option<&'a Key>,
    pub(crate) fields: &'a Bindings,
    /// The event that happens, if one does.
    pub(crate) call: Option<&'a EventCall>,
    pub(crate) at: Timestamp,
}

/// One evaluation, with the steps it has left.
pub(crate) struct Evaluator<'a> {
    scope: Scope<'a>,
    params: &'a Bindings,
    fuel: u32,
    wanted: Vec<(Reference, Question)>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(scope: Scope<'a>) -> Self {
        Self::with_fuel(scope, FUEL)
    }

    pub(crate) fn with_fuel(scope: Scope<'a>, fuel: u32) -> Self {
        let params = scope.call.map_or(Bindings::nothing(), EventCall::arguments);
        Self { scope, params, fuel, wanted: Vec::new() }
    }

    /// The questions that were met and have no answer, each once, in the order in which they were met.
    pub(crate) fn take_wanted(&mut self) -> Vec<(Reference, Question)> {
        std::mem::take(&mut self.wanted)
    }

    /// The steps that are left.
    pub(crate) fn fuel(&self) -> u32 {
        self.fuel
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
    ///
    /// Nested expressions nest calls of this function and one other, so both keep their frames small.
    pub(crate) fn value(&mut self, expr: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        self.burn(1)?;
        match expr {
            Expr::Arithmetic(operator, _, left, right) => self.arithmetic(*operator, left, right, locals),
            Expr::Share(rounding, amount, rate) => self.share(*rounding, amount, rate, locals),
            Expr::Negate(_, operand) => self.negate(operand, locals),
            Expr::Compare(comparison, _, left, right) => self.compare(*comparison, left, right, locals),
            Expr::CompareZero(comparison, operand) => self.compare_zero(*comparison, operand, locals),
            Expr::Not(operand) => self.truth(operand, locals).map(|truth| Value::Boolean(!truth)),
            Expr::And(left, right) => self.junction(left, right, false, locals),
            Expr::Or(left, right) => self.junction(left, right, true, locals),
            Expr::If(condition, accepted, otherwise) => self.choice([condition, accepted, otherwise], locals),
            Expr::In(element, set) => self.contains(element, set, locals),
            Expr::Set(items) => self.collect(items, locals),
            Expr::Insert(set, element) => self.changed_set(set, element, true, locals),
            Expr::Remove(set, element) => self.changed_set(set, element, false, locals),
            Expr::CurrencyOf(money) => self.currency(money, locals),
            Expr::SizeOf(set) => self.size(set, locals),
            Expr::Call(function, arguments) => self.call(function, arguments, locals),
            Expr::KeyOf(instance) => Ok(self.reference(instance, locals)?.key.value()),
            Expr::Refer(class, _, key) => self.refer(class, key, locals),
            Expr::Ask(target, query) => self.ask(target, query, locals),
            leaf => self.leaf(leaf, locals),
        }
    }

    /// The value of an operand: where it stands, if it does not have to be computed.
    fn operand<'v>(&mut self, expr: &'v Expr, locals: &[Value]) -> Result<Cow<'v, Value>, Fault>
    where
        'a: 'v,
    {
        let stored = match expr {
            Expr::Literal(value) => value,
            Expr::Field(slot) => bound(self.scope.fields, slot)?,
            Expr::Param(slot) => bound(self.params, slot)?,
            _ => return self.value(expr, locals).map(Cow::Owned),
        };
        self.burn(1)?;
        Ok(Cow::Borrowed(stored))
    }

    /// Two operands. The questions of the second are met also where the first waits for an answer.
    fn both<'v>(
        &mut self,
        left: &'v Expr,
        right: &'v Expr,
        locals: &[Value],
    ) -> Result<(Cow<'v, Value>, Cow<'v, Value>), Fault>
    where
        'a: 'v,
    {
        let a = match self.operand(left, locals) {
            Err(fault) if !fault.is_unanswered() => return Err(fault),
            a => a,
        };
        let b = self.operand(right, locals);
        Ok((a?, b?))
    }

    fn leaf(&self, expr: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        match expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Identity => self.scope.key.map(Key::value).ok_or_else(|| ill_typed(expr)),
            Expr::This => {
                let key = self.scope.key.ok_or_else(|| ill_typed(expr))?.clone();
                Ok(Value::Reference(Reference { class: self.scope.class.clone(), key }))
            }
            Expr::Now => Ok(Value::Timestamp(self.scope.at)),
            Expr::Today => Ok(Value::Date(self.scope.at.date())),
            Expr::Field(slot) => bound(self.scope.fields, slot).cloned(),
            Expr::Param(slot) => bound(self.params, slot).cloned(),
            Expr::Local(index) => locals.get(*index).cloned().ok_or_else(|| ill_typed(expr)),
            other => Err(ill_typed(other)),
        }
    }

    fn arithmetic(&mut self, operator: Operator, left: &Expr, right: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let (a, b) = self.both(left, right, locals)?;
        arithmetic(operator, &a, &b).unwrap_or_else(|| Err(ill_typed(left)))
    }

    fn share(&mut self, rounding: Rounding, amount: &Expr, rate: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        match (self.value(amount, locals)?, self.value(rate, locals)?) {
            (Value::Money(amount), Value::Percentage(rate)) => amount.share(rate, rounding).map(Value::Money),
            _ => Err(ill_typed(amount)),
        }
    }

    fn negate(&mut self, operand: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        match self.value(operand, locals)? {
            Value::Integer(number) => number.checked_neg().map(Value::Integer).ok_or(Fault::Overflow),
            Value::Money(money) => money.negate().map(Value::Money),
            Value::Percentage(percentage) => percentage.times(-1).map(Value::Percentage),
            _ => Err(ill_typed(operand)),
        }
    }

    fn compare(&mut self, comparison: Comparison, left: &Expr, right: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let (a, b) = self.both(left, right, locals)?;
        if let (Value::Set(a), Value::Set(b)) = (&*a, &*b) {
            self.burn(a.len().min(b.len()))?;
        }
        compare(comparison, &a, &b).map(Value::Boolean)
    }

    fn compare_zero(&mut self, comparison: Comparison, operand: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let number = self.operand(operand, locals)?.number().ok_or_else(|| ill_typed(operand))?;
        Ok(Value::Boolean(holds(comparison, number.cmp(&0))))
    }

    /// `and` (which `false` decides) or `or` (which `true` decides). The right side runs only if the left does not decide.
    fn junction(&mut self, left: &Expr, right: &Expr, decides: bool, locals: &[Value]) -> Result<Value, Fault> {
        let decided = self.truth(left, locals)? == decides;
        let truth = if decided { decides } else { self.truth(right, locals)? };
        Ok(Value::Boolean(truth))
    }

    fn choice(&mut self, parts: [&Expr; 3], locals: &[Value]) -> Result<Value, Fault> {
        let [condition, accepted, otherwise] = parts;
        let chosen = if self.truth(condition, locals)? { accepted } else { otherwise };
        self.value(chosen, locals)
    }

    fn contains(&mut self, element: &Expr, set: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let element = self.operand(element, locals)?;
        let Value::Set(elements) = &*self.operand(set, locals)? else { return Err(ill_typed(set)) };
        Ok(Value::Boolean(elements.contains(&element)))
    }

    fn collect(&mut self, items: &[Expr], locals: &[Value]) -> Result<Value, Fault> {
        let elements = items.iter().map(|item| self.value(item, locals)).collect::<Result<BTreeSet<_>, _>>()?;
        Ok(Value::Set(Arc::new(elements)))
    }

    fn changed_set(&mut self, set: &Expr, element: &Expr, is_insert: bool, locals: &[Value]) -> Result<Value, Fault> {
        let set = self.set(set, locals)?;
        let element = self.value(element, locals)?;
        self.burn(set.len())?;
        let mut elements = Arc::unwrap_or_clone(set);
        if is_insert {
            elements.insert(element);
        } else {
            elements.remove(&element);
        }
        Ok(Value::Set(Arc::new(elements)))
    }

    fn currency(&mut self, money: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        self.operand(money, locals)?.currency().map(Value::Currency).ok_or_else(|| ill_typed(money))
    }

    fn size(&mut self, set: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let size = self.set(set, locals)?.len();
        i64::try_from(size).map(Value::Integer).map_err(|_| Fault::Overflow)
    }

    fn call(&mut self, function: &Function, arguments: &[Expr], locals: &[Value]) -> Result<Value, Fault> {
        let arguments = arguments.iter().map(|argument| self.value(argument, locals)).collect::<Result<Vec<_>, _>>()?;
        self.value(&function.body, &arguments)
    }

    /// The instance that `expr` refers to.
    pub(crate) fn reference(&mut self, expr: &Expr, locals: &[Value]) -> Result<Reference, Fault> {
        match self.value(expr, locals)? {
            Value::Reference(reference) => Ok(reference),
            _ => Err(ill_typed(expr)),
        }
    }

    fn refer(&mut self, class: &Name, key: &Expr, locals: &[Value]) -> Result<Value, Fault> {
        let key = Key::of(self.value(key, locals)?).ok_or(Fault::NoKey)?;
        Ok(Value::Reference(Reference { class: class.clone(), key }))
    }

    fn ask(&mut self, target: &Expr, query: &Query, locals: &[Value]) -> Result<Value, Fault> {
        let of = self.reference(target, locals)?;
        let question = match &query.asks {
            Asks::Field(name) => Question::Field(name.clone()),
            Asks::Initialized => Question::Initialized,
            Asks::InState(states) => Question::InState(states.clone()),
            Asks::Possible { event, arguments } => Question::Possible(self.event_call(event, arguments, locals)?),
        };
        match self.scope.call.and_then(|call| call.answer(&of, &question)) {
            Some(Some(answer)) => Ok(answer.clone()),
            Some(None) => Err(Fault::Absent { question: query.text.clone() }),
            None => {
                let wanted = (of, question);
                if !self.wanted.contains(&wanted) {
                    self.wanted.push(wanted);
                }
                Err(Fault::Unanswered { question: query.text.clone() })
            }
        }
    }

    /// The call of `event` with the values of `arguments`.
    pub(crate) fn event_call(
        &mut self,
        event: &Name,
        arguments: &Arguments,
        locals: &[Value],
    ) -> Result<EventCall, Fault> {
        let mut values = vec![Value::Boolean(false); arguments.names.len()];
        for (slot, argument) in &arguments.values {
            values[*slot] = self.value(argument, locals)?;
        }
        Ok(EventCall::new(event.clone(), Bindings::of(&arguments.names, values)))
    }

    /// The set that `expr` yields.
    pub(crate) fn set(&mut self, expr: &Expr, locals: &[Value]) -> Result<Arc<BTreeSet<Value>>, Fault> {
        match self.value(expr, locals)? {
            Value::Set(elements) => Ok(elements),
            _ => Err(ill_typed(expr)),
        }
    }
}

fn bound<'a>(bindings: &'a Bindings, slot: &Slot) -> Result<&'a Value, Fault> {
    bindings.get_at(slot.index, &slot.name).ok_or_else(|| Fault::NoValue { name: slot.name.clone() })
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

/// Amounts of different currencies are unequal, and none of them is less.
fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool, Fault> {
    match (left, right) {
        (Value::Money(a), Value::Money(b)) if comparison.is_ordered() => {
            a.with_same_currency(*b)?;
            Ok(holds(comparison, a.minor().cmp(&b.minor())))
        }
        _ => Ok(holds(comparison, left.cmp(right))),
    }
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
