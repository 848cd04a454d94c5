//! Operations on texts. Lengths and positions count code points, not bytes.
//!
//! The case of a letter is that of the Unicode tables of the compiler that built this crate, letter by letter: neither
//! the language nor the neighbours of a letter matter (`ß` becomes `SS`, `Σ` always `σ`).

use std::sync::Arc;

use super::Fault;
use crate::limits::TEXT_BYTES_MAX;

pub(crate) fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

pub(crate) fn starts_with(text: &str, part: &str) -> bool {
    text.starts_with(part)
}

pub(crate) fn ends_with(text: &str, part: &str) -> bool {
    text.ends_with(part)
}

pub(crate) fn contains(text: &str, part: &str) -> bool {
    text.contains(part)
}

/// The text in capitals, which may be longer.
pub(crate) fn upper(text: &str) -> Result<Arc<str>, Fault> {
    collect(text.chars().flat_map(char::to_uppercase))
}

/// The text in small letters, which may be longer.
pub(crate) fn lower(text: &str) -> Result<Arc<str>, Fault> {
    collect(text.chars().flat_map(char::to_lowercase))
}

/// The text without the characters of Unicode's `White_Space` at its ends.
pub(crate) fn trim(text: &str) -> Arc<str> {
    text.trim().into()
}

/// The characters from position `from` up to, but not including, position `to`. Positions are never clamped:
/// [`Fault::OutOfRange`] unless `0 <= from <= to <= length`.
pub(crate) fn slice(text: &str, from: i64, to: i64) -> Result<Arc<str>, Fault> {
    let (_, rest) = split(text, from).ok_or(Fault::OutOfRange)?;
    let count = to.checked_sub(from).ok_or(Fault::OutOfRange)?;
    let (part, _) = split(rest, count).ok_or(Fault::OutOfRange)?;
    Ok(part.into())
}

/// Both texts, one after the other.
pub(crate) fn concat(left: &str, right: &str) -> Result<Arc<str>, Fault> {
    if left.len() + right.len() > TEXT_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    Ok([left, right].concat().into())
}

/// The first `count` characters, and the others; nothing if there are not so many.
fn split(text: &str, count: i64) -> Option<(&str, &str)> {
    let count = usize::try_from(count).ok()?;
    let mut ends = text.char_indices().map(|(index, _)| index).chain([text.len()]);
    ends.nth(count).map(|index| text.split_at(index))
}

fn collect(letters: impl Iterator<Item = char>) -> Result<Arc<str>, Fault> {
    let mut text = String::new();
    for letter in letters {
        text.push(letter);
        if text.len() > TEXT_BYTES_MAX {
            return Err(Fault::TooLong);
        }
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn letters_have_a_case_of_their_own() {
        for (text, capitals, small) in [
            ("Straße", "STRASSE", "straße"),
            ("ΟΔΟΣ", "ΟΔΟΣ", "οδοσ"),
            ("İ", "İ", "i\u{307}"),
            ("12 €, 木", "12 €, 木", "12 €, 木"),
        ] {
            assert_eq!((upper(text).as_deref(), lower(text).as_deref()), (Ok(capitals), Ok(small)));
        }
    }

    #[test]
    fn blanks_are_those_of_unicode() {
        assert_eq!(&*trim("\t\u{a0}\u{2003} a b\u{3000}\r\n"), "a b");
        assert_eq!(&*trim("\u{200b}a"), "\u{200b}a", "a zero width space is no White_Space");
        assert_eq!(&*trim(" \n"), "");
    }

    #[test]
    fn positions_count_code_points() {
        assert_eq!(length("né€𝄞"), 4);
        assert_eq!(slice("né€𝄞", 1, 3).as_deref(), Ok("é€"));
        assert_eq!(slice("né€𝄞", 0, 4).as_deref(), Ok("né€𝄞"));
        assert_eq!(slice("né€𝄞", 4, 4).as_deref(), Ok(""));
        for (from, to) in [(0, 5), (5, 5), (-1, 2), (2, 1), (0, -1), (0, i64::MAX), (i64::MIN, i64::MAX), (i64::MIN, 0)]
        {
            assert_eq!(slice("né€𝄞", from, to), Err(Fault::OutOfRange), "{from} {to}");
        }
    }

    #[test]
    fn texts_are_as_long_as_the_limit_and_no_longer() {
        let long = "x".repeat(TEXT_BYTES_MAX - 1);
        assert_eq!(concat(&long, "y").map(|text| text.len()), Ok(TEXT_BYTES_MAX));
        assert_eq!(concat(&long, "é"), Err(Fault::TooLong));
        assert_eq!(upper(&format!("{long}x")).map(|text| text.len()), Ok(TEXT_BYTES_MAX));
        // One byte more in capitals than in small letters.
        assert_eq!(upper(&format!("{}ŉ", "x".repeat(TEXT_BYTES_MAX - 2))), Err(Fault::TooLong));
        assert_eq!(lower(&"İ".repeat(TEXT_BYTES_MAX / 2)), Err(Fault::TooLong));
    }

    proptest! {
        #[test]
        fn slices_make_the_whole(text: String, at in 0_i64..20) {
            let at = at.min(length(&text));
            let (start, end) = (slice(&text, 0, at).unwrap(), slice(&text, at, length(&text)).unwrap());
            prop_assert_eq!((length(&start), length(&end)), (at, length(&text) - at));
            prop_assert!(starts_with(&text, &start) && ends_with(&text, &end) && contains(&text, &end));
            prop_assert_eq!(concat(&start, &end), Ok(text.into()));
        }
    }
}
