//! One run, in a process that has done nothing else.
use std::io::{BufRead, Write};
use std::num::NonZeroUsize;

use super::super::{ActorsError, Failure};
use super::{Kind, actors, tasks};
use crate::measure::{Process, Sample, Stopwatch};
use crate::peers::Answer;

/// The subcommand of the program that the workload starts for itself.
pub const COMMAND: &str = "actors-idle-run";

/// How many are asked before their answers are waited for: few, so that what is under way takes no memory to speak of.
const BATCH: usize = 1_000;

/// The run, completely.
#[derive(Debug, Clone, clap::Args)]
pub struct RunOptions {
    /// What is made, and what it does before it is idle
    #[arg(value_enum)]
    kind: Kind,
    /// How many of them
    #[arg(long)]
    actors: NonZeroUsize,
    /// Threads that run them
    #[arg(long)]
    workers: NonZeroUsize,
}

/// Waits for a line of `question`, runs once, and writes the `answer` as a line of JSON.
///
/// # Errors
/// [`ActorsError::Pipe`] when there is no question, or the answer cannot be written; what a run fails of is an answer.
pub fn serve(options: &RunOptions, mut question: impl BufRead, answer: impl Write) -> Result<(), ActorsError> {
    question.read_line(&mut String::new()).map_err(ActorsError::Pipe)?;
    Answer::from(options.run()).write(answer).map_err(ActorsError::Pipe)
}

impl RunOptions {
    fn run(&self) -> Result<Sample, Failure> {
        let Self { kind, actors, workers } = *self;
        match kind {
            Kind::Spawned => actors::spawned(actors, workers),
            Kind::Asked => actors::asked(actors, workers),
            Kind::Awaited => actors::awaited(actors, workers),
            Kind::Task => tasks::made(actors, workers),
            Kind::TaskAsked => tasks::asked(actors, workers),
        }
    }
}

/// The handle of what is idle until it is asked how often it has been asked.
pub(super) trait Idler {
    /// An answer that is to come.
    type Answer;

    fn ask(&self) -> Result<Self::Answer, Failure>;

    fn wait(answer: Self::Answer) -> Result<u64, Failure>;
}

/// Measures `make`, which leaves `count` handles of what is idle, each asked `asked` times.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn measure<I: Idler>(
    count: NonZeroUsize,
    asked: u64,
    make: impl FnOnce() -> Result<Vec<I>, Failure>,
) -> Result<Sample, Failure> {
    let resident = || Process::own().resident_bytes().ok_or(Failure::Untold);
    let (before, watch) = (resident()?, Stopwatch::start());
    let idlers = make()?;
    let lap = watch.stop();
    Process::own().await_rest();
    let bytes = resident()? as f64 - before as f64;
    assert_eq!(idlers.len(), count.get(), "every one is kept");
    ask_all(&idlers, asked + 1)?;
    let each = |whole: f64| whole / count.get() as f64;
    let sample = Sample::new(lap, count.get() as u64).with_fact("bytes each", each(bytes));
    Ok(sample.with_fact("ns each", each(lap.wall.as_secs_f64() * 1e9)))
}

/// Asks each of `idlers` once, for the time with the number `asked`.
pub(super) fn ask_all<I: Idler>(idlers: &[I], asked: u64) -> Result<(), Failure> {
    in_batches(idlers, I::ask, |answer| verify(I::wait(answer)?, asked))
}

/// Does `begin` with each of `idlers`, and with what it returns `end`, once all of a batch have begun.
pub(super) fn in_batches<I, T>(
    idlers: &[I],
    begin: impl Fn(&I) -> Result<T, Failure>,
    end: impl Fn(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    idlers.chunks(BATCH).try_for_each(|some| {
        let begun = some.iter().map(&begin).collect::<Result<Vec<_>, _>>()?;
        begun.into_iter().try_for_each(&end)
    })
}

/// Looks whether an answer to the ask with the number `asked` says so.
pub(super) fn verify(answer: u64, asked: u64) -> Result<(), Failure> {
    if answer == asked { Ok(()) } else { Err(Failure::Answer { asked, answer }) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use clap::ValueEnum;

    use super::*;

    fn options(kind: Kind) -> RunOptions {
        RunOptions { kind, actors: NonZeroUsize::new(2_345).expect("some"), workers: NonZeroUsize::MIN }
    }

    #[test]
    fn every_kind_answers_one_question_with_what_it_takes() {
        for &kind in Kind::value_variants() {
            let mut written = Vec::new();
            serve(&options(kind), "run\nrun\n".as_bytes(), &mut written).expect("a pipe");
            let answer = serde_json::from_slice(&written).expect("one line of JSON");
            let Answer::Right(sample) = answer else { panic!("{kind:?}: {written:?}") };
            assert_eq!(sample.work, 2_345, "{kind:?}");
            assert!(sample.facts["ns each"] > 0.0 && sample.facts.contains_key("bytes each"), "{kind:?}: {sample:?}");
        }
    }

    /// Has been asked as often as it says.
    struct Stuck(u64);

    impl Idler for Stuck {
        type Answer = u64;

        fn ask(&self) -> Result<u64, Failure> {
            Ok(self.0)
        }

        fn wait(answer: u64) -> Result<u64, Failure> {
            Ok(answer)
        }
    }

    #[test]
    fn an_answer_with_another_count_is_refused_wherever_it_stands() {
        let count = NonZeroUsize::new(BATCH + 1).expect("some");
        let measured = |last| {
            let all = (0..BATCH).map(|_| Stuck(2)).chain([Stuck(last)]).collect();
            measure(count, 1, || Ok(all))
        };
        assert!(measured(2).is_ok());
        let refused = measured(3);
        assert!(matches!(refused, Err(Failure::Answer { asked: 2, answer: 3 })), "{refused:?}");
    }

    #[test]
    fn nothing_ends_before_all_of_its_batch_have_begun() {
        let (idlers, begun) = (vec![(); BATCH + 1], Cell::new(0));
        let begin = |(): &()| {
            begun.set(begun.get() + 1);
            Ok(begun.get())
        };
        let end = |number: usize| {
            let all_of_batch = if number <= BATCH { BATCH } else { BATCH + 1 };
            assert_eq!(begun.get(), all_of_batch, "when {number} ends");
            Ok(())
        };
        in_batches(&idlers, begin, end).expect("nothing fails");
        assert_eq!(begun.get(), BATCH + 1);
    }
}
