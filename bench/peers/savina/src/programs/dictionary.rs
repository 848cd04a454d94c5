//! Concurrent dictionary.
use std::collections::HashMap;
use std::ops::ControlFlow;

use enact_workloads::savina::Java48;
use serde::{Deserialize, Serialize};

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
#[serde(from = "Parameters")]
pub(super) struct Dictionary {
    parameters: Parameters,
    /// Made beforehand; to copy it is measured.
    initial: HashMap<i32, i32>,
}

#[derive(Deserialize)]
struct Parameters {
    workers: usize,
    requests: u64,
    writes: i32,
    keys: i32,
}

impl From<Parameters> for Dictionary {
    fn from(parameters: Parameters) -> Self {
        let initial = (0..parameters.keys).map(|key| (key, key)).collect();
        Self { parameters, initial }
    }
}

struct Worker<L: Library> {
    left: u64,
    draws: Java48,
    writes: i32,
    keys: i32,
    unanswered: u64,
    dictionary: L::Ref<Store>,
    master: L::Ref<Master<L>>,
    report: Report<u64>,
    _presence: Presence,
}

enum ToWorker {
    Next,
    Answer(Option<i32>),
}

impl<L: Library> Worker<L> {
    fn key(&mut self) -> i32 {
        self.draws.i32().checked_abs().unwrap_or(i32::MAX) % self.keys
    }
}

impl<L: Library> Behaviour<L> for Worker<L> {
    type Message = ToWorker;

    fn handle(&mut self, message: ToWorker, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        self.unanswered += u64::from(matches!(message, ToWorker::Answer(None)));
        if self.left == 0 {
            self.report.give(self.unanswered);
            L::tell(&self.master, End);
            return STOP;
        }
        self.left -= 1;
        let request = if self.draws.below(100) < self.writes {
            ToStore::Write { key: self.key(), value: self.draws.i32(), sender: me() }
        } else {
            ToStore::Read { key: self.key(), sender: me() }
        };
        L::tell(&self.dictionary, request);
        NEXT
    }
}

struct Store {
    entries: HashMap<i32, i32>,
    writes: u64,
    reads: u64,
    report: Report<Contents>,
    _presence: Presence,
}

enum ToStore<L: Library> {
    Read { key: i32, sender: L::Ref<Worker<L>> },
    Write { key: i32, value: i32, sender: L::Ref<Worker<L>> },
    End,
}

impl<L: Library> Behaviour<L> for Store {
    type Message = ToStore<L>;

    fn handle(&mut self, message: ToStore<L>, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToStore::Read { key, sender } => {
                self.reads += 1;
                L::tell(&sender, ToWorker::Answer(self.entries.get(&key).copied()));
                NEXT
            }
            ToStore::Write { key, value, sender } => {
                self.writes += 1;
                self.entries.insert(key, value);
                L::tell(&sender, ToWorker::Answer(Some(value)));
                NEXT
            }
            ToStore::End => {
                let entries = std::mem::take(&mut self.entries);
                self.report.give(Contents { entries, writes: self.writes, reads: self.reads });
                STOP
            }
        }
    }
}

struct Master<L: Library> {
    workers: usize,
    dictionary: L::Ref<Store>,
    _presence: Presence,
}

struct End;

impl<L: Library> Behaviour<L> for Master<L> {
    type Message = End;

    fn handle(&mut self, End: End, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        self.workers -= 1;
        if self.workers > 0 {
            return NEXT;
        }
        L::tell(&self.dictionary, ToStore::End);
        STOP
    }
}

#[derive(Serialize)]
struct Contents {
    entries: HashMap<i32, i32>,
    writes: u64,
    reads: u64,
}

#[derive(Serialize)]
pub(super) struct Found {
    contents: Option<Contents>,
    /// Requests of each worker that found no entry.
    unanswered: Vec<u64>,
}

impl Program for Dictionary {
    type Found = Found;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Found> {
        let ((contents, left), (report, reported)) = (reports(), reports());
        let Parameters { workers, requests, writes, keys } = self.parameters;
        let dictionary = stage.spawn(Store {
            entries: self.initial.clone(),
            writes: 0,
            reads: 0,
            report: contents,
            _presence: stage.presence(),
        });
        let master = stage.spawn(Master { workers, dictionary: dictionary.clone(), _presence: stage.presence() });
        for number in 0..workers as u64 {
            let seed = number.wrapping_add(requests).wrapping_add_signed(i64::from(writes));
            let worker = Worker {
                left: requests,
                draws: Java48::new(seed),
                writes,
                keys,
                unanswered: 0,
                dictionary: dictionary.clone(),
                master: master.clone(),
                report: report.clone(),
                _presence: stage.presence(),
            };
            L::tell(&stage.spawn(worker), ToWorker::Next);
        }
        Box::new(move || Found { contents: left.only(), unanswered: reported.all() })
    }
}
