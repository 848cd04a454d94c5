//! What requests cost, and how that stands to what is aimed at.

use std::fmt;

use crate::measure::median;
use crate::served::{Report, Sample, groups};

/// The name of the floor in the tables.
pub(super) const FLOOR: &str = "floor";

/// A most that one figure may be of another.
struct Aim {
    workload: &'static str,
    /// What its CPU time is compared with: the workload, and whether that is one of the floor.
    base: (&'static str, bool),
    most: f64,
}

const AIMS: [Aim; 6] = [
    Aim { workload: "deposit", base: ("health", false), most: 3.0 },
    Aim { workload: "deposit-hot", base: ("health", false), most: 3.0 },
    Aim { workload: "transfer", base: ("health", false), most: 4.5 },
    Aim { workload: "transfer-hot", base: ("health", false), most: 4.5 },
    Aim { workload: "transfer", base: ("transfer", true), most: 2.0 },
    Aim { workload: "transfer-hot", base: ("transfer-hot", true), most: 2.0 },
];

/// All samples; displays as a table of the median runs and one of ratios beside what is aimed at.
#[derive(Debug, Clone)]
pub struct CostReport(pub Report);

impl fmt::Display for CostReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = ["CPU of", "server", "clients", "to that of", "ratio", "aim", ""];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        for group in groups(&self.0.samples, |sample| (sample.clients, sample.server.clone())) {
            let Sample { clients, server, .. } = group[0];
            for aim in AIMS.iter().filter(|_| server != FLOOR) {
                let (base, is_of_floor) = aim.base;
                let Some(ratio) =
                    self.ratio((aim.workload, server), (base, if is_of_floor { FLOOR } else { server }), *clients)
                else {
                    continue;
                };
                table.add_row([
                    aim.workload.to_owned(),
                    server.clone(),
                    clients.to_string(),
                    if is_of_floor { format!("{base} of the floor") } else { base.to_owned() },
                    format!("{ratio:.2}"),
                    format!("<= {}", aim.most),
                    (if ratio <= aim.most { "reached" } else { "missed" }).to_owned(),
                ]);
            }
        }
        writeln!(f, "{}\n\n{table}", self.0)?;
        write!(f, "ratios: the median over the rounds of those within a round")
    }
}

impl CostReport {
    /// The CPU time of one workload on one server to that of another, within rounds.
    fn ratio(&self, of: (&str, &str), to: (&str, &str), clients: usize) -> Option<f64> {
        let cpu_us = |(workload, server): (&str, &str)| -> Option<Vec<f64>> {
            let is_of =
                |sample: &&Sample| sample.workload == workload && sample.server == server && sample.clients == clients;
            self.0.samples.iter().filter(is_of).map(|sample| sample.cpu_us).collect()
        };
        let ratios: Vec<f64> = cpu_us(of)?.into_iter().zip(cpu_us(to)?).map(|(of, to)| of / to).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(workload: &str, server: &str, cpu_us: f64) -> Sample {
        Sample {
            workload: workload.to_owned(),
            server: server.to_owned(),
            clients: 64,
            per_second: 1.0,
            refused: 0,
            turned_away: 0,
            p50_ms: 1.0,
            p99_ms: 1.0,
            cpu_us: Some(cpu_us),
            client_us: None,
            aim_of_locking: None,
        }
    }

    #[test]
    fn ratios_are_those_within_rounds_and_each_has_its_verdict() {
        // The machine is 1, 10 and 100 times slower in the rounds.
        let rounds = [1.0, 10.0, 100.0].into_iter();
        let samples = rounds.flat_map(|slow| {
            [
                sample("transfer", FLOOR, 10.0 * slow),
                sample("health", "serializable", 5.0 * slow),
                sample("deposit", "serializable", 16.0 * slow),
                sample("transfer", "serializable", 20.0 * slow),
            ]
        });
        let text = CostReport(Report { seconds: 1, samples: samples.collect() }).to_string();
        let verdicts: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.contains("<="))
            .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(
            verdicts,
            [
                ["deposit", "serializable", "64", "health", "3.20", "<= 3", "missed"],
                ["transfer", "serializable", "64", "health", "4.00", "<= 4.5", "reached"],
                ["transfer", "serializable", "64", "transfer of the floor", "2.00", "<= 2", "reached"],
            ]
        );
    }
}
