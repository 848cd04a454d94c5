//! Reads the groups of a segment one after the other and checks that each record is the one that must stand there.
//!
//! Opening uses it for segments that the manifest does not list, verification for all of them.

use std::io;

use indexmap::IndexMap;

use super::classes::Classes;
use super::contents::Contents;
use super::format::{
    Address, Footer, Frame, GROUP_HEADER_LEN, GroupHeader, HEADER_LEN, LogId, SegmentHeader, find_group,
};
use super::store::to_record;
use crate::damage::Flaw;
use crate::discarded::Discarded;
use crate::disk::DiskFile;
use crate::record::{self, EntityKey, Position, Seq};

/// How much of a file is read at once.
const PART_BYTES: usize = 1 << 20;

/// The last record of an entity and where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tip {
    pub(super) seq: Seq,
    pub(super) address: Address,
}

/// The last records of all entities, but for forgotten classes.
pub(super) type Tips<'a> = Classes<'a, IndexMap<EntityKey, Tip>>;

/// What the groups of a log have said so far.
pub(super) struct Known<'t, 'a> {
    pub(super) tips: &'t mut Tips<'a>,
    pub(super) discarded: &'t mut Discarded,
}

impl<'a> Known<'_, 'a> {
    /// The same for a while.
    pub(super) fn reborrow(&mut self) -> Known<'_, 'a> {
        Known { tips: self.tips, discarded: self.discarded }
    }
}

/// What a scan found.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) contents: Contents,
    /// The start of the last valid group.
    pub(super) last: Option<u32>,
    /// The end of the last valid group.
    pub(super) end: u32,
    /// Why the scan stopped before the end of the bytes.
    pub(super) stop: Option<Stop>,
}

impl Scan {
    fn begin(header: &SegmentHeader) -> Self {
        Self { contents: Contents::new(header.first), last: None, end: HEADER_LEN, stop: None }
    }

    /// Scans `bytes`, which stand at the end of what was scanned.
    fn go_on(&mut self, bytes: &[u8], header: &SegmentHeader, known: &mut Known<'_, '_>) {
        let start = self.end;
        while ((self.end - start) as usize) < bytes.len() {
            let address = Address::new(header.number, self.end);
            let group = match Group::decode(&bytes[(self.end - start) as usize..], header.log, address) {
                Ok(group) => group,
                Err((within, flaw)) => {
                    let is_invalid = flaw != Flaw::Malformed;
                    self.stop = Some(Stop { offset: u64::from(self.end) + within, flaw, is_invalid });
                    break;
                }
            };
            if let Err((offset, flaw)) = admit(&group, &mut self.contents, known, address) {
                self.stop = Some(Stop { offset: u64::from(offset), flaw, is_invalid: false });
                break;
            }
            self.last = Some(self.end);
            self.end += group.len as u32;
        }
    }

    /// Takes up what only `footer` knows of segment `number`: the entities of which the last records there were discarded.
    ///
    /// # Errors
    /// When so many cannot have been.
    pub(super) fn settle(&mut self, footer: &Footer, number: u32, known: &mut Known<'_, '_>) -> Result<(), Flaw> {
        for (entity, share) in &footer.entities {
            let Some((_, class)) = known.tips.class_of(entity) else { continue };
            let tip = class.get(entity).copied().unwrap_or_default();
            if tip.seq >= share.last {
                continue;
            }
            let chain = || Flaw::Chain { entity: entity.clone(), expected: tip.seq.next(), found: share.last };
            let discarded = known.discarded.skip(entity, tip.seq, share.last).ok_or_else(chain)?;
            self.contents.settle(entity, *share, discarded);
            class.insert(entity.clone(), Tip { seq: share.last, address: Address::new(number, share.offset) });
        }
        Ok(())
    }
}

/// A flaw and its place.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) offset: u64,
    pub(super) flaw: Flaw,
    /// The bytes are not valid, as after a torn write. Otherwise they are valid and cannot have been written here.
    pub(super) is_invalid: bool,
}

impl Stop {
    /// The bytes of the last segment from `end` on may be a group that was never completely written: no group follows,
    /// and one would only have been written after everything before it was durable.
    pub(super) fn is_torn(&self, bytes: &[u8], header: &SegmentHeader, end: u32) -> bool {
        self.is_invalid && find_group(bytes, header.log, header.number, end as usize + 1).is_none()
    }
}

/// How many bytes of a torn group there are in `rest`, which is behind the last valid one: what is behind them is [room](super::tail).
pub(super) fn torn_len(rest: &[u8]) -> usize {
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Scans `bytes`, a segment with `header` and without footer, and moves on what is known.
pub(super) fn scan(bytes: &[u8], header: &SegmentHeader, mut known: Known<'_, '_>) -> Scan {
    let mut scan = Scan::begin(header);
    scan.go_on(bytes.get(HEADER_LEN as usize..).unwrap_or_default(), header, &mut known);
    scan
}

/// As [`scan`], of the `size` bytes of `file`, part by part; `see` is shown the bytes of the valid groups.
pub(super) fn scan_file(
    file: &dyn DiskFile,
    size: u64,
    header: &SegmentHeader,
    mut known: Known<'_, '_>,
    mut see: impl FnMut(&[u8]),
) -> io::Result<Scan> {
    let mut scan = Scan::begin(header);
    // From the end of the last valid group on.
    let mut bytes = Vec::new();
    loop {
        let (start, held) = (scan.end, bytes.len());
        let at = u64::from(start) + held as u64;
        bytes.resize(held + PART_BYTES.min(usize::try_from(size.saturating_sub(at)).unwrap_or(PART_BYTES)), 0);
        let read = file.read_at(at, &mut bytes[held..])?;
        bytes.truncate(held + read);
        scan.go_on(&bytes, header, &mut known);
        let valid = (scan.end - start) as usize;
        see(&bytes[..valid]);
        bytes.drain(..valid);
        let goes_on = read > 0 && scan.stop.as_ref().is_none_or(|stop| stop.flaw == Flaw::Short);
        if !goes_on {
            return Ok(scan);
        }
        scan.stop = None;
    }
}

/// A group with all its checksums verified.
pub(super) struct Group<'a> {
    pub(super) first: Position,
    /// How many positions it takes.
    pub(super) count: u32,
    pub(super) frames: Vec<(Address, Frame<'a>)>,
    pub(super) len: usize,
}

impl<'a> Group<'a> {
    /// Its records, but for those of classes that `is_discarded`; none if it never had any. The error is the offset of a malformed one.
    pub(super) fn to_group(&self, is_discarded: impl Fn(&str) -> bool) -> Result<Option<record::Group>, u32> {
        let mut records = Vec::with_capacity(self.frames.len());
        for (place, frame) in &self.frames {
            let Frame::Record(stored) = frame else { continue };
            let entity: EntityKey = stored.key.parse().map_err(|_| place.offset())?;
            if !is_discarded(entity.class()) {
                records.push(to_record(entity, stored));
            }
        }
        let last = Position(self.first.0 + u64::from(self.count) - 1);
        Ok((self.count > 0).then(|| record::Group::new(self.first, last, records)))
    }

    /// Decodes the group at `address` from the start of `bytes`, or says what is invalid and how far into them.
    pub(super) fn decode(bytes: &'a [u8], log: LogId, address: Address) -> Result<Self, (u64, Flaw)> {
        let header = GroupHeader::decode(bytes, log, address).map_err(|flaw| (0, flaw))?;
        let whole = bytes.get(..header.len()).ok_or((0, Flaw::Short))?;
        let (body, padding) = whole.split_at(GROUP_HEADER_LEN + header.body_len as usize);
        let mut frames = Vec::new();
        let (mut at, mut count) = (GROUP_HEADER_LEN, 0);
        while at < body.len() {
            let place = Address::new(address.segment(), address.offset() + at as u32);
            let frame = Frame::decode(&body[at..], log, place).map_err(|flaw| (at as u64, flaw))?;
            at += frame.len();
            count += u64::from(frame.count());
            let place = if let Frame::Record(stored) = &frame { place.of(stored.kind) } else { place };
            frames.push((place, frame));
        }
        if at != body.len() || count != u64::from(header.count) {
            return Err((0, Flaw::GroupHeader));
        }
        if padding.iter().any(|byte| *byte != 0) {
            return Err((at as u64, Flaw::Padding));
        }
        Ok(Self { first: header.first, count: header.count, frames, len: whole.len() })
    }
}

fn admit(
    group: &Group<'_>,
    contents: &mut Contents,
    known: &mut Known<'_, '_>,
    at: Address,
) -> Result<(), (u32, Flaw)> {
    let Known { tips, discarded } = known;
    if group.first != contents.next() {
        return Err((at.offset(), Flaw::Order { expected: contents.next(), found: group.first }));
    }
    if group.count > 0 {
        contents.begin_group(at.offset());
    }
    for (place, frame) in &group.frames {
        let wrong = |flaw| (place.offset(), flaw);
        if frame.first() != contents.next() {
            return Err(wrong(Flaw::Order { expected: contents.next(), found: frame.first() }));
        }
        let stored = match frame {
            Frame::Record(stored) => stored,
            Frame::Gap(gap) => {
                contents.skip(gap.count);
                discarded.add(gap.count.into());
                continue;
            }
        };
        let (entity, tip) = match tips.get(stored.key).and_then(|class| class.get_key_value(stored.key)) {
            Some((entity, tip)) => (entity.clone(), *tip),
            None => (stored.key.parse().map_err(|_| wrong(Flaw::Malformed))?, Tip::default()),
        };
        let mut skipped = 0;
        if let Some((_, class)) = tips.class_of(&entity) {
            let expected = tip.seq.next();
            let left_out = discarded.skip(&entity, expected, stored.seq);
            let Some(left_out) = left_out.filter(|count| *count > 0 || stored.previous == tip.address) else {
                return Err(wrong(Flaw::Chain { entity, expected, found: stored.seq }));
            };
            skipped = left_out;
            discarded.see(&entity, stored.kind);
            class.insert(entity.clone(), Tip { seq: stored.seq, address: *place });
        }
        contents.add(&entity, stored.seq, *place, skipped);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::draft::{Draft, Previous};
    use crate::record::{Kind, NewRecord};

    const HEADER: SegmentHeader =
        SegmentHeader { number: 1, log: LogId(7), first: Position(1), previous_hash: [0; 32] };

    fn key(id: &str) -> EntityKey {
        EntityKey::new("Account", id).unwrap()
    }

    /// Appends a valid group of one record to a segment; its address.
    fn push(segment: &mut Vec<u8>, position: u64, id: &str, expected: u64, previous: Address) -> Address {
        let record = NewRecord { entity: key(id), expected: Seq(expected), kind: Kind(0), payload: vec![9; 20] };
        let at = Address::new(1, segment.len() as u32);
        let mut group = Draft::of(&[record]);
        let addresses = group.place(HEADER.log, at, Position(position), &[Previous::At(previous)]);
        segment.append(group.bytes());
        addresses[0]
    }

    /// Bytes with valid checksums that cannot have been written here are damage even at the very end of the log, where
    /// invalid ones would be a torn write.
    #[test]
    fn valid_record_in_the_wrong_place_is_never_taken_for_a_torn_write() {
        let none = Address::default();
        let order = |expected, found| Flaw::Order { expected: Position(expected), found: Position(found) };
        let chain = |id, expected, found| Flaw::Chain { entity: key(id), expected: Seq(expected), found: Seq(found) };
        let elsewhere = Address::new(1, 4000);
        for (position, id, expected, previous, flaw) in [
            (3, "A", 1, None, order(2, 3)),
            (1, "A", 1, None, order(2, 1)),
            (2, "A", 2, None, chain("A", 2, 3)),
            (2, "A", 0, None, chain("A", 2, 1)),
            (2, "A", 1, Some(elsewhere), chain("A", 2, 2)),
            (2, "A", 1, Some(none), chain("A", 2, 2)),
            (2, "B", 1, Some(none), chain("B", 1, 2)),
            (u64::MAX - 1, "A", 1, None, Flaw::Malformed),
            (2, "A", u64::MAX - 1, None, Flaw::Malformed),
        ] {
            let mut segment = HEADER.encode();
            let first = push(&mut segment, 1, "A", 0, none);
            let second = segment.len();
            push(&mut segment, position, id, expected, previous.unwrap_or(first));
            let known = Known { tips: &mut Tips::default(), discarded: &mut Discarded::default() };
            let scan = scan(&segment, &HEADER, known);
            assert_eq!((scan.end as usize, scan.contents.count), (second, 1), "{flaw}");
            let stop = scan.stop.expect("the second group is wrong");
            assert!(!stop.is_torn(&segment, &HEADER, scan.end), "{flaw}");
            assert_eq!(stop.flaw, flaw);
        }
    }

    #[test]
    fn scan_collects_what_the_segment_holds() {
        let mut segment = HEADER.encode();
        let first = push(&mut segment, 1, "A", 0, Address::default());
        let other = push(&mut segment, 2, "B", 0, Address::default());
        let last = push(&mut segment, 3, "A", 1, first);
        let mut tips = Tips::default();
        let scan = scan(&segment, &HEADER, Known { tips: &mut tips, discarded: &mut Discarded::default() });
        assert!(scan.stop.is_none());
        assert_eq!((scan.end as usize, scan.contents.next()), (segment.len(), Position(4)));
        for (id, seq, address) in [("A", 2, last), ("B", 1, other)] {
            let tip = tips.get(key(id).as_str()).and_then(|class| class.get(&key(id)));
            assert_eq!(tip, Some(&Tip { seq: Seq(seq), address }));
        }
    }
}
