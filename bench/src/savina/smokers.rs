//! Cigarette smokers: each goes on with its turn while the arbiter already chooses the next.
use enact::{Cx, actor};
use enact_workloads::savina::{Lcg16, spin};

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

/// The longest and the shortest smoke, in random numbers drawn.
const PERIOD_MAX: u64 = 1_000;
const PERIOD_MIN: u64 = 10;

parameters! {
    /// Cigarette smokers.
    Smokers {
        /// How often the arbiter chooses a smoker.
        rounds: u64 = 1_000,
        /// How many smokers there are.
        smokers: usize = 200,
    }
}

/// Whom the arbiter chooses, and how long they smoke.
struct Choices {
    draws: Lcg16,
    smokers: u64,
}

impl Choices {
    fn draw(&mut self) -> (usize, u64) {
        let smoker = self.draws.below(self.smokers) as usize;
        (smoker, self.draws.below(PERIOD_MAX) + PERIOD_MIN)
    }
}

struct Arbiter {
    choices: Choices,
    left: u64,
    smokers: Vec<SmokerRef>,
    _presence: Presence,
}

#[actor]
impl Arbiter {
    fn start(&mut self, cx: &Cx<Self>) {
        let (smoker, period) = self.choices.draw();
        self.smokers[smoker].tell().smoke(period, cx.handle());
    }

    fn started(&mut self, cx: &Cx<Self>) {
        self.left -= 1;
        if self.left > 0 {
            self.start(cx);
            return;
        }
        self.smokers.iter().for_each(|smoker| drop(smoker.tell().exit()));
        cx.stop();
    }
}

struct Smoker {
    id: usize,
    smokes: u64,
    smoked: u64,
    report: Report<(usize, u64, u64)>,
    _presence: Presence,
}

#[actor]
impl Smoker {
    fn smoke(&mut self, period: u64, arbiter: ArbiterRef) {
        arbiter.tell().started();
        self.smokes += 1;
        self.smoked += period;
        spin(period);
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.report.give((self.id, self.smokes, self.smoked));
        cx.stop();
    }
}

impl Smokers {
    fn choices(&self) -> Choices {
        let smokers = self.smokers as u64;
        Choices { draws: Lcg16::new(self.rounds.wrapping_mul(smokers)), smokers }
    }
}

/// Number, smokes and random numbers drawn of each smoker.
type Smokes = Vec<(usize, u64, u64)>;

impl Program for Smokers {
    const NAME: &'static str = "cig";
    const TITLE: &'static str = "Cigarette Smokers";
    const SIZE: Option<&'static str> = Some("rounds");
    type Prepared = Smokes;
    type Found = Smokes;

    fn refuse(&self) -> Option<&'static str> {
        (self.rounds == 0 || self.smokers == 0).then_some("there is a round and a smoker")
    }

    fn prepare(&self, _variant: Variant) -> Smokes {
        let mut smokes: Vec<_> = (0..self.smokers).map(|id| (id, 0, 0)).collect();
        let mut choices = self.choices();
        for _ in 0..self.rounds {
            let (smoker, period) = choices.draw();
            smokes[smoker].1 += 1;
            smokes[smoker].2 += period;
        }
        smokes
    }

    fn start(&self, _expected: &Smokes, stage: &Stage) -> Findings<Smokes> {
        let (report, reported) = reports();
        let smoker = |id| {
            let report = report.clone();
            stage.spawn(Smoker { id, smokes: 0, smoked: 0, report, _presence: stage.presence() })
        };
        let smokers = (0..self.smokers).map(smoker).collect();
        let arbiter = Arbiter { choices: self.choices(), left: self.rounds, smokers, _presence: stage.presence() };
        stage.spawn(arbiter).tell().start();
        Box::new(move || reported.sorted())
    }

    fn verify(&self, expected: &Smokes, found: &Smokes) -> Result<Verified, Wrong> {
        equal("smokes of each smoker", found, expected)?;
        Ok(Verified::after(2 * self.rounds + 1 + self.smokers as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let program = Smokers::default();
        let mut choices = program.choices();
        let first = [(); 6].map(|()| choices.draw());
        assert_eq!(first, [(65, 120), (119, 22), (149, 676), (91, 626), (193, 664), (103, 246)]);
        let smokes = program.prepare(Variant::Port);
        assert_eq!(smokes.iter().map(|(_, _, smoked)| smoked).sum::<u64>(), 494_000);
        assert_eq!(smokes.iter().filter(|(_, smokes, _)| *smokes > 0).count(), 100);
    }

    #[test]
    fn a_smoke_of_somebody_else_is_refused() {
        let program = Smokers { rounds: 10, smokers: 4 };
        let expected = program.prepare(Variant::Port);
        assert!(program.verify(&expected, &expected).is_ok());
        let mut other = expected.clone();
        (other[0].1, other[1].1) = (other[1].1, other[0].1 + 1);
        assert!(program.verify(&expected, &other).is_err());
    }
}
