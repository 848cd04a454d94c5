//! What of a backup of all shards was there at a time.
//!
//! Of each shard, it is at most what stands before the first group with a transaction that is later, as when
//! [one journal](super::super::restore) is restored. These parts need not belong together, so they are [cut](Cuts) where they do: a
//! transaction over shards that lacks one of its parts is left out with whatever relies on it.
//!
//! A specification has no time, and a shard without transactions tells nothing of when it adopted one. But no shard adopts the next one before all
//! have ended with the present one. So where some shard still has a transaction of a later time under the present one, none had adopted the next.

use std::path::Path;

use enact_entities::Cuts;
use enact_journal::{BackupReader, Position, Seq};
use enact_rebel::Timestamp;

use super::agreement::steps;
use super::manifest::{Manifest, file_of};
use crate::contract;
use crate::failure::Failure;
use crate::journal::tally::{Times, shown};

/// The parts of all shards that were there at a time.
pub(super) struct Then {
    pub(super) time: Timestamp,
    /// Up to where, in the order of the shards.
    pub(super) cuts: Vec<Position>,
    /// What tells the contract of the nodes from others, if there was one.
    pub(super) contract: Option<String>,
}

/// A specification that a shard has adopted.
struct Adopted {
    shard: usize,
    position: Position,
    /// The end of what stands before its group.
    before: Position,
    seq: Seq,
    contract: String,
}

impl Then {
    /// Finds out what of the backup in `directory`, which is right, was there at `time`.
    pub(super) fn find(directory: &Path, manifest: &Manifest, time: Timestamp) -> Result<Self, Failure> {
        let of_backup = |source| Failure::Contract { place: directory.display().to_string(), source };
        let groups = |shard: u16| BackupReader::open(&file_of(directory, shard));
        let (mut ends, mut adopted): (Vec<Position>, Vec<Adopted>) = (Vec::new(), Vec::new());
        // The last one that each shard had adopted which has something later.
        let mut in_force = None;
        for shard in 0..manifest.count() {
            let mut end = Position::START;
            for group in groups(shard)? {
                let group = group?;
                if Times::of(&group)?.is_some_and(|times| shown(times.latest) > time) {
                    let of_shard = |adopted: &&Adopted| adopted.shard == usize::from(shard);
                    let last = adopted.iter().rfind(of_shard).map(|adopted| adopted.seq);
                    in_force = in_force.into_iter().chain(last).min();
                    break;
                }
                let before = end;
                end = group.last();
                for record in group.records() {
                    let contract = contract::digest_in(record).map_err(of_backup)?;
                    let (shard, position, seq) = (usize::from(shard), record.position, record.seq);
                    adopted.extend(contract.map(|contract| Adopted { shard, position, before, seq, contract }));
                }
            }
            ends.push(end);
        }
        for later in adopted.iter().filter(|adopted| in_force.is_some_and(|last| adopted.seq > last)) {
            ends[later.shard] = later.before.min(ends[later.shard]);
        }
        let mut cuts = Cuts::new(ends);
        for shard in 0..manifest.count() {
            for group in groups(shard)? {
                let group = group?;
                for step in steps(&group) {
                    let (stored, record) = step?;
                    cuts.add(shard, group.first(), &stored.entity, &record);
                }
            }
        }
        let cuts = cuts.cut();
        // Where some shards had adopted a later one, nodes with that go on with the others.
        let there = adopted.into_iter().filter(|adopted| adopted.position <= cuts[adopted.shard]);
        let contract = there.max_by_key(|adopted| adopted.seq).map(|adopted| adopted.contract);
        Ok(Self { time, cuts, contract })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use enact_entities::{
        Answer, AnswerRecord, Attempt, Branch, Decision, DecisionRecord, Done, Durability, Prepared, Record, Slot,
        Timestamp as Time, TxId, Work,
    };
    use enact_journal::{BackupWriter, EntityKey, Group, Kind, Record as Stored};
    use enact_rebel::{EventCall, Source};

    use super::*;
    use crate::journal::cluster::manifest::Shard;
    use crate::spec;

    type Said = Record<EventCall>;

    fn entity(name: &str) -> EntityKey {
        name.parse().expect("a name")
    }

    fn committed(at: i64) -> (EntityKey, u8, Vec<u8>) {
        let (tx, slot, events) = (TxId::from_u128(7), Slot(1), Vec::new());
        said("Purse/p0", &Record::Committed { tx, slot, events, at: Time(at), version: 1, overlap: None })
    }

    fn said(of: &str, record: &Said) -> (EntityKey, u8, Vec<u8>) {
        (entity(of), record.kind(), record.encode())
    }

    fn adopted(text: &str) -> (EntityKey, u8, Vec<u8>) {
        (contract::key(), contract::KIND.0, contract::encode(&[Source::new("purse.rebel", text)], 1))
    }

    /// A backup of one shard, each record a group of its own.
    fn write(directory: &Path, shard: u16, records: Vec<(EntityKey, u8, Vec<u8>)>) -> Shard {
        let mut backup = BackupWriter::create(&file_of(directory, shard), 0).expect("a new file");
        let mut last: HashMap<EntityKey, Seq> = HashMap::new();
        for (position, (entity, kind, payload)) in (1..).map(Position).zip(records) {
            let seq = last.get(&entity).copied().unwrap_or(Seq::NONE).next();
            last.insert(entity.clone(), seq);
            let record = Stored { entity, seq, position, kind: Kind(kind), payload };
            backup.push(&Group::new(position, position, vec![record])).expect("written");
        }
        Shard::of(backup.finish().expect("written"))
    }

    /// The decision on a transaction stands behind one that is later, and its commit in another shard behind none.
    #[test]
    fn the_parts_that_were_there_at_a_time_have_no_transaction_in_part_and_the_contract_of_then() {
        const TX: TxId = TxId::from_u128(1);
        let (at, participant) = (Time(2000), ("Purse/p1", Slot(1)));
        let decision = Record::Decision(Box::new(DecisionRecord {
            tx: TX,
            attempt: Attempt::FIRST,
            participants: vec![(entity(participant.0), participant.1)],
            answer: AnswerRecord { tx: TX, at, idempotency: None, result: Ok(Done::default()) },
        }));
        let promise = Record::Prepared(Box::new(Prepared {
            branch: Branch { tx: TX, attempt: Attempt::FIRST, work: Work::of_events(Vec::new()), at },
            slot: participant.1,
            coordinator: entity(".coordinator/0"),
            answer: Answer { calls: Vec::new(), answers: Vec::new(), state: None, in_line: false },
            version: 1,
            durability: Durability::TwoPhase,
            overlap: None,
        }));
        let outcome = Record::Outcome { tx: TX, slot: participant.1, decision: Decision::Commit };
        let directory = tempfile::tempdir().expect("a directory");
        let (path, decisions) = (directory.path(), ".transaction/1");
        let first = vec![
            adopted("first"),
            committed(1000),
            committed(5000),
            said(decisions, &decision),
            said(decisions, &Record::End { tx: TX }),
        ];
        let second = vec![
            adopted("first"),
            said(participant.0, &promise),
            said(participant.0, &outcome),
            adopted("second"),
            committed(6000),
        ];
        // Nobody has ever asked for anything here.
        let third = vec![adopted("first"), adopted("second")];
        let shards = vec![write(path, 0, first), write(path, 1, second), write(path, 2, third)];
        let manifest = Manifest::new(String::new(), String::new(), shards);
        let digest = |text: &str| spec::digest(&[Source::new("purse.rebel", text)]);
        for (time, cuts, contract) in [
            (500, [1, 1, 1], "first"),
            (1500, [2, 1, 1], "first"),
            (3000, [2, 2, 1], "first"),
            (5000, [5, 4, 2], "second"),
            (6000, [5, 5, 2], "second"),
        ] {
            let then = Then::find(path, &manifest, Timestamp::from_millis(time)).expect("readable");
            assert_eq!(then.cuts, cuts.map(Position), "{time}");
            assert_eq!(then.contract, Some(digest(contract)), "{time}");
        }
    }
}
