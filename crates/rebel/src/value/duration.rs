//! Spans of time: durations of a fixed length, periods of the calendar.

use std::fmt;
use std::str::FromStr;

use super::{Fault, ValueError, integer};

/// A span of time of a fixed length, in milliseconds. Its text form counts the largest unit that divides it, of hours,
/// minutes, seconds and milliseconds: `36 hours`, `1 minute`, `-1500 milliseconds`.
///
/// A day is no unit of it, but of [`Period`].
///
/// ```
/// use enact_rebel::Duration;
/// let hold: Duration = "120 minutes".parse()?;
/// assert_eq!((hold.millis(), hold.to_string().as_str()), (7_200_000, "2 hours"));
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(i64);

/// The units of a duration, the largest first.
const UNITS: [(&str, i64); 4] = [("hour", 3_600_000), ("minute", 60_000), ("second", 1000), ("millisecond", 1)];

impl Duration {
    /// So many milliseconds, which may be negative.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Its length in milliseconds.
    #[must_use]
    pub fn millis(self) -> i64 {
        self.0
    }

    pub(crate) fn add(self, other: Self) -> Result<Self, Fault> {
        self.0.checked_add(other.0).map(Self).ok_or(Fault::Overflow)
    }

    pub(crate) fn subtract(self, other: Self) -> Result<Self, Fault> {
        self.0.checked_sub(other.0).map(Self).ok_or(Fault::Overflow)
    }

    pub(crate) fn negate(self) -> Result<Self, Fault> {
        self.0.checked_neg().map(Self).ok_or(Fault::Overflow)
    }

    pub(crate) fn times(self, factor: i64) -> Result<Self, Fault> {
        self.0.checked_mul(factor).map(Self).ok_or(Fault::Overflow)
    }
}

/// Writes `1 hour`, `2 hours`.
fn print(count: i64, unit: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{count} {unit}{}", if count.unsigned_abs() == 1 { "" } else { "s" })
}

/// The size of the unit that `word` names, in the singular or the plural.
fn unit_of(units: &[(&str, i64)], word: &str) -> Option<usize> {
    units.iter().position(|(unit, _)| word == *unit || word.strip_suffix('s') == Some(unit))
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = UNITS.into_iter().find(|(_, size)| self.0 % size == 0).unwrap_or(UNITS[3]);
        print(self.0 / size, unit, f)
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Duration {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let syntax = || ValueError::syntax("Duration", "36 hours", text);
        let range = || ValueError::Range { ty: "Duration" };
        let (count, word) = text.split_once(' ').ok_or_else(syntax)?;
        let unit = unit_of(&UNITS, word.trim_start_matches(' ')).ok_or_else(syntax)?;
        match integer(count) {
            Ok(count) => count.checked_mul(UNITS[unit].1).map(Self).ok_or_else(range),
            Err(ValueError::Range { .. }) => Err(range()),
            Err(_) => Err(syntax()),
        }
    }
}

/// A span of the calendar: months, and then days. Its text form is `1 month`, `3 days`, `1 year 2 months 3 days`;
/// twelve months are a year. Weeks are accepted on input.
///
/// A month is no number of days, so that periods are equal or not, but none is longer than another. The derived order
/// only serves as the canonical one.
///
/// ```
/// use enact_rebel::Period;
/// let term: Period = "14 months".parse()?;
/// assert_eq!((term.months(), term.days(), term.to_string().as_str()), (14, 0, "1 year 2 months"));
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Period {
    months: i32,
    days: i32,
}

/// The units of a period in the order of the text, each in months or days.
const PERIOD_UNITS: [(&str, i64); 4] = [("year", 12), ("month", 1), ("week", 7), ("day", 1)];

/// The first of the units that are counted in days.
const WEEK: usize = 2;

impl Period {
    /// So many months and so many days, which may be negative.
    #[must_use]
    pub const fn new(months: i32, days: i32) -> Self {
        Self { months, days }
    }

    /// Its months, those of its years included.
    #[must_use]
    pub fn months(self) -> i32 {
        self.months
    }

    /// Its days.
    #[must_use]
    pub fn days(self) -> i32 {
        self.days
    }

    pub(crate) fn add(self, other: Self) -> Result<Self, Fault> {
        Self::of(i64::from(self.months) + i64::from(other.months), i64::from(self.days) + i64::from(other.days))
    }

    pub(crate) fn subtract(self, other: Self) -> Result<Self, Fault> {
        Self::of(i64::from(self.months) - i64::from(other.months), i64::from(self.days) - i64::from(other.days))
    }

    pub(crate) fn negate(self) -> Result<Self, Fault> {
        Self::new(0, 0).subtract(self)
    }

    pub(crate) fn times(self, factor: i64) -> Result<Self, Fault> {
        let times = |count: i32| i64::from(count).checked_mul(factor).ok_or(Fault::Overflow);
        Self::of(times(self.months)?, times(self.days)?)
    }

    fn of(months: i64, days: i64) -> Result<Self, Fault> {
        let fit = |count: i64| i32::try_from(count).map_err(|_| Fault::Overflow);
        Ok(Self { months: fit(months)?, days: fit(days)? })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("year", self.months / 12), ("month", self.months % 12), ("day", self.days)];
        let mut is_first = true;
        for (unit, count) in parts.into_iter().filter(|(_, count)| *count != 0) {
            f.write_str(if is_first { "" } else { " " })?;
            print(count.into(), unit, f)?;
            is_first = false;
        }
        if is_first { f.write_str("0 days") } else { Ok(()) }
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Period {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let syntax = || ValueError::syntax("Period", "1 year 2 months 3 days", text);
        let range = || ValueError::Range { ty: "Period" };
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let (mut months, mut days, mut units_left) = (0_i64, 0_i64, PERIOD_UNITS.as_slice());
        while let Some(count) = words.next() {
            let unit = words.next().and_then(|word| unit_of(units_left, word)).ok_or_else(syntax)?;
            let is_in_days = PERIOD_UNITS.len() - units_left.len() + unit >= WEEK;
            let count = integer(count)
                .map_err(|error| if let ValueError::Range { .. } = error { range() } else { syntax() })?;
            let sum = if is_in_days { &mut days } else { &mut months };
            *sum = count.checked_mul(units_left[unit].1).and_then(|more| sum.checked_add(more)).ok_or_else(range)?;
            units_left = &units_left[unit + 1..];
        }
        if units_left.len() == PERIOD_UNITS.len() {
            return Err(syntax());
        }
        Self::of(months, days).map_err(|_| range())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_count_the_largest_unit_that_divides_them() {
        for (text, millis, shown) in [
            ("36 hours", 129_600_000, "36 hours"),
            ("60 minutes", 3_600_000, "1 hour"),
            ("15 minutes", 900_000, "15 minutes"),
            ("90 second", 90_000, "90 seconds"),
            ("1500 milliseconds", 1500, "1500 milliseconds"),
            ("-1 hours", -3_600_000, "-1 hour"),
            ("0 seconds", 0, "0 hours"),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!((duration.millis(), duration.to_string().as_str()), (millis, shown));
        }
        for text in ["", "1", "hour", "1 day", "1 hourss", "1.5 hours", "1 hour 1 minute", " 1 hour", "+1 hour", "1 s"]
        {
            assert!(matches!(text.parse::<Duration>(), Err(ValueError::Syntax { .. })), "{text}");
        }
        for text in ["9223372036854775808 milliseconds", "9223372036854775807 hours"] {
            assert_eq!(text.parse::<Duration>(), Err(ValueError::Range { ty: "Duration" }));
        }
    }

    #[test]
    fn periods_count_years_months_and_days() {
        for (text, months, days, shown) in [
            ("1 month", 1, 0, "1 month"),
            ("3 days", 0, 3, "3 days"),
            ("24 months", 24, 0, "2 years"),
            ("8 weeks", 0, 56, "56 days"),
            ("1 year 2 months 3 days", 14, 3, "1 year 2 months 3 days"),
            ("-14 months 1 week 1 day", -14, 8, "-1 year -2 months 8 days"),
            ("0 years", 0, 0, "0 days"),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!((period.months(), period.days(), period.to_string().as_str()), (months, days, shown));
        }
        for text in ["", "1", "day", "1 hour", "1 day 1 month", "1 day 1 day", "1 month 2", "x days", "1 weeks days"] {
            assert!(matches!(text.parse::<Period>(), Err(ValueError::Syntax { .. })), "{text}");
        }
        for text in ["2147483648 days", "178956971 years", "9223372036854775807 weeks", "9223372036854775808 days"] {
            assert_eq!(text.parse::<Period>(), Err(ValueError::Range { ty: "Period" }));
        }
    }

    #[test]
    fn sums_and_multiples_fault_where_they_do_not_fit() {
        let (hour, most) = (Duration::from_millis(3_600_000), Duration::from_millis(i64::MAX));
        assert_eq!(hour.add(hour), hour.times(2));
        assert_eq!(hour.subtract(hour), hour.times(0));
        assert_eq!(most.add(hour), Err(Fault::Overflow));
        assert_eq!(most.negate().and_then(|least| least.subtract(hour)), Err(Fault::Overflow));
        assert_eq!(most.times(2), Err(Fault::Overflow));
        let (term, long) = (Period::new(1, -2), Period::new(0, i32::MIN));
        assert_eq!(term.add(term), term.times(2));
        assert_eq!(term.subtract(term), Ok(Period::new(0, 0)));
        assert_eq!(term.negate(), Ok(Period::new(-1, 2)));
        assert_eq!((long.negate(), long.add(term)), (Err(Fault::Overflow), Err(Fault::Overflow)));
        assert_eq!((long.times(2), term.times(i64::MIN)), (Err(Fault::Overflow), Err(Fault::Overflow)));
    }

    proptest! {
        #[test]
        fn a_duration_is_read_back(millis: i64, scale in 0_usize..4) {
            let millis = millis / UNITS[scale].1 * UNITS[scale].1;
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn a_period_is_read_back(months: i32, days: i32) {
            let small = Period::new(months % 100, days % 100);
            for period in [Period::new(months, days), small, Period::new(i32::MIN, days)] {
                prop_assert_eq!(period.to_string().parse(), Ok(period));
            }
        }
    }
}
