//! The `enact-bench` program: runs one benchmark and prints its report.
//!
//! Standard output carries the report; standard error carries progress and the message of a failure.
#![deny(unsafe_code)]

mod args;
mod heap;

use std::error::Error;
use std::process::ExitCode;
use std::{env, io};

use args::{Benchmark, Cli};
use clap::Parser;
use enact_bench::savina::SavinaError;
use enact_bench::{
    actors, admission, appends, batches, compaction, cost, deadlines, defer, engine, hot, in_words, isolation, kernels,
    neighbours, nodes, postgres, psac, rebel, report, savina, scheduler, soak, stm, transfers, vacation,
};

fn main() -> ExitCode {
    match run(&Cli::parse().benchmark) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: the benchmark has no result: {}", in_words(&*failure));
            ExitCode::FAILURE
        }
    }
}

fn run(benchmark: &Benchmark) -> Result<(), Box<dyn Error>> {
    match benchmark {
        Benchmark::Transfers(options) => println!("{}", transfers::run(options)?),
        Benchmark::Cost(options) => println!("{}", cost::run(options, &env::current_exe()?)?),
        Benchmark::CostFloor(options) => cost::serve_floor(options)?,
        Benchmark::Appends(options) => println!("{}", appends::run(options)?),
        Benchmark::Compaction(options) => println!("{}", compaction::run(options)?),
        Benchmark::Batches(options) => println!("{}", batches::run(options)?),
        Benchmark::Engine(options) => println!("{}", engine::run(options)?),
        Benchmark::Psac(options) => println!("{}", psac::run(options)?),
        Benchmark::PsacSimulation(options) => println!("{}", psac::simulation::run(options)?),
        Benchmark::Postgres(options) => println!("{}", postgres::run(options)?),
        Benchmark::Hot(options) => println!("{}", hot::run(options)?),
        Benchmark::Neighbours(options) => println!("{}", neighbours::run(options, &env::current_exe()?)?),
        Benchmark::NeighboursSpin(options) => neighbours::spin(options),
        Benchmark::Nodes(options) => println!("{}", nodes::run(options)?),
        Benchmark::Soak(options) => {
            let report = soak::run(options)?;
            println!("{report}");
            report.verdict()?;
        }
        Benchmark::Deadlines(options) => println!("{}", deadlines::run(options)?),
        Benchmark::Admission(options) => println!("{}", admission::run(options)?),
        Benchmark::Isolation(options) => println!("{}", isolation::run(options)?),
        Benchmark::Stm(options) => println!("{}", stm::run(options)?),
        Benchmark::Defer(options) => println!("{}", defer::run(options)?),
        Benchmark::Savina(options) => {
            let results = savina::run(options, &env::current_exe()?)?;
            println!("{results}");
            results.verdict().map_err(SavinaError::Failed)?;
        }
        Benchmark::SavinaRuns(options) => {
            savina::serve_runs(options, heap::count, io::stdin().lock(), io::stdout().lock())?;
        }
        Benchmark::Scheduler(options) => println!("{}", scheduler::run(options)?),
        Benchmark::Report(options) => println!("{}", report::run(options)?),
        Benchmark::Rebel(options) => println!("{}", rebel::run(options)?),
        Benchmark::Kernels(options) => println!("{}", kernels::run(options)?),
        Benchmark::Actors(options) => println!("{}", actors::run(options, &env::current_exe()?)?),
        Benchmark::ActorsIdleRun(options) => actors::serve_idle_run(options, io::stdin().lock(), io::stdout().lock())?,
        Benchmark::Vacation(options) => println!("{}", vacation::run(options)?),
    }
    Ok(())
}
