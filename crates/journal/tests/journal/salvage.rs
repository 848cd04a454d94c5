//! What is left of a damaged log: every whole group behind the damage, nothing that was never written, and a count of what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use enact_journal::{
    Damage, Diagnosis, EntityKey, Finding, Flaw, Group, Harmless, Journal, NewRecord, Position, Record, Salvage, Seq,
    Snapshot, verify_on,
};
use enact_journal_kit::sim::SimDisk;

use crate::workload::{batches, block_on, flat, flipped, key, open, records};

const MANIFEST: &str = "manifest";
const SNAPSHOTS: &str = "snapshots.redb";

/// A closed journal of several segments, with a store of snapshots.
fn journal(batches: &[Vec<NewRecord>]) -> SimDisk {
    let disk = SimDisk::new(7);
    let journal = open(disk.mount()).expect("a new journal");
    for batch in batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    block_on(journal.save_snapshot(Snapshot { entity: key(0), seq: Seq(1), payload: vec![1] })).expect("saved");
    block_on(journal.close()).expect("closed");
    disk
}

fn segment(number: u32) -> String {
    format!("segment-{number:010}.log")
}

fn files(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect()
}

/// What is left on `disk` of a log that had `all`. Checks what holds of any damage.
pub(crate) fn salvaged(disk: &SimDisk, all: &[Record]) -> (BTreeSet<u64>, Diagnosis) {
    let before = files(disk);
    let mut salvage = Salvage::open_on(disk.mount()).expect("readable");
    let groups: Vec<Group> = salvage.by_ref().collect::<Result<_, _>>().expect("readable");
    let left = flat(&groups);
    let diagnosis = salvage.diagnosis().clone();
    assert_eq!(files(disk), before, "nothing is changed");
    for record in &left {
        assert_eq!(*record, all[record.position.0 as usize - 1], "a record that was never written");
    }
    let count = left.len();
    let left: BTreeSet<u64> = left.iter().map(|record| record.position.0).collect();
    assert_eq!(left.len(), count, "a record comes twice");
    let missing: BTreeSet<u64> = (1..=diagnosis.last.0).filter(|position| !left.contains(position)).collect();
    let told: Vec<u64> = diagnosis
        .findings
        .iter()
        .flat_map(|finding| match finding {
            Finding::Missing { first, last } => first.0..=last.0,
            _ => RangeInclusive::new(1, 0),
        })
        .collect();
    assert!(told.iter().eq(&missing), "{told:?} are told, {missing:?} are missing");
    assert_eq!(diagnosis.missing_count(), missing.len() as u64);
    let mut of_entities: BTreeMap<EntityKey, u64> = BTreeMap::new();
    for position in &missing {
        *of_entities.entry(all[*position as usize - 1].entity.clone()).or_default() += 1;
    }
    for (entity, count) in &diagnosis.missing {
        assert!(
            of_entities.get(entity).is_some_and(|missing| count <= missing),
            "{entity}: {count} of {of_entities:?}"
        );
    }
    assert!(missing.is_empty() || diagnosis.damages().count() > 0, "records are missing, and nothing is damaged");
    (left, diagnosis)
}

/// A name, what is done, the damages that are found as file and flaw, and the positions that are missing.
type Row = (&'static str, Change, Vec<(String, Flaw)>, Vec<u64>);

type Change = Box<dyn Fn(&SimDisk)>;

fn change(name: String, change: impl Fn(&mut Vec<u8>) + 'static) -> Change {
    Box::new(move |disk| {
        let mut bytes = disk.bytes(&name).expect("the file is there");
        change(&mut bytes);
        disk.set_bytes(&name, bytes);
    })
}

fn flip(name: String, at: usize) -> Change {
    change(name, move |bytes| bytes[at] ^= 1)
}

fn create(name: &'static str) -> Change {
    Box::new(move |disk| drop(disk.mount().create(name).expect("a new file")))
}

fn lose(names: &[String]) -> Change {
    let names = names.to_vec();
    Box::new(move |disk| names.iter().for_each(|name| disk.lose(name)))
}

#[test]
fn each_kind_of_damage_costs_the_records_that_it_touches_and_no_others() {
    let batches = batches(60);
    let all = records(&batches);
    let disk = journal(&batches);
    let firsts = first_positions(&disk);
    let [_, second, third, ..] = firsts[..] else { panic!("at least three segments: {firsts:?}") };
    let (count, end) = (firsts.len() as u32, all.len() as u64);
    let last = segment(count);
    let last_first = firsts[firsts.len() - 1];
    let group_of = |position: u64| -> Vec<u64> {
        let mut first = 1;
        for batch in &batches {
            let len = batch.len() as u64;
            if position < first + len {
                return (first..first + len).collect();
            }
            first += len;
        }
        panic!("there is no position {position}")
    };
    let first_group = group_of(second);
    let rewritten = {
        let mut other = batches.clone();
        other[1][0].payload.fill(0xFF);
        journal(&other).bytes(&segment(1)).expect("a segment")
    };
    let foreign = {
        let other = SimDisk::new(8);
        let journal = open(other.mount()).expect("a new journal");
        for batch in &batches {
            block_on(journal.append(batch.clone())).expect("durable");
        }
        drop(journal);
        other.bytes(&segment(2)).expect("a segment")
    };
    let of = |name: &str, flaw: Flaw| vec![(name.to_owned(), flaw)];
    let shortened = Flaw::Shortened { last: Position(end) };
    let rows: Vec<Row> = vec![
        ("nothing", Box::new(|_| ()), vec![], vec![]),
        ("a record", flip(segment(2), 72 + 40 + 36), of(&segment(2), Flaw::Record), first_group.clone()),
        ("a group header", flip(segment(2), 72 + 10), of(&segment(2), Flaw::GroupHeader), first_group.clone()),
        ("a segment header", flip(segment(2), 30), of(&segment(2), Flaw::SegmentHeader), vec![]),
        ("a version", flip(segment(2), 9), of(&segment(2), Flaw::Version { found: 257 }), vec![]),
        (
            "a footer",
            change(segment(2), |bytes| {
                let at = bytes.len() - 40;
                bytes[at] ^= 1;
            }),
            of(&segment(2), Flaw::Footer),
            vec![],
        ),
        ("a segment", lose(&[segment(2)]), of(&segment(2), Flaw::Missing), (second..third).collect()),
        ("the first segment", lose(&[segment(1)]), of(&segment(1), Flaw::Missing), (1..second).collect()),
        ("the last segment", lose(std::slice::from_ref(&last)), of(&last, Flaw::Missing), (last_first..=end).collect()),
        (
            "the end",
            change(last.clone(), |bytes| bytes.truncate(72)),
            of(&last, shortened),
            (last_first..=end).collect(),
        ),
        (
            "all of a segment",
            change(segment(2), Vec::clear),
            vec![(segment(2), Flaw::Short), (segment(2), Flaw::Footer)],
            (second..third).collect(),
        ),
        ("the manifest", lose(&[MANIFEST.to_owned()]), of(MANIFEST, Flaw::Missing), vec![]),
        (
            "both slots",
            change(MANIFEST.to_owned(), |bytes| bytes[..1024].fill(0)),
            of(MANIFEST, Flaw::Manifest),
            vec![],
        ),
        ("an entry", flip(MANIFEST.to_owned(), 1024 + 5), of(MANIFEST, Flaw::Manifest), vec![]),
        (
            "a segment of another history",
            change(segment(1), move |bytes| *bytes = rewritten.clone()),
            of(&segment(1), Flaw::Unlisted),
            (1..second).collect(),
        ),
        (
            "a segment of another log",
            change(segment(2), move |bytes| *bytes = foreign.clone()),
            of(&segment(2), Flaw::Foreign),
            (second..third).collect(),
        ),
    ];
    for (name, damage, damaged, missing) in rows {
        let copy = disk.copy(0);
        damage(&copy);
        let (left, diagnosis) = salvaged(&copy, &all);
        let found: Vec<(String, Flaw)> =
            diagnosis.damages().map(|damage| (damage.file.clone(), damage.flaw.clone())).collect();
        assert_eq!(found, damaged, "{name}");
        let gone: Vec<u64> = (1..=end).filter(|position| !left.contains(position)).collect();
        assert_eq!(gone, missing, "{name}");
        assert_eq!(diagnosis.last, Position(end), "{name}");
        assert_eq!(diagnosis.is_end_unknown, matches!(name, "the manifest" | "both slots"), "{name}");
        let verified = verify_on(&*copy.mount()).expect("readable");
        assert_eq!(verified.is_sound(), diagnosis.is_sound(), "{name}: {:?}", verified.damages);
        assert_eq!(verified.damages.first(), diagnosis.damages().next(), "{name}");
    }
}

/// Several copies of one directory have the same id, and may have gone different ways. What is left of the segments of
/// another one is told by the places of its records, and by the hashes of what is whole.
#[test]
fn damaged_parts_of_another_history_are_not_taken() {
    let batches = batches(60);
    let all = records(&batches);
    let disk = journal(&batches);
    let mut other = batches.clone();
    for record in other.iter_mut().flatten() {
        record.payload = vec![0xFF; record.payload.len() + 1];
    }
    let other = journal(&other).bytes(&segment(2)).expect("a segment");
    for (flipped, has_successor) in [(200, true), (30, true), (30, false)] {
        let copy = disk.copy(0);
        let mut bytes = other.clone();
        bytes[flipped] ^= 1;
        copy.set_bytes(&segment(2), bytes);
        if !has_successor {
            flip(segment(3), 30)(&copy);
        }
        let (left, diagnosis) = salvaged(&copy, &all);
        assert!(!diagnosis.is_sound() && left.len() < all.len(), "byte {flipped}");
    }
}

/// In the other history one record of the first segment stands eight bytes further on.
#[test]
fn records_that_name_another_place_of_those_before_them_are_not_taken() {
    let batches = batches(60);
    let all = records(&batches);
    let disk = journal(&batches);
    let second = first_positions(&disk)[1] as usize;
    let moved = batches.iter().scan(0, |end, batch| {
        *end += batch.len();
        Some(*end)
    });
    let last = moved.take_while(|end| *end < second).count() - 1;
    let mut other = batches.clone();
    other[last - 1][0].payload.extend([0; 8]);
    let shorter = other[last].last_mut().expect("a record");
    shorter.payload.truncate(shorter.payload.len() - 8);
    let other = journal(&other).bytes(&segment(2)).expect("a segment");
    assert_eq!(other[..32], disk.bytes(&segment(2)).expect("a segment")[..32], "the same positions");
    disk.set_bytes(&segment(2), other);
    flip(segment(2), 40)(&disk);
    flip(segment(3), 40)(&disk);
    let (_, diagnosis) = salvaged(&disk, &all);
    assert!(diagnosis.damages().any(|damage| matches!(damage.flaw, Flaw::Chain { .. })), "{diagnosis:?}");
}

/// The position at which each segment begins.
fn first_positions(disk: &SimDisk) -> Vec<u64> {
    let headers = (1..).map_while(|number| disk.bytes(&segment(number)));
    headers.map(|bytes| u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"))).collect()
}

#[test]
fn what_a_journal_opens_with_is_no_damage() {
    let batches = batches(30);
    let all = records(&batches);
    let disk = journal(&batches);
    let block = |bytes: &mut Vec<u8>| bytes[5000] ^= 1;
    let rows: [(&str, Change, Harmless); 6] = [
        (
            "slot",
            flip(MANIFEST.to_owned(), 20),
            Harmless::Slot(Damage { file: MANIFEST.into(), offset: 0, flaw: Flaw::Manifest }),
        ),
        (
            "other slot",
            flip(MANIFEST.to_owned(), 600),
            Harmless::Slot(Damage { file: MANIFEST.into(), offset: 512, flaw: Flaw::Manifest }),
        ),
        (
            "snapshots",
            change(SNAPSHOTS.to_owned(), block),
            Harmless::Snapshots(Damage { file: SNAPSHOTS.into(), offset: 4104, flaw: Flaw::Block }),
        ),
        (
            "cut",
            create("segment-0000000001.log.cut-1"),
            Harmless::Leftover { file: "segment-0000000001.log.cut-1".into() },
        ),
        ("unfinished", create("manifest.new"), Harmless::Leftover { file: "manifest.new".into() }),
        ("checkpoint", create("checkpoint.new"), Harmless::Leftover { file: "checkpoint.new".into() }),
    ];
    for (name, damage, harmless) in rows {
        let copy = disk.copy(0);
        damage(&copy);
        let (left, diagnosis) = salvaged(&copy, &all);
        assert!(diagnosis.is_sound() && left.len() == all.len(), "{name}");
        assert_eq!(diagnosis.harmless, [harmless], "{name}");
        drop(open(copy.mount()).expect("opens"));
    }
    assert_eq!(salvaged(&disk, &all).1.harmless, []);
}

/// One flip costs one group at most, in any byte of any file.
#[test]
fn every_flipped_byte_costs_one_group_at_most() {
    let batches = batches(28);
    let all = records(&batches);
    let disk = journal(&batches);
    disk.lose(SNAPSHOTS);
    for name in disk.names() {
        let bytes = disk.bytes(&name).expect("a file");
        for at in flipped(bytes.len()) {
            let copy = disk.copy(0);
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            copy.set_bytes(&name, changed);
            let (left, diagnosis) = salvaged(&copy, &all);
            assert_eq!(diagnosis.last.0, all.len() as u64, "byte {at} of {name}");
            assert!(all.len() - left.len() <= 3, "byte {at} of {name} costs {} records", all.len() - left.len());
            let is_slot = name == MANIFEST && at < 1024;
            assert_eq!(diagnosis.is_sound(), is_slot, "byte {at} of {name}");
            assert_eq!(diagnosis.harmless.len(), usize::from(is_slot), "byte {at} of {name}");
        }
    }
}

/// A footer, and records behind the hole, tell of which entities the missing records are.
#[test]
fn the_entities_of_missing_records_are_told() {
    let batches = batches(60);
    let all = records(&batches);
    let disk = journal(&batches);
    for position in [4, 40] {
        let copy = disk.copy(0);
        let record = &all[position];
        let (file, at) = find(&disk, record);
        flip(file, at)(&copy);
        let (left, diagnosis) = salvaged(&copy, &all);
        let mut expected: BTreeMap<EntityKey, u64> = BTreeMap::new();
        for lost in all.iter().filter(|record| !left.contains(&record.position.0)) {
            *expected.entry(lost.entity.clone()).or_default() += 1;
        }
        assert!(!expected.is_empty());
        assert_eq!(diagnosis.missing, expected, "record {position}");
    }
}

/// The file and the place of a byte of the key of `record`.
fn find(disk: &SimDisk, record: &Record) -> (String, usize) {
    let mut wanted = record.position.0.to_le_bytes().to_vec();
    wanted.extend(record.seq.0.to_le_bytes());
    for name in disk.names().into_iter().filter(|name| name.starts_with("segment")) {
        let bytes = disk.bytes(&name).expect("a segment");
        if let Some(at) = bytes.windows(wanted.len()).position(|window| window == wanted) {
            return (name, at + 28);
        }
    }
    panic!("{record:?} is in no segment")
}

#[test]
fn torn_end_is_no_damage_unless_the_mark_is_behind_it() {
    let batches = batches(15);
    let all = records(&batches);
    let killed = SimDisk::new(7);
    let journal = open(killed.mount()).expect("a new journal");
    for batch in &batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    killed.kill();
    drop(journal);
    let name = killed.names().into_iter().filter(|name| name.starts_with("segment")).max().expect("a segment");
    let bytes = killed.bytes(&name).expect("a segment");
    for len in 72..bytes.len() {
        let copy = killed.copy(0);
        copy.set_bytes(&name, bytes[..len].to_vec());
        let (left, diagnosis) = salvaged(&copy, &all);
        let verified = verify_on(&*copy.mount()).expect("readable");
        assert!(diagnosis.is_sound() && verified.is_sound(), "cut to {len}");
        assert_eq!((diagnosis.torn_bytes, diagnosis.last), (verified.torn_bytes, verified.last), "cut to {len}");
        assert_eq!(left.len() as u64, verified.last.0, "cut to {len}");
    }
}

#[test]
fn a_journal_in_use_is_left_alone() {
    let disk = SimDisk::new(7);
    let journal = open(disk.mount()).expect("a new journal");
    assert!(matches!(Salvage::open_on(disk.mount()), Err(enact_journal::OpenError::InUse { .. })));
    block_on(journal.close()).expect("closed");
    drop(journal);
    drop(Salvage::open_on(disk.mount()).expect("nobody has it"));
}
