//! Transactional memory against locks and against other libraries: the workloads of `enact_workloads::stm`.
//!
//! # Contenders
//! `enact`, the same with snapshots for what only reads, the same with a wait for quiescence after each commit that has
//! written (see `quiescing`), one lock of each kind around all data, a plain atomic for the counters, and on demand the crates `stm`, `fast-stm` and `async-stm`. Those run in a program of their own, built from
//! `peers/`, which takes its turn in every round like everybody else.
//!
//! # What differs between them
//! Everybody runs the same code from the same seeds, with one exception: in `bst20` Enact walks the tree by reference,
//! because its reads lend values for as long as an attempt; the others clone an `Arc` a node, because their reads do not.
//!
//! # Oracle
//! Every run verifies what it left behind; a wrong result ends the benchmark without a report.
//!
//! # Scenes
//! What only Enact has, compared with itself: [`Scene`].
mod enact;
mod peers;
mod quiescing;
mod report;
mod scene;
mod tree;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use enact::Enact;
use enact_workloads::stm::{
    Figures, ParkingLot, Refusal, Run, Std, Workload, between_tasks, run as run_stm, run_atomic, run_locked,
};
use peers::Peers;
use quiescing::Quiescing;
pub use report::Report;
pub use scene::Scene;

use crate::measure::{self, Lap, Plan, Race, Sample, race};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// What to measure; everything if nothing is named.
    #[arg(value_name = "WORKLOAD", value_parser = subject_parser())]
    pub subjects: Vec<Subject>,
    /// Numbers of threads, one measurement each; some workloads have their own.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = threads_of)]
    pub threads: Vec<usize>,
    /// How often.
    #[command(flatten)]
    pub plan: Plan,
    /// Length of each run, in milliseconds.
    #[arg(long, default_value_t = 200)]
    pub millis: u64,
    /// Also run other transactional memories, built from this directory by cargo.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "bench/peers")]
    pub peers: Option<PathBuf>,
    /// Writes all samples as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// What every transactional memory can do.
    Workload(Workload),
    /// What only Enact has.
    Scene(Scene),
}

impl Subject {
    fn all() -> impl Iterator<Item = Self> {
        Workload::ALL.map(Self::Workload).into_iter().chain(Scene::ALL.map(Self::Scene))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Workload(workload) => workload.name(),
            Self::Scene(scene) => scene.name(),
        }
    }
}

fn subject_parser() -> impl TypedValueParser<Value = Subject> {
    PossibleValuesParser::new(Subject::all().map(Subject::name)).map(|name| {
        let named = Subject::all().find(|subject| subject.name() == name);
        named.expect("the parser knows no other names")
    })
}

fn threads_of(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one".to_owned()),
        Ok(number) => Ok(number),
        Err(wrong) => Err(format!("{wrong}")),
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StmBenchError {
    /// A contender's result was wrong, or it does not have the workload.
    #[error("{contender} in {workload} on {threads} threads")]
    Refused {
        /// Whose result.
        contender: &'static str,
        /// Of what.
        workload: Workload,
        /// On how many threads.
        threads: usize,
        /// What is wrong.
        source: Refusal,
    },
    /// The peers' program could not be built or started.
    #[error("cannot build the peers in {}", directory.display())]
    Build {
        /// Where they are.
        directory: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The peers' program did not answer.
    #[error("the peers' program broke off")]
    Peer(#[source] io::Error),
    /// The report could not be written.
    #[error("cannot write {}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// A contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    Enact,
    Snapshots,
    Quiescing,
    Atomic,
    StdMutex,
    ParkingLot,
    Peer(&'static str),
}

impl Contender {
    /// The baseline comes first.
    const ALL: [Self; 9] = [
        Self::Enact,
        Self::Snapshots,
        Self::Quiescing,
        Self::Atomic,
        Self::StdMutex,
        Self::ParkingLot,
        Self::Peer("stm"),
        Self::Peer("fast-stm"),
        Self::Peer("async-stm"),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Enact => "enact",
            Self::Snapshots => "enact snapshot",
            Self::Quiescing => "enact quiescing",
            Self::Atomic => "atomic",
            Self::StdMutex => "std mutex",
            Self::ParkingLot => "parking_lot",
            Self::Peer(name) => name,
        }
    }

    fn has(self, workload: Workload) -> bool {
        use Workload::{Bst20, Counter, CounterOwn, Pingpong, PingpongTasks, Read10kOnly, Sum1000W0, Sum1000W1};
        match self {
            Self::Enact | Self::Peer("async-stm") => true,
            Self::Snapshots => matches!(workload, Sum1000W0 | Sum1000W1 | Read10kOnly),
            // A transaction that sleeps until its turn comes would be waited for by the one that brings the turn.
            Self::Quiescing => !matches!(workload, Bst20 | Pingpong | PingpongTasks),
            Self::Atomic => matches!(workload, Counter | CounterOwn),
            Self::StdMutex | Self::ParkingLot | Self::Peer(_) => workload != PingpongTasks,
        }
    }

    /// Runs here, or asks the peers' program to.
    fn run(self, run: Run, peers: Option<&RefCell<Peers>>) -> Result<Sample, StmBenchError> {
        let mut helpers_cpu = Duration::ZERO;
        let result = match self {
            Self::Enact if run.workload == Workload::PingpongTasks => between_tasks::<Enact<false>>(run),
            Self::Enact => run_stm::<Enact<false>>(run),
            Self::Snapshots => run_stm::<Enact<true>>(run),
            Self::Quiescing => run_stm::<Quiescing>(run),
            Self::Atomic => run_atomic(run),
            Self::StdMutex => run_locked::<Std>(run),
            Self::ParkingLot => run_locked::<ParkingLot>(run),
            Self::Peer(name) => {
                let peers = peers.expect("peers take part only if they were built");
                let (result, cpu) = peers.borrow_mut().run(name, run).map_err(StmBenchError::Peer)?;
                helpers_cpu = cpu;
                result
            }
        };
        match result {
            Ok(figures) => Ok(sample(figures).helped(helpers_cpu)),
            Err(source) => {
                let Run { workload, threads, .. } = run;
                Err(StmBenchError::Refused { contender: self.name(), workload, threads, source })
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn sample(figures: Figures) -> Sample {
    let a_second = |count: u64| count as f64 / figures.wall.as_secs_f64();
    let mut sample = Sample::new(Lap { wall: figures.wall, cpu: Some(figures.cpu) }, figures.operations);
    if let Some(aborts) = figures.aborts {
        sample = sample.with_fact("aborts/s", a_second(aborts));
    }
    if let Some(beside) = figures.beside {
        sample = sample.with_fact("beside/s", a_second(beside));
    }
    sample
}

/// Measures every workload on every number of threads, contenders interleaved.
///
/// # Errors
/// [`StmBenchError`] when an oracle refuses a result, or the peers cannot be used.
pub fn run(options: &Options) -> Result<Report, StmBenchError> {
    let peers = options.peers.as_deref().map(Peers::build).transpose()?.map(RefCell::new);
    let measured = measure::Report::of(title(options), || {
        let subjects = if options.subjects.is_empty() { Subject::all().collect() } else { options.subjects.clone() };
        let races = subjects.into_iter().flat_map(|subject| match subject {
            Subject::Workload(workload) => {
                let runs = runs(workload, options).into_iter();
                runs.map(|run| run_race(run, &options.plan, peers.as_ref())).collect::<Vec<_>>()
            }
            Subject::Scene(scene) => {
                let contenders = scene.contenders(Duration::from_millis(options.millis));
                vec![race(scene.name(), "operations", &options.plan, contenders)]
            }
        });
        races.collect()
    })?;
    if let Some(path) = &options.json {
        measured.write_json(path).map_err(|source| StmBenchError::Report { path: path.clone(), source })?;
    }
    Ok(Report(measured))
}

fn title(options: &Options) -> String {
    format!("Transactional memory, runs of {} ms, {} rounds", options.millis, options.plan.rounds)
}

/// One run for each number of threads.
fn runs(workload: Workload, options: &Options) -> Vec<Run> {
    let length = Duration::from_millis(options.millis);
    let threads = workload.fixed_threads().map_or_else(|| options.threads.clone(), |fixed| vec![fixed]);
    threads.into_iter().map(|threads| Run { workload, threads, length }).collect()
}

fn run_race(run: Run, plan: &Plan, peers: Option<&RefCell<Peers>>) -> Result<Race, StmBenchError> {
    let there = |contender: &Contender| peers.is_some() || !matches!(contender, Contender::Peer(_));
    let contenders = Contender::ALL.into_iter().filter(|contender| contender.has(run.workload)).filter(there);
    let contenders = contenders.map(|who| measure::Contender::new(who.name(), move || who.run(run, peers)));
    race(Named(run).to_string(), "operations", plan, contenders.collect())
}

/// A run as the report calls it.
struct Named(Run);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { workload, threads, .. } = self.0;
        match workload.fixed_threads() {
            Some(_) => write!(f, "{workload}"),
            None => write!(f, "{workload} t{threads}"),
        }
    }
}
