//! `GET /{Class}`: the instances whose state and fields are as asked for, in pages.

use std::sync::Arc;

use axum::Json;
use axum::extract::Query as Pairs;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use enact_entities::{Entities, Rebel};
use enact_projection::{Mark, Page as Found, ProjectionError, Query};
use enact_rebel::Class;
use serde::Serialize;

use crate::api::Api;
use crate::command::undecodable;
use crate::history::invalid;
use crate::limits::Peer;
use crate::path::Part;
use crate::problem::{InvalidParameter, Problem};
use crate::read::One;
use crate::{envelope, outcome, traces};

/// Most instances of a page, and how many it has unless it is said.
pub(crate) const PAGE_MAX: usize = 1000;
pub(crate) const PAGE_DEFAULT: usize = 100;

/// A page of instances.
#[derive(Debug, Serialize)]
struct Page<'a> {
    class: &'a str,
    instances: Vec<One<'a>>,
    /// The `after` of the next page, if there may be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(crate) async fn query<E: Entities<Model = Rebel>>(
    api: &Api<E>,
    peer: &Peer,
    class: Part<'_>,
    head: &Parts,
) -> Result<Response, Problem> {
    let class = class.decoded().ok_or_else(undecodable)?;
    let class = api.class(&class)?;
    traces::asks_about(class.name());
    let mut unfit = Vec::new();
    let deadline = envelope::deadline(&head.headers).map_err(|problem| unfit.push(problem)).unwrap_or_default();
    let Some((query, after, limit)) = asked(class, head, &mut unfit) else { return Err(Problem::invalid(unfit)) };
    let _admitted = api.admit(peer)?;
    let finding = api.projection.find(&query, after, limit, deadline.saturating_sub(peer.held_up()));
    let Found { found, next } = match Box::pin(finding).await {
        Ok(page) => page,
        Err(error @ ProjectionError::Mark) => return Err(Problem::invalid(vec![invalid("after", error.to_string())])),
        Err(error) => return Err(outcome::of_query(&error)),
    };
    let vault = api.entities.vault();
    let mut instances = Vec::with_capacity(found.len());
    for object in &found {
        instances.push(One::of(vault, &object.key, &object.instance).await);
    }
    Ok(Json(Page { class: class.name(), instances, next: next.map(|mark| mark.to_string()) }).into_response())
}

/// The query, the mark behind which its page begins, and the length of that; nothing if something is wrong with them.
fn asked(class: &Arc<Class>, head: &Parts, unfit: &mut Vec<InvalidParameter>) -> Option<(Query, Option<Mark>, usize)> {
    let Ok(Pairs(pairs)) = Pairs::<Vec<(String, String)>>::try_from_uri(&head.uri) else {
        unfit.push(invalid("query", "cannot be decoded".to_owned()));
        return None;
    };
    let (mut after, mut limit, mut conditions) = (None, None, Vec::new());
    for (name, text) in pairs {
        let given = match name.as_str() {
            "after" => &mut after,
            "limit" => &mut limit,
            _ => {
                conditions.push((name, text));
                continue;
            }
        };
        if given.replace(text).is_some() {
            unfit.push(invalid(&name, "given more than once".to_owned()));
        }
    }
    let query = Query::parse(class, conditions);
    let query =
        query.map_err(|errors| unfit.extend(errors.into_iter().map(|error| invalid(&error.name, error.problem)))).ok();
    let after = after.map(|text| text.parse::<Mark>()).transpose();
    let after = after.map_err(|error| unfit.push(invalid("after", error.to_string()))).ok();
    let limit = match limit.map_or(Ok(PAGE_DEFAULT), |text| text.parse()) {
        Ok(limit @ 1..=PAGE_MAX) => Some(limit),
        _ => {
            unfit.push(invalid("limit", format!("a whole number from 1 to {PAGE_MAX}")));
            None
        }
    };
    if unfit.is_empty() { Some((query?, after?, limit?)) } else { None }
}
