//! HTTP interface of Enact.
#![forbid(unsafe_code)]

mod door;
mod host;
mod id;
mod listener;
mod problem;

pub use door::{HEADER_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX, guard};
pub use id::{ID_BYTES_MAX, is_valid_id};
pub use listener::{BindError, CONNECTIONS_MAX, Exposure, HEAD_TIMEOUT, Listener};
pub use problem::{InvalidParameter, PROBLEM_JSON, Problem, ProblemKind, RefusalReason, WaitedFor};
