//! What the writer of a journal knows since it has taken it over.
//!
//! # Who may touch what
//! The writer [publishes](Reign::publish) groups that are durable, whole and in order. Readers look at what was published, and add
//! [where entities end](Reign::learn) that nobody has asked for yet. An entity is appended to only after that, or when it is certain
//! that it has no records, and what was published stays: so what a reader adds late never hides a record.

use std::collections::HashMap;
use std::sync::OnceLock;

use enact_sync::Mutex;

use crate::record::{EntityKey, Seq};
use crate::remote::{Fingerprints, Place};

pub(super) struct Reign {
    pub(super) shard: u16,
    pub(super) epoch: u64,
    known: Mutex<Known>,
    /// The entities that have something from before it, once they are known.
    earlier: OnceLock<Fingerprints>,
}

struct Known {
    /// The last position that is known to be durable.
    durable: u64,
    tails: HashMap<EntityKey, Place>,
}

impl Reign {
    /// The reign `epoch`, before which there are records up to `durable`.
    pub(super) fn of(shard: u16, epoch: u64, durable: u64) -> Self {
        let known = Mutex::new(Known { durable, tails: HashMap::new() });
        Self { shard, epoch, known, earlier: OnceLock::new() }
    }

    /// Nothing is from before this reign but what `earlier` has.
    pub(super) fn know(&self, earlier: Fingerprints) {
        self.earlier.get_or_init(|| earlier);
    }

    /// The last position that is known to be durable.
    pub(super) fn durable(&self) -> u64 {
        self.known.lock().durable
    }

    /// Where the entity ends, if anybody has asked, or if it is certain that it has no records.
    pub(super) fn tail(&self, entity: &EntityKey) -> Option<Place> {
        let tail = self.known.lock().tails.get(entity).copied();
        tail.or_else(|| self.has_nothing_earlier(entity).then(Place::default))
    }

    /// Whether the entity certainly has no records and no snapshot.
    pub(super) fn has_nothing(&self, entity: &EntityKey) -> bool {
        self.tail(entity).is_some_and(|tail| tail.seq == Seq::NONE) && self.has_nothing_earlier(entity)
    }

    fn has_nothing_earlier(&self, entity: &EntityKey) -> bool {
        self.earlier.get().is_some_and(|earlier| !earlier.may_have(entity.as_str()))
    }

    /// The entity was seen to end at `last`, unless more is known already.
    pub(super) fn learn(&self, entity: &EntityKey, last: Place) {
        self.known.lock().tails.entry(entity.clone()).or_insert(last);
    }

    /// A group is durable with `position` as its last, after which entities end at `lasts`.
    pub(super) fn publish(&self, position: u64, lasts: impl IntoIterator<Item = (EntityKey, Place)>) {
        let mut known = self.known.lock();
        known.durable = position;
        known.tails.extend(lasts);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    fn entity() -> EntityKey {
        EntityKey::new("A", "1").expect("a valid id")
    }

    fn place(seq: u64, sequence: u64) -> Place {
        Place { seq: Seq(seq), sequence }
    }

    #[test]
    fn what_a_reader_adds_late_hides_no_record() {
        let reign = Reign::of(0, 1, 9);
        reign.learn(&entity(), place(3, 7));
        reign.publish(10, [(entity(), place(4, 10))]);
        reign.learn(&entity(), place(3, 7));
        assert_eq!(reign.tail(&entity()), Some(place(4, 10)));
        assert_eq!(reign.durable(), 10);
    }

    #[test]
    fn an_entity_that_is_not_on_the_list_has_nothing_until_this_reign_appends_to_it() {
        let reign = Reign::of(0, 1, 9);
        assert_eq!((reign.tail(&entity()), reign.has_nothing(&entity())), (None, false), "nobody has asked");
        reign.know(Fingerprints::of(RandomState::new(), Vec::new()));
        assert_eq!((reign.tail(&entity()), reign.has_nothing(&entity())), (Some(Place::default()), true));
        reign.publish(10, [(entity(), place(1, 10))]);
        assert_eq!((reign.tail(&entity()), reign.has_nothing(&entity())), (Some(place(1, 10)), false));
    }
}
