//! What journals say has happened, and whether it may have.

use std::collections::BTreeMap;
use std::fmt::Debug;

use enact_entities::{EntityKey, Model, Record, Slot, Timestamp, TxId};

use crate::serial::States;

/// The durable decisions and promises of some nodes.
#[derive(Clone, Debug)]
pub struct Ledger<E> {
    /// Each transaction that committed, with the slots of its participants; without those that share the journal of its coordinator and
    /// change nothing.
    pub decisions: BTreeMap<TxId, BTreeMap<EntityKey, Slot>>,
    /// What was promised or has happened, by entity, slot and transaction.
    promises: BTreeMap<(EntityKey, Slot, TxId), Vec<E>>,
}

impl<E> Default for Ledger<E> {
    fn default() -> Self {
        Self { decisions: BTreeMap::new(), promises: BTreeMap::new() }
    }
}

impl<E: Clone + Debug> Ledger<E> {
    /// Takes up the records of one node.
    pub fn read(&mut self, records: impl IntoIterator<Item = (EntityKey, Record<E>)>) {
        for (entity, record) in records {
            match record {
                Record::Decision(decision) => {
                    self.decisions.entry(decision.tx).or_default().extend(decision.participants);
                }
                Record::Prepared(prepared) => {
                    let events = prepared.branch.work.events().cloned().collect();
                    self.promises.insert((entity, prepared.slot, prepared.branch.tx), events);
                }
                Record::Committed { tx, slot, events, .. } => {
                    self.decisions.entry(tx).or_default().insert(entity.clone(), slot);
                    self.promises.insert((entity, slot, tx), events);
                }
                _ => {}
            }
        }
    }

    /// All that both say.
    pub fn merge(&mut self, other: &Self) {
        for (tx, slots) in &other.decisions {
            self.decisions.entry(*tx).or_default().extend(slots.iter().map(|(entity, slot)| (entity.clone(), *slot)));
        }
        self.promises.extend(other.promises.iter().map(|(place, events)| (place.clone(), events.clone())));
    }

    /// Whether each entity has gone from its state in `before` to the one in `after` by what was promised and has committed there,
    /// all of it, in the order of slots, each event possible in its turn.
    ///
    /// # Errors
    /// What was never promised, is refused in its turn, or has led elsewhere.
    pub fn check<M: Model<Event = E>>(&self, model: &M, before: &States<M>, after: &States<M>) -> Result<(), String> {
        for (entity, state) in after {
            let here = self.decisions.iter().filter_map(|(tx, slots)| Some((*slots.get(entity)?, *tx)));
            let order: BTreeMap<Slot, TxId> = here.collect();
            if order.len() != self.decisions.values().filter(|slots| slots.contains_key(entity)).count() {
                return Err(format!("{entity} gave one slot twice: {:?}", self.decisions));
            }
            let begin = before.get(entity).cloned().or_else(|| model.initial(entity));
            let mut expected = begin.ok_or_else(|| format!("{entity} does not exist"))?;
            for (slot, tx) in order {
                let events = self.promises.get(&(entity.clone(), slot, tx));
                for event in events.ok_or_else(|| format!("{entity} never promised {tx} under slot {slot}"))? {
                    expected = model.next(entity, &expected, event, Timestamp(0)).map_err(|reasons| {
                        format!("{entity} applies {event:?} of {tx} although it is refused: {reasons:?}")
                    })?;
                }
            }
            if *state != expected {
                return Err(format!("{entity} is {state:?}, and its events in the order of slots give {expected:?}"));
            }
        }
        Ok(())
    }
}
