//! Big.
use std::ops::ControlFlow;
use std::sync::Arc;

use enact_workloads::savina::Lcg16;
use serde::Deserialize;

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct Big {
    pings: u64,
    workers: usize,
}

type Workers<L> = Arc<[<L as Library>::Ref<Worker<L>>]>;

/// Everybody that a worker knows; dropped with it, so that the circle ends.
struct Neighbours<L: Library> {
    workers: Workers<L>,
    sink: L::Ref<Sink<L>>,
}

struct Worker<L: Library> {
    id: usize,
    draws: Lcg16,
    left: u64,
    /// Whose pong comes next; nobody's is the message that starts it all.
    expected: Option<usize>,
    received: u64,
    unexpected: u64,
    neighbours: Option<Neighbours<L>>,
    report: Report<(usize, u64, u64)>,
    _presence: Presence,
}

enum ToWorker<L: Library> {
    Meet(Neighbours<L>),
    Ping(usize),
    Pong(Option<usize>),
    Exit,
}

impl<L: Library> Behaviour<L> for Worker<L> {
    type Message = ToWorker<L>;

    fn handle(&mut self, message: ToWorker<L>, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToWorker::Meet(neighbours) => self.neighbours = Some(neighbours),
            ToWorker::Ping(sender) => {
                self.received += 1;
                let neighbours = self.neighbours.as_ref().expect("met before the first ping");
                L::tell(&neighbours.workers[sender], ToWorker::Pong(Some(self.id)));
            }
            ToWorker::Pong(sender) => {
                self.unexpected += u64::from(sender != self.expected);
                let Neighbours { workers, sink } = self.neighbours.as_ref().expect("met before the first pong");
                if self.left == 0 {
                    L::tell(sink, ToSink::Exit);
                    return NEXT;
                }
                self.left -= 1;
                let target = self.draws.below(workers.len() as u64) as usize;
                self.expected = Some(target);
                L::tell(&workers[target], ToWorker::Ping(self.id));
            }
            ToWorker::Exit => {
                self.report.give((self.id, self.received, self.unexpected));
                return STOP;
            }
        }
        NEXT
    }
}

struct Sink<L: Library> {
    exits: usize,
    workers: Workers<L>,
    _presence: Presence,
}

enum ToSink<L: Library> {
    Meet(Workers<L>),
    Exit,
}

impl<L: Library> Behaviour<L> for Sink<L> {
    type Message = ToSink<L>;

    fn handle(&mut self, message: ToSink<L>, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToSink::Meet(workers) => self.workers = workers,
            ToSink::Exit => {
                self.exits += 1;
                if self.exits == self.workers.len() {
                    self.workers.iter().for_each(|worker| L::tell(worker, ToWorker::Exit));
                    return STOP;
                }
            }
        }
        NEXT
    }
}

impl Program for Big {
    /// Number, received pings and unexpected pongs of each worker.
    type Found = Vec<(usize, u64, u64)>;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Self::Found> {
        let (report, reported) = reports();
        let worker = |id| Worker {
            id,
            draws: Lcg16::new(id as u64),
            left: self.pings,
            expected: None,
            received: 0,
            unexpected: 0,
            neighbours: None,
            report: report.clone(),
            _presence: stage.presence(),
        };
        let sink = stage.spawn(Sink { exits: 0, workers: Arc::new([]), _presence: stage.presence() });
        let workers: Workers<L> = (0..self.workers).map(|id| stage.spawn(worker(id))).collect();
        L::tell(&sink, ToSink::Meet(Arc::clone(&workers)));
        for worker in &*workers {
            L::tell(worker, ToWorker::Meet(Neighbours { workers: Arc::clone(&workers), sink: sink.clone() }));
        }
        for worker in &*workers {
            L::tell(worker, ToWorker::Pong(None));
        }
        Box::new(move || reported.sorted())
    }
}
