//! The generator of everything that is drawn.

/// `SplitMix64`: a seed gives the same stream in every language, with five operations a draw.
///
/// Source: Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`: the remainder of the next draw, whose bias does not matter for the small bounds here.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_42_gives_the_published_stream() {
        let mut draws = SplitMix64::new(42);
        let first = [draws.next_u64(), draws.next_u64(), draws.next_u64()];
        assert_eq!(first, [13_679_457_532_755_275_413, 2_949_826_092_126_892_291, 5_139_283_748_462_763_858]);
    }

    #[test]
    fn below_is_the_remainder_of_the_next_draw() {
        let (mut bounded, mut whole) = (SplitMix64::new(7), SplitMix64::new(7));
        for bound in 1..100 {
            assert_eq!(bounded.below(bound), whole.next_u64() % bound);
        }
    }
}
