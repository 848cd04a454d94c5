//! `enact journal backup`, and `verify` of what it has written.

use std::path::Path;

use enact_journal::{BackupReader, BackupWriter, Group};

use super::groups::Groups;
use super::tally::{Tally, Times};
use crate::failure::Failure;

/// Writes all of `groups` to `file`.
pub(super) fn write(file: &Path, groups: Groups) -> Result<(), Failure> {
    let mut backup = BackupWriter::create(file, groups.log)?;
    let mut tally = Tally::default();
    for group in groups {
        let group = group?;
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
fn count(tally: &mut Tally, group: &Group) {
    tally.add(group, Times::of(group).unwrap_or_default());
}
