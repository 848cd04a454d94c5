//! Numbers without gaps for the groups of another log.
//!
//! # Problem
//! A log may have discarded records, and leaves their positions and numbers out. A journal at the other end of a network finds a lost
//! record by the gap that it leaves, so it keeps no log with gaps.
//!
//! # Rule
//! Records get the next position and the next number of their entity. Where an entity lacks records, those behind the gap say nothing
//! without them, so they are left out up to the [tombstone](Kind::TOMBSTONE) that stands for all of them.

use std::collections::HashMap;
use std::slice;

use super::Place;
use crate::damage::Flaw;
use crate::discarded::Discarded;
use crate::journal::{Limits, Refusal};
use crate::record::{EntityKey, Group, Kind, NewRecord, Position, Record, Seq};

/// Why a journal at the other end of a network does not take a group of another log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A record does not follow those before.
    #[error("record {position} cannot be taken: {flaw}")]
    Record {
        /// Its position in the other log.
        position: Position,
        /// What is wrong.
        flaw: Flaw,
    },
    /// A record is longer than the journal takes.
    #[error("record {position} cannot be taken: {refusal}")]
    Refused {
        /// Its position in the other log.
        position: Position,
        /// Which limit it exceeds.
        refusal: Refusal,
    },
    /// Records of an entity were discarded, and the tombstone that stands for them is not among the groups.
    #[error("records of {entity} were discarded, and nothing that stands for them was taken: nobody knows its state")]
    Incomplete {
        /// The entity.
        entity: EntityKey,
    },
}

/// Where an entity ends.
#[derive(Default)]
struct Tip {
    /// Its last number in the other log.
    source: Seq,
    last: Place,
    /// Records before are missing, and its tombstone has not come.
    is_torn: bool,
}

/// Gives the records of one log, in its order, their places in another one.
pub(crate) struct Numbering {
    limits: Limits,
    discarded: Discarded,
    has_discarded: bool,
    next: Position,
    sequence: u64,
    tips: HashMap<EntityKey, Tip>,
}

impl Numbering {
    /// For records behind `sequence`, each of which is within `limits`.
    pub(crate) fn new(limits: Limits, sequence: u64) -> Self {
        let (discarded, tips) = (Discarded::default(), HashMap::new());
        Self { limits, discarded, has_discarded: false, next: Position(1), sequence, tips }
    }

    /// The records of the next group, each with the one of its entity before it.
    pub(crate) fn number(&mut self, group: Group) -> Result<Vec<(NewRecord, Place)>, GroupError> {
        let (first, last) = (group.first(), group.last());
        if first != self.next {
            let flaw = Flaw::Order { expected: self.next, found: first };
            return Err(GroupError::Record { position: first, flaw });
        }
        let mut numbered = Vec::with_capacity(group.records().len());
        for record in group {
            self.pass(record.position);
            self.next = record.position.next();
            numbered.extend(self.place(record)?);
        }
        self.pass(last.next());
        self.next = last.next();
        Ok(numbered)
    }

    /// Nothing stands from the next position on before `position`.
    fn pass(&mut self, position: Position) {
        let count = position.0 - self.next.0;
        self.has_discarded |= count > 0;
        self.discarded.add(count);
    }

    fn place(&mut self, record: Record) -> Result<Option<(NewRecord, Place)>, GroupError> {
        let Record { entity, seq, position, kind, payload } = record;
        let tip = self.tips.entry(entity.clone()).or_default();
        let expected = tip.source.next();
        let Some(skipped) = self.discarded.skip(&entity, expected, seq) else {
            let flaw = Flaw::Chain { entity, expected, found: seq };
            return Err(GroupError::Record { position, flaw });
        };
        self.discarded.see(&entity, kind);
        tip.source = seq;
        tip.is_torn = (tip.is_torn || skipped > 0) && kind != Kind::TOMBSTONE;
        if tip.is_torn {
            return Ok(None);
        }
        let previous = tip.last;
        let record = NewRecord { entity, expected: previous.seq, kind, payload };
        self.limits.check(slice::from_ref(&record)).map_err(|refusal| GroupError::Refused { position, refusal })?;
        self.sequence += 1;
        tip.last = Place { seq: previous.seq.next(), sequence: self.sequence };
        Ok(Some((record, previous)))
    }

    /// The group of a record behind the last one, at a position of its own.
    pub(crate) fn group_of(&self, record: Record) -> Group {
        Group::of(vec![Record { position: self.next, ..record }])
    }

    /// The number that follows the last one of `entity` in the other log.
    pub(crate) fn next_of(&self, entity: &EntityKey) -> Seq {
        self.tips.get(entity).map_or(Seq::NONE, |tip| tip.source).next()
    }

    /// Whether records are left out of which nobody knows of which entity they were.
    pub(crate) fn has_gaps(&self) -> bool {
        self.discarded.is_any_unexplained()
    }

    /// Whether anything was discarded, so that records have other positions than before.
    pub(crate) fn has_discarded(&self) -> bool {
        self.has_discarded
    }

    /// No group follows.
    pub(crate) fn finish(&self) -> Result<(), GroupError> {
        let incomplete = self.discarded.incomplete().cloned();
        incomplete.map_or(Ok(()), |entity| Err(GroupError::Incomplete { entity }))
    }
}

/// Splits `records` so that each part is within `limits`.
#[cfg(feature = "postgres")]
pub(crate) fn parts(records: Vec<(NewRecord, Place)>, limits: Limits) -> Vec<Vec<(NewRecord, Place)>> {
    let mut parts: Vec<Vec<(NewRecord, Place)>> = Vec::new();
    let mut bytes = 0;
    for record in records {
        let more = record.0.bytes();
        match parts.last_mut() {
            Some(part) if part.len() < limits.batch_records && bytes + more <= limits.batch_bytes => part.push(record),
            _ => {
                parts.push(vec![record]);
                bytes = 0;
            }
        }
        bytes += more;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { batch_bytes: 100, batch_records: 3, record_bytes: 50 };

    fn key(id: &str) -> EntityKey {
        EntityKey::new("A", id).expect("a valid id")
    }

    fn record(id: &str, seq: u64, position: u64, kind: Kind) -> Record {
        Record { entity: key(id), seq: Seq(seq), position: Position(position), kind, payload: vec![position as u8] }
    }

    fn group(first: u64, last: u64, records: Vec<Record>) -> Group {
        Group::new(Position(first), Position(last), records)
    }

    /// For each record its payload, the number that it follows, and where that stands.
    fn numbered(numbering: &mut Numbering, group: Group) -> Vec<(u8, u64, u64)> {
        let numbered = numbering.number(group).expect("it follows");
        numbered.iter().map(|(record, place)| (record.payload[0], record.expected.0, place.sequence)).collect()
    }

    #[test]
    fn records_behind_a_gap_get_the_next_numbers_and_what_a_tombstone_stands_for_is_left_out() {
        const EVENT: Kind = Kind(3);
        let mut numbering = Numbering::new(LIMITS, 10);
        let first = group(1, 3, vec![record("x", 1, 1, EVENT), record("y", 1, 2, EVENT), record("x", 2, 3, EVENT)]);
        assert_eq!(numbered(&mut numbering, first), [(1, 0, 0), (2, 0, 0), (3, 1, 11)]);
        assert!(!numbering.has_discarded() && !numbering.has_gaps());
        // Two records were discarded, one of which was of x.
        let behind = group(4, 7, vec![record("x", 4, 6, EVENT), record("y", 2, 7, EVENT)]);
        assert_eq!(numbered(&mut numbering, behind), [(7, 1, 12)]);
        assert!(numbering.has_discarded() && numbering.has_gaps());
        assert!(matches!(numbering.finish(), Err(GroupError::Incomplete { entity }) if entity == key("x")));
        let tombstone = numbering.group_of(record("x", 5, 99, Kind::TOMBSTONE));
        assert_eq!(numbered(&mut numbering, tombstone), [(99, 2, 13)]);
        numbering.finish().expect("complete");
        assert_eq!((numbering.next_of(&key("x")), numbering.next_of(&key("z"))), (Seq(6), Seq(1)));
    }

    #[test]
    fn what_does_not_follow_or_is_too_long_is_refused_with_its_position() {
        for (wrong, said) in [
            (group(2, 2, vec![record("x", 1, 2, Kind(1))]), "position 1 should be here, found 2"),
            (group(1, 1, vec![record("x", 2, 1, Kind(1))]), "record 1 of A/x should be here, found 2"),
            (
                group(1, 1, vec![Record { payload: vec![0; 50], ..record("x", 1, 1, Kind(1)) }]),
                "at most 50 are allowed",
            ),
        ] {
            let refused = Numbering::new(LIMITS, 0).number(wrong).expect_err(said);
            assert!(refused.to_string().contains(said), "{refused}");
        }
    }

    #[test]
    fn a_group_is_split_at_the_limits_of_a_batch() {
        let records = |sizes: &[usize]| -> Vec<(NewRecord, Place)> {
            let record = |size: &usize| NewRecord {
                entity: key("x"),
                expected: Seq::NONE,
                kind: Kind(1),
                payload: vec![0; size - 3],
            };
            sizes.iter().map(|size| (record(size), Place::default())).collect()
        };
        for (sizes, lens) in [
            (&[3, 3, 3][..], &[3][..]),
            (&[3, 3, 3, 3], &[3, 1]),
            (&[50, 50], &[2]),
            (&[50, 50, 3], &[2, 1]),
            (&[50, 51, 50], &[1, 1, 1]),
            (&[], &[]),
        ] {
            let split: Vec<usize> = parts(records(sizes), LIMITS).iter().map(Vec::len).collect();
            assert_eq!(split, lens, "{sizes:?}");
        }
    }
}
