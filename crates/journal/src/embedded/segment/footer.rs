//! Reads the footer of a sealed segment part by part, in little memory.

use std::io;
use std::sync::Arc;

use super::{READ_BYTES, Segment};
use crate::disk::DiskFile;
use crate::embedded::format::{
    Address, FOOTER_HEADER_LEN, Footer, FooterHead, LogId, MARK_LEN, Mark, SHARE_LEN, Share, TRAILER_LEN, segment_name,
};
use crate::embedded::reader::{self, Reader};
use crate::numbers::{u16_at, u32_at};
use crate::record::EntityKey;

/// How much of the entities is read at once: a thousand footers may be read beside each other.
const BYTES_AT_ONCE: usize = 16 << 10;

/// The footer of a sealed segment, its checksum verified.
pub(in crate::embedded) struct FooterReader {
    file: Arc<dyn DiskFile>,
    /// Where it begins, behind the groups.
    pub(in crate::embedded) start: u32,
    pub(in crate::embedded) head: FooterHead,
    /// Where the marks begin.
    marks_at: u64,
}

impl FooterReader {
    /// Opens the footer of `segment`, which is number `number` of the log.
    ///
    /// # Errors
    /// As the operating system reports, and when it is not what was written.
    pub(in crate::embedded) fn open(segment: &Segment, log: LogId, number: u32) -> io::Result<Self> {
        let file = Arc::clone(&segment.file);
        let wrong = || {
            let why = format!("{} has no valid footer", segment_name(number));
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let trailer_at = file.size()?.checked_sub(TRAILER_LEN as u64).ok_or_else(wrong)?;
        let mut trailer = [0; TRAILER_LEN];
        file.read_at(trailer_at, &mut trailer)?;
        let len = Footer::announced_len(&trailer).ok_or_else(wrong)?;
        let start = trailer_at.checked_sub(len as u64).and_then(|start| u32::try_from(start).ok()).ok_or_else(wrong)?;
        let mut reader = Reader::new(Arc::clone(&file), start.into(), READ_BYTES.min(len));
        let bytes = reader.take(FOOTER_HEADER_LEN)?;
        let (stored, mut checksum) = (u32_at(bytes, 0), crc32c::crc32c(&bytes[4..]));
        let head = FooterHead::decode(bytes, log, Address::new(number, start)).ok_or_else(wrong)?;
        let mut rest = len - FOOTER_HEADER_LEN;
        while rest > 0 {
            let part = reader.take(rest.min(READ_BYTES))?;
            checksum = crc32c::crc32c_append(checksum, part);
            rest -= part.len();
        }
        let marks_at = trailer_at.checked_sub((MARK_LEN * head.mark_count as usize) as u64);
        match marks_at {
            Some(marks_at) if stored == checksum => Ok(Self { file, start, head, marks_at }),
            _ => Err(wrong()),
        }
    }

    /// Its marks.
    pub(in crate::embedded) fn marks(&self) -> io::Result<Vec<Mark>> {
        let mut bytes = vec![0; MARK_LEN * self.head.mark_count as usize];
        let read = self.file.read_at(self.marks_at, &mut bytes)?;
        let marks = bytes[..read].chunks_exact(MARK_LEN).map(Mark::decode).collect::<Option<Vec<_>>>();
        let is_all = |marks: &Vec<Mark>| marks.len() == self.head.mark_count as usize;
        marks.filter(is_all).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// What it says of each entity, in order of the keys.
    pub(in crate::embedded) fn entities(&self) -> impl Iterator<Item = io::Result<(EntityKey, Share)>> + use<> {
        let at = u64::from(self.start) + FOOTER_HEADER_LEN as u64;
        let len = usize::try_from(self.marks_at.saturating_sub(at)).unwrap_or(BYTES_AT_ONCE);
        let mut reader = Reader::new(Arc::clone(&self.file), at, BYTES_AT_ONCE.min(len));
        (0..self.head.entity_count).map(move |_| {
            let len = usize::from(u16_at(reader.take(2)?, 0));
            let entity = reader::key(reader.take(len)?)?;
            let share = Share::decode(reader.take(SHARE_LEN)?).ok_or(io::ErrorKind::InvalidData)?;
            Ok((entity, share))
        })
    }
}
