//! Several nodes on this machine, from nothing.

use std::env;
use std::process::Command;

use crate::{Outcome, command, run_to_end, target};

/// Builds the program and runs three of it for the bank of the examples over three servers of NATS, until it is interrupted.
pub(crate) fn run() -> Outcome {
    let build =
        command("cargo build --profile library --locked -p enact-cli --features nats --bin enact --example cluster");
    run_to_end(build)?;
    let built = env::current_dir()?.join(target()).join("library");
    let mut cluster = Command::new(built.join("examples/cluster"));
    cluster.arg(built.join("enact")).arg("examples/bank.rebel");
    run_to_end(cluster)
}
