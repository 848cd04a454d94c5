//! What was measured, for people and for programs.
use std::fmt;

use enact_entities::Strategy;
use serde::Serialize;

use crate::served::{groups, median_by};

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
    /// Microseconds of CPU time a command, refused ones too, that of the clients and of the journals' threads included.
    pub cpu_us: f64,
    /// How many commands a guard refused, as the experiment intends.
    pub refused: u64,
    /// How often a command was turned away, and was submitted again.
    pub turned_away: u64,
}

/// All samples; displays as a table of median rates.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How long a sync took at least, in milliseconds.
    pub sync_min_ms: f64,
    /// The exponent of Zipf's law, where something was drawn by it.
    pub zipf: f64,
    /// Every measurement, in the order taken.
    pub samples: Vec<Sample>,
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
            "refused",
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
                refused,
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
                refused.to_string(),
                turned_away.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        match self.sync_min_ms {
            0.0 => write!(f, "a sync took what the disk took; the oracles found what was acknowledged"),
            sync => write!(f, "a sync took {sync} ms at least; the oracles found what was acknowledged"),
        }
    }
}
