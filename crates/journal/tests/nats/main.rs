//! The journal over NATS, with real servers that are killed, frozen and cut off.

mod building;
mod cluster;
mod contract_nats;
mod earlier;
mod failures;
mod looking;
mod proxy;
#[path = "../remote/records.rs"]
mod records;
mod security;
mod settings;
mod support;
mod verifying;
