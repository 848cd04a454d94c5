//! The HTTP interface of entities: commands, reads, and a description of both generated from their specification.
//!
//! The only crate that knows JSON and status codes. It decides no transaction: it turns a request into typed values of
//! the specification, asks the engine, and puts the engine's answer into words.
//!
//! # What a status says
//! | status | the command | what to do |
//! |---|---|---|
//! | `200` | happened and is durable | - |
//! | `401` unauthenticated | never became one | send a token that the server knows; or none, unless the answer says that it is needed |
//! | `403` forbidden | certainly did not happen: the caller lacks a role | ask somebody who has it |
//! | `409` refused | certainly did not happen, and the body names each rule that it breaks | change something first |
//! | `409` key in use | is running | ask again |
//! | `404`, `405`, `413`, `415`, `421`, `422`, `431` | never became one | correct the request |
//! | `429` rate limited | did not happen: the caller or client asks more than it may | try again after `Retry-After` |
//! | `503` | did not happen: overloaded, stopping, on its way to another node | try again after `Retry-After` |
//! | `504` timeout | did not happen | try again |
//! | `504` in doubt | may have happened | send it again with the same `Idempotency-Key` |
//! | no answer | may have happened | send it again with the same `Idempotency-Key` |
//!
//! Each answer has the id of its request in `X-Request-Id`: that of the client if it is well-formed, otherwise a new one. The body of a
//! problem and the log have it, too.
//!
//! Every body is JSON, but for `/metrics`; one that is not a success is problem details (RFC 9457). Only what is no HTTP at all, or has a
//! head too large to be read, is answered with a bare status.
//!
//! # Who may ask
//! A caller is known by a bearer token or the certificate of its connection, out of a file of the operator ([`Tokens`]), or by a token that
//! an [`Issuer`] has signed; the
//! caller's id and roles go into
//! the event and are journaled with it, and the specification decides what they may do. A request without either has
//! no caller and no roles. [`Readers`] says who may read; `/health` is for anybody. A [`Listener`] that does not encrypt ([`Tls`]) takes a
//! loopback address only, unless told otherwise aloud ([`Exposure`]). Pages that a browser of this
//! machine shows are kept out: no other origin is allowed to read (no CORS headers), a command must be declared as
//! JSON, which a form cannot be, and a `Host` is refused unless it is an address of this server, `localhost` or one of
//! [`Options::hosts`].
//!
//! # Limits
//! What arrives is bounded before it is looked at: [`CONNECTIONS_MAX`] connections, a head within [`HEAD_TIMEOUT`] and
//! [`HEADER_BYTES_MAX`], a target of [`TARGET_BYTES_MAX`], a body of [`BODY_BYTES_MAX`] ([`BATCH_BYTES_MAX`] for a
//! batch of up to [`BATCH_COMMANDS_MAX`] commands) within [`BODY_TIMEOUT`] and no deeper than [`DEPTH_MAX`], and [`Options::in_flight_max`] commands and reads at once, decided when they have arrived:
//! nothing that was admitted is turned away later. Four batches arrive and run at once, of one client two. A deadline is at most [`DEADLINE_MAX`], and an answer must be read
//! within [`UNREAD_TIMEOUT`].
//!
//! # One client cannot starve another
//! A client is an IPv4 address, or a 64-bit network of IPv6. Clients share the time of the workers that poll connections
//! evenly, however many connections each has. A client has at most as many commands and reads in flight as are left for
//! others, but one in any case. When all connections are in use, a newcomer takes the place of the one that has waited
//! longest for its client, among the clients that hold the most ([`Limits`]). So clients that hold connections without
//! sending or reading lose them as soon as somebody else asks, and `/health` and `/health/ready`, which need no share,
//! always answer. At a stop they are waited for no longer than [`FAREWELL`].
//!
//! With [`Options::rate`], each caller, and each client without one, may send so many requests a second; others are answered with 429.
//!
//! # Overload
//! [`Options::in_flight_max`] is how many requests are let in as long as the threads keep up. When connections that have work wait for a
//! thread for long, fewer are, and the others are answered with 503 and `Retry-After`. A connection that asks again before that is held up until then.
//!
//! # Example
//! ```
//! use axum::body::Body;
//! use axum::http::Request;
//! use enact_entities::{Engine, EngineOptions, Rebel};
//! use enact_journal::Memory;
//! use enact_rebel::{Source, check};
//! use enact_server::{Options, router};
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let lamp = Source::new("lamp.rebel", "class Lamp initial off on Light(): lit\nlit");
//! let model = Rebel::new(check(vec![lamp])?.into());
//! let engine = Engine::new(model, Memory::new(), EngineOptions::default());
//!
//! let light = Request::post("/Lamp/l1/Light")
//!     .header("host", "localhost")
//!     .header("content-type", "application/json")
//!     .body(Body::from("{}"))?;
//! let answer = router(engine, Options::loopback([127, 0, 0, 1].into())).oneshot(light).await?;
//! assert_eq!(answer.status(), 200);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod api;
mod ask;
mod atomic;
mod batch;
mod body;
mod certificate;
mod changes;
mod command;
mod credentials;
mod digest;
mod envelope;
mod history;
mod host;
mod issuer;
mod json;
mod limits;
mod listener;
mod metrics;
mod openapi;
mod outcome;
mod path;
mod personal;
mod places;
mod problem;
mod processor;
mod query;
mod rates;
mod read;
mod readers;
mod reloading;
mod request_id;
mod schema;
mod shares;
mod stream;
mod tls;
mod tokens;
mod traces;
mod unread;
mod value;

pub use api::{IN_FLIGHT_MAX, Options, Router, router};
pub use atomic::ATOMIC_COMMANDS_MAX;
pub use batch::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX};
pub use body::{BODY_BYTES_MAX, BODY_TIMEOUT};
pub use certificate::{CERTIFICATE_NAME_BYTES_MAX, CertificateName, CertificateNameError, ClientCertificate};
pub use envelope::{DEADLINE_DEFAULT, DEADLINE_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
pub use host::{HostName, HostNameError, ListenAddress, ListenAddressError};
pub use issuer::{
    Issuer, IssuerOptions, IssuerUrlError, KEYS_FETCH_EVERY, KEYS_FETCH_PAUSE, KEYS_KEPT, SUBJECT_BYTES_MAX,
    TOKEN_LEEWAY,
};
pub use json::DEPTH_MAX;
pub use limits::{HEADER_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX};
pub use listener::{BindError, CONNECTIONS_MAX, Exposure, FAREWELL, HEAD_TIMEOUT, Limits, Listener, UNREAD_TIMEOUT};
pub use rates::{RATE_MAX, Rate, RateError};
pub use readers::{Readers, ReadersError, RoleDemand, RoleDemandError};
pub use reloading::FILES_CHECK_EVERY;
pub use tls::{PEM_BYTES_MAX, Tls, TlsError, TlsFiles};
pub use tokens::{
    CALLER_NAME_BYTES_MAX, TOKEN_ROLES_MAX, TOKENS_BYTES_MAX, Token, TokenLineError, TokenRefusal, Tokens, TokensError,
    caller_from_outside,
};
pub use traces::JoinTrace;
pub use value::to_json;
