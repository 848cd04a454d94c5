//! Opaque identities of 128 bits.

use std::fmt;
use std::str::FromStr;

use super::ValueError;

/// An identity of 128 bits that says nothing but which one it is. Its text form is that of a UUID, in lower case.
///
/// ```
/// use enact_rebel::Id;
/// let id: Id = "0190163d-8694-739b-aea5-966c26f8ad91".parse()?;
/// assert_eq!(Id::from_u128(id.as_u128()), id);
/// assert!("0190163D-8694-739B-AEA5-966C26F8AD91".parse::<Id>().is_err());
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
// Bytes, because a number of 128 bits is aligned to 16 bytes, and a key with it would be larger.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id([u8; 16]);

/// Where the dashes of the text are.
const DASHES: [usize; 4] = [8, 13, 18, 23];

impl Id {
    /// The identity with these bits.
    #[must_use]
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }

    /// Its bits.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.as_u128();
        let part = |shift: u32| bits >> shift & 0xffff;
        let (first, last) = (bits >> 96, bits & 0xffff_ffff_ffff);
        write!(f, "{first:08x}-{:04x}-{:04x}-{:04x}-{last:012x}", part(80), part(64), part(48))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Id {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        bits(text)
            .map(Self::from_u128)
            .ok_or_else(|| ValueError::syntax("Id", "0190163d-8694-739b-aea5-966c26f8ad91", text))
    }
}

fn bits(text: &str) -> Option<u128> {
    let is_right = |(index, byte)| match DASHES.contains(&index) {
        true => byte == b'-',
        false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    if text.len() != 36 || !text.bytes().enumerate().all(is_right) {
        return None;
    }
    u128::from_str_radix(&text.replace('-', ""), 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_lower_case_form_is_read() {
        for text in [
            "",
            "0190163d8694739baea5966c26f8ad91",
            "0190163D-8694-739B-AEA5-966C26F8AD91",
            "{0190163d-8694-739b-aea5-966c26f8ad91}",
            "0190163d-8694-739b-aea5-966c26f8ad9",
            "0190163d-8694-739b-aea5-966c26f8ad911",
            "0190163d-8694-739b-aea5-966c26f8ad9g",
            "0190163d--694-739b-aea5-966c26f8ad91",
            "0190163d086940739b0aea50966c26f8ad91",
            "+190163d-8694-739b-aea5-966c26f8ad91",
        ] {
            assert!(matches!(text.parse::<Id>(), Err(ValueError::Syntax { .. })), "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_id_is_read_back_and_ordered_as_its_text(a: u128, b: u128) {
            let (x, y) = (Id::from_u128(a), Id::from_u128(b));
            prop_assert_eq!(x.to_string().parse(), Ok(x));
            prop_assert_eq!(x.cmp(&y), x.to_string().cmp(&y.to_string()));
        }
    }
}
