//! What the entities have said, counted by class and event; and who has waited for whom.
//!
//! # What is counted
//! Each vote of an entity: an attempt that begins anew is asked, and counted, again. A delay is counted once for each vote, when it
//! begins, with the one that stands in the way then; if there are several, with one of them.
//!
//! # What it costs
//! A vote is one addition to a number of its class and event; a delay, which costs more than that anyway, is one under a lock of its
//! class. There are as many numbers as the contract declares events, and at most as many pairs of them, whatever clients send.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enact_journal::{Position, Volume};
use enact_sync::Mutex;

use super::durations::DurationCounts;
use super::error::{Awaited, Doubt, ReadError, SubmitError};
use crate::admission::Culprit;

/// What is no event of the contract: conditions and questions of other entities.
pub const OTHER: &str = "(other)";

/// Transactions of so many engines and more are counted together.
const SPAN_MAX: usize = 8;

/// What an engine has counted since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// By class and event, in the order of their names; all that the contract declares, also what has not happened.
    pub events: Vec<EventCount>,
    /// Who has waited for whom, in the order of their names; only pairs of which one has waited.
    pub delays: Vec<DelayCount>,
    /// The requests whose deadline passed, by what they waited for then.
    pub timeouts: Vec<(&'static str, u64)>,
    /// How many transactions have committed that are of 1, 2, .. engines; the last is of those with so many or more. Each is counted by
    /// the one that has decided it.
    pub spans: Vec<u64>,
    /// How many commands are under way.
    pub commands: usize,
    /// About how many bytes of memory the entities take.
    pub entity_bytes: usize,
    /// How many entities have a timer.
    pub timers: usize,
    /// How long what was appended took until it was durable, from being given to the journal.
    pub appends: DurationCounts,
    /// How much the journal holds.
    pub volume: Volume,
}

impl Metrics {
    /// Adds what another engine has counted, under the same contract.
    pub fn add(&mut self, other: &Self) {
        let Self { events, delays, timeouts, spans, commands, entity_bytes, timers, appends, volume } = other;
        for event in events {
            let same = |own: &&mut EventCount| (&own.class, &own.event) == (&event.class, &event.event);
            match self.events.iter_mut().find(same) {
                Some(own) => {
                    own.admitted += event.admitted;
                    own.in_line += event.in_line;
                    own.refused += event.refused;
                }
                None => self.events.push(event.clone()),
            }
        }
        for delay in delays {
            match self.delays.iter_mut().find(|own| own.pair() == delay.pair()) {
                Some(own) => own.count += delay.count,
                None => self.delays.push(delay.clone()),
            }
        }
        for (phase, count) in timeouts {
            match self.timeouts.iter_mut().find(|(own, _)| own == phase) {
                Some((_, own)) => *own += count,
                None => self.timeouts.push((phase, *count)),
            }
        }
        self.spans.resize(self.spans.len().max(spans.len()), 0);
        self.spans.iter_mut().zip(spans).for_each(|(own, count)| *own += count);
        self.commands += commands;
        self.entity_bytes += entity_bytes;
        self.timers += timers;
        self.appends.add(appends);
        let last = sum(self.volume.last.map(|last| last.0), volume.last.map(|last| last.0));
        self.volume = Volume {
            last: last.map(Position),
            bytes: sum(self.volume.bytes, volume.bytes),
            free_bytes: sum(self.volume.free_bytes, volume.free_bytes),
        };
    }
}

/// What is known of both together.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).reduce(|one, other| one + other)
}

/// What became of the events of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCount {
    /// The class.
    pub class: String,
    /// The event; [`OTHER`] if it is none.
    pub event: String,
    /// How many were admitted.
    pub admitted: u64,
    /// How many of those were admitted in line.
    pub in_line: u64,
    /// How many were refused.
    pub refused: u64,
}

/// How often an event waited for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayCount {
    /// The class.
    pub class: String,
    /// The event that waited; [`OTHER`] if it is none.
    pub event: String,
    /// The event that it waited for; [`OTHER`] if it is none.
    pub waits_for: String,
    /// Why: `verdict`, `answer`, `order`, `outcomes`, `bound` or `turn`.
    pub cause: &'static str,
    /// How often.
    pub count: u64,
}

impl DelayCount {
    fn pair(&self) -> (&str, &str, &str, &str) {
        (&self.class, &self.event, &self.waits_for, self.cause)
    }
}

/// The counts of one engine.
#[derive(Debug)]
pub(super) struct Counts {
    classes: BTreeMap<String, Arc<ClassCounts>>,
    timeouts: [AtomicU64; Awaited::PHASES.len()],
    spans: [AtomicU64; SPAN_MAX],
}

/// The counts of one class.
#[derive(Debug)]
pub(super) struct ClassCounts {
    /// The names of its events, in order.
    names: Vec<String>,
    /// For each of them, and for what is none.
    events: Vec<Votes>,
    delays: Mutex<HashMap<(EventId, EventId, &'static str), u64>>,
}

#[derive(Debug, Default)]
struct Votes {
    admitted: AtomicU64,
    in_line: AtomicU64,
    refused: AtomicU64,
}

/// The place of an event among those of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EventId(usize);

/// The events of one part of a transaction: mostly one.
#[derive(Debug)]
pub(super) struct EventIds {
    first: EventId,
    others: Vec<EventId>,
}

impl Counts {
    /// Of these classes with the names of their events.
    pub(super) fn of(classes: Vec<(String, Vec<String>)>) -> Self {
        let class = |(name, events)| (name, Arc::new(ClassCounts::of(events)));
        let classes = classes.into_iter().map(class).collect();
        Self { classes, timeouts: Default::default(), spans: Default::default() }
    }

    pub(super) fn class(&self, name: &str) -> Option<Arc<ClassCounts>> {
        self.classes.get(name).map(Arc::clone)
    }

    /// A transaction of `span` engines has committed.
    pub(super) fn committed(&self, span: usize) {
        add(&self.spans[span.clamp(1, SPAN_MAX) - 1]);
    }

    /// A command has ended like this.
    pub(super) fn command(&self, error: &SubmitError) {
        match error {
            SubmitError::Timeout { awaited, .. } => self.timeout(awaited.phase()),
            SubmitError::InDoubt { doubt: Doubt::Recording, .. } => self.timeout("record"),
            SubmitError::InDoubt { doubt: Doubt::InLine, .. } => self.timeout("line"),
            _ => {}
        }
    }

    /// A read has ended like this.
    pub(super) fn read(&self, error: &ReadError) {
        if let ReadError::Timeout { awaited, .. } = error {
            self.timeout(awaited.phase());
        }
    }

    fn timeout(&self, phase: &'static str) {
        let phases = Awaited::PHASES.iter().zip(&self.timeouts);
        phases.filter(|(name, _)| **name == phase).for_each(|(_, count)| add(count));
    }

    pub(super) fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        for (class, counts) in &self.classes {
            counts.collect(class, &mut metrics);
        }
        let timeouts = self.timeouts.iter().map(|count| count.load(Ordering::Relaxed));
        metrics.spans = self.spans.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        metrics.timeouts = Awaited::PHASES.into_iter().zip(timeouts).collect();
        metrics
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl ClassCounts {
    fn of(mut names: Vec<String>) -> Self {
        names.sort();
        names.dedup();
        let events = (0..=names.len()).map(|_| Votes::default()).collect();
        Self { names, events, delays: Mutex::default() }
    }

    fn id(&self, event: Option<&str>) -> EventId {
        let found = event.and_then(|event| self.names.binary_search_by(|name| name.as_str().cmp(event)).ok());
        EventId(found.unwrap_or(self.names.len()))
    }

    pub(super) fn ids<'a>(&self, mut events: impl Iterator<Item = &'a str>) -> EventIds {
        let first = self.id(events.next());
        EventIds { first, others: events.map(|event| self.id(Some(event))).collect() }
    }

    pub(super) fn admitted(&self, events: &EventIds, in_line: bool) {
        for EventId(id) in std::iter::once(&events.first).chain(&events.others) {
            add(&self.events[*id].admitted);
            if in_line {
                add(&self.events[*id].in_line);
            }
        }
    }

    pub(super) fn refused(&self, event: &str) {
        add(&self.events[self.id(Some(event)).0].refused);
    }

    pub(super) fn delayed(&self, Culprit { waiting, awaited, cause }: Culprit<'_>) {
        let pair = (self.id(waiting), self.id(awaited), cause);
        *self.delays.lock().entry(pair).or_insert(0) += 1;
    }

    fn collect(&self, class: &str, metrics: &mut Metrics) {
        let name = |EventId(id): EventId| self.names.get(id).map_or(OTHER, String::as_str).to_owned();
        let events = self.events.iter().enumerate().map(|(id, votes)| EventCount {
            class: class.to_owned(),
            event: name(EventId(id)),
            admitted: votes.admitted.load(Ordering::Relaxed),
            in_line: votes.in_line.load(Ordering::Relaxed),
            refused: votes.refused.load(Ordering::Relaxed),
        });
        metrics.events.extend(events);
        let delays: BTreeMap<_, _> = self.delays.lock().iter().map(|(pair, count)| (*pair, *count)).collect();
        metrics.delays.extend(delays.into_iter().map(|((waiting, awaited, cause), count)| DelayCount {
            class: class.to_owned(),
            event: name(waiting),
            waits_for: name(awaited),
            cause,
            count,
        }));
    }
}
