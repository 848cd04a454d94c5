//! What was measured, for people and for programs.
use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::{BenchError, CpuTime, Tally};
use crate::measure::{self, median};

/// One verified measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// What the clients asked for.
    pub workload: String,
    /// The server, by its admission strategy if it is Enact.
    pub server: String,
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
    /// CPU time of the server's threads for each acknowledged or refused request, in microseconds; nothing where the
    /// system does not tell.
    pub cpu_us: Option<f64>,
    /// The same of the load generator.
    pub client_us: Option<f64>,
    /// What part of the rate of locking is aimed at.
    pub aim_of_locking: Option<f64>,
}

impl Sample {
    /// What clients saw in so many seconds, in which `cpu` was used.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn of(tally: &Tally, seconds: u64, cpu: CpuTime) -> Self {
        let each_us =
            |time: Option<Duration>| Some(time?.as_secs_f64() * 1e6 / tally.settled as f64).filter(|us| us.is_finite());
        Self {
            workload: String::new(),
            server: String::new(),
            clients: 0,
            per_second: tally.done() as f64 / seconds as f64,
            refused: tally.refused,
            turned_away: tally.turned_away,
            p50_ms: tally.latency_ms(0.5),
            p99_ms: tally.latency_ms(0.99),
            cpu_us: each_us(cpu.server),
            client_us: each_us(cpu.clients),
            aim_of_locking: None,
        }
    }
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
    pub(crate) fn write_json(&self, path: &Path) -> Result<(), BenchError> {
        measure::write_json(self, path).map_err(|cause| BenchError::Report { path: path.to_owned(), cause })
    }

    /// The rate of the server of `sample` to that of locking: the median over the rounds of the ratios within a round. Nothing if
    /// locking was not measured, or got nothing done in a round.
    fn of_locking(&self, sample: &Sample) -> Option<f64> {
        let rates = |server: &str| {
            let is_of = |other: &&Sample| {
                other.workload == sample.workload && other.clients == sample.clients && other.server == server
            };
            self.samples.iter().filter(is_of).map(|sample| sample.per_second).collect::<Vec<_>>()
        };
        let (own, locking) = (rates(&sample.server), rates("locking"));
        let is_measured = !locking.is_empty() && locking.iter().all(|&rate| rate > 0.0);
        is_measured.then(|| median(&own.iter().zip(locking).map(|(own, locking)| own / locking).collect::<Vec<_>>()))
    }

    /// The median run, by rate, of every combination, in the order first measured.
    fn medians(&self) -> Vec<&Sample> {
        let key = |sample: &Sample| (sample.workload.clone(), sample.clients, sample.server.clone());
        groups(&self.samples, key).into_iter().map(|group| median_by(group, |sample| sample.per_second)).collect()
    }
}

/// What has equal keys, in the order in which the keys first come.
pub(crate) fn groups<T, K: PartialEq>(items: &[T], key: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| key(group[0]) == key(item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// The one in the middle, by `figure`.
pub(crate) fn median_by<T>(mut group: Vec<&T>, figure: impl Fn(&T) -> f64) -> &T {
    group.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    group[group.len() / 2]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header([
            "workload",
            "clients",
            "server",
            "requests/s",
            "of locking",
            "aim",
            "",
            "p50 ms",
            "p99 ms",
            "CPU us",
            "client us",
            "refused",
            "turned away",
        ]);
        let us = |us: Option<f64>| us.map_or_else(String::new, |us| format!("{us:.1}"));
        for sample in self.medians() {
            let ratio = self.of_locking(sample);
            let aim = ratio.zip(sample.aim_of_locking).filter(|_| sample.server == "serializable");
            let verdict = aim.map_or("", |(ratio, aim)| if ratio >= aim { "reached" } else { "missed" });
            table.add_row([
                sample.workload.clone(),
                sample.clients.to_string(),
                sample.server.clone(),
                format!("{:.0}", sample.per_second),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                aim.map_or_else(String::new, |(_, aim)| format!(">= {aim}")),
                verdict.to_owned(),
                format!("{:.2}", sample.p50_ms),
                format!("{:.2}", sample.p99_ms),
                us(sample.cpu_us),
                us(sample.client_us),
                sample.refused.to_string(),
                sample.turned_away.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        writeln!(f, "CPU: of the server for each acknowledged or refused request, and of the load generator")?;
        write!(f, "{} s a window; every window's result is what its acknowledged requests explain", self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of `hot` by one server, in which so many requests a second were acknowledged.
    fn sample(server: &str, per_second: f64) -> Sample {
        let aim_of_locking = Some(15.0);
        let mut sample = Sample::of(&Tally::new(), 1, CpuTime { server: None, clients: None });
        sample.workload = "hot".to_owned();
        sample.server = server.to_owned();
        Sample { per_second, aim_of_locking, ..sample }
    }

    fn of_locking(rates: impl IntoIterator<Item = (f64, f64)>) -> (Option<f64>, String) {
        let windows = rates.into_iter();
        let samples = windows.flat_map(|(locking, own)| [sample("locking", locking), sample("serializable", own)]);
        let report = Report { seconds: 1, samples: samples.collect() };
        (report.of_locking(&report.samples[1]), report.to_string())
    }

    #[test]
    fn the_ratio_to_locking_is_that_within_rounds_and_has_its_verdict() {
        let (ratio, text) = of_locking([(1.0, 20.0), (10.0, 160.0), (100.0, 1_000.0)]);
        assert_eq!(ratio, Some(16.0));
        assert!(text.contains("| >= 15 | reached |"), "{text}");
        assert!(of_locking([(1.0, 14.0)]).1.contains("| >= 15 | missed |"));
    }

    #[test]
    fn there_is_no_verdict_where_locking_got_nothing_done() {
        let (ratio, text) = of_locking([(0.0, 20.0)]);
        assert_eq!(ratio, None);
        assert!(!text.contains("reached") && !text.contains("missed"), "{text}");
    }
}
