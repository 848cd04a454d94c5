//! How many requests there were and how long they took, by what they asked for.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use enact_entities::Durations;

use super::{head, histogram};
use crate::path::Place;

/// What a request asks for, by its method and the shape of its path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Endpoint {
    Command,
    Batch,
    Read,
    Ask,
    Query,
    History,
    Erasure,
    Changes,
    Health,
    Ready,
    Metrics,
    Description,
    /// Nothing, or not by this method.
    Other,
}

/// The statuses of all answers.
const STATUSES: [u16; 19] =
    [200, 401, 403, 404, 405, 408, 409, 410, 413, 414, 415, 421, 422, 429, 431, 500, 503, 504, 507];

impl Endpoint {
    /// What they are called, in their order.
    const NAMES: [&str; 13] = [
        "command", "batch", "read", "ask", "query", "history", "erase", "changes", "health", "ready", "metrics",
        "openapi", "other",
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    pub(crate) fn of(method: &Method, path: &str) -> Self {
        let is_read = method == Method::GET || method == Method::HEAD;
        match Place::at(path) {
            Some(Place::Event(..) | Place::Pair(..)) if method == Method::POST => Self::Command,
            Some(Place::Batch) if method == Method::POST => Self::Batch,
            Some(Place::Pair(..)) if is_read => Self::Read,
            Some(Place::Event(..)) if is_read => Self::Ask,
            Some(Place::Class(_)) if is_read => Self::Query,
            Some(Place::History(..)) if is_read => Self::History,
            Some(Place::Erasure(..)) if method == Method::POST => Self::Erasure,
            Some(Place::Changes) if is_read => Self::Changes,
            Some(Place::Health) if is_read => Self::Health,
            Some(Place::Readiness) if is_read => Self::Ready,
            Some(Place::Metrics) if is_read => Self::Metrics,
            Some(Place::Description) if is_read => Self::Description,
            _ => Self::Other,
        }
    }
}

/// The requests that were answered. Counting one takes three additions and no lock.
#[derive(Debug, Default)]
pub(crate) struct Requests([Answers; Endpoint::NAMES.len()]);

/// What requests of one kind were answered.
#[derive(Debug, Default)]
struct Answers {
    by_status: [AtomicU64; STATUSES.len()],
    seconds: Durations,
}

impl Requests {
    /// A request was answered with `status`, which is one of the table of problems or 200, after `time`.
    pub(crate) fn answered(&self, endpoint: Endpoint, status: StatusCode, time: Duration) {
        let Answers { by_status, seconds } = &self.0[endpoint as usize];
        if let Ok(place) = STATUSES.binary_search(&status.as_u16()) {
            by_status[place].fetch_add(1, Ordering::Relaxed);
        }
        seconds.count(time);
    }

    pub(super) fn write(&self, text: &mut String) -> fmt::Result {
        let all = || Endpoint::NAMES.iter().zip(&self.0);
        let name = "enact_requests_total";
        head(text, name, "counter", "Requests that were answered, by what they asked for and by status.")?;
        for (endpoint, Answers { by_status, .. }) in all() {
            for (status, count) in STATUSES.iter().zip(by_status) {
                let count = count.load(Ordering::Relaxed);
                writeln!(text, "{name}{{endpoint=\"{endpoint}\",status=\"{status}\"}} {count}")?;
            }
        }
        let name = "enact_request_seconds";
        head(text, name, "histogram", "How long requests took, from their head to the head of their answer.")?;
        for (endpoint, Answers { seconds, .. }) in all() {
            histogram(text, name, &format!("endpoint=\"{endpoint}\","), &seconds.read())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::ProblemKind;

    #[test]
    fn a_request_is_counted_under_what_its_method_and_path_ask_for() {
        for (method, path, expected) in [
            (Method::POST, "/Account/A/Deposit", "command"),
            (Method::POST, "/Account/Open", "command"),
            (Method::POST, "/-/batch", "batch"),
            (Method::GET, "/Account/A", "read"),
            (Method::HEAD, "/Account/A", "read"),
            (Method::GET, "/Account/A/Balance", "ask"),
            (Method::GET, "/Account", "query"),
            (Method::GET, "/Account/A/-/history", "history"),
            (Method::POST, "/Account/A/-/erase", "erase"),
            (Method::GET, "/Account/A/-/erase", "other"),
            (Method::GET, "/-/changes", "changes"),
            (Method::GET, "/health", "health"),
            (Method::GET, "/health/ready", "ready"),
            (Method::GET, "/metrics", "metrics"),
            (Method::GET, "/openapi.json", "openapi"),
            (Method::GET, "/-/batch", "other"),
            (Method::POST, "/Account", "other"),
            (Method::PUT, "/Account/A/Deposit", "other"),
            (Method::GET, "/Account/A/B/C/D", "other"),
        ] {
            assert_eq!(Endpoint::NAMES[Endpoint::of(&method, path) as usize], expected, "{method} {path}");
        }
    }

    #[test]
    fn every_status_of_an_answer_is_counted() {
        let mut statuses: Vec<u16> = ProblemKind::ALL.map(|kind| kind.status().as_u16()).into();
        statuses.push(200);
        statuses.sort_unstable();
        statuses.dedup();
        assert_eq!(statuses, STATUSES);
    }
}
