//! `enact journal`: what is in a data directory, another journal or a backup, and the way from one to the other; `enact audit`:
//! whether a specification allows it.

mod audit;
mod backup;
#[cfg(feature = "nats")]
pub(crate) mod cluster;
mod export;
mod groups;
mod repair;
mod restore;
mod tally;
mod verify;

use std::path::Path;

use enact_journal::{Attested, OpenError, Verification, adopt, verify_attested};
use enact_rebel::Timestamp;

pub(crate) use self::audit::run as audit;
use self::groups::Groups;
pub(crate) use self::repair::RepairError;
use crate::args;
use crate::failure::Failure;
use crate::sign_key;

pub(crate) fn run(command: &args::Journal) -> Result<(), Failure> {
    match command {
        args::Journal::Verify { backup: Some(file), .. } => backup::verify(file),
        args::Journal::Verify { records, public_key: Some(file), .. } => verify_with(&records.data, file),
        args::Journal::Verify { records, .. } => verify::run(records),
        args::Journal::Adopt(args::DataDirectory { data }) => report(data, adopt(data)),
        args::Journal::Backup { file, records } => backup::write(file, Groups::of(records)?),
        args::Journal::Repair(args) => repair::run(args),
        args::Journal::Restore(args) => restore::run(args),
        args::Journal::Export { backup: Some(file), .. } => export::run(Groups::of_backup(file)?),
        args::Journal::Export { records, .. } => export::run(Groups::of(records)?),
    }
}

/// Verifies the directory `data`, and holds it against its attestations with the public keys of `file`.
fn verify_with(data: &Path, file: &Path) -> Result<(), Failure> {
    let keys = sign_key::read_public(file)?;
    let (found, attested) = verify_attested(data, &keys).map_err(of_directory(data))?;
    let words = attested_in_words(&attested, &found);
    let reported = report(data, Ok(found));
    println!("{words}");
    reported
}

/// Prints what was found in the directory `data`.
fn report(data: &Path, found: Result<Verification, OpenError>) -> Result<(), Failure> {
    let found = found.map_err(of_directory(data))?;
    for damage in &found.damages {
        println!("{damage}");
    }
    if !found.is_sound() {
        return Err(Failure::Damaged { path: data.to_owned() });
    }
    println!("{}", in_words(&found));
    Ok(())
}

fn of_directory(path: &Path) -> impl Fn(OpenError) -> Failure + use<'_> {
    |source| Failure::Journal { path: path.to_owned(), source }
}

fn in_words(found: &Verification) -> String {
    let Verification { segment_count, entity_count, last, torn_bytes, .. } = found;
    let torn = match torn_bytes {
        0 => String::new(),
        bytes => format!(", and {bytes} bytes that a crash has torn"),
    };
    format!("sound: segments {segment_count}, entities {entity_count}, records {last}{torn}")
}

fn attested_in_words(attested: &Attested, found: &Verification) -> String {
    let Attested { count, signed } = attested;
    let Some(signed) = signed else { return format!("attested: nothing, of records {}", found.last) };
    let time = Timestamp::from_millis(i64::try_from(signed.time_ms).unwrap_or(i64::MAX));
    let behind = found.last.0 - signed.position.0;
    format!("attested: attestations {count}, up to record {} at {time}, records behind it {behind}", signed.position)
}
