//! What every request passes before anything of it is looked at.
//!
//! In this order: the size of the target and of the headers, the host, and last the number of requests in flight. A
//! server that is full says so before it has read a body; nothing that was admitted is turned away later. `/health`
//! is not counted: an operator must see a full server.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use tracing::{Instrument, info, info_span};

use crate::host::Hosts;
use crate::problem::{Problem, ProblemKind};

/// Greatest length of a request target (path and query), in bytes.
pub const TARGET_BYTES_MAX: usize = 4 * 1024;
/// Greatest size of all headers of a request together, names and values, in bytes.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Greatest number of headers of a request.
pub const HEADERS_MAX: usize = 64;

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Lets a request of `router` run only if it passes the limits of this module, names a host of a server listening on
/// `listen`, and fewer than `in_flight_max` others run; logs every request.
pub(crate) fn guard(router: Router, listen: IpAddr, in_flight_max: usize) -> Router {
    let door = Door { hosts: Hosts::new(listen), in_flight: Semaphore::new(in_flight_max) };
    router.layer(from_fn_with_state(Arc::new(door), enter))
}

#[derive(Debug)]
struct Door {
    hosts: Hosts,
    in_flight: Semaphore,
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
        let detail = "this server answers to `localhost`, loopback addresses and the address it listens on";
        Err(Problem::new(ProblemKind::WrongHost, detail))
    }
}

async fn enter(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let span = info_span!("request", method = %request.method(), path = %request.uri().path());
    async move {
        let start = Instant::now();
        let response = admit(&door, request, next).await;
        info!(status = response.status().as_u16(), micros = start.elapsed().as_micros(), "answered");
        response
    }
    .instrument(span)
    .await
}

async fn admit(door: &Door, request: Request, next: Next) -> Response {
    if let Err(problem) = door.check(&request) {
        return problem.into_response();
    }
    if request.uri().path() == "/health" {
        return next.run(request).await;
    }
    let Ok(_permit) = door.in_flight.try_acquire() else {
        let detail = "more requests are in flight than this server takes; nothing was done, try again";
        return Problem::new(ProblemKind::Overloaded, detail).retry_after(RETRY_AFTER).into_response();
    };
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use tokio::sync::oneshot;
    use tower::ServiceExt;

    use super::*;

    const LISTEN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn to(target: &str) -> axum::http::request::Builder {
        Request::get(target).header("host", "localhost")
    }

    async fn status(router: &Router, request: axum::http::request::Builder) -> u16 {
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn targets_headers_and_hosts_are_bounded() {
        let router = guard(Router::new().fallback(async || "ok"), LISTEN, 1);
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

    #[tokio::test]
    async fn a_full_server_turns_requests_away_but_stays_observable() {
        let (running, mut started) = tokio::sync::mpsc::channel(2);
        let (finish, finished) = oneshot::channel::<()>();
        let finished = Arc::new(tokio::sync::Mutex::new(Some(finished)));
        let slow = get(async move || {
            let finished = finished.lock().await.take();
            running.send(()).await.unwrap();
            if let Some(finished) = finished {
                finished.await.unwrap();
            }
        });
        let router = guard(Router::new().route("/slow", slow).route("/health", get(async || "")), LISTEN, 1);

        let first = tokio::spawn({
            let router = router.clone();
            async move { status(&router, to("/slow")).await }
        });
        started.recv().await.unwrap();
        let away = router.clone().oneshot(to("/slow").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!((away.status().as_u16(), away.headers()["retry-after"].as_bytes()), (503, &b"1"[..]));
        assert_eq!(status(&router, to("/health")).await, 200);

        finish.send(()).unwrap();
        assert_eq!(first.await.unwrap(), 200);
        assert_eq!(status(&router, to("/slow")).await, 200);
    }
}
