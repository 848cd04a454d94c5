//! `POST /-/batch`: many commands in one request, each a transaction of its own with an answer of its own, or all of them
//! [one transaction](crate::atomic).
//!
//! A batch counts as one request of its client, and takes further shares of those that are free: it is never refused because it is
//! large, and goes slowly when others want the server.
//!
//! # Memory
//! A body of 4 MiB may take twenty times as much when it is read, and a client need not hurry to send it. So only a few batches
//! arrive and run at once, and a client has at most as many of them as are left for others.

use std::borrow::Cow;

use axum::Json as JsonBody;
use axum::body::{Bytes, HttpBody};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use enact_entities::{Entities, Origin, Rebel};
use enact_rebel::{Caller, Class, Event};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::api::Api;
use crate::atomic::{self, ATOMIC_COMMANDS_MAX};
use crate::command::{Committed, Draft, Told, exposed};
use crate::json::{Json, Members};
use crate::limits::Peer;
use crate::problem::{InvalidParameter, Problem, ProblemBody, ProblemKind};
use crate::{body, command, envelope, outcome, traces};

/// Greatest size of the body of a batch, in bytes.
pub const BATCH_BYTES_MAX: usize = 4 << 20;
/// Most commands of a batch.
pub const BATCH_COMMANDS_MAX: usize = 1000;

/// How many batches arrive and run at once.
pub(crate) const BATCHES_MAX: usize = 4;

/// How many commands of a batch are under way at once, if as many shares are free.
const AT_ONCE: usize = 128;

/// The answers to a batch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Batch)]
pub(crate) struct Batch {
    /// Those of its commands, in their order.
    results: Vec<Answer>,
}

/// The answer to one command of a batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = enact::BatchAnswer)]
pub(crate) enum Answer {
    /// It committed.
    Done(Done),
    /// It did not, or nobody knows yet.
    Problem(Box<ProblemBody>),
}

/// A command that committed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::BatchDone)]
pub(crate) struct Done {
    /// 200.
    status: u16,
    #[serde(flatten)]
    committed: Committed,
    /// Whether this is the answer to an earlier command with the same idempotency key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
}

/// A command as it stands in a batch.
pub(crate) struct Stated<'a> {
    pub(crate) class: &'a str,
    pub(crate) id: Option<&'a str>,
    pub(crate) event: &'a str,
    pub(crate) arguments: Cow<'a, Members<'a>>,
    pub(crate) idempotency_key: Option<&'a str>,
}

/// What a batch asks for.
struct Asked<'a> {
    commands: &'a [Json<'a>],
    /// Whether they are one transaction.
    is_atomic: bool,
    /// That of the transaction.
    idempotency_key: Option<&'a str>,
}

pub(crate) async fn batch<E, B>(
    api: &Api<E>,
    peer: &Peer,
    caller: Option<Caller>,
    head: &Parts,
    body: B,
) -> Result<Response, Problem>
where
    E: Entities<Model = Rebel>,
    B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send,
{
    let _one_of_few = api.batch(peer)?;
    let content = body::read(&head.headers, body, BATCH_BYTES_MAX).await?;
    let members = body::members(&content)?;
    let Asked { commands, is_atomic, idempotency_key } = asked(&members)?;
    api.charge(peer, caller.as_ref(), commands.len());
    let deadline = envelope::deadline(&head.headers).map_err(|unfit| Problem::invalid(vec![unfit]))?;
    let _admitted = api.admit(peer)?;
    let over = Instant::now() + deadline.saturating_sub(peer.held_up());
    if is_atomic {
        return atomic::run(api, caller, commands, idempotency_key, over).await;
    }
    let run = |index: usize| {
        let (stated, caller) = (read(&commands[index]), caller.clone());
        Box::pin(async move {
            let answer = match stated {
                Ok(stated) => answer(api, caller, &stated, over).await,
                Err(unfit) => Err(Problem::invalid(vec![unfit])),
            };
            (index, answer)
        })
    };
    let mut answers: Vec<Option<Answer>> = commands.iter().map(|_| None).collect();
    let mut running = FuturesUnordered::new();
    let mut waiting = 0..commands.len();
    loop {
        while running.len() < AT_ONCE
            && let Some(index) = waiting.start.lt(&waiting.end).then_some(waiting.start)
        {
            let share = api.share(peer);
            if share.is_none() && !running.is_empty() {
                break;
            }
            waiting.start += 1;
            let command = run(index);
            running.push(async move {
                let answered = command.await;
                drop(share);
                answered
            });
        }
        let Some((index, answer)) = running.next().await else { break };
        answers[index] = Some(match answer {
            Ok(Told { committed, replayed }) => Answer::Done(Done { status: 200, committed, replayed }),
            Err(problem) => Answer::Problem(api.tell(problem, caller.as_ref()).into_body()),
        });
    }
    let results = answers.into_iter().map(|answer| answer.expect("each has run")).collect();
    Ok(JsonBody(Batch { results }).into_response())
}

/// Runs one command until `over`.
async fn answer<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    caller: Option<Caller>,
    stated: &Stated<'_>,
    over: Instant,
) -> Result<Told, Problem> {
    let class = api.class(stated.class)?;
    let event = exposed(class, stated.event)?;
    let span = traces::of_command(class.name(), event.name());
    let origin = Origin::current().map(|batch| batch.within(span.clone()));
    let answered = Origin::scope(origin, submit(api, caller, (class, event), stated, over)).await;
    traces::command_ended(&span, &answered);
    answered
}

async fn submit<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    caller: Option<Caller>,
    (class, event): (&Class, &Event),
    stated: &Stated<'_>,
    over: Instant,
) -> Result<Told, Problem> {
    if event.is_read() || stated.id.is_none() && !command::creates(class, event) {
        let detail = format!(
            "`{}` of {} is no command without the id of an instance, or none at all",
            stated.event, stated.class
        );
        return Err(Problem::new(ProblemKind::NoSuchEvent, detail));
    }
    if stated.id.is_none() && stated.idempotency_key.is_none() && command::is_named_by_key(class) {
        return Err(Problem::invalid(vec![command::unnamed("idempotency_key")]));
    }
    let key = stated.idempotency_key.map(str::to_owned);
    let left = over.saturating_duration_since(Instant::now());
    let draft = Draft::of(class, stated.id, event, &stated.arguments, caller, key, left);
    let command = draft.map_err(Problem::invalid)?.command(api).await?;
    let (key, repeatable) = (command.key.clone(), command.idempotency.is_some());
    let submitted = Box::pin(api.entities.submit(command)).await;
    submitted
        .map(|receipt| Told::of(receipt, &key))
        .map_err(|error| outcome::of_command(&error, class, &key, repeatable))
}

/// What a batch asks for, its commands as they are.
fn asked<'a>(members: &'a Members<'a>) -> Result<Asked<'a>, Problem> {
    let unfit =
        |name: &str, problem: String| Problem::invalid(vec![InvalidParameter { name: name.to_owned(), problem }]);
    if let Some(unknown) = members.keys().find(|name| !["commands", "atomic", "idempotency_key"].contains(&&***name)) {
        return Err(unfit(unknown, "a batch has `commands`, `atomic` and `idempotency_key`".to_owned()));
    }
    let is_atomic = match members.get("atomic") {
        None => false,
        Some(Json::Bool(is_atomic)) => *is_atomic,
        Some(_) => return Err(unfit("atomic", "expected: true or false".to_owned())),
    };
    let idempotency_key = match members.get("idempotency_key") {
        None => None,
        Some(Json::String(key)) if is_atomic && envelope::is_idempotency_key(key) => Some(&**key),
        Some(_) if is_atomic => return Err(unfit("idempotency_key", envelope::KEY_RULE.to_owned())),
        Some(_) => {
            let problem = "each command has its own, unless the batch is one transaction (`\"atomic\": true`)";
            return Err(unfit("idempotency_key", problem.to_owned()));
        }
    };
    let limit = if is_atomic { ATOMIC_COMMANDS_MAX } else { BATCH_COMMANDS_MAX };
    match members.get("commands") {
        Some(Json::Array(commands)) if commands.len() <= limit => Ok(Asked { commands, is_atomic, idempotency_key }),
        Some(Json::Array(commands)) => {
            let what = if is_atomic { "one transaction" } else { "a batch" };
            Err(unfit("commands", format!("{} of them; {what} has at most {limit}", commands.len())))
        }
        _ => Err(unfit("commands", "expected: a list of commands".to_owned())),
    }
}

/// One command.
pub(crate) fn read<'a>(command: &'a Json<'a>) -> Result<Stated<'a>, InvalidParameter> {
    let unfit = |name: &str, problem: &str| InvalidParameter { name: name.to_owned(), problem: problem.to_owned() };
    let Json::Object(members) = command else { return Err(unfit("commands", "expected: an object")) };
    let known = ["class", "id", "event", "arguments", "idempotency_key"];
    if let Some(unknown) = members.keys().find(|name| !known.contains(&&***name)) {
        return Err(unfit(unknown, "a command has `class`, `id`, `event`, `arguments` and `idempotency_key`"));
    }
    let text = |name: &str| match members.get(name) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(&**text)),
        Some(_) => Err(unfit(name, "expected: a string")),
    };
    let required = |name: &str| text(name)?.ok_or_else(|| unfit(name, "missing"));
    let arguments = match members.get("arguments") {
        None => Cow::Owned(Members::new()),
        Some(Json::Object(arguments)) => Cow::Borrowed(arguments),
        Some(_) => return Err(unfit("arguments", "expected: an object")),
    };
    let idempotency_key = text("idempotency_key")?;
    if idempotency_key.is_some_and(|key| !envelope::is_idempotency_key(key)) {
        return Err(unfit("idempotency_key", envelope::KEY_RULE));
    }
    Ok(Stated { class: required("class")?, id: text("id")?, event: required("event")?, arguments, idempotency_key })
}
