//! Opens a log: decides what is durable, refuses what is damaged, cuts what a crash has torn.
//!
//! # What must be there
//! Segments 1 to n without a gap, each header valid; all but the last sealed by a valid footer, whose hash the next
//! header repeats. The footers give the index; sealed segments are not read, their records are verified when they are
//! read or by [`verify`](super::verify()).
//!
//! # The last segment
//! It is scanned. Where the bytes stop being valid, two things can have happened: the group was never completely
//! written, then nothing was ever written behind it and nobody was told that it is durable; or durable bytes were
//! damaged. A valid group header behind the place proves the latter, because a group is only written after everything
//! before it was synced. Then the log refuses to open; otherwise the torn group is cut off.
//!
//! # What is read is not yet durable
//! The last group (or footer, or name of the last segment) may have come from the cache of the operating system after a
//! failed sync, which a later sync does not repair. It is written once more and synced before anybody is told that it
//! is there.

use std::io;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::OpenError;
use super::catalog::{Catalog, Extent};
use super::format::{Address, Footer, HEADER_LEN, LogId, SegmentHeader, TRAILER_LEN, segment_name, segment_number};
use super::scan::{Scan, Tip, Tips, scan};
use super::tail::{Active, Tail, UNFINISHED};
use crate::damage::{Damage, Flaw};
use crate::disk::{Disk, DiskFile, read_all};
use crate::record::{Position, Seq};

/// A log that is ready.
pub(super) struct Recovered {
    pub(super) tips: Tips,
    pub(super) catalog: Catalog,
    pub(super) tail: Tail,
    /// The last durable position.
    pub(super) last: Position,
}

/// Opens the log in `disk`, or begins one there.
pub(super) fn recover(disk: Arc<dyn Disk>, segment_bytes: u32) -> Result<Recovered, OpenError> {
    remove_unfinished(&*disk)?;
    let count = count_segments(&*disk)?;
    let log = LogId(disk.fresh_id());
    let next = SegmentHeader { number: 1, log, first: Position(1), previous_hash: [0; 32] };
    let mut recovered = Recovered {
        tips: Tips::new(),
        catalog: Catalog::default(),
        tail: Tail { disk, log, segment_bytes, active: None, next, buffer: Vec::new() },
        last: Position::START,
    };
    for number in 1..count {
        recovered.take_sealed(number)?;
    }
    if count > 0 {
        recovered.take_last(count)?;
        let disk = &recovered.tail.disk;
        disk.sync().map_err(|error| OpenError::io(&segment_name(count), &error))?;
    }
    Ok(recovered)
}

fn remove_unfinished(disk: &dyn Disk) -> Result<(), OpenError> {
    for name in disk.names().map_err(|error| OpenError::io(".", &error))? {
        if name.strip_suffix(UNFINISHED).and_then(segment_number).is_some() {
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

/// Checks that `header` continues the log that `expected` describes; the first segment names the log.
pub(super) fn check_continues(header: &SegmentHeader, expected: &SegmentHeader) -> Result<(), Flaw> {
    if header.number > 1 && header.log != expected.log {
        Err(Flaw::Foreign)
    } else if header.first != expected.first || header.previous_hash != expected.previous_hash {
        Err(Flaw::Unchained)
    } else {
        Ok(())
    }
}

/// The footer of a sealed segment of `size` bytes, and where it begins; `read` reads at an offset.
pub(super) fn read_footer(
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

/// Moves `tips` on by what `footer` says of segment `number`; records must follow those before.
pub(super) fn take_footer(footer: &Footer, number: u32, tips: &mut Tips) -> Result<(), Flaw> {
    for (entity, share) in &footer.entities {
        let tip = tips.entry(entity.clone()).or_default();
        let expected = Seq(tip.seq.0.wrapping_add(share.count));
        if share.last != expected {
            return Err(Flaw::Chain { entity: entity.clone(), expected, found: share.last });
        }
        *tip = Tip { seq: share.last, address: Address::new(number, share.offset) };
    }
    Ok(())
}

impl Recovered {
    fn open(&mut self, number: u32) -> Result<(Arc<dyn DiskFile>, u64), OpenError> {
        let name = segment_name(number);
        let file = self.tail.disk.open(&name).map_err(|error| OpenError::io(&name, &error))?;
        let size = file.size().map_err(|error| OpenError::io(&name, &error))?;
        Ok((file, size))
    }

    fn take_header(&mut self, bytes: &[u8], number: u32) -> Result<SegmentHeader, Damage> {
        let header = SegmentHeader::decode(bytes, number).map_err(|flaw| damage(number, 0, flaw))?;
        check_continues(&header, &self.tail.next).map_err(|flaw| damage(number, 0, flaw))?;
        self.tail.log = header.log;
        Ok(header)
    }

    fn take_sealed(&mut self, number: u32) -> Result<(), OpenError> {
        let name = segment_name(number);
        let failed = |error: io::Error| OpenError::io(&name, &error);
        let (file, size) = self.open(number)?;
        let read = |offset, len| {
            let mut bytes = vec![0; len];
            let read = file.read_at(offset, &mut bytes)?;
            bytes.truncate(read);
            Ok(bytes)
        };
        let header = self.take_header(&read(0, HEADER_LEN as usize).map_err(failed)?, number)?;
        let found = read_footer(size, header.log, number, read).map_err(failed)?;
        let (footer, start) = found.ok_or_else(|| damage(number, size, Flaw::Footer))?;
        self.take_seal(&header, footer, start)?;
        Ok(())
    }

    fn take_seal(&mut self, header: &SegmentHeader, footer: Footer, start: u32) -> Result<(), Damage> {
        let wrong = |flaw| damage(header.number, start.into(), flaw);
        if footer.first != header.first {
            return Err(wrong(Flaw::FooterMismatch));
        }
        take_footer(&footer, header.number, &mut self.tips).map_err(wrong)?;
        self.last = Position(footer.first.0 + footer.count - 1);
        self.tail.next = SegmentHeader {
            number: header.number + 1,
            log: header.log,
            first: self.last.next(),
            previous_hash: footer.hash,
        };
        self.catalog.push(Extent { first: header.first, end: start, marks: footer.marks });
        Ok(())
    }

    fn take_last(&mut self, number: u32) -> Result<(), OpenError> {
        let name = segment_name(number);
        let failed = |error: io::Error| OpenError::io(&name, &error);
        let (file, size) = self.open(number)?;
        let bytes = read_all(&*file).map_err(failed)?;
        let header = self.take_header(&bytes, number)?;
        let read = |offset: u64, len: usize| Ok(bytes[offset as usize..][..len].to_vec());
        let settle = |from: u32, to: usize| file.write_at(from.into(), &bytes[from as usize..to]);

        if let Some((footer, start)) = read_footer(size, header.log, number, read).map_err(failed)? {
            self.take_seal(&header, footer, start)?;
            settle(start, bytes.len()).and_then(|()| file.sync()).map_err(failed)?;
            return Ok(());
        }

        let Scan { contents, last, end, stop } = scan(&bytes, &header, &mut self.tips);
        if let Some(stop) = stop {
            if !stop.is_torn(&bytes, &header, end) {
                return Err(damage(number, stop.offset, stop.flaw).into());
            }
            let (cut, flaw) = (bytes.len() - end as usize, stop.flaw);
            tracing::warn!(file = name, offset = end, bytes = cut, %flaw, "cut off a group that was never durable");
            file.set_size(end.into()).map_err(failed)?;
        }
        if let Some(last) = last {
            settle(last.start, end as usize).map_err(failed)?;
        }
        file.sync().map_err(failed)?;
        self.last = Position(contents.next().0 - 1);
        self.catalog.push(Extent { first: header.first, end, marks: contents.marks.clone() });
        self.tail.active = Some(Active {
            number,
            file: Arc::clone(&file),
            end,
            hasher: Sha256::new_with_prefix(&bytes[..end as usize]),
            contents,
            is_marked: last.is_some_and(|last| last.is_mark),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::format::Share;
    use crate::record::EntityKey;

    /// Footers chain as records do: an entity's records go on where the segments before ended.
    #[test]
    fn footer_that_leaves_records_of_an_entity_out_is_refused() {
        let entity = EntityKey::new("Account", "A").unwrap();
        let footer = |count, last| Footer {
            first: Position(1),
            count,
            hash: [0; 32],
            entities: vec![(entity.clone(), Share { count, last: Seq(last), offset: 72 })],
            marks: vec![],
        };
        for (count, last, is_taken) in [(3, 8, true), (3, 9, false), (3, 7, false), (2, 8, false)] {
            let mut tips = Tips::new();
            take_footer(&footer(5, 5), 1, &mut tips).expect("the first five");
            assert_eq!(take_footer(&footer(count, last), 2, &mut tips).is_ok(), is_taken, "{count} to {last}");
        }
    }
}
