//! The transfers of the paper on path-sensitive atomic commit over any number of nodes, simulated event by event.
//!
//! With the costs of the paper's cluster, of which one is calibrated, this shows which of its scaling figures follow from locks and
//! queues; with ours, what to expect of machines and distances that are not here. The admission of accounts is the product's.
//!
//! # Source
//! *Path-Sensitive Atomic Commit: Local Coordination Avoidance for Distributed Transactions*, section 5.4, Sync1000.
mod accounts;
mod climb;
mod costs;
mod paper;
mod placement;
mod queues;
mod report;
#[cfg(test)]
mod tests;
mod transfer;
mod world;

use std::io;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

pub use self::accounts::Rule;
use self::climb::{Load, Peak};
use self::costs::Costs;
pub use self::paper::Reproduction;
use self::world::Setup;
use super::amdahl::Amdahl;
use crate::measure::{command_line, in_parallel, write_json};

/// Transfers are between two of so many accounts.
const ACCOUNTS: usize = 1_000;

/// As many as are measured on one.
const NODES_OF_ONE_MACHINE: [u16; 3] = [1, 2, 3];

/// Whose costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// The paper's cluster, on 3, 6 and 9 nodes, and what becomes of its figures if one thing is changed
    Paper,
    /// What was measured of Enact, with four cores a node
    Measured,
    /// The same where all nodes, their servers and their clients share two cores
    OneMachine,
}

/// What to simulate.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Whose costs the steps have
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Source::Paper, Source::Measured, Source::OneMachine])]
    pub costs: Vec<Source>,
    /// Numbers of nodes, with measured costs
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3, 6, 9, 16, 32, 64], value_parser = clap::value_parser!(u16).range(1..=256))]
    pub nodes: Vec<u16>,
    /// How long a message between nodes travels, in milliseconds, with measured costs
    #[arg(long, value_delimiter = ',', default_values_t = [0.25, 1.0, 5.0, 20.0], value_parser = delay)]
    pub delays_ms: Vec<f64>,
    /// What accounts admit, with measured costs
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Rule::ALL)]
    pub strategies: Vec<Rule>,
    /// The most users of each node, with measured costs
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(16..))]
    pub users_max: u16,
    /// How often each load is simulated, with other draws; the tables have the medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// How many transfers are timed at least in each
    #[arg(long, default_value_t = 8_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub transfers: u64,
    /// What everything is drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Writes all figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn delay(text: &str) -> Result<f64, String> {
    let ms = text.parse::<f64>().map_err(|wrong| wrong.to_string())?;
    if (0.0..=1_000.0).contains(&ms) { Ok(ms) } else { Err("from 0 to 1,000".to_owned()) }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The report could not be written.
    #[error("cannot write {}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// The best that a number of nodes does, whatever the number of users.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// What accounts admit.
    pub strategy: Rule,
    /// How many nodes there are.
    pub nodes: usize,
    /// How long a message between them travels.
    pub delay_ms: f64,
    /// How many users ask.
    pub users: usize,
    /// Transfers a second that committed.
    pub rate: f64,
    /// Transfers a second whose coordinator gave up.
    pub failures: f64,
    /// The latency in milliseconds that half of the transfers do not exceed.
    pub p50_ms: f64,
    /// The latency in milliseconds that 99 of 100 transfers do not exceed.
    pub p99_ms: f64,
    /// The part of all cores that is busy.
    pub cpu: f64,
}

/// Amdahl's law through the points of a strategy.
#[derive(Debug, Clone, Serialize)]
pub struct Law {
    /// What accounts admit.
    pub strategy: Rule,
    /// How long a message travels.
    pub delay_ms: f64,
    /// λ, in transfers a second.
    pub lambda: f64,
    /// σ.
    pub sigma: f64,
    /// The part of the variance that the law explains.
    pub r_squared: Option<f64>,
}

impl Law {
    /// Through points of one strategy and delay; none through fewer than three.
    fn of(points: &[Point]) -> Option<Self> {
        let rates: Vec<_> = points.iter().map(|point| (point.nodes as f64, point.rate)).collect();
        let law = Amdahl::fit(&rates)?;
        let Point { strategy, delay_ms, .. } = points[0];
        Some(Self { strategy, delay_ms, lambda: law.lambda, sigma: law.sigma, r_squared: law.r_squared(&rates) })
    }
}

/// All figures; displays as tables.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What the results are of.
    pub benchmark: &'static str,
    /// The command that simulated it.
    pub command: String,
    /// What everything was drawn from.
    pub seed: u64,
    /// With the paper's costs, then with one thing changed at a time.
    pub paper: Vec<Reproduction>,
    /// With measured costs, by delay, strategy and number of nodes.
    pub measured: Vec<Point>,
    /// With those of nodes that share a machine, between which nothing travels, likewise.
    pub one_machine: Vec<Point>,
    /// Through the measured ones, by delay and strategy.
    pub laws: Vec<Law>,
}

/// Simulates everything, on all cores.
///
/// # Errors
/// [`SimulationError`] when there is no place for the report.
///
/// # Panics
/// If an oracle refuses a result.
pub fn run(options: &Options) -> Result<Report, SimulationError> {
    let Options { rounds, transfers, seed, .. } = *options;
    let load = Load { factor: 1.5, users_max: 0, rounds, transfers, seed };
    let has = |source| options.costs.contains(&source);
    let paper =
        if has(Source::Paper) { each(paper::COUNT, |variant| paper::reproduce(variant, &load)) } else { vec![] };
    let load = Load { factor: 2.0, users_max: options.users_max.into(), ..load };
    let points = |source, costs: &Costs, nodes: &[u16], delays_ms: &[f64]| {
        if has(source) { points(costs, (nodes, delays_ms, &options.strategies), &load) } else { vec![] }
    };
    let measured = points(Source::Measured, &Costs::measured(), &options.nodes, &options.delays_ms);
    let one_machine = points(Source::OneMachine, &Costs::on_one_machine(), &NODES_OF_ONE_MACHINE, &[0.0]);
    let laws = measured.chunks(options.nodes.len()).filter_map(Law::of).collect();
    let (benchmark, command) = ("psac-simulation", command_line());
    let report = Report { benchmark, command, seed, paper, measured, one_machine, laws };
    if let Some(path) = &options.json {
        write_json(&report, path).map_err(|source| SimulationError::Report { path: path.clone(), source })?;
    }
    Ok(report)
}

/// The best of each number of nodes, by delay and strategy; the load has the most users of each node.
fn points(costs: &Costs, (nodes, delays_ms, rules): (&[u16], &[f64], &[Rule]), load: &Load) -> Vec<Point> {
    let mut setups = Vec::new();
    for &delay_ms in delays_ms {
        for &rule in rules {
            for &nodes in nodes {
                let (users, accounts, warm_up, timed) = (0, ACCOUNTS, 0, 0);
                let (nodes, seed) = (usize::from(nodes), load.seed);
                setups.push(Setup { costs, nodes, delay_ms, rule, users, accounts, seed, warm_up, timed });
            }
        }
    }
    each(setups.len(), |number| {
        let setup = &setups[number];
        point(setup, &Load { users_max: load.users_max * setup.nodes, ..*load }.climb(setup))
    })
}

fn point(setup: &Setup<'_>, Peak { users, outcome }: &Peak) -> Point {
    Point {
        strategy: setup.rule,
        nodes: setup.nodes,
        delay_ms: setup.delay_ms,
        users: *users,
        rate: outcome.rate,
        failures: outcome.failures,
        p50_ms: outcome.p50_ms,
        p99_ms: outcome.p99_ms,
        cpu: outcome.cpu,
    }
}

/// The results of `work` for each number below `count`, in order, whichever core works on which.
fn each<R: Send>(count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (parts, _) = in_parallel(threads, |thread| {
        (thread..count).step_by(threads).map(|number| (number, work(number))).collect::<Vec<_>>()
    });
    let mut results: Vec<_> = parts.into_iter().flatten().collect();
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
