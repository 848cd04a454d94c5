//! Intervals of numbers, in the smallest unit of their type.

use std::cmp::Ordering;

use crate::model::expr::{Comparison, NumberKind};
use crate::value::{Date, Money, Percentage, Rounding};

/// The numbers from `low` to `high`, both included; never empty.
///
/// Ends saturate at 128 bits. That loses nothing: a result outside the range of its type is a fault and no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Interval {
    pub(crate) low: i128,
    pub(crate) high: i128,
}

impl Interval {
    pub(crate) const ALL: Interval = Interval { low: i128::MIN, high: i128::MAX };
    pub(crate) const ZERO: Interval = Interval { low: 0, high: 0 };

    pub(crate) fn point(number: i128) -> Self {
        Self { low: number, high: number }
    }

    /// The numbers of a kind.
    pub(crate) fn of_kind(kind: NumberKind) -> Self {
        match kind {
            NumberKind::Integer => Self { low: i64::MIN.into(), high: i64::MAX.into() },
            NumberKind::Money => Self { low: -Money::MINOR_MAX, high: Money::MINOR_MAX },
            NumberKind::Percentage => Self { low: -Percentage::UNITS_MAX, high: Percentage::UNITS_MAX },
            NumberKind::Date => Self { low: (*Date::DAYS.start()).into(), high: (*Date::DAYS.end()).into() },
        }
    }

    pub(crate) fn single(self) -> Option<i128> {
        (self.low == self.high).then_some(self.low)
    }

    pub(crate) fn meet(self, other: Self) -> Option<Self> {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        (low <= high).then_some(Self { low, high })
    }

    pub(crate) fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// The sums, and whether all of them fit.
    pub(crate) fn add(self, other: Self) -> (Self, bool) {
        let fits = self.low.checked_add(other.low).is_some() && self.high.checked_add(other.high).is_some();
        (Self { low: self.low.saturating_add(other.low), high: self.high.saturating_add(other.high) }, fits)
    }

    /// The differences, and whether all of them fit.
    pub(crate) fn subtract(self, other: Self) -> (Self, bool) {
        let fits = self.low.checked_sub(other.high).is_some() && self.high.checked_sub(other.low).is_some();
        (Self { low: self.low.saturating_sub(other.high), high: self.high.saturating_sub(other.low) }, fits)
    }

    /// The opposites, and whether all of them fit.
    pub(crate) fn negate(self) -> (Self, bool) {
        Self::ZERO.subtract(self)
    }

    /// The products, and whether all of them fit.
    pub(crate) fn multiply(self, other: Self) -> (Self, bool) {
        self.corners(other, i128::checked_mul)
    }

    /// The rounded products with percentages, and whether all of them fit.
    pub(crate) fn share(self, rates: Self, rounding: Rounding) -> (Self, bool) {
        self.corners(rates, |amount, rate| rounding.share(amount, rate))
    }

    /// The hull of a product, which takes its extremes at the ends because it is monotone in each factor.
    fn corners(self, other: Self, product: impl Fn(i128, i128) -> Option<i128>) -> (Self, bool) {
        let mut fits = true;
        let corners = [(self.low, other.low), (self.low, other.high), (self.high, other.low), (self.high, other.high)]
            .map(|(a, b)| {
                product(a, b).unwrap_or_else(|| {
                    fits = false;
                    if (a < 0) == (b < 0) { i128::MAX } else { i128::MIN }
                })
            });
        let hull = corners.into_iter().map(Self::point).reduce(Self::hull).unwrap_or(Self::ALL);
        (hull, fits)
    }

    /// Whether the comparison holds for all pairs (true), for none (false), or for some.
    pub(crate) fn compare(self, comparison: Comparison, other: Self) -> Option<bool> {
        let below = self.high < other.low;
        let above = self.low > other.high;
        let at_most = self.high <= other.low;
        let at_least = self.low >= other.high;
        let decide = |always: bool, never: bool| if always { Some(true) } else { never.then_some(false) };
        match comparison {
            Comparison::Equal => decide(at_most && at_least, below || above),
            Comparison::Unequal => decide(below || above, at_most && at_least),
            Comparison::Less => decide(below, at_least),
            Comparison::LessOrEqual => decide(at_most, above),
            Comparison::Greater => decide(above, at_most),
            Comparison::GreaterOrEqual => decide(at_least, below),
        }
    }

    /// The numbers that can stand left of `comparison` with one of `other` on its right.
    pub(crate) fn left_of(comparison: Comparison, other: Self) -> Self {
        match comparison {
            Comparison::Equal => other,
            Comparison::Unequal => Self::ALL,
            Comparison::Less => Self { low: i128::MIN, high: other.high.saturating_sub(1) },
            Comparison::LessOrEqual => Self { low: i128::MIN, high: other.high },
            Comparison::Greater => Self { low: other.low.saturating_add(1), high: i128::MAX },
            Comparison::GreaterOrEqual => Self { low: other.low, high: i128::MAX },
        }
    }
}

/// The interval that holds every number between two ends of an ordering of `points`, for splitting at them.
pub(crate) fn pieces(points: &[i128]) -> Vec<Interval> {
    let mut pieces = Vec::new();
    let mut low = Some(i128::MIN);
    for &point in points {
        if let Some(start) = low
            && start.cmp(&point) == Ordering::Less
        {
            pieces.push(Interval { low: start, high: point - 1 });
        }
        pieces.push(Interval::point(point));
        low = point.checked_add(1);
    }
    pieces.extend(low.map(|low| Interval { low, high: i128::MAX }));
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COMPARISONS: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::Unequal,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];

    fn interval() -> impl Strategy<Value = Interval> {
        (-4_i128..5, 0_i128..4).prop_map(|(low, width)| Interval { low, high: low + width })
    }

    fn members(interval: Interval) -> impl Iterator<Item = i128> {
        interval.low..=interval.high
    }

    proptest! {
        #[test]
        fn an_operation_holds_every_result_of_its_members(a in interval(), b in interval()) {
            for (x, y) in members(a).flat_map(|x| members(b).map(move |y| (x, y))) {
                let holds = |interval: Interval, result| interval.contains(Interval::point(result));
                prop_assert!(holds(a.add(b).0, x + y));
                prop_assert!(holds(a.subtract(b).0, x - y));
                prop_assert!(holds(a.multiply(b).0, x * y));
                prop_assert!(holds(a.negate().0, -x));
                // A unit of 30 % makes these small numbers meet every rounding.
                let (rates, rate) = (b.multiply(Interval::point(300_000_000_000_000_000)).0, y * 300_000_000_000_000_000);
                for rounding in Rounding::ALL {
                    let exact = rounding.share(x, rate).unwrap();
                    prop_assert!(holds(a.share(rates, rounding).0, exact));
                }
            }
        }

        #[test]
        fn a_comparison_is_decided_only_if_all_members_agree(a in interval(), b in interval()) {
            for comparison in COMPARISONS {
                let verdicts: Vec<bool> = members(a)
                    .flat_map(|x| members(b).map(move |y| crate::evaluate::holds(comparison, x.cmp(&y))))
                    .collect();
                let expected = verdicts.iter().all(|&v| v == verdicts[0]).then_some(verdicts[0]);
                prop_assert_eq!(a.compare(comparison, b), expected);
                for x in members(a) {
                    if members(b).any(|y| crate::evaluate::holds(comparison, x.cmp(&y))) {
                        prop_assert!(Interval::left_of(comparison, b).contains(Interval::point(x)));
                    }
                }
            }
        }
    }

    #[test]
    fn ends_saturate_and_say_so() {
        let top = Interval::point(i128::MAX);
        assert_eq!(top.add(Interval::point(1)), (top, false));
        assert_eq!(Interval::point(i128::MIN).negate(), (top, false));
        assert_eq!(top.multiply(Interval::point(-2)), (Interval::point(i128::MIN), false));
    }

    #[test]
    fn pieces_cover_everything_once() {
        let cut = |points: &[i128]| pieces(points).into_iter().map(|piece| (piece.low, piece.high)).collect::<Vec<_>>();
        assert_eq!(cut(&[0]), [(i128::MIN, -1), (0, 0), (1, i128::MAX)]);
        assert_eq!(cut(&[0, 1]), [(i128::MIN, -1), (0, 0), (1, 1), (2, i128::MAX)]);
        assert_eq!(cut(&[i128::MIN, i128::MAX]).len(), 3);
    }
}
