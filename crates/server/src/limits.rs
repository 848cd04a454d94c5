//! What every request passes before anything of it is looked at.
//!
//! In this order: the size of the target and of the headers, and the host. What asks the engine needs a share of the
//! requests in flight besides ([`Peer::admit`]), and only when all of it has arrived: a body that never ends takes
//! nobody's share. Nothing that was admitted is turned away later. `/health` and `/health/ready` need none: an operator
//! must see a full server.
//!
//! A connection that was told when to come back (`Retry-After`) and asks for anything but health before waits here, until its
//! deadline at most. So clients that ask again at once cost no more than those that do as they are told. Each of their
//! connections waits for up to a second longer than told, by another part of it, so that they do not all come at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, debug, debug_span};

use crate::envelope;
use crate::host::Hosts;
use crate::places::{Answering, Connection};
use crate::problem::{Problem, ProblemKind};
use crate::processor::Waits;
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
    let checks = Checks { hosts };
    router.layer(from_fn_with_state(Arc::new(checks), enter))
}

/// From where a request came; nothing is known of one that came over no connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    connection: Option<Arc<Connection>>,
    /// How long connections wait for a thread.
    waits: Option<Arc<Waits>>,
    held_up: Duration,
}

/// The right of a request to be answered; given back when dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    _share: Share,
    _answering: Option<Answering>,
}

impl Peer {
    pub(crate) fn of(connection: Arc<Connection>, waits: Arc<Waits>) -> Self {
        Self { connection: Some(connection), waits: Some(waits), held_up: Duration::ZERO }
    }

    /// For how long the request was held up, because its connection had been told to come back later.
    pub(crate) fn held_up(&self) -> Duration {
        self.held_up
    }

    /// Waits until the connection may ask again, at most until the deadline of the request.
    async fn hold_up(&mut self, headers: &HeaderMap) {
        let Some(connection) = &self.connection else { return };
        let Some(until) = connection.comes_back_at() else { return };
        let begin = Instant::now();
        let deadline = envelope::deadline(headers).unwrap_or(envelope::DEADLINE_DEFAULT);
        sleep_until((until + connection.part_of(RETRY_AFTER)).min(begin + deadline)).await;
        self.held_up = begin.elapsed();
    }

    /// Admits a request that has arrived whole.
    pub(crate) fn admit(&self, shares: &Arc<Shares>) -> Result<Admitted, Problem> {
        let overloaded = || {
            let detail = "more requests are in flight than this server takes; nothing was done, try again";
            Problem::new(ProblemKind::Overloaded, detail).retry_after(RETRY_AFTER)
        };
        let delay = self.waits.as_ref().and_then(|waits| waits.delay());
        let share = shares
            .take(self.connection.as_ref().map(|connection| connection.client()), delay)
            .ok_or_else(overloaded)?;
        let answering = match &self.connection {
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
struct Checks {
    hosts: Hosts,
}

impl Checks {
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

async fn enter(State(checks): State<Arc<Checks>>, mut request: Request, next: Next) -> Response {
    let span = debug_span!("request", method = %request.method(), path = %request.uri().path());
    async move {
        let start = Instant::now();
        let mut peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        if !is_health(request.uri().path()) {
            peer.hold_up(request.headers()).await;
        }
        request.extensions_mut().insert(peer.clone());
        let response = match checks.check(&request) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        };
        if let Some(connection) = peer.connection {
            connection.answered(retry_after(&response));
        }
        debug!(status = response.status().as_u16(), micros = start.elapsed().as_micros(), "answered");
        response
    }
    .instrument(span)
    .await
}

pub(crate) fn is_health(path: &str) -> bool {
    path.strip_prefix("/health").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// When the client is told to come back.
fn retry_after(response: &Response) -> Option<Instant> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Instant::now() + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;
    use crate::places::{Client, Places};

    /// Answers whatever it is asked, after how long.
    async fn asked(router: &Router, peer: &Peer, target: &str, deadline_ms: u64) -> (u16, Duration) {
        let request = to(target).header(envelope::DEADLINE_MS, deadline_ms).extension(peer.clone());
        let begin = Instant::now();
        (status(router, request).await, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_told_when_to_come_back_waits_until_then_but_for_health() {
        let full = async || Problem::new(ProblemKind::Overloaded, "full").retry_after(RETRY_AFTER);
        let routes = Router::new().route("/full", get(full)).fallback(async || "ok");
        let router = guard(routes, Hosts::new([127, 0, 0, 1].into(), Vec::new()));
        let places = Places::new(2);
        let client = Client::at([127, 0, 0, 1].into());
        let (first, second) = (places.enter(client).await.expect("free"), places.enter(client).await.expect("free"));
        let [peer, other] =
            [&first, &second].map(|place| Peer::of(Arc::clone(place.connection()), Arc::new(Waits::new())));
        let later = RETRY_AFTER + second.connection().part_of(RETRY_AFTER);
        assert_eq!(asked(&router, &peer, "/full", 9_000).await, (503, Duration::ZERO));
        assert_eq!(asked(&router, &peer, "/health", 9_000).await, (200, Duration::ZERO));
        assert_eq!(asked(&router, &peer, "/other", 300).await, (200, Duration::from_millis(300)));
        assert_eq!(asked(&router, &peer, "/other", 9_000).await, (200, RETRY_AFTER - Duration::from_millis(300)));
        assert_eq!(asked(&router, &peer, "/other", 9_000).await, (200, Duration::ZERO));
        assert_eq!(asked(&router, &other, "/full", 9_000).await, (503, Duration::ZERO));
        let (_, waited) = asked(&router, &other, "/full", 9_000).await;
        assert!(waited >= later && waited < later + Duration::from_millis(2), "{waited:?} of {later:?}");
        assert!(later > RETRY_AFTER && later < 2 * RETRY_AFTER, "{later:?}");
        tokio::time::advance(RETRY_AFTER).await;
        assert_eq!(asked(&router, &other, "/other", 9_000).await, (200, Duration::ZERO), "it came when it was told to");
    }

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
