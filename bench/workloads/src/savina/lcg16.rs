//! The suite's own generator.

/// A linear congruential generator with 16 bits of state.
///
/// Its faults are part of the benchmarks: the lowest bit alternates, and [`harmonic`](Self::harmonic) is not uniform.
#[derive(Debug, Clone)]
pub struct Lcg16 {
    state: u64,
}

impl Lcg16 {
    /// The stream of `seed`, of which only the low 16 bits matter.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number in 0..65536; within 65536 draws, each comes once.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(1309).wrapping_add(13_849) % 65_536;
        self.state
    }

    /// The remainder of the next draw.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// 1 / (draw + 1): in [1/65536, 1] and mostly close to 0.
    pub fn harmonic(&mut self) -> f64 {
        1.0 / (self.draw() + 1) as f64
    }
}

impl Default for Lcg16 {
    /// The stream of the suite's default seed.
    fn default() -> Self {
        Self::new(74_755)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_the_published_ones() {
        let first = |mut draws: Lcg16| [(); 8].map(|()| draws.draw());
        assert_eq!(first(Lcg16::default()), [22_896, 34_761, 34_014, 39_231, 52_540, 41_445, 1_546, 5_947]);
        assert_eq!(first(Lcg16::new(0)), [13_849, 54_254, 56_847, 43_212, 20_789, 29_210, 42_251, 8_024]);
    }

    #[test]
    fn harmonic_has_the_published_mean_over_a_period() {
        let mut draws = Lcg16::default();
        let sum: f64 = (0..65_536).map(|_| draws.harmonic()).sum();
        assert!((sum / 65_536.0 - 0.000_178_033_1).abs() < 1e-10);
    }
}
