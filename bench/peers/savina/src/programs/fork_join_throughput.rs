//! Fork-join, throughput.
use std::ops::ControlFlow;

use enact_workloads::savina::sine;
use serde::Deserialize;

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct ForkJoinThroughput {
    messages: u64,
    actors: usize,
}

struct Worker {
    messages: u64,
    processed: u64,
    report: Report<u64>,
    _presence: Presence,
}

struct Work;

impl<L: Library> Behaviour<L> for Worker {
    type Message = Work;

    fn handle(&mut self, Work: Work, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        assert!(sine() > 0.0, "a square is not negative, and this one not zero");
        self.processed += 1;
        if self.processed < self.messages {
            return NEXT;
        }
        self.report.give(self.processed);
        STOP
    }
}

impl Program for ForkJoinThroughput {
    /// Messages that each actor has processed.
    type Found = Vec<u64>;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Self::Found> {
        let (report, processed) = reports();
        let worker = |_| {
            let report = report.clone();
            stage.spawn(Worker { messages: self.messages, processed: 0, report, _presence: stage.presence() })
        };
        let workers: Vec<_> = (0..self.actors).map(worker).collect();
        for _ in 0..self.messages {
            for worker in &workers {
                L::tell(worker, Work);
            }
        }
        Box::new(move || processed.all())
    }
}
