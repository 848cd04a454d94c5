//! What a hot object costs its neighbours: deposits elsewhere while an object keeps a core busy, against the same deposits while
//! another process uses as much CPU time.
//!
//! The hot object is a mill, whose every event reads a long list; a few clients keep it busy. What it used is known from the CPU time
//! of an event while nothing else happens, times the events. A process that uses the same part of a core, and nothing else, is what
//! any neighbour would cost; what is lost beyond that is lost to the server's own threads.
//!
//! # Oracle
//! After each window balances and mill hold what the acknowledged events have brought.
mod mill;
mod spin;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::mill::{Deposits, Turns};
use self::spin::Spinning;
pub use self::spin::{SPIN_COMMAND, SpinOptions, spin};
use crate::measure::{self, median};
use crate::served::{BenchError, CpuTime, Load, Served, Server, Tally, Workload, block_on};

/// The part of their rate beside another process that deposits are to keep beside a hot object.
const KEPT_MIN: f64 = 0.9;

/// What to run.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("clients", |arg| arg.default_values(["16"])))]
pub struct Options {
    /// Clients of the hot object
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub hot_clients: u16,
    /// Accounts that the deposits are drawn from
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub accounts: u32,
    /// How many other clients ask how often
    #[command(flatten)]
    pub load: Load,
}

/// One round.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Admission strategy of the server.
    pub server: String,
    /// Clients of the neighbours.
    pub clients: usize,
    /// Deposits a second while nothing else happens.
    pub alone: f64,
    /// Deposits a second beside the hot object.
    pub beside_hot: f64,
    /// Their 99th percentile, in milliseconds.
    pub beside_hot_p99_ms: f64,
    /// Events of the hot object a second meanwhile.
    pub hot_events: f64,
    /// The part of a core that the hot object used, and the process after it.
    pub hot_cores: f64,
    /// Deposits a second beside a process that uses as much CPU time.
    pub beside_spin: f64,
    /// Their 99th percentile, in milliseconds.
    pub beside_spin_p99_ms: f64,
    /// The part of a core that this process got.
    pub spin_cores: f64,
}

impl Sample {
    fn kept(&self) -> f64 {
        self.beside_hot / self.beside_spin
    }
}

/// All rounds; displays as a table of medians.
#[derive(Debug, Clone, Serialize)]
pub struct NeighboursReport {
    /// Length of each window, in seconds.
    pub seconds: u64,
    /// Every round.
    pub samples: Vec<Sample>,
}

/// Measures every combination of clients and admission strategy; `own` is this program, which can be the busy process.
///
/// # Errors
/// [`BenchError`] when the server cannot be built or used, answers something unexpected, or the oracle refuses a result.
pub fn run(options: &Options, own: &Path) -> Result<NeighboursReport, BenchError> {
    let load = &options.load;
    let program = load.program()?;
    let mut samples = Vec::new();
    for round in 0..load.rounds {
        for &clients in &load.clients {
            for admission in &load.admission {
                let run = Run { options, own, server: Server::enact(&program, admission), clients, round };
                samples.push(block_on(run.round())?);
            }
        }
    }
    let report = NeighboursReport { seconds: load.seconds, samples };
    if let Some(path) = &load.json {
        measure::write_json(&report, path).map_err(|cause| BenchError::Report { path: PathBuf::from(path), cause })?;
    }
    Ok(report)
}

/// One round of one combination.
struct Run<'a> {
    options: &'a Options,
    own: &'a Path,
    server: Server,
    clients: usize,
    round: usize,
}

impl Run<'_> {
    async fn round(&self) -> Result<Sample, BenchError> {
        let deposits = Deposits { accounts: self.options.accounts };
        let hot_clients = usize::from(self.options.hot_clients);
        let per_second = |tally: &Tally| in_seconds(tally.done(), self.options.load.seconds);

        let (alone, _) = self.window(&deposits, self.clients).await?;
        let (turns, cpu) = self.window(&Turns, hot_clients).await?;
        let cpu =
            cpu.server.ok_or(BenchError::Server { doing: "reading its CPU time", cause: "no /proc".to_owned() })?;
        let event_s = cpu.as_secs_f64() / in_seconds(turns.settled.max(1), 1);

        let served = self.start().await?;
        deposits.open(&served, self.clients).await?;
        Turns.open(&served, hot_clients).await?;
        let window = self.options.load.window(self.round);
        let both = futures_util::future::try_join(
            window.measure(&served, &deposits, self.clients),
            window.measure(&served, &Turns, hot_clients),
        );
        let ((beside_hot, _), (hot, _)) = both.await?;
        deposits.verify(&served, &beside_hot).await?;
        Turns.verify(&served, &hot).await?;
        served.stop().await?;

        let hot_cores = event_s * in_seconds(hot.settled, self.options.load.seconds);
        let spinning = Spinning::start(self.own, hot_cores.min(1.0))?;
        let (beside_spin, _) = self.window(&deposits, self.clients).await?;
        let spin_cores = spinning.stop().await?;
        Ok(Sample {
            server: self.server.name.clone(),
            clients: self.clients,
            alone: per_second(&alone),
            beside_hot: per_second(&beside_hot),
            beside_hot_p99_ms: beside_hot.latency_ms(0.99),
            hot_events: per_second(&hot),
            hot_cores,
            beside_spin: per_second(&beside_spin),
            beside_spin_p99_ms: beside_spin.latency_ms(0.99),
            spin_cores,
        })
    }

    /// One workload on a fresh server, with the CPU time used.
    async fn window<W: Workload>(&self, workload: &W, clients: usize) -> Result<(Tally, CpuTime), BenchError> {
        let served = self.start().await?;
        workload.open(&served, clients).await?;
        let (tally, cpu) = self.options.load.window(self.round).measure(&served, workload, clients).await?;
        workload.verify(&served, &tally).await?;
        served.stop().await?;
        Ok((tally, cpu))
    }

    async fn start(&self) -> Result<Served, BenchError> {
        let load = &self.options.load;
        Served::start(&self.server, &load.data, mill::SPEC, load.sync_min()).await
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn in_seconds(count: u64, seconds: u64) -> f64 {
    count as f64 / seconds as f64
}

impl fmt::Display for NeighboursReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = [
            "server",
            "clients",
            "deposits/s alone",
            "beside hot",
            "p99 ms",
            "beside spin",
            "p99 ms",
            "kept",
            "aim",
            "",
            "hot/s",
            "hot cores",
            "spin cores",
        ];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        for group in crate::served::groups(&self.samples, |sample| (sample.server.clone(), sample.clients)) {
            let middle =
                |figure: fn(&Sample) -> f64| median(&group.iter().map(|sample| figure(sample)).collect::<Vec<_>>());
            let kept = middle(Sample::kept);
            table.add_row([
                group[0].server.clone(),
                group[0].clients.to_string(),
                format!("{:.0}", middle(|sample| sample.alone)),
                format!("{:.0}", middle(|sample| sample.beside_hot)),
                format!("{:.2}", middle(|sample| sample.beside_hot_p99_ms)),
                format!("{:.0}", middle(|sample| sample.beside_spin)),
                format!("{:.2}", middle(|sample| sample.beside_spin_p99_ms)),
                format!("{kept:.2}"),
                format!(">= {KEPT_MIN}"),
                (if kept >= KEPT_MIN { "reached" } else { "missed" }).to_owned(),
                format!("{:.0}", middle(|sample| sample.hot_events)),
                format!("{:.2}", middle(|sample| sample.hot_cores)),
                format!("{:.2}", middle(|sample| sample.spin_cores)),
            ]);
        }
        writeln!(f, "{table}")?;
        write!(f, "{} s a window; kept: the median of the ratios within rounds", self.seconds)
    }
}
