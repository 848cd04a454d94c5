//! What was measured, for people and for programs.
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

/// One verified measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// What the clients asked for.
    pub workload: String,
    /// Admission strategy of the server.
    pub admission: String,
    /// Concurrent clients.
    pub clients: usize,
    /// Acknowledged requests a second.
    pub per_second: f64,
    /// Refused requests within the window.
    pub refused: u64,
    /// Requests turned away because of load or a passed deadline.
    pub turned_away: u64,
    /// Median latency of an acknowledged request, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the same.
    pub p99_ms: f64,
}

/// All samples of a run; displays as a table of the median runs.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Length of each window, in seconds.
    pub seconds: u64,
    /// Every measurement, in the order taken.
    pub samples: Vec<Sample>,
}

impl Report {
    /// Writes every sample to the file at `path`.
    pub(crate) fn write_json(&self, path: &Path) -> io::Result<()> {
        let mut file = io::BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, self)?;
        file.flush()
    }

    /// The median run, by rate, of every combination, in the order first measured.
    fn medians(&self) -> Vec<&Sample> {
        let key = |sample: &Sample| (sample.workload.clone(), sample.clients, sample.admission.clone());
        let mut groups: Vec<Vec<&Sample>> = Vec::new();
        for sample in &self.samples {
            match groups.iter_mut().find(|group| key(group[0]) == key(sample)) {
                Some(group) => group.push(sample),
                None => groups.push(vec![sample]),
            }
        }
        let mut medians = Vec::with_capacity(groups.len());
        for mut group in groups {
            group.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
            medians.push(group[group.len() / 2]);
        }
        medians
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header([
            "workload",
            "clients",
            "admission",
            "requests/s",
            "of locking",
            "p50 ms",
            "p99 ms",
            "refused",
            "turned away",
        ]);
        let medians = self.medians();
        for sample in &medians {
            let is_beside = |other: &&&Sample| {
                other.workload == sample.workload && other.clients == sample.clients && other.admission == "locking"
            };
            let ratio = medians.iter().find(is_beside).map(|locking| sample.per_second / locking.per_second);
            table.add_row([
                sample.workload.clone(),
                sample.clients.to_string(),
                sample.admission.clone(),
                format!("{:.0}", sample.per_second),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                format!("{:.2}", sample.p50_ms),
                format!("{:.2}", sample.p99_ms),
                sample.refused.to_string(),
                sample.turned_away.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        write!(f, "{} s a window; every window's result is what its acknowledged requests explain", self.seconds)
    }
}
