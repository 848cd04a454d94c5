//! The experiments of the paper on path-sensitive atomic commit, in process: accounts opened, and money transferred between a hundred
//! thousand accounts, a thousand, a hundred, and to one; and known benchmarks of transactions, written in Rebel. Each runs under each
//! admission strategy, in one engine or several. `baselines` are what the paper puts under them: HTTP, actors, a forced record.
//!
//! Each client is a task that submits one command after the other. Engines have a journal each, and reach each other by messages
//! that travel so long as is said. Under two engines and more a transaction commits in two phases.
//!
//! # Oracle
//! After the last window the balances of all accounts of a bank add up to what was paid in; `workloads` have oracles of their own. A
//! command that has another outcome than intended ends the benchmark.
//!
//! # Source
//! *Path-Sensitive Atomic Commit: Local Coordination Avoidance for Distributed Transactions*, section 5.
mod amdahl;
mod baselines;
mod page;
mod report;
pub mod simulation;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use tokio::runtime;

use self::baselines::Layer;
pub(crate) use self::page::document;
pub(crate) use self::report::NAME;
pub use self::report::{Report, Sample};
use self::workloads::{Aborts, ClosedEconomy, NewOrder, SmallBank, Tax};
use crate::document::Pages;
use crate::engine::{Bank, Decider, EngineError, Kind, Records, Setup, Window, Windows};
use crate::measure::{Machine, command_line, write_json};
use crate::served::Journal;

/// What stands in the place of a strategy where there is nothing to admit.
const NO_STRATEGY: &str = "none";

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experiment {
    /// HTTP answers
    Bare,
    /// HTTP answers, and a fresh actor for each request
    Simple,
    /// HTTP answers, and one of 1,000 actors that are kept
    Sharded,
    /// HTTP answers, and one of 1,000 objects, whose record is forced
    Persistent,
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
    /// One of 10,000 payers pays to the one office
    Tax,
    /// Six transactions on savings and checking accounts of 10,000 customers, drawn by Zipf's law
    SmallBank,
    /// Orders of 5 to 15 lines, in 20 districts of two warehouses
    NewOrder,
    /// Two of 10,000 accounts, drawn by Zipf's law, are read and written
    YcsbT,
    /// A payment between two of 1,000 accounts
    Aborts0,
    /// The same, of which the payee refuses one in a hundred
    Aborts1,
    /// The same, of which the payee refuses one in ten
    Aborts10,
    /// The same, of which the payee refuses every other one
    Aborts50,
}

impl Experiment {
    /// Those of the paper, and one with a hot account.
    pub const OF_THE_PAPER: [Self; 5] = [Self::NoSync, Self::Sync, Self::Sync1000, Self::Sync100, Self::Hot];

    /// All there are.
    pub const ALL: [Self; 17] = [
        Self::Bare,
        Self::Simple,
        Self::Sharded,
        Self::Persistent,
        Self::NoSync,
        Self::Sync,
        Self::Sync1000,
        Self::Sync100,
        Self::Hot,
        Self::Tax,
        Self::SmallBank,
        Self::NewOrder,
        Self::YcsbT,
        Self::Aborts0,
        Self::Aborts1,
        Self::Aborts10,
        Self::Aborts50,
    ];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Simple => "simple",
            Self::Sharded => "sharded",
            Self::Persistent => "persistent",
            Self::NoSync => "nosync",
            Self::Sync => "sync",
            Self::Sync1000 => "sync1000",
            Self::Sync100 => "sync100",
            Self::Hot => "hot",
            Self::Tax => "tax",
            Self::SmallBank => "smallbank",
            Self::NewOrder => "neworder",
            Self::YcsbT => "ycsb-t",
            Self::Aborts0 => "aborts0",
            Self::Aborts1 => "aborts1",
            Self::Aborts10 => "aborts10",
            Self::Aborts50 => "aborts50",
        }
    }

    /// What it does, in a few words.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Bare => "HTTP answers",
            Self::Simple => "HTTP answers, and a fresh actor for each request",
            Self::Sharded => "HTTP answers, and one of 1,000 actors that are kept",
            Self::Persistent => "HTTP answers, and one of 1,000 objects, whose record is forced before",
            Self::NoSync => "A new account: one object",
            Self::Sync => "A transfer between two of 100,000 accounts",
            Self::Sync1000 => "A transfer between two of 1,000 accounts",
            Self::Sync100 => "A transfer between two of 100 accounts",
            Self::Hot => "A transfer from one of 1,000 accounts to one that all transfers have in common",
            Self::Tax => "One of 10,000 payers pays to the one office",
            Self::SmallBank => "SmallBank: six transactions on savings and checking accounts of 10,000 customers",
            Self::NewOrder => "New-Order of TPC-C: 5 to 15 lines, in 20 districts of two warehouses",
            Self::YcsbT => "The closed economy of YCSB+T: two of 10,000 accounts are read and written",
            Self::Aborts0 => "A payment between two of 1,000 accounts",
            Self::Aborts1 => "A payment, of which the payee refuses one in a hundred",
            Self::Aborts10 => "A payment, of which the payee refuses one in ten",
            Self::Aborts50 => "A payment, of which the payee refuses every other one",
        }
    }

    /// The rate that is aimed at as a multiple of that of locking, where a sync takes a millisecond.
    fn aim(self, clients: u32, engines: u8) -> Option<f64> {
        match self {
            Self::NoSync | Self::Sync => Some(0.95),
            Self::Hot if clients == 64 => Some(30.0),
            Self::Sync100 if clients == 64 && engines == 2 => Some(2.0),
            _ => None,
        }
    }

    /// What is asked of a bank with how many accounts; none where it is another workload.
    pub(crate) const fn bank(self) -> Option<(Kind, u32)> {
        match self {
            Self::NoSync => Some((Kind::Open, 2)),
            Self::Sync => Some((Kind::Transfer, 100_000)),
            Self::Sync1000 => Some((Kind::Transfer, 1_000)),
            Self::Sync100 => Some((Kind::Transfer, 100)),
            Self::Hot => Some((Kind::TransferHot, 1_000)),
            Self::Bare
            | Self::Simple
            | Self::Sharded
            | Self::Persistent
            | Self::Tax
            | Self::SmallBank
            | Self::NewOrder
            | Self::YcsbT
            | Self::Aborts0
            | Self::Aborts1
            | Self::Aborts10
            | Self::Aborts50 => None,
        }
    }

    /// Whether it has no transactions that strategies could admit, and no messages between engines.
    const fn is_baseline(self) -> bool {
        matches!(self, Self::Bare | Self::Simple | Self::Sharded | Self::Persistent)
    }

    async fn run(self, windows: &Windows<'_>, zipf: f64) -> Result<Vec<Window>, EngineError> {
        match self {
            Self::Bare => Layer::Bare.run(windows).await,
            Self::Simple => Layer::Simple.run(windows).await,
            Self::Sharded => Layer::Sharded.run(windows).await,
            Self::Persistent => Layer::Persistent.run(windows).await,
            Self::NoSync | Self::Sync | Self::Sync1000 | Self::Sync100 | Self::Hot => {
                let (kind, accounts) = self.bank().expect("one with a bank");
                windows.run(Bank::new(kind, accounts)).await
            }
            Self::Tax => windows.run(Tax::new(10_000)).await,
            Self::SmallBank => windows.run(SmallBank::new(10_000, zipf)).await,
            Self::NewOrder => windows.run(NewOrder::new()).await,
            Self::YcsbT => windows.run(ClosedEconomy::new(10_000, zipf)).await,
            Self::Aborts0 => windows.run(Aborts::new(1_000, 0)).await,
            Self::Aborts1 => windows.run(Aborts::new(1_000, 1)).await,
            Self::Aborts10 => windows.run(Aborts::new(1_000, 10)).await,
            Self::Aborts50 => windows.run(Aborts::new(1_000, 50)).await,
        }
    }
}

impl ValueEnum for Experiment {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.description()))
    }
}

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Experiments, with new entities each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Experiment::OF_THE_PAPER)]
    pub experiments: Vec<Experiment>,
    /// Admission strategies, with new entities each; `static` is for comparison: what is known to be independent in advance, then
    /// locking
    #[arg(long, value_delimiter = ',', value_parser = Decider::parse, default_values_t = Decider::STRATEGIES)]
    pub strategies: Vec<Decider>,
    /// Numbers of engines, with new entities each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = clap::value_parser!(u8).range(1..=64))]
    pub engines: Vec<u8>,
    /// How long messages between engines travel, in milliseconds; with new entities each where there are several engines
    #[arg(long, value_delimiter = ',', default_values_t = [0.0])]
    pub delays_ms: Vec<f64>,
    /// The engines are nodes of a cluster over three servers of NATS, which are processes of this machine and sync as its disk does; not for
    /// the baselines and `static`
    #[arg(long, conflicts_with_all = ["delays_ms", "sync_min_ms"])]
    pub cluster: bool,
    /// Numbers of clients, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 256], value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub clients: Vec<u32>,
    /// The exponent of Zipf's law where customers or accounts are drawn by it; 0 draws uniformly
    #[arg(long, default_value_t = 0.99, value_parser = exponent)]
    pub zipf: f64,
    /// How long a sync takes at least, in milliseconds; 0 leaves it to the disk
    #[arg(long, default_value_t = 1.0)]
    pub sync_min_ms: f64,
    /// How long each measurement takes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// How often each is taken; the table shows the medians, and from five on pages say how sure they are
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Writes all samples as JSON, from which `enact-bench report` makes pages later
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// What else to write
    #[command(flatten)]
    pub pages: Pages,
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse::<f64>().map_err(|wrong| wrong.to_string())?;
    if (0.0..=10.0).contains(&exponent) { Ok(exponent) } else { Err("from 0 to 10".to_owned()) }
}

/// Takes every measurement, interleaved over the rounds.
///
/// # Errors
/// [`EngineError`] when a command has another outcome than intended, the oracle refuses a result, or the system lacks something.
///
/// # Panics
/// If a contract is not Rebel.
pub fn run(options: &Options) -> Result<Report, EngineError> {
    let is_baseline = options.experiments.iter().any(|experiment| experiment.is_baseline());
    if options.cluster && (is_baseline || options.strategies.contains(&Decider::Static)) {
        return Err(EngineError::Wrong("nodes have neither the baselines nor static independence".to_owned()));
    }
    let mut machine = Machine::here();
    let mut samples = Vec::new();
    for _ in 0..options.rounds {
        for &experiment in &options.experiments {
            for &engines in &options.engines {
                let is_baseline = experiment.is_baseline();
                let delays = if engines == 1 || is_baseline { &[0.0][..] } else { &options.delays_ms };
                let deciders = if is_baseline { &[Decider::default()][..] } else { &options.strategies };
                for &delay_ms in delays {
                    for &decider in deciders {
                        samples.extend(measure(options, (experiment, decider), (engines, delay_ms))?);
                    }
                }
            }
        }
    }
    machine.measured();
    let report = Report {
        benchmark: NAME.to_owned(),
        command: command_line(),
        machine,
        sync_min_ms: if options.cluster { 0.0 } else { options.sync_min_ms },
        zipf: options.zipf,
        seconds: options.seconds,
        samples,
    };
    if let Some(path) = &options.json {
        let refused = |source| EngineError::System { what: path.display().to_string(), source };
        write_json(&report, path).map_err(refused)?;
    }
    options.pages.write(|| document(&report))?;
    Ok(report)
}

fn span(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1_000.0).unwrap_or_default()
}

/// The same entities, asked by each number of clients after the other.
fn measure(
    options: &Options,
    (experiment, decider): (Experiment, Decider),
    (engines, delay_ms): (u8, f64),
) -> Result<Vec<Sample>, EngineError> {
    let refused = |what: &str| {
        let what = what.to_owned();
        move |source| EngineError::System { what, source }
    };
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().map_err(refused("threads"))?;
    let directory = tempfile::tempdir().map_err(refused("a directory"))?;
    let servers = if options.cluster { Journal::NatsThree } else { Journal::Directory }.start(directory.path())?;
    let records = if options.cluster { Records::Cluster(servers.addresses()) } else { Records::Directories };
    let setup = Setup {
        engines: usize::from(engines),
        delay: span(delay_ms),
        sync_min: Some(span(options.sync_min_ms)).filter(|sync| !sync.is_zero()),
        decider,
        records,
    };
    let length = Duration::from_secs(options.seconds);
    let windows = Windows { directory: directory.path(), setup, clients: &options.clients, length };
    let windows = runtime.block_on(experiment.run(&windows, options.zipf))?;
    let sample = |(&clients, window): (&u32, Window)| Sample {
        experiment: experiment.name().to_owned(),
        engines,
        delay_ms,
        clients,
        strategy: if experiment.is_baseline() { NO_STRATEGY.to_owned() } else { decider.to_string() },
        rate: window.rate(),
        aim: experiment.aim(clients, engines).filter(|_| decider == Decider::default()),
        p50_ms: window.latency_ms(0.5),
        p95_ms: window.latency_ms(0.95),
        p99_ms: window.latency_ms(0.99),
        cpu_us: window.cpu_us(),
        refused: window.work.refused,
        turned_away: window.work.turned_away,
    };
    Ok(options.clients.iter().zip(windows).map(sample).collect())
}
