//! What a command says about itself beside its parameters: its idempotency key and its deadline.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};

use crate::problem::InvalidParameter;

/// Header that names a command, so that sending it again cannot repeat its effect.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Header of an answer that was given before, to an earlier request with the same key.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Header with the time, in milliseconds, after which the client does not wait any longer: it is answered then.
pub(crate) const DEADLINE_MS: HeaderName = HeaderName::from_static("enact-deadline-ms");

/// Greatest length of an idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Deadline of a request that names none.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(2);
/// Longest deadline; a later one is taken as this.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30);

/// The idempotency key, if one is given: 1 to 255 visible ASCII characters.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, InvalidParameter> {
    let Some(key) = only(headers, &IDEMPOTENCY_KEY)? else { return Ok(None) };
    if is_idempotency_key(key) { Ok(Some(key.to_owned())) } else { Err(unfit(&IDEMPOTENCY_KEY, KEY_RULE)) }
}

/// Whether `key` is 1 to 255 visible ASCII characters.
pub(crate) fn is_idempotency_key(key: &str) -> bool {
    (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The time a request may take, from its arrival.
pub(crate) fn deadline(headers: &HeaderMap) -> Result<Duration, InvalidParameter> {
    let Some(text) = only(headers, &DEADLINE_MS)? else { return Ok(DEADLINE_DEFAULT) };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(unfit(&DEADLINE_MS, "a whole number of milliseconds"));
    }
    // More digits than fit are a very late deadline, not a wrong one.
    let millis = text.parse().unwrap_or(u64::MAX);
    Ok(Duration::from_millis(millis).min(DEADLINE_MAX))
}

/// What an idempotency key is.
pub(crate) const KEY_RULE: &str = "1 to 255 visible ASCII characters";

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, InvalidParameter> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| unfit(name, "visible ASCII characters")),
        (Some(_), Some(_)) => Err(unfit(name, "given once")),
    }
}

fn unfit(name: &HeaderName, expected: &str) -> InvalidParameter {
    InvalidParameter { name: name.to_string(), problem: format!("expected: {expected}") }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn with(name: &HeaderName, values: &[&[u8]]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_bytes(value).unwrap())).collect()
    }

    #[test]
    fn a_key_is_1_to_255_visible_ascii_characters() {
        let key = |values: &[&[u8]]| idempotency_key(&with(&IDEMPOTENCY_KEY, values));
        let longest = "k".repeat(IDEMPOTENCY_KEY_BYTES_MAX);
        assert_eq!(key(&[]), Ok(None));
        for good in ["a", "\"quoted\"", "~!", longest.as_str()] {
            assert_eq!(key(&[good.as_bytes()]), Ok(Some(good.to_owned())));
        }
        let too_long = format!("{longest}k");
        for bad in [&b""[..], b"a b", b"a\tb", "é".as_bytes(), b"\xff", too_long.as_bytes()] {
            assert_eq!(key(&[bad]).unwrap_err().name, "idempotency-key", "{bad:?}");
        }
        assert!(key(&[b"a", b"a"]).is_err());
    }

    #[test]
    fn a_deadline_is_capped_and_has_a_default() {
        let deadline = |values: &[&[u8]]| deadline(&with(&DEADLINE_MS, values)).map(|deadline| deadline.as_millis());
        assert_eq!(deadline(&[]), Ok(2_000));
        assert_eq!(deadline(&[b"0"]), Ok(0));
        assert_eq!(deadline(&[b"250"]), Ok(250));
        assert_eq!(deadline(&[b"30001"]), Ok(30_000));
        assert_eq!(deadline(&[b"99999999999999999999999999"]), Ok(30_000));
        for bad in [&b""[..], b"-1", b"+1", b"1.5", b"2s", b"\xff"] {
            assert_eq!(deadline(&[bad]).unwrap_err().name, "enact-deadline-ms", "{bad:?}");
        }
    }
}
