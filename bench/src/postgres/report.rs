//! What was measured, for people and for programs.

use std::fmt;

use serde::Serialize;

use crate::measure::{Estimate, Interval, Machine};
use crate::served::{groups, median_by};

/// One verified measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// The experiment.
    pub experiment: String,
    /// How many clients there were.
    pub clients: u32,
    /// `Enact` or `PostgreSQL`.
    pub server: String,
    /// How many connections to PostgreSQL the clients shared.
    pub connections: Option<u32>,
    /// Acknowledged transactions a second.
    pub rate: f64,
    /// The latency in milliseconds that half of them do not exceed, that of waiting for a connection included.
    pub p50_ms: f64,
    /// The latency in milliseconds that 99 of 100 do not exceed.
    pub p99_ms: f64,
    /// Microseconds of CPU time a transaction that all processes of the server have used, where the system tells.
    pub cpu_us: Option<f64>,
    /// The same of the clients.
    pub client_us: Option<f64>,
    /// How often the server had no room, and was asked again.
    pub turned_away: u64,
}

impl Sample {
    fn is_enact(&self) -> bool {
        self.connections.is_none()
    }

    fn scene(&self) -> (String, u32) {
        (self.experiment.clone(), self.clients)
    }

    /// The rate that is aimed at as a multiple of that of PostgreSQL.
    fn aim(&self) -> Option<f64> {
        match (&*self.experiment, self.clients) {
            ("hot", 64..) => Some(10.0),
            ("sync1000", 64) => Some(1.15),
            ("sync1000", 256) => Some(1.5),
            _ => None,
        }
    }
}

/// All samples; displays as a table of medians.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What the results are of.
    pub benchmark: String,
    /// The command that measured it.
    pub command: String,
    /// Where, and when.
    pub machine: Machine,
    /// The version of PostgreSQL, or why there is none.
    pub postgres: Result<String, String>,
    /// How long a forced write took on the same disk before, in milliseconds.
    pub sync_ms: f64,
    /// Length of each window, in seconds.
    pub seconds: u64,
    /// Every measurement, in the order taken.
    pub samples: Vec<Sample>,
}

impl Report {
    /// Enact's rate to that of the connections to PostgreSQL that do best, within each round.
    fn of_postgres(&self, enact: &Sample) -> Option<Estimate> {
        let alike: Vec<_> = self.samples.iter().filter(|sample| sample.scene() == enact.scene()).collect();
        let (own, others): (Vec<_>, Vec<_>) = alike.into_iter().partition(|sample| sample.is_enact());
        let pools = groups(&others, |sample| sample.connections);
        let best = |round: usize| pools.iter().map(|pool| pool[round].rate).fold(0.0, f64::max);
        let ratios: Vec<_> = own.iter().enumerate().map(|(round, own)| own.rate / best(round)).collect();
        ratios.iter().all(|ratio| ratio.is_finite()).then(|| Estimate::of(&ratios))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header([
            "experiment",
            "clients",
            "server",
            "connections",
            "tx/s",
            "of PostgreSQL",
            "95 %",
            "aim",
            "p50 ms",
            "p99 ms",
            "CPU us",
            "client us",
            "turned away",
        ]);
        let us = |us: Option<f64>| us.map_or_else(String::new, |us| format!("{us:.0}"));
        let by_place = |sample: &&Sample| (sample.scene(), sample.connections);
        let mut samples: Vec<_> = self.samples.iter().collect();
        let first = |sample: &Sample| self.samples.iter().position(|other| other.scene() == sample.scene());
        samples.sort_by_key(|sample| (first(sample), sample.connections));
        for group in groups(&samples, by_place) {
            let sample = median_by(group, |sample| sample.rate);
            let ratio = Some(sample).filter(|sample| sample.is_enact()).and_then(|sample| self.of_postgres(sample));
            let verdict = |(aim, ratio): (f64, Estimate)| {
                format!("{aim} {}", if ratio.median >= aim { "reached" } else { "missed" })
            };
            let interval = |Interval { low, high }| format!("{low:.2} to {high:.2}");
            table.add_row([
                sample.experiment.clone(),
                sample.clients.to_string(),
                sample.server.clone(),
                sample.connections.unwrap_or(sample.clients).to_string(),
                format!("{:.0}", sample.rate),
                ratio.map_or_else(String::new, |ratio| format!("{:.2}", ratio.median)),
                ratio.and_then(|ratio| ratio.interval).map_or_else(String::new, interval),
                sample.aim().zip(ratio).map(verdict).unwrap_or_default(),
                format!("{:.2}", sample.p50_ms),
                format!("{:.2}", sample.p99_ms),
                us(sample.cpu_us),
                us(sample.client_us),
                sample.turned_away.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        match &self.postgres {
            Ok(version) => {
                writeln!(
                    f,
                    "of PostgreSQL {version}: the rate to that of the connections that do best in the same round"
                )?;
            }
            Err(reason) => writeln!(f, "SKIPPED: PostgreSQL: {reason}")?,
        }
        writeln!(
            f,
            "a forced write of 4 KiB took {:.2} ms before; CPU: of the server, and of the clients",
            self.sync_ms
        )?;
        writeln!(f, "{}", self.machine)?;
        write!(f, "{} s a window; the accounts hold what was acknowledged", self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(experiment: &str, connections: Option<u32>, rate: f64) -> Sample {
        Sample {
            experiment: experiment.to_owned(),
            clients: 64,
            server: if connections.is_none() { "Enact" } else { "PostgreSQL" }.to_owned(),
            connections,
            rate,
            p50_ms: 1.0,
            p99_ms: 2.0,
            cpu_us: Some(30.0),
            client_us: None,
            turned_away: 0,
        }
    }

    fn report(samples: Vec<Sample>) -> Report {
        Report {
            benchmark: "postgres".to_owned(),
            command: "enact-bench postgres".to_owned(),
            machine: Machine::here(),
            postgres: Ok("15.1".to_owned()),
            sync_ms: 1.0,
            seconds: 1,
            samples,
        }
    }

    #[test]
    fn the_ratio_is_that_to_the_best_connections_of_the_same_round_and_has_its_verdict() {
        let rounds = [(100.0, 5.0, 10.0), (1_000.0, 80.0, 40.0), (600.0, 50.0, 20.0)];
        let of =
            |(own, few, many)| [sample("hot", None, own), sample("hot", Some(16), few), sample("hot", Some(64), many)];
        let report = report(rounds.map(of).concat());
        assert_eq!(report.of_postgres(&report.samples[0]).map(|ratio| ratio.median), Some(12.0));
        let text = report.to_string();
        assert!(text.contains("10 reached") && !text.contains("missed"), "{text}");
    }

    #[test]
    fn an_aim_that_is_missed_is_called_so() {
        let report = report(vec![sample("sync1000", None, 1.1), sample("sync1000", Some(16), 1.0)]);
        assert!(report.to_string().contains("1.15 missed"), "{report}");
    }

    #[test]
    fn without_postgres_there_is_no_ratio_but_a_reason() {
        let mut report = report(vec![sample("hot", None, 1.0)]);
        report.postgres = Err("there is no such thing".to_owned());
        let text = report.to_string();
        assert!(text.contains("SKIPPED: PostgreSQL: there is no such thing"), "{text}");
        assert!(!text.contains("reached") && !text.contains("missed"), "{text}");
    }
}
