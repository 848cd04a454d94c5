//! Runs that chance decides, each named by its seed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, mem, panic, thread};

/// The seeds that a test plays.
#[derive(Debug)]
pub struct Seeds {
    test: &'static str,
    range: Range<u64>,
    is_chosen: bool,
}

/// Says which seed has failed, unless it is told that none has.
struct Telling {
    test: &'static str,
    seed: u64,
}

impl Drop for Telling {
    fn drop(&mut self) {
        let Self { test, seed } = self;
        eprintln!("seed {seed}: repeat with ENACT_SEED={seed} cargo test -p enact-models --test {test}");
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

impl Seeds {
    /// As many seeds as `ENACT_SEEDS` says, or `count` without it; or the one that `ENACT_SEED` names.
    ///
    /// # Panics
    /// If one of the variables is no number.
    #[must_use]
    pub fn of_environment(test: &'static str, count: u64) -> Self {
        let chosen = number("ENACT_SEED");
        let range = chosen.map_or_else(|| 0..number("ENACT_SEEDS").unwrap_or(count), |seed| seed..seed + 1);
        Self { test, range, is_chosen: chosen.is_some() }
    }

    /// Whether one alone is played, which need not reach everything.
    #[must_use]
    pub const fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// How many there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub const fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Plays each seed, on all processors, and adds up what the runs have counted.
    ///
    /// # Panics
    /// As the first run that fails, whose seed is printed.
    pub fn play<K, C>(&self, play: impl Fn(u64) -> C + Sync) -> BTreeMap<K, u64>
    where
        K: Ord + Send,
        C: IntoIterator<Item = (K, u64)>,
    {
        let (next, end) = (AtomicU64::new(self.range.start), self.range.end);
        let counts = Mutex::new(BTreeMap::new());
        let play_some = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return;
                }
                let telling = Telling { test: self.test, seed };
                let counted = play(seed);
                mem::forget(telling);
                let mut counts = counts.lock().expect("no other thread has failed");
                counted.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let playing: Vec<_> = (0..threads).map(|_| scope.spawn(play_some)).collect();
            for thread in playing {
                if let Err(failure) = thread.join() {
                    next.store(end, Ordering::Relaxed);
                    panic::resume_unwind(failure);
                }
            }
        });
        counts.into_inner().expect("no thread has failed")
    }
}
