//! What was found in the directory of a log.

use std::collections::BTreeMap;
use std::io;

use super::super::checkpoint::CHECKPOINT;
use super::super::format::segment_number;
use super::super::manifest::MANIFEST;
use super::super::tail::UNFINISHED;
use super::super::verify::REPLACED;
use super::super::{OpenError, sealed, snapshots};
use crate::damage::{Damage, Flaw};
use crate::disk::Disk;
use crate::record::{EntityKey, Position};

/// What was found in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// What is wrong with the log, in the order of its files; empty if it is sound.
    pub findings: Vec<Finding>,
    /// What else is in the directory and may be ignored.
    pub harmless: Vec<Harmless>,
    /// Segments read.
    pub segment_count: u32,
    /// Entities with records.
    pub entity_count: usize,
    /// The last position that the log is known to have had.
    pub last: Position,
    /// No slot of the manifest is whole: positions behind `last` may be missing, too.
    pub is_end_unknown: bool,
    /// Bytes at the end that a crash has torn.
    pub torn_bytes: u64,
    /// How many of the missing records are of which entity, as far as records behind them and footers tell.
    pub missing: BTreeMap<EntityKey, u64>,
}

/// Something that is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Bytes that are not those that were written. Between two groups, each stretch of them is named once.
    Damaged(Damage),
    /// Positions that have no record any more, because of what was found before.
    Missing {
        /// The first one.
        first: Position,
        /// The last one.
        last: Position,
    },
}

/// What a journal opens with all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Harmless {
    /// One slot of the manifest is not whole; the other one is, and counts.
    Slot(Damage),
    /// The store of snapshots is damaged: it is replaced by a new one when it is used.
    Snapshots(Damage),
    /// The checkpoint is damaged or of another log: a start reads the segments instead.
    Checkpoint(Damage),
    /// A file that is not used any more.
    Leftover {
        /// Its name.
        file: String,
    },
}

impl Diagnosis {
    /// The log opens. A torn end is no damage.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// What is damaged of the log.
    pub fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.findings.iter().filter_map(|finding| match finding {
            Finding::Damaged(damage) => Some(damage),
            Finding::Missing { .. } => None,
        })
    }

    /// How many records are missing.
    pub fn missing_count(&self) -> u64 {
        let counts = self.findings.iter().map(|finding| match finding {
            Finding::Damaged(_) => 0,
            Finding::Missing { first, last } => last.0 - first.0 + 1,
        });
        counts.sum()
    }
}

/// What is in `disk` that a journal opens with; `half` is a slot of its manifest, `checkpoint` what is wrong with the checkpoint.
pub(super) fn harmless(
    disk: &dyn Disk,
    mut names: Vec<String>,
    half: Option<Damage>,
    checkpoint: Option<Damage>,
) -> Result<Vec<Harmless>, OpenError> {
    let mut harmless: Vec<Harmless> = half.map(Harmless::Slot).into_iter().collect();
    harmless.extend(checkpoint.map(Harmless::Checkpoint));
    let failed = |error: io::Error| OpenError::io(snapshots::FILE, &error);
    match disk.open(snapshots::FILE) {
        Ok(file) => {
            let damaged = sealed::find_damage(&*file).map_err(failed)?;
            let damage = |offset| Damage { file: snapshots::FILE.to_owned(), offset, flaw: Flaw::Block };
            harmless.extend(damaged.map(|offset| Harmless::Snapshots(damage(offset))));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    names.sort_unstable();
    names.retain(|name| is_leftover(name));
    harmless.extend(names.into_iter().map(|file| Harmless::Leftover { file }));
    Ok(harmless)
}

/// A file that only some crash, repair or replacement explains.
fn is_leftover(name: &str) -> bool {
    let is_of_log = |name: &str| name == MANIFEST || segment_number(name).is_some();
    let is_cut = name.split_once(".cut-").is_some_and(|(name, _)| is_of_log(name));
    let is_unfinished = name.strip_suffix(UNFINISHED).is_some_and(|name| is_of_log(name) || name == CHECKPOINT);
    is_cut || is_unfinished || name == REPLACED || name == snapshots::DAMAGED
}
