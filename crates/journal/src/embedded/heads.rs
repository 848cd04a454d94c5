//! Where each entity stands: its last record that is durable, and those that are under way.
//!
//! An entity is looked up by its key when a record of it is accepted. The record has the [`HeadId`] that is found, and
//! whatever happens to it afterwards, to the end of the group that it is written with, needs no key.
//!
//! A head is in use while its entity has records under way. It stays where it is until then: a class with heads in use
//! is not forgotten, and a head is given up only when its last record is refused.

use std::collections::{BTreeSet, HashSet};

use indexmap::IndexMap;

use super::classes::{ClassId, Classes};
use super::draft::Previous;
use super::format::Address;
use super::scan::{Tip, Tips};
use crate::journal::Refusal;
use crate::record::{EntityKey, Kind, NewRecord, Seq};

/// The heads of all entities, but for forgotten classes.
pub(super) struct Heads {
    classes: Classes<'static, Class>,
    /// How many entities have a durable tombstone, or had one when their class was forgotten.
    tombstones: usize,
}

/// The head of an entity with records under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadId {
    class: ClassId,
    index: u32,
}

/// A number for each of some heads; zero, of which nothing is kept, for any other.
#[derive(Debug, Default)]
pub(super) struct ByHead(Vec<Vec<u32>>);

impl ByHead {
    pub(super) fn get_mut(&mut self, head: HeadId) -> &mut u32 {
        let (class, index) = (head.class.index(), head.index as usize);
        if self.0.len() <= class {
            self.0.resize_with(class + 1, Vec::new);
        }
        let numbers = &mut self.0[class];
        if numbers.len() <= index {
            numbers.resize(index + 1, 0);
        }
        &mut numbers[index]
    }
}

/// The heads of one class, by index.
#[derive(Default)]
pub(super) struct Class {
    /// The last durable record of each entity; those without any are there for records under way, or free.
    tips: IndexMap<EntityKey, Tip>,
    open: Vec<Open>,
    /// The indices of entities that have no record, accepted or durable.
    free: BTreeSet<u32>,
    /// The indices of entities whose tombstone is under way.
    ending: HashSet<u32>,
    /// Records under way.
    under_way: usize,
}

/// What is under way of an entity.
#[derive(Clone, Copy, Default)]
struct Open {
    /// Records that are accepted and not durable.
    accepted: u32,
    /// One more than the index of its last record in the group that is being written; zero if it has none there.
    in_group: u32,
}

impl Heads {
    /// Heads at `tips`, nothing under way.
    pub(super) fn new(tips: Tips<'_>) -> Self {
        let ended = |tips: &IndexMap<EntityKey, Tip>| tips.values().filter(|tip| tip.address.is_of_tombstone()).count();
        let tombstones = tips.values().map(ended).sum();
        let classes = tips.map(|tips| Class {
            open: vec![Open::default(); tips.len()],
            tips,
            free: BTreeSet::new(),
            ending: HashSet::new(),
            under_way: 0,
        });
        Self { classes, tombstones }
    }

    /// Accepts `record` behind all of its entity that have been accepted before.
    ///
    /// # Errors
    /// [`Refusal::Forgotten`], [`Refusal::Ended`] and [`Refusal::Conflict`].
    pub(super) fn accept(&mut self, record: &NewRecord) -> Result<HeadId, Refusal> {
        let NewRecord { entity, expected, .. } = record;
        let Some((id, class)) = self.classes.class_of(entity) else {
            return Err(Refusal::Forgotten { entity: entity.clone() });
        };
        let known = class.tips.get_index_of(entity);
        if known.is_some_and(|index| class.has_ended(index)) {
            return Err(Refusal::Ended { entity: entity.clone() });
        }
        let actual = known.map_or(Seq::NONE, |index| class.accepted(index));
        if actual != *expected {
            return Err(Refusal::Conflict { entity: entity.clone(), expected: *expected, actual });
        }
        let index = known.unwrap_or_else(|| class.add(entity.clone()));
        let id = HeadId { class: id, index: u32::try_from(index).expect("fewer entities than fit into memory") };
        class.free.remove(&id.index);
        if record.kind == Kind::TOMBSTONE {
            class.ending.insert(id.index);
        }
        class.open[index].accepted += 1;
        class.under_way += 1;
        Ok(id)
    }

    /// Undoes the acceptance of the records with these heads, the last ones accepted, in their order.
    pub(super) fn give_back(&mut self, ids: impl DoubleEndedIterator<Item = HeadId>) {
        ids.rev().for_each(|id| self.give_one_back(id));
    }

    fn give_one_back(&mut self, id: HeadId) {
        let class = self.class_in_use(id);
        class.under_way -= 1;
        let index = id.index as usize;
        class.open[index].accepted -= 1;
        class.open[index].in_group = 0;
        class.ending.remove(&id.index);
        if class.accepted(index) == Seq::NONE {
            class.free.insert(id.index);
        }
    }

    /// Takes up a record as number `index` of the group that is to be written; where the one before it stands.
    pub(super) fn enter_group(&mut self, id: HeadId, index: u32) -> Previous {
        let class = self.class_in_use(id);
        match std::mem::replace(&mut class.open[id.index as usize].in_group, index + 1) {
            0 => Previous::At(class.tips[id.index as usize].address),
            before => Previous::InGroup(before - 1),
        }
    }

    /// Record `seq` is durable at `address`, which is marked if it is a tombstone.
    pub(super) fn publish(&mut self, id: HeadId, seq: Seq, address: Address) {
        let is_tombstone = address.is_of_tombstone();
        self.tombstones += usize::from(is_tombstone);
        let class = self.class_in_use(id);
        class.under_way -= 1;
        if is_tombstone {
            class.ending.remove(&id.index);
        }
        let (entity, tip) = class.tips.get_index_mut(id.index as usize).expect("a head in use stays where it is");
        assert_eq!(tip.seq.next(), seq, "records of {entity} become durable in order");
        *tip = Tip { seq, address };
        let open = &mut class.open[id.index as usize];
        *open = Open { accepted: open.accepted - 1, in_group: 0 };
    }

    /// The last durable record of `entity` and its address.
    pub(super) fn tip(&self, entity: &EntityKey) -> (Seq, Address) {
        let tip = self.classes.get(entity.as_str()).and_then(|class| class.tips.get(entity));
        tip.map_or_else(Default::default, |tip| (tip.seq, tip.address))
    }

    /// How many entities there are, and how many of them have, or had, a durable tombstone.
    pub(super) fn counts(&self) -> (usize, usize) {
        let entities = self.classes.values().map(|class| class.tips.len() - class.free.len()).sum();
        (entities, self.tombstones)
    }

    /// How many entities of a class have records, durable or accepted.
    pub(super) fn count(&self, class: &str) -> usize {
        self.classes.named(class).map_or(0, |class| class.tips.len() - class.free.len())
    }

    /// Forgets the classes of which `is_over` holds, but for those that have records under way.
    pub(super) fn forget(&mut self, is_over: impl Fn(&str) -> bool) -> Vec<Class> {
        self.classes.forget(|name, class| class.under_way == 0 && is_over(name))
    }

    /// The classes that are forgotten, in order.
    pub(super) fn forgotten(&self) -> Vec<String> {
        self.classes.forgotten()
    }

    fn class_in_use(&mut self, id: HeadId) -> &mut Class {
        self.classes.kept(id.class).expect("a class with records under way is kept")
    }
}

impl Class {
    /// Whether the last record that is accepted is a tombstone.
    fn has_ended(&self, index: usize) -> bool {
        self.tips[index].address.is_of_tombstone() || self.ending.contains(&(index as u32))
    }

    /// The last record that is accepted.
    fn accepted(&self, index: usize) -> Seq {
        Seq(self.tips[index].seq.0 + u64::from(self.open[index].accepted))
    }

    /// The index of a new entity, in the place of one that has no record if there is one.
    fn add(&mut self, entity: EntityKey) -> usize {
        let Some(index) = self.free.pop_first() else {
            self.open.push(Open::default());
            return self.tips.insert_full(entity, Tip::default()).0;
        };
        let index = index as usize;
        self.tips.replace_index(index, entity).expect("it was not there");
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, expected: u64) -> NewRecord {
        let entity = EntityKey::new("Account", id).unwrap();
        NewRecord { entity, expected: Seq(expected), kind: Kind(0), payload: vec![] }
    }

    #[test]
    fn a_record_follows_the_one_before_it_wherever_that_is() {
        let mut heads = Heads::new(Tips::default());
        let records = [record("A", 0), record("B", 0), record("A", 1), record("A", 2)];
        let ids = records.each_ref().map(|record| heads.accept(record).unwrap());
        let none = Previous::At(Address::default());
        let mut enter = |first: usize, count: usize| -> Vec<Previous> {
            (0..count).map(|index| heads.enter_group(ids[first + index], index as u32)).collect()
        };
        assert_eq!(enter(0, 3), [none, none, Previous::InGroup(0)]);
        for (index, offset) in [(0, 72), (1, 144), (2, 216)] {
            heads.publish(ids[index], records[index].expected.next(), Address::new(1, offset));
        }
        assert_eq!(heads.tip(&records[0].entity), (Seq(2), Address::new(1, 216)));
        assert_eq!(heads.enter_group(ids[3], 0), Previous::At(Address::new(1, 216)));
    }

    #[test]
    fn what_is_given_back_was_never_accepted() {
        let mut heads = Heads::new(Tips::default());
        let [first, second, other] = [record("A", 0), record("A", 1), record("B", 0)];
        let id = heads.accept(&first).unwrap();
        heads.publish(id, Seq(1), Address::new(1, 72));
        let id = heads.accept(&second).unwrap();
        assert_eq!(heads.enter_group(id, 0), Previous::At(Address::new(1, 72)));
        heads.give_back([id].into_iter());
        let id = heads.accept(&other).unwrap();
        heads.give_back([id].into_iter());
        assert_eq!(heads.accept(&record("B", 1)).err().map(|refusal| refusal.to_string()), {
            let conflict = Refusal::Conflict { entity: other.entity.clone(), expected: Seq(1), actual: Seq::NONE };
            Some(conflict.to_string())
        });
        // It may have a record after all, and its place is its own then.
        let id = heads.accept(&other).unwrap();
        let newcomer = heads.accept(&record("C", 0)).unwrap();
        assert_ne!(id.index, newcomer.index);
        assert_eq!(heads.enter_group(newcomer, 0), Previous::At(Address::default()));
        heads.give_back([id].into_iter());
        // The place of one that has none is that of another entity now.
        let last = heads.accept(&record("D", 0)).unwrap();
        assert_eq!(last.index, id.index);
        assert_eq!(heads.enter_group(last, 0), Previous::At(Address::default()));
        let id = heads.accept(&second).unwrap();
        assert_eq!(heads.enter_group(id, 1), Previous::At(Address::new(1, 72)));
        assert_eq!(heads.tip(&other.entity), (Seq::NONE, Address::default()));
    }
}
