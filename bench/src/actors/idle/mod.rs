//! Idle actors: what each takes of memory, and how long it takes to make one.
//!
//! # Contenders
//! All have eight bytes of state, and their maker keeps a handle of each.
//! * *spawned*: actors that never had a message.
//! * *asked*: actors that have answered one plain turn each.
//! * *awaited*: actors that have answered one asynchronous turn each, which has suspended once. Its message is as long as
//!   the plain one: an actor keeps room for a message, so that longer ones would count, and not the suspension.
//! * *tokio task*, *tokio task asked*: the same without an actor library, tasks that wait for a message from an unbounded
//!   channel, before the first one and after one.
//!
//! # What is measured
//! The memory of the process that is resident when all of them are idle, less what was resident before the first was
//! made, divided by their number. The clock stops when the last has been made and, where they are asked, has answered:
//! tasks that are not asked may still have to be polled for the first time then.
//!
//! # A process for each run
//! An allocator gives freed memory to the next request, which makes nothing resident. So each run is one of a fresh
//! process of this program, which reads one line, runs, and answers with one line of JSON.
//!
//! # Oracle
//! Afterwards each is asked once, and says how often it has been asked.
mod actors;
mod run;
mod tasks;

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
pub use run::{COMMAND, RunOptions, serve};

use super::{ActorsError, Failure};
use crate::measure::{Contender, Plan, Process, Race, Sample, race};
use crate::peers::{Answer, Start};

/// How long a run may take; one that takes longer has lost a message.
const RUN_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// Settings of the workload.
#[derive(Debug, Clone, clap::Args)]
pub struct IdleOptions {
    /// Actors that are made and left alone, in `idle`
    #[arg(long, value_name = "NUMBER", default_value = "1000000")]
    pub idle_actors: NonZeroUsize,
}

/// What waits, and what it has done before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Spawned,
    Asked,
    Awaited,
    Task,
    TaskAsked,
}

impl Kind {
    /// The name in tables.
    fn name(self) -> &'static str {
        match self {
            Self::Spawned => "spawned",
            Self::Asked => "asked",
            Self::Awaited => "awaited",
            Self::Task => "tokio task",
            Self::TaskAsked => "tokio task asked",
        }
    }

    /// The name on the command line.
    fn word(self) -> String {
        self.to_possible_value().expect("every kind can be named").get_name().to_owned()
    }
}

impl IdleOptions {
    /// One race; `program` is this program, which runs each contender in a process of its own.
    pub(super) fn race(&self, workers: NonZeroUsize, plan: &Plan, program: &Path) -> Result<Race, ActorsError> {
        let start = &Start::of([program]);
        let contenders = Kind::value_variants().iter().map(|&kind| {
            let contender = kind.name();
            let failed = move |source| ActorsError::Failed { workload: "idle".to_owned(), contender, source };
            Contender::new(contender, move || self.run_apart(kind, workers, start).map_err(failed))
        });
        race("idle", "actors", plan, contenders.collect())
    }

    fn run_apart(&self, kind: Kind, workers: NonZeroUsize, start: &Start) -> Result<Sample, Failure> {
        let [kind, actors, workers] = [kind.word(), self.idle_actors.to_string(), workers.to_string()];
        let words = [COMMAND, &kind, "--actors", &actors, "--workers", &workers];
        let mut program = start.with(words).map_err(Failure::Program)?;
        let answer = program.ask_within("run", RUN_TIME_MAX).map_err(Failure::Program)?;
        let cpu = Process::of(program.id()).cpu_time();
        match serde_json::from_str(&answer)? {
            Answer::Right(sample) => {
                let cpu = cpu.or(sample.lap.cpu).unwrap_or_default();
                Ok(sample.helped(cpu))
            }
            Answer::Failed(reason) => Err(Failure::Refused { reason }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(words: &'static [&'static str]) -> Failure {
        let options = IdleOptions { idle_actors: NonZeroUsize::MIN };
        let start = Start::of(words.iter().copied());
        options.run_apart(Kind::Spawned, NonZeroUsize::MIN, &start).expect_err("no run")
    }

    #[test]
    fn a_program_that_breaks_off_talks_nonsense_or_refuses_fails() {
        assert!(matches!(failure(&["no-such-program"]), Failure::Program(_)));
        assert!(matches!(failure(&["true"]), Failure::Program(_)));
        assert!(matches!(failure(&["sh", "-c", "read line; echo nonsense"]), Failure::Unreadable(_)));
        let refused = failure(&["sh", "-c", r#"read line; echo '{"failed": "too many"}'"#]);
        assert!(matches!(&refused, Failure::Refused { reason } if reason == "too many"), "{refused:?}");
    }
}
