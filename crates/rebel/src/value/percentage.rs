//! Percentages as exact decimals.

use std::fmt;
use std::str::FromStr;

use super::{Decimal, Fault, Money, Rounding, ValueError, decimal};

/// Decimals of a percentage that are kept.
const DECIMALS: u32 = 16;

/// Units of a percentage in the factor one: `100 %` has 10^18 units, because a unit is 10^-16 percent.
pub(crate) const UNITS_PER_ONE: i128 = 10_i128.pow(DECIMALS + 2);

/// An exact percentage with at most sixteen decimals, between -10^20 % and 10^20 %.
///
/// Sums, differences and integer multiples of such decimals are such decimals, and exact. Where a share of an amount is
/// taken, or a percentage is made of two amounts, the declared [`Rounding`] rounds the result.
///
/// ```
/// use enact_rebel::Percentage;
/// let rate: Percentage = "2.50%".parse()?;
/// assert_eq!(rate.to_string(), "2.5%");
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Percentage(i128);

impl Percentage {
    /// The greatest number of units, 10^36; its opposite is the least.
    pub const UNITS_MAX: i128 = decimal::MAGNITUDE_MAX;

    /// The percentage of `units` times 10^-16 percent, or `None` outside the range.
    #[must_use]
    pub fn from_units(units: i128) -> Option<Self> {
        decimal::bounded(units).map(Self)
    }

    /// The number of units of 10^-16 percent.
    #[must_use]
    pub fn units(self) -> i128 {
        self.0
    }

    pub(crate) fn add(self, other: Self) -> Result<Self, Fault> {
        Self::from_units(self.0 + other.0).ok_or(Fault::Overflow)
    }

    pub(crate) fn subtract(self, other: Self) -> Result<Self, Fault> {
        Self::from_units(self.0 - other.0).ok_or(Fault::Overflow)
    }

    /// What share of `whole` the number `part` is, rounded.
    pub(crate) fn of_decimals(part: Decimal, whole: Decimal, rounding: Rounding) -> Result<Self, Fault> {
        if whole.units() == 0 {
            return Err(Fault::DivisionByZero);
        }
        let power = DECIMALS + 2 + u32::from(whole.decimals()) - u32::from(part.decimals());
        let units = rounding.quotient(part.units(), 10_i128.pow(power), whole.units());
        units.and_then(Self::from_units).ok_or(Fault::Overflow)
    }

    /// What share of `whole` the amount `part` is, rounded.
    pub(crate) fn of_money(part: Money, whole: Money, rounding: Rounding) -> Result<Self, Fault> {
        part.with_same_currency(whole)?;
        if whole.minor() == 0 {
            return Err(Fault::DivisionByZero);
        }
        let units = rounding.quotient(part.minor(), UNITS_PER_ONE, whole.minor());
        units.and_then(Self::from_units).ok_or(Fault::Overflow)
    }

    pub(crate) fn times(self, factor: i64) -> Result<Self, Fault> {
        self.0.checked_mul(i128::from(factor)).and_then(Self::from_units).ok_or(Fault::Overflow)
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = decimal::print(self.0, DECIMALS);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{text}%")
    }
}

impl FromStr for Percentage {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let syntax = || ValueError::syntax("Percentage", "2.5%", text);
        let number = text.strip_suffix('%').ok_or_else(syntax)?.trim_end();
        match decimal::parse(number, DECIMALS) {
            Ok(units) => Ok(Self(units)),
            Err(decimal::Problem::Syntax) => Err(syntax()),
            Err(decimal::Problem::Decimals(found)) => {
                Err(ValueError::Decimals { of: "Percentage".into(), allowed: DECIMALS, found })
            }
            Err(decimal::Problem::Range) => Err(ValueError::Range { ty: "Percentage" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_to_sixteen_decimals() {
        let decimals = |part: &str, whole: &str| {
            let share = Percentage::of_decimals(part.parse().unwrap(), whole.parse().unwrap(), Rounding::HalfEven);
            share.map(|share| share.to_string())
        };
        assert_eq!(decimals("1", "8.00").as_deref(), Ok("12.5%"));
        assert_eq!(decimals("-2.000000000000000000", "3").as_deref(), Ok("-66.6666666666666667%"));
        assert_eq!(decimals("1000", "0.000000000000000001").as_deref(), Err(&Fault::Overflow));
        assert_eq!(decimals("1", "0.0").as_deref(), Err(&Fault::DivisionByZero));
        let money = |part: &str, whole: &str| {
            let share = Percentage::of_money(part.parse().unwrap(), whole.parse().unwrap(), Rounding::HalfEven);
            share.map(|share| share.to_string())
        };
        assert_eq!(money("EUR 1.00", "EUR 3.00").as_deref(), Ok("33.3333333333333333%"));
        assert_eq!(money("EUR 0.00", "EUR 0.00").as_deref(), Err(&Fault::DivisionByZero));
        assert!(matches!(money("EUR 1.00", "USD 3.00"), Err(Fault::CurrencyMismatch { .. })));
    }
}
