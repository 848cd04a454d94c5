//! Quicksort: non-uniform divide and conquer with large messages, whose buffers move without being copied.
//!
//! The list is drawn within the measured time, as in the published programs. A short list is sorted by the library.
use enact::{Actor, Cx, actor};
use enact_workloads::savina::Lcg16;

use super::oracle::{Wrong, equal, holds};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

parameters! {
    /// Quicksort.
    Quicksort {
        /// How many values are sorted.
        values: usize = 1_000_000,
        /// What all values are below.
        bound: u64 = 1 << 60,
        /// From what length on a list is divided.
        threshold: usize = 2_048,
        /// Where the values come from.
        seed: u64 = 1_024,
    }
}

/// The values below, equal to and above the one in the middle of `values`.
fn partition(values: Vec<u64>) -> [Vec<u64>; 3] {
    let pivot = values[values.len() / 2];
    let [mut below, mut equal, mut above] = [const { Vec::new() }; 3];
    for value in values {
        let part = if value < pivot {
            &mut below
        } else if value == pivot {
            &mut equal
        } else {
            &mut above
        };
        part.push(value);
    }
    [below, equal, above]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

struct Sorter {
    threshold: usize,
    /// Whose values these are a part of, and which.
    parent: Option<(SorterRef, Side)>,
    sorted: Vec<u64>,
    /// Parts that have not come.
    missing: usize,
    report: Report<Vec<u64>>,
    presence: Presence,
}

#[actor]
impl Sorter {
    fn sort(&mut self, cx: &Cx<Self>, mut values: Vec<u64>) {
        if values.len() < self.threshold {
            values.sort_unstable();
            self.sorted = values;
            self.end(cx);
            return;
        }
        let [below, equal, above] = partition(values);
        self.sorted = equal;
        self.missing = 2;
        self.part(cx, Side::Below).tell().sort(below);
        self.part(cx, Side::Above).tell().sort(above);
    }

    fn result(&mut self, cx: &Cx<Self>, mut part: Vec<u64>, side: Side) {
        if side == Side::Below {
            std::mem::swap(&mut self.sorted, &mut part);
        }
        self.sorted.append(&mut part);
        self.missing -= 1;
        if self.missing == 0 {
            self.end(cx);
        }
    }
}

impl Sorter {
    fn part(&self, cx: &Cx<Self>, side: Side) -> SorterRef {
        let (report, presence) = (self.report.clone(), self.presence.clone());
        let parent = Some((cx.handle(), side));
        Self { threshold: self.threshold, parent, sorted: Vec::new(), missing: 0, report, presence }.spawn()
    }

    fn end(&mut self, cx: &Cx<Self>) {
        let sorted = std::mem::take(&mut self.sorted);
        match &self.parent {
            Some((parent, side)) => drop(parent.tell().result(sorted, *side)),
            None => self.report.give(sorted),
        }
        cx.stop();
    }
}

impl Quicksort {
    fn draw(&self) -> Vec<u64> {
        let mut draws = Lcg16::new(self.seed);
        (0..self.values).map(|_| draws.below(self.bound)).collect()
    }

    /// How many actors it takes to sort `values`.
    fn actors(&self, values: Vec<u64>) -> u64 {
        if values.len() < self.threshold {
            return 1;
        }
        let [below, _, above] = partition(values);
        1 + self.actors(below) + self.actors(above)
    }
}

pub(super) struct Expected {
    sorted: Vec<u64>,
    actors: u64,
}

impl Program for Quicksort {
    const NAME: &'static str = "qsort";
    const TITLE: &'static str = "Quicksort";
    const SIZE: Option<&'static str> = Some("values");
    type Prepared = Expected;
    type Found = Option<Vec<u64>>;

    fn refuse(&self) -> Option<&'static str> {
        (self.bound == 0 || self.threshold == 0).then_some("values have a bound, and an empty list is not divided")
    }

    fn prepare(&self, _variant: Variant) -> Expected {
        let mut sorted = self.draw();
        let actors = self.actors(sorted.clone());
        sorted.sort_unstable();
        Expected { sorted, actors }
    }

    fn start(&self, _expected: &Expected, stage: &Stage) -> Findings<Option<Vec<u64>>> {
        let (report, reported) = reports();
        let (threshold, presence) = (self.threshold, stage.presence());
        let root = Sorter { threshold, parent: None, sorted: Vec::new(), missing: 0, report, presence };
        stage.spawn(root).tell().sort(self.draw());
        Box::new(move || reported.only())
    }

    fn verify(&self, expected: &Expected, found: &Option<Vec<u64>>) -> Result<Verified, Wrong> {
        equal("length", found.as_ref().map(Vec::len), Some(self.values))?;
        holds("the values are those that were drawn, in order", found.as_ref() == Some(&expected.sorted))?;
        Ok(Verified::after(2 * expected.actors - 1))
    }
}

#[cfg(test)]
mod tests {
    use enact_workloads::savina::poly31;

    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let Expected { sorted, actors } = Quicksort::default().prepare(Variant::Port);
        assert_eq!((sorted.iter().sum::<u64>(), actors), (32_768_134_304, 1_939));
        assert_eq!(poly31(sorted.iter().map(|&value| value as i64)), -3_673_924_259_191_162_460);
        assert_eq!(sorted.iter().zip(1..).map(|(value, place)| value * place).sum::<u64>(), 21_845_906_015_448_552);
    }

    #[test]
    fn two_values_in_each_others_place_are_refused() {
        let program = Quicksort { values: 100, threshold: 10, ..Quicksort::default() };
        let expected = program.prepare(Variant::Port);
        assert!(program.verify(&expected, &Some(expected.sorted.clone())).is_ok());
        let mut swapped = expected.sorted.clone();
        swapped.swap(10, 60);
        assert!(program.verify(&expected, &Some(swapped)).is_err());
        assert!(program.verify(&expected, &Some(expected.sorted[1..].to_vec())).is_err());
    }
}
