//! The data directory: private, no links, and nothing in it but what the journal made.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use enact_journal::disk::{DirectoryError, Disk, LockError, OsDisk};
use enact_journal::{
    Embedded, EntityKey, Journal, Kind, NewRecord, OpenError, Options, Position, Seq, Snapshot, verify,
};
use enact_journal_kit::contract::block_on;

fn open(path: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(path, Options::default())
}

/// Makes a journal with a record and a snapshot.
fn fill(path: &Path) {
    let journal = open(path).expect("a new journal");
    let entity = EntityKey::new("Account", "NL01").expect("a valid id");
    let record = NewRecord { entity: entity.clone(), expected: Seq::NONE, kind: Kind(0), payload: vec![] };
    block_on(journal.append(vec![record])).expect("durable");
    block_on(journal.save_snapshot(Snapshot { entity, seq: Seq(1), payload: vec![] })).expect("saved");
}

#[test]
fn directory_is_made_for_its_owner_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("some/where");
    fill(&path);
    for path in [&path, path.parent().expect("a parent")] {
        assert_eq!(path.metadata().expect("it exists").mode() & 0o777, 0o700, "{}", path.display());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).expect("the directory") {
        let entry = entry.expect("an entry");
        assert_eq!(entry.metadata().expect("it exists").mode() & 0o777, 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name().into_string().expect("a text"));
    }
    names.sort_unstable();
    assert_eq!(names, ["lock", "manifest", "segment-0000000001.log", "snapshots.redb"]);
}

#[test]
fn volume_is_what_the_files_take_and_their_file_system_has_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("data");
    fill(&path);
    let size = |name: &str| path.join(name).metadata().expect("it exists").len();
    let journal = open(&path).expect("the same journal");
    let files = ["manifest", "segment-0000000001.log", "snapshots.redb"];
    let opened = journal.volume();
    assert_eq!((opened.last, opened.bytes), (Some(Position(1)), Some(files.map(size).iter().sum())));
    assert!(opened.free_bytes.is_some_and(|free| free > 0), "{opened:?}");
    let entity = EntityKey::new("Account", "NL01").expect("a valid id");
    let record = NewRecord { entity, expected: Seq(1), kind: Kind(0), payload: vec![0; 1 << 20] };
    block_on(journal.append(vec![record])).expect("durable");
    // It looks at its files by itself.
    while journal.volume().bytes < opened.bytes.map(|bytes| bytes + (1 << 20)) {
        thread::yield_now();
    }
    assert_eq!(journal.volume().last, Some(Position(2)));
}

#[test]
fn directory_that_others_may_enter_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    for mode in [0o755, 0o750, 0o701] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).expect("permissions");
        let Err(OpenError::Directory(error)) = open(dir.path()) else { panic!("mode {mode:o} is accepted") };
        assert!(matches!(error, DirectoryError::Open { mode: found, .. } if found == mode));
        assert!(error.to_string().ends_with("is open to others: chmod 700"), "{error}");
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("permissions");
    open(dir.path()).expect("private now");
}

#[test]
fn links_and_files_are_refused_as_directories() {
    let dir = tempfile::tempdir().expect("a directory");
    let (real, link, file) = (dir.path().join("real"), dir.path().join("link"), dir.path().join("file"));
    fill(&real);
    symlink(&real, &link).expect("a link");
    fs::write(&file, b"").expect("a file");
    for path in [&link, &file] {
        for refused in [open(path).err(), verify(path).err()] {
            assert!(matches!(refused, Some(OpenError::Directory(DirectoryError::NotADirectory { .. }))), "{refused:?}");
        }
    }
}

#[test]
fn directory_that_its_path_no_longer_names_is_not_locked() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("data");
    let disk = OsDisk::at(&path).expect("a new directory");
    fs::rename(&path, dir.path().join("elsewhere")).expect("moved");
    assert!(matches!(disk.lock(), Err(LockError::Io(_))), "moved away");
    OsDisk::at(&path).expect("another directory");
    let Err(LockError::Io(error)) = disk.lock() else { panic!("the replaced directory is locked") };
    assert!(error.to_string().ends_with("has been replaced by another directory"), "{error}");
}

/// A backup looks whether a server has the directory, and must not be taken for one.
#[test]
fn looks_at_the_lock_keep_nobody_from_taking_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("data");
    let disk = OsDisk::at(&path).expect("a new directory");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let beside = OsDisk::read_only(&path).expect("a directory");
                while !is_over.load(Ordering::Relaxed) {
                    beside.is_locked().expect("readable");
                }
            });
        }
        let taken: Vec<_> = (0..500).map(|_| disk.lock().map(drop)).collect();
        is_over.store(true, Ordering::Relaxed);
        for (number, taken) in taken.into_iter().enumerate() {
            taken.unwrap_or_else(|error| panic!("lock {number}: {error}"));
        }
    });
    let shared = fs::File::open(&path).expect("a directory");
    shared.lock_shared().expect("nobody has it");
    assert!(matches!(disk.lock(), Err(LockError::InUse { .. })), "it is not waited for for ever");
}

#[test]
fn linked_files_are_refused() {
    for name in ["lock", "manifest", "segment-0000000001.log"] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("data");
        fill(&path);
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(path.join(name), &elsewhere).expect("moved");
        symlink(&elsewhere, path.join(name)).expect("a link");
        let Err(OpenError::Io { file, why }) = open(&path) else { panic!("a linked {name} is accepted") };
        assert_eq!((file.as_str(), why.as_str()), (name, "it is a symbolic link"));
    }
}

#[test]
fn segment_that_is_no_file_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("data");
    fill(&path);
    let segment = path.join("segment-0000000001.log");
    fs::remove_file(&segment).expect("removed");
    fs::create_dir(&segment).expect("a directory");
    assert!(matches!(open(&path), Err(OpenError::Io { file, .. }) if file == "segment-0000000001.log"));
}

#[test]
fn strange_files_are_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("data");
    fill(&path);
    for name in ["notes.txt", "segment-2.log", "segment-0000000002.log.bak", "segment-0000000000.log"] {
        fs::write(path.join(name), b"mine").expect("a file");
    }
    drop(open(&path).expect("opens"));
    assert_eq!(verify(&path).expect("readable").segment_count, 1);
    assert_eq!(fs::read(path.join("notes.txt")).expect("it is there"), b"mine");
}

#[test]
fn verify_needs_a_directory_and_makes_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("none");
    assert!(matches!(verify(&path), Err(OpenError::Directory(DirectoryError::Io { .. }))));
    assert!(!path.exists());
}
