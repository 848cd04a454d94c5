//! The journal over PostgreSQL, with real servers that are killed, frozen, cut off and configured badly.

mod building;
mod contract_postgres;
mod failures;
mod looking;
mod nodes;
mod promotion;
#[path = "../remote/records.rs"]
mod records;
mod security;
mod settings;
mod support;
mod verifying;
mod writers;
