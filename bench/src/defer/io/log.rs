//! The files that operations append to, and the lines in them.
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use enact_workloads::SplitMix64;

/// Every line has as many bytes, the last one is a line feed.
pub(super) const LINE_BYTES: usize = 64;

/// What one transaction does: which file gets which line, but for the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) thread: usize,
    /// Counts the operations of the thread.
    pub(super) seq: u64,
    pub(super) file: usize,
    content: u64,
}

impl Operation {
    /// The `count` operations of `thread`, each on one of `files`: the same in every version.
    pub(super) fn of_thread(thread: usize, count: u64, files: usize) -> impl Iterator<Item = Self> {
        let mut draws = SplitMix64::new(thread as u64);
        (0..count).map(move |seq| {
            let content = draws.next_u64();
            let file = usize::try_from(draws.below(files as u64)).expect("one of a few files");
            Self { thread, seq, file, content }
        })
    }

    /// The line that states `offset`, filled up with the operation's content.
    pub(super) fn line_at(&self, offset: u64) -> [u8; LINE_BYTES] {
        let Self { thread, seq, file, content } = self;
        let mut line = [b'\n'; LINE_BYTES];
        let mut rest = &mut line[..LINE_BYTES - 1];
        write!(rest, "{thread} {seq} {file} {offset} ").expect("the numbers of a run fit into a line");
        let digits = format!("{content:016x}");
        rest.iter_mut().zip(digits.bytes().cycle()).for_each(|(place, digit)| *place = digit);
        line
    }
}

/// A file that lines are appended to, each of which states at which offset it starts.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    /// Kept open from the first operation to the last; otherwise opened and closed twice by every operation.
    kept_open: Option<File>,
    /// What the device takes beyond what this one does.
    extra_latency: Option<Duration>,
}

impl LogFile {
    /// A new, empty file at `path`.
    pub(super) fn create(path: &Path, keep_open: bool, extra_latency: Option<Duration>) -> io::Result<Self> {
        let file = File::create(path)?;
        Ok(Self { path: path.to_owned(), kept_open: keep_open.then_some(file), extra_latency })
    }

    /// Appends the line of `operation`; correct only if nobody else appends between its two halves.
    pub(super) fn append(&mut self, operation: &Operation) -> io::Result<()> {
        let length = self.length()?;
        self.write_at_end(&operation.line_at(length))
    }

    /// The first half of an operation.
    pub(super) fn length(&mut self) -> io::Result<u64> {
        match &mut self.kept_open {
            Some(file) => file.seek(SeekFrom::End(0)),
            None => File::open(&self.path)?.seek(SeekFrom::End(0)),
        }
    }

    /// The second half.
    pub(super) fn write_at_end(&mut self, line: &[u8]) -> io::Result<()> {
        match &mut self.kept_open {
            Some(file) => file.write_all(line)?,
            None => OpenOptions::new().append(true).open(&self.path)?.write_all(line)?,
        }
        if let Some(latency) = self.extra_latency {
            thread::sleep(latency);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_states_the_operation_and_the_offset_and_has_the_fixed_length() {
        let operation = Operation { thread: 3, seq: 14, file: 1, content: 0x0123_4567_89ab_cdef };
        let line = operation.line_at(896);
        assert_eq!(line, *b"3 14 1 896 0123456789abcdef0123456789abcdef0123456789abcdef0123\n");
    }

    #[test]
    fn a_thread_draws_the_same_operations_again_and_uses_every_file() {
        let operations: Vec<_> = Operation::of_thread(5, 100, 4).collect();
        assert_eq!(operations, Operation::of_thread(5, 100, 4).collect::<Vec<_>>());
        assert_ne!(operations[0].content, Operation::of_thread(6, 1, 4).next().expect("one operation").content);
        for file in 0..4 {
            assert!(operations.iter().any(|operation| operation.file == file));
        }
    }

    #[test]
    fn appended_lines_state_their_offsets_whether_the_file_is_kept_open_or_not() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for keep_open in [true, false] {
            let path = directory.path().join("log");
            let mut log = LogFile::create(&path, keep_open, None).expect("the directory is writable");
            let operations: Vec<_> = Operation::of_thread(0, 3, 1).collect();
            for operation in &operations {
                log.append(operation).expect("the file is writable");
            }
            let lines = [operations[0].line_at(0), operations[1].line_at(64), operations[2].line_at(128)];
            assert_eq!(std::fs::read(&path).expect("the file is readable"), lines.concat());
        }
    }
}
