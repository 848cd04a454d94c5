//! A segment without the records that were [discarded](crate::embedded::compaction).
//!
//! ```text
//! file := header, class name*, place*, kept bytes, checksum
//! ```
//! It has the kept bytes of the segment, stretch by stretch, and says where each stretch was: whatever reads the segment finds
//! each of them at its old place, and zeros in between. Records keep their addresses, so nothing that refers to one changes. Where
//! the first discarded record of a group was, a [gap](crate::embedded::format) stands. The footer is one of the kept records; its
//! hash stays that of the segment as it was written, which the next segment repeats.
//!
//! All numbers are little-endian, checksums are CRC32C. The one at the end covers all bytes before it.
//!
//! | header | | place | |
//! |---|---|---|---|
//! | 0 | magic | 0 | offset in the segment |
//! | 8 | version, 0 | 4 | offset in the file |
//! | 12 | segment number | | |
//! | 16 | log id | | |
//! | 24 | length of the segment as it was written | | |
//! | 28 | its checksum, as the manifest lists it | | |
//! | 32 | length of the segment as it reads | | |
//! | 36 | stretch count | | |
//! | 40 | class count | | |
//! | 44 | length of the class names, each two bytes with its length and then its text | | |
//! | 48 | how many of the records that the footer counts were discarded | | |
//! | 56 | 0 | | |
//! | 60 | checksum of the header before it | | |
//!
//! There is a place for each stretch, in order, and one for their end.

use std::io;
use std::sync::Arc;

use super::has_checksum;
use crate::disk::DiskFile;
use crate::embedded::format::LogId;
use crate::embedded::manifest::Seal;
use crate::numbers::{u16_at, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"ENACTCMP";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 64;
const PLACE_LEN: usize = 8;
/// How many places are read at once.
const PLACES_AT_ONCE: u32 = 128;

/// What a compacted segment says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Head {
    pub(in crate::embedded) number: u32,
    pub(in crate::embedded) log: LogId,
    /// That of the segment as it was written.
    pub(in crate::embedded) seal: Seal,
    /// The length of the segment as it reads.
    pub(in crate::embedded) len: u32,
    /// The classes whose records were discarded.
    pub(in crate::embedded) classes: Vec<String>,
    /// How many of the records that the footer counts were discarded: tombstones stand for them.
    pub(in crate::embedded) superseded: u64,
}

/// A stretch of bytes that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Kept {
    /// Where it begins in the segment.
    pub(in crate::embedded) at: u32,
    pub(in crate::embedded) len: u32,
}

impl Head {
    /// The bytes before those that are kept.
    pub(in crate::embedded) fn encode(&self, kept: &[Kept]) -> Vec<u8> {
        let names_len: usize = self.classes.iter().map(|name| 2 + name.len()).sum();
        let mut out = Vec::with_capacity(HEADER_LEN + names_len + PLACE_LEN * (kept.len() + 1));
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2]);
        out.extend(self.number.to_le_bytes());
        out.extend(self.log.0.to_le_bytes());
        let lens = [self.seal.len, self.seal.checksum, self.len];
        for number in lens.into_iter().chain([kept.len() as u32, self.classes.len() as u32, names_len as u32]) {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.superseded.to_le_bytes());
        out.resize(HEADER_LEN - 4, 0);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        for name in &self.classes {
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name.as_bytes());
        }
        let mut at = (HEADER_LEN + names_len + PLACE_LEN * (kept.len() + 1)) as u32;
        for stretch in kept {
            out.extend(stretch.at.to_le_bytes());
            out.extend(at.to_le_bytes());
            at += stretch.len;
        }
        out.extend(self.len.to_le_bytes());
        out.extend(at.to_le_bytes());
        out
    }

    /// The head, how many stretches there are, and where their places begin.
    fn decode(file: &dyn DiskFile, number: u32) -> io::Result<Option<(Self, u32, u64)>> {
        let mut bytes = [0; HEADER_LEN];
        let is_long = file.read_at(0, &mut bytes)? == HEADER_LEN;
        let is_valid = is_long
            && bytes[..8] == MAGIC
            && u16_at(&bytes, 8) == VERSION
            && u32_at(&bytes, 12) == number
            && u32_at(&bytes, HEADER_LEN - 4) == crc32c::crc32c(&bytes[..HEADER_LEN - 4]);
        if !is_valid {
            return Ok(None);
        }
        let names_len = u32_at(&bytes, 44);
        let mut names = vec![0; u64::from(names_len).min(file.size()?) as usize];
        file.read_at(HEADER_LEN as u64, &mut names)?;
        let Some(classes) = decode_names(&names, u32_at(&bytes, 40)) else { return Ok(None) };
        let head = Self {
            number,
            log: LogId(u64_at(&bytes, 16)),
            seal: Seal { len: u32_at(&bytes, 24), checksum: u32_at(&bytes, 28) },
            len: u32_at(&bytes, 32),
            classes,
            superseded: u64_at(&bytes, 48),
        };
        Ok(Some((head, u32_at(&bytes, 36), HEADER_LEN as u64 + u64::from(names_len))))
    }
}

fn decode_names(bytes: &[u8], count: u32) -> Option<Vec<String>> {
    let mut rest = bytes;
    let mut take = |len: usize| {
        let (taken, left) = rest.split_at_checked(len)?;
        rest = left;
        Some(taken)
    };
    let mut names = Vec::new();
    for _ in 0..count {
        let len = usize::from(u16_at(take(2)?, 0));
        names.push(str::from_utf8(take(len)?).ok()?.to_owned());
    }
    rest.is_empty().then_some(names)
}

/// An open file of this form; reads as the segment.
#[derive(Debug)]
pub(in crate::embedded) struct Compacted {
    file: Arc<dyn DiskFile>,
    head: Head,
    kept_count: u32,
    /// Where the places begin.
    places_at: u64,
}

/// Where a stretch begins.
#[derive(Clone, Copy, Debug)]
struct Place {
    in_segment: u32,
    in_file: u32,
}

/// A part of a stretch.
#[derive(Clone, Copy, Debug)]
struct Part {
    in_segment: u32,
    in_file: u32,
    len: u32,
}

impl Compacted {
    /// `file` as segment `number`, if it has this form and its header is whole.
    pub(in crate::embedded) fn open(file: &Arc<dyn DiskFile>, number: u32) -> io::Result<Option<Self>> {
        let found = Head::decode(&**file, number)?;
        Ok(found.map(|(head, kept_count, places_at)| Self { file: Arc::clone(file), head, kept_count, places_at }))
    }

    pub(in crate::embedded) fn head(&self) -> &Head {
        &self.head
    }

    /// Whether the file is what was written; reads all of it, or as much as there is time for: after each part, `goes_on` says.
    pub(super) fn is_whole(&self, goes_on: impl FnMut() -> bool) -> io::Result<bool> {
        let Some(len) = self.file.size()?.checked_sub(4) else { return Ok(false) };
        let mut checksum = [0; 4];
        self.file.read_at(len, &mut checksum)?;
        has_checksum(&*self.file, len, u32::from_le_bytes(checksum), goes_on)
    }

    /// The places from that of stretch `index` on, as many as are read at once: two at least.
    fn places(&self, index: u32) -> io::Result<Vec<Place>> {
        let count = (self.kept_count + 1 - index).min(PLACES_AT_ONCE) as usize;
        let mut bytes = vec![0; PLACE_LEN * count];
        let at = self.places_at + PLACE_LEN as u64 * u64::from(index);
        if self.file.read_at(at, &mut bytes)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let place = |bytes: &[u8]| Place { in_segment: u32_at(bytes, 0), in_file: u32_at(bytes, 4) };
        Ok(bytes.chunks_exact(PLACE_LEN).map(place).collect())
    }

    /// Places read at once, of which the first is not behind `offset` and the last is, and the stretch of the first.
    ///
    /// Stretches are spread over a segment evenly enough for a guess. One that is wrong bounds the next, and every other one halves
    /// what is left.
    fn places_around(&self, offset: u32) -> io::Result<(u32, Vec<Place>)> {
        let (mut low, mut low_at) = (0, 0);
        let (mut high, mut high_at) = (self.kept_count, self.head.len);
        for round in 0_u32.. {
            let within = u64::from(offset - low_at) * u64::from(high - low) / u64::from(high_at - low_at).max(1);
            let guess = if round.is_multiple_of(2) { within as u32 } else { (high - low) / 2 };
            let index = low + guess.saturating_sub(PLACES_AT_ONCE / 2).min((high - low).saturating_sub(1));
            let places = self.places(index)?;
            let (Some(first), Some(last)) = (places.first(), places.last()) else { break };
            let last_index = index + places.len() as u32 - 1;
            if first.in_segment > offset {
                (high, high_at) = (index, first.in_segment);
            } else if last.in_segment > offset || last_index == self.kept_count {
                return Ok((index, places));
            } else {
                (low, low_at) = (last_index, last.in_segment);
            }
            if low >= high || low_at > offset || high_at <= offset {
                break;
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// What is kept of the segment from `start` to `end`, in order.
    fn parts(&self, start: u32, end: u32) -> io::Result<Vec<Part>> {
        let (mut index, mut places) = self.places_around(start)?;
        let mut parts = Vec::new();
        loop {
            for pair in places.windows(2) {
                let Place { in_segment, in_file } = pair[0];
                if in_segment >= end {
                    return Ok(parts);
                }
                let len = pair[1].in_file.checked_sub(in_file).ok_or(io::ErrorKind::InvalidData)?;
                let (from, to) = (in_segment.max(start), in_segment.saturating_add(len).min(end));
                if from < to {
                    parts.push(Part { in_segment: from, in_file: in_file + (from - in_segment), len: to - from });
                }
            }
            index += places.len() as u32 - 1;
            if index >= self.kept_count {
                return Ok(parts);
            }
            places = self.places(index)?;
        }
    }
}

impl DiskFile for Compacted {
    fn size(&self) -> io::Result<u64> {
        Ok(self.head.len.into())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let Some(start) = u32::try_from(offset).ok().filter(|start| *start < self.head.len) else { return Ok(0) };
        let len = buf.len().min((self.head.len - start) as usize);
        let end = start + len as u32;
        let buf = &mut buf[..len];
        buf.fill(0);
        let parts = self.parts(start, end)?;
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(len) };
        let (from, to) = (first.in_file, last.in_file + last.len);
        let mut kept = vec![0; to.checked_sub(from).ok_or(io::ErrorKind::InvalidData)? as usize];
        let read = self.file.read_at(from.into(), &mut kept)?;
        for part in parts {
            let at = part.in_file.checked_sub(from).ok_or(io::ErrorKind::InvalidData)? as usize;
            let found = kept[..read].get(at..at + part.len as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
            buf[(part.in_segment - start) as usize..][..found.len()].copy_from_slice(found);
        }
        Ok(len)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_size(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn is_linked(&self) -> io::Result<bool> {
        self.file.is_linked()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disk::OsDisk;
    use crate::embedded::format::segment_name;
    use crate::embedded::output::Output;
    use crate::embedded::segment::Segment;

    /// Stretches of a segment of `len` bytes: those between the ends of the even and the odd ones of `cuts`.
    fn stretches(cuts: &[u32], len: u32) -> Vec<Kept> {
        let ends: Vec<u32> = [&[0], cuts, &[len]].concat();
        ends.chunks_exact(2).map(|pair| Kept { at: pair[0], len: pair[1] - pair[0] }).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_part_reads_as_it_was_written_with_zeros_where_nothing_is_kept(
            bytes in prop::collection::vec(1..=255_u8, 1..3000),
            cuts in prop::collection::btree_set(1..3000_u32, 0..400),
            parts in prop::collection::vec((0..3100_usize, 0..3100_usize), 20),
        ) {
            let len = bytes.len() as u32;
            let mut cuts: Vec<u32> = cuts.into_iter().filter(|cut| *cut < len).collect();
            cuts.truncate(cuts.len() / 2 * 2);
            let kept = stretches(&cuts, len);
            let seal = Seal { len: len + 1, checksum: 7 };
            let classes = vec![".answer-1".to_owned(), String::new(), "b".repeat(300)];
            let head = Head { number: 3, log: LogId(9), seal, len, classes, superseded: 1 << 40 };
            let place = tempfile::tempdir().expect("a directory");
            let disk = OsDisk::at(&place.path().join("data")).expect("a directory");
            let mut out = Output::create(&disk, &segment_name(3)).expect("new");
            out.put(&head.encode(&kept)).expect("written");
            let mut expected = vec![0; bytes.len()];
            for Kept { at, len } in &kept {
                let stretch = *at as usize..(at + len) as usize;
                out.put(&bytes[stretch.clone()]).expect("written");
                expected[stretch.clone()].copy_from_slice(&bytes[stretch]);
            }
            out.finish().expect("durable");

            let segment = Segment::open(&disk, 3).expect("there");
            prop_assert_eq!(segment.head(), Some(&head));
            prop_assert!(segment.fits(seal, || true).expect("readable"));
            let other = Seal { checksum: 8, ..seal };
            prop_assert!(!segment.fits(other, || true).expect("readable"));
            for (offset, wanted) in parts {
                let mut read = vec![0xee; wanted];
                let count = segment.file.read_at(offset as u64, &mut read).expect("readable");
                let end = (offset + wanted).min(expected.len());
                let found = expected.get(offset..end).unwrap_or_default();
                prop_assert_eq!(&read[..count], found, "{} bytes at {}", wanted, offset);
            }
        }
    }
}
