//! Where a page ends.
use std::fmt;
use std::str::FromStr;

/// Where a page of a query ends: the next one begins behind it.
///
/// Displayed as hexadecimal digits that mean nothing to others. It belongs to the query, and outlives the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(pub(crate) Vec<u8>);

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Mark {
    type Err = ParseMarkError;

    fn from_str(text: &str) -> Result<Self, ParseMarkError> {
        let digits = text.bytes().map(|digit| char::from(digit).to_digit(16).map(|digit| digit as u8));
        let digits = digits.collect::<Option<Vec<u8>>>().ok_or(ParseMarkError)?;
        let (pairs, []) = digits.as_chunks::<2>() else { return Err(ParseMarkError) };
        Ok(Self(pairs.iter().map(|[high, low]| high << 4 | low).collect()))
    }
}

/// The text is not a [`Mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a mark is what the page before has as its `next`")]
pub struct ParseMarkError;
