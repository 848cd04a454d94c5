//! Makes a checkpoint from the one before it and the footers of the segments behind that.
//!
//! Both have their entities in order, so they are merged as they are read: memory for a few buffers, however many entities
//! there are, and no lock of the journal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

use super::entries::{self, Reader};
use super::{CHECKPOINT, Checkpoint, Head, READ_BYTES, is_omitted};
use crate::disk::{Disk, DiskFile};
use crate::embedded::format::{
    Address, FOOTER_HEADER_LEN, Footer, FooterHead, LogId, SHARE_LEN, Share, TRAILER_LEN, segment_name,
};
use crate::embedded::manifest::Seal;
use crate::embedded::scan::Tip;
use crate::embedded::tail::UNFINISHED;
use crate::numbers::{u16_at, u32_at};
use crate::record::{EntityKey, Position};

/// How much of a footer is read at once: there may be a thousand of them.
const FOOTER_BYTES: usize = 16 << 10;
const MARK_LEN: usize = 12;
/// How many entities are taken between two looks whether to go on.
const ENTITIES_BETWEEN_LOOKS: usize = 4096;

/// Writes the checkpoint of the segments with `seals`, which are more than `base` covers, without the entities of the
/// classes `omitted`, which are in order; none if it is to stop before that is done.
///
/// # Errors
/// As the operating system reports, and when a footer is not what was written. The checkpoint that was there stays.
pub(in crate::embedded) fn merge(
    disk: &dyn Disk,
    log: LogId,
    base: Option<&Checkpoint>,
    seals: &[Seal],
    omitted: &[String],
    is_to_stop: impl Fn() -> bool,
) -> io::Result<Option<Checkpoint>> {
    let unfinished = format!("{CHECKPOINT}{UNFINISHED}");
    let written = write(disk, &unfinished, log, base, seals, omitted, is_to_stop);
    if !matches!(written, Ok(true)) {
        // The next one cannot be made beside it, and says so.
        disk.remove(&unfinished).unwrap_or_default();
        return written.map(|_| None);
    }
    disk.rename(&unfinished, CHECKPOINT)?;
    disk.sync()?;
    Ok(Checkpoint::open(disk, log))
}

fn write(
    disk: &dyn Disk,
    unfinished: &str,
    log: LogId,
    base: Option<&Checkpoint>,
    seals: &[Seal],
    omitted: &[String],
    is_to_stop: impl Fn() -> bool,
) -> io::Result<bool> {
    let covered = base.map_or(0, |base| base.head.segment_count);
    let newer = (covered + 1..).zip(seals.get(covered as usize..).unwrap_or_default());
    let newer: Vec<Sealed> =
        newer.map(|(number, seal)| Sealed::open(disk, log, number, *seal)).collect::<io::Result<_>>()?;
    let newest = newer.last().ok_or_else(|| io::Error::other("there is no segment behind the checkpoint"))?;
    let last = Position(newest.head.first.0 + newest.head.count - 1);
    let head = Head { log, segment_count: newest.number, seal: newest.seal, hash: newest.head.hash, last };

    let mut out = Output::create(disk, unfinished)?;
    out.put(&head.encode(omitted.len()))?;
    for name in omitted {
        out.put(&(name.len() as u16).to_le_bytes())?;
        out.put(name.as_bytes())?;
    }
    for extent in base.map_or_else(|| Ok(Vec::new()), Checkpoint::extents)? {
        out.put(&extent.first.0.to_le_bytes())?;
        out.put(&extent.end.to_le_bytes())?;
        out.put(&(extent.marks.len() as u32).to_le_bytes())?;
        for mark in extent.marks {
            out.put(&mark.position.0.to_le_bytes())?;
            out.put(&mark.offset.to_le_bytes())?;
        }
    }
    for segment in &newer {
        out.put(&segment.head.first.0.to_le_bytes())?;
        out.put(&segment.start.to_le_bytes())?;
        out.put(&segment.head.mark_count.to_le_bytes())?;
        out.put(&segment.marks()?)?;
    }
    for (count, entity) in Merged::of(base, &newer)?.enumerate() {
        let (key, tip) = entity?;
        if count.is_multiple_of(ENTITIES_BETWEEN_LOOKS) && is_to_stop() {
            return Ok(false);
        }
        if is_omitted(omitted, key.class()) {
            continue;
        }
        out.put(&(key.as_str().len() as u16).to_le_bytes())?;
        out.put(key.as_str().as_bytes())?;
        out.put(&tip.seq.0.to_le_bytes())?;
        out.put(&tip.address.to_bits().to_le_bytes())?;
    }
    out.put(&[0; 2])?;
    out.finish()?;
    Ok(!is_to_stop())
}

/// A sealed segment whose footer has been checked.
struct Sealed {
    file: Arc<dyn DiskFile>,
    number: u32,
    seal: Seal,
    /// Where the footer begins, behind the groups.
    start: u32,
    head: FooterHead,
}

impl Sealed {
    fn open(disk: &dyn Disk, log: LogId, number: u32, seal: Seal) -> io::Result<Self> {
        let name = segment_name(number);
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("{name} has no valid footer"));
        let file = disk.open(&name)?;
        let trailer_at = seal.len.checked_sub(TRAILER_LEN as u32).ok_or_else(wrong)?;
        let mut trailer = [0; TRAILER_LEN];
        file.read_at(trailer_at.into(), &mut trailer)?;
        let len = Footer::announced_len(&trailer).ok_or_else(wrong)?;
        let start = u32::try_from(len).ok().and_then(|len| trailer_at.checked_sub(len)).ok_or_else(wrong)?;
        let mut reader = Reader::new(Arc::clone(&file), start.into(), READ_BYTES);
        let bytes = reader.take(FOOTER_HEADER_LEN)?;
        let (stored, mut checksum) = (u32_at(bytes, 0), crc32c::crc32c(&bytes[4..]));
        let head = FooterHead::decode(bytes, log, Address::new(number, start)).ok_or_else(wrong)?;
        let mut rest = len - FOOTER_HEADER_LEN;
        while rest > 0 {
            let part = reader.take(rest.min(READ_BYTES))?;
            checksum = crc32c::crc32c_append(checksum, part);
            rest -= part.len();
        }
        if stored != checksum {
            return Err(wrong());
        }
        Ok(Self { file, number, seal, start, head })
    }

    fn marks(&self) -> io::Result<Vec<u8>> {
        let len = MARK_LEN * self.head.mark_count as usize;
        let at = u64::from(self.seal.len) - (TRAILER_LEN + len) as u64;
        let mut bytes = vec![0; len];
        let read = self.file.read_at(at, &mut bytes)?;
        if read == len { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// What the footer says of each entity, in order of the keys.
    fn entities(&self) -> impl Iterator<Item = io::Result<Part>> + use<> {
        let at = u64::from(self.start) + FOOTER_HEADER_LEN as u64;
        let mut reader = Reader::new(Arc::clone(&self.file), at, FOOTER_BYTES);
        let number = self.number;
        (0..self.head.entity_count).map(move |_| {
            let len = usize::from(u16_at(reader.take(2)?, 0));
            let entity = entries::key(reader.take(len)?)?;
            let share = Share::decode(reader.take(SHARE_LEN)?);
            let Share { count, last, offset } = share.ok_or(io::ErrorKind::InvalidData)?;
            Ok(Part { entity, count, tip: Tip { seq: last, address: Address::new(number, offset) } })
        })
    }
}

/// What the checkpoint or one segment has of an entity.
struct Part {
    entity: EntityKey,
    count: u64,
    /// The last of its records there.
    tip: Tip,
}

type Parts = Box<dyn Iterator<Item = io::Result<Part>>>;

/// The entities of several sources, each once, with the last record of the last source that has one.
struct Merged {
    /// Earlier ones first.
    sources: Vec<Parts>,
    /// The next part of each.
    next: Vec<Option<Part>>,
    order: BinaryHeap<Reverse<(EntityKey, usize)>>,
}

impl Merged {
    fn of(base: Option<&Checkpoint>, newer: &[Sealed]) -> io::Result<Self> {
        let of_base = base.map(|base| {
            let part =
                |found: io::Result<(EntityKey, Tip)>| found.map(|(entity, tip)| Part { entity, count: tip.seq.0, tip });
            Box::new(base.entities().map(part)) as Parts
        });
        let of_newer = newer.iter().map(|segment| Box::new(segment.entities()) as Parts);
        let sources: Vec<Parts> = of_base.into_iter().chain(of_newer).collect();
        let next = sources.iter().map(|_| None).collect();
        let mut merged = Self { sources, next, order: BinaryHeap::new() };
        (0..merged.sources.len()).try_for_each(|source| merged.advance(source))?;
        Ok(merged)
    }

    fn advance(&mut self, source: usize) -> io::Result<()> {
        self.next[source] = self.sources[source].next().transpose()?;
        if let Some(part) = &self.next[source] {
            self.order.push(Reverse((part.entity.clone(), source)));
        }
        Ok(())
    }

    fn take(&mut self) -> io::Result<Option<(EntityKey, Tip)>> {
        let Some(Reverse((entity, _))) = self.order.peek() else { return Ok(None) };
        let entity = entity.clone();
        let (mut count, mut tip) = (0, Tip::default());
        while let Some(Reverse((next, source))) = self.order.peek()
            && *next == entity
        {
            let source = *source;
            self.order.pop();
            if let Some(part) = self.next[source].take() {
                count += part.count;
                tip = part.tip;
            }
            self.advance(source)?;
        }
        if count != tip.seq.0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("records of {entity} are missing")));
        }
        Ok(Some((entity, tip)))
    }
}

impl Iterator for Merged {
    type Item = io::Result<(EntityKey, Tip)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

/// A new file that is written from its beginning to its end, where its checksum stands.
struct Output {
    file: Arc<dyn DiskFile>,
    at: u64,
    buffer: Vec<u8>,
    checksum: u32,
}

impl Output {
    fn create(disk: &dyn Disk, name: &str) -> io::Result<Self> {
        match disk.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { file: disk.create(name)?, at: 0, buffer: Vec::with_capacity(READ_BYTES), checksum: 0 })
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend(bytes);
        if self.buffer.len() >= READ_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.at, &self.buffer)?;
        self.checksum = crc32c::crc32c_append(self.checksum, &self.buffer);
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.write_at(self.at, &self.checksum.to_le_bytes())?;
        self.file.sync()
    }
}
