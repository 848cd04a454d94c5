//! Asks of an idle actor by a thread outside of the system, beside actors that are flooded.
//!
//! A flooded actor has a backlog of messages: each of its turns takes as long as is asked for and sends it the next one.
//! The thread asks, waits for the answer, and pauses for up to two milliseconds, so that asks come at any moment of a
//! batch. *Alone* has no asks: the rate of the flooded actors' turns beside asks relative to it is what asks cost.
//!
//! With as many workers as cores, the thread that asks competes with them for a core, and the figures include how long the
//! operating system lets it wait.
//!
//! # Oracle
//! The idle actor numbers its answers. When the system has drained, each message of a flooded actor was taken up once.
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{hint, thread};

use enact::actors::Shutdown;
use enact::{Cx, System, actor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{ActorsError, Failure};
use crate::measure::{Contender, Plan, Race, Sample, Stopwatch, quantile, race};

/// Messages that each flooded actor is sent at first: more than a batch.
const BACKLOG: u64 = 256;
/// The longest pause between two asks.
const PAUSE_MAX_US: u64 = 2_000;
/// How long the flooded actors may take to come to their end.
const DEADLINE: Duration = Duration::from_secs(60);

/// Settings of the workload.
#[derive(Debug, Clone, clap::Args)]
pub struct OutsideOptions {
    /// Actors that are flooded, in `outside`
    #[arg(long, default_value = "4")]
    pub flooded: NonZeroUsize,
    /// Lengths of their turns in microseconds, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [0, 20, 200])]
    pub turn_us: Vec<u64>,
    /// Length of each run in milliseconds
    #[arg(long, default_value = "500")]
    pub millis: NonZeroUsize,
}

impl OutsideOptions {
    /// A race for each length of turns.
    pub(super) fn races(&self, workers: NonZeroUsize, plan: &Plan) -> Result<Vec<Race>, ActorsError> {
        self.turn_us.iter().map(|&turn_us| self.race(turn_us, workers, plan)).collect()
    }

    fn race(&self, turn_us: u64, workers: NonZeroUsize, plan: &Plan) -> Result<Race, ActorsError> {
        let workload = format!("outside, turns of {turn_us} us");
        let contenders = [("alone", false), ("asked", true)].map(|(contender, is_asked)| {
            let workload = workload.clone();
            let run = Run {
                workers: workers.get(),
                flooded: self.flooded.get(),
                turn: Duration::from_micros(turn_us),
                length: Duration::from_millis(self.millis.get() as u64),
                is_asked,
            };
            let failed = move |source| ActorsError::Failed { workload: workload.clone(), contender, source };
            Contender::new(contender, move || run.measure().map_err(&failed))
        });
        race(workload.as_str(), "turns", plan, contenders.into())
    }
}

struct Flooded {
    turn: Duration,
    counts: Arc<Counts>,
    is_enough: Arc<AtomicBool>,
}

/// What one flooded actor has done, for the thread outside.
#[derive(Default)]
struct Counts {
    told: AtomicU64,
    taken: AtomicU64,
}

#[actor]
impl Flooded {
    fn turn(&mut self, cx: &Cx<Self>) {
        let since = Instant::now();
        while since.elapsed() < self.turn {
            hint::spin_loop();
        }
        self.counts.taken.fetch_add(1, Ordering::Relaxed);
        if !self.is_enough.load(Ordering::Relaxed) {
            self.counts.told.fetch_add(1, Ordering::Relaxed);
            cx.handle().tell().turn();
        }
    }
}

#[derive(Default)]
struct Quiet {
    asked: u64,
}

#[actor]
impl Quiet {
    fn number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }
}

#[derive(Clone, Copy)]
struct Run {
    workers: usize,
    flooded: usize,
    turn: Duration,
    length: Duration,
    is_asked: bool,
}

impl Run {
    fn measure(self) -> Result<Sample, Failure> {
        let system = System::builder().workers(self.workers).build()?;
        let is_enough = Arc::<AtomicBool>::default();
        let counts: Vec<_> = (0..self.flooded).map(|_| self.flood(&system, &is_enough)).collect();
        let taken = || counts.iter().map(|counts| counts.taken.load(Ordering::Relaxed)).sum::<u64>();
        let (before, watch) = (taken(), Stopwatch::start());
        let waits_ms = if self.is_asked { self.ask(&system)? } else { self.rest() };
        let (work, lap) = (taken() - before, watch.stop());
        is_enough.store(true, Ordering::Relaxed);
        verify(&system, &counts)?;
        let sample = Sample::new(lap, work);
        Ok(if self.is_asked { with_waits(sample, &waits_ms) } else { sample })
    }

    fn flood(self, system: &System, is_enough: &Arc<AtomicBool>) -> Arc<Counts> {
        let counts = Arc::<Counts>::default();
        let flooded = Flooded { turn: self.turn, counts: Arc::clone(&counts), is_enough: Arc::clone(is_enough) };
        let flooded = system.spawn(flooded);
        for _ in 0..BACKLOG {
            counts.told.fetch_add(1, Ordering::Relaxed);
            flooded.tell().turn();
        }
        counts
    }

    /// Asks until the run has its length; how long each answer took, in milliseconds.
    fn ask(self, system: &System) -> Result<Vec<f64>, Failure> {
        let quiet = system.spawn(Quiet::default());
        let (mut waits_ms, mut pauses) = (Vec::new(), ChaCha8Rng::seed_from_u64(0));
        let begun = Instant::now();
        for asked in 1.. {
            thread::sleep(Duration::from_micros(pauses.random_range(0..=PAUSE_MAX_US)));
            let since = Instant::now();
            let answer = quiet.number().wait()?;
            waits_ms.push(since.elapsed().as_secs_f64() * 1_000.0);
            if answer != asked {
                return Err(Failure::Answer { asked, answer });
            }
            if begun.elapsed() >= self.length {
                break;
            }
        }
        Ok(waits_ms)
    }

    fn rest(self) -> Vec<f64> {
        thread::sleep(self.length);
        Vec::new()
    }
}

fn verify(system: &System, counts: &[Arc<Counts>]) -> Result<(), Failure> {
    let ended = system.shutdown(DEADLINE).wait()?;
    if ended != Shutdown::Drained {
        return Err(Failure::Undrained(ended));
    }
    for counts in counts {
        let [told, taken] = [&counts.told, &counts.taken].map(|count| count.load(Ordering::Relaxed));
        if told != taken {
            return Err(Failure::Taken { told, taken });
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn with_waits(sample: Sample, waits_ms: &[f64]) -> Sample {
    let at = |q| quantile(waits_ms, q);
    let sample = sample.with_fact("asks", waits_ms.len() as f64);
    sample.with_fact("ask p50 ms", at(0.5)).with_fact("ask p99 ms", at(0.99)).with_fact("ask worst ms", at(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(is_asked: bool) -> Run {
        Run { workers: 1, flooded: 2, turn: Duration::ZERO, length: Duration::from_millis(1), is_asked }
    }

    #[test]
    fn only_who_is_asked_tells_how_long_an_answer_took() {
        let facts = |is_asked| run(is_asked).measure().expect("it is verified").facts;
        assert!(facts(false).is_empty());
        let asked = facts(true);
        assert!(asked["asks"] >= 1.0, "{asked:?}");
        assert!(
            asked["ask p50 ms"] <= asked["ask p99 ms"] && asked["ask p99 ms"] <= asked["ask worst ms"],
            "{asked:?}"
        );
    }

    #[test]
    fn a_message_that_was_not_taken_up_is_refused() {
        let system = System::builder().workers(1).build().expect("threads");
        let counts = run(false).flood(&system, &Arc::new(AtomicBool::new(true)));
        counts.told.fetch_add(1, Ordering::Relaxed);
        let refused = verify(&system, &[counts]);
        assert!(matches!(refused, Err(Failure::Taken { told: 257, taken: 256 })), "{refused:?}");
    }
}
