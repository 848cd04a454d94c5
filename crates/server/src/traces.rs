//! Spans of requests, for an operator who follows what is asked from one service to the next.
//!
//! Without [`Options::traces`](crate::Options::traces) there are none. They are spans of `tracing` with the target [`REQUEST_SPANS`], of which a
//! subscriber makes what it wants; their fields have the names that OpenTelemetry gives them, and `enact.` before those of our own. Nothing
//! is logged within them, and they are not entered: a request has one from its head to the head of its answer. A command of a batch has
//! one of its own within that of the batch, as it has a transaction of its own.
//!
//! The name of a span is that of what the specification declares, or of the endpoint. Texts of clients are in `url.path` alone.

use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use enact_entities::{REQUEST_SPANS, TxId};
use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use crate::command::Told;
use crate::metrics::Endpoint;
use crate::problem::Problem;
use crate::request_id::{RequestId, with_current_span};

/// Makes a span, which nobody has used yet, a part of the trace that the headers of its request name.
pub type JoinTrace = fn(&Span, &HeaderMap);

/// The span of a request.
pub(crate) fn of_request(join: JoinTrace, head: &Parts, id: &RequestId) -> Span {
    let endpoint = Endpoint::of(&head.method, head.uri.path());
    let span = info_span!(
        target: REQUEST_SPANS,
        parent: None,
        "request",
        otel.name = endpoint.name(),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = %head.method,
        http.response.status_code = Empty,
        url.path = head.uri.path(),
        enact.endpoint = endpoint.name(),
        enact.request_id = id.as_str(),
        enact.class = Empty,
        enact.event = Empty,
        enact.transaction = Empty,
        enact.problem = Empty,
    );
    join(&span, &head.headers);
    span
}

/// The span of a command within the one of its batch.
pub(crate) fn of_command(class: &str, event: &str) -> Span {
    with_current_span(|batch| {
        info_span!(
            target: REQUEST_SPANS,
            parent: batch,
            "command",
            otel.name = display(format_args!("{class}.{event}")),
            otel.status_code = Empty,
            http.response.status_code = Empty,
            enact.class = class,
            enact.event = event,
            enact.transaction = Empty,
            enact.problem = Empty,
        )
    })
    .unwrap_or_else(Span::none)
}

/// The running request is about this class.
pub(crate) fn asks_about(class: &str) {
    with_current_span(|span| {
        span.record("enact.class", class);
    });
}

/// The running request is for this event.
pub(crate) fn asks_for(class: &str, event: &str) {
    with_current_span(|span| {
        span.record("otel.name", display(format_args!("{class}.{event}")));
        span.record("enact.class", class).record("enact.event", event);
    });
}

/// What the running request asks for has happened in this transaction.
pub(crate) fn committed(tx: TxId) {
    with_current_span(|span| {
        span.record("enact.transaction", display(tx));
    });
}

/// The command of the span has ended so.
pub(crate) fn command_ended(span: &Span, answer: &Result<Told, Problem>) {
    match answer {
        Ok(told) => {
            span.record("enact.transaction", display(told.committed.transaction()));
            answered(span, StatusCode::OK);
        }
        Err(problem) => {
            ended_with(span, problem);
            answered(span, problem.status());
        }
    }
}

/// What the span is of has ended with this problem.
pub(crate) fn ended_with(span: &Span, problem: &Problem) {
    if span.is_disabled() {
        return;
    }
    span.record("enact.problem", problem.name());
    if let Some(transaction) = problem.transaction() {
        span.record("enact.transaction", transaction);
    }
}

/// What the span is of is answered with this status.
pub(crate) fn answered(span: &Span, status: StatusCode) {
    if span.is_disabled() {
        return;
    }
    // Numbers without a sign become texts on their way.
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}
