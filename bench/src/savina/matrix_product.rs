//! Recursive matrix multiplication: uniform divide and conquer through one master.
//!
//! Both factors are shared and only read. A block of the product belongs to one worker, to which all work on it is
//! sent.
use std::collections::HashMap;
use std::sync::Arc;

use enact::{Cx, actor};
use enact_workloads::savina::{Block, add_product};

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// Recursive matrix multiplication.
    MatrixProduct {
        /// How many rows the matrices have.
        rows: usize = 1_024,
        /// How many elements a block may have that is not divided.
        threshold: usize = 16_384,
        /// How many workers there are.
        workers: usize = 20,
    }
}

/// Row and column where a block begins.
type Origin = (usize, usize);

/// Adds a block of one factor times a block of the other to a block of the product.
#[derive(Debug, Clone, Copy)]
struct Work {
    left: Origin,
    right: Origin,
    product: Origin,
    rows: usize,
}

impl Work {
    /// The eight products of halves.
    fn halves(self) -> impl Iterator<Item = Self> {
        let half = self.rows / 2;
        let at = move |(row, column): Origin, down: usize, across: usize| (row + down * half, column + across * half);
        (0..8).map(move |number| {
            let (down, across, inner) = (number & 1, number >> 1 & 1, number >> 2);
            Self {
                left: at(self.left, down, inner),
                right: at(self.right, inner, across),
                product: at(self.product, down, across),
                rows: half,
            }
        })
    }
}

pub(super) struct Factors {
    rows: usize,
    left: Vec<f64>,
    right: Vec<f64>,
}

impl Factors {
    /// Does `work`, on a block that is not divided.
    fn add_product(&self, block: &mut [f64], work: Work) {
        let left = Block { matrix: &self.left, width: self.rows, origin: work.left };
        let right = Block { matrix: &self.right, width: self.rows, origin: work.right };
        add_product(block, work.rows, left, right);
    }
}

struct Master {
    workers: Vec<WorkerRef>,
    sent: u64,
    done: u64,
    confirmed: usize,
    report: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Master {
    fn work(&mut self, cx: &Cx<Self>, work: Work) {
        self.sent += 1;
        let owner = (work.product.0 + work.product.1) % self.workers.len();
        self.workers[owner].tell().work(work, cx.handle());
    }

    fn done(&mut self, cx: &Cx<Self>) {
        self.done += 1;
        // The works that one has made came before it was done.
        if self.done == self.sent {
            self.workers.iter().for_each(|worker| drop(worker.tell().exit(cx.handle())));
        }
    }

    fn confirm(&mut self, cx: &Cx<Self>) {
        self.confirmed += 1;
        if self.confirmed == self.workers.len() {
            self.report.give(self.sent);
            cx.stop();
        }
    }
}

struct Worker {
    factors: Arc<Factors>,
    threshold: usize,
    blocks: HashMap<Origin, Vec<f64>>,
    report: Report<Blocks>,
    _presence: Presence,
}

type Blocks = HashMap<Origin, Vec<f64>>;

#[actor]
impl Worker {
    fn work(&mut self, work: Work, master: MasterRef) {
        let elements = work.rows * work.rows;
        if elements > self.threshold {
            work.halves().for_each(|half| drop(master.tell().work(half)));
        } else {
            let block = self.blocks.entry(work.product).or_insert_with(|| vec![0.0; elements]);
            self.factors.add_product(block, work);
        }
        master.tell().done();
    }

    fn exit(&mut self, cx: &Cx<Self>, master: MasterRef) {
        self.report.give(std::mem::take(&mut self.blocks));
        master.tell().confirm();
        cx.stop();
    }
}

pub(super) struct Found {
    works: Option<u64>,
    blocks: Vec<Blocks>,
}

impl MatrixProduct {
    /// Rows of a block that is not divided, and works of all sizes.
    fn division(&self) -> (usize, u64) {
        let (mut rows, mut works, mut all) = (self.rows, 1, 1);
        while rows * rows > self.threshold {
            rows /= 2;
            works *= 8;
            all += works;
        }
        (rows, all)
    }
}

impl Program for MatrixProduct {
    const NAME: &'static str = "rmm";
    const TITLE: &'static str = "Recursive Matrix Multiplication";
    type Prepared = Arc<Factors>;
    type Found = Found;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.workers > 0 && self.threshold > 0 && self.rows.is_power_of_two();
        (!possible).then_some("there is a worker, and the number of rows is a power of two")
    }

    fn prepare(&self, _variant: Variant) -> Arc<Factors> {
        let rows = self.rows;
        let left = (0..rows * rows).map(|at| (at / rows) as f64).collect();
        Arc::new(Factors { rows, left, right: (0..rows * rows).map(|at| (at % rows) as f64).collect() })
    }

    fn start(&self, factors: &Arc<Factors>, stage: &Stage) -> Findings<Found> {
        let ((report, reported), (blocks, parts)) = (reports(), reports());
        let worker = |_| {
            stage.spawn(Worker {
                factors: Arc::clone(factors),
                threshold: self.threshold,
                blocks: HashMap::new(),
                report: blocks.clone(),
                _presence: stage.presence(),
            })
        };
        let workers = (0..self.workers).map(worker).collect();
        let master = Master { workers, sent: 0, done: 0, confirmed: 0, report, _presence: stage.presence() };
        let whole = Work { left: (0, 0), right: (0, 0), product: (0, 0), rows: self.rows };
        stage.spawn(master).tell().work(whole);
        Box::new(move || Found { works: reported.only(), blocks: parts.all() })
    }

    fn verify(&self, _factors: &Arc<Factors>, found: &Found) -> Result<Verified, Wrong> {
        let (block_rows, works) = self.division();
        equal("works", found.works, Some(works))?;
        let blocks: Vec<_> = found.blocks.iter().flatten().collect();
        equal("blocks of the product", blocks.len(), (self.rows / block_rows).pow(2))?;
        for ((row, column), block) in blocks {
            let expected = |at: usize| ((row + at / block_rows) * (column + at % block_rows) * self.rows) as f64;
            let wrong = block.iter().enumerate().find(|&(at, &element)| element != expected(at));
            equal("a wrong element", wrong, None)?;
        }
        Ok(Verified::after(3 * works - 1 + 2 * self.workers as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_has_the_published_number_of_works() {
        assert_eq!(MatrixProduct::default().division(), (128, 585));
        assert_eq!(MatrixProduct { rows: 64, ..MatrixProduct::default() }.division(), (64, 1));
    }

    #[test]
    fn halves_add_up_to_the_product() {
        let program = MatrixProduct { rows: 8, threshold: 1, workers: 1 };
        let factors = program.prepare(Variant::Port);
        let mut works = vec![Work { left: (0, 0), right: (0, 0), product: (0, 0), rows: 8 }];
        let mut blocks = Blocks::new();
        while let Some(work) = works.pop() {
            if work.rows > 1 {
                works.extend(work.halves());
            } else {
                let block = blocks.entry(work.product).or_insert_with(|| vec![0.0]);
                factors.add_product(block, work);
            }
        }
        let (_, works) = program.division();
        let mut found = Found { works: Some(works), blocks: vec![blocks] };
        assert!(program.verify(&factors, &found).is_ok());
        found.blocks[0].get_mut(&(3, 5)).expect("a block of one element")[0] += 1.0;
        assert!(program.verify(&factors, &found).is_err());
        found.blocks[0].remove(&(3, 5));
        assert!(program.verify(&factors, &found).is_err());
    }
}
