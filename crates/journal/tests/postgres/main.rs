//! The journal over PostgreSQL, with real servers that are killed, frozen, cut off and configured badly.

mod contract_postgres;
mod failures;
mod looking;
mod settings;
mod support;
mod writers;
