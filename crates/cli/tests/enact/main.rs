//! The `enact` program as its users see it.

mod attestations;
mod audit;
mod authorization;
mod backup;
mod check;
#[cfg(feature = "nats")]
mod cluster;
mod config;
mod contract;
mod crash;
mod erase;
mod first_day;
mod fmt;
mod follow;
mod follower;
mod golden;
mod identities;
mod import;
mod init;
mod issuer;
mod journal;
mod logs;
mod nats;
#[cfg(feature = "nats")]
#[path = "../../examples/cluster/nodes.rs"]
mod nodes;
mod pages;
mod postgres;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod remote;
mod repair;
mod retention;
#[cfg(any(feature = "nats", feature = "postgres"))]
mod secured;
mod security;
mod serve;
mod served;
mod timers;
mod tls;
mod tokens;
mod traces;
mod tutorial;
mod versions;
mod watch;
