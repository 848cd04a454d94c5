//! Logistic map: an actor asks another and does not take its next message until the answer has come.
//!
//! `port` says so by an `async fn(&mut self)` that awaits the answer. In `stash` the answer is a message, too, and guards
//! set those aside that come too early.
use enact::{Cx, actor};

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Logistic map.
    LogisticMap {
        /// How many series there are, each with its rate.
        series: usize = 10,
        /// How many terms of each are computed.
        terms: u64 = 25_000,
        /// The rate of the first series.
        rate: f64 = 3.46,
        /// By how much each rate is higher than the one before, and each first term.
        step: f64 = 0.0025,
    }
}

fn next_term(rate: f64, term: f64) -> f64 {
    rate * term * (1.0 - term)
}

struct Rate {
    rate: f64,
    _presence: Presence,
}

#[actor]
impl Rate {
    fn compute(&mut self, term: f64) -> f64 {
        next_term(self.rate, term)
    }

    fn compute_for(&mut self, term: f64, sender: SeriesRef) {
        sender.tell().computed(next_term(self.rate, term));
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        cx.stop();
    }
}

struct Series {
    id: usize,
    term: f64,
    rate: RateRef,
    /// Whether the next term is being computed, where messages are set aside.
    is_waiting: bool,
    _presence: Presence,
}

#[actor]
impl Series {
    async fn next(&mut self) {
        self.term = self.rate.compute(self.term).await.expect("the rate ends after the series");
    }

    fn term(&mut self, master: MasterRef) {
        master.tell().term(self.id, self.term);
    }

    #[when(!self.is_waiting)]
    fn next_or_stash(&mut self, cx: &Cx<Self>) {
        self.is_waiting = true;
        self.rate.tell().compute_for(self.term, cx.handle());
    }

    #[when(!self.is_waiting)]
    fn term_or_stash(&mut self, master: MasterRef) {
        self.term(master);
    }

    fn computed(&mut self, term: f64) {
        self.term = term;
        self.is_waiting = false;
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        cx.stop();
    }
}

struct Master {
    terms: u64,
    stash: bool,
    series: Vec<SeriesRef>,
    rates: Vec<RateRef>,
    received: usize,
    report: Report<(usize, f64)>,
    _presence: Presence,
}

#[actor]
impl Master {
    fn start(&mut self, cx: &Cx<Self>) {
        for _ in 0..self.terms {
            for series in &self.series {
                if self.stash {
                    series.tell().next_or_stash()
                } else {
                    series.tell().next()
                };
            }
        }
        for series in &self.series {
            if self.stash {
                series.tell().term_or_stash(cx.handle())
            } else {
                series.tell().term(cx.handle())
            };
        }
    }

    fn term(&mut self, cx: &Cx<Self>, series: usize, term: f64) {
        self.report.give((series, term));
        self.received += 1;
        if self.received == self.series.len() {
            self.series.iter().for_each(|series| drop(series.tell().exit()));
            self.rates.iter().for_each(|rate| drop(rate.tell().exit()));
            cx.stop();
        }
    }
}

pub(super) struct Prepared {
    stash: bool,
    /// The last term of each series.
    last: Vec<f64>,
}

impl LogisticMap {
    /// Rate and first term of a series.
    fn series(&self, id: usize) -> (f64, f64) {
        let offset = id as f64 * self.step;
        (self.rate + offset, offset)
    }
}

impl Program for LogisticMap {
    const NAME: &'static str = "logm";
    const TITLE: &'static str = "Logistic Map Series";
    const SIZE: Option<&'static str> = Some("terms");
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Stash];
    type Prepared = Prepared;
    type Found = Vec<f64>;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        (self.series == 0).then_some("there is a series")
    }

    fn prepare(&self, variant: Variant) -> Prepared {
        let last = |id| {
            let (rate, first) = self.series(id);
            (0..self.terms).fold(first, |term, _| next_term(rate, term))
        };
        Prepared { stash: variant == Variant::Stash, last: (0..self.series).map(last).collect() }
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Vec<f64>> {
        let (report, reported) = reports();
        let rates: Vec<_> = (0..self.series)
            .map(|id| stage.spawn(Rate { rate: self.series(id).0, _presence: stage.presence() }))
            .collect();
        let series = (0..self.series).map(|id| Series {
            id,
            term: self.series(id).1,
            rate: rates[id].clone(),
            is_waiting: false,
            _presence: stage.presence(),
        });
        let master = Master {
            terms: self.terms,
            stash: prepared.stash,
            series: series.map(|series| stage.spawn(series)).collect(),
            rates,
            received: 0,
            report,
            _presence: stage.presence(),
        };
        stage.spawn(master).tell().start();
        Box::new(move || {
            let mut terms = reported.all();
            terms.sort_unstable_by_key(|(series, _)| *series);
            terms.into_iter().map(|(_, term)| term).collect()
        })
    }

    fn verify(&self, prepared: &Prepared, found: &Vec<f64>) -> Result<Verified, Wrong> {
        equal("last terms", found, &prepared.last)?;
        let series = self.series as u64;
        Ok(Verified::after(3 * series * self.terms + 4 * series + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::close;
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let last = LogisticMap::default().prepare(Variant::Port).last;
        assert!(close("sum", last.iter().sum(), 6.387_835_144_604_12, 1e-12).is_ok());
        assert_eq!((last[1], last[9]), (0.410_288_285_981_207_3, 0.830_999_516_190_676_7));
    }

    #[test]
    fn a_term_computed_from_an_early_one_is_refused() {
        let program = LogisticMap { series: 2, terms: 30, ..LogisticMap::default() };
        let prepared = program.prepare(Variant::Port);
        assert!(program.verify(&prepared, &prepared.last.clone()).is_ok());
        let short = LogisticMap { terms: 29, ..program.clone() }.prepare(Variant::Port).last;
        assert!(program.verify(&prepared, &short).is_err());
    }
}
