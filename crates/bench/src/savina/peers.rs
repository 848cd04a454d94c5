//! Other actor libraries, which take their turns in every round like everybody else.
//!
//! # Who they are
//! tokio's tasks and channels, kameo, ractor and actix (all actors on one arbiter, and on one for each worker) in one
//! program each way, Pekko on the Java virtual machine, and the C++ Actor Framework. Each runs in a process of its own
//! that is started anew for each benchmark, so that none measures what another left behind.
//!
//! # The same work
//! A peer is told the benchmark and its parameters and says what its actors reported; the oracle is ours. The programs
//! in Rust also share generators and kernels with ours.
//!
//! # When they are warm
//! The Java virtual machine compiles while it runs: before its first run that counts, it runs until times settle.
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::SavinaError;
use super::oracle::Wrong;
use super::program::{Benchmark, Judge, Variant};
use crate::measure::{Contender, Lap, Process, Sample, median};
use crate::peers::{Program, Start, cargo, cmake, maven};

/// Runs after which it no longer matters whether times have settled.
const SETTLING_RUNS_MAX: usize = 30;

/// The seven micro-benchmarks, which every peer has.
const MICRO: [&str; 7] = ["pp", "count", "fjt", "fjc", "thr", "cham", "big"];

/// A program that has to be built, and the libraries that it has.
struct Kit {
    libraries: &'static [&'static str],
    /// Whether it has no more than [`MICRO`].
    is_small: bool,
    /// Whether it is slow at first.
    settles: bool,
    build: fn(&Path) -> io::Result<Start>,
}

const KITS: [Kit; 3] = [
    Kit {
        libraries: &["tokio", "kameo", "ractor", "actix", "actix-arbiters"],
        is_small: false,
        settles: false,
        build: |peers| cargo(peers, "peer-savina"),
    },
    Kit { libraries: &["pekko"], is_small: true, settles: true, build: pekko },
    Kit { libraries: &["caf"], is_small: true, settles: false, build: |peers| cmake(&peers.join("caf"), "peer-caf") },
];

/// The collector with the highest throughput, and enough memory not to need it often.
fn pekko(peers: &Path) -> io::Result<Start> {
    maven(&peers.join("pekko"), "peer-pekko", &["-XX:+UseParallelGC", "-Xms1g", "-Xmx4g"])
}

/// A library that takes part.
struct Peer {
    library: &'static str,
    kit: &'static Kit,
    start: Start,
}

/// A program that does not take part, and why.
struct Absent {
    kit: &'static Kit,
    reason: io::Error,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "without {}: {}", self.kit.libraries.join(", "), self.reason)
    }
}

/// Why a peer has no figures in a benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerFailure {
    /// The oracle refused its result.
    #[error("wrong result")]
    Wrong(#[from] Wrong),
    /// Its program could not be started, or did not answer.
    #[error("its program broke off")]
    Program(#[from] io::Error),
    /// Its program's answer is not what is expected of this benchmark.
    #[error("its answer cannot be read")]
    Answer(#[from] serde_json::Error),
}

/// All peers that can be built here.
pub(super) struct Peers {
    present: Vec<Peer>,
    absent: Vec<Absent>,
    workers: NonZeroUsize,
}

impl Peers {
    /// Builds them in `directory`, for so many threads each.
    pub(super) fn build(directory: &Path, workers: NonZeroUsize) -> Self {
        let mut peers = Self { present: Vec::new(), absent: Vec::new(), workers };
        for kit in &KITS {
            match (kit.build)(directory) {
                Ok(start) => {
                    let present = kit.libraries.iter().map(|library| Peer { library, kit, start: start.clone() });
                    peers.present.extend(present);
                }
                Err(reason) => peers.absent.push(Absent { kit, reason }),
            }
        }
        peers
    }

    /// Starts those that have `benchmark`, and lets them get warm.
    pub(super) fn contenders<'a>(
        &self,
        benchmark: &'a dyn Benchmark,
    ) -> Result<Vec<Contender<'a, SavinaError>>, SavinaError> {
        let Some(judge) = benchmark.judge(variant(benchmark)).map(Rc::new) else { return Ok(Vec::new()) };
        let have_it = |peer: &&Peer| !peer.kit.is_small || MICRO.contains(&benchmark.name());
        let contenders = self.present.iter().filter(have_it).map(|peer| {
            let library = peer.library;
            let failed = move |source| SavinaError::Peer { benchmark: benchmark.name(), library, source };
            let program =
                peer.start.with([library, &self.workers.to_string()]).map_err(|broken| failed(broken.into()))?;
            let mut player = Player { program, question: question(benchmark), judge: Rc::clone(&judge) };
            if peer.kit.settles {
                player.settle().map_err(failed)?;
            }
            Ok(Contender::new(library, move || player.play().map_err(failed)))
        });
        contenders.collect()
    }
}

impl fmt::Display for Peers {
    /// Who is missing, each on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.absent.iter().try_for_each(|absent| write!(f, "\n{absent}"))
    }
}

/// What peers do of `benchmark`: what is published, but for the balances that never change.
fn variant(benchmark: &dyn Benchmark) -> Variant {
    if benchmark.name() == "btx" { Variant::Strict } else { Variant::Port }
}

/// As all programs of peers read it.
fn question(benchmark: &dyn Benchmark) -> String {
    let number = |text: String| text.parse().unwrap_or(Value::String(text));
    let parameters: Map<_, _> =
        benchmark.parameters().into_iter().map(|(key, value)| (key.to_owned(), number(value))).collect();
    json!([benchmark.name(), parameters]).to_string()
}

/// What the program of a peer answers.
#[derive(Deserialize)]
struct Answer {
    wall_ns: u64,
    cpu_ns: u64,
    found: Box<RawValue>,
}

/// A peer in one benchmark.
struct Player<'a> {
    program: Program,
    question: String,
    judge: Rc<Judge<'a>>,
}

impl Player<'_> {
    /// Runs and verifies once.
    fn play(&mut self) -> Result<Sample, PeerFailure> {
        let process = Process::of(self.program.id());
        let (memory, cpu_before) = (process.watch_memory(), process.cpu_time());
        let answer = self.program.ask(&self.question)?;
        let peak = memory.and_then(|memory| memory.mib());
        let cpu = process.cpu_time().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
        let Answer { wall_ns, cpu_ns, found } = serde_json::from_str(&answer)?;
        let lap = Lap { wall: Duration::from_nanos(wall_ns), cpu: Some(Duration::from_nanos(cpu_ns)) };
        let sample = (self.judge)(lap, found.get())?.helped(cpu.unwrap_or(Duration::from_nanos(cpu_ns)));
        Ok(sample.with_peak_memory(peak))
    }

    /// Runs until the median of five runs is within a tenth of that of the five runs before.
    fn settle(&mut self) -> Result<(), PeerFailure> {
        let mut walls_s = Vec::new();
        while walls_s.len() < SETTLING_RUNS_MAX && !has_settled(&walls_s) {
            walls_s.push(self.play()?.lap.wall.as_secs_f64());
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
    use super::super::suite;
    use super::*;

    #[test]
    fn times_have_settled_when_five_are_about_the_five_before() {
        let walls = |first: f64, then: f64| [[first; 5], [then; 5]].concat();
        assert!(has_settled(&walls(1.0, 1.09)));
        assert!(!has_settled(&walls(1.0, 0.8)));
        assert!(!has_settled(&[1.0; 9]));
        assert!(has_settled(&[vec![9.0, 5.0], walls(1.0, 1.0)].concat()));
    }

    #[test]
    fn a_question_names_the_benchmark_and_its_parameters_as_numbers() {
        let named = |name| suite().into_iter().find(|one| one.name() == name).expect("in the suite");
        assert_eq!(question(named("pp").as_ref()), r#"["pp",{"pings":40000}]"#);
    }

    #[test]
    fn what_a_peer_found_is_verified_by_the_oracle() {
        let suite = suite();
        let judge = suite[0].judge(Variant::Port).expect("peers have it");
        let lap = Lap { wall: Duration::from_secs(1), cpu: None };
        assert_eq!(judge(lap, "[40000, 40000]").expect("right").work, 120_001);
        assert!(matches!(judge(lap, "[40000, 39999]"), Err(PeerFailure::Wrong(_))));
        assert!(matches!(judge(lap, "[40000]"), Err(PeerFailure::Answer(_))));
    }

    #[test]
    fn a_peer_that_cannot_be_built_is_named_with_the_reason() {
        let here = tempfile::tempdir().expect("a place for the test");
        let text = Peers::build(&here.path().join("nowhere"), NonZeroUsize::MIN).to_string();
        assert_eq!(text.matches("there is no directory").count(), KITS.len(), "{text}");
        assert!(text.contains("without tokio, kameo, ractor, actix, actix-arbiters: "), "{text}");
    }

    #[test]
    fn every_peer_has_the_micro_benchmarks() {
        let judged: Vec<_> =
            suite().iter().filter(|one| one.judge(Variant::Port).is_some()).map(|one| one.name()).collect();
        assert!(MICRO.iter().all(|name| judged.contains(name)), "{judged:?}");
    }
}
