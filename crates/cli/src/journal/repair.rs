//! `enact journal repair`: what is damaged of a data directory, and a new directory of all that is whole of it.
//!
//! # What is written
//! The groups of the backup, if there is one, and those of the directory behind it, up to the first position that neither
//! has. So nothing is ever left out of the middle, and nothing is left out at all unless `--lose` says how much. A record
//! that both have must be the same in both.
//!
//! # Two readings
//! The first one finds where the new log will end, and what is behind that; the second one writes. Nobody may have the
//! directory open meanwhile, and it is opened for reading only.

mod parts;
mod plan;

use std::path::Path;

use enact_journal::{Diagnosis, Finding, Flaw, Harmless, LogBuilder, Options, Position, Verification};
use thiserror::Error;

use self::parts::{Parts, read};
use self::plan::{Plan, Span};
use super::restore::tombstones;
use super::{in_words, of_directory};
use crate::args;
use crate::failure::Failure;

/// Why a directory is not repaired.
#[derive(Debug, Error)]
pub(crate) enum RepairError {
    #[error(
        "a journal over NATS or PostgreSQL is repaired there, with `nats stream restore` or `pg_restore`: this command reads a \
         directory"
    )]
    Remote,
    #[error("the new directory would be within the damaged one, which is not written to")]
    Within,
    #[error("record {position} is another one in the backup: it is not of this directory, or one of both was changed")]
    Differs { position: Position },
    #[error(
        "the backup is of another log, and its last record, {last}, is not in the directory: nothing shows that what is behind \
         it goes on from there"
    )]
    OtherLog { last: Position },
    #[error("{first} cannot be read: name a backup that has {} by --from, or lose {lost} records by --lose {lost}", if first.is_one() { "it" } else { "them" })]
    Missing { first: Span, lost: u64 },
    #[error("{lost} records would be lost, not {given}")]
    Lost { given: u64, lost: u64 },
    #[error("the directory has changed meanwhile")]
    Changed,
}

impl RepairError {
    pub(crate) fn is_of_usage(&self) -> bool {
        matches!(self, Self::Remote | Self::Within)
    }
}

pub(super) fn run(args: &args::Repair) -> Result<(), Failure> {
    let args::Repair { data, journal, from, to, lose } = args;
    if journal.is_some() {
        return Err(RepairError::Remote.into());
    }
    let parts = Parts { data, backup: from.as_deref() };
    let mut plan = Plan::default();
    let diagnosis = read(&parts, |group| {
        plan.add(group);
        Ok(true)
    })?;
    plan.finish(&diagnosis, from.is_some());
    match to {
        Some(to) => {
            let built = check_consent(&plan, *lose).map_err(Failure::from).and_then(|()| build(&parts, &plan, to));
            print_lost(&plan, if built.is_ok() { "lost" } else { "would be lost" });
            print_unknown_end(&diagnosis);
            built?;
            println!("repaired: {}", plan.kept);
            Ok(())
        }
        None => report(data, &diagnosis, &plan, from.is_some()),
    }
}

fn check_consent(plan: &Plan, lose: Option<u64>) -> Result<(), RepairError> {
    let lost = plan.lost_count();
    match (plan.first_missing(), lose) {
        (None, None) => Ok(()),
        (Some(first), None) => Err(RepairError::Missing { first, lost }),
        (_, Some(given)) if given == lost => Ok(()),
        (_, Some(given)) => Err(RepairError::Lost { given, lost }),
    }
}

fn build(parts: &Parts<'_>, plan: &Plan, to: &Path) -> Result<(), Failure> {
    check_outside(parts.data, to)?;
    let failed = |source| Failure::Restore { path: to.to_owned(), source };
    let mut log = LogBuilder::begin(to, Options::default().segment_bytes).map_err(failed)?;
    let mut last = Position::START;
    let mut buried = Vec::new();
    read(parts, |group| {
        if group.first() <= plan.last {
            last = group.last();
            log.push(group).map_err(failed)?;
        } else if let Some(end) = plan.kept.latest() {
            // What a tombstone stands for was discarded, and is not lost with it.
            buried.extend(tombstones(&group)?.into_iter().filter(|tombstone| tombstone.had_ended_by(end)));
        }
        Ok(true)
    })?;
    if last != plan.last {
        return Err(RepairError::Changed.into());
    }
    buried.into_iter().try_for_each(|tombstone| log.bury(tombstone.record)).map_err(failed)?;
    log.finish().map_err(failed)?;
    Ok(())
}

/// Refuses a new directory within the damaged one.
fn check_outside(data: &Path, to: &Path) -> Result<(), RepairError> {
    let resolved = |path: &Path| path.canonicalize().ok();
    let to = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
    let is_within = resolved(data).is_some_and(|data| to.ancestors().filter_map(resolved).any(|above| above == data));
    if is_within { Err(RepairError::Within) } else { Ok(()) }
}

/// Prints what was found in the directory `data`, and what to do.
fn report(data: &Path, diagnosis: &Diagnosis, plan: &Plan, has_backup: bool) -> Result<(), Failure> {
    for finding in &diagnosis.findings {
        match finding {
            Finding::Damaged(damage) => println!("{damage}"),
            Finding::Missing { first, last } => println!("missing: {}", Span { first: *first, last: *last }),
            other => println!("{other:?}"),
        }
    }
    if diagnosis.missing_count() > 0 {
        let is_all = diagnosis.missing.values().sum::<u64>() == diagnosis.missing_count();
        println!("missing of {}{}", if is_all { "" } else { "at least " }, plan::entities(diagnosis.missing.keys()));
    }
    for harmless in &diagnosis.harmless {
        match harmless {
            Harmless::Slot(damage) => println!("harmless: {damage}; the other slot counts, and both are written anew"),
            Harmless::Snapshots(damage) => {
                println!("harmless: {damage}; snapshots are made anew, the file may be deleted");
            }
            Harmless::Checkpoint(damage) => println!("harmless: {damage}; a start reads the whole log instead"),
            Harmless::Leftover { file } => println!("harmless: {file} is not used; it may be deleted"),
            other => println!("harmless: {other:?}"),
        }
    }
    if diagnosis.is_sound() {
        let Diagnosis { segment_count, entity_count, last, torn_bytes, .. } = *diagnosis;
        let found = Verification { segment_count, entity_count, last, torn_bytes, damages: Vec::new() };
        println!("{}", in_words(&found));
        return Ok(());
    }
    println!("readable: {}", plan.read);
    print_unknown_end(diagnosis);
    advise(data, diagnosis, plan, has_backup);
    Err(Failure::Damaged { path: data.to_owned() })
}

fn print_unknown_end(Diagnosis { is_end_unknown, last, .. }: &Diagnosis) {
    if *is_end_unknown {
        println!("the manifest does not say where the log ended: whether records were behind {last} is not known");
    }
}

/// Prints which command keeps most.
fn advise(data: &Path, diagnosis: &Diagnosis, plan: &Plan, has_backup: bool) {
    let data = data.display();
    let repair = format!("enact journal repair --data {data}{}", if has_backup { " --from BACKUP" } else { "" });
    if diagnosis.damages().any(|damage| matches!(damage.flaw, Flaw::Version { .. })) {
        println!("if a later version of the program has written the directory, use that one");
    }
    match &plan.missing[..] {
        [] if diagnosis.damages().all(|damage| damage.file == "manifest") => {
            println!("nothing is lost: a new manifest is made by\n    enact journal adopt --data {data}");
        }
        [] if diagnosis.damages().all(|damage| damage.flaw == Flaw::Checkpoint) => {
            println!(
                "nothing is lost: a start reads the whole log once the checkpoint is gone\n    rm {data}/checkpoint"
            );
        }
        [] => println!("nothing is lost: a directory that opens is built by\n    {repair} --to NEW"),
        missing => {
            let spans: Vec<String> = missing.iter().map(Span::to_string).collect();
            println!("nothing is lost with a backup that has {}:", spans.join(", "));
            println!("    enact journal repair --data {data} --from BACKUP --to NEW");
            println!("otherwise {} records are; which ones is told by\n    {repair} --to NEW", plan.lost_count());
        }
    }
}

/// Prints what will not be in the new directory.
fn print_lost(plan: &Plan, how: &str) {
    if plan.lost_count() == 0 {
        return;
    }
    println!("{how}: {}", plan.lost_in_words());
    if plan.has_lost_contract {
        println!("{how}: a version of the specification; the one before is served, or it is adopted again");
    }
    if plan.lost_elsewhere() > 0 {
        println!("{how}: parts of {} transactions, of which other journals keep theirs", plan.lost_elsewhere());
    }
    if plan.undecided() > 0 {
        println!(
            "kept: parts of {} transactions whose decision may be lost, and known to other journals",
            plan.undecided()
        );
    }
}
