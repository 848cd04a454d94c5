//! What proves a journal: [`contract`] has its contract as tests for every implementation, [`sim`] is a disk that crashes
//! on command, [`nats`] and [`postgres`] start servers that tests kill, and [`link`] cuts processes off from each other.
#![forbid(unsafe_code)]

pub mod contract;
pub mod link;
pub mod nats;
pub mod postgres;
pub mod sim;
