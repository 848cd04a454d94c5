//! `enact cluster backup`: all shards, cut where they belong together.
//!
//! # Steps
//! 1. Take the ends of all shards three times, and then what all nodes have in common. A shard adopts a contract after that has become the one
//!    of all, so the contract is at least as late as those in the shards: nodes with it go on with an adoption that is half done.
//! 2. Read what is between the first ends and the last ones, and [cut](Cuts) the shards between the first and the second.
//! 3. Write each shard up to its cut, compare the parts, and write the manifest.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use enact_entities::{Cuts, SystemClock, WallClock};
use enact_journal::{BackupTotals, BackupWriter, Group, Position};

use super::agreement::{Agreement, steps};
use super::manifest::{DirectoryError, Manifest, Shard, file_of};
use crate::args;
use crate::failure::Failure;
use crate::journal::groups::Shards;
use crate::journal::tally::{Tally, Times, shown};

/// The looks at the ends of all shards.
const SETTLED: usize = 0;
const ENDS: usize = 1;
const LOOKS: usize = 3;

/// Writes all shards of these nodes to the new directory `path`.
pub(crate) fn write(path: &Path, nodes: args::Nodes) -> Result<(), Failure> {
    let begun = shown(SystemClock.time()).to_string();
    let nodes = Shards::of_nodes(nodes, LOOKS)?;
    let contract = nodes.contract()?;
    begin(path)?;
    let written = cut(&nodes).and_then(|cuts| fill(path, &nodes, &cuts)).and_then(|(shards, tally)| {
        Manifest::new(begun, contract, shards).write(path)?;
        sync_parent(path)?;
        Ok(tally)
    });
    match written {
        Ok(tally) => {
            println!("backed up: shards {}, {tally}", nodes.ends(ENDS).len());
            Ok(())
        }
        Err(cause) => {
            // What cannot be removed has no manifest.
            fs::remove_dir_all(path).unwrap_or_default();
            Err(cause)
        }
    }
}

/// Makes the directory.
fn begin(path: &Path) -> Result<(), DirectoryError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            Err(DirectoryError::Exists { path: path.to_owned() })
        }
        made => made.map_err(DirectoryError::io(path)),
    }
}

fn sync_parent(path: &Path) -> Result<(), DirectoryError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(DirectoryError::io(parent))
}

/// Where each shard is cut.
fn cut(nodes: &Shards) -> Result<Vec<Position>, Failure> {
    let mut cuts = Cuts::new(nodes.ends(ENDS).to_vec());
    for (shard, settled) in (0..).zip(nodes.ends(SETTLED)) {
        for group in nodes.groups(shard, *settled) {
            let group = group?;
            for step in steps(&group) {
                let (stored, record) = step?;
                cuts.add(shard, group.first(), &stored.entity, &record);
            }
        }
    }
    Ok(cuts.cut())
}

/// Writes each shard up to its cut.
fn fill(path: &Path, nodes: &Shards, cuts: &[Position]) -> Result<(Vec<Shard>, Tally), Failure> {
    let (mut agreement, mut tally, mut shards) = (Agreement::default(), Tally::default(), Vec::new());
    for (shard, cut) in (0..).zip(cuts) {
        let mut backup = BackupWriter::create(&file_of(path, shard), 0)?;
        let is_before = |group: &Result<Group, Failure>| group.as_ref().map_or(true, |group| group.last() <= *cut);
        for group in nodes.groups(shard, Position::START).take_while(is_before) {
            let group = group?;
            backup.push(&group)?;
            agreement.add(shard, &group)?;
            tally.add(&group, Times::of(&group).unwrap_or_default());
        }
        let totals: BackupTotals = backup.finish()?;
        assert_eq!(totals.last, *cut, "a cut is where a group ends");
        shards.push(Shard::of(totals));
    }
    agreement.check()?;
    Ok((shards, tally))
}
