//! The HTTP interface as a client sees it.

mod api;
mod availability;
mod bank;
mod callers;
mod credentials;
mod explanations;
mod gated;
mod ids;
mod listener;
mod metrics;
mod openapi;
mod reads;
mod results;
mod tokens;
mod undecided;
mod views;
