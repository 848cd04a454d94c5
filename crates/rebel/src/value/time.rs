//! Dates and points in time, in UTC, in the proleptic Gregorian calendar.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{Duration, Fault, Period, Time, ValueError};

pub(super) const DAY_MS: i64 = 86_400_000;

/// A day. Its text form is `2026-11-21`.
///
/// Years outside 0 to 9999 are written with a sign and six digits or more (`+012026-01-01`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date(i64);

impl Date {
    /// The days that hold a [`Timestamp`]: 292 million years on each side of 1970.
    pub(crate) const DAYS: RangeInclusive<i64> = i64::MIN.div_euclid(DAY_MS)..=i64::MAX / DAY_MS;

    /// The day of the given year, month (1 to 12) and day of the month, or `None` if there is none.
    #[must_use]
    pub fn new(year: i64, month: u8, day: u8) -> Option<Self> {
        if year.abs() > 300_000_000 || !(1..=12).contains(&month) || !(1..=month_length(year, month)).contains(&day) {
            return None;
        }
        Self::from_days(days_of(year, month, day))
    }

    /// The day that is `days` after 1970-01-01, or `None` outside the range.
    #[must_use]
    pub fn from_days(days: i64) -> Option<Self> {
        Self::DAYS.contains(&days).then_some(Self(days))
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub fn days(self) -> i64 {
        self.0
    }

    /// Its year; the one before year 1 is year 0.
    #[must_use]
    pub fn year(self) -> i64 {
        self.civil().0
    }

    /// Its month, 1 to 12.
    #[must_use]
    pub fn month(self) -> u8 {
        self.civil().1
    }

    /// Its day of the month, 1 to 31.
    #[must_use]
    pub fn day(self) -> u8 {
        self.civil().2
    }

    /// Its day of the week, from 1 for Monday to 7 for Sunday.
    ///
    /// ```
    /// use enact_rebel::Date;
    /// assert_eq!("2026-11-21".parse::<Date>()?.weekday(), 6);
    /// # Ok::<(), enact_rebel::ValueError>(())
    /// ```
    #[must_use]
    pub fn weekday(self) -> u8 {
        // 1970-01-01 was a Thursday.
        (self.0 + 3).rem_euclid(7).unsigned_abs() as u8 + 1
    }

    /// The beginning of the day, 00:00 UTC. The first day of all has none: it begins before the first timestamp.
    pub(crate) fn start(self) -> Result<Timestamp, Fault> {
        self.0.checked_mul(DAY_MS).map(Timestamp).ok_or(Fault::Overflow)
    }

    /// The day that is so many months later, and from there so many days. A day past the month's end becomes its last.
    pub(crate) fn plus_period(self, period: Period) -> Result<Self, Fault> {
        self.moved(period.months().into(), period.days().into())
    }

    /// The day that is so many months earlier, and from there so many days. A day past the month's end becomes its
    /// last.
    pub(crate) fn minus_period(self, period: Period) -> Result<Self, Fault> {
        self.moved(-i64::from(period.months()), -i64::from(period.days()))
    }

    fn moved(self, months: i64, days: i64) -> Result<Self, Fault> {
        let (year, month, day) = self.civil();
        let months = 12 * year + i64::from(month) - 1 + months;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12).unsigned_abs() as u8 + 1);
        let day = day.min(month_length(year, month));
        Self::from_days(days_of(year, month, day) + days).ok_or(Fault::Overflow)
    }

    pub(crate) fn plus(self, days: i64) -> Result<Self, Fault> {
        self.0.checked_add(days).and_then(Self::from_days).ok_or(Fault::Overflow)
    }

    pub(crate) fn minus(self, days: i64) -> Result<Self, Fault> {
        self.0.checked_sub(days).and_then(Self::from_days).ok_or(Fault::Overflow)
    }

    /// Year, month and day of the month.
    fn civil(self) -> (i64, u8, u8) {
        let days = self.0 + EPOCH_FROM_MARCH_0;
        let cycle = days.div_euclid(DAYS_PER_400_YEARS);
        let day = days.rem_euclid(DAYS_PER_400_YEARS);
        let year_of_cycle = (day - day / 1460 + day / 36_524 - day / (DAYS_PER_400_YEARS - 1)) / 365;
        let day_of_year = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = 400 * cycle + year_of_cycle + i64::from(month <= 2);
        (year, month.try_into().unwrap_or(1), day_of_month.try_into().unwrap_or(1))
    }
}

/// Days from 1970-01-01 to a day of the calendar, in a year of less than ten digits.
fn days_of(year: i64, month: u8, day: u8) -> i64 {
    // Count in years that begin in March, so that the leap day is the last.
    let years = if month > 2 { year } else { year - 1 };
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let days = 365 * years + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400) + day_of_year;
    days - EPOCH_FROM_MARCH_0
}

const DAYS_PER_400_YEARS: i64 = 146_097;

/// 1970-01-01 counted from the first of March of year 0.
const EPOCH_FROM_MARCH_0: i64 = 719_468;

fn month_length(year: i64, month: u8) -> u8 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        match year {
            0..=9999 => write!(f, "{year:04}-{month:02}-{day:02}"),
            _ => write!(f, "{year:+07}-{month:02}-{day:02}"),
        }
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Date {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let syntax = || ValueError::syntax("Date", "2026-11-21", text);
        let (year, month, day) = split_date(text).ok_or_else(syntax)?;
        Self::new(year, month, day).ok_or_else(|| ValueError::NoSuchDay { text: text.into() })
    }
}

fn split_date(text: &str) -> Option<(i64, u8, u8)> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => (1, text),
    };
    let mut parts = digits.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let has_year = if digits.len() == text.len() { year.len() == 4 } else { (6..=9).contains(&year.len()) };
    if parts.next().is_some() || !has_year {
        return None;
    }
    Some((sign * digits_of::<i64>(year)?, two_digits(month)?, two_digits(day)?))
}

fn two_digits(text: &str) -> Option<u8> {
    if text.len() == 2 { digits_of(text) } else { None }
}

/// A number of digits only: no sign, no blank.
fn digits_of<N: FromStr>(text: &str) -> Option<N> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A point in time: milliseconds since the Unix epoch. Its text form is `2026-11-21T09:30:00.000Z`, always UTC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point `millis` milliseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn millis(self) -> i64 {
        self.0
    }

    /// The day it lies in.
    #[must_use]
    pub fn date(self) -> Date {
        Date(self.0.div_euclid(DAY_MS))
    }

    /// The time of that day.
    #[must_use]
    pub fn time(self) -> Time {
        Time::within_day(self.0)
    }

    pub(crate) fn plus(self, duration: Duration) -> Result<Self, Fault> {
        self.0.checked_add(duration.millis()).map(Self).ok_or(Fault::Overflow)
    }

    pub(crate) fn minus(self, duration: Duration) -> Result<Self, Fault> {
        self.0.checked_sub(duration.millis()).map(Self).ok_or(Fault::Overflow)
    }

    /// The same time of the day that [`Date::plus_period`] gives.
    pub(crate) fn plus_period(self, period: Period) -> Result<Self, Fault> {
        self.on(self.date().plus_period(period)?)
    }

    /// The same time of the day that [`Date::minus_period`] gives.
    pub(crate) fn minus_period(self, period: Period) -> Result<Self, Fault> {
        self.on(self.date().minus_period(period)?)
    }

    /// The time that has passed since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Result<Duration, Fault> {
        self.0.checked_sub(earlier.0).map(Duration::from_millis).ok_or(Fault::Overflow)
    }

    fn on(self, date: Date) -> Result<Self, Fault> {
        Self::at(date, self.time().millis()).ok_or(Fault::Overflow)
    }

    fn at(date: Date, of_day: i64) -> Option<Self> {
        let millis = i128::from(date.days()) * i128::from(DAY_MS) + i128::from(of_day);
        i64::try_from(millis).ok().map(Self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_day = self.0.rem_euclid(DAY_MS);
        let (seconds, millis) = (of_day / 1000, of_day % 1000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        write!(f, "{}T{hours:02}:{minutes:02}:{:02}.{millis:03}Z", self.date(), seconds % 60)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Timestamp {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let syntax = || ValueError::syntax("Timestamp", "2026-11-21T09:30:00.000Z", text);
        let (date, time) = text.strip_suffix('Z').and_then(|text| text.split_once('T')).ok_or_else(syntax)?;
        let of_day = millis_of_day(time).ok_or_else(syntax)?;
        let date: Date = date.parse()?;
        Self::at(date, of_day).ok_or(ValueError::Range { ty: "Timestamp" })
    }
}

/// Reads `hh:mm`, `hh:mm:ss` or `hh:mm:ss.mmm`.
pub(super) fn millis_of_day(text: &str) -> Option<i64> {
    let (clock, millis) = match text.split_once('.') {
        Some((clock, fraction)) if fraction.len() == 3 && clock.len() == 8 => (clock, digits_of::<i64>(fraction)?),
        Some(_) => return None,
        None => (text, 0),
    };
    let mut parts = clock.split(':');
    let (hours, minutes) = (two_digits(parts.next()?)?, two_digits(parts.next()?)?);
    let seconds = parts.next().map_or(Some(0), two_digits)?;
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(((i64::from(hours) * 60 + i64::from(minutes)) * 60 + i64::from(seconds)) * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn days_of_the_calendar() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("2026-11-21", 20_778),
            ("0000-03-01", -719_468),
        ] {
            let date: Date = text.parse().unwrap();
            assert_eq!((date.days(), date.to_string().as_str()), (days, text));
        }
    }

    #[test]
    fn days_that_are_none() {
        for text in ["2025-02-29", "1900-02-29", "2026-00-10", "2026-13-01", "2026-04-31", "2026-01-00"] {
            assert!(matches!(text.parse::<Date>(), Err(ValueError::NoSuchDay { .. })), "{text}");
        }
        for text in ["", "2026", "26-01-01", "2026-1-1", "2026-01-01-", "+2026-01-01", "2026-01-0x", "é026-01-01"] {
            assert!(matches!(text.parse::<Date>(), Err(ValueError::Syntax { .. })), "{text}");
        }
    }

    #[test]
    fn the_ends_of_time_are_written_and_read() {
        for millis in [i64::MIN, i64::MAX, 0] {
            let time = Timestamp::from_millis(millis);
            assert_eq!(time.to_string().parse(), Ok(time));
            assert_eq!(time.date().to_string().parse(), Ok(time.date()));
        }
        assert_eq!("2026-11-21T09:30Z".parse::<Timestamp>().unwrap().to_string(), "2026-11-21T09:30:00.000Z");
        assert!("2026-11-21T24:00".parse::<Timestamp>().is_err());
    }

    #[test]
    fn known_days_of_the_week() {
        for (text, weekday) in [
            ("1970-01-01", 4),
            ("1969-12-28", 7),
            ("2000-02-29", 2),
            ("2026-11-21", 6),
            ("2026-11-22", 7),
            ("2026-11-23", 1),
            ("0001-01-01", 1),
        ] {
            assert_eq!(text.parse::<Date>().unwrap().weekday(), weekday, "{text}");
        }
    }

    #[test]
    fn known_days_of_periods() {
        for (from, period, later, earlier) in [
            ("2026-01-31", "1 month", "2026-02-28", "2025-12-31"),
            ("2024-01-31", "1 month", "2024-02-29", "2023-12-31"),
            ("2024-02-29", "1 year", "2025-02-28", "2023-02-28"),
            ("2024-02-29", "4 years", "2028-02-29", "2020-02-29"),
            ("2026-03-31", "1 month 1 day", "2026-05-01", "2026-02-27"),
            ("2026-12-15", "1 month", "2027-01-15", "2026-11-15"),
            ("2026-03-30", "-1 month", "2026-02-28", "2026-04-30"),
            ("2026-11-21", "8 weeks", "2027-01-16", "2026-09-26"),
            ("0000-01-01", "1 day", "0000-01-02", "-000001-12-31"),
            ("2026-11-21", "0 days", "2026-11-21", "2026-11-21"),
        ] {
            let (date, period): (Date, Period) = (from.parse().unwrap(), period.parse().unwrap());
            assert_eq!(date.plus_period(period).unwrap().to_string(), later, "{from} + {period}");
            assert_eq!(date.minus_period(period).unwrap().to_string(), earlier, "{from} - {period}");
            let noon: Timestamp = format!("{from}T12:34:56.789Z").parse().unwrap();
            assert_eq!(noon.plus_period(period).unwrap().to_string(), format!("{later}T12:34:56.789Z"));
            assert_eq!(noon.minus_period(period).unwrap().to_string(), format!("{earlier}T12:34:56.789Z"));
        }
    }

    #[test]
    fn past_the_ends_of_time_is_a_fault() {
        let (first, last) = (Date(*Date::DAYS.start()), Date(*Date::DAYS.end()));
        assert_eq!(first.start(), Err(Fault::Overflow));
        assert!(last.start().is_ok() && first.plus(1).unwrap().start().is_ok());
        let (day, long) = (Period::new(0, 1), Period::new(i32::MIN, i32::MIN));
        assert_eq!(last.plus_period(day), Err(Fault::Overflow));
        assert_eq!(first.minus_period(day), Err(Fault::Overflow));
        assert_eq!(first.plus_period(long), Err(Fault::Overflow));
        assert_eq!(last.minus_period(long), Err(Fault::Overflow));
        // Past the end after the month, inside after the days.
        assert!(last.plus_period(Period::new(1, -40)).is_ok());
        let (first, last) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
        assert_eq!(first.minus_period(Period::new(0, 0)), Ok(first));
        assert_eq!(last.plus_period(day), Err(Fault::Overflow));
        assert_eq!(first.minus(Duration::from_millis(1)), Err(Fault::Overflow));
        assert_eq!(last.plus(Duration::from_millis(1)), Err(Fault::Overflow));
        assert_eq!(last.since(first), Err(Fault::Overflow));
    }

    proptest! {
        #[test]
        fn a_day_is_read_back(days in Date::DAYS) {
            let date = Date(days);
            prop_assert_eq!(date.to_string().parse(), Ok(date));
            prop_assert_eq!(Date::new(date.year(), date.month(), date.day()), Some(date));
        }

        #[test]
        fn a_day_comes_before_the_next_one(days in -1_000_000_i64..1_000_000) {
            let (date, next) = (Date(days), Date(days + 1));
            prop_assert_eq!(next.weekday(), date.weekday() % 7 + 1);
            prop_assert_eq!(date.plus_period(Period::new(0, 1)), Ok(next));
            let is_same_month = (next.year(), next.month(), next.day()) == (date.year(), date.month(), date.day() + 1);
            let is_next_month = next.day() == 1 && date.day() == month_length(date.year(), date.month());
            prop_assert!(is_same_month || is_next_month);
        }

        #[test]
        fn months_move_the_month_and_keep_a_day_that_exists(days in -1_000_000_i64..1_000_000, months in -5000..5000) {
            let date = Date(days);
            let moved = date.plus_period(Period::new(months, 0)).unwrap();
            let index = |date: Date| 12 * date.year() + i64::from(date.month());
            prop_assert_eq!(index(moved), index(date) + i64::from(months));
            prop_assert_eq!(moved.day(), date.day().min(month_length(moved.year(), moved.month())));
            prop_assert_eq!(date.minus_period(Period::new(-months, 0)), Ok(moved));
        }

        #[test]
        fn a_timestamp_is_its_day_and_its_time(millis: i64, other: i64) {
            let (time, other) = (Timestamp(millis), Timestamp(other));
            prop_assert_eq!(Timestamp::at(time.date(), time.time().millis()), Some(time));
            if let Ok(passed) = time.since(other) {
                prop_assert_eq!(other.plus(passed), Ok(time));
                prop_assert_eq!(time.minus(passed), Ok(other));
            }
        }

        #[test]
        fn a_timestamp_is_read_back(millis: i64) {
            let time = Timestamp(millis);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
