//! One benchmark of the suite, and how it is run.
//!
//! # What is measured
//! From before the first actor is made until the last one has ended, on a system whose threads run already. Inputs that
//! the published programs make beforehand are made beforehand, and results are verified afterwards.
//!
//! # When everybody has gone
//! Each actor of a run has a [`Presence`] in its state, which is dropped when the actor ends. When the last one is, the
//! clock stops.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use enact::{Actor, Promise, Resolver, Spec, System};
use serde::de::DeserializeOwned;

use super::contender::ContenderFailure;
use super::oracle::Wrong;
use super::parameters::{BadSetting, Parameters, parse};
use crate::measure::{Allocations, CountAllocations, Lap, Sample, Stopwatch};

/// How long a run may take; one that takes longer has lost a message.
const RUN_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// A version of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum Variant {
    /// What the published programs do
    Port,
    /// The same with their faults mended: work, input or arithmetic that does not make the result void
    Strict,
    /// With messages set aside by the actor itself, where `port` holds the actor until an answer comes
    Stash,
}

impl Variant {
    /// The name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Strict => "strict",
            Self::Stash => "stash",
        }
    }
}

/// What a benchmark consists of.
pub(super) trait Program: Parameters + 'static {
    /// The suite's abbreviation.
    const NAME: &'static str;
    /// The suite's name.
    const TITLE: &'static str;
    const VARIANTS: &'static [Variant] = &[Variant::Port];
    /// The parameter that makes it longer and nothing else, if there is one.
    const SIZE: Option<&'static str> = None;
    /// What exists before the clock starts: the input, and what the oracle found for it.
    type Prepared;
    /// What the actors report.
    type Found: 'static;
    /// How to read what the actors of a peer report, where peers have the benchmark.
    const OF_PEERS: Option<Reader<Self::Found>> = None;

    /// What has to hold of the parameters and does not.
    fn refuse(&self) -> Option<&'static str> {
        None
    }

    fn prepare(&self, variant: Variant) -> Self::Prepared;

    /// Makes the first actors and sends the first messages.
    fn start(&self, prepared: &Self::Prepared, stage: &Stage) -> Findings<Self::Found>;

    fn verify(&self, prepared: &Self::Prepared, found: &Self::Found) -> Result<Verified, Wrong>;
}

/// Reads the JSON in which a peer says what its actors have reported.
pub(super) type Reader<T> = fn(&str) -> serde_json::Result<T>;

/// The reader of what is written as it is declared.
pub(super) fn read<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_str(json)
}

/// Collects what the actors have reported, once all of them have ended.
pub(super) type Findings<T> = Box<dyn FnOnce() -> T>;

/// A result that its oracle has accepted.
pub(super) struct Verified {
    messages: u64,
    facts: Vec<(&'static str, f64)>,
}

impl Verified {
    /// A right result, after `messages` messages.
    pub(super) fn after(messages: u64) -> Self {
        Self { messages, facts: Vec::new() }
    }

    /// The same, with a figure that depends on timing.
    pub(super) fn with_fact(mut self, name: &'static str, value: u64) -> Self {
        self.facts.push((name, value as f64));
        self
    }

    fn sample(self, lap: Lap) -> Sample {
        let sample = Sample::new(lap, self.messages);
        self.facts.into_iter().fold(sample, |sample, (name, value)| sample.with_fact(name, value))
    }
}

/// Where the actors of a run are made.
pub(super) struct Stage<'a> {
    system: &'a System,
    presence: Presence,
}

impl Stage<'_> {
    pub(super) fn spawn<A: Actor>(&self, actor: impl Into<Spec<A>>) -> A::Ref {
        self.system.spawn(actor)
    }

    /// For the state of an actor.
    pub(super) fn presence(&self) -> Presence {
        self.presence.clone()
    }
}

/// Kept by an actor while it lives; a clone is another actor's.
pub(super) struct Presence {
    everybody: Arc<Everybody>,
}

struct Everybody {
    actors: Arc<AtomicU64>,
    gone: Option<Resolver<()>>,
}

impl Clone for Presence {
    fn clone(&self) -> Self {
        // Relaxed: read when everybody has gone.
        self.everybody.actors.fetch_add(1, Ordering::Relaxed);
        Self { everybody: Arc::clone(&self.everybody) }
    }
}

impl Drop for Everybody {
    fn drop(&mut self) {
        if let Some(gone) = self.gone.take() {
            gone.resolve(());
        }
    }
}

/// What actors report to; a clone is another actor's.
pub(super) struct Report<T>(mpsc::Sender<T>);

/// What they have reported.
pub(super) struct Reports<T>(mpsc::Receiver<T>);

/// Both ends.
pub(super) fn reports<T>() -> (Report<T>, Reports<T>) {
    let (report, reports) = mpsc::channel();
    (Report(report), Reports(reports))
}

impl<T> Report<T> {
    pub(super) fn give(&self, value: T) {
        // A run that was given up does not listen.
        self.0.send(value).ok();
    }
}

impl<T> Clone for Report<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Reports<T> {
    /// What has come so far: everything, when everybody has gone.
    pub(super) fn all(&self) -> Vec<T> {
        self.0.try_iter().collect()
    }

    /// The only report.
    pub(super) fn only(&self) -> Option<T> {
        let first = self.0.try_recv().ok();
        first.filter(|_| self.0.try_recv().is_err())
    }
}

impl<T: Ord> Reports<T> {
    /// Everything in order; of pairs, by what comes first.
    pub(super) fn sorted(&self) -> Vec<T> {
        let mut all = self.all();
        all.sort_unstable();
        all
    }
}

/// Why a run has no figures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Its oracle refused the result.
    #[error("wrong result")]
    Wrong(#[from] Wrong),
    /// Some actors were still there after a very long time.
    #[error("it has not ended within {RUN_TIME_MAX:?}")]
    Endless,
}

/// A run from the first actor to the end of the last one.
pub(super) struct Played<T> {
    pub(super) lap: Lap,
    pub(super) actors: u64,
    pub(super) found: T,
}

/// Runs `program` once.
pub(super) fn play<P: Program>(
    program: &P,
    prepared: &P::Prepared,
    system: &System,
) -> Result<Played<P::Found>, Failure> {
    let (gone, everybody) = Promise::pair();
    let gone = gone.timeout(RUN_TIME_MAX);
    let actors = Arc::new(AtomicU64::new(0));
    let everybody = Arc::new(Everybody { actors: Arc::clone(&actors), gone: Some(everybody) });
    let stage = Stage { system, presence: Presence { everybody } };
    let stopwatch = Stopwatch::start();
    let findings = program.start(prepared, &stage);
    drop(stage);
    gone.wait().map_err(|_| Failure::Endless)?;
    let lap = stopwatch.stop();
    Ok(Played { lap, actors: actors.load(Ordering::Relaxed), found: findings() })
}

/// A benchmark, whatever its program.
pub trait Benchmark {
    /// The suite's abbreviation.
    fn name(&self) -> &'static str;
    /// The suite's name.
    fn title(&self) -> &'static str;
    /// What there is of it.
    fn variants(&self) -> &'static [Variant];
    /// Names and values of its parameters.
    fn parameters(&self) -> Vec<(&'static str, String)>;
    /// Sets a parameter.
    ///
    /// # Errors
    /// [`BadSetting`] if there is no such parameter, or this is no value for it.
    fn set(&mut self, key: &str, value: &str) -> Result<(), BadSetting>;
    /// Multiplies the parameter that makes it longer. Returns whether there is one.
    ///
    /// # Errors
    /// [`BadSetting`] if the product is too large.
    fn grow(&mut self, factor: u64) -> Result<bool, BadSetting>;
    /// Looks whether the parameters fit together.
    ///
    /// # Errors
    /// [`BadSetting::Impossible`] if they do not.
    fn check(&self) -> Result<(), BadSetting>;
    /// Prepares for runs of `variant` on `system`; each call of the result runs and verifies once.
    ///
    /// # Errors
    /// [`BadSetting::Impossible`] if the parameters do not fit together.
    fn run<'a>(&'a self, variant: Variant, system: &'a System) -> Result<Run<'a>, BadSetting>;
    /// Prepares to verify runs of `variant` by peers; `None` if they do not have the benchmark.
    fn judge<'a>(&'a self, variant: Variant) -> Option<Judge<'a>>;
}

/// What is watched while a program runs.
#[derive(Debug, Clone, Copy)]
pub enum Watch {
    /// The time: what is reported as such.
    Clock,
    /// What it allocates, which takes time; two more facts in the sample.
    Heap(CountAllocations),
}

/// The fact that says how often a run allocated memory.
pub(super) const ALLOCATIONS: &str = "allocations";
/// The fact that says how much memory it asked for, in bytes.
pub(super) const ALLOCATED_BYTES: &str = "allocated bytes";

/// Runs and verifies once.
pub type Run<'a> = Box<dyn FnMut(Watch) -> Result<Sample, Failure> + 'a>;

/// Verifies a run by what a peer found.
pub type Judge<'a> = Box<dyn Fn(Lap, &str) -> Result<Sample, ContenderFailure> + 'a>;

impl<P: Program> Benchmark for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn title(&self) -> &'static str {
        P::TITLE
    }

    fn variants(&self) -> &'static [Variant] {
        P::VARIANTS
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        self.all()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BadSetting> {
        Parameters::set(self, key, value)
    }

    fn grow(&mut self, factor: u64) -> Result<bool, BadSetting> {
        let Some(size) = P::SIZE else { return Ok(false) };
        let value = self.all().into_iter().find(|(key, _)| *key == size).expect("the size is a parameter").1;
        let product = parse::<u64>(size, &value)?.saturating_mul(factor);
        Parameters::set(self, size, &product.to_string())?;
        Ok(true)
    }

    fn check(&self) -> Result<(), BadSetting> {
        self.refuse().map_or(Ok(()), |why| Err(BadSetting::Impossible { benchmark: P::NAME, why }))
    }

    fn run<'a>(&'a self, variant: Variant, system: &'a System) -> Result<Run<'a>, BadSetting> {
        self.check()?;
        let prepared = self.prepare(variant);
        Ok(Box::new(move |watch| {
            let mut played = None;
            let mut run = || played = Some(play(self, &prepared, system));
            let allocations = match watch {
                Watch::Clock => {
                    run();
                    None
                }
                Watch::Heap(count) => Some(count(&mut run)),
            };
            let Played { lap, actors, found } = played.expect("it was run")?;
            let sample = self.verify(&prepared, &found)?.sample(lap).with_fact("actors", actors as f64);
            Ok(match allocations {
                Some(Allocations { count, bytes }) => {
                    sample.with_fact(ALLOCATIONS, count as f64).with_fact(ALLOCATED_BYTES, bytes as f64)
                }
                None => sample,
            })
        }))
    }

    fn judge<'a>(&'a self, variant: Variant) -> Option<Judge<'a>> {
        let read = P::OF_PEERS?;
        let prepared = self.prepare(variant);
        Some(Box::new(move |lap, found| Ok(self.verify(&prepared, &read(found)?)?.sample(lap))))
    }
}
