//! The Savina suite: 28 actor programs, written as a user of the library would write them.
//!
//! Each module is one program: its parameters, its actors, and the oracle of its result, a sequential computation
//! without messages. Messages, parameters and generators are those of the published programs, so that results can be
//! compared. Where one of those is void (all balances stay the same, say), there is a *strict* variant as well.
//!
//! # Mailboxes of other kinds
//! Some of the published programs ask for mailboxes with priorities, or that set messages aside. Here the handler says so:
//! `#[priority(..)]` of urgent work, where the programs serve lower numbers first and the runtime higher ones; `#[when(..)]`
//! of what can come too early.
//!
//! # Contenders
//! Enact, and on demand other actor libraries. Everybody runs in processes of their own, Enact in those of the program
//! itself, and gets the same sizes and numbers of threads in the same rounds.
//!
//! # What is found besides times
//! Peak memory in every run; allocations in a pass of their own, because counting takes time; how long a fresh process
//! takes to its first result. All of it is in the JSON, from which pages are made at once or later.
//!
//! # Source
//! S. Imam and V. Sarkar, *Savina: an actor benchmark suite*, 2014, and the programs published with it.
mod a_star;
mod bank;
mod barber;
mod big;
mod bounded_buffer;
mod chameneos;
mod cobwebbed_tree;
mod contender;
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
mod report;
mod results;
mod runs;
mod shortest_paths;
mod sieve;
mod smokers;
mod sorted_list;
mod thread_ring;
mod trapezoidal;

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};

use clap::builder::PossibleValuesParser;
use contender::Contender;
pub use contender::ContenderFailure;
pub use oracle::Wrong;
pub use parameters::BadSetting;
use peers::Peers;
pub use program::{Benchmark, Failure, Judge, Run, Variant, Watch};
pub(crate) use report::document;
pub use results::{BenchmarkResult, Dropout, Library, Results};
use runs::Place;
pub use runs::{COMMAND as RUNS_COMMAND, Heap, RunsOptions, serve_runs};

use crate::document::{PageError, Pages};
use crate::measure::{self, Plan, command_line, race_of_the_able};
use crate::peers::in_words;

/// Pings of a cold start: few, so that it is the start that counts.
const COLD_PINGS: &str = "10";

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Benchmarks to run; all if none is named
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(suite().iter().map(|one| one.name())))]
    pub names: Vec<String>,
    /// Sets a parameter of those of the benchmarks that have it
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting_of)]
    pub set: Vec<(String, String)>,
    /// Threads that run actors, one measurement for each number; as many as the machine has cores unless set
    #[arg(long, value_delimiter = ',')]
    pub workers: Vec<NonZeroUsize>,
    /// Sizes, as multiples of the parameter that makes a benchmark longer
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    pub scale: Vec<u64>,
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
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "bench/peers")]
    pub peers: Option<PathBuf>,
    /// Seconds after which a contender whose run has not ended is killed, and has no result
    #[arg(long, default_value_t = NonZeroU64::new(300).expect("a positive literal"))]
    pub limit_s: NonZeroU64,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// What else to write
    #[command(flatten)]
    pub pages: Pages,
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
    /// The program that asks for runs cannot be talked to.
    #[error("standard input or output is broken")]
    Pipe(#[source] io::Error),
    /// A contender has no result.
    #[error("{0}")]
    Failed(Dropout),
    /// A page could not be written.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The report could not be written.
    #[error("cannot write {}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// Measures every benchmark that `options` name, with `program` to run Enact; a failure does not end the others.
///
/// # Errors
/// [`SavinaError`] when a parameter or a file cannot be had; failures are in the results.
pub fn run(options: &Options, program: &Path) -> Result<Results, SavinaError> {
    let plan = Plan { rounds: options.iterations.get(), warm_up: options.warm_up };
    let mut results = Results::begun(command_line(), options.warm_up);
    let sizes = sizes(options, &mut results)?;
    let peers = options.peers.as_deref().map(Peers::build);
    if let Some(peers) = &peers {
        (results.libraries, results.absent) = (peers.libraries(), peers.absent());
    }
    let limit = Duration::from_secs(options.limit_s.get());
    let workers = workers(options);
    for size in &sizes {
        for &workers in &workers {
            let place = Place { program, workers, limit };
            measure_benchmark(size, options, &plan, place, peers.as_ref(), &mut results);
        }
    }
    let workers = workers.into_iter().max().unwrap_or(NonZeroUsize::MIN);
    start_cold(&plan, Place { program, workers, limit }, peers.as_ref(), &mut results)?;
    results.machine.measured();
    if let Some(path) = &options.json {
        results.write_json(path).map_err(|source| SavinaError::Report { path: path.clone(), source })?;
    }
    options.pages.write(|| document(std::slice::from_ref(&results)))?;
    Ok(results)
}

fn workers(options: &Options) -> Vec<NonZeroUsize> {
    if options.workers.is_empty() {
        return vec![thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)];
    }
    options.workers.clone()
}

/// A benchmark with parameters.
struct Size {
    benchmark: Box<dyn Benchmark>,
    scale: u64,
}

/// Every benchmark asked for in all sizes asked for that it can have.
fn sizes(options: &Options, results: &mut Results) -> Result<Vec<Size>, BadSetting> {
    let mut by_scale = Vec::new();
    for &scale in &options.scale {
        by_scale.push(selected(options)?.into_iter().map(|benchmark| Size { benchmark, scale }).collect::<Vec<_>>());
    }
    let has_variant = |size: &Size| variants(size.benchmark.as_ref(), options).next().is_some();
    let mut sizes = Vec::new();
    let mut columns: Vec<_> = by_scale.into_iter().map(Vec::into_iter).collect();
    // All sizes of one benchmark follow each other.
    while let Some(row) = columns.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>() {
        for mut size in row.into_iter().filter(has_variant) {
            size.benchmark.check()?;
            if size.scale == 1 || size.benchmark.grow(size.scale)? {
                size.benchmark.check()?;
                sizes.push(size);
            } else {
                results.without_sizes.push(size.benchmark.name().to_owned());
            }
        }
    }
    results.without_sizes.dedup();
    if sizes.is_empty() { Err(BadSetting::NoVariant) } else { Ok(sizes) }
}

/// Those of its variants that were asked for.
fn variants<'a>(benchmark: &'a dyn Benchmark, options: &'a Options) -> impl Iterator<Item = Variant> + 'a {
    benchmark.variants().iter().copied().filter(|variant| options.variant.contains(variant))
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

/// The variants asked for of one benchmark, and the peers.
fn measure_benchmark(
    size: &Size,
    options: &Options,
    plan: &Plan,
    place: Place<'_>,
    peers: Option<&Peers>,
    results: &mut Results,
) {
    let benchmark = size.benchmark.as_ref();
    let ours: Vec<_> = variants(benchmark, options).map(|variant| runs::contender(benchmark, variant, place)).collect();
    let of_peers = format!("enact {}", peers::variant(benchmark).name());
    let compared = ours.iter().find(|one| one.name == of_peers).unwrap_or(&ours[0]).name.clone();
    let mut contenders = ours;
    let ours = contenders.len();
    contenders.extend(peers.into_iter().flat_map(|peers| peers.contenders(benchmark, place.workers, place.limit)));
    let workload = workload(size, options, place.workers);
    let mut dropped = |contender: &str, failure: &dyn std::error::Error| {
        let reason = in_words(failure);
        results.dropouts.push(Dropout { workload: workload.clone(), contender: contender.to_owned(), reason });
    };
    let mut measured = Vec::new();
    for contender in &contenders {
        match contender.start_warm() {
            Ok(mut running) => measured.push(measure::Contender::new(&contender.name, move || running.measure())),
            Err(failure) => dropped(&contender.name, &failure),
        }
    }
    if measured.is_empty() {
        return;
    }
    let (race, left) = race_of_the_able(&workload, "messages", plan, measured);
    left.iter().for_each(|(name, failure)| dropped(name, failure));
    let mut heap = BTreeMap::new();
    let has_result = |contender: &&Contender<'_>| race.series.iter().any(|series| series.name == contender.name);
    contenders.truncate(ours);
    for contender in contenders.iter().filter(has_result) {
        match runs::heap(contender) {
            Ok(found) => drop(heap.insert(contender.name.clone(), found)),
            Err(failure) => dropped(&contender.name, &failure),
        }
    }
    let parameters = benchmark.parameters().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    results.benchmarks.push(BenchmarkResult {
        benchmark: benchmark.name().to_owned(),
        title: benchmark.title().to_owned(),
        parameters,
        scale: size.scale,
        workers: place.workers.get(),
        compared,
        race,
        heap,
    });
}

/// What tables call a benchmark: its size and its workers only where there are others.
fn workload(size: &Size, options: &Options, workers: NonZeroUsize) -> String {
    let mut name = size.benchmark.name().to_owned();
    if options.scale.len() > 1 {
        name.push_str(&format!(" x{}", size.scale));
    }
    if options.workers.len() > 1 {
        name.push_str(&format!(" w{workers}"));
    }
    name
}

/// Measures how long everybody takes from nothing to the first result of a very short ping pong.
fn start_cold(plan: &Plan, place: Place<'_>, peers: Option<&Peers>, results: &mut Results) -> Result<(), BadSetting> {
    let mut benchmark = ping_pong::PingPong::default();
    Benchmark::set(&mut benchmark, "pings", COLD_PINGS)?;
    let mut contenders =
        vec![Contender { name: "enact".to_owned(), ..runs::contender(&benchmark, Variant::Port, place) }];
    contenders.extend(peers.into_iter().flat_map(|peers| peers.contenders(&benchmark, place.workers, place.limit)));
    let measured = contenders
        .iter()
        .map(|contender| measure::Contender::new(&contender.name, move || contender.start_cold()))
        .collect();
    let (race, left) = race_of_the_able("cold start", "starts", plan, measured);
    let dropout = |(contender, failure): (String, ContenderFailure)| {
        let reason = in_words(&failure);
        Dropout { workload: "cold start".to_owned(), contender, reason }
    };
    results.dropouts.extend(left.into_iter().map(dropout));
    results.cold_start = Some(race);
    Ok(())
}
