//! S4-L3, S4-L6, S4-L7: logging from critical sections, offsets, and a device that fails.
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::sync::Arc;
use std::thread;

use enact_stm::{Deferrable, TCell, atomically};

use crate::{BOTH, How, once, panic_of};

const THREADS: u64 = 4;
const EACH: u64 = 50;

fn text_of(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().expect("a file can be rewound");
    file.read_to_string(&mut text).expect("lines of text");
    text
}

fn temporary_file() -> File {
    tempfile::tempfile().expect("a temporary file can be made")
}

// Case S4-L3.
#[test]
fn lines_logged_through_an_object_are_whole_and_in_the_order_of_the_commits() {
    for how in BOTH {
        let (commits, log) = (TCell::new(0_u64), crate::object(temporary_file()));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (commits, log) = (&commits, &log);
                scope.spawn(move || {
                    for _ in 0..EACH {
                        once(|tx| {
                            let number = tx.update(commits, |n| n + 1)?;
                            how.defer(tx, (log,), move |(log,)| {
                                // In pieces, which would mix with those of others.
                                write!(**log, "commit {number} ").expect("space on the disk");
                                thread::yield_now();
                                writeln!(**log, "of thread {thread}").expect("space on the disk");
                            })
                            .map(drop)
                        });
                    }
                });
            }
        });
        let text = text_of(crate::private_of(log));
        assert_eq!(text.lines().count() as u64, THREADS * EACH);
        for (n, line) in text.lines().enumerate() {
            let thread = line.strip_prefix(&format!("commit {} of thread ", n + 1));
            let thread: u64 = thread.and_then(|rest| rest.parse().ok()).unwrap_or_else(|| panic!("{how:?}: {line}"));
            assert!(thread < THREADS);
        }
    }
}

// Case S4-L3.
#[test]
fn lines_logged_without_an_object_are_all_there_in_any_order() {
    for how in BOTH {
        let (commits, log) = (TCell::new(0_u64), Arc::new(temporary_file()));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        once(|tx| {
                            let number = tx.update(&commits, |n| n + 1)?;
                            let log = Arc::clone(&log);
                            how.defer(tx, (), move |()| {
                                (&*log).write_all(format!("{number}\n").as_bytes()).expect("space on the disk");
                            })
                            .map(drop)
                        });
                    }
                });
            }
        });
        let text = text_of(Arc::into_inner(log).expect("all operations are over"));
        let mut numbers: Vec<u64> = text.lines().map(|line| line.parse().expect("whole lines")).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=THREADS * EACH), "{how:?}");
    }
}

// Case S4-L6.
#[test]
fn every_line_states_the_offset_at_which_it_lies() {
    type Log = Deferrable<TCell<u64>, File>;
    for how in BOTH {
        let logs: [Arc<Log>; 2] = std::array::from_fn(|_| Arc::new(Deferrable::new(TCell::new(0), temporary_file())));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let logs = &logs;
                scope.spawn(move || {
                    for n in 0..EACH {
                        let log = &logs[(n % 2) as usize];
                        once(|tx| {
                            let length = tx.open(log)?;
                            let offset = tx.read(length)?;
                            let line = format!("{offset} thread {thread} line {n}\n");
                            tx.write(length, offset + line.len() as u64)?;
                            how.defer(tx, (log,), move |(log,)| log.write_all(line.as_bytes()).expect("space"))
                                .map(drop)
                        });
                    }
                });
            }
        });
        let mut lines = 0;
        for log in logs {
            let (length, file) = Arc::into_inner(log).expect("nobody else has it").into_inner();
            let text = text_of(file);
            assert_eq!(length.into_inner(), text.len() as u64);
            let mut offset = 0;
            for line in text.split_inclusive('\n') {
                assert!(line.starts_with(&format!("{offset} thread ")), "{how:?}: at {offset}: {line}");
                offset += line.len();
                lines += 1;
            }
        }
        assert_eq!(lines, THREADS * EACH);
    }
}

/// What happens at the next write to a device.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Only so many bytes are taken.
    Short(usize),
    Transient,
    Fatal,
}

/// A device that works again when its faults are used up.
struct Device {
    bytes: Vec<u8>,
    faults: VecDeque<Fault>,
}

impl Write for Device {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = match self.faults.pop_front() {
            None => bytes.len(),
            Some(Fault::Short(count)) => count.min(bytes.len()),
            Some(Fault::Transient) => return Err(ErrorKind::TimedOut.into()),
            Some(Fault::Fatal) => return Err(ErrorKind::StorageFull.into()),
        };
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes everything, trying again what may be tried again.
fn append(device: &mut Device, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match device.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn device(faults: &[Fault]) -> Arc<Deferrable<TCell<u32>, Device>> {
    Arc::new(Deferrable::new(TCell::new(0), Device { bytes: vec![], faults: faults.iter().copied().collect() }))
}

/// Counts a line, and writes it behind the commit; a device that fails for good is taken out of service.
fn log(how: How, device: &Arc<Deferrable<TCell<u32>, Device>>, line: &'static str) -> Result<(), ErrorKind> {
    let written = atomically(|tx| {
        let lines = tx.open(device)?;
        tx.update(lines, |n| n + 1)?;
        how.defer(tx, (device,), move |(device,)| {
            append(device, line.as_bytes()).map_err(|error| {
                device.poison();
                error.kind()
            })
        })
    })
    .run();
    written.take().expect("the operation has ended")
}

// Case S4-L7.
#[test]
fn short_writes_and_transient_errors_are_overcome_inside_the_operation() {
    for how in BOTH {
        let device = device(&[Fault::Short(3), Fault::Transient, Fault::Short(0), Fault::Transient, Fault::Short(1)]);
        assert_eq!(log(how, &device, "first line\n"), Ok(()));
        assert_eq!(log(how, &device, "second line\n"), Ok(()));
        let (lines, device) = Arc::into_inner(device).expect("nobody else has it").into_inner();
        assert_eq!(lines.into_inner(), 2);
        assert_eq!(String::from_utf8_lossy(&device.bytes), "first line\nsecond line\n", "{how:?}: all bytes, once");
        assert!(device.faults.is_empty());
    }
}

// Case S4-L7.
#[test]
fn a_fatal_error_takes_the_object_out_of_service_and_leaves_others_alone() {
    for how in BOTH {
        let (bad, good) = (device(&[Fault::Short(4), Fault::Fatal]), device(&[]));
        assert_eq!(log(how, &bad, "first line\n"), Err(ErrorKind::StorageFull));
        assert!(bad.is_poisoned());
        let refused = panic_of(|| log(how, &bad, "never written\n"));
        assert!(refused.contains("unknown state"), "{refused}");
        assert_eq!(log(how, &good, "elsewhere\n"), Ok(()));
        assert!(!good.is_poisoned());

        // The commit that promised the line stands; those who repair the device see what is missing.
        bad.heal(Device { bytes: b"first line\n".to_vec(), faults: VecDeque::new() });
        assert_eq!(log(how, &bad, "second line\n"), Ok(()));
        let (lines, device) = Arc::into_inner(bad).expect("nobody else has it").into_inner();
        assert_eq!(lines.into_inner(), 2);
        assert_eq!(String::from_utf8_lossy(&device.bytes), "first line\nsecond line\n", "{how:?}");
    }
}
