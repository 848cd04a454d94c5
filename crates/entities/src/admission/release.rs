//! Early lock release: the next transaction builds on an effect that is on its way to the disk.
//!
//! # Problem
//! Under two-phase locking an entity is held until the decision is durable, so that one entity commits one transaction per
//! sync. Nothing can happen to a decision any more that has its place in the journal, but for a refused append or a crash.
//!
//! # States
//! *Held* (admitted; nobody else is), *released* (pre-committed: the decision has its place in the journal, and the next one may be
//! admitted), *committed* (the decision is durable), or *doomed* (one before it has aborted, so that it will).
//! What is in progress is a chain: all but the last one are released, committed or doomed.
//!
//! # Steps
//! 1. A newcomer is judged on the state that the chain leaves if all of it commits. Its vote names the last one before it that
//!    changes the entity and is not known to be durable: its *commit dependency*.
//! 2. When all have voted yes, the coordinator has the records appended, directly behind those of the commit dependencies or not at all.
//!    As soon as they have their place, it says so to the participants, which release.
//! 3. A refusal is told only if it holds in all outcomes of the chain. A transaction that is refused elsewhere and has relied on what
//!    is not durable begins again, and relies on nothing then ([`Request::certain`](super::Request)).
//! 4. What only asks has no record that could stand behind another one. It is judged in all outcomes.
//!
//! # Why it is safe
//! * *No effect outlives one that it builds on.* The record of a dependent names as its predecessor the very record that it builds
//!   on. The journal makes groups durable in the order in which they got their places, so that after a crash the first is there if the
//!   second is; and if the first was refused, so is the second, whenever it is appended.
//! * *Nobody hears of what may still vanish.* A commit is answered when it is durable, and so is all that it depends on. A refusal and
//!   an answer to a question depend on nothing that is undecided. Reads look at all outcomes, as always.
//! * *Serial.* The order is that of the places in the journal. An entity is released by a transaction that has its place, so what is
//!   admitted there afterwards gets a later one, and it gets it between the question and the answer of its client.
//! * *No cascade of messages.* What is doomed has voted, and hears of its abort from its own coordinator, whose append is refused.
//!   Until then it holds the entity.
//!
//! # Sources
//! *Implementation techniques for main memory database systems*, SIGMOD 1984: pre-committed transactions. Graefe et al.,
//! *Controlled lock violation*, SIGMOD 2013: the name of the commit dependency. There a reader takes over the dependency of what it has
//! read; here it waits, since it writes nothing that could be refused.

use std::sync::Arc;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::entity::{Answer, Branch};
use super::progress::{Entry, Outcomes, Progress};
use super::{Admission, Consequences, Strategy};
use crate::model::Model;
use crate::tx::{Slot, TxId};

/// What a vote says under [`Strategy::LockingEarlyRelease`](super::Strategy::LockingEarlyRelease).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyRelease {
    /// The transaction that must commit for this one to commit. Its record directly precedes that of this one here.
    pub depends_on: Option<TxId>,
}

/// What is kept of one that was admitted under early release.
pub(super) struct Release<S> {
    pub(super) depends_on: Option<TxId>,
    /// The state that it leaves if everything before it commits; nothing if it changes nothing.
    after: Option<S>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Held,
    Released,
    Doomed,
}

impl<M: Model> Admission<M> {
    /// What the vote of `tx`, which is in progress, says of its early release; nothing under other strategies.
    pub fn early_release(&self, tx: TxId) -> Option<EarlyRelease> {
        let release = self.progress.find(tx)?.release.as_ref()?;
        Some(EarlyRelease { depends_on: release.depends_on })
    }

    /// Whether `tx` is in progress and can only abort, since one that it depends on has.
    pub fn is_doomed(&self, tx: TxId) -> bool {
        self.progress.find(tx).is_some_and(Entry::is_doomed)
    }

    /// Releases the entity: the decision to commit `tx` has its place in the journal, before all that is appended later. Without effect
    /// if `tx` does not hold it under `slot`, or under another strategy.
    pub fn precommit(&mut self, tx: TxId, slot: Slot) -> Consequences<M::Event> {
        let is_released = self.strategy == Strategy::LockingEarlyRelease && self.progress.release(tx, slot);
        let settled = if is_released { self.wake() } else { Vec::new() };
        Consequences { settled, ..Consequences::default() }
    }
}

impl<M: Model> Entry<M> {
    fn is_in(&self, stage: Stage) -> bool {
        self.release.as_ref().is_some_and(|release| release.stage == stage)
    }

    pub(super) fn is_released(&self) -> bool {
        self.is_in(Stage::Released)
    }

    pub(super) fn is_doomed(&self) -> bool {
        self.is_in(Stage::Doomed)
    }

    fn after(&self) -> Option<&M::State> {
        self.release.as_ref()?.after.as_ref()
    }
}

impl<M: Model> Progress<M> {
    /// Whether an open one has not been released.
    pub(super) const fn is_held(&self) -> bool {
        self.open > self.released
    }

    /// Whether what is in progress was admitted under early release. What a restart has found was not, and holds the entity until all
    /// of it has left.
    pub(super) fn is_chain(&self) -> bool {
        self.entries.back().is_some_and(|entry| entry.release.is_some())
    }

    /// The state if everything in progress commits, which is released or committed.
    pub(super) fn tip(&self) -> &M::State {
        self.entries.iter().rev().find_map(Entry::after).unwrap_or_else(|| self.base())
    }

    /// The last one that changes the entity, unless it is known to be durable.
    pub(super) fn commit_dependency(&self) -> Option<TxId> {
        let last = self.entries.iter().rev().find(|entry| entry.branch.work.has_event())?;
        (!last.committed).then_some(last.branch.tx)
    }

    /// Appends one that holds the entity and leaves the one state in `after`.
    pub(super) fn push_held(
        &mut self,
        branch: Branch<M::Event>,
        answer: Answer<M::Event>,
        after: &Outcomes<M::State>,
    ) -> Slot {
        let has_event = branch.work.has_event();
        let depends_on = self.commit_dependency().filter(|_| has_event);
        let after = has_event.then(|| after[0].clone());
        let slot = self.push(branch, answer, None, None, None);
        let entry = self.entries.back_mut().expect("it was pushed");
        entry.release = Some(Release { depends_on, after, stage: Stage::Held });
        slot
    }

    /// Lets the next one be admitted behind `tx`, if that holds the entity under `slot`; says whether it did.
    pub(super) fn release(&mut self, tx: TxId, slot: Slot) -> bool {
        let Some(i) = self.position(tx) else { return false };
        let entry = &mut self.entries[i];
        if entry.committed || entry.slot != slot {
            return false;
        }
        match &mut entry.release {
            Some(release) if release.stage == Stage::Held => {
                release.stage = Stage::Released;
                self.released += 1;
                true
            }
            _ => false,
        }
    }

    /// Dooms what was built on `aborted`, which stood at `i`.
    pub(super) fn doom_behind(&mut self, i: usize, aborted: &Entry<M>) {
        self.released -= usize::from(aborted.is_released());
        if aborted.release.is_none() || !aborted.branch.work.has_event() {
            return;
        }
        for entry in self.entries.range_mut(i..).filter(|entry| entry.branch.work.has_event()) {
            assert!(!entry.committed, "{} is committed and depends on {}", entry.branch.tx, aborted.branch.tx);
            self.released -= usize::from(entry.is_released());
            if let Some(release) = &mut entry.release {
                release.stage = Stage::Doomed;
            }
        }
    }

    /// How many at the front are certain to commit: a committed one says so of all before it.
    fn certain_count(&self) -> usize {
        let last = self.entries.iter().rposition(|entry| entry.committed && entry.branch.work.has_event());
        last.map_or(0, |last| last + 1)
    }

    pub(super) fn certain_in_chain(&self) -> &M::State {
        let certain = self.entries.range(..self.certain_count());
        certain.rev().find_map(Entry::after).unwrap_or_else(|| self.base())
    }

    /// The states after each one that may be the last to commit, unless there are too many.
    pub(super) fn outcomes_of_chain(&self) -> Option<Outcomes<M::State>> {
        let mut outcomes = IndexSet::from([self.certain_in_chain().clone()]);
        for entry in self.entries.range(self.certain_count()..).filter(|entry| !entry.is_doomed()) {
            outcomes.extend(entry.after().cloned());
            if outcomes.len() > self.outcomes_max {
                return None;
            }
        }
        Some(Arc::new(outcomes))
    }
}
