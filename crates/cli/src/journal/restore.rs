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

use enact_journal::{BackupReader, Group, Kind, Record};
use enact_rebel::Timestamp;

use self::target::Target;
use super::tally::{Tally, Times, decode, shown};
use crate::args;
use crate::failure::Failure;

pub(super) fn run(args: &args::Restore) -> Result<(), Failure> {
    let backup = BackupReader::open(&args.file)?;
    let mut target = target::begin(args)?;
    match fill(&mut *target, backup, args.until) {
        Ok(restored) => {
            target.finish()?;
            restored.print();
            Ok(())
        }
        Err(failure) => {
            target.abandon();
            Err(failure)
        }
    }
}

/// What has become of a backup.
#[derive(Default)]
pub(super) struct Restored {
    pub(super) kept: Tally,
    left_out: Tally,
    /// Tombstones of what is left out.
    buried: u64,
}

impl Restored {
    fn print(&self) {
        println!("restored: {}", self.kept);
        if self.buried > 0 {
            println!("restored: {} objects that had ended, as they were", self.buried);
        }
        if !self.left_out.is_empty() {
            println!("left out: {}", self.left_out);
        }
    }
}

/// Fills `target` with what is in `backup` up to that time.
pub(super) fn fill(
    target: &mut dyn Target,
    backup: BackupReader,
    until: Option<Timestamp>,
) -> Result<Restored, Failure> {
    let mut restored = Restored::default();
    for group in backup {
        let group = group?;
        let times = match until {
            Some(_) => Times::of(&group)?,
            None => Times::of(&group).unwrap_or_default(),
        };
        let is_late = until.is_some_and(|until| times.is_some_and(|times| shown(times.latest) > until));
        // What is left out is read all the same: the file is what was written, or nothing is restored.
        if is_late || !restored.left_out.is_empty() {
            restored.left_out.add(&group, times);
            for tombstone in tombstones(&group)? {
                if until.is_some_and(|until| tombstone.had_ended_by(until)) {
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
    Ok(restored)
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
