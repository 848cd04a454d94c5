//! The groups of a backup and of a damaged directory as one sequence.

use std::path::Path;

use enact_journal::{BackupReader, Diagnosis, Group, Position, Record, Salvage};

use super::{RepairError, of_directory};
use crate::failure::Failure;

/// Where records are read from.
pub(super) struct Parts<'a> {
    pub(super) data: &'a Path,
    pub(super) backup: Option<&'a Path>,
}

/// Shows `see` the groups of the backup, and those behind it that are left in the directory, until it says `false`.
/// Positions ascend, and some may be missing.
///
/// # Errors
/// When the backup is not whole, or not one of the directory.
pub(super) fn read(
    parts: &Parts<'_>,
    mut see: impl FnMut(Group) -> Result<bool, Failure>,
) -> Result<Diagnosis, Failure> {
    let mut own =
        Own { salvage: Salvage::open(parts.data).map_err(of_directory(parts.data))?, group: None, data: parts.data };
    let (mut last, mut read_to) = (Position::START, Position::START);
    if let Some(file) = parts.backup {
        let backup = BackupReader::open(file)?;
        let is_same = backup.log() == own.salvage.log();
        let mut shared = Position::START;
        let mut is_wanted = true;
        // All of it is read: it is what was written, or nothing counts.
        for group in backup {
            let group = group?;
            for record in group.records() {
                if own.compare(record)? {
                    shared = record.position;
                }
                last = record.position;
            }
            read_to = group.last();
            is_wanted = is_wanted && see(group)?;
        }
        if !is_same && shared != last {
            return Err(RepairError::OtherLog { last }.into());
        }
    }
    while let Some(group) = own.take()? {
        if let Some(group) = group.after(read_to)
            && !see(group)?
        {
            break;
        }
    }
    Ok(own.salvage.diagnosis().clone())
}

/// What is left in the directory.
struct Own<'a> {
    salvage: Salvage,
    /// The group that was taken out last, if it may still be needed.
    group: Option<Group>,
    data: &'a Path,
}

impl Own<'_> {
    fn take(&mut self) -> Result<Option<Group>, Failure> {
        let next = match self.group.take() {
            Some(group) => Some(group),
            None => self.salvage.next().transpose().map_err(of_directory(self.data))?,
        };
        Ok(next)
    }

    /// Whether the directory has `record`, too, or has discarded what was in its place; the records that are asked for ascend.
    fn compare(&mut self, record: &Record) -> Result<bool, Failure> {
        let position = record.position;
        while let Some(group) = self.take()? {
            if group.last() < position {
                continue;
            }
            let is_there = group.first() <= position;
            let differs = group.records().iter().any(|own| own.position == position && own != record);
            self.group = Some(group);
            return if differs { Err(RepairError::Differs { position }.into()) } else { Ok(is_there) };
        }
        Ok(false)
    }
}
