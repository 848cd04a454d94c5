//! Other actor libraries, which take their turns in every round like everybody else.
//!
//! # Who they are
//! tokio's tasks and channels, kameo, ractor and actix (all actors on one arbiter, and on one for each worker) in one
//! program each way, Pekko on the Java virtual machine, and the C++ Actor Framework.
//!
//! # The same work
//! A peer is told the benchmark and its parameters and says what its actors reported; the oracle is ours. The programs
//! in Rust also share generators and kernels with ours.
//!
//! # When they are warm
//! The Java virtual machine compiles while it runs: before its first run that counts, it runs until times settle.
use std::num::NonZeroUsize;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use std::{fmt, io};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::contender::{Contender, ContenderFailure};
use super::program::{Benchmark, Judge, Variant};
use super::results::Library;
use crate::measure::{Lap, Sample};
use crate::peers::{Start, cargo, cargo_versions, cmake, maven};

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
    /// The versions of its libraries, where they are known.
    versions: fn(&Path, &Start) -> Vec<Option<String>>,
}

const KITS: [Kit; 3] = [
    Kit {
        libraries: &["tokio", "kameo", "ractor", "actix", "actix-arbiters"],
        is_small: false,
        settles: false,
        build: |peers| cargo(peers, "peer-savina"),
        versions: |peers, _| cargo_versions(peers, &["tokio", "kameo", "ractor", "actix", "actix"]),
    },
    Kit { libraries: &["pekko"], is_small: true, settles: true, build: pekko, versions: own_version },
    Kit {
        libraries: &["caf"],
        is_small: true,
        settles: false,
        build: |peers| cmake(&peers.join("caf"), "peer-caf"),
        versions: own_version,
    },
];

/// The collector with the highest throughput, and enough memory not to need it often.
fn pekko(peers: &Path) -> io::Result<Start> {
    maven(&peers.join("pekko"), "peer-pekko", &["-XX:+UseParallelGC", "-Xms1g", "-Xmx4g"])
}

/// As the program of the only library says.
fn own_version(_: &Path, start: &Start) -> Vec<Option<String>> {
    vec![start.printed(&["--version"])]
}

/// A library that takes part.
struct Peer {
    library: &'static str,
    version: Option<String>,
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

/// All peers that can be built here.
pub(super) struct Peers {
    present: Vec<Peer>,
    absent: Vec<Absent>,
}

impl Peers {
    /// Builds them in `directory`.
    pub(super) fn build(directory: &Path) -> Self {
        let mut peers = Self { present: Vec::new(), absent: Vec::new() };
        for kit in &KITS {
            match (kit.build)(directory) {
                Ok(start) => {
                    let versions = (kit.versions)(directory, &start);
                    let peer =
                        |(library, version): (&&'static str, _)| Peer { library, version, kit, start: start.clone() };
                    peers.present.extend(kit.libraries.iter().zip(versions).map(peer));
                }
                Err(reason) => peers.absent.push(Absent { kit, reason }),
            }
        }
        peers
    }

    /// Those that have `benchmark`, each with `workers` threads, and `limit` for each run.
    pub(super) fn contenders<'a>(
        &'a self,
        benchmark: &'a dyn Benchmark,
        workers: NonZeroUsize,
        limit: Duration,
    ) -> Vec<Contender<'a>> {
        let Some(judge) = benchmark.judge(variant(benchmark)).map(Rc::new) else { return Vec::new() };
        let have_it = |peer: &&Peer| !peer.kit.is_small || MICRO.contains(&benchmark.name());
        let contenders = self.present.iter().filter(have_it).map(|peer| {
            let judge = Rc::clone(&judge);
            Contender {
                name: peer.library.to_owned(),
                settles: peer.kit.settles,
                start: Box::new(move || peer.start.with([peer.library, &workers.to_string()])),
                question: question(benchmark),
                judgement: Rc::new(move |answer| judged(&judge, answer)),
                limit,
            }
        });
        contenders.collect()
    }

    /// Names and versions.
    pub(super) fn libraries(&self) -> Vec<Library> {
        let library = |peer: &Peer| Library { name: peer.library.to_owned(), version: peer.version.clone() };
        self.present.iter().map(library).collect()
    }

    /// What is missing, and why.
    pub(super) fn absent(&self) -> Vec<String> {
        self.absent.iter().map(ToString::to_string).collect()
    }
}

/// What peers do of `benchmark`: what is published, but for the balances that never change.
pub(super) fn variant(benchmark: &dyn Benchmark) -> Variant {
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

/// What was measured, if the oracle accepts what was found.
fn judged(judge: &Judge<'_>, answer: &str) -> Result<Sample, ContenderFailure> {
    let Answer { wall_ns, cpu_ns, found } = serde_json::from_str(answer)?;
    let lap = Lap { wall: Duration::from_nanos(wall_ns), cpu: Some(Duration::from_nanos(cpu_ns)) };
    judge(lap, found.get())
}

#[cfg(test)]
mod tests {
    use super::super::suite;
    use super::*;

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
        assert!(matches!(judge(lap, "[40000, 39999]"), Err(ContenderFailure::Wrong(_))));
        assert!(matches!(judge(lap, "[40000]"), Err(ContenderFailure::Answer(_))));
    }

    #[test]
    fn a_peer_that_cannot_be_built_is_named_with_the_reason() {
        let here = tempfile::tempdir().expect("a place for the test");
        let text = Peers::build(&here.path().join("nowhere")).absent().join("\n");
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
