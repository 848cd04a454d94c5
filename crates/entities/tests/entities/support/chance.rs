//! Numbers that look random and are the same in every run with the same seed.

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Runs `run` with `count` seeds, or with the one in `ENACT_SEED`; a failure says which seed it was.
pub(crate) fn for_seeds(test: &str, count: u64, mut run: impl FnMut(u64)) {
    let chosen = std::env::var("ENACT_SEED").ok().map(|seed| seed.parse().expect("ENACT_SEED is a number"));
    for seed in chosen.map_or(0..count, |seed: u64| seed..seed + 1) {
        let told = TellSeed { test, seed };
        run(seed);
        std::mem::forget(told);
    }
}

struct TellSeed<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for TellSeed<'_> {
    fn drop(&mut self) {
        eprintln!("seed {0}: repeat with ENACT_SEED={0} cargo test -p enact-entities {1}", self.seed, self.test);
    }
}
