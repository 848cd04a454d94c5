//! `GET /{Class}/{id}/-/history`: what has happened to an instance, and `GET /{Class}/{id}?at=`: what it was.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use enact_entities::{Entities, Happened, History, HistoryPart, Model, Rebel, Slot, Timestamp, Vault};
use enact_journal::EntityKey;
use enact_rebel::{EventCall, Instance, Type, Value};
use serde::Serialize;
use serde_json::Value as JsonValue;
use utoipa::ToSchema;

use crate::api::Api;
use crate::limits::Peer;
use crate::path::Part;
use crate::personal::{Erased, Hidden, shown};
use crate::problem::{InvalidParameter, Problem, ProblemKind};
use crate::read::{addressed, never_created};
use crate::{outcome, value};

/// Most transactions of a page, and how many it has unless it is said.
pub(crate) const PAGE_MAX: usize = 1000;
pub(crate) const PAGE_DEFAULT: usize = 100;

/// A page of a history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::History)]
pub(crate) struct Page<'a> {
    class: &'a str,
    id: &'a str,
    /// In the order of their effects, up to the first one that is not decided.
    transactions: Vec<Entry<'a>>,
    /// The `after` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    /// Whether only the last transaction is known, without its events: the instance has ended so long ago that the rest was
    /// discarded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    discarded: bool,
    /// When the personal values of the instance were erased, here and wherever else they were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    erasures: Vec<Erased>,
}

/// What one transaction did to the instance.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::HistoryEntry)]
struct Entry<'a> {
    /// Its place: later ones have larger numbers.
    slot: u64,
    #[schema(value_type = String, format = "uuid")]
    transaction: String,
    /// The time of its events.
    #[schema(value_type = String)]
    at: JsonValue,
    /// The version of the contract under which they happened.
    version: u32,
    events: Vec<Called<'a>>,
    /// The state in which it left the instance.
    state: &'a str,
    /// The fields that it changed, with their new values.
    #[schema(value_type = Object)]
    changed: BTreeMap<&'a str, JsonValue>,
    #[serde(flatten)]
    hidden: Hidden,
}

/// One event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::HistoryEvent)]
pub(crate) struct Called<'a> {
    event: &'a str,
    #[schema(value_type = Object)]
    arguments: BTreeMap<&'a str, JsonValue>,
    #[serde(flatten)]
    hidden: Hidden,
    /// The caller, if one was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    /// The time of the timer that made it happen, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    due: Option<JsonValue>,
    /// Whether the timer was due and the event refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
}

/// What an instance was.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Past)]
pub(crate) struct Past<'a> {
    class: &'a str,
    id: &'a str,
    /// The time that was asked for.
    #[schema(value_type = String)]
    at: JsonValue,
    /// The transaction that had left it so.
    #[schema(value_type = String, format = "uuid")]
    transaction: String,
    /// The version of the contract under which it had.
    version: u32,
    state: &'a str,
    /// The fields that the instance had under that version.
    #[schema(value_type = Object)]
    fields: BTreeMap<&'a str, JsonValue>,
    #[serde(flatten)]
    hidden: Hidden,
}

type Known = Happened<Instance, EventCall>;

/// The instance and the deadline of a request, as far as nothing is wrong with them.
type Addressed = (Option<EntityKey>, Option<Duration>);

pub(crate) async fn history<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    peer: &Peer,
    place: (Part<'_>, Part<'_>),
    head: &Parts,
) -> Result<Response, Problem> {
    let mut unfit = Vec::new();
    let (_, key, deadline) = addressed(api, place, head, &mut unfit)?;
    let (after, limit) = page(head, &mut unfit);
    let asked = HistoryPart::Page { after, limit };
    let (key, History { before, transactions, has_more, is_discarded, erasures }) =
        ask(api, peer, (key, deadline), asked, unfit).await?;
    let model = api.entities.model();
    if transactions.is_empty() && !model.exists(&key, &before) {
        return Err(never_created(&key));
    }
    let next = transactions.last().filter(|_| has_more).map(|last| last.slot.0);
    let earlier = std::iter::once(&before).chain(transactions.iter().map(|happened| &happened.state));
    let vault = api.entities.vault();
    let mut entries = Vec::with_capacity(transactions.len());
    for (happened, before) in transactions.iter().zip(earlier) {
        entries.push(entry(vault, happened, before).await);
    }
    let (transactions, erasures) = (entries, erasures.iter().map(Erased::from).collect());
    let page = Page { class: key.class(), id: key.id(), transactions, next, discarded: is_discarded, erasures };
    Ok(Json(page).into_response())
}

/// What the instance was at `time`; `unfit` is what else is wrong with the request.
pub(crate) async fn past<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    peer: &Peer,
    addressed: Addressed,
    time: &str,
    mut unfit: Vec<InvalidParameter>,
) -> Result<Response, Problem> {
    let at = moment(time, api.entities.time()).map_err(|problem| unfit.push(invalid("at", problem))).ok();
    let asked = HistoryPart::At(at.unwrap_or_default());
    let (key, History { transactions, is_discarded, .. }) = ask(api, peer, addressed, asked, unfit).await?;
    let model = api.entities.model();
    let exists = |last: &&Known| model.under(last.version).is_some_and(|model| model.exists(&key, &last.state));
    let Some(last) = transactions.last().filter(exists) else {
        return Err(if is_discarded {
            let detail = format!(
                "what {key} was at {time} is not known any more: it ended later, and so long ago that its history was \
                 discarded; a backup from before may have it"
            );
            Problem::new(ProblemKind::HistoryDiscarded, detail)
        } else {
            let detail = format!("there was no {key} at {time}: it was created later, or never");
            Problem::new(ProblemKind::NoSuchInstance, detail)
        });
    };
    let Happened { tx, version, state, .. } = last;
    let (fields, hidden) = shown(api.entities.vault(), state.fields().iter().collect()).await;
    let past = Past {
        class: key.class(),
        id: key.id(),
        at: JsonValue::from(time),
        transaction: tx.to_string(),
        version: *version,
        state: state.state(),
        fields,
        hidden,
    };
    Ok(Json(past).into_response())
}

/// Asks for a part of a history; `unfit` is what is wrong with the request so far.
async fn ask<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    peer: &Peer,
    (key, deadline): Addressed,
    part: HistoryPart,
    unfit: Vec<InvalidParameter>,
) -> Result<(EntityKey, History<Instance, EventCall>), Problem> {
    let (Some(key), Some(deadline), true) = (key, deadline, unfit.is_empty()) else {
        return Err(Problem::invalid(unfit));
    };
    let _admitted = api.admit(peer)?;
    let reading = api.entities.history(&key, part, deadline.saturating_sub(peer.held_up()));
    match Box::pin(reading).await {
        Ok(history) => Ok((key, history)),
        Err(error) => Err(outcome::of_read(&error, &key)),
    }
}

async fn entry<'a>(vault: Option<&Vault>, happened: &'a Known, before: &Instance) -> Entry<'a> {
    let Happened { slot, tx, at, version, events, state } = happened;
    let had = |name: &str, value: &Value| before.fields().get(name).is_some_and(|earlier| earlier == value);
    let (changed, hidden) =
        shown(vault, state.fields().iter().filter(|(name, value)| !had(name, value)).collect()).await;
    Entry {
        slot: slot.0,
        transaction: tx.to_string(),
        at: moment_to_json(*at),
        version: *version,
        events: calls(vault, events).await,
        state: state.state(),
        changed,
        hidden,
    }
}

/// `events` as clients see them.
pub(crate) async fn calls<'a>(vault: Option<&Vault>, events: &'a [EventCall]) -> Vec<Called<'a>> {
    let mut calls = Vec::with_capacity(events.len());
    for call in events {
        let (arguments, hidden) = shown(vault, call.arguments().iter().collect()).await;
        calls.push(Called {
            event: call.event(),
            arguments,
            hidden,
            caller: call.caller().map(|caller| &**caller.id()),
            due: call.due().map(|due| value::to_json(&Value::Timestamp(due))),
            refused: call.is_note(),
        });
    }
    calls
}

pub(crate) fn moment_to_json(at: Timestamp) -> JsonValue {
    value::to_json(&Value::Timestamp(enact_rebel::Timestamp::from_millis(at.0)))
}

/// A time that is over.
fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    match Value::parse(&Type::Timestamp, text) {
        Ok(Value::Timestamp(at)) if at.millis() <= now.0 => Ok(Timestamp(at.millis())),
        Ok(_) => Err("later than now".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The slot behind which a page begins, and its length.
fn page(head: &Parts, unfit: &mut Vec<InvalidParameter>) -> (Option<Slot>, usize) {
    let (mut after, mut limit) = (None, None);
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(&head.uri) else {
        unfit.push(invalid("query", "cannot be decoded".to_owned()));
        return (None, PAGE_DEFAULT);
    };
    for (name, text) in pairs {
        let known = match name.as_str() {
            "after" => &mut after,
            "limit" => &mut limit,
            _ => {
                unfit.push(invalid(&name, "a history takes `after` and `limit`".to_owned()));
                continue;
            }
        };
        match text.parse::<u64>() {
            Ok(_) if known.is_some() => unfit.push(invalid(&name, "given more than once".to_owned())),
            Ok(number) => *known = Some(number),
            Err(_) => unfit.push(invalid(&name, "a whole number".to_owned())),
        }
    }
    let limit = match limit.map_or(Ok(PAGE_DEFAULT), usize::try_from) {
        Ok(limit @ 1..=PAGE_MAX) => limit,
        _ => {
            unfit.push(invalid("limit", format!("from 1 to {PAGE_MAX}")));
            PAGE_DEFAULT
        }
    };
    (after.map(Slot), limit)
}

pub(crate) fn invalid(name: &str, problem: String) -> InvalidParameter {
    InvalidParameter { name: name.to_owned(), problem }
}
