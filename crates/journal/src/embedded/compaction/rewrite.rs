//! Writes a segment anew, without the records that nobody wants.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::Unwanted;
use crate::damage::Flaw;
use crate::disk::{Disk, DiskFile};
use crate::embedded::format::{
    Address, FooterHead, Frame, GAP_LEN, GROUP_HEADER_LEN, Gap, GroupHeader, HEADER_LEN, LogId, segment_name,
};
use crate::embedded::manifest::Seal;
use crate::embedded::output::Output;
use crate::embedded::reader::Reader;
use crate::embedded::scan::Group;
use crate::embedded::segment::{Compacted, FooterReader, Head, Kept, Segment};
use crate::embedded::tail::UNFINISHED;
use crate::record::EntityKey;

/// How much is read and written between two looks whether to go on.
const BYTES_AT_ONCE: usize = 1 << 20;

/// How writing a segment anew has ended.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Rewrite {
    /// The new one is durable under this name, and can take the place of the other.
    Done(String),
    /// It was to stop, or would free nothing; nothing is left.
    Stopped,
    /// The segment is not what was written; nothing is left.
    Damaged,
}

/// Writes segment `number`, which has `seal`, without what is `unwanted`. After each part, `goes_on` says.
///
/// # Errors
/// As the operating system reports; nothing is left then.
pub(in crate::embedded) fn rewrite(
    disk: &dyn Disk,
    log: LogId,
    number: u32,
    seal: Seal,
    unwanted: &Unwanted<'_>,
    mut goes_on: impl FnMut() -> bool,
) -> io::Result<Rewrite> {
    let segment = Segment::open(disk, number)?;
    let mut is_stopped = false;
    let is_whole = segment.fits(seal, || {
        is_stopped = !goes_on();
        !is_stopped
    })?;
    if !is_whole {
        return Ok(Rewrite::Damaged);
    }
    let name = format!("{}{UNFINISHED}", segment_name(number));
    let source = Source { segment: &segment, log, number, unwanted };
    let written = if is_stopped { Ok(Rewrite::Stopped) } else { source.write(disk, seal, &name, &mut goes_on) };
    if !matches!(written, Ok(Rewrite::Done(_))) {
        // The next start removes it if this fails, and the next rewriting replaces it.
        disk.remove(&name).unwrap_or_default();
    }
    written
}

/// A segment, and what is not wanted of it.
struct Source<'a> {
    segment: &'a Segment,
    log: LogId,
    number: u32,
    unwanted: &'a Unwanted<'a>,
}

/// A gap, and where it stands.
type Placed = (u32, Gap);

impl Source<'_> {
    fn write(
        &self,
        disk: &dyn Disk,
        seal: Seal,
        name: &str,
        goes_on: &mut impl FnMut() -> bool,
    ) -> io::Result<Rewrite> {
        let footer = FooterReader::open(self.segment, self.log, self.number)?;
        let mut discarded: BTreeSet<String> =
            self.segment.head().into_iter().flat_map(|head| head.classes.iter().cloned()).collect();
        let Some(gaps) = self.gaps(&self.segment.file, footer.start, &mut discarded, goes_on)? else {
            return Ok(Rewrite::Stopped);
        };
        let (footer_bytes, superseded) = self.footer(&footer)?;
        let len = footer.start + footer_bytes.len() as u32;
        let head = Head {
            number: self.number,
            log: self.log,
            seal,
            len,
            classes: discarded.into_iter().collect(),
            superseded,
        };

        let mut out = Output::create(disk, name)?;
        out.put(&head.encode(&kept(&gaps, len)))?;
        let mut reader = Reader::new(Arc::clone(&self.segment.file), 0, BYTES_AT_ONCE.min(len as usize));
        let mut at = 0;
        for &(place, gap) in &gaps {
            if !copy(&mut reader, &mut out, place - at, goes_on)? {
                return Ok(Rewrite::Stopped);
            }
            out.put(&gap.encode(self.log, Address::new(self.number, place)))?;
            reader.skip(gap.len.into())?;
            at = place + gap.len;
        }
        if !copy(&mut reader, &mut out, footer.start - at, goes_on)? {
            return Ok(Rewrite::Stopped);
        }
        out.put(&footer_bytes)?;
        let file = out.finish()?;
        Ok(match self.check(&file, &gaps, footer.start, goes_on)? {
            // A longer one is of no use.
            Some(()) if file.size()? < u64::from(seal.len) => Rewrite::Done(name.to_owned()),
            _ => Rewrite::Stopped,
        })
    }

    /// The gaps that `file`, whose groups reach to `end`, gets or has; the classes of what is not wanted are put to `discarded`.
    fn gaps(
        &self,
        file: &Arc<dyn DiskFile>,
        end: u32,
        discarded: &mut BTreeSet<String>,
        goes_on: &mut impl FnMut() -> bool,
    ) -> io::Result<Option<Vec<Placed>>> {
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let mut reader = Reader::new(Arc::clone(file), HEADER_LEN.into(), BYTES_AT_ONCE.min(end as usize));
        let (mut gaps, mut at, mut looked_at) = (Vec::new(), HEADER_LEN, 0);
        while at < end {
            if (at - looked_at) as usize > BYTES_AT_ONCE {
                looked_at = at;
                if !goes_on() {
                    return Ok(None);
                }
            }
            let address = Address::new(self.number, at);
            let mut bytes = reader.take(GROUP_HEADER_LEN)?.to_vec();
            let header = GroupHeader::decode(&bytes, self.log, address).map_err(|flaw| wrong(flaw.to_string()))?;
            bytes.extend(reader.take(header.len() - GROUP_HEADER_LEN)?);
            let group = Group::decode(&bytes, self.log, address).map_err(|(_, flaw)| wrong(flaw.to_string()))?;
            let mut open: Option<Placed> = None;
            for (place, frame) in &group.frames {
                if let Frame::Record(stored) = frame {
                    let entity: EntityKey = stored.key.parse().map_err(|_| wrong(Flaw::Malformed.to_string()))?;
                    let is_of_class = self.unwanted.has_class(entity.class());
                    if !is_of_class && !self.unwanted.is_superseded(&entity, stored.seq) {
                        gaps.extend(open.take());
                        continue;
                    }
                    if is_of_class && !discarded.contains(entity.class()) {
                        discarded.insert(entity.class().to_owned());
                    }
                }
                let (_, gap) = open.get_or_insert((place.offset(), Gap { first: frame.first(), len: 0, count: 0 }));
                gap.len += frame.len() as u32;
                gap.count += frame.count();
            }
            gaps.extend(open);
            at += group.len as u32;
        }
        Ok(Some(gaps))
    }

    /// The footer without the classes that are not wanted, and how many of the records that it counts are not, either.
    fn footer(&self, footer: &FooterReader) -> io::Result<(Vec<u8>, u64)> {
        let (mut entities, mut entity_count, mut superseded) = (Vec::new(), 0, 0);
        for found in footer.entities() {
            let (entity, share) = found?;
            if !self.unwanted.has_class(entity.class()) {
                share.encode(&entity, &mut entities);
                entity_count += 1;
                superseded += self.unwanted.superseded(&entity, &share);
            }
        }
        let mut marks = Vec::new();
        footer.marks()?.iter().for_each(|mark| mark.encode(&mut marks));
        let head = FooterHead { entity_count, ..footer.head };
        Ok((head.encode(self.log, Address::new(self.number, footer.start), &entities, &marks), superseded))
    }

    /// Reads what was written: it has the gaps that it was to get, and groups that are whole.
    fn check(
        &self,
        file: &Arc<dyn DiskFile>,
        gaps: &[Placed],
        end: u32,
        goes_on: &mut impl FnMut() -> bool,
    ) -> io::Result<Option<()>> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "what was written reads as something else");
        let written = Compacted::open(file, self.number)?.ok_or_else(wrong)?;
        let mut discarded = BTreeSet::new();
        let found = self.gaps(&(Arc::new(written) as Arc<dyn DiskFile>), end, &mut discarded, goes_on)?;
        match found {
            None => Ok(None),
            Some(found) if discarded.is_empty() && found == gaps => Ok(Some(())),
            Some(_) => Err(wrong()),
        }
    }
}

/// What is left of a segment of length `len` between `gaps`.
fn kept(gaps: &[Placed], len: u32) -> Vec<Kept> {
    let (mut kept, mut at) = (Vec::new(), 0);
    for (place, gap) in gaps.iter().filter(|(_, gap)| gap.len > GAP_LEN as u32) {
        kept.push(Kept { at, len: place + GAP_LEN as u32 - at });
        at = place + gap.len;
    }
    kept.push(Kept { at, len: len - at });
    kept
}

/// Copies the next `len` bytes; `false` if it is to stop.
fn copy(reader: &mut Reader, out: &mut Output, len: u32, goes_on: &mut impl FnMut() -> bool) -> io::Result<bool> {
    let mut rest = len as usize;
    while rest > 0 {
        let part = rest.min(BYTES_AT_ONCE);
        out.put(reader.take(part)?)?;
        rest -= part;
        if part == BYTES_AT_ONCE && !goes_on() {
            return Ok(false);
        }
    }
    Ok(true)
}
