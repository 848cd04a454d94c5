//! What was measured, for people and for programs.
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::machine::Machine;
use super::sample::Sample;
use super::statistics::{Interval, bootstrap_of_median, median, quantile};

/// Seed of the resampling: the interval of given samples is always the same.
const RESAMPLING_SEED: u64 = 34;

/// All samples of one contender in one race, one per round.
#[derive(Debug, Clone)]
pub struct Series {
    /// The contender.
    pub name: String,
    /// In the order of the rounds.
    pub samples: Vec<Sample>,
}

impl Series {
    pub(super) fn new(name: String) -> Self {
        Self { name, samples: Vec::new() }
    }

    /// Median work a second.
    pub fn median_rate(&self) -> f64 {
        median(&self.rates())
    }

    /// What the machine can do when nothing disturbs: the highest work a second.
    pub fn best_rate(&self) -> f64 {
        self.rates().into_iter().fold(0.0, f64::max)
    }

    fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(Sample::rate).collect()
    }

    pub(crate) fn walls_s(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.lap.wall.as_secs_f64()).collect()
    }

    /// None if CPU time is unknown of any sample.
    pub(crate) fn median_cpu_s(&self) -> Option<f64> {
        let cpu_s = |sample: &Sample| sample.lap.cpu.map(|cpu| cpu.as_secs_f64());
        self.samples.iter().map(cpu_s).collect::<Option<Vec<_>>>().map(|cpu_s| median(&cpu_s))
    }

    fn median_cores(&self) -> Option<f64> {
        self.samples.iter().map(Sample::cores).collect::<Option<Vec<_>>>().map(|cores| median(&cores))
    }

    /// The median over the samples that have the fact.
    pub(crate) fn median_fact(&self, name: &str) -> Option<f64> {
        let values: Vec<_> = self.samples.iter().filter_map(|sample| sample.facts.get(name)).copied().collect();
        (!values.is_empty()).then(|| median(&values))
    }
}

/// A contender against the baseline of its race.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// Median over the rounds of (contender's rate / baseline's rate): above 1 the contender is faster.
    pub speed_up: f64,
    /// Its 95 % bootstrap interval, from five rounds on. A difference is claimed only if the interval excludes 1.
    pub interval: Option<Interval>,
}

/// The contenders of one workload; the first series is the baseline.
#[derive(Debug, Clone)]
pub struct Race {
    /// What all of them did.
    pub workload: String,
    /// What the work counts.
    pub unit: &'static str,
    /// One per contender.
    pub series: Vec<Series>,
    /// The share of the machine's CPU time that went to other processes from the first run to the last, where the system
    /// tells; a tenth is much.
    pub others: Option<f64>,
}

impl Race {
    /// Compares the contender at `place` with the baseline, round by round.
    ///
    /// # Panics
    /// When there is no contender at `place`.
    pub fn compare(&self, place: usize) -> Comparison {
        self.compare_to(place, 0)
    }

    /// Compares the contender at `place` with the one at `base`, round by round.
    ///
    /// # Panics
    /// When there is no contender at one of the places.
    pub fn compare_to(&self, place: usize, base: usize) -> Comparison {
        let rounds = self.series[base].rates().into_iter().zip(self.series[place].rates());
        let ratios: Vec<_> = rounds.map(|(baseline, contender)| contender / baseline).collect();
        Comparison { speed_up: median(&ratios), interval: bootstrap_of_median(&ratios, RESAMPLING_SEED) }
    }
}

impl Serialize for Race {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Contender<'a> {
            name: &'a str,
            median_rate: f64,
            best_rate: f64,
            quartiles_of_rate: Interval,
            to_baseline: Comparison,
            samples: &'a [Sample],
        }
        let contenders: Vec<_> = (self.series.iter().enumerate())
            .map(|(place, series)| Contender {
                name: &series.name,
                median_rate: series.median_rate(),
                best_rate: series.best_rate(),
                quartiles_of_rate: Interval {
                    low: quantile(&series.rates(), 0.25),
                    high: quantile(&series.rates(), 0.75),
                },
                to_baseline: self.compare(place),
                samples: &series.samples,
            })
            .collect();
        let mut race = serializer.serialize_struct("Race", 4)?;
        race.serialize_field("workload", &self.workload)?;
        race.serialize_field("unit", self.unit)?;
        race.serialize_field("others", &self.others)?;
        race.serialize_field("contenders", &contenders)?;
        race.end()
    }
}

/// Everything that one benchmark program measured; displays as a table.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The benchmark and its parameters.
    pub title: String,
    /// Where.
    pub machine: Machine,
    /// What.
    pub races: Vec<Race>,
}

impl Report {
    /// Runs `measure` and reports the races that it returns, with the machine's load before and after.
    ///
    /// # Errors
    /// Those of `measure`.
    pub fn of<E>(title: String, measure: impl FnOnce() -> Result<Vec<Race>, E>) -> Result<Self, E> {
        let mut machine = Machine::here();
        let races = measure()?;
        machine.measured();
        Ok(Self { title, machine, races })
    }

    /// Writes everything, every sample included, to the file at `path`.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_json(&self, path: &Path) -> io::Result<()> {
        write_json(self, path)
    }

    fn facts(&self) -> BTreeSet<&'static str> {
        let samples = self.races.iter().flat_map(|race| &race.series).flat_map(|series| &series.samples);
        samples.flat_map(|sample| sample.facts.keys().copied()).collect()
    }
}

/// Writes `report` to the file at `path`.
///
/// # Errors
/// Those of the file.
pub fn write_json(report: &impl Serialize, path: &Path) -> io::Result<()> {
    let mut file = io::BufWriter::new(File::create(path)?);
    serde_json::to_writer_pretty(&mut file, report)?;
    file.flush()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        let mut table = comfy_table::Table::new();
        let columns =
            ["workload", "contender", "median ms", "CPU ms", "cores", "per second", "best", "to first", "95 %"];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns.into_iter().chain(facts.clone()));
        for race in &self.races {
            for (place, series) in race.series.iter().enumerate() {
                table.add_row(
                    row(race, place, series)
                        .into_iter()
                        .chain(facts.iter().map(|&fact| series.median_fact(fact).map_or_else(String::new, in_short))),
                );
            }
        }
        let series = self.races.iter().flat_map(|race| &race.series);
        let samples: usize = series.map(|series| series.samples.len()).sum();
        writeln!(f, "{}\n{table}\n{}", self.title, self.machine)?;
        write!(f, "medians of {samples} verified samples")?;
        let others: Vec<_> = self.races.iter().filter_map(|race| race.others).collect();
        if others.is_empty() {
            return Ok(());
        }
        write!(f, "; other processes used {:.0} % of the machine in the median race", median(&others) * 100.0)
    }
}

fn row(race: &Race, place: usize, series: &Series) -> [String; 9] {
    let comparison = race.compare(place);
    let interval = |known: Interval| format!("{:.2}-{:.2}", known.low, known.high);
    [
        race.workload.clone(),
        series.name.clone(),
        format!("{:.2}", median(&series.walls_s()) * 1_000.0),
        series.median_cpu_s().map_or_else(String::new, |cpu_s| format!("{:.2}", cpu_s * 1_000.0)),
        series.median_cores().map_or_else(String::new, |cores| format!("{cores:.2}")),
        in_short(series.median_rate()),
        in_short(series.best_rate()),
        if place == 0 { "1".to_owned() } else { format!("{:.2}", comparison.speed_up) },
        if place == 0 { String::new() } else { comparison.interval.map_or_else(String::new, interval) },
    ]
}

/// Three significant digits and a unit prefix.
fn in_short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        giga if giga >= 1e9 => (value / 1e9, "G"),
        mega if mega >= 1e6 => (value / 1e6, "M"),
        kilo if kilo >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    match scaled.abs() {
        whole if whole.fract() == 0.0 && prefix.is_empty() => format!("{scaled:.0}"),
        hundreds if hundreds >= 99.95 => format!("{scaled:.0}{prefix}"),
        tens if tens >= 9.995 => format!("{scaled:.1}{prefix}"),
        _ => format!("{scaled:.2}{prefix}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::sample::Lap;
    use super::*;

    fn report() -> Report {
        let sample = |ms| {
            let lap = Lap { wall: Duration::from_millis(ms), cpu: Some(Duration::from_millis(ms / 2)) };
            Sample { others: Some(0.25), ..Sample::new(lap, 1_000).with_fact("aborts", 7.0) }
        };
        let series = |name: &str, samples| Series { name: name.to_owned(), samples };
        let slow = series("slow", vec![sample(200), sample(400), sample(200)]);
        let fast = series("fast", vec![sample(100), sample(100), sample(50)]);
        let race = Race { workload: "sums".to_owned(), unit: "sums", series: vec![slow, fast], others: Some(0.42) };
        Report { title: "sums of 1000".to_owned(), machine: Machine::here(), races: vec![race] }
    }

    #[test]
    fn table_has_medians_ratio_cores_and_facts() {
        let text = report().to_string();
        let cells = |name: &str| {
            let line = text.lines().find(|line| line.contains(name)).expect("a row for each contender");
            line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(cells("slow"), ["sums", "slow", "200.00", "100.00", "0.50", "5.00k", "5.00k", "1", "7"]);
        assert_eq!(cells("fast"), ["sums", "fast", "100.00", "50.00", "0.50", "10.0k", "20.0k", "4.00", "7"]);
        assert!(
            text.ends_with("6 verified samples; other processes used 42 % of the machine in the median race"),
            "{text}"
        );
    }

    #[test]
    fn json_has_every_sample_in_seconds() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("report.json");
        report().write_json(&path).expect("the file is writable");
        let json: serde_json::Value =
            serde_json::from_reader(File::open(&path).expect("the file was written")).expect("the file is JSON");
        let contender = &json["races"][0]["contenders"][1];
        assert_eq!(contender["name"], "fast");
        assert_eq!(contender["median_rate"], 10_000.0);
        assert_eq!(contender["to_baseline"]["speed_up"], 4.0);
        assert_eq!(contender["to_baseline"]["interval"], serde_json::Value::Null);
        assert_eq!(contender["samples"][2]["wall_s"], 0.05);
        assert_eq!(contender["samples"][2]["cpu_s"], 0.025);
        assert_eq!(contender["samples"][2]["facts"]["aborts"], 7.0);
        assert_eq!(contender["samples"].as_array().map(Vec::len), Some(3));
        assert_eq!(json["races"][0]["contenders"][0]["samples"][0]["others"], 0.25);
        assert_eq!(json["races"][0]["others"], 0.42);
    }

    #[test]
    fn figures_have_three_significant_digits() {
        let shown = [0.0, 7.0, 7.5, 42.25, 999.0, 1_234.0, 99_960.0, 1_500_000.0, 2.5e9].map(in_short);
        assert_eq!(shown, ["0", "7", "7.50", "42.2", "999", "1.23k", "100k", "1.50M", "2.50G"]);
    }
}
