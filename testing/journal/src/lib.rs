//! What proves a journal: [`contract`] has its contract as tests for every implementation, and [`sim`] is a disk that crashes
//! on command.
#![forbid(unsafe_code)]

pub mod contract;
pub mod sim;
