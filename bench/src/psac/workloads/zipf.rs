//! Ranks that follow Zipf's law: the k-th of them is drawn in proportion to k^-s.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Of so many ranks, from 0.
pub(super) struct Zipf {
    /// The probability of this rank or a smaller one, times a constant.
    cumulated: Vec<f64>,
}

impl Zipf {
    /// With an exponent of 0 all ranks are equally likely.
    ///
    /// # Panics
    /// Without a rank.
    pub(super) fn new(ranks: u32, exponent: f64) -> Self {
        assert!(ranks > 0, "something has to be drawn");
        let weights = (1..=ranks).map(|rank| f64::from(rank).powf(-exponent));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { cumulated: sums.collect() }
    }

    pub(super) fn draw(&self, draws: &mut ChaCha8Rng) -> usize {
        let all = self.cumulated[self.cumulated.len() - 1];
        let drawn = draws.random_range(0.0..all);
        self.cumulated.partition_point(|&sum| sum <= drawn)
    }

    /// Two different ranks.
    ///
    /// # Panics
    /// Where there is only one.
    pub(super) fn draw_two(&self, draws: &mut ChaCha8Rng) -> (usize, usize) {
        assert!(self.cumulated.len() > 1, "there are no two");
        let first = self.draw(draws);
        loop {
            let second = self.draw(draws);
            if second != first {
                return (first, second);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// How often each of three ranks is drawn of 60,000 times.
    fn counts(exponent: f64) -> [f64; 3] {
        let (zipf, mut draws) = (Zipf::new(3, exponent), ChaCha8Rng::seed_from_u64(1));
        let mut counts = [0.0; 3];
        (0..60_000).for_each(|_| counts[zipf.draw(&mut draws)] += 1.0);
        counts
    }

    #[test]
    fn a_rank_is_drawn_in_proportion_to_its_power() {
        // 1 + 1/2 + 1/3 = 11/6.
        for (found, part) in counts(1.0).into_iter().zip([6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]) {
            assert!((found / 60_000.0 - part).abs() < 0.01, "{found} is not {part} of 60,000");
        }
    }

    #[test]
    fn with_exponent_0_all_ranks_are_equally_likely() {
        assert!(counts(0.0).into_iter().all(|found| (found - 20_000.0).abs() < 500.0));
    }

    #[test]
    fn two_ranks_differ() {
        let (zipf, mut draws) = (Zipf::new(2, 3.0), ChaCha8Rng::seed_from_u64(2));
        for _ in 0..100 {
            let (one, other) = zipf.draw_two(&mut draws);
            assert_ne!(one, other);
        }
    }
}
