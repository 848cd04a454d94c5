//! Everything that was measured, in memory and as JSON, from which every report can be made again.
use std::collections::BTreeMap;
use std::path::Path;
use std::{fmt, io};

use serde::{Deserialize, Deserializer, Serialize};

use super::runs::Heap;
use crate::measure::{Machine, Race, in_all, in_short, text_table, write_json};

/// The version of the JSON. Files of other versions are refused.
const FORMAT: u32 = 1;

/// What one call of `enact-bench savina` measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// The version of this format.
    #[serde(deserialize_with = "known_format")]
    pub format: u32,
    /// The command that measured it.
    pub command: String,
    /// Where, and when.
    pub machine: Machine,
    /// Discarded rounds before those that count.
    pub warm_up: usize,
    /// The libraries beside Enact, whether or not each has each benchmark.
    pub libraries: Vec<Library>,
    /// In the order in which they were run.
    pub benchmarks: Vec<BenchmarkResult>,
    /// From before a process exists to its first verified result, in fresh processes; the rate is starts a second.
    pub cold_start: Option<Race>,
    /// The contenders that started and have no result.
    pub dropouts: Vec<Dropout>,
    /// Programs of peers that could not be built here, and why.
    pub absent: Vec<String>,
    /// Benchmarks that were not run in the sizes asked for, because no parameter makes them longer and nothing else.
    pub without_sizes: Vec<String>,
}

fn known_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        FORMAT => Ok(FORMAT),
        other => Err(serde::de::Error::custom(format!("format {other} where {FORMAT} is known; measure again"))),
    }
}

/// Another actor library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// As tables call it.
    pub name: String,
    /// Where it says so.
    pub version: Option<String>,
}

/// One benchmark of one size on so many workers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BenchmarkResult {
    /// The suite's abbreviation.
    pub benchmark: String,
    /// The suite's name.
    pub title: String,
    /// Names and values.
    pub parameters: BTreeMap<String, String>,
    /// Times the size that was asked for.
    pub scale: u64,
    /// Threads of each contender.
    pub workers: usize,
    /// The contender of ours that does the same as the peers, whether or not it has a result.
    pub compared: String,
    /// The contenders with results.
    pub race: Race,
    /// What our contenders allocate, by name.
    pub heap: BTreeMap<String, Heap>,
}

impl BenchmarkResult {
    /// Where in the race our contender is that is compared, if it has a result.
    pub(super) fn ours(&self) -> Option<usize> {
        self.race.series.iter().position(|series| series.name == self.compared)
    }
}

/// Whether a contender of this name is Enact.
pub(super) fn is_ours(name: &str) -> bool {
    name == "enact" || name.starts_with("enact ")
}

/// A contender without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropout {
    /// In which race.
    pub workload: String,
    /// Who.
    pub contender: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Dropout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.workload, self.contender, self.reason)
    }
}

impl Results {
    /// Nothing measured yet, by `command`, here and now.
    pub(super) fn begun(command: String, warm_up: usize) -> Self {
        Self {
            format: FORMAT,
            command,
            machine: Machine::here(),
            warm_up,
            libraries: Vec::new(),
            benchmarks: Vec::new(),
            cold_start: None,
            dropouts: Vec::new(),
            absent: Vec::new(),
            without_sizes: Vec::new(),
        }
    }

    /// Writes everything, every sample included, to the file at `path`.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_json(&self, path: &Path) -> io::Result<()> {
        write_json(self, path)
    }

    /// Whether every contender that started has a result.
    ///
    /// # Errors
    /// The first one that has none.
    pub fn verdict(&self) -> Result<(), Dropout> {
        self.dropouts.first().map_or(Ok(()), |first| Err(first.clone()))
    }

    /// All races, cold starts last.
    pub(super) fn races(&self) -> impl Iterator<Item = &Race> + Clone {
        self.benchmarks.iter().map(|result| &result.race).chain(&self.cold_start)
    }
}

impl fmt::Display for Results {
    /// For people at a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.command)?;
        for result in &self.benchmarks {
            let parameters: Vec<_> = result.parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
            writeln!(f, "{}: {}, {}", result.race.workload, result.title, parameters.join(", "))?;
        }
        for absent in &self.absent {
            writeln!(f, "{absent}")?;
        }
        write!(f, "{}\n{}\n{}", text_table(self.races()), self.machine, in_all(self.races()))?;
        for result in &self.benchmarks {
            for (contender, heap) in &result.heap {
                let (count, bytes) = (heap.count_per_message(), heap.bytes_per_message());
                let (count, bytes) = (in_short(count), in_short(bytes));
                write!(f, "\n{}, {contender}: {count} allocations and {bytes} B a message", result.race.workload)?;
            }
        }
        for benchmark in &self.without_sizes {
            write!(f, "\n{benchmark}: no parameter makes it longer and nothing else")?;
        }
        self.dropouts.iter().try_for_each(|dropout| write!(f, "\nfailed: {dropout}"))
    }
}
