//! `POST /{Class}/{id}/{Event}`: one event of one instance, in a transaction with all that it calls; and
//! `POST /{Class}/{Event}`: the same for an instance that the event creates, whose id follows from the idempotency key.

use std::fmt::Display;
use std::time::Duration;

use axum::Json;
use axum::body::{Bytes, HttpBody};
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use enact_entities::{Command, Entities, Idempotency, Rebel, Receipt, TxId};
use enact_journal::EntityKey;
use enact_rebel::{Caller, Class, Event, EventCall, KeyType, Name, StateKind, Type, Value};
use serde::{Serialize, Serializer};
use serde_json::Value as JsonValue;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::{Api, instance, method_not_allowed, only_allowed};
use crate::json::Members;
use crate::limits::Peer;
use crate::path::Part;
use crate::problem::{InvalidParameter, Problem, ProblemKind};
use crate::{body, envelope, outcome, personal, traces, value};

/// The answer to a command that committed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Committed)]
pub(crate) struct Committed {
    /// The transaction; give it to a read as `after` to see its effect.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    transaction: TxId,
    /// The identity of the addressed instance.
    id: String,
    /// The life-cycle state in which the command left the addressed instance.
    state: String,
    /// What the event returns, if it has a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    result: Option<JsonValue>,
}

impl Committed {
    pub(crate) fn transaction(&self) -> TxId {
        self.transaction
    }
}

/// What a command is told that committed.
pub(crate) struct Told {
    pub(crate) committed: Committed,
    /// Whether this is the answer to an earlier command with the same idempotency key.
    pub(crate) replayed: bool,
}

impl Told {
    pub(crate) fn of(receipt: Receipt, key: &EntityKey) -> Self {
        let Receipt { tx, state, result, replayed } = receipt;
        let state = state.expect("a command is an event, and an event leads to a state");
        let result = result.as_ref().map(value::to_json);
        Self { committed: Committed { transaction: tx, id: key.id().to_owned(), state, result }, replayed }
    }
}

pub(crate) async fn command<E, B>(
    api: &Api<E>,
    peer: &Peer,
    caller: Option<Caller>,
    (class, id, event): (Part<'_>, Part<'_>, Part<'_>),
    head: &Parts,
    body: B,
) -> Result<Response, Problem>
where
    E: Entities<Model = Rebel>,
    B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send,
{
    let (Some(class), Some(id), Some(event)) = (class.decoded(), id.decoded(), event.decoded()) else {
        return Err(undecodable());
    };
    let class = api.class(&class)?;
    let event = exposed(class, &event)?;
    if event.is_read() {
        return Err(only_allowed("GET, HEAD", &head.method, &head.uri));
    }
    run(api, peer, caller, (class, Some(&id), event), head, body).await
}

/// The command of a client that lets the server name the instance. It has an idempotency key, and the same key leads to the
/// same instance, so that a command that is sent again never creates a second one.
pub(crate) async fn creation<E, B>(
    api: &Api<E>,
    peer: &Peer,
    caller: Option<Caller>,
    (class, event): (Part<'_>, Part<'_>),
    head: &Parts,
    body: B,
) -> Result<Response, Problem>
where
    E: Entities<Model = Rebel>,
    B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send,
{
    let (Some(class), Some(event)) = (class.decoded(), event.decoded()) else { return Err(undecodable()) };
    let class = api.class(&class)?;
    let Some(event) = class.event(&event).filter(|event| !event.is_internal() && !event.is_read()) else {
        return Err(method_not_allowed(&head.method, &head.uri));
    };
    if !creates(class, event) {
        let (class, event) = (class.name(), event.name());
        let detail = format!("`{event}` happens to an instance: POST /{class}/{{id}}/{event}");
        return Err(Problem::new(ProblemKind::NoSuchEvent, detail));
    }
    run(api, peer, caller, (class, None, event), head, body).await
}

/// Whether `event` leads from no instance to one.
pub(crate) fn creates(class: &Class, event: &Event) -> bool {
    let is_initial = |state: &Name| class.states().iter().any(|s| s.name() == state && s.kind() == StateKind::Initial);
    event.transitions().any(|(source, _)| is_initial(source))
}

/// Whether an idempotency key may name an instance of `class`: its identity is a text or an Id.
pub(crate) fn is_named_by_key(class: &Class) -> bool {
    matches!(class.key_type(), KeyType::String | KeyType::Id)
}

/// Neither an id nor a key, of that `name`, says which instance a command creates.
pub(crate) fn unnamed(name: &str) -> InvalidParameter {
    let problem = "missing; a command without the id of its instance must have one".to_owned();
    InvalidParameter { name: name.to_owned(), problem }
}

/// The instance that a command of `caller` creates under `idempotency_key`. All clients without a caller are one.
fn named_after(
    class: &Class,
    event: &Event,
    caller: Option<&Caller>,
    idempotency_key: Option<&str>,
) -> Result<EntityKey, InvalidParameter> {
    if !is_named_by_key(class) {
        let (class, event, ty) = (class.name(), event.name(), class.key_type());
        let problem = format!("missing; it is of type {ty}, and the client chooses it: POST /{class}/{{id}}/{event}");
        return Err(InvalidParameter { name: "id".to_owned(), problem });
    }
    let Some(idempotency_key) = idempotency_key else {
        return Err(unnamed(envelope::IDEMPOTENCY_KEY.as_str()));
    };
    let mut digest = Sha256::new();
    if let Some(caller) = caller {
        // The name of a class does not begin with a zero byte, so this is none; an id has no zero byte.
        digest.update([0]);
        digest.update(caller.id().as_bytes());
        digest.update([0]);
    }
    let digest = digest.chain_update(class.name().as_bytes()).chain_update([0]).chain_update(idempotency_key);
    let digest: [u8; 32] = digest.finalize().into();
    let id = Uuid::new_v8(*digest.first_chunk().expect("half of it"));
    instance(class, &id.to_string())
}

/// Makes `event` happen to the instance `id`, or to the one that follows from the idempotency key.
async fn run<E, B>(
    api: &Api<E>,
    peer: &Peer,
    caller: Option<Caller>,
    (class, id, event): (&Class, Option<&str>, &Event),
    Parts { headers, uri, .. }: &Parts,
    body: B,
) -> Result<Response, Problem>
where
    E: Entities<Model = Rebel>,
    B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send,
{
    traces::asks_for(class.name(), event.name());
    let content = body::read(headers, body, body::BODY_BYTES_MAX).await?;
    let (_admitted, command) = {
        let members = body::members(&content)?;
        let mut unfit = Vec::new();
        let idempotency_key = match envelope::idempotency_key(headers) {
            Err(unusable) if id.is_none() => return Err(Problem::invalid(vec![unusable])),
            read => keep(read, &mut unfit),
        };
        let deadline = keep(envelope::deadline(headers), &mut unfit);
        let left = deadline.unwrap_or_default().saturating_sub(peer.held_up());
        let draft = Draft::of(class, id, event, &members, caller, idempotency_key.flatten(), left);
        let draft = draft.map_err(|errors| unfit.extend(errors)).ok();
        unfit.extend(uri.query().filter(|query| !query.is_empty()).map(|_| InvalidParameter {
            name: "query".to_owned(),
            problem: "a command takes its parameters from the body".to_owned(),
        }));
        let (Some(draft), true) = (draft, unfit.is_empty()) else { return Err(Problem::invalid(unfit)) };
        let admitted = api.admit(peer)?;
        (admitted, draft.command(api).await?)
    };
    let (key, repeatable) = (command.key.clone(), command.idempotency.is_some());
    // A future is copied into each one that awaits it, and this one is as large as all that the engine does.
    let submitted = Box::pin(api.entities.submit(command)).await;
    submitted
        .inspect(|receipt| traces::committed(receipt.tx))
        .map(|receipt| done(receipt, &key))
        .map_err(|error| outcome::of_command(&error, class, &key, repeatable))
}

/// A command with its arguments in the clear.
pub(crate) struct Draft<'a> {
    class: &'a Class,
    event: &'a Event,
    key: EntityKey,
    /// Those that were sent, and those that are absent without a default.
    given: Vec<(&'a str, Value)>,
    caller: Option<Caller>,
    idempotency_key: Option<String>,
    deadline: Duration,
}

impl<'a> Draft<'a> {
    /// What makes `event` happen with `members` as arguments, or everything that is wrong with it.
    pub(crate) fn of(
        class: &'a Class,
        id: Option<&str>,
        event: &'a Event,
        members: &Members<'_>,
        caller: Option<Caller>,
        idempotency_key: Option<String>,
        deadline: Duration,
    ) -> Result<Self, Vec<InvalidParameter>> {
        let mut unfit = Vec::new();
        let key = match id {
            Some(id) => instance(class, id),
            None => named_after(class, event, caller.as_ref(), idempotency_key.as_deref()),
        };
        let key = keep(key, &mut unfit);
        let given = arguments(event, members).map_err(|errors| unfit.extend(errors)).ok();
        let (Some(key), Some(given)) = (key, given) else { return Err(unfit) };
        Ok(Self { class, event, key, given, caller, idempotency_key, deadline })
    }

    /// The command, in which what is personal is sealed.
    pub(crate) async fn command<E: Entities<Model = Rebel>>(self, api: &Api<E>) -> Result<Command<EventCall>, Problem> {
        let Self { class, event, key, mut given, caller, idempotency_key, deadline } = self;
        let mut sealed = Vec::new();
        if event.params().iter().any(|parameter| matches!(parameter.ty(), Type::Personal(_))) {
            // Who may not make it happen makes no keys either.
            outcome::admit(class, &key, event, caller.as_ref())?;
            sealed = Box::pin(personal::seal(api, (class, &key), event, &mut given)).await?;
        }
        let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
        let call = event.call(given).map_err(|errors| {
            let unfit = |error: &enact_rebel::ArgumentError| InvalidParameter {
                name: "body".to_owned(),
                problem: error.to_string(),
            };
            Problem::invalid(errors.iter().map(unfit).collect())
        })?;
        let call = call.with_caller(caller);
        let idempotency = idempotency_key.map(|name| Idempotency {
            fingerprint: fingerprint(&key, &call, &names, &sealed),
            principal: call.caller().map(|caller| caller.id().to_string()),
            key: name,
        });
        Ok(Command { key, event: call, then: Vec::new(), idempotency, deadline })
    }
}

pub(crate) fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn done(receipt: Receipt, key: &EntityKey) -> Response {
    let Told { committed, replayed } = Told::of(receipt, key);
    let mut response = Json(committed).into_response();
    if replayed {
        response.headers_mut().insert(envelope::IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

pub(crate) fn undecodable() -> Problem {
    let problem = "the path is not UTF-8 after percent-decoding".to_owned();
    Problem::invalid(vec![InvalidParameter { name: "id".to_owned(), problem }])
}

pub(crate) fn exposed<'a>(class: &'a Class, name: &str) -> Result<&'a Event, Problem> {
    let is_exposed = |event: &&Event| !event.is_internal();
    class.event(name).filter(is_exposed).ok_or_else(|| {
        let events = class.events().iter().filter(is_exposed).map(|event| format!("`{}`", event.name()));
        let events = events.collect::<Vec<_>>().join(", ");
        let detail = format!("{} has no event `{name}`; it has {events}", class.name());
        Problem::new(ProblemKind::NoSuchEvent, detail)
    })
}

fn keep<T>(result: Result<T, InvalidParameter>, unfit: &mut Vec<InvalidParameter>) -> Option<T> {
    result.map_err(|error| unfit.push(error)).ok()
}

/// The arguments of `event` in `members`, or everything that is wrong with them.
fn arguments<'a>(event: &'a Event, members: &Members<'_>) -> Result<Vec<(&'a str, Value)>, Vec<InvalidParameter>> {
    let mut unfit = Vec::new();
    let mut given = Vec::with_capacity(event.params().len());
    for parameter in event.params() {
        let name = &**parameter.name();
        let read = match members.get(name) {
            Some(json) => value::from_json(parameter.ty(), json),
            None if parameter.default().is_some() => continue,
            None if value::is_optional(parameter.ty()) => Ok(Value::None),
            None => Err(format!("missing; it is of type {}", parameter.ty())),
        };
        match read {
            Ok(value) => given.push((name, value)),
            Err(problem) => unfit.push(InvalidParameter { name: name.to_owned(), problem }),
        }
    }
    let is_known = |name: &str| event.params().iter().any(|parameter| **parameter.name() == *name);
    unfit.extend(members.keys().filter(|name| !is_known(name)).map(|name| InvalidParameter {
        name: name.to_string(),
        problem: format!("{} has no such parameter", event.name()),
    }));
    if unfit.is_empty() { Ok(given) } else { Err(unfit) }
}

/// A digest of all that makes the request what it is: caller, instance, event, and each parameter with its value in
/// canonical form, each part with its length, so that no two requests read the same. The order and the spelling of the
/// body do not count: `5` and `"5"` are one Integer. Nor do the roles of the caller, and defaults of parameters that are not among
/// those that were sent (`given`): a request that is sent again gets its one answer, also under a contract with another default. Of what
/// is `sealed`, what tells it counts: without the key of its subject, nobody finds the value by trying.
fn fingerprint(key: &EntityKey, call: &EventCall, given: &[&str], sealed: &[(&str, [u8; 32])]) -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    };
    if let Some(caller) = call.caller() {
        add(b"caller");
        add(caller.id().as_bytes());
    }
    add(b"POST");
    add(key.class().as_bytes());
    add(key.id().as_bytes());
    add(call.event().as_bytes());
    for (name, value) in call.arguments().iter().filter(|(name, _)| given.contains(&&***name)) {
        add(name.as_bytes());
        match sealed.iter().find(|(sealed, _)| **sealed == **name) {
            Some((_, told)) => add(told),
            None => add(value.to_string().as_bytes()),
        }
    }
    digest.finalize().into()
}
