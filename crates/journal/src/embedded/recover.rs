//! Opens a log: decides what is durable, refuses what is damaged, cuts what a crash has torn.
//!
//! # What must be there
//! The [manifest](super::manifest), and what it promises: the sealed segments that it lists, byte by byte, and the high-water
//! mark. Segments 1 to n without a gap, each header valid; all but the last sealed by a valid footer, whose hash the
//! next header repeats. The index comes from the footers of listed segments, which need not be decoded otherwise.
//!
//! # The segments that are not read
//! A [checkpoint](super::checkpoint) says how the first of the listed segments left the entities. Those are there, in their
//! length; what is in them is checked when the log is open.
//!
//! # Discarded records
//! A class of which some segment has lost records to [compaction](super::compaction) is forgotten before anything is read. Of an entity
//! with a tombstone, records may be missing anywhere before that. Footers count them as if they were there.
//!
//! # The segments that are not listed
//! They are scanned: the last one, one that was sealed just before a crash, and, with an older copy of the manifest, more.
//! Where the bytes of the last one stop being valid, two things can have happened: the group was never completely
//! written, then nothing was ever written behind it and nobody was told that it is durable; or durable bytes were
//! damaged. A valid group header behind the place proves the latter, because a group is only written after everything
//! before it was synced; so does a high-water mark behind the place. Then the log refuses to open; otherwise the torn
//! group is moved to a file of its own. The zeros behind it, or behind the last valid group, are [room](super::tail).
//!
//! # What is read is not yet durable
//! The last group (or footer, or name of the last segment) may have come from the cache of the operating system after a
//! failed sync, which a later sync does not repair. It is written once more and synced before anybody is told that it
//! is there.

use std::io;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::attestations::{ATTESTATIONS, Reached};
use super::catalog::{Catalog, Extent};
use super::checkpoint::{CHECKPOINT, Checkpoint, Head};
use super::format::{
    Address, Footer, FooterHead, HEADER_LEN, LogId, Mark, SegmentHeader, Share, TRAILER_LEN, segment_name,
    segment_number,
};
use super::manifest::{HighWater, MANIFEST, Manifest, Seal};
use super::scan::{Known, Scan, Tip, Tips, scan, scan_file, torn_len};
use super::segment::{FooterReader, Segment, Whole, discarded_classes, is_damage};
use super::summary::{Summary, Summing};
use super::tail::{Active, Room, Tail, UNFINISHED};
use super::{OpenError, snapshots};
use crate::damage::{Damage, Flaw};
use crate::discarded::Discarded;
use crate::disk::{Disk, DiskFile, is_full};
use crate::record::{EntityKey, Position, Seq};

/// A log that is ready.
pub(super) struct Recovered<'a> {
    pub(super) tips: Tips<'a>,
    pub(super) catalog: Catalog,
    pub(super) tail: Tail,
    /// The last durable position.
    pub(super) last: Position,
    /// What was read instead of the first segments.
    pub(super) checkpoint: Option<Checkpoint>,
    discarded: Discarded,
}

/// Opens the log in `disk`, or begins one there; `tips` takes up the entities.
pub(super) fn recover<'a>(disk: Arc<dyn Disk>, segment_bytes: u32, tips: Tips<'a>) -> Result<Recovered<'a>, OpenError> {
    remove_unfinished(&*disk)?;
    let count = count_segments(&*disk)?;
    let (manifest, seals) = match Manifest::open(&*disk)? {
        Some(found) => found,
        None => (begin(&*disk)?, Vec::new()),
    };
    let (log, mark) = (manifest.log(), manifest.mark());
    mark.check_count(count)?;
    let mut recovered = Recovered {
        tips,
        catalog: Catalog::default(),
        tail: Tail::new(disk, log, segment_bytes, manifest),
        last: Position::START,
        checkpoint: None,
        discarded: Discarded::default(),
    };
    let discarded = discarded_classes(&*recovered.tail.disk, &seals)?;
    discarded.iter().for_each(|class| recovered.tips.forget_named(class));
    recovered.take_checkpoint(&seals, &discarded);
    for (number, seal) in (1..).zip(&seals).skip(recovered.tail.seals.len()) {
        recovered.take_listed(number, *seal)?;
    }
    recovered.discarded = Discarded::uncounted(recovered.last.0);
    for number in mark.sealed_count + 1..=count {
        recovered.take_unlisted(number, number == count, &mark)?;
    }
    if let Some(entity) = recovered.discarded.incomplete() {
        return Err(damage(count, 0, Flaw::Discarded { entity: entity.clone() }).into());
    }
    if count > 0 {
        let disk = &recovered.tail.disk;
        disk.sync().map_err(|error| OpenError::io(&segment_name(count), &error))?;
    }
    match recovered.tail.advance_mark() {
        Err(error) if !is_full(&error) => Err(OpenError::io(MANIFEST, &error)),
        _ => Ok(recovered),
    }
}

/// Begins a log, unless there is something left of one.
fn begin(disk: &dyn Disk) -> Result<Manifest, OpenError> {
    if is_begun(disk)? {
        return Err(OpenError::NoManifest);
    }
    Manifest::create(disk, LogId(disk.fresh_id()), HighWater::default(), &[])
        .map_err(|error| OpenError::io(MANIFEST, &error))
}

/// Whether there is a part of a log that is never there without a manifest.
pub(super) fn is_begun(disk: &dyn Disk) -> Result<bool, OpenError> {
    let names = disk.names().map_err(|error| OpenError::io(".", &error))?;
    Ok(names.iter().any(|name| segment_number(name).is_some() || name == snapshots::FILE))
}

pub(super) fn remove_unfinished(disk: &dyn Disk) -> Result<(), OpenError> {
    for name in disk.names().map_err(|error| OpenError::io(".", &error))? {
        if name
            .strip_suffix(UNFINISHED)
            .is_some_and(|name| [MANIFEST, CHECKPOINT, ATTESTATIONS].contains(&name) || segment_number(name).is_some())
        {
            disk.remove(&name).map_err(|error| OpenError::io(&name, &error))?;
        }
    }
    Ok(())
}

/// The number of segments, which are numbered from 1 without a gap.
pub(super) fn count_segments(disk: &dyn Disk) -> Result<u32, OpenError> {
    let names = disk.names().map_err(|error| OpenError::io(".", &error))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    match (1..).zip(&numbers).find(|(expected, number)| expected != *number) {
        Some((missing, _)) => Err(damage(missing, 0, Flaw::Missing).into()),
        None => Ok(numbers.len() as u32),
    }
}

pub(super) fn damage(segment: u32, offset: u64, flaw: Flaw) -> Damage {
    Damage { file: segment_name(segment), offset, flaw }
}

/// Checks that `header` continues the log that `expected` describes.
pub(super) fn check_continues(header: &SegmentHeader, expected: &SegmentHeader) -> Result<(), Flaw> {
    if header.log != expected.log {
        Err(Flaw::Foreign)
    } else if header.first != expected.first || header.previous_hash != expected.previous_hash {
        Err(Flaw::Unchained)
    } else {
        Ok(())
    }
}

/// The footer of a sealed segment of `size` bytes, and where it begins; `read` reads at an offset.
fn read_footer(
    size: u64,
    log: LogId,
    number: u32,
    mut read: impl FnMut(u64, usize) -> io::Result<Vec<u8>>,
) -> io::Result<Option<(Footer, u32)>> {
    let Some(trailer_at) = size.checked_sub(TRAILER_LEN as u64) else { return Ok(None) };
    let announced = Footer::announced_len(&read(trailer_at, TRAILER_LEN)?);
    let Some((start, len)) = announced.and_then(|len| Some((trailer_at.checked_sub(len as u64)?, len))) else {
        return Ok(None);
    };
    let Ok(offset) = u32::try_from(start) else { return Ok(None) };
    let bytes = read(start, len)?;
    Ok(Footer::decode(&bytes, log, Address::new(number, offset)).map(|footer| (footer, offset)))
}

/// The bytes of `file` at `offset`, `len` of them or as many as there are.
fn read_part(file: &dyn DiskFile, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read = file.read_at(offset, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The footer at the end of `bytes`, a segment with `header`, and where it begins.
pub(super) fn find_footer(bytes: &[u8], header: &SegmentHeader) -> Option<(Footer, u32)> {
    let read = |offset: u64, len: usize| Ok(bytes[offset as usize..][..len].to_vec());
    let found = read_footer(bytes.len() as u64, header.log, header.number, read).ok()?;
    found.filter(|(_, start)| *start >= HEADER_LEN)
}

/// Moves `tips` on by what segment `number` has of `entity`; its records must follow those before.
fn take_share(entity: EntityKey, share: Share, number: u32, tips: &mut Tips<'_>) -> Result<(), Flaw> {
    let Some((_, class)) = tips.class_of(&entity) else { return Ok(()) };
    let before = class.get(&entity).map_or(Seq::NONE, |tip| tip.seq);
    let expected = Seq(before.0.wrapping_add(share.count));
    if share.last != expected {
        return Err(Flaw::Chain { entity, expected, found: share.last });
    }
    class.insert(entity, Tip { seq: share.last, address: Address::new(number, share.offset) });
    Ok(())
}

impl Recovered<'_> {
    /// Takes the checkpoint instead of the segments that it covers, if there is one that can be used.
    fn take_checkpoint(&mut self, seals: &[Seal], discarded: &[String]) {
        let Some(checkpoint) = Checkpoint::open(&*self.tail.disk, self.tail.log) else { return };
        let leaves_out_too_much = || checkpoint.omitted.iter().any(|class| !self.tips.is_over(class));
        if !checkpoint.fits(&*self.tail.disk, seals) || leaves_out_too_much() {
            tracing::info!("passed over a checkpoint of other segments or classes, and read the whole log");
            return;
        }
        if let Err(error) = self.take_entities(&checkpoint) {
            tracing::warn!(%error, "passed over a checkpoint, and read the whole log");
            self.tips.clear();
            discarded.iter().for_each(|class| self.tips.forget_named(class));
            self.catalog = Catalog::default();
            return;
        }
        let Head { log, segment_count, hash, last, .. } = *checkpoint.head();
        self.last = last;
        self.tail.next = SegmentHeader { number: segment_count + 1, log, first: last.next(), previous_hash: hash };
        self.tail.seals.extend(&seals[..segment_count as usize]);
        self.checkpoint = Some(checkpoint);
    }

    fn take_entities(&mut self, checkpoint: &Checkpoint) -> io::Result<()> {
        checkpoint.omitted.iter().for_each(|class| self.tips.forget_named(class));
        for entity in checkpoint.entities() {
            let (entity, tip) = entity?;
            if let Some((_, class)) = self.tips.class_of(&entity) {
                class.insert(entity, tip);
            }
        }
        checkpoint.extents()?.into_iter().for_each(|extent| self.catalog.push(extent));
        Ok(())
    }

    /// Takes a segment that the manifest lists: all of its bytes must be those that were written.
    fn take_listed(&mut self, number: u32, seal: Seal) -> Result<(), OpenError> {
        let name = segment_name(number);
        let failed = |error: io::Error| OpenError::io(&name, &error);
        let segment = Segment::open(&*self.tail.disk, number).map_err(failed)?;
        let file = &segment.file;
        let size = file.size().map_err(failed)?;
        if !segment.fits(seal, || true).map_err(failed)? {
            let Whole { bytes, .. } = Whole::read(&*self.tail.disk, number)?;
            return Err(self.find_damage(&bytes).into());
        }
        let header = self.check_header(&read_part(&**file, 0, HEADER_LEN as usize).map_err(failed)?)?;
        let not_a_footer = |error: io::Error| match is_damage(&error) {
            true => damage(number, size, Flaw::Footer).into(),
            false => failed(error),
        };
        let footer = FooterReader::open(&segment, header.log, number).map_err(not_a_footer)?;
        let (head, start) = (footer.head, footer.start);
        if head.first != header.first {
            return Err(damage(number, start.into(), Flaw::FooterMismatch).into());
        }
        for found in footer.entities() {
            let (entity, share) = found.map_err(not_a_footer)?;
            let taken = take_share(entity, share, number, &mut self.tips);
            taken.map_err(|flaw| damage(number, start.into(), flaw))?;
        }
        let marks = footer.marks().map_err(not_a_footer)?;
        self.take_sealed(&header, head, marks, start, seal);
        Ok(())
    }

    /// The first damage of the next segment, which is not as the manifest lists it.
    fn find_damage(&mut self, bytes: &[u8]) -> Damage {
        let number = self.tail.next.number;
        let header = match self.check_header(bytes) {
            Ok(header) => header,
            Err(damage) => return damage,
        };
        match find_footer(bytes, &header) {
            None => damage(number, bytes.len() as u64, Flaw::Footer),
            Some((_, start)) => {
                let mut discarded = Discarded::uncounted(self.last.0);
                let known = Known { tips: &mut self.tips, discarded: &mut discarded };
                match scan(&bytes[..start as usize], &header, known).stop {
                    Some(stop) => damage(number, stop.offset, stop.flaw),
                    None => damage(number, 0, Flaw::Unlisted),
                }
            }
        }
    }

    /// Takes a segment of which the manifest says at most how far it reached.
    fn take_unlisted(&mut self, number: u32, is_last: bool, mark: &HighWater) -> Result<(), OpenError> {
        let name = segment_name(number);
        let failed = |error: io::Error| OpenError::io(&name, &error);
        let Segment { file, .. } = Segment::open(&*self.tail.disk, number).map_err(failed)?;
        let size = file.size().map_err(failed)?;
        let start = read_part(&*file, 0, HEADER_LEN as usize).map_err(failed)?;
        let header = self.check_header(&start)?;
        let read = |offset, len| read_part(&*file, offset, len);
        match read_footer(size, header.log, number, read).map_err(failed)? {
            Some((footer, start)) if start >= HEADER_LEN => self.take_unlisted_sealed(&header, footer, start, mark),
            _ if !is_last => Err(damage(number, size, Flaw::Footer).into()),
            _ => self.take_unsealed(&header, &start, &file, size, mark),
        }
    }

    fn take_unlisted_sealed(
        &mut self,
        header: &SegmentHeader,
        footer: Footer,
        start: u32,
        mark: &HighWater,
    ) -> Result<(), OpenError> {
        let (number, name) = (header.number, segment_name(header.number));
        let failed = |error: io::Error| OpenError::io(&name, &error);
        let Whole { bytes, seal, discarded } = Whole::read(&*self.tail.disk, number)?;
        let groups = bytes.get(..start as usize).ok_or_else(|| damage(number, start.into(), Flaw::Short))?;
        let mut known = Known { tips: &mut self.tips, discarded: &mut self.discarded };
        let mut scan = scan(groups, header, known.reborrow());
        if let Some(stop) = scan.stop {
            return Err(damage(number, stop.offset, stop.flaw).into());
        }
        mark.check_end(number, scan.end)?;
        let is_compacted = discarded.is_some();
        if is_compacted {
            scan.settle(&footer, number, &mut known).map_err(|flaw| damage(number, start.into(), flaw))?;
        }
        let contents = scan.contents;
        let hash = if is_compacted { footer.hash } else { Sha256::digest(groups).into() };
        if contents.footer(hash) != footer {
            return Err(damage(number, start.into(), Flaw::FooterMismatch).into());
        }
        let seal = seal.ok_or_else(|| damage(number, 0, Flaw::Unlisted))?;
        self.tail.list().map_err(|error| OpenError::io(MANIFEST, &error))?;
        let file = self.tail.disk.open(&name).map_err(failed)?;
        // A compacted one was durable before it got its name.
        if !is_compacted {
            file.write_at(start.into(), &bytes[start as usize..]).map_err(failed)?;
        }
        file.sync().map_err(failed)?;
        self.take_sealed(header, footer.head(), footer.marks, start, seal);
        self.tail.unlisted = Some(seal);
        Ok(())
    }

    /// Takes the last segment, which begins with `start` and is `size` bytes long, and goes on at its end.
    fn take_unsealed(
        &mut self,
        header: &SegmentHeader,
        start: &[u8],
        file: &Arc<dyn DiskFile>,
        size: u64,
        mark: &HighWater,
    ) -> Result<(), OpenError> {
        let (number, name) = (header.number, segment_name(header.number));
        let failed = |error: io::Error| OpenError::io(&name, &error);
        let (mut hasher, mut checksum) = (Sha256::new_with_prefix(start), crc32c::crc32c(start));
        let known = Known { tips: &mut self.tips, discarded: &mut self.discarded };
        let scanned = scan_file(&**file, size, header, known, |groups| {
            hasher.update(groups);
            checksum = crc32c::crc32c_append(checksum, groups);
        });
        let Scan { contents, last, end, stop } = scanned.map_err(failed)?;
        let reached = mark.check_end(number, end);
        if let Some(stop) = stop {
            let rest = read_part(&**file, end.into(), usize::try_from(size - u64::from(end)).unwrap_or(usize::MAX));
            let torn = torn_len(&rest.map_err(failed)?);
            if reached.is_err() || torn > 0 {
                let Whole { bytes, .. } = Whole::read(&*self.tail.disk, number)?;
                if reached.is_err() || !stop.is_torn(&bytes, header, end) {
                    return Err(damage(number, stop.offset, stop.flaw).into());
                }
                let (cut, flaw) = (&bytes[end as usize..][..torn], stop.flaw);
                let moved_to = set_aside(&*self.tail.disk, &name, cut)?;
                tracing::warn!(file = name, offset = end, bytes = cut.len(), %flaw, moved_to, "cut off a torn group");
            }
            file.set_size(end.into()).map_err(failed)?;
        }
        reached?;
        if let Some(start) = last {
            let group = read_part(&**file, start.into(), (end - start) as usize).map_err(failed)?;
            file.write_at(start.into(), &group).map_err(failed)?;
        }
        file.sync().map_err(failed)?;
        self.last = Position(contents.next().0 - 1);
        self.catalog.push(Extent { first: header.first, end, marks: contents.marks.clone() });
        let (first, next, mark) = (header.first, contents.next(), contents.marks.last().copied());
        let summing = Summing::new(Summary::new(hasher, checksum, end, contents));
        let (file, room) = (Arc::clone(file), Room::UpTo(end));
        self.tail.active = Some(Active { number, file, end, first, next, mark, summing, room });
        Ok(())
    }

    fn check_header(&self, bytes: &[u8]) -> Result<SegmentHeader, Damage> {
        let expected = &self.tail.next;
        let wrong = |flaw| damage(expected.number, 0, flaw);
        let header = SegmentHeader::decode(bytes, expected.number).map_err(wrong)?;
        check_continues(&header, expected).map_err(wrong)?;
        Ok(header)
    }

    /// The segment with `header` ends the log so far; its footer begins at `start`.
    fn take_sealed(&mut self, header: &SegmentHeader, footer: FooterHead, marks: Vec<Mark>, start: u32, seal: Seal) {
        self.tail.seals.push(seal);
        self.last = Position(footer.first.0 + footer.count - 1);
        let (segment, last, hash) = (header.number, self.last, footer.hash);
        self.tail.sealed = Some(Reached { segment, end: start, last, hash });
        self.tail.next = SegmentHeader {
            number: header.number + 1,
            log: header.log,
            first: self.last.next(),
            previous_hash: footer.hash,
        };
        self.catalog.push(Extent { first: header.first, end: start, marks });
    }
}

/// Writes what is cut off from file `name` to a new file, whose name it returns.
fn set_aside(disk: &dyn Disk, name: &str, cut: &[u8]) -> Result<String, OpenError> {
    let names = disk.names().map_err(|error| OpenError::io(".", &error))?;
    let free = (1..).map(|n| format!("{name}.cut-{n}")).find(|free| !names.contains(free));
    let aside = free.expect("fewer names than numbers");
    let write = || {
        let file = disk.create(&aside)?;
        file.write_at(0, cut)?;
        file.sync()?;
        disk.sync()
    };
    write().map_err(|error| {
        // Every start would leave another part of it; what is cut is still where it was.
        disk.remove(&aside).unwrap_or_default();
        OpenError::io(&aside, &error)
    })?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Footers chain as records do: an entity's records go on where the segments before ended.
    #[test]
    fn footer_that_leaves_records_of_an_entity_out_is_refused() {
        let entity = EntityKey::new("Account", "A").unwrap();
        let share = |count, last| Share { count, last: Seq(last), offset: 72 };
        for (count, last, is_taken) in [(3, 8, true), (3, 9, false), (3, 7, false), (2, 8, false)] {
            let mut tips = Tips::default();
            take_share(entity.clone(), share(5, 5), 1, &mut tips).expect("the first five");
            let taken = take_share(entity.clone(), share(count, last), 2, &mut tips);
            assert_eq!(taken.is_ok(), is_taken, "{count} to {last}");
        }
    }
}
