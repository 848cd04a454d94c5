//! Big: many actors, each with one ping under way to a random one of them.
use std::sync::Arc;

use enact::{Cx, actor};
use enact_workloads::savina::Lcg16;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Big.
    Big {
        /// How many pings each worker sends.
        pings: u64 = 20_000,
        /// How many workers there are.
        workers: usize = 120,
    }
}

/// Everybody that a worker knows; dropped with it, so that the circle ends.
#[derive(Clone)]
struct Neighbours {
    workers: Arc<[WorkerRef]>,
    sink: SinkRef,
}

struct Worker {
    id: usize,
    draws: Lcg16,
    left: u64,
    /// Whose pong comes next; nobody's is the message that starts it all.
    expected: Option<usize>,
    received: u64,
    unexpected: u64,
    neighbours: Option<Neighbours>,
    report: Report<(usize, u64, u64)>,
    _presence: Presence,
}

#[actor]
impl Worker {
    fn meet(&mut self, neighbours: Neighbours) {
        self.neighbours = Some(neighbours);
    }

    fn ping(&mut self, sender: usize) {
        self.received += 1;
        let neighbours = self.neighbours.as_ref().expect("met before the first ping");
        neighbours.workers[sender].tell().pong(Some(self.id));
    }

    fn pong(&mut self, sender: Option<usize>) {
        self.unexpected += u64::from(sender != self.expected);
        let Neighbours { workers, sink } = self.neighbours.as_ref().expect("met before the first pong");
        if self.left == 0 {
            sink.tell().exit();
            return;
        }
        self.left -= 1;
        let target = self.draws.below(workers.len() as u64) as usize;
        self.expected = Some(target);
        workers[target].tell().ping(self.id);
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.report.give((self.id, self.received, self.unexpected));
        cx.stop();
    }
}

struct Sink {
    exits: usize,
    workers: Arc<[WorkerRef]>,
    _presence: Presence,
}

#[actor]
impl Sink {
    fn meet(&mut self, workers: Arc<[WorkerRef]>) {
        self.workers = workers;
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.exits += 1;
        if self.exits == self.workers.len() {
            self.workers.iter().for_each(|worker| drop(worker.tell().exit()));
            cx.stop();
        }
    }
}

impl Program for Big {
    const NAME: &'static str = "big";
    const TITLE: &'static str = "Big";
    const SIZE: Option<&'static str> = Some("pings");
    /// How many pings each worker gets.
    type Prepared = Vec<u64>;
    /// Number, received pings and unexpected pongs of each worker.
    type Found = Vec<(usize, u64, u64)>;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn prepare(&self, _variant: Variant) -> Vec<u64> {
        let mut received = vec![0; self.workers];
        for id in 0..self.workers as u64 {
            let mut draws = Lcg16::new(id);
            (0..self.pings).for_each(|_| received[draws.below(self.workers as u64) as usize] += 1);
        }
        received
    }

    fn start(&self, _received: &Vec<u64>, stage: &Stage) -> Findings<Self::Found> {
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
        let workers: Arc<[_]> = (0..self.workers).map(|id| stage.spawn(worker(id))).collect();
        sink.tell().meet(Arc::clone(&workers));
        for worker in &*workers {
            worker.tell().meet(Neighbours { workers: Arc::clone(&workers), sink: sink.clone() });
        }
        for worker in &*workers {
            worker.tell().pong(None);
        }
        Box::new(move || reported.sorted())
    }

    fn verify(&self, received: &Vec<u64>, found: &Self::Found) -> Result<Verified, Wrong> {
        equal("unexpected pongs", found.iter().map(|(_, _, unexpected)| unexpected).sum(), 0)?;
        let pings: Vec<_> = found.iter().map(|(_, received, _)| *received).collect();
        equal("pings received by each worker", &pings, received)?;
        let workers = self.workers as u64;
        Ok(Verified::after(2 * workers * self.pings + 3 * workers))
    }
}

#[cfg(test)]
mod tests {
    use enact_workloads::savina::poly31;

    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let received = Big::default().prepare(Variant::Port);
        assert_eq!(received[..6], [19_916, 19_849, 19_965, 20_006, 20_129, 19_972]);
        assert_eq!((received.iter().min(), received.iter().max()), (Some(&19_752), Some(&20_248)));
        assert_eq!(poly31(received.iter().map(|&count| count as i64)), 7_266_917_033_928_065_280);
    }

    #[test]
    fn a_ping_at_the_wrong_worker_is_refused() {
        let program = Big { pings: 3, workers: 2 };
        let received = program.prepare(Variant::Port);
        let found = |(one, other), unexpected| vec![(0, one, unexpected), (1, other, 0)];
        assert!(program.verify(&received, &found((received[0], received[1]), 0)).is_ok());
        assert!(program.verify(&received, &found((received[0] + 1, received[1] - 1), 0)).is_err());
        assert!(program.verify(&received, &found((received[0], received[1]), 1)).is_err());
    }
}
