//! Sleeping barber: customers are made in one long turn and come back until there is room for them.
use std::collections::VecDeque;

use enact::{Actor, Cx, actor};
use enact_workloads::savina::{Lcg16, spin};

use super::oracle::{Wrong, equal, holds};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

/// The shortest pause or haircut, in random numbers drawn.
const SPIN_MIN: u64 = 10;

parameters! {
    /// Sleeping barber.
    Barber {
        /// How many customers want a haircut.
        customers: u64 = 5_000,
        /// How many seats there are to wait on.
        seats: usize = 1_000,
        /// The longest pause between two new customers, in random numbers drawn.
        pause: u64 = 1_000,
        /// The longest haircut, in random numbers drawn.
        haircut: u64 = 1_000,
    }
}

struct Factory {
    customers: u64,
    attempts: u64,
    done: u64,
    pause: u64,
    draws: Lcg16,
    paused: u64,
    room: RoomRef,
    exits: Report<()>,
    report: Report<Visits>,
    presence: Presence,
}

/// What the factory has seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visits {
    haircuts: u64,
    attempts: u64,
    paused: u64,
}

#[actor]
impl Factory {
    fn start(&mut self, cx: &Cx<Self>) {
        for _ in 0..self.customers {
            self.attempts += 1;
            let exits = self.exits.clone();
            let customer = Customer { factory: cx.handle(), exits, _presence: self.presence.clone() }.spawn();
            self.room.tell().enter(customer);
            let pause = self.draws.below(self.pause) + SPIN_MIN;
            self.paused += pause;
            spin(pause);
        }
    }

    fn returned(&mut self, customer: CustomerRef) {
        self.attempts += 1;
        self.room.tell().enter(customer);
    }

    fn done(&mut self, cx: &Cx<Self>) {
        self.done += 1;
        if self.done == self.customers {
            self.room.tell().exit();
            self.report.give(Visits { haircuts: self.done, attempts: self.attempts, paused: self.paused });
            cx.stop();
        }
    }
}

struct Room {
    seats: usize,
    waiting: VecDeque<CustomerRef>,
    waiting_max: usize,
    barber_sleeps: bool,
    barber: HairdresserRef,
    report: Report<usize>,
    _presence: Presence,
}

#[actor]
impl Room {
    fn enter(&mut self, cx: &Cx<Self>, customer: CustomerRef) {
        if self.waiting.len() == self.seats {
            customer.tell().full();
            return;
        }
        self.waiting.push_back(customer.clone());
        self.waiting_max = self.waiting_max.max(self.waiting.len());
        if self.barber_sleeps {
            self.barber_sleeps = false;
            cx.handle().tell().next();
        } else {
            customer.tell().wait();
        }
    }

    fn next(&mut self, cx: &Cx<Self>) {
        match self.waiting.pop_front() {
            Some(customer) => drop(self.barber.tell().enter(customer, cx.handle())),
            None => {
                self.barber.tell().wait();
                self.barber_sleeps = true;
            }
        }
    }

    fn exit(&mut self, cx: &Cx<Self>) {
        self.barber.tell().exit();
        self.report.give(self.waiting_max);
        cx.stop();
    }
}

struct Hairdresser {
    haircut: u64,
    draws: Lcg16,
    cut: u64,
    report: Report<u64>,
    _presence: Presence,
}

#[actor]
impl Hairdresser {
    fn enter(&mut self, customer: CustomerRef, room: RoomRef) {
        customer.tell().start();
        let haircut = self.draws.below(self.haircut) + SPIN_MIN;
        self.cut += haircut;
        spin(haircut);
        customer.tell().done();
        room.tell().next();
    }

    fn wait(&mut self) {}

    fn exit(&mut self, cx: &Cx<Self>) {
        self.report.give(self.cut);
        cx.stop();
    }
}

struct Customer {
    factory: FactoryRef,
    exits: Report<()>,
    _presence: Presence,
}

#[actor]
impl Customer {
    fn full(&mut self, cx: &Cx<Self>) {
        self.factory.tell().returned(cx.handle());
    }

    fn wait(&mut self) {}

    fn start(&mut self) {}

    fn done(&mut self, cx: &Cx<Self>) {
        self.factory.tell().done();
        self.exits.give(());
        cx.stop();
    }
}

#[derive(Debug, Clone)]
pub(super) struct Found {
    visits: Option<Visits>,
    waiting_max: Option<usize>,
    cut: Option<u64>,
    exits: usize,
}

impl Program for Barber {
    const NAME: &'static str = "sbar";
    const TITLE: &'static str = "Sleeping Barber";
    const SIZE: Option<&'static str> = Some("customers");
    /// Random numbers that all pauses, and all haircuts, take.
    type Prepared = (u64, u64);
    type Found = Found;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.customers > 0 && self.seats > 0 && self.pause > 0 && self.haircut > 0;
        (!possible).then_some("there is a customer, a seat, a pause and a haircut")
    }

    fn prepare(&self, _variant: Variant) -> (u64, u64) {
        let total = |longest| {
            let mut draws = Lcg16::default();
            (0..self.customers).map(|_| draws.below(longest) + SPIN_MIN).sum()
        };
        (total(self.pause), total(self.haircut))
    }

    fn start(&self, _spins: &(u64, u64), stage: &Stage) -> Findings<Found> {
        let ((report, visits), (fill, filled), (cut, cuts), (exits, exited)) =
            (reports(), reports(), reports(), reports());
        let hairdresser = Hairdresser {
            haircut: self.haircut,
            draws: Lcg16::default(),
            cut: 0,
            report: cut,
            _presence: stage.presence(),
        };
        let room = Room {
            seats: self.seats,
            waiting: VecDeque::new(),
            waiting_max: 0,
            barber_sleeps: true,
            barber: stage.spawn(hairdresser),
            report: fill,
            _presence: stage.presence(),
        };
        let factory = Factory {
            customers: self.customers,
            attempts: 0,
            done: 0,
            pause: self.pause,
            draws: Lcg16::default(),
            paused: 0,
            room: stage.spawn(room),
            exits,
            report,
            presence: stage.presence(),
        };
        stage.spawn(factory).tell().start();
        Box::new(move || Found {
            visits: visits.only(),
            waiting_max: filled.only(),
            cut: cuts.only(),
            exits: exited.all().len(),
        })
    }

    fn verify(&self, &(paused, cut): &(u64, u64), found: &Found) -> Result<Verified, Wrong> {
        equal("haircuts", found.visits.map(|visits| visits.haircuts), Some(self.customers))?;
        equal("customers that ended", found.exits as u64, self.customers)?;
        equal("random numbers drawn in pauses", found.visits.map(|visits| visits.paused), Some(paused))?;
        equal("random numbers drawn in haircuts", found.cut, Some(cut))?;
        let fits = found.waiting_max.is_some_and(|most| most <= self.seats);
        holds("nobody waits without a seat", fits)?;
        let attempts = found.visits.map_or(0, |visits| visits.attempts);
        holds("everybody has come", attempts >= self.customers)?;
        // Of each customer: enter, wait or next, enter, start, done, done, next; of each attempt more: three.
        let messages = 7 * self.customers + 3 * (attempts - self.customers);
        Ok(Verified::after(messages).with_fact("attempts", attempts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        assert_eq!(Barber::default().prepare(Variant::Port), (2_543_428, 2_543_428));
    }

    #[test]
    fn a_customer_without_a_haircut_or_a_seat_is_refused() {
        let program = Barber { customers: 2, seats: 1, ..Barber::default() };
        let spins = program.prepare(Variant::Port);
        let visits = Visits { haircuts: 2, attempts: 3, paused: spins.0 };
        let right = Found { visits: Some(visits), waiting_max: Some(1), cut: Some(spins.1), exits: 2 };
        assert!(program.verify(&spins, &right).is_ok());
        let one = Found { visits: Some(Visits { haircuts: 1, ..visits }), ..right.clone() };
        assert!(program.verify(&spins, &one).is_err());
        assert!(program.verify(&spins, &Found { waiting_max: Some(2), ..right.clone() }).is_err());
        assert!(program.verify(&spins, &Found { cut: Some(spins.1 + 1), ..right.clone() }).is_err());
        assert!(program.verify(&spins, &Found { exits: 1, ..right }).is_err());
    }
}
