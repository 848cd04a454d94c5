//! Waiting awake, before sleeping, for what is given back soon.
//!
//! A sleep and a wake-up take a thread some 22 us (measured on two cores of an EPYC, from the release of a lock to the first
//! instruction of the thread that waited for it), and most locks and turns are held for a few. So a thread looks for about
//! as long before it sleeps: it never waits much more than twice as long as with the better choice.
//!
//! A thread that looks takes a processor from those that it waits for. So there is always one left for these, on a machine
//! with one processor nobody looks, and neither does a task, whose thread has others to run.
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use enact_sync::unmodelled::{AtomicU64, LazyLock};
use enact_sync::{hint, thread};

use crate::context;

/// What a sleep and a wake-up take.
const PATIENCE: Duration = Duration::from_micros(25);

/// So often is looked before the clock is.
const LOOKS: u32 = 32;

/// So many threads may look at once.
static MOST: LazyLock<u64> = LazyLock::new(|| {
    if cfg!(enact_loom) {
        0
    } else if cfg!(enact_shuttle) {
        1
    } else {
        std::thread::available_parallelism().map_or(0, |processors| processors.get() as u64 - 1)
    }
});

static AWAKE: AtomicU64 = AtomicU64::new(0);

/// The right of a thread to look for a while, given back when this is dropped.
pub(super) struct Awake {
    until: Option<Instant>,
    rounds: u32,
}

impl Awake {
    /// None if enough others look, or if this thread has other duties.
    pub(super) fn try_new() -> Option<Self> {
        Self::beside(*MOST)
    }

    /// As [`try_new`](Self::try_new), for the next in a queue, of which there is one: whatever others do.
    pub(super) fn as_the_next() -> Option<Self> {
        if *MOST == 0 { None } else { Self::beside(u64::MAX) }
    }

    fn beside(most: u64) -> Option<Self> {
        if context::hand_over().is_some() {
            return None;
        }
        let enter = |awake| (awake < most).then_some(awake + 1);
        AWAKE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter).ok()?;
        Some(Self { until: None, rounds: 0 })
    }

    /// Looks until something `has_come`, but not for longer in all calls than a sleep would take: true if it has.
    pub(super) fn looks(&mut self, has_come: impl Fn() -> bool) -> bool {
        if cfg!(enact_shuttle) {
            self.rounds += 1;
            thread::yield_now();
            return self.rounds <= 2 && has_come();
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + PATIENCE);
        loop {
            for _ in 0..LOOKS {
                if has_come() {
                    return true;
                }
                hint::spin_loop();
            }
            if Instant::now() >= until {
                return false;
            }
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        AWAKE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test, because the others of this program would be counted.
    #[test]
    fn as_many_wait_awake_as_may_and_on_one_processor_nobody_and_each_gives_up() {
        assert!(Awake::beside(0).is_none());
        let mut one = Awake::beside(1).expect("nobody else waits");
        assert!(Awake::beside(1).is_none());
        assert!(one.looks(|| true));
        assert!(!one.looks(|| false));
        drop(one);
        assert!(Awake::beside(1).is_some());
    }
}
