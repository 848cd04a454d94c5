//! What every request passes before anything of it is looked at.
//!
//! In this order: the size of the target and of the headers, and the host. What asks the engine needs a share of the
//! requests in flight besides ([`Peer::admit`]), and only when all of it has arrived: a body that never ends takes
//! nobody's share. Nothing that was admitted is turned away later. `/health` and `/health/ready` need none: an operator
//! must see a full server.
//!
//! A connection that was told when to come back (`Retry-After`) and asks for anything but health before waits here, until its
//! deadline at most. So clients that ask again at once cost no more than those that do as they are told. Each of their
//! connections waits for up to a second longer than told, by another part of it, so that they do not all come at once. One that was
//! refused for its rate (429) does not wait: it may have requests of other callers, as that of a proxy has.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use enact_entities::Origin;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, Span, debug, debug_span};

use crate::certificate::ClientCertificate;
use crate::envelope;
use crate::host::Hosts;
use crate::places::{Answering, Client, Connection};
use crate::problem::{Problem, ProblemKind};
use crate::processor::Waits;
use crate::request_id::{REQUEST_ID, RequestId};
use crate::shares::{Share, Shares};
use crate::traces::{self, JoinTrace};

/// Greatest length of a request target (path and query), in bytes.
pub const TARGET_BYTES_MAX: usize = 4 * 1024;
/// Greatest size of all headers of a request together, names and values, in bytes.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Greatest number of headers of a request.
pub const HEADERS_MAX: usize = 64;

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// From where a request came; nothing is known of one that came over no connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    connection: Option<Arc<Connection>>,
    /// How long connections wait for a thread.
    waits: Option<Arc<Waits>>,
    held_up: Duration,
    stopping: Stopping,
    /// That the client has proved to be its own.
    certificate: Option<Arc<ClientCertificate>>,
}

/// Whether the server stops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopping(Option<watch::Receiver<()>>);

impl Stopping {
    /// One that is waited for until `server` is dropped.
    pub(crate) fn of(server: &watch::Sender<()>) -> Self {
        Self(Some(server.subscribe()))
    }

    /// Waits until it does.
    pub(crate) async fn wait(self) {
        match self.0 {
            Some(mut server) => while server.changed().await.is_ok() {},
            None => pending().await,
        }
    }
}

/// The right of a request to be answered; given back when dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    _share: Share,
    _answering: Option<Answering>,
}

impl Peer {
    pub(crate) fn of(connection: Arc<Connection>, waits: Arc<Waits>, stopping: Stopping) -> Self {
        Self { connection: Some(connection), waits: Some(waits), held_up: Duration::ZERO, stopping, certificate: None }
    }

    /// The same, with the certificate that its client has proved to be its own.
    pub(crate) fn with_certificate(self, certificate: Option<ClientCertificate>) -> Self {
        Self { certificate: certificate.map(Arc::new), ..self }
    }

    /// The certificate that the client has proved to be its own.
    pub(crate) fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.certificate.as_ref()
    }

    /// The client, if the request came over a connection.
    pub(crate) fn client(&self) -> Option<Client> {
        self.connection.as_ref().map(|connection| connection.client())
    }

    /// The end of the server.
    pub(crate) fn stopping(&self) -> Stopping {
        self.stopping.clone()
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

    /// A share beside the one of the request that is admitted, if the client may have one.
    pub(crate) fn share(&self, shares: &Arc<Shares>) -> Option<Share> {
        shares.take(self.client(), None)
    }

    /// What a client is told that finds no room.
    pub(crate) fn overloaded(detail: &str) -> Problem {
        Problem::new(ProblemKind::Overloaded, detail).retry_after(RETRY_AFTER)
    }

    /// Admits a request that has arrived whole.
    pub(crate) fn admit(&self, shares: &Arc<Shares>) -> Result<Admitted, Problem> {
        let overloaded =
            || Self::overloaded("more requests are in flight than this server takes; nothing was done, try again");
        let delay = self.waits.as_ref().and_then(|waits| waits.delay());
        let share = shares.take(self.client(), delay).ok_or_else(overloaded)?;
        let answering = match &self.connection {
            Some(connection) => Some(connection.answer().ok_or_else(overloaded)?),
            None => None,
        };
        Ok(Admitted { _share: share, _answering: answering })
    }
}

/// What lets a request run only if it passes the limits of this module and names a host of this server.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Hosts,
    /// How spans of requests join traces, if there are any.
    traces: Option<JoinTrace>,
}

impl Guard {
    pub(crate) fn new(hosts: Hosts, traces: Option<JoinTrace>) -> Self {
        Self { hosts, traces }
    }

    /// Answers a request with this head by `answer`, if it passes; logs it. The answer has the id of the request.
    pub(crate) async fn pass(
        &self,
        mut head: Parts,
        answer: impl AsyncFnOnce(&Peer, Parts) -> Result<Response, Problem>,
    ) -> Response {
        let id = RequestId::of(&head.headers);
        let span = debug_span!("request", method = %head.method, path = %head.uri.path());
        let start = (!span.is_disabled()).then(Instant::now);
        let trace = self.traces.map_or_else(Span::none, |join| traces::of_request(join, &head, &id));
        let origin = id.origin(trace.clone());
        let answering = async move {
            let mut peer = head.extensions.remove::<Peer>().unwrap_or_default();
            if !is_health(head.uri.path()) {
                peer.hold_up(&head.headers).await;
            }
            let answered = match self.check(&head) {
                Ok(()) => answer(&peer, head).await,
                Err(problem) => Err(problem),
            };
            let mut response = answered.unwrap_or_else(|problem| {
                traces::ended_with(&trace, &problem);
                problem.of_request(id.as_str()).into_response()
            });
            traces::answered(&trace, response.status());
            response.headers_mut().insert(REQUEST_ID, id.into_value());
            if let Some(connection) = peer.connection {
                connection.answered(retry_after(&response));
            }
            if let Some(start) = start {
                let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
                debug!(status = response.status().as_u16(), micros, "answered");
            }
            response
        };
        Origin::scope(Some(origin), answering.instrument(span)).await
    }

    fn check(&self, head: &Parts) -> Result<(), Problem> {
        let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
        if target > TARGET_BYTES_MAX {
            let detail = format!("the target has {target} bytes, at most {TARGET_BYTES_MAX} are taken");
            return Err(Problem::new(ProblemKind::TargetTooLong, detail));
        }
        let headers = &head.headers;
        let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
        if headers.len() > HEADERS_MAX || bytes > HEADER_BYTES_MAX {
            let detail = format!(
                "{} headers of {bytes} bytes, at most {HEADERS_MAX} of {HEADER_BYTES_MAX} bytes are taken",
                headers.len()
            );
            return Err(Problem::new(ProblemKind::HeadersTooLarge, detail));
        }
        self.check_host(head.uri.authority().map(Authority::as_str), headers)
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

pub(crate) fn is_health(path: &str) -> bool {
    path.strip_prefix("/health").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// When the connection is told to come back.
fn retry_after(response: &Response) -> Option<Instant> {
    if response.status() != StatusCode::SERVICE_UNAVAILABLE {
        return None;
    }
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Instant::now() + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;
    use crate::places::Places;

    fn guard() -> Guard {
        Guard::new(Hosts::new([127, 0, 0, 1].into(), Vec::new()), None)
    }

    /// Answers whatever it is asked, after how long; `/full` is turned away.
    async fn asked(guard: &Guard, peer: &Peer, target: &str, deadline_ms: u64) -> (u16, Duration) {
        let request = to(target).header(envelope::DEADLINE_MS, deadline_ms).extension(peer.clone());
        let begin = Instant::now();
        (status(guard, request).await, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_told_when_to_come_back_waits_until_then_but_for_health() {
        let guard = guard();
        let places = Places::new(2);
        let client = Client::at([127, 0, 0, 1].into());
        let (first, second) = (places.enter(client).await.expect("free"), places.enter(client).await.expect("free"));
        let [peer, other] = [&first, &second]
            .map(|place| Peer::of(Arc::clone(place.connection()), Arc::new(Waits::new()), Stopping::default()));
        let later = RETRY_AFTER + second.connection().part_of(RETRY_AFTER);
        assert_eq!(asked(&guard, &peer, "/full", 9_000).await, (503, Duration::ZERO));
        assert_eq!(asked(&guard, &peer, "/health", 9_000).await, (200, Duration::ZERO));
        assert_eq!(asked(&guard, &peer, "/other", 300).await, (200, Duration::from_millis(300)));
        assert_eq!(asked(&guard, &peer, "/other", 9_000).await, (200, RETRY_AFTER - Duration::from_millis(300)));
        assert_eq!(asked(&guard, &peer, "/other", 9_000).await, (200, Duration::ZERO));
        assert_eq!(asked(&guard, &other, "/full", 9_000).await, (503, Duration::ZERO));
        let (_, waited) = asked(&guard, &other, "/full", 9_000).await;
        assert!(waited >= later && waited < later + Duration::from_millis(2), "{waited:?} of {later:?}");
        assert!(later > RETRY_AFTER && later < 2 * RETRY_AFTER, "{later:?}");
        tokio::time::advance(RETRY_AFTER).await;
        assert_eq!(asked(&guard, &other, "/other", 9_000).await, (200, Duration::ZERO), "it came when it was told to");
    }

    fn to(target: &str) -> axum::http::request::Builder {
        Request::get(target).header("host", "localhost")
    }

    async fn status(guard: &Guard, request: axum::http::request::Builder) -> u16 {
        let (head, ()) = request.body(()).unwrap().into_parts();
        let answer = async |_: &Peer, head: Parts| match head.uri.path() {
            "/full" => Err(Problem::new(ProblemKind::Overloaded, "full").retry_after(RETRY_AFTER)),
            _ => Ok("ok".into_response()),
        };
        guard.pass(head, answer).await.status().as_u16()
    }

    #[tokio::test]
    async fn targets_headers_and_hosts_are_bounded() {
        let guard = guard();
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
            assert_eq!(status(&guard, request).await, expected, "row {row}");
        }
    }
}
