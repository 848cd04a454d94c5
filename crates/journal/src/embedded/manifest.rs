//! What the log must have at least, in a file of its own.
//!
//! A segment that was cut between two groups is a valid segment, and a log without its last segment is a valid log. The
//! manifest tells them from a log that really ends there: it lists each sealed segment with its length and checksum,
//! and keeps the *high-water mark*, a place that the durable log has reached.
//!
//! ```text
//! manifest := slot, slot, entry*
//! ```
//! The two slots are written in turn, so that one of them is whole at any time; the whole one of the higher generation
//! counts. A clean close writes both. Entry `n` is that of segment `n`. Checksums (CRC32C) cover the rest of a slot or
//! entry. The other bytes up to 512 and 32 are zero.
//!
//! | slot | | entry | |
//! |---|---|---|---|
//! | 0 | magic | 0 | checksum |
//! | 8 | version, 0 | 4 | length of the segment |
//! | 12 | checksum of the slot without it | 8 | log id |
//! | 16 | log id | 16 | segment number |
//! | 24 | generation | 20 | checksum of the segment |
//! | 32 | number of sealed segments | | |
//! | 36 | end in the segment behind them | | |
//! | 40 | last position | | |
//!
//! # Order
//! A footer is durable before its entry is written, the entry before a slot counts it, the slot before the next segment
//! is begun. A group is durable before a slot reaches it. So the manifest never promises what the log does not have,
//! and at most one sealed segment is not listed.

use std::io;
use std::sync::Arc;

use super::OpenError;
use super::format::LogId;
use super::recover::damage;
use super::tail::UNFINISHED;
use crate::damage::{Damage, Flaw};
use crate::disk::{Disk, DiskFile, read_all};
use crate::numbers::{counted_at, u16_at, u32_at, u64_at};
use crate::record::Position;

pub(super) const MANIFEST: &str = "manifest";

const MAGIC: [u8; 8] = *b"ENACTMAN";
const VERSION: u16 = 1;
pub(super) const SLOT_LEN: usize = 512;
pub(super) const ENTRY_LEN: usize = 32;

/// A place that the durable log has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HighWater {
    pub(super) sealed_count: u32,
    /// The end of a group in the segment behind the sealed ones; 0 if there need not be one.
    pub(super) end: u32,
    /// The last position up to there.
    pub(super) last: Position,
}

impl HighWater {
    /// Checks that a log of `segment_count` segments can have reached this.
    pub(super) fn check_count(&self, segment_count: u32) -> Result<(), Damage> {
        let required = self.sealed_count + u32::from(self.end > 0);
        if segment_count < required { Err(damage(segment_count + 1, 0, Flaw::Missing)) } else { Ok(()) }
    }

    /// Checks that segment `number`, whose last valid group ends at `end`, has reached this.
    pub(super) fn check_end(&self, number: u32, end: u32) -> Result<(), Damage> {
        if number == self.sealed_count + 1 && end < self.end {
            return Err(damage(number, end.into(), Flaw::Shortened { last: self.last }));
        }
        Ok(())
    }
}

/// What is listed of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) len: u32,
    pub(super) checksum: u32,
}

impl Seal {
    /// The seal of a segment that consists of `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { len: bytes.len() as u32, checksum: crc32c::crc32c(bytes) }
    }
}

/// The open manifest of a log.
#[derive(Debug)]
pub(super) struct Manifest {
    file: Arc<dyn DiskFile>,
    log: LogId,
    generation: u64,
    mark: HighWater,
    /// The mark in the other slot.
    previous: HighWater,
}

impl Manifest {
    /// Makes the manifest of a log with these sealed segments, durably.
    pub(super) fn create(disk: &dyn Disk, log: LogId, mark: HighWater, seals: &[Seal]) -> io::Result<Self> {
        let unfinished = format!("{MANIFEST}{UNFINISHED}");
        let mut bytes = [encode_slot(log, 0, mark), encode_slot(log, 1, mark)].concat();
        for (number, seal) in (1..).zip(seals) {
            bytes.extend(encode_entry(log, number, *seal));
        }
        let file = disk.create(&unfinished)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        disk.rename(&unfinished, MANIFEST)?;
        disk.sync()?;
        Ok(Self { file, log, generation: 1, mark, previous: mark })
    }

    /// The manifest in `disk` and the sealed segments that it lists; `None` if there is none.
    pub(super) fn open(disk: &dyn Disk) -> Result<Option<(Self, Vec<Seal>)>, OpenError> {
        let failed = |error: io::Error| OpenError::io(MANIFEST, &error);
        let file = match disk.open(MANIFEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let bytes = read_all(&*file).map_err(failed)?;
        let slot = |index: usize| decode_slot(bytes.get(index * SLOT_LEN..).unwrap_or_default());
        let (newest, other) = match (slot(0), slot(1)) {
            (Ok(first), Ok(second)) if first.generation > second.generation => (first, Some(second)),
            (Ok(first), Ok(second)) => (second, Some(first)),
            (Ok(slot), Err(_)) | (Err(_), Ok(slot)) => (slot, None),
            (Err(flaw), Err(_)) => return Err(flawed(0, flaw).into()),
        };
        let Slot { log, generation, mark } = newest;
        let seal = |number| {
            let at = entry_offset(number);
            let entry = bytes.get(at..at + ENTRY_LEN).and_then(|entry| decode_entry(entry, log, number));
            entry.ok_or_else(|| flawed(at as u64, Flaw::Manifest))
        };
        let seals = (1..=mark.sealed_count).map(seal).collect::<Result<_, _>>()?;
        let previous = other.map_or_else(HighWater::default, |other| other.mark);
        Ok(Some((Self { file, log, generation, mark, previous }, seals)))
    }

    pub(super) fn log(&self) -> LogId {
        self.log
    }

    pub(super) fn mark(&self) -> HighWater {
        self.mark
    }

    /// Lists the next sealed segment; positions up to `last` are in sealed segments then.
    pub(super) fn list(&mut self, seal: Seal, last: Position) -> io::Result<()> {
        let number = self.mark.sealed_count + 1;
        self.file.write_at(entry_offset(number) as u64, &encode_entry(self.log, number, seal))?;
        self.file.sync()?;
        self.write(HighWater { sealed_count: number, end: 0, last })
    }

    /// Moves the high-water mark on.
    pub(super) fn advance(&mut self, mark: HighWater) -> io::Result<()> {
        if self.mark == mark { Ok(()) } else { self.write(mark) }
    }

    /// Moves the high-water mark on in both slots: damage to one of them leaves it exact.
    pub(super) fn settle(&mut self, mark: HighWater) -> io::Result<()> {
        while (self.mark, self.previous) != (mark, mark) {
            self.write(mark)?;
        }
        Ok(())
    }

    fn write(&mut self, mark: HighWater) -> io::Result<()> {
        let generation = self.generation + 1;
        let at = (generation % 2) * SLOT_LEN as u64;
        self.file.write_at(at, &encode_slot(self.log, generation, mark))?;
        self.file.sync()?;
        self.generation = generation;
        self.previous = std::mem::replace(&mut self.mark, mark);
        Ok(())
    }
}

pub(super) fn flawed(offset: u64, flaw: Flaw) -> Damage {
    Damage { file: MANIFEST.to_owned(), offset, flaw }
}

pub(super) fn entry_offset(number: u32) -> usize {
    2 * SLOT_LEN + (number as usize - 1) * ENTRY_LEN
}

pub(super) struct Slot {
    pub(super) log: LogId,
    pub(super) generation: u64,
    pub(super) mark: HighWater,
}

fn slot_checksum(slot: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&slot[..12]), &slot[16..SLOT_LEN])
}

fn encode_slot(log: LogId, generation: u64, mark: HighWater) -> Vec<u8> {
    let mut out = Vec::with_capacity(SLOT_LEN);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend([0; 6]);
    out.extend(log.0.to_le_bytes());
    out.extend(generation.to_le_bytes());
    out.extend(mark.sealed_count.to_le_bytes());
    out.extend(mark.end.to_le_bytes());
    out.extend(mark.last.0.to_le_bytes());
    out.resize(SLOT_LEN, 0);
    let sum = slot_checksum(&out);
    out[12..16].copy_from_slice(&sum.to_le_bytes());
    out
}

pub(super) fn decode_slot(bytes: &[u8]) -> Result<Slot, Flaw> {
    let bytes = bytes.get(..SLOT_LEN).ok_or(Flaw::Short)?;
    if bytes[..8] != MAGIC || u32_at(bytes, 12) != slot_checksum(bytes) {
        return Err(Flaw::Manifest);
    }
    let version = u16_at(bytes, 8);
    if version != VERSION {
        return Err(Flaw::Version { found: version });
    }
    let last = Position(counted_at(bytes, 40)?);
    let mark = HighWater { sealed_count: u32_at(bytes, 32), end: u32_at(bytes, 36), last };
    Ok(Slot { log: LogId(u64_at(bytes, 16)), generation: u64_at(bytes, 24), mark })
}

fn encode_entry(log: LogId, number: u32, seal: Seal) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(seal.len.to_le_bytes());
    out.extend(log.0.to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend(seal.checksum.to_le_bytes());
    out.resize(ENTRY_LEN, 0);
    let sum = crc32c::crc32c(&out[4..]);
    out[..4].copy_from_slice(&sum.to_le_bytes());
    out
}

pub(super) fn decode_entry(entry: &[u8], log: LogId, number: u32) -> Option<Seal> {
    let is_valid =
        u32_at(entry, 0) == crc32c::crc32c(&entry[4..]) && u64_at(entry, 8) == log.0 && u32_at(entry, 16) == number;
    is_valid.then(|| Seal { len: u32_at(entry, 4), checksum: u32_at(entry, 20) })
}
