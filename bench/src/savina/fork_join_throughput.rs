//! Fork-join, throughput: a thread that is no actor sends to many actors in turn.
use enact::{Cx, actor};
use enact_workloads::savina::sine;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Fork-join, throughput.
    ForkJoinThroughput {
        /// How many messages each actor is sent.
        messages: u64 = 10_000,
        /// How many actors there are.
        actors: usize = 60,
    }
}

struct Worker {
    messages: u64,
    processed: u64,
    report: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Worker {
    fn work(&mut self, cx: &Cx<Self>) {
        assert!(sine() > 0.0, "a square is not negative, and this one not zero");
        self.processed += 1;
        if self.processed == self.messages {
            self.report.give(self.processed);
            cx.stop();
        }
    }
}

impl Program for ForkJoinThroughput {
    const NAME: &'static str = "fjt";
    const TITLE: &'static str = "Fork Join (throughput)";
    const SIZE: Option<&'static str> = Some("messages");
    type Prepared = ();
    /// Messages that each actor has processed.
    type Found = Vec<u64>;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn prepare(&self, _variant: Variant) {}

    fn start(&self, (): &(), stage: &Stage) -> Findings<Vec<u64>> {
        let (report, processed) = reports();
        let worker = |_| {
            let report = report.clone();
            stage.spawn(Worker { messages: self.messages, processed: 0, report, _presence: stage.presence() })
        };
        let workers: Vec<_> = (0..self.actors).map(worker).collect();
        for _ in 0..self.messages {
            for worker in &workers {
                worker.tell().work();
            }
        }
        Box::new(move || processed.all())
    }

    fn verify(&self, (): &(), processed: &Vec<u64>) -> Result<Verified, Wrong> {
        let expected = if self.messages == 0 { vec![] } else { vec![self.messages; self.actors] };
        equal("messages processed by each actor", processed, &expected)?;
        Ok(Verified::after(self.messages * self.actors as u64))
    }
}
