//! The libraries, each used as its documentation recommends where speed matters.
mod actix;
mod kameo;
mod ractor;
mod tokio;

pub(crate) use actix::Actix;
pub(crate) use kameo::Kameo;
pub(crate) use ractor::Ractor;
pub(crate) use tokio::Tokio;
