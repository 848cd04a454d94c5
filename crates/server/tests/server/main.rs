//! The HTTP interface as a client sees it.

mod api;
mod availability;
mod bank;
mod listener;
mod openapi;
mod undecided;
