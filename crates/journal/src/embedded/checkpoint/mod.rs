//! Where every entity ended at some sealed segment: a start reads the segments behind it instead of all of them.
//!
//! ```text
//! checkpoint := header, class*, extent*, entity*, end
//! ```
//! A file of its own, which is replaced as a whole. Everything in it can be found in the segments, so it can be deleted at
//! any time, and one that is damaged, or of another log, is passed over with a warning. Numbers are little-endian.
//!
//! | header | | class | | extent | | entity | | end | |
//! |---|---|---|---|---|---|---|---|---|---|
//! | 0 | magic | 0 | length | 0 | first position | 0 | key length | 0 | 0 |
//! | 8 | version, 0 | 2 | name | 8 | end of the groups | 2 | key | 2 | checksum of all before |
//! | 16 | log id | | | 12 | mark count | | seq | | |
//! | 24 | number of segments | | | 16 | marks | | address | | |
//! | 28 | length of the last one | | | | | | | | |
//! | 32 | checksum of the last one | | | | | | | | |
//! | 36 | number of classes | | | | | | | | |
//! | 40 | last position | | | | | | | | |
//! | 48 | hash of the last segment | | | | | | | | |
//!
//! # Classes
//! Entities of [forgotten](crate::Journal::forget) classes are left out, and their classes are named. A start that does not forget all
//! of these cannot use the checkpoint.
//!
//! # What is not read at a start
//! The bytes of the segments that a checkpoint covers are checked [in the background](super::upkeep) once the journal is
//! open, and by every read of a record.

mod merge;

use std::io;
use std::sync::Arc;

pub(super) use self::merge::merge;
use super::catalog::Extent;
use super::format::{Address, Hash, LogId, Mark, segment_name};
use super::manifest::Seal;
use super::reader::{self, Reader};
use super::scan::Tip;
use super::segment::Segment;
use crate::disk::{Disk, DiskFile};
use crate::numbers::{u16_at, u32_at, u64_at};
use crate::record::{EntityKey, Position, Seq};

pub(super) const CHECKPOINT: &str = "checkpoint";

const MAGIC: [u8; 8] = *b"ENACTCKP";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 80;
const END_LEN: usize = 6;
/// How much is read at once.
const READ_BYTES: usize = 256 << 10;

/// A whole checkpoint on the disk.
#[derive(Debug)]
pub(super) struct Checkpoint {
    file: Arc<dyn DiskFile>,
    /// Of the file, in bytes.
    pub(super) len: u64,
    head: Head,
    /// The classes whose entities are left out, in order.
    pub(super) omitted: Vec<String>,
    extents_at: u64,
    entities_at: u64,
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) log: LogId,
    /// How many segments are covered.
    pub(super) segment_count: u32,
    /// The last one of them.
    pub(super) seal: Seal,
    pub(super) hash: Hash,
    /// The last position in it.
    pub(super) last: Position,
}

impl Head {
    fn encode(&self, class_count: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 6]);
        out.extend(self.log.0.to_le_bytes());
        out.extend(self.segment_count.to_le_bytes());
        out.extend(self.seal.len.to_le_bytes());
        out.extend(self.seal.checksum.to_le_bytes());
        out.extend((class_count as u32).to_le_bytes());
        out.extend(self.last.0.to_le_bytes());
        out.extend(self.hash);
        out
    }

    /// The head, and how many classes are left out.
    fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        if bytes[..8] != MAGIC || u16_at(bytes, 8) != VERSION {
            return None;
        }
        let head = Self {
            log: LogId(u64_at(bytes, 16)),
            segment_count: u32_at(bytes, 24),
            seal: Seal { len: u32_at(bytes, 28), checksum: u32_at(bytes, 32) },
            last: Position(u64_at(bytes, 40)),
            hash: bytes[48..80].try_into().expect("the length of a hash"),
        };
        Some((head, u32_at(bytes, 36)))
    }
}

impl Checkpoint {
    /// The checkpoint in `disk`, if it is whole and one of this log.
    pub(super) fn open(disk: &dyn Disk, log: LogId) -> Option<Self> {
        Self::find(disk, log).unwrap_or_else(|error| {
            tracing::warn!(%error, "passed over a checkpoint, and read the whole log");
            None
        })
    }

    /// The checkpoint in `disk`, if there is one.
    ///
    /// # Errors
    /// When it cannot be read; `InvalidData` if it is not whole or of another log.
    pub(super) fn find(disk: &dyn Disk, log: LogId) -> io::Result<Option<Self>> {
        match disk.open(CHECKPOINT).and_then(|file| Self::read(file, log)) {
            Ok(checkpoint) => Ok(Some(checkpoint)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(file: Arc<dyn DiskFile>, log: LogId) -> io::Result<Self> {
        let damaged = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let len = file.size()?;
        check(&*file, len)?;
        let mut reader = Reader::new(Arc::clone(&file), 0, READ_BYTES);
        let (head, class_count) =
            Head::decode(reader.take(HEADER_LEN)?).ok_or_else(|| damaged("it has another format"))?;
        if head.log != log {
            return Err(damaged("it is of another log"));
        }
        let mut omitted = Vec::new();
        for _ in 0..class_count {
            let name_len = usize::from(u16_at(reader.take(2)?, 0));
            let name = str::from_utf8(reader.take(name_len)?).map_err(|_| damaged("it names no class"))?;
            omitted.push(name.to_owned());
        }
        let extents_at = reader.at();
        for _ in 0..head.segment_count {
            let extent = reader.take(16)?;
            let marks = 12 * u64::from(u32_at(extent, 12));
            reader.skip(marks)?;
        }
        let entities_at = reader.at();
        Ok(Self { file, len, head, omitted, extents_at, entities_at })
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Whether it covers the first of the segments with these seals, and they are there in their length.
    pub(super) fn fits(&self, disk: &dyn Disk, seals: &[Seal]) -> bool {
        let count = self.head.segment_count as usize;
        let is_there = |(number, seal): (u32, &Seal)| {
            let is_long = disk.look_up(&segment_name(number)).is_ok_and(|found| found.size == u64::from(seal.len));
            is_long
                || Segment::open(disk, number).is_ok_and(|found| found.head().is_some_and(|head| head.seal == *seal))
        };
        let covered = seals.get(..count).unwrap_or_default();
        covered.last() == Some(&self.head.seal) && (1..).zip(covered).all(is_there)
    }

    /// Whether it is of segments that end with `last` and `hash`, and of the entities with these tips, which are `entity_count`. Classes
    /// of which `is_discarded` holds do not count.
    pub(super) fn says(
        &self,
        last: Position,
        hash: Hash,
        is_discarded: impl Fn(&str) -> bool,
        entity_count: usize,
        tip: impl Fn(&EntityKey) -> Option<Tip>,
    ) -> bool {
        let mut found = 0;
        (self.head.last, self.head.hash) == (last, hash)
            && self.entities().all(|entity| {
                entity.is_ok_and(|(entity, said)| {
                    if is_discarded(entity.class()) {
                        return true;
                    }
                    found += 1;
                    tip(&entity) == Some(said)
                })
            })
            && found == entity_count
    }

    /// The extents of the segments.
    pub(super) fn extents(&self) -> io::Result<Vec<Extent>> {
        let mut reader = Reader::new(Arc::clone(&self.file), self.extents_at, READ_BYTES);
        let mut extents = Vec::with_capacity(self.head.segment_count as usize);
        for _ in 0..self.head.segment_count {
            let extent = reader.take(16)?;
            let (first, end, count) = (Position(u64_at(extent, 0)), u32_at(extent, 8), u32_at(extent, 12));
            let marks = reader.take(12 * count as usize)?.chunks_exact(12);
            let marks = marks.map(|mark| Mark { position: Position(u64_at(mark, 0)), offset: u32_at(mark, 8) });
            extents.push(Extent { first, end, marks: marks.collect() });
        }
        Ok(extents)
    }

    /// The last records of all entities but those of the classes that are left out, in order of their keys.
    pub(super) fn entities(&self) -> impl Iterator<Item = io::Result<(EntityKey, Tip)>> + use<> {
        let mut reader = Reader::new(Arc::clone(&self.file), self.entities_at, READ_BYTES);
        std::iter::from_fn(move || entity(&mut reader).transpose())
    }
}

/// Whether `class` is one of the classes `omitted`, which are in order.
pub(super) fn is_omitted(omitted: &[String], class: &str) -> bool {
    omitted.binary_search_by(|name| name.as_str().cmp(class)).is_ok()
}

/// Checks that the `len` bytes of `file` have the checksum at their end.
fn check(file: &dyn DiskFile, len: u64) -> io::Result<()> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it does not have its checksum");
    let end = len.checked_sub(4).filter(|end| *end >= (HEADER_LEN + END_LEN - 4) as u64).ok_or_else(damaged)?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut at, mut checksum) = (0, 0);
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(READ_BYTES);
        let read = file.read_at(at, &mut buffer[..wanted])?;
        if read == 0 {
            return Err(damaged());
        }
        checksum = crc32c::crc32c_append(checksum, &buffer[..read]);
        at += read as u64;
    }
    let mut stored = [0; 4];
    file.read_at(end, &mut stored)?;
    if u32::from_le_bytes(stored) == checksum { Ok(()) } else { Err(damaged()) }
}

/// The next entity of a checkpoint; none at its end.
fn entity(reader: &mut Reader) -> io::Result<Option<(EntityKey, Tip)>> {
    let len = usize::from(u16_at(reader.take(2)?, 0));
    if len == 0 {
        return Ok(None);
    }
    let key = reader::key(reader.take(len)?)?;
    let tip = reader.take(16)?;
    Ok(Some((key, Tip { seq: Seq(u64_at(tip, 0)), address: Address::from_bits(u64_at(tip, 8)) })))
}
