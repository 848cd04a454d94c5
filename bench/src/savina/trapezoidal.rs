//! Trapezoidal approximation: a static share of a computation for each worker.
use enact::{Actor, Cx, actor};
use enact_workloads::savina::trapezoid;

use super::oracle::{Wrong, close, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// Trapezoidal approximation.
    Trapezoidal {
        /// How many trapezoids there are in all.
        pieces: u64 = 10_000_000,
        /// How many workers there are.
        workers: usize = 100,
        /// Where the area begins.
        left: f64 = 1.0,
        /// Where it ends.
        right: f64 = 5.0,
    }
}

/// The share of one worker.
#[derive(Debug, Clone, Copy)]
struct Share {
    left: f64,
    width: f64,
    pieces: u64,
}

impl Share {
    fn area(self) -> f64 {
        trapezoid(self.left, self.width, self.pieces)
    }
}

struct Master {
    shares: Vec<Share>,
    received: usize,
    area: f64,
    report: Report<f64>,
    pieces: Report<(usize, u64)>,
    presence: Presence,
}

#[actor]
impl Master {
    fn start(&mut self, cx: &Cx<Self>) {
        for (id, &share) in self.shares.iter().enumerate() {
            let pieces = self.pieces.clone();
            Worker { id, pieces, _presence: self.presence.clone() }.spawn().tell().work(share, cx.handle());
        }
    }

    fn result(&mut self, cx: &Cx<Self>, area: f64) {
        self.area += area;
        self.received += 1;
        if self.received == self.shares.len() {
            self.report.give(self.area);
            cx.stop();
        }
    }
}

struct Worker {
    id: usize,
    pieces: Report<(usize, u64)>,
    _presence: Presence,
}

#[actor]
impl Worker {
    fn work(&mut self, cx: &Cx<Self>, share: Share, master: MasterRef) {
        master.tell().result(share.area());
        self.pieces.give((self.id, share.pieces));
        cx.stop();
    }
}

impl Trapezoidal {
    fn shares(&self) -> Vec<Share> {
        let width = (self.right - self.left) / self.pieces as f64;
        let range = (self.right - self.left) / self.workers as f64;
        let share = |id| {
            let left = id as f64 * range + self.left;
            Share { left, width, pieces: ((left + range - left) / width) as u64 }
        };
        (0..self.workers).map(share).collect()
    }
}

pub(super) struct Found {
    area: Option<f64>,
    pieces: Vec<(usize, u64)>,
}

impl Program for Trapezoidal {
    const NAME: &'static str = "trapr";
    const TITLE: &'static str = "Trapezoidal Approximation";
    const SIZE: Option<&'static str> = Some("pieces");
    type Prepared = f64;
    type Found = Found;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.pieces > 0 && self.workers > 0 && 0.0 <= self.left && self.left < self.right;
        (!possible).then_some("there is a worker and a trapezoid, and 0 <= left < right")
    }

    fn prepare(&self, _variant: Variant) -> f64 {
        self.shares().into_iter().map(Share::area).sum()
    }

    fn start(&self, _area: &f64, stage: &Stage) -> Findings<Found> {
        let ((report, reported), (pieces, counted)) = (reports(), reports());
        let (shares, presence) = (self.shares(), stage.presence());
        stage.spawn(Master { shares, received: 0, area: 0.0, report, pieces, presence }).tell().start();
        Box::new(move || Found { area: reported.only(), pieces: counted.sorted() })
    }

    fn verify(&self, &expected: &f64, found: &Found) -> Result<Verified, Wrong> {
        let pieces = self.shares().iter().map(|share| share.pieces).enumerate().collect();
        equal("trapezoids of each worker", &found.pieces, &pieces)?;
        close("area", found.area.unwrap_or(f64::NAN), expected, 1e-11)?;
        Ok(Verified::after(2 * self.workers as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let program = Trapezoidal::default();
        assert!(program.shares().iter().all(|share| share.pieces == 100_000));
        assert!(close("area", program.prepare(Variant::Port), 0.271_080_751_953, 1e-11).is_ok());
    }

    #[test]
    fn an_area_without_one_share_is_refused() {
        let program = Trapezoidal { pieces: 1_000, workers: 4, ..Trapezoidal::default() };
        let area = program.prepare(Variant::Port);
        let pieces = || program.shares().iter().map(|share| share.pieces).enumerate().collect();
        assert!(program.verify(&area, &Found { area: Some(area), pieces: pieces() }).is_ok());
        let less = area - program.shares()[3].area();
        assert!(program.verify(&area, &Found { area: Some(less), pieces: pieces() }).is_err());
        assert!(program.verify(&area, &Found { area: None, pieces: pieces() }).is_err());
    }
}
