//! What proves a journal: [`contract`] has its contract as tests for every implementation, [`sim`] is a disk that crashes
//! on command, [`nats`] and [`postgres`] start servers that tests kill, [`link`] cuts processes off from each other, and
//! [`certificates`] has those of servers and clients.
#![forbid(unsafe_code)]

pub mod certificates;
pub mod contract;
pub mod link;
pub mod nats;
pub mod postgres;
pub mod sim;
