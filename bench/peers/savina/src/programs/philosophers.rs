//! Dining philosophers.
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct Philosophers {
    philosophers: usize,
    meals: u64,
}

struct Arbitrator {
    /// By fork: whether it is on the table.
    is_free: Vec<bool>,
    is_eating: Vec<bool>,
    present: usize,
    tally: Tally,
    report: Report<Tally>,
    _presence: Presence,
}

/// What the arbitrator has seen.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Tally {
    meals: u64,
    denials: u64,
    /// Meals of somebody whose neighbour was eating.
    collisions: u64,
    /// Whether all forks were on the table at the end.
    all_free: bool,
}

enum ToArbitrator<L: Library> {
    Hungry(usize, L::Ref<Philosopher<L>>),
    Done(usize),
    Exit,
}

impl<L: Library> Behaviour<L> for Arbitrator {
    type Message = ToArbitrator<L>;

    fn handle(&mut self, message: ToArbitrator<L>, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        let seats = self.is_free.len();
        match message {
            ToArbitrator::Hungry(id, philosopher) if self.is_free[id] && self.is_free[(id + 1) % seats] => {
                let collides = self.is_eating[(id + 1) % seats] || self.is_eating[(id + seats - 1) % seats];
                self.tally.collisions += u64::from(collides);
                self.tally.meals += 1;
                self.is_eating[id] = true;
                self.lay(id, false);
                L::tell(&philosopher, ToPhilosopher::Eat);
            }
            ToArbitrator::Hungry(_, philosopher) => {
                self.tally.denials += 1;
                L::tell(&philosopher, ToPhilosopher::Denied);
            }
            ToArbitrator::Done(id) => {
                self.is_eating[id] = false;
                self.lay(id, true);
            }
            ToArbitrator::Exit => {
                self.present -= 1;
                if self.present == 0 {
                    self.tally.all_free = self.is_free.iter().all(|&free| free);
                    self.report.give(self.tally);
                    return STOP;
                }
            }
        }
        NEXT
    }
}

impl Arbitrator {
    fn lay(&mut self, id: usize, free: bool) {
        let right = (id + 1) % self.is_free.len();
        (self.is_free[id], self.is_free[right]) = (free, free);
    }
}

struct Philosopher<L: Library> {
    id: usize,
    left: u64,
    arbitrator: L::Ref<Arbitrator>,
    _presence: Presence,
}

enum ToPhilosopher {
    Start,
    Denied,
    Eat,
}

impl<L: Library> Behaviour<L> for Philosopher<L> {
    type Message = ToPhilosopher;

    fn handle(&mut self, message: ToPhilosopher, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToPhilosopher::Start | ToPhilosopher::Denied => {
                L::tell(&self.arbitrator, ToArbitrator::Hungry(self.id, me()));
            }
            ToPhilosopher::Eat => {
                self.left -= 1;
                L::tell(&self.arbitrator, ToArbitrator::Done(self.id));
                if self.left == 0 {
                    L::tell(&self.arbitrator, ToArbitrator::Exit);
                    return STOP;
                }
                L::tell(&me(), ToPhilosopher::Start);
            }
        }
        NEXT
    }
}

impl Program for Philosophers {
    type Found = Option<Tally>;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Option<Tally>> {
        let (report, reported) = reports();
        let arbitrator = stage.spawn(Arbitrator {
            is_free: vec![true; self.philosophers],
            is_eating: vec![false; self.philosophers],
            present: self.philosophers,
            tally: Tally::default(),
            report,
            _presence: stage.presence(),
        });
        for id in 0..self.philosophers {
            let (arbitrator, presence) = (arbitrator.clone(), stage.presence());
            let philosopher = stage.spawn(Philosopher { id, left: self.meals, arbitrator, _presence: presence });
            L::tell(&philosopher, ToPhilosopher::Start);
        }
        Box::new(move || reported.only())
    }
}
