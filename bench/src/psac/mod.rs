//! The experiments of the paper on path-sensitive atomic commit, in process: accounts opened, and money transferred between a hundred
//! thousand accounts, a thousand, a hundred, and to one, under each admission strategy, in one engine or several.
//!
//! Each client is a task that submits one command after the other. Engines have a journal each, and reach each other by messages
//! that travel so long as is said. Under two engines and more a transaction commits in two phases.
//!
//! # Oracle
//! After the last window of a bank the balances of all accounts add up to what was paid in.
//!
//! # Source
//! *Path-Sensitive Atomic Commit: Local Coordination Avoidance for Distributed Transactions*, section 5.
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use enact_entities::Strategy;
use serde::Serialize;
use tokio::runtime;

use crate::engine::EngineError;
use crate::engine::bank::{Bank, Kind, Setup, Work};
use crate::measure::{cpu_time_of_process, write_json};
use crate::served::{groups, median_by};

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experiment {
    /// A new account: one object
    NoSync,
    /// A transfer between two of 100,000 accounts
    Sync,
    /// A transfer between two of 1,000 accounts
    Sync1000,
    /// A transfer between two of 100 accounts
    Sync100,
    /// A transfer from one of 1,000 accounts to one that all transfers have in common
    Hot,
}

impl Experiment {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::NoSync, Self::Sync, Self::Sync1000, Self::Sync100, Self::Hot];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSync => "nosync",
            Self::Sync => "sync",
            Self::Sync1000 => "sync1000",
            Self::Sync100 => "sync100",
            Self::Hot => "hot",
        }
    }

    const fn accounts(self) -> u32 {
        match self {
            Self::NoSync => 2,
            Self::Sync => 100_000,
            Self::Sync1000 | Self::Hot => 1_000,
            Self::Sync100 => 100,
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::NoSync => Kind::Open,
            Self::Sync | Self::Sync1000 | Self::Sync100 => Kind::Transfer,
            Self::Hot => Kind::TransferHot,
        }
    }

    /// The rate that is aimed at as a multiple of that of locking, where a sync takes a millisecond.
    fn aim(self, clients: u32, engines: usize) -> Option<f64> {
        match self {
            Self::NoSync | Self::Sync => Some(0.95),
            Self::Hot if clients == 64 => Some(30.0),
            Self::Sync100 if clients == 64 && engines == 2 => Some(2.0),
            _ => None,
        }
    }
}

impl ValueEnum for Experiment {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Experiments, one bank each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Experiment::ALL)]
    pub experiments: Vec<Experiment>,
    /// Admission strategies, one bank each
    #[arg(long, value_delimiter = ',', value_parser = strategy, default_values_t = Strategy::ALL)]
    pub strategies: Vec<Strategy>,
    /// Numbers of engines, one bank each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = clap::value_parser!(u8).range(1..=64))]
    pub engines: Vec<u8>,
    /// How long messages between engines travel, in milliseconds; one bank each where there are several engines
    #[arg(long, value_delimiter = ',', default_values_t = [0.0])]
    pub delays_ms: Vec<f64>,
    /// Numbers of clients, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 256], value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub clients: Vec<u32>,
    /// How long a sync takes at least, in milliseconds; 0 leaves it to the disk
    #[arg(long, default_value_t = 1.0)]
    pub sync_min_ms: f64,
    /// How long each measurement takes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// How often each is taken, at most 4 times; the table shows the medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=4))]
    pub rounds: u32,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// One verified measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// The experiment.
    pub experiment: &'static str,
    /// How many engines there were.
    pub engines: u8,
    /// How long a message travelled, in milliseconds.
    pub delay_ms: f64,
    /// How many clients there were.
    pub clients: u32,
    /// The admission strategy.
    pub strategy: String,
    /// Acknowledged commands a second.
    pub rate: f64,
    /// The rate as a multiple of that which is aimed at, where there is an aim: to be divided by that of locking.
    pub aim: Option<f64>,
    /// The latency in milliseconds that half of the commands do not exceed.
    pub p50_ms: f64,
    /// The latency in milliseconds that 99 of 100 commands do not exceed.
    pub p99_ms: f64,
    /// Microseconds of CPU time a command, that of the clients and of the journals' threads included.
    pub cpu_us: f64,
    /// How often a command was turned away, and was submitted again.
    pub turned_away: u64,
}

/// All samples; displays as a table of median rates.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How long a sync took at least, in milliseconds.
    pub sync_min_ms: f64,
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
        for &experiment in &options.experiments {
            for &engines in &options.engines {
                let delays = if engines == 1 { &[0.0][..] } else { &options.delays_ms };
                for &delay_ms in delays {
                    for &strategy in &options.strategies {
                        samples.extend(measure(options, (experiment, strategy), (engines, delay_ms))?);
                    }
                }
            }
        }
    }
    let report = Report { sync_min_ms: options.sync_min_ms, samples };
    if let Some(path) = &options.json {
        let refused = |source| EngineError::System { what: path.display().to_string(), source };
        write_json(&report, path).map_err(refused)?;
    }
    Ok(report)
}

fn strategy(name: &str) -> Result<Strategy, String> {
    let known = || Strategy::ALL.map(|strategy| strategy.to_string()).join(", ");
    let found = Strategy::ALL.into_iter().find(|strategy| strategy.to_string() == name);
    found.ok_or_else(|| format!("there are {}", known()))
}

fn span(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1_000.0).unwrap_or_default()
}

/// One bank, asked by each number of clients after the other.
fn measure(
    options: &Options,
    (experiment, strategy): (Experiment, Strategy),
    (engines, delay_ms): (u8, f64),
) -> Result<Vec<Sample>, EngineError> {
    let refused = |what: &str| {
        let what = what.to_owned();
        move |source| EngineError::System { what, source }
    };
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().map_err(refused("threads"))?;
    let directory = tempfile::tempdir().map_err(refused("a directory"))?;
    let setup = Setup {
        accounts: experiment.accounts(),
        engines: usize::from(engines),
        delay: span(delay_ms),
        sync_min: Some(span(options.sync_min_ms)).filter(|sync| !sync.is_zero()),
        strategy,
    };
    let bank = Bank::begin(directory.path(), &setup)?;
    runtime.block_on(async {
        bank.open_accounts().await?;
        let mut samples = Vec::new();
        for (run, &clients) in options.clients.iter().enumerate() {
            let (begin, cpu_before) = (Instant::now(), cpu_time_of_process());
            let over = begin + Duration::from_secs(options.seconds);
            let clients_run =
                (0..clients).map(|number| tokio::spawn(bank.clone().client(experiment.kind(), (run, number), over)));
            let mut work = Work::default();
            for client in clients_run.collect::<Vec<_>>() {
                work.add(&client.await.expect("a client does not panic")?);
            }
            let (wall, cpu) = (begin.elapsed(), cpu_time_of_process() - cpu_before);
            #[expect(clippy::cast_precision_loss, reason = "figures for people")]
            let (count, ms) = (work.done() as f64, |part| work.latency_us.value_at_quantile(part) as f64 / 1_000.0);
            samples.push(Sample {
                experiment: experiment.name(),
                engines,
                delay_ms,
                clients,
                strategy: strategy.to_string(),
                rate: count / wall.as_secs_f64(),
                aim: experiment.aim(clients, usize::from(engines)).filter(|_| strategy == Strategy::Serializable),
                p50_ms: ms(0.5),
                p99_ms: ms(0.99),
                cpu_us: cpu.as_secs_f64() * 1e6 / count,
                turned_away: work.turned_away,
            });
        }
        bank.verify(bank.opening_cents()).await?;
        Ok(samples)
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = [
            "experiment",
            "engines",
            "delay ms",
            "clients",
            "strategy",
            "tx/s",
            "of locking",
            "aim",
            "p50 ms",
            "p99 ms",
            "CPU us",
            "turned away",
        ];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        let key = |sample: &Sample| {
            (sample.experiment, sample.engines, sample.delay_ms.to_bits(), sample.clients, sample.strategy.clone())
        };
        let medians: Vec<&Sample> =
            groups(&self.samples, key).into_iter().map(|group| median_by(group, |sample| sample.rate)).collect();
        let locking = |of: &Sample| {
            let is_alike = |sample: &&&Sample| {
                sample.strategy == Strategy::Locking.to_string()
                    && (sample.experiment, sample.engines, sample.clients) == (of.experiment, of.engines, of.clients)
                    && sample.delay_ms.to_bits() == of.delay_ms.to_bits()
            };
            medians.iter().find(is_alike).map(|locking| locking.rate)
        };
        for sample in &medians {
            let Sample {
                experiment,
                engines,
                delay_ms,
                clients,
                strategy,
                rate,
                aim,
                p50_ms,
                p99_ms,
                cpu_us,
                turned_away,
            } = sample;
            let times = locking(sample).map(|locking| rate / locking);
            let aim =
                aim.zip(times).map(|(aim, times)| format!("{aim} {}", if times >= aim { "reached" } else { "missed" }));
            table.add_row([
                (*experiment).to_owned(),
                engines.to_string(),
                format!("{delay_ms}"),
                clients.to_string(),
                strategy.clone(),
                format!("{rate:.0}"),
                times.map_or_else(String::new, |times| format!("{times:.2}")),
                aim.unwrap_or_default(),
                format!("{p50_ms:.1}"),
                format!("{p99_ms:.1}"),
                format!("{cpu_us:.0}"),
                turned_away.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        match self.sync_min_ms {
            0.0 => write!(f, "a sync took what the disk took; all money is there"),
            sync => write!(f, "a sync took {sync} ms at least; all money is there"),
        }
    }
}
