//! A contender: a program in a process of its own, which is asked for one run at a time.
//!
//! Enact runs in such a process like everybody else. Each is started anew for each benchmark, so that none measures what
//! another left behind, above all in memory. One that does not answer within its limit is killed.
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::oracle::Wrong;
use crate::measure::{Lap, Process, Sample, median};
use crate::peers::Program;

/// Runs after which it no longer matters whether times have settled.
const SETTLING_RUNS_MAX: usize = 30;

/// Why there are no figures of a contender.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContenderFailure {
    /// The oracle refused its result.
    #[error("wrong result")]
    Wrong(#[from] Wrong),
    /// It says itself that it has none.
    #[error("{reason}")]
    Refused {
        /// In its words.
        reason: String,
    },
    /// It did not answer.
    #[error("it has not answered within {} s and was killed", limit.as_secs_f64())]
    Late {
        /// How long it may take.
        limit: Duration,
    },
    /// Its program could not be started, or broke off.
    #[error("its program broke off")]
    Program(#[from] io::Error),
    /// Its program's answer is not what is expected of this benchmark.
    #[error("its answer cannot be read")]
    Answer(#[from] serde_json::Error),
}

/// Makes of an answer what was measured, if its result is right.
pub(super) type Judgement<'a> = Rc<dyn Fn(&str) -> Result<Sample, ContenderFailure> + 'a>;

/// A contender in one benchmark, started as often as it is needed.
pub(super) struct Contender<'a> {
    pub(super) name: String,
    /// Whether it is slow at first.
    pub(super) settles: bool,
    pub(super) start: Box<dyn Fn() -> io::Result<Program> + 'a>,
    pub(super) question: String,
    pub(super) judgement: Judgement<'a>,
    /// How long a run may take.
    pub(super) limit: Duration,
}

impl<'a> Contender<'a> {
    /// Starts it, and lets it get warm.
    pub(super) fn start_warm(&self) -> Result<Running<'a>, ContenderFailure> {
        let mut running = self.start_process()?;
        if self.settles {
            running.settle()?;
        }
        Ok(running)
    }

    fn start_process(&self) -> Result<Running<'a>, ContenderFailure> {
        let (question, judgement) = (self.question.clone(), Rc::clone(&self.judgement));
        Ok(Running { program: (self.start)()?, question, judgement, limit: self.limit })
    }

    /// From before its process exists to its first right result.
    pub(super) fn start_cold(&self) -> Result<Sample, ContenderFailure> {
        let started = Instant::now();
        let mut running = self.start_process()?;
        running.run()?;
        let wall = started.elapsed();
        // In hundredths of a second: too coarse to report, and good enough to tell from what others use.
        let cpu = Process::of(running.program.id()).cpu_time().unwrap_or_default();
        Ok(Sample::new(Lap { wall, cpu: None }, 1).helped(cpu))
    }
}

/// A contender whose program runs.
pub(super) struct Running<'a> {
    program: Program,
    pub(super) question: String,
    judgement: Judgement<'a>,
    limit: Duration,
}

impl Running<'_> {
    /// Runs and verifies once, and lets the program come to rest before the next one runs.
    pub(super) fn measure(&mut self) -> Result<Sample, ContenderFailure> {
        let process = Process::of(self.program.id());
        let cpu_before = process.cpu_time();
        let sample = self.run();
        process.await_rest();
        let cpu = process.cpu_time().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
        sample.map(|sample| {
            let cpu = cpu.or(sample.lap.cpu).unwrap_or_default();
            sample.helped(cpu)
        })
    }

    /// Runs and verifies once.
    fn run(&mut self) -> Result<Sample, ContenderFailure> {
        let process = Process::of(self.program.id());
        let memory = process.watch_memory();
        let answer = self.program.ask_within(&self.question, self.limit).map_err(|broken| match broken.kind() {
            io::ErrorKind::TimedOut => ContenderFailure::Late { limit: self.limit },
            _ => ContenderFailure::Program(broken),
        })?;
        let peak = memory.and_then(|memory| memory.mib());
        Ok((self.judgement)(&answer)?.with_peak_memory(peak))
    }

    /// Runs until the median of five runs is within a tenth of that of the five runs before.
    fn settle(&mut self) -> Result<(), ContenderFailure> {
        let mut walls_s = Vec::new();
        while walls_s.len() < SETTLING_RUNS_MAX && !has_settled(&walls_s) {
            walls_s.push(self.measure()?.lap.wall.as_secs_f64());
        }
        Ok(())
    }
}

fn has_settled(walls_s: &[f64]) -> bool {
    let Some(last) = walls_s.last_chunk::<10>() else { return false };
    let (before, after) = (median(&last[..5]), median(&last[5..]));
    (before - after).abs() <= before / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Start;

    fn contender(words: &'static [&'static str], limit: Duration) -> Contender<'static> {
        let start = Box::new(|| Start::of(words.iter().copied()).with([""; 0]));
        let judgement: Judgement<'_> = Rc::new(|answer| {
            let wall = Duration::from_millis(serde_json::from_str(answer)?);
            Ok(Sample::new(Lap { wall, cpu: None }, 1))
        });
        Contender { name: "one".to_owned(), settles: false, start, question: "7".to_owned(), judgement, limit }
    }

    #[test]
    fn times_have_settled_when_five_are_about_the_five_before() {
        let walls = |first: f64, then: f64| [[first; 5], [then; 5]].concat();
        assert!(has_settled(&walls(1.0, 1.09)));
        assert!(!has_settled(&walls(1.0, 0.8)));
        assert!(!has_settled(&[1.0; 9]));
        assert!(has_settled(&[vec![9.0, 5.0], walls(1.0, 1.0)].concat()));
    }

    #[test]
    fn a_run_is_what_the_program_answers() {
        let echo = contender(&["cat"], Duration::from_secs(60));
        let sample = echo.start_warm().and_then(|mut running| running.measure()).expect("7 ms");
        assert_eq!(sample.lap.wall, Duration::from_millis(7));
    }

    #[test]
    fn a_cold_start_takes_longer_than_what_its_run_says_of_itself() {
        let mut echo = contender(&["cat"], Duration::from_secs(60));
        echo.question = "0".to_owned();
        assert!(echo.start_cold().expect("it answers").lap.wall > Duration::ZERO);
    }

    #[test]
    fn a_program_that_hangs_breaks_off_or_talks_nonsense_fails() {
        let failure = |words| {
            let limit = if words == ["sleep", "1000000"] { Duration::from_millis(1) } else { Duration::from_secs(60) };
            contender(words, limit).start_warm().and_then(|mut running| running.measure()).expect_err("no run")
        };
        let late = failure(&["sleep", "1000000"]);
        assert_eq!(late.to_string(), "it has not answered within 0.001 s and was killed");
        assert!(matches!(failure(&["true"]), ContenderFailure::Program(_)));
        assert!(matches!(failure(&["no-such-program"]), ContenderFailure::Program(_)));
        assert!(matches!(failure(&["sed", "-u", "s/.*/nonsense/"]), ContenderFailure::Answer(_)));
    }
}
