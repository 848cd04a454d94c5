//! The file of a segment, as it was written or compacted: both read alike.

mod compacted;
mod footer;

use std::io;
use std::sync::Arc;

pub(super) use compacted::{Compacted, Head, Kept};
pub(super) use footer::FooterReader;

use super::OpenError;
use super::format::{segment_name, segment_number};
use super::manifest::Seal;
use super::recover::damage;
use crate::damage::Flaw;
use crate::disk::{Disk, DiskFile, read_all};

const READ_BYTES: usize = 1 << 20;

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    /// Its bytes at the places where they were written. Where records were discarded, there may be zeros.
    pub(super) file: Arc<dyn DiskFile>,
    compacted: Option<Arc<Compacted>>,
}

impl Segment {
    /// Opens segment `number` in `disk`.
    ///
    /// # Errors
    /// When there is none, or as the operating system reports.
    pub(super) fn open(disk: &dyn Disk, number: u32) -> io::Result<Self> {
        let file = disk.open(&segment_name(number))?;
        let compacted = Compacted::open(&file, number)?.map(Arc::new);
        Ok(match compacted {
            Some(compacted) => Self { file: Arc::<Compacted>::clone(&compacted), compacted: Some(compacted) },
            None => Self { file, compacted: None },
        })
    }

    /// What it says of itself if it was compacted.
    pub(super) fn head(&self) -> Option<&Head> {
        self.compacted.as_deref().map(Compacted::head)
    }

    /// Whether it is the segment with `seal`, compacted or not. Reads all of it, or as much as there is time for: after each part,
    /// `goes_on` says.
    pub(super) fn fits(&self, seal: Seal, goes_on: impl FnMut() -> bool) -> io::Result<bool> {
        let Some(compacted) = &self.compacted else {
            let is_long = self.file.size()? == u64::from(seal.len);
            return Ok(is_long && has_checksum(&*self.file, seal.len.into(), seal.checksum, goes_on)?);
        };
        Ok(compacted.head().seal == seal && compacted.is_whole(goes_on)?)
    }
}

/// Whether a compacted segment that could not be read is damaged.
pub(super) fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Whether the first `len` bytes of `file` have `checksum`, as far as there is time to see.
fn has_checksum(file: &dyn DiskFile, len: u64, expected: u32, mut goes_on: impl FnMut() -> bool) -> io::Result<bool> {
    let mut buffer = vec![0; READ_BYTES.min(usize::try_from(len).unwrap_or(READ_BYTES))];
    let (mut at, mut checksum) = (0, 0);
    while at < len {
        let wanted = buffer.len().min(usize::try_from(len - at).unwrap_or(READ_BYTES));
        let read = file.read_at(at, &mut buffer[..wanted])?;
        if read == 0 {
            return Ok(false);
        }
        checksum = crc32c::crc32c_append(checksum, &buffer[..read]);
        at += read as u64;
        if !goes_on() {
            return Ok(true);
        }
    }
    Ok(checksum == expected)
}

/// All of a segment.
pub(super) struct Whole {
    /// Its bytes at the places where they were written; zeros where there are none any more.
    pub(super) bytes: Vec<u8>,
    /// That which the manifest lists if the file is what was written; none if it was compacted and is not.
    pub(super) seal: Option<Seal>,
    /// The classes whose records were discarded from it, if it was compacted.
    pub(super) discarded: Option<Vec<String>>,
}

impl Whole {
    /// Reads segment `number` of `disk`; that there is none is damage.
    pub(super) fn read(disk: &dyn Disk, number: u32) -> Result<Self, OpenError> {
        let read = || {
            let segment = Segment::open(disk, number)?;
            let bytes = read_all(&*segment.file);
            let Some(compacted) = segment.compacted else {
                let bytes = bytes?;
                return Ok(Self { seal: Some(Seal::of(&bytes)), bytes, discarded: None });
            };
            let Head { seal, classes, .. } = compacted.head();
            let (seal, discarded) = (compacted.is_whole(|| true)?.then_some(*seal), Some(classes.clone()));
            match bytes {
                // Its places are not what was written, so nothing of it can be found.
                Err(error) if is_damage(&error) => Ok(Self { bytes: Vec::new(), seal, discarded }),
                bytes => Ok(Self { bytes: bytes?, seal, discarded }),
            }
        };
        read().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => damage(number, 0, Flaw::Missing).into(),
            _ => OpenError::io(&segment_name(number), &error),
        })
    }
}

/// The classes whose records were discarded from some segment of `disk`, the first of which have `seals`.
///
/// # Errors
/// As the operating system reports.
pub(super) fn discarded_classes(disk: &dyn Disk, seals: &[Seal]) -> Result<Vec<String>, OpenError> {
    let mut classes = Vec::new();
    let names = disk.names().map_err(|error| OpenError::io(".", &error))?;
    for (name, number) in names.iter().filter_map(|name| Some((name, segment_number(name)?))) {
        let failed = |error: io::Error| OpenError::io(name, &error);
        // A compacted one is shorter than it was.
        let seal = seals.get(number as usize - 1);
        if let Some(seal) = seal
            && disk.look_up(name).map_err(failed)?.size == u64::from(seal.len)
        {
            continue;
        }
        let segment = Segment::open(disk, number).map_err(failed)?;
        classes.extend(segment.head().into_iter().flat_map(|head| head.classes.iter().cloned()));
    }
    classes.sort_unstable();
    classes.dedup();
    Ok(classes)
}
