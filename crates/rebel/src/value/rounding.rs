//! How a product of money and a percentage becomes a whole number of minor units.

use std::fmt;

use super::percentage::UNITS_PER_ONE;

/// The rule by which `Money * Percentage` is rounded to minor units.
///
/// A source file declares it once (`rounding half-even`); it holds for every product written in that file. Without a
/// declaration it is [`Rounding::HalfEven`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To the nearest; a tie goes to the even neighbour (banker's rounding).
    #[default]
    HalfEven,
    /// To the nearest; a tie goes away from zero.
    HalfUp,
    /// To the nearest; a tie goes towards zero.
    HalfDown,
    /// Away from zero.
    Up,
    /// Towards zero.
    Down,
    /// Towards positive infinity.
    Ceiling,
    /// Towards negative infinity.
    Floor,
}

impl Rounding {
    /// Every rule, in the order of the reference.
    pub const ALL: [Rounding; 7] = [
        Rounding::HalfEven,
        Rounding::HalfUp,
        Rounding::HalfDown,
        Rounding::Up,
        Rounding::Down,
        Rounding::Ceiling,
        Rounding::Floor,
    ];

    /// The name a source file declares it by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rounding::HalfEven => "half-even",
            Rounding::HalfUp => "half-up",
            Rounding::HalfDown => "half-down",
            Rounding::Up => "up",
            Rounding::Down => "down",
            Rounding::Ceiling => "ceiling",
            Rounding::Floor => "floor",
        }
    }

    /// `amount * rate`, with `rate` in units of [`Percentage`](super::Percentage), rounded to an integer, or `None` if
    /// the result does not fit.
    ///
    /// The product is formed exactly: both factors are split at the denominator, so every partial product has the sign
    /// of the result, is no larger than it (or is below 10^36), and nothing overflows unless the result does.
    pub(crate) fn share(self, amount: i128, rate: i128) -> Option<i128> {
        let (amount_whole, amount_rest) = (amount / UNITS_PER_ONE, amount % UNITS_PER_ONE);
        let (rate_whole, rate_rest) = (rate / UNITS_PER_ONE, rate % UNITS_PER_ONE);
        let fraction = amount_rest * rate_rest;
        let whole = amount_whole
            .checked_mul(rate)?
            .checked_add(amount_rest.checked_mul(rate_whole)?)?
            .checked_add(fraction / UNITS_PER_ONE)?;
        let rest = fraction % UNITS_PER_ONE;
        if rest != 0 && self.leaves_zero(whole, rest) { whole.checked_add(rest.signum()) } else { Some(whole) }
    }

    /// Whether `whole + rest / UNITS_PER_ONE`, with `rest` non-zero and of the sign of the number, is rounded away from zero.
    fn leaves_zero(self, whole: i128, rest: i128) -> bool {
        let twice = 2 * rest.abs();
        match self {
            Rounding::HalfEven => twice > UNITS_PER_ONE || (twice == UNITS_PER_ONE && whole % 2 != 0),
            Rounding::HalfUp => twice >= UNITS_PER_ONE,
            Rounding::HalfDown => twice > UNITS_PER_ONE,
            Rounding::Up => true,
            Rounding::Down => false,
            Rounding::Ceiling => rest > 0,
            Rounding::Floor => rest < 0,
        }
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::Percentage;

    #[test]
    fn a_tie_goes_where_the_rule_says() {
        // 10 % of these amounts (in minor units) is 0.5, 1.5, -0.5, -1.5, 0.4, 0.6, -0.6.
        let amounts = [5, 15, -5, -15, 4, 6, -6];
        let table = [
            (Rounding::HalfEven, [0, 2, 0, -2, 0, 1, -1]),
            (Rounding::HalfUp, [1, 2, -1, -2, 0, 1, -1]),
            (Rounding::HalfDown, [0, 1, 0, -1, 0, 1, -1]),
            (Rounding::Up, [1, 2, -1, -2, 1, 1, -1]),
            (Rounding::Down, [0, 1, 0, -1, 0, 0, 0]),
            (Rounding::Ceiling, [1, 2, 0, -1, 1, 1, 0]),
            (Rounding::Floor, [0, 1, -1, -2, 0, 0, -1]),
        ];
        let ten = "10%".parse::<Percentage>().unwrap().units();
        for (rule, expected) in table {
            assert_eq!(amounts.map(|amount| rule.share(amount, ten).unwrap()), expected, "{rule}");
        }
    }

    #[test]
    fn a_product_overflows_only_if_its_result_does() {
        let share = |amount, rate: &str| Rounding::HalfEven.share(amount, rate.parse::<Percentage>().unwrap().units());
        assert_eq!(share(i128::MAX, "100%"), Some(i128::MAX));
        assert_eq!(share(i128::MIN, "100%"), Some(i128::MIN));
        assert_eq!(share(i128::MAX, "33.3333333333333333%"), Some(56_713_727_820_156_410_520_515_373_418_471_624_665));
        assert_eq!(share(i128::MAX, "100.0000000000000001%"), None);
        assert_eq!(share(i128::MIN, "-100%"), None);
    }

    proptest! {
        #[test]
        fn every_rule_is_monotone_and_within_one_unit(a in -1_000_000_i128..1_000_000, b in -1_000_000_i128..1_000_000,
                                                      rate in -3_000_000_i64..3_000_000) {
            let percent = i128::from(rate) * 10_000_000_000_000;
            for rule in Rounding::ALL {
                let (low, high) = (a.min(b), a.max(b));
                let (x, y) = (rule.share(low, percent).unwrap(), rule.share(high, percent).unwrap());
                let is_ordered = if rate >= 0 { x <= y } else { x >= y };
                prop_assert!(is_ordered, "{} of {} and {}", rule, low, high);
                let exact = low * percent;
                prop_assert!((x * UNITS_PER_ONE - exact).abs() < UNITS_PER_ONE);
            }
        }
    }
}
