//! A batch that is one transaction: all of its commands happen, in their order, or none of them.

use std::time::Duration;

use axum::Json as JsonBody;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use enact_entities::{Command, Entities, Idempotency, Rebel, Refusal, SubmitError, TxId};
use enact_journal::EntityKey;
use enact_rebel::{Caller, Class, EventCall};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::api::Api;
use crate::batch::{Stated, read};
use crate::command::{Draft, as_text, exposed};
use crate::json::Json;
use crate::problem::{InvalidParameter, Problem, ProblemKind};
use crate::{envelope, outcome, traces};

/// Most commands of a batch that is one transaction: with three instances each, almost as many as a transaction may have.
pub const ATOMIC_COMMANDS_MAX: usize = 300;

/// The answer to a batch that committed as one transaction.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::AtomicBatch)]
pub(crate) struct AtomicBatch {
    /// The transaction; give it to a read as `after` to see its effect.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    transaction: TxId,
    /// How many commands happened: all.
    commands: usize,
}

/// Makes all `commands` of `caller` happen until `over`, or none of them.
pub(crate) async fn run<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    caller: Option<Caller>,
    commands: &[Json<'_>],
    idempotency_key: Option<&str>,
    over: Instant,
) -> Result<Response, Problem> {
    let mut read = Vec::with_capacity(commands.len());
    for (index, command) in commands.iter().enumerate() {
        let one = one(api, caller.clone(), command, idempotency_key).await;
        read.push(one.map_err(|problem| problem.of_command(index))?);
    }
    let classes: Vec<&Class> = read.iter().map(|(class, _)| *class).collect();
    let commands = read.into_iter().map(|(_, command)| command);
    let Some(mut all) = together(commands) else {
        let problem = "a transaction has at least one command".to_owned();
        return Err(Problem::invalid(vec![InvalidParameter { name: "commands".to_owned(), problem }]));
    };
    all.deadline = over.saturating_duration_since(Instant::now());
    let first = [(&all.key, &all.event)].into_iter();
    let events = first.chain(all.then.iter().map(|(key, event)| (key, event)));
    let events: Vec<(EntityKey, String)> =
        events.map(|(key, event)| (key.clone(), event.event().to_string())).collect();
    let repeatable = all.idempotency.is_some();
    let receipt = Box::pin(api.entities.submit(all)).await.map_err(|error| {
        let refused = match &error {
            SubmitError::Refused { refusal, .. } => refused_command(refusal, &events),
            _ => None,
        };
        let index = refused.unwrap_or(0);
        let problem = outcome::of_command(&error, classes[index], &events[index].0, repeatable);
        if refused.is_some() { problem.of_command(index) } else { problem }
    })?;
    traces::committed(receipt.tx);
    let mut response = JsonBody(AtomicBatch { transaction: receipt.tx, commands: events.len() }).into_response();
    if receipt.replayed {
        response.headers_mut().insert(envelope::IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// One command, as it would be alone under the key of the batch.
async fn one<'a, E: Entities<Model = Rebel>>(
    api: &'a Api<E>,
    caller: Option<Caller>,
    command: &Json<'_>,
    idempotency_key: Option<&str>,
) -> Result<(&'a Class, Command<EventCall>), Problem> {
    let unfit = |name: &str, problem: &str| {
        Problem::invalid(vec![InvalidParameter { name: name.to_owned(), problem: problem.to_owned() }])
    };
    let Stated { class, id, event, arguments, idempotency_key: own } =
        read(command).map_err(|unfit| Problem::invalid(vec![unfit]))?;
    let class: &Class = api.class(class)?;
    let event = exposed(class, event)?;
    if event.is_read() {
        let detail = format!("`{}` of {} is no command", event.name(), class.name());
        return Err(Problem::new(ProblemKind::NoSuchEvent, detail));
    }
    if own.is_some() {
        return Err(unfit("idempotency_key", "a batch that is one transaction has one key, beside `commands`"));
    }
    let id = id.ok_or_else(|| unfit("id", "missing; a batch that is one transaction names all of its instances"))?;
    let key = idempotency_key.map(str::to_owned);
    let draft = Draft::of(class, Some(id), event, &arguments, caller, key, Duration::ZERO);
    Ok((class, draft.map_err(Problem::invalid)?.command(api).await?))
}

/// The commands as one, whose fingerprint follows from all of theirs; nothing of none.
fn together(mut commands: impl Iterator<Item = Command<EventCall>>) -> Option<Command<EventCall>> {
    let mut all = commands.next()?;
    let mut digest = Sha256::new();
    let mut add = |idempotency: &Option<Idempotency>| {
        idempotency.iter().for_each(|idempotency| digest.update(idempotency.fingerprint));
    };
    add(&all.idempotency);
    for command in commands {
        add(&command.idempotency);
        all.then.push((command.key, command.event));
    }
    if let Some(idempotency) = &mut all.idempotency {
        idempotency.fingerprint = digest.finalize().into();
    }
    Some(all)
}

/// The first command that can be the one that led to the refusal.
fn refused_command(refusal: &Refusal, events: &[(EntityKey, String)]) -> Option<usize> {
    let own = (&refusal.entity, &refusal.event);
    let (entity, event) = refusal.callers.first().map_or(own, |caller| (&caller.entity, &caller.event));
    events.iter().position(|(key, name)| key == entity && name == event)
}
