//! The id by which a request is found again: in its answer, in the body of a problem and in the lines of the log.
//!
//! A client or a proxy in front may choose it. What is not well-formed is replaced, so that a log line has nothing in it that was
//! made to look like another one.
//!
//! It is no field of a span: one that is enabled costs a microsecond for each request, though hardly any request logs something. The log asks
//! for it instead ([`current_request`]).

use std::fmt::{self, Display};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tracing::Span;

/// Header of the request, which may be missing, and of the answer.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Greatest length of an id, in bytes.
pub(crate) const REQUEST_ID_BYTES_MAX: usize = 128;

/// Another one for each process.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The id of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(HeaderValue);

tokio::task_local! {
    /// The request that the running task is answering, and the span of it.
    static CURRENT: (RequestId, Span);
}

/// The id of the request that the running task is answering, if it is: 1 to 128 letters, digits and characters of `._:-`.
#[must_use]
pub fn current_request() -> Option<String> {
    CURRENT.try_with(|(id, _)| id.to_string()).ok()
}

/// Shows the span of the request that the running task is answering, if it has one.
pub(crate) fn with_current_span<T>(see: impl FnOnce(&Span) -> T) -> Option<T> {
    CURRENT.try_with(|(_, span)| (!span.is_disabled()).then(|| see(span))).ok().flatten()
}

impl RequestId {
    /// What `answering` logs is known to be of this request, which has this span.
    pub(crate) async fn scope<T>(self, span: Span, answering: impl Future<Output = T>) -> T {
        CURRENT.scope((self, span), answering).await
    }

    /// That of the client, if it is one of letters, digits and `._:-`; otherwise one that no other request has.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut given = headers.get_all(REQUEST_ID).iter();
        match (given.next(), given.next()) {
            (Some(id), None) if is_well_formed(id.as_bytes()) => Self(id.clone()),
            _ => Self::new(),
        }
    }

    fn new() -> Self {
        let id = format!("{:016x}-{}", *PROCESS, COUNT.fetch_add(1, Ordering::Relaxed));
        Self(HeaderValue::try_from(id).expect("digits"))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().expect("visible letters")
    }

    pub(crate) fn value(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_well_formed(id: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:-".contains(byte);
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(is_letter)
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
        let longest = "x".repeat(REQUEST_ID_BYTES_MAX);
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
            assert!(is_well_formed(made.as_bytes()), "{made}");
            assert!(given.iter().all(|id| *id != made.as_bytes()), "{made}");
        }
    }

    #[test]
    fn no_two_requests_get_the_same_id() {
        let ids: BTreeSet<String> = (0..100).map(|_| of(&[])).collect();
        assert_eq!(ids.len(), 100);
    }
}
