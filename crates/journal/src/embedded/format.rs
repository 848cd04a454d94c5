//! The bytes of a segment.
//!
//! ```text
//! segment := header group* [footer trailer]
//! group   := group header, (record | gap)*, zeros up to a multiple of 8
//! ```
//! All numbers are little-endian. A *group* is what one sync made durable: one or more batches, or nothing (earlier
//! versions marked a clean close so). The checksum (CRC32C) of a group header or record covers the log's id and the
//! address at which it stands, besides its own bytes: bytes of another log, of another place, or of a payload that
//! imitates a header are not valid here.
//!
//! A *gap* stands for consecutive records that were [discarded](super::compaction). Their positions stay theirs, and where their
//! bytes were there may be nothing any more. A record is never as long as its second field says.
//!
//! An address or offset of an entity's last record has its bit 31 set if that is a [tombstone](crate::Kind::TOMBSTONE): no segment
//! is so long.
//!
//! | header | | group header | | record | | footer | |
//! |---|---|---|---|---|---|---|---|
//! | 0 | magic | 0 | magic | 0 | checksum | 0 | checksum |
//! | 8 | version, 0 | 4 | checksum | 4 | payload length | 4 | 0 |
//! | 12 | segment number | 8 | log id | 8 | position | 8 | log id |
//! | 16 | log id | 16 | address | 16 | seq | 16 | address |
//! | 24 | first position | 24 | first position | 24 | address of the entity's previous record | 24 | first position |
//! | 32 | hash of the previous segment | 32 | body length | 32 | key length | 32 | record count |
//! | 64 | 0 | 36 | record count | 34 | kind, 0 | 40 | hash of the segment |
//! | 68 | checksum | | | 36 | key, payload | 72 | entity count, mark count, then those |
//!
//! | gap | |
//! |---|---|
//! | 0 | checksum |
//! | 4 | 2^32 - 1 |
//! | 8 | first position |
//! | 16 | length of the records, of which this is the start |
//! | 20 | record count |

use crate::damage::Flaw;
use crate::journal::Limits;
use crate::numbers::{counted_at, u16_at, u32_at, u64_at};
use crate::record::{EntityKey, Kind, NAME_BYTES_MAX, Position, Seq};

pub(super) const VERSION: u16 = 1;
pub(super) const HEADER_LEN: u32 = 72;
pub(super) const GROUP_HEADER_LEN: usize = 40;
pub(super) const RECORD_HEADER_LEN: usize = 36;
pub(super) const GAP_LEN: usize = 24;
pub(super) const TRAILER_LEN: usize = 16;
pub(super) const FOOTER_HEADER_LEN: usize = 80;
/// The length of a [`Mark`].
pub(super) const MARK_LEN: usize = 12;
/// The length of a [`Share`].
pub(super) const SHARE_LEN: usize = 20;
/// Stands in a gap where a record has the length of its payload.
const GAP: u32 = u32::MAX;
/// The mark of a tombstone in an offset: a segment is never so long.
const TOMBSTONE: u32 = 1 << 31;
const KEY_BYTES_MAX: usize = 2 * NAME_BYTES_MAX + 1;
const ALIGN: usize = 8;

const SEGMENT_MAGIC: [u8; 8] = *b"ENACTLOG";
const GROUP_MAGIC: [u8; 4] = *b"EGRP";
const TRAILER_MAGIC: [u8; 8] = *b"ENACTEND";

/// SHA-256 over all bytes of a segment before its footer.
pub(super) type Hash = [u8; 32];

/// The identity of a log: segments of two logs do not mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogId(pub(super) u64);

/// A segment's number and an offset in it, and whether the record there is a tombstone. Segments count from 1: the default address, 0,
/// is that of no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Address(u64);

impl Address {
    /// What stands at `offset`, which may have a mark, of a segment.
    pub(super) const fn new(segment: u32, offset: u32) -> Self {
        Self((segment as u64) << 32 | offset as u64)
    }

    /// The same place as that of a record of this kind.
    pub(super) const fn of(self, kind: Kind) -> Self {
        if kind.0 == Kind::TOMBSTONE.0 { Self(self.0 | TOMBSTONE as u64) } else { self }
    }

    pub(super) const fn is_of_tombstone(self) -> bool {
        self.0 & TOMBSTONE as u64 != 0
    }

    pub(super) const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) const fn offset(self) -> u32 {
        self.marked_offset() & !TOMBSTONE
    }

    /// Whether it stands before `other` in the log.
    pub(super) fn is_before(self, other: Self) -> bool {
        (self.segment(), self.offset()) < (other.segment(), other.offset())
    }

    /// The offset with the mark of a tombstone.
    pub(super) const fn marked_offset(self) -> u32 {
        self.0 as u32
    }

    pub(super) const fn to_bits(self) -> u64 {
        self.0
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

pub(super) fn segment_name(number: u32) -> String {
    format!("segment-{number:010}.log")
}

pub(super) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("segment-")?.strip_suffix(".log")?;
    let number = digits.parse().ok()?;
    (segment_name(number) == name && number > 0).then_some(number)
}

/// The checksum of a group header or a part of a group at `address`.
pub(super) fn checksum(log: LogId, address: Address, bytes: &[u8]) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&log.0.to_le_bytes());
    place[8..].copy_from_slice(&Address::new(address.segment(), address.offset()).0.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), bytes)
}

/// The first bytes of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u32,
    pub(super) log: LogId,
    pub(super) first: Position,
    pub(super) previous_hash: Hash,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN as usize);
        out.extend(SEGMENT_MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2]);
        out.extend(self.number.to_le_bytes());
        out.extend(self.log.0.to_le_bytes());
        out.extend(self.first.0.to_le_bytes());
        out.extend(self.previous_hash);
        out.extend([0; 4]);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Decodes the header of segment `number` from the start of `bytes`.
    pub(super) fn decode(bytes: &[u8], number: u32) -> Result<Self, Flaw> {
        let bytes = bytes.get(..HEADER_LEN as usize).ok_or(Flaw::Short)?;
        if bytes[..8] != SEGMENT_MAGIC {
            return Err(Flaw::SegmentHeader);
        }
        let version = u16_at(bytes, 8);
        if version != VERSION {
            return Err(Flaw::Version { found: version });
        }
        if u32_at(bytes, 68) != crc32c::crc32c(&bytes[..68]) {
            return Err(Flaw::SegmentHeader);
        }
        let header = Self {
            number: u32_at(bytes, 12),
            log: LogId(u64_at(bytes, 16)),
            first: Position(counted_at(bytes, 24)?),
            previous_hash: bytes[32..64].try_into().expect("the length of a hash"),
        };
        if header.number == number { Ok(header) } else { Err(Flaw::Foreign) }
    }
}

/// What stands before the records of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupHeader {
    pub(super) first: Position,
    pub(super) body_len: u32,
    pub(super) count: u32,
}

impl GroupHeader {
    /// Writes the header of the group at `address` to the start of `out`.
    pub(super) fn write(self, out: &mut [u8], log: LogId, address: Address) {
        out[..4].copy_from_slice(&GROUP_MAGIC);
        out[8..16].copy_from_slice(&log.0.to_le_bytes());
        out[16..24].copy_from_slice(&address.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.first.0.to_le_bytes());
        out[32..36].copy_from_slice(&self.body_len.to_le_bytes());
        out[36..40].copy_from_slice(&self.count.to_le_bytes());
        let sum = crc32c::crc32c(&out[8..GROUP_HEADER_LEN]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Decodes the group header at `address` from the start of `bytes`.
    pub(super) fn decode(bytes: &[u8], log: LogId, address: Address) -> Result<Self, Flaw> {
        let bytes = bytes.get(..GROUP_HEADER_LEN).ok_or(Flaw::Short)?;
        let valid = bytes[..4] == GROUP_MAGIC
            && u32_at(bytes, 4) == crc32c::crc32c(&bytes[8..])
            && u64_at(bytes, 8) == log.0
            && u64_at(bytes, 16) == address.0;
        if !valid {
            return Err(Flaw::GroupHeader);
        }
        Ok(Self { first: Position(counted_at(bytes, 24)?), body_len: u32_at(bytes, 32), count: u32_at(bytes, 36) })
    }

    /// The length of the group on disk, padding included.
    pub(super) fn len(self) -> usize {
        (GROUP_HEADER_LEN + self.body_len as usize).next_multiple_of(ALIGN)
    }
}

/// The offset of the first valid group header in `bytes` (a whole segment) at or after `from`.
pub(super) fn find_group(bytes: &[u8], log: LogId, segment: u32, from: usize) -> Option<usize> {
    (from.next_multiple_of(ALIGN)..bytes.len())
        .step_by(ALIGN)
        .find(|&at| GroupHeader::decode(&bytes[at..], log, Address::new(segment, at as u32)).is_ok())
}

/// A record as it stands on disk, its checksum verified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub(super) key: &'a str,
    pub(super) seq: Seq,
    pub(super) position: Position,
    pub(super) previous: Address,
    pub(super) kind: Kind,
    pub(super) payload: &'a [u8],
    pub(super) len: usize,
    pub(super) checksum: u32,
}

/// The length of the record whose header `bytes` starts with; not yet verified, but not above what can be.
pub(super) fn stored_len(bytes: &[u8]) -> Result<usize, Flaw> {
    if bytes.len() < RECORD_HEADER_LEN {
        return Err(Flaw::Short);
    }
    let key_len = usize::from(u16_at(bytes, 32));
    let payload_len = u32_at(bytes, 4) as usize;
    if key_len > KEY_BYTES_MAX || payload_len > Limits::LOCAL.record_bytes {
        return Err(Flaw::Record);
    }
    Ok(RECORD_HEADER_LEN + key_len + payload_len)
}

impl<'a> Stored<'a> {
    /// Decodes the record at `address` from the start of `bytes`.
    pub(super) fn decode(bytes: &'a [u8], log: LogId, address: Address) -> Result<Self, Flaw> {
        let len = stored_len(bytes)?;
        let bytes = bytes.get(..len).ok_or(Flaw::Record)?;
        let checksum = checksum(log, address, &bytes[4..]);
        if u32_at(bytes, 0) != checksum {
            return Err(Flaw::Record);
        }
        let (key, payload) = bytes[RECORD_HEADER_LEN..].split_at(usize::from(u16_at(bytes, 32)));
        Ok(Self {
            key: str::from_utf8(key).map_err(|_| Flaw::Malformed)?,
            seq: Seq(counted_at(bytes, 16)?),
            position: Position(counted_at(bytes, 8)?),
            previous: Address(u64_at(bytes, 24)),
            kind: Kind(bytes[34]),
            payload,
            len,
            checksum,
        })
    }
}

/// Stands for records that were discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The position of the first of them.
    pub(super) first: Position,
    /// From the start of the first to the end of the last.
    pub(super) len: u32,
    pub(super) count: u32,
}

impl Gap {
    /// Whether `bytes`, [`Frame::HEAD_LEN`] of them or more, start with a gap.
    pub(super) fn is_at_start_of(bytes: &[u8]) -> bool {
        bytes.len() >= Frame::HEAD_LEN && u32_at(bytes, 4) == GAP
    }

    /// Encodes the gap at `address`.
    pub(super) fn encode(self, log: LogId, address: Address) -> [u8; GAP_LEN] {
        let mut out = [0; GAP_LEN];
        out[4..8].copy_from_slice(&GAP.to_le_bytes());
        out[8..16].copy_from_slice(&self.first.0.to_le_bytes());
        out[16..20].copy_from_slice(&self.len.to_le_bytes());
        out[20..24].copy_from_slice(&self.count.to_le_bytes());
        let sum = checksum(log, address, &out[4..]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], log: LogId, address: Address) -> Result<Self, Flaw> {
        let bytes = bytes.get(..GAP_LEN).ok_or(Flaw::Record)?;
        if u32_at(bytes, 0) != checksum(log, address, &bytes[4..]) {
            return Err(Flaw::Record);
        }
        let gap = Self { first: Position(counted_at(bytes, 8)?), len: u32_at(bytes, 16), count: u32_at(bytes, 20) };
        if gap.count > 0 && gap.len >= GAP_LEN as u32 { Ok(gap) } else { Err(Flaw::Malformed) }
    }
}

/// A part of a group as it stands on disk, its checksum verified.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frame<'a> {
    Record(Stored<'a>),
    Gap(Gap),
}

impl<'a> Frame<'a> {
    /// How many of the bytes that a frame starts with say how long it is.
    pub(super) const HEAD_LEN: usize = 8;

    /// How many bytes [`decode`](Self::decode) needs of the frame that `bytes` starts with; not yet verified, but not above what can be.
    pub(super) fn needed_len(bytes: &[u8]) -> Result<usize, Flaw> {
        if Gap::is_at_start_of(bytes) { Ok(GAP_LEN) } else { stored_len(bytes) }
    }

    /// Decodes the frame at `address` from the start of `bytes`.
    pub(super) fn decode(bytes: &'a [u8], log: LogId, address: Address) -> Result<Self, Flaw> {
        if Gap::is_at_start_of(bytes) {
            Gap::decode(bytes, log, address).map(Self::Gap)
        } else {
            Stored::decode(bytes, log, address).map(Self::Record)
        }
    }

    /// The position of its first record.
    pub(super) fn first(&self) -> Position {
        match self {
            Self::Record(stored) => stored.position,
            Self::Gap(gap) => gap.first,
        }
    }

    /// How many positions it takes.
    pub(super) fn count(&self) -> u32 {
        match self {
            Self::Record(_) => 1,
            Self::Gap(gap) => gap.count,
        }
    }

    /// Its length, up to the next one.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Record(stored) => stored.len,
            Self::Gap(gap) => gap.len as usize,
        }
    }
}

/// Where a group stands that holds a position; a feed starts reading at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) position: Position,
    pub(super) offset: u32,
}

impl Mark {
    /// Encodes it to the end of `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.position.0.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
    }

    /// Decodes the mark that `bytes` are.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { position: Position(counted_at(bytes, 0).ok()?), offset: u32_at(bytes, 8) })
    }
}

/// What a segment holds of one entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// How many records it had there when the segment was written; in a log that was built without some of them, also those.
    pub(super) count: u64,
    pub(super) last: Seq,
    /// That of the last record, marked if it is a tombstone.
    pub(super) offset: u32,
}

impl Share {
    /// With so many records more, of which the last one is `last`, at the marked `offset`.
    pub(super) fn grown(self, count: u64, last: Seq, offset: u32) -> Self {
        Self { count: self.count + count, last, offset }
    }

    /// Encodes it as that of `entity` to the end of `out`.
    pub(super) fn encode(&self, entity: &EntityKey, out: &mut Vec<u8>) {
        let key = entity.as_str();
        out.extend((key.len() as u16).to_le_bytes());
        out.extend(key.as_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.last.0.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
    }

    /// Decodes the share that `bytes` are.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (count, last) = (counted_at(bytes, 0).ok()?, Seq(counted_at(bytes, 8).ok()?));
        Some(Self { count, last, offset: u32_at(bytes, 16) })
    }
}

/// What stands before the entities of a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FooterHead {
    pub(super) first: Position,
    pub(super) count: u64,
    pub(super) hash: Hash,
    pub(super) entity_count: u32,
    pub(super) mark_count: u32,
}

impl FooterHead {
    /// Encodes the footer at `address` with these entities and marks, which are encoded, and its trailer.
    pub(super) fn encode(&self, log: LogId, address: Address, entities: &[u8], marks: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_HEADER_LEN + entities.len() + marks.len() + TRAILER_LEN);
        out.resize(ALIGN, 0);
        out.extend(log.0.to_le_bytes());
        out.extend(address.0.to_le_bytes());
        out.extend(self.first.0.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.hash);
        out.extend(self.entity_count.to_le_bytes());
        out.extend(self.mark_count.to_le_bytes());
        out.extend(entities);
        out.extend(marks);
        let sum = crc32c::crc32c(&out[4..]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        let len = (out.len() as u32).to_le_bytes();
        let trailer = out.len();
        out.extend(TRAILER_MAGIC);
        out.extend(len);
        out.extend(crc32c::crc32c(&out[trailer..]).to_le_bytes());
        out
    }

    /// Decodes the start of the footer at `address`, whose checksum is that of all of it.
    pub(super) fn decode(bytes: &[u8], log: LogId, address: Address) -> Option<Self> {
        let bytes = bytes.get(..FOOTER_HEADER_LEN)?;
        let is_here = u64_at(bytes, 8) == log.0 && u64_at(bytes, 16) == address.0;
        let (first, count) = (Position(counted_at(bytes, 24).ok()?), counted_at(bytes, 32).ok()?);
        let hash = bytes[40..72].try_into().expect("the length of a hash");
        let (entity_count, mark_count) = (u32_at(bytes, 72), u32_at(bytes, 76));
        is_here.then_some(Self { first, count, hash, entity_count, mark_count })
    }
}

/// What a sealed segment holds; read instead of the segment when the journal opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) first: Position,
    pub(super) count: u64,
    pub(super) hash: Hash,
    pub(super) entities: Vec<(EntityKey, Share)>,
    pub(super) marks: Vec<Mark>,
}

impl Footer {
    /// Encodes the footer at `address`, its trailer included.
    pub(super) fn encode(&self, log: LogId, address: Address) -> Vec<u8> {
        let (mut entities, mut marks) = (Vec::new(), Vec::new());
        for (entity, share) in &self.entities {
            share.encode(entity, &mut entities);
        }
        self.marks.iter().for_each(|mark| mark.encode(&mut marks));
        self.head().encode(log, address, &entities, &marks)
    }

    /// What stands before its entities.
    pub(super) fn head(&self) -> FooterHead {
        let (entity_count, mark_count) = (self.entities.len() as u32, self.marks.len() as u32);
        FooterHead { first: self.first, count: self.count, hash: self.hash, entity_count, mark_count }
    }

    /// The length of the footer that the trailer at the end of a segment announces.
    pub(super) fn announced_len(trailer: &[u8]) -> Option<usize> {
        let valid = trailer.len() == TRAILER_LEN
            && trailer[..8] == TRAILER_MAGIC
            && u32_at(trailer, 12) == crc32c::crc32c(&trailer[..12]);
        valid.then(|| u32_at(trailer, 8) as usize)
    }

    /// Decodes `bytes`, a footer without its trailer, that stands at `address`.
    pub(super) fn decode(bytes: &[u8], log: LogId, address: Address) -> Option<Self> {
        let FooterHead { first, count, hash, entity_count, mark_count } = FooterHead::decode(bytes, log, address)?;
        if u32_at(bytes, 0) != crc32c::crc32c(&bytes[4..]) {
            return None;
        }
        let mut rest = &bytes[FOOTER_HEADER_LEN..];
        let mut take = |len: usize| {
            let (taken, left) = rest.split_at_checked(len)?;
            rest = left;
            Some(taken)
        };
        let mut entities = Vec::new();
        for _ in 0..entity_count {
            let key_len = usize::from(u16_at(take(2)?, 0));
            let key = str::from_utf8(take(key_len)?).ok()?.parse().ok()?;
            entities.push((key, Share::decode(take(SHARE_LEN)?)?));
        }
        let mut marks = Vec::new();
        for _ in 0..mark_count {
            marks.push(Mark::decode(take(MARK_LEN)?)?);
        }
        let footer = Self { first, count, hash, entities, marks };
        rest.is_empty().then_some(footer)
    }
}
