//! What was measured, for people and for programs.
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::machine::Machine;
use super::sample::Sample;
use super::statistics::{Estimate, Interval, median, quantile};

/// A sample is disturbed if other processes took a larger share of the machine meanwhile.
const DISTURBED_FROM: f64 = 0.1;

/// All samples of one contender in one race, one per round.
#[derive(Debug, Clone)]
pub struct Series {
    /// The contender.
    pub name: String,
    /// In the order of the rounds.
    pub samples: Vec<Sample>,
}

impl Series {
    /// Median work a second.
    pub fn median_rate(&self) -> f64 {
        median(&self.rates())
    }

    /// Work a second.
    pub fn rate(&self) -> Estimate {
        Estimate::of(&self.rates())
    }

    /// Wall-clock time in seconds.
    pub fn wall_s(&self) -> Estimate {
        Estimate::of(&self.walls_s())
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

    pub(crate) fn median_cores(&self) -> Option<f64> {
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
    pub unit: Cow<'static, str>,
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
        let Estimate { median, interval } = Estimate::of(&ratios);
        Comparison { speed_up: median, interval }
    }

    /// How many samples of the contender at `place` were taken while other processes used more than a tenth of the
    /// machine. What is too short to tell of a run is taken from the whole race.
    ///
    /// # Panics
    /// When there is no contender at `place`.
    pub fn disturbed(&self, place: usize) -> usize {
        let is_disturbed = |sample: &&Sample| sample.others.or(self.others).is_some_and(|share| share > DISTURBED_FROM);
        self.series[place].samples.iter().filter(is_disturbed).count()
    }
}

impl Serialize for Race {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Contender<'a> {
            name: &'a str,
            median_rate: f64,
            rate_interval: Option<Interval>,
            best_rate: f64,
            quartiles_of_rate: Interval,
            to_baseline: Comparison,
            samples: &'a [Sample],
        }
        let contenders: Vec<_> = (self.series.iter().enumerate())
            .map(|(place, series)| Contender {
                name: &series.name,
                median_rate: series.median_rate(),
                rate_interval: series.rate().interval,
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
        race.serialize_field("unit", &self.unit)?;
        race.serialize_field("others", &self.others)?;
        race.serialize_field("contenders", &contenders)?;
        race.end()
    }
}

/// What was derived from the samples is derived from them again.
impl<'de> Deserialize<'de> for Race {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "Race")]
        struct Written {
            workload: String,
            unit: String,
            others: Option<f64>,
            contenders: Vec<Contender>,
        }
        #[derive(Deserialize)]
        struct Contender {
            name: String,
            samples: Vec<Sample>,
        }
        let Written { workload, unit, others, contenders } = Written::deserialize(deserializer)?;
        let series: Vec<_> =
            contenders.into_iter().map(|Contender { name, samples }| Series { name, samples }).collect();
        let rounds = series.first().map_or(1, |first| first.samples.len());
        if rounds == 0 || series.iter().any(|one| one.samples.len() != rounds) {
            return Err(serde::de::Error::custom(format!("`{workload}` has not one sample of each contender a round")));
        }
        Ok(Self { workload, unit: unit.into(), series, others })
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
        let races = || self.races.iter();
        write!(f, "{}\n{}\n{}\n{}", self.title, text_table(races()), self.machine, in_all(races()))
    }
}

/// A row for each contender of each race.
pub(crate) fn text_table<'a>(races: impl Iterator<Item = &'a Race> + Clone) -> comfy_table::Table {
    let samples = races.clone().flat_map(|race| &race.series).flat_map(|series| &series.samples);
    let facts: BTreeSet<&str> = samples.flat_map(|sample| sample.facts.keys()).map(AsRef::as_ref).collect();
    let mut table = comfy_table::Table::new();
    let columns = ["workload", "contender", "median ms", "CPU ms", "cores", "per second", "best", "to first", "95 %"];
    table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns.into_iter().chain(facts.clone()));
    for race in races {
        for (place, series) in race.series.iter().enumerate() {
            let facts = facts.iter().map(|&fact| series.median_fact(fact).map_or_else(String::new, in_short));
            table.add_row(row(race, place, series).into_iter().chain(facts));
        }
    }
    table
}

/// How many samples there are, and what disturbed them.
pub(crate) fn in_all<'a>(races: impl Iterator<Item = &'a Race> + Clone) -> String {
    let series = races.clone().flat_map(|race| &race.series);
    let samples: usize = series.map(|series| series.samples.len()).sum();
    let others: Vec<_> = races.filter_map(|race| race.others).collect();
    let disturbed = if others.is_empty() {
        String::new()
    } else {
        let percent = median(&others) * 100.0;
        format!("; other processes used {percent:.0} % of the machine in the median race")
    };
    format!("medians of {samples} verified samples{disturbed}")
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

/// Three significant digits, of numbers below one two, and a unit prefix.
pub(crate) fn in_short(value: f64) -> String {
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
        ones if ones >= 0.0995 => format!("{scaled:.2}{prefix}"),
        hundredths if hundredths >= 0.00995 => format!("{scaled:.3}"),
        _ => format!("{scaled:.4}"),
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
        let race =
            Race { workload: "sums".to_owned(), unit: "sums".into(), series: vec![slow, fast], others: Some(0.42) };
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
    fn a_race_that_is_read_again_is_the_one_that_was_written() {
        let written = serde_json::to_string(&report().races[0]).expect("races are JSON");
        let read: Race = serde_json::from_str(&written).expect("as it was written");
        assert_eq!(serde_json::to_string(&read).expect("races are JSON"), written);
        assert_eq!(read.series[1].samples, report().races[0].series[1].samples);
        let torn = r#"{"workload": "w", "unit": "u", "others": null, "contenders": [{"name": "a", "samples": []}]}"#;
        let refused = serde_json::from_str::<Race>(torn).expect_err("nothing can be said of no sample").to_string();
        assert!(refused.contains("`w` has not one sample of each contender a round"), "{refused}");
    }

    #[test]
    fn samples_beside_busy_processes_are_counted() {
        let mut race = report().races.remove(0);
        assert_eq!(race.disturbed(0), 3, "a quarter of the machine is much");
        race.series[0].samples[0].others = Some(0.1);
        assert_eq!(race.disturbed(0), 2, "a tenth is not");
        race.series[0].samples[1].others = None;
        assert_eq!(race.disturbed(0), 2, "a run too short to tell is judged by its race");
        race.others = Some(0.05);
        assert_eq!(race.disturbed(0), 1);
    }

    #[test]
    fn figures_have_three_significant_digits() {
        let shown = [0.0, 7.0, 7.5, 42.25, 999.0, 1_234.0, 99_960.0, 1_500_000.0, 2.5e9].map(in_short);
        assert_eq!(shown, ["0", "7", "7.50", "42.2", "999", "1.23k", "100k", "1.50M", "2.50G"]);
        let small = [0.123, 0.0996, 0.0134, 0.00996, 0.0042, 0.000_04].map(in_short);
        assert_eq!(small, ["0.12", "0.10", "0.013", "0.010", "0.0042", "0.0000"]);
    }
}
