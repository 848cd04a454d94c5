//! The groups of a backup and of a damaged directory as one sequence.

use std::path::Path;

use enact_journal::{BackupReader, Diagnosis, Position, Record, Salvage};

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
    mut see: impl FnMut(Vec<Record>) -> Result<bool, Failure>,
) -> Result<Diagnosis, Failure> {
    let mut own =
        Own { salvage: Salvage::open(parts.data).map_err(of_directory(parts.data))?, group: None, data: parts.data };
    let mut last = Position::START;
    if let Some(file) = parts.backup {
        let backup = BackupReader::open(file)?;
        let is_same = backup.log() == own.salvage.log();
        let mut shared = Position::START;
        let mut is_wanted = true;
        // All of it is read: it is what was written, or nothing counts.
        for group in backup {
            let group = group?;
            for record in &group {
                if own.compare(record)? {
                    shared = record.position;
                }
                last = record.position;
            }
            is_wanted = is_wanted && see(group)?;
        }
        if !is_same && shared != last {
            return Err(RepairError::OtherLog { last }.into());
        }
    }
    while let Some(mut group) = own.take()? {
        group.retain(|record| record.position > last);
        if !group.is_empty() && !see(group)? {
            break;
        }
    }
    Ok(own.salvage.diagnosis().clone())
}

/// What is left in the directory.
struct Own<'a> {
    salvage: Salvage,
    /// The group that was taken out last, if it may still be needed.
    group: Option<Vec<Record>>,
    data: &'a Path,
}

impl Own<'_> {
    fn take(&mut self) -> Result<Option<Vec<Record>>, Failure> {
        let next = match self.group.take() {
            Some(group) => Some(group),
            None => self.salvage.next().transpose().map_err(of_directory(self.data))?,
        };
        Ok(next)
    }

    /// Whether the directory has `record`, too; the records that are asked for ascend.
    fn compare(&mut self, record: &Record) -> Result<bool, Failure> {
        let position = record.position;
        while let Some(group) = self.take()? {
            let own = group.iter().find(|own| own.position >= position).cloned();
            match own {
                None => {}
                Some(own) => {
                    self.group = Some(group);
                    if own.position > position {
                        return Ok(false);
                    }
                    return if own == *record { Ok(true) } else { Err(RepairError::Differs { position }.into()) };
                }
            }
        }
        Ok(false)
    }
}
