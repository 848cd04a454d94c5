//! The operations and functions of the language on values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bounded;
use crate::model::Builtin;
use crate::value::{Date, Decimal, Fault, Money, Percentage, Rounding, Value, text};

type Computed = Result<Value, Fault>;

/// The value of `builtin`; `None` if it is not defined for the values.
pub(super) fn apply(builtin: &Builtin, operands: &[Value]) -> Option<Computed> {
    match operands {
        [operand] => of_one(builtin, operand),
        [left, right] => of_two(builtin, left, right),
        [a, b, c] => of_three(builtin, a, b, c),
        _ => None,
    }
}

fn of_one(builtin: &Builtin, operand: &Value) -> Option<Computed> {
    Some(match (builtin, operand) {
        (Builtin::Negate, Value::Decimal(number)) => number.negate().map(Value::Decimal),
        (Builtin::Negate, Value::Duration(span)) => span.negate().map(Value::Duration),
        (Builtin::Negate, Value::Period(span)) => span.negate().map(Value::Period),
        (Builtin::Widen(decimals), number) => {
            decimal(number)?.and_then(|number| number.widened(*decimals)).map(Value::Decimal)
        }
        (Builtin::InCurrency(currency), Value::Money(money)) => {
            if money.currency() == *currency {
                Ok(operand.clone())
            } else {
                Err(Fault::CurrencyMismatch { left: money.currency(), right: *currency })
            }
        }
        (Builtin::Amount, Value::Money(money)) => money.amount().map(Value::Decimal),
        (Builtin::Zero, Value::Currency(currency)) => Money::new(*currency, 0).map(Value::Money).ok_or(Fault::Overflow),
        (Builtin::Round(decimals, rounding), Value::Decimal(number)) => {
            number.round(*decimals, *rounding).map(Value::Decimal)
        }
        (Builtin::Absolute, number) => absolute(number)?,
        (Builtin::Rank(enumeration), Value::Variant(variant)) => {
            let rank = enumeration.variants.iter().position(|name| *name == variant.name)?;
            i64::try_from(rank).map(Value::Integer).map_err(|_| Fault::Overflow)
        }
        (Builtin::Keys, Value::Map(entries)) => Ok(Value::Set(Arc::new(entries.keys().cloned().collect()))),
        (Builtin::Values, Value::Map(entries)) => Ok(Value::List(entries.values().cloned().collect())),
        (Builtin::Length, Value::String(of)) => Ok(Value::Integer(text::length(of))),
        (Builtin::Upper, Value::String(of)) => text::upper(of).map(Value::String),
        (Builtin::Lower, Value::String(of)) => text::lower(of).map(Value::String),
        (Builtin::Trim, Value::String(of)) => Ok(Value::String(text::trim(of))),
        (Builtin::Year, Value::Date(date)) => Ok(Value::Integer(date.year())),
        (Builtin::Month, Value::Date(date)) => Ok(Value::Integer(date.month().into())),
        (Builtin::Day, Value::Date(date)) => Ok(Value::Integer(date.day().into())),
        (Builtin::Weekday, Value::Date(date)) => Ok(Value::Integer(date.weekday().into())),
        (Builtin::Start, Value::Date(date)) => date.start().map(Value::Timestamp),
        (Builtin::Date, Value::Timestamp(time)) => Ok(Value::Date(time.date())),
        (Builtin::Time, Value::Timestamp(time)) => Ok(Value::Time(time.time())),
        (Builtin::Country, Value::Iban(iban)) => Ok(Value::String(iban.as_str().get(..2)?.into())),
        _ => return None,
    })
}

fn of_two(builtin: &Builtin, left: &Value, right: &Value) -> Option<Computed> {
    Some(match (builtin, left, right) {
        (Builtin::Add, a, b) => sum(a, b)?,
        (Builtin::Subtract, a, b) => difference(a, b)?,
        (Builtin::Multiply(rounding), a, b) => product(a, b, *rounding)?,
        (Builtin::Divide(rounding), a, b) => quotient(a, b, *rounding)?,
        (Builtin::Quotient, Value::Integer(a), Value::Integer(b)) => {
            floored(*a, *b).and_then(|(quotient, _)| integer(quotient))
        }
        (Builtin::Remainder, Value::Integer(a), Value::Integer(b)) => {
            floored(*a, *b).and_then(|(_, rest)| integer(rest))
        }
        (Builtin::Money, Value::Currency(currency), number) => {
            decimal(number)?.and_then(|number| Money::of_decimal(*currency, number)).map(Value::Money)
        }
        (Builtin::DivideTo(decimals, rounding), a, b) => match (decimal(a)?, decimal(b)?) {
            (Ok(a), Ok(b)) => a.divide(b, *decimals, *rounding).map(Value::Decimal),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
        },
        (Builtin::Share(rounding), Value::Money(part), Value::Money(whole)) => {
            Percentage::of_money(*part, *whole, *rounding).map(Value::Percentage)
        }
        (Builtin::Share(rounding), part, whole) => match (decimal(part)?, decimal(whole)?) {
            (Ok(part), Ok(whole)) => Percentage::of_decimals(part, whole, *rounding).map(Value::Percentage),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
        },
        (Builtin::Least, a, b) => is_less(b, a).map(|is_less| if is_less { b } else { a }.clone()),
        (Builtin::Greatest, a, b) => is_less(a, b).map(|is_less| if is_less { b } else { a }.clone()),
        (Builtin::Has, element, Value::List(elements)) => Ok(Value::Boolean(elements.contains(element))),
        (Builtin::Has, key, Value::Map(entries)) => Ok(Value::Boolean(entries.contains_key(key))),
        (Builtin::Element, Value::List(elements), Value::Integer(position)) => {
            let element = usize::try_from(*position).ok().and_then(|position| elements.get(position));
            element.cloned().ok_or_else(|| no_element(right))
        }
        (Builtin::Element, Value::Map(entries), key) => entries.get(key).cloned().ok_or_else(|| no_element(key)),
        (Builtin::Get, Value::Map(entries), key) => Ok(entries.get(key).cloned().unwrap_or(Value::None)),
        (Builtin::Append, Value::List(elements), element) => {
            bounded(elements.len() + 1).map(|()| Value::List(elements.iter().chain([element]).cloned().collect()))
        }
        (Builtin::Without, Value::Map(entries), key) => {
            let mut entries = BTreeMap::clone(entries);
            entries.remove(key);
            Ok(Value::Map(Arc::new(entries)))
        }
        (Builtin::StartsWith, Value::String(of), Value::String(part)) => {
            Ok(Value::Boolean(text::starts_with(of, part)))
        }
        (Builtin::EndsWith, Value::String(of), Value::String(part)) => Ok(Value::Boolean(text::ends_with(of, part))),
        (Builtin::Contains, Value::String(of), Value::String(part)) => Ok(Value::Boolean(text::contains(of, part))),
        _ => return None,
    })
}

fn of_three(builtin: &Builtin, a: &Value, b: &Value, c: &Value) -> Option<Computed> {
    Some(match (builtin, a, b, c) {
        (Builtin::Clamp, value, low, high) => {
            let clamped = || {
                Ok(if is_less(value, low)? {
                    low
                } else if is_less(high, value)? {
                    high
                } else {
                    value
                }
                .clone())
            };
            clamped()
        }
        (Builtin::Slice, Value::String(of), Value::Integer(from), Value::Integer(to)) => {
            text::slice(of, *from, *to).map(Value::String)
        }
        _ => return None,
    })
}

fn no_element(key: &Value) -> Fault {
    Fault::NoElement { key: key.to_string() }
}

/// Whether the first is less; amounts of different currencies have no order.
pub(super) fn is_less(left: &Value, right: &Value) -> Result<bool, Fault> {
    if let (Value::Money(a), Value::Money(b)) = (left, right) {
        a.with_same_currency(*b)?;
    }
    Ok(left < right)
}

/// The number as a Decimal.
fn decimal(value: &Value) -> Option<Result<Decimal, Fault>> {
    match value {
        Value::Decimal(number) => Some(Ok(*number)),
        Value::Integer(number) => Some(Decimal::of_integer(*number, 0)),
        _ => None,
    }
}

fn absolute(number: &Value) -> Option<Computed> {
    Some(match number {
        Value::Integer(number) => number.checked_abs().map(Value::Integer).ok_or(Fault::Overflow),
        Value::Money(money) if money.minor() < 0 => money.negate().map(Value::Money),
        Value::Percentage(share) if share.units() < 0 => share.times(-1).map(Value::Percentage),
        Value::Decimal(number) if number.units() < 0 => number.negate().map(Value::Decimal),
        Value::Duration(span) if span.millis() < 0 => span.negate().map(Value::Duration),
        Value::Money(_) | Value::Percentage(_) | Value::Decimal(_) | Value::Duration(_) => Ok(number.clone()),
        _ => return None,
    })
}

/// Quotient towards minus infinity, and what is left.
fn floored(a: i64, b: i64) -> Result<(i128, i128), Fault> {
    if b == 0 {
        return Err(Fault::DivisionByZero);
    }
    let (a, b) = (i128::from(a), i128::from(b));
    let rest = ((a % b) + b) % b;
    Ok(((a - rest) / b, rest))
}

fn integer(number: i128) -> Computed {
    i64::try_from(number).map(Value::Integer).map_err(|_| Fault::Overflow)
}

pub(super) fn sum(left: &Value, right: &Value) -> Option<Computed> {
    Some(match (left, right) {
        (Value::Decimal(a), Value::Decimal(b)) => a.add(*b).map(Value::Decimal),
        (Value::Duration(a), Value::Duration(b)) => a.add(*b).map(Value::Duration),
        (Value::Period(a), Value::Period(b)) => a.add(*b).map(Value::Period),
        (Value::Date(day), Value::Period(span)) => day.plus_period(*span).map(Value::Date),
        (Value::Timestamp(time), Value::Duration(span)) => time.plus(*span).map(Value::Timestamp),
        (Value::Timestamp(time), Value::Period(span)) => time.plus_period(*span).map(Value::Timestamp),
        (Value::String(a), Value::String(b)) => text::concat(a, b).map(Value::String),
        (Value::List(a), Value::List(b)) => {
            bounded(a.len() + b.len()).map(|()| Value::List(a.iter().chain(&**b).cloned().collect()))
        }
        (Value::Set(a), Value::Set(b)) => {
            let elements: BTreeSet<Value> = a.union(b).cloned().collect();
            bounded(elements.len()).map(|()| Value::Set(Arc::new(elements)))
        }
        _ => return None,
    })
}

fn difference(left: &Value, right: &Value) -> Option<Computed> {
    Some(match (left, right) {
        (Value::Decimal(a), Value::Decimal(b)) => a.subtract(*b).map(Value::Decimal),
        (Value::Duration(a), Value::Duration(b)) => a.subtract(*b).map(Value::Duration),
        (Value::Period(a), Value::Period(b)) => a.subtract(*b).map(Value::Period),
        (Value::Date(day), Value::Period(span)) => day.minus_period(*span).map(Value::Date),
        (Value::Timestamp(time), Value::Duration(span)) => time.minus(*span).map(Value::Timestamp),
        (Value::Timestamp(time), Value::Period(span)) => time.minus_period(*span).map(Value::Timestamp),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.since(*b).map(Value::Duration),
        (Value::Set(a), Value::Set(b)) => Ok(Value::Set(Arc::new(a.difference(b).cloned().collect()))),
        _ => return None,
    })
}

fn product(left: &Value, right: &Value, rounding: Rounding) -> Option<Computed> {
    Some(match (left, right) {
        (Value::Decimal(a), Value::Decimal(b)) => a.times(*b).map(Value::Decimal),
        (Value::Decimal(a), Value::Integer(b)) => a.times_integer(*b).map(Value::Decimal),
        (Value::Decimal(a), Value::Percentage(b)) => a.share(*b, rounding).map(Value::Decimal),
        (Value::Money(a), Value::Decimal(b)) => a.times_decimal(*b, rounding).map(Value::Money),
        (Value::Duration(a), Value::Integer(b)) => a.times(*b).map(Value::Duration),
        (Value::Period(a), Value::Integer(b)) => a.times(*b).map(Value::Period),
        _ => return None,
    })
}

fn quotient(left: &Value, right: &Value, rounding: Rounding) -> Option<Computed> {
    Some(match (left, right) {
        (Value::Money(a), Value::Integer(b)) => a.divide_integer(*b, rounding).map(Value::Money),
        (Value::Money(a), Value::Decimal(b)) => a.divide(*b, rounding).map(Value::Money),
        (Value::Decimal(a), number) => {
            decimal(number)?.and_then(|by| a.divide(by, a.decimals(), rounding)).map(Value::Decimal)
        }
        _ => return None,
    })
}

/// The number of the first element of a range, that of the last, and the element with a number.
type OneByOne = (i64, i64, fn(i64) -> Option<Value>);

/// The days or numbers of a range, one by one.
pub(super) fn one_by_one(low: &Value, high: &Value) -> Option<OneByOne> {
    match (low, high) {
        (Value::Integer(first), Value::Integer(last)) => Some((*first, *last, |number| Some(Value::Integer(number)))),
        (Value::Date(first), Value::Date(last)) => {
            Some((first.days(), last.days(), |days| Date::from_days(days).map(Value::Date)))
        }
        _ => None,
    }
}
