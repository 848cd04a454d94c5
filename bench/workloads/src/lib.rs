//! What benchmark programs do, without how: generators, kernels, formats and the oracles of their results.
//!
//! The programs that are compared, Enact's, the peers' and the sequential one, draw from the same generators and call
//! the same kernels, so that a difference between them is one of their concurrency. Nothing here knows Enact: its crates
//! are contenders like their peers, which build against this crate too. Only [`stm`], whose workloads are the same
//! threads around any transactional memory, knows threads and a clock.
#![forbid(unsafe_code)]

pub mod dedup;
mod generator;
pub mod kernels;
pub mod savina;
pub mod stm;
pub mod vacation;

pub use generator::SplitMix64;
