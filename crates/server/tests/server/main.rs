//! The HTTP interface as a client sees it.

mod api;
mod availability;
mod bank;
mod credentials;
mod listener;
mod openapi;
mod tokens;
mod undecided;
