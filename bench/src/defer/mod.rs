//! Atomic deferral against locks and irrevocable transactions: appending to shared files, and a deduplicating pipeline.
//!
//! Both compare what a program gets for one line of difference: input and output in an irrevocable transaction stop all
//! others; deferred to after the commit, under the lock of the object that they touch, they stop those that need it.
mod dedup;
mod io;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use dedup::WrongFile;
pub use io::WrongLog;
use thiserror::Error;

use crate::measure::{Plan, Report};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Which of the benchmarks
    #[arg(value_enum, default_value_t = Part::All)]
    pub part: Part,
    /// Numbers of threads, one measurement each; of the pipeline, threads in each of its three pools
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8].map(at_least_one))]
    pub threads: Vec<NonZeroUsize>,
    /// Operations on the files in each run; the slow device gets a tenth
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: u64,
    /// Input of the pipeline, in MiB
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub mib: u16,
    /// Seed of the pipeline's input
    #[arg(long, default_value_t = 1_234_567)]
    pub seed: u64,
    /// Sync the pipeline's output after every packet
    #[arg(long)]
    pub fsync: bool,
    /// Instead of syncing, wait as long as a disk of this latency would, in microseconds
    #[arg(long, value_name = "US", conflicts_with = "fsync")]
    pub sync_us: Option<u64>,
    /// Parent of the directory for all files; in memory where there is such a place, unless given
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// How often to measure.
    #[command(flatten)]
    pub plan: Plan,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("a positive literal")
}

/// The benchmarks of deferral.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Appending to shared files
    Io,
    /// The deduplicating pipeline
    Dedup,
    /// Both
    All,
}

/// Why there is no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeferError {
    /// Files cannot be used.
    #[error("the files of the benchmark failed while {doing}")]
    Files {
        /// What the benchmark was doing.
        doing: &'static str,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The oracle refused the files that operations appended to.
    #[error("wrong result of {workload}")]
    Log {
        /// Workload and number of threads.
        workload: String,
        /// What is wrong.
        #[source]
        wrong: WrongLog,
    },
    /// The oracle refused the output of the pipeline.
    #[error("wrong result of the pipeline's version `{version}`")]
    Output {
        /// The version.
        version: &'static str,
        /// What is wrong.
        #[source]
        wrong: WrongFile,
    },
    /// The report could not be written.
    #[error("cannot write {}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
}

impl DeferError {
    /// Maps an error that came while `doing`.
    fn when(doing: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Files { doing, source }
    }
}

/// Measures what `options` ask for; every sample's result has been verified.
///
/// # Errors
/// [`DeferError`] when files cannot be used, or an oracle refuses a result.
pub fn run(options: &Options) -> Result<Report, DeferError> {
    let parent = options.directory.clone().unwrap_or_else(in_memory);
    let directory = tempfile::Builder::new()
        .prefix("enact-bench-")
        .tempdir_in(&parent)
        .map_err(DeferError::when("making a directory"))?;
    let threads: Vec<_> = options.threads.iter().map(|threads| threads.get()).collect();
    let title = format!("{options}, files in {}", parent.display());
    let report = Report::of(title, || {
        let mut races = Vec::new();
        if options.part != Part::Dedup {
            races.extend(io::measure(directory.path(), options.operations, &threads, &options.plan)?);
        }
        if options.part != Part::Io {
            races.extend(dedup::measure(directory.path(), options.pipeline(), &threads, &options.plan)?);
        }
        Ok(races)
    })?;
    directory.close().map_err(DeferError::when("removing the directory"))?;
    if let Some(path) = &options.json {
        report.write_json(path).map_err(|source| DeferError::Report { path: path.clone(), source })?;
    }
    Ok(report)
}

impl Options {
    fn pipeline(&self) -> dedup::Settings {
        let sync = match self.sync_us {
            Some(latency) => dedup::Syncing::Simulated(Duration::from_micros(latency)),
            None if self.fsync => dedup::Syncing::Disk,
            None => dedup::Syncing::Never,
        };
        dedup::Settings { bytes: usize::from(self.mib) << 20, seed: self.seed, sync }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let io = format!("appending, {} operations", self.operations);
        let sync = match self.pipeline().sync {
            dedup::Syncing::Never => "not synced".to_owned(),
            dedup::Syncing::Disk => "synced".to_owned(),
            dedup::Syncing::Simulated(latency) => format!("{latency:?} for each sync"),
        };
        let dedup = format!("pipeline, {} MiB from seed {}, {sync}", self.mib, self.seed);
        match self.part {
            Part::Io => f.write_str(&io),
            Part::Dedup => f.write_str(&dedup),
            Part::All => write!(f, "{io}; {dedup}"),
        }
    }
}

fn threads_in_words(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// A directory that no disk is behind, where the system has one.
fn in_memory() -> PathBuf {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { shared_memory.to_owned() } else { std::env::temp_dir() }
}
