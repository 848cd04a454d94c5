//! `GET /{Class}/{id}/{Event}`: what a read event returns, of instances as far as they are decided.
//!
//! Nothing is held and nothing is journaled. Each instance that the event asks is read on its own, so that the answer need
//! not be that of one moment; an event that asks the same as a question has answers of one moment.

use std::time::Duration;

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use enact_entities::{Asked, Entities, Model, ReadMode, Reason, Rebel, Refusal, View};
use enact_journal::EntityKey;
use enact_rebel::limits::INSTANCES_MAX;
use enact_rebel::{Caller, Class, Event, EventCall, Instance, Name, Type, Value};
use serde::Serialize;
use serde_json::Value as JsonValue;
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::api::{Api, instance, only_allowed};
use crate::command::{exposed, undecodable};
use crate::limits::Peer;
use crate::path::Part;
use crate::problem::{InvalidParameter, Problem};
use crate::{envelope, outcome, traces, value};

/// The answer to a question.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Answered)]
pub(crate) struct Answered {
    /// The identity of the addressed instance.
    id: String,
    /// What the event returns.
    #[schema(ignore)]
    result: JsonValue,
}

pub(crate) async fn ask<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    peer: &Peer,
    caller: Option<Caller>,
    (class, id, event): (Part<'_>, Part<'_>, Part<'_>),
    head: &Parts,
) -> Result<Response, Problem> {
    let (Some(class), Some(id), Some(event)) = (class.decoded(), id.decoded(), event.decoded()) else {
        return Err(undecodable());
    };
    let class = api.class(&class)?;
    let event = exposed(class, &event)?;
    if !event.is_read() {
        // A HEAD is told what a GET would be.
        return Err(only_allowed("POST", &Method::GET, &head.uri));
    }
    traces::asks_for(class.name(), event.name());
    let mut unfit = Vec::new();
    let key = instance(class, &id).map_err(|error| unfit.push(error)).ok();
    let deadline = envelope::deadline(&head.headers).map_err(|error| unfit.push(error)).ok();
    let call = arguments(event, Query::try_from_uri(&head.uri)).map_err(|errors| unfit.extend(errors)).ok();
    let (Some(key), Some(deadline), Some(call)) = (key, deadline, call) else {
        return Err(Problem::invalid(unfit));
    };
    outcome::admit(class, &key, event, caller.as_ref())?;
    let call = call.with_caller(caller);
    let _admitted = api.admit(peer)?;
    let reading = Reading { api, class, key: &key, until: Instant::now() + deadline.saturating_sub(peer.held_up()) };
    let result = reading.result(&call).await?;
    Ok(Json(Answered { id: key.id().to_owned(), result: value::to_json(&result) }).into_response())
}

/// The call of `event` with the parameters of a query, each in the text form of its type; or everything that is wrong with them.
fn arguments(
    event: &Event,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<EventCall, Vec<InvalidParameter>> {
    let unfit = |name: &str, problem: String| InvalidParameter { name: name.to_owned(), problem };
    let Ok(Query(pairs)) = query else { return Err(vec![unfit("query", "cannot be decoded".to_owned())]) };
    let mut errors = Vec::new();
    let mut given = Vec::with_capacity(event.params().len());
    for parameter in event.params() {
        let name = &**parameter.name();
        let mut texts = pairs.iter().filter(|(known, _)| known == name).map(|(_, text)| text);
        let read = match (texts.next(), texts.next()) {
            (Some(_), None) if matches!(parameter.ty(), Type::Personal(_)) => {
                Err("personal values do not stand in addresses, which are logged".to_owned())
            }
            (Some(text), None) => Value::parse(parameter.ty(), text).map_err(|error| error.to_string()),
            (None, _) if parameter.default().is_some() => continue,
            (None, _) if matches!(parameter.ty(), Type::Optional(_)) => Ok(Value::None),
            (None, _) => Err(format!("missing; it is of type {}", parameter.ty())),
            (Some(_), Some(_)) => Err("given more than once".to_owned()),
        };
        match read {
            Ok(value) => given.push((name, value)),
            Err(problem) => errors.push(unfit(name, problem)),
        }
    }
    let is_known = |name: &str| event.params().iter().any(|parameter| **parameter.name() == *name);
    let unknown = pairs.iter().filter(|(name, _)| !is_known(name));
    errors.extend(unknown.map(|(name, _)| unfit(name, format!("{} has no such parameter", event.name()))));
    if !errors.is_empty() {
        return Err(errors);
    }
    event.call(given).map_err(|errors| errors.iter().map(|error| unfit("query", error.to_string())).collect())
}

/// A question on its way.
struct Reading<'a, E: Entities<Model = Rebel>> {
    api: &'a Api<E>,
    class: &'a Class,
    key: &'a EntityKey,
    until: Instant,
}

impl<E: Entities<Model = Rebel>> Reading<'_, E> {
    /// What the event returns, with the answers of all that it asks.
    async fn result(&self, call: &EventCall) -> Result<Value, Problem> {
        let (model, at) = (self.api.entities.model(), self.api.entities.time());
        let state = self.state(self.key).await?;
        let mut answers: Vec<(Asked<EventCall>, Option<Value>)> = Vec::new();
        loop {
            let call = model.answered(call, &answers);
            let wanted = model.questions(self.key, &state, &call, at).map_err(|why| self.refused(&call, why))?;
            if wanted.is_empty() {
                return model.read(self.key, &state, &call, at).map_err(|why| self.refused(&call, why));
            }
            if answers.len() + wanted.len() > INSTANCES_MAX {
                return Err(self.refused(&call, vec![Reason::TooManyParticipants { limit: INSTANCES_MAX }]));
            }
            for asked in wanted {
                let state = self.state(&asked.key).await?;
                let answer = model.answer(&asked, &state, at);
                answers.push((asked, answer));
            }
        }
    }

    /// An instance as it is whatever becomes of open transactions.
    async fn state(&self, key: &EntityKey) -> Result<Instance, Problem> {
        let left = self.until.checked_duration_since(Instant::now()).unwrap_or(Duration::ZERO);
        match Box::pin(self.api.entities.read(key, ReadMode::Certain, None, left)).await {
            Ok(View::One { state, .. }) => Ok(state),
            Ok(View::Range(_)) => Err(outcome::engine_failed()),
            Err(error) => Err(outcome::of_read(&error, key)),
        }
    }

    fn refused(&self, call: &EventCall, reasons: Vec<Reason>) -> Problem {
        refused(self.class, self.key, call.event(), reasons)
    }
}

fn refused(class: &Class, key: &EntityKey, event: &Name, reasons: Vec<Reason>) -> Problem {
    let refusal = Refusal { entity: key.clone(), event: event.to_string(), reasons, callers: Vec::new() };
    outcome::refused(&refusal, class, key)
}
