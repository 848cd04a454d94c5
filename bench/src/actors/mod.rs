//! What the actor runtime promises beside throughput.
//!
//! # Workloads
//! * *outside*: how long a thread outside of the system waits for an idle actor's answer while other actors keep every
//!   worker busy, and what that costs them.
//! * *idle*: what an actor takes of memory while nothing happens to it, and how long it takes to make one.
//!
//! # Oracle
//! Every run verifies what it did after the clock has stopped; a wrong result ends the benchmark without a report.
mod idle;
mod outside;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{io, thread};

use clap::ValueEnum;
use enact::ActorError;
use enact::actors::Shutdown;
pub use idle::{COMMAND as IDLE_RUN_COMMAND, IdleOptions, RunOptions as IdleRunOptions, serve as serve_idle_run};
pub use outside::OutsideOptions;

use crate::measure::{Plan, Race, Report};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Workloads to run; all if none is named
    #[arg(value_enum, value_name = "WORKLOAD")]
    pub workloads: Vec<Workload>,
    /// Threads that run actors; as many as the machine has cores unless set
    #[arg(long)]
    pub workers: Option<NonZeroUsize>,
    /// How often
    #[command(flatten)]
    pub plan: Plan,
    /// Settings of `outside`
    #[command(flatten)]
    pub outside: OutsideOptions,
    /// Settings of `idle`
    #[command(flatten)]
    pub idle: IdleOptions,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Asks of an idle actor from outside, beside actors that are flooded
    Outside,
    /// Memory of actors that wait for messages, and the time to make one, beside tokio's tasks
    Idle,
}

/// Why a run has no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The operating system refuses threads.
    #[error("cannot start the threads")]
    Threads(#[from] io::Error),
    /// An actor did not answer.
    #[error("broken promise")]
    Broken(#[from] ActorError),
    /// An actor's answer is not the number of times that it was asked.
    #[error("ask {asked} was answered with {answer}")]
    Answer {
        /// The number of the ask.
        asked: u64,
        /// What the actor said.
        answer: u64,
    },
    /// Messages were lost or taken up twice.
    #[error("of {told} messages {taken} were taken up")]
    Taken {
        /// How many were sent.
        told: u64,
        /// How many turns there were.
        taken: u64,
    },
    /// The actors went on after they were told to stop.
    #[error("the system ended with {0:?}")]
    Undrained(Shutdown),
    /// A tokio task has ended although its sender is there.
    #[error("a task has ended")]
    Gone,
    /// The operating system does not tell how much memory of this process is resident.
    #[error("the operating system does not tell how much memory is resident")]
    Untold,
    /// The process of a run could not be started, or broke off.
    #[error("its program broke off")]
    Program(#[source] io::Error),
    /// The process of a run says that it has no figures.
    #[error("{reason}")]
    Refused {
        /// In its words.
        reason: String,
    },
    /// The process of a run does not answer with its figures.
    #[error("its answer cannot be read")]
    Unreadable(#[from] serde_json::Error),
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActorsError {
    /// The machine does not say how many cores it has.
    #[error("cannot count the cores")]
    Cores(#[source] io::Error),
    /// A run has no figures.
    #[error("{workload}, {contender}")]
    Failed {
        /// Of what.
        workload: String,
        /// Which contender's.
        contender: &'static str,
        /// What is wrong.
        source: Failure,
    },
    /// The process that asks for a run cannot be talked to.
    #[error("standard input or output is broken")]
    Pipe(#[source] io::Error),
    /// The report could not be written.
    #[error("cannot write {}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// Measures the workloads that `options` name, with `program` to run what needs a process of its own.
///
/// # Errors
/// [`ActorsError`] when an oracle refuses a result, or there are no threads or no place for the file.
pub fn run(options: &Options, program: &Path) -> Result<Report, ActorsError> {
    let workloads = if options.workloads.is_empty() { Workload::value_variants() } else { &options.workloads };
    let workers = options.workers.map_or_else(thread::available_parallelism, Ok).map_err(ActorsError::Cores)?;
    let title = format!("Actor runtime, {workers} workers, {} rounds", options.plan.rounds);
    let report = Report::of(title, || {
        let races = workloads.iter().map(|workload| options.run_workload(*workload, workers, program));
        Ok(races.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    })?;
    if let Some(path) = &options.json {
        report.write_json(path).map_err(|source| ActorsError::Report { path: path.clone(), source })?;
    }
    Ok(report)
}

impl Options {
    fn run_workload(
        &self,
        workload: Workload,
        workers: NonZeroUsize,
        program: &Path,
    ) -> Result<Vec<Race>, ActorsError> {
        match workload {
            Workload::Outside => self.outside.races(workers, &self.plan),
            Workload::Idle => Ok(vec![self.idle.race(workers, &self.plan, program)?]),
        }
    }
}
