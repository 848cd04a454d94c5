//! Tombstones: what they stand for is not read, takes no space in sealed segments after a while, and is never missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{iter, thread};

use enact_journal::{
    BackupReader, BackupWriter, BuildError, Damage, Embedded, EntityKey, Flaw, Group, Journal, Kind, LogBuilder,
    Memory, NewRecord, OpenError, Options, Position, Record, Refusal, Salvage, Seq, Snapshot, adopt_on, look, look_on,
    verify_on,
};
use enact_journal_kit::sim::SimDisk;

use crate::checkpoints::{eager, make_checkpoint, until};
use crate::compaction::{COMPACTED, compacted, segments};
use crate::group_commit::GatedDisk;
use crate::workload::{SEGMENT_BYTES, block_on, flat, flipped, options};

const FIRST: &str = "segment-0000000001.log";
/// How many batches later a sale goes on, how often it does, and how many batches after its beginning its tombstone comes.
const STRIDE: usize = 15;
const STEPS: usize = 4;
const BURIED: usize = 80;

fn sale(n: usize) -> EntityKey {
    EntityKey::new("Sale", &n.to_string()).expect("a name")
}

fn record(entity: EntityKey, expected: usize, kind: Kind, payload: Vec<u8>) -> NewRecord {
    NewRecord { entity, expected: Seq(expected as u64), kind, payload }
}

/// Batch `n`: a step of a few sales, the tombstone of one, and a change of an account that goes on for ever.
fn batch(n: usize) -> Vec<NewRecord> {
    let account = EntityKey::new("Account", "b").expect("a name");
    let steps = (0..STEPS).filter_map(|step| Some((n.checked_sub(step * STRIDE)?, step)));
    let steps = steps.map(|(of, step)| record(sale(of), step, Kind(1), vec![of as u8; 60 + (n + step) % 23]));
    let ended = n.checked_sub(BURIED).map(|of| record(sale(of), STEPS, Kind::TOMBSTONE, vec![of as u8; 20]));
    iter::once(record(account, n, Kind(1), vec![n as u8; 30])).chain(steps).chain(ended).collect()
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

/// What is left of `records` without those that a tombstone among them stands for.
fn last_words(records: &[Record]) -> Vec<Record> {
    let buried = |record: &Record| {
        let stands_for = |other: &Record| other.kind == Kind::TOMBSTONE && other.entity == record.entity;
        record.kind != Kind::TOMBSTONE && records.iter().any(stands_for)
    };
    records.iter().filter(|record| !buried(record)).cloned().collect()
}

fn append(journal: &Embedded, batches: std::ops::Range<usize>) {
    for n in batches {
        block_on(journal.append(batch(n))).expect("durable");
    }
}

fn fed(journal: &Embedded) -> Vec<Record> {
    let mut feed: Vec<Record> = Vec::new();
    loop {
        let after = feed.last().map_or(Position::START, |record| record.position);
        let page = block_on(journal.feed(after, 100)).expect("readable");
        if page.is_empty() {
            return feed;
        }
        feed.extend(page);
    }
}

/// Lets the journal look for what can go until at least `count` segments are compacted.
fn discard(journal: &Embedded, disk: &SimDisk, count: usize) {
    until("compacted segments", || {
        journal.forget(|_| false);
        compacted(disk) >= count
    });
}

/// A closed log of `count` batches of which most sealed segments are compacted.
fn log(count: usize) -> SimDisk {
    let disk = SimDisk::new(5);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..count);
    discard(&journal, &disk, segments(&disk).len() / 2);
    drop(journal);
    disk
}

/// A closed log of 200 batches of which most sealed segments are compacted, and the manifest that it had when there were 20.
fn log_with_early_manifest() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::new(5);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..20);
    drop(journal);
    let manifest = disk.bytes("manifest").expect("there");
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    append(&journal, 20..200);
    discard(&journal, &disk, segments(&disk).len() * 7 / 10);
    drop(journal);
    (disk, manifest)
}

/// What the log on `disk` shows to a look, which is what a salvage finds; the log is sound.
fn shown(disk: &SimDisk) -> Vec<Group> {
    let found = verify_on(&*disk.mount()).expect("readable");
    assert_eq!(found.damages, []);
    let looked: Vec<Group> = look_on(disk.mount()).expect("a log").collect::<Result<_, _>>().expect("sound");
    let mut salvage = Salvage::open_on(disk.mount()).expect("readable");
    let salvaged: Vec<Group> = salvage.by_ref().collect::<Result<_, _>>().expect("readable");
    assert!(salvage.diagnosis().is_sound(), "{:?}", salvage.diagnosis());
    assert_eq!((looked.len(), &looked), (salvaged.len(), &salvaged));
    assert_eq!(looked.last().map(Group::last), Some(found.last));
    looked
}

#[test]
fn a_tombstone_is_read_instead_of_what_it_stands_for_which_takes_no_space() {
    const COUNT: usize = 200;
    let disk = SimDisk::new(5);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..COUNT);
    let (all, before) = (written(COUNT), disk.size());
    let expected = last_words(&all);
    let check = |journal: &Embedded| {
        assert_eq!(fed(journal), expected);
        for n in [0, 1, COUNT - BURIED - 1] {
            let tombstone = all.iter().find(|record| record.entity == sale(n) && record.kind == Kind::TOMBSTONE);
            assert_eq!(
                block_on(journal.read(&sale(n), Seq::NONE)).expect("readable"),
                [tombstone.expect("one").clone()]
            );
            assert_eq!(block_on(journal.read(&sale(n), Seq(2))).expect("readable").len(), 1);
            assert_eq!(block_on(journal.read(&sale(n), Seq(STEPS as u64 + 1))), Ok(Vec::new()));
            assert_eq!(block_on(journal.last(&sale(n))), Ok(Seq(STEPS as u64 + 1)));
            let more = record(sale(n), STEPS + 1, Kind(1), vec![]);
            let refused = Refusal::Ended { entity: sale(n) };
            assert_eq!(block_on(journal.append(vec![more])), Err(refused.into()));
        }
        let open = block_on(journal.read(&sale(COUNT - BURIED), Seq::NONE)).expect("readable");
        assert_eq!(open.len(), STEPS);
    };
    check(&journal);
    discard(&journal, &disk, segments(&disk).len() * 7 / 10);
    check(&journal);
    drop(journal);
    assert!(disk.size() * 10 < before * 7, "{} of {before} bytes", disk.size());

    let looked = flat(&shown(&disk));
    assert!(looked.len() < all.len() && looked.iter().all(|record| all.contains(record)));
    assert_eq!(last_words(&looked), expected);
    for _ in 0..2 {
        let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
        check(&journal);
        drop(journal);
        make_checkpoint(&disk);
        assert_eq!(flat(&shown(&disk)), looked);
    }
}

#[test]
fn nothing_is_discarded_before_its_tombstone_was_there_for_a_while() {
    let disk = SimDisk::new(5);
    let slow = Options { discard_after: Duration::from_secs(60 * 60), ..options() };
    let journal = Embedded::open_on(disk.mount(), slow).expect("a new journal");
    append(&journal, 0..200);
    for _ in 0..20_000 {
        journal.forget(|_| false);
    }
    drop(journal);
    assert_eq!((compacted(&disk), flat(&shown(&disk))), (0, written(200)));

    // The tombstones that were there when they were counted before.
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    append(&journal, 200..300);
    journal.forget(|_| false);
    until("compacted segments", || compacted(&disk) > segments(&disk).len() / 3);
    drop(journal);
    let left = flat(&shown(&disk));
    for n in 200 - BURIED..300 - BURIED {
        let records = left.iter().filter(|record| record.entity == sale(n)).count();
        assert_eq!(records, STEPS + 1, "the tombstone of {n} came after the count");
    }
}

#[test]
fn what_comes_behind_a_tombstone_is_refused_also_while_that_is_under_way() {
    let tombstone = || record(sale(0), 0, Kind::TOMBSTONE, vec![]);
    let late = || record(sale(0), 1, Kind(1), vec![]);
    let ended = || Err(Refusal::Ended { entity: sale(0) }.into());

    let disk = SimDisk::new(5);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    assert_eq!(block_on(journal.append(vec![tombstone(), late()])), ended());
    let (first, second) = (journal.append(vec![tombstone()]), journal.append(vec![late()]));
    assert_eq!((block_on(first), block_on(second)), (Ok(Position(1)), ended()));

    let journal = Memory::new();
    assert_eq!(block_on(journal.append(vec![tombstone(), late()])), ended());
    journal.hold();
    let (first, second) = (journal.append(vec![tombstone()]), journal.append(vec![late()]));
    assert_eq!(block_on(second), ended());
    journal.fail_next(enact_journal::Fault::Refused);
    journal.release();
    assert!(block_on(first).is_err());
    let other = record(sale(0), 0, Kind(1), vec![]);
    assert_eq!(block_on(journal.append(vec![other])), Ok(Position(1)), "there is no tombstone");
}

#[test]
fn a_snapshot_from_before_a_tombstone_is_of_no_use_and_does_no_harm() {
    let disk = SimDisk::new(5);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..STEPS * STRIDE);
    let snapshot = |seq| Snapshot { entity: sale(0), seq: Seq(seq), payload: vec![9] };
    block_on(journal.save_snapshot(snapshot(3))).expect("kept");
    append(&journal, STEPS * STRIDE..200);
    let check = |journal: &Embedded| {
        let loaded = block_on(journal.load(&sale(0))).expect("readable");
        assert_eq!(loaded.records.last().map(|record| record.kind), Some(Kind::TOMBSTONE));
        assert_eq!(loaded.last(), Seq(STEPS as u64 + 1));
    };
    check(&journal);
    discard(&journal, &disk, segments(&disk).len() / 2);
    check(&journal);
    assert!(block_on(journal.save_snapshot(snapshot(4))).is_ok());
    check(&journal);
}

#[test]
fn a_segment_is_compacted_again_only_when_there_are_more_tombstones() {
    let disk = log(150);
    let mut names = segments(&disk);
    names.retain(|name| disk.bytes(name).is_some_and(|bytes| bytes.starts_with(COMPACTED)));
    let ids = || names.iter().map(|name| disk.mount().look_up(name).expect("there").id).collect::<Vec<_>>();
    let before = ids();
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    for _ in 0..100 {
        journal.forget(|_| false);
        thread::yield_now();
    }
    append(&journal, 150..151);
    drop(journal);
    assert!(before.len() > 5 && ids() == before);
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    append(&journal, 151..260);
    until("more compacted segments", || {
        journal.forget(|_| false);
        ids() != before
    });
    drop(journal);
    assert_eq!(last_words(&flat(&shown(&disk))), last_words(&written(260)));
}

#[test]
fn tombstones_that_come_while_a_segment_is_compacted_are_taken_up_after_it() {
    let disk = SimDisk::new(5);
    let (gated, _, reads) = GatedDisk::on(disk.mount());
    let journal = Embedded::open_on(Arc::new(gated), options()).expect("a new journal");
    // The first call counts the tombstones, the second tells of them.
    let discard = || (0..2).for_each(|_| journal.forget(|_| false));
    append(&journal, 0..200);
    reads.set_closed(true);
    discard();
    reads.wait_for_waiting();
    append(&journal, 200..300);
    discard();
    reads.set_closed(false);
    let most = segments(&disk).len() * 2 / 3;
    until("compacted segments", || compacted(&disk) >= most);
    drop(journal);
    assert_eq!(last_words(&flat(&shown(&disk))), last_words(&written(300)));
}

#[test]
fn whatever_a_crash_leaves_every_tombstone_and_what_has_none_is_there() {
    for seed in 0..12 {
        let disk = SimDisk::new(seed);
        let mut durable = 0;
        for part in 1..=4 {
            let journal = Embedded::open_on(disk.mount(), eager()).expect("opens");
            let end = part * 90 - (seed as usize * 13) % 60;
            append(&journal, durable..end);
            durable = end;
            // Wherever the compaction is by now.
            for _ in 0..seed * 20 {
                journal.forget(|_| false);
                thread::yield_now();
            }
            if seed % 2 == 0 {
                disk.power_cut();
            } else {
                disk.kill();
            }
            drop(journal);
            let expected = last_words(&written(durable));
            assert_eq!(last_words(&flat(&shown(&disk))), expected, "seed {seed}, part {part}");
            let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
            assert_eq!(fed(&journal), expected, "seed {seed}, part {part}");
        }
    }
}

#[test]
fn every_flipped_byte_of_a_segment_without_what_tombstones_stand_for_is_found() {
    let disk = log(130);
    let whole = disk.bytes(FIRST).expect("there");
    assert!(whole.starts_with(COMPACTED));
    for at in flipped(whole.len()) {
        let copy = disk.copy(0);
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        copy.set_bytes(FIRST, bytes);
        assert!(!verify_on(&*copy.mount()).expect("readable").is_sound(), "byte {at}");
        let mut salvage = Salvage::open_on(copy.mount()).expect("readable");
        salvage.by_ref().for_each(|group| drop(group.expect("readable")));
        assert!(!salvage.diagnosis().is_sound(), "byte {at}");
        assert!(matches!(Embedded::open_on(copy.mount(), options()), Err(OpenError::Damaged(_))), "byte {at}");
    }
}

/// With a copy of it from before, segments are there that it does not list.
#[test]
fn an_older_manifest_opens_a_log_without_what_tombstones_stand_for() {
    let (disk, manifest) = log_with_early_manifest();
    disk.set_bytes("manifest", manifest);
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    append(&journal, 200..201);
    drop(journal);
    assert_eq!(last_words(&flat(&shown(&disk))), last_words(&written(201)));
}

#[test]
fn a_salvage_of_a_damaged_log_says_what_is_missing_and_not_what_was_discarded() {
    let disk = log(200);
    // A record of the account within the last segment but one.
    let names = segments(&disk);
    let name = &names[names.len() - 2];
    let mut bytes = disk.bytes(name).expect("there");
    let at = bytes.windows(9).position(|part| part == b"Account/b").expect("the account");
    bytes[at + 12] ^= 1;
    disk.set_bytes(name, bytes);
    let mut salvage = Salvage::open_on(disk.mount()).expect("readable");
    let groups: Vec<Group> = salvage.by_ref().collect::<Result<_, _>>().expect("readable");
    assert!(groups.len() > 150);
    let diagnosis = salvage.diagnosis();
    let lost = diagnosis.missing_count();
    assert!((1..20).contains(&lost), "{diagnosis:?}");
    assert_eq!(diagnosis.missing.values().sum::<u64>(), lost, "{diagnosis:?}");
}

#[test]
fn a_backup_of_a_log_with_tombstones_is_restored_as_a_whole_and_goes_on() {
    const COUNT: usize = 200;
    let groups = shown(&log(COUNT));
    let place = tempfile::tempdir().expect("a directory");
    let (file, path) = (place.path().join("bank.backup"), place.path().join("data"));
    let mut backup = BackupWriter::create(&file, 7).expect("a new file");
    groups.iter().for_each(|group| backup.push(group).expect("written"));
    backup.finish().expect("durable");
    let read: Vec<Group> = BackupReader::open(&file).expect("a backup").collect::<Result<_, _>>().expect("sound");
    assert_eq!(read, groups);

    let mut log = LogBuilder::begin(&path, SEGMENT_BYTES).expect("a new directory");
    read.into_iter().for_each(|group| log.push(group).expect("written"));
    log.finish().expect("durable");
    assert_eq!(look(&path).expect("a log").collect::<Result<Vec<_>, _>>().expect("sound"), groups);
    let expected = |count| last_words(&written(count));
    for _ in 0..2 {
        let journal = Embedded::open(&path, eager()).expect("opens");
        assert_eq!(fed(&journal), expected(COUNT));
    }
    // More of it goes.
    let journal = Embedded::open(&path, options()).expect("opens");
    append(&journal, COUNT..COUNT + 60);
    for _ in 0..1000 {
        journal.forget(|_| false);
        thread::yield_now();
    }
    assert_eq!(fed(&journal), expected(COUNT + 60));
    drop(journal);
    let disk = enact_journal::disk::OsDisk::at(&path).expect("a directory");
    assert_eq!(verify_on(&disk).expect("readable").damages, []);
}

/// The groups of `count` batches, without the first two records of the sale `n`.
fn groups_without(n: usize, count: usize) -> Vec<Group> {
    let mut records = written(count).into_iter();
    let group = |batch: Vec<NewRecord>| {
        let mut records: Vec<Record> = records.by_ref().take(batch.len()).collect();
        let (first, last) = (records[0].position, records[records.len() - 1].position);
        records.retain(|record| record.entity != sale(n) || record.seq > Seq(2));
        Group::new(first, last, records)
    };
    (0..count).map(batch).map(group).collect()
}

#[test]
fn a_log_is_not_built_without_the_tombstones_of_what_it_lacks() {
    let groups = groups_without(10, 120);
    let (over, buried) = (10 + STRIDE * (STEPS - 1), 10 + BURIED);
    let place = tempfile::tempdir().expect("a directory");
    let begin = |name: &str| {
        let mut log = LogBuilder::begin(&place.path().join(name), SEGMENT_BYTES).expect("a new directory");
        groups[..=over].iter().for_each(|group| log.push(group.clone()).expect("written"));
        log
    };
    let incomplete = begin("without").finish();
    assert!(matches!(incomplete, Err(BuildError::Incomplete { entity }) if entity == sale(10)));
    assert!(!place.path().join("without").exists());

    let is_tombstone = |record: &&Record| record.kind == Kind::TOMBSTONE;
    let tombstone = groups[buried].records().iter().find(is_tombstone).expect("it is there");
    let mut log = begin("with");
    assert!(!log.has_gaps(), "what is missing is known to be of the sale");
    log.bury(tombstone.clone()).expect("written");
    assert_eq!(log.finish().expect("durable"), groups[over].last().next());
    let journal = Embedded::open(&place.path().join("with"), options()).expect("opens");
    let read = block_on(journal.read(&sale(10), Seq::NONE)).expect("readable");
    assert_eq!((read.len(), &read[0].payload, read[0].seq), (1, &tombstone.payload, Seq(5)));
    assert_eq!(block_on(journal.read(&sale(11), Seq::NONE)).expect("readable").len(), 3);

    // It is complete without the others, and the first records of no sale are left out.
    let mut early = LogBuilder::begin(&place.path().join("early"), SEGMENT_BYTES).expect("a new directory");
    groups[..=10 + STRIDE].iter().for_each(|group| early.push(group.clone()).expect("written"));
    assert!(early.has_gaps(), "two records are missing, and nobody knows of which sale");
    let no_tombstone = groups[0].records()[0].clone();
    assert!(matches!(begin("wrong").bury(no_tombstone), Err(BuildError::Record { .. })));
}

#[test]
fn looks_beside_a_compaction_show_every_tombstone_or_what_it_stands_for() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("data");
    let journal = Embedded::open(&path, Options { mark_lag: Duration::ZERO, ..options() }).expect("a journal");
    append(&journal, 0..300);
    let expected = last_words(&written(300));
    let seen = || {
        let looked: Vec<Group> = look(&path).expect("a log").collect::<Result<_, _>>().expect("a sound log");
        last_words(&flat(&looked))
    };
    until("the mark behind the last batch", || seen() == expected);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                journal.forget(|_| false);
                thread::yield_now();
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            assert_eq!(seen(), expected);
        }
    });
}

/// A backup that takes an hour, for example.
#[test]
fn a_look_that_ends_before_a_tombstone_and_lacks_what_it_stands_for_says_so() {
    let disk = SimDisk::new(5);
    // The high-water mark is where the last segment begins, and the last tombstones are behind it.
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, 0..200);
    discard(&journal, &disk, segments(&disk).len() * 7 / 10);
    let ended = look_on(disk.mount()).expect("a log").find_map(Result::err).expect("it is not whole");
    let OpenError::Damaged(Damage { flaw: Flaw::Discarded { entity }, .. }) = ended else { panic!("{ended}") };
    assert_eq!(entity.class(), "Sale");
    drop(journal);
    assert_eq!(last_words(&flat(&shown(&disk))), last_words(&written(200)));
}

#[test]
fn a_log_that_has_lost_its_last_tombstones_is_neither_sound_nor_opened() {
    let (disk, manifest) = log_with_early_manifest();
    for name in segments(&disk).iter().rev().take(2) {
        disk.lose(name);
    }
    let is_discarded = |damage: &Damage| matches!(&damage.flaw, Flaw::Discarded { entity } if entity.class() == "Sale");
    disk.set_bytes("manifest", manifest);
    match Embedded::open_on(disk.mount(), options()) {
        Err(OpenError::Damaged(damage)) => assert!(is_discarded(&damage), "{damage}"),
        other => panic!("{other:?}"),
    }
    disk.lose("manifest");
    let found = adopt_on(&*disk.mount()).expect("readable");
    assert!(found.damages.iter().all(is_discarded) && found.damages.len() == 1, "{:?}", found.damages);
    assert!(disk.bytes("manifest").is_none(), "it is not taken as it is");
}
