//! What proves a journal: [`contract`] has its contract as tests for every implementation, [`sim`] is a disk that crashes
//! on command, [`nats`] and [`postgres`] start servers that tests kill, [`link`] cuts processes off from each other,
//! [`certificates`] has those of servers and clients, and [`golden`] compares messages with those of every release.
#![forbid(unsafe_code)]

pub mod certificates;
pub mod contract;
pub mod golden;
pub mod link;
pub mod nats;
pub mod postgres;
pub mod sim;
