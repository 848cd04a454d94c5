//! What benchmark programs do, without how: generators, kernels, formats and the oracles of their results.
//!
//! The programs that are compared, Enact's, the peers' and the sequential one, draw from the same generators and call
//! the same kernels, so that a difference between them is one of their concurrency. Nothing here knows a thread, an
//! actor, a transaction, a clock or a file.
#![forbid(unsafe_code)]

pub mod dedup;
mod generator;

pub use generator::SplitMix64;
