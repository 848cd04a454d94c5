//! HTTP interface of Enact.
#![forbid(unsafe_code)]

mod api;
mod body;
mod command;
mod door;
mod envelope;
mod host;
mod json;
mod listener;
mod openapi;
mod outcome;
mod problem;
mod read;
mod schema;
mod value;

pub use api::{IN_FLIGHT_MAX, Options, router};
pub use body::{BODY_BYTES_MAX, BODY_TIMEOUT};
pub use door::{HEADER_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX};
pub use envelope::{DEADLINE_DEFAULT, DEADLINE_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
pub use json::DEPTH_MAX;
pub use listener::{BindError, CONNECTIONS_MAX, Exposure, HEAD_TIMEOUT, Listener};
pub use problem::PROBLEM_JSON;
