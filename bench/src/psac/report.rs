//! What was measured, for people at a terminal and for programs.
use std::fmt;

use enact_entities::Strategy;
use serde::{Deserialize, Serialize};

use super::amdahl::Amdahl;
use crate::measure::{Comparison, Estimate, Machine, median};
use crate::served::{groups, median_by};

/// What the results are of, as the JSON says.
pub(crate) const NAME: &str = "psac";

/// One verified measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// The experiment.
    pub experiment: String,
    /// How many engines there were.
    pub engines: u8,
    /// How long a message travelled, in milliseconds.
    pub delay_ms: f64,
    /// How many clients there were.
    pub clients: u32,
    /// The admission strategy, or `none` where there is nothing to admit.
    pub strategy: String,
    /// Commands a second that were acknowledged within the window.
    pub rate: f64,
    /// The rate as a multiple of that which is aimed at, where there is an aim: to be divided by that of locking.
    pub aim: Option<f64>,
    /// The latency in milliseconds that half of the commands do not exceed.
    pub p50_ms: f64,
    /// The latency in milliseconds that 95 of 100 commands do not exceed.
    pub p95_ms: f64,
    /// The latency in milliseconds that 99 of 100 commands do not exceed.
    pub p99_ms: f64,
    /// Microseconds of CPU time a command, refused ones too, that of the clients and of the journals' threads included.
    pub cpu_us: f64,
    /// How many commands a guard refused, as the experiment intends.
    pub refused: u64,
    /// How often a command was turned away, and was submitted again.
    pub turned_away: u64,
}

impl Sample {
    /// What is alike under all strategies.
    fn scene(&self) -> (String, u8, u64, u32) {
        (self.experiment.clone(), self.engines, self.delay_ms.to_bits(), self.clients)
    }
}

/// All samples; displays as a table of medians.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// What the results are of.
    pub benchmark: String,
    /// The command that measured it.
    pub command: String,
    /// Where, and when.
    pub machine: Machine,
    /// How long a sync took at least, in milliseconds.
    pub sync_min_ms: f64,
    /// The exponent of Zipf's law, where something was drawn by it.
    pub zipf: f64,
    /// How long each measurement took.
    pub seconds: u64,
    /// Every measurement, in the order taken.
    pub samples: Vec<Sample>,
}

/// What was measured alike, round by round.
#[derive(Debug)]
pub(super) struct Measurement<'a> {
    /// The sample whose rate is in the middle.
    pub(super) sample: &'a Sample,
    pub(super) rate: Estimate,
    /// The median over the rounds.
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: Estimate,
    /// The rate divided by that of locking in the same round; none for locking itself, and where that was not measured or got
    /// nothing done.
    pub(super) of_locking: Option<Comparison>,
}

impl<'a> Measurement<'a> {
    /// In so many rounds, beside locking among `all`.
    fn of(rounds: &[&'a Sample], all: &[Vec<&Sample>]) -> Self {
        Self {
            sample: median_by(rounds.to_vec(), |sample| sample.rate),
            rate: estimate(rounds, |sample| sample.rate),
            p50_ms: middle(rounds, |sample| sample.p50_ms),
            p95_ms: middle(rounds, |sample| sample.p95_ms),
            p99_ms: estimate(rounds, |sample| sample.p99_ms),
            of_locking: of_locking(rounds, all),
        }
    }

    /// Whether this is locking where `other` is alike but for its strategy.
    pub(super) fn is_locking_beside(&self, other: &Sample) -> bool {
        is_locking(self.sample) && self.sample.scene() == other.scene()
    }
}

/// How throughput grows with the number of engines.
#[derive(Debug)]
pub(super) struct Scaling {
    pub(super) experiment: String,
    pub(super) delay_ms: f64,
    pub(super) clients: u32,
    pub(super) strategy: String,
    /// By number of engines.
    pub(super) points: Vec<(f64, Estimate)>,
    pub(super) law: Amdahl,
    /// The part of the variance that the law explains.
    pub(super) r_squared: Option<f64>,
}

impl Report {
    /// In the order first measured.
    pub(super) fn measurements(&self) -> Vec<Measurement<'_>> {
        let all = groups(&self.samples, |sample| (sample.scene(), sample.strategy.clone()));
        all.iter().map(|rounds| Measurement::of(rounds, &all)).collect()
    }
}

/// Where at least three numbers of engines were measured. One engine sends no messages, so that it belongs to every delay.
pub(super) fn scalings(measurements: &[Measurement<'_>]) -> Vec<Scaling> {
    let (alone, several): (Vec<_>, Vec<_>) = measurements.iter().partition(|one| one.sample.engines == 1);
    let alike = |sample: &Sample| (sample.experiment.clone(), sample.clients, sample.strategy.clone());
    let scaling = |group: Vec<&&Measurement<'_>>| {
        let sample = group[0].sample;
        let alone = alone.iter().filter(|one| alike(one.sample) == alike(sample));
        let point = |one: &&Measurement<'_>| (f64::from(one.sample.engines), one.rate);
        let mut points: Vec<_> = alone.chain(group.iter().copied()).map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let medians: Vec<_> = points.iter().map(|(engines, rate)| (*engines, rate.median)).collect();
        let law = Amdahl::fit(&medians)?;
        let (experiment, clients, strategy) = alike(sample);
        let r_squared = law.r_squared(&medians);
        Some(Scaling { experiment, delay_ms: sample.delay_ms, clients, strategy, points, law, r_squared })
    };
    let key = |one: &&Measurement<'_>| (alike(one.sample), one.sample.delay_ms.to_bits());
    groups(&several, key).into_iter().filter_map(scaling).collect()
}

fn is_locking(sample: &Sample) -> bool {
    sample.strategy == Strategy::Locking.to_string()
}

fn middle(rounds: &[&Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    median(&rounds.iter().map(|sample| figure(sample)).collect::<Vec<_>>())
}

fn estimate(rounds: &[&Sample], figure: impl Fn(&Sample) -> f64) -> Estimate {
    Estimate::of(&rounds.iter().map(|sample| figure(sample)).collect::<Vec<_>>())
}

/// The rates of `own` to those of locking among `all`.
fn of_locking(own: &[&Sample], all: &[Vec<&Sample>]) -> Option<Comparison> {
    if is_locking(own[0]) {
        return None;
    }
    let locking = all.iter().find(|rounds| is_locking(rounds[0]) && rounds[0].scene() == own[0].scene())?;
    let ratios: Vec<_> = own.iter().zip(locking).map(|(own, locking)| own.rate / locking.rate).collect();
    let Estimate { median, interval } = Estimate::of(&ratios);
    locking.iter().all(|sample| sample.rate > 0.0).then_some(Comparison { speed_up: median, interval })
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
            "p95 ms",
            "p99 ms",
            "CPU us",
            "refused",
            "turned away",
        ];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        let measurements = self.measurements();
        for Measurement { sample, of_locking, .. } in &measurements {
            let ratio = of_locking.map(|ratio| ratio.speed_up);
            let verdict =
                |(aim, ratio): (f64, f64)| format!("{aim} {}", if ratio >= aim { "reached" } else { "missed" });
            table.add_row([
                sample.experiment.clone(),
                sample.engines.to_string(),
                sample.delay_ms.to_string(),
                sample.clients.to_string(),
                sample.strategy.clone(),
                format!("{:.0}", sample.rate),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                sample.aim.zip(ratio).map(verdict).unwrap_or_default(),
                format!("{:.1}", sample.p50_ms),
                format!("{:.1}", sample.p95_ms),
                format!("{:.1}", sample.p99_ms),
                format!("{:.0}", sample.cpu_us),
                sample.refused.to_string(),
                sample.turned_away.to_string(),
            ]);
        }
        writeln!(f, "{table}")?;
        write_scalings(f, scalings(&measurements))?;
        match self.sync_min_ms {
            0.0 => write!(f, "a sync took what the disk took; the oracles found what was acknowledged"),
            sync => write!(f, "a sync took {sync} ms at least; the oracles found what was acknowledged"),
        }
    }
}

fn write_scalings(f: &mut fmt::Formatter<'_>, scalings: Vec<Scaling>) -> fmt::Result {
    if scalings.is_empty() {
        return Ok(());
    }
    let mut table = comfy_table::Table::new();
    let columns = ["experiment", "delay ms", "clients", "strategy", "engines", "lambda", "sigma", "limit", "R2"];
    table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
    for Scaling { experiment, delay_ms, clients, strategy, points, law, r_squared } in scalings {
        table.add_row([
            experiment,
            delay_ms.to_string(),
            clients.to_string(),
            strategy,
            points.iter().map(|(engines, _)| engines.to_string()).collect::<Vec<_>>().join(", "),
            format!("{:.0}", law.lambda),
            format!("{:.4}", law.sigma),
            law.asymptote().map_or_else(|| "none".to_owned(), |limit| format!("{limit:.0}")),
            r_squared.map_or_else(String::new, |part| format!("{part:.2}")),
        ]);
    }
    writeln!(f, "Amdahl's law: N engines do lambda N / (1 + sigma (N - 1)) tx/s, and lambda / sigma at most")?;
    writeln!(f, "{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A measurement on the engines in one round, with 64 clients.
    fn sample(engines: u8, strategy: Strategy, rate: f64) -> Sample {
        Sample {
            experiment: "hot".to_owned(),
            engines,
            delay_ms: if engines == 1 { 0.0 } else { 0.5 },
            clients: 64,
            strategy: strategy.to_string(),
            rate,
            aim: (strategy == Strategy::Serializable).then_some(30.0),
            p50_ms: 1.0,
            p95_ms: 1.5,
            p99_ms: 2.0,
            cpu_us: 10.0,
            refused: 3,
            turned_away: 4,
        }
    }

    fn report(samples: Vec<Sample>) -> Report {
        Report {
            benchmark: NAME.to_owned(),
            command: "enact-bench psac".to_owned(),
            machine: Machine::here(),
            sync_min_ms: 1.0,
            zipf: 0.99,
            seconds: 1,
            samples,
        }
    }

    #[test]
    fn the_ratio_to_locking_is_that_within_rounds_and_has_its_verdict() {
        let rounds = [(1.0, 20.0), (10.0, 350.0), (100.0, 4_000.0)];
        let of = |(locking, own)| [sample(1, Strategy::Locking, locking), sample(1, Strategy::Serializable, own)];
        let report = report(rounds.map(of).concat());
        let ratios: Vec<_> =
            report.measurements().iter().map(|one| one.of_locking.map(|ratio| ratio.speed_up)).collect();
        assert_eq!(ratios, [None, Some(35.0)]);
        assert!(report.to_string().contains("30 reached"), "{report}");
    }

    #[test]
    fn there_is_no_ratio_where_locking_got_nothing_done() {
        let report = report(vec![sample(1, Strategy::Locking, 0.0), sample(1, Strategy::Serializable, 5.0)]);
        assert!(report.measurements().iter().all(|one| one.of_locking.is_none()));
        assert!(!report.to_string().contains("reached") && !report.to_string().contains("missed"), "{report}");
    }

    #[test]
    fn the_law_is_fitted_from_three_numbers_of_engines_on_and_one_engine_belongs_to_every_delay() {
        let two = vec![sample(1, Strategy::Psac, 100.0), sample(2, Strategy::Psac, 160.0)];
        assert!(scalings(&report(two.clone()).measurements()).is_empty());
        assert!(!report(two.clone()).to_string().contains("Amdahl"));
        let three = report([two, vec![sample(4, Strategy::Psac, 400.0 / 1.75)]].concat());
        let scalings = scalings(&three.measurements());
        let [Scaling { delay_ms, points, law, .. }] = &scalings[..] else { panic!("{scalings:?}") };
        assert_eq!((*delay_ms, points.len()), (0.5, 3));
        assert!((law.sigma - 0.25).abs() < 1e-3 && (law.lambda - 100.0).abs() < 0.1, "{law:?}");
        let text = three.to_string();
        assert!(text.contains("| 1, 2, 4 | 100    | 0.2500 | 400   | 1.00 |"), "{text}");
    }
}
