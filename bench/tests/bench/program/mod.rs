//! The `enact-bench` program as its users see it: that it runs, reports what it verified, and fails otherwise. No figure
//! is looked at.

mod actors;
mod admission;
mod cost;
mod defer;
mod engine;
mod isolation;
mod kernels;
mod postgres;
mod psac;
mod psac_simulation;
mod rebel;
mod savina;
mod scheduler;
mod soak;
mod stm;
mod transfers;
mod vacation;

use std::process::{Command, Output};

/// Runs the program to its end.
fn enact_bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_enact-bench")).args(arguments).output().expect("the program starts")
}
