//! From the journal back to a participant that keeps every promise.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Durability, Outputs, Participant, ParticipantOptions, Stage, Standing};
use crate::EntityKey;
use crate::admission::{Answer, Branch, Decision, InProgress};
use crate::message::Said;
use crate::model::{Model, Work};
use crate::reason::Reason;
use crate::record::{Pending, Prepared, Record, Snapshot};
use crate::tx::{Attempt, Millis, Slot, TxId};

/// Why an entity cannot be recovered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The entity does not exist in this model: no class has its name, or its id is none of that class.
    #[error(
        "{entity} is in the journal, but there can be no such entity; start with the contract it was written under"
    )]
    NoSuchEntity {
        /// The entity.
        entity: EntityKey,
    },
    /// An effect in the journal is not possible.
    #[error(
        "{entity}: {tx} under slot {slot} is committed and not possible: {reasons:?}; start with the contract it was written under"
    )]
    NotPossible {
        /// The entity.
        entity: EntityKey,
        /// The transaction.
        tx: TxId,
        /// Its slot.
        slot: Slot,
        /// Why it is not possible.
        reasons: Vec<Reason>,
    },
    /// A record that belongs elsewhere, or follows from none before it.
    #[error("{entity}: record {index} of those read does not belong here")]
    Misplaced {
        /// The entity.
        entity: EntityKey,
        /// Which of the records read, counted from 0.
        index: usize,
    },
}

/// What is known so far while records are read.
struct Replay<M: Model> {
    base: M::State,
    /// Slots below are described by the snapshot: pending there, or past.
    known: Slot,
    next_slot: Slot,
    pending: BTreeMap<Slot, Pending<M::Event>>,
}

impl<M: Model> Participant<M> {
    /// The participant as its journal knows it: `snapshot`, if there is one, and every record after it.
    ///
    /// Records that the snapshot covers may be read again. What is in doubt is open again under its old slot, before anything
    /// new is admitted; the outputs ask its coordinators. With a shared journal nothing can be in doubt, and
    /// transactions without a `Committed` record are gone.
    ///
    /// # Errors
    /// If the records do not belong to the entity, or its contract does not allow what they say.
    pub fn recover(
        model: Arc<M>,
        key: EntityKey,
        options: ParticipantOptions,
        snapshot: Option<Snapshot<M::State, M::Event>>,
        records: impl IntoIterator<Item = Record<M::Event>>,
        now: Millis,
    ) -> Result<(Self, Outputs<M>), RecoveryError> {
        let initial = model.initial(&key).ok_or_else(|| RecoveryError::NoSuchEntity { entity: key.clone() })?;
        let mut replay = Replay::<M>::begin(initial, snapshot);
        for (index, record) in records.into_iter().enumerate() {
            replay.read(&key, record).ok_or_else(|| RecoveryError::Misplaced { entity: key.clone(), index })?;
        }
        if options.durability == Durability::Shared {
            replay.pending.retain(|_, pending| pending.committed);
        }
        replay.apply_heads(&model, &key)?;
        Ok(Self::resume(model, key, options, replay, now))
    }

    fn resume(
        model: Arc<M>,
        key: EntityKey,
        options: ParticipantOptions,
        replay: Replay<M>,
        now: Millis,
    ) -> (Self, Outputs<M>) {
        let Replay { base, next_slot, pending, .. } = replay;
        let first = pending.keys().next().copied().unwrap_or(next_slot);
        let mut participant = Self::with_base(model, key, options, base, first);
        let mut out = Vec::new();
        let mut entries = Vec::with_capacity(pending.len());
        for (slot, Pending { prepared, committed }) in pending {
            let Prepared { branch, coordinator, answer, .. } = prepared;
            let (tx, attempt) = (branch.tx, branch.attempt);
            if !committed {
                participant.say(&coordinator, tx, attempt, Said::Ask(slot), &mut out);
            }
            participant.standings.insert(tx, Standing { attempt, coordinator, stage: Stage::Committed });
            if !committed {
                participant.ask_again(tx, participant.ask_after, now);
            }
            entries.push(InProgress { branch, slot, answer, committed });
        }
        participant.admission.restore(entries, next_slot);
        (participant, out)
    }
}

impl<M: Model> Replay<M> {
    fn begin(initial: M::State, snapshot: Option<Snapshot<M::State, M::Event>>) -> Self {
        let Some(Snapshot { base, next_slot, pending }) = snapshot else {
            return Self { base: initial, known: Slot::FIRST, next_slot: Slot::FIRST, pending: BTreeMap::new() };
        };
        let pending = pending.into_iter().map(|entry| (entry.prepared.slot, entry)).collect();
        Self { base, known: next_slot, next_slot, pending }
    }

    /// Takes up one record; nothing if it does not belong here.
    fn read(&mut self, key: &EntityKey, record: Record<M::Event>) -> Option<()> {
        match record {
            Record::Prepared(prepared) => self.add(Pending { prepared, committed: false }),
            Record::Committed { tx, slot, events, at } if slot >= self.known => {
                // With a shared journal nobody asks for it again: only its effect matters.
                let answer = Answer { calls: Vec::new(), answers: Vec::new(), state: None };
                let branch = Branch { tx, attempt: Attempt::FIRST, work: Work::of_events(events), at };
                let prepared = Prepared { branch, slot, coordinator: key.clone(), answer };
                self.add(Pending { prepared, committed: true });
            }
            Record::Committed { tx, slot, .. } | Record::Outcome { tx, slot, decision: Decision::Commit } => {
                self.commit(tx, slot)?;
            }
            Record::Outcome { slot, decision: Decision::Abort, .. } => {
                self.pending.remove(&slot);
            }
            Record::Decision(_) | Record::Answer(_) | Record::End { .. } | Record::Timer { .. } => return None,
        }
        Some(())
    }

    fn add(&mut self, pending: Pending<M::Event>) {
        let Prepared { branch: Branch { tx, attempt, .. }, slot, .. } = pending.prepared;
        if slot < self.known {
            return;
        }
        self.next_slot = self.next_slot.max(slot.next());
        // That an earlier attempt was aborted may not have been written: a later one says so, too.
        let is_void =
            |other: &Pending<M::Event>| other.prepared.branch.tx == tx && other.prepared.branch.attempt > attempt;
        if self.pending.values().any(is_void) {
            return;
        }
        self.pending.retain(|_, other| {
            let branch = &other.prepared.branch;
            branch.tx != tx || other.committed || branch.attempt >= attempt
        });
        self.pending.insert(slot, pending);
    }

    fn commit(&mut self, tx: TxId, slot: Slot) -> Option<()> {
        match self.pending.get_mut(&slot) {
            Some(pending) if pending.prepared.branch.tx == tx => pending.committed = true,
            // The snapshot has its effect already.
            None if slot < self.known => {}
            _ => return None,
        }
        Some(())
    }

    /// The first committed one, if no open effect stands before it.
    fn ready_head(&self) -> Option<Slot> {
        let mut heads =
            self.pending.iter().skip_while(|(_, entry)| !entry.committed && !entry.prepared.branch.work.has_event());
        heads.next().filter(|(_, entry)| entry.committed).map(|(&slot, _)| slot)
    }

    fn apply_heads(&mut self, model: &M, entity: &EntityKey) -> Result<(), RecoveryError> {
        while let Some(slot) = self.ready_head() {
            let prepared = self.pending.remove(&slot).expect("it was found").prepared;
            let Branch { tx, work, at, .. } = prepared.branch;
            for event in work.events() {
                self.base = model
                    .next(entity, &self.base, event, at)
                    .map_err(|reasons| RecoveryError::NotPossible { entity: entity.clone(), tx, slot, reasons })?;
            }
        }
        Ok(())
    }
}
