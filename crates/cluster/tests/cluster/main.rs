//! Nodes of one process over real servers of NATS and of PostgreSQL.

mod bank;
mod barriers;
mod contract;
#[cfg(feature = "postgres")]
mod database;
mod guarding;
mod joining;
mod leaving;
mod moving;
mod sharing;
mod upgrading;
mod verifying;
