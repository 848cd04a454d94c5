//! `enact bench`: runs a benchmark and prints its report.

use std::env;

use enact_bench::{defer, savina, stm, transfers, vacation};

use crate::args::Bench;
use crate::failure::Failure;

/// Runs `benchmark`; the report goes to standard output, the progress to standard error.
pub(crate) fn run(benchmark: &Bench) -> Result<(), Failure> {
    match benchmark {
        Bench::Transfers(options) => {
            let program = env::current_exe().map_err(Failure::Program)?;
            println!("{}", transfers::run(options, &program)?);
        }
        Bench::Defer(options) => println!("{}", defer::run(options)?),
        Bench::Savina(options) => {
            let report = savina::run(options)?;
            println!("{report}");
            report.verdict()?;
        }
        Bench::Stm(options) => println!("{}", stm::run(options)?),
        Bench::Vacation(options) => println!("{}", vacation::run(options)?),
    }
    Ok(())
}
