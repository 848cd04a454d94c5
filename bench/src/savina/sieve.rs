//! Sieve of Eratosthenes: a pipeline that grows by a filter whenever the last one is full of primes.
use enact::{Actor, Cx, actor};
use serde::Deserialize;

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

parameters! {
    /// Sieve of Eratosthenes.
    Sieve {
        /// What all primes are below.
        limit: u64 = 100_000,
        /// How many primes a filter holds.
        primes: usize = 1_000,
    }
}

struct Producer {
    limit: u64,
    first: PrimesRef,
    _presence: Presence,
}

#[actor]
impl Producer {
    fn start(&mut self, cx: &Cx<Self>) {
        for candidate in (3..self.limit).step_by(2) {
            self.first.tell().candidate(candidate);
        }
        self.first.tell().end();
        cx.stop();
    }
}

/// A filter: lets through what none of its primes divides.
struct Primes {
    id: u64,
    primes: Vec<u64>,
    primes_max: usize,
    candidates: u64,
    next: Option<PrimesRef>,
    total: Report<u64>,
    report: Report<Filtered>,
    presence: Presence,
}

/// What a filter reports at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Filtered {
    id: u64,
    candidates: u64,
    sum: u64,
    largest: u64,
}

#[actor]
impl Primes {
    fn candidate(&mut self, candidate: u64) {
        self.candidates += 1;
        if self.primes.iter().any(|prime| candidate.is_multiple_of(*prime)) {
            return;
        }
        if let Some(next) = &self.next {
            next.tell().candidate(candidate);
        } else if self.primes.len() < self.primes_max {
            self.primes.push(candidate);
        } else {
            self.next = Some(self.next_filter(candidate).spawn());
        }
    }

    fn end(&mut self, cx: &Cx<Self>) {
        let (id, candidates) = (self.id, self.candidates);
        let largest = self.primes.last().copied().unwrap_or(0);
        self.report.give(Filtered { id, candidates, sum: self.primes.iter().sum(), largest });
        match &self.next {
            Some(next) => drop(next.tell().end()),
            None => self.total.give((id - 1) * self.primes_max as u64 + self.primes.len() as u64),
        }
        cx.stop();
    }
}

impl Primes {
    fn next_filter(&self, prime: u64) -> Self {
        Self {
            id: self.id + 1,
            primes: vec![prime],
            primes_max: self.primes_max,
            candidates: 0,
            next: None,
            total: self.total.clone(),
            report: self.report.clone(),
            presence: self.presence.clone(),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Found {
    total: Option<u64>,
    filters: Vec<Filtered>,
}

impl Program for Sieve {
    const NAME: &'static str = "sieve";
    const TITLE: &'static str = "Sieve of Eratosthenes";
    const SIZE: Option<&'static str> = Some("limit");
    type Prepared = Vec<u64>;
    type Found = Found;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        (self.limit < 3 || self.primes == 0).then_some("2 is below the limit, and a filter holds a prime")
    }

    fn prepare(&self, _variant: Variant) -> Vec<u64> {
        let mut is_composite = vec![false; self.limit as usize];
        let mut primes = Vec::new();
        for number in 2..is_composite.len() {
            if !is_composite[number] {
                primes.push(number as u64);
                (number * number..is_composite.len())
                    .step_by(number)
                    .for_each(|multiple| is_composite[multiple] = true);
            }
        }
        primes
    }

    fn start(&self, _primes: &Vec<u64>, stage: &Stage) -> Findings<Found> {
        let ((total, totals), (report, reported)) = (reports(), reports());
        let first = stage.spawn(Primes {
            id: 1,
            primes: vec![2],
            primes_max: self.primes,
            candidates: 0,
            next: None,
            total,
            report,
            presence: stage.presence(),
        });
        stage.spawn(Producer { limit: self.limit, first, _presence: stage.presence() }).tell().start();
        Box::new(move || Found { total: totals.only(), filters: reported.sorted() })
    }

    fn verify(&self, primes: &Vec<u64>, found: &Found) -> Result<Verified, Wrong> {
        equal("primes", found.total, Some(primes.len() as u64))?;
        equal("filters", found.filters.len(), primes.len().div_ceil(self.primes))?;
        for (filter, expected) in found.filters.iter().zip(primes.chunks(self.primes)) {
            equal("sum of a filter's primes", filter.sum, expected.iter().sum())?;
            equal("largest of a filter's primes", Some(filter.largest), expected.last().copied())?;
        }
        Ok(Verified::after(found.filters.iter().map(|filter| filter.candidates + 1).sum::<u64>() + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let primes = Sieve::default().prepare(Variant::Port);
        assert_eq!((primes.len(), primes.iter().sum()), (9_592, 454_396_537_u64));
        assert_eq!(primes.last(), Some(&99_991));
    }

    #[test]
    fn a_composite_that_was_let_through_is_refused() {
        let program = Sieve { limit: 30, primes: 100 };
        let primes = program.prepare(Variant::Port);
        let filter = Filtered { id: 1, candidates: 14, sum: primes.iter().sum(), largest: 29 };
        let found = |total, filter| Found { total: Some(total), filters: vec![filter] };
        assert!(program.verify(&primes, &found(10, filter)).is_ok());
        assert!(program.verify(&primes, &found(11, filter)).is_err());
        assert!(program.verify(&primes, &found(10, Filtered { sum: filter.sum + 2, ..filter })).is_err());
    }
}
