//! Reads a whole log and checks every byte of it.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::OpenError;
use super::format::{Address, Footer, HEADER_LEN, LogId, SegmentHeader, segment_name};
use super::recover::{check_continues, count_segments, damage, read_footer};
use super::scan::{Scan, Stop, Tip, Tips, scan};
use crate::damage::{Damage, Flaw};
use crate::disk::{Disk, OsDisk, read_all};
use crate::record::Position;

/// What a log consists of, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Segments read.
    pub segment_count: u32,
    /// Entities with records.
    pub entity_count: usize,
    /// The last position in the log.
    pub last: Position,
    /// Bytes at the end that a crash has torn; opening the journal cuts them off.
    pub torn_bytes: u64,
    /// The first damage of each damaged segment; empty if the log is sound.
    pub damages: Vec<Damage>,
}

impl Verification {
    /// Nothing is damaged. A torn end is no damage.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }
}

/// Reads the journal in `directory` and checks every record, chain, footer and hash; changes nothing.
///
/// The journal must not be open elsewhere. Takes as long as reading all of it; memory for one segment and the index.
///
/// # Errors
/// When the directory is unsuitable or in use, or cannot be read. Damage is a result, not an error.
///
/// ```
/// use enact_journal::{Embedded, Journal, Options, verify};
/// # fn block_on<F: Future>(future: F) -> F::Output { enact_journal::contract::block_on(future) }
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// block_on(Embedded::open(&path, Options::default())?.close())?;
/// assert!(verify(&path)?.is_sound());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(directory: &Path) -> Result<Verification, OpenError> {
    verify_on(&OsDisk::existing(directory)?)
}

/// As [`verify`], on `disk`.
///
/// # Errors
/// As [`verify`].
pub fn verify_on(disk: &dyn Disk) -> Result<Verification, OpenError> {
    let _lock = disk.lock()?;
    let mut verifier = Verifier {
        found: Verification::default(),
        tips: Tips::new(),
        next: SegmentHeader { number: 1, log: LogId(0), first: Position(1), previous_hash: [0; 32] },
    };
    let segment_count = match count_segments(disk) {
        Err(OpenError::Damaged(damage)) => {
            verifier.found.damages.push(damage);
            return Ok(verifier.found);
        }
        count => count?,
    };
    for number in 1..=segment_count {
        let name = segment_name(number);
        let bytes = disk.open(&name).and_then(|file| read_all(&*file)).map_err(|error| OpenError::io(&name, &error))?;
        verifier.found.segment_count += 1;
        if !verifier.take(&bytes, number, number == segment_count) {
            break;
        }
    }
    verifier.found.entity_count = verifier.tips.len();
    Ok(verifier.found)
}

struct Verifier {
    found: Verification,
    tips: Tips,
    next: SegmentHeader,
}

impl Verifier {
    /// Verifies one segment; `false` if nothing can be said of those that follow.
    fn take(&mut self, bytes: &[u8], number: u32, is_last: bool) -> bool {
        let checked = SegmentHeader::decode(bytes, number)
            .and_then(|header| check_continues(&header, &self.next).map(|()| header));
        let header = match checked {
            Ok(header) => header,
            Err(flaw) => {
                self.found.damages.push(damage(number, 0, flaw));
                return false;
            }
        };
        let read = |offset: u64, len: usize| Ok(bytes[offset as usize..][..len].to_vec());
        match read_footer(bytes.len() as u64, header.log, number, read) {
            Ok(Some((footer, start))) if start >= HEADER_LEN => {
                self.take_sealed(&bytes[..start as usize], &header, &footer);
                true
            }
            _ if is_last => {
                self.take_unsealed(bytes, &header);
                true
            }
            _ => {
                self.found.damages.push(damage(number, bytes.len() as u64, Flaw::Footer));
                false
            }
        }
    }

    fn take_sealed(&mut self, groups: &[u8], header: &SegmentHeader, footer: &Footer) {
        let Scan { contents, stop, .. } = scan(groups, header, &mut self.tips);
        let hash = Sha256::digest(groups).into();
        if let Some(Stop { offset, flaw, .. }) = stop {
            self.found.damages.push(damage(header.number, offset, flaw));
            // What follows can still be verified against what the footer says of this segment.
            for (entity, share) in &footer.entities {
                let address = Address::new(header.number, share.offset);
                self.tips.insert(entity.clone(), Tip { seq: share.last, address });
            }
        } else if contents.footer(hash) != *footer {
            self.found.damages.push(damage(header.number, groups.len() as u64, Flaw::FooterMismatch));
        }
        self.found.last = Position((footer.first.0 + footer.count).saturating_sub(1));
        self.next = SegmentHeader {
            number: header.number + 1,
            log: header.log,
            first: self.found.last.next(),
            previous_hash: footer.hash,
        };
    }

    fn take_unsealed(&mut self, bytes: &[u8], header: &SegmentHeader) {
        let Scan { contents, end, stop, .. } = scan(bytes, header, &mut self.tips);
        self.found.last = Position(contents.next().0 - 1);
        if let Some(stop) = stop {
            if stop.is_torn(bytes, header, end) {
                self.found.torn_bytes = bytes.len() as u64 - u64::from(end);
            } else {
                self.found.damages.push(damage(header.number, stop.offset, stop.flaw));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::block_on;
    use crate::embedded::{Embedded, Options};
    use crate::journal::Journal;
    use crate::record::{EntityKey, Kind, NewRecord, Seq};
    use crate::sim::SimDisk;

    /// A footer is a second statement of what the segment holds; both must agree.
    #[test]
    fn footer_that_describes_other_records_is_damage() {
        let disk = SimDisk::new(0);
        let journal = Embedded::open_on(disk.mount(), Options { segment_bytes: 4096, ..Options::default() }).unwrap();
        let entity = EntityKey::new("Account", "A").unwrap();
        for n in 0..3 {
            let record = NewRecord { entity: entity.clone(), expected: Seq(n), kind: Kind(0), payload: vec![0; 3000] };
            block_on(journal.append(vec![record])).unwrap();
        }
        drop(journal);
        let whole = disk.bytes(&segment_name(1)).unwrap();
        let header = SegmentHeader::decode(&whole, 1).unwrap();
        let read = |offset: u64, len: usize| Ok(whole[offset as usize..][..len].to_vec());
        let (footer, start) = read_footer(whole.len() as u64, header.log, 1, read).unwrap().unwrap();

        let mut wrong = vec![footer.clone(); 3];
        wrong[0].hash[31] ^= 1;
        wrong[1].entities[0].1.offset += 8;
        wrong[2].marks.clear();
        for wrong in wrong {
            let mut bytes = whole[..start as usize].to_vec();
            bytes.extend(wrong.encode(header.log, Address::new(1, start)));
            disk.set_bytes(&segment_name(1), bytes);
            let damages = verify_on(&*disk.mount()).unwrap().damages;
            assert_eq!(damages[0], damage(1, start.into(), Flaw::FooterMismatch), "{wrong:?}");
        }
    }
}
