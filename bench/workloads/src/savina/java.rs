//! The generator of the Java library, which some benchmarks of the suite still use.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

/// A linear congruential generator with 48 bits of state, as specified for `java.util.Random`.
#[derive(Debug, Clone)]
pub struct Java48 {
    state: u64,
    /// The second value of the last pair of normal ones.
    normal: Option<f64>,
}

impl Java48 {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: (seed ^ MULTIPLIER) & MASK, normal: None }
    }

    /// The top `count` bits of the next state.
    fn bits(&mut self, count: u32) -> i32 {
        self.state = (self.state.wrapping_mul(MULTIPLIER) + 0xB) & MASK;
        (self.state >> (48 - count)) as i32
    }

    /// Any `i32`.
    pub fn i32(&mut self) -> i32 {
        self.bits(32)
    }

    /// A number in 0..`bound`.
    ///
    /// # Panics
    /// When `bound` is not positive.
    pub fn below(&mut self, bound: i32) -> i32 {
        assert!(bound > 0, "no number is below {bound}");
        let mut draw = self.bits(31);
        if bound & (bound - 1) == 0 {
            return ((i64::from(bound) * i64::from(draw)) >> 31) as i32;
        }
        loop {
            let rest = draw % bound;
            // Overflows for the draws of the last, incomplete run of remainders.
            if (draw - rest).checked_add(bound - 1).is_some() {
                return rest;
            }
            draw = self.bits(31);
        }
    }

    /// Either.
    pub fn bool(&mut self) -> bool {
        self.bits(1) != 0
    }

    /// Uniform in [0, 1).
    pub fn f64(&mut self) -> f64 {
        let high = i64::from(self.bits(26)) << 27;
        (high + i64::from(self.bits(27))) as f64 / (1_u64 << 53) as f64
    }

    /// Normal with mean 0 and deviation 1, by the polar method.
    pub fn gauss(&mut self) -> f64 {
        if let Some(normal) = self.normal.take() {
            return normal;
        }
        loop {
            let (x, y) = (2.0 * self.f64() - 1.0, 2.0 * self.f64() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.normal = Some(y * scale);
                return x * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_10010_gives_the_numbers_of_the_java_library() {
        let mut draws = Java48::new(10_010);
        assert_eq!([(); 5].map(|()| draws.below(100)), [61, 3, 80, 18, 79]);
        assert_eq!([(); 3].map(|()| draws.i32()), [-293_047_341, 2_079_457_894, 868_871_291]);
    }

    #[test]
    fn seed_123456_gives_the_flags_of_the_java_library() {
        let mut draws = Java48::new(123_456);
        let flags: String = (0..16).map(|_| if draws.bool() { '1' } else { '0' }).collect();
        assert_eq!(flags, "0110001001100010");
    }

    #[test]
    fn seeds_2_and_10101010_give_the_fractions_of_the_java_library() {
        let mut draws = Java48::new(2);
        assert_eq!((draws.gauss(), draws.gauss()), (0.275_784_491_506_400_94, 0.478_972_513_181_169_96));
        assert_eq!((draws.bool(), draws.below(100)), (false, 50));
        let mut draws = Java48::new(10_101_010);
        assert_eq!((draws.f64(), draws.f64()), (0.266_990_361_912_023_97, 0.556_489_761_796_371_3));
    }

    #[test]
    fn below_a_power_of_two_takes_the_high_bits() {
        let (mut bounded, mut whole) = (Java48::new(7), Java48::new(7));
        for _ in 0..100 {
            assert_eq!(bounded.below(16), whole.bits(4));
        }
    }
}
