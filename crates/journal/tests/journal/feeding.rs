//! What a feed shows that is read while records are written.

use std::sync::Arc;
use std::thread;

use enact_journal::{Embedded, Journal, Kind, NewRecord, Options, Position, Record, Seq};

use crate::workload::{block_on, key};

const RECORDS: u64 = 2000;

/// A feed reads ahead of what is durable, into what is written meanwhile, and goes on when that is durable.
#[test]
fn a_feed_beside_the_writer_shows_each_record_once_as_it_was_written() {
    let place = tempfile::tempdir().expect("a directory");
    let journal = Arc::new(Embedded::open(&place.path().join("data"), Options::default()).expect("a new journal"));
    let record = |number: u64| {
        let payload = number.to_le_bytes().repeat(1 + number as usize % 5);
        NewRecord { entity: key(number as usize % 3), expected: Seq(number / 3), kind: Kind(0), payload }
    };
    let writer = {
        let journal = Arc::clone(&journal);
        thread::spawn(move || (0..RECORDS).for_each(|number| drop(block_on(journal.append(vec![record(number)])))))
    };
    let mut seen: Vec<Record> = Vec::new();
    while seen.len() < RECORDS as usize {
        let after = Position(seen.len() as u64);
        seen.extend(block_on(journal.feed(after, usize::MAX)).expect("nothing is damaged"));
    }
    writer.join().expect("it ends");
    for (number, seen) in (0..).zip(seen) {
        let NewRecord { entity, expected, payload, .. } = record(number);
        assert_eq!((seen.position, seen.entity, seen.seq), (Position(number + 1), entity, expected.next()));
        assert_eq!(seen.payload, payload);
    }
}
