//! What became of a command or a read that did not succeed: the one mapping from the engine's errors to problems.

use std::time::Duration;

use axum::http::HeaderValue;
use enact_entities::{
    Awaited, DiskState, Doubt, EntityError, Link, ReadError, Reason, Refusal, Standing, SubmitError, Wait, Waits,
};
use enact_journal::{EntityKey, ReadError as JournalReadError};
use enact_projection::ProjectionError;
use enact_rebel::{Caller, Class, Event, Name, StateKind};

use crate::envelope::IDEMPOTENCY_REPLAYED;
use crate::problem::{Linked, Problem, ProblemKind, RefusalReason, WaitedFor};
use crate::read::never_created;

/// When a client is advised to come back whose request met a disk that could not be read.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// When a client is advised to come back whose instance is on its way to another node.
const MOVING: Duration = Duration::from_secs(1);
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
        SubmitError::Timeout { tx, awaited, waits_for, graph } => {
            let detail = format!(
                "the deadline passed while the command waited {}; the command had no effect, send it again, with the same \
                 Idempotency-Key if it has one",
                Waits(awaited, waits_for, graph)
            );
            waiting(Problem::new(ProblemKind::Timeout, detail), awaited, waits_for, graph).with_transaction(tx)
        }
        SubmitError::InDoubt { tx, doubt: Doubt::Recording, .. } => {
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
        SubmitError::InDoubt { tx, doubt: Doubt::InLine, graph } => {
            let advice = if repeatable {
                "send it again with the same Idempotency-Key for its answer"
            } else {
                "read the instance later to see it, and give commands an Idempotency-Key to be able to send them again"
            };
            let before = match graph.split_first() {
                Some((own, rest)) => Waits(&own.awaited, &own.waits_for, rest).to_string(),
                None => "for others that are undecided".to_owned(),
            };
            let detail = format!(
                "the deadline passed while the command, which is recorded, waited {before}; it takes effect when those before it \
                 are decided; {advice}"
            );
            let problem = Problem::new(ProblemKind::InDoubt, detail).with_transaction(tx);
            let Some((own, rest)) = graph.split_first() else { return problem.with_phase("line", None) };
            waiting(problem, &own.awaited, &own.waits_for, rest)
        }
        SubmitError::InDoubt { tx, doubt, .. } => {
            let advice = if repeatable {
                "send it again with the same Idempotency-Key to learn its one answer"
            } else {
                "read the instance to learn it, and give commands an Idempotency-Key to be able to send them again"
            };
            let detail = format!("it is not known yet whether the command took effect: {doubt}; {advice}");
            Problem::new(ProblemKind::InDoubt, detail).with_transaction(tx)
        }
        SubmitError::Overloaded { retry_after } => overloaded(*retry_after),
        SubmitError::StorageFull { .. } => full(),
        SubmitError::Stopping => stopping(),
        SubmitError::Moved { .. } => moved(key),
        SubmitError::KeyReused => {
            let detail = "this Idempotency-Key was sent with another request before; nothing was done, use a new one";
            Problem::new(ProblemKind::KeyReused, detail)
        }
        SubmitError::KeyInUse { tx, graph } => {
            let Some((own, rest)) = graph.split_first() else {
                let detail = "a request with this Idempotency-Key is just ending; send it again for its answer";
                return Problem::new(ProblemKind::KeyInUse, detail).with_transaction(tx);
            };
            let waits = Waits(&own.awaited, &own.waits_for, rest);
            let detail = format!(
                "a request with this Idempotency-Key is still running and waits {waits}; send it again later for its answer"
            );
            waiting(Problem::new(ProblemKind::KeyInUse, detail), &own.awaited, &own.waits_for, rest)
                .with_transaction(tx)
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
        ReadError::Timeout { awaited, waits_for, graph } => {
            let advice = if waits_for.is_empty() { "try again" } else { "`?mode=applied` does not wait for them" };
            let waits = Waits(awaited, waits_for, graph);
            let detail = format!("the deadline passed while the read of {key} waited {waits}; {advice}");
            waiting(Problem::new(ProblemKind::Timeout, detail), awaited, waits_for, graph)
        }
        ReadError::StorageFull { .. } => full(),
        ReadError::Stopping => stopping(),
        ReadError::Moved { .. } => moved(key),
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

/// The problem of a reading of all changes.
pub(crate) fn of_changes(error: &ReadError) -> Problem {
    match error {
        ReadError::Timeout { .. } => {
            let detail = "the deadline passed while the journal was read; ask for fewer changes, or try again";
            Problem::new(ProblemKind::Timeout, detail)
        }
        ReadError::Stopping => stopping(),
        ReadError::Ahead { after } => {
            let detail = format!(
                "the journal ends before the cursor {after}: it is that of another store, or of this one before a repair cut it; \
                 go on at a cursor from before the cut, or begin anew"
            );
            Problem::new(ProblemKind::CursorAhead, detail)
        }
        ReadError::Entity(error) => unusable(error),
        _ => engine_failed(),
    }
}

/// The problem of a query.
pub(crate) fn of_query(error: &ProjectionError) -> Problem {
    match error {
        ProjectionError::Late => {
            let detail = "the deadline passed while the changes were taken up that queries are answered from, which goes on; try again";
            Problem::new(ProblemKind::Timeout, detail)
        }
        ProjectionError::Unread(error) => of_changes(error),
        error => {
            tracing::error!(%error, "queries cannot be answered");
            let detail = "queries cannot be answered, the server's log says why; nothing was done, try again";
            Problem::new(ProblemKind::Unreadable, detail).retry_after(RETRY_AFTER)
        }
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

/// No node has the instance; another one is about to.
fn moved(key: &EntityKey) -> Problem {
    let detail = format!("no node has {key} at this moment; nothing was done, try again");
    Problem::new(ProblemKind::Moved, detail).retry_after(MOVING)
}

/// A node on which the others do not count is not ready.
pub(crate) fn not_joined(standing: Standing) -> Option<Problem> {
    let detail = match standing {
        Standing::Joined => return None,
        Standing::Apart => "the node has lost its lease, or could not renew it: others may take its place",
        Standing::Waiting => {
            "the node has another specification than the entities are served under, and waits until all nodes of that one have stopped"
        }
    };
    Some(Problem::new(ProblemKind::NotReady, detail).retry_after(MOVING))
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
        DiskState::Unsafe { .. } => {
            let detail =
                "the journal is unsafe: what is acknowledged may get lost, or some of it is; the server's log says why";
            ("unsafe", detail.to_owned())
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
        let detail =
            "the server could not read its disk, or another node, its log says why; nothing was done, try again";
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

/// Lets `caller` make `event` happen, or ask for it, as far as its roles say.
pub(crate) fn admit(class: &Class, key: &EntityKey, event: &Event, caller: Option<&Caller>) -> Result<(), Problem> {
    let has = |role: &Name| caller.is_some_and(|caller| caller.has(role));
    if event.roles().is_empty() || event.roles().iter().any(has) {
        return Ok(());
    }
    let (name, roles) = (event.name().to_string(), event.roles().iter().map(ToString::to_string).collect());
    let reasons = vec![Reason::Role { event: name.clone(), roles }];
    Err(refused(&Refusal { entity: key.clone(), event: name, callers: Vec::new(), reasons }, class, key))
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

/// Names what is waited for, and what that waits for.
fn waiting(problem: Problem, awaited: &Awaited, waits_for: &[Wait], graph: &[Link]) -> Problem {
    let linked = |link: &Link| Linked {
        transaction: link.tx.to_string(),
        addressed: link.addressed.to_string(),
        phase: link.awaited.phase(),
        entity: link.awaited.entity().map(ToString::to_string),
        waits_for: waits(&link.waits_for),
    };
    let graph = graph.iter().map(linked).collect();
    problem.with_phase(awaited.phase(), awaited.entity()).with_waits(waits(waits_for), graph)
}

fn waits(waits_for: &[Wait]) -> Vec<WaitedFor> {
    let waited = |wait: &Wait| WaitedFor {
        waiting: wait.waiting.clone(),
        transaction: wait.tx.to_string(),
        event: wait.event.clone(),
        others: wait.others,
        why: wait.to_string(),
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
