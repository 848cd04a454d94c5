//! Snapshots can be lost, never wrong, and never take a record with them.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use enact_journal::{Embedded, Journal, Kind, Loaded, Seq, Snapshot, SnapshotError};
use enact_journal_kit::sim::{Fault, SimDisk};

use crate::workload::{batches, block_on, key, open, read_all, records};

const FILE: &str = "snapshots.redb";
const ASIDE: &str = "snapshots.redb.damaged";

fn snapshot(id: usize, seq: u64) -> Snapshot {
    Snapshot { entity: key(id), seq: Seq(seq), payload: vec![seq as u8; 50 * id] }
}

/// A closed journal with 20 batches and a snapshot of each entity.
fn journal_with_snapshots() -> SimDisk {
    let disk = SimDisk::new(3);
    let journal = open(disk.mount()).expect("a new journal");
    for batch in batches(20) {
        block_on(journal.append(batch)).expect("durable");
    }
    for id in 0..5 {
        block_on(journal.save_snapshot(snapshot(id, 2))).expect("saved");
    }
    block_on(journal.close()).expect("closed");
    disk
}

/// Loads every snapshot: right or gone; the log is whole; saving works again. How many are still there.
fn check(disk: &SimDisk, what: &str) -> usize {
    let journal = open(disk.mount()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut found_count = 0;
    for id in 0..5 {
        let found = block_on(journal.load_snapshot(&key(id))).unwrap_or_else(|error| panic!("{what}: {error}"));
        if let Some(found) = found {
            assert_eq!(found, snapshot(id, 2), "{what}");
            found_count += 1;
        }
    }
    assert_eq!(read_all(&journal).expect("readable"), records(&batches(20)), "{what}");
    block_on(journal.save_snapshot(snapshot(1, 3))).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(block_on(journal.load_snapshot(&key(1))), Ok(Some(snapshot(1, 3))), "{what}");
    found_count
}

#[test]
fn snapshots_survive_closing() {
    assert_eq!(check(&journal_with_snapshots(), "undamaged"), 5);
}

#[test]
fn lost_store_costs_the_snapshots_only() {
    let disk = journal_with_snapshots();
    disk.lose(FILE);
    assert_eq!(check(&disk, "lost"), 0);
}

#[test]
fn damaged_store_is_moved_aside_and_begun_anew() {
    let whole = journal_with_snapshots();
    let bytes = whole.bytes(FILE).expect("the store");
    let damaged = |bytes: Vec<u8>, what: &str| {
        let disk = whole.copy(0);
        disk.set_bytes(FILE, bytes);
        assert_eq!(check(&disk, what), 0, "{what}");
        assert!(disk.names().contains(&ASIDE.to_owned()), "{what}: {:?}", disk.names());
    };
    damaged(b"not a store".to_vec(), "garbage");
    damaged(vec![0xA5; bytes.len()], "more garbage");
    damaged(bytes[..bytes.len() / 2].to_vec(), "half of it");
}

/// Bits flip anywhere in the pages in use: the answer is right, or none.
#[test]
fn flipped_bit_never_makes_a_wrong_snapshot() {
    let whole = journal_with_snapshots();
    let bytes = whole.bytes(FILE).expect("the store");
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut lost_count = 0;
    for at in used.iter().step_by(used.len() / 60 + 1) {
        let disk = whole.copy(0);
        let mut flipped = bytes.clone();
        flipped[*at] ^= 1 << (at % 8);
        disk.set_bytes(FILE, flipped);
        lost_count += usize::from(check(&disk, &format!("byte {at}")) < 5);
    }
    assert!(lost_count > 0, "no flip did any harm: were they where the snapshots are?");
}

#[test]
fn power_cut_while_saving_leaves_the_old_snapshots_or_the_new() {
    for seed in 0..20 {
        let disk = journal_with_snapshots().copy(seed);
        let journal = open(disk.mount()).expect("opens");
        disk.fail_in(seed, Fault::Torn);
        let saved = block_on(journal.save_snapshot(snapshot(1, 3)));
        disk.power_cut();
        drop(journal);
        let journal = open(disk.mount()).expect("opens");
        let found = block_on(journal.load_snapshot(&key(1))).expect("readable");
        assert!(found.is_none() || found == Some(snapshot(1, 2)) || found == Some(snapshot(1, 3)), "seed {seed}");
        if saved.is_ok() {
            assert_eq!(found, Some(snapshot(1, 3)), "seed {seed}");
        }
        assert_eq!(read_all(&journal).expect("readable"), records(&batches(20)));
    }
}

/// As in a copy of the files that was made while the journal went on, the log first.
#[test]
fn snapshot_ahead_of_the_log_is_not_used() {
    let disk = journal_with_snapshots();
    let store = disk.bytes(FILE).expect("the store");
    // The same log before it had any of the records.
    let younger = SimDisk::new(3);
    let journal = open(younger.mount()).expect("a new journal");
    block_on(journal.append(batches(1).remove(0))).expect("durable");
    block_on(journal.save_snapshot(snapshot(0, 1))).expect("saved");
    drop(journal);
    younger.set_bytes(FILE, store);
    let journal = open(younger.mount()).expect("opens");
    for id in 0..5 {
        assert_eq!(block_on(journal.load_snapshot(&key(id))), Ok(None), "entity {id}");
    }
    block_on(journal.save_snapshot(snapshot(0, 1))).expect("one behind takes the place of one ahead");
    assert_eq!(block_on(journal.load_snapshot(&key(0))), Ok(Some(snapshot(0, 1))));
}

/// As above, and then the log went on with other records: the snapshot fits them in number, not in content.
#[test]
fn snapshot_of_another_history_is_not_used() {
    let disk = journal_with_snapshots();
    let younger = SimDisk::new(3);
    let journal = open(younger.mount()).expect("a new journal");
    for mut batch in batches(20) {
        // Of the same length, so that each record stands where the other one stood.
        for record in &mut batch {
            record.kind = Kind(record.kind.0 + 8);
        }
        block_on(journal.append(batch)).expect("durable");
    }
    block_on(journal.save_snapshot(snapshot(0, 1))).expect("saved");
    drop(journal);
    younger.set_bytes(FILE, disk.bytes(FILE).expect("the store"));
    let journal = open(younger.mount()).expect("opens");
    for id in 0..5 {
        assert_eq!(block_on(journal.load_snapshot(&key(id))), Ok(None), "entity {id}");
    }
}

#[test]
fn snapshots_of_another_log_are_passed_over() {
    let disk = journal_with_snapshots();
    let other = SimDisk::new(4);
    let journal = open(other.mount()).expect("a new journal");
    for batch in batches(20) {
        block_on(journal.append(batch)).expect("durable");
    }
    block_on(journal.save_snapshot(snapshot(4, 1))).expect("saved");
    drop(journal);
    other.set_bytes(FILE, disk.bytes(FILE).expect("the store"));
    assert_eq!(check(&other, "of another log"), 0);
}

/// A store that cannot be written does not hinder the log, and works again when it can.
#[test]
fn failing_store_is_unavailable_until_it_works() {
    let disk = journal_with_snapshots();
    let journal = open(disk.mount()).expect("opens");
    disk.fail_in(0, Fault::Full);
    let failed = block_on(journal.save_snapshot(snapshot(1, 3)));
    assert!(matches!(failed, Err(SnapshotError::Unavailable { .. })), "{failed:?}");
    assert!(!disk.names().contains(&ASIDE.to_owned()), "no space is no damage");
    block_on(journal.save_snapshot(snapshot(1, 3))).expect("saved");
    let next = batches(21).pop().expect("a batch");
    block_on(journal.append(next)).expect("durable");
}

/// Saves that arrive together are kept together, each answered.
#[test]
fn many_saves_at_once_are_all_kept() {
    let disk = journal_with_snapshots();
    let journal: Embedded = open(disk.mount()).expect("opens");
    let saves: Vec<_> = (0..5).flat_map(|id| [snapshot(id, 1), snapshot(id, 3), snapshot(id, 2)]).collect();
    let under_way: Vec<_> = saves.into_iter().map(|snapshot| journal.save_snapshot(snapshot)).collect();
    for save in under_way {
        block_on(save).expect("saved");
    }
    for id in 0..5 {
        assert_eq!(block_on(journal.load_snapshot(&key(id))), Ok(Some(snapshot(id, 3))));
    }
}

#[test]
fn of_an_entity_without_further_records_the_disk_is_not_asked() {
    let disk = journal_with_snapshots();
    let journal = open(disk.mount()).expect("a journal");
    let mut cx = Context::from_waker(Waker::noop());
    let (unknown, known) = (key(99), key(1));
    let last = block_on(journal.last(&known)).expect("readable");
    assert_eq!(pin!(journal.load_snapshot(&unknown)).poll(&mut cx), Poll::Ready(Ok(None)));
    assert_eq!(pin!(journal.load(&unknown)).poll(&mut cx), Poll::Ready(Ok(Loaded::default())));
    for (entity, after) in [(&unknown, Seq::NONE), (&known, last)] {
        assert_eq!(pin!(journal.read(entity, after)).poll(&mut cx), Poll::Ready(Ok(Vec::new())), "{entity}");
    }
    block_on(journal.close()).expect("closed");
    assert!(block_on(journal.load_snapshot(&unknown)).is_err());
    assert!(block_on(journal.load(&unknown)).is_err());
    assert!(block_on(journal.read(&unknown, Seq::NONE)).is_err());
}
