//! Times of day.

use std::fmt;
use std::str::FromStr;

use super::ValueError;
use super::time::{DAY_MS, millis_of_day};

/// A time of day, with milliseconds. Its text form is `18:30`, with seconds (`18:30:15`) and milliseconds
/// (`18:30:15.250`) where they are not zero.
///
/// ```
/// use enact_rebel::Time;
/// let closing: Time = "18:30:00.000".parse()?;
/// assert_eq!(closing.to_string(), "18:30");
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(i64);

impl Time {
    /// The time `millis` milliseconds after midnight, or `None` if that is another day.
    #[must_use]
    pub fn from_millis(millis: i64) -> Option<Self> {
        (0..DAY_MS).contains(&millis).then_some(Self(millis))
    }

    /// Milliseconds since midnight.
    #[must_use]
    pub fn millis(self) -> i64 {
        self.0
    }

    /// The time of day of so many milliseconds since any midnight.
    pub(super) fn within_day(millis: i64) -> Self {
        Self(millis.rem_euclid(DAY_MS))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1000, self.0 % 1000);
        write!(f, "{:02}:{:02}", seconds / 3600, seconds / 60 % 60)?;
        match (seconds % 60, millis) {
            (0, 0) => Ok(()),
            (seconds, 0) => write!(f, ":{seconds:02}"),
            (seconds, millis) => write!(f, ":{seconds:02}.{millis:03}"),
        }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Time {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        millis_of_day(text).map(Self).ok_or_else(|| ValueError::syntax("Time", "18:30", text))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_shortest_exact_form_is_written() {
        for (text, shown) in [
            ("18:30", "18:30"),
            ("18:30:00", "18:30"),
            ("18:30:00.000", "18:30"),
            ("18:30:15.000", "18:30:15"),
            ("18:30:00.250", "18:30:00.250"),
            ("00:00", "00:00"),
            ("23:59:59.999", "23:59:59.999"),
        ] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), shown);
        }
        for text in ["", "18", "24:00", "18:60", "18:30:60", "8:30", "18:30.250", "18:30:15.2", "+8:30", "18:30:15.-25"]
        {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        assert!(Time::from_millis(DAY_MS).is_none() && Time::from_millis(-1).is_none());
    }

    proptest! {
        #[test]
        fn a_time_is_read_back(millis in 0..DAY_MS) {
            let time = Time::from_millis(millis).unwrap();
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
