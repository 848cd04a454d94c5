//! How long the entities of several nodes are not served when a node is killed, stops or joins.
//!
//! Three servers of NATS are processes of this machine, and the nodes are in this process: one that is killed ends with all its tasks and connections
//! at once, and with its lease. For each shard a client deposits to an account of it, one euro after the other, at a node that stays.
//!
//! # Oracle
//! In the end each account holds what was acknowledged, and no more than that with what was in doubt.
mod bank;
mod client;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use enact_entities::Entities as _;
use serde::Serialize;
use tokio::time::sleep;

use self::bank::Bank;
pub(crate) use self::bank::{Node, join};
use self::client::{Clients, Outage};
use crate::measure::write_json;
use crate::served::{BenchError, Journal};

/// How long clients go on before and behind an event.
const CALM: Duration = Duration::from_secs(1);
/// How long a node may take to end what is under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// How long a node counts as alive that is not heard of any more, in seconds
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(13..))]
    pub lease: u64,
    /// How many shards there are
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(2..=256))]
    pub shards: u16,
    /// How often each event happens; the table shows the medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodesError {
    /// There are no servers of NATS, no threads, or no place for the report.
    #[error(transparent)]
    Servers(#[from] BenchError),
    /// A node cannot join.
    #[error("a node cannot join")]
    Join(#[from] enact_cluster::JoinError),
    /// An account holds something else than what was acknowledged.
    #[error("{account} holds EUR {found}, not EUR {least} to {most}")]
    Wrong {
        /// Its id.
        account: String,
        /// What it holds.
        found: i64,
        /// What was acknowledged.
        least: i64,
        /// The same with what was in doubt.
        most: i64,
    },
    /// An account cannot be opened or read.
    #[error("an account cannot be used: {0}")]
    Account(String),
}

/// What happens to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// It ends at once, and its lease does not.
    Killed,
    /// It gives its shards away, and then its lease.
    Stopped,
    /// It gets its part of the shards.
    Joined,
}

/// One event.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// What has happened.
    pub event: Event,
    /// Milliseconds from its beginning until the last shard that had another owner was served by the next one.
    pub over_ms: f64,
    /// Of each of these shards, the longest time between two answers, in milliseconds; the shortest first.
    pub outages_ms: Vec<f64>,
    /// The same in the second before, when nothing happened.
    pub before_ms: Vec<f64>,
}

/// All samples; displays as a table of medians.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How long a lease lasts, in seconds.
    pub lease: u64,
    /// Every event, in the order in which they happened.
    pub samples: Vec<Sample>,
}

/// Lets every event happen, in turns.
///
/// # Errors
/// [`NodesError`] when there are no servers, a node cannot join, or the oracle refuses what accounts hold.
///
/// # Panics
/// If a server does not start.
pub fn run(options: &Options) -> Result<Report, NodesError> {
    let system = |cause: std::io::Error| BenchError::Server { doing: "making room for NATS", cause: cause.to_string() };
    let directory = tempfile::tempdir().map_err(system)?;
    let servers = Journal::NatsThree.start(directory.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(system)?;
    let samples = runtime.block_on(async {
        let bank = Bank::over(&servers, options.lease, options.shards);
        let staying = bank.join("a").await?;
        bank.open(&staying).await?;
        let mut samples = Vec::new();
        for _ in 0..options.rounds {
            for event in [Event::Joined, Event::Stopped, Event::Killed] {
                samples.push(measure(&bank, &staying, event).await?);
            }
        }
        bank.verify(&staying).await?;
        staying.leave(PATIENCE).await;
        Ok::<_, NodesError>(samples)
    })?;
    let report = Report { lease: options.lease, samples };
    if let Some(path) = &options.json {
        write_json(&report, path).map_err(|cause| BenchError::Report { path: path.clone(), cause })?;
    }
    Ok(report)
}

async fn measure(bank: &Bank, staying: &Node, event: Event) -> Result<Sample, NodesError> {
    let other = match event {
        Event::Joined => None,
        Event::Stopped | Event::Killed => {
            let other = bank.join("b").await?;
            settled(staying, &other).await;
            Some(other)
        }
    };
    let moving = match &other {
        Some(other) => shards(other),
        None => Vec::new(),
    };
    let clients = Clients::of(bank, staying);
    sleep(CALM).await;
    let begun = clients.begin();
    let (joined, moved) = match (event, other) {
        (Event::Stopped, Some(other)) => {
            other.leave(PATIENCE).await;
            (None, moving)
        }
        (Event::Killed, Some(other)) => {
            drop(other);
            while shards(staying).len() < usize::from(bank.shards()) {
                sleep(Duration::from_millis(5)).await;
            }
            (None, moving)
        }
        _ => {
            let joined = bank.join("b").await?;
            settled(staying, &joined).await;
            let moved = shards(&joined);
            (Some(joined), moved)
        }
    };
    sleep(CALM).await;
    let outages: Vec<Outage> = clients.end().await.into_iter().filter(|outage| moved.contains(&outage.shard)).collect();
    if let Some(joined) = joined {
        joined.leave(PATIENCE).await;
    }
    let over = outages.iter().map(|outage| outage.end.saturating_duration_since(begun)).max().unwrap_or_default();
    let sorted = |length: fn(&Outage) -> Duration| {
        let mut sorted: Vec<f64> = outages.iter().map(|outage| millis(length(outage))).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (outages_ms, before_ms) = (sorted(|outage| outage.length), sorted(|outage| outage.before));
    Ok(Sample { event, over_ms: millis(over), outages_ms, before_ms })
}

/// The shards that the node serves.
pub(crate) fn shards(node: &Node) -> Vec<u16> {
    node.membership().map(|membership| membership.shards).unwrap_or_default()
}

async fn settled(one: &Node, other: &Node) {
    while shards(one).is_empty() || shards(other).is_empty() {
        one.settled().await;
        other.settled().await;
        sleep(Duration::from_millis(5)).await;
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header([
            "a node",
            "all shards served again, ms",
            "at most",
            "a shard without an answer, ms",
            "at most",
            "the second before, ms",
        ]);
        for (event, name) in [
            (Event::Joined, "joins".to_owned()),
            (Event::Stopped, "stops".to_owned()),
            (Event::Killed, format!("is killed, beyond the lease of {} s", self.lease)),
        ] {
            let lease_ms = if event == Event::Killed { millis(Duration::from_secs(self.lease)) } else { 0.0 };
            let of: Vec<&Sample> = self.samples.iter().filter(|sample| sample.event == event).collect();
            let overs: Vec<f64> = of.iter().map(|sample| sample.over_ms - lease_ms).collect();
            let outages: Vec<f64> =
                of.iter().flat_map(|sample| &sample.outages_ms).map(|outage| outage - lease_ms).collect();
            let most = |figures: &[f64]| figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let before = median(of.iter().flat_map(|sample| &sample.before_ms).copied().collect());
            let cells = [median(overs.clone()), most(&overs), median(outages.clone()), most(&outages), before];
            table.add_row([name].into_iter().chain(cells.map(|cell| format!("{cell:.0}"))));
        }
        write!(f, "{table}")
    }
}
