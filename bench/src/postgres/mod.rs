//! Transfers in Enact over HTTP beside the same transfers as a stored procedure in PostgreSQL over its socket, on the same disk.
//!
//! Both servers are processes of their own that force each acknowledged transfer to the disk; both share the machine with the one
//! thread of clients. A client asks for one transfer after the other. PostgreSQL gets what makes it fast: statements that are prepared
//! once a connection, one round trip a transfer, `bigint` keys, and a pool that clients share where they are more than its
//! connections. What is measured is Enact beside the pool that does best.
//!
//! # Why a benchmark of its own
//! `psac` has clients and engine in one process, without HTTP, and a sync as long as is said. No server can be put beside that.
//!
//! # Oracle
//! After each window every account holds what the acknowledged transfers leave there, and the objects that they have made are there:
//! all of them in PostgreSQL, up to ten thousand evenly chosen ones in Enact, which tells them one by one.
mod cluster;
mod enact;
mod ledger;
mod report;
mod window;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use self::cluster::{Cluster, Database};
use self::enact::Enact;
use self::ledger::Workload;
pub use self::report::{Report, Sample};
use self::window::Window;
use crate::measure::{Machine, command_line, median, write_json};
use crate::psac::Experiment;
use crate::served::{BenchError, block_on, program};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Experiments of the paper: nosync, sync, sync1000, sync100 or hot
    #[arg(long, value_delimiter = ',', value_parser = of_the_paper, default_value = "nosync,sync1000,sync100,hot")]
    pub experiments: Vec<Experiment>,
    /// Numbers of clients, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 256], value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub clients: Vec<u32>,
    /// Connections to PostgreSQL at most, one measurement each; clients share them where they are more
    #[arg(long, value_delimiter = ',', default_values_t = [16, 256], value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub connections: Vec<u32>,
    /// Length of each measured window, in seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Unmeasured time before each window, in seconds
    #[arg(long, default_value_t = 1)]
    pub warm_up: u64,
    /// How often each measurement is taken, interleaved; the table shows medians, from five on with intervals
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seed of the clients' draws
    #[arg(long, default_value_t = 74_755)]
    pub seed: u64,
    /// The program `enact` that serves; built with cargo from this workspace, as its users build it, when missing
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// The program that runs PostgreSQL in a directory
    #[arg(long, value_name = "PATH", default_value = "bench/peers/postgres/run")]
    pub postgres: PathBuf,
    /// Parent of all data; on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub data: PathBuf,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn of_the_paper(text: &str) -> Result<Experiment, String> {
    let found = Experiment::from_str(text, false).ok().filter(|experiment| experiment.bank().is_some());
    found.ok_or_else(|| "one of nosync, sync, sync1000, sync100 and hot".to_owned())
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The served bank could not be built, started or used.
    #[error(transparent)]
    Served(#[from] BenchError),
    /// PostgreSQL refuses something that must be possible.
    #[error("PostgreSQL failed")]
    Database(#[from] tokio_postgres::Error),
    /// A bank holds something else than what was acknowledged.
    #[error("{0}")]
    Wrong(String),
    /// There is no place for data or the report, or a program cannot be run.
    #[error("the system refuses {what}")]
    System {
        /// What was asked for.
        what: String,
        /// What went wrong.
        source: io::Error,
    },
}

fn refused(what: &Path) -> impl FnOnce(io::Error) -> PostgresError {
    move |source| PostgresError::System { what: what.display().to_string(), source }
}

/// Measures both, interleaved over the rounds; Enact alone where there is no PostgreSQL, which the report says.
///
/// # Errors
/// [`PostgresError`] when a server cannot be used, answers something unexpected, or the oracle refuses a result.
///
/// # Panics
/// Without a number of connections.
pub fn run(options: &Options) -> Result<Report, PostgresError> {
    let program = program(options.program.as_deref())?;
    let connections_max = *options.connections.iter().max().expect("a number of connections");
    let mut machine = Machine::here();
    let sync_ms = sync_ms(&options.data)?;
    let cluster = Cluster::start(&options.postgres, &options.data, connections_max)?;
    let samples = block_on(measure_all(options, &program, cluster.as_ref().ok()))?;
    machine.measured();
    let report = Report {
        benchmark: "postgres".to_owned(),
        command: command_line(),
        machine,
        postgres: cluster.map(|cluster| cluster.version().to_owned()),
        sync_ms,
        seconds: options.seconds,
        samples,
    };
    if let Some(path) = &options.json {
        write_json(&report, path).map_err(refused(path))?;
    }
    Ok(report)
}

/// How long a forced write of 4 KiB takes, in milliseconds.
fn sync_ms(directory: &Path) -> Result<f64, PostgresError> {
    const WRITES: usize = 32;
    let write_all = || {
        let mut file: File = tempfile::tempfile_in(directory)?;
        let mut write = || {
            let begun = Instant::now();
            file.write_all(&[0; 4_096])?;
            file.sync_data()?;
            Ok::<_, io::Error>(begun.elapsed().as_secs_f64() * 1_000.0)
        };
        (0..WRITES).map(|_| write()).collect::<io::Result<Vec<_>>>()
    };
    write_all().map(|times| median(&times)).map_err(refused(directory))
}

/// Who keeps the accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    Enact,
    /// With so many connections.
    Postgres(u32),
}

/// Enact, and PostgreSQL with each number of connections that is another one for so many clients.
fn contenders(options: &Options, clients: u32, has_postgres: bool) -> Vec<Contender> {
    let mut pools: Vec<_> = options.connections.iter().map(|&connections| connections.min(clients)).collect();
    pools.sort_unstable();
    pools.dedup();
    let pools = pools.into_iter().filter(|_| has_postgres).map(Contender::Postgres);
    std::iter::once(Contender::Enact).chain(pools).collect()
}

async fn measure_all(
    options: &Options,
    program: &Path,
    cluster: Option<&Cluster>,
) -> Result<Vec<Sample>, PostgresError> {
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        for &experiment in &options.experiments {
            for &clients in &options.clients {
                let workload = Workload::new(experiment);
                let window = Window {
                    warm_up: Duration::from_secs(options.warm_up),
                    length: Duration::from_secs(options.seconds),
                    seed: options.seed ^ (u64::from(round) << 32),
                    clients,
                };
                let mut contenders = contenders(options, clients, cluster.is_some());
                // Each comes first in its turn.
                let first = usize::try_from(round).expect("few") % contenders.len();
                contenders.rotate_left(first);
                for contender in contenders {
                    eprintln!("round {round}: {}, {clients} clients, {contender:?}", experiment.name());
                    let measured = match (contender, cluster) {
                        (Contender::Postgres(connections), Some(cluster)) => {
                            let database = Database::open(cluster, &workload, connections).await?;
                            window.measure(&database, &workload).await?
                        }
                        _ => {
                            let enact = Enact::start(program, &options.data, &workload).await?;
                            let measured = window.measure(&enact, &workload).await?;
                            enact.stop().await?;
                            measured
                        }
                    };
                    samples.push(measured.sample(experiment, contender, options.seconds));
                }
            }
        }
    }
    Ok(samples)
}
