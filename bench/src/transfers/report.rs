//! What was measured, for people and for programs.
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

/// One verified measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Admission strategy of the server.
    pub admission: String,
    /// Concurrent clients.
    pub clients: usize,
    /// Acknowledged transfers a second.
    pub transfers_per_second: f64,
    /// Refused transfers within the window.
    pub refused: u64,
    /// Transfers turned away because of load or a passed deadline.
    pub turned_away: u64,
    /// Median latency of an acknowledged transfer, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the same.
    pub p99_ms: f64,
}

/// All samples of a run; displays as a table of the median runs.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Accounts that the transfers were drawn from.
    pub accounts: u64,
    /// Length of each window, in seconds.
    pub seconds: u64,
    /// Every measurement, in the order taken.
    pub samples: Vec<Sample>,
}

impl Report {
    /// Writes every sample to the file at `path`.
    pub(super) fn write_json(&self, path: &Path) -> io::Result<()> {
        let mut file = io::BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, self)?;
        file.flush()
    }

    /// The median run, by throughput, of every combination, in the order first measured.
    fn medians(&self) -> Vec<&Sample> {
        let mut groups: Vec<Vec<&Sample>> = Vec::new();
        for sample in &self.samples {
            match groups.iter_mut().find(|g| g[0].clients == sample.clients && g[0].admission == sample.admission) {
                Some(group) => group.push(sample),
                None => groups.push(vec![sample]),
            }
        }
        groups
            .into_iter()
            .map(|mut group| {
                group.sort_by(|a, b| a.transfers_per_second.total_cmp(&b.transfers_per_second));
                group[group.len() / 2]
            })
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header([
            "admission",
            "clients",
            "transfers/s",
            "p50 ms",
            "p99 ms",
            "refused",
            "turned away",
        ]);
        for sample in self.medians() {
            table.add_row([
                sample.admission.clone(),
                sample.clients.to_string(),
                format!("{:.0}", sample.transfers_per_second),
                format!("{:.2}", sample.p50_ms),
                format!("{:.2}", sample.p99_ms),
                sample.refused.to_string(),
                sample.turned_away.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        write!(f, "{} accounts, {} s a window; every window's money was conserved", self.accounts, self.seconds)
    }
}
