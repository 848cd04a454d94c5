//! Workloads of the benchmarks, written once for every contender: the same shapes, the same seeds, the same oracles.
//!
//! Nothing here knows Enact: its crates are contenders like their peers, which build against this crate too.
#![forbid(unsafe_code)]

mod sm64;
pub mod stm;
