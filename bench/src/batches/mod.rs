//! Transfers over HTTP: each in a request of its own, a thousand in a batch, some hundred as one transaction; and in process, without
//! HTTP.
//!
//! Each contender makes the same number of transfers between accounts drawn uniformly, on a fresh data directory. In process
//! the clients are tasks beside the engine, and each has one transfer under way; over HTTP the server is a process of its own, and the
//! load generator shares the machine with it. Every acknowledged transfer has been synced.
//!
//! # Oracle
//! All transfers were acknowledged, and the balances of all accounts add up to what was paid in. What is turned away is sent again.
mod contenders;

use std::path::PathBuf;

use thiserror::Error;

use self::contenders::Shape;
use crate::engine::EngineError;
use crate::measure::{Contender, Plan, Report, race, write_json};
use crate::served::{BenchError, program};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Transfers of a run
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub transfers: u32,
    /// Accounts that they are drawn from
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub accounts: u32,
    /// Clients in process, and of requests with one transfer each
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Connections that send batches; a server takes two at a time of one client
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_clients: u32,
    /// Transfers of a batch, each on its own
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub batch: u32,
    /// Transfers of a batch that is one transaction
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub atomic: u32,
    /// The program `enact` that serves; built with cargo from this workspace, as its users build it, when missing
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Parent of the fresh data directories; on the disk that is to be measured
    #[arg(long, default_value = ".")]
    pub data: PathBuf,
    /// How often to measure
    #[command(flatten)]
    pub plan: Plan,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BatchesError {
    /// The server cannot be built or used, or the oracle refused a result.
    #[error(transparent)]
    Served(#[from] BenchError),
    /// The engine in process has failed, or the oracle refused its result.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A transfer was not made.
    #[error("a batch has {done} of {sent} transfers: {answer}")]
    NotDone {
        /// How many are acknowledged.
        done: usize,
        /// How many were asked for.
        sent: usize,
        /// The answer, or its beginning.
        answer: String,
    },
    /// There are no threads, or there is no place for data or for the report.
    #[error("the system refuses it")]
    System(#[from] std::io::Error),
}

/// Measures the contenders, interleaved.
///
/// # Errors
/// [`BatchesError`] when the server cannot be built or used, answers something unexpected, or the oracle refuses a result.
pub fn run(options: &Options) -> Result<Report, BatchesError> {
    let shape = Shape { options, program: program(options.program.as_deref())? };
    let title = format!("{} transfers between {} accounts", options.transfers, options.accounts);
    let report = Report::of(title, || {
        let contenders = vec![
            Contender::new("in process", || shape.in_process()),
            Contender::new("request each", || shape.requests()),
            Contender::new(format!("batches of {}", options.batch), || shape.batches(options.batch, false)),
            Contender::new(format!("transactions of {}", options.atomic), || shape.batches(options.atomic, true)),
        ];
        Ok::<_, BatchesError>(vec![race("transfers".to_owned(), "transfers", &options.plan, contenders)?])
    })?;
    if let Some(path) = &options.json {
        write_json(&report, path)?;
    }
    Ok(report)
}
