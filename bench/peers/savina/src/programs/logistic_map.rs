//! Logistic map.
use std::convert::Infallible;
use std::ops::ControlFlow;

use serde::Deserialize;

use crate::stage::{
    Behaviour, Dialogue, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, Turn, reports,
};

#[derive(Deserialize)]
pub(super) struct LogisticMap {
    series: usize,
    terms: u64,
    rate: f64,
    step: f64,
}

struct Rate {
    rate: f64,
    _presence: Presence,
}

struct Exit;

impl<L: Library> Dialogue<L> for Rate {
    type Message = Exit;
    type Question = f64;
    type Answer = f64;
    type Asked = Self;

    fn handle(&mut self, Exit: Exit) -> Turn<L, Self> {
        Turn::Stop
    }

    fn answer(&mut self, term: f64) -> f64 {
        self.rate * term * (1.0 - term)
    }

    fn answered(&mut self, _answer: f64) {
        unreachable!("a rate asks nobody");
    }
}

struct Series<L: Library> {
    id: usize,
    term: f64,
    rate: L::PartnerRef<Rate>,
    _presence: Presence,
}

enum ToSeries<L: Library> {
    Next,
    Term(L::Ref<Master<L>>),
    Exit,
}

impl<L: Library> Dialogue<L> for Series<L> {
    type Message = ToSeries<L>;
    type Question = Infallible;
    type Answer = Infallible;
    type Asked = Rate;

    fn handle(&mut self, message: ToSeries<L>) -> Turn<L, Rate> {
        match message {
            ToSeries::Next => Turn::Ask(self.rate.clone(), self.term),
            ToSeries::Term(master) => {
                L::tell(&master, ToMaster::Term(self.id, self.term));
                Turn::Next
            }
            ToSeries::Exit => Turn::Stop,
        }
    }

    fn answer(&mut self, question: Infallible) -> Infallible {
        question
    }

    fn answered(&mut self, term: f64) {
        self.term = term;
    }
}

struct Master<L: Library> {
    terms: u64,
    series: Vec<L::PartnerRef<Series<L>>>,
    rates: Vec<L::PartnerRef<Rate>>,
    received: usize,
    report: Report<(usize, f64)>,
    _presence: Presence,
}

enum ToMaster {
    Start,
    Term(usize, f64),
}

impl<L: Library> Behaviour<L> for Master<L> {
    type Message = ToMaster;

    fn handle(&mut self, message: ToMaster, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToMaster::Start => {
                for _ in 0..self.terms {
                    for series in &self.series {
                        L::tell_partner(series, ToSeries::Next);
                    }
                }
                for series in &self.series {
                    L::tell_partner(series, ToSeries::Term(me()));
                }
            }
            ToMaster::Term(series, term) => {
                self.report.give((series, term));
                self.received += 1;
                if self.received == self.series.len() {
                    self.series.iter().for_each(|series| L::tell_partner(series, ToSeries::Exit));
                    self.rates.iter().for_each(|rate| L::tell_partner(rate, Exit));
                    return STOP;
                }
            }
        }
        NEXT
    }
}

impl Program for LogisticMap {
    /// The last term of each series.
    type Found = Vec<f64>;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Vec<f64>> {
        let (report, reported) = reports();
        let offset = |id: usize| id as f64 * self.step;
        let rate = |id| Rate { rate: self.rate + offset(id), _presence: stage.presence() };
        let rates: Vec<_> = (0..self.series).map(|id| stage.spawn_partner(rate(id))).collect();
        let series = |id: usize| Series { id, term: offset(id), rate: rates[id].clone(), _presence: stage.presence() };
        let series = (0..self.series).map(|id| stage.spawn_partner(series(id))).collect();
        let presence = stage.presence();
        let master = Master { terms: self.terms, series, rates, received: 0, report, _presence: presence };
        L::tell(&stage.spawn(master), ToMaster::Start);
        Box::new(move || {
            let mut terms = reported.all();
            terms.sort_unstable_by_key(|(series, _)| *series);
            terms.into_iter().map(|(_, term)| term).collect()
        })
    }
}
