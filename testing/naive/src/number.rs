//! Numbers, which are computed exactly and looked at afterwards.

use enact_rebel::{Currency, Date, Decimal, Duration, Money, Percentage, Period, Rounding, Timestamp, Value};
use num_bigint::BigInt;

use crate::reason::Fault;

/// Decimals of a percentage, of which a hundred make one.
const PERCENT_DECIMALS: u32 = 16;

/// Milliseconds of a day.
pub(crate) const DAY: i64 = 86_400_000;

/// 10 to the power of `exponent`.
pub(crate) fn power(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// What 100 % is in the unit of percentages.
pub(crate) fn whole() -> BigInt {
    power(PERCENT_DECIMALS + 2)
}

pub(crate) fn integer(number: impl Into<BigInt>) -> Result<Value, Fault> {
    i64::try_from(number.into()).map(Value::Integer).map_err(|_| Fault::Overflow)
}

/// A number of smallest units of an amount, a percentage or a decimal: 10^36 at most.
fn units(number: BigInt) -> Result<i128, Fault> {
    if number.magnitude() > power(36).magnitude() {
        return Err(Fault::Overflow);
    }
    i128::try_from(number).map_err(|_| Fault::Overflow)
}

pub(crate) fn money(currency: Currency, minor: impl Into<BigInt>) -> Result<Value, Fault> {
    let money = Money::new(currency, units(minor.into())?).expect("within the range");
    Ok(Value::Money(money))
}

pub(crate) fn percentage(of: impl Into<BigInt>) -> Result<Value, Fault> {
    let percentage = Percentage::from_units(units(of.into())?).expect("within the range");
    Ok(Value::Percentage(percentage))
}

pub(crate) fn decimal(of: impl Into<BigInt>, decimals: u32) -> Result<Value, Fault> {
    let decimals = u8::try_from(decimals).expect("few decimals");
    let decimal = Decimal::new(units(of.into())?, decimals).expect("within the range");
    Ok(Value::Decimal(decimal))
}

pub(crate) fn duration(millis: impl Into<BigInt>) -> Result<Value, Fault> {
    let millis = i64::try_from(millis.into()).map_err(|_| Fault::Overflow)?;
    Ok(Value::Duration(Duration::from_millis(millis)))
}

pub(crate) fn period(months: impl Into<BigInt>, days: impl Into<BigInt>) -> Result<Value, Fault> {
    let part = |number: BigInt| i32::try_from(number).map_err(|_| Fault::Overflow);
    Ok(Value::Period(Period::new(part(months.into())?, part(days.into())?)))
}

pub(crate) fn date(days: impl Into<BigInt>) -> Result<Date, Fault> {
    let days = i64::try_from(days.into()).map_err(|_| Fault::Overflow)?;
    Date::from_days(days).ok_or(Fault::Overflow)
}

pub(crate) fn timestamp(millis: impl Into<BigInt>) -> Result<Timestamp, Fault> {
    let millis = i64::try_from(millis.into()).map_err(|_| Fault::Overflow)?;
    Ok(Timestamp::from_millis(millis))
}

/// The day on which a time lies.
pub(crate) fn day_of(time: Timestamp) -> Date {
    Date::from_days(time.millis().div_euclid(DAY)).expect("every time lies on a day")
}

/// The day so many months later, or the last one of its month, and from there so many days later.
pub(crate) fn later(day: Date, months: i64, days: i64) -> Result<Date, Fault> {
    let month = day.year() * 12 + i64::from(day.month()) - 1 + months;
    let (year, month) = (month.div_euclid(12), u8::try_from(month.rem_euclid(12) + 1).expect("one of twelve"));
    let day = (1..=day.day()).rev().find_map(|day| Date::new(year, month, day)).ok_or(Fault::Overflow)?;
    date(BigInt::from(day.days()) + days)
}

/// The quotient as a whole number, by the rule.
pub(crate) fn rounded(dividend: &BigInt, divisor: &BigInt, rule: Rounding) -> Result<BigInt, Fault> {
    let zero = BigInt::from(0);
    if *divisor == zero {
        return Err(Fault::DivisionByZero);
    }
    let (towards_zero, rest) = (dividend / divisor, dividend % divisor);
    if rest == zero {
        return Ok(towards_zero);
    }
    let is_negative = (*dividend < zero) != (*divisor < zero);
    let away = if is_negative { &towards_zero - 1 } else { &towards_zero + 1 };
    let twice = rest.magnitude() * 2u32;
    let (is_more_than_half, is_half) = (twice > *divisor.magnitude(), twice == *divisor.magnitude());
    let goes_away = match rule {
        Rounding::HalfEven => is_more_than_half || is_half && &towards_zero % 2 != zero,
        Rounding::HalfUp => is_more_than_half || is_half,
        Rounding::HalfDown => is_more_than_half,
        Rounding::Up => true,
        Rounding::Down => false,
        Rounding::Ceiling => !is_negative,
        Rounding::Floor => is_negative,
    };
    Ok(if goes_away { away } else { towards_zero })
}

/// A whole number or a decimal: its digits, and how many of them are decimals.
pub(crate) fn digits(value: &Value) -> (BigInt, u32) {
    match value {
        Value::Integer(number) => (BigInt::from(*number), 0),
        Value::Decimal(number) => (BigInt::from(number.units()), number.decimals().into()),
        _ => panic!("no number: {value:?}"),
    }
}
