//! Random operations against a plain model: a list of records.

use std::collections::{BTreeMap, BTreeSet};

use enact_journal::{
    AppendError, Embedded, EntityKey, Journal, Kind, Memory, NewRecord, Position, Record, Refusal, Seq, Snapshot,
};
use enact_journal_kit::sim::SimDisk;
use proptest::prelude::*;

use crate::workload::{block_on, key};

#[derive(Clone, Debug)]
enum Operation {
    /// Records of these entities, with these errors in the expectation and payload lengths; not waited for.
    Append(Vec<(usize, i8, usize)>),
    /// Waits for all appends.
    Settle,
    SaveSnapshot(usize),
    Feed(u64, usize),
    Read(usize, u64),
    Reopen,
    Crash,
}

fn operation() -> impl Strategy<Value = Operation> {
    // One expectation in twenty is wrong.
    let error = prop_oneof![19 => Just(0_i8), 1 => -1..=1_i8];
    let record = (0..5_usize, error, 0..300_usize);
    prop_oneof![
        10 => prop::collection::vec(record, 0..4).prop_map(Operation::Append),
        2 => Just(Operation::Settle),
        2 => (0..5_usize).prop_map(Operation::SaveSnapshot),
        2 => (0..60_u64, 0..20_usize).prop_map(|(after, limit)| Operation::Feed(after, limit)),
        2 => (0..5_usize, 0..10_u64).prop_map(|(id, after)| Operation::Read(id, after)),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Crash),
    ]
}

/// What a journal is.
#[derive(Default)]
struct Model {
    records: Vec<Record>,
    last: BTreeMap<EntityKey, Seq>,
}

impl Model {
    fn last(&self, entity: &EntityKey) -> Seq {
        self.last.get(entity).copied().unwrap_or(Seq::NONE)
    }

    fn batch(&self, parts: &[(usize, i8, usize)]) -> Vec<NewRecord> {
        let mut last = self.last.clone();
        let record = |&(id, error, len): &(usize, i8, usize)| {
            let entity = key(id);
            let at = last.entry(entity.clone()).or_insert(Seq::NONE);
            let expected = Seq(at.0.saturating_add_signed(error.into()));
            *at = at.next();
            // A few of them are tombstones.
            let kind = if len >= 294 { Kind::TOMBSTONE } else { Kind((len / 2) as u8) };
            NewRecord { entity, expected, kind, payload: vec![id as u8; len] }
        };
        parts.iter().map(record).collect()
    }

    fn append(&mut self, batch: &[NewRecord]) -> Result<Position, AppendError> {
        let mut last = self.last.clone();
        let mut appended = Vec::new();
        for new in batch {
            let actual = last.get(&new.entity).copied().unwrap_or(Seq::NONE);
            let of_entity = |record: &&Record| record.entity == new.entity;
            let before = self.records.iter().chain(&appended).rfind(of_entity);
            if before.is_some_and(|before| before.kind == Kind::TOMBSTONE) {
                return Err(Refusal::Ended { entity: new.entity.clone() }.into());
            }
            if actual != new.expected {
                let (entity, expected) = (new.entity.clone(), new.expected);
                return Err(Refusal::Conflict { entity, expected, actual }.into());
            }
            last.insert(new.entity.clone(), actual.next());
            appended.push(Record {
                entity: new.entity.clone(),
                seq: actual.next(),
                position: Position((self.records.len() + appended.len() + 1) as u64),
                kind: new.kind,
                payload: new.payload.clone(),
            });
        }
        self.records.append(&mut appended);
        self.last = last;
        Ok(Position(self.records.len() as u64))
    }

    /// The records that no tombstone stands for.
    fn shown(&self) -> impl Iterator<Item = &Record> {
        let is_last = |record: &Record| self.last(&record.entity) == record.seq;
        let ended: BTreeSet<&EntityKey> =
            self.records.iter().filter(|record| record.kind == Kind::TOMBSTONE).map(|record| &record.entity).collect();
        self.records.iter().filter(move |record| !ended.contains(&record.entity) || is_last(record))
    }
}

/// A journal under test that can be closed or crashed and opened again.
trait Subject {
    type Journal: Journal;
    fn open(&mut self) -> Self::Journal;
    fn crash(&mut self, journal: Self::Journal);
}

struct OnSimDisk(SimDisk);

impl Subject for OnSimDisk {
    type Journal = Embedded;

    fn open(&mut self) -> Embedded {
        crate::workload::open(self.0.mount()).expect("the journal opens")
    }

    fn crash(&mut self, journal: Embedded) {
        self.0.power_cut();
        drop(journal);
    }
}

#[derive(Default)]
struct InMemory(Memory);

impl Subject for InMemory {
    type Journal = Memory;

    fn open(&mut self) -> Memory {
        self.0 = self.0.crash();
        self.0.clone()
    }

    fn crash(&mut self, journal: Memory) {
        self.0 = journal.crash();
    }
}

fn check<S: Subject>(mut subject: S, operations: Vec<Operation>) {
    let mut model = Model::default();
    let mut snapshots: BTreeMap<EntityKey, Snapshot> = BTreeMap::new();
    let mut journal = subject.open();
    let mut under_way = Vec::new();
    for operation in operations {
        if let Operation::Append(parts) = &operation {
            let batch = model.batch(parts);
            under_way.push((journal.append(batch.clone()), model.append(&batch)));
            continue;
        }
        for (append, expected) in under_way.drain(..) {
            assert_eq!(block_on(append), expected);
        }
        match operation {
            Operation::Append(_) | Operation::Settle => {}
            Operation::SaveSnapshot(id) => {
                let seq = model.last(&key(id));
                if seq == Seq::NONE {
                    // Before its first record a log has no identity that a snapshot could be tied to.
                    continue;
                }
                let snapshot = Snapshot { entity: key(id), seq, payload: vec![seq.0 as u8] };
                block_on(journal.save_snapshot(snapshot.clone())).expect("saved");
                snapshots.insert(key(id), snapshot);
            }
            Operation::Feed(after, limit) => {
                let behind = model.shown().filter(|record| record.position > Position(after));
                let expected: Vec<_> = behind.take(limit).cloned().collect();
                assert_eq!(block_on(journal.feed(Position(after), limit)).expect("readable"), expected);
            }
            Operation::Read(id, after) => {
                let of_entity = model.shown().filter(|record| record.entity == key(id));
                let expected: Vec<_> = of_entity.filter(|record| record.seq > Seq(after)).cloned().collect();
                assert_eq!(block_on(journal.read(&key(id), Seq(after))).expect("readable"), expected);
            }
            Operation::Reopen => {
                block_on(journal.close()).expect("closed");
                drop(journal);
                journal = subject.open();
            }
            Operation::Crash => {
                subject.crash(journal);
                journal = subject.open();
            }
        }
    }
    for (append, expected) in under_way {
        assert_eq!(block_on(append), expected);
    }
    assert_eq!(
        block_on(journal.feed(Position::START, usize::MAX)).expect("readable"),
        model.shown().cloned().collect::<Vec<_>>()
    );
    for id in 0..5 {
        assert_eq!(block_on(journal.last(&key(id))).expect("readable"), model.last(&key(id)));
        assert_eq!(block_on(journal.load_snapshot(&key(id))).expect("readable").as_ref(), snapshots.get(&key(id)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn embedded_journal_is_a_list_of_records(
        operations in prop::collection::vec(operation(), 1..80),
        seed: u64,
    ) {
        check(OnSimDisk(SimDisk::new(seed)), operations);
    }

    #[test]
    fn journal_in_memory_is_a_list_of_records(operations in prop::collection::vec(operation(), 1..80)) {
        check(InMemory::default(), operations);
    }
}
