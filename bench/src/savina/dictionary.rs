//! Concurrent dictionary: readers and writers of one actor whose state takes constant time to use.
//!
//! The dictionary copies its initial entries within the measured time, as the published programs do.
use std::collections::HashMap;

use enact::{Cx, actor};
use enact_workloads::savina::Java48;
use serde::Deserialize;

use super::oracle::{Wrong, equal, holds};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Concurrent dictionary.
    Dictionary {
        /// How many workers there are.
        workers: usize = 20,
        /// How many requests each makes.
        requests: u64 = 10_000,
        /// How many of a hundred requests are writes.
        writes: i32 = 10,
        /// How many entries there are, before and afterwards.
        keys: i32 = i32::MAX / 4096,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Read { key: i32 },
    Write { key: i32, value: i32 },
}

/// The requests that one worker makes.
#[derive(Clone)]
struct Requests {
    draws: Java48,
    writes: i32,
    keys: i32,
}

impl Requests {
    fn key(&mut self) -> i32 {
        self.draws.i32().checked_abs().unwrap_or(i32::MAX) % self.keys
    }

    fn draw(&mut self) -> Request {
        if self.draws.below(100) < self.writes {
            let key = self.key();
            Request::Write { key, value: self.draws.i32() }
        } else {
            Request::Read { key: self.key() }
        }
    }
}

/// A request that was taken up, and its answer.
struct Logged {
    request: Request,
    answer: Option<i32>,
}

/// What a dictionary makes of a request.
fn answer(entries: &mut HashMap<i32, i32>, request: Request) -> Option<i32> {
    match request {
        Request::Read { key } => entries.get(&key).copied(),
        Request::Write { key, value } => {
            entries.insert(key, value);
            Some(value)
        }
    }
}

struct Worker {
    left: u64,
    requests: Requests,
    unanswered: u64,
    dictionary: StoreRef,
    master: MasterRef,
    report: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Worker {
    fn next(&mut self, cx: &Cx<Self>) {
        if self.left == 0 {
            self.report.give(self.unanswered);
            self.master.tell().end();
            cx.stop();
            return;
        }
        self.left -= 1;
        match self.requests.draw() {
            Request::Read { key } => self.dictionary.tell().read(key, cx.handle()),
            Request::Write { key, value } => self.dictionary.tell().write(key, value, cx.handle()),
        };
    }

    fn answer(&mut self, cx: &Cx<Self>, value: Option<i32>) {
        self.unanswered += u64::from(value.is_none());
        self.next(cx);
    }
}

struct Store {
    entries: HashMap<i32, i32>,
    writes: u64,
    reads: u64,
    /// What was taken up, if anybody wants to know.
    log: Option<Vec<Logged>>,
    report: Report<Contents>,
    _presence: Presence,
}

#[actor]
impl Store {
    fn read(&mut self, key: i32, sender: WorkerRef) {
        self.reads += 1;
        sender.tell().answer(take_up(&mut self.entries, &mut self.log, Request::Read { key }));
    }

    fn write(&mut self, key: i32, value: i32, sender: WorkerRef) {
        self.writes += 1;
        sender.tell().answer(take_up(&mut self.entries, &mut self.log, Request::Write { key, value }));
    }

    fn end(&mut self, cx: &Cx<Self>) {
        let entries = std::mem::take(&mut self.entries);
        self.report.give(Contents { entries, writes: self.writes, reads: self.reads, log: self.log.take() });
        cx.stop();
    }
}

fn take_up(entries: &mut HashMap<i32, i32>, log: &mut Option<Vec<Logged>>, request: Request) -> Option<i32> {
    let answer = answer(entries, request);
    log.iter_mut().for_each(|log| log.push(Logged { request, answer }));
    answer
}

struct Master {
    workers: usize,
    dictionary: StoreRef,
    _presence: Presence,
}

#[actor]
impl Master {
    fn end(&mut self, cx: &Cx<Self>) {
        self.workers -= 1;
        if self.workers == 0 {
            self.dictionary.tell().end();
            cx.stop();
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Contents {
    entries: HashMap<i32, i32>,
    writes: u64,
    reads: u64,
    #[serde(skip)]
    log: Option<Vec<Logged>>,
}

#[derive(Deserialize)]
pub(super) struct Found {
    contents: Option<Contents>,
    /// Requests of each worker that found no entry.
    unanswered: Vec<u64>,
}

pub(super) struct Prepared {
    initial: HashMap<i32, i32>,
    logs: bool,
    writes: u64,
    reads: u64,
    /// What any worker writes, by key.
    written: HashMap<i32, Vec<i32>>,
}

impl Dictionary {
    fn requests_of(&self, worker: usize) -> Requests {
        let seed = (worker as u64).wrapping_add(self.requests).wrapping_add_signed(i64::from(self.writes));
        Requests { draws: Java48::new(seed), writes: self.writes, keys: self.keys }
    }
}

impl Program for Dictionary {
    const NAME: &'static str = "cdict";
    const TITLE: &'static str = "Concurrent Dictionary";
    const SIZE: Option<&'static str> = Some("requests");
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Strict];
    type Prepared = Prepared;
    type Found = Found;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        (self.keys < 1 || self.workers == 0).then_some("there is a key and a worker")
    }

    fn prepare(&self, variant: Variant) -> Prepared {
        let initial = (0..self.keys).map(|key| (key, key)).collect();
        let logs = variant == Variant::Strict;
        let mut prepared = Prepared { initial, logs, writes: 0, reads: 0, written: HashMap::new() };
        for worker in 0..self.workers {
            let mut requests = self.requests_of(worker);
            for _ in 0..self.requests {
                match requests.draw() {
                    Request::Read { .. } => prepared.reads += 1,
                    Request::Write { key, value } => {
                        prepared.writes += 1;
                        prepared.written.entry(key).or_default().push(value);
                    }
                }
            }
        }
        prepared
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Found> {
        let ((contents, left), (report, reported)) = (reports(), reports());
        let dictionary = stage.spawn(Store {
            entries: prepared.initial.clone(),
            writes: 0,
            reads: 0,
            log: prepared.logs.then(Vec::new),
            report: contents,
            _presence: stage.presence(),
        });
        let master = Master { workers: self.workers, dictionary: dictionary.clone(), _presence: stage.presence() };
        let master = stage.spawn(master);
        for number in 0..self.workers {
            let worker = Worker {
                left: self.requests,
                requests: self.requests_of(number),
                unanswered: 0,
                dictionary: dictionary.clone(),
                master: master.clone(),
                report: report.clone(),
                _presence: stage.presence(),
            };
            stage.spawn(worker).tell().next();
        }
        Box::new(move || Found { contents: left.only(), unanswered: reported.all() })
    }

    fn verify(&self, prepared: &Prepared, found: &Found) -> Result<Verified, Wrong> {
        equal("requests without an answer", &found.unanswered, &vec![0; self.workers])?;
        let contents = found.contents.as_ref();
        equal("size", contents.map(|left| left.entries.len()), Some(prepared.initial.len()))?;
        equal("writes", contents.map(|left| left.writes), Some(prepared.writes))?;
        equal("reads", contents.map(|left| left.reads), Some(prepared.reads))?;
        if let Some(left) = contents {
            let is_known = |(key, value)| match prepared.written.get(key) {
                Some(written) => written.contains(value),
                None => prepared.initial.get(key) == Some(value),
            };
            holds("every value is one that was written, or the initial one", left.entries.iter().all(is_known))?;
            if let Some(log) = &left.log {
                verify_log(prepared, &left.entries, log)?;
            }
        }
        let (workers, requests) = (self.workers as u64, prepared.writes + prepared.reads);
        Ok(Verified::after(2 * requests + 2 * workers + 1))
    }
}

/// Replays the log from the initial entries.
fn verify_log(prepared: &Prepared, entries: &HashMap<i32, i32>, log: &[Logged]) -> Result<(), Wrong> {
    equal("requests in the log", log.len() as u64, prepared.writes + prepared.reads)?;
    let mut replayed = prepared.initial.clone();
    let is_right = |logged: &Logged| answer(&mut replayed, logged.request) == logged.answer;
    holds("every answer is that of the replayed log", log.iter().all(is_right))?;
    holds("the entries are those of the replayed log", &replayed == entries)
}

#[cfg(test)]
mod tests {
    use enact::System;

    use super::super::program::play;
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let program = Dictionary::default();
        let prepared = program.prepare(Variant::Port);
        assert_eq!((prepared.writes, prepared.reads, prepared.initial.len()), (19_848, 180_152, 524_287));
        let mut requests = program.requests_of(0);
        let writes = (0..program.requests).filter(|_| matches!(requests.draw(), Request::Write { .. }));
        assert_eq!(writes.count(), 988);
    }

    #[test]
    fn a_value_that_nobody_wrote_and_a_wrong_answer_are_refused() {
        let program = Dictionary { workers: 3, requests: 200, keys: 50, ..Dictionary::default() };
        let prepared = program.prepare(Variant::Strict);
        let system = System::builder().workers(2).build().expect("threads");
        let found = || play(&program, &prepared, &system).expect("it ends").found;
        fn contents(found: &mut Found) -> &mut Contents {
            found.contents.as_mut().expect("reported")
        }
        assert!(program.verify(&prepared, &found()).is_ok());
        let mut foreign = found();
        contents(&mut foreign).entries.insert(7, -1);
        assert!(program.verify(&prepared, &foreign).is_err());
        let mut stale = found();
        let log = contents(&mut stale).log.as_mut().expect("strict");
        log[100].answer = log[100].answer.map(|value| value ^ 1);
        assert!(program.verify(&prepared, &stale).is_err());
        let mut short = found();
        contents(&mut short).reads -= 1;
        assert!(program.verify(&prepared, &short).is_err());
    }
}
