//! What a look beside the writer shows: whole groups from the beginning, and all of a log that nobody has open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use enact_journal::disk::{Disk, OsDisk};
use enact_journal::{Embedded, Flaw, Group, Journal, NewRecord, OpenError, Options, Record, look, look_on};
use enact_journal_kit::sim::{Fault, SimDisk};
use proptest::prelude::*;

use crate::workload::{SEGMENT_BYTES, batches, block_on, flat, open, options, read_all, records, whole_batches};

const SEED: u64 = 0x0010_0C5E_ED00;

fn groups(disk: Arc<dyn Disk>) -> Vec<Group> {
    look_on(disk).expect("a log").collect::<Result<_, _>>().expect("a sound log")
}

/// A mark that follows each group at once, so that a look beside the writer has an end that moves.
fn following() -> Options {
    Options { mark_lag: Duration::ZERO, ..options() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_look_beside_the_writer_shows_whole_groups_from_the_beginning(
        count in 1..150_usize,
        under_way in 1..12_usize,
    ) {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("data");
        let batches = batches(count);
        let journal = Embedded::open(&path, following()).expect("a new journal");
        let is_written = AtomicBool::new(false);
        let seen: Vec<Vec<Group>> = thread::scope(|scope| {
            scope.spawn(|| {
                for some in batches.chunks(under_way) {
                    let appends: Vec<_> = some.iter().map(|batch| journal.append(batch.clone())).collect();
                    for append in appends {
                        block_on(append).expect("durable");
                    }
                }
                is_written.store(true, Ordering::Release);
            });
            let mut seen = Vec::new();
            while !is_written.load(Ordering::Acquire) {
                seen.push(look(&path).expect("a log").collect::<Result<Vec<_>, _>>().expect("a sound log"));
            }
            seen
        });
        block_on(journal.close()).expect("closed");

        let all = groups(Arc::new(OsDisk::read_only(&path).expect("a directory")));
        prop_assert_eq!(flat(&all), records(&batches), "a closed log is shown whole");
        let mut before = 0;
        for groups in seen {
            prop_assert!(all.starts_with(&groups), "{} groups are not the first of {}", groups.len(), all.len());
            prop_assert!(groups.len() >= before, "a later look shows less");
            before = groups.len();
            whole_batches(&batches, &flat(&groups));
        }
    }
}

#[test]
fn a_look_shows_what_was_durable_before_the_mark_moved() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("data");
    let batches = batches(60);
    let journal = Embedded::open(&path, following()).expect("a new journal");
    for (count, batch) in batches.iter().enumerate() {
        block_on(journal.append(batch.clone())).expect("durable");
        // The mark is due before the next group is written, so it has reached the one before.
        let found: Vec<Record> = look(&path).expect("a log").flat_map(|group| group.expect("sound")).collect();
        assert!(whole_batches(&batches, &found) >= count, "{count} batches were there");
    }
}

/// The end of a log that nobody has open is where recovery finds it, wherever a crash has torn it.
#[test]
fn a_look_after_a_crash_shows_what_opening_the_log_keeps() {
    let batches = batches(24);
    let disk = SimDisk::new(SEED);
    disk.record();
    let journal = open(disk.mount()).expect("a new journal");
    for batch in &batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    block_on(journal.close()).expect("closed");
    let step_count = disk.steps().len();
    for step in 0..=step_count {
        for seed in 0..4 {
            let image = disk.at_step(step, seed);
            image.power_cut();
            let before: Vec<_> = image.names().into_iter().map(|name| (image.bytes(&name), name)).collect();
            let seen = flat(&groups(image.mount()));
            let after: Vec<_> = image.names().into_iter().map(|name| (image.bytes(&name), name)).collect();
            assert_eq!(after, before, "step {step}, seed {seed}: a look changes nothing");
            let kept = read_all(&open(image.mount()).expect("recovered")).expect("readable");
            assert_eq!(seen, kept, "step {step}, seed {seed}");
        }
    }
}

/// The group is visible, or half of it, and the process that has written it still has the log open.
#[test]
fn a_group_that_is_not_durable_is_not_shown_beside_its_writer() {
    let batches = batches(6);
    let (last, before) = batches.split_last().expect("some");
    for (step, fault) in [(0, Fault::Torn), (1, Fault::SyncLost)] {
        let disk = SimDisk::new(SEED);
        let journal = open(disk.mount()).expect("a new journal");
        for batch in before {
            block_on(journal.append(batch.clone())).expect("durable");
        }
        drop(journal);
        let journal = open(disk.mount()).expect("recovered, with the mark at the end");
        let size = disk.size();
        disk.fail_in(step, fault);
        block_on(journal.append(last.clone())).expect_err("in doubt");
        assert!(disk.size() > size, "{fault:?}: bytes of it are there");
        assert_eq!(flat(&groups(disk.mount())), records(before), "{fault:?}");
    }
}

fn written(batches: &[Vec<NewRecord>]) -> (tempfile::TempDir, std::path::PathBuf, Embedded) {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("data");
    let journal = Embedded::open(&path, following()).expect("a new journal");
    for batch in batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    (place, path, journal)
}

#[test]
fn a_look_keeps_nobody_from_opening_the_log() {
    let batches = batches(40);
    let (_place, path, journal) = written(&batches);
    block_on(journal.close()).expect("closed");
    let mut looking = look(&path).expect("a log");
    let first = looking.next().expect("a group").expect("sound");
    let journal = Embedded::open(&path, following()).expect("not locked");
    let last = batches.len();
    let more = crate::workload::batches(last + 20);
    for batch in &more[last..] {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    let rest: Vec<Record> = looking.flat_map(|group| group.expect("sound")).collect();
    assert_eq!(
        [first.records(), &rest].concat(),
        records(&batches),
        "all that was there when the look began, and no more"
    );
}

#[test]
fn damage_is_named_beside_the_writer_and_nothing_follows_it() {
    let batches = batches(60);
    let (_place, path, _journal) = written(&batches);
    let segment_count = fs::read_dir(&path).expect("a directory").count();
    assert!(segment_count > 4, "several segments");
    let segment = path.join("segment-0000000002.log");
    let whole = fs::read(&segment).expect("a segment");
    for at in [12, 100, whole.len() - 20] {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&segment, bytes).expect("written");
        let mut looking = look(&path).expect("a log");
        let found = looking.find_map(Result::err).expect("damage");
        let OpenError::Damaged(damage) = &found else { panic!("byte {at}: {found}") };
        assert_eq!(damage.file, "segment-0000000002.log", "byte {at}: {found}");
        assert!(looking.next().is_none(), "byte {at}");
    }
    fs::write(&segment, whole).expect("written");

    let last = (1..).map(|n| format!("segment-{n:010}.log")).take_while(|name| path.join(name).exists()).last();
    let last = path.join(last.expect("a segment"));
    let bytes = fs::read(&last).expect("a segment");
    fs::write(&last, &bytes[..100]).expect("cut");
    let found = look(&path).expect("a log").find_map(Result::err).expect("less than the mark promises");
    assert!(
        matches!(&found, OpenError::Damaged(damage) if matches!(damage.flaw, Flaw::Shortened { .. } | Flaw::Short)),
        "{found}"
    );
    fs::remove_file(&last).expect("removed");
    let found = look(&path).expect("a log").find_map(Result::err).expect("a segment is missing");
    assert!(matches!(&found, OpenError::Damaged(damage) if damage.flaw == Flaw::Missing), "{found}");
    assert!(bytes.len() < SEGMENT_BYTES as usize * 2);
}

#[test]
fn a_directory_that_is_read_only_can_be_looked_at_and_not_be_changed() {
    let batches = batches(10);
    let (_place, path, journal) = written(&batches);
    block_on(journal.close()).expect("closed");
    let disk = OsDisk::read_only(&path).expect("a directory");
    assert!(disk.create("new").is_err());
    assert!(disk.rename("manifest", "other").is_err());
    assert!(disk.remove("manifest").is_err());
    assert!(disk.lock().is_err());
    assert!(disk.open("manifest").expect("there").write_at(0, b"x").is_err());
    assert_eq!(flat(&groups(Arc::new(disk))), records(&batches));
}

#[test]
fn a_directory_without_a_log_shows_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("data");
    assert!(matches!(look(&path), Err(OpenError::Directory(_))), "there is none");
    assert!(!path.exists());
    OsDisk::at(&path).expect("made");
    assert_eq!(look(&path).expect("empty").count(), 0);
}
