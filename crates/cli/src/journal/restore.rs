//! `enact journal restore`: a new data directory, or a new journal on servers, from a backup, as it was at the end or at a time before.
//!
//! A log is a sequence of groups, so what it was at a time is a prefix of whole groups. The times of transactions need
//! not ascend, as clocks are set back and as a transaction has its time before its place: the prefix ends before the first
//! group with a transaction that is too late.
//!
//! # Entities that have ended
//! What has happened to them may have been discarded, and a tombstone that stands for it was written much later. If it says that the
//! entity had ended before the time, it is written behind the prefix. Otherwise nobody knows what the entity was at that time, and
//! nothing is restored.
//!
//! Snapshots and what is known of timers are made anew from the records.

pub(super) mod target;

#[cfg(feature = "nats")]
use enact_journal::Position;
use enact_journal::{BackupReader, Group, Kind, Record};
use enact_rebel::Timestamp;

use self::target::Target;
use super::tally::{Tally, Times, decode, shown};
use crate::args;
use crate::failure::Failure;

pub(super) fn run(args: &args::Restore) -> Result<(), Failure> {
    let backup = BackupReader::open(&args.file)?;
    let mut target = target::begin(args)?;
    let mut restored = Restored::default();
    match fill(&mut *target, backup, args.until.map_or(Part::All, Part::Until), &mut restored) {
        Ok(()) => {
            target.finish()?;
            restored.print("");
            Ok(())
        }
        Err(failure) => {
            target.abandon();
            Err(failure)
        }
    }
}

/// How much of a backup is restored.
#[derive(Clone, Copy)]
pub(super) enum Part {
    All,
    /// What stands before the first group with a transaction that is later.
    Until(Timestamp),
    /// What stands up to the position, because of what was there at the time.
    #[cfg(feature = "nats")]
    UpTo(Position, Timestamp),
}

impl Part {
    /// The time for which it is.
    const fn time(self) -> Option<Timestamp> {
        match self {
            Self::All => None,
            Self::Until(time) => Some(time),
            #[cfg(feature = "nats")]
            Self::UpTo(_, time) => Some(time),
        }
    }

    /// Whether it ends before `group`, or ended before.
    #[cfg_attr(not(feature = "nats"), expect(unused_variables, reason = "only shards are cut by their positions"))]
    fn ends_before(self, group: &Group, times: Option<Times>) -> bool {
        match self {
            Self::All => false,
            Self::Until(time) => times.is_some_and(|times| shown(times.latest) > time),
            #[cfg(feature = "nats")]
            Self::UpTo(cut, _) => group.first() > cut,
        }
    }
}

/// What has become of backups.
#[derive(Default)]
pub(super) struct Restored {
    kept: Tally,
    left_out: Tally,
    /// Tombstones of what is left out.
    buried: u64,
}

impl Restored {
    /// Prints it, `of` what first.
    pub(super) fn print(&self, of: &str) {
        println!("restored: {of}{}", self.kept);
        if self.buried > 0 {
            println!("restored: {} objects that had ended, as they were", self.buried);
        }
        if !self.left_out.is_empty() {
            println!("left out: {}", self.left_out);
        }
    }
}

/// Fills `target` with that part of `backup`, and counts it among what was `restored`.
pub(super) fn fill(
    target: &mut dyn Target,
    backup: BackupReader,
    part: Part,
    restored: &mut Restored,
) -> Result<(), Failure> {
    let mut has_ended = false;
    for group in backup {
        let group = group?;
        let times = match part.time() {
            Some(_) => Times::of(&group)?,
            None => Times::of(&group).unwrap_or_default(),
        };
        has_ended |= part.ends_before(&group, times);
        // What is left out is read all the same: the file is what was written, or nothing is restored.
        if has_ended {
            restored.left_out.add(&group, times);
            for tombstone in tombstones(&group)? {
                if part.time().is_some_and(|time| tombstone.had_ended_by(time)) {
                    target.bury(tombstone.record)?;
                    restored.buried += 1;
                } else if target.has_gaps() {
                    return Err(tombstone.into_failure());
                }
            }
        } else {
            restored.kept.add(&group, times);
            target.push(group)?;
        }
    }
    Ok(())
}

/// A clock may have been set back by so much since an entity ended.
const SET_BACK_MAX: i64 = 60 * 60 * 1000;

/// A tombstone behind the end of what is restored.
pub(super) struct Buried {
    pub(super) record: Record,
    ended: Timestamp,
}

impl Buried {
    /// Whether the entity was by that time what the tombstone says.
    pub(super) fn had_ended_by(&self, time: Timestamp) -> bool {
        self.ended.millis().saturating_add(SET_BACK_MAX) <= time.millis()
    }

    fn into_failure(self) -> Failure {
        let (entity, ended) = (self.record.entity, self.ended);
        Failure::Unrestorable { entity, ended }
    }
}

/// The tombstones in `group`.
pub(super) fn tombstones(group: &Group) -> Result<Vec<Buried>, Failure> {
    let mut found = Vec::new();
    for record in group.records().iter().filter(|record| record.kind == Kind::TOMBSTONE) {
        if let enact_entities::Record::Tombstone(tombstone) = decode(record)? {
            found.push(Buried { record: record.clone(), ended: shown(tombstone.at) });
        }
    }
    Ok(found)
}
