//! The HTTP interface as a client sees it.

mod api;
mod availability;
mod bank;
mod callers;
mod credentials;
mod ids;
mod listener;
mod openapi;
mod reads;
mod results;
mod tokens;
mod undecided;
