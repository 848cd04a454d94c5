//! The routes, and what all of them share.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use enact_entities::{DiskState, Engine, Rebel};
use enact_journal::{EntityKey, Journal};
use enact_rebel::Class;
use serde::Serialize;
use utoipa::ToSchema;

use crate::host::{HostName, Hosts};
use crate::limits::{Admitted, Peer};
use crate::listener::Exposure;
use crate::openapi::Access;
use crate::problem::{InvalidParameter, Problem, ProblemKind};
use crate::shares::Shares;
use crate::tokens::Tokens;
use crate::{ask, command, credentials, limits, metrics, openapi, outcome, read};

/// Most requests in flight at once, unless said otherwise.
pub const IN_FLIGHT_MAX: usize = 1024;

/// How a server presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The address listened on, which requests may name as their host.
    pub listen: IpAddr,
    /// Names that requests may call the server by, besides `localhost`.
    pub hosts: Vec<HostName>,
    /// From where the server may be reached; shown by `/health`.
    pub exposure: Exposure,
    /// By which tokens callers are known. Without any, no request has a caller, whatever its headers say.
    pub tokens: Option<Tokens>,
    /// Most commands and reads in flight at once; further ones are turned away when they have arrived. One client has
    /// at most as many as are left for others.
    pub in_flight_max: usize,
}

impl Options {
    /// A server for this machine only, without tokens and with default limits.
    #[must_use]
    pub fn loopback(listen: IpAddr) -> Self {
        Self { listen, hosts: Vec::new(), exposure: Exposure::Loopback, tokens: None, in_flight_max: IN_FLIGHT_MAX }
    }
}

/// What handlers share.
pub(crate) struct Api<J: Journal> {
    pub(crate) engine: Engine<Rebel, J>,
    in_flight: Arc<Shares>,
    openapi: Bytes,
    exposure: Exposure,
}

/// The answer of `/health`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Health)]
pub(crate) struct Health {
    /// `serving`.
    status: &'static str,
    /// Whether other machines may reach this server without encryption.
    insecure: bool,
}

/// The answer of `/health/ready`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = enact::Readiness)]
pub(crate) struct Readiness {
    /// `ready`.
    status: &'static str,
}

/// The interface of the entities that `engine` runs.
///
/// | route | does |
/// |---|---|
/// | `POST /{Class}/{id}/{Event}` | one event, in a transaction with all that it calls |
/// | `POST /{Class}/{Event}` | the same, for an instance that the event creates and the `Idempotency-Key` names |
/// | `GET /{Class}/{id}` | reads an instance; `?mode=applied`, `certain` (default) or `range`; `?after=<transaction>` |
/// | `GET /{Class}/{id}/{Event}` | asks what a read event returns, with its parameters in the query |
/// | `GET /openapi.json` | this interface, described for programs |
/// | `GET /metrics` | what the engine counts, in the text format of Prometheus; never turned away |
/// | `GET /health` | whether the server serves; never turned away |
/// | `GET /health/ready` | whether its disk takes commands; never turned away |
///
/// Every answer of it is JSON, but for `/metrics`. Nothing a request contains makes it panic.
pub fn router<J: Journal>(engine: Engine<Rebel, J>, options: Options) -> Router {
    let access = if options.tokens.is_some() { Access::ByTokens } else { Access::Anonymous };
    let openapi = Bytes::from(openapi::document(engine.model().spec(), engine.strategies(), access));
    let api =
        Arc::new(Api { engine, in_flight: Shares::new(options.in_flight_max), openapi, exposure: options.exposure });
    let routes = Router::new()
        .route("/health", get(health::<J>))
        .route("/health/ready", get(readiness::<J>))
        .route("/metrics", get(metrics::metrics::<J>))
        .route("/openapi.json", get(describe::<J>))
        .route("/{class}/{id}", get(read::read::<J>).post(command::creation::<J>))
        .route("/{class}/{id}/{event}", get(ask::ask::<J>).post(command::command::<J>))
        .fallback(no_such_resource)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(api);
    limits::guard(credentials::guard(routes, options.tokens), Hosts::new(options.listen, options.hosts))
}

impl<J: Journal> Api<J> {
    /// Admits a request of `peer` that has arrived whole.
    pub(crate) fn admit(&self, peer: &Peer) -> Result<Admitted, Problem> {
        peer.admit(&self.in_flight)
    }

    pub(crate) fn class(&self, name: &str) -> Result<&Arc<Class>, Problem> {
        let spec = self.engine.model().spec();
        spec.class(name).ok_or_else(|| {
            let classes = spec.classes().map(|class| format!("`{}`", class.name())).collect::<Vec<_>>().join(", ");
            Problem::new(ProblemKind::NoSuchClass, format!("there is no class `{name}`; there are {classes}"))
        })
    }
}

/// The key of the instance `id`, in the one spelling of its identity.
pub(crate) fn instance(class: &Class, id: &str) -> Result<EntityKey, InvalidParameter> {
    let unfit = |problem: String| InvalidParameter { name: "id".to_owned(), problem };
    // The alphabet first: it bounds what the parsers of identities see.
    EntityKey::new(class.name(), id).map_err(|error| unfit(error.to_string()))?;
    let key = class.key(id).map_err(|error| unfit(error.to_string()))?;
    EntityKey::new(class.name(), &key.to_string()).map_err(|error| unfit(error.to_string()))
}

async fn health<J: Journal>(State(api): State<Arc<Api<J>>>) -> Result<Json<Health>, Problem> {
    match api.engine.failure() {
        None => Ok(Json(Health { status: "serving", insecure: api.exposure == Exposure::Insecure })),
        Some(_) => Err(outcome::engine_failed()),
    }
}

async fn readiness<J: Journal>(State(api): State<Arc<Api<J>>>) -> Result<Json<Readiness>, Problem> {
    match api.engine.disk() {
        DiskState::Ready => Ok(Json(Readiness { status: "ready" })),
        state => Err(outcome::not_ready(&state)),
    }
}

async fn describe<J: Journal>(State(api): State<Arc<Api<J>>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], api.openapi.clone()).into_response()
}

async fn no_such_resource(uri: Uri) -> Problem {
    let detail = format!("nothing is at `{}`; /openapi.json lists what there is", uri.path());
    Problem::new(ProblemKind::NoSuchResource, detail)
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    // Three parts are an event, fewer are read.
    let allowed = if uri.path().matches('/').count() == 3 { "POST" } else { "GET, HEAD" };
    only_allowed(allowed, &method, &uri)
}

/// The problem of a method that a resource does not know.
pub(crate) fn only_allowed(allowed: &'static str, method: &Method, uri: &Uri) -> Problem {
    let detail = format!("`{}` takes {allowed}, not {method}", uri.path());
    Problem::new(ProblemKind::MethodNotAllowed, detail).with_header(header::ALLOW, HeaderValue::from_static(allowed))
}
