//! The checkpoint that a start would believe, and whether the segments say the same.

use std::collections::{BTreeSet, HashMap};
use std::io;

use super::super::OpenError;
use super::super::checkpoint::{CHECKPOINT, Checkpoint, is_omitted};
use super::super::format::{Hash, LogId};
use super::super::scan::Tip;
use crate::damage::{Damage, Flaw};
use crate::disk::Disk;
use crate::record::{EntityKey, Position};

/// A whole checkpoint of the log, if there is one.
pub(super) struct Believed(Option<Checkpoint>);

impl Believed {
    /// The checkpoint in `disk`, or what is wrong with it: a start passes that one over. Without the id of the log nothing is
    /// said of it.
    pub(super) fn read(disk: &dyn Disk, log: Option<LogId>) -> Result<(Self, Option<Damage>), OpenError> {
        let Some(log) = log else { return Ok((Self(None), None)) };
        match Checkpoint::find(disk, log) {
            Ok(found) => Ok((Self(found), None)),
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
                Ok((Self(None), Some(Damage { file: CHECKPOINT.to_owned(), offset: 0, flaw: Flaw::Checkpoint })))
            }
            Err(error) => Err(OpenError::io(CHECKPOINT, &error)),
        }
    }

    /// Whether it covers the segments up to `number` and says something else of them: they end with `last` and `hash`, and the
    /// entities have these `tips`, but for those of the classes `discarded`.
    pub(super) fn differs(
        &self,
        number: u32,
        last: Position,
        hash: Hash,
        discarded: &BTreeSet<String>,
        tips: &HashMap<EntityKey, Tip>,
    ) -> bool {
        let Some(checkpoint) = self.0.as_ref().filter(|found| found.head().segment_count == number) else {
            return false;
        };
        let covered = tips.keys().filter(|entity| !is_omitted(&checkpoint.omitted, entity.class())).count();
        !checkpoint.says(last, hash, |class| discarded.contains(class), covered, |entity| tips.get(entity).copied())
    }
}
