//! Radix sort: a static pipeline with a stage for each bit.
use enact::{Cx, actor};
use enact_workloads::savina::{Lcg16, poly31};

use super::oracle::{Wrong, equal};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// Radix sort.
    RadixSort {
        /// How many values are sorted.
        values: u64 = 100_000,
        /// How many bits a value may have, a stage for each.
        bits: u32 = 60,
        /// Where the values come from.
        seed: u64 = 2_048,
    }
}

struct Source {
    values: u64,
    bound: u64,
    draws: Lcg16,
    next: Next,
    _presence: Presence,
}

#[actor]
impl Source {
    fn start(&mut self, cx: &Cx<Self>) {
        for _ in 0..self.values {
            self.next.value(self.draws.below(self.bound));
        }
        cx.stop();
    }
}

/// What comes after an actor of the pipeline.
#[derive(Clone)]
enum Next {
    Sorter(SorterRef),
    Validator(ValidatorRef),
}

impl Next {
    fn value(&self, value: u64) {
        match self {
            Self::Sorter(sorter) => sorter.tell().value(value),
            Self::Validator(validator) => validator.tell().value(value),
        };
    }
}

struct Sorter {
    bit: u64,
    left: u64,
    /// Values with the bit, in order of arrival.
    kept: Vec<u64>,
    next: Next,
    _presence: Presence,
}

#[actor]
impl Sorter {
    fn value(&mut self, cx: &Cx<Self>, value: u64) {
        if value & self.bit == 0 {
            self.next.value(value);
        } else {
            self.kept.push(value);
        }
        self.left -= 1;
        if self.left == 0 {
            self.kept.drain(..).for_each(|value| self.next.value(value));
            cx.stop();
        }
    }
}

struct Validator {
    left: u64,
    last: u64,
    found: Sorted,
    report: Report<Sorted>,
    _presence: Presence,
}

/// What came out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sorted {
    /// Values smaller than the one before.
    out_of_order: u64,
    sum: f64,
    digest: i64,
}

#[actor]
impl Validator {
    fn value(&mut self, cx: &Cx<Self>, value: u64) {
        self.found.out_of_order += u64::from(value < self.last);
        self.found.sum += value as f64;
        self.found.digest = poly31([self.found.digest, value as i64]);
        self.last = value;
        self.left -= 1;
        if self.left == 0 {
            self.report.give(self.found);
            cx.stop();
        }
    }
}

impl Program for RadixSort {
    const NAME: &'static str = "rsort";
    const TITLE: &'static str = "Radix Sort";
    const SIZE: Option<&'static str> = Some("values");
    type Prepared = Sorted;
    type Found = Option<Sorted>;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.values > 0 && (1..=62).contains(&self.bits);
        (!possible).then_some("there is a value, and values have 1 to 62 bits")
    }

    fn prepare(&self, _variant: Variant) -> Sorted {
        let mut draws = Lcg16::new(self.seed);
        let mut values: Vec<_> = (0..self.values).map(|_| draws.below(1 << self.bits)).collect();
        values.sort_unstable();
        let sum = values.iter().map(|&value| value as f64).sum();
        Sorted { out_of_order: 0, sum, digest: poly31(values.into_iter().map(|value| value as i64)) }
    }

    fn start(&self, _expected: &Sorted, stage: &Stage) -> Findings<Option<Sorted>> {
        let (report, reported) = reports();
        let (left, found) = (self.values, Sorted::default());
        let validator = stage.spawn(Validator { left, last: 0, found, report, _presence: stage.presence() });
        // From the end: a value meets the lowest bit first.
        let next = (0..self.bits).rev().fold(Next::Validator(validator), |next, bit| {
            let sorter = Sorter { bit: 1 << bit, left, kept: Vec::new(), next, _presence: stage.presence() };
            Next::Sorter(stage.spawn(sorter))
        });
        let (bound, draws) = (1 << self.bits, Lcg16::new(self.seed));
        stage.spawn(Source { values: self.values, bound, draws, next, _presence: stage.presence() }).tell().start();
        Box::new(move || reported.only())
    }

    fn verify(&self, expected: &Sorted, found: &Option<Sorted>) -> Result<Verified, Wrong> {
        equal("what came out", found.as_ref(), Some(expected))?;
        Ok(Verified::after((u64::from(self.bits) + 1) * self.values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let expected = RadixSort::default().prepare(Variant::Port);
        assert_eq!((expected.sum, expected.digest), (3_275_789_328.0, -5_802_021_654_434_406_210));
    }

    #[test]
    fn values_out_of_order_or_lost_are_refused() {
        let program = RadixSort { values: 100, ..RadixSort::default() };
        let expected = program.prepare(Variant::Port);
        assert!(program.verify(&expected, &Some(expected)).is_ok());
        assert!(program.verify(&expected, &Some(Sorted { out_of_order: 1, ..expected })).is_err());
        assert!(program.verify(&expected, &Some(Sorted { digest: expected.digest + 1, ..expected })).is_err());
        assert!(program.verify(&expected, &None).is_err());
    }
}
