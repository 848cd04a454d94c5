//! The filters of the filter-bank benchmark.

/// What makes of a stream of numbers another one.
#[derive(Debug, Clone)]
pub enum Filter {
    /// The same numbers.
    Pass,
    /// The numbers of some places before, and zeros at first.
    Delay(Ring),
    /// Every so many-th number, beginning with the first, and zeros between.
    Sample {
        /// How many numbers one is taken of.
        rate: usize,
        /// How many have come.
        count: usize,
    },
    /// The sum of the last numbers, each times a coefficient; nothing until there are enough of them.
    Fir {
        /// As many numbers as there are coefficients.
        ring: Ring,
        /// How many numbers are missing at first.
        missing: usize,
        /// Coefficients, the first one for the last place of the ring.
        coefficients: Vec<f64>,
    },
}

/// The last numbers, each where its number modulo the length says.
#[derive(Debug, Clone)]
pub struct Ring {
    values: Vec<f64>,
    next: usize,
}

impl Ring {
    fn new(length: usize) -> Self {
        Self { values: vec![0.0; length], next: 0 }
    }

    /// Puts `value` in the place of the oldest, which it returns.
    fn replace(&mut self, value: f64) -> f64 {
        let Some(place) = self.values.get_mut(self.next) else { return value };
        let oldest = std::mem::replace(place, value);
        self.next = if self.next + 1 == self.values.len() { 0 } else { self.next + 1 };
        oldest
    }
}

impl Filter {
    /// A delay by `places`.
    pub fn delay(places: usize) -> Self {
        Self::Delay(Ring::new(places))
    }

    /// One number of `rate`.
    pub fn sample(rate: usize) -> Self {
        Self::Sample { rate, count: 0 }
    }

    /// The weighted sum with these coefficients.
    pub fn fir(coefficients: Vec<f64>) -> Self {
        let length = coefficients.len();
        Self::Fir { ring: Ring::new(length), missing: length, coefficients }
    }

    /// The five filters of channel `channel` of `channels`, with `columns` coefficients, in order.
    pub fn of_channel(channel: usize, channels: usize, columns: usize) -> [Self; 5] {
        let (j, c) = (channel, channels);
        let first = (0..columns).map(|i| (i * columns + j * c + j + i + j + 1) as f64);
        let second = (0..columns).map(|i| (i * j + j * j + j + i) as f64);
        [
            Self::delay(columns - 1),
            Self::fir(first.collect()),
            Self::sample(columns),
            Self::delay(columns - 1),
            Self::fir(second.collect()),
        ]
    }

    /// What comes out when `value` goes in.
    pub fn pass(&mut self, value: f64) -> Option<f64> {
        match self {
            Self::Pass => Some(value),
            Self::Delay(ring) => Some(ring.replace(value)),
            Self::Sample { rate, count } => {
                let taken = count.is_multiple_of(*rate);
                *count += 1;
                Some(if taken { value } else { 0.0 })
            }
            Self::Fir { ring, missing, coefficients } => {
                ring.replace(value);
                *missing = missing.saturating_sub(1);
                // By place in the ring, not by age: so the published programs do it.
                let terms = ring.values.iter().zip(coefficients.iter().rev()).map(|(value, factor)| value * factor);
                (*missing == 0).then(|| terms.sum())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(mut filter: Filter, values: impl IntoIterator<Item = i32>) -> Vec<f64> {
        values.into_iter().filter_map(|value| filter.pass(f64::from(value))).collect()
    }

    #[test]
    fn delay_gives_zeros_and_then_what_went_in() {
        assert_eq!(through(Filter::delay(2), 1..=5), [0.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(through(Filter::delay(0), 1..=3), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn sample_takes_the_first_of_each_run() {
        assert_eq!(through(Filter::sample(3), 1..=5), [1.0, 0.0, 0.0, 4.0, 0.0]);
    }

    #[test]
    fn fir_waits_until_it_is_full_and_weighs_by_place() {
        // Places after the third and the fourth number: 1 2 3 and 4 2 3; the last coefficient is for the first place.
        let weighed = through(Filter::fir(vec![100.0, 10.0, 1.0]), 1..=4);
        assert_eq!(weighed, [1.0 + 20.0 + 300.0, 4.0 + 20.0 + 300.0]);
    }
}
