//! Records that the tests of journals on servers write and read.

use enact_journal::{EntityKey, Journal, Kind, NewRecord, Position, Record, Seq};
use enact_journal_kit::contract::block_on;

pub(crate) fn key(id: u64) -> EntityKey {
    EntityKey::new("Account", &id.to_string()).expect("a valid id")
}

pub(crate) fn record(id: u64, expected: u64, payload: &[u8]) -> NewRecord {
    NewRecord { entity: key(id), expected: Seq(expected), kind: Kind(7), payload: payload.to_vec() }
}

/// The records of all entities, whose positions have no gap.
pub(crate) fn read_all(journal: &impl Journal) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map_or(Position::START, |record| record.position);
        let page = block_on(journal.feed(after, usize::MAX)).expect("readable");
        if page.is_empty() {
            return records;
        }
        for record in page {
            assert_eq!(record.position.0, records.len() as u64 + 1);
            records.push(record);
        }
    }
}
