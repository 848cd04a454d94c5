//! Writes a file from its beginning to its end, where its checksum stands.

use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};

const BYTES_AT_ONCE: usize = 256 << 10;

/// A new file that is not complete yet.
pub(super) struct Output {
    file: Arc<dyn DiskFile>,
    at: u64,
    buffer: Vec<u8>,
    checksum: u32,
}

impl Output {
    /// Begins a file, in the place of one of the same name.
    pub(super) fn create(disk: &dyn Disk, name: &str) -> io::Result<Self> {
        match disk.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { file: disk.create(name)?, at: 0, buffer: Vec::with_capacity(BYTES_AT_ONCE), checksum: 0 })
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend(bytes);
        if self.buffer.len() >= BYTES_AT_ONCE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.at, &self.buffer)?;
        self.checksum = crc32c::crc32c_append(self.checksum, &self.buffer);
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the checksum of everything before and makes the file durable, but not its name.
    pub(super) fn finish(mut self) -> io::Result<Arc<dyn DiskFile>> {
        self.flush()?;
        self.file.write_at(self.at, &self.checksum.to_le_bytes())?;
        self.file.sync()?;
        Ok(self.file)
    }
}
