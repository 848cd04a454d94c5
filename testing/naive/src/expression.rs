//! Expressions.
//!
//! Operands are evaluated from left to right. A fault ends the evaluation; a question without an answer does not, so that what the
//! operands behind it ask is met in the same round.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enact_rebel::ir::{Arguments, Asks, Comparison, Expr, ExprKind, NumberKind, Operator, Query, Slot};
use enact_rebel::{Key, Name, RecordType, RecordValue, Reference, Timestamp, Value};
use num_bigint::BigInt;

use crate::reason::Fault;
use crate::world::{Call, Fields, key_of_values, value_of_key};
use crate::{builtin, coverage, number, order, seed};

/// The greatest number of elements of a collection, and of a range.
pub(crate) const ELEMENTS: usize = 10_000;

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Fault(Fault),
    /// Something is asked that has no answer yet.
    Waits,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(crate) type Computed = Result<Value, Stop>;

/// What another instance is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) of: Reference,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Field(Name),
    Exists,
    IsIn(Vec<Name>),
    Can(Call),
    Result(Call),
}

/// A question, and its answer if there is one: nothing of a field without a value, and of a read event that is refused.
pub(crate) type Answer = (Question, Option<Value>);

/// What an expression reads.
pub(crate) struct Reading<'a> {
    /// The instance.
    pub(crate) of: &'a Reference,
    /// Its fields, before the event.
    pub(crate) fields: &'a Fields,
    /// Its fields after the event, for what is returned.
    pub(crate) after: Option<Fields>,
    /// The event, if there is one.
    pub(crate) call: Option<&'a Call>,
    pub(crate) at: Timestamp,
    pub(crate) answers: &'a [Answer],
    /// What was asked and has no answer, each once.
    pub(crate) wanted: Vec<Question>,
}

impl<'a> Reading<'a> {
    /// Fields alone: what an invariant and a timer read.
    pub(crate) fn of_fields(of: &'a Reference, fields: &'a Fields) -> Self {
        let at = Timestamp::from_millis(0);
        Self { of, fields, after: None, call: None, at, answers: &[], wanted: Vec::new() }
    }

    pub(crate) fn truth(&mut self, expr: &Expr, locals: &[Value]) -> Result<bool, Stop> {
        self.value(expr, locals).map(|value| is_true(&value))
    }

    pub(crate) fn reference(&mut self, expr: &Expr, locals: &[Value]) -> Result<Reference, Stop> {
        self.value(expr, locals).map(reference)
    }

    /// The values of all operands.
    pub(crate) fn values<'e>(
        &mut self,
        operands: impl IntoIterator<Item = &'e Expr>,
        locals: &[Value],
    ) -> Result<Vec<Value>, Stop> {
        let (mut values, mut waits) = (Vec::new(), false);
        for operand in operands {
            match self.value(operand, locals) {
                Ok(value) => values.push(value),
                Err(Stop::Waits) => waits = true,
                Err(fault) => return Err(fault),
            }
        }
        if waits { Err(Stop::Waits) } else { Ok(values) }
    }

    fn pair(&mut self, left: &Expr, right: &Expr, locals: &[Value]) -> Result<(Value, Value), Stop> {
        let values = self.values([left, right], locals)?;
        let [left, right] = <[Value; 2]>::try_from(values).expect("two operands");
        Ok((left, right))
    }

    pub(crate) fn value(&mut self, expr: &Expr, locals: &[Value]) -> Computed {
        coverage::kind(expr.kind());
        match expr.kind() {
            ExprKind::Literal(value) => Ok(value.clone()),
            ExprKind::Identity(index) => Ok(value_of_key(&self.of.key, *index)),
            ExprKind::This => Ok(Value::Reference(self.of.clone())),
            ExprKind::Now => Ok(Value::Timestamp(self.at)),
            ExprKind::Today => Ok(Value::Date(number::day_of(self.at))),
            ExprKind::Fresh(class, index) => {
                let seed = self.call.and_then(|call| call.seed).ok_or(Fault::NoSeed)?;
                let key = Key::Id(seed::identity(seed, *index));
                Ok(Value::Reference(Reference { class: class.clone(), key }))
            }
            ExprKind::CallerId => {
                let caller =
                    self.call.and_then(|call| call.caller.as_ref()).expect("an event that reads it needs a caller");
                Ok(Value::String(caller.id().clone()))
            }
            ExprKind::HasRole(role) => {
                let caller = self.call.and_then(|call| call.caller.as_ref());
                Ok(Value::Boolean(caller.is_some_and(|caller| caller.roles().contains(role))))
            }
            ExprKind::Field(slot) => Ok(bound(self.fields, slot)),
            ExprKind::NewField(slot) => Ok(bound(self.after.as_ref().expect("read by what is returned alone"), slot)),
            ExprKind::Param(slot) => Ok(bound(&self.call.expect("read by events alone").arguments, slot)),
            ExprKind::Let(named) => self.value(&named.value, &[]),
            ExprKind::Local(index) => Ok(locals[*index].clone()),
            ExprKind::Arithmetic(operator, kind, left, right) => {
                let (left, right) = self.pair(left, right, locals)?;
                Ok(arithmetic(*operator, *kind, &left, &right)?)
            }
            ExprKind::Share(rounding, amount, rate) => {
                let (amount, rate) = self.pair(amount, rate, locals)?;
                let (Value::Money(amount), Value::Percentage(rate)) = (&amount, &rate) else { panic!("{expr:?}") };
                let product = BigInt::from(amount.minor()) * rate.units();
                Ok(number::money(amount.currency(), number::rounded(&product, &number::whole(), *rounding)?)?)
            }
            ExprKind::Negate(_, operand) => Ok(builtin::negated(&self.value(operand, locals)?)?),
            ExprKind::Compare(comparison, _, left, right) => {
                let (left, right) = self.pair(left, right, locals)?;
                Ok(Value::Boolean(compare(*comparison, &left, &right)?))
            }
            ExprKind::CompareZero(comparison, operand) => {
                let number = match self.value(operand, locals)? {
                    Value::Money(money) => money.minor(),
                    Value::Percentage(percentage) => percentage.units(),
                    other => panic!("{other:?} is no amount"),
                };
                Ok(Value::Boolean(holds(*comparison, number.cmp(&0))))
            }
            ExprKind::Not(operand) => Ok(Value::Boolean(!self.truth(operand, locals)?)),
            ExprKind::And(left, right) => Ok(Value::Boolean(self.truth(left, locals)? && self.truth(right, locals)?)),
            ExprKind::Or(left, right) => Ok(Value::Boolean(self.truth(left, locals)? || self.truth(right, locals)?)),
            ExprKind::If(condition, accepted, otherwise) => {
                let chosen = if self.truth(condition, locals)? { accepted } else { otherwise };
                self.value(chosen, locals)
            }
            ExprKind::Otherwise(optional, other) => match self.value(optional, locals)? {
                Value::None => self.value(other, locals),
                value => Ok(value),
            },
            ExprKind::Present(optional) => match self.value(optional, locals)? {
                Value::None => Err(Fault::IsNone.into()),
                value => Ok(value),
            },
            ExprKind::In(element, set) => {
                let (element, set) = self.pair(element, set, locals)?;
                Ok(Value::Boolean(order::elements(&set).iter().any(|other| order::same(other, &element))))
            }
            ExprKind::Within(_, operands, is_closed) => self.within(operands, *is_closed, locals),
            ExprKind::Range(low, high, is_closed) => {
                let (low, high) = self.pair(low, high, locals)?;
                range(&low, &high, *is_closed)
            }
            ExprKind::Set(items) => Ok(set_of(self.values(items, locals)?)?),
            ExprKind::Insert(set, element) => {
                let (set, element) = self.pair(set, element, locals)?;
                Ok(set_of(order::elements(&set).into_iter().chain([element]).collect())?)
            }
            ExprKind::Remove(set, element) => {
                let (set, element) = self.pair(set, element, locals)?;
                let rest = order::elements(&set).into_iter().filter(|other| !order::same(other, &element));
                Ok(set_of(rest.collect())?)
            }
            ExprKind::List(items) => Ok(list_of(self.values(items, locals)?)?),
            ExprKind::Map(entries) => self.map(entries, locals),
            ExprKind::Updated(of, updates) => self.updated(of, updates, locals),
            ExprKind::SizeOf(of) => Ok(number::integer(order::elements(&self.value(of, locals)?).len())?),
            ExprKind::CurrencyOf(amount) => match self.value(amount, locals)? {
                Value::Money(money) => Ok(Value::Currency(money.currency())),
                other => panic!("{other:?} is no amount"),
            },
            ExprKind::Call(function, arguments) => {
                let arguments = self.values(arguments, locals)?;
                self.value(&function.body, &arguments)
            }
            ExprKind::KeyOf(instance, index) => Ok(value_of_key(&self.reference(instance, locals)?.key, *index)),
            ExprKind::Refer(class, fields) => {
                let key = key_of_values(&self.values(fields, locals)?).ok_or(Fault::NoKey)?;
                Ok(Value::Reference(Reference { class: class.clone(), key }))
            }
            ExprKind::Record(record, fields) => Ok(record_of(record, self.values(fields, locals)?)),
            ExprKind::FieldOf(record, index) => Ok(fields_of(self.value(record, locals)?)[*index].1.clone()),
            ExprKind::With(record, changes) => {
                let new = changes.iter().map(|(_, value)| value);
                let mut values = self.values([&**record].into_iter().chain(new), locals)?.into_iter();
                let record = values.next().expect("the record");
                let Value::Record(old) = &record else { panic!("{record:?} is no record") };
                let mut fields = old.fields.clone();
                for ((index, _), value) in changes.iter().zip(values) {
                    fields[*index].1 = value;
                }
                Ok(Value::Record(Arc::new(RecordValue { of: old.of.clone(), fields })))
            }
            ExprKind::Aggregate(aggregate) => self.aggregate(aggregate, locals),
            ExprKind::Apply(of, operands) => {
                coverage::builtin(of);
                Ok(builtin::apply(of, &self.values(operands, locals)?)?)
            }
            ExprKind::Ask(target, query) => self.ask(target, query, locals),
            unknown => panic!("an expression that is not known: {unknown:?}"),
        }
    }

    /// The value lies between two others. The upper bound is looked at only if the lower one holds.
    fn within(&mut self, [value, low, high]: &[Expr; 3], is_closed: bool, locals: &[Value]) -> Computed {
        let (value, low) = self.pair(value, low, locals)?;
        if order::ordered(&value, &low)?.is_lt() {
            return Ok(Value::Boolean(false));
        }
        let order = order::ordered(&value, &self.value(high, locals)?)?;
        Ok(Value::Boolean(order.is_lt() || is_closed && order.is_eq()))
    }

    /// The map of these entries. Two values for one entry are a fault as soon as the second is known.
    fn map(&mut self, entries: &[(Expr, Expr)], locals: &[Value]) -> Computed {
        let (mut given, mut waits): (Vec<(Value, Value)>, bool) = (Vec::new(), false);
        for (key, value) in entries {
            match self.pair(key, value, locals) {
                Ok((key, value)) => {
                    let is_other =
                        |(earlier, old): &(Value, Value)| order::same(earlier, &key) && !order::same(old, &value);
                    if given.iter().any(is_other) {
                        return Err(Fault::TwoValues.into());
                    }
                    given.push((key, value));
                }
                Err(Stop::Waits) => waits = true,
                Err(fault) => return Err(fault),
            }
        }
        if waits { Err(Stop::Waits) } else { Ok(map_of(given.into_iter())?) }
    }

    fn ask(&mut self, target: &Expr, query: &Query, locals: &[Value]) -> Computed {
        let (of, what) = match &query.asks {
            Asks::Field(name) => (self.reference(target, locals)?, What::Field(name.clone())),
            Asks::Initialized => (self.reference(target, locals)?, What::Exists),
            Asks::InState(states) => (self.reference(target, locals)?, What::IsIn(states.to_vec())),
            Asks::Possible { event, arguments } => {
                let (of, call) = self.call_of(target, event, arguments, locals)?;
                (of, What::Can(call))
            }
            Asks::Result { event, arguments } => {
                let (of, call) = self.call_of(target, event, arguments, locals)?;
                (of, What::Result(call))
            }
            unknown => panic!("a question that is not known: {unknown:?}"),
        };
        let question = Question { of, what };
        let fault = if matches!(question.what, What::Result(_)) { Fault::Refused } else { Fault::Absent };
        match self.answers.iter().find(|(asked, _)| *asked == question) {
            Some((_, answer)) => answer.clone().ok_or(fault.into()),
            None => {
                if !self.wanted.contains(&question) {
                    self.wanted.push(question);
                }
                Err(Stop::Waits)
            }
        }
    }

    /// An instance and a call of an event of it, by the same caller.
    pub(crate) fn call_of(
        &mut self,
        target: &Expr,
        event: &Name,
        arguments: &Arguments,
        locals: &[Value],
    ) -> Result<(Reference, Call), Stop> {
        let given = arguments.values.iter().map(|(_, argument)| argument);
        let mut values = self.values([target].into_iter().chain(given), locals)?.into_iter();
        let of = reference(values.next().expect("the target"));
        let names = arguments.values.iter().map(|(index, _)| arguments.names[*index].clone());
        let call = Call {
            event: event.clone(),
            arguments: names.zip(values).collect(),
            caller: self.call.and_then(|call| call.caller.clone()),
            seed: None,
        };
        Ok((of, call))
    }
}

fn bound(values: &Fields, slot: &Slot) -> Value {
    values.get(&slot.name).unwrap_or_else(|| panic!("`{}` has no value", slot.name)).clone()
}

pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Boolean(truth) => *truth,
        other => panic!("{other:?} is no truth"),
    }
}

fn reference(value: Value) -> Reference {
    match value {
        Value::Reference(reference) => reference,
        other => panic!("{other:?} is no instance"),
    }
}

fn fields_of(value: Value) -> Vec<(Name, Value)> {
    match value {
        Value::Record(record) => record.fields.clone(),
        other => panic!("{other:?} is no record"),
    }
}

fn record_of(record: &RecordType, values: Vec<Value>) -> Value {
    assert_eq!(record.fields.len(), values.len(), "a value for each field of {}", record.name);
    let fields = record.fields.iter().map(|(name, _)| name.clone()).zip(values).collect();
    Value::Record(Arc::new(RecordValue { of: record.name.clone(), fields }))
}

/// The set of these values.
pub(crate) fn set_of(mut values: Vec<Value>) -> Result<Value, Fault> {
    values.sort_by(order::canonical);
    values.dedup_by(|a, b| order::same(a, b));
    limited(values.len())?;
    let count = values.len();
    let set: BTreeSet<Value> = values.into_iter().collect();
    assert_eq!(set.len(), count, "values that differ are different elements: {set:?}");
    Ok(Value::Set(set.into()))
}

pub(crate) fn list_of(values: Vec<Value>) -> Result<Value, Fault> {
    limited(values.len())?;
    Ok(Value::List(values.into()))
}

/// The map of these entries; one key with two values is a fault.
pub(crate) fn map_of(entries: impl Iterator<Item = (Value, Value)>) -> Result<Value, Fault> {
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    for (key, value) in entries {
        if map.get(&key).is_some_and(|earlier| !order::same(earlier, &value)) {
            return Err(Fault::TwoValues);
        }
        map.insert(key, value);
    }
    limited(map.len())?;
    Ok(Value::Map(map.into()))
}

fn limited(count: usize) -> Result<(), Fault> {
    if count > ELEMENTS { Err(Fault::TooManyElements) } else { Ok(()) }
}

/// The numbers or days from `low` to `high`.
fn range(low: &Value, high: &Value, is_closed: bool) -> Computed {
    let (low, high, is_date) = match (low, high) {
        (Value::Integer(low), Value::Integer(high)) => (i128::from(*low), i128::from(*high), false),
        (Value::Date(low), Value::Date(high)) => (i128::from(low.days()), i128::from(high.days()), true),
        _ => panic!("no range: {low:?} .. {high:?}"),
    };
    let end = if is_closed { high + 1 } else { high };
    if end - low > ELEMENTS as i128 {
        return Err(Fault::TooManyElements.into());
    }
    let element = |number: i128| if is_date { number::date(number).map(Value::Date) } else { number::integer(number) };
    let elements = (low..end).map(element).collect::<Result<Vec<Value>, Fault>>()?;
    Ok(set_of(elements)?)
}

/// Sums, differences and products of whole numbers, amounts, percentages and days.
pub(crate) fn arithmetic(operator: Operator, kind: NumberKind, left: &Value, right: &Value) -> Result<Value, Fault> {
    let of = |left: BigInt, right: BigInt| match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        unknown => panic!("an operator that is not known: {unknown:?}"),
    };
    match (kind, left, right) {
        (NumberKind::Integer, Value::Integer(a), Value::Integer(b)) => number::integer(of((*a).into(), (*b).into())),
        (NumberKind::Integer, Value::Date(a), Value::Date(b)) => number::integer(of(a.days().into(), b.days().into())),
        (NumberKind::Date, Value::Date(day), Value::Integer(days)) => {
            number::date(of(day.days().into(), (*days).into())).map(Value::Date)
        }
        (NumberKind::Money, Value::Money(a), Value::Money(b)) => {
            if a.currency() != b.currency() {
                return Err(Fault::CurrencyMismatch);
            }
            number::money(a.currency(), of(a.minor().into(), b.minor().into()))
        }
        (NumberKind::Money, Value::Money(a), Value::Integer(b)) => {
            number::money(a.currency(), of(a.minor().into(), (*b).into()))
        }
        (NumberKind::Percentage, Value::Percentage(a), Value::Percentage(b)) => {
            number::percentage(of(a.units().into(), b.units().into()))
        }
        (NumberKind::Percentage, Value::Percentage(a), Value::Integer(b)) => {
            number::percentage(of(a.units().into(), (*b).into()))
        }
        _ => panic!("{operator:?} of {kind:?} is not defined for {left:?} and {right:?}"),
    }
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool, Fault> {
    Ok(match comparison {
        Comparison::Equal => order::same(left, right),
        Comparison::Unequal => !order::same(left, right),
        _ => holds(comparison, order::ordered(left, right)?),
    })
}

fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::Unequal => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }
}
