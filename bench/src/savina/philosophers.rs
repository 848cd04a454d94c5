//! Dining philosophers: an arbitrator owns the forks, and a philosopher that is refused asks again at once.
//!
//! In the strict variant the arbitrator keeps the hungry in order of their requests instead of refusing them.
use std::collections::VecDeque;

use enact::{Cx, actor};
use serde::Deserialize;

use super::oracle::{Wrong, equal, holds};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Dining philosophers.
    Philosophers {
        /// How many sit at the table.
        philosophers: usize = 20,
        /// How often each eats.
        meals: u64 = 10_000,
    }
}

struct Arbitrator {
    /// By fork: whether it is on the table.
    is_free: Vec<bool>,
    is_eating: Vec<bool>,
    /// The philosophers that wait for forks, where none is refused.
    hungry: Option<VecDeque<(usize, PhilosopherRef)>>,
    present: usize,
    tally: Tally,
    report: Report<Tally>,
    _presence: Presence,
}

/// What the arbitrator has seen.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Tally {
    meals: u64,
    denials: u64,
    /// Meals of somebody whose neighbour was eating.
    collisions: u64,
    /// Whether all forks were on the table at the end.
    all_free: bool,
}

#[actor]
impl Arbitrator {
    fn hungry(&mut self, id: usize, philosopher: PhilosopherRef) {
        if self.can_eat(id) {
            self.serve(id, &philosopher);
        } else if let Some(hungry) = &mut self.hungry {
            hungry.push_back((id, philosopher));
        } else {
            self.tally.denials += 1;
            philosopher.tell().denied();
        }
    }

    fn done(&mut self, id: usize) {
        self.is_eating[id] = false;
        self.lay(id, true);
        for _ in 0..self.hungry.as_ref().map_or(0, VecDeque::len) {
            let Some((id, philosopher)) = self.hungry.as_mut().and_then(VecDeque::pop_front) else { return };
            self.hungry(id, philosopher);
        }
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.present -= 1;
        if self.present == 0 {
            self.tally.all_free = self.is_free.iter().all(|&free| free);
            self.report.give(self.tally);
            cx.stop();
        }
    }
}

impl Arbitrator {
    fn can_eat(&self, id: usize) -> bool {
        self.is_free[id] && self.is_free[(id + 1) % self.is_free.len()]
    }

    fn lay(&mut self, id: usize, free: bool) {
        let right = (id + 1) % self.is_free.len();
        (self.is_free[id], self.is_free[right]) = (free, free);
    }

    fn serve(&mut self, id: usize, philosopher: &PhilosopherRef) {
        let seats = self.is_eating.len();
        let collides = self.is_eating[(id + 1) % seats] || self.is_eating[(id + seats - 1) % seats];
        self.tally.collisions += u64::from(collides);
        self.tally.meals += 1;
        self.is_eating[id] = true;
        self.lay(id, false);
        philosopher.tell().eat();
    }
}

struct Philosopher {
    id: usize,
    left: u64,
    arbitrator: ArbitratorRef,
    _presence: Presence,
}

#[actor]
impl Philosopher {
    fn start(&mut self, cx: &Cx<Self>) {
        self.arbitrator.tell().hungry(self.id, cx.handle());
    }

    fn denied(&mut self, cx: &Cx<Self>) {
        self.start(cx);
    }

    fn eat(&mut self, cx: &Cx<Self>) {
        self.left -= 1;
        self.arbitrator.tell().done(self.id);
        if self.left > 0 {
            cx.handle().tell().start();
        } else {
            self.arbitrator.tell().exit();
            cx.stop();
        }
    }
}

impl Program for Philosophers {
    const NAME: &'static str = "phil";
    const TITLE: &'static str = "Dining Philosophers";
    const SIZE: Option<&'static str> = Some("meals");
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Strict];
    type Prepared = Variant;
    type Found = Option<Tally>;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        (self.philosophers < 2 || self.meals == 0).then_some("there are two philosophers and a meal for each")
    }

    fn prepare(&self, variant: Variant) -> Variant {
        variant
    }

    fn start(&self, &variant: &Variant, stage: &Stage) -> Findings<Option<Tally>> {
        let (report, reported) = reports();
        let arbitrator = stage.spawn(Arbitrator {
            is_free: vec![true; self.philosophers],
            is_eating: vec![false; self.philosophers],
            hungry: (variant == Variant::Strict).then(VecDeque::new),
            present: self.philosophers,
            tally: Tally::default(),
            report,
            _presence: stage.presence(),
        });
        for id in 0..self.philosophers {
            let arbitrator = arbitrator.clone();
            stage.spawn(Philosopher { id, left: self.meals, arbitrator, _presence: stage.presence() }).tell().start();
        }
        Box::new(move || reported.only())
    }

    fn verify(&self, &variant: &Variant, found: &Option<Tally>) -> Result<Verified, Wrong> {
        let meals = self.philosophers as u64 * self.meals;
        equal("meals", found.map(|tally| tally.meals), Some(meals))?;
        equal("meals beside a neighbour's", found.map(|tally| tally.collisions), Some(0))?;
        holds("all forks lie on the table at the end", found.is_some_and(|tally| tally.all_free))?;
        let denials = found.map_or(0, |tally| tally.denials);
        holds("a philosopher that is kept is not refused", denials == 0 || variant != Variant::Strict)?;
        let messages = 4 * meals + 2 * denials + self.philosophers as u64;
        Ok(Verified::after(messages).with_fact("denials", denials))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meal_too_few_a_collision_or_a_kept_fork_is_refused() {
        let program = Philosophers { philosophers: 3, meals: 2 };
        let right = Tally { meals: 6, denials: 4, collisions: 0, all_free: true };
        let verdict = |tally| program.verify(&Variant::Port, &Some(tally)).is_ok();
        assert!(verdict(right));
        assert!(!verdict(Tally { meals: 5, ..right }));
        assert!(!verdict(Tally { collisions: 1, ..right }));
        assert!(!verdict(Tally { all_free: false, ..right }));
        assert!(program.verify(&Variant::Strict, &Some(right)).is_err());
    }
}
