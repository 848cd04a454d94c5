//! Operations and functions on values.

use std::collections::BTreeMap;

use enact_rebel::ir::Builtin;
use enact_rebel::{Date, Rounding, Time, Value};
use num_bigint::BigInt;

use crate::expression::{list_of, set_of};
use crate::number::{self, digits, power};
use crate::order;
use crate::reason::Fault;

type Computed = Result<Value, Fault>;

/// The greatest number of bytes of a text that is made.
const BYTES: usize = 65_536;

/// Decimals of the number of an amount, whatever its currency.
const AMOUNT_DECIMALS: u32 = 4;

pub(crate) fn apply(builtin: &Builtin, operands: &[Value]) -> Computed {
    match (builtin, operands) {
        (Builtin::Add, [a, b]) => sum(a, b),
        (Builtin::Subtract, [a, b]) => difference(a, b),
        (Builtin::Multiply(rounding), [a, b]) => product(a, b, *rounding),
        (Builtin::Divide(rounding), [a, b]) => quotient(a, b, *rounding),
        (Builtin::Quotient, [Value::Integer(a), Value::Integer(b)]) => {
            number::integer(number::rounded(&(*a).into(), &(*b).into(), Rounding::Floor)?)
        }
        (Builtin::Remainder, [Value::Integer(a), Value::Integer(b)]) => {
            let quotient = number::rounded(&(*a).into(), &(*b).into(), Rounding::Floor)?;
            number::integer(BigInt::from(*a) - quotient * *b)
        }
        (Builtin::Negate, [a]) => negated(a),
        (Builtin::Widen(decimals), [a]) => {
            let (units, had) = digits(a);
            number::decimal(units * power(u32::from(*decimals) - had), (*decimals).into())
        }
        (Builtin::InCurrency(currency), [Value::Money(money)]) => {
            if money.currency() == *currency {
                Ok(operands[0].clone())
            } else {
                Err(Fault::CurrencyMismatch)
            }
        }
        (Builtin::Amount, [Value::Money(money)]) => {
            let finer = AMOUNT_DECIMALS - money.currency().decimals();
            number::decimal(BigInt::from(money.minor()) * power(finer), AMOUNT_DECIMALS)
        }
        (Builtin::Money, [Value::Currency(currency), a]) => {
            let (units, decimals) = digits(a);
            let (dividend, divisor) = (units * power(currency.decimals()), power(decimals));
            let money = number::money(*currency, &dividend / &divisor)?;
            if dividend % divisor == BigInt::from(0) { Ok(money) } else { Err(Fault::Inexact) }
        }
        (Builtin::Zero, [Value::Currency(currency)]) => number::money(*currency, 0),
        (Builtin::Round(decimals, rounding), [a]) => {
            let (units, had) = digits(a);
            let units = number::rounded(&(units * power((*decimals).into())), &power(had), *rounding)?;
            number::decimal(units, (*decimals).into())
        }
        (Builtin::DivideTo(decimals, rounding), [a, b]) => divided(a, b, (*decimals).into(), *rounding),
        (Builtin::Share(rounding), [Value::Money(a), Value::Money(b)]) => {
            if a.currency() != b.currency() {
                return Err(Fault::CurrencyMismatch);
            }
            number::percentage(number::rounded(&(number::whole() * a.minor()), &b.minor().into(), *rounding)?)
        }
        (Builtin::Share(rounding), [a, b]) => {
            let ((a, p), (b, q)) = (digits(a), digits(b));
            let (dividend, divisor) = (a * number::whole() * power(q), b * power(p));
            number::percentage(number::rounded(&dividend, &divisor, *rounding)?)
        }
        (Builtin::Absolute, [a]) => {
            if is_negative(a) {
                negated(a)
            } else {
                Ok(a.clone())
            }
        }
        (Builtin::Least, [a, b]) => Ok(if order::ordered(b, a)?.is_lt() { b } else { a }.clone()),
        (Builtin::Greatest, [a, b]) => Ok(if order::ordered(b, a)?.is_gt() { b } else { a }.clone()),
        (Builtin::Clamp, [value, low, high]) => Ok(if order::ordered(value, low)?.is_lt() {
            low.clone()
        } else if order::ordered(value, high)?.is_gt() {
            high.clone()
        } else {
            value.clone()
        }),
        (Builtin::Rank(of), [Value::Variant(variant)]) => {
            number::integer(of.variants.iter().position(|name| *name == variant.name).expect("one of its enum"))
        }
        _ => of_collections(builtin, operands),
    }
}

fn of_collections(builtin: &Builtin, operands: &[Value]) -> Computed {
    match (builtin, operands) {
        (Builtin::Has, [element, of]) => {
            Ok(Value::Boolean(order::elements(of).iter().any(|other| order::same(other, element))))
        }
        (Builtin::Element, [Value::List(elements), Value::Integer(position)]) => {
            let found = elements.iter().zip(0_i64..).find(|(_, number)| number == position);
            found.map(|(element, _)| element.clone()).ok_or(Fault::NoElement)
        }
        (Builtin::Element, [Value::Map(entries), key]) => under(entries, key).ok_or(Fault::NoElement),
        (Builtin::Get, [Value::Map(entries), key]) => Ok(under(entries, key).unwrap_or(Value::None)),
        (Builtin::Keys, [map]) => set_of(order::elements(map)),
        (Builtin::Values, [map @ Value::Map(entries)]) => {
            list_of(order::elements(map).iter().filter_map(|key| under(entries, key)).collect())
        }
        (Builtin::Append, [Value::List(elements), element]) => {
            list_of(elements.iter().chain([element]).cloned().collect())
        }
        (Builtin::Without, [Value::Map(entries), key]) => {
            let rest = entries.iter().filter(|(other, _)| !order::same(other, key));
            let rest: BTreeMap<Value, Value> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
            Ok(Value::Map(rest.into()))
        }
        _ => of_texts_and_times(builtin, operands),
    }
}

fn of_texts_and_times(builtin: &Builtin, operands: &[Value]) -> Computed {
    let whole = |number: i64| Ok(Value::Integer(number));
    match (builtin, operands) {
        (Builtin::Length, [Value::String(text)]) => number::integer(text.chars().count()),
        (Builtin::StartsWith, [Value::String(text), Value::String(part)]) => {
            Ok(Value::Boolean(text.starts_with(&**part)))
        }
        (Builtin::EndsWith, [Value::String(text), Value::String(part)]) => Ok(Value::Boolean(text.ends_with(&**part))),
        (Builtin::Contains, [Value::String(text), Value::String(part)]) => Ok(Value::Boolean(text.contains(&**part))),
        (Builtin::Upper, [Value::String(text)]) => {
            text_of(&text.chars().flat_map(char::to_uppercase).collect::<String>())
        }
        (Builtin::Lower, [Value::String(text)]) => {
            text_of(&text.chars().flat_map(char::to_lowercase).collect::<String>())
        }
        (Builtin::Trim, [Value::String(text)]) => text_of(text.trim()),
        (Builtin::Slice, [Value::String(text), Value::Integer(from), Value::Integer(to)]) => {
            let letters: Vec<char> = text.chars().collect();
            let place = |number: &i64| usize::try_from(*number).map_err(|_| Fault::OutOfRange);
            let part = letters.get(place(from)?..place(to)?).ok_or(Fault::OutOfRange)?;
            text_of(&part.iter().collect::<String>())
        }
        (Builtin::Year, [Value::Date(day)]) => whole(day.year()),
        (Builtin::Month, [Value::Date(day)]) => whole(day.month().into()),
        (Builtin::Day, [Value::Date(day)]) => whole(day.day().into()),
        (Builtin::Weekday, [Value::Date(day)]) => whole(weekday(*day)),
        (Builtin::Start, [Value::Date(day)]) => {
            number::timestamp(BigInt::from(day.days()) * number::DAY).map(Value::Timestamp)
        }
        (Builtin::Date, [Value::Timestamp(time)]) => Ok(Value::Date(number::day_of(*time))),
        (Builtin::Time, [Value::Timestamp(time)]) => {
            let of_day = Time::from_millis(time.millis().rem_euclid(number::DAY)).expect("within a day");
            Ok(Value::Time(of_day))
        }
        (Builtin::Country, [Value::Iban(iban)]) => text_of(&iban.as_str().chars().take(2).collect::<String>()),
        _ => panic!("{builtin:?} is not known, or not defined for {operands:?}"),
    }
}

/// 1 for Monday. The first of January 1970 was a Thursday.
fn weekday(day: Date) -> i64 {
    (day.days() + 3).rem_euclid(7) + 1
}

fn under(entries: &BTreeMap<Value, Value>, key: &Value) -> Option<Value> {
    entries.iter().find(|(other, _)| order::same(other, key)).map(|(_, value)| value.clone())
}

fn text_of(text: &str) -> Computed {
    if text.len() > BYTES { Err(Fault::TooLong) } else { Ok(Value::String(text.into())) }
}

pub(crate) fn sum(left: &Value, right: &Value) -> Computed {
    match (left, right) {
        (Value::Decimal(_), Value::Decimal(_)) => aligned(left, right, |a, b| a + b),
        (Value::Duration(a), Value::Duration(b)) => number::duration(BigInt::from(a.millis()) + b.millis()),
        (Value::Period(a), Value::Period(b)) => {
            number::period(BigInt::from(a.months()) + b.months(), BigInt::from(a.days()) + b.days())
        }
        (Value::Date(day), Value::Period(span)) => {
            number::later(*day, span.months().into(), span.days().into()).map(Value::Date)
        }
        (Value::Timestamp(time), Value::Duration(span)) => {
            number::timestamp(BigInt::from(time.millis()) + span.millis()).map(Value::Timestamp)
        }
        (Value::Timestamp(time), Value::Period(span)) => {
            at_later_day(time.millis(), span.months().into(), span.days().into())
        }
        (Value::String(a), Value::String(b)) => text_of(&format!("{a}{b}")),
        (Value::List(a), Value::List(b)) => list_of(a.iter().chain(b.iter()).cloned().collect()),
        (Value::Set(_), Value::Set(_)) => set_of([order::elements(left), order::elements(right)].concat()),
        _ => panic!("there is no sum of {left:?} and {right:?}"),
    }
}

fn difference(left: &Value, right: &Value) -> Computed {
    match (left, right) {
        (Value::Decimal(_), Value::Decimal(_)) => aligned(left, right, |a, b| a - b),
        (Value::Duration(a), Value::Duration(b)) => number::duration(BigInt::from(a.millis()) - b.millis()),
        (Value::Period(a), Value::Period(b)) => {
            number::period(BigInt::from(a.months()) - b.months(), BigInt::from(a.days()) - b.days())
        }
        (Value::Date(day), Value::Period(span)) => {
            number::later(*day, -i64::from(span.months()), -i64::from(span.days())).map(Value::Date)
        }
        (Value::Timestamp(time), Value::Duration(span)) => {
            number::timestamp(BigInt::from(time.millis()) - span.millis()).map(Value::Timestamp)
        }
        (Value::Timestamp(time), Value::Period(span)) => {
            at_later_day(time.millis(), -i64::from(span.months()), -i64::from(span.days()))
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => number::duration(BigInt::from(a.millis()) - b.millis()),
        (Value::Set(_), Value::Set(_)) => {
            let without = order::elements(right);
            let is_kept = |element: &Value| !without.iter().any(|other| order::same(other, element));
            set_of(order::elements(left).into_iter().filter(is_kept).collect())
        }
        _ => panic!("there is no difference of {left:?} and {right:?}"),
    }
}

/// The same time of a later day, in UTC.
fn at_later_day(millis: i64, months: i64, days: i64) -> Computed {
    let day = Date::from_days(millis.div_euclid(number::DAY)).expect("every time lies on a day");
    let day = number::later(day, months, days)?;
    let millis = BigInt::from(day.days()) * number::DAY + millis.rem_euclid(number::DAY);
    number::timestamp(millis).map(Value::Timestamp)
}

fn product(left: &Value, right: &Value, rounding: Rounding) -> Computed {
    match (left, right) {
        (Value::Decimal(_), Value::Decimal(_) | Value::Integer(_)) => {
            let ((a, p), (b, q)) = (digits(left), digits(right));
            number::decimal(a * b, p + q)
        }
        (Value::Decimal(_), Value::Percentage(rate)) => {
            let (units, decimals) = digits(left);
            number::decimal(number::rounded(&(units * rate.units()), &number::whole(), rounding)?, decimals)
        }
        (Value::Money(money), Value::Decimal(_)) => {
            let (units, decimals) = digits(right);
            let minor = number::rounded(&(units * money.minor()), &power(decimals), rounding)?;
            number::money(money.currency(), minor)
        }
        (Value::Duration(span), Value::Integer(times)) => number::duration(BigInt::from(span.millis()) * *times),
        (Value::Period(span), Value::Integer(times)) => {
            number::period(BigInt::from(span.months()) * *times, BigInt::from(span.days()) * *times)
        }
        _ => panic!("there is no product of {left:?} and {right:?}"),
    }
}

fn quotient(left: &Value, right: &Value, rounding: Rounding) -> Computed {
    let (divisor, decimals) = digits(right);
    match left {
        Value::Money(money) => {
            let minor = number::rounded(&(power(decimals) * money.minor()), &divisor, rounding)?;
            number::money(money.currency(), minor)
        }
        Value::Decimal(number) => divided(left, right, number.decimals().into(), rounding),
        _ => panic!("there is no quotient of {left:?} and {right:?}"),
    }
}

/// A quotient with so many decimals.
fn divided(left: &Value, right: &Value, decimals: u32, rounding: Rounding) -> Computed {
    let ((a, p), (b, q)) = (digits(left), digits(right));
    number::decimal(number::rounded(&(a * power(q + decimals)), &(b * power(p)), rounding)?, decimals)
}

/// What two decimals make of each other, with as many decimals as the one that has more.
fn aligned(left: &Value, right: &Value, of: impl Fn(BigInt, BigInt) -> BigInt) -> Computed {
    let ((a, p), (b, q)) = (digits(left), digits(right));
    let decimals = p.max(q);
    number::decimal(of(a * power(decimals - p), b * power(decimals - q)), decimals)
}

pub(crate) fn negated(value: &Value) -> Computed {
    match value {
        Value::Integer(number) => number::integer(-BigInt::from(*number)),
        Value::Money(money) => number::money(money.currency(), -BigInt::from(money.minor())),
        Value::Percentage(percentage) => number::percentage(-BigInt::from(percentage.units())),
        Value::Decimal(number) => number::decimal(-BigInt::from(number.units()), number.decimals().into()),
        Value::Duration(span) => number::duration(-BigInt::from(span.millis())),
        Value::Period(span) => number::period(-BigInt::from(span.months()), -BigInt::from(span.days())),
        _ => panic!("there is no opposite of {value:?}"),
    }
}

fn is_negative(value: &Value) -> bool {
    match value {
        Value::Integer(number) => *number < 0,
        Value::Money(money) => money.minor() < 0,
        Value::Percentage(percentage) => percentage.units() < 0,
        Value::Decimal(number) => number.units() < 0,
        Value::Duration(span) => span.millis() < 0,
        _ => panic!("{value:?} has no sign"),
    }
}
