//! What files must hold after all operations of all threads, whatever their order.
//!
//! That a line's stated offset is where it starts shows that nothing happened to the file between the two halves of its
//! operation: the transaction and what it deferred were one step.
use std::collections::HashMap;

use thiserror::Error;

use super::log::{LINE_BYTES, Operation};

/// How the files differ from what any order of the operations could give.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WrongLog {
    /// A line is not the one that its operation writes at this place.
    #[error("file {file} has at byte {offset} the line `{found}` instead of `{expected}`")]
    Line {
        /// The file.
        file: usize,
        /// Where the line starts.
        offset: usize,
        /// What stands there.
        found: String,
        /// What its thread and number stand for, with this offset.
        expected: String,
    },
    /// A line that no operation writes into this file.
    #[error("file {file} has at byte {offset} the line `{found}`, which no operation on it writes")]
    Unknown {
        /// The file.
        file: usize,
        /// Where the line starts.
        offset: usize,
        /// What stands there.
        found: String,
    },
    /// Operations of one thread in another order than the thread ran them, or one of them twice.
    #[error("file {file} has at byte {offset} operation {seq} of thread {thread} after its operation {after}")]
    Order {
        /// The file.
        file: usize,
        /// Where the line starts.
        offset: usize,
        /// The thread.
        thread: usize,
        /// The number on the line.
        seq: u64,
        /// The number on the thread's line before.
        after: u64,
    },
    /// Operations without a line.
    #[error("the files have {found} lines of {expected} operations")]
    Missing {
        /// Lines.
        found: u64,
        /// Operations.
        expected: u64,
    },
    /// The counter that the transactions keep beside the file.
    #[error("file {file} has {lines} lines, but the transactions counted {counted}")]
    Count {
        /// The file.
        file: usize,
        /// Lines in the file.
        lines: u64,
        /// The counter.
        counted: u64,
    },
}

/// Checks `files` (contents and counter of each) against the operations of all threads, given by thread.
pub(super) fn verify(files: &[(Vec<u8>, u64)], operations: &[Vec<Operation>]) -> Result<(), WrongLog> {
    let mut lines = 0;
    for (file, (content, counted)) in files.iter().enumerate() {
        let in_file = verify_file(file, content, operations)?;
        if in_file != *counted {
            return Err(WrongLog::Count { file, lines: in_file, counted: *counted });
        }
        lines += in_file;
    }
    // Within a file no operation comes twice, and each belongs to one file: as many lines as operations are all of them.
    let expected = operations.iter().map(|of_thread| of_thread.len() as u64).sum();
    if lines == expected { Ok(()) } else { Err(WrongLog::Missing { found: lines, expected }) }
}

/// Checks each line, and gives their number.
fn verify_file(file: usize, content: &[u8], operations: &[Vec<Operation>]) -> Result<u64, WrongLog> {
    let mut last_seq: HashMap<usize, u64> = HashMap::new();
    for (number, line) in content.chunks(LINE_BYTES).enumerate() {
        let (offset, found) = (number * LINE_BYTES, || String::from_utf8_lossy(line).trim_end().to_owned());
        let Some(operation) = operation_of(line, operations).filter(|operation| operation.file == file) else {
            return Err(WrongLog::Unknown { file, offset, found: found() });
        };
        let expected = operation.line_at(offset as u64);
        if line != expected {
            let expected = String::from_utf8_lossy(&expected).trim_end().to_owned();
            return Err(WrongLog::Line { file, offset, found: found(), expected });
        }
        let Operation { thread, seq, .. } = *operation;
        if let Some(after) = last_seq.insert(thread, seq).filter(|&after| after >= seq) {
            return Err(WrongLog::Order { file, offset, thread, seq, after });
        }
    }
    Ok((content.len() / LINE_BYTES) as u64)
}

fn operation_of<'a>(line: &[u8], operations: &'a [Vec<Operation>]) -> Option<&'a Operation> {
    let mut words = str::from_utf8(line).ok()?.split(' ');
    let (thread, seq): (usize, usize) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    operations.get(thread)?.get(seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads with three operations each on one file.
    fn operations() -> Vec<Vec<Operation>> {
        (0..2).map(|thread| Operation::of_thread(thread, 3, 1).collect()).collect()
    }

    /// The file after `order`, pairs of thread and number.
    fn written(order: &[(usize, usize)]) -> Vec<u8> {
        let operations = operations();
        let lines = order.iter().enumerate();
        lines.flat_map(|(place, &(thread, seq))| operations[thread][seq].line_at((place * LINE_BYTES) as u64)).collect()
    }

    const SERIAL: [(usize, usize); 6] = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)];

    #[test]
    fn any_serial_order_is_right() {
        assert_eq!(verify(&[(written(&SERIAL), 6)], &operations()), Ok(()));
    }

    #[test]
    fn an_offset_that_is_not_the_place_of_its_line_is_found() {
        let operations = operations();
        let stale = [operations[0][0].line_at(0), operations[1][0].line_at(0)].concat();
        let wrong = verify(&[(stale, 2)], &operations);
        assert!(matches!(wrong, Err(WrongLog::Line { file: 0, offset: 64, .. })), "{wrong:?}");
    }

    #[test]
    fn a_torn_line_is_found() {
        let mut torn = written(&SERIAL);
        torn[100] = b'?';
        assert!(matches!(verify(&[(torn, 6)], &operations()), Err(WrongLog::Line { offset: 64, .. })));
        let mut cut = written(&SERIAL);
        cut.truncate(6 * LINE_BYTES - 1);
        assert!(matches!(verify(&[(cut, 6)], &operations()), Err(WrongLog::Line { offset: 320, .. })));
        let mut shifted = written(&SERIAL);
        shifted.remove(3);
        assert!(matches!(verify(&[(shifted, 6)], &operations()), Err(WrongLog::Line { offset: 0, .. })));
    }

    #[test]
    fn lines_of_one_thread_out_of_order_or_twice_are_found() {
        let swapped = verify(&[(written(&[(0, 1), (0, 0)]), 2)], &operations());
        assert_eq!(swapped, Err(WrongLog::Order { file: 0, offset: 64, thread: 0, seq: 0, after: 1 }));
        let twice = verify(&[(written(&[(1, 0), (1, 0)]), 2)], &operations());
        assert_eq!(twice, Err(WrongLog::Order { file: 0, offset: 64, thread: 1, seq: 0, after: 0 }));
    }

    #[test]
    fn a_missing_operation_and_a_wrong_counter_are_found() {
        let all_but_one = written(&SERIAL[..5]);
        let missing = verify(&[(all_but_one, 5)], &operations());
        assert_eq!(missing, Err(WrongLog::Missing { found: 5, expected: 6 }));
        let miscounted = verify(&[(written(&SERIAL), 5)], &operations());
        assert_eq!(miscounted, Err(WrongLog::Count { file: 0, lines: 6, counted: 5 }));
    }

    #[test]
    fn a_line_in_another_operations_file_is_found() {
        let misplaced = verify(&[(Vec::new(), 0), (written(&SERIAL[..1]), 1)], &operations());
        assert!(matches!(misplaced, Err(WrongLog::Unknown { file: 1, offset: 0, .. })));
    }
}
