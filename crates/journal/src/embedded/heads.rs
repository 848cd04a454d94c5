//! Where each entity stands: its last record that is durable, and those that are under way.
//!
//! An entity is looked up by its key when a record of it is accepted. The record has the [`HeadId`] that is found, and
//! whatever happens to it afterwards, to the end of the group that it is written with, needs no key.
//!
//! A head is in use while its entity has records under way. It stays where it is until then: a class with heads in use
//! is not forgotten, and a head is given up only when its last record is refused.

use std::collections::HashMap;

use super::classes::{ClassId, Classes};
use super::format::{Address, Previous};
use super::scan::Tips;
use crate::journal::Refusal;
use crate::record::{EntityKey, NewRecord, Seq};

/// The heads of all entities, but for forgotten classes.
pub(super) struct Heads(Classes<'static, Class>);

/// The head of an entity with records under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadId {
    class: ClassId,
    index: u32,
}

/// The heads of one class.
#[derive(Default)]
pub(super) struct Class {
    indices: HashMap<EntityKey, u32>,
    heads: Vec<Head>,
    /// The indices of heads that are none of an entity.
    free: Vec<u32>,
    /// Records under way.
    under_way: usize,
}

#[derive(Clone, Copy, Default)]
struct Head {
    durable: Seq,
    address: Address,
    /// Records that are accepted and not durable.
    under_way: u32,
    /// One more than the index of its last record in the group that is being written; zero if it has none there.
    in_group: u32,
}

impl Head {
    fn accepted(self) -> Seq {
        Seq(self.durable.0 + u64::from(self.under_way))
    }
}

impl Heads {
    /// Heads at `tips`, nothing under way.
    pub(super) fn new(tips: Tips<'_>) -> Self {
        Self(tips.map(|tips| {
            let mut class = Class::default();
            class.indices.reserve(tips.len());
            class.heads.reserve(tips.len());
            for (entity, tip) in tips {
                class.add(entity, Head { durable: tip.seq, address: tip.address, ..Head::default() });
            }
            class
        }))
    }

    /// Accepts `record` behind all of its entity that have been accepted before.
    ///
    /// # Errors
    /// [`Refusal::Forgotten`] and [`Refusal::Conflict`].
    pub(super) fn accept(&mut self, record: &NewRecord) -> Result<HeadId, Refusal> {
        let NewRecord { entity, expected, .. } = record;
        let Some((id, class)) = self.0.class_of(entity) else {
            return Err(Refusal::Forgotten { entity: entity.clone() });
        };
        let known = class.indices.get(entity).copied();
        let actual = known.map_or(Seq::NONE, |index| class.heads[index as usize].accepted());
        if actual != *expected {
            return Err(Refusal::Conflict { entity: entity.clone(), expected: *expected, actual });
        }
        let index = known.unwrap_or_else(|| class.add(entity.clone(), Head::default()));
        class.heads[index as usize].under_way += 1;
        class.under_way += 1;
        Ok(HeadId { class: id, index })
    }

    /// Undoes the acceptance of `record`, the last one accepted of its entity.
    pub(super) fn give_back(&mut self, id: HeadId, record: &NewRecord) {
        let class = self.class_in_use(id);
        class.under_way -= 1;
        let head = &mut class.heads[id.index as usize];
        head.under_way -= 1;
        head.in_group = 0;
        if head.accepted() == Seq::NONE {
            class.indices.remove(&record.entity);
            class.free.push(id.index);
        }
    }

    /// Takes up a record as number `index` of the group that is to be written; where the one before it stands.
    pub(super) fn enter_group(&mut self, id: HeadId, index: u32) -> Previous {
        let head = &mut self.class_in_use(id).heads[id.index as usize];
        match std::mem::replace(&mut head.in_group, index + 1) {
            0 => Previous::At(head.address),
            before => Previous::InGroup(before - 1),
        }
    }

    /// `record` is durable at `address`.
    pub(super) fn publish(&mut self, id: HeadId, record: &NewRecord, address: Address) {
        let class = self.class_in_use(id);
        class.under_way -= 1;
        let head = &mut class.heads[id.index as usize];
        assert_eq!(head.durable, record.expected, "records of {} become durable in order", record.entity);
        *head = Head { durable: record.expected.next(), address, under_way: head.under_way - 1, in_group: 0 };
    }

    /// The last durable record of `entity` and its address.
    pub(super) fn tip(&self, entity: &EntityKey) -> (Seq, Address) {
        let head = self.0.get(entity.as_str()).and_then(|class| {
            let index = class.indices.get(entity)?;
            Some(class.heads[*index as usize])
        });
        head.map_or_else(Default::default, |head| (head.durable, head.address))
    }

    /// Forgets the classes of which `is_over` holds, but for those that have records under way.
    pub(super) fn forget(&mut self, is_over: impl Fn(&str) -> bool) -> Vec<Class> {
        self.0.forget(|name, class| class.under_way == 0 && is_over(name))
    }

    /// The classes that are forgotten, in order.
    pub(super) fn forgotten(&self) -> Vec<String> {
        self.0.forgotten()
    }

    fn class_in_use(&mut self, id: HeadId) -> &mut Class {
        self.0.kept(id.class).expect("a class with records under way is kept")
    }
}

impl Class {
    fn add(&mut self, entity: EntityKey, head: Head) -> u32 {
        let index = match self.free.pop() {
            Some(index) => {
                self.heads[index as usize] = head;
                index
            }
            None => {
                self.heads.push(head);
                u32::try_from(self.heads.len() - 1).expect("fewer entities than fit into memory")
            }
        };
        self.indices.insert(entity, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

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
            heads.publish(ids[index], &records[index], Address::new(1, offset));
        }
        assert_eq!(heads.tip(&records[0].entity), (Seq(2), Address::new(1, 216)));
        assert_eq!(heads.enter_group(ids[3], 0), Previous::At(Address::new(1, 216)));
    }

    #[test]
    fn what_is_given_back_was_never_accepted() {
        let mut heads = Heads::new(Tips::default());
        let [first, second, other] = [record("A", 0), record("A", 1), record("B", 0)];
        let id = heads.accept(&first).unwrap();
        heads.publish(id, &first, Address::new(1, 72));
        let id = heads.accept(&second).unwrap();
        assert_eq!(heads.enter_group(id, 0), Previous::At(Address::new(1, 72)));
        heads.give_back(id, &second);
        let id = heads.accept(&other).unwrap();
        heads.give_back(id, &other);
        assert_eq!(heads.accept(&record("B", 1)).err().map(|refusal| refusal.to_string()), {
            let conflict = Refusal::Conflict { entity: other.entity.clone(), expected: Seq(1), actual: Seq::NONE };
            Some(conflict.to_string())
        });
        // The place of the head that was given up is that of another entity now.
        let newcomer = record("C", 0);
        let id = heads.accept(&newcomer).unwrap();
        assert_eq!(heads.enter_group(id, 0), Previous::At(Address::default()));
        let id = heads.accept(&second).unwrap();
        assert_eq!(heads.enter_group(id, 1), Previous::At(Address::new(1, 72)));
        assert_eq!(heads.tip(&other.entity), (Seq::NONE, Address::default()));
    }
}
