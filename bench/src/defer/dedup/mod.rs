//! The deduplicating pipeline: sequential, with locks, and with transactions that defer more and more.
//!
//! The stages and kernels are those of [`enact_workloads::dedup`], the same in all versions; [`pipeline`] has the
//! threads and queues. What the versions differ in is [`locks`] and [`transactions`].
//!
//! # Oracle
//! The file is a function of the input, so every version's must be the sequential one, byte for byte; that one must
//! unpack to the input.
//!
//! # Source
//! Zhou, Luchangco and Spear, *Extending transactional memory with atomic deferral*, 2017, section 6.2, figure 3.
mod locks;
mod output;
mod pipeline;
mod queue;
mod table;
mod transactions;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use enact_workloads::dedup::{UnpackError, generate, packets, unpack};
use locks::Locks;
use output::{Output, SlowFile};
use pipeline::Version;
use thiserror::Error;
use transactions::{AllDeferred, DeferredOutput, InTransactions};

use super::{DeferError, threads_in_words};
use crate::measure::{Contender, Lap, Plan, Race, Sample, Stopwatch, race};

/// How the output differs from what the input has to give.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WrongFile {
    /// The file is not the sequential version's.
    #[error("the file ({found_bytes} bytes) differs from the sequential one ({expected_bytes} bytes) at byte {at}")]
    Different {
        /// The first byte that differs.
        at: usize,
        /// Length of the file.
        found_bytes: usize,
        /// Length of the sequential version's file.
        expected_bytes: usize,
    },
    /// The version did not count as many packets as it wrote.
    #[error("{done} packets were declared done, but there are {expected} chunks")]
    Done {
        /// Declared done.
        done: u64,
        /// Chunks of the input.
        expected: u64,
    },
    /// The sequential version's file does not unpack.
    #[error("the file cannot be unpacked")]
    Unpack(#[from] UnpackError),
    /// It unpacks to something else.
    #[error("the file unpacks to {bytes} bytes that are not the input")]
    Unpacked {
        /// How many.
        bytes: usize,
    },
}

/// What goes through the pipeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) bytes: usize,
    pub(super) seed: u64,
    pub(super) sync: Syncing,
}

/// What happens to the output after every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syncing {
    Never,
    /// It is written through to the disk.
    Disk,
    /// As on a disk that takes so long.
    Simulated(Duration),
}

/// Measures all versions with every number of threads a pool; the output lies in `directory`.
pub(super) fn measure(
    directory: &Path,
    settings: Settings,
    threads: &[usize],
    plan: &Plan,
) -> Result<Vec<Race>, DeferError> {
    let trial = Trial::new(settings, directory.join("output"))?;
    let race_of = |&pool: &usize| {
        let workload = format!("pipeline, {} a pool", threads_in_words(pool));
        race(workload, "bytes", plan, trial.contenders(pool))
    };
    threads.iter().map(race_of).collect()
}

/// An input, and what every version has to make of it.
struct Trial {
    input: Arc<[u8]>,
    expected: Vec<u8>,
    chunks: u64,
    path: PathBuf,
    sync: Syncing,
}

impl Trial {
    fn new(settings: Settings, path: PathBuf) -> Result<Self, DeferError> {
        let input: Arc<[u8]> = generate(settings.bytes, settings.seed).into();
        let expected: Vec<u8> = packets(&input).flatten().collect();
        let wrong = |wrong| DeferError::Output { version: "sequential", wrong };
        let unpacked = unpack(&expected).map_err(|damage| wrong(damage.into()))?;
        if unpacked.input != *input {
            return Err(wrong(WrongFile::Unpacked { bytes: unpacked.input.len() }));
        }
        let chunks = (unpacked.data + unpacked.references) as u64;
        Ok(Self { input, expected, chunks, path, sync: settings.sync })
    }

    fn contenders(&self, pool: usize) -> Vec<Contender<'_, DeferError>> {
        let pipeline = move |name, measure: fn(&Self, &'static str, usize) -> Result<Sample, DeferError>| {
            Contender::new(name, move || measure(self, name, pool))
        };
        vec![
            pipeline("locks", |trial, name, pool| trial.run(name, Locks::new, pool)),
            Contender::new("sequential", || self.run_sequentially()),
            pipeline("transactions", |trial, name, pool| trial.run(name, InTransactions::new, pool)),
            pipeline("+ deferred output", |trial, name, pool| trial.run(name, DeferredOutput::new, pool)),
            pipeline("+ deferred compression", |trial, name, pool| trial.run(name, AllDeferred::new, pool)),
        ]
    }

    fn run<V: Version>(&self, name: &'static str, version: fn(Output) -> V, pool: usize) -> Result<Sample, DeferError> {
        let version = version(self.output()?);
        let (ended, lap) = pipeline::run(&version, &self.input, pool);
        ended.map_err(DeferError::when("writing the output"))?;
        self.sample(name, lap, version.packets_done())
    }

    fn run_sequentially(&self) -> Result<Sample, DeferError> {
        let mut output = self.output()?;
        let stopwatch = Stopwatch::start();
        let ended = packets(&self.input).try_for_each(|packet| output.put(&packet));
        let lap = stopwatch.stop();
        ended.map_err(DeferError::when("writing the output"))?;
        self.sample("sequential", lap, output.done())
    }

    /// An empty file.
    fn output(&self) -> Result<Output, DeferError> {
        let file = File::create(&self.path).map_err(DeferError::when("creating the output"))?;
        Ok(match self.sync {
            Syncing::Never => Output::new(Box::new(file), false),
            Syncing::Disk => Output::new(Box::new(file), true),
            Syncing::Simulated(sync_latency) => Output::new(Box::new(SlowFile { file, sync_latency }), true),
        })
    }

    /// The sample of a run, if its file is right.
    fn sample(&self, version: &'static str, lap: Lap, done: u64) -> Result<Sample, DeferError> {
        let found = fs::read(&self.path).map_err(DeferError::when("reading the output back"))?;
        self.verify(&found, done).map_err(|wrong| DeferError::Output { version, wrong })?;
        Ok(Sample::new(lap, self.input.len() as u64))
    }

    fn verify(&self, found: &[u8], done: u64) -> Result<(), WrongFile> {
        let (found_bytes, expected_bytes) = (found.len(), self.expected.len());
        if found != self.expected {
            let at = found.iter().zip(&self.expected).take_while(|(one, other)| one == other).count();
            return Err(WrongFile::Different { at, found_bytes, expected_bytes });
        }
        if done != self.chunks {
            return Err(WrongFile::Done { done, expected: self.chunks });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use enact_workloads::dedup::{Fingerprint, Packet, compress};

    use super::output::faulty::FaultyDevice;
    use super::pipeline::{Admitted, Part};
    use super::*;
    use crate::measure::in_parallel;

    const SEED: u64 = 1_234_567;

    fn trial(bytes: usize, sync: Syncing) -> (tempfile::TempDir, Trial) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("output");
        let trial = Trial::new(Settings { bytes, seed: SEED, sync }, path).expect("the sequential file unpacks");
        (directory, trial)
    }

    /// Runs `version` on a device that interrupts, blocks and takes too little, and compares all that it wrote.
    #[track_caller]
    fn check_with_faults<V: Version>(version: fn(Output) -> V) {
        let (_directory, trial) = trial(3 << 20, Syncing::Never);
        for pool in [1, 3] {
            let (device, record) = FaultyDevice::new(31, usize::MAX);
            let version = version(Output::new(Box::new(device), true));
            let (ended, _) = pipeline::run(&version, &trial.input, pool);
            ended.expect("all errors are transient");
            let record = record.lock().expect("no thread panicked");
            assert_eq!(trial.verify(&record.bytes, version.packets_done()), Ok(()), "{pool} threads a pool");
            let mut end = 0;
            let ends: Vec<_> = packets(&trial.input)
                .map(|packet| {
                    end += packet.len();
                    end
                })
                .collect();
            assert_eq!(record.synced_at, ends, "one sync after each packet, {pool} threads a pool");
            assert!(record.transient_errors > 0 && record.short_writes > 0, "no fault was injected");
        }
    }

    /// The device is full after some packets: the error comes back, no stage waits for ever, nothing more is written.
    #[track_caller]
    fn check_fatal_error<V: Version>(version: fn(Output) -> V) {
        let (_directory, trial) = trial(1 << 20, Syncing::Never);
        let (device, record) = FaultyDevice::new(32, 100_000);
        let version = version(Output::new(Box::new(device), true));
        let (ended, _) = pipeline::run(&version, &trial.input, 2);
        assert_eq!(ended.expect_err("the device is full").kind(), io::ErrorKind::StorageFull);
        let record = record.lock().expect("no thread panicked");
        assert!(trial.expected.starts_with(&record.bytes), "what was written is not the beginning of the file");
        assert_eq!(version.packets_done(), record.synced_at.len() as u64);
        assert!(version.packets_done() < trial.chunks);
    }

    /// Writes chunks in order while they are compressed in the opposite order: the first write waits for the last one.
    #[track_caller]
    fn check_write_waits<V: Version>(version: fn(Output) -> V) {
        let (device, record) = FaultyDevice::new(33, usize::MAX);
        let version = version(Output::new(Box::new(device), false));
        let inputs: Vec<Arc<[u8]>> = (0..50).map(|seed| generate(10_000, seed).into()).collect();
        let admit = |input: &Arc<[u8]>| match version.admit(Fingerprint::of(input), Part::whole(input)) {
            Admitted::New(chunk) => chunk,
            Admitted::Known(_) => panic!("all chunks are different"),
        };
        let chunks: Vec<_> = inputs.iter().map(admit).collect();
        in_parallel(2, |number| match number {
            0 => chunks.iter().for_each(|chunk| version.write(chunk).expect("all errors are transient")),
            _ => chunks.iter().rev().for_each(|chunk| version.compress(chunk)),
        });
        let expected: Vec<u8> = inputs.iter().flat_map(|input| Packet::Data(&compress(input)).to_bytes()).collect();
        assert!(record.lock().expect("no thread panicked").bytes == expected, "a chunk was written too early");
    }

    #[test]
    fn a_chunk_is_written_only_after_it_is_compressed() {
        check_write_waits(Locks::new);
        check_write_waits(InTransactions::new);
        check_write_waits(DeferredOutput::new);
        check_write_waits(AllDeferred::new);
    }

    #[test]
    fn locks_write_the_sequential_file_despite_faults() {
        check_with_faults(Locks::new);
    }

    #[test]
    fn transactions_write_the_sequential_file_despite_faults() {
        check_with_faults(InTransactions::new);
    }

    #[test]
    fn deferred_output_writes_the_sequential_file_despite_faults() {
        check_with_faults(DeferredOutput::new);
    }

    #[test]
    fn deferred_compression_writes_the_sequential_file_despite_faults() {
        check_with_faults(AllDeferred::new);
    }

    #[test]
    fn a_fatal_error_ends_locks() {
        check_fatal_error(Locks::new);
    }

    #[test]
    fn a_fatal_error_ends_transactions() {
        check_fatal_error(InTransactions::new);
    }

    #[test]
    fn a_fatal_error_ends_deferred_output() {
        check_fatal_error(DeferredOutput::new);
    }

    #[test]
    fn a_fatal_error_ends_deferred_compression() {
        check_fatal_error(AllDeferred::new);
    }

    #[test]
    fn every_contender_writes_the_expected_file_however_it_is_synced() {
        for sync in [Syncing::Never, Syncing::Disk, Syncing::Simulated(Duration::from_micros(10))] {
            let (_directory, trial) = trial(200_000, sync);
            let plan = Plan { rounds: 1, warm_up: 0 };
            let race = race("pipeline", "bytes", &plan, trial.contenders(2)).expect("all files are right");
            assert!(race.series.iter().all(|series| series.samples[0].work == 200_000), "{sync:?}");
        }
    }

    #[test]
    fn a_wrong_file_is_found() {
        let (_directory, trial) = trial(100_000, Syncing::Never);
        let expected_bytes = trial.expected.len();
        let mut flipped = trial.expected.clone();
        flipped[500] ^= 1;
        let different = |at, found_bytes| Err(WrongFile::Different { at, found_bytes, expected_bytes });
        assert_eq!(trial.verify(&flipped, trial.chunks), different(500, expected_bytes));
        assert_eq!(trial.verify(&trial.expected[..700], trial.chunks), different(700, 700));
        let too_few = Err(WrongFile::Done { done: trial.chunks - 1, expected: trial.chunks });
        assert_eq!(trial.verify(&trial.expected, trial.chunks - 1), too_few);
        assert_eq!(trial.verify(&trial.expected, trial.chunks), Ok(()));
    }
}
