//! The HTTP interface as a client sees it.

mod api;
mod availability;
mod bank;
mod batches;
mod callers;
mod changes;
mod credentials;
mod explanations;
mod gated;
mod histories;
mod ids;
mod issuer;
mod listener;
mod metrics;
mod openapi;
mod queries;
mod rates;
mod readers;
mod reads;
mod results;
mod tokens;
mod undecided;
mod views;
