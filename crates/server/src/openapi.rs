//! The interface as an `OpenAPI` document: one path per event, generated from the specification.
//!
//! The schemas of answers are those of the Rust types that are serialised, except for the fields of an instance, which
//! the specification declares. Every status that an operation answers with is listed with the problem it carries.
//! Components of ours are called `enact.…`, those of a class `Account`, `Account.range` and `Account.Withdraw`; names of
//! the language have no dots, so they cannot meet.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::HeaderName;
use enact_entities::Strategies;
use enact_projection::is_ordered;
use enact_rebel::{Class, Event, Name, Param, Spec, Type};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, Paths, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, ComponentsBuilder, ObjectBuilder, OneOfBuilder, SchemaFormat,
    Type as JsonType,
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, HttpMethod, InfoBuilder, OpenApiBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
};

use crate::api::{Health, Readiness, is_observed};
use crate::ask::Answered;
use crate::atomic::{ATOMIC_COMMANDS_MAX, AtomicBatch};
use crate::batch::{BATCH_COMMANDS_MAX, Batch};
use crate::command::{Committed, creates, is_named_by_key};
use crate::envelope::{
    DEADLINE_DEFAULT, DEADLINE_MAX, DEADLINE_MS, IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_BYTES_MAX, IDEMPOTENCY_REPLAYED,
};
use crate::metrics::TEXT;
use crate::personal::Erased;
use crate::problem::{PROBLEM_JSON, ProblemBody};
use crate::rates::Rate;
use crate::readers::{self, Readers};
use crate::schema::{ID_PATTERN, given, taken, text_forms, with_default};
use crate::value::{is_optional, to_json};
use crate::{changes, history, query as queries};

const JSON: &str = "application/json";

/// Whether callers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No request has a caller.
    Anonymous,
    /// A request may prove its caller by a token.
    ByTokens,
    /// A request must prove its caller, which may be one that is refused.
    ByReaders,
}

impl Access {
    /// How what is below `/name` is read.
    fn to(self, name: &str, readers: &Readers) -> Self {
        if readers.demand(name).is_some() { Self::ByReaders } else { self }
    }
}

/// What a client proves by the certificate of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificates {
    /// Nothing: it needs none.
    None,
    /// That it may ask.
    Demanded,
    /// That it may ask, and perhaps who it is.
    OfCallers,
}

/// The document, as JSON.
pub(crate) fn document(
    spec: &Spec,
    strategies: &Strategies,
    (access, certificates): (Access, Certificates),
    readers: &Readers,
    rate: Option<Rate>,
) -> String {
    // Of changes, those of the other classes are left out.
    let is_readable = |class: &Arc<Class>| readers.demand(class.name()).is_none();
    let following = if spec.classes().any(is_readable) { access } else { Access::ByReaders };
    let (metering, describing) = (access.to(readers::METRICS, readers), access.to(readers::DESCRIPTION, readers));
    let mut paths = PathsBuilder::new()
        .path("/health", PathItem::new(HttpMethod::Get, health()))
        .path("/health/ready", PathItem::new(HttpMethod::Get, readiness()))
        .path("/metrics", PathItem::new(HttpMethod::Get, metrics(metering)))
        .path("/-/batch", PathItem::new(HttpMethod::Post, batch(access)))
        .path("/-/changes", PathItem::new(HttpMethod::Get, changes(spec, following)))
        .path("/openapi.json", PathItem::new(HttpMethod::Get, description(describing)));
    let mut components = ComponentsBuilder::new();
    let mut own = Vec::new();
    describe::<ProblemBody>(&mut own);
    describe::<Committed>(&mut own);
    describe::<Batch>(&mut own);
    describe::<AtomicBatch>(&mut own);
    describe::<Answered>(&mut own);
    describe::<changes::Page<'_>>(&mut own);
    describe::<history::Page<'_>>(&mut own);
    describe::<history::Past<'_>>(&mut own);
    let subjects = subjects(spec);
    if !subjects.is_empty() {
        describe::<Erased>(&mut own);
    }
    describe::<Health>(&mut own);
    describe::<Readiness>(&mut own);
    for (name, schema) in own.into_iter().chain(text_forms()) {
        components = components.schema(name, schema);
    }
    for class in spec.classes() {
        let name = class.name();
        let reading = access.to(name, readers);
        components = components.schema(&**name, instance(class)).schema(format!("{name}.range"), range(class));
        paths = paths.path(format!("/{name}/{{id}}"), PathItem::new(HttpMethod::Get, read(class, reading)));
        paths = paths.path(format!("/{name}"), PathItem::new(HttpMethod::Get, query(class, reading)));
        let path = format!("/{name}/{{id}}/-/history");
        paths = paths.path(path, PathItem::new(HttpMethod::Get, history(class, reading)));
        if subjects.contains(name) {
            let path = format!("/{name}/{{id}}/-/erase");
            paths = paths.path(path, PathItem::new(HttpMethod::Post, erasure(class, access)));
        }
        for event in class.events().iter().filter(|event| event.is_read()) {
            let path = format!("/{name}/{{id}}/{}", event.name());
            let asking = if event.roles().is_empty() { reading } else { access };
            paths = paths.path(path, PathItem::new(HttpMethod::Get, question(class, event, asking)));
        }
        for event in class.events().iter().filter(|event| !event.is_internal() && !event.is_read()) {
            components = components.schema(format!("{name}.{}", event.name()), parameters(event));
            let path = format!("/{name}/{{id}}/{}", event.name());
            paths = paths.path(path, PathItem::new(HttpMethod::Post, command(class, event, Addressed::ById, access)));
            if is_named_by_key(class) && creates(class, event) {
                let path = format!("/{name}/{}", event.name());
                paths =
                    paths.path(path, PathItem::new(HttpMethod::Post, command(class, event, Addressed::ByKey, access)));
            }
        }
    }
    if access != Access::Anonymous {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(TOKENS)).build();
        components = components.security_scheme(BEARER, SecurityScheme::Http(scheme));
    }
    if certificates != Certificates::None {
        let description = Some(CERTIFICATES.to_owned());
        let scheme = SecurityScheme::MutualTls { description, deprecated: None, extensions: None };
        components = components.security_scheme(MUTUAL_TLS, scheme);
    }
    let introduction = format!("{INTRODUCTION} {}", isolation(spec, strategies));
    let info = InfoBuilder::new().title("Enact").version(env!("CARGO_PKG_VERSION")).description(Some(introduction));
    let mut paths = paths.build();
    if rate.is_some() {
        limit(&mut paths);
    }
    if certificates != Certificates::None {
        demand_certificates(&mut paths, certificates);
    }
    let document = OpenApiBuilder::new().info(info).paths(paths).components(Some(components.build())).build();
    document.to_json().expect("a document of strings and numbers serialises")
}

/// The names of the security schemes.
const BEARER: &str = "bearer";
const MUTUAL_TLS: &str = "mutualTLS";

const TOKENS: &str = "\
A token that the operator of the server gave out, or that the issuer that the server trusts has signed. It stands for a caller with \
roles. Without a token, the certificate of the connection may stand for one; otherwise there is no caller, and no role.";

const CERTIFICATES: &str = "\
A certificate of an authority that the operator of the server names; the server answers no connection without one. The operator may let it \
stand for a caller with roles; a request with an `Authorization` is of the caller that this proves, and of no other.";

const INTRODUCTION: &str = "\
Entities declared by their life cycle, preconditions and effects. A `POST` makes an event happen, in one transaction with \
all that it calls, or refuses it without any effect; a `200` is durable. Give commands an `Idempotency-Key` to be able \
to send them again.";

/// What a client may rely on where transactions meet.
fn isolation(spec: &Spec, strategies: &Strategies) -> String {
    let names = spec.classes().map(|class| &**class.name());
    let weak = names.filter(|name| !strategies.of(name).is_serializable()).map(|name| format!("`{name}`"));
    let weak = weak.collect::<Vec<_>>().join(", ");
    if weak.is_empty() {
        return "Transactions are strictly serializable.".to_owned();
    }
    format!(
        "A transaction that touches objects of {weak} is atomic and not serializable: two of them may disagree about the order \
         of two transactions (`psac`). A transaction has the weakest guarantee of the classes it touches; one that touches only \
         others is strictly serializable."
    )
}

/// Adds the schema of `T` and of all that it refers to.
fn describe<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

fn reference(name: impl Into<String>) -> RefOr<Schema> {
    Ref::from_schema_name(name).into()
}

/// How a command names its instance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Addressed {
    /// `POST /{Class}/{id}/{Event}`
    ById,
    /// `POST /{Class}/{Event}`, by its idempotency key.
    ByKey,
}

fn command(class: &Class, event: &Event, addressed: Addressed, access: Access) -> Operation {
    let (class, name) = (class.name(), event.name());
    let (operation_id, summary, parameters) = match addressed {
        Addressed::ById => {
            let summary = format!("Make {name} happen to an instance of {class}");
            (format!("{class}.{name}"), summary, vec![id(), idempotency_key(Required::False)])
        }
        Addressed::ByKey => {
            let summary = format!("Create an instance of {class} by {name}; its id follows from the Idempotency-Key");
            (format!("{class}.{name}.new"), summary, vec![idempotency_key(Required::True)])
        }
    };
    let replayed = HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(JsonType::String).enum_values(Some(["true"]))))
        .description(Some("Present if this is the answer to an earlier request with the same key"))
        .build();
    let body = ContentBuilder::new().schema(Some(reference(format!("{class}.{name}")))).build();
    let committed = ContentBuilder::new().schema(Some(answer(event))).build();
    let done = ResponseBuilder::new()
        .description("The event happened; this is durable")
        .content(JSON, committed)
        .header(IDEMPOTENCY_REPLAYED.as_str(), replayed)
        .build();
    let operation = OperationBuilder::new()
        .operation_id(Some(operation_id))
        .tag(&**class)
        .summary(Some(summary))
        .description(described(event))
        .parameters(Some(parameters))
        .parameter(deadline())
        .request_body(Some(RequestBodyBuilder::new().required(Some(Required::True)).content(JSON, body).build()))
        .response("200", done)
        .response("404", problem("The instance was never created"))
        .response("409", problem("Refused by a precondition, an invariant or the life cycle, or the key is in use"))
        .response("413", problem("The body is too large"))
        .response("415", problem("The body is not declared as JSON"))
        .response("422", problem("The body is malformed, id, parameters or headers are not as declared, or the key belongs to another request"))
        .response("504", problem("The deadline passed before anything was recorded, or it is not known yet whether the event happened"))
        .response("507", problem("The disk is full; nothing was done"));
    everywhere(with_forbidden(operation, event, access), access).build()
}

/// `GET /{Class}/{id}/{Event}`
fn question(class: &Class, event: &Event, access: Access) -> Operation {
    let (class, name) = (class.name(), event.name());
    let parameters = event.params().iter().map(|parameter| {
        // What is no text of its own is written in the form of the language.
        let is_compound =
            matches!(parameter.ty(), Type::Set(_) | Type::List(_) | Type::Map(_) | Type::Record(_) | Type::Optional(_));
        let text = || ObjectBuilder::new().schema_type(JsonType::String).into();
        let schema = if is_compound { text() } else { given(parameter.ty()) };
        let is_optional = matches!(parameter.ty(), Type::Optional(_)) || parameter.default().is_some();
        let schema = match parameter.default() {
            Some(default) if is_compound => with_default(schema, json!(default.to_string())),
            Some(default) => with_default(schema, to_json(default)),
            None => schema,
        };
        let required = if is_optional { Required::False } else { Required::True };
        let parameter = ParameterBuilder::new().name(&**parameter.name()).parameter_in(ParameterIn::Query);
        parameter.required(required).schema(Some(schema)).build()
    });
    let schema = returning(event, reference(Answered::name()));
    let found = ResponseBuilder::new()
        .description("What the event returns")
        .content(JSON, ContentBuilder::new().schema(Some(schema)).build())
        .build();
    let operation = OperationBuilder::new()
        .operation_id(Some(format!("{class}.{name}")))
        .tag(&**class)
        .summary(Some(format!("Ask an instance of {class} for {name}")))
        .description(described(event))
        .parameter(id())
        .parameters(Some(parameters.collect::<Vec<_>>()))
        .parameter(deadline())
        .response("200", found)
        .response("404", problem("The instance was never created"))
        .response("409", problem("Refused by a precondition or the life cycle"))
        .response("422", problem("Id, query or headers are not as declared"))
        .response("504", problem("The deadline passed while the read waited"));
    everywhere(with_forbidden(operation, event, access), access).build()
}

/// An operation that may be forbidden to its caller.
fn with_forbidden(operation: OperationBuilder, event: &Event, access: Access) -> OperationBuilder {
    // What it calls may demand a role too.
    match access {
        Access::Anonymous if !event.needs_caller() => operation,
        _ => operation.response("403", problem("The caller has none of the roles that the event demands")),
    }
}

/// `GET /{Class}`
fn query(class: &Class, access: Access) -> Operation {
    let name = class.name();
    let text = || ObjectBuilder::new().schema_type(JsonType::String);
    let parameter = |name: String, description: &str, schema: RefOr<Schema>| {
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
        parameter.description(Some(description)).schema(Some(schema)).build()
    };
    let state = parameter("state".to_owned(), "The state that they are in", state_name(class).into());
    let identity = class.identity().iter().map(|field| (field, true));
    let is_asked_for = |field: &&enact_rebel::Field| !matches!(field.ty(), Type::Personal(_));
    let fields =
        identity.chain(class.fields().iter().filter(is_asked_for).map(|field| (field.name(), is_ordered(field.ty()))));
    let conditions = fields.flat_map(|(field, is_ordered)| {
        let is = parameter(field.to_string(), "The value that they have, in the form of the language", text().into());
        let compared = [("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")];
        let compared = compared.into_iter().filter(move |_| is_ordered).map(move |(test, words)| {
            parameter(format!("{field}.{test}"), &format!("They have {words} this value"), text().into())
        });
        std::iter::once(is).chain(compared)
    });
    let after =
        parameter("after".to_owned(), "The `next` of the page before", text().pattern(Some("^([0-9a-f]{2})*$")).into());
    let bounds = ObjectBuilder::new().schema_type(JsonType::Integer).minimum(Some(1)).maximum(Some(queries::PAGE_MAX));
    let limit =
        parameter("limit".to_owned(), "Instances at most", bounds.default(Some(json!(queries::PAGE_DEFAULT))).into());
    let page = closed()
        .property("class", text().enum_values(Some([&**name])))
        .required("class")
        .property("instances", ArrayBuilder::new().items(reference(&**name)))
        .required("instances")
        .property("next", text().description(Some("The `after` of the next page, if there may be one")));
    let found = ResponseBuilder::new()
        .description("A page of those of which all conditions hold")
        .content(JSON, ContentBuilder::new().schema(Some(page)).build())
        .build();
    let operation = OperationBuilder::new()
        .operation_id(Some(format!("{name}.find")))
        .tag(&**name)
        .summary(Some(format!("Find instances of {name}")))
        .parameter(state)
        .parameters(Some(conditions.collect::<Vec<_>>()))
        .parameter(after)
        .parameter(limit)
        .parameter(deadline())
        .response("200", found)
        .response("422", problem("Query or headers are not as declared"))
        .response("504", problem("The deadline passed while changes were taken up"));
    everywhere(operation, access).build()
}

/// `GET /{Class}/{id}`
fn read(class: &Class, access: Access) -> Operation {
    let name = class.name();
    let mode = ParameterBuilder::new()
        .name("mode")
        .parameter_in(ParameterIn::Query)
        .description(Some(
            "`applied` waits only for what is due and may lag behind; `certain` waits until the instance is the same \
             whatever becomes of open transactions; `range` shows all that it may become",
        ))
        .schema(Some(
            ObjectBuilder::new()
                .schema_type(JsonType::String)
                .enum_values(Some(["applied", "certain", "range"]))
                .default(Some(json!("certain"))),
        ));
    let after = ParameterBuilder::new()
        .name("after")
        .parameter_in(ParameterIn::Query)
        .description(Some("A transaction whose effect the answer must include"))
        .schema(Some(
            ObjectBuilder::new().schema_type(JsonType::String).format(Some(SchemaFormat::Custom("uuid".to_owned()))),
        ));
    let at = ParameterBuilder::new()
        .name("at")
        .parameter_in(ParameterIn::Query)
        .description(Some("A time that is over: what the instance was then, as far as that is decided"))
        .schema(Some(given(&Type::Timestamp)));
    let either = OneOfBuilder::new()
        .item(reference(&**name))
        .item(reference(format!("{name}.range")))
        .item(reference(history::Past::name()));
    let found = ResponseBuilder::new()
        .description("The instance, with `mode=range` all that it may be, or with `at` what it was")
        .content(JSON, ContentBuilder::new().schema(Some(either)).build())
        .build();
    let operation = OperationBuilder::new()
        .operation_id(Some(format!("{name}.read")))
        .tag(&**name)
        .summary(Some(format!("Read an instance of {name}")))
        .description(words(class.documentation()))
        .parameter(id())
        .parameter(mode)
        .parameter(after)
        .parameter(at)
        .parameter(deadline())
        .response("200", found)
        .response("404", problem("The instance was never created, or not by then"))
        .response("410", problem("What the instance was then was discarded"))
        .response("422", problem("Id, query or headers are not as declared"))
        .response("504", problem("The deadline passed while the read waited"));
    everywhere(operation, access).build()
}

/// `GET /{Class}/{id}/-/history`
fn history(class: &Class, access: Access) -> Operation {
    let name = class.name();
    let number = |name: &str, description: &str, schema: ObjectBuilder| {
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
        parameter.description(Some(description)).schema(Some(schema.schema_type(JsonType::Integer))).build()
    };
    let after = number("after", "The `next` of the page before", ObjectBuilder::new().minimum(Some(0)));
    let bounds = ObjectBuilder::new().minimum(Some(1)).maximum(Some(history::PAGE_MAX));
    let limit = number("limit", "Transactions at most", bounds.default(Some(json!(history::PAGE_DEFAULT))));
    let content = ContentBuilder::new().schema(Some(reference(history::Page::name()))).build();
    let found = ResponseBuilder::new().description("A page of the history").content(JSON, content).build();
    let operation = OperationBuilder::new()
        .operation_id(Some(format!("{name}.history")))
        .tag(&**name)
        .summary(Some(format!("Read what has happened to an instance of {name}")))
        .parameter(id())
        .parameter(after)
        .parameter(limit)
        .parameter(deadline())
        .response("200", found)
        .response("404", problem("The instance was never created"))
        .response("422", problem("Id, query or headers are not as declared"))
        .response("504", problem("The deadline passed before all was read"));
    everywhere(operation, access).build()
}

/// The classes whose instances are subjects of personal values.
fn subjects(spec: &Spec) -> BTreeSet<Name> {
    let mut subjects = BTreeSet::new();
    for class in spec.classes() {
        for event in class.events() {
            let is_personal = |parameter: &&Param| matches!(parameter.ty(), Type::Personal(_));
            subjects.extend(event.params().iter().filter(is_personal).filter_map(|parameter| {
                let Some(subject) = parameter.subject() else { return Some(Arc::clone(class.name())) };
                match event.params().iter().find(|other| other.name() == subject)?.ty() {
                    Type::Reference { class, .. } => Some(Arc::clone(class)),
                    _ => None,
                }
            }));
        }
    }
    subjects
}

/// `POST /{Class}/{id}/-/erase`
fn erasure(class: &Class, access: Access) -> Operation {
    let name = class.name();
    let content = ContentBuilder::new().schema(Some(reference(Erased::name()))).build();
    let nothing = ContentBuilder::new().schema(Some(closed())).build();
    let erased = ResponseBuilder::new().description("They are erased, or were before").content(JSON, content).build();
    let operation = OperationBuilder::new()
        .operation_id(Some(format!("{name}.erase")))
        .tag(&**name)
        .summary(Some(format!("Erase the personal values of an instance of {name}, wherever they are")))
        .request_body(Some(RequestBodyBuilder::new().required(Some(Required::True)).content(JSON, nothing).build()))
        .parameter(id())
        .parameter(deadline())
        .response("200", erased)
        .response("404", problem("No personal value of the instance was ever stored"))
        .response("422", problem("Id or headers are not as declared"))
        .response("504", problem("It is not known yet whether they are erased"));
    everywhere(operation, access).build()
}

/// `GET /-/changes`
fn changes(spec: &Spec, access: Access) -> Operation {
    let query = |name: &str, description: &str, schema: RefOr<Schema>| {
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
        parameter.description(Some(description)).schema(Some(schema)).build()
    };
    let text = || ObjectBuilder::new().schema_type(JsonType::String);
    let after = query("after", "A `cursor`, or the `next` of the page before", text().into());
    let bounds = ObjectBuilder::new().schema_type(JsonType::Integer).minimum(Some(1)).maximum(Some(changes::PAGE_MAX));
    let bounds = bounds.default(Some(json!(changes::PAGE_DEFAULT)));
    let limit = query("limit", "About how many changes, at least one of each shard", bounds.into());
    let names = text().enum_values(Some(spec.classes().map(|class| class.name().to_string())));
    let class = query("class", "Changes of these classes only", ArrayBuilder::new().items(names.build()).into());
    let page = ContentBuilder::new().schema(Some(reference(changes::Page::name()))).build();
    let stream = ContentBuilder::new().schema(Some(text())).build();
    let found = ResponseBuilder::new()
        .description("A page of changes, or a stream of all that follow for a client that accepts `text/event-stream`")
        .content(JSON, page)
        .content("text/event-stream", stream)
        .build();
    let operation = OperationBuilder::new()
        .operation_id(Some("changes"))
        .summary(Some("Follow what changes in all instances"))
        .parameter(after)
        .parameter(limit)
        .parameter(class)
        .parameter(deadline())
        .response("200", found)
        .response("422", problem("Query or headers are not as declared, or the journal ends before the cursor"))
        .response("504", problem("The deadline passed before all was read"));
    everywhere(operation, access).build()
}

/// `POST /-/batch`
fn batch(access: Access) -> Operation {
    let text = || ObjectBuilder::new().schema_type(JsonType::String);
    let key = |of: &str| {
        let key = text().pattern(Some("^[!-~]+$")).min_length(Some(1)).max_length(Some(IDEMPOTENCY_KEY_BYTES_MAX));
        key.description(Some(of))
    };
    let command = closed()
        .property("class", text())
        .required("class")
        .property("id", text().description(Some("May be missing where the key may name the instance")))
        .property("event", text())
        .required("event")
        .property("arguments", ObjectBuilder::new().description(Some("The body of a command of its own")))
        .property("idempotency_key", key("As the `Idempotency-Key` of a command of its own"));
    let commands = ArrayBuilder::new().items(command).max_items(Some(BATCH_COMMANDS_MAX));
    let commands = commands.description(Some(format!("At most {ATOMIC_COMMANDS_MAX} of one transaction")));
    let atomic = ObjectBuilder::new().schema_type(JsonType::Boolean).default(Some(json!(false)));
    let atomic =
        atomic.description(Some("Whether all commands happen in their order, as one transaction, or none of them"));
    let schema = closed().property("commands", commands).required("commands").property("atomic", atomic);
    let schema = schema.property("idempotency_key", key("As the `Idempotency-Key` of the one transaction"));
    let body = ContentBuilder::new().schema(Some(schema)).build();
    let answers = OneOfBuilder::new().item(reference(Batch::name())).item(reference(AtomicBatch::name()));
    let content = ContentBuilder::new().schema(Some(answers)).build();
    let done = "The answer to each command, in their order; or that to the one transaction";
    let done = ResponseBuilder::new().description(done).content(JSON, content);
    let summary = "Make many events happen, each in a transaction of its own, or all in one";
    let operation = OperationBuilder::new()
        .operation_id(Some("batch"))
        .summary(Some(summary))
        .parameter(deadline())
        .request_body(Some(RequestBodyBuilder::new().required(Some(Required::True)).content(JSON, body).build()))
        .response("200", done.build())
        .response("413", problem("The body is too large"))
        .response("415", problem("The body is not declared as JSON"))
        .response("409", problem("The one transaction was refused"))
        .response("422", problem("The body is malformed; no command was looked at"));
    everywhere(operation, access).build()
}

fn health() -> Operation {
    let content = ContentBuilder::new().schema(Some(reference(Health::name()))).build();
    let found = ResponseBuilder::new().description("The server serves").content(JSON, content).build();
    let operation = OperationBuilder::new().operation_id(Some("health")).summary(Some("Ask whether the server serves"));
    operation.response("200", found).response("default", problem("The request is not taken")).build()
}

fn readiness() -> Operation {
    let content = ContentBuilder::new().schema(Some(reference(Readiness::name()))).build();
    let found = ResponseBuilder::new().description("The disk takes commands").content(JSON, content).build();
    let operation = OperationBuilder::new()
        .operation_id(Some("readiness"))
        .summary(Some("Ask whether the disk of the server takes commands"))
        .response("200", found)
        .response("503", problem("The disk is full, slow or unsafe, or the server has failed; `disk` says which"));
    operation.response("default", problem("The request is not taken")).build()
}

fn metrics(access: Access) -> Operation {
    let text = ObjectBuilder::new().schema_type(JsonType::String);
    let content = ContentBuilder::new().schema(Some(text)).build();
    let found =
        ResponseBuilder::new().description("All counts, in the text format of Prometheus").content(TEXT, content);
    let operation = OperationBuilder::new()
        .operation_id(Some("metrics"))
        .summary(Some("Ask what the engine and its interface count"));
    everywhere(operation.response("200", found.build()), access).build()
}

fn description(access: Access) -> Operation {
    let content = ContentBuilder::new().schema(Some(ObjectBuilder::new())).build();
    let found = ResponseBuilder::new().description("This document").content(JSON, content).build();
    let operation = OperationBuilder::new().operation_id(Some("openapi")).summary(Some("Describe this interface"));
    everywhere(operation.response("200", found), access).build()
}

/// What any operation may answer, because it is decided before the operation is known.
fn everywhere(operation: OperationBuilder, access: Access) -> OperationBuilder {
    let operation = match access {
        Access::Anonymous => operation,
        Access::ByTokens => with_tokens(operation, &[SecurityRequirement::default(), by_token()]),
        Access::ByReaders => with_tokens(operation, &[by_token()]).response(
            "403",
            problem("The caller has none of the roles that the operator demands of readers, or that the event demands"),
        ),
    };
    let busy =
        retried("Overloaded or stopping, on its way to another node, or the disk cannot be read; nothing was done");
    operation.response("503", busy).response("default", problem("The request is not taken"))
}

fn by_token() -> SecurityRequirement {
    SecurityRequirement::new(BEARER, [""; 0])
}

/// An operation that takes a token, in one of these ways.
fn with_tokens(operation: OperationBuilder, securities: &[SecurityRequirement]) -> OperationBuilder {
    let challenge = HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(JsonType::String)))
        .description(Some("The scheme that the server takes"))
        .build();
    let mut unproved = problem(
        "The Authorization header is malformed or missing, or its token is none of this server, or not valid any more",
    );
    unproved.headers.insert("www-authenticate".to_owned(), RefOr::T(challenge));
    operation.securities(Some(securities.iter().cloned())).response("401", unproved)
}

/// Every operation that counts may be refused.
fn limit(paths: &mut Paths) {
    let counting = paths.paths.iter_mut().filter(|(path, _)| !is_observed(path));
    let operations = counting.flat_map(|(_, item)| [&mut item.get, &mut item.post]).flatten();
    for operation in operations {
        let refused =
            retried("The caller, or the client without one, sends more requests than it may; nothing was done");
        operation.responses.responses.insert("429".to_owned(), RefOr::T(refused));
    }
}

/// Every operation needs a certificate, whatever else proves its caller; one of a caller needs nothing else.
fn demand_certificates(paths: &mut Paths, certificates: Certificates) {
    let certificate = || SecurityRequirement::new(MUTUAL_TLS, [""; 0]);
    let items = paths.paths.values_mut();
    for operation in items.flat_map(|item| [&mut item.get, &mut item.post]).flatten() {
        let others = operation.security.take().unwrap_or_else(|| vec![SecurityRequirement::default()]);
        let mut ways: Vec<_> = others.into_iter().map(|other| other.add(MUTUAL_TLS, [""; 0])).collect();
        if certificates == Certificates::OfCallers && !ways.contains(&certificate()) {
            ways.insert(0, certificate());
        }
        operation.security = Some(ways);
    }
}

/// A problem that says when to try again.
fn retried(description: &str) -> Response {
    let retry_after = HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(JsonType::Integer)))
        .description(Some("Seconds after which to try again"))
        .build();
    let mut problem = problem(description);
    problem.headers.insert("retry-after".to_owned(), RefOr::T(retry_after));
    problem
}

fn problem(description: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(reference(ProblemBody::name()))).build();
    ResponseBuilder::new().description(description).content(PROBLEM_JSON, content).build()
}

fn id() -> Parameter {
    ParameterBuilder::new()
        .name("id")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(ObjectBuilder::new().schema_type(JsonType::String).pattern(Some(ID_PATTERN))))
        .build()
}

fn idempotency_key(required: Required) -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(JsonType::String)
        .pattern(Some("^[!-~]+$"))
        .min_length(Some(1))
        .max_length(Some(IDEMPOTENCY_KEY_BYTES_MAX));
    let description = "Names the command, so that sending it again to the same instance gets its one answer and no second \
                       effect, as long as the server keeps answers (a day by default)";
    in_header(&IDEMPOTENCY_KEY, required, description, schema)
}

fn deadline() -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(JsonType::Integer)
        .minimum(Some(0))
        .default(Some(json!(u64::try_from(DEADLINE_DEFAULT.as_millis()).expect("seconds"))));
    let description = format!("Milliseconds to wait at most; more than {} count as that", DEADLINE_MAX.as_millis());
    in_header(&DEADLINE_MS, Required::False, &description, schema)
}

fn in_header(name: &HeaderName, required: Required, description: &str, schema: ObjectBuilder) -> Parameter {
    let parameter = ParameterBuilder::new().name(name.as_str()).parameter_in(ParameterIn::Header);
    parameter.required(required).description(Some(description)).schema(Some(schema)).build()
}

fn parameters(event: &Event) -> ObjectBuilder {
    event.params().iter().fold(closed(), |schema, parameter| {
        let (name, ty) = (&**parameter.name(), taken(parameter.ty()));
        match (parameter.default(), parameter.ty()) {
            (Some(default), _) => schema.property(name, with_default(ty, to_json(default))),
            (None, optional) if is_optional(optional) => schema.property(name, ty),
            (None, _) => schema.property(name, ty).required(name),
        }
    })
}

/// The answer to a read with one state.
fn instance(class: &Class) -> ObjectBuilder {
    let fields = class
        .fields()
        .iter()
        .fold(closed(), |schema, field| schema.property(&**field.name(), given(field.ty())).required(&**field.name()));
    let instance = addressed(class)
        .property("state", state_name(class))
        .required("state")
        .property("fields", fields)
        .required("fields");
    let is_personal = |field: &enact_rebel::Field| matches!(field.ty(), Type::Personal(_));
    let hidden = |description: &str| {
        let name = ObjectBuilder::new().schema_type(JsonType::String);
        ArrayBuilder::new().items(name).description(Some(description))
    };
    let instance = match class.fields().iter().any(is_personal) {
        true => instance
            .property("erased", hidden("The personal fields that are null because they were erased"))
            .property("unreadable", hidden("The personal fields that are null because their keys cannot be read")),
        false => instance,
    };
    instance.description(words(class.documentation()))
}

/// The answer to a read of all outcomes.
fn range(class: &Class) -> ObjectBuilder {
    let fields =
        class.fields().iter().fold(closed(), |schema, field| schema.property(&**field.name(), possible(field.ty())));
    addressed(class)
        .property("states", ArrayBuilder::new().items(state_name(class)))
        .required("states")
        .property("fields", fields)
        .required("fields")
        .description(Some("All that the instance may be, depending on transactions that are not decided yet"))
}

/// What a field may be.
fn possible(ty: &Type) -> RefOr<Schema> {
    let optional = |ty: Type| given(&Type::Optional(ty.into()));
    let bounds = || closed().property("low", given(ty)).required("low").property("high", given(ty)).required("high");
    let values = || {
        closed()
            .property("values", optional(Type::List(ty.clone().into())))
            .required("values")
            .description(Some("Every value that it may have; null if it may be anything"))
    };
    let elements = |set: &Type| {
        closed()
            .property("in", given(set))
            .required("in")
            .property("maybe", optional(set.clone()))
            .required("maybe")
            .description(Some("The elements that it has, and those that it may have; null if these may be any"))
    };
    match ty {
        Type::Integer | Type::MoneyOf(_) | Type::Percentage | Type::Date | Type::Timestamp => bounds().into(),
        // In several currencies there is neither a least nor a greatest amount.
        Type::Money => OneOfBuilder::new().item(bounds()).item(values()).into(),
        Type::Set(_) => elements(ty).into(),
        Type::Optional(present) if matches!(**present, Type::Set(_)) => {
            OneOfBuilder::new().item(elements(present)).item(values()).into()
        }
        _ => values().into(),
    }
}

fn addressed(class: &Class) -> ObjectBuilder {
    closed()
        .property(
            "class",
            ObjectBuilder::new().schema_type(JsonType::String).enum_values(Some([json!(**class.name())])),
        )
        .required("class")
        .property("id", ObjectBuilder::new().schema_type(JsonType::String).pattern(Some(ID_PATTERN)))
        .required("id")
}

fn state_name(class: &Class) -> ObjectBuilder {
    let states = class.states().iter().map(|state| json!(**state.name())).collect::<Vec<_>>();
    ObjectBuilder::new().schema_type(JsonType::String).enum_values(Some(states))
}

/// An object without other members.
fn closed() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(JsonType::Object)
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

/// The answer to a command that committed.
fn answer(event: &Event) -> RefOr<Schema> {
    returning(event, reference(Committed::name()))
}

/// `schema`, and the result of the event if it has one.
fn returning(event: &Event, schema: RefOr<Schema>) -> RefOr<Schema> {
    let Some(result) = event.result() else { return schema };
    let result = ObjectBuilder::new().property("result", given(result)).required("result");
    AllOfBuilder::new().item(schema).item(result).into()
}

/// What an event is for, and who may make it happen.
fn described(event: &Event) -> Option<String> {
    let demands = match event.roles() {
        [] if event.needs_caller() => Some("Needs a caller.".to_owned()),
        [] => None,
        roles => {
            let roles: Vec<String> = roles.iter().map(|role| format!("`{role}`")).collect();
            Some(format!("Needs the role {}.", roles.join(" or ")))
        }
    };
    let parts: Vec<String> = words(event.documentation()).map(str::to_owned).into_iter().chain(demands).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

fn words(documentation: &str) -> Option<&str> {
    Some(documentation).filter(|documentation| !documentation.is_empty())
}
