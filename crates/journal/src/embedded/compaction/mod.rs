//! Discards records that nobody reads any more from sealed segments, so that they take no space: those of
//! [forgotten](crate::Journal::forget) classes, and those that a [tombstone](crate::Kind::TOMBSTONE) stands for.
//!
//! # When a segment is compacted
//! When an eighth of its records can go: then it is written anew without them, beside the writer and with rests, and takes the place
//! of the one before by a rename. So rewriting costs at most eight times what it frees. Where discarded records were, a
//! [gap](super::format) says how many, and positions stay what they are. What is kept stays at its address
//! ([`segment`](super::segment)), so that the index, checkpoints and back-pointers hold, before a crash and after it.
//!
//! # What is never discarded
//! Records of a segment that is not, byte by byte, the one that the manifest lists; and those of a class that was not forgotten, but for those
//! before a tombstone. What a start has forgotten is only discarded if it is to be forgotten an hour later, too ([`Options::discard_after`](super::Options::discard_after)): a
//! clock that was ahead then must not cost what nobody can bring back.
//! A segment names the classes that were discarded from it. They are forgotten in every later run, whatever it wants:
//! what is left of them in other segments could not be told from damage.
//!
//! # Entities with a tombstone
//! A tombstone was there for an hour before anything goes that it stands for: a look that ends before it, a backup for example, has read the
//! records by then, or says that it has not.
//!
//! The footer goes on to count their records, so that the index can be made from footers. Whatever reads the segment itself knows that
//! some of them may be missing ([`Discarded`](crate::discarded::Discarded)).

mod rewrite;

use std::collections::BTreeMap;
use std::io;

pub(super) use self::rewrite::{Rewrite, rewrite};
use super::checkpoint::is_omitted;
use super::commits::Commits;
use super::format::{Address, LogId, Share};
use super::segment::{FooterReader, Segment};
use crate::disk::Disk;
use crate::record::{EntityKey, Seq};

/// A segment is written anew when one of so many records can go.
const WORTHWHILE: u64 = 8;

/// What is not wanted any more.
pub(super) struct Unwanted<'a> {
    /// Classes, in order.
    pub(super) classes: &'a [String],
    /// Records that tombstones stand for which are before this in the log.
    pub(super) tombstones_before: Address,
    /// Says where the entities end.
    pub(super) commits: &'a Commits,
}

impl Unwanted<'_> {
    fn has_class(&self, class: &str) -> bool {
        is_omitted(self.classes, class)
    }

    /// The number of the entity's tombstone, if it stands for what was before.
    fn tombstone(&self, entity: &EntityKey) -> Option<Seq> {
        let (last, address) = self.commits.tip(entity);
        (address.is_of_tombstone() && address.is_before(self.tombstones_before)).then_some(last)
    }

    fn is_superseded(&self, entity: &EntityKey, seq: Seq) -> bool {
        self.tombstone(entity).is_some_and(|tombstone| seq < tombstone)
    }

    /// For how many of the records that a footer counts of `entity` a tombstone stands.
    fn superseded(&self, entity: &EntityKey, share: &Share) -> u64 {
        match self.tombstone(entity) {
            None => 0,
            Some(tombstone) if share.last < tombstone => share.count,
            Some(_) => share.count - 1,
        }
    }
}

/// What the sealed segments hold, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    /// Segment `n` is at index `n - 1`.
    segments: Vec<Option<Holding>>,
}

/// What one segment holds.
#[derive(Debug)]
struct Holding {
    /// How many records it had when it was written.
    count: u64,
    /// How many it has of each class.
    classes: BTreeMap<Box<str>, u64>,
    /// For how many that it has a tombstone stands.
    superseded: u64,
}

impl Holding {
    fn read(disk: &dyn Disk, log: LogId, number: u32, unwanted: &Unwanted<'_>) -> io::Result<Self> {
        let segment = Segment::open(disk, number)?;
        let footer = FooterReader::open(&segment, log, number)?;
        let mut classes = BTreeMap::<Box<str>, u64>::new();
        let mut superseded = 0;
        for found in footer.entities() {
            let (entity, share) = found?;
            superseded += unwanted.superseded(&entity, &share);
            match classes.get_mut(entity.class()) {
                Some(count) => *count += share.count,
                None => {
                    classes.insert(entity.class().into(), share.count);
                }
            }
        }
        let discarded = segment.head().map_or(0, |head| head.superseded);
        Ok(Self { count: footer.head.count, classes, superseded: superseded.saturating_sub(discarded) })
    }
}

impl Holdings {
    /// Whether segment `number` is to be compacted.
    ///
    /// # Errors
    /// As the operating system reports.
    pub(super) fn are_worthwhile(
        &mut self,
        disk: &dyn Disk,
        log: LogId,
        number: u32,
        unwanted: &Unwanted<'_>,
    ) -> io::Result<bool> {
        let index = number as usize - 1;
        if self.segments.len() <= index {
            self.segments.resize_with(index + 1, || None);
        }
        let holding = match self.segments[index].take() {
            Some(holding) => holding,
            None => Holding::read(disk, log, number, unwanted)?,
        };
        let useless = holding.classes.iter().filter(|(class, _)| unwanted.has_class(class));
        let useless = useless.map(|(_, count)| count).sum::<u64>() + holding.superseded;
        let is_worthwhile = useless > 0 && useless.saturating_mul(WORTHWHILE) >= holding.count;
        self.segments[index] = Some(holding);
        Ok(is_worthwhile)
    }

    /// Segment `number` was compacted.
    pub(super) fn changed(&mut self, number: u32) {
        // More entities may have ended meanwhile, and then nothing is known of any segment.
        if let Some(holding) = self.segments.get_mut(number as usize - 1) {
            *holding = None;
        }
    }

    /// More entities have ended.
    pub(super) fn are_superseded(&mut self) {
        self.segments.clear();
    }
}
