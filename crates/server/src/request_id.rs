//! The id by which a request is found again: in its answer, in the body of a problem and in the lines of the log.
//!
//! A client or a proxy in front may choose it. What is not well-formed is replaced, so that a log line has nothing in it that was
//! made to look like another one.
//!
//! It is no field of a span: one that is enabled costs a microsecond for each request, though hardly any request logs something. The log asks
//! for it instead ([`Origin`]).

use std::fmt::{self, Display};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use enact_entities::Origin;
use tracing::Span;

/// Header of the request, which may be missing, and of the answer.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Another one for each process.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The id of a request, also as a header has it.
#[derive(Debug)]
pub(crate) struct RequestId {
    text: Arc<str>,
    value: HeaderValue,
}

/// Shows the span of the request that the running task is answering, if it has one.
pub(crate) fn with_current_span<T>(see: impl FnOnce(&Span) -> T) -> Option<T> {
    Origin::with_current(|origin| (!origin.span().is_disabled()).then(|| see(origin.span()))).flatten()
}

impl RequestId {
    /// The request with this id, which has this span.
    pub(crate) fn origin(&self, span: Span) -> Origin {
        Origin::new(Arc::clone(&self.text), span)
    }

    /// That of the client, if it is one of letters, digits and `._:-`; otherwise one that no other request has.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut given = headers.get_all(REQUEST_ID).iter();
        match (given.next(), given.next()) {
            (Some(id), None) if Origin::is_id(id.as_bytes()) => {
                Self { text: id.to_str().expect("visible letters").into(), value: id.clone() }
            }
            _ => Self::new(),
        }
    }

    fn new() -> Self {
        // Each request has one: its text is put together without an allocation.
        let mut bytes = [0; "0123456789abcdef-18446744073709551615".len()];
        let mut rest = &mut bytes[..];
        write!(rest, "{:016x}-{}", *PROCESS, COUNT.fetch_add(1, Ordering::Relaxed)).expect("there is room for all");
        let left = rest.len();
        let text = str::from_utf8(&bytes[..bytes.len() - left]).expect("digits");
        Self { text: text.into(), value: HeaderValue::from_str(text).expect("digits") }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn into_value(self) -> HeaderValue {
        self.value
    }
}

impl Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(given: &[&[u8]]) -> String {
        let header = |id: &&[u8]| (REQUEST_ID, HeaderValue::from_bytes(id).expect("a value"));
        RequestId::of(&given.iter().map(header).collect()).to_string()
    }

    #[test]
    fn a_well_formed_id_of_the_client_is_kept_and_any_other_is_replaced() {
        let longest = "x".repeat(Origin::ID_BYTES_MAX);
        for kept in ["a", "0192f0c1-7a4e:Z._", &longest] {
            assert_eq!(of(&[kept.as_bytes()]), kept);
        }
        let too_long = format!("{longest}x");
        let given: &[&[&[u8]]] = &[
            &[],
            &[b""],
            &[b"a b"],
            &[b"a\tb"],
            &[b"\"a\""],
            &["\u{e9}".as_bytes()],
            &[b"a/b"],
            &[b"a", b"a"],
            &[too_long.as_bytes()],
        ];
        for given in given {
            let made = of(given);
            assert!(Origin::is_id(made.as_bytes()), "{made}");
            assert!(given.iter().all(|id| *id != made.as_bytes()), "{made}");
        }
    }

    #[test]
    fn no_two_requests_get_the_same_id() {
        let ids: BTreeSet<String> = (0..100).map(|_| of(&[])).collect();
        assert_eq!(ids.len(), 100);
    }
}
