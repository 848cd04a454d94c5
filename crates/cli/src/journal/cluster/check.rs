//! Reads every byte of a backup of all shards.

use std::path::Path;

use enact_journal::BackupReader;

use super::agreement::Agreement;
use super::manifest::{DirectoryError, Manifest, Shard, file_of};
use crate::failure::Failure;
use crate::journal::tally::{Tally, Times};

/// Prints what the backup in `directory` consists of, if all of it is right.
pub(crate) fn verify(directory: &Path) -> Result<(), Failure> {
    let (manifest, tally) = read(directory)?;
    println!("sound: shards {}, {tally}, begun at {}", manifest.count(), manifest.begun);
    Ok(())
}

/// Reads all of it: each file is the one that the manifest names, and they belong together.
pub(super) fn read(directory: &Path) -> Result<(Manifest, Tally), Failure> {
    let manifest = Manifest::read(directory)?;
    let (mut agreement, mut tally) = (Agreement::default(), Tally::default());
    for (shard, named) in (0..).zip(&manifest.shards) {
        let path = file_of(directory, shard);
        let mut backup = BackupReader::open(&path)?;
        for group in &mut backup {
            let group = group?;
            agreement.add(shard, &group)?;
            tally.add(&group, Times::of(&group).unwrap_or_default());
        }
        if backup.totals().map(Shard::of).as_ref() != Some(named) {
            return Err(DirectoryError::OtherFile { path }.into());
        }
    }
    agreement.check()?;
    Ok((manifest, tally))
}
