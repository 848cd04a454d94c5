//! What the writer of a journal knows since it has taken it over.
//!
//! # Who may touch what
//! The writer [publishes](Reign::publish) groups that are durable, whole and in order. Readers look at what was published, and add
//! [where entities end](Reign::learn) that nobody has asked for yet. An entity is appended to only after that, or when it is certain
//! that it has no records, and what was published stays: so what a reader adds late never hides a record.

use std::collections::HashMap;
use std::sync::OnceLock;

use enact_sync::Mutex;

use super::wire::Names;
use crate::record::{EntityKey, Position, Seq};
use crate::remote::{Fingerprints, Place};

pub(super) struct Reign {
    names: Names,
    /// The sequence of the writer's own owner record; of a reader, of the last message that it looks at.
    pub(super) epoch: u64,
    /// The sequences of all owner records, of which a writer's is the last.
    owners: Vec<u64>,
    known: Mutex<Known>,
    /// The subjects of entities that have something from before it, once they are known.
    earlier: OnceLock<Fingerprints>,
}

struct Known {
    /// The last sequence of the stream that is known to be durable.
    durable: u64,
    tails: HashMap<EntityKey, Tail>,
}

/// Where the records of an entity end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// The last record.
    pub(super) last: Place,
    /// An earlier one, which later snapshots include.
    pub(super) base: Place,
    /// The sequence in the stream of snapshots from which on the entity's newest one stands.
    pub(super) snapshot: u64,
    /// The last record of the reigns before.
    before: Seq,
}

impl Reign {
    /// The reign that began with the last of `owners`, behind which the stream has nothing yet.
    ///
    /// # Panics
    /// If there are no owners.
    pub(super) fn of(names: Names, owners: Vec<u64>) -> Self {
        let epoch = *owners.last().expect("its own record");
        Self::until(names, owners, epoch)
    }

    /// What `owners` have written up to the message `last`, for a reader beside them.
    pub(super) fn until(names: Names, owners: Vec<u64>, last: u64) -> Self {
        let known = Mutex::new(Known { durable: last, tails: HashMap::new() });
        Self { names, epoch: last, owners, known, earlier: OnceLock::new() }
    }

    /// How many reigns there have been, with this one.
    pub(super) fn owners(&self) -> u64 {
        self.owners.len() as u64
    }

    /// Nothing is from before this reign but what `earlier` has.
    pub(super) fn know(&self, earlier: Fingerprints) {
        self.earlier.get_or_init(|| earlier);
    }

    /// The last sequence of the stream that is known to be durable.
    pub(super) fn durable(&self) -> u64 {
        self.known.lock().durable
    }

    /// The position of the record with this sequence, or of the last one before it.
    pub(super) fn position(&self, sequence: u64) -> Position {
        Position(sequence - self.owners.partition_point(|&owner| owner <= sequence) as u64)
    }

    /// The sequence of the record with this position, or where it would be.
    pub(super) fn sequence(&self, position: Position) -> u64 {
        self.owners.iter().fold(position.0, |sequence, &owner| sequence.saturating_add(u64::from(owner <= sequence)))
    }

    /// Where the entity ends, if anybody has asked, or if it is certain that it has no records.
    pub(super) fn tail(&self, entity: &EntityKey) -> Option<Tail> {
        let tail = self.known.lock().tails.get(entity).copied();
        tail.or_else(|| self.has_nothing_earlier(entity).then(Tail::default))
    }

    /// Whether the entity certainly has no records and no snapshot.
    pub(super) fn has_nothing(&self, entity: &EntityKey) -> bool {
        self.tail(entity).is_some_and(|tail| tail.last.seq == Seq::NONE) && self.has_nothing_earlier(entity)
    }

    fn has_nothing_earlier(&self, entity: &EntityKey) -> bool {
        self.earlier.get().is_some_and(|earlier| !earlier.may_have(&self.names.entity(entity)))
    }

    /// How many records of the reigns before the entity has, if anybody has asked.
    pub(super) fn records_before(&self, entity: &EntityKey) -> Option<u64> {
        self.known.lock().tails.get(entity).map(|tail| tail.before.0)
    }

    /// Whether this reign has appended the record at `place`.
    pub(super) fn has_appended(&self, place: Place) -> bool {
        place.sequence > self.epoch
    }

    /// The stream says that the entity ends at `last`; where it ends, if more is known already.
    pub(super) fn learn(&self, entity: &EntityKey, last: Place) -> Tail {
        *self.known.lock().tails.entry(entity.clone()).or_insert(Tail { last, before: last.seq, ..Tail::default() })
    }

    /// A snapshot of the entity is kept, at `sequence` in its stream; `base` is a record that the next one includes.
    pub(super) fn keep(&self, entity: &EntityKey, base: Place, sequence: u64) {
        if let Some(tail) = self.known.lock().tails.get_mut(entity) {
            tail.snapshot = tail.snapshot.max(sequence);
            if base.seq > tail.base.seq {
                tail.base = base;
            }
        }
    }

    /// A group is durable with `sequence` as its last, after which entities end at `lasts`.
    pub(super) fn publish(&self, sequence: u64, lasts: impl IntoIterator<Item = (EntityKey, Place)>) {
        let mut known = self.known.lock();
        known.durable = sequence;
        for (entity, last) in lasts {
            known.tails.entry(entity).or_default().last = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_leave_owner_records_out() {
        // 1 owner, 2 and 3 records, 4 and 5 owners, 6 a record, 7 an owner, 8 to come.
        let reign = Reign::of(Names::of(0), vec![1, 4, 5, 7]);
        for (position, sequence) in [(1, 2), (2, 3), (3, 6), (4, 8), (5, 9)] {
            assert_eq!(reign.position(sequence), Position(position));
            assert_eq!(reign.sequence(Position(position)), sequence);
        }
        assert_eq!(reign.position(1), Position::START);
        assert_eq!(reign.position(5), Position(2), "the last one before it");
        assert_eq!(reign.position(reign.durable()), Position(3));
        assert_eq!(reign.sequence(Position(u64::MAX)), u64::MAX);
    }

    #[test]
    fn what_a_reader_adds_late_hides_no_record() {
        let entity = EntityKey::new("A", "1").unwrap();
        let place = |seq, sequence| Place { seq: Seq(seq), sequence };
        let reign = Reign::of(Names::of(0), vec![9]);
        reign.learn(&entity, place(3, 7));
        reign.publish(10, [(entity.clone(), place(4, 10))]);
        assert_eq!(reign.learn(&entity, place(3, 7)).last, place(4, 10));
        assert_eq!(reign.tail(&entity).unwrap().last, place(4, 10));
    }
}
