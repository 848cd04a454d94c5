//! Reads parts of segments through one buffer, so that neighbouring records cost one system call.

use std::io;
use std::sync::Arc;

use super::format::segment_name;
use super::segment::Segment;
use super::store::read_failure;
use crate::disk::{Disk, DiskFile};
use crate::journal::ReadError;

/// The part of a segment that was read last.
pub(super) struct Window<'a> {
    disk: &'a dyn Disk,
    /// How much is read from what was asked for on, as far as the file goes.
    bytes_ahead: usize,
    /// How much is read before what was asked for, if the place asked for before is so near.
    bytes_behind: usize,
    segment: u32,
    file: Option<Arc<dyn DiskFile>>,
    start: usize,
    len: usize,
    /// Longer than `len` where an earlier part was.
    buffer: Vec<u8>,
}

impl<'a> Window<'a> {
    /// A window for reading on from place to place.
    pub(super) fn forward(disk: &'a dyn Disk) -> Self {
        Self::new(disk, 128 << 10, 0)
    }

    /// A window for going back from record to record.
    pub(super) fn backward(disk: &'a dyn Disk) -> Self {
        Self::new(disk, 1 << 10, 31 << 10)
    }

    fn new(disk: &'a dyn Disk, bytes_ahead: usize, bytes_behind: usize) -> Self {
        Self { disk, bytes_ahead, bytes_behind, segment: 0, file: None, start: 0, len: 0, buffer: Vec::new() }
    }

    /// At least `len` bytes from `offset` of `segment`; fewer only where the file ends.
    pub(super) fn get(&mut self, segment: u32, offset: u32, len: usize) -> Result<&[u8], ReadError> {
        let offset = offset as usize;
        let has_all = self.segment == segment && self.start <= offset && offset + len <= self.start + self.len;
        if !has_all {
            self.load(segment, offset, len).map_err(|error| read_failure(segment_name(segment), &error))?;
        }
        Ok(self.buffer[..self.len].get(offset - self.start..).unwrap_or_default())
    }

    fn load(&mut self, segment: u32, offset: usize, len: usize) -> io::Result<()> {
        let (file, is_near) = match self.file.take() {
            Some(file) if self.segment == segment => (file, offset + self.bytes_behind >= self.start),
            _ => (Segment::open(self.disk, segment)?.file, false),
        };
        self.start = if is_near { offset.saturating_sub(self.bytes_behind) } else { offset };
        let wanted = offset - self.start + len.max(self.bytes_ahead);
        if self.buffer.len() < wanted {
            self.buffer = vec![0; wanted];
        }
        self.len = 0;
        self.len = file.read_at(self.start as u64, &mut self.buffer[..wanted])?;
        self.segment = segment;
        self.file = Some(file);
        Ok(())
    }
}
