//! Digests as files of callers write them: in hexadecimal digits.

pub(crate) type Digest = [u8; 32];

/// The digest that these digits write, of either case.
pub(crate) fn digest_from(digits: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(digest)
}

pub(crate) fn hexadecimal(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
