//! International bank account numbers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::ValueError;

/// A bank account number whose check digits (ISO 13616, modulo 97) are right, without blanks.
///
/// Blanks between groups are accepted on input. National account formats are not checked.
///
/// ```
/// use enact_rebel::Iban;
/// let iban: Iban = "NL91 ABNA 0417 1643 00".parse()?;
/// assert_eq!(iban.to_string(), "NL91ABNA0417164300");
/// assert!("NL92ABNA0417164300".parse::<Iban>().is_err());
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Iban(Arc<str>);

impl Iban {
    /// The number, without blanks.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Iban {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        // 34 characters in groups of four: anything much longer is not worth a copy.
        let compact: Arc<str> = match text.contains(' ') {
            true => text.chars().take(64).filter(|&c| c != ' ').collect::<String>().into(),
            false => text.get(..64).unwrap_or(text).into(),
        };
        let bytes = compact.as_bytes();
        let has_form = (15..=34).contains(&bytes.len())
            && bytes[..2].iter().all(u8::is_ascii_uppercase)
            && bytes[2..4].iter().all(u8::is_ascii_digit)
            && bytes[4..].iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        if !has_form || text.len() > 64 {
            return Err(ValueError::syntax("Iban", "NL91ABNA0417164300", text));
        }
        if remainder(bytes) == 1 { Ok(Self(compact)) } else { Err(ValueError::Checksum { text: compact.to_string() }) }
    }
}

/// The number modulo 97, with the country and the check digits moved to the end and letters read as 10 to 35.
fn remainder(bytes: &[u8]) -> u64 {
    let (head, tail) = bytes.split_at(4);
    let rest = tail.iter().chain(head).fold(0, |rest: u64, &byte| {
        // Nothing is divided before two more digits might not fit.
        let rest = if rest < u64::MAX / 1_000 { rest } else { rest % 97 };
        match byte {
            b'0'..=b'9' => rest * 10 + u64::from(byte - b'0'),
            _ => rest * 100 + u64::from(byte - b'A') + 10,
        }
    });
    rest % 97
}

impl fmt::Display for Iban {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Iban {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
