//! The promises to coordinators elsewhere that are open: where in the journal the first of them is.
//!
//! # Problem
//! After a crash nobody may ask for an entity that has promised something, and it stays promised. So the engine looks for such entities when it is opened;
//! but it cannot read the whole journal for that.
//!
//! # What is kept
//! In the journal, a position behind which every open promise is; in memory, the position of each. The promises are found again by
//! reading the journal from there.
use std::collections::{BTreeMap, BTreeSet, HashMap};

use enact_journal::{EntityKey, Journal, Position, Seq, Snapshot as Image};
use enact_sync::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::EntityError;
use crate::record::{self, Record};
use crate::tx::Slot;

/// The class of the one entity whose snapshot has the position.
const CLASS: &str = ".promises";

/// How many records are looked at at a time.
const READ_AT_A_TIME: usize = 1_000;

type Promise = (EntityKey, Slot);

pub(super) struct Promises {
    key: EntityKey,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<Promise, Position>,
    in_order: BTreeMap<Position, BTreeSet<Promise>>,
    /// How many records of promises are on their way to the journal.
    under_way: usize,
    /// The last position that is known.
    latest: Position,
    /// The position that the journal has, or is about to have.
    kept: Position,
    /// Whether the promises of earlier runs have been found; no position is kept before.
    is_restored: bool,
    /// What has ended before that.
    ended: Vec<Promise>,
}

impl State {
    fn open(&mut self, promise: Promise, before: Position) {
        self.in_order.entry(before).or_default().insert(promise.clone());
        self.open.insert(promise, before);
    }

    fn end(&mut self, promise: &Promise) {
        let Some(position) = self.open.remove(promise) else { return };
        let of_position = self.in_order.get_mut(&position).expect("every open one is listed");
        of_position.remove(promise);
        if of_position.is_empty() {
            self.in_order.remove(&position);
        }
    }
}

impl Promises {
    pub(super) fn new() -> Self {
        let key = EntityKey::new(CLASS, "all").expect("a valid name");
        Self { key, state: Mutex::default() }
    }

    /// A record of a promise is on its way to the journal, until it has [arrived](Self::arrived).
    pub(super) fn depart(&self) {
        self.state.lock().under_way += 1;
    }

    /// Such a record is durable or was refused, and what follows from that has been said.
    pub(super) fn arrived(&self) {
        self.state.lock().under_way -= 1;
    }

    /// Whether no promise is open or on its way to the journal.
    pub(super) fn are_settled(&self) -> bool {
        let state = self.state.lock();
        state.open.is_empty() && state.under_way == 0
    }

    /// Takes up a record of `entity` that is durable, behind `before` and up to `position`.
    pub(super) fn written<E>(&self, entity: &EntityKey, record: &Record<E>, before: Position, position: Position) {
        let mut state = self.state.lock();
        state.latest = state.latest.max(position);
        match record {
            Record::Prepared(prepared) => state.open((entity.clone(), prepared.slot), before),
            Record::Outcome { slot, .. } => {
                let promise = (entity.clone(), *slot);
                state.end(&promise);
                if !state.is_restored {
                    state.ended.push(promise);
                }
            }
            _ => {}
        }
    }

    /// The entities whose open promises are known.
    pub(super) fn entities(&self) -> BTreeSet<EntityKey> {
        self.state.lock().open.keys().map(|(entity, _)| entity.clone()).collect()
    }

    /// The position to keep, if it has changed.
    pub(super) fn snapshot(&self) -> Option<Image> {
        let mut state = self.state.lock();
        let first = state.in_order.keys().next().copied().unwrap_or(state.latest);
        if !state.is_restored || first <= state.kept {
            return None;
        }
        state.kept = first;
        Some(Image { entity: self.key.clone(), seq: Seq::NONE, payload: record::encode(&first.0) })
    }

    /// Reads what earlier runs have left; the entities with open promises.
    pub(super) async fn restore<E: Serialize + DeserializeOwned, J: Journal>(
        &self,
        journal: &J,
    ) -> Result<BTreeSet<EntityKey>, EntityError> {
        let undecodable = |key: &EntityKey, seq, cause| EntityError::undecodable(key, seq, cause);
        let mut from = Position::START;
        if let Some(image) = journal.load_snapshot(&self.key).await? {
            from = Position(record::decode(&image.payload).map_err(|cause| undecodable(&self.key, image.seq, cause))?);
        }
        let mut found = State { latest: from, kept: from, ..State::default() };
        loop {
            let records = journal.feed(found.latest, READ_AT_A_TIME).await?;
            let Some(last) = records.last() else { break };
            let latest = last.position;
            for read in records {
                if !Record::<E>::is_of_promise(read.kind.0) {
                    continue;
                }
                let decoded = Record::<E>::decode(&read.payload);
                match decoded.map_err(|cause| undecodable(&read.entity, read.seq, cause))? {
                    Record::Prepared(prepared) => {
                        found.open((read.entity, prepared.slot), Position(read.position.0.saturating_sub(1)));
                    }
                    Record::Outcome { slot, .. } => found.end(&(read.entity, slot)),
                    _ => {}
                }
            }
            found.latest = latest;
        }
        let mut state = self.state.lock();
        state.ended.iter().for_each(|promise| found.end(promise));
        let entities = found.open.keys().map(|(entity, _)| entity.clone()).collect();
        for (promise, before) in std::mem::take(&mut state.open) {
            found.end(&promise);
            found.open(promise, before);
        }
        found.latest = found.latest.max(state.latest);
        *state = State { is_restored: true, under_way: state.under_way, ..found };
        Ok(entities)
    }
}
