//! The command line.

use clap::{Parser, Subcommand};
use enact_bench::{
    actors, admission, appends, batches, compaction, cost, deadlines, defer, engine, hot, isolation, kernels,
    neighbours, nodes, postgres, psac, rebel, report, savina, scheduler, soak, stm, transfers, vacation,
};

const EXIT_STATUS_HELP: &str = "\
Exit status:
  0  done
  1  a benchmark could not be run, or its result was wrong
  2  wrong usage";

/// The benchmarks of Enact: each measures, and verifies what it measured.
#[derive(Debug, Parser)]
#[command(name = "enact-bench", version, about, after_help = EXIT_STATUS_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Benchmark {
    /// Money transfers over HTTP against a bank that `enact` serves, by number of clients
    Transfers(transfers::Options),
    /// What a command over HTTP costs the server, beside an empty request and a server that has nothing but a log
    Cost(cost::Options),
    /// The floor of `cost`
    #[command(name = cost::FLOOR_COMMAND, hide = true)]
    CostFloor(cost::FloorOptions),
    /// Money transfers and deposits in process, by number of clients and threads
    Engine(engine::Options),
    /// The experiments of the paper on path-sensitive atomic commit and known benchmarks, by strategy, clients and engines
    Psac(psac::Options),
    /// The transfers of `psac` over any number of nodes, simulated: with the paper's costs beside its figures, and with ours
    PsacSimulation(psac::simulation::Options),
    /// The transfers of `psac` over HTTP, beside a stored procedure in PostgreSQL on the same disk
    Postgres(postgres::Options),
    /// Mixes of events on one hot object over HTTP, by admission strategy and number of clients
    Hot(hot::Options),
    /// What a hot object costs its neighbours, beside a process that uses as much of the machine
    Neighbours(neighbours::Options),
    /// The busy process of `neighbours`
    #[command(name = neighbours::SPIN_COMMAND, hide = true)]
    NeighboursSpin(neighbours::SpinOptions),
    /// How long entities are not served when one of several nodes is killed, stops or joins
    Nodes(nodes::Options),
    /// A bank under a steady mix for hours: whether its server grows beyond what it stores, and all money is there
    Soak(soak::Options),
    /// How late answers are when ten times as much is asked as can be served
    Deadlines(deadlines::Options),
    /// Appends to the embedded journal, beside a loop that writes and syncs, and beside redb
    Appends(appends::Options),
    /// What compaction frees of a log, and what it costs those that read it afterwards
    Compaction(compaction::Options),
    /// Transfers over HTTP in requests, in batches and as one transaction, beside the engine in process
    Batches(batches::Options),
    /// Admission alone, while a thousand transactions are open at one entity and a thousand are delayed
    Admission(admission::Options),
    /// The smallest history without a serial order under psac, and that there is none under serializable
    Isolation(isolation::Options),
    /// Transactional memory against locks and other libraries, by workload and number of threads
    Stm(stm::Options),
    /// Input and output deferred by transactions, against locks and irrevocable transactions
    Defer(defer::Options),
    /// Actors: the programs of the Savina suite
    Savina(savina::Options),
    /// Runs of one benchmark for `savina`, one for each line of standard input
    #[command(name = savina::RUNS_COMMAND, hide = true)]
    SavinaRuns(savina::RunsOptions),
    /// The programs of `savina` replayed by the scheduler in simulated time, by number of workers and cost of a cache line
    Scheduler(scheduler::Options),
    /// Pages from what `savina --json` or `psac --json` wrote, without measuring again
    Report(report::Options),
    /// Rebel: an event with one effect, one with guards, a whole step, and the check of a large contract
    Rebel(rebel::Options),
    /// Promises: awaited, forwarded, or avoided by synchronous calls
    Kernels(kernels::Options),
    /// The actor runtime: how long what comes from outside waits while actors are flooded, and what idle actors take
    Actors(actors::Options),
    /// One run of the workload `idle` for `actors`, once a line comes from standard input
    #[command(name = actors::IDLE_RUN_COMMAND, hide = true)]
    ActorsIdleRun(actors::IdleRunOptions),
    /// One large transaction a customer against several small ones in transactional actors
    Vacation(vacation::Options),
}
