//! Medians, quantiles and bootstrap intervals.
use enact_workloads::SplitMix64;
use serde::{Deserialize, Serialize};

/// Seed of the resampling of estimates.
const RESAMPLING_SEED: u64 = 34;
/// Resamples of a bootstrap.
const RESAMPLES: usize = 10_000;
/// Fewer values than this say nothing about their spread.
const VALUES_MIN: usize = 5;

/// A 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The middle of what was measured, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Its 95 % bootstrap interval, from five values on.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// That of `values`; the same values always have the same interval.
    ///
    /// # Panics
    /// Without a value.
    pub fn of(values: &[f64]) -> Self {
        Self { median: median(values), interval: bootstrap_of_median(values, RESAMPLING_SEED) }
    }
}

/// The middle value, or the mean of the two middle ones.
///
/// # Panics
/// Without a value.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which the share `q` of `values` lies, interpolated between neighbours.
///
/// # Panics
/// Without a value, or when `q` is not in 0..=1.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    assert!(!sorted.is_empty(), "no value has no quantile");
    assert!((0.0..=1.0).contains(&q), "{q} is not a share");
    let place = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// The 95 % percentile-bootstrap interval of the median of `values`; none for fewer than five values.
///
/// The same values and `seed` give the same interval.
#[expect(clippy::cast_possible_truncation, reason = "an index")]
pub fn bootstrap_of_median(values: &[f64], seed: u64) -> Option<Interval> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let mut draws = SplitMix64::new(seed);
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // How often each value was drawn: a resample that needs no sorting.
    let mut counts = vec![0; sorted.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        counts.fill(0);
        for _ in 0..sorted.len() {
            counts[draws.below(sorted.len() as u64) as usize] += 1;
        }
        let (low, high) = (at_rank(&counts, (sorted.len() - 1) / 2), at_rank(&counts, sorted.len() / 2));
        medians.push(sorted[low].midpoint(sorted[high]));
    }
    medians.sort_by(f64::total_cmp);
    Some(Interval { low: quantile_of_sorted(&medians, 0.025), high: quantile_of_sorted(&medians, 0.975) })
}

/// Which value stands at `rank` of a resample that has each value as often as `counts` say.
fn at_rank(counts: &[usize], rank: usize) -> usize {
    let mut passed = 0;
    let is_there = |count: &usize| {
        passed += count;
        passed > rank
    };
    counts.iter().position(is_there).expect("a resample has as many values as there are")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_or_the_mean_of_the_two_middle_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn quantiles_interpolate() {
        let values = [10.0, 20.0, 30.0, 40.0, 50.0];
        let quarters: Vec<_> = [0.0, 0.25, 0.5, 0.75, 1.0].iter().map(|&q| quantile(&values, q)).collect();
        assert_eq!(quarters, values);
        assert_eq!(quantile(&values, 0.125), 15.0);
    }

    #[test]
    fn bootstrap_repeats_with_its_seed_and_contains_the_median() {
        let values: Vec<f64> = (1..=15).map(f64::from).collect();
        let interval = bootstrap_of_median(&values, 42).expect("enough values");
        assert_eq!(bootstrap_of_median(&values, 42), Some(interval));
        assert!(interval.contains(8.0));
        assert!(!interval.contains(1.0) && !interval.contains(15.0), "{interval:?} is no narrower than the values");
    }

    #[test]
    fn the_value_at_a_rank_is_found_by_counting() {
        // 10, 10, 30, 30, 30 out of 10, 20, 30.
        let found: Vec<_> = (0..5).map(|rank| at_rank(&[2, 0, 3], rank)).collect();
        assert_eq!(found, [0, 0, 2, 2, 2]);
    }

    /// The resampled median of 13 values is the k-th smallest or below with the probability that at least 7 of 13
    /// draws fall into the k smallest: 0.0157 for k = 3, 0.0707 for 4 (binomial), so the 2.5 % point is the 4th value;
    /// by symmetry the 97.5 % point is the 10th.
    #[test]
    fn bootstrap_of_thirteen_distinct_values_spans_the_fourth_to_the_tenth() {
        let values: Vec<f64> = (1..=13).map(f64::from).collect();
        assert_eq!(bootstrap_of_median(&values, 1), Some(Interval { low: 4.0, high: 10.0 }));
    }

    #[test]
    fn four_values_have_no_interval_and_five_have() {
        assert_eq!(bootstrap_of_median(&[1.0, 2.0, 3.0, 4.0], 1), None);
        assert_eq!(bootstrap_of_median(&[2.0; 5], 1), Some(Interval { low: 2.0, high: 2.0 }));
    }
}
