//! `enact journal restore`: a new data directory from a backup, as it was at the end or at a time before.
//!
//! A log is a sequence of groups, so what it was at a time is a prefix of whole groups. The times of transactions need
//! not ascend, as clocks are set back and as a transaction has its time before its place: the prefix ends before the first
//! group with a transaction that is too late.
//!
//! Snapshots and what is known of timers are made anew from the records.

use std::path::Path;

use enact_journal::{BackupReader, BuildError, LogBuilder, Options};
use enact_rebel::Timestamp;

use super::tally::{Tally, Times, shown};
use crate::failure::Failure;

pub(super) fn run(file: &Path, data: &Path, until: Option<Timestamp>) -> Result<(), Failure> {
    let failed = |source: BuildError| Failure::Restore { path: data.to_owned(), source };
    let backup = BackupReader::open(file)?;
    let mut log = LogBuilder::begin(data, Options::default().segment_bytes).map_err(failed)?;
    let (mut kept, mut left_out) = (Tally::default(), Tally::default());
    for group in backup {
        let group = group?;
        let times = match until {
            Some(_) => Times::of(&group)?,
            None => Times::of(&group).unwrap_or_default(),
        };
        let is_late = until.is_some_and(|until| times.is_some_and(|times| shown(times.latest) > until));
        // What is left out is read all the same: the file is what was written, or nothing is restored.
        if is_late || !left_out.is_empty() {
            left_out.add(&group, times);
        } else {
            kept.add(&group, times);
            log.push(group).map_err(failed)?;
        }
    }
    log.finish().map_err(failed)?;
    println!("restored: {kept}");
    if !left_out.is_empty() {
        println!("left out: {left_out}");
    }
    Ok(())
}
