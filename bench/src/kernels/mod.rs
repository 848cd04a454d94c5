//! Promise kernels: what it costs that a method of an actor calls another one, by the way of calling.
//!
//! # Variants
//! * *await*: every call is a message with a promise, and the caller awaits it in a cooperative handler, so that its
//!   actor serves the call meanwhile. All callers of a chain of calls are suspended at once.
//! * *held*: as await, in a handler that holds its actor while it waits.
//! * *forward*: a tail call hands the caller's promise on; the caller's turn has ended by then.
//! * *sync*: a call of oneself is a call of a Rust method; another actor is called with `call(cx)`.
//! * *native*: a function without actors.
//! * *seq* and *rayon*: the rows of the matrix product in a loop, and in a parallel loop.
//!
//! But for the matrix, the actors do nothing else than call, and `ns/call` says what a call costs. Beside the ratios
//! between the variants stand those of the paper.
//!
//! # Oracle
//! Every result is verified after the clock has stopped; a wrong one ends the benchmark without a report.
//!
//! # Source
//! M. Andrieux, *Safe concurrent abstractions for multicore OCaml*, section 4.
mod ackermann;
mod asking;
mod matrix;
mod paper;
mod probe;
mod program;
mod report;
mod ring;
mod syracuse;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::{io, thread};

use ackermann::Ackermann;
use asking::Asking;
use clap::ValueEnum;
use enact::{ActorError, System};
use enact_workloads::kernels::WrongKernel;
use matrix::Matrix;
use probe::Unwatched;
use program::{Program, Stage};
pub use report::Report;
use ring::Ring;
use syracuse::Syracuse;

use crate::measure::{self, Contender, Plan, Race, race, write_json};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Kernels to run; all if none is named
    #[arg(value_enum, value_name = "KERNEL")]
    pub kernels: Vec<Kernel>,
    /// How often a measured run repeats its kernel; each variant has its own default
    #[arg(long, value_name = "TIMES")]
    pub repeat: Option<NonZeroUsize>,
    /// Rows of the matrices
    #[arg(long, default_value_t = at_least_one(512))]
    pub rows: NonZeroUsize,
    /// Threads that run actors, and threads of rayon; as many as the machine has cores unless set
    #[arg(long)]
    pub workers: Option<NonZeroUsize>,
    /// Measured runs of each variant
    #[arg(long, default_value_t = at_least_one(15))]
    pub iterations: NonZeroUsize,
    /// Discarded runs before them
    #[arg(long, default_value_t = 1)]
    pub warm_up: usize,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("a positive literal")
}

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kernel {
    /// Ackermann's function of 3 and 4, on one actor
    Ackermann,
    /// The Syracuse sequence of 989345275647, on one actor
    Syracuse,
    /// The same sequence, each number asked of another actor in a loop
    Loop,
    /// 10000 hops round a ring of 503 actors
    Ring,
    /// The product of two matrices, with an actor for each row
    Matrix,
}

impl Kernel {
    /// The name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ackermann => "ackermann",
            Self::Syracuse => "syracuse",
            Self::Loop => "loop",
            Self::Ring => "ring",
            Self::Matrix => "matrix",
        }
    }
}

/// How calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// A promise for each, awaited.
    Await,
    /// As await, by a turn that holds its actor.
    Held,
    /// Tail calls pass the caller's promise on.
    Forward,
    /// Done before the caller goes on.
    Sync,
    /// Without actors.
    Native,
    /// A loop without actors.
    Seq,
    /// A parallel loop without actors.
    Rayon,
}

impl Variant {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Await => "await",
            Self::Held => "held",
            Self::Forward => "forward",
            Self::Sync => "sync",
            Self::Native => "native",
            Self::Seq => "seq",
            Self::Rayon => "rayon",
        }
    }
}

/// Why a run has no figures.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Its oracle refused the result.
    #[error("wrong result")]
    Wrong(#[from] WrongKernel),
    /// There is no result.
    #[error("broken promise")]
    Broken(#[from] ActorError),
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelsError {
    /// The operating system refuses threads.
    #[error("cannot start the threads")]
    Threads(#[source] io::Error),
    /// A run has no figures.
    #[error("{}, {}", kernel.name(), variant.name())]
    Failed {
        /// Of what.
        kernel: Kernel,
        /// In which variant.
        variant: Variant,
        /// What is wrong.
        source: Failure,
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

/// Measures the variants of every kernel that `options` name, interleaved.
///
/// # Errors
/// [`KernelsError`] when an oracle refuses a result, or there are no threads or no place for the file.
pub fn run(options: &Options) -> Result<Report, KernelsError> {
    let kernels = if options.kernels.is_empty() { Kernel::value_variants() } else { &options.kernels };
    let workers = options.workers.map_or_else(thread::available_parallelism, Ok).map_err(KernelsError::Threads)?;
    let stage = Stage::with(workers).map_err(KernelsError::Threads)?;
    let Options { iterations, rows, .. } = options;
    let title = format!("Promise kernels, {workers} workers, {iterations} iterations, matrices of {rows} rows");
    let measured = measure::Report::of(title, || {
        kernels.iter().map(|&kernel| options.run_kernel(kernel, &stage)).collect::<Result<_, _>>()
    })?;
    let report = Report::new(kernels, measured);
    if let Some(path) = &options.json {
        write_json(&report, path).map_err(|source| KernelsError::Report { path: path.clone(), source })?;
    }
    Ok(report)
}

impl Stage {
    fn with(workers: NonZeroUsize) -> io::Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers.get()).build().map_err(io::Error::other)?;
        Ok(Self { system: System::builder().workers(workers.get()).build()?, pool })
    }
}

impl Options {
    fn run_kernel(&self, kernel: Kernel, stage: &Stage) -> Result<Race, KernelsError> {
        match kernel {
            Kernel::Ackermann => self.race(kernel, &Ackermann, stage),
            Kernel::Syracuse => self.race(kernel, &Syracuse, stage),
            Kernel::Loop => self.race(kernel, &Asking, stage),
            Kernel::Ring => self.race(kernel, &Ring::default(), stage),
            Kernel::Matrix => self.race(kernel, &Matrix::new(self.rows.get()), stage),
        }
    }

    fn race<T: Program>(&self, kernel: Kernel, program: &T, stage: &Stage) -> Result<Race, KernelsError> {
        let contenders = program.versions::<Unwatched>(stage).into_iter().map(|mut version| {
            let variant = version.variant;
            let repeat = self.repeat.map_or(version.repeat, NonZeroUsize::get);
            let failed = move |source| KernelsError::Failed { kernel, variant, source };
            Contender::new(variant.name(), move || version.measure(program, repeat).map_err(failed))
        });
        let plan = Plan { rounds: self.iterations.get(), warm_up: self.warm_up };
        race(kernel.name(), "kernels", &plan, contenders.collect())
    }
}

#[cfg(test)]
mod tests;
