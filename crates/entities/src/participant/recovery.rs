//! From the journal back to a participant that keeps every promise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::history::Happened;
use super::{Durability, Outputs, Participant, ParticipantOptions, Stage, Standing};
use crate::EntityKey;
use crate::admission::{Answer, Branch, Decision, InProgress};
use crate::message::Said;
use crate::model::{Model, Work};
use crate::reason::Reason;
use crate::record::{DecodeError, Pending, Prepared, Record, Snapshot, Tombstone};
use crate::tx::{Attempt, Millis, Slot, Timestamp, TxId};

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
    /// Something was written under a version of the contract that this model does not know.
    #[error("{entity} has events of version {version} of the contract, which is not known here")]
    NoSuchVersion {
        /// The entity.
        entity: EntityKey,
        /// The version.
        version: u32,
    },
    /// The state under an earlier version of the contract has no counterpart under a later one.
    #[error("{entity} cannot be taken over from version {from} of the contract: {reasons:?}")]
    NotMigrated {
        /// The entity.
        entity: EntityKey,
        /// The version of the state.
        from: u32,
        /// Why it has no counterpart.
        reasons: Vec<Reason>,
    },
    /// A transaction is in doubt that was voted for under an earlier version of the contract.
    #[error(
        "{entity}: {tx} was prepared under version {version} of the contract and is not decided; start with that one"
    )]
    InDoubtUnderEarlier {
        /// The entity.
        entity: EntityKey,
        /// The transaction.
        tx: TxId,
        /// The version.
        version: u32,
    },
    /// A tombstone does not say what an entity was.
    #[error("{entity}: the tombstone cannot be read: {cause}")]
    Unreadable {
        /// The entity.
        entity: EntityKey,
        /// What is wrong with it.
        cause: DecodeError,
    },
    /// The contract lets an entity go on that had ended, and nothing is left of it but its tombstone.
    #[error(
        "{entity} had ended as `{state}` and has a tombstone, so nothing happens to it any more; start with a contract in which that \
         state is final"
    )]
    Ended {
        /// The entity.
        entity: EntityKey,
        /// The state that was final.
        state: String,
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

/// Why a record is not taken up.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It belongs elsewhere, or follows from none before it.
    Misplaced,
    /// It is a tombstone without a state.
    Undecodable(DecodeError),
}

/// What is known so far while records are read.
pub(crate) struct Replay<M: Model> {
    /// The state and the version of the contract that it is of; nothing before the first event.
    base: Option<(M::State, u32)>,
    /// Slots below are described by the snapshot: pending there, or past.
    known: Slot,
    next_slot: Slot,
    pending: BTreeMap<Slot, Pending<M::Event>>,
    /// The slots that each transaction was given, whether they are still pending or not.
    slots: BTreeSet<(TxId, Slot)>,
    /// The entity has ended: with this slot, at this time, by this transaction.
    ended: Option<(Slot, Timestamp, TxId)>,
}

impl<M: Model> Participant<M> {
    /// The participant as its journal knows it: `snapshot`, if there is one, and every record after it.
    ///
    /// Records that the snapshot covers may be read again. What is in doubt is open again under its old slot, before anything
    /// new is admitted; the outputs ask its coordinators. What shares the journal of its coordinator is never in doubt, and without a
    /// `Committed` record it is gone.
    ///
    /// Each event happens under the version of the contract that it was written under. Where the next one was written under a later
    /// version, and at the end, the state is [migrated](Model::migrated).
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
        if model.initial(&key).is_none() {
            return Err(RecoveryError::NoSuchEntity { entity: key });
        }
        let mut replay = Replay::<M>::read_all(&key, snapshot, records)?;
        replay.apply_heads(&model, &key, |_, _| {})?;
        let base = replay.under(&model, &key, model.version())?;
        replay.refuse_earlier(&model, &key)?;
        if replay.ended.is_some() && !model.is_final(&key, &base) {
            let state = model.state_name(&key, &base).to_owned();
            return Err(RecoveryError::Ended { entity: key, state });
        }
        Ok(Self::resume(model, key, options, base, replay, now))
    }

    fn resume(
        model: Arc<M>,
        key: EntityKey,
        options: ParticipantOptions,
        base: M::State,
        replay: Replay<M>,
        now: Millis,
    ) -> (Self, Outputs<M>) {
        let Replay { next_slot, pending, .. } = replay;
        let first = pending.keys().next().copied().unwrap_or(next_slot);
        let mut participant = Self::with_base(model, key, options, base, first);
        let mut out = Vec::new();
        let mut entries = Vec::with_capacity(pending.len());
        for (slot, Pending { prepared, committed }) in pending {
            let Prepared { branch, coordinator, answer, durability, .. } = prepared;
            let (tx, attempt) = (branch.tx, branch.attempt);
            if !committed {
                participant.say(&coordinator, tx, attempt, Said::Ask(slot), &mut out);
            }
            participant
                .standings
                .insert(tx, Standing { attempt, coordinator, durability, stage: Stage::Committed { tell: None } });
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
    /// What `snapshot` and all `records` say, before anything is applied that the snapshot has not.
    pub(super) fn read_all(
        key: &EntityKey,
        snapshot: Option<Snapshot<M::State, M::Event>>,
        records: impl IntoIterator<Item = Record<M::Event>>,
    ) -> Result<Self, RecoveryError> {
        let mut replay = Self::begin(snapshot);
        for (index, record) in records.into_iter().enumerate() {
            replay.read(key, record).map_err(|unread| match unread {
                Unread::Misplaced => RecoveryError::Misplaced { entity: key.clone(), index },
                Unread::Undecodable(cause) => RecoveryError::Unreadable { entity: key.clone(), cause },
            })?;
        }
        replay.pending.retain(|_, pending| pending.committed || !pending.prepared.durability.is_shared());
        Ok(replay)
    }

    /// Leaves out what is not before the slot `end`.
    pub(super) fn end_at(&mut self, end: Slot) {
        self.pending.split_off(&end);
    }

    pub(crate) fn begin(snapshot: Option<Snapshot<M::State, M::Event>>) -> Self {
        let Some(Snapshot { base, next_slot, pending, version }) = snapshot else {
            let (pending, slots) = (BTreeMap::new(), BTreeSet::new());
            return Self { base: None, known: Slot::FIRST, next_slot: Slot::FIRST, pending, slots, ended: None };
        };
        let slots = pending.iter().map(|entry| (entry.prepared.branch.tx, entry.prepared.slot)).collect();
        let pending = pending.into_iter().map(|entry| (entry.prepared.slot, entry)).collect();
        Self { base: Some((base, version)), known: next_slot, next_slot, pending, slots, ended: None }
    }

    /// Takes up one record, if it belongs here.
    pub(crate) fn read(&mut self, key: &EntityKey, record: Record<M::Event>) -> Result<(), Unread> {
        match record {
            #[cfg(planted = "forget_promises")]
            Record::Prepared(_) => {}
            Record::Prepared(prepared) => self.add(Pending { prepared: *prepared, committed: false }),
            Record::Committed { tx, slot, events, at, version, .. } if slot >= self.known => {
                // With a shared journal nobody asks for it again: only its effect matters.
                let answer = Answer { calls: Vec::new(), answers: Vec::new(), state: None, in_line: false };
                let branch = Branch { tx, attempt: Attempt::FIRST, work: Work::of_events(events), at };
                let coordinator = key.clone();
                let durability = Durability::Shared;
                let prepared = Prepared { branch, slot, coordinator, answer, version, durability, overlap: None };
                self.add(Pending { prepared, committed: true });
            }
            Record::Committed { tx, slot, .. } | Record::Outcome { tx, slot, decision: Decision::Commit } => {
                self.commit(tx, slot).ok_or(Unread::Misplaced)?;
            }
            Record::Outcome { slot, decision: Decision::Abort, .. } => {
                self.pending.remove(&slot);
            }
            Record::Tombstone(tombstone) => {
                *self = Self::begin(Some(tombstone.snapshot().map_err(Unread::Undecodable)?));
                let Tombstone { tx, slot, at, .. } = *tombstone;
                self.ended = Some((slot, at, tx));
            }
            Record::Decision(_)
            | Record::Answer(_)
            | Record::End { .. }
            | Record::Timer { .. }
            | Record::Barrier
            | Record::Erased(_)
            | Record::Swept { .. } => return Err(Unread::Misplaced),
        }
        Ok(())
    }

    /// The last transaction of an entity that has ended, with the state that it left and the version of that.
    pub(super) fn end(&self) -> Option<Happened<M::State, M::Event>> {
        let ((slot, at, tx), (state, version)) = self.ended.zip(self.base.clone())?;
        Some(Happened { slot, tx, at, version, events: Vec::new(), state })
    }

    fn add(&mut self, pending: Pending<M::Event>) {
        let Prepared { branch: Branch { tx, attempt, .. }, slot, .. } = pending.prepared;
        if slot < self.known {
            return;
        }
        self.next_slot = self.next_slot.max(slot.next());
        // That an earlier promise was given up may not have been written: a later one says so, too, be it of the same attempt, which
        // was asked for twice. So does a commit, which was written without its attempt. What was committed is written before there is
        // another promise.
        let is_later =
            |other: &Pending<M::Event>| (other.prepared.branch.attempt, other.prepared.slot) > (attempt, slot);
        if !pending.committed && self.of(tx).any(is_later) {
            return;
        }
        let given_up: Vec<Slot> =
            self.of(tx).filter(|other| !other.committed).map(|other| other.prepared.slot).collect();
        given_up.iter().for_each(|slot| drop(self.pending.remove(slot)));
        self.slots.insert((tx, slot));
        self.pending.insert(slot, pending);
    }

    /// What is pending of a transaction.
    fn of(&self, tx: TxId) -> impl Iterator<Item = &Pending<M::Event>> {
        let slots = self.slots.range((tx, Slot::default())..=(tx, Slot(u64::MAX)));
        let pending = slots.filter_map(|(_, slot)| self.pending.get(slot));
        pending.filter(move |pending| pending.prepared.branch.tx == tx)
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

    /// The first committed one, if no open effect stands before it, and if it is in line nothing open at all.
    fn ready_head(&self) -> Option<Slot> {
        let first = *self.pending.first_key_value()?.0;
        let mut heads =
            self.pending.iter().skip_while(|(_, entry)| !entry.committed && !entry.prepared.branch.work.has_event());
        let (&slot, head) = heads.next().filter(|(_, entry)| entry.committed)?;
        (slot == first || !head.prepared.answer.in_line).then_some(slot)
    }

    /// Takes the next committed one whose place in the order is known: nothing open stands before it.
    pub(crate) fn take_head(&mut self) -> Option<Prepared<M::Event>> {
        let slot = self.ready_head()?;
        let prepared = self.pending.remove(&slot).expect("it was found").prepared;
        self.slots.remove(&(prepared.branch.tx, slot));
        Some(prepared)
    }

    /// Applies what is committed, as far as nothing before it is open, and shows each with the state that it leaves.
    pub(super) fn apply_heads(
        &mut self,
        model: &M,
        entity: &EntityKey,
        mut show: impl FnMut(&Prepared<M::Event>, &M::State),
    ) -> Result<(), RecoveryError> {
        while let Some(prepared) = self.take_head() {
            let Prepared { branch: Branch { tx, work, at, .. }, version, .. } = &prepared;
            let (tx, slot, at, version) = (*tx, prepared.slot, *at, *version);
            let mut state = self.under(model, entity, version)?;
            let model = known(model, entity, version)?;
            for event in work.events() {
                state = model.next(entity, &state, event, at).map_err(|reasons| RecoveryError::NotPossible {
                    entity: entity.clone(),
                    tx,
                    slot,
                    reasons,
                })?;
            }
            show(&prepared, &state);
            self.leave(state, version);
        }
        Ok(())
    }

    /// The state so far, as it is under `version`. It is given away, and [`leave`](Self::leave) is to say what follows.
    pub(crate) fn under(&mut self, model: &M, entity: &EntityKey, version: u32) -> Result<M::State, RecoveryError> {
        let model = known(model, entity, version)?;
        match self.base.take() {
            None => model.initial(entity).ok_or_else(|| RecoveryError::NoSuchEntity { entity: entity.clone() }),
            Some((state, from)) if from == version => Ok(state),
            Some((state, from)) if from > version => {
                self.base = Some((state, from));
                Err(RecoveryError::NoSuchVersion { entity: entity.clone(), version: from })
            }
            Some((state, from)) => model.migrated(entity, state, from).map_err(|reasons| RecoveryError::NotMigrated {
                entity: entity.clone(),
                from,
                reasons,
            }),
        }
    }

    /// The state so far is this one, of this version.
    pub(crate) fn leave(&mut self, state: M::State, version: u32) {
        self.base = Some((state, version));
    }

    /// What is committed under `slot` and not taken yet.
    pub(crate) fn committed(&self, slot: Slot) -> Option<TxId> {
        let pending = self.pending.get(&slot).filter(|pending| pending.committed)?;
        Some(pending.prepared.branch.tx)
    }

    /// Whether `tx` is promised or committed under `slot`, and not taken yet.
    pub(crate) fn is_pending(&self, tx: TxId, slot: Slot) -> bool {
        self.pending.get(&slot).is_some_and(|pending| pending.prepared.branch.tx == tx)
    }

    /// The committed ones that wait for one before them that is not decided.
    pub(crate) fn waiting(&self) -> Vec<TxId> {
        let committed = self.pending.values().filter(|pending| pending.committed);
        committed.map(|pending| pending.prepared.branch.tx).collect()
    }

    /// Fails if something is open that was promised under another version: nobody could tell whether it is possible now.
    fn refuse_earlier(&self, model: &M, entity: &EntityKey) -> Result<(), RecoveryError> {
        let earlier = self.pending.values().find(|pending| pending.prepared.version != model.version());
        earlier.map_or(Ok(()), |Pending { prepared: Prepared { branch, version, .. }, .. }| {
            Err(RecoveryError::InDoubtUnderEarlier { entity: entity.clone(), tx: branch.tx, version: *version })
        })
    }
}

pub(crate) fn known<'m, M: Model>(model: &'m M, entity: &EntityKey, version: u32) -> Result<&'m M, RecoveryError> {
    model.under(version).ok_or_else(|| RecoveryError::NoSuchVersion { entity: entity.clone(), version })
}
