//! `enact bench`: runs a benchmark and prints its report.

use std::env;
use std::io;

use enact_bench::savina::SavinaError;
use enact_bench::{actors, defer, kernels, savina, stm, transfers, vacation};

use crate::args::Bench;
use crate::failure::Failure;
use crate::heap;

/// Runs `benchmark`; the report goes to standard output, the progress to standard error.
pub(crate) fn run(benchmark: &Bench) -> Result<(), Failure> {
    match benchmark {
        Bench::Transfers(options) => {
            let program = env::current_exe().map_err(Failure::Program)?;
            println!("{}", transfers::run(options, &program)?);
        }
        Bench::Defer(options) => println!("{}", defer::run(options)?),
        Bench::Savina(options) => {
            let program = env::current_exe().map_err(Failure::Program)?;
            let results = savina::run(options, &program)?;
            println!("{results}");
            results.verdict().map_err(SavinaError::Failed)?;
        }
        Bench::SavinaRuns(options) => {
            savina::serve_runs(options, heap::count, io::stdin().lock(), io::stdout().lock())?;
        }
        Bench::Report(options) => println!("{}", savina::report(options)?),
        Bench::Kernels(options) => println!("{}", kernels::run(options)?),
        Bench::Stm(options) => println!("{}", stm::run(options)?),
        Bench::Actors(options) => {
            let program = env::current_exe().map_err(Failure::Program)?;
            println!("{}", actors::run(options, &program)?);
        }
        Bench::ActorsIdleRun(options) => actors::serve_idle_run(options, io::stdin().lock(), io::stdout().lock())?,
        Bench::Vacation(options) => println!("{}", vacation::run(options)?),
    }
    Ok(())
}
