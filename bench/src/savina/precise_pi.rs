//! Precise pi: the master gives the next term of a series to the worker that has just computed one.
//!
//! The quotient by a power of 16 is a shift here, where the published programs divide numbers of many digits.
use std::sync::Arc;

use enact::{Cx, actor};
use enact_workloads::savina::{Fixed, Series};

use super::oracle::{Wrong, holds};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

/// How many terms each worker is given at first.
const FIRST_TERMS: u32 = 10;

parameters! {
    /// Precise pi.
    PrecisePi {
        /// How many workers there are.
        workers: u32 = 20,
        /// How many decimals are computed.
        digits: u32 = 5_000,
    }
}

struct Master {
    workers: Vec<WorkerRef>,
    series: Arc<Series>,
    digits: u32,
    sum: Fixed,
    requested: u32,
    received: u32,
    is_last: bool,
    confirmed: usize,
    report: Report<(String, u32)>,
    _presence: Presence,
}

#[actor]
impl Master {
    fn start(&mut self, cx: &Cx<Self>) {
        let workers = self.workers.len() as u32;
        self.requested = self.digits.min(FIRST_TERMS * workers);
        for term in 0..self.requested {
            let worker = term % workers;
            self.workers[worker as usize].tell().compute(term, worker, cx.handle());
        }
    }

    fn result(&mut self, cx: &Cx<Self>, term: Fixed, worker: u32) {
        self.sum.add(&term);
        self.received += 1;
        self.is_last |= self.series.is_last(&term);
        if !self.is_last {
            self.workers[worker as usize].tell().compute(self.requested, worker, cx.handle());
            self.requested += 1;
        } else if self.received == self.requested {
            self.workers.iter().for_each(|worker| drop(worker.tell().exit(cx.handle())));
        }
    }

    fn confirm(&mut self, cx: &Cx<Self>) {
        self.confirmed += 1;
        if self.confirmed == self.workers.len() {
            self.report.give((self.series.text(&self.sum), self.received));
            cx.stop();
        }
    }
}

struct Worker {
    series: Arc<Series>,
    _presence: Presence,
}

#[actor]
impl Worker {
    fn compute(&mut self, term: u32, worker: u32, master: MasterRef) {
        master.tell().result(self.series.term(term), worker);
    }

    fn exit(&mut self, cx: &Cx<Self>, master: MasterRef) {
        master.tell().confirm();
        cx.stop();
    }
}

impl Program for PrecisePi {
    const NAME: &'static str = "piprec";
    const TITLE: &'static str = "Precise Pi Computation";
    const SIZE: Option<&'static str> = Some("digits");
    type Prepared = (Arc<Series>, String);
    /// The number, and how many terms were added.
    type Found = Option<(String, u32)>;

    fn refuse(&self) -> Option<&'static str> {
        (self.workers == 0 || self.digits == 0).then_some("there is a worker and a decimal")
    }

    fn prepare(&self, _variant: Variant) -> Self::Prepared {
        let series = Series::new(self.digits as usize);
        let mut sum = Fixed::default();
        for index in 0.. {
            let term = series.term(index);
            sum.add(&term);
            if series.is_last(&term) {
                break;
            }
        }
        let text = series.text(&sum);
        (Arc::new(series), text)
    }

    fn start(&self, (series, _): &Self::Prepared, stage: &Stage) -> Findings<Self::Found> {
        let (report, reported) = reports();
        let worker = |_| stage.spawn(Worker { series: Arc::clone(series), _presence: stage.presence() });
        let master = Master {
            workers: (0..self.workers).map(worker).collect(),
            series: Arc::clone(series),
            digits: self.digits,
            sum: Fixed::default(),
            requested: 0,
            received: 0,
            is_last: false,
            confirmed: 0,
            report,
            _presence: stage.presence(),
        };
        stage.spawn(master).tell().start();
        Box::new(move || reported.only())
    }

    fn verify(&self, (_, expected): &Self::Prepared, found: &Self::Found) -> Result<Verified, Wrong> {
        holds("pi", found.as_ref().is_some_and(|(text, _)| text == expected))?;
        let terms = found.as_ref().map_or(0, |(_, terms)| u64::from(*terms));
        Ok(Verified::after(2 * terms + 2 * u64::from(self.workers) + 1).with_fact("terms", terms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let (_, text) = PrecisePi::default().prepare(Variant::Port);
        assert!(text.starts_with("3.1415926535897932384") && text.ends_with("80998886874132604705"), "{text}");
        assert_eq!(text.len(), 5_002);
    }

    #[test]
    fn another_digit_is_refused() {
        let program = PrecisePi { digits: 30, ..PrecisePi::default() };
        let prepared = program.prepare(Variant::Port);
        let found = |text: &str| Some((text.to_owned(), 30));
        assert!(program.verify(&prepared, &found(&prepared.1)).is_ok());
        assert!(program.verify(&prepared, &found(&prepared.1.replacen('4', "5", 1))).is_err());
    }
}
