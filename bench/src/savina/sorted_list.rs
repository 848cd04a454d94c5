//! Concurrent sorted list: readers and writers of one actor whose state takes linear time to use.
//!
//! A search goes on past larger elements, to the end: that is the work.
use std::iter;

use enact::{Cx, actor};
use enact_workloads::savina::Lcg16;

use super::oracle::{Wrong, equal, holds};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// Concurrent sorted list.
    SortedList {
        /// How many workers there are.
        workers: usize = 20,
        /// How many requests each makes.
        requests: u64 = 8_000,
        /// How many of a hundred requests insert.
        writes: u64 = 10,
        /// How many of a hundred requests ask for the length.
        sizes: u64 = 1,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Size,
    Insert(u64),
    Contains(u64),
}

/// The requests that one worker makes.
struct Requests {
    draws: Lcg16,
    writes: u64,
    sizes: u64,
}

impl Requests {
    fn draw(&mut self) -> Request {
        let kind = self.draws.below(100);
        if kind < self.sizes {
            Request::Size
        } else if kind < self.sizes + self.writes {
            Request::Insert(self.draws.draw())
        } else {
            Request::Contains(self.draws.draw())
        }
    }
}

#[derive(Default)]
struct List {
    head: Option<Box<Node>>,
}

struct Node {
    value: u64,
    next: Option<Box<Node>>,
}

impl List {
    fn values(&self) -> impl Iterator<Item = u64> {
        iter::successors(self.head.as_deref(), |node| node.next.as_deref()).map(|node| node.value)
    }

    /// Inserts behind all that is not larger.
    fn insert(&mut self, value: u64) {
        let mut link = &mut self.head;
        while link.as_ref().is_some_and(|node| node.value <= value) {
            link = &mut link.as_mut().expect("just looked at").next;
        }
        *link = Some(Box::new(Node { value, next: link.take() }));
    }
}

impl Drop for List {
    /// One after the other: node by node inside each other would take a deep stack.
    fn drop(&mut self) {
        let mut head = self.head.take();
        while let Some(mut node) = head {
            head = node.next.take();
        }
    }
}

struct Worker {
    left: u64,
    requests: Requests,
    list: StoreRef,
    master: MasterRef,
    _presence: Presence,
}

#[actor]
impl Worker {
    fn next(&mut self, cx: &Cx<Self>) {
        if self.left == 0 {
            self.master.tell().end();
            cx.stop();
            return;
        }
        self.left -= 1;
        let list = self.list.tell();
        match self.requests.draw() {
            Request::Size => list.size(cx.handle()),
            Request::Insert(value) => list.insert(value, cx.handle()),
            Request::Contains(value) => list.contains(value, cx.handle()),
        };
    }

    fn answer(&mut self, cx: &Cx<Self>, _answer: u64) {
        self.next(cx);
    }
}

struct Store {
    list: List,
    counts: Counts,
    report: Report<Found>,
    _presence: Presence,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    sizes: u64,
    inserts: u64,
    searches: u64,
}

#[actor]
impl Store {
    fn size(&mut self, sender: WorkerRef) {
        self.counts.sizes += 1;
        sender.tell().answer(self.list.values().count() as u64);
    }

    fn insert(&mut self, value: u64, sender: WorkerRef) {
        self.counts.inserts += 1;
        self.list.insert(value);
        sender.tell().answer(value);
    }

    fn contains(&mut self, value: u64, sender: WorkerRef) {
        self.counts.searches += 1;
        sender.tell().answer(u64::from(self.list.values().any(|element| element == value)));
    }

    fn end(&mut self, cx: &Cx<Self>) {
        self.report.give(Found { counts: self.counts, values: self.list.values().collect() });
        cx.stop();
    }
}

struct Master {
    workers: usize,
    list: StoreRef,
    _presence: Presence,
}

#[actor]
impl Master {
    fn end(&mut self, cx: &Cx<Self>) {
        self.workers -= 1;
        if self.workers == 0 {
            self.list.tell().end();
            cx.stop();
        }
    }
}

/// Requests that were taken up, and the list at the end.
#[derive(Debug, Clone)]
pub(super) struct Found {
    counts: Counts,
    values: Vec<u64>,
}

impl SortedList {
    fn requests_of(&self, worker: usize) -> Requests {
        let draws = Lcg16::new(worker as u64 + self.requests + self.writes + self.sizes);
        Requests { draws, writes: self.writes, sizes: self.sizes }
    }
}

impl Program for SortedList {
    const NAME: &'static str = "csll";
    const TITLE: &'static str = "Concurrent Sorted Linked List";
    const SIZE: Option<&'static str> = Some("requests");
    type Prepared = Found;
    type Found = Option<Found>;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.workers > 0 && 2 * self.writes + self.sizes < 100;
        (!possible).then_some("there is a worker, and 2 writes + sizes is less than 100")
    }

    fn prepare(&self, _variant: Variant) -> Found {
        let mut found = Found { counts: Counts::default(), values: Vec::new() };
        for worker in 0..self.workers {
            let mut requests = self.requests_of(worker);
            for _ in 0..self.requests {
                match requests.draw() {
                    Request::Size => found.counts.sizes += 1,
                    Request::Contains(_) => found.counts.searches += 1,
                    Request::Insert(value) => found.values.push(value),
                }
            }
        }
        found.counts.inserts = found.values.len() as u64;
        found.values.sort_unstable();
        found
    }

    fn start(&self, _expected: &Found, stage: &Stage) -> Findings<Option<Found>> {
        let (report, reported) = reports();
        let store = Store { list: List::default(), counts: Counts::default(), report, _presence: stage.presence() };
        let list = stage.spawn(store);
        let master = Master { workers: self.workers, list: list.clone(), _presence: stage.presence() };
        let master = stage.spawn(master);
        for number in 0..self.workers {
            let worker = Worker {
                left: self.requests,
                requests: self.requests_of(number),
                list: list.clone(),
                master: master.clone(),
                _presence: stage.presence(),
            };
            stage.spawn(worker).tell().next();
        }
        Box::new(move || reported.only())
    }

    fn verify(&self, expected: &Found, found: &Option<Found>) -> Result<Verified, Wrong> {
        equal("requests", found.as_ref().map(|found| found.counts), Some(expected.counts))?;
        let is_right = found.as_ref().is_some_and(|found| found.values == expected.values);
        holds("the list is what was inserted, sorted", is_right)?;
        let workers = self.workers as u64;
        Ok(Verified::after(2 * workers * self.requests + 2 * workers + 1))
    }
}

#[cfg(test)]
mod tests {
    use enact_workloads::savina::poly31;

    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let Found { counts, values } = SortedList::default().prepare(Variant::Port);
        assert_eq!(counts, Counts { sizes: 10, inserts: 16_126, searches: 143_864 });
        assert_eq!((values.iter().sum::<u64>(), values[0], values[16_125]), (536_620_953, 2, 65_504));
        assert_eq!(poly31(values.iter().map(|&value| value as i64)), 1_339_162_298_634_030_629);
        let fewer = SortedList { requests: 800, ..SortedList::default() };
        assert_eq!(fewer.prepare(Variant::Port).counts.inserts, 1_624);
    }

    #[test]
    fn insert_keeps_the_list_sorted() {
        let mut list = List::default();
        [5, 1, 9, 5, 0, 9].into_iter().for_each(|value| list.insert(value));
        assert_eq!(list.values().collect::<Vec<_>>(), [0, 1, 5, 5, 9, 9]);
    }

    #[test]
    fn a_list_out_of_order_or_with_another_element_is_refused() {
        let program = SortedList { workers: 2, requests: 500, ..SortedList::default() };
        let expected = program.prepare(Variant::Port);
        assert!(program.verify(&expected, &Some(expected.clone())).is_ok());
        let mut swapped = expected.clone();
        swapped.values.swap(3, 40);
        assert!(program.verify(&expected, &Some(swapped)).is_err());
        let mut other = expected.clone();
        other.values[3] += 1;
        assert!(program.verify(&expected, &Some(other)).is_err());
        assert!(program.verify(&expected, &None).is_err());
    }
}
