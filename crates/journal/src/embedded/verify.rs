//! Reads a whole log and checks every byte of it.

use std::io;
use std::path::Path;

use indexmap::IndexMap;
use sha2::{Digest, Sha256};

use super::OpenError;
use super::attestations::{Attested, Check};
use super::checkpoint::{CHECKPOINT, Checkpoint};
use super::format::{Address, Footer, LogId, SegmentHeader, segment_name};
use super::manifest::{HighWater, MANIFEST, Manifest, Seal};
use super::recover::{check_continues, count_segments, damage, find_footer, is_begun, remove_unfinished};
use super::scan::{Known, Scan, Stop, Tip, Tips, scan, torn_len};
use super::segment::Whole;
use crate::damage::{Damage, Flaw};
use crate::discarded::Discarded;
use crate::disk::{Disk, OsDisk};
use crate::keys::PublicKey;
use crate::record::{EntityKey, Position};

/// The name that a manifest gets which is replaced.
pub(super) const REPLACED: &str = "manifest.old";

/// What a log consists of, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Segments read.
    pub segment_count: u32,
    /// Entities with records.
    pub entity_count: usize,
    /// The last position in the log.
    pub last: Position,
    /// Bytes at the end that a crash has torn; opening the journal moves them to a file beside the segment.
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

/// Reads the journal in `directory` and checks every record, chain, footer and hash, and that it has what the
/// manifest promises; changes nothing.
///
/// The journal must not be open elsewhere. Takes as long as reading all of it; memory for one segment and the index.
///
/// # Errors
/// When the directory is unsuitable or in use, or cannot be read. Damage is a result, not an error.
///
/// ```
/// use enact_journal::{Embedded, Journal, Options, verify};
/// # fn block_on<F: Future>(future: F) -> F::Output { enact_journal_kit::contract::block_on(future) }
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
    let mut verifier = Verifier::begin(disk)?;
    verifier.read(disk, None)?;
    Ok(verifier.found)
}

/// As [`verify`], and holds the log against its [attestations](crate::Attester): that each is signed with one of `keys` and follows the one
/// before, and that what it attests is there. What does not fit is among the damages, as is a log without attestations.
///
/// Nothing tells a log whose end was removed together with the attestations of that end from one that never had it, and nothing finds what
/// was changed by somebody who has the key.
///
/// # Errors
/// As [`verify`].
pub fn verify_attested(directory: &Path, keys: &[PublicKey]) -> Result<(Verification, Attested), OpenError> {
    verify_attested_on(&OsDisk::existing(directory)?, keys)
}

/// As [`verify_attested`], on `disk`.
///
/// # Errors
/// As [`verify`].
pub fn verify_attested_on(disk: &dyn Disk, keys: &[PublicKey]) -> Result<(Verification, Attested), OpenError> {
    let _lock = disk.lock()?;
    let mut verifier = Verifier::begin(disk)?;
    let (mut check, damage) = Check::read(disk, verifier.log, keys)?;
    verifier.found.damages.extend(damage);
    verifier.read(disk, Some(&mut check))?;
    let (attested, missing) = check.end();
    // Behind damage, nobody knows what there is.
    if verifier.found.is_sound() {
        verifier.found.damages.extend(missing);
    }
    Ok((verifier.found, attested))
}

/// Takes the log in `directory` as it is: makes a new manifest from it.
///
/// For a directory without a manifest, from a version that did not write one, and for one with a damaged manifest. What
/// is missing at the end of the log can no longer be noticed afterwards. A manifest that is there is renamed to
/// `manifest.old`. The log is verified first; if it is damaged, nothing is changed.
///
/// The journal must not be open elsewhere. Takes as long as reading all of it.
///
/// # Errors
/// When the directory is unsuitable or in use, or cannot be read or written. Damage is a result, not an error.
pub fn adopt(directory: &Path) -> Result<Verification, OpenError> {
    adopt_on(&OsDisk::existing(directory)?)
}

/// As [`adopt`], on `disk`.
///
/// # Errors
/// As [`adopt`].
pub fn adopt_on(disk: &dyn Disk) -> Result<Verification, OpenError> {
    let failed = |error: io::Error| OpenError::io(MANIFEST, &error);
    let _lock = disk.lock()?;
    let mut verifier = Verifier::default();
    verifier.read(disk, None)?;
    let Some(log) = verifier.log else {
        verifier.found.damages.push(damage(1, 0, Flaw::Missing));
        return Ok(verifier.found);
    };
    if verifier.found.is_sound() {
        remove_unfinished(disk)?;
        match disk.rename(MANIFEST, REPLACED) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let sealed_count = verifier.sealed.len() as u32;
        if verifier.end > 0 {
            // The manifest must not outlive what it promises.
            let name = segment_name(sealed_count + 1);
            disk.open(&name).and_then(|file| file.sync()).map_err(|error| OpenError::io(&name, &error))?;
        }
        let mark = HighWater { sealed_count, end: verifier.end, last: verifier.found.last };
        Manifest::create(disk, log, mark, &verifier.sealed).map_err(failed)?;
    }
    Ok(verifier.found)
}

/// Takes the segments of a log, one after the other.
pub(super) struct Verifier {
    pub(super) found: Verification,
    tips: Tips<'static>,
    pub(super) discarded: Discarded,
    next: SegmentHeader,
    /// Known from the manifest or, without one, from the first segment.
    pub(super) log: Option<LogId>,
    /// What the manifest says.
    pub(super) mark: HighWater,
    listed: Vec<Seal>,
    /// The sealed segments that are there.
    sealed: Vec<Seal>,
    /// The end of the groups in the segment behind them; 0 if there is none.
    end: u32,
}

impl Default for Verifier {
    fn default() -> Self {
        Self {
            found: Verification::default(),
            tips: Tips::default(),
            discarded: Discarded::default(),
            next: SegmentHeader { number: 1, log: LogId(0), first: Position(1), previous_hash: [0; 32] },
            log: None,
            mark: HighWater::default(),
            listed: Vec::new(),
            sealed: Vec::new(),
            end: 0,
        }
    }
}

impl Verifier {
    /// With what the manifest in `disk` promises; that it is damaged or missing is the first damage.
    pub(super) fn begin(disk: &dyn Disk) -> Result<Self, OpenError> {
        let mut verifier = Self::default();
        match Manifest::open(disk) {
            Ok(Some((manifest, seals))) => {
                verifier.log = Some(manifest.log());
                verifier.mark = manifest.mark();
                verifier.listed = seals;
            }
            Ok(None) if !is_begun(disk)? => {}
            Ok(None) => {
                verifier.found.damages.push(Damage { file: MANIFEST.to_owned(), offset: 0, flaw: Flaw::Missing });
            }
            Err(OpenError::Damaged(damage)) => verifier.found.damages.push(damage),
            Err(error) => return Err(error),
        }
        Ok(verifier)
    }

    /// Verifies all segments, and holds them against attestations.
    fn read(&mut self, disk: &dyn Disk, mut check: Option<&mut Check>) -> Result<(), OpenError> {
        let segment_count = match count_segments(disk) {
            Err(OpenError::Damaged(damage)) => {
                self.found.damages.push(damage);
                return Ok(());
            }
            count => count?,
        };
        let checkpoint = self.log.and_then(|log| Checkpoint::open(disk, log));
        for number in 1..=segment_count {
            let segment = Whole::read(disk, number)?;
            let damage_count = self.found.damages.len();
            let Some(end) = self.take(&segment, number, number == segment_count) else { break };
            if let Some(check) = &mut check
                && self.found.damages.len() == damage_count
            {
                let sealed = (self.next.number == number + 1).then_some(self.next.previous_hash);
                self.found.damages.extend(check.take(disk, number, &segment, end, sealed)?);
            }
            if self.found.damages.len() > damage_count {
                // Behind the first damage, nothing fits what is attested.
                check = None;
            }
            if let Some(checkpoint) = checkpoint.as_ref().filter(|found| found.head().segment_count == number) {
                self.compare(checkpoint);
            }
        }
        self.found.damages.extend(self.mark.check_count(segment_count).err());
        if self.found.is_sound()
            && let Some(entity) = self.discarded.incomplete()
        {
            let flaw = Flaw::Discarded { entity: entity.clone() };
            self.found.damages.push(damage(segment_count, 0, flaw));
        }
        self.found.entity_count = self.tips.values().map(IndexMap::len).sum();
        Ok(())
    }

    /// Verifies that `checkpoint`, which a start would believe, says the same as the segments that it covers.
    fn compare(&mut self, checkpoint: &Checkpoint) {
        let omitted = checkpoint.omitted.iter().filter_map(|class| self.tips.get(&format!("{class}/")));
        let omitted: usize = omitted.map(IndexMap::len).sum();
        let covered = self.tips.values().map(IndexMap::len).sum::<usize>() - omitted;
        let tip = |entity: &EntityKey| self.tips.get(entity.as_str())?.get(entity).copied();
        let is_discarded = |class: &str| self.is_discarded(class);
        if !checkpoint.says(self.found.last, self.next.previous_hash, is_discarded, covered, tip) {
            self.found.damages.push(Damage { file: CHECKPOINT.to_owned(), offset: 0, flaw: Flaw::Checkpoint });
        }
    }

    /// Whether records of `class` were discarded from a segment that was read.
    pub(super) fn is_discarded(&self, class: &str) -> bool {
        self.tips.is_over(class)
    }

    /// Verifies one segment; the end of its valid groups, or `None` if nothing can be said of the segments that follow.
    pub(super) fn take(&mut self, segment: &Whole, number: u32, is_last: bool) -> Option<u32> {
        let Whole { bytes, discarded, .. } = segment;
        self.found.segment_count += 1;
        discarded.iter().flatten().for_each(|class| self.tips.forget_named(class));
        let checked = SegmentHeader::decode(bytes, number).and_then(|header| {
            self.next.log = *self.log.get_or_insert(header.log);
            check_continues(&header, &self.next).map(|()| header)
        });
        let header = match checked {
            Ok(header) => header,
            Err(flaw) => {
                self.found.damages.push(damage(number, 0, flaw));
                return None;
            }
        };
        match find_footer(bytes, &header) {
            Some((footer, start)) => Some(self.take_sealed(segment, start, &header, &footer)),
            None if is_last && number > self.mark.sealed_count => Some(self.take_unsealed(bytes, &header)),
            None => {
                self.found.damages.push(damage(number, bytes.len() as u64, Flaw::Footer));
                None
            }
        }
    }

    fn take_sealed(&mut self, segment: &Whole, start: u32, header: &SegmentHeader, footer: &Footer) -> u32 {
        let groups = &segment.bytes[..start as usize];
        let number = header.number;
        let mut known = Known { tips: &mut self.tips, discarded: &mut self.discarded };
        let mut scan = scan(groups, header, known.reborrow());
        let is_compacted = segment.discarded.is_some();
        let hash = || if is_compacted { footer.hash } else { Sha256::digest(groups).into() };
        let settled =
            if is_compacted && scan.stop.is_none() { scan.settle(footer, number, &mut known) } else { Ok(()) };
        let Scan { contents, end, stop, .. } = scan;
        if let Some(Stop { offset, flaw, .. }) = stop {
            self.found.damages.push(damage(number, offset, flaw));
            // What follows can still be verified against what the footer says of this segment.
            for (entity, share) in &footer.entities {
                let address = Address::new(number, share.offset);
                if let Some((_, class)) = self.tips.class_of(entity) {
                    class.insert(entity.clone(), Tip { seq: share.last, address });
                }
            }
        } else if let Err(flaw) = settled {
            self.found.damages.push(damage(number, start.into(), flaw));
        } else if contents.footer(hash()) != *footer {
            self.found.damages.push(damage(number, start.into(), Flaw::FooterMismatch));
        } else if segment.seal.is_none()
            || self.listed.get(number as usize - 1).is_some_and(|listed| Some(*listed) != segment.seal)
        {
            self.found.damages.push(damage(number, 0, Flaw::Unlisted));
        } else {
            self.found.damages.extend(self.mark.check_end(number, end).err());
        }
        self.sealed.extend(segment.seal);
        self.found.last = Position((footer.first.0 + footer.count).saturating_sub(1));
        self.next = SegmentHeader {
            number: number + 1,
            log: header.log,
            first: self.found.last.next(),
            previous_hash: footer.hash,
        };
        end
    }

    fn take_unsealed(&mut self, bytes: &[u8], header: &SegmentHeader) -> u32 {
        let known = Known { tips: &mut self.tips, discarded: &mut self.discarded };
        let Scan { contents, end, stop, .. } = scan(bytes, header, known);
        self.found.last = Position(contents.next().0 - 1);
        self.end = end;
        let reached = self.mark.check_end(header.number, end);
        let torn = torn_len(&bytes[end as usize..]);
        match stop {
            Some(stop) if reached.is_err() || torn > 0 && !stop.is_torn(bytes, header, end) => {
                self.found.damages.push(damage(header.number, stop.offset, stop.flaw));
            }
            _ => {
                self.found.torn_bytes = torn as u64;
                self.found.damages.extend(reached.err());
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use enact_journal_kit::contract::block_on;

    use super::*;
    use crate::embedded::{Embedded, Options};
    use crate::journal::Journal;
    use crate::record::{Kind, NewRecord, Seq};

    /// A footer is a second statement of what the segment holds; both must agree.
    #[test]
    fn footer_that_describes_other_records_is_damage() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("data");
        let options = Options { segment_bytes: 4096, ..Options::default() };
        let journal = Embedded::open(&directory, options).unwrap();
        let entity = EntityKey::new("Account", "A").unwrap();
        for n in 0..3 {
            let record = NewRecord { entity: entity.clone(), expected: Seq(n), kind: Kind(0), payload: vec![0; 3000] };
            block_on(journal.append(vec![record])).unwrap();
        }
        drop(journal);
        let segment = directory.join(segment_name(1));
        let whole = fs::read(&segment).unwrap();
        let header = SegmentHeader::decode(&whole, 1).unwrap();
        let (footer, start) = find_footer(&whole, &header).unwrap();

        let mut wrong = vec![footer.clone(); 3];
        wrong[0].hash[31] ^= 1;
        wrong[1].entities[0].1.offset += 8;
        wrong[2].marks.clear();
        for wrong in wrong {
            let mut bytes = whole[..start as usize].to_vec();
            bytes.extend(wrong.encode(header.log, Address::new(1, start)));
            fs::write(&segment, bytes).unwrap();
            let damages = verify(&directory).unwrap().damages;
            assert_eq!(damages[0], damage(1, start.into(), Flaw::FooterMismatch), "{wrong:?}");
        }
    }
}
