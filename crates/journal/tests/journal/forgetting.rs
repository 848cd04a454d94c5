//! A forgotten class needs no memory, and nothing else is missed. What becomes of its records in sealed segments is the compaction's.
use std::sync::Arc;

use enact_journal::disk::OsDisk;
use enact_journal::{Embedded, EntityKey, Journal, Kind, NewRecord, Options, Refusal, Seq, verify};

use crate::workload::{block_on, key, options, read_all};

const ENTITY_COUNT: usize = 60;

fn answer(number: usize) -> EntityKey {
    EntityKey::new(&format!("Answer-{}", number % 3), &format!("{number}")).expect("a valid id")
}

fn record(entity: EntityKey, expected: u64) -> NewRecord {
    NewRecord { entity, expected: Seq(expected), kind: Kind(0), payload: vec![7; 150] }
}

fn append(journal: &Embedded, first: u64) {
    for number in 0..ENTITY_COUNT {
        let account = record(key(number % 5), first + number as u64 / 5);
        block_on(journal.append(vec![account, record(answer(number), 0)])).expect("durable");
    }
}

fn is_over(class: &str) -> bool {
    matches!(class, "Answer-0" | "Answer-1")
}

fn last(journal: &Embedded, entity: &EntityKey) -> u64 {
    block_on(journal.last(entity)).expect("readable").0
}

/// Nothing of the forgotten classes is there, and everything of the others, `count` records of each account.
fn check(journal: &Embedded, count: u64, what: &str) {
    for number in 0..ENTITY_COUNT {
        let entity = answer(number);
        let is_forgotten = is_over(entity.class());
        assert_eq!(last(journal, &entity), u64::from(!is_forgotten), "{what}: {entity}");
        let records = block_on(journal.read(&entity, Seq::NONE)).expect("readable");
        assert_eq!(records.is_empty(), is_forgotten, "{what}: {entity}");
        if is_forgotten {
            let refused = block_on(journal.append(vec![record(key(0), count), record(entity.clone(), 0)]));
            assert_eq!(refused, Err(Refusal::Forgotten { entity }.into()), "{what}");
        }
    }
    for number in 0..5 {
        assert_eq!(last(journal, &key(number)), count, "{what}");
    }
}

#[test]
fn a_forgotten_class_in_a_segment_that_is_not_sealed_is_back_when_the_journal_is_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = &directory.path().join("data");
    let journal = Embedded::open(path, Options::default()).expect("a new journal");
    append(&journal, 0);
    journal.forget(is_over);
    check(&journal, 12, "running");
    assert_eq!(read_all(&journal).expect("readable").len(), 2 * ENTITY_COUNT, "the feed has them");
    block_on(journal.close()).expect("closed");
    drop(journal);
    let journal = Embedded::open(path, Options::default()).expect("opens");
    assert!((0..ENTITY_COUNT).all(|number| last(&journal, &answer(number)) == 1), "all are back");
}

#[test]
fn a_journal_opened_without_a_class_goes_on_with_the_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = &directory.path().join("data");
    let journal = Embedded::open(path, options()).expect("a new journal");
    append(&journal, 0);
    drop(journal);
    assert!(verify(path).expect("verifies").segment_count > 3, "sealed segments and one that is not");

    let journal =
        Embedded::open_without(Arc::new(OsDisk::at(path).expect("a directory")), options(), is_over).expect("opens");
    check(&journal, 12, "opened without");
    for number in 0..ENTITY_COUNT {
        let account = record(key(number % 5), 12 + number as u64 / 5);
        block_on(journal.append(vec![account])).expect("durable");
    }
    drop(journal);
    let found = verify(path).expect("verifies");
    assert!(found.damages.is_empty(), "{:?}", found.damages);
    let disk = Arc::new(OsDisk::at(path).expect("a directory"));
    let journal = Embedded::open_without(disk, options(), is_over).expect("opens");
    check(&journal, 24, "opened without, again");
}
