//! One program of the suite: recorded, and run.
use std::time::Duration;

use enact::System;
use enact_actors::simulation::{Recording, record as record_run};

use super::sizes::SIZES;
use super::{SchedulerError, runs_in};
use crate::measure::{Lap, median};
use crate::savina::{BadSetting, Benchmark, Run, Variant, Watch, suite};

/// How often a program is timed and how often it is recorded: what the machine has done beside the shortest run is least.
const TIMED_RUNS: usize = 7;
const RECORDED_RUNS: usize = 5;

pub(super) struct Recorded {
    pub(super) name: &'static str,
    pub(super) recording: Recording,
    /// How many runs in a row take as long as a replay is to take.
    pub(super) runs: u32,
    pub(super) real: Option<Real>,
}

/// What two workers came to in real runs.
#[derive(Clone, Copy)]
pub(super) struct Real {
    /// Their rate to that of one worker.
    pub(super) two_to_one: f64,
    pub(super) cores: f64,
}

/// Those that are named, or all.
pub(super) fn selected(names: &[String], full: bool) -> Result<Vec<Box<dyn Benchmark>>, BadSetting> {
    let is_named = |one: &dyn Benchmark| names.is_empty() || names.iter().any(|name| name == one.name());
    let mut selected: Vec<_> = suite().into_iter().filter(|one| is_named(one.as_ref())).collect();
    if !full {
        for benchmark in &mut selected {
            let name = benchmark.name();
            for (key, value) in SIZES.iter().filter(|(known, _)| *known == name).flat_map(|(_, set)| *set) {
                benchmark.set(key, &value.to_string())?;
            }
        }
    }
    Ok(selected)
}

/// Records one program, so that a replay of as many runs as are said takes `least`, and runs it so often.
pub(super) fn record(benchmark: &dyn Benchmark, least: Duration, rounds: u32) -> Result<Recorded, SchedulerError> {
    let name = benchmark.name();
    let [alone, pair] = [1, 2].map(|workers| System::builder().workers(workers).build());
    let (alone, pair) = (alone?, pair?);
    let (run, run_by_two) = (&mut benchmark.run(Variant::Port, &alone)?, &mut benchmark.run(Variant::Port, &pair)?);
    let lap = |run: &mut Run<'_>| -> Result<Lap, SchedulerError> {
        run(Watch::Clock).map(|sample| sample.lap).map_err(|source| SchedulerError::Failed { program: name, source })
    };
    lap(run)?;
    let walls = (0..TIMED_RUNS).map(|_| lap(run).map(|lap| lap.wall.as_secs_f64()));
    let wall = Duration::from_secs_f64(median(&walls.collect::<Result<Vec<_>, _>>()?));
    let mut recorded = Vec::new();
    for _ in 0..RECORDED_RUNS {
        let (run, recording) = record_run(&alone, || lap(run));
        run?;
        recorded.push(recording);
    }
    let shortest = recorded.into_iter().min_by_key(Recording::work).expect("it was recorded");
    let recording = shortest.of_a_run_of(wall);
    let count = runs_in(least, wall);
    let mut rounds_of_two = Vec::new();
    for round in 0..=rounds {
        let [one, two] = [block(run, count, lap)?, block(run_by_two, count, lap)?];
        // The first one is the warm-up.
        if round > 0 {
            let cores = two.cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64() / two.wall.as_secs_f64());
            rounds_of_two.push((one.wall.as_secs_f64() / two.wall.as_secs_f64(), cores));
        }
    }
    let of_rounds = |part: fn(&(f64, f64)) -> f64| median(&rounds_of_two.iter().map(part).collect::<Vec<_>>());
    let real = (rounds > 0).then(|| Real { two_to_one: of_rounds(|round| round.0), cores: of_rounds(|round| round.1) });
    Ok(Recorded { name, recording, runs: count, real })
}

/// So many runs in a row.
fn block(
    run: &mut Run<'_>,
    runs: u32,
    lap: impl Fn(&mut Run<'_>) -> Result<Lap, SchedulerError>,
) -> Result<Lap, SchedulerError> {
    let mut all = Lap { wall: Duration::ZERO, cpu: Some(Duration::ZERO) };
    for _ in 0..runs {
        let Lap { wall, cpu } = lap(run)?;
        all.wall += wall;
        all.cpu = all.cpu.zip(cpu).map(|(all, one)| all + one);
    }
    Ok(all)
}
