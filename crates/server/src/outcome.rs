//! What became of a command or a read that did not succeed: the one mapping from the engine's errors to problems.

use std::time::Duration;

use axum::http::HeaderValue;
use enact_entities::{Awaited, DiskState, Doubt, EntityError, ReadError, Reason, Refusal, SubmitError, Wait};
use enact_journal::{EntityKey, ReadError as JournalReadError};
use enact_rebel::{Class, StateKind};

use crate::envelope::IDEMPOTENCY_REPLAYED;
use crate::problem::{Problem, ProblemKind, RefusalReason, WaitedFor};
use crate::read::never_created;

/// When a client is advised to come back whose request met a disk that could not be read.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a server is away at least when it stops.
const RESTART: Duration = Duration::from_secs(1);

/// The problem of a command; `repeatable` if it has an idempotency key.
pub(crate) fn of_command(error: &SubmitError, class: &Class, key: &EntityKey, repeatable: bool) -> Problem {
    match error {
        SubmitError::Refused { refusal, replayed } => {
            let problem = refused(refusal, class, key);
            if *replayed {
                problem.with_header(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"))
            } else {
                problem
            }
        }
        SubmitError::Timeout { tx, awaited, waits_for } => {
            let detail = format!(
                "the deadline passed while the command waited for {}; it had no effect, send it again, with the same \
                 Idempotency-Key if it has one",
                listed(awaited, waits_for)
            );
            let problem = Problem::new(ProblemKind::Timeout, detail).with_transaction(tx);
            waiting(problem, awaited).with_waits(waits(waits_for))
        }
        SubmitError::InDoubt { tx, doubt: Doubt::Recording } => {
            let advice = if repeatable {
                "send it again with the same Idempotency-Key for its one answer, which it has as soon as the disk answers"
            } else {
                "read the instance later to learn it, and give commands an Idempotency-Key to be able to send them again"
            };
            let detail = format!(
                "the deadline passed while the record of the command was written to disk: it may yet take effect; {advice}"
            );
            Problem::new(ProblemKind::InDoubt, detail).with_transaction(tx).with_phase("record", None)
        }
        SubmitError::InDoubt { tx, doubt: Doubt::InLine } => {
            let advice = if repeatable {
                "send it again with the same Idempotency-Key for its answer"
            } else {
                "read the instance later to see it, and give commands an Idempotency-Key to be able to send them again"
            };
            let detail = format!(
                "the deadline passed while the command, which is recorded, stood behind others that are undecided: it takes effect \
                 when they are decided; {advice}"
            );
            Problem::new(ProblemKind::InDoubt, detail).with_transaction(tx).with_phase("line", None)
        }
        SubmitError::InDoubt { tx, .. } => {
            let advice = if repeatable {
                "send it again with the same Idempotency-Key to learn its one answer"
            } else {
                "read the instance to learn it, and give commands an Idempotency-Key to be able to send them again"
            };
            let detail = format!("it is not known yet whether the command took effect; {advice}");
            Problem::new(ProblemKind::InDoubt, detail).with_transaction(tx)
        }
        SubmitError::Overloaded { retry_after } => overloaded(*retry_after),
        SubmitError::StorageFull { .. } => full(),
        SubmitError::Stopping => stopping(),
        SubmitError::KeyReused => {
            let detail = "this Idempotency-Key was sent with another request before; nothing was done, use a new one";
            Problem::new(ProblemKind::KeyReused, detail)
        }
        SubmitError::KeyInUse => {
            let detail = "a request with this Idempotency-Key is still running; send it again later for its answer";
            Problem::new(ProblemKind::KeyInUse, detail)
        }
        SubmitError::Failed { .. } => engine_failed(),
        SubmitError::Entity(error) => unusable(error),
        // What is not known here may have had an effect.
        _ => Problem::new(ProblemKind::InDoubt, "it is not known whether the command took effect"),
    }
}

/// The problem of a read.
pub(crate) fn of_read(error: &ReadError, key: &EntityKey) -> Problem {
    match error {
        ReadError::Timeout { awaited, waits_for } => {
            let advice = if waits_for.is_empty() { "try again" } else { "`?mode=applied` does not wait for them" };
            let detail = format!(
                "the deadline passed while the read of {key} waited for {}; {advice}",
                listed(awaited, waits_for)
            );
            waiting(Problem::new(ProblemKind::Timeout, detail), awaited).with_waits(waits(waits_for))
        }
        ReadError::Stopping => stopping(),
        ReadError::Entity(error) => unusable(error),
        ReadError::Due { cause, .. } => match &**cause {
            SubmitError::Overloaded { retry_after } => overloaded(*retry_after),
            SubmitError::StorageFull { .. } => full(),
            _ => {
                let detail =
                    format!("what is due at {key} comes first, and it is not known whether it has happened; try again");
                Problem::new(ProblemKind::Timeout, detail)
            }
        },
        _ => engine_failed(),
    }
}

fn overloaded(retry_after: Duration) -> Problem {
    let detail = "more commands are under way than the engine takes; nothing was done, try again";
    Problem::new(ProblemKind::Overloaded, detail).retry_after(retry_after)
}

fn full() -> Problem {
    let detail = "the disk of the server is full; nothing was done, send it again when there is space";
    Problem::new(ProblemKind::StorageFull, detail)
}

/// The engine takes nothing until the server is started again; its log says why, its clients need not know.
pub(crate) fn engine_failed() -> Problem {
    let detail = "the server has failed and takes nothing until it is started again; nothing was done";
    Problem::new(ProblemKind::Failed, detail).retry_after(RESTART)
}

/// The disk does not take commands as it should.
pub(crate) fn not_ready(state: &DiskState) -> Problem {
    let (disk, detail) = match state {
        DiskState::Full { .. } => {
            ("full", "the disk is full: commands are answered with 507 until there is space".to_owned())
        }
        DiskState::Slow { since } => {
            let millis = since.as_millis();
            ("slow", format!("the disk is slow: a record has been on its way to it for {millis} ms"))
        }
        _ => ("failed", "the server has failed and takes nothing until it is started again".to_owned()),
    };
    Problem::new(ProblemKind::NotReady, detail).with_disk(disk).retry_after(RETRY_AFTER)
}

fn unusable(error: &EntityError) -> Problem {
    if matches!(error, EntityError::Journal(JournalReadError::Closed)) {
        return stopping();
    }
    tracing::error!(%error, "an entity cannot be used");
    if error.is_transient() {
        let detail = "the server could not read its disk, its log says why; nothing was done, try again";
        return Problem::new(ProblemKind::Unreadable, detail).retry_after(RETRY_AFTER);
    }
    let detail = "an entity that the request needs cannot be used, the server's log says why; nothing was done";
    Problem::new(ProblemKind::Unusable, detail)
}

fn stopping() -> Problem {
    let detail = "the server finishes what it admitted and takes no more; nothing was done, try again";
    Problem::new(ProblemKind::Stopping, detail).retry_after(RESTART)
}

/// A refusal for want of a role is 403, before anything else is told. One of the addressed instance because it was never
/// created says so as a resource does: by 404.
pub(crate) fn refused(refusal: &Refusal, class: &Class, key: &EntityKey) -> Problem {
    let is_forbidden = refusal.reasons.iter().any(|reason| matches!(reason, Reason::Role { .. }));
    if !is_forbidden && refusal.entity == *key && refusal.reasons.iter().any(|reason| lacks_instance(reason, class)) {
        return never_created(key);
    }
    let reasons = refusal.reasons.iter().map(|reason| explained(refusal, reason)).collect();
    let kind = if is_forbidden { ProblemKind::Forbidden } else { ProblemKind::Refused };
    Problem::new(kind, refusal.to_string()).with_reasons(reasons)
}

/// Whether the life cycle refuses an event that no instance in its initial state can take.
fn lacks_instance(reason: &Reason, class: &Class) -> bool {
    let is_initial =
        |name: &str| class.states().iter().any(|state| **state.name() == *name && state.kind() == StateKind::Initial);
    matches!(reason, Reason::LifeCycle { state, allowed, .. }
        if is_initial(state) && !allowed.iter().any(|allowed| is_initial(allowed)))
}

fn explained(refusal: &Refusal, reason: &Reason) -> RefusalReason {
    let (text, values) = match reason {
        Reason::Guard { text, values } | Reason::Invariant { text, values } => (text.clone(), values.as_slice()),
        other => (other.to_string(), &[][..]),
    };
    RefusalReason {
        entity: refusal.entity.to_string(),
        event: refusal.event.clone(),
        text,
        values: values.iter().cloned().collect(),
        called_by: refusal.callers.iter().map(ToString::to_string).collect(),
    }
}

/// Names what the engine was at when the deadline passed.
fn waiting(problem: Problem, awaited: &Awaited) -> Problem {
    match awaited {
        Awaited::Queue => problem.with_phase("queue", None),
        Awaited::Key => problem.with_phase("key", None),
        Awaited::Load(entity) => problem.with_phase("load", Some(entity)),
        Awaited::Entity(entity) => problem.with_phase("entity", Some(entity)),
        Awaited::Journal => problem.with_phase("journal", None),
        // A phase that this server does not know has no name.
        _ => problem,
    }
}

fn listed(awaited: &Awaited, waits_for: &[Wait]) -> String {
    if waits_for.is_empty() {
        return awaited.to_string();
    }
    waits_for.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn waits(waits_for: &[Wait]) -> Vec<WaitedFor> {
    let waited = |wait: &Wait| WaitedFor {
        transaction: wait.tx.to_string(),
        event: wait.event.clone(),
        why: wait.why.to_string(),
    };
    waits_for.iter().map(waited).collect()
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use enact_rebel::{Source, check};

    use super::*;

    #[test]
    fn a_missing_role_is_403_even_where_nothing_was_created_and_in_what_is_called() {
        let spec = check(vec![Source::new("lamp.rebel", "class Lamp initial off on Light(): lit\nlit on Dim()")]);
        let spec = spec.expect("a specification");
        let class = spec.class("Lamp").expect("declared");
        let [addressed, called] = ["a", "b"].map(|id| EntityKey::new("Lamp", id).expect("a key"));
        let role = Reason::Role { event: "Dim".into(), roles: vec!["owner".into()] };
        let absent = Reason::LifeCycle { event: "Dim".into(), state: "off".into(), allowed: vec!["lit".into()] };
        for (entity, reasons, expected) in [
            (&addressed, vec![role.clone()], 403),
            (&called, vec![role.clone()], 403),
            (&addressed, vec![absent.clone(), role], 403),
            (&addressed, vec![absent.clone()], 404),
            (&called, vec![absent], 409),
        ] {
            let refusal = Refusal { entity: entity.clone(), event: "Dim".into(), reasons, callers: Vec::new() };
            for replayed in [false, true] {
                let error = SubmitError::Refused { refusal: refusal.clone(), replayed };
                let answer = of_command(&error, class, &addressed, true).into_response();
                assert_eq!(answer.status(), expected, "{refusal:?}");
            }
        }
    }
}
