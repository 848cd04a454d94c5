//! Amdahl's law over the number of engines or nodes: X(N) = λN / (1 + σ(N - 1)).
//!
//! λ is the throughput of one engine. σ is the part of the work that only one engine at a time can do: with 0 throughput grows with λ, with
//! more it comes near to λ/σ, however many engines there are. Above 1 it falls.
//!
//! # Fit
//! Least squares of the throughput, as in the paper. Given σ the best λ is a quotient of sums, so only σ is searched for: on a grid
//! first, since the error may have several minima, and then around the best place of the grid.
//!
//! # Source
//! *Path-Sensitive Atomic Commit*, section 5.3.

use serde::Serialize;

/// Fewer numbers of engines say nothing about a law with two parameters.
pub(super) const NUMBERS_MIN: usize = 3;
const GRID: u32 = 1_000;
/// Each step keeps two thirds of the interval, so that nothing is left of it.
const STEPS: u32 = 80;
/// What is less is rounding.
const LEAST: f64 = 1e-9;

/// The law that is nearest to what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Amdahl {
    /// λ, in the unit of the throughput.
    pub(super) lambda: f64,
    /// σ.
    pub(super) sigma: f64,
}

impl Amdahl {
    /// Of numbers of engines and throughputs; none of fewer than three different numbers, or where nothing was done.
    pub(super) fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let mut numbers: Vec<_> = points.iter().map(|(number, _)| *number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        if numbers.len() < NUMBERS_MIN || points.iter().all(|(_, throughput)| *throughput <= 0.0) {
            return None;
        }
        // What σ is to 1: 0 for 0, 1/2 for 1, 1 for everything.
        let at = |share: f64| Self::with_sigma(share / (1.0 - share), points);
        let error = |share: f64| at(share).error(points);
        let shares = (0..GRID).map(|place| f64::from(place) / f64::from(GRID));
        let nearest = shares.min_by(|a, b| error(*a).total_cmp(&error(*b)))?;
        let width = 1.0 / f64::from(GRID);
        let (mut low, mut high) = ((nearest - width).max(0.0), (nearest + width).min(1.0 - width / 2.0));
        for _ in 0..STEPS {
            let third = (high - low) / 3.0;
            if error(low + third) <= error(high - third) { high -= third } else { low += third }
        }
        Some(at(if low < LEAST { 0.0 } else { low }))
    }

    /// With the best λ for this σ.
    fn with_sigma(sigma: f64, points: &[(f64, f64)]) -> Self {
        let shape = Self { lambda: 1.0, sigma };
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 { points.iter().map(|&(n, x)| of(shape.at(n), x)).sum() };
        Self { lambda: sum(&|grows, x| grows * x) / sum(&|grows, _| grows * grows), sigma }
    }

    /// The throughput of so many engines.
    pub(super) fn at(self, engines: f64) -> f64 {
        self.lambda * engines / (1.0 + self.sigma * (engines - 1.0))
    }

    /// What throughput comes near to with ever more engines; none if it grows without end.
    pub(super) fn asymptote(self) -> Option<f64> {
        Some(self.lambda / self.sigma).filter(|limit| limit.is_finite())
    }

    fn error(self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|&(engines, throughput)| (throughput - self.at(engines)).powi(2)).sum()
    }

    /// The part of the variance that the law explains: 1 if it meets every point.
    pub(super) fn r_squared(self, points: &[(f64, f64)]) -> Option<f64> {
        let mean = points.iter().map(|(_, throughput)| throughput).sum::<f64>() / points.len() as f64;
        let variance: f64 = points.iter().map(|(_, throughput)| (throughput - mean).powi(2)).sum();
        Some(1.0 - self.error(points) / variance).filter(|part| part.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fit(points: &[(f64, f64)]) -> Amdahl {
        Amdahl::fit(points).expect("enough points")
    }

    fn is_near(found: f64, expected: f64, tolerance: f64) -> bool {
        (found - expected).abs() <= tolerance * expected
    }

    /// The points that the paper's fits of Sync1000 go through at 3, 6 and 9 nodes, and their parameters.
    #[test]
    fn the_fits_of_the_paper_are_found() {
        for (throughputs, lambda, sigma, asymptote) in [
            ([491.0, 864.0, 1_158.0], 180.0, 0.049_880_9, 3_609.0),
            ([808.0, 1_423.0, 1_907.0], 296.0, 0.049_587_8, 5_969.0),
        ] {
            let found = fit(&[3.0, 6.0, 9.0].into_iter().zip(throughputs).collect::<Vec<_>>());
            assert!(is_near(found.lambda, lambda, 0.01) && is_near(found.sigma, sigma, 0.03), "{found:?}");
            assert!(is_near(found.asymptote().expect("contention"), asymptote, 0.03), "{found:?}");
        }
    }

    #[test]
    fn without_contention_there_is_no_asymptote() {
        let found = fit(&[(1.0, 100.0), (2.0, 200.0), (4.0, 400.0)]);
        assert!(is_near(found.lambda, 100.0, 1e-6), "{found:?}");
        assert_eq!((found.sigma, found.asymptote()), (0.0, None));
    }

    #[test]
    fn throughput_that_falls_has_a_sigma_above_one() {
        let points = [(1.0, 100.0), (2.0, 60.0), (4.0, 50.0)];
        let found = fit(&points);
        assert!(found.sigma > 1.0 && found.r_squared(&points) > Some(0.9), "{found:?}");
    }

    #[test]
    fn fewer_than_three_numbers_and_nothing_done_have_no_fit() {
        assert_eq!(Amdahl::fit(&[(1.0, 10.0), (2.0, 15.0), (2.0, 16.0)]), None);
        assert_eq!(Amdahl::fit(&[(1.0, 0.0), (2.0, 0.0), (4.0, 0.0)]), None);
    }

    proptest! {
        #[test]
        fn a_law_is_found_from_what_follows_it(lambda in 1.0..1e5_f64, sigma in 0.0..5.0_f64) {
            let law = Amdahl { lambda, sigma };
            let points = [1.0, 2.0, 4.0, 8.0].map(|engines| (engines, law.at(engines)));
            let found = fit(&points);
            prop_assert!(is_near(found.lambda, lambda, 1e-4), "{:?}", found);
            prop_assert!((found.sigma - sigma).abs() < 1e-3, "{:?}", found);
        }

        /// No law nearby has less of an error.
        #[test]
        fn no_other_law_is_nearer(throughputs in proptest::array::uniform4(1.0..1e4_f64), other in 0.0..20.0_f64) {
            let points: Vec<_> = [1.0, 2.0, 3.0, 5.0].into_iter().zip(throughputs).collect();
            let (found, other) = (fit(&points), Amdahl::with_sigma(other, &points));
            prop_assert!(found.error(&points) <= other.error(&points) * (1.0 + 1e-6), "{:?} {:?}", found, other);
        }
    }
}
