//! How far a reader has come.
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use enact_journal::Position;
use serde::{Deserialize, Serialize};

/// How far apart its positions may be: what stands between them is read again, and is in memory then.
const APART_MAX: u64 = 1_000_000;

/// How far a reader of the changes of a journal has come.
///
/// Displayed as `17.20.1`: a reader that has come to the first change of place 20 reads the journal again behind position 17, where
/// something stands that waits for its place. It is of one journal, and stays valid as long as that.
///
/// ```
/// use enact_entities::Cursor;
///
/// let cursor: Cursor = "17.20.1".parse()?;
/// assert_eq!(cursor.to_string(), "17.20.1");
/// assert!("20.17.1".parse::<Cursor>().is_err());
/// # Ok::<(), enact_entities::ParseCursorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor {
    /// All records up to here are done with.
    from: Position,
    /// All changes of earlier places have been given.
    place: Position,
    /// And so many of this one.
    taken: u32,
}

impl Cursor {
    /// Before the first change.
    pub const START: Self = Self { from: Position::START, place: Position::START, taken: 0 };

    /// Behind `taken` changes of `place`; all records up to `from` are done with.
    pub(crate) fn new(from: Position, place: Position, taken: u32) -> Self {
        Self { from: from.min(place), place, taken }
    }

    /// Behind all changes up to `place`.
    pub(crate) fn behind(from: Position, place: Position) -> Self {
        Self::new(from, place, u32::MAX)
    }

    pub(crate) const fn from(self) -> Position {
        self.from
    }

    pub(crate) const fn place(self) -> Position {
        self.place
    }

    /// Whether the change with this number of `place`, counted from 0, has been given.
    pub(crate) fn has_passed(self, place: Position, number: u32) -> bool {
        (place, number) < (self.place, self.taken)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.from, self.place, self.taken)
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.to_string()
    }
}

impl TryFrom<String> for Cursor {
    type Error = ParseCursorError;

    fn try_from(text: String) -> Result<Self, ParseCursorError> {
        text.parse()
    }
}

impl FromStr for Cursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, ParseCursorError> {
        let mut parts = text.split('.');
        let (Some(from), Some(place), Some(taken), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(ParseCursorError);
        };
        let (from, place) = (Position(from.parse()?), Position(place.parse()?));
        if from > place || place.0 - from.0 > APART_MAX {
            return Err(ParseCursorError);
        }
        Ok(Self { from, place, taken: taken.parse()? })
    }
}

impl From<ParseIntError> for ParseCursorError {
    fn from(_: ParseIntError) -> Self {
        Self
    }
}

/// The text is not a [`Cursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is three numbers such as 17.20.1, the second larger than the first by a million at most")]
pub struct ParseCursorError;
