//! Sieve of Eratosthenes.
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::stage::{Behaviour, Findings, Library, NEXT, Presence, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct Sieve {
    limit: u64,
    primes: usize,
}

struct Producer<L: Library> {
    limit: u64,
    first: L::Ref<Primes<L>>,
    _presence: Presence,
}

struct Start;

impl<L: Library> Behaviour<L> for Producer<L> {
    type Message = Start;

    fn handle(&mut self, Start: Start, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        for candidate in (3..self.limit).step_by(2) {
            L::tell(&self.first, ToPrimes::Candidate(candidate));
        }
        L::tell(&self.first, ToPrimes::End);
        STOP
    }
}

/// A filter: lets through what none of its primes divides.
struct Primes<L: Library> {
    id: u64,
    primes: Vec<u64>,
    primes_max: usize,
    candidates: u64,
    next: Option<L::Ref<Primes<L>>>,
    total: Report<u64>,
    report: Report<Filtered>,
    stage: Stage<L>,
}

enum ToPrimes {
    Candidate(u64),
    End,
}

/// What a filter reports at its end.
#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Filtered {
    id: u64,
    candidates: u64,
    sum: u64,
    largest: u64,
}

impl<L: Library> Behaviour<L> for Primes<L> {
    type Message = ToPrimes;

    fn handle(&mut self, message: ToPrimes, _me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToPrimes::Candidate(candidate) => {
                self.candidates += 1;
                if !self.primes.iter().any(|prime| candidate.is_multiple_of(*prime)) {
                    self.take(candidate);
                }
                NEXT
            }
            ToPrimes::End => {
                let largest = self.primes.last().copied().unwrap_or(0);
                let (id, candidates, sum) = (self.id, self.candidates, self.primes.iter().sum());
                self.report.give(Filtered { id, candidates, sum, largest });
                match &self.next {
                    Some(next) => L::tell(next, ToPrimes::End),
                    None => self.total.give((id - 1) * self.primes_max as u64 + self.primes.len() as u64),
                }
                STOP
            }
        }
    }
}

impl<L: Library> Primes<L> {
    /// Keeps a prime, or passes on what may be one.
    fn take(&mut self, candidate: u64) {
        if let Some(next) = &self.next {
            L::tell(next, ToPrimes::Candidate(candidate));
        } else if self.primes.len() < self.primes_max {
            self.primes.push(candidate);
        } else {
            self.next = Some(self.stage.spawn_in_turn(self.next_filter(candidate)));
        }
    }

    fn next_filter(&self, prime: u64) -> Self {
        Self {
            id: self.id + 1,
            primes: vec![prime],
            primes_max: self.primes_max,
            candidates: 0,
            next: None,
            total: self.total.clone(),
            report: self.report.clone(),
            stage: self.stage.clone(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Found {
    total: Option<u64>,
    filters: Vec<Filtered>,
}

impl Program for Sieve {
    type Found = Found;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Found> {
        let ((total, totals), (report, reported)) = (reports(), reports());
        let first = stage.spawn(Primes {
            id: 1,
            primes: vec![2],
            primes_max: self.primes,
            candidates: 0,
            next: None,
            total,
            report,
            stage: stage.clone(),
        });
        L::tell(&stage.spawn(Producer { limit: self.limit, first, _presence: stage.presence() }), Start);
        Box::new(move || Found { total: totals.only(), filters: reported.sorted() })
    }
}
