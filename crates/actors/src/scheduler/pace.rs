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
    /// Counts one more run. Whether the clock is to be [read](Self::read).
    #[inline]
    pub(super) fn count(&mut self) -> bool {
        if self.left > 1 {
            self.left -= 1;
            return false;
        }
        true
    }

    /// The clock was read. What has `crossed` meanwhile costs nothing: runs cost what they cost where they are.
    pub(super) fn read(&mut self, now: Instant, crossed: Duration) {
        self.average_until(now, self.runs, crossed);
        self.begin(now, nanos(BEAT_EVERY) / self.average_ns.max(1));
    }

    fn begin(&mut self, now: Instant, runs: u64) {
        self.since = Some(now);
        self.runs = u32::try_from(runs).unwrap_or(u32::MAX).clamp(1, RUNS_PER_BEAT);
        self.left = self.runs;
    }

    fn average_until(&mut self, now: Instant, runs: u32, crossed: Duration) {
        if let Some(since) = self.since
            && runs > 0
        {
            let average = nanos((now - since).saturating_sub(crossed)) / u64::from(runs);
            self.average_ns = (self.average_ns.saturating_mul(3).saturating_add(average)) / 4;
        }
    }

    /// The worker has nothing to do from now on.
    pub(super) fn pause(&mut self, now: Instant, crossed: Duration) {
        self.average_until(now, self.runs - self.left, crossed);
        (self.since, self.runs, self.left) = (None, 0, 0);
    }

    /// The worker has something to do again, and begins a run.
    pub(super) fn resume(&mut self, now: Instant) {
        self.begin(now, 1);
    }

    /// Nanoseconds of a run.
    pub(super) const fn average_ns(&self) -> u64 {
        self.average_ns
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use super::*;

    const EACH: Duration = Duration::from_micros(3);

    #[test]
    fn a_worker_that_pauses_after_a_few_runs_knows_what_they_cost() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..20 {
            pace.resume(now);
            // The last time, it looks for a run and finds none.
            for run in [EACH, 5 * EACH, 5 * EACH, 5 * EACH] {
                now += run;
                if pace.count() {
                    pace.read(now, Duration::ZERO);
                }
            }
            pace.pause(now, Duration::ZERO);
            now += Duration::from_millis(1);
        }
        let average = Duration::from_nanos(pace.average_ns());
        assert!((2 * EACH..5 * EACH).contains(&average), "{average:?}");
    }

    #[test]
    fn what_crosses_is_no_part_of_what_runs_cost() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..1_000 {
            if pace.count() {
                pace.read(now, EACH * pace.runs * 2 / 3);
            }
            now += EACH;
        }
        let average = Duration::from_nanos(pace.average_ns());
        assert!(average.abs_diff(EACH / 3) < EACH / 20, "{average:?}");
    }
}
