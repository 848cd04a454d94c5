//! How long connections that have work wait for a thread.
//!
//! A command is two polls of its connection, one when it arrives and one when its record is durable, so this is what makes all of them
//! late when more are under way than the threads work off. What a command waits for on purpose, others at its entities and the
//! disk, is not in it.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The shortest span of time over which waits are averaged.
const SPAN_MIN: Duration = Duration::from_millis(50);
/// The longest one.
const SPAN_MAX: Duration = Duration::from_secs(1);
/// How many waits an average is of, unless the longest span has fewer.
const WAITS_MIN: u64 = 8;

#[derive(Debug)]
pub(crate) struct Waits {
    span_begin: Mutex<Instant>,
    /// Of the waits that have ended in the present span, in nanoseconds.
    sum: AtomicU64,
    count: AtomicU64,
}

impl Waits {
    pub(crate) fn new() -> Self {
        Self { span_begin: Mutex::new(Instant::now()), sum: AtomicU64::new(0), count: AtomicU64::new(0) }
    }

    /// A connection has waited for `wait`.
    pub(super) fn note(&self, wait: Duration) {
        self.sum.fetch_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The average wait since this last had an answer, if that is long enough ago; zero if nothing has waited.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let mut span_begin = self.span_begin.lock();
        let passed = span_begin.elapsed();
        if passed < SPAN_MIN || passed < SPAN_MAX && self.count.load(Ordering::Relaxed) < WAITS_MIN {
            return None;
        }
        *span_begin = Instant::now();
        let (count, sum) = (self.count.swap(0, Ordering::Relaxed), self.sum.swap(0, Ordering::Relaxed));
        Some(Duration::from_nanos(sum.checked_div(count).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_are_averaged_over_a_span_with_enough_of_them() {
        let millis = Duration::from_millis;
        let waits = Waits::new();
        // 0, 2, 4 ms and so on.
        let wait = |count: u64| (0..count).for_each(|number| waits.note(millis(2 * number)));
        for (count, passed, average_us) in [
            (WAITS_MIN, 0, None),
            (0, 49, None),
            (0, 1, Some(7_000)),
            (WAITS_MIN - 1, 999, None),
            (1, 0, Some(5_250)),
            (3, 1_000, Some(2_000)),
            (0, 1_000, Some(0)),
            (0, 1_000, Some(0)),
        ] {
            wait(count);
            advance(millis(passed)).await;
            assert_eq!(waits.delay(), average_us.map(Duration::from_micros), "{count} waits, {passed} ms");
        }
    }
}
