//! Reads the entities of checkpoints and footers one after the other, in little memory.

use std::io;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::record::EntityKey;

/// Reads a file forward.
#[derive(Debug)]
pub(super) struct Reader {
    file: Arc<dyn DiskFile>,
    /// Where the bytes behind those in the buffer are.
    next: u64,
    buffer: Vec<u8>,
    from: usize,
    bytes_at_once: usize,
}

impl Reader {
    /// Reads `file` from `at` on.
    pub(super) fn new(file: Arc<dyn DiskFile>, at: u64, bytes_at_once: usize) -> Self {
        Self { file, next: at, buffer: Vec::new(), from: 0, bytes_at_once }
    }

    /// The offset of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.next - (self.buffer.len() - self.from) as u64
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        if self.buffer.len() - self.from < len {
            self.fill(len)?;
        }
        self.from += len;
        Ok(&self.buffer[self.from - len..self.from])
    }

    /// Passes over `len` bytes.
    pub(super) fn skip(&mut self, len: u64) -> io::Result<()> {
        if let Some(from) =
            usize::try_from(len).ok().map(|len| self.from + len).filter(|from| *from <= self.buffer.len())
        {
            self.from = from;
            return Ok(());
        }
        let at = self.at() + len;
        if at > self.file.size()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.next, self.from) = (at, 0);
        self.buffer.clear();
        Ok(())
    }

    fn fill(&mut self, len: usize) -> io::Result<()> {
        self.buffer.drain(..self.from);
        self.from = 0;
        let kept = self.buffer.len();
        self.buffer.resize(len.max(self.bytes_at_once), 0);
        let read = self.file.read_at(self.next, &mut self.buffer[kept..])?;
        self.buffer.truncate(kept + read);
        self.next += read as u64;
        if self.buffer.len() < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// The key with these bytes.
pub(super) fn key(bytes: &[u8]) -> io::Result<EntityKey> {
    let key = str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    key.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it has a malformed key"))
}
