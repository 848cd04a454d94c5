//! Appending to shared files, each line stating its own offset.
//!
//! | workload | files | opened and closed by each operation | device |
//! |---|---|---|---|
//! | a, b, c | 1, 2, 4 | yes | as it is |
//! | d | 4 | no | as it is |
//! | e | 4 | no | 100 us slower |
//!
//! An operation reads the length of a file and appends a line that states it: the two must be one step. See [`logs`]
//! for the versions, and [`oracle`] for what the files must hold at the end.
//!
//! # Source
//! Zhou, Luchangco and Spear, *Extending transactional memory with atomic deferral*, 2017, section 6.1, figure 2; `e` is
//! ours: pages in memory hide what overlapping input and output is worth.
mod log;
mod logs;
mod oracle;

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use log::{LogFile, Operation};
use logs::{CoarseLock, Deferral, FineLocks, Irrevocable, Logs};
pub use oracle::WrongLog;

use super::{DeferError, threads_in_words};
use crate::measure::{Contender, Plan, Race, Sample, in_parallel, race};

const SLOW_DEVICE: Duration = Duration::from_micros(100);
/// The slow device gets this part of the operations.
const SLOW_SHARE: u64 = 10;

struct Workload {
    name: &'static str,
    files: usize,
    keep_open: bool,
    extra_latency: Option<Duration>,
}

const WORKLOADS: [Workload; 5] = [
    Workload { name: "a: 1 file", files: 1, keep_open: false, extra_latency: None },
    Workload { name: "b: 2 files", files: 2, keep_open: false, extra_latency: None },
    Workload { name: "c: 4 files", files: 4, keep_open: false, extra_latency: None },
    Workload { name: "d: 4 files kept open", files: 4, keep_open: true, extra_latency: None },
    Workload { name: "e: as d, slow device", files: 4, keep_open: true, extra_latency: Some(SLOW_DEVICE) },
];

/// Measures every workload with every number of threads; the files lie in `directory`.
pub(super) fn measure(
    directory: &Path,
    operations: u64,
    threads: &[usize],
    plan: &Plan,
) -> Result<Vec<Race>, DeferError> {
    let mut races = Vec::new();
    for workload in &WORKLOADS {
        let share = if workload.extra_latency.is_some() { SLOW_SHARE } else { 1 };
        for &threads in threads {
            let trial = Trial::new(workload, directory, threads, (operations / share).max(1));
            races.push(race(trial.name(), "operations", plan, trial.contenders())?);
        }
    }
    Ok(races)
}

/// One workload with one number of threads.
struct Trial<'a> {
    workload: &'a Workload,
    directory: &'a Path,
    operations: Vec<Vec<Operation>>,
}

impl<'a> Trial<'a> {
    /// Shares `operations` out among `threads`.
    fn new(workload: &'a Workload, directory: &'a Path, threads: usize, operations: u64) -> Self {
        let count_of = |thread| {
            let remainder = operations % threads as u64;
            operations / threads as u64 + u64::from((thread as u64) < remainder)
        };
        let of_thread = |thread| Operation::of_thread(thread, count_of(thread), workload.files).collect();
        Self { workload, directory, operations: (0..threads).map(of_thread).collect() }
    }

    fn name(&self) -> String {
        format!("{}, {}", self.workload.name, threads_in_words(self.operations.len()))
    }

    fn contenders(&self) -> Vec<Contender<'_, DeferError>> {
        let mut contenders = vec![Contender::new("coarse lock", || self.run(CoarseLock::new))];
        // With one file they are the coarse lock.
        if self.workload.files > 1 {
            contenders.push(Contender::new("fine locks", || self.run(FineLocks::new)));
        }
        contenders.push(Contender::new("irrevocable", || self.run(Irrevocable::new)));
        contenders.push(Contender::new("deferred", || self.run(Deferral::new)));
        contenders
    }

    /// Runs all operations on new files, and checks what the files hold after the clock has stopped.
    fn run<L: Logs>(&self, share: impl FnOnce(Vec<LogFile>) -> L) -> Result<Sample, DeferError> {
        let Workload { files, keep_open, extra_latency, .. } = *self.workload;
        let paths: Vec<_> = (0..files).map(|file| self.directory.join(format!("log-{file}"))).collect();
        let created: io::Result<_> = paths.iter().map(|path| LogFile::create(path, keep_open, extra_latency)).collect();
        let logs = share(created.map_err(DeferError::when("creating the files"))?);
        let (ended, lap) = in_parallel(self.operations.len(), |thread| {
            self.operations[thread].iter().try_for_each(|&operation| logs.perform(operation))
        });
        ended.into_iter().collect::<io::Result<()>>().map_err(DeferError::when("appending"))?;
        let contents: io::Result<Vec<_>> = paths.iter().map(fs::read).collect();
        let contents = contents.map_err(DeferError::when("reading the files back"))?;
        let files: Vec<_> = contents.into_iter().zip(logs.into_counts()).collect();
        oracle::verify(&files, &self.operations).map_err(|wrong| DeferError::Log { workload: self.name(), wrong })?;
        let operations = self.operations.iter().map(|of_thread| of_thread.len() as u64).sum();
        Ok(Sample::new(lap, operations))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread;

    use enact_stm::{TCell, atomically};

    use super::*;

    fn check<L: Logs>(share: impl Fn(Vec<LogFile>) -> L) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for workload in &WORKLOADS {
            let trial = Trial::new(workload, directory.path(), 3, 50);
            let sample = trial.run(&share).unwrap_or_else(|wrong| panic!("{}: {wrong}", trial.name()));
            assert_eq!(sample.work, 50);
        }
    }

    #[test]
    fn coarse_lock_writes_what_the_oracle_accepts() {
        check(CoarseLock::new);
    }

    #[test]
    fn fine_locks_write_what_the_oracle_accepts() {
        check(FineLocks::new);
    }

    #[test]
    fn irrevocable_transactions_write_what_the_oracle_accepts() {
        check(Irrevocable::new);
    }

    #[test]
    fn deferred_operations_write_what_the_oracle_accepts() {
        check(Deferral::new);
    }

    /// Deferral that does not list the object: nothing holds others off between the two halves of an operation.
    struct Unlisted {
        file: Arc<Mutex<LogFile>>,
        lines: TCell<u64>,
        /// Operations that have done their first half.
        halfway: Arc<AtomicUsize>,
    }

    impl Unlisted {
        fn new(mut files: Vec<LogFile>) -> Self {
            let file = Arc::new(Mutex::new(files.remove(0)));
            Self { file, lines: TCell::new(0), halfway: Arc::default() }
        }
    }

    impl Logs for Unlisted {
        fn perform(&self, operation: Operation) -> io::Result<()> {
            let appended = atomically(|tx| {
                tx.update(&self.lines, |lines| lines + 1)?;
                let (file, halfway) = (Arc::clone(&self.file), Arc::clone(&self.halfway));
                tx.defer((), move |()| {
                    let length = file.lock().expect("no thread panics").length()?;
                    halfway.fetch_add(1, Ordering::SeqCst);
                    let is_alone = || halfway.load(Ordering::SeqCst) < 2;
                    // Gives the other operation time, without relying on it: beside an irrevocable transaction of
                    // another test it would have to wait for this one.
                    (0..10_000).take_while(|_| is_alone()).for_each(|_| thread::yield_now());
                    file.lock().expect("no thread panics").write_at_end(&operation.line_at(length))
                })
            })
            .run();
            appended.take().expect("the operation has run")
        }

        fn into_counts(self) -> Vec<u64> {
            vec![self.lines.into_inner()]
        }
    }

    #[test]
    fn deferral_without_the_objects_lock_is_refused_by_the_oracle() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let trial = Trial::new(&WORKLOADS[0], directory.path(), 2, 2);
        let mut runs = (0..1_000).map(|_| trial.run(Unlisted::new));
        let refused = runs.find_map(Result::err);
        assert!(
            matches!(refused, Some(DeferError::Log { wrong: WrongLog::Line { file: 0, offset: 64, .. }, .. })),
            "{refused:?} of a thousand runs"
        );
    }

    #[test]
    fn operations_are_shared_out_with_no_remainder_left() {
        let trial = Trial::new(&WORKLOADS[3], Path::new("unused"), 4, 10);
        assert_eq!(trial.operations.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2, 2]);
    }
}
