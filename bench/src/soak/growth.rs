//! Whether something grows more than is explained by what was stored.
//!
//! # What is fitted
//! A line through the samples of each half, by least squares, so that one reading decides nothing. The first half is warm-up: caches fill, and
//! allocators keep what they once needed. It is shown beside the second one, whose rise counts: that of its line, from its beginning to its end.
//!
//! # What explains a rise
//! An object takes memory for ever, and a record space, whatever else happens: so much of each is allowed for what was stored within the half.
//! A leak in proportion to requests would fit a line through what was stored just as well, so what an object may take is given, not fitted.
//! What is beyond both that and a tolerance, a part of the level and at least an amount, is growth.

use serde::Serialize;

/// What one more object may take of the memory, in bytes: about 215 are measured, of the index and of the footer of the last segment.
const OBJECT_BYTES: f64 = 256.0;
/// What one more record may take of the disk, in bytes, with its part of checkpoints and snapshots: about 150 are measured.
const RECORD_BYTES: f64 = 256.0;
/// How much a log has for each descriptor that it keeps open.
const SEGMENT_BYTES: f64 = (64_u32 << 20) as f64;
/// Which part of its level something may rise unexplained.
const TOLERANCE: f64 = 0.05;

/// What was read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the beginning.
    pub seconds: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: f64,
    /// Open descriptors.
    pub descriptors: f64,
    /// Threads.
    pub threads: f64,
    /// Bytes of all files in the data directory.
    pub directory_bytes: f64,
    /// Objects and kept answers that there have ever been.
    pub objects: f64,
    /// Records that there have ever been.
    pub records: f64,
}

/// How something has grown.
#[derive(Debug, Clone, Serialize)]
pub struct Growth {
    /// What.
    pub name: &'static str,
    /// Its level in the middle of the second half.
    pub level: f64,
    /// What it rises within the first half.
    pub first_rise: f64,
    /// What it rises within the second half.
    pub rise: f64,
    /// What of that is explained by what was stored.
    pub explained: f64,
    /// What may be unexplained.
    pub tolerated: f64,
}

impl Growth {
    /// Whether it grows beyond what was stored.
    pub fn is_beyond(&self) -> bool {
        self.rise > self.explained + self.tolerated
    }
}

type Read = fn(&Sample) -> f64;

/// How memory, descriptors, threads and the directory have grown; nothing of fewer than four samples.
pub(super) fn growth(samples: &[Sample]) -> Vec<Growth> {
    let (first, second) = samples.split_at(samples.len() / 2);
    let (Some(from), Some(to)) = (second.first(), second.last()) else { return Vec::new() };
    if first.len() < 2 {
        return Vec::new();
    }
    let objects = to.objects - from.objects;
    let records = to.records - from.records;
    let rows: [(&'static str, Read, f64, f64); 4] = [
        ("resident memory, bytes", |sample| sample.resident_bytes, objects * OBJECT_BYTES, f64::from(24 << 20)),
        ("descriptors", |sample| sample.descriptors, records * RECORD_BYTES / SEGMENT_BYTES, 8.0),
        ("threads", |sample| sample.threads, 0.0, 8.0),
        ("data directory, bytes", |sample| sample.directory_bytes, records * RECORD_BYTES, f64::from(24 << 20)),
    ];
    let of = |(name, read, explained, least): (&'static str, Read, f64, f64)| {
        let (before, after) = (Line::through(first, read), Line::through(second, read));
        let level = after.at(f64::midpoint(from.seconds, to.seconds));
        let tolerated = (TOLERANCE * level).max(least);
        let (first_rise, rise) = (before.rise_over(first), after.rise_over(second));
        Growth { name, level, first_rise, rise, explained, tolerated }
    };
    rows.map(of).into()
}

/// A line through values over time.
struct Line {
    mean_seconds: f64,
    mean: f64,
    slope: f64,
}

impl Line {
    fn through(samples: &[Sample], read: Read) -> Self {
        let count = samples.len() as f64;
        let mean_of = |read: &dyn Fn(&Sample) -> f64| samples.iter().map(read).sum::<f64>() / count;
        let mean_seconds = mean_of(&|sample| sample.seconds);
        let mean = mean_of(&read);
        let spread = mean_of(&|sample| (sample.seconds - mean_seconds).powi(2));
        let together = mean_of(&|sample| (sample.seconds - mean_seconds) * (read(sample) - mean));
        Self { mean_seconds, mean, slope: if spread > 0.0 { together / spread } else { 0.0 } }
    }

    fn at(&self, seconds: f64) -> f64 {
        self.mean + self.slope * (seconds - self.mean_seconds)
    }

    fn rise_over(&self, samples: &[Sample]) -> f64 {
        let ends = samples.first().zip(samples.last());
        ends.map_or(0.0, |(first, last)| self.at(last.seconds) - self.at(first.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight hours of a server that fills its caches within the first one, and stores a hundred objects and a thousand records a second.
    fn sound(second: f64) -> Sample {
        let warm = (second / 3600.0).min(1.0);
        let noise = if (second as u64).is_multiple_of(120) { 1.0 } else { -1.0 };
        let (objects, records) = (100.0 * second, 1000.0 * second);
        Sample {
            seconds: second,
            resident_bytes: 6e7 + 2e8 * warm + 5e6 * noise + 230.0 * objects,
            descriptors: 60.0 + 4.0 * noise + (records * 130.0 / SEGMENT_BYTES).floor(),
            threads: 12.0 + 2.0 * noise,
            directory_bytes: 1e6 + 130.0 * records,
            objects,
            records,
        }
    }

    fn beyond(read: impl Fn(f64) -> Sample) -> Vec<&'static str> {
        let samples: Vec<Sample> = (0..480).map(|minute| read(f64::from(minute) * 60.0)).collect();
        growth(&samples).iter().filter(|growth| growth.is_beyond()).map(|growth| growth.name).collect()
    }

    #[test]
    fn growth_beyond_what_was_stored_is_found_and_no_other() {
        type Row = (&'static str, fn(&mut Sample), &'static [&'static str]);
        let rows: [Row; 7] = [
            ("nothing", |_| {}, &[]),
            (
                "a leak of eight bytes for each of a thousand requests a second",
                |sample| {
                    sample.resident_bytes += 8.0 * 1000.0 * sample.seconds;
                },
                &["resident memory, bytes"],
            ),
            (
                "objects that take four times as much",
                |sample| sample.resident_bytes += 700.0 * sample.objects,
                &["resident memory, bytes"],
            ),
            (
                "a descriptor every five minutes",
                |sample| sample.descriptors += sample.seconds / 300.0,
                &["descriptors"],
            ),
            ("a thread every ten minutes", |sample| sample.threads += sample.seconds / 600.0, &["threads"]),
            (
                "files that nobody removes",
                |sample| sample.directory_bytes += 400.0 * sample.records,
                &["data directory, bytes"],
            ),
            (
                "what ends in the first half",
                |sample| {
                    let seconds = sample.seconds.min(10_000.0);
                    sample.resident_bytes += 5e4 * seconds;
                    sample.descriptors += seconds / 10.0;
                },
                &[],
            ),
        ];
        for (name, goes_wrong, expected) in rows {
            let read = |second: f64| {
                let mut sample = sound(second);
                goes_wrong(&mut sample);
                sample
            };
            assert_eq!(beyond(read), expected, "{name}");
        }
    }

    #[test]
    fn too_few_samples_say_nothing() {
        let samples: Vec<Sample> = (0..3).map(|second| sound(f64::from(second))).collect();
        assert!(growth(&samples).is_empty());
    }
}
