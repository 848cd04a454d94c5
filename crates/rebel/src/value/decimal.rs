//! Decimals, and the text of scaled integers.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::{Fault, Percentage, Rounding, ValueError};

/// An exact decimal number with a fixed number of decimals, in units of its last decimal, of which there are at most
/// 10^36.
///
/// All values of the type `Decimal(p)` have `p` decimals, so that they are equal if and only if they are the same
/// number. The order is that of the numbers; between equal ones, the one with fewer decimals comes first.
///
/// ```
/// use enact_rebel::Decimal;
/// let weight: Decimal = "12.50".parse()?;
/// assert_eq!((weight.units(), weight.decimals()), (1250, 2));
/// assert!("12.5".parse::<Decimal>()? < weight && weight < "12.51".parse()?);
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    units: i128,
    decimals: u8,
}

impl Decimal {
    /// The greatest number of units, 10^36; its opposite is the least.
    pub const UNITS_MAX: i128 = MAGNITUDE_MAX;

    /// The greatest number of decimals.
    pub const DECIMALS_MAX: u8 = 18;

    /// `units` times 10^-`decimals`, or `None` outside the range.
    #[must_use]
    pub fn new(units: i128, decimals: u8) -> Option<Self> {
        if decimals > Self::DECIMALS_MAX { None } else { bounded(units).map(|units| Self { units, decimals }) }
    }

    /// The number in units of its last decimal.
    #[must_use]
    pub fn units(self) -> i128 {
        self.units
    }

    /// How many decimals it has.
    #[must_use]
    pub fn decimals(self) -> u8 {
        self.decimals
    }

    /// Reads a text with at most so many decimals.
    pub(super) fn parse(text: &str, decimals: u8) -> Result<Self, ValueError> {
        if decimals > Self::DECIMALS_MAX {
            return Err(ValueError::Range { ty: "Decimal" });
        }
        match parse(text, decimals.into()) {
            Ok(units) => Ok(Self { units, decimals }),
            Err(Problem::Syntax) => Err(ValueError::syntax("Decimal", "12.50", text)),
            Err(Problem::Decimals(found)) => {
                Err(ValueError::Decimals { of: format!("Decimal({decimals})"), allowed: decimals.into(), found })
            }
            Err(Problem::Range) => Err(ValueError::Range { ty: "Decimal" }),
        }
    }

    pub(crate) fn of_integer(number: i64, decimals: u8) -> Result<Self, Fault> {
        Self { units: number.into(), decimals: 0 }.widened(decimals)
    }

    /// The same number with more decimals, or as many.
    pub(crate) fn widened(self, decimals: u8) -> Result<Self, Fault> {
        Self::of(self.units_of(decimals), decimals)
    }

    /// The nearest number, as the rule has it, with so many decimals, be they fewer or more.
    pub(crate) fn round(self, decimals: u8, rounding: Rounding) -> Result<Self, Fault> {
        match self.decimals.checked_sub(decimals) {
            Some(fewer) => Self::of(rounding.quotient(self.units, 1, power_of_ten(fewer)), decimals),
            None => self.widened(decimals),
        }
    }

    /// The sum, with the decimals of the finer operand.
    pub(crate) fn add(self, other: Self) -> Result<Self, Fault> {
        self.in_common(other, i128::checked_add)
    }

    /// The difference, with the decimals of the finer operand.
    pub(crate) fn subtract(self, other: Self) -> Result<Self, Fault> {
        self.in_common(other, i128::checked_sub)
    }

    pub(crate) fn negate(self) -> Result<Self, Fault> {
        Self::of(Some(-self.units), self.decimals)
    }

    /// The exact product, with the decimals of both operands together.
    pub(crate) fn times(self, other: Self) -> Result<Self, Fault> {
        Self::of(self.units.checked_mul(other.units), self.decimals + other.decimals)
    }

    pub(crate) fn times_integer(self, factor: i64) -> Result<Self, Fault> {
        Self::of(self.units.checked_mul(factor.into()), self.decimals)
    }

    /// The product with a percentage, rounded to the decimals of the number.
    pub(crate) fn share(self, rate: Percentage, rounding: Rounding) -> Result<Self, Fault> {
        Self::of(rounding.share(self.units, rate.units()), self.decimals)
    }

    /// The quotient, rounded to so many decimals.
    pub(crate) fn divide(self, by: Self, decimals: u8, rounding: Rounding) -> Result<Self, Fault> {
        if by.units == 0 {
            return Err(Fault::DivisionByZero);
        }
        if decimals > Self::DECIMALS_MAX {
            return Err(Fault::Overflow);
        }
        let (above, below) = (by.decimals + decimals, self.decimals);
        let units = match above.checked_sub(below) {
            Some(power) => rounding.quotient(self.units, power_of_ten(power), by.units),
            // A divisor that ends at 128 bits is more than twice the dividend, as the exact one is.
            None => rounding.quotient(self.units, 1, by.units.saturating_mul(power_of_ten(below - above))),
        };
        Self::of(units, decimals)
    }

    /// Which of two numbers is less, whatever their decimals.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        let split = |number: Self| {
            let unit = power_of_ten(number.decimals);
            let fraction = number.units.rem_euclid(unit) * power_of_ten(Self::DECIMALS_MAX - number.decimals);
            (number.units.div_euclid(unit), fraction)
        };
        split(self).cmp(&split(other))
    }

    fn of(units: Option<i128>, decimals: u8) -> Result<Self, Fault> {
        units.and_then(|units| Self::new(units, decimals)).ok_or(Fault::Overflow)
    }

    /// The number in units of a finer decimal, which 128 bits hold wherever a sum with it is in range.
    fn units_of(self, decimals: u8) -> Option<i128> {
        let finer = decimals.checked_sub(self.decimals).filter(|finer| *finer <= Self::DECIMALS_MAX)?;
        self.units.checked_mul(power_of_ten(finer))
    }

    fn in_common(self, other: Self, operation: fn(i128, i128) -> Option<i128>) -> Result<Self, Fault> {
        let decimals = self.decimals.max(other.decimals);
        let both = self.units_of(decimals).zip(other.units_of(decimals));
        Self::of(both.and_then(|(left, right)| operation(left, right)), decimals)
    }
}

/// For 36 at most: the decimals of two numbers.
fn power_of_ten(power: u8) -> i128 {
    10_i128.pow(power.into())
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(*other).then(self.decimals.cmp(&other.decimals))
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self.units, self.decimals.into()))
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Reads a number with as many decimals as the text has.
impl FromStr for Decimal {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let found = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let decimals = u8::try_from(found).unwrap_or(u8::MAX).min(Self::DECIMALS_MAX);
        Self::parse(text, decimals)
    }
}

/// The greatest magnitude of an amount of money, a percentage or a decimal, in its smallest unit.
///
/// Far beyond any amount there is, and far enough below the end of 128 bits that sums of many numbers stay exact.
pub(super) const MAGNITUDE_MAX: i128 = 10_i128.pow(36);

/// The number, if it is within the greatest magnitude.
pub(super) fn bounded(number: i128) -> Option<i128> {
    (-MAGNITUDE_MAX..=MAGNITUDE_MAX).contains(&number).then_some(number)
}

/// Why a text is not a decimal of the wanted scale.
pub(super) enum Problem {
    Syntax,
    /// More decimals than the scale has: this many.
    Decimals(u32),
    Range,
}

/// Reads `[-]digits[.digits]` as an integer scaled by `10^decimals`, of at most the greatest magnitude.
pub(super) fn parse(text: &str, decimals: u32) -> Result<i128, Problem> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(Problem::Syntax),
        None => (digits, ""),
    };
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::Syntax);
    }
    let given = u32::try_from(fraction.len()).map_err(|_| Problem::Range)?;
    let missing = decimals.checked_sub(given).ok_or(Problem::Decimals(given))?;
    let zeros = std::iter::repeat_n(b'0', missing as usize);
    let mut scaled: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).chain(zeros) {
        let digit = i128::from(digit - b'0');
        let signed = if negative { -digit } else { digit };
        scaled = scaled.checked_mul(10).and_then(|scaled| scaled.checked_add(signed)).ok_or(Problem::Range)?;
    }
    bounded(scaled).ok_or(Problem::Range)
}

/// Writes `scaled / 10^decimals` with exactly `decimals` decimals.
pub(super) fn print(scaled: i128, decimals: u32) -> String {
    let sign = if scaled < 0 { "-" } else { "" };
    let (magnitude, unit) = (scaled.unsigned_abs(), 10_u128.pow(decimals));
    match decimals {
        0 => format!("{sign}{magnitude}"),
        _ => format!("{sign}{}.{:0width$}", magnitude / unit, magnitude % unit, width = decimals as usize),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    fn any_decimal() -> impl Strategy<Value = Decimal> {
        let units = prop_oneof![
            -1000_i128..1000,
            any::<i64>().prop_map(i128::from),
            -MAGNITUDE_MAX..=MAGNITUDE_MAX,
            prop::sample::select(vec![-MAGNITUDE_MAX, MAGNITUDE_MAX]),
        ];
        (units, 0..=Decimal::DECIMALS_MAX).prop_map(|(units, decimals)| Decimal::new(units, decimals).unwrap())
    }

    #[test]
    fn operations_keep_the_decimals_that_they_say() {
        let (a, b) = (decimal("12.50"), decimal("0.125"));
        assert_eq!(a.add(b), Ok(decimal("12.625")));
        assert_eq!(b.subtract(a), Ok(decimal("-12.375")));
        assert_eq!(a.times(b), Ok(decimal("1.56250")));
        assert_eq!(a.times_integer(-3), Ok(decimal("-37.50")));
        assert_eq!(a.negate(), Ok(decimal("-12.50")));
        assert_eq!(a.widened(4), Ok(decimal("12.5000")));
        assert_eq!(a.widened(1), Err(Fault::Overflow));
        assert_eq!(Decimal::of_integer(-3, 2), Ok(decimal("-3.00")));
        assert_eq!(b.round(2, Rounding::HalfEven), Ok(decimal("0.12")));
        assert_eq!(b.round(2, Rounding::HalfUp), Ok(decimal("0.13")));
        assert_eq!(b.round(5, Rounding::HalfUp), Ok(decimal("0.12500")));
        assert_eq!(a.share("33%".parse().unwrap(), Rounding::Down), Ok(decimal("4.12")));
    }

    #[test]
    fn quotients_are_rounded_once() {
        let third = |decimals, rounding| decimal("1").divide(decimal("3"), decimals, rounding);
        assert_eq!(third(18, Rounding::HalfEven), Ok(decimal("0.333333333333333333")));
        assert_eq!(third(0, Rounding::Up), Ok(decimal("1")));
        assert_eq!(decimal("-1.00").divide(decimal("0.03"), 1, Rounding::Floor), Ok(decimal("-33.4")));
        assert_eq!(decimal("1").divide(decimal("0.00"), 1, Rounding::Floor), Err(Fault::DivisionByZero));
        assert_eq!(decimal("1").divide(decimal("1"), 19, Rounding::Floor), Err(Fault::Overflow));
        let (least, most) = (Decimal::new(1, 18).unwrap(), Decimal::new(MAGNITUDE_MAX, 0).unwrap());
        assert_eq!(most.divide(least, 0, Rounding::Down), Err(Fault::Overflow));
        assert_eq!(least.divide(most, 0, Rounding::Down), Ok(decimal("0")));
        assert_eq!(least.divide(most, 0, Rounding::Ceiling), Ok(decimal("1")));
        assert_eq!(least.divide(most, 0, Rounding::HalfUp), Ok(decimal("0")));
        assert_eq!(most.divide(most, 18, Rounding::HalfUp), Ok(decimal("1.000000000000000000")));
    }

    #[test]
    fn the_range_ends_at_its_limit() {
        let most = Decimal::new(Decimal::UNITS_MAX, 18).unwrap();
        assert_eq!(most.add(Decimal::new(1, 18).unwrap()), Err(Fault::Overflow));
        // Wider than the range before the sum, inside after it.
        let wide = Decimal::of_integer(1_500_000_000_000_000_000, 0).unwrap();
        assert_eq!(wide.widened(18), Err(Fault::Overflow));
        assert_eq!(wide.subtract(most), Ok(Decimal::new(MAGNITUDE_MAX / 2, 18).unwrap()));
        assert_eq!(decimal("0.1").times(Decimal::new(1, 18).unwrap()), Err(Fault::Overflow));
        assert_eq!(Decimal::of_integer(0, 19), Err(Fault::Overflow));
        assert!(Decimal::new(0, 19).is_none() && Decimal::new(Decimal::UNITS_MAX + 1, 0).is_none());
        assert!("0.0000000000000000001".parse::<Decimal>().is_err());
    }

    proptest! {
        #[test]
        fn a_decimal_is_read_back(number in any_decimal()) {
            prop_assert_eq!(number.to_string().parse(), Ok(number));
        }

        #[test]
        fn rounding_is_monotone_and_within_one_unit(a in any_decimal(), b in any_decimal(), decimals in 0_u8..=18) {
            for rule in Rounding::ALL {
                let (Ok(x), Ok(y)) = (a.round(decimals, rule), b.round(decimals, rule)) else { continue };
                let is_ordered = if a.compare(b).is_le() { x.compare(y).is_le() } else { x.compare(y).is_ge() };
                prop_assert!(is_ordered, "{} of {} and {}", rule, a, b);
                // What is left is smaller than a unit; it is exact, unless the finer number does not fit.
                if let Ok(error) = x.subtract(a) {
                    prop_assert!(error.compare(Decimal::new(1, decimals).unwrap()).is_lt());
                    prop_assert!(error.compare(Decimal::new(-1, decimals).unwrap()).is_gt());
                }
            }
        }

        #[test]
        fn what_is_added_can_be_subtracted(a in any_decimal(), b in any_decimal()) {
            if let Ok(sum) = a.add(b) {
                prop_assert_eq!(sum.subtract(b).unwrap().compare(a), Ordering::Equal);
            }
        }

        #[test]
        fn a_product_is_divided_back(
            a in -1_000_000_i128..1_000_000, b in 1_i128..1_000_000, p in 0_u8..=9, q in 0_u8..=9,
        ) {
            let (a, b) = (Decimal::new(a, p).unwrap(), Decimal::new(b, q).unwrap());
            for rule in Rounding::ALL {
                prop_assert_eq!(a.times(b).unwrap().divide(b, p, rule), Ok(a));
            }
        }
    }
}
