//! The Savina suite: 28 actor programs, written as a user of the library would write them.
//!
//! Each module is one program: its parameters, its actors, and the oracle of its result, a sequential computation
//! without messages. Messages, parameters and generators are those of the published programs, so that results can be
//! compared. Where one of those is void (all balances stay the same, say), there is a *strict* variant as well.
//!
//! # Mailboxes of other kinds
//! Some of the published programs ask for mailboxes with priorities, or that set messages aside. Here the actor does
//! that itself: urgent work waits on an agenda in its state, early messages in a queue or under their phase.
//!
//! # Contenders
//! Enact, and on demand other actor libraries, which are built and run as programs of their own.
//!
//! # Source
//! S. Imam and V. Sarkar, *Savina: an actor benchmark suite*, 2014, and the programs published with it.
mod a_star;
mod agenda;
mod bank;
mod barber;
mod big;
mod bounded_buffer;
mod chameneos;
mod cobwebbed_tree;
mod counting;
mod dictionary;
mod facility_location;
mod filter_bank;
mod fork_join_creation;
mod fork_join_throughput;
mod logistic_map;
mod matrix_product;
mod oracle;
mod over_relaxation;
mod parameters;
mod peers;
mod philosophers;
mod ping_pong;
mod precise_pi;
mod program;
mod queens;
mod quicksort;
mod radix_sort;
mod shortest_paths;
mod sieve;
mod smokers;
mod sorted_list;
mod thread_ring;
mod trapezoidal;

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::builder::PossibleValuesParser;
use enact::System;

use crate::measure::{self, Plan, Process, Race, race};

use peers::Peers;

pub use oracle::Wrong;
pub use parameters::BadSetting;
pub use peers::PeerFailure;
pub use program::{Benchmark, Contender, Failure, Judge, Variant};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Benchmarks to run; all if none is named
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(suite().iter().map(|one| one.name())))]
    pub names: Vec<String>,
    /// Sets a parameter of those of the benchmarks that have it
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting_of)]
    pub set: Vec<(String, String)>,
    /// Threads that run actors; as many as the machine has cores unless set
    #[arg(long)]
    pub workers: Option<NonZeroUsize>,
    /// Measured runs of each
    #[arg(long, default_value_t = NonZeroUsize::new(5).expect("a positive literal"))]
    pub iterations: NonZeroUsize,
    /// Discarded runs before them
    #[arg(long, default_value_t = 1)]
    pub warm_up: usize,
    /// Which variants of each to run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "port")]
    pub variant: Vec<Variant>,
    /// Also run other actor libraries, built from this directory with the tools of their languages
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "peers")]
    pub peers: Option<PathBuf>,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn setting_of(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a setting is written KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// All benchmarks with their default parameters, in the order of the paper.
pub fn suite() -> Vec<Box<dyn Benchmark>> {
    vec![
        Box::<ping_pong::PingPong>::default(),
        Box::<counting::Counting>::default(),
        Box::<fork_join_throughput::ForkJoinThroughput>::default(),
        Box::<fork_join_creation::ForkJoinCreation>::default(),
        Box::<thread_ring::ThreadRing>::default(),
        Box::<chameneos::Chameneos>::default(),
        Box::<big::Big>::default(),
        Box::<dictionary::Dictionary>::default(),
        Box::<sorted_list::SortedList>::default(),
        Box::<bounded_buffer::BoundedBuffer>::default(),
        Box::<philosophers::Philosophers>::default(),
        Box::<barber::Barber>::default(),
        Box::<smokers::Smokers>::default(),
        Box::<logistic_map::LogisticMap>::default(),
        Box::<bank::Bank>::default(),
        Box::<radix_sort::RadixSort>::default(),
        Box::<filter_bank::FilterBank>::default(),
        Box::<sieve::Sieve>::default(),
        Box::<cobwebbed_tree::CobwebbedTree>::default(),
        Box::<facility_location::FacilityLocation>::default(),
        Box::<trapezoidal::Trapezoidal>::default(),
        Box::<precise_pi::PrecisePi>::default(),
        Box::<matrix_product::MatrixProduct>::default(),
        Box::<quicksort::Quicksort>::default(),
        Box::<shortest_paths::ShortestPaths>::default(),
        Box::<over_relaxation::OverRelaxation>::default(),
        Box::<a_star::AStar>::default(),
        Box::<queens::Queens>::default(),
    ]
}

/// Why the suite was not run, or not all of it with success.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavinaError {
    /// The parameters cannot be used.
    #[error(transparent)]
    Setting(#[from] BadSetting),
    /// The operating system refuses threads.
    #[error("no actor system")]
    System(#[source] io::Error),
    /// A benchmark has no result.
    #[error("{benchmark}, {}", variant.name())]
    Failed {
        /// Which one.
        benchmark: &'static str,
        /// Which version of it.
        variant: Variant,
        /// What is wrong.
        source: Failure,
    },
    /// A peer has no result.
    #[error("{benchmark}, {library}")]
    Peer {
        /// In which benchmark.
        benchmark: &'static str,
        /// Which one.
        library: &'static str,
        /// What is wrong.
        source: PeerFailure,
    },
    /// The report could not be written.
    #[error("cannot write {}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// The benchmarks that had results, and the failures of the others.
#[derive(Debug)]
pub struct Report {
    /// All samples of those with results.
    pub measured: measure::Report,
    /// Why the others have none.
    pub failed: Vec<SavinaError>,
}

impl Report {
    /// The first failure, if there was one.
    ///
    /// # Errors
    /// [`SavinaError::Failed`] or [`SavinaError::Peer`].
    pub fn verdict(self) -> Result<(), SavinaError> {
        self.failed.into_iter().next().map_or(Ok(()), Err)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.measured)?;
        for failure in &self.failed {
            let causes = std::iter::successors(Some(failure as &dyn std::error::Error), |cause| cause.source());
            let words: Vec<_> = causes.map(ToString::to_string).collect();
            write!(f, "\nfailed: {}", words.join(": "))?;
        }
        Ok(())
    }
}

/// Measures every benchmark that `options` name; one that fails does not end the others.
///
/// # Errors
/// [`SavinaError`] when a parameter, a thread or the file cannot be had; failures of benchmarks are in the report.
pub fn run(options: &Options) -> Result<Report, SavinaError> {
    let benchmarks = selected(options)?;
    let has_variant = |one: &dyn Benchmark| one.variants().iter().any(|variant| options.variant.contains(variant));
    if !benchmarks.iter().any(|one| has_variant(one.as_ref())) {
        return Err(BadSetting::NoVariant.into());
    }
    let mut builder = System::builder();
    if let Some(workers) = options.workers {
        builder = builder.workers(workers.get());
    }
    let system = builder.build().map_err(SavinaError::System)?;
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let peers =
        options.peers.as_deref().map(|directory| Peers::build(directory, options.workers.unwrap_or_else(cores)));
    let mut failed = Vec::new();
    let measured = measure::Report::of(title(options, &benchmarks, peers.as_ref()), || {
        let mut races = Vec::new();
        for benchmark in &benchmarks {
            match run_race(benchmark.as_ref(), options, &system, peers.as_ref()) {
                Ok(race) => races.extend(race),
                Err(failure @ (SavinaError::Failed { .. } | SavinaError::Peer { .. })) => failed.push(failure),
                Err(unusable) => return Err(unusable),
            }
        }
        Ok(races)
    })?;
    if let Some(path) = &options.json {
        measured.write_json(path).map_err(|source| SavinaError::Report { path: path.clone(), source })?;
    }
    Ok(Report { measured, failed })
}

/// The benchmarks asked for, with their parameters set.
fn selected(options: &Options) -> Result<Vec<Box<dyn Benchmark>>, BadSetting> {
    let is_named = |one: &dyn Benchmark| options.names.is_empty() || options.names.iter().any(|n| n == one.name());
    let mut benchmarks: Vec<_> = suite().into_iter().filter(|one| is_named(one.as_ref())).collect();
    for (key, value) in &options.set {
        let has_it = |one: &&mut Box<dyn Benchmark>| one.parameters().iter().any(|(name, _)| name == key);
        let mut is_known = false;
        for benchmark in benchmarks.iter_mut().filter(has_it) {
            benchmark.set(key, value)?;
            is_known = true;
        }
        if !is_known {
            let mut known: Vec<_> = benchmarks.iter().flat_map(|one| one.parameters()).map(|(name, _)| name).collect();
            known.sort_unstable();
            known.dedup();
            return Err(BadSetting::Unknown { key: key.clone(), known });
        }
    }
    Ok(benchmarks)
}

/// The variants asked for of one benchmark, and the peers; `None` if it has none of these variants.
fn run_race(
    benchmark: &dyn Benchmark,
    options: &Options,
    system: &System,
    peers: Option<&Peers>,
) -> Result<Option<Race>, SavinaError> {
    let mut contenders = Vec::new();
    for &variant in benchmark.variants().iter().filter(|variant| options.variant.contains(variant)) {
        let mut run = benchmark.contender(variant, system)?;
        let failed = move |source| SavinaError::Failed { benchmark: benchmark.name(), variant, source };
        // In company the variants need a family name.
        let name = if peers.is_some() { format!("enact {}", variant.name()) } else { variant.name().to_owned() };
        contenders.push(measure::Contender::new(name, move || {
            let memory = Process::own().watch_memory();
            let sample = run().map_err(failed)?;
            Ok(sample.with_peak_memory(memory.and_then(|memory| memory.mib())))
        }));
    }
    if contenders.is_empty() {
        return Ok(None);
    }
    if let Some(peers) = peers {
        contenders.extend(peers.contenders(benchmark)?);
    }
    let plan = Plan { rounds: options.iterations.get(), warm_up: options.warm_up };
    race(benchmark.name(), "messages", &plan, contenders).map(Some)
}

fn title(options: &Options, benchmarks: &[Box<dyn Benchmark>], peers: Option<&Peers>) -> String {
    let workers = options.workers.map_or_else(|| "a worker for each core".to_owned(), |w| format!("{w} workers"));
    let described = |one: &dyn Benchmark| {
        let parameters: Vec<_> = one.parameters().iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{}: {}, {}", one.name(), one.title(), parameters.join(", "))
    };
    let lines: Vec<_> = benchmarks.iter().map(|one| described(one.as_ref())).collect();
    let absent = peers.map_or_else(String::new, ToString::to_string);
    format!("Savina, {workers}, {} iterations\n{}{absent}", options.iterations, lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_that_failed_is_in_the_report_and_in_the_verdict() {
        let source = Failure::Wrong(oracle::equal("pings", 3, 4).expect_err("3 is not 4"));
        let failure = SavinaError::Failed { benchmark: "pp", variant: Variant::Port, source };
        let title = "a title".to_owned();
        let measured = measure::Report { title, machine: measure::Machine::here(), races: Vec::new() };
        let report = Report { measured, failed: vec![failure] };
        let text = report.to_string();
        assert!(text.ends_with("failed: pp, port: wrong result: pings: 3 where 4 was expected"), "{text}");
        assert!(matches!(report.verdict(), Err(SavinaError::Failed { benchmark: "pp", .. })));
    }
}
