//! `GET /{Class}/{id}`: what an instance is now, as far as that is decided.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use enact_entities::{Entities, Range, ReadMode, Rebel, TxId, Values, Vault, View};
use enact_journal::EntityKey;
use enact_rebel::{Class, Instance, Name, Value};
use serde::Serialize;
use serde_json::Value as JsonValue;

use crate::api::{Api, instance};
use crate::command::undecodable;
use crate::limits::Peer;
use crate::path::Part;
use crate::personal::{Hidden, shown};
use crate::problem::{InvalidParameter, Problem, ProblemKind};
use crate::{envelope, history, outcome, traces, value};

/// An instance in one state.
#[derive(Debug, Serialize)]
pub(crate) struct One<'a> {
    class: &'a str,
    id: &'a str,
    state: &'a str,
    fields: BTreeMap<&'a str, JsonValue>,
    #[serde(flatten)]
    hidden: Hidden,
}

/// All that an instance may be, depending on what is not decided yet.
#[derive(Debug, Serialize)]
struct Outcomes<'a> {
    class: &'a str,
    id: &'a str,
    states: &'a [String],
    fields: BTreeMap<&'a str, Possible>,
}

/// What a field may be.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Possible {
    Bounds {
        low: JsonValue,
        high: JsonValue,
    },
    Elements {
        #[serde(rename = "in")]
        certain: Vec<JsonValue>,
        #[serde(rename = "maybe")]
        possible: Option<Vec<JsonValue>>,
    },
    Values {
        values: Option<Vec<JsonValue>>,
    },
}

pub(crate) async fn read<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    peer: &Peer,
    (class, id): (Part<'_>, Part<'_>),
    head: &Parts,
) -> Result<Response, Problem> {
    let mut unfit = Vec::new();
    let (class, key, deadline) = addressed(api, (class, id), head, &mut unfit)?;
    let Modifiers { mode, after, at } = modifiers(Query::try_from_uri(&head.uri), &mut unfit);
    if let Some(at) = at {
        return history::past(api, peer, (key, deadline), &at, unfit).await;
    }
    let (Some(key), Some(deadline), true) = (key, deadline, unfit.is_empty()) else {
        return Err(Problem::invalid(unfit));
    };
    let _admitted = api.admit(peer)?;
    let reading = api.entities.read(&key, mode, after, deadline.saturating_sub(peer.held_up()));
    match Box::pin(reading).await {
        Ok(View::One { state, exists: true }) => {
            Ok(Json(One::of(api.entities.vault(), &key, &state).await).into_response())
        }
        Ok(View::Range(range)) if range.exists => Ok(outcomes(api.entities.vault(), class, &key, &range).await),
        Ok(_) => Err(never_created(&key)),
        Err(error) => Err(outcome::of_read(&error, &key)),
    }
}

/// The class, the instance and the deadline of a read, as far as nothing is wrong with them.
pub(crate) fn addressed<'a, E: Entities<Model = Rebel>>(
    api: &'a Api<E>,
    (class, id): (Part<'_>, Part<'_>),
    head: &Parts,
    unfit: &mut Vec<InvalidParameter>,
) -> Result<(&'a Class, Option<EntityKey>, Option<Duration>), Problem> {
    let (Some(class), Some(id)) = (class.decoded(), id.decoded()) else { return Err(undecodable()) };
    let class = api.class(&class)?;
    traces::asks_about(class.name());
    let key = instance(class, &id).map_err(|error| unfit.push(error)).ok();
    let deadline = envelope::deadline(&head.headers).map_err(|error| unfit.push(error)).ok();
    Ok((class, key, deadline))
}

pub(crate) fn never_created(key: &EntityKey) -> Problem {
    Problem::new(ProblemKind::NoSuchInstance, format!("there is no {key}: it was never created"))
}

/// How a read is meant.
struct Modifiers {
    mode: ReadMode,
    after: Option<TxId>,
    at: Option<String>,
}

fn modifiers(
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
    unfit: &mut Vec<InvalidParameter>,
) -> Modifiers {
    let mut mode = None;
    let mut after = None;
    let mut at = None;
    let mut complain = |name: &str, problem: String| unfit.push(InvalidParameter { name: name.to_owned(), problem });
    let pairs = match query {
        Ok(Query(pairs)) => pairs,
        Err(_) => {
            complain("query", "cannot be decoded".to_owned());
            Vec::new()
        }
    };
    for (name, text) in pairs {
        let repeated = match name.as_str() {
            "mode" => match text.as_str() {
                "applied" => mode.replace(ReadMode::Applied).is_some(),
                "certain" => mode.replace(ReadMode::Certain).is_some(),
                "range" => mode.replace(ReadMode::Range).is_some(),
                _ => {
                    complain("mode", "one of `applied`, `certain` and `range`".to_owned());
                    false
                }
            },
            "after" => match text.parse::<TxId>() {
                Ok(tx) => after.replace(tx).is_some(),
                Err(error) => {
                    complain("after", error.to_string());
                    false
                }
            },
            "at" => at.replace(text).is_some(),
            _ => {
                complain(&name, "a read takes `mode`, `after` and `at`".to_owned());
                false
            }
        };
        if repeated {
            complain(&name, "given more than once".to_owned());
        }
    }
    if at.is_some() && (mode.is_some() || after.is_some()) {
        complain("at", "what is over has no `mode` and comes `after` nothing".to_owned());
    }
    Modifiers { mode: mode.unwrap_or_default(), after, at }
}

impl<'a> One<'a> {
    pub(crate) async fn of(vault: Option<&Vault>, key: &'a EntityKey, instance: &'a Instance) -> Self {
        let (fields, hidden) = shown(vault, instance.fields().iter().collect()).await;
        Self { class: key.class(), id: key.id(), state: instance.state(), fields, hidden }
    }
}

async fn outcomes(vault: Option<&Vault>, class: &Class, key: &EntityKey, range: &Range) -> Response {
    let mut fields = BTreeMap::new();
    for field in &range.fields {
        let bound = |text: &str| -> JsonValue {
            let declared = class.fields().iter().find(|declared| **declared.name() == *field.name);
            match declared.and_then(|declared| Value::parse(declared.ty(), text).ok()) {
                Some(value) => value::to_json(&value),
                None => JsonValue::from(text),
            }
        };
        let possible = match &field.values {
            Values::Between { low, high } => Possible::Bounds { low: bound(low), high: bound(high) },
            Values::Elements { certain, possible } => {
                Possible::Elements { certain: array(certain), possible: possible.as_ref().map(array) }
            }
            Values::Among(None) => Possible::Values { values: None },
            Values::Among(Some(among)) => {
                let (name, mut values): (Name, _) = (field.name.as_str().into(), Vec::new());
                for value in among {
                    // What was erased is `null`, and so is what cannot be read.
                    values.extend(shown(vault, vec![(&name, value)]).await.0.into_values());
                }
                Possible::Values { values: Some(values) }
            }
        };
        fields.insert(field.name.as_str(), possible);
    }
    Json(Outcomes { class: key.class(), id: key.id(), states: &range.states, fields }).into_response()
}

fn array<'a>(values: impl IntoIterator<Item = &'a Value>) -> Vec<JsonValue> {
    values.into_iter().map(value::to_json).collect()
}
