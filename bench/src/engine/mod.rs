//! Transfers and deposits in process: the engine and the embedded journal, without HTTP.
//!
//! Each client is a task that submits one command after the other; an acknowledged one has been synced. `engines` and `clients`
//! are also those of other benchmarks in process.
//!
//! # Oracle
//! After each window the balances of all accounts add up to what was paid in.
mod bank;
mod clients;
mod contract;
mod decider;
mod engines;

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use enact_entities::SubmitError;
use serde::Serialize;
use tokio::runtime;

pub(crate) use self::bank::Bank;
pub use self::bank::Kind;
pub(crate) use self::clients::{Draw, Expected, Turn, Window, Windows, Work, Workload};
pub use self::decider::Decider;
pub(crate) use self::engines::{Engines, Request, Setup};
use crate::document::PageError;
use crate::measure::write_json;
use crate::served::{groups, median_by};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Commands, one measurement each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Kind::ALL)]
    pub requests: Vec<Kind>,
    /// Numbers of clients, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 256], value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: Vec<u32>,
    /// Threads, one measurement each; 0 is one a core
    #[arg(long, value_delimiter = ',', default_values_t = [1, 0])]
    pub workers: Vec<usize>,
    /// Accounts that are drawn from
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub accounts: u32,
    /// How long each measurement takes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// How often each is taken; the table shows the medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A command that must be possible has no success.
    #[error("a command has no success")]
    Submit(#[from] SubmitError),
    /// The accounts do not hold what was paid in.
    #[error("the accounts hold {found} cents, not {expected}")]
    NotConserved {
        /// What was paid in.
        expected: i64,
        /// What is there.
        found: i64,
    },
    /// The entities hold something else than what was acknowledged.
    #[error("{0}")]
    Wrong(String),
    /// There is no journal, or none that can be read or closed.
    #[error("the journal of the benchmark: {0}")]
    Journal(String),
    /// A page could not be written.
    #[error(transparent)]
    Page(#[from] PageError),
    /// There are no threads, or there is no place for data or the report.
    #[error("the system refuses {what}")]
    System {
        /// What was asked for.
        what: String,
        /// What went wrong.
        source: io::Error,
    },
}

impl EngineError {
    /// An error if the entities do not hold these cents.
    pub(crate) fn unless_conserved(expected: i64, found: i64) -> Result<(), Self> {
        if found == expected { Ok(()) } else { Err(Self::NotConserved { expected, found }) }
    }
}

/// One verified measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// The kind of the commands.
    pub request: &'static str,
    /// How many clients there were.
    pub clients: u32,
    /// How many threads; 0 is one a core.
    pub workers: usize,
    /// Commands a second that were acknowledged within the window.
    pub rate: f64,
    /// Microseconds of CPU time a command, that of the clients and of the journal's threads included.
    pub cpu_us: f64,
}

/// All samples; displays as a table of median rates.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Every measurement, in the order taken.
    pub samples: Vec<Sample>,
}

/// Takes every measurement, interleaved over the rounds.
///
/// # Errors
/// [`EngineError`] when a command fails, the oracle refuses a result, or the system lacks something.
///
/// # Panics
/// If the example bank is not Rebel.
pub fn run(options: &Options) -> Result<Report, EngineError> {
    let mut samples = Vec::new();
    for _ in 0..options.rounds {
        for &workers in &options.workers {
            for &clients in &options.clients {
                for &kind in &options.requests {
                    samples.push(measure(options, workers, clients, kind)?);
                }
            }
        }
    }
    let report = Report { samples };
    if let Some(path) = &options.json {
        let refused = |source| EngineError::System { what: path.display().to_string(), source };
        write_json(&report, path).map_err(refused)?;
    }
    Ok(report)
}

fn measure(options: &Options, workers: usize, clients: u32, kind: Kind) -> Result<Sample, EngineError> {
    let mut threads = runtime::Builder::new_multi_thread();
    if workers > 0 {
        threads.worker_threads(workers);
    }
    let refused = |what: &str| {
        let what = what.to_owned();
        move |source| EngineError::System { what, source }
    };
    let runtime = threads.enable_all().build().map_err(refused("threads"))?;
    let directory = tempfile::tempdir().map_err(refused("a directory"))?;
    let setup = Setup { engines: 1, delay: Duration::ZERO, sync_min: None, decider: Decider::default() };
    let length = Duration::from_secs(options.seconds);
    let windows = Windows { directory: directory.path(), setup, clients: &[clients], length };
    let windows = runtime.block_on(windows.run(Bank::new(kind, options.accounts)))?;
    let [window] = &windows[..] else { unreachable!("a window for each number of clients") };
    Ok(Sample { request: kind.name(), clients, workers, rate: window.rate(), cpu_us: window.cpu_us() })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = ["command", "clients", "threads", "commands/s", "aim", "CPU us", "aim"];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        for group in groups(&self.samples, |sample| (sample.request, sample.clients, sample.workers)) {
            let Sample { request, clients, workers, rate, cpu_us } = *median_by(group, |sample| sample.rate);
            let aim =
                |aim: f64, is_reached: bool| format!("{aim:.0} {}", if is_reached { "reached" } else { "missed" });
            let is_transfer = request == Kind::Transfer.name();
            table.add_row([
                request.to_owned(),
                clients.to_string(),
                if workers == 0 { "one a core".to_owned() } else { workers.to_string() },
                format!("{rate:.0}"),
                if is_transfer && clients == 256 && workers == 0 {
                    aim(RATE_MIN, rate >= RATE_MIN)
                } else {
                    String::new()
                },
                format!("{cpu_us:.1}"),
                if is_transfer && clients > 1 { aim(CPU_US_MAX, cpu_us <= CPU_US_MAX) } else { String::new() },
            ]);
        }
        writeln!(f, "{table}")?;
        write!(f, "every acknowledged command was synced, and all money is there")
    }
}

/// The aim for transfers a second with 256 clients on two cores.
const RATE_MIN: f64 = 60_000.0;
/// The aim for the CPU time of a transfer, in microseconds.
const CPU_US_MAX: f64 = 15.0;
