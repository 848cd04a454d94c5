//! Benchmark programs with their oracles, measurement and reports.
//!
//! Each module is one benchmark: its options, what it runs, how its result is verified after the clock has stopped, and
//! its report. No figure is reported for a run whose result its oracle refused.
#![forbid(unsafe_code)]

pub mod actors;
pub mod admission;
pub mod appends;
pub mod batches;
pub mod compaction;
pub mod cost;
pub mod deadlines;
pub mod defer;
mod document;
pub mod engine;
pub mod hot;
pub mod isolation;
pub mod kernels;
pub mod measure;
pub mod neighbours;
pub mod nodes;
mod peers;
pub mod postgres;
pub mod psac;
pub mod rebel;
pub mod report;
pub mod savina;
pub mod scheduler;
pub mod served;
pub mod soak;
pub mod stm;
pub mod transfers;
pub mod vacation;

pub use document::{PageError, Pages};
pub use peers::in_words;
