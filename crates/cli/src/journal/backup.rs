//! `enact journal backup`, and `verify` of what it has written.

use std::path::Path;

use enact_journal::{BackupReader, BackupWriter, Record, look};

use super::of_directory;
use super::tally::{Tally, Times};
use crate::failure::Failure;

/// Writes all groups of the log in `data` to `file`.
pub(super) fn write(file: &Path, data: &Path) -> Result<(), Failure> {
    let log = look(data).map_err(of_directory(data))?;
    let mut backup = BackupWriter::create(file, log.log())?;
    let mut tally = Tally::default();
    for group in log {
        let group = group.map_err(of_directory(data))?;
        backup.push(&group)?;
        count(&mut tally, &group);
    }
    backup.finish()?;
    println!("backed up: {tally}");
    Ok(())
}

/// Reads every byte of the backup `file`.
pub(super) fn verify(file: &Path) -> Result<(), Failure> {
    let mut tally = Tally::default();
    for group in BackupReader::open(file)? {
        count(&mut tally, &group?);
    }
    println!("sound: {tally}");
    Ok(())
}

/// A backup keeps what its program cannot read: then only the time is not known.
fn count(tally: &mut Tally, group: &[Record]) {
    tally.add(group, Times::of(group).unwrap_or_default());
}
