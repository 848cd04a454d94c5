//! A workload and what must be found of it.
use std::sync::Arc;
use std::time::Duration;

use enact_journal::disk::Disk;
use enact_journal::{Embedded, EntityKey, Group, Journal, Kind, NewRecord, OpenError, Options, Position, Record, Seq};
pub(crate) use enact_journal_kit::contract::block_on;

/// Small segments, so that a few dozen appends seal several.
pub(crate) const SEGMENT_BYTES: u32 = 4096;

/// The high-water mark moves on with sealed segments and a close only: what the disk does depends on no clock.
pub(crate) fn options() -> Options {
    let (mark_lag, discard_after) = (Duration::MAX, Duration::ZERO);
    Options { segment_bytes: SEGMENT_BYTES, mark_lag, discard_after, ..Options::default() }
}

pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<Embedded, OpenError> {
    Embedded::open_on(disk, options())
}

pub(crate) fn key(id: usize) -> EntityKey {
    EntityKey::new("Account", &format!("NL{id:02}")).expect("a valid id")
}

/// Batches that follow each other: one to three records of five entities, payloads of 0 to 199 bytes.
pub(crate) fn batches(count: usize) -> Vec<Vec<NewRecord>> {
    let mut last = [0; 5];
    let batch = |n: usize| {
        let record = |m: usize| {
            let id = (n * 7 + m * 3) % last.len();
            let expected = Seq(last[id]);
            last[id] += 1;
            let payload = vec![(n * 31 + m) as u8; (n * 97 + m * 211) % 200];
            NewRecord { entity: key(id), expected, kind: Kind(m as u8), payload }
        };
        (0..=n % 3).map(record).collect()
    };
    let mut batch = batch;
    (0..count).map(&mut batch).collect()
}

/// What the feed shows when all of `batches` are durable.
pub(crate) fn records(batches: &[Vec<NewRecord>]) -> Vec<Record> {
    let new = batches.iter().flatten().cloned();
    let record = |(position, new): (u64, NewRecord)| Record {
        entity: new.entity,
        seq: new.expected.next(),
        position: Position(position),
        kind: new.kind,
        payload: new.payload,
    };
    (1..).zip(new).map(record).collect()
}

/// Everything that the journal shows: its feed, and the same records entity by entity.
pub(crate) fn read_all(journal: &Embedded) -> Result<Vec<Record>, enact_journal::ReadError> {
    let mut feed: Vec<Record> = Vec::new();
    loop {
        let after = feed.last().map_or(Position::START, |record| record.position);
        let page = block_on(journal.feed(after, 1000))?;
        if page.is_empty() {
            break;
        }
        feed.extend(page);
    }
    for id in 0..5 {
        let of_entity: Vec<&Record> = feed.iter().filter(|record| record.entity == key(id)).collect();
        let read = block_on(journal.read(&key(id), Seq::NONE))?;
        assert!(read.iter().eq(of_entity), "the records of {} differ from those in the feed", key(id));
        assert_eq!(block_on(journal.last(&key(id)))?, Seq(read.len() as u64));
    }
    Ok(feed)
}

/// The places in a file of `len` bytes whose byte is flipped: all of its header, then every third one, or all with `ENACT_DAMAGES`.
pub(crate) fn flipped(len: usize) -> impl Iterator<Item = usize> {
    const HEADER_LEN: usize = 128;
    let is_all = std::env::var_os("ENACT_DAMAGES").is_some();
    (0..len).filter(move |at| is_all || *at < HEADER_LEN || at % 3 == 0)
}

/// How many whole batches `found` consists of; panics if it is anything but a prefix of `batches`.
pub(crate) fn whole_batches(batches: &[Vec<NewRecord>], found: &[Record]) -> usize {
    let mut end = 0;
    for (count, batch) in batches.iter().enumerate() {
        if end == found.len() {
            assert_eq!(found, &records(&batches[..count])[..]);
            return count;
        }
        end += batch.len();
    }
    assert_eq!(found, &records(batches)[..], "more or other records than were submitted");
    batches.len()
}

/// The records of `groups`, in order.
pub(crate) fn flat(groups: &[Group]) -> Vec<Record> {
    groups.iter().flat_map(Group::records).cloned().collect()
}
