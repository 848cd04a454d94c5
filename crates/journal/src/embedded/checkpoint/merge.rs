//! Makes a checkpoint from the one before it and the footers of the segments behind that.
//!
//! Both have their entities in order, so they are merged as they are read: memory for a few buffers, however many entities
//! there are, and no lock of the journal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::{CHECKPOINT, Checkpoint, Head, is_omitted};
use crate::disk::Disk;
use crate::embedded::format::{Address, LogId, Share};
use crate::embedded::manifest::Seal;
use crate::embedded::output::Output;
use crate::embedded::scan::Tip;
use crate::embedded::segment::{FooterReader, Segment};
use crate::embedded::tail::UNFINISHED;
use crate::record::{EntityKey, Position};

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
    let footer = &newest.footer.head;
    let last = Position(footer.first.0 + footer.count - 1);
    let head = Head { log, segment_count: newest.number, seal: newest.seal, hash: footer.hash, last };

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
        let footer = &segment.footer;
        out.put(&footer.head.first.0.to_le_bytes())?;
        out.put(&footer.start.to_le_bytes())?;
        out.put(&footer.head.mark_count.to_le_bytes())?;
        let mut marks = Vec::new();
        footer.marks()?.iter().for_each(|mark| mark.encode(&mut marks));
        out.put(&marks)?;
    }
    for (merged, entity) in Merged::of(base, &newer)?.enumerate() {
        let (key, count, tip) = entity?;
        if merged.is_multiple_of(ENTITIES_BETWEEN_LOOKS) && is_to_stop() {
            return Ok(false);
        }
        if is_omitted(omitted, key.class()) {
            continue;
        }
        if count != tip.seq.0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("records of {key} are missing")));
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

/// A sealed segment.
struct Sealed {
    number: u32,
    seal: Seal,
    footer: FooterReader,
}

impl Sealed {
    fn open(disk: &dyn Disk, log: LogId, number: u32, seal: Seal) -> io::Result<Self> {
        let footer = FooterReader::open(&Segment::open(disk, number)?, log, number)?;
        Ok(Self { number, seal, footer })
    }

    fn parts(&self) -> impl Iterator<Item = io::Result<Part>> + use<> {
        let number = self.number;
        self.footer.entities().map(move |found| {
            let (entity, Share { count, last, offset }) = found?;
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

/// The entities of several sources, each once, with the number of their records and the last one.
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
        let of_newer = newer.iter().map(|segment| Box::new(segment.parts()) as Parts);
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

    fn take(&mut self) -> io::Result<Option<(EntityKey, u64, Tip)>> {
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
        Ok(Some((entity, count, tip)))
    }
}

impl Iterator for Merged {
    type Item = io::Result<(EntityKey, u64, Tip)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}
