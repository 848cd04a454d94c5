//! Seeds, and what to do about the one that fails.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Runs `run` with `count` seeds, or with the one in `ENACT_SEED`; a failure says which seed it was.
pub(crate) fn for_seeds(test: &str, count: u64, mut run: impl FnMut(&mut ChaCha8Rng)) {
    let chosen = std::env::var("ENACT_SEED").ok().map(|seed| seed.parse().expect("ENACT_SEED is a number"));
    for seed in chosen.map_or(0..count, |seed: u64| seed..seed + 1) {
        let told = TellSeed { test, seed };
        run(&mut ChaCha8Rng::seed_from_u64(seed));
        std::mem::forget(told);
    }
}

struct TellSeed<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for TellSeed<'_> {
    fn drop(&mut self) {
        eprintln!("seed {0}: repeat with ENACT_SEED={0} cargo test -p enact-check {1}", self.seed, self.test);
    }
}
