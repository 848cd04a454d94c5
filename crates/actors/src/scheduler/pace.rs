//! What a run on a worker costs, by few looks at the clock.
use std::time::{Duration, Instant};

/// How many runs the clock is read for at most.
const RUNS_PER_BEAT: u32 = 32;
/// How long a worker whose runs are short goes on without reading it.
const BEAT_EVERY: Duration = Duration::from_micros(100);

/// What a run on this worker costs of late.
#[derive(Default)]
pub(super) struct Pace {
    /// When counting began; none while the worker has nothing to do.
    since: Option<Instant>,
    /// For how many runs the clock is read, and how many of them are still to come.
    runs: u32,
    left: u32,
    average_ns: u64,
}

impl Pace {
    /// Counts one more run; the time, if the clock was read.
    #[inline]
    pub(super) fn count(&mut self, clock: impl FnOnce() -> Instant) -> Option<Instant> {
        if self.left > 1 {
            self.left -= 1;
            return None;
        }
        let now = clock();
        self.average_until(now);
        Some(now)
    }

    #[cold]
    fn average_until(&mut self, now: Instant) {
        if let Some(since) = self.since.replace(now) {
            let average = nanos(now - since) / u64::from(self.runs);
            self.average_ns = (self.average_ns.saturating_mul(3).saturating_add(average)) / 4;
        }
        let runs = nanos(BEAT_EVERY) / self.average_ns.max(1);
        self.runs = u32::try_from(runs).unwrap_or(u32::MAX).clamp(1, RUNS_PER_BEAT);
        self.left = self.runs;
    }

    /// The worker has nothing to do for a while.
    pub(super) fn pause(&mut self) {
        (self.since, self.left) = (None, 0);
    }

    /// Nanoseconds of a run.
    pub(super) const fn average_ns(&self) -> u64 {
        self.average_ns
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
