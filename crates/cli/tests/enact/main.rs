//! The `enact` program as its users see it.

mod check;
#[cfg(feature = "nats")]
mod cluster;
mod contract;
mod crash;
mod fmt;
mod identities;
mod journal;
mod nats;
#[cfg(feature = "nats")]
#[path = "../../examples/cluster/nodes.rs"]
mod nodes;
mod pages;
mod postgres;
mod serve;
mod served;
mod timers;
mod tokens;
mod tutorial;
mod versions;
