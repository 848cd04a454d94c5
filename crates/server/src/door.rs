//! What every request passes before anything of it is looked at.
//!
//! In this order: the size of the target and of the headers, and the host. What asks the engine needs a share of the
//! requests in flight besides ([`Peer::admit`]), and only when all of it has arrived: a body that never ends takes
//! nobody's share. Nothing that was admitted is turned away later. `/health` and `/health/ready` need none: an operator
//! must see a full server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tracing::{Instrument, debug, debug_span};

use crate::host::Hosts;
use crate::places::{Answering, Connection};
use crate::problem::{Problem, ProblemKind};
use crate::shares::{Share, Shares};

/// Greatest length of a request target (path and query), in bytes.
pub const TARGET_BYTES_MAX: usize = 4 * 1024;
/// Greatest size of all headers of a request together, names and values, in bytes.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Greatest number of headers of a request.
pub const HEADERS_MAX: usize = 64;

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Lets a request of `router` run only if it passes the limits of this module and names one of `hosts`; logs every
/// request.
pub(crate) fn guard(router: Router, hosts: Hosts) -> Router {
    let door = Door { hosts };
    router.layer(from_fn_with_state(Arc::new(door), enter))
}

/// From where a request came; nothing is known of one that came over no connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer(Option<Arc<Connection>>);

/// The right of a request to be answered; given back when dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    _share: Share,
    _answering: Option<Answering>,
}

impl Peer {
    pub(crate) fn of(connection: Arc<Connection>) -> Self {
        Self(Some(connection))
    }

    /// Admits a request that has arrived whole.
    pub(crate) fn admit(&self, shares: &Arc<Shares>) -> Result<Admitted, Problem> {
        let overloaded = || {
            let detail = "more requests are in flight than this server takes; nothing was done, try again";
            Problem::new(ProblemKind::Overloaded, detail).retry_after(RETRY_AFTER)
        };
        let share = shares.take(self.0.as_ref().map(|connection| connection.client())).ok_or_else(overloaded)?;
        let answering = match &self.0 {
            Some(connection) => Some(connection.answer().ok_or_else(overloaded)?),
            None => None,
        };
        Ok(Admitted { _share: share, _answering: answering })
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

#[derive(Debug)]
struct Door {
    hosts: Hosts,
}

impl Door {
    fn check(&self, request: &Request) -> Result<(), Problem> {
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        if target > TARGET_BYTES_MAX {
            let detail = format!("the target has {target} bytes, at most {TARGET_BYTES_MAX} are taken");
            return Err(Problem::new(ProblemKind::TargetTooLong, detail));
        }
        let headers = request.headers();
        let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
        if headers.len() > HEADERS_MAX || bytes > HEADER_BYTES_MAX {
            let detail = format!(
                "{} headers of {bytes} bytes, at most {HEADERS_MAX} of {HEADER_BYTES_MAX} bytes are taken",
                headers.len()
            );
            return Err(Problem::new(ProblemKind::HeadersTooLarge, detail));
        }
        self.check_host(request.uri().authority().map(Authority::as_str), headers)
    }

    /// Both the host of an absolute target and the header must be ours, and there must be one.
    fn check_host(&self, authority: Option<&str>, headers: &HeaderMap) -> Result<(), Problem> {
        let mut named = authority
            .map(Some)
            .into_iter()
            .chain(headers.get_all(header::HOST).iter().map(|value| value.to_str().ok()))
            .peekable();
        if named.peek().is_some() && named.all(|host| host.is_some_and(|host| self.hosts.allow(host))) {
            return Ok(());
        }
        let detail = "this server answers to `localhost`, loopback addresses, the address it listens on, and the names \
                      given to it with --host";
        Err(Problem::new(ProblemKind::WrongHost, detail))
    }
}

async fn enter(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let span = debug_span!("request", method = %request.method(), path = %request.uri().path());
    let peer = request.extensions().get::<Peer>().cloned();
    async move {
        let start = Instant::now();
        let response = match door.check(&request) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        };
        if let Some(Peer(Some(connection))) = peer {
            connection.answered();
        }
        debug!(status = response.status().as_u16(), micros = start.elapsed().as_micros(), "answered");
        response
    }
    .instrument(span)
    .await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt;

    use super::*;

    fn to(target: &str) -> axum::http::request::Builder {
        Request::get(target).header("host", "localhost")
    }

    async fn status(router: &Router, request: axum::http::request::Builder) -> u16 {
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn targets_headers_and_hosts_are_bounded() {
        let router = guard(Router::new().fallback(async || "ok"), Hosts::new([127, 0, 0, 1].into(), Vec::new()));
        let target = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
        let many = |count: usize| (1..count).fold(to("/"), |request, i| request.header(format!("h{i}"), "v"));
        // `host: localhost` has 13 bytes.
        let large = |bytes: usize| to("/").header("a", "v".repeat(bytes - 13 - 1));
        let rows = [
            (to("/"), 200),
            (to(&target(TARGET_BYTES_MAX)), 200),
            (to(&target(TARGET_BYTES_MAX + 1)), 414),
            (many(HEADERS_MAX), 200),
            (many(HEADERS_MAX + 1), 431),
            (large(HEADER_BYTES_MAX), 200),
            (large(HEADER_BYTES_MAX + 1), 431),
            (Request::get("/"), 421),
            (Request::get("/").header("host", "evil.example"), 421),
            (to("/").header("host", "evil.example"), 421),
            (to("http://evil.example/"), 421),
            (to("http://localhost/"), 200),
        ];
        for (row, (request, expected)) in rows.into_iter().enumerate() {
            assert_eq!(status(&router, request).await, expected, "row {row}");
        }
    }
}
