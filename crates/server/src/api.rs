//! The routes, and what all of them share.
//!
//! A request runs in one future from its head to its answer, and its path is read where it stands. A router that is put
//! together at run time would cost a boxed future for each layer and a copy of each part of the path.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Json;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use axum::response::{IntoResponse, Response};
use enact_entities::{DiskState, Entities, Rebel};
use enact_journal::EntityKey;
use enact_projection::Projection;
use enact_rebel::{Caller, Class};
use serde::Serialize;
use tokio::time::Instant;
use tower_service::Service;
use utoipa::ToSchema;

use crate::command::undecodable;
use crate::credentials::{Credentials, Identity};
use crate::host::{HostName, Hosts};
use crate::issuer::Issuer;
use crate::limits::{Admitted, Guard, Peer};
use crate::listener::Exposure;
use crate::metrics::{Endpoint, Requests};
use crate::openapi::{Access, Certificates};
use crate::path::{Part, Place};
use crate::problem::{InvalidParameter, Problem, ProblemKind};
use crate::rates::{Principal, Rate, Rates};
use crate::readers::{self, Readers, RoleDemand};
use crate::shares::{Share, Shares};
use crate::tokens::Tokens;
use crate::traces::JoinTrace;
use crate::{ask, batch, changes, command, history, metrics, openapi, outcome, personal, query, read};

/// Most requests in flight at once, unless said otherwise.
pub const IN_FLIGHT_MAX: usize = 1024;

/// How a server presents itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address listened on, which requests may name as their host.
    pub listen: IpAddr,
    /// Names that requests may call the server by, besides `localhost`.
    pub hosts: Vec<HostName>,
    /// From where the server may be reached; shown by `/health`.
    pub exposure: Exposure,
    /// By which tokens and certificates callers are known. Without any, and without an issuer, no request has a caller, whatever its headers
    /// say.
    pub tokens: Option<Tokens>,
    /// Whether the listener answers clients alone that have a [certificate](crate::TlsFiles::client_authorities), as the description says then.
    pub demands_certificates: bool,
    /// Whose signed tokens are taken, besides those of `tokens`.
    pub issuer: Option<Issuer>,
    /// Who may read.
    pub readers: Readers,
    /// Whose callers may erase personal values. Without it nobody may where callers are known, and everybody where they are not.
    pub erasers: Option<RoleDemand>,
    /// How many requests each caller, and each client without one, may send; as many as there are without a rate. `/health`,
    /// `/health/ready` and `/metrics` do not count.
    pub rate: Option<Rate>,
    /// Most commands and reads in flight at once; further ones are turned away when they have arrived. One client has
    /// at most as many as are left for others.
    pub in_flight_max: usize,
    /// The directory of the file that queries are answered from, which has no name and vanishes with the process; where the system keeps such
    /// files if there is none.
    pub scratch: Option<PathBuf>,
    /// How the span of a request joins the trace that its headers name. Without it, requests have no [spans](enact_entities::REQUEST_SPANS).
    pub traces: Option<JoinTrace>,
}

impl Options {
    /// A server for this machine only, without tokens and with default limits.
    #[must_use]
    pub fn loopback(listen: IpAddr) -> Self {
        Self {
            listen,
            hosts: Vec::new(),
            exposure: Exposure::Loopback,
            tokens: None,
            demands_certificates: false,
            issuer: None,
            readers: Readers::default(),
            erasers: None,
            rate: None,
            in_flight_max: IN_FLIGHT_MAX,
            scratch: None,
            traces: None,
        }
    }
}

/// What handlers share.
pub(crate) struct Api<E: Entities<Model = Rebel>> {
    pub(crate) entities: E,
    in_flight: Arc<Shares>,
    batches: Arc<Shares>,
    followers: Arc<Shares>,
    pub(crate) projection: Projection<E>,
    openapi: Bytes,
    requests: Requests,
    exposure: Exposure,
    guard: Guard,
    pub(crate) credentials: Credentials,
    pub(crate) readers: Arc<Readers>,
    erasers: Option<RoleDemand>,
    rates: Option<Rates>,
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
    /// The name of the node, if it is one of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The shards that the node serves, if it is one of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<Vec<u16>>,
}

/// The interface of the entities of a model.
///
/// | route | does |
/// |---|---|
/// | `POST /{Class}/{id}/{Event}` | one event, in a transaction with all that it calls |
/// | `POST /{Class}/{Event}` | the same, for an instance that the event creates and the `Idempotency-Key` names |
/// | `POST /-/batch` | many commands, each in a transaction of its own |
/// | `GET /-/changes` | what has changed in all instances, as a page or as a stream; `?after=<cursor>`, `?limit=<number>`, `?class=<Class>` |
/// | `GET /{Class}` | finds instances by `?state=<State>`, `?<field>=<value>`, `?<field>.ge=<value>` and the like; `?after=<mark>`, `?limit=<number>` |
/// | `GET /{Class}/{id}` | reads an instance; `?mode=applied`, `certain` (default) or `range`; `?after=<transaction>`; `?at=<time>` |
/// | `GET /{Class}/{id}/-/history` | what has happened to an instance; `?after=<slot>`, `?limit=<number>` |
/// | `POST /{Class}/{id}/-/erase` | erases the personal values of an instance, wherever they are |
/// | `GET /{Class}/{id}/{Event}` | asks what a read event returns, with its parameters in the query |
/// | `GET /openapi.json` | this interface, described for programs |
/// | `GET /metrics` | what the engine and this interface count, in the text format of Prometheus; never turned away |
/// | `GET /health` | whether the server serves; never turned away |
/// | `GET /health/ready` | whether its disk takes commands; never turned away |
///
/// Every answer of it is JSON, but for `/metrics` and streams. Nothing a request contains makes it panic. Cloning costs a reference
/// count.
pub struct Router<E: Entities<Model = Rebel>>(Arc<Api<E>>);

/// The interface of `entities`: of an [engine](enact_entities::Engine), or of a node of several.
pub fn router<E: Entities<Model = Rebel>>(entities: E, options: Options) -> Router<E> {
    let Options {
        listen,
        hosts,
        exposure,
        tokens,
        demands_certificates,
        issuer,
        readers,
        erasers,
        rate,
        in_flight_max,
        scratch,
        traces,
    } = options;
    let certificates = match (demands_certificates, &tokens) {
        (false, _) => Certificates::None,
        (true, None) => Certificates::Demanded,
        (true, Some(_)) => Certificates::OfCallers,
    };
    let credentials = Credentials::new(tokens, issuer);
    let access = if credentials.are_known() { Access::ByTokens } else { Access::Anonymous };
    let openapi =
        openapi::document(entities.model().spec(), entities.strategies(), (access, certificates), &readers, rate);
    let (openapi, readers) = (Bytes::from(openapi), Arc::new(readers));
    let guard = Guard::new(Hosts::new(listen, hosts), traces);
    let (in_flight, batches) = (Shares::new(in_flight_max), Shares::new(batch::BATCHES_MAX));
    let followers = Shares::new(changes::FOLLOWERS_MAX);
    let projection = Projection::new(entities.clone(), scratch);
    let requests = Requests::default();
    let api = Api {
        entities,
        in_flight,
        batches,
        followers,
        projection,
        openapi,
        requests,
        exposure,
        guard,
        credentials,
        readers,
        erasers,
        rates: rate.map(Rates::new),
    };
    Router(Arc::new(api))
}

impl<E: Entities<Model = Rebel>> Clone for Router<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Entities<Model = Rebel>> fmt::Debug for Router<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

impl<E, B> Service<Request<B>> for Router<E>
where
    E: Entities<Model = Rebel>,
    B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(Arc::clone(&self.0).answer(request))
    }
}

impl<E: Entities<Model = Rebel>> Api<E> {
    async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Result<Response, Infallible>
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send,
    {
        let begin = Instant::now();
        let (head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let endpoint = Endpoint::of(&head.method, head.uri.path());
        let answer = async |peer: &Peer, mut head: Parts| {
            let identity = self.identify(peer, &mut head).await?;
            let answered = self.route(peer, identity.as_ref(), &head, body).await;
            answered.map_err(|problem| self.tell(problem, identity.as_ref().map(|identity| &identity.caller)))
        };
        let mut response = self.guard.pass(head, answer).await;
        protect(response.headers_mut());
        self.requests.answered(endpoint, response.status(), begin.elapsed());
        Ok(if is_head { without_body(response) } else { response })
    }

    /// Who a request is that has passed the limits, if it does not ask too often.
    async fn identify(&self, peer: &Peer, head: &mut Parts) -> Result<Option<Identity>, Problem> {
        let identified = self.credentials.identify(peer.certificate(), head).await;
        let caller = identified.as_ref().ok().and_then(|identity| Some(&identity.as_ref()?.caller));
        // Who proves nothing is limited as the client that it is.
        self.take(peer, caller, head.uri.path())?;
        identified
    }

    /// Answers a request of this caller.
    async fn route<B>(
        &self,
        peer: &Peer,
        identity: Option<&Identity>,
        head: &Parts,
        body: B,
    ) -> Result<Response, Problem>
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send,
    {
        let caller = identity.map(|identity| identity.caller.clone());
        let (method, uri) = (&head.method, &head.uri);
        let is_read = method == Method::GET || method == Method::HEAD;
        let place = Place::at(uri.path());
        if is_read && let Some(place) = place {
            self.may_read(place, caller.as_ref())?;
        }
        match place {
            Some(Place::Health) if is_read => Ok(Json(self.health()?).into_response()),
            Some(Place::Readiness) if is_read => Ok(Json(self.readiness()?).into_response()),
            Some(Place::Metrics) if is_read => {
                let (metrics, membership) = (self.entities.metrics(), self.entities.membership());
                Ok(metrics::answer(&metrics, &self.requests, self.readiness().is_ok(), membership.as_ref()))
            }
            Some(Place::Description) if is_read => Ok(self.describe()),
            Some(Place::Class(class)) if is_read => query::query(self, peer, class, head).await,
            Some(Place::Pair(class, id)) if is_read => read::read(self, peer, (class, id), head).await,
            Some(Place::Batch) if method == Method::POST => batch::batch(self, peer, caller, head, body).await,
            Some(Place::Changes) if is_read => changes::changes(self, peer, identity, head).await,
            Some(Place::Changes) => Err(only_allowed("GET, HEAD", method, uri)),
            Some(Place::Pair(class, event)) if method == Method::POST => {
                command::creation(self, peer, caller, (class, event), head, body).await
            }
            Some(Place::Erasure(class, id)) if method == Method::POST => {
                self.may_erase(caller.as_ref())?;
                personal::erase(self, peer, caller, (class, id), head, body).await
            }
            Some(Place::Batch | Place::Erasure(..)) => Err(only_allowed("POST", method, uri)),
            Some(Place::History(class, id)) if is_read => history::history(self, peer, (class, id), head).await,
            Some(Place::Event(class, id, event)) if is_read => {
                ask::ask(self, peer, caller, (class, id, event), head).await
            }
            Some(Place::Event(class, id, event)) if method == Method::POST => {
                command::command(self, peer, caller, (class, id, event), head, body).await
            }
            Some(_) => Err(method_not_allowed(method, uri)),
            None => Err(no_such_resource(uri)),
        }
    }

    /// Lets `caller`, or else the client, ask once, if it does not ask too often.
    fn take(&self, peer: &Peer, caller: Option<&Caller>, path: &str) -> Result<(), Problem> {
        let Some(rates) = self.rates.as_ref().filter(|_| !is_observed(path)) else { return Ok(()) };
        rates.take(Principal::of(caller, peer.client())).map_err(|wait| {
            let (whom, rate) = (if caller.is_some() { "caller" } else { "client without a caller" }, rates.rate());
            let detail = format!(
                "a {whom} may send {} requests a second to this server, {} at once; nothing was done, try again later",
                rate.per_second(),
                rate.burst()
            );
            Problem::new(ProblemKind::RateLimited, detail).retry_after(wait)
        })
    }

    /// Counts `commands` of a batch that was let in as one request.
    pub(crate) fn charge(&self, peer: &Peer, caller: Option<&Caller>, commands: usize) {
        let more = u32::try_from(commands.saturating_sub(1)).unwrap_or(u32::MAX);
        if let Some(rates) = self.rates.as_ref().filter(|_| more > 0) {
            rates.charge(Principal::of(caller, peer.client()), more);
        }
    }

    /// Lets `caller` read what is at `place`, before anything of it is looked at.
    fn may_read(&self, place: Place<'_>, caller: Option<&Caller>) -> Result<(), Problem> {
        if self.readers.is_empty() {
            return Ok(());
        }
        let class = |class: Part<'_>| self.readers.admit(&class.decoded().ok_or_else(undecodable)?, caller);
        match place {
            // The changes are those of the classes that the caller may read; a batch is no read.
            Place::Health | Place::Readiness | Place::Batch | Place::Changes | Place::Erasure(..) => Ok(()),
            Place::Metrics => self.readers.admit(readers::METRICS, caller),
            Place::Description => self.readers.admit(readers::DESCRIPTION, caller),
            Place::Event(name, _, event) if self.names_roles(name, event) => Ok(()),
            Place::Class(name) | Place::Pair(name, _) | Place::History(name, _) | Place::Event(name, ..) => class(name),
        }
    }

    /// Lets `caller` erase personal values: where callers are known, one who is said to may.
    fn may_erase(&self, caller: Option<&Caller>) -> Result<(), Problem> {
        match &self.erasers {
            Some(demand) => demand.admit("erasing", caller),
            None if !self.credentials.are_known() => Ok(()),
            None => {
                let detail = "nobody erases personal values here: the server was started without `--erasers`";
                Err(Problem::new(ProblemKind::Forbidden, detail))
            }
        }
    }

    /// Whether the specification says who may call an event.
    fn names_roles(&self, class: Part<'_>, event: Part<'_>) -> bool {
        let (Some(class), Some(event)) = (class.decoded(), event.decoded()) else { return false };
        let class = self.entities.model().spec().class(&class);
        class.and_then(|class| class.event(&event)).is_some_and(|event| !event.roles().is_empty())
    }

    /// The problem as `caller` may know it.
    pub(crate) fn tell(&self, problem: Problem, caller: Option<&Caller>) -> Problem {
        self.readers.tell(problem, self.entities.model().spec(), caller)
    }

    fn health(&self) -> Result<Health, Problem> {
        match self.entities.failure() {
            None => Ok(Health { status: "serving", insecure: self.exposure == Exposure::Insecure }),
            Some(_) => Err(outcome::engine_failed()),
        }
    }

    fn readiness(&self) -> Result<Readiness, Problem> {
        let membership = self.entities.membership();
        if let Some(problem) = membership.as_ref().and_then(|membership| outcome::not_joined(membership.standing)) {
            return Err(problem);
        }
        match self.entities.disk() {
            DiskState::Ready => {
                let (node, shards) = membership.map(|of| (of.node.to_string(), of.shards)).unzip();
                Ok(Readiness { status: "ready", node, shards })
            }
            state => Err(outcome::not_ready(&state)),
        }
    }

    fn describe(&self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.openapi.clone()).into_response()
    }

    /// Admits a request of `peer` that has arrived whole.
    pub(crate) fn admit(&self, peer: &Peer) -> Result<Admitted, Problem> {
        peer.admit(&self.in_flight)
    }

    /// A share beside the one of a request of `peer` that is admitted, if the client may have one.
    pub(crate) fn share(&self, peer: &Peer) -> Option<Share> {
        peer.share(&self.in_flight)
    }

    /// Lets a batch of `peer` arrive and run.
    pub(crate) fn batch(&self, peer: &Peer) -> Result<Share, Problem> {
        let busy =
            || Peer::overloaded("more batches are in flight than this server takes; nothing was done, try again");
        peer.share(&self.batches).ok_or_else(busy)
    }

    /// Lets `peer` follow the changes.
    pub(crate) fn follow(&self, peer: &Peer) -> Result<Share, Problem> {
        let busy =
            || Peer::overloaded("more clients follow the changes than this server takes; ask for pages, or try again");
        peer.share(&self.followers).ok_or_else(busy)
    }

    pub(crate) fn class(&self, name: &str) -> Result<&Arc<Class>, Problem> {
        let spec = self.entities.model().spec();
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
    let as_written = EntityKey::new(class.name(), id).map_err(|error| unfit(error.to_string()))?;
    let key = class.key(id).map_err(|error| unfit(error.to_string()))?.to_string();
    if key == id {
        return Ok(as_written);
    }
    EntityKey::new(class.name(), &key).map_err(|error| unfit(error.to_string()))
}

/// Whether something is there that observers ask for, of a server that is full, too.
pub(crate) fn is_observed(path: &str) -> bool {
    matches!(Place::at(path), Some(Place::Health | Place::Readiness | Place::Metrics))
}

fn no_such_resource(uri: &Uri) -> Problem {
    let detail = format!("nothing is at `{}`; /openapi.json lists what there is", uri.path());
    Problem::new(ProblemKind::NoSuchResource, detail)
}

pub(crate) fn method_not_allowed(method: &Method, uri: &Uri) -> Problem {
    // Three parts are an event, fewer are read.
    let allowed = if uri.path().matches('/').count() == 3 { "POST" } else { "GET, HEAD" };
    only_allowed(allowed, method, uri)
}

/// Tells browsers to take an answer for what it says to be, and proxies to keep no copy: it may be out of date at once, and nothing that the
/// next client may see.
fn protect(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// What a `HEAD` is answered with where a `GET` would be with `response`.
fn without_body(mut response: Response) -> Response {
    if let Some(bytes) = response.body().size_hint().exact() {
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert_with(|| bytes.into());
    }
    *response.body_mut() = Body::empty();
    response
}

/// The problem of a method that a resource does not know.
pub(crate) fn only_allowed(allowed: &'static str, method: &Method, uri: &Uri) -> Problem {
    let detail = format!("`{}` takes {allowed}, not {method}", uri.path());
    Problem::new(ProblemKind::MethodNotAllowed, detail).with_header(header::ALLOW, HeaderValue::from_static(allowed))
}
