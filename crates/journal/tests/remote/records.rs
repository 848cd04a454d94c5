//! Records that the tests of journals on servers write and read.

use enact_journal::{EntityKey, Group, Journal, Kind, NewRecord, Position, ReadError, Record, Seq};
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

/// Appends three batches of two, one and three records.
pub(crate) async fn append_three(writer: &impl Journal) {
    for batch in [
        vec![record(1, 0, b"a"), record(2, 0, b"b")],
        vec![record(1, 1, b"c")],
        vec![record(3, 0, b"d"), record(3, 1, b"e"), record(1, 2, b"f")],
    ] {
        writer.append(batch).await.expect("durable");
    }
}

/// The groups of a log with so many records each, of three entities, without gaps.
pub(crate) fn groups_of(lens: &[u64]) -> Vec<Group> {
    let (mut position, mut seqs) = (0_u64, [0; 3]);
    let mut next = |_| {
        let id = position % 3;
        position += 1;
        seqs[id as usize] += 1;
        let (seq, payload) = (Seq(seqs[id as usize]), position.to_le_bytes().to_vec());
        Record { entity: key(id), seq, position: Position(position), kind: Kind(7), payload }
    };
    lens.iter().map(|len| Group::of((0..*len).map(&mut next).collect())).collect()
}

/// The lengths of all groups that `groups` finds behind positions.
pub(crate) async fn lengths(groups: impl AsyncFn(Position) -> Result<Vec<Group>, ReadError>) -> Vec<usize> {
    let (mut lengths, mut last) = (Vec::new(), Position::START);
    loop {
        let found = groups(last).await.expect("readable");
        let Some(end) = found.last() else { return lengths };
        last = end.last();
        lengths.extend(found.iter().map(|group| group.records().len()));
    }
}
