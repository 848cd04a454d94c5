//! Discards the records of [forgotten](crate::Journal::forget) classes from sealed segments, so that they take no space.
//!
//! # When a segment is compacted
//! When an eighth of its records can go: then it is written anew without them, beside the writer and with rests, and takes the place
//! of the one before by a rename. So rewriting costs at most eight times what it frees. Where discarded records were, a
//! [gap](super::format) says how many, and positions stay what they are. What is kept stays at its address
//! ([`segment`](super::segment)), so that the index, checkpoints and back-pointers hold, before a crash and after it.
//!
//! # What is never discarded
//! Records of a segment that is not, byte by byte, the one that the manifest lists; and those of a class that was not forgotten. What a start
//! has forgotten is only discarded if it is to be forgotten an hour later, too ([`Options::discard_after`](super::Options::discard_after)): a
//! clock that was ahead then must not cost what nobody can bring back.
//! A segment names the classes that were discarded from it. They are forgotten in every later run, whatever it wants:
//! what is left of them in other segments could not be told from damage.

mod rewrite;

use std::collections::BTreeMap;
use std::io;

pub(super) use self::rewrite::{Rewrite, rewrite};
use super::checkpoint::is_omitted;
use super::format::LogId;
use super::segment::{FooterReader, Segment};
use crate::disk::Disk;

/// A segment is written anew when one of so many records can go.
const WORTHWHILE: u64 = 8;

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
}

impl Holding {
    fn read(disk: &dyn Disk, log: LogId, number: u32) -> io::Result<Self> {
        let footer = FooterReader::open(&Segment::open(disk, number)?, log, number)?;
        let mut classes = BTreeMap::<Box<str>, u64>::new();
        for found in footer.entities() {
            let (entity, share) = found?;
            match classes.get_mut(entity.class()) {
                Some(count) => *count += share.count,
                None => {
                    classes.insert(entity.class().into(), share.count);
                }
            }
        }
        Ok(Self { count: footer.head.count, classes })
    }
}

impl Holdings {
    /// Whether segment `number` is to be compacted when the classes `forgotten`, which are in order, are.
    ///
    /// # Errors
    /// As the operating system reports.
    pub(super) fn are_worthwhile(
        &mut self,
        disk: &dyn Disk,
        log: LogId,
        number: u32,
        forgotten: &[String],
    ) -> io::Result<bool> {
        let index = number as usize - 1;
        if self.segments.len() <= index {
            self.segments.resize_with(index + 1, || None);
        }
        let holding = match self.segments[index].take() {
            Some(holding) => holding,
            None => Holding::read(disk, log, number)?,
        };
        let useless = holding.classes.iter().filter(|(class, _)| is_omitted(forgotten, class));
        let useless: u64 = useless.map(|(_, count)| count).sum();
        let is_worthwhile = useless > 0 && useless.saturating_mul(WORTHWHILE) >= holding.count;
        self.segments[index] = Some(holding);
        Ok(is_worthwhile)
    }

    /// Segment `number` was compacted.
    pub(super) fn changed(&mut self, number: u32) {
        self.segments[number as usize - 1] = None;
    }
}
