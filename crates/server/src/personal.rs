//! Personal values: sealed on their way in, opened on their way out; and `POST /{Class}/{id}/-/erase`, which erases them.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::{Bytes, HttpBody};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use enact_entities::{Entities, EraseError, Erasure, Kept, Rebel, Vault, VaultError};
use enact_journal::EntityKey;
use enact_rebel::{Caller, Class, Event, Name, Reference, Sealed, Type, Value};
use serde::Serialize;
use serde_json::Value as JsonValue;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::api::{Api, instance};
use crate::command::undecodable;
use crate::history::{invalid, moment_to_json};
use crate::limits::Peer;
use crate::path::Part;
use crate::problem::{Problem, ProblemKind};
use crate::value::to_json;
use crate::{body, envelope};

/// The names of personal values that are shown as `null`.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = enact::Hidden)]
pub(crate) struct Hidden {
    /// Those that were erased.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    erased: Vec<String>,
    /// Those whose keys cannot be read; the server logs why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
}

impl Hidden {
    /// The value that was sealed, as clients see it.
    async fn opened(&mut self, vault: Option<&Vault>, name: &str, sealed: &Sealed) -> JsonValue {
        let Some(vault) = vault else {
            self.unreadable.push(name.to_owned());
            return JsonValue::Null;
        };
        match vault.open(sealed).await {
            Ok(Some(value)) => return to_json(&value),
            Ok(None) => self.erased.push(name.to_owned()),
            Err(error) => {
                // What is wrong with one is mostly wrong with all.
                if self.unreadable.is_empty() {
                    tracing::error!(%error, "a personal value cannot be read");
                }
                self.unreadable.push(name.to_owned());
            }
        }
        JsonValue::Null
    }
}

/// `values` as clients see them, and what they do not see.
pub(crate) async fn shown<'a>(
    vault: Option<&Vault>,
    values: Vec<(&'a Name, &'a Value)>,
) -> (BTreeMap<&'a str, JsonValue>, Hidden) {
    let (mut shown, mut hidden) = (BTreeMap::new(), Hidden::default());
    for (name, value) in values {
        let value = match value {
            Value::Sealed(sealed) => hidden.opened(vault, name, sealed).await,
            value => to_json(value),
        };
        shown.insert(&**name, value);
    }
    (shown, hidden)
}

/// Seals those of the `given` arguments of `event` that are personal. Returns what tells equal ones from others, by name.
pub(crate) async fn seal<'a, E: Entities<Model = Rebel>>(
    api: &Api<E>,
    (class, key): (&Class, &EntityKey),
    event: &Event,
    given: &mut [(&'a str, Value)],
) -> Result<Vec<(&'a str, [u8; 32])>, Problem> {
    let mut fingerprints = Vec::new();
    for parameter in event.params() {
        let Some(index) = given.iter().position(|(name, _)| *name == &**parameter.name()) else { continue };
        if !matches!(parameter.ty(), Type::Personal(_)) || given[index].1 == Value::None {
            continue;
        }
        let subject = match parameter.subject() {
            Some(subject) => given.iter().find_map(|(name, value)| match value {
                Value::Reference(to) if *name == &**subject => Some(to.clone()),
                _ => None,
            }),
            None => class.key(key.id()).ok().map(|key| class.reference(key)),
        };
        let subject = subject.expect("a parameter that refers to an instance, or the instance itself");
        let Kept { value, fingerprint } = kept(api, &subject, &given[index].1).await?;
        fingerprints.push((given[index].0, fingerprint));
        given[index].1 = value;
    }
    Ok(fingerprints)
}

async fn kept<E: Entities<Model = Rebel>>(api: &Api<E>, subject: &Reference, value: &Value) -> Result<Kept, Problem> {
    let unusable =
        || Problem::new(ProblemKind::KeysUnusable, "a personal value cannot be sealed, and nothing was done");
    let vault = api.entities.vault().ok_or_else(unusable)?;
    vault.seal(subject, value).await.map_err(|error| match error {
        VaultError::Subject { .. } => Problem::new(ProblemKind::InvalidParameters, error.to_string()),
        error => {
            tracing::error!(%error, "a personal value cannot be sealed");
            unusable()
        }
    })
}

/// That the personal values of an instance were erased.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Erasure)]
pub(crate) struct Erased {
    /// What it is known by, here and among the changes.
    #[schema(value_type = String, format = "uuid")]
    transaction: String,
    #[schema(value_type = String)]
    at: JsonValue,
    /// The caller who wanted it, if one was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
}

impl From<&Erasure> for Erased {
    fn from(Erasure { tx, at, by, .. }: &Erasure) -> Self {
        Self { transaction: tx.to_string(), at: moment_to_json(*at), caller: by.clone() }
    }
}

/// Its body is an empty object: a browser sends no JSON for a page of somebody else without asking first.
pub(crate) async fn erase<E, B>(
    api: &Api<E>,
    peer: &Peer,
    caller: Option<Caller>,
    (class, id): (Part<'_>, Part<'_>),
    head: &Parts,
    body: B,
) -> Result<Response, Problem>
where
    E: Entities<Model = Rebel>,
    B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send,
{
    let content = body::read(&head.headers, body, body::BODY_BYTES_MAX).await?;
    if let Some(name) = body::members(&content)?.keys().next() {
        return Err(Problem::invalid(vec![invalid(name, "an erasure takes no parameters".to_owned())]));
    }
    let (Some(class), Some(id)) = (class.decoded(), id.decoded()) else { return Err(undecodable()) };
    let class = api.class(&class)?;
    let key = instance(class, &id).map_err(|unfit| Problem::invalid(vec![unfit]))?;
    let deadline = envelope::deadline(&head.headers).map_err(|unfit| Problem::invalid(vec![unfit]))?;
    let _admitted = api.admit(peer)?;
    let by = caller.as_ref().map(|caller| &**caller.id());
    let erasing = timeout(deadline.saturating_sub(peer.held_up()), api.entities.erase(&key, by));
    match Box::pin(erasing).await {
        Ok(Ok(erasure)) => Ok(Json(Erased::from(&erasure)).into_response()),
        Ok(Err(error)) => Err(problem(&error)),
        Err(_) => {
            let detail = format!("the personal values of {key} may be erased by now or later; ask again");
            Err(Problem::new(ProblemKind::InDoubt, detail))
        }
    }
}

fn problem(error: &EraseError) -> Problem {
    let kind = match error {
        EraseError::NoKeys | EraseError::NothingSealed { .. } => ProblemKind::NothingPersonal,
        EraseError::Closed { .. } => ProblemKind::Failed,
        EraseError::NotRecorded { .. } => ProblemKind::NotReady,
        EraseError::Moved { .. } => ProblemKind::Moved,
        EraseError::Unanswered { .. } => ProblemKind::InDoubt,
        _ => ProblemKind::KeysUnusable,
    };
    let detail = match error {
        // What the operating system says is for the operator.
        EraseError::Keys { why } => {
            tracing::error!(error = why, "the keys cannot be used");
            "the keys cannot be used, and nothing was erased".to_owned()
        }
        EraseError::NotDestroyed { why } => {
            tracing::error!(error = why, "a key is not destroyed");
            "the erasure is recorded, and the key is not destroyed yet; ask again, or start the server anew, which destroys it".to_owned()
        }
        error => error.to_string(),
    };
    Problem::new(kind, detail)
}
