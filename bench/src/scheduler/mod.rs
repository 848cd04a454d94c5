//! The scheduler in simulated time: whether a worker more ever makes a program slower, on machines that are not at hand.
//!
//! # What is done
//! Each program of the Savina suite is run on one worker and recorded: its turns, what each costs, and what each sends when.
//! That is replayed with many workers and several costs of a cache line, by the scheduler's own decisions. What is simulated,
//! and how, is told in `enact_actors::simulation`.
//!
//! # What it says of real machines
//! The same programs run here, with one worker and with two in turns, beside what the simulation says of two workers where a
//! line costs what it costs here.
//!
//! # Oracle
//! Every run is verified, those that are recorded as well.
mod program;
mod report;
mod sizes;

use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use enact_actors::simulation::{Outcome, Setting, forks_begin_apart, line, replay};
use program::Recorded;
use rayon::iter::{IntoParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _};
pub use report::Report;

use crate::savina::{BadSetting, Failure, suite};

/// How long the turns are beside which two long ones begin.
const LOADS_NS: [u64; 3] = [60, 500, 5_000];

/// What to replay.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Programs of the suite; all if none is named
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(suite().iter().map(|one| one.name())))]
    pub names: Vec<String>,
    /// Numbers of workers, each with a core of its own
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32,64")]
    pub workers: Vec<NonZeroUsize>,
    /// Costs of a cache line that comes from another core, in nanoseconds
    #[arg(long, value_delimiter = ',', default_value = "0,30,100,300")]
    pub line_ns: Vec<u64>,
    /// How many milliseconds the runs of a replay take at least on one worker, after as many that are discarded
    #[arg(long, default_value_t = 20)]
    pub millis: u64,
    /// Rounds of real runs with one worker and with two; none of them if zero
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// The programs as long as they were published, which takes many minutes
    #[arg(long)]
    pub full: bool,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// The parameters cannot be used.
    #[error(transparent)]
    Setting(#[from] BadSetting),
    /// The operating system refuses threads.
    #[error("no actor system")]
    System(#[from] io::Error),
    /// A program's result is wrong.
    #[error("{program}")]
    Failed {
        /// Which one.
        program: &'static str,
        /// What is wrong.
        source: Failure,
    },
}

/// What one program comes to on one simulated machine.
struct Replayed {
    line_ns: u64,
    workers: usize,
    outcome: Outcome,
    /// Its rate to that of one worker, and to the best of fewer workers.
    to_one: f64,
    to_fewer: f64,
}

/// What two workers come to here.
struct Here {
    simulated: f64,
    simulated_cores: f64,
    real: f64,
    real_cores: f64,
}

struct Row {
    program: Recorded,
    replayed: Vec<Replayed>,
    here: Option<Here>,
}

/// How far apart two long turns begin that are forked together.
struct Spread {
    line_ns: u64,
    workers: usize,
    apart: Duration,
}

/// Records the programs, replays them, and runs them.
///
/// # Errors
/// [`SchedulerError`] when a program cannot be run, or does not give the right result.
pub fn run(options: &Options) -> Result<Report, SchedulerError> {
    let (here, is_measured) = line();
    let least = Duration::from_millis(options.millis);
    let mut programs = Vec::new();
    for benchmark in program::selected(&options.names, options.full)? {
        programs.push(program::record(benchmark.as_ref(), least, options.rounds)?);
    }
    let rows = programs.into_par_iter().map(|program| row(program, options, here)).collect();
    let machines: Vec<_> = machines(options).collect();
    let spread = machines.par_iter().map(|&(line_ns, workers)| spread(line_ns, workers)).collect();
    Ok(Report { line: here, is_measured, rows, spread })
}

fn machines(options: &Options) -> impl Iterator<Item = (u64, usize)> + '_ {
    let workers = || options.workers.iter().map(|workers| workers.get());
    options.line_ns.iter().flat_map(move |&line_ns| workers().map(move |workers| (line_ns, workers)))
}

fn row(program: Recorded, options: &Options, here: Duration) -> Row {
    let on = |workers, line| replay(&program.recording, &Setting { workers, line }, program.runs, program.runs);
    let mut replayed: Vec<Replayed> = Vec::new();
    let mut best = (u64::MAX, Duration::ZERO);
    for (line_ns, workers) in machines(options) {
        let line = Duration::from_nanos(line_ns);
        let one = on(1, line).elapsed;
        if best.0 != line_ns {
            best = (line_ns, one);
        }
        let outcome = on(workers, line);
        let [to_one, to_fewer] = [one, best.1].map(|than| than.as_secs_f64() / outcome.elapsed.as_secs_f64());
        best.1 = best.1.min(outcome.elapsed);
        replayed.push(Replayed { line_ns, workers, outcome, to_one, to_fewer });
    }
    let here = program.real.map(|real| {
        let [one, two] = [1, 2].map(|workers| on(workers, here));
        Here {
            simulated: one.elapsed.as_secs_f64() / two.elapsed.as_secs_f64(),
            simulated_cores: two.busy.as_secs_f64() / two.elapsed.as_secs_f64(),
            real: real.two_to_one,
            real_cores: real.cores,
        }
    });
    Row { program, replayed, here }
}

fn spread(line_ns: u64, workers: usize) -> Spread {
    let setting = Setting { workers, line: Duration::from_nanos(line_ns) };
    let apart = LOADS_NS.iter().map(|&turn_ns| forks_begin_apart(&setting, Duration::from_nanos(turn_ns))).max();
    Spread { line_ns, workers, apart: apart.unwrap_or_default() }
}

/// At least one.
fn runs_in(least: Duration, each: Duration) -> u32 {
    let runs = least.as_nanos().div_ceil(each.as_nanos().max(1));
    NonZeroU32::new(u32::try_from(runs).unwrap_or(u32::MAX)).map_or(1, NonZeroU32::get)
}
