//! Enact as a contender: a process of the program itself that runs one benchmark whenever it is asked to.
//!
//! The question is one line, `clock` or `heap`; the answer is one line of JSON. To count allocations costs time, so nothing
//! that is reported as time was measured in a run asked for with `heap`; in the others the program's allocator only looks
//! whether it has to count.
use std::io::{self, BufRead, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use enact::System;
use serde::{Deserialize, Serialize};

use super::contender::{Contender, ContenderFailure, Judgement};
use super::program::{ALLOCATED_BYTES, ALLOCATIONS, Benchmark, Variant, Watch};
use super::{BadSetting, SavinaError, setting_of, suite};
use crate::measure::{Allocations, CountAllocations};
use crate::peers::{Answer, Start};

/// The subcommand of the program that a benchmark starts for itself.
pub const COMMAND: &str = "savina-runs";

/// One benchmark, completely.
#[derive(Debug, Clone, clap::Args)]
pub struct RunsOptions {
    /// The benchmark
    #[arg(value_parser = PossibleValuesParser::new(suite().iter().map(|one| one.name())))]
    name: String,
    #[arg(long, value_enum)]
    variant: Variant,
    #[arg(long)]
    workers: NonZeroUsize,
    #[arg(long, value_parser = setting_of)]
    set: Vec<(String, String)>,
}

/// Runs the benchmark for each of `questions` and writes a line of `answers`, until there is no question.
///
/// # Errors
/// [`SavinaError`] when the parameters or the system cannot be had; what a run fails of is an answer.
pub fn serve_runs(
    options: &RunsOptions,
    count: CountAllocations,
    questions: impl BufRead,
    mut answers: impl Write,
) -> Result<(), SavinaError> {
    let benchmark = benchmark(options)?;
    let system = System::builder().workers(options.workers.get()).build().map_err(SavinaError::System)?;
    let mut run = benchmark.run(options.variant, &system)?;
    let answer = |line: io::Result<String>| {
        let watch = if line? == HEAP { Watch::Heap(count) } else { Watch::Clock };
        Answer::from(run(watch)).write(&mut answers)
    };
    questions.lines().try_for_each(answer).map_err(SavinaError::Pipe)
}

fn benchmark(options: &RunsOptions) -> Result<Box<dyn Benchmark>, BadSetting> {
    let mut benchmark = suite().into_iter().find(|one| one.name() == options.name).expect("the parser knows them");
    for (key, value) in &options.set {
        benchmark.set(key, value)?;
    }
    Ok(benchmark)
}

const CLOCK: &str = "clock";
const HEAP: &str = "heap";

/// Where Enact runs.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// This program.
    pub(super) program: &'a Path,
    pub(super) workers: NonZeroUsize,
    /// How long a run may take.
    pub(super) limit: Duration,
}

/// Enact's contender in `benchmark`.
pub(super) fn contender<'a>(benchmark: &dyn Benchmark, variant: Variant, place: Place<'a>) -> Contender<'a> {
    let workers = place.workers.to_string();
    let mut words =
        [COMMAND, benchmark.name(), "--variant", variant.name(), "--workers", &workers].map(str::to_owned).to_vec();
    for (key, value) in benchmark.parameters() {
        words.extend(["--set".to_owned(), format!("{key}={value}")]);
    }
    let start = Start::of([place.program]);
    Contender {
        name: format!("enact {}", variant.name()),
        settles: false,
        start: Box::new(move || start.with(&words)),
        question: CLOCK.to_owned(),
        judgement: judgement(),
        limit: place.limit,
    }
}

/// The result was verified where it was found.
fn judgement() -> Judgement<'static> {
    Rc::new(|answer| match serde_json::from_str(answer)? {
        Answer::Right(sample) => Ok(sample),
        Answer::Failed(reason) => Err(ContenderFailure::Refused { reason }),
    })
}

/// What one run allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// In all.
    #[serde(flatten)]
    pub allocations: Allocations,
    /// Messages of that run.
    pub messages: u64,
}

impl Heap {
    /// Allocations a message.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn count_per_message(&self) -> f64 {
        self.allocations.count as f64 / self.messages.max(1) as f64
    }

    /// Allocated bytes a message.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn bytes_per_message(&self) -> f64 {
        self.allocations.bytes as f64 / self.messages.max(1) as f64
    }
}

/// Counts what a run of Enact's `contender` allocates when another run came before it.
pub(super) fn heap(contender: &Contender<'_>) -> Result<Heap, ContenderFailure> {
    let mut running = contender.start_warm()?;
    // The first run also allocates what is kept for all that follow.
    running.measure()?;
    HEAP.clone_into(&mut running.question);
    let sample = running.measure()?;
    let fact = |name| sample.facts.get(name).copied().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts, which doubles have exactly")]
    let allocations = Allocations { count: fact(ALLOCATIONS) as u64, bytes: fact(ALLOCATED_BYTES) as u64 };
    Ok(Heap { allocations, messages: sample.work })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Sample;

    fn options(set: &[(&str, &str)]) -> RunsOptions {
        let set = set.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        RunsOptions { name: "pp".to_owned(), variant: Variant::Port, workers: NonZeroUsize::MIN, set }
    }

    fn answers(questions: &str) -> Vec<Sample> {
        let count: CountAllocations = |run| {
            run();
            Allocations { count: 5, bytes: 100 }
        };
        let mut written = Vec::new();
        serve_runs(&options(&[("pings", "7")]), count, questions.as_bytes(), &mut written)
            .expect("possible parameters");
        let judge = judgement();
        let lines = String::from_utf8(written).expect("JSON");
        lines.lines().map(|line| judge(line).expect("a right result")).collect()
    }

    #[test]
    fn every_question_is_a_run_and_only_those_for_the_heap_count() {
        let [clock, heap] = &answers("clock\nheap\n")[..] else { panic!("two answers") };
        assert_eq!((clock.work, heap.work), (22, 22), "three messages a ping, and one more");
        assert!(!clock.facts.contains_key(ALLOCATIONS), "{clock:?}");
        assert_eq!((heap.facts[ALLOCATIONS], heap.facts[ALLOCATED_BYTES]), (5.0, 100.0));
    }

    #[test]
    fn impossible_parameters_are_refused_before_any_run() {
        let refused = serve_runs(&options(&[("pings", "0")]), |_| unreachable!(), "clock\n".as_bytes(), Vec::new());
        assert!(matches!(refused, Err(SavinaError::Setting(BadSetting::Impossible { .. }))), "{refused:?}");
    }

    #[test]
    fn an_answer_that_says_why_there_is_no_result_is_a_failure() {
        let failure =
            judgement()(r#"{"failed": "wrong result: pings: 3 where 4 was expected"}"#).expect_err("no result");
        assert_eq!(failure.to_string(), "wrong result: pings: 3 where 4 was expected");
    }

    #[test]
    fn figures_a_message_are_of_the_messages_of_the_counted_run() {
        let heap = Heap { allocations: Allocations { count: 30, bytes: 600 }, messages: 20 };
        assert_eq!((heap.count_per_message(), heap.bytes_per_message()), (1.5, 30.0));
    }
}
