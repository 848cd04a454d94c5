//! How an exact quotient becomes a whole number of smallest units.

use std::fmt;

use super::percentage::UNITS_PER_ONE;

/// The rule by which a product or a quotient is rounded to the smallest unit of its type.
///
/// A source file declares it once (`rounding half-even`); it holds for every operation written in that file. Without a
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
    pub(crate) fn share(self, amount: i128, rate: i128) -> Option<i128> {
        self.quotient(amount, rate, UNITS_PER_ONE)
    }

    /// `a * b / divisor`, rounded to an integer, or `None` if the result does not fit or `divisor` is zero.
    ///
    /// The product is formed exactly, in 256 bits where it needs them: nothing overflows unless the result does.
    pub(crate) fn quotient(self, a: i128, b: i128, divisor: i128) -> Option<i128> {
        let is_negative = (a < 0) != ((b < 0) != (divisor < 0));
        let (a, b, divisor) = (a.unsigned_abs(), b.unsigned_abs(), divisor.unsigned_abs());
        let (whole, rest) = match a.checked_mul(b) {
            Some(product) => (product.checked_div(divisor)?, product % divisor),
            None => wide_quotient(wide_product(a, b), divisor)?,
        };
        let up = rest != 0 && self.leaves_zero(is_negative, whole, rest, divisor);
        let magnitude = whole.checked_add(u128::from(up))?;
        if is_negative { 0_i128.checked_sub_unsigned(magnitude) } else { 0_i128.checked_add_unsigned(magnitude) }
    }

    /// Whether the magnitude `whole + rest / divisor`, with `rest` above zero and below `divisor`, is rounded up.
    fn leaves_zero(self, is_negative: bool, whole: u128, rest: u128, divisor: u128) -> bool {
        // Against the half: twice the rest need not fit.
        let half = rest.cmp(&(divisor - rest));
        match self {
            Rounding::HalfEven => half.is_gt() || (half.is_eq() && !whole.is_multiple_of(2)),
            Rounding::HalfUp => half.is_ge(),
            Rounding::HalfDown => half.is_gt(),
            Rounding::Up => true,
            Rounding::Down => false,
            Rounding::Ceiling => !is_negative,
            Rounding::Floor => is_negative,
        }
    }
}

/// The 256 bits of a product: the high half and the low half.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    // No sum overflows: (2^64 - 1)^2 + 2 (2^64 - 1) = 2^128 - 1.
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 64);
    let other_middle = a_low * b_high + (middle & LOW);
    (a_high * b_high + (middle >> 64) + (other_middle >> 64), other_middle << 64 | low & LOW)
}

/// The quotient and the rest of 256 bits, or `None` if the quotient does not fit or the divisor is zero.
fn wide_quotient((high, low): (u128, u128), divisor: u128) -> Option<(u128, u128)> {
    if high >= divisor {
        return None;
    }
    let (mut whole, mut rest) = (0_u128, high);
    for bit in (0..128).rev() {
        let carries = rest >> 127 == 1;
        rest = rest << 1 | low >> bit & 1;
        whole <<= 1;
        if carries || rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            whole |= 1;
        }
    }
    Some((whole, rest))
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

        #[test]
        fn a_wide_division_is_undone_by_a_wide_product(whole: u128, divisor in 1_u128.., rest: u128) {
            let rest = rest % divisor;
            let (high, low) = wide_product(whole, divisor);
            let (low, carries) = low.overflowing_add(rest);
            prop_assert_eq!(wide_quotient((high + u128::from(carries), low), divisor), Some((whole, rest)));
        }

        #[test]
        fn a_wide_product_is_that_of_its_digits(a: u128, b: u128) {
            prop_assert_eq!(wide_product(a, b), schoolbook(a, b));
        }

        #[test]
        fn small_quotients_are_those_of_128_bits(a: i32, b: i32, divisor: i32) {
            let (a, b, divisor) = (i128::from(a), i128::from(b), i128::from(divisor));
            for rule in Rounding::ALL {
                match rule.quotient(a, b, divisor) {
                    None => prop_assert_eq!(divisor, 0),
                    Some(x) => {
                        let (error, unit) = (x * divisor - a * b, divisor.abs());
                        prop_assert!(error.abs() < unit, "{}", rule);
                        let above = error * divisor.signum();
                        prop_assert!(match rule {
                            Rounding::Ceiling => above >= 0,
                            Rounding::Floor => above <= 0,
                            Rounding::Up => x.abs() * unit >= (a * b).abs(),
                            Rounding::Down => x.abs() * unit <= (a * b).abs(),
                            _ => 2 * error.abs() <= unit,
                        }, "{}", rule);
                    }
                }
            }
        }

        // Both factors and the divisor are scaled alike: the quotient stays, and needs 256 bits on the way.
        #[test]
        fn large_quotients_are_those_of_small_ones(a: i32, b: i32, divisor: i32, scale in 1_i128 << 70..1_i128 << 90) {
            let (a, b, divisor) = (i128::from(a), i128::from(b), i128::from(divisor));
            for rule in Rounding::ALL {
                prop_assert_eq!(rule.quotient(a * scale, b, divisor * scale), rule.quotient(a, b, divisor));
                prop_assert_eq!(rule.quotient(b, a * scale, divisor * scale), rule.quotient(a, b, divisor));
            }
        }
    }

    /// A product digit by digit, to the base 2^32.
    fn schoolbook(a: u128, b: u128) -> (u128, u128) {
        let digits = |number: u128| [0, 32, 64, 96].map(|shift| (number >> shift) as u64 & 0xffff_ffff);
        let mut sums = [0_u128; 8];
        for (i, x) in digits(a).into_iter().enumerate() {
            for (j, y) in digits(b).into_iter().enumerate() {
                sums[i + j] += u128::from(x * y);
            }
        }
        let mut carry = 0;
        let result = sums.map(|sum| {
            let digit = sum + carry;
            carry = digit >> 32;
            digit & 0xffff_ffff
        });
        let half = |digits: &[u128]| digits.iter().rev().fold(0, |number, digit| number << 32 | digit);
        (half(&result[4..]), half(&result[..4]))
    }
}
