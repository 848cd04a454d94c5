//! Writing packets whole to a device that may take less than it is given.
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::Duration;

/// What packets are written to.
pub(super) trait Device: Send {
    /// Takes some of `bytes`, and tells how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Returns once everything taken is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Device for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A file on a disk of a known latency, which no other program can change.
pub(super) struct SlowFile {
    pub(super) file: File,
    pub(super) sync_latency: Duration,
}

impl Device for SlowFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut self.file, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        thread::sleep(self.sync_latency);
        Ok(())
    }
}

/// The end of the pipeline.
pub(super) struct Output {
    device: Box<dyn Device>,
    /// Whether a packet counts as done only when it is on the disk.
    sync: bool,
    done: u64,
}

impl Output {
    pub(super) fn new(device: Box<dyn Device>, sync: bool) -> Self {
        Self { device, sync, done: 0 }
    }

    /// Writes all of `packet`, syncs it if asked to, and only then counts it as done.
    ///
    /// Short writes go on where they stopped and transient errors are tried again; with any other error part of the
    /// packet may be in the file, and the packet is not done.
    pub(super) fn put(&mut self, packet: &[u8]) -> io::Result<()> {
        let mut rest = packet;
        while !rest.is_empty() {
            match self.device.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(taken) => rest = &rest[taken..],
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if self.sync {
            self.device.sync()?;
        }
        self.done += 1;
        Ok(())
    }

    /// Packets that are done.
    pub(super) fn done(&self) -> u64 {
        self.done
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

#[cfg(test)]
pub(super) mod faulty {
    use std::sync::{Arc, Mutex};

    use enact_workloads::SplitMix64;

    use super::*;

    /// What a device was asked for, shared with the test.
    #[derive(Debug, Default)]
    pub(in super::super) struct Record {
        pub(in super::super) bytes: Vec<u8>,
        /// Lengths of the file at which a sync came.
        pub(in super::super) synced_at: Vec<usize>,
        pub(in super::super) transient_errors: usize,
        pub(in super::super) short_writes: usize,
    }

    /// Interrupts, blocks and takes too little, as drawn; fails for good once it holds `capacity` bytes.
    pub(in super::super) struct FaultyDevice {
        draws: SplitMix64,
        capacity: usize,
        record: Arc<Mutex<Record>>,
    }

    impl FaultyDevice {
        pub(in super::super) fn new(seed: u64, capacity: usize) -> (Self, Arc<Mutex<Record>>) {
            let record = Arc::default();
            (Self { draws: SplitMix64::new(seed), capacity, record: Arc::clone(&record) }, record)
        }
    }

    impl Device for FaultyDevice {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut record = self.record.lock().expect("no test panics here");
            if record.bytes.len() >= self.capacity {
                return Err(ErrorKind::StorageFull.into());
            }
            let transient = [ErrorKind::Interrupted, ErrorKind::WouldBlock];
            let taken = match self.draws.below(4) {
                fault @ 0..2 => {
                    record.transient_errors += 1;
                    return Err(transient[usize::try_from(fault).expect("0 or 1")].into());
                }
                2 => 1 + usize::try_from(self.draws.below(bytes.len() as u64)).expect("less than a length"),
                _ => bytes.len(),
            };
            record.short_writes += usize::from(taken < bytes.len());
            record.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn sync(&mut self) -> io::Result<()> {
            let mut record = self.record.lock().expect("no test panics here");
            let length = record.bytes.len();
            record.synced_at.push(length);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::faulty::FaultyDevice;
    use super::*;

    #[test]
    fn packets_arrive_whole_whatever_the_device_takes_at_once() {
        let (device, record) = FaultyDevice::new(11, usize::MAX);
        let mut output = Output::new(Box::new(device), true);
        let packets: Vec<Vec<u8>> = (1..100).map(|length| vec![length; usize::from(length)]).collect();
        let mut ends = Vec::new();
        for packet in &packets {
            output.put(packet).expect("all errors are transient");
            ends.push(ends.last().unwrap_or(&0) + packet.len());
        }
        let record = record.lock().expect("no thread panicked");
        assert_eq!(record.bytes, packets.concat());
        assert_eq!(record.synced_at, ends, "a sync after the last byte of each packet, and no other");
        assert_eq!(output.done(), 99);
        assert!(record.transient_errors > 0 && record.short_writes > 0, "{record:?} has no fault");
    }

    #[test]
    fn a_packet_that_the_device_refuses_is_neither_synced_nor_done() {
        let (device, record) = FaultyDevice::new(12, 10);
        let mut output = Output::new(Box::new(device), true);
        output.put(&[1; 10]).expect("there is room");
        let refused = output.put(&[2; 10]).expect_err("there is no room");
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        assert_eq!(output.done(), 1);
        assert_eq!(record.lock().expect("no thread panicked").synced_at, [10]);
    }

    #[test]
    fn without_sync_nothing_is_synced() {
        let (device, record) = FaultyDevice::new(13, usize::MAX);
        let mut output = Output::new(Box::new(device), false);
        output.put(&[1; 10]).expect("all errors are transient");
        assert_eq!((output.done(), record.lock().expect("no thread panicked").synced_at.len()), (1, 0));
    }

    #[test]
    fn a_device_that_takes_nothing_is_an_error() {
        struct Full;
        impl Device for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Ok(0)
            }
            fn sync(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let refused = Output::new(Box::new(Full), false).put(b"packet").expect_err("nothing was taken");
        assert_eq!(refused.kind(), ErrorKind::WriteZero);
    }
}
