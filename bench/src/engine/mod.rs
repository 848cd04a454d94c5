//! Transfers and deposits in process: the engine and its journal, without HTTP.
//!
//! Each client is a task that submits one command after the other; an acknowledged one has been synced. `engines` and `clients`
//! are also those of other benchmarks in process.
//!
//! Over NATS or PostgreSQL each window is followed by one in which as many clients append batches like those of the commands without
//! an engine, to other streams or rows on the same servers: what the engine reaches of that is what it makes of its journal.
//!
//! # Oracle
//! After each window the balances of all accounts add up to what was paid in, or all appended batches are there.
mod bank;
mod bare;
mod clients;
mod contract;
mod decider;
mod engines;
mod store;

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
pub(crate) use self::engines::{Engines, Records, Request, Setup};
use crate::document::PageError;
use crate::measure::write_json;
use crate::served::{BenchError, Journal, groups, median_by};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Commands, one measurement each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Kind::ALL)]
    pub requests: Vec<Kind>,
    /// Where the records are, one measurement each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Journal::Directory])]
    pub journals: Vec<Journal>,
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
    /// There are no servers of NATS or of PostgreSQL.
    #[error(transparent)]
    Servers(#[from] BenchError),
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
    /// Where the records were.
    pub journal: String,
    /// How many clients there were.
    pub clients: u32,
    /// How many threads; 0 is one a core.
    pub workers: usize,
    /// Commands a second that were acknowledged within the window.
    pub rate: f64,
    /// Microseconds of CPU time a command, that of the clients and of the journal's threads included.
    pub cpu_us: f64,
    /// The latency that half of the commands did not exceed, in milliseconds.
    pub p50_ms: f64,
    /// What as many clients have reached without an engine, over NATS or PostgreSQL.
    pub bare: Option<Bare>,
}

/// Appends of batches like those of the commands, without an engine.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Bare {
    /// Batches a second that were acknowledged within the window.
    pub rate: f64,
    /// The latency that half of them did not exceed, in milliseconds.
    pub p50_ms: f64,
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
                    for &journal in &options.journals {
                        samples.push(measure(options, workers, clients, kind, journal)?);
                    }
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

fn measure(
    options: &Options,
    workers: usize,
    clients: u32,
    kind: Kind,
    journal: Journal,
) -> Result<Sample, EngineError> {
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
    let servers = journal.start(directory.path())?;
    let records = servers.options(0).map_or(Records::Directories, Records::Over);
    let setup = Setup { engines: 1, delay: Duration::ZERO, sync_min: None, decider: Decider::default(), records };
    let length = Duration::from_secs(options.seconds);
    let windows = Windows { directory: directory.path(), setup, clients: &[clients], length };
    let windows = runtime.block_on(windows.run(Bank::new(kind, options.accounts)))?;
    let [window] = &windows[..] else { unreachable!("a window for each number of clients") };
    let bare = match servers.options(0).zip(servers.options(1)) {
        Some((commands, beside)) => Some(runtime.block_on(async {
            let batch = bare::Batch::of(commands, kind).await?;
            let window = bare::append(beside, batch, clients, length).await?;
            Ok::<_, EngineError>(Bare { rate: window.rate(), p50_ms: window.latency_ms(0.5) })
        })?),
        None => None,
    };
    Ok(Sample {
        request: kind.name(),
        journal: journal.name("engine"),
        clients,
        workers,
        rate: window.rate(),
        cpu_us: window.cpu_us(),
        p50_ms: window.latency_ms(0.5),
        bare,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = [
            "command",
            "clients",
            "threads",
            "journal",
            "commands/s",
            "aim",
            "CPU us",
            "aim",
            "p50 ms",
            "to bare rate",
            "aim",
            "to bare p50",
            "aim",
        ];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        let key = |sample: &Sample| (sample.request, sample.clients, sample.workers, sample.journal.clone());
        for group in groups(&self.samples, key) {
            let median = median_by(group, |sample| sample.rate);
            let Sample { request, clients, workers, rate, cpu_us, p50_ms, bare, .. } = *median;
            let aim = |aim: f64, is_reached: bool| format!("{aim} {}", if is_reached { "reached" } else { "missed" });
            let is_transfer = request == Kind::Transfer.name() && bare.is_none();
            let to_rate = bare.map(|bare| rate / bare.rate);
            let to_p50 = bare.map(|bare| p50_ms / bare.p50_ms);
            let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            let of = |ratio: Option<f64>, at: u32, aim: &dyn Fn(f64) -> String| {
                ratio.filter(|_| clients == at).map_or_else(String::new, aim)
            };
            table.add_row([
                request.to_owned(),
                clients.to_string(),
                if workers == 0 { "one a core".to_owned() } else { workers.to_string() },
                median.journal.clone(),
                format!("{rate:.0}"),
                if is_transfer && clients == 256 && workers == 0 {
                    aim(RATE_MIN, rate >= RATE_MIN)
                } else {
                    String::new()
                },
                format!("{cpu_us:.1}"),
                if is_transfer && clients > 1 { aim(CPU_US_MAX, cpu_us <= CPU_US_MAX) } else { String::new() },
                format!("{p50_ms:.2}"),
                ratio(to_rate),
                of(to_rate, 256, &|ratio| aim(OF_BARE_RATE_MIN, ratio >= OF_BARE_RATE_MIN)),
                ratio(to_p50),
                of(to_p50, 1, &|ratio| aim(OF_BARE_P50_MAX, ratio <= OF_BARE_P50_MAX)),
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
/// The aim for commands a second over NATS with 256 clients, of appends without an engine.
const OF_BARE_RATE_MIN: f64 = 0.8;
/// The aim for the median latency of a command over NATS with one client, of that of an append without an engine.
const OF_BARE_P50_MAX: f64 = 1.3;
