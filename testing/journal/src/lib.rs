//! What proves a journal: [`contract`] has its contract as tests for every implementation, [`sim`] is a disk that crashes
//! on command, and [`nats`] starts servers that tests kill.
#![forbid(unsafe_code)]

pub mod contract;
pub mod nats;
pub mod sim;
