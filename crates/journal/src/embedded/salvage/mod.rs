//! Reads what is whole of a damaged log, and says what is not.
//!
//! # Problem
//! A log with damage does not open, and for good reasons: nobody may go on from a history with a hole. Its operator needs
//! to know what the hole is, and needs all that is left to build a log that opens, from a backup or without.
//!
//! # What is taken
//! A group counts if its checksums are right, which cover the log's id and the place, and if it follows what was taken
//! before: its positions are higher, and so are the numbers of its records, entity by entity. Where no position is
//! missing they are the very next ones, and records name the places of those before them.
//!
//! # What is not
//! A segment of another log, and one that is whole by itself and not the one that the manifest lists, or that its successor
//! follows: its records are those of another history, and count as missing, as do those behind a group of the same segment
//! that cannot have been written there. Nothing is taken behind a segment that does not continue the one before, as
//! nobody can tell which of both is the right one.
//!
//! # Discarded records
//! A group of a segment that was compacted has the positions that it always had. Of a class of which some segment has lost records
//! to compaction, nothing is taken from there on, and nothing is missing. Nor is it of an entity whose tombstone comes later.
//!
//! # Where the log ends
//! At the high-water mark or behind it, as when it is opened. If no slot of the manifest is whole, nobody knows whether
//! something is missing at the end.
//!
//! # The checkpoint
//! Nothing is taken from it. Where the log is sound it is compared with the segments that it covers: a start would believe it.
//!
//! # The directory
//! Is opened for reading only, and no lock is taken, so that a file system that must not be written to will do.

mod believed;
mod diagnosis;
mod promised;
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::{fmt, vec};

use self::believed::Believed;
use self::diagnosis::harmless;
pub use self::diagnosis::{Diagnosis, Finding, Harmless};
use self::promised::Promised;
use self::walk::{Part, Walk, hash_of, walk};
use super::OpenError;
use super::checkpoint::CHECKPOINT;
use super::contents::Contents;
use super::format::{Address, Footer, Frame, HEADER_LEN, Hash, LogId, SegmentHeader, segment_name, segment_number};
use super::manifest::Seal;
use super::recover::{damage, find_footer};
use super::scan::{Group as Stored, Tip, torn_len};
use super::segment::{Segment, Whole};
use crate::damage::{Damage, Flaw};
use crate::discarded::Discarded;
use crate::disk::{Disk, OsDisk};
use crate::record::{EntityKey, Group, Position};

/// The groups of a log that are whole, in order, past all damage: their positions ascend and may leave some out.
///
/// Nothing is changed and no lock is held. Takes memory for two segments and an entry for each entity; as long as reading
/// all of it.
///
/// ```
/// use enact_journal::{Embedded, EntityKey, Finding, Journal, Kind, NewRecord, Options, Position, Salvage, Seq};
/// # fn block_on<F: Future>(future: F) -> F::Output { enact_journal_kit::contract::block_on(future) }
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # block_on(async {
/// let journal = Embedded::open(&path, Options::default())?;
/// for n in 0..3 {
///     let entity = EntityKey::new("Account", "NL01")?;
///     journal.append(vec![NewRecord { entity, expected: Seq(n), kind: Kind(1), payload: vec![7; 9] }]).await?;
/// }
/// journal.close().await?;
///
/// // A byte of the second record.
/// let segment = path.join("segment-0000000001.log");
/// let mut bytes = std::fs::read(&segment)?;
/// bytes[250] ^= 1;
/// std::fs::write(&segment, bytes)?;
///
/// let mut salvage = Salvage::open(&path)?;
/// let positions: Vec<_> = salvage.by_ref().map(|group| Ok(group?.first())).collect::<Result<_, OpenError>>()?;
/// assert_eq!(positions, [Position(1), Position(3)]);
/// assert_eq!(salvage.diagnosis().findings[1], Finding::Missing { first: Position(2), last: Position(2) });
/// # use enact_journal::OpenError;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Salvage {
    disk: Arc<dyn Disk>,
    promised: Promised,
    believed: Believed,
    log: Option<LogId>,
    present: BTreeSet<u32>,
    /// The segment that was read last, and the one that will be.
    number: u32,
    last_number: u32,
    /// The hash of the segment before, as far as known.
    hash: Option<Hash>,
    next: Position,
    tips: HashMap<EntityKey, Tip>,
    /// Classes of which records were discarded.
    over: BTreeSet<String>,
    discarded: Discarded,
    /// Missing records of which nobody knows yet of which entity they are.
    unexplained: u64,
    /// Something was found since the last group.
    is_interrupted: bool,
    groups: vec::IntoIter<Group>,
    is_over: bool,
    diagnosis: Diagnosis,
}

impl Salvage {
    /// Begins to read the journal in `directory`.
    ///
    /// # Errors
    /// When the directory is unsuitable or in use, or cannot be read. Damage is no error.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(OsDisk::read_only(directory)?))
    }

    /// As [`open`](Self::open), on `disk`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        check_unused(&*disk)?;
        let promised = Promised::read(&*disk)?;
        let (believed, checkpoint) = Believed::read(&*disk, promised.log)?;
        let names = disk.names().map_err(|error| OpenError::io(".", &error))?;
        let present: BTreeSet<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
        let last_number = present.last().copied().unwrap_or_default().max(promised.segment_count());
        let mut salvage = Self {
            disk,
            log: promised.log,
            present,
            number: 0,
            last_number,
            hash: Some([0; 32]),
            next: Position(1),
            tips: HashMap::new(),
            over: BTreeSet::new(),
            discarded: Discarded::default(),
            unexplained: 0,
            is_interrupted: false,
            groups: Vec::new().into_iter(),
            is_over: false,
            diagnosis: Diagnosis {
                is_end_unknown: !promised.damages.is_empty() && promised.log.is_none(),
                ..Diagnosis::default()
            },
            promised,
            believed,
        };
        for damage in std::mem::take(&mut salvage.promised.damages) {
            salvage.found(damage);
        }
        salvage.is_interrupted = false;
        salvage.diagnosis.harmless = harmless(&*salvage.disk, names, salvage.promised.half.take(), checkpoint)?;
        Ok(salvage)
    }

    /// The number that tells the log from others; zero if it is not known, and then there are no groups.
    pub fn log(&self) -> u64 {
        self.log.map_or(0, |log| log.0)
    }

    /// What was found: all of it, when there are no further groups.
    pub fn diagnosis(&self) -> &Diagnosis {
        &self.diagnosis
    }

    fn found(&mut self, damage: Damage) {
        self.is_interrupted = true;
        self.diagnosis.findings.push(Finding::Damaged(damage));
    }

    /// All positions before `next` were there, whether they were read or not.
    fn reach(&mut self, next: Position) {
        if next > self.next {
            self.unexplained += next.0 - self.next.0;
            self.diagnosis.findings.push(Finding::Missing { first: self.next, last: Position(next.0 - 1) });
            self.next = next;
        }
    }

    fn next_segment(&mut self) -> Result<(), OpenError> {
        self.number += 1;
        let number = self.number;
        let segment = match self.present.contains(&number).then(|| Whole::read(&*self.disk, number)) {
            Some(segment) => segment?,
            None => {
                self.found(damage(number, 0, Flaw::Missing));
                self.hash = None;
                return Ok(());
            }
        };
        self.diagnosis.segment_count += 1;
        let groups = self.take(number, &segment)?;
        self.groups = groups.into_iter();
        Ok(())
    }

    /// The groups of segment `number`.
    fn take(&mut self, number: u32, segment: &Whole) -> Result<Vec<Group>, OpenError> {
        let Whole { bytes, discarded, .. } = segment;
        let hash_before = self.hash.take();
        let header = SegmentHeader::decode(bytes, number);
        let log = self.log.or(header.as_ref().ok().map(|header| header.log));
        self.log = log;
        let seal = self.promised.seal(number);
        let is_exact = seal.is_some() && seal == segment.seal;
        let header = match (header, log) {
            (Err(flaw), _) => Err(flaw),
            (Ok(header), log) if log != Some(header.log) => Err(Flaw::Foreign),
            (Ok(header), _) => Ok(header),
        };
        match &header {
            Err(Flaw::Foreign) => {
                self.found(damage(number, 0, Flaw::Foreign));
                return Ok(Vec::new());
            }
            Err(flaw) => self.found(damage(number, 0, flaw.clone())),
            Ok(header) => {
                let continues =
                    header.first >= self.next && hash_before.is_none_or(|hash| hash == header.previous_hash);
                if !continues && !is_exact {
                    self.found(damage(number, 0, Flaw::Unchained));
                    self.number = self.last_number;
                    return Ok(Vec::new());
                }
                self.reach(header.first);
            }
        }
        let Some(log) = log else { return Ok(Vec::new()) };
        if let Some(classes) = discarded {
            self.over.extend(classes.iter().cloned());
            self.tips.retain(|entity, _| !self.over.contains(entity.class()));
        }

        let place = SegmentHeader { number, log, first: self.next, previous_hash: [0; 32] };
        let footer = find_footer(bytes, &place);
        let groups = &bytes[..footer.as_ref().map_or(bytes.len(), |(_, start)| *start as usize)];
        let mut walk = walk(groups, log, number);
        if !is_exact
            && let Some((footer, start)) = &footer
            && let Some(other) = self.other_history(number, header.is_ok(), &walk, segment, (footer, *start), seal)?
        {
            self.found(other);
            return Ok(Vec::new());
        }
        let last_flaw = if footer.is_none() { walk.take_last_flaw() } else { None };
        let (taken, is_of_log) = self.take_groups(number, &walk);
        match footer {
            _ if !is_of_log => {}
            Some((footer, start)) => {
                self.finish_sealed(number, start, &footer, discarded.is_some());
                self.compare_checkpoint(number);
            }
            None => self.finish_unsealed(number, bytes, walk.end, last_flaw),
        }
        Ok(taken)
    }

    /// Why a sealed segment is not that of this log, although nothing in it, or its successor, says that it is damaged.
    fn other_history(
        &self,
        number: u32,
        has_header: bool,
        walk: &Walk<'_>,
        segment: &Whole,
        (footer, start): (&Footer, u32),
        seal: Option<Seal>,
    ) -> Result<Option<Damage>, OpenError> {
        if !has_header || !walk.is_whole() {
            let next_follows = self.hash_in(number + 1)?.is_none_or(|hash| hash == footer.hash);
            return Ok((!next_follows).then(|| damage(number, 0, Flaw::Unlisted)));
        }
        let is_compacted = segment.discarded.is_some();
        let hash = if is_compacted { footer.hash } else { hash_of(&segment.bytes[..start as usize]) };
        let describes = |contents: Contents| contents.is_described_by(footer, hash, is_compacted);
        if !walk.contents(footer.first).is_some_and(describes) {
            return Ok(Some(damage(number, start.into(), Flaw::FooterMismatch)));
        }
        Ok(seal.map(|_| damage(number, 0, Flaw::Unlisted)))
    }

    /// The hash of the segment before that the header of segment `number` has, if both are there.
    fn hash_in(&self, number: u32) -> Result<Option<Hash>, OpenError> {
        if !self.present.contains(&number) {
            return Ok(None);
        }
        let mut bytes = vec![0; HEADER_LEN as usize];
        let name = segment_name(number);
        let read = Segment::open(&*self.disk, number).and_then(|segment| segment.file.read_at(0, &mut bytes));
        bytes.truncate(read.map_err(|error| OpenError::io(&name, &error))?);
        let header = SegmentHeader::decode(&bytes, number).ok();
        Ok(header.filter(|header| Some(header.log) == self.log).map(|header| header.previous_hash))
    }

    /// The groups up to one that cannot have been written here, and `false` if there is one.
    fn take_groups(&mut self, number: u32, walk: &Walk<'_>) -> (Vec<Group>, bool) {
        let mut taken = Vec::new();
        for part in &walk.parts {
            match part {
                Part::Flaw(offset, flaw) => self.found(damage(number, *offset, flaw.clone())),
                Part::Group(_, group) if group.count == 0 => {}
                Part::Group(start, group) => match self.admit(group) {
                    Ok(group) => taken.extend(group),
                    Err((offset, flaw)) => {
                        self.found(damage(number, offset.unwrap_or(*start).into(), flaw));
                        return (taken, false);
                    }
                },
            }
        }
        (taken, true)
    }

    /// Takes a group that follows those before; otherwise nothing of it.
    fn admit(&mut self, group: &Stored<'_>) -> Result<Option<Group>, (Option<u32>, Flaw)> {
        let first = group.first;
        if first < self.next || first > self.next && !self.is_interrupted {
            return Err((None, Flaw::Order { expected: self.next, found: first }));
        }
        let mut unexplained = self.unexplained + (first.0 - self.next.0);
        let mut discarded = self.discarded.clone();
        let mut tips: HashMap<EntityKey, (Tip, u64)> = HashMap::new();
        let mut next = first;
        for (place, frame) in &group.frames {
            let wrong = |flaw| (Some(place.offset()), flaw);
            if frame.first() != next {
                return Err(wrong(Flaw::Order { expected: next, found: frame.first() }));
            }
            next.0 += u64::from(frame.count());
            let stored = match frame {
                Frame::Record(stored) => stored,
                Frame::Gap(gap) => {
                    discarded.add(gap.count.into());
                    continue;
                }
            };
            let entity: EntityKey = stored.key.parse().map_err(|_| wrong(Flaw::Malformed))?;
            if self.over.contains(entity.class()) {
                continue;
            }
            let (tip, missing) = match tips.get(&entity) {
                Some(known) => *known,
                None => (self.tips.get(&entity).copied().unwrap_or_default(), 0),
            };
            let expected = tip.seq.next();
            let chain = || wrong(Flaw::Chain { entity: entity.clone(), expected, found: stored.seq });
            let skipped = match discarded.skip(&entity, expected, stored.seq) {
                Some(0) if stored.previous != tip.address => return Err(chain()),
                Some(_) => 0,
                None => {
                    stored.seq.0.checked_sub(expected.0).filter(|skipped| *skipped <= unexplained).ok_or_else(chain)?
                }
            };
            discarded.see(&entity, stored.kind);
            unexplained -= skipped;
            let tip = Tip { seq: stored.seq, address: *place };
            tips.insert(entity, (tip, missing + skipped));
        }
        let taken = group.to_group(|class| self.over.contains(class));
        let taken = taken.map_err(|offset| (Some(offset), Flaw::Malformed))?;
        self.discarded = discarded;
        self.reach(first);
        for (entity, (tip, missing)) in tips {
            self.explain(&entity, missing);
            self.tips.insert(entity, tip);
        }
        self.next = next;
        self.is_interrupted = false;
        Ok(taken)
    }

    /// So many of the missing records are of `entity`.
    fn explain(&mut self, entity: &EntityKey, count: u64) {
        if count > 0 {
            self.unexplained = self.unexplained.saturating_sub(count);
            *self.diagnosis.missing.entry(entity.clone()).or_default() += count;
        }
    }

    fn finish_sealed(&mut self, number: u32, start: u32, footer: &Footer, is_compacted: bool) {
        self.hash = Some(footer.hash);
        let next = Position(footer.first.0.saturating_add(footer.count));
        if next < self.next || next > self.next && !self.is_interrupted {
            return self.found(damage(number, start.into(), Flaw::FooterMismatch));
        }
        self.reach(next);
        for (entity, share) in &footer.entities {
            if self.over.contains(entity.class()) {
                continue;
            }
            let tip = self.tips.get(entity).copied().unwrap_or_default();
            let left_out = share.last.0.saturating_sub(tip.seq.0);
            if left_out > 0 {
                let is_discarded = is_compacted && self.discarded.skip(entity, tip.seq, share.last).is_some();
                let missing = if is_discarded { 0 } else { left_out };
                self.explain(entity, missing.min(self.unexplained));
                self.tips.insert(entity.clone(), Tip { seq: share.last, address: Address::new(number, share.offset) });
            }
        }
    }

    /// Compares the checkpoint, if it covers the segments up to this one and all of them are whole.
    fn compare_checkpoint(&mut self, number: u32) {
        let (last, hash) = (Position(self.next.0 - 1), self.hash.unwrap_or_default());
        if self.diagnosis.is_sound() && self.believed.differs(number, last, hash, &self.over, &self.tips) {
            self.found(Damage { file: CHECKPOINT.to_owned(), offset: 0, flaw: Flaw::Checkpoint });
        }
    }

    fn finish_unsealed(&mut self, number: u32, bytes: &[u8], end: u32, last_flaw: Option<(u64, Flaw)>) {
        let mark = self.promised.mark;
        if number < self.last_number || number <= mark.sealed_count {
            return self.found(damage(number, bytes.len() as u64, Flaw::Footer));
        }
        match (mark.check_end(number, end), last_flaw) {
            (Ok(()), Some((_, flaw))) if flaw != Flaw::Malformed => {
                self.diagnosis.torn_bytes = torn_len(bytes.get(end as usize..).unwrap_or_default()) as u64;
            }
            (_, Some((offset, flaw))) => self.found(damage(number, offset, flaw)),
            (reached, None) => {
                if let Err(damage) = reached {
                    self.found(damage);
                }
            }
        }
    }

    /// Everything was read.
    fn finish(&mut self) -> Result<(), OpenError> {
        self.reach(self.promised.mark.last.next());
        for (entity, count) in std::mem::take(&mut self.discarded).into_incomplete() {
            self.explain(&entity, count.min(self.unexplained));
        }
        self.diagnosis.last = Position(self.next.0 - 1);
        self.diagnosis.entity_count = self.tips.len();
        check_unused(&*self.disk)
    }
}

impl Iterator for Salvage {
    type Item = Result<Group, OpenError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(group) = self.groups.next() {
                return Some(Ok(group));
            }
            if self.is_over {
                return None;
            }
            self.is_over = self.number >= self.last_number;
            let done = if self.is_over { self.finish() } else { self.next_segment() };
            if let Err(error) = done {
                self.is_over = true;
                return Some(Err(error));
            }
        }
    }
}

impl fmt::Debug for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salvage").field("disk", &self.disk).field("diagnosis", &self.diagnosis).finish_non_exhaustive()
    }
}

fn check_unused(disk: &dyn Disk) -> Result<(), OpenError> {
    if disk.is_locked().map_err(|error| OpenError::io(".", &error))? {
        return Err(OpenError::InUse { holder: "another process".to_owned() });
    }
    Ok(())
}
