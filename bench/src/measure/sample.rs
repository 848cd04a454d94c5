//! One measured run: wall-clock time, CPU time, and the work done in it.
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// User and system time that all threads of this process have used.
pub fn cpu_time_of_process() -> Duration {
    cpu_time(ClockId::ProcessCPUTime)
}

/// User and system time that the calling thread has used.
pub fn cpu_time_of_thread() -> Duration {
    cpu_time(ClockId::ThreadCPUTime)
}

fn cpu_time(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).expect("CPU time is not negative")
}

/// The fact that says how much memory was resident at most, in MiB.
pub(crate) const PEAK_MEMORY: &str = "peak MiB";

/// Measures from its start: wall clock and CPU time of the whole process.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self { cpu: cpu_time_of_process(), started: Instant::now() }
    }

    /// What has passed since the start.
    pub fn stop(self) -> Lap {
        let wall = self.started.elapsed();
        Lap { wall, cpu: Some(cpu_time_of_process().saturating_sub(self.cpu)) }
    }
}

/// What one run took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lap {
    /// Wall-clock time.
    #[serde(rename = "wall_s", serialize_with = "in_seconds", deserialize_with = "of_seconds")]
    pub wall: Duration,
    /// User and system time of all threads, where it is known.
    #[serde(rename = "cpu_s", serialize_with = "in_seconds_if_known", deserialize_with = "of_seconds_if_known")]
    pub cpu: Option<Duration>,
}

fn in_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn in_seconds_if_known<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|known| known.as_secs_f64()).serialize(serializer)
}

fn of_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    duration(f64::deserialize(deserializer)?)
}

fn of_seconds_if_known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Option::<f64>::deserialize(deserializer)?.map(duration).transpose()
}

fn duration<E: serde::de::Error>(seconds: f64) -> Result<Duration, E> {
    Duration::try_from_secs_f64(seconds).map_err(E::custom)
}

/// One verified run of one contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What it took.
    #[serde(flatten)]
    pub lap: Lap,
    /// How much was done in it, in the unit of the race.
    pub work: u64,
    /// Further figures of this run by name, such as aborts; their medians become columns of the table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<Cow<'static, str>, f64>,
    /// The share of the machine's CPU time that went to other processes meanwhile, where the system tells.
    pub others: Option<f64>,
    /// CPU time that another process used on behalf of this run, its preparation included.
    #[serde(skip)]
    pub(super) helpers_cpu: Duration,
}

impl Sample {
    /// A run that did `work` in `lap`.
    pub fn new(lap: Lap, work: u64) -> Self {
        Self { lap, work, facts: BTreeMap::new(), others: None, helpers_cpu: Duration::ZERO }
    }

    /// The same with a further figure.
    #[must_use]
    pub fn with_fact(mut self, name: impl Into<Cow<'static, str>>, value: f64) -> Self {
        self.facts.insert(name.into(), value);
        self
    }

    /// The same, run by another process, which used `cpu` for it in all: that was no disturbance by others.
    #[must_use]
    pub fn helped(mut self, cpu: Duration) -> Self {
        self.helpers_cpu = cpu;
        self
    }

    /// The same with the most memory that was in use, where that is known.
    #[must_use]
    pub fn with_peak_memory(self, mib: Option<f64>) -> Self {
        match mib {
            Some(mib) => self.with_fact(PEAK_MEMORY, mib),
            None => self,
        }
    }

    /// Work a second.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn rate(&self) -> f64 {
        self.work as f64 / self.lap.wall.as_secs_f64()
    }

    /// Processors in use on average, where CPU time is known: about 0 for a run that only waited.
    pub fn cores(&self) -> Option<f64> {
        self.lap.cpu.map(|cpu| cpu.as_secs_f64() / self.lap.wall.as_secs_f64())
    }
}

/// Runs `work(0)` to `work(threads - 1)` on a thread each and measures from when all of them exist to when all are done.
///
/// # Panics
/// With the panic of any of them.
pub fn in_parallel<R: Send>(threads: usize, work: impl Fn(usize) -> R + Sync) -> (Vec<R>, Lap) {
    let (ready, go) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let (work, ready_ref, go_ref) = (&work, &ready, &go);
    thread::scope(|scope| {
        let start = |number| {
            scope.spawn(move || {
                ready_ref.wait();
                go_ref.wait();
                work(number)
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        ready.wait();
        let stopwatch = Stopwatch::start();
        go.wait();
        let ended: Vec<_> = running.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let lap = stopwatch.stop();
        let results = ended.into_iter().map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (results.collect(), lap)
    })
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn cpu_time_grows_with_work_and_that_of_a_thread_is_part_of_the_process() {
        let before = (cpu_time_of_thread(), cpu_time_of_process());
        let mut spins = 0_u64;
        while cpu_time_of_thread() == before.0 {
            spins = black_box(spins + 1);
        }
        assert!(cpu_time_of_process() > before.1);
    }

    #[test]
    fn in_parallel_returns_the_results_by_number() {
        let (results, lap) = in_parallel(4, |number| number * 10);
        assert_eq!(results, [0, 10, 20, 30]);
        assert!(lap.cpu.is_some());
    }

    #[test]
    #[should_panic(expected = "thread 2 failed")]
    fn in_parallel_goes_on_with_the_panic_of_a_thread() {
        in_parallel(3, |number| assert!(number != 2, "thread {number} failed"));
    }

    #[test]
    fn rate_and_cores_come_from_the_lap() {
        let lap = Lap { wall: Duration::from_millis(500), cpu: Some(Duration::from_millis(250)) };
        let sample = Sample::new(lap, 1_000).with_fact("aborts", 3.0);
        assert_eq!((sample.rate(), sample.cores(), sample.facts["aborts"]), (2_000.0, Some(0.5), 3.0));
    }
}
