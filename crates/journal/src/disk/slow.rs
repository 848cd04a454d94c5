//! A disk that takes its time.

use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Disk, DiskFile, DiskLock, FileStatus, LockError};

/// A disk of which each sync takes at least so long, whatever it takes where a measurement runs.
#[derive(Debug)]
pub struct SlowDisk {
    disk: Arc<dyn Disk>,
    sync: Duration,
}

impl SlowDisk {
    /// `disk`, of which a sync takes `sync` or longer.
    pub fn new(disk: Arc<dyn Disk>, sync: Duration) -> Self {
        Self { disk, sync }
    }

    fn slow(&self, file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
        file.map(|file| -> Arc<dyn DiskFile> { Arc::new(SlowFile { file, sync: self.sync }) })
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn DiskFile>,
    sync: Duration,
}

fn lasting(time: Duration, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let begun = Instant::now();
    let result = sync();
    sleep(time.saturating_sub(begun.elapsed()));
    result
}

impl Disk for SlowDisk {
    fn fresh_id(&self) -> u64 {
        self.disk.fresh_id()
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        self.disk.lock()
    }

    fn is_locked(&self) -> io::Result<bool> {
        self.disk.is_locked()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.slow(self.disk.create(name))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.slow(self.disk.open(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn look_up(&self, name: &str) -> io::Result<FileStatus> {
        self.disk.look_up(name)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes()
    }

    fn check_place(&self) -> io::Result<()> {
        self.disk.check_place()
    }

    fn sync(&self) -> io::Result<()> {
        lasting(self.sync, || self.disk.sync())
    }
}

impl DiskFile for SlowFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }

    fn is_linked(&self) -> io::Result<bool> {
        self.file.is_linked()
    }

    fn sync(&self) -> io::Result<()> {
        lasting(self.sync, || self.file.sync())
    }
}
