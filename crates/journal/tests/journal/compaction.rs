//! Compaction: forgotten classes take no space in sealed segments, and everything else reads as before.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use enact_journal::disk::{Disk, OsDisk};
use enact_journal::{
    AppendError, BackupReader, BackupWriter, Embedded, EntityKey, Group, Journal, Kind, LogBuilder, NewRecord,
    OpenError, Options, Position, Record, Refusal, Salvage, Seq, look, look_on, verify_on,
};
use enact_journal_kit::sim::SimDisk;

use crate::checkpoints::{eager, make_checkpoint, until};
use crate::workload::{SEGMENT_BYTES, block_on, flat, flipped, options, read_all};

const FIRST: &str = "segment-0000000001.log";
pub(crate) const COMPACTED: &[u8] = b"ENACTCMP";
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Batch `n`: a change of one of five accounts, and an answer of the class `n / 40`, every other one with one before it.
fn batch(n: usize) -> Vec<NewRecord> {
    let record = |class: &str, id: String, expected: u64, bytes: usize| NewRecord {
        entity: EntityKey::new(class, &id).expect("a name"),
        expected: Seq(expected),
        kind: Kind(3),
        payload: vec![n as u8; bytes],
    };
    let answer = |id: String| record(&class(n), id, 0, 60 + n % 17);
    let mut batch = vec![record("Account", format!("{}", n % 5), (n / 5) as u64, 40 + n % 23), answer(format!("{n}"))];
    if n.is_multiple_of(2) {
        batch.insert(0, answer(format!("{n}-before")));
    }
    batch
}

fn class(n: usize) -> String {
    format!(".answer-{:03}", n / 40)
}

/// All records of `count` batches.
fn written(count: usize) -> Vec<Record> {
    let records = (0..count).flat_map(batch).zip(1..);
    let record = |(NewRecord { entity, expected, kind, payload }, position)| Record {
        entity,
        seq: expected.next(),
        position: Position(position),
        kind,
        payload,
    };
    records.map(record).collect()
}

pub(crate) fn append(journal: &Embedded, batches: std::ops::Range<usize>) {
    for n in batches {
        block_on(journal.append(batch(n))).expect("durable");
    }
}

/// Whether `class` is one of the first `count` of answers.
pub(crate) fn among(count: usize) -> impl Fn(&str) -> bool + Copy {
    move |class| class.strip_prefix(".answer-").is_some_and(|number| number.parse::<usize>().is_ok_and(|n| n < count))
}

pub(crate) fn segments(disk: &SimDisk) -> Vec<String> {
    let mut names = disk.names();
    names.retain(|name| name.starts_with("segment-"));
    names.sort_unstable();
    names
}

/// How many segments are compacted.
pub(crate) fn compacted(disk: &SimDisk) -> usize {
    segments(disk).iter().filter(|name| disk.bytes(name).is_some_and(|bytes| bytes.starts_with(COMPACTED))).count()
}

/// A closed log of `count` batches whose sealed segments were compacted, but for the last classes, without the first `over` ones.
pub(crate) fn log(count: usize, over: usize) -> SimDisk {
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..count);
    drop(journal);
    compact(&disk, over);
    disk
}

/// Opens the log until the classes before `over` are gone from its sealed segments.
pub(crate) fn compact(disk: &SimDisk, over: usize) {
    let left = || {
        let sealed = segments(disk);
        let sealed = &sealed[..sealed.len() - 1];
        sealed
            .iter()
            .filter(|name| {
                let bytes = disk.bytes(name).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes);
                // The head of a compacted segment names the class without a slash.
                (0..over).any(|n| text.contains(&format!(".answer-{n:03}/")))
            })
            .count()
    };
    let journal = Embedded::open_without(disk.mount(), options(), among(over)).expect("opens");
    journal.forget(among(over));
    until("segments without the classes", || left() == 0);
    drop(journal);
}

/// What the log on `disk` shows: by its feed, by a look and to a salvage.
fn shown(disk: &SimDisk) -> Vec<Record> {
    assert_eq!(verify_on(&*disk.mount()).expect("readable").damages, []);
    let looked: Vec<Group> = look_on(disk.mount()).expect("a log").collect::<Result<_, _>>().expect("sound");
    let mut salvage = Salvage::open_on(disk.mount()).expect("readable");
    let salvaged: Vec<Group> = salvage.by_ref().collect::<Result<_, _>>().expect("readable");
    assert!(salvage.diagnosis().is_sound(), "{:?}", salvage.diagnosis());
    assert_eq!(looked, salvaged);
    let positions = looked.iter().map(|group| (group.first().0, group.last().0));
    assert!(
        positions.fold(0, |last, (first, end)| {
            assert_eq!(first, last + 1);
            end
        }) > 0,
        "no position is left out"
    );
    flat(&looked)
}

/// What is left of `records` without the classes of which `is_over` holds.
fn without(records: &[Record], is_over: impl Fn(&str) -> bool) -> Vec<Record> {
    records.iter().filter(|record| !is_over(record.entity.class())).cloned().collect()
}

#[test]
fn what_is_not_forgotten_reads_as_before_and_what_is_takes_no_space() {
    const COUNT: usize = 400;
    let all = written(COUNT);
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..COUNT);
    let before = disk.size();
    journal.forget(among(8));
    until("compacted segments", || compacted(&disk) > segments(&disk).len() * 7 / 10);
    // The writer goes on meanwhile, and reads are right at any time.
    append(&journal, COUNT..COUNT + 5);
    let all_now = written(COUNT + 5);
    for id in 0..5 {
        let entity = EntityKey::new("Account", &id.to_string()).expect("a name");
        let expected: Vec<Record> = all_now.iter().filter(|record| record.entity == entity).cloned().collect();
        assert_eq!(block_on(journal.read(&entity, Seq::NONE)).expect("readable"), expected);
        assert_eq!(block_on(journal.read(&entity, Seq(40))).expect("readable"), expected[40..]);
    }
    let answer = &all.last().expect("some").entity;
    assert_eq!(block_on(journal.read(answer, Seq::NONE)).expect("readable").len(), 1);
    let kept = without(&all_now, among(8));
    let fed = read_all(&journal).expect("readable");
    assert_eq!(without(&fed, among(8)), kept);
    drop(journal);

    compact(&disk, 8);
    // Answers are more than half of the bytes, and eight tenths of them are over.
    assert!(disk.size() * 10 < before * 7, "{} of {before} bytes", disk.size());
    assert_eq!(shown(&disk), kept);
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    assert_eq!(without(&read_all(&journal).expect("readable"), among(8)), kept);
}

#[test]
fn a_discarded_class_stays_forgotten_whatever_a_later_start_wants() {
    const COUNT: usize = 300;
    let disk = log(COUNT, 4);
    let gone = EntityKey::new(".answer-000", "0").expect("a name");
    let again = NewRecord { entity: gone.clone(), expected: Seq::NONE, kind: Kind(0), payload: vec![] };
    for with_checkpoint in [false, true] {
        if with_checkpoint {
            make_checkpoint(&disk);
        }
        let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
        assert_eq!(block_on(journal.last(&gone)), Ok(Seq::NONE));
        assert_eq!(
            block_on(journal.append(vec![again.clone()])),
            Err(Refusal::Forgotten { entity: gone.clone() }.into())
        );
        drop(journal);
        assert_eq!(shown(&disk), without(&written(COUNT), among(4)));
    }
}

#[test]
fn a_checkpoint_of_before_holds_after_the_compaction() {
    const COUNT: usize = 300;
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..COUNT);
    drop(journal);
    make_checkpoint(&disk);
    let checkpoint = disk.bytes("checkpoint");
    compact(&disk, 5);
    assert_eq!(disk.bytes("checkpoint"), checkpoint, "it is the one of before");
    assert_eq!(shown(&disk), without(&written(COUNT), among(5)));
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    let last = written(COUNT).into_iter().rev().find(|record| record.entity.class() == "Account").expect("some");
    let records = block_on(journal.read(&last.entity, Seq::NONE)).expect("readable");
    assert_eq!((records.len() as u64, records.last()), (last.seq.0, Some(&last)));
    // The next checkpoint is made of this one and of segments that were compacted.
    append(&journal, COUNT..2 * COUNT);
    journal.forget(among(9));
    drop(journal);
    compact(&disk, 9);
    make_checkpoint(&disk);
    assert_ne!(disk.bytes("checkpoint"), checkpoint);
    assert_eq!(shown(&disk), without(&written(2 * COUNT), among(9)));
}

#[test]
fn a_compacted_segment_is_compacted_again_when_more_of_it_is_over() {
    const COUNT: usize = 300;
    let disk = log(COUNT, 2);
    let mut size = disk.size();
    for over in 3..7 {
        compact(&disk, over);
        assert!(disk.size() < size, "{over} classes are over");
        size = disk.size();
        assert_eq!(shown(&disk), without(&written(COUNT), among(over)));
    }
}

#[test]
fn little_that_could_go_is_left_where_it_is() {
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    // One record of seventeen is an answer, so two of a segment are at most.
    let record = |class: &str, n: u64, expected: u64| NewRecord {
        entity: EntityKey::new(class, &n.to_string()).expect("a name"),
        expected: Seq(expected),
        kind: Kind(0),
        payload: vec![1; 100],
    };
    let mut last = [0; 9];
    for n in 0..400 {
        let next = if n % 17 == 0 {
            record(".answer-000", n, 0)
        } else {
            let last = &mut last[n as usize % 9];
            *last += 1;
            record("Account", n % 9, *last - 1)
        };
        block_on(journal.append(vec![next])).expect("durable");
    }
    let before: Vec<_> = segments(&disk).into_iter().map(|name| disk.bytes(&name)).collect();
    journal.forget(among(1));
    // What is done beside the writer is done when it is closed, or it is given up.
    drop(journal);
    let journal = Embedded::open_without(disk.mount(), eager(), among(1)).expect("opens");
    journal.forget(among(1));
    until("a checkpoint", || disk.bytes("checkpoint").is_some());
    drop(journal);
    let after: Vec<_> = segments(&disk).into_iter().map(|name| disk.bytes(&name)).collect();
    assert_eq!(before[..before.len() - 1], after[..before.len() - 1]);
}

/// What is left of it in the first segment is of use to nobody.
#[test]
fn a_class_that_is_discarded_from_one_segment_is_forgotten_in_all() {
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    let record = |class: &str, id: &str, expected: u64| NewRecord {
        entity: EntityKey::new(class, id).expect("a name"),
        expected: Seq(expected),
        kind: Kind(0),
        payload: vec![1; 100],
    };
    // One answer among accounts, then one for each account.
    block_on(journal.append(vec![record(".answer-000", "a", 0)])).expect("durable");
    for n in 0..100 {
        let answer = (n >= 60).then(|| record(".answer-000", "a", n - 59));
        let batch = answer.into_iter().chain([record("Account", "b", n)]).collect();
        block_on(journal.append(batch)).expect("durable");
    }
    drop(journal);
    make_checkpoint(&disk);
    let journal = Embedded::open_without(disk.mount(), options(), among(1)).expect("opens");
    journal.forget(among(1));
    until("compacted segments", || compacted(&disk) > 2);
    drop(journal);
    let first = disk.bytes(FIRST).expect("there");
    assert!(!first.starts_with(COMPACTED) && String::from_utf8_lossy(&first).contains(".answer-000/a"));
    for _ in 0..2 {
        let found = verify_on(&*disk.mount()).expect("readable");
        assert_eq!((found.damages.len(), found.entity_count), (0, 1));
        let seen = shown(&disk);
        assert_eq!(seen.iter().filter(|record| record.entity.class() == "Account").count(), 100);
        let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
        assert_eq!(block_on(journal.last(&record(".answer-000", "a", 0).entity)), Ok(Seq::NONE));
        drop(journal);
        disk.lose("checkpoint");
    }
}

#[test]
fn a_segment_is_compacted_once() {
    let disk = SimDisk::new(11);
    let id = || disk.mount().look_up(FIRST).expect("there").id;
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..300);
    journal.forget(among(2));
    until("a compacted segment", || disk.bytes(FIRST).is_some_and(|bytes| bytes.starts_with(COMPACTED)));
    let before = id();
    // What can go is at the other end.
    journal.forget(among(7));
    until("the segments behind", || compacted(&disk) > segments(&disk).len() * 7 / 10);
    let first = disk.bytes(FIRST);
    append(&journal, 300..340);
    journal.forget(among(8));
    let left = || {
        segments(&disk)
            .iter()
            .rev()
            .skip(1)
            .filter(|name| String::from_utf8_lossy(&disk.bytes(name).unwrap_or_default()).contains(".answer-007/"))
            .count()
    };
    until("segments without the class", || left() == 0);
    drop(journal);
    assert_eq!((id(), disk.bytes(FIRST)), (before, first));
}

/// A clock that was ahead when the journal was opened, and was put right afterwards, costs nothing.
#[test]
fn what_a_start_has_forgotten_is_discarded_only_if_it_is_to_be_forgotten_later_too() {
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..200);
    drop(journal);
    let (all, first) = (written(200), &batch(0)[0].entity);
    let is_back = |disk: &SimDisk| {
        let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
        block_on(journal.last(first)) == Ok(Seq(1))
    };

    // It has not been open for an hour.
    let journal = Embedded::open_without(disk.mount(), Options { discard_after: HOUR, ..options() }, among(4));
    let journal = journal.expect("opens");
    for _ in 0..20_000 {
        journal.forget(among(4));
    }
    assert_eq!(block_on(journal.last(first)), Ok(Seq::NONE), "it is forgotten");
    drop(journal);
    assert_eq!((compacted(&disk), shown(&disk)), (0, all.clone()));
    assert!(is_back(&disk));

    // Of four classes that were forgotten, the last one is over.
    let is_over = |class: &str| class == ".answer-003";
    let journal = Embedded::open_without(disk.mount(), options(), among(4)).expect("opens");
    journal.forget(is_over);
    until("segments without the class", || {
        let left =
            |name: &String| String::from_utf8_lossy(&disk.bytes(name).unwrap_or_default()).contains(".answer-003/");
        !segments(&disk).iter().rev().skip(1).any(left)
    });
    drop(journal);
    assert_eq!(shown(&disk), without(&all, is_over));
    assert!(is_back(&disk));
}

#[test]
fn whatever_a_crash_leaves_of_a_compaction_nothing_but_what_is_over_is_missing() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let mut durable = 0;
        for part in 1..=4 {
            let over = part - 1;
            let journal = Embedded::open_without(disk.mount(), eager(), among(over)).expect("opens");
            let end = part * 100 - (seed as usize * 13) % 60;
            append(&journal, durable..end);
            durable = end;
            journal.forget(among(over + 1));
            // Wherever the compaction is by now.
            for _ in 0..seed * 200 {
                thread::yield_now();
            }
            if seed % 2 == 0 {
                disk.power_cut();
            } else {
                disk.kill();
            }
            drop(journal);
            let expected = without(&written(durable), among(over + 1));
            assert_eq!(without(&shown(&disk), among(over + 1)), expected, "seed {seed}, part {part}");
            let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
            assert_eq!(without(&read_all(&journal).expect("readable"), among(over + 1)), expected, "seed {seed}");
            drop(journal);
        }
    }
}

#[test]
fn every_flipped_byte_of_a_compacted_segment_is_found() {
    let disk = log(120, 2);
    let whole = disk.bytes(FIRST).expect("there");
    assert!(whole.starts_with(COMPACTED));
    for at in flipped(whole.len()) {
        let copy = disk.copy(0);
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        copy.set_bytes(FIRST, bytes);
        let damages = verify_on(&*copy.mount()).expect("readable").damages;
        assert!(damages.iter().any(|damage| damage.file == FIRST), "byte {at}: {damages:?}");
        let mut salvage = Salvage::open_on(copy.mount()).expect("readable");
        salvage.by_ref().for_each(|group| drop(group.expect("readable")));
        assert!(!salvage.diagnosis().is_sound(), "byte {at}");
        match Embedded::open_on(copy.mount(), options()) {
            Err(OpenError::Damaged(damage)) => assert_eq!(damage.file, FIRST, "byte {at}"),
            other => panic!("byte {at}: {other:?}"),
        }
    }
    for len in (0..whole.len()).step_by(7) {
        let copy = disk.copy(0);
        copy.set_bytes(FIRST, whole[..len].to_vec());
        assert!(!verify_on(&*copy.mount()).expect("readable").is_sound(), "{len} bytes");
        assert!(matches!(Embedded::open_on(copy.mount(), options()), Err(OpenError::Damaged(_))), "{len} bytes");
    }
}

#[test]
fn a_damaged_segment_is_not_compacted_and_fails_the_journal() {
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..200);
    let mut bytes = disk.bytes(FIRST).expect("there");
    // Within a record of an account, which would be kept.
    let at = bytes.windows(9).position(|part| part == b"Account/1").expect("an account");
    bytes[at + 20] ^= 1;
    disk.set_bytes(FIRST, bytes.clone());
    journal.forget(among(3));
    let why = block_on(journal.failed()).expect("a reason");
    assert!(why.contains(FIRST), "{why}");
    assert!(matches!(block_on(journal.append(batch(200))), Err(AppendError::Refused(Refusal::Poisoned { .. }))));
    drop(journal);
    assert_eq!(disk.bytes(FIRST), Some(bytes), "it is what it was");
}

#[test]
fn a_full_disk_costs_the_compaction_and_nothing_else() {
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..200);
    drop(journal);
    disk.set_capacity(disk.size() + 200);
    let journal = Embedded::open_without(disk.mount(), options(), among(4)).expect("opens");
    journal.forget(among(4));
    let full = block_on(journal.append(batch(200)));
    drop(journal);
    assert_eq!(compacted(&disk), 0);
    assert!(!disk.names().iter().any(|name| name.ends_with(".new")), "nothing is left of it");
    disk.set_capacity(u64::MAX);
    let count = if full.is_ok() { 201 } else { 200 };
    assert_eq!(shown(&disk), written(count));
    compact(&disk, 4);
    assert_eq!(shown(&disk), without(&written(count), among(4)));
}

/// With a copy of it from before, segments are there that it does not list.
#[test]
fn an_older_manifest_opens_a_log_that_was_compacted_since() {
    let disk = SimDisk::new(11);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..20);
    drop(journal);
    let manifest = disk.bytes("manifest").expect("there");
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    append(&journal, 20..200);
    drop(journal);
    compact(&disk, 4);
    disk.set_bytes("manifest", manifest);
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    append(&journal, 200..201);
    drop(journal);
    assert_eq!(shown(&disk), without(&written(201), among(4)));
}

#[test]
fn a_backup_of_a_compacted_log_is_restored_at_the_same_positions() {
    const COUNT: usize = 300;
    let disk = log(COUNT, 4);
    let groups: Vec<Group> = look_on(disk.mount()).expect("a log").collect::<Result<_, _>>().expect("sound");
    assert!(groups.iter().any(|group| group.records().is_empty()) || flat(&groups).len() < written(COUNT).len());
    let place = tempfile::tempdir().expect("a directory");
    let (file, path) = (place.path().join("bank.backup"), place.path().join("data"));
    let mut backup = BackupWriter::create(&file, 7).expect("a new file");
    groups.iter().for_each(|group| backup.push(group).expect("written"));
    assert_eq!(backup.finish().expect("durable").last, Position(written(COUNT).len() as u64));
    let read: Vec<Group> = BackupReader::open(&file).expect("a backup").collect::<Result<_, _>>().expect("sound");
    assert_eq!(read, groups);

    let mut log = LogBuilder::begin(&path, SEGMENT_BYTES).expect("a new directory");
    read.into_iter().for_each(|group| log.push(group).expect("written"));
    log.finish().expect("durable");
    assert_eq!(look(&path).expect("a log").collect::<Result<Vec<_>, _>>().expect("sound"), groups);
    // It goes on, is forgotten more of, and is compacted again, gaps and all.
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::at(&path).expect("a directory"));
    let journal = Embedded::open_without(Arc::clone(&disk), options(), among(6)).expect("opens");
    journal.forget(among(6));
    append(&journal, COUNT..COUNT + 60);
    let sealed: Vec<_> = segments_in(&path).into_iter().rev().skip(1).collect();
    let is_gone =
        |file: &PathBuf| !String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).contains(".answer-005/");
    until("segments without the class", || sealed.iter().all(is_gone));
    drop(journal);
    assert_eq!(verify_on(&*disk).expect("readable").damages, []);
    let looked: Vec<Group> = look(&path).expect("a log").collect::<Result<_, _>>().expect("sound");
    assert_eq!(without(&flat(&looked), among(6)), without(&written(COUNT + 60), among(6)));
}

fn segments_in(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("a directory").map(|entry| entry.expect("readable").path());
    let mut segments: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "log")).collect();
    segments.sort_unstable();
    segments
}

#[test]
fn looks_beside_a_compaction_are_sound() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("data");
    let journal = Embedded::open(&path, Options { mark_lag: Duration::ZERO, ..options() }).expect("a journal");
    append(&journal, 0..400);
    let expected = without(&written(400), among(9));
    let seen = || {
        let looked: Vec<Group> = look(&path).expect("a log").collect::<Result<_, _>>().expect("a sound log");
        without(&flat(&looked), among(9))
    };
    until("the mark behind the last batch", || seen() == expected);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for over in 1..=9 {
                journal.forget(among(over));
                for _ in 0..20_000 {
                    thread::yield_now();
                }
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            assert_eq!(seen(), expected);
        }
    });
}
