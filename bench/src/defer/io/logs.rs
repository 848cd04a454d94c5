//! The versions that are compared: how an operation is made one step.
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use enact_stm::{Deferrable, TCell, atomically};

use super::log::{LogFile, Operation};

/// Files with a counter of lines beside each, shared by all threads.
pub(super) trait Logs: Sync + Sized {
    /// Counts a line of the operation's file and appends it, in one step for all other threads.
    fn perform(&self, operation: Operation) -> io::Result<()>;

    /// The counters, by file.
    fn into_counts(self) -> Vec<u64>;
}

/// A file under a lock, with its counter.
struct Counted {
    file: LogFile,
    lines: u64,
}

impl Counted {
    fn new(file: LogFile) -> Self {
        Self { file, lines: 0 }
    }

    fn perform(&mut self, operation: &Operation) -> io::Result<()> {
        self.lines += 1;
        self.file.append(operation)
    }
}

/// One lock for all files.
pub(super) struct CoarseLock(Mutex<Vec<Counted>>);

impl CoarseLock {
    pub(super) fn new(files: Vec<LogFile>) -> Self {
        Self(Mutex::new(files.into_iter().map(Counted::new).collect()))
    }
}

impl Logs for CoarseLock {
    fn perform(&self, operation: Operation) -> io::Result<()> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files[operation.file].perform(&operation)
    }

    fn into_counts(self) -> Vec<u64> {
        let files = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|counted| counted.lines).collect()
    }
}

/// A lock for each file.
pub(super) struct FineLocks(Vec<Mutex<Counted>>);

impl FineLocks {
    pub(super) fn new(files: Vec<LogFile>) -> Self {
        Self(files.into_iter().map(|file| Mutex::new(Counted::new(file))).collect())
    }
}

impl Logs for FineLocks {
    fn perform(&self, operation: Operation) -> io::Result<()> {
        self.0[operation.file].lock().unwrap_or_else(PoisonError::into_inner).perform(&operation)
    }

    fn into_counts(self) -> Vec<u64> {
        self.0.into_iter().map(|file| file.into_inner().unwrap_or_else(PoisonError::into_inner).lines).collect()
    }
}

/// The transaction is alone from before its input and output to its end.
pub(super) struct Irrevocable(Vec<(TCell<u64>, Mutex<LogFile>)>);

impl Irrevocable {
    pub(super) fn new(files: Vec<LogFile>) -> Self {
        Self(files.into_iter().map(|file| (TCell::new(0), Mutex::new(file))).collect())
    }
}

impl Logs for Irrevocable {
    fn perform(&self, operation: Operation) -> io::Result<()> {
        let (lines, file) = &self.0[operation.file];
        atomically(|tx| {
            tx.irrevocable()?;
            tx.update(lines, |lines| lines + 1)?;
            // The lock is for the compiler only: it must be free, or there are two transactions that are alone.
            Ok(file.try_lock().expect("an irrevocable transaction is alone").append(&operation))
        })
        .run()
    }

    fn into_counts(self) -> Vec<u64> {
        self.0.into_iter().map(|(lines, _)| lines.into_inner()).collect()
    }
}

/// A file that operations are deferred on, with its counter.
type Log = Arc<Deferrable<TCell<u64>, LogFile>>;

/// The transaction takes the file's lock, commits, and appends before the lock is released.
pub(super) struct Deferral(Vec<Log>);

impl Deferral {
    pub(super) fn new(files: Vec<LogFile>) -> Self {
        Self(files.into_iter().map(|file| Arc::new(Deferrable::new(TCell::new(0), file))).collect())
    }
}

impl Logs for Deferral {
    fn perform(&self, operation: Operation) -> io::Result<()> {
        let log = &self.0[operation.file];
        let appended = atomically(|tx| {
            let lines = tx.open(log)?;
            tx.update(lines, |lines| lines + 1)?;
            tx.defer((log,), move |(log,)| log.append(&operation))
        })
        .run();
        appended.take().expect("an operation has run when its transaction's call returns")
    }

    fn into_counts(self) -> Vec<u64> {
        let lines_of = |log: Log| {
            let log = Arc::into_inner(log).expect("all operations have ended");
            let (lines, _file) = log.into_inner();
            lines.into_inner()
        };
        self.0.into_iter().map(lines_of).collect()
    }
}
