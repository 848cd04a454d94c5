//! SplitMix64: the generator of everything that a published workload leaves unseeded.

/// A generator whose stream depends on nothing but its seed.
#[derive(Debug, Clone)]
pub(crate) struct Sm64(u64);

impl Sm64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A draw below `n`, which is not 0.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_42_gives_the_published_stream() {
        let mut draws = Sm64::new(42);
        let first = [draws.next(), draws.next(), draws.next()];
        assert_eq!(first, [13_679_457_532_755_275_413, 2_949_826_092_126_892_291, 5_139_283_748_462_763_858]);
    }
}
