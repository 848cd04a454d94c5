//! The `enact` program: checks specifications and serves the entities that they declare.
//!
//! Everything it does is in the crates below; here are the command line, the order in which a server is put together
//! and taken apart, and the mapping from errors to exit statuses. Standard output carries results, standard error
//! carries diagnostics, logs and the one message of a failure.
//!
//! The program is a library, with a `main.rs` that calls it, because cargo compiles a library while the crates below it
//! are still being optimised, and a program only after them.
#![forbid(unsafe_code)]

mod args;
mod change;
mod check;
mod client;
#[cfg(feature = "nats")]
mod cluster;
mod config;
mod contract;
mod erase;
mod failure;
mod fmt;
mod follow;
mod footprint;
mod import;
mod init;
mod journal;
mod key_file;
mod lines;
mod log;
mod manual;
mod scaling;
#[cfg(feature = "nats")]
mod secret;
mod serve;
mod sign_key;
mod spec;
mod token;
mod traces;
mod trust;

use std::process::ExitCode;

use args::Command;
use failure::Failure;

/// Does what the command line of this process asks for; the status says how it ended.
///
/// Wrong usage, and a question for help, end the process at once.
pub fn run() -> ExitCode {
    let done = config::parse(std::env::args_os().collect()).and_then(|cli| perform(cli.command));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.say();
            failure.exit_code()
        }
    }
}

fn perform(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Fmt(args) => fmt::run(&args),
        Command::Token(args) => token::run(&args),
        Command::SignKey { file } => sign_key::make(&file),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(&folder),
        Command::Journal(command) => journal::run(&command),
        Command::Import(args) => import::run(&args),
        Command::Follow(args) => follow::run(&args),
        Command::Erase(args) => erase::run(&args),
        Command::Audit(args) => journal::audit(&args),
        Command::Contract(command) => change::run(&command),
        #[cfg(feature = "nats")]
        Command::Cluster(command) => cluster::run(&command),
        #[cfg(not(feature = "nats"))]
        Command::Cluster(_) => Err(Failure::WithoutNats),
    }
}
