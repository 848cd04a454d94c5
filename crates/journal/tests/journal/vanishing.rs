//! Files that vanish or change under an open journal: it fails, by itself and before it acknowledges anything more.

use std::fs;
use std::path::{Path, PathBuf};

use enact_journal::{AppendError, Embedded, Journal, NewRecord, Options, Refusal};
use enact_journal_kit::contract::block_on;
use tempfile::TempDir;

use crate::workload::{SEGMENT_BYTES, batches};

const LAST: &str = "segment-0000000003.log";

/// An open journal of three segments, and its directory.
fn journal() -> (TempDir, PathBuf, Embedded, Vec<Vec<NewRecord>>) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("data");
    let options = Options { segment_bytes: SEGMENT_BYTES, ..Options::default() };
    let journal = Embedded::open(&path, options).expect("a new journal");
    let mut left = batches(200);
    while !path.join(LAST).exists() {
        block_on(journal.append(left.remove(0))).expect("durable");
    }
    block_on(journal.append(left.remove(0))).expect("durable");
    (dir, path, journal, left)
}

type Mishap = (&'static str, fn(&Path));

const MISHAPS: [Mishap; 9] = [
    ("data directory is gone", |path| fs::remove_dir_all(path).expect("removed")),
    ("data directory is gone", |path| fs::rename(path, path.with_extension("moved")).expect("moved")),
    ("has been replaced by another directory", |path| {
        fs::rename(path, path.with_extension("moved")).expect("moved");
        fs::create_dir(path).expect("a directory");
    }),
    ("segment-0000000001.log is gone", |path| fs::remove_file(path.join("segment-0000000001.log")).expect("removed")),
    ("segment-0000000003.log is gone", |path| fs::remove_file(path.join(LAST)).expect("removed")),
    ("manifest is gone", |path| fs::remove_file(path.join("manifest")).expect("removed")),
    ("segment-0000000002.log has been replaced", |path| {
        let file = path.join("segment-0000000002.log");
        fs::copy(&file, path.join("copy")).expect("copied");
        fs::rename(path.join("copy"), file).expect("replaced");
    }),
    ("segment-0000000001.log has been cut from", |path| cut(&path.join("segment-0000000001.log"))),
    ("segment-0000000003.log has been cut from", |path| cut(&path.join(LAST))),
];

fn cut(path: &Path) {
    fs::File::options().write(true).open(path).expect("the file").set_len(100).expect("cut");
}

#[test]
fn idle_journal_fails_when_its_files_are_not_what_they_were() {
    for (what, mishap) in MISHAPS {
        let (_dir, path, journal, mut left) = journal();
        let failed = journal.failed();
        mishap(&path);
        let why = block_on(failed).expect("not closed");
        assert!(why.contains(what), "{what}: {why}");
        let refused = block_on(journal.append(left.remove(0)));
        assert!(matches!(refused, Err(AppendError::Refused(Refusal::Poisoned { .. }))), "{what}: {refused:?}");
        assert_eq!(block_on(journal.failed()), Some(why), "the reason stays");
        assert!(block_on(journal.close()).is_err(), "{what}");
    }
}

#[test]
fn nothing_is_acknowledged_in_a_segment_that_is_gone() {
    for lost in [|path: &Path| fs::remove_file(path.join(LAST)), |path: &Path| fs::remove_dir_all(path)] {
        let (_dir, path, journal, mut left) = journal();
        lost(&path).expect("removed");
        let answer = block_on(journal.append(left.remove(0)));
        let is_failure =
            matches!(&answer, Err(AppendError::InDoubt { .. } | AppendError::Refused(Refusal::Poisoned { .. })));
        assert!(is_failure, "{answer:?}");
        assert!(block_on(journal.failed()).is_some());
    }
}

#[test]
fn closed_journal_does_not_fail() {
    let (_dir, path, journal, _) = journal();
    let failed = journal.failed();
    block_on(journal.close()).expect("closed");
    fs::remove_dir_all(path).expect("removed");
    assert_eq!(block_on(failed), None);
    assert_eq!(block_on(journal.failed()), None);
}
