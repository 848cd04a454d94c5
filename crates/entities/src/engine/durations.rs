//! How long something takes, counted by how long it took.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One count for each bound, and one beyond.
const BUCKETS: usize = Durations::BOUNDS.len() + 1;

/// Counts durations; two additions each, without a lock.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// What [`Durations`] have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationCounts {
    /// How many took up to each of [`Durations::BOUNDS`] and longer than the bound before; the last one is of those beyond.
    pub buckets: [u64; BUCKETS],
    /// How long all of them took together.
    pub total: Duration,
}

impl Durations {
    /// The durations that are told apart, each with those below: from a write to a fast disk to the deadline of a command.
    pub const BOUNDS: [Duration; 10] = [
        Duration::from_micros(500),
        Duration::from_millis(1),
        Duration::from_micros(2_500),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(100),
        Duration::from_millis(500),
        Duration::from_millis(2_500),
        Duration::from_secs(10),
    ];

    /// Counts one that took `time`.
    pub fn count(&self, time: Duration) {
        let bucket = Self::BOUNDS.partition_point(|bound| *bound < time);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What was counted; what is counted meanwhile may be in one number and not in the other.
    pub fn read(&self) -> DurationCounts {
        DurationCounts {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed)),
            total: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        }
    }
}

impl DurationCounts {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(own, count)| *own += count);
        self.total += other.total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_under_the_first_bound_that_it_does_not_exceed() {
        let rows = [
            (Duration::ZERO, 0),
            (Duration::from_micros(500), 0),
            (Duration::from_nanos(500_001), 1),
            (Duration::from_millis(7), 4),
            (Duration::from_secs(10), 9),
            (Duration::from_nanos(10_000_000_001), 10),
            (Duration::from_secs(60), 10),
        ];
        let (durations, mut expected) = (Durations::default(), DurationCounts::default());
        for (time, bucket) in rows {
            durations.count(time);
            expected.buckets[bucket] += 1;
            expected.total += time;
            assert_eq!(durations.read(), expected, "{time:?}");
        }
        let mut twice = expected;
        twice.add(&expected);
        assert_eq!((twice.buckets[10], twice.total), (4, 2 * expected.total));
    }
}
