//! Every answer that is not a success: one table of kinds with their status, rendered as problem details (RFC 9457).
//!
//! Refused, failed and in doubt are three things here as everywhere: `409` says that the command certainly had no
//! effect and will not have one; `4xx` otherwise that it never became a command; `504` that the client does not know
//! yet and how it gets to know. No problem carries a path of the host, a backtrace or a panic's text.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use enact_journal::EntityKey;
use serde::Serialize;
use utoipa::ToSchema;

/// Media type of every [`Problem`].
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// What kind of problem an answer reports; decides the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    /// The path leads to nothing.
    NoSuchResource,
    /// The specification declares no such class.
    NoSuchClass,
    /// The class declares no such event, or it is internal.
    NoSuchEvent,
    /// The instance was never created.
    NoSuchInstance,
    /// The instance has ended, and what it was before is not kept any more.
    HistoryDiscarded,
    /// No personal value of the instance was ever stored.
    NothingPersonal,
    /// The resource does not know this method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The request names a caller and does not prove it.
    Unauthenticated,
    /// The specification demands a role that the caller does not have; the event had no effect.
    Forbidden,
    /// A precondition, invariant or the life cycle refused the event; it had no effect.
    Refused,
    /// A request with the same idempotency key is still running.
    KeyInUse,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The request target is longer than the limit.
    TargetTooLong,
    /// A command whose content is not declared as JSON.
    UnsupportedMediaType,
    /// The `Host` header names another host.
    WrongHost,
    /// The body is not one JSON object.
    MalformedBody,
    /// Id, parameters, query or headers do not fit their declaration.
    InvalidParameters,
    /// The journal ends before the cursor.
    CursorAhead,
    /// The idempotency key was used for another request.
    KeyReused,
    /// The headers are larger than the limit.
    HeadersTooLarge,
    /// An entity cannot be used, because its records are damaged or contradict the specification.
    Unusable,
    /// The disk could not be read just now.
    Unreadable,
    /// The keys of personal values cannot be used.
    KeysUnusable,
    /// The engine has failed and takes nothing until the server is started again.
    Failed,
    /// More requests than the caller, or the client, may send.
    RateLimited,
    /// More work than the server admits.
    Overloaded,
    /// The disk has no space for another record.
    StorageFull,
    /// The disk is full, slow or unsafe, or the engine has failed.
    NotReady,
    /// The server finishes what it admitted and takes no more.
    Stopping,
    /// No node has the instance at this moment.
    Moved,
    /// The deadline passed before anything was recorded.
    Timeout,
    /// Whether the command took effect is not known yet.
    InDoubt,
}

impl ProblemKind {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 33] = {
        use ProblemKind as K;
        [
            K::NoSuchResource,
            K::NoSuchClass,
            K::NoSuchEvent,
            K::NoSuchInstance,
            K::HistoryDiscarded,
            K::NothingPersonal,
            K::MethodNotAllowed,
            K::BodyTimeout,
            K::Unauthenticated,
            K::Forbidden,
            K::Refused,
            K::KeyInUse,
            K::BodyTooLarge,
            K::TargetTooLong,
            K::UnsupportedMediaType,
            K::WrongHost,
            K::MalformedBody,
            K::InvalidParameters,
            K::CursorAhead,
            K::KeyReused,
            K::HeadersTooLarge,
            K::Unusable,
            K::Unreadable,
            K::KeysUnusable,
            K::Failed,
            K::RateLimited,
            K::Overloaded,
            K::StorageFull,
            K::NotReady,
            K::Stopping,
            K::Moved,
            K::Timeout,
            K::InDoubt,
        ]
    };

    /// The status of the answer.
    #[cfg(test)]
    pub(crate) fn status(self) -> StatusCode {
        self.row().1
    }

    /// The whole mapping: last part of the type URI, status, title.
    fn row(self) -> (&'static str, StatusCode, &'static str) {
        use ProblemKind as K;
        match self {
            K::NoSuchResource => ("no-such-resource", StatusCode::NOT_FOUND, "No such resource"),
            K::NoSuchClass => ("no-such-class", StatusCode::NOT_FOUND, "No such class"),
            K::NoSuchEvent => ("no-such-event", StatusCode::NOT_FOUND, "No such event"),
            K::NoSuchInstance => ("no-such-instance", StatusCode::NOT_FOUND, "No such instance"),
            K::HistoryDiscarded => ("history-discarded", StatusCode::GONE, "The history was discarded"),
            K::NothingPersonal => ("nothing-personal", StatusCode::NOT_FOUND, "Nothing personal"),
            K::MethodNotAllowed => ("method-not-allowed", StatusCode::METHOD_NOT_ALLOWED, "Method not allowed"),
            K::BodyTimeout => ("body-timeout", StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time"),
            K::Unauthenticated => ("unauthenticated", StatusCode::UNAUTHORIZED, "Unauthenticated"),
            K::Forbidden => ("forbidden", StatusCode::FORBIDDEN, "Forbidden"),
            K::Refused => ("refused", StatusCode::CONFLICT, "Refused"),
            K::KeyInUse => ("key-in-use", StatusCode::CONFLICT, "The idempotency key is in use"),
            K::BodyTooLarge => ("body-too-large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
            K::TargetTooLong => ("target-too-long", StatusCode::URI_TOO_LONG, "The request target is too long"),
            K::UnsupportedMediaType => {
                ("unsupported-media-type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported media type")
            }
            K::WrongHost => ("wrong-host", StatusCode::MISDIRECTED_REQUEST, "Wrong host"),
            K::MalformedBody => ("malformed-body", StatusCode::UNPROCESSABLE_ENTITY, "Malformed body"),
            K::InvalidParameters => ("invalid-parameters", StatusCode::UNPROCESSABLE_ENTITY, "Invalid parameters"),
            K::CursorAhead => ("cursor-ahead", StatusCode::UNPROCESSABLE_ENTITY, "The journal ends before the cursor"),
            K::KeyReused => {
                ("key-reused", StatusCode::UNPROCESSABLE_ENTITY, "The idempotency key belongs to another request")
            }
            K::HeadersTooLarge => {
                ("headers-too-large", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too large")
            }
            K::Unusable => ("unusable", StatusCode::INTERNAL_SERVER_ERROR, "An entity cannot be used"),
            K::Unreadable => ("unreadable", StatusCode::SERVICE_UNAVAILABLE, "The disk cannot be read"),
            K::KeysUnusable => ("keys-unusable", StatusCode::SERVICE_UNAVAILABLE, "The keys cannot be used"),
            K::Failed => ("failed", StatusCode::SERVICE_UNAVAILABLE, "Failed"),
            K::RateLimited => ("rate-limited", StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
            K::Overloaded => ("overloaded", StatusCode::SERVICE_UNAVAILABLE, "Overloaded"),
            K::StorageFull => ("storage-full", StatusCode::INSUFFICIENT_STORAGE, "The disk is full"),
            K::NotReady => ("not-ready", StatusCode::SERVICE_UNAVAILABLE, "Not ready"),
            K::Stopping => ("stopping", StatusCode::SERVICE_UNAVAILABLE, "Stopping"),
            K::Moved => ("moved", StatusCode::SERVICE_UNAVAILABLE, "On its way to another node"),
            K::Timeout => ("timeout", StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            K::InDoubt => ("in-doubt", StatusCode::GATEWAY_TIMEOUT, "In doubt"),
        }
    }
}

/// Why an event was refused, in the words of the specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = enact::RefusalReason)]
pub(crate) struct RefusalReason {
    /// The instance that refused, `Class/id`: the addressed one or one that it calls.
    pub(crate) entity: String,
    /// The event that this instance refused.
    pub(crate) event: String,
    /// The precondition, invariant or life-cycle rule that failed, as the specification words it.
    pub(crate) text: String,
    /// The values that the rule saw, in the text form of their types.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) values: BTreeMap<String, String>,
    /// The events that lead to it, `Class/id.Event`, from the one that the request names on; left out if it is that one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) called_by: Vec<String>,
}

/// A part of the request that does not fit its declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = enact::InvalidParameter)]
pub(crate) struct InvalidParameter {
    /// Where it stands: the name of a body member, `id`, a query parameter or a header.
    pub(crate) name: String,
    /// What is wrong and what is expected.
    pub(crate) problem: String,
}

/// An open transaction that a command or a read waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = enact::WaitedFor)]
pub(crate) struct WaitedFor {
    /// What waits for it there: an event, or conditions or questions; left out if it is a read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) waiting: String,
    /// The transaction; of several that do the same there and matter alike, the first.
    pub(crate) transaction: String,
    /// Its event at the instance where it was met.
    pub(crate) event: String,
    /// How many others there are like it.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) others: usize,
    /// What depends on it, with the values of the moment.
    pub(crate) why: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A transaction that is waited for, and what it waits for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = enact::Link)]
pub(crate) struct Linked {
    /// The transaction.
    pub(crate) transaction: String,
    /// The instance that its command addresses, `Class/id`.
    pub(crate) addressed: String,
    /// What it waits for, as in `phase` of the problem.
    pub(crate) phase: &'static str,
    /// The instance that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) entity: Option<String>,
    /// The transactions that it waits for there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits_for: Vec<WaitedFor>,
}

/// An answer that is not a success, rendered as problem details of media type [`PROBLEM_JSON`].
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    body: Box<ProblemBody>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Problem details (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = enact::Problem)]
pub(crate) struct ProblemBody {
    /// URI of the problem's kind, `urn:enact:problem:<kind>`.
    #[serde(rename = "type")]
    type_uri: String,
    /// The kind in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What happened and what to do.
    detail: String,
    /// The transaction of the command, if it got one.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<String>,
    /// Which command of a batch that is one transaction it is of, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<usize>,
    /// Each rule that refused the event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<RefusalReason>,
    /// Each part of the request that does not fit its declaration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<InvalidParameter>,
    /// What the request waited for when its deadline passed, or waits for at the moment: a thread (`queue`), the look-up of
    /// its idempotency key (`key`), the records of `entity` (`load`), `entity` itself (`entity`), what is due there (`due`), the
    /// journal to take its record (`journal`) or to have written it (`record`), or those before it at `entity`, where it is
    /// recorded and in line (`line`).
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    /// The instance that it waited for, `Class/id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<String>,
    /// Why the server is not ready: its disk is `full`, `slow` or `unsafe`, or has `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<&'static str>,
    /// The open transactions that it waited for there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<WaitedFor>,
    /// What those wait for in turn, and so on, as far as that was known at once: at most 16 transactions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wait_graph: Vec<Linked>,
    /// The id of the request, as in `X-Request-Id`; left out for a command of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl Problem {
    /// A problem of `kind`; `detail` says what was wrong and what to do.
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let (name, status, title) = kind.row();
        let body = ProblemBody {
            type_uri: format!("urn:enact:problem:{name}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            transaction: None,
            request_id: None,
            command: None,
            reasons: Vec::new(),
            parameters: Vec::new(),
            phase: None,
            entity: None,
            disk: None,
            waits_for: Vec::new(),
            wait_graph: Vec::new(),
        };
        Self { body: Box::new(body), headers: Vec::new() }
    }

    /// [`ProblemKind::InvalidParameters`] with one entry for each part of the request that does not fit.
    pub(crate) fn invalid(parameters: Vec<InvalidParameter>) -> Self {
        let names = parameters.iter().map(|p| format!("`{}`", p.name)).collect::<Vec<_>>().join(", ");
        let mut problem = Self::new(ProblemKind::InvalidParameters, format!("not as declared: {names}"));
        problem.body.parameters = parameters;
        problem
    }

    /// Names the transaction of the command.
    pub(crate) fn with_transaction(mut self, transaction: &impl ToString) -> Self {
        self.body.transaction = Some(transaction.to_string());
        self
    }

    /// Names the request.
    pub(crate) fn of_request(mut self, id: &str) -> Self {
        self.body.request_id = Some(id.to_owned());
        self
    }

    /// Names the command of a batch that is one transaction.
    pub(crate) fn of_command(mut self, index: usize) -> Self {
        self.body.command = Some(index);
        self
    }

    /// Names the rules that refused.
    pub(crate) fn with_reasons(mut self, reasons: Vec<RefusalReason>) -> Self {
        self.body.reasons = reasons;
        self
    }

    /// Names what the request waited for, and the instance if it is one.
    pub(crate) fn with_phase(mut self, phase: &'static str, entity: Option<&EntityKey>) -> Self {
        self.body.phase = Some(phase);
        self.body.entity = entity.map(ToString::to_string);
        self
    }

    /// Names the state of the disk.
    pub(crate) fn with_disk(mut self, state: &'static str) -> Self {
        self.body.disk = Some(state);
        self
    }

    /// Names the transactions that the request waited for, and what those wait for in turn.
    pub(crate) fn with_waits(mut self, waits_for: Vec<WaitedFor>, wait_graph: Vec<Linked>) -> Self {
        self.body.waits_for = waits_for;
        self.body.wait_graph = wait_graph;
        self
    }

    /// Asks the client to come back after `delay`, rounded up to whole seconds, at least one.
    pub(crate) fn retry_after(self, delay: Duration) -> Self {
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        self.with_header(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
    }

    /// Without the values of instances of classes that may not be read, and without what was waited for, which is of any class.
    pub(crate) fn without_values(mut self, may_read: impl Fn(&str) -> bool) -> Self {
        let is_kept = |reason: &RefusalReason| reason.entity.split('/').next().is_some_and(&may_read);
        let body = &mut *self.body;
        if !body.waits_for.is_empty() || !body.wait_graph.is_empty() {
            (body.waits_for, body.wait_graph) = (Vec::new(), Vec::new());
            body.detail = "the deadline passed, or the request is running, and what it waits for is told to those who may read all \
                           classes; send a command again with its Idempotency-Key for its answer"
                .to_owned();
        }
        if !body.reasons.iter().all(is_kept) {
            for reason in body.reasons.iter_mut().filter(|reason| !is_kept(reason)) {
                reason.values.clear();
            }
            let rules = body
                .reasons
                .iter()
                .map(|RefusalReason { entity, event, text, .. }| format!("{entity} refuses {event}: {text}"));
            body.detail = rules.collect::<Vec<_>>().join("; ");
        }
        self
    }

    /// What it says, without the headers.
    /// The name of its kind.
    pub(crate) fn name(&self) -> &str {
        self.body.type_uri.rsplit(':').next().unwrap_or_default()
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.body.status).expect("taken from a status of the table")
    }

    /// The transaction that it is about, if there is one.
    pub(crate) fn transaction(&self) -> Option<&str> {
        self.body.transaction.as_deref()
    }

    pub(crate) fn into_body(self) -> Box<ProblemBody> {
        self.body
    }

    /// Adds a header to the answer.
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_vec(&self.body).expect("strings, numbers and maps of strings serialise");
        let mut response = (status, [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_rounds_up_to_whole_seconds() {
        for (delay, expected) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (30_000, "30")] {
            let problem = Problem::new(ProblemKind::Overloaded, "").retry_after(Duration::from_millis(delay));
            assert_eq!(problem.into_response().headers()[header::RETRY_AFTER], expected);
        }
    }

    #[test]
    fn a_problem_shows_only_what_it_has() {
        let body = serde_json::to_value(Problem::new(ProblemKind::NoSuchClass, "no class `X`").body).unwrap();
        let expected = serde_json::json!({
            "type": "urn:enact:problem:no-such-class", "title": "No such class", "status": 404, "detail": "no class `X`",
        });
        assert_eq!(body, expected);
    }
}
