//! Measurement that survives a shared, noisy machine: interleaved rounds, medians and intervals.
//!
//! A [`race`] runs each contender once a round, so that whatever else the machine does hits all of them alike, and
//! compares them *within* rounds: the figure for "faster" is the median over the rounds of the ratio to the first
//! contender of that round, with a bootstrap interval. Figures of different races are never compared.
//!
//! # Who does what
//! * A [`Contender`] prepares, runs under a [`Stopwatch`], verifies its result *after* the clock has stopped, and gives
//!   a [`Sample`] or its error. A sample therefore exists only for a verified result.
//! * [`race`] (and [`race_of_the_able`]) decides the order, discards the warm-up, and notes what other processes took of the machine meanwhile.
//! * [`Report`] is what people (a table) and programs (JSON with every raw sample) get.
//!
//! # Order within a round
//! What a contender leaves behind, in caches and in threads that are not quite at rest, hits the one that comes next. So
//! each comes after each other one equally often: the rounds are the rows of a balanced Latin square (E. J. Williams,
//! 1949), and of its mirror image if the number of contenders is odd.
mod heap;
mod machine;
mod process;
mod report;
mod sample;
mod statistics;

use std::borrow::Cow;
use std::convert::Infallible;
use std::env;
use std::time::Duration;

pub use heap::{Allocations, CountAllocations};
use indicatif::{ProgressBar, ProgressStyle};
use machine::Occupation;
pub use machine::{Cache, Machine};
pub use process::{PeakMemory, Process};
pub use report::{Comparison, Race, Report, Series, write_json};
pub(crate) use report::{in_all, in_short, text_table};
pub(crate) use sample::PEAK_MEMORY;
pub use sample::{Lap, Sample, Stopwatch, cpu_time_of_process, cpu_time_of_thread, in_parallel};
pub use statistics::{Estimate, Interval, bootstrap_of_median, median, quantile};

/// The command line of this program, as it is told to people.
pub(crate) fn command_line() -> String {
    let words = env::args().skip(1).map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
    ["enact-bench".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// How often to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct Plan {
    /// Measured rounds; each runs every contender once.
    #[arg(long, default_value_t = 15, value_parser = at_least_one)]
    pub rounds: usize,
    /// Discarded rounds before them.
    #[arg(long, default_value_t = 1)]
    pub warm_up: usize,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one".to_owned()),
        Ok(number) => Ok(number),
        Err(wrong) => Err(format!("{wrong}")),
    }
}

/// One of the things that a race compares.
pub struct Contender<'a, E> {
    name: String,
    run: Box<dyn FnMut() -> Result<Sample, E> + 'a>,
}

impl<'a, E> Contender<'a, E> {
    /// A contender called `name`; each call of `run` prepares, measures and verifies once.
    pub fn new(name: impl Into<String>, run: impl FnMut() -> Result<Sample, E> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Measures all contenders of `workload`, interleaved; the first one is the baseline of the comparison.
///
/// `unit` names in the plural what [`Sample::work`] counts.
///
/// # Errors
/// The first error of any contender; there is no result then.
/// # Panics
/// Without a contender or a round.
pub fn race<E>(
    workload: impl Into<String>,
    unit: impl Into<Cow<'static, str>>,
    plan: &Plan,
    contenders: Vec<Contender<'_, E>>,
) -> Result<Race, E> {
    run_rounds(workload.into(), unit.into(), plan, contenders, |_, error| Err(error))
}

/// As [`race`], but a contender that fails leaves the race without a result, and the others go on.
///
/// Also returns the contenders that left, by name, and why. There may be none left.
/// # Panics
/// Without a contender or a round.
pub fn race_of_the_able<E>(
    workload: impl Into<String>,
    unit: impl Into<Cow<'static, str>>,
    plan: &Plan,
    contenders: Vec<Contender<'_, E>>,
) -> (Race, Vec<(String, E)>) {
    let mut left = Vec::new();
    let note = |name: String, error| {
        left.push((name, error));
        Ok::<_, Infallible>(())
    };
    let Ok(race) = run_rounds(workload.into(), unit.into(), plan, contenders, note);
    (race, left)
}

/// `failed` is told who failed and how, and decides whether the others go on.
fn run_rounds<E, F>(
    workload: String,
    unit: Cow<'static, str>,
    plan: &Plan,
    contenders: Vec<Contender<'_, E>>,
    mut failed: impl FnMut(String, E) -> Result<(), F>,
) -> Result<Race, F> {
    assert!(!contenders.is_empty(), "a race needs a contender");
    assert!(plan.rounds > 0, "a race needs a round");
    let bar = progress(plan, contenders.len());
    let mut lanes: Vec<_> = contenders.into_iter().map(|contender| Some((contender, Vec::new()))).collect();
    let (started, mut helpers_cpu) = (Occupation::now(), Duration::ZERO);
    for round in 0..plan.warm_up + plan.rounds {
        for place in order(round, lanes.len()) {
            bar.inc(1);
            let Some((contender, samples)) = &mut lanes[place] else { continue };
            bar.set_message(format!("{workload}: {}", contender.name));
            let before = Occupation::now();
            match (contender.run)() {
                Ok(mut sample) => {
                    sample.others = Occupation::others_since(before, sample.helpers_cpu);
                    helpers_cpu += sample.helpers_cpu;
                    if round >= plan.warm_up {
                        samples.push(sample);
                    }
                }
                Err(error) => {
                    failed(contender.name.clone(), error)?;
                    lanes[place] = None;
                }
            }
        }
    }
    bar.finish_and_clear();
    let series = lanes.into_iter().flatten().map(|(contender, samples)| Series { name: contender.name, samples });
    let series = series.collect();
    Ok(Race { workload, unit, series, others: Occupation::others_since(started, helpers_cpu) })
}

/// The order in which `round` runs `count` contenders.
fn order(round: usize, count: usize) -> Vec<usize> {
    let zigzag = |step: usize| if step.is_multiple_of(2) { step / 2 } else { count - step.div_ceil(2) };
    let mut places: Vec<_> = (0..count).map(|step| (round + zigzag(step)) % count).collect();
    if count % 2 == 1 && (round / count) % 2 == 1 {
        places.reverse();
    }
    places
}

fn progress(plan: &Plan, contenders: usize) -> ProgressBar {
    let runs = (plan.warm_up + plan.rounds) * contenders;
    ProgressBar::new(runs as u64).with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (eta {eta})").expect("the template is well formed"),
    )
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    fn lap(wall_ms: u64) -> Lap {
        Lap { wall: Duration::from_millis(wall_ms), cpu: None }
    }

    #[test]
    fn every_contender_runs_once_a_round_and_equally_often_at_each_place_and_after_each_other_one() {
        for count in 1..=9 {
            let rounds = if count % 2 == 0 { count } else { 2 * count };
            let orders: Vec<_> = (0..rounds).map(|round| order(round, count)).collect();
            for contender in 0..count {
                assert!(orders.iter().all(|places| places.contains(&contender)), "{orders:?}");
                for place in 0..count {
                    let there = orders.iter().filter(|places| places[place] == contender).count();
                    assert_eq!(there, rounds / count, "{contender} at place {place}: {orders:?}");
                }
                for other in (0..count).filter(|&other| other != contender) {
                    let after = orders.iter().flat_map(|places| places.windows(2));
                    let after = after.filter(|pair| **pair == [other, contender]).count();
                    assert_eq!(after, rounds / count, "{contender} after {other}: {orders:?}");
                }
            }
        }
    }

    #[test]
    fn warm_up_rounds_are_discarded_and_samples_stand_in_order_of_rounds() {
        let calls = RefCell::new(0);
        let contender = Contender::new("only", || {
            *calls.borrow_mut() += 1;
            Ok::<_, ()>(Sample::new(lap(*calls.borrow()), 1))
        });
        let race = race("w", "calls", &Plan { rounds: 3, warm_up: 2 }, vec![contender]).expect("no contender fails");
        let walls: Vec<_> = race.series[0].samples.iter().map(|sample| sample.lap.wall.as_millis()).collect();
        assert_eq!(walls, [3, 4, 5]);
    }

    #[test]
    fn a_contender_that_fails_leaves_no_result() {
        let good = Contender::new("good", || Ok(Sample::new(lap(1), 1)));
        let bad = Contender::new("bad", || Err("wrong sum"));
        assert_eq!(race("w", "calls", &Plan { rounds: 1, warm_up: 0 }, vec![good, bad]).err(), Some("wrong sum"));
    }

    #[test]
    fn a_contender_that_fails_leaves_the_race_and_the_others_go_on() {
        let good = || Contender::new("good", || Ok(Sample::new(lap(1), 1)));
        let mut runs = 0;
        let tires = Contender::new("tires", move || {
            runs += 1;
            if runs < 3 { Ok(Sample::new(lap(1), 1)) } else { Err("tired") }
        });
        let (race, left) = race_of_the_able("w", "calls", &Plan { rounds: 4, warm_up: 0 }, vec![tires, good()]);
        assert_eq!(left, [("tires".to_owned(), "tired")]);
        let series: Vec<_> = race.series.iter().map(|one| (one.name.as_str(), one.samples.len())).collect();
        assert_eq!(series, [("good", 4)]);
    }

    #[test]
    fn comparison_is_the_median_of_the_ratios_of_one_round_to_its_baseline() {
        // Rounds in which the machine was 1, 10 and 100 times slower: the ratio in each is 2, whatever the round.
        let mut slow = [10_u64, 100, 1_000, 10, 100].into_iter();
        let mut fast = [5_u64, 50, 500, 5, 50].into_iter();
        let base = Contender::new("base", move || Ok::<_, ()>(Sample::new(lap(slow.next().expect("five rounds")), 10)));
        let other = Contender::new("other", move || Ok(Sample::new(lap(fast.next().expect("five rounds")), 10)));
        let race = race("w", "calls", &Plan { rounds: 5, warm_up: 0 }, vec![base, other]).expect("no contender fails");
        let comparison = race.compare(1);
        assert_eq!(comparison.speed_up, 2.0);
        assert_eq!(comparison.interval, Some(Interval { low: 2.0, high: 2.0 }));
        assert_eq!(race.series[1].median_rate(), 10.0 / 0.050);
        assert_eq!(race.series[1].best_rate(), 10.0 / 0.005);
    }

    #[test]
    fn plan_refuses_zero_rounds() {
        assert_eq!(at_least_one("1"), Ok(1));
        assert!(at_least_one("0").is_err());
        assert!(at_least_one("x").is_err());
    }
}
