//! The decisions that participants with another journal have not acknowledged, in memory and in the journal.
//!
//! All are records of one entity, of the class [`CLASS`]: a `Decision` in the same record group as the effects that it decides, an `End` when everybody has
//! acknowledged it, and a snapshot now and then. A participant that asks for the decision on a transaction that is neither
//! here nor under way is told to abort, so none is answered before this has been read.
use std::collections::BTreeMap;
use std::sync::Arc;

use enact_journal::{EntityKey, Journal, Kind, Seq, Snapshot as Image};
use enact_sync::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::committer::{Append, Tail};
use super::entity::DurableRecords;
use super::error::EntityError;
use crate::coordinator::CoordinatorSnapshot;
use crate::record::{self, DecisionRecord, Record};
use crate::tx::TxId;

/// The class of the one entity whose records they are.
const CLASS: &str = ".decisions";

/// How many records are written between two snapshots.
const RECORDS_BETWEEN_SNAPSHOTS: usize = 256;

pub(super) struct Decisions {
    key: EntityKey,
    tail: Arc<Tail>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    undelivered: BTreeMap<TxId, DecisionRecord>,
    durable: DurableRecords,
    records_since_snapshot: usize,
    /// Whether the journal has been read; no snapshot is taken before.
    is_restored: bool,
}

impl Decisions {
    pub(super) fn new() -> Self {
        let key = EntityKey::new(CLASS, "all").expect("a valid name");
        Self { key, tail: Arc::default(), state: Mutex::default() }
    }

    /// Whether `record` of a coordinator is kept here.
    pub(super) fn keeps<E>(record: &Record<E>) -> bool {
        match record {
            Record::Decision(decision) => !decision.participants.is_empty(),
            Record::End { .. } => true,
            _ => false,
        }
    }

    /// Whether all decisions that are known have been acknowledged, durably.
    pub(super) fn are_acknowledged(&self) -> bool {
        self.state.lock().undelivered.is_empty()
    }

    /// What is appended for `record`.
    pub(super) fn append<E: Serialize + DeserializeOwned>(&self, record: &Record<E>) -> Append {
        let (key, tail) = (self.key.clone(), Arc::clone(&self.tail));
        Append { key, tail, kind: Kind(record.kind()), payload: record.encode(), depends_on: None }
    }

    /// Takes up a record that is durable; a snapshot if one is due.
    pub(super) fn written<E>(&self, record: Record<E>, seq: Seq) -> Option<Image> {
        let mut state = self.state.lock();
        match record {
            Record::Decision(decision) => drop(state.undelivered.insert(decision.tx, *decision)),
            Record::End { tx } => drop(state.undelivered.remove(&tx)),
            _ => {}
        }
        state.durable.add(seq);
        state.records_since_snapshot += 1;
        if !state.is_restored || state.records_since_snapshot < RECORDS_BETWEEN_SNAPSHOTS {
            return None;
        }
        state.records_since_snapshot = 0;
        let decisions = state.undelivered.values().cloned().collect();
        let payload = record::encode(&CoordinatorSnapshot { decisions, answers: Vec::new() });
        Some(Image { entity: self.key.clone(), seq: state.durable.complete_up_to(), payload })
    }

    /// Reads the journal; the decisions that have not been acknowledged, also those that a transaction of this run is telling.
    pub(super) async fn restore<E: Serialize + DeserializeOwned, J: Journal>(
        &self,
        journal: &J,
    ) -> Result<Vec<DecisionRecord>, EntityError> {
        let loaded = journal.load(&self.key).await?;
        let covered = loaded.snapshot.as_ref().map_or(Seq::NONE, |image| image.seq);
        let undecodable = |seq, cause| EntityError::undecodable(&self.key, seq, cause);
        let mut undelivered = BTreeMap::new();
        if let Some(image) = loaded.snapshot {
            let snapshot: CoordinatorSnapshot =
                record::decode(&image.payload).map_err(|cause| undecodable(covered, cause))?;
            undelivered.extend(snapshot.decisions.into_iter().map(|decision| (decision.tx, decision)));
        }
        let mut durable = DurableRecords::up_to(covered);
        for read in loaded.records {
            match Record::<E>::decode(&read.payload).map_err(|cause| undecodable(read.seq, cause))? {
                Record::Decision(decision) => drop(undelivered.insert(decision.tx, *decision)),
                Record::End { tx } => drop(undelivered.remove(&tx)),
                _ => return Err(EntityError::Misplaced { entity: self.key.clone(), seq: read.seq }),
            }
            durable.add(read.seq);
        }
        let mut state = self.state.lock();
        let left = undelivered.values().cloned().collect();
        let beyond: Vec<Seq> = state.durable.beyond().collect();
        beyond.into_iter().for_each(|seq| durable.add(seq));
        state.durable = durable;
        undelivered.append(&mut state.undelivered);
        state.undelivered = undelivered;
        state.is_restored = true;
        Ok(left)
    }
}
