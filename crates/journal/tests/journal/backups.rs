//! Backups of logs: what a backup gives back, how damage to it is found, and the log that is built from it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use enact_journal::{
    BackupError, BackupReader, BackupWriter, BuildError, Embedded, EntityKey, Flaw, Group, Journal, Kind, LogBuilder,
    OpenError, Position, Record, Seq, look, verify,
};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::workload::{SEGMENT_BYTES, batches, block_on, key, options, read_all, records};

const LOG: u64 = 0x0123_4567_89AB_CDEF;

fn place() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// The log of `count` batches in a directory, and its groups.
fn log(path: &Path, count: usize) -> Vec<Group> {
    let journal = Embedded::open(path, options()).expect("a new journal");
    for some in batches(count).chunks(3) {
        let appends: Vec<_> = some.iter().map(|batch| journal.append(batch.clone())).collect();
        appends.into_iter().for_each(|append| block_on(append).map(drop).expect("durable"));
    }
    block_on(journal.close()).expect("closed");
    look(path).expect("a log").collect::<Result<_, _>>().expect("sound")
}

fn save(path: &Path, groups: &[Group]) {
    let mut backup = BackupWriter::create(path, LOG).expect("a new file");
    groups.iter().for_each(|group| backup.push(group).expect("written"));
    let totals = backup.finish().expect("durable");
    assert_eq!(totals.bytes, fs::metadata(path).expect("there").len());
    assert_eq!(totals.group_count, groups.len() as u64);
}

/// All groups of the backup, or the first error.
fn read(path: &Path) -> Result<Vec<Group>, BackupError> {
    let mut backup = BackupReader::open(path)?;
    let groups = backup.by_ref().collect::<Result<Vec<_>, _>>();
    assert_eq!(backup.totals().is_some(), groups.is_ok(), "there are totals exactly if all of it is right");
    assert!(backup.next().is_none(), "nothing follows");
    groups
}

fn build(path: &Path, groups: &[Group]) -> Result<Position, BuildError> {
    let mut log = LogBuilder::begin(path, SEGMENT_BYTES)?;
    groups.iter().try_for_each(|group| log.push(group.clone()))?;
    log.finish()
}

fn names(place: &TempDir) -> Vec<PathBuf> {
    fs::read_dir(place.path()).expect("there").map(|entry| entry.expect("readable").path()).collect()
}

#[test]
fn a_backup_gives_back_the_groups_of_the_log() {
    let place = place();
    for count in [0, 1, 40] {
        let groups = log(&place.path().join(format!("data-{count}")), count);
        let file = place.path().join(format!("{count}.backup"));
        save(&file, &groups);
        assert_eq!(read(&file).expect("sound"), groups);
        assert_eq!(BackupReader::open(&file).expect("sound").log(), LOG);
    }
}

/// The log is another one, with segments of its own, and holds the same groups at the same positions.
#[test]
fn a_log_that_is_built_from_groups_shows_them_and_goes_on() {
    let place = place();
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    let groups = log(&first, 60);
    assert_eq!(build(&second, &groups).expect("built"), groups.last().expect("some").last());
    let built = look(&second).expect("a log");
    assert_ne!(built.log(), look(&first).expect("a log").log());
    assert_eq!(built.collect::<Result<Vec<_>, _>>().expect("sound"), groups);
    let found = verify(&second).expect("readable");
    assert!(found.is_sound() && found.segment_count > 2, "{found:?}");

    let journal = Embedded::open(&second, options()).expect("a journal");
    assert_eq!(read_all(&journal).expect("readable"), records(&batches(60)));
    block_on(journal.append(batches(61).pop().expect("the next"))).expect("durable");
}

#[test]
fn a_log_without_groups_can_be_built() {
    let place = place();
    let path = place.path().join("data");
    assert_eq!(build(&path, &[]).expect("built"), Position::START);
    assert!(verify(&path).expect("readable").is_sound());
}

#[test]
fn every_flipped_byte_of_a_backup_is_found() {
    let place = place();
    let file = place.path().join("bank.backup");
    save(&file, &log(&place.path().join("data"), 7));
    let whole = fs::read(&file).expect("there");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        fs::write(&file, &bytes).expect("written");
        let error = read(&file).expect_err("damaged");
        let BackupError::Damaged(damage) = &error else { panic!("byte {at}: {error}") };
        assert_eq!(damage.file, "bank.backup");
        assert!(damage.offset <= at as u64, "byte {at}: {error}");
    }
}

#[test]
fn a_backup_that_was_cut_off_or_continued_is_found() {
    let place = place();
    let file = place.path().join("bank.backup");
    save(&file, &log(&place.path().join("data"), 5));
    let whole = fs::read(&file).expect("there");
    for len in 0..whole.len() {
        fs::write(&file, &whole[..len]).expect("written");
        let error = read(&file).expect_err("cut off");
        let expected = (len as u64, Flaw::Short);
        assert!(
            matches!(&error, BackupError::Damaged(damage) if (damage.offset, damage.flaw.clone()) == expected),
            "{len} bytes: {error}"
        );
    }
    fs::write(&file, [&whole[..], b"x"].concat()).expect("written");
    let error = read(&file).expect_err("continued");
    let expected = (whole.len() as u64, Flaw::Trailing);
    assert!(matches!(&error, BackupError::Damaged(damage) if (damage.offset, damage.flaw.clone()) == expected));
}

/// Groups with valid checksums in the wrong order are damage, too.
#[test]
fn groups_that_do_not_follow_each_other_are_found() {
    let place = place();
    let record = |id, seq, position| Record {
        entity: key(id),
        seq: Seq(seq),
        position: Position(position),
        kind: Kind(0),
        payload: vec![1; 8],
    };
    let order = |expected, found| Flaw::Order { expected: Position(expected), found: Position(found) };
    let chain = |id, expected, found| Flaw::Chain { entity: key(id), expected: Seq(expected), found: Seq(found) };
    for (number, (second, flaw)) in [
        (vec![record(1, 1, 2), record(0, 3, 3)], chain(0, 2, 3)),
        (vec![record(0, 1, 2)], chain(0, 2, 1)),
        (vec![record(1, 2, 2)], chain(1, 1, 2)),
    ]
    .into_iter()
    .enumerate()
    {
        let file = place.path().join(number.to_string());
        save(&file, &[Group::of(vec![record(0, 1, 1)]), Group::of(second.clone())]);
        let error = read(&file).expect_err("wrong");
        assert!(matches!(&error, BackupError::Damaged(damage) if damage.flaw == flaw), "{error}");

        let data = place.path().join(format!("data-{number}"));
        let error = build(&data, &[Group::of(vec![record(0, 1, 1)]), Group::of(second)]).expect_err("wrong");
        assert!(matches!(&error, BuildError::Record { flaw: found, .. } if *found == flaw), "{error}");
        assert!(!data.exists(), "nothing is built");
    }
    let error = build(&place.path().join("data"), &[Group::of(vec![record(0, 1, 2)])]).expect_err("wrong");
    assert!(matches!(&error, BuildError::Record { flaw, .. } if *flaw == order(1, 2)), "{error}");
}

/// Writes checksums and hash anew over a backup of one group, as a program with a mistake would.
fn seal(bytes: &mut [u8]) {
    let body_end = bytes.len() - 64;
    let body = crc32c::crc32c(&bytes[64..body_end]);
    bytes[56..60].copy_from_slice(&body.to_le_bytes());
    let header = crc32c::crc32c_append(crc32c::crc32c(&bytes[32..36]), &bytes[40..64]);
    bytes[36..40].copy_from_slice(&header.to_le_bytes());
    let hash_at = bytes.len() - 32;
    let hash = Sha256::digest(&bytes[..hash_at]);
    bytes[hash_at..].copy_from_slice(&hash);
}

#[test]
fn bytes_with_their_checksums_that_are_no_records_are_refused() {
    let place = place();
    let file = place.path().join("bank.backup");
    let record = Record { entity: key(1), seq: Seq(1), position: Position(1), kind: Kind(0), payload: vec![1; 8] };
    save(&file, &[Group::of(vec![record])]);
    let whole = fs::read(&file).expect("there");
    let footer = whole.len() - 64;
    for (at, new, place, flaw) in [
        // The seq, the lengths of payload and key, and the key.
        (64, &u64::MAX.to_le_bytes()[..], 64, Flaw::Malformed),
        (72, &[9, 0, 0, 0], 64, Flaw::Malformed),
        (72, &[7, 0, 0, 0], 64 + 16 + 12 + 7, Flaw::Malformed),
        (76, &[0xff, 0xff], 64, Flaw::Malformed),
        (80, b"/", 64, Flaw::Malformed),
        (80, &[0xff], 64, Flaw::Malformed),
        // The first position, the length and the count of the group.
        (40, &[2], 32, Flaw::Order { expected: Position(1), found: Position(2) }),
        (48, &[0xff, 0xff, 0xff, 0xff], 32, Flaw::GroupHeader),
        (52, &[2], 32, Flaw::GroupHeader),
        // The counts and the last position of the footer.
        (footer + 8, &[2], footer, Flaw::FooterMismatch),
        (footer + 16, &[2], footer, Flaw::FooterMismatch),
        (footer + 24, &[2], footer, Flaw::FooterMismatch),
    ] {
        let mut bytes = whole.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        seal(&mut bytes);
        fs::write(&file, bytes).expect("written");
        let error = read(&file).expect_err("no records");
        let BackupError::Damaged(damage) = &error else { panic!("byte {at}: {error}") };
        assert_eq!((damage.offset, &damage.flaw), (place as u64, &flaw), "byte {at}");
    }
}

/// A file of another version, or of something else, is refused before anything of it is believed.
#[test]
fn a_file_that_is_no_backup_of_this_version_is_refused() {
    let place = place();
    let file = place.path().join("bank.backup");
    save(&file, &[]);
    let whole = fs::read(&file).expect("there");
    for (at, byte, flaw) in [(0, b'X', Flaw::BackupHeader), (8, 3, Flaw::Version { found: 3 })] {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        fs::write(&file, bytes).expect("written");
        let error = BackupReader::open(&file).expect_err("another file");
        assert!(matches!(&error, BackupError::Damaged(damage) if damage.flaw == flaw && damage.offset == 0), "{error}");
    }
    let error = BackupReader::open(&place.path().join("none")).expect_err("no file");
    assert!(matches!(error, BackupError::Io { .. }), "{error}");
}

/// What programs have written that did not compact.
#[test]
fn a_backup_of_the_first_version_is_read_and_has_no_gaps() {
    let place = place();
    let file = place.path().join("bank.backup");
    let groups = log(&place.path().join("data"), 5);
    let first_version = |path: &Path| {
        let mut bytes = fs::read(path).expect("there");
        bytes[8] = 1;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..32]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        let hash_at = bytes.len() - 32;
        let hash = Sha256::digest(&bytes[..hash_at]);
        bytes[hash_at..].copy_from_slice(&hash);
        fs::write(path, bytes).expect("written");
    };
    save(&file, &groups);
    first_version(&file);
    assert_eq!(read(&file).expect("sound"), groups);

    let file = place.path().join("gap.backup");
    save(&file, &[Group::new(Position(1), Position(3), Vec::new())]);
    assert_eq!(read(&file).expect("sound").len(), 1);
    first_version(&file);
    let error = read(&file).expect_err("there are no gaps");
    assert!(matches!(&error, BackupError::Damaged(damage) if damage.flaw == Flaw::Malformed), "{error}");
}

#[test]
fn a_backup_overwrites_nothing_and_leaves_nothing_unfinished() {
    let place = place();
    let file = place.path().join("bank.backup");
    let groups = log(&place.path().join("data"), 2);
    save(&file, &groups);
    let whole = fs::read(&file).expect("there");
    assert!(matches!(BackupWriter::create(&file, LOG), Err(BackupError::Exists { .. })));
    assert_eq!(fs::read(&file).expect("there"), whole);

    // The name is taken while the backup is written.
    let other = place.path().join("other.backup");
    let mut backup = BackupWriter::create(&other, LOG).expect("a new file");
    assert!(matches!(BackupWriter::create(&other, LOG), Err(BackupError::Unfinished { .. })));
    backup.push(&groups[0]).expect("written");
    assert!(!other.exists(), "it has its name when it is complete");
    fs::write(&other, "taken").expect("written");
    assert!(matches!(backup.finish(), Err(BackupError::Exists { .. })));
    assert_eq!(fs::read(&other).expect("there"), b"taken");

    fs::remove_file(&other).expect("there");
    drop(BackupWriter::create(&other, LOG).expect("a new file"));
    assert_eq!(names(&place).len(), 2, "the log and the first backup: {:?}", names(&place));
}

#[test]
fn a_log_is_built_whole_or_not_at_all_and_only_where_nothing_is() {
    let place = place();
    let data = place.path().join("data");
    let groups = log(&data, 3);
    assert!(matches!(build(&data, &groups), Err(BuildError::Exists { .. })), "there is a log");
    let file = place.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(matches!(build(&file, &groups), Err(BuildError::Exists { .. })), "there is a file");

    let path = place.path().join("other");
    let mut builder = LogBuilder::begin(&path, SEGMENT_BYTES).expect("a new directory");
    builder.push(groups[0].clone()).expect("written");
    assert!(matches!(LogBuilder::begin(&path, SEGMENT_BYTES), Err(BuildError::UnderWay { .. })));
    assert!(!path.exists(), "it has its name when it is complete");
    drop(builder);
    assert_eq!(names(&place).len(), 2, "nothing is left: {:?}", names(&place));

    let builder = LogBuilder::begin(&path, SEGMENT_BYTES).expect("a new directory");
    fs::create_dir(&path).expect("made");
    fs::write(path.join("something"), "").expect("written");
    assert!(matches!(builder.finish(), Err(BuildError::Exists { .. })), "there is something by now");
    fs::remove_file(path.join("something")).expect("there");
    build(&path, &groups).expect("an empty directory is none");
    assert!(verify(&path).expect("readable").is_sound());

    let too_short = LogBuilder::begin(&place.path().join("short"), 100);
    assert!(matches!(too_short, Err(BuildError::Open(OpenError::SegmentBytes { .. }))));
}

/// What a builder has left that was killed is what its directory has at any moment, and no lock.
#[test]
fn a_builder_takes_the_place_of_one_that_was_killed_and_of_nothing_else() {
    let place = place();
    let groups = log(&place.path().join("data"), 60);
    let [built, whole, other] = ["built", "whole", "other"].map(|name| place.path().join(name));
    let left = |of: &Path, at: &Path| {
        fs::create_dir(at).expect("made");
        fs::set_permissions(at, fs::Permissions::from_mode(0o700)).expect("ours");
        for entry in fs::read_dir(of).expect("a directory") {
            let from = entry.expect("readable").path();
            fs::copy(&from, at.join(from.file_name().expect("a name"))).expect("copied");
        }
    };
    for count in [0, 1, groups.len()] {
        let mut builder = LogBuilder::begin(&built, SEGMENT_BYTES).expect("a new directory");
        groups[..count].iter().for_each(|group| builder.push(group.clone()).expect("written"));
        left(&place.path().join("built.new"), &place.path().join("other.new"));
        drop(builder);
        build(&other, &groups).expect("it takes its place");
        assert_eq!(look(&other).expect("a log").collect::<Result<Vec<_>, _>>().expect("sound"), groups);
        fs::remove_dir_all(&other).expect("there");
    }
    build(&built, &groups).expect("a new directory");
    assert!(!built.join("under-way").exists(), "it is complete");
    left(&built, &place.path().join("whole.new"));
    assert!(matches!(build(&whole, &groups), Err(BuildError::Unfinished { .. })), "it may be anything");
    assert!(verify(&place.path().join("whole.new")).expect("readable").is_sound());
}

#[test]
fn records_longer_than_a_journal_takes_are_not_built() {
    let place = place();
    let entity = EntityKey::new("Account", "A").expect("a name");
    let record = |bytes: usize| Record {
        entity: entity.clone(),
        seq: Seq(1),
        position: Position(1),
        kind: Kind(0),
        payload: vec![0; bytes - entity.as_str().len()],
    };
    build(&place.path().join("most"), &[Group::of(vec![record(16 << 20)])]).expect("the most that a journal takes");
    let error = build(&place.path().join("more"), &[Group::of(vec![record((16 << 20) + 1)])]).expect_err("more");
    assert!(matches!(error, BuildError::Record { flaw: Flaw::Malformed, .. }), "{error}");
}
