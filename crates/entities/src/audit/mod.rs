//! Whether a contract allows what a journal says has happened.
//!
//! # Problem
//! A journal holds what was admitted, and nothing in it says why. What was written by a faulty program, or by somebody with access to
//! the disk, has checksums like everything else. The contract tells the difference: replayed under it, what has happened is possible,
//! event by event.
//!
//! # Steps
//! * [`audit`] replays one entity in the order of its slots, as a recovery does, and judges each transaction there as admission
//!   does: what was due before, the life cycle, roles, guards, conditions, and the invariants of the state that it leaves. It goes on
//!   behind what the contract refuses, with the state that the effects lead to all the same.
//! * [`miscalls`] compares what the events of one transaction call with the events that it has, at all entities.
//! * [`disagreements`] compares the decision on a transaction over several journals with what its participants hold.
//! * [`Cuts`] says where several journals that are written to meanwhile have to be cut, so that there is nothing to find between them.
//!
//! # What it cannot tell
//! * Refused commands are not in a journal, so nobody can tell whether they were refused rightly.
//! * What an event has asked other entities is taken from its record. A journal that all participants share does not say at
//!   which place of the order of another entity an answer was given, or a condition of it held.
//! * A timer that was to come first, at the time of the event itself, is overlooked in a shared journal: it does not say which
//!   transactions were begun by a timer.

mod agreement;
mod calls;
mod cut;

use std::collections::{BTreeMap, HashSet};

pub use self::agreement::{Decided, Disagreement, DisagreementKind, Held, Holding, disagreements};
pub use self::calls::{Miscall, miscalls};
pub use self::cut::Cuts;
use crate::EntityKey;
use crate::admission::{Decision, broken, due_before, possible};
use crate::model::{Action, Call, Calls, Model};
use crate::participant::{Durability, RecoveryError, Replay, known};
use crate::reason::{Reason, Refusal};
use crate::record::{Prepared, Record};
use crate::tx::{Slot, Timestamp, TxId};

/// What an audit finds, in the order of the effects.
#[derive(Debug)]
pub enum Audited<'a, S, E, P> {
    /// A transaction, with what the contract says of it.
    Judged(Judged<'a, S, E, P>),
    /// A transaction that cannot be judged. Its effect is left out.
    Unjudged {
        /// Where it is committed.
        position: P,
        /// The transaction.
        tx: TxId,
        /// Its slot.
        slot: Slot,
        /// Why not. Behind [`RecoveryError::NotMigrated`] nothing of the entity is judged.
        why: RecoveryError,
    },
    /// A record that cannot follow on those before it.
    Contradicted {
        /// The record.
        position: P,
        /// Its transaction, if it is of one.
        tx: Option<TxId>,
        /// Its slot, if it has one.
        slot: Option<Slot>,
        /// What is wrong with it.
        why: Contradiction,
    },
}

/// What an audit finds in the journal of a model.
pub type AuditedOf<'a, M, P> = Audited<'a, <M as Model>::State, <M as Model>::Event, P>;

/// What one transaction did at one entity, and what the contract says of it.
#[derive(Debug)]
pub struct Judged<'a, S, E, P> {
    /// Where it is committed.
    pub position: P,
    /// The transaction.
    pub tx: TxId,
    /// Its slot.
    pub slot: Slot,
    /// The time of its events.
    pub at: Timestamp,
    /// The version of the contract that it is judged under.
    pub version: u32,
    /// How its promise was kept: with [`Durability::TwoPhase`], other parts of it may be in other journals.
    pub durability: Durability,
    /// Its events, in order.
    pub events: Vec<Acted<E>>,
    /// Everything that the contract refuses, in order; nothing if it allows the transaction. Invariants are only asked if it allows
    /// all events.
    pub refusals: Vec<Refusal>,
    /// The state that it finds.
    pub before: &'a S,
    /// The state that it leaves. An event that is refused has changed what it changes where it is allowed, as far as that can be told.
    pub after: &'a S,
}

/// An event that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted<E> {
    /// The event.
    pub event: E,
    /// What it calls, and the conditions that it asks; nothing if that cannot be told, because the event was refused.
    pub calls: Option<Vec<Call<E>>>,
}

/// Why a record cannot follow on those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// Its slot belongs to a transaction that is committed. The effect of that one is lost.
    #[error("takes the slot of {by}, which is committed")]
    SlotTaken {
        /// That transaction.
        by: TxId,
    },
    /// The transaction is committed under another slot of the same entity.
    #[error("commits a transaction for the second time")]
    Repeated,
    /// It commits what was not promised.
    #[error("commits what was not promised")]
    Unpromised,
    /// It aborts what is committed, whose effect is lost.
    #[error("aborts what is committed")]
    TakenBack,
    /// It is of a kind that entities do not have, or of a slot that no entity gives.
    #[error("is one that no entity has")]
    Misplaced,
}

/// Judges everything that has happened to `entity`, by all its records, and shows what it finds to `see`. Returns the committed
/// transactions that are not judged, because one before them is not decided.
///
/// Records come in the order of their [slots](Record::slot), and those of one slot in the order of the journal. Each transaction is
/// judged under the version of the contract that its record names, and states are migrated in between.
///
/// # Panics
/// If records are not in this order.
///
/// # Complexity
/// Time in proportion to the records. Memory for what is undecided at one time, and about 50 bytes for each transaction.
pub fn audit<M: Model, P: Copy>(
    model: &M,
    entity: &EntityKey,
    records: impl IntoIterator<Item = (P, Record<M::Event>)>,
    see: impl FnMut(AuditedOf<'_, M, P>),
) -> Vec<TxId> {
    let mut auditor = Auditor {
        model,
        entity,
        replay: Replay::begin(None),
        commits: BTreeMap::new(),
        committed: HashSet::new(),
        last: Slot::default(),
        is_lost: false,
        see,
    };
    records.into_iter().for_each(|(position, record)| auditor.read(position, record));
    auditor.advance();
    auditor.replay.waiting()
}

struct Auditor<'m, M: Model, P, S> {
    model: &'m M,
    entity: &'m EntityKey,
    replay: Replay<M>,
    /// Where those are committed that are not judged yet.
    commits: BTreeMap<Slot, P>,
    committed: HashSet<TxId>,
    /// The slot of the last record.
    last: Slot,
    /// Whether the state is not known any more.
    is_lost: bool,
    see: S,
}

impl<M: Model, P: Copy, S: FnMut(AuditedOf<'_, M, P>)> Auditor<'_, M, P, S> {
    fn read(&mut self, position: P, record: Record<M::Event>) {
        let slot = record.slot();
        if slot.is_none_or(|slot| slot < Slot::FIRST) {
            let (tx, why) = (None, Contradiction::Misplaced);
            return (self.see)(Audited::Contradicted { position, tx, slot, why });
        }
        if let Some(slot) = slot {
            assert!(slot >= self.last, "{}: slot {slot} comes behind slot {}", self.entity, self.last);
            if slot > self.last {
                self.advance();
                self.last = slot;
            }
        }
        let (tx, why) = match &record {
            // What a transaction had promised before it was promised again, and committed there.
            Record::Prepared(prepared) if self.committed.contains(&prepared.branch.tx) => return,
            Record::Committed { tx, slot, .. } => {
                let taken = self.replay.committed(*slot).map(|by| Contradiction::SlotTaken { by });
                let is_new = self.commit(*tx, *slot, position);
                (Some(*tx), taken.or((!is_new).then_some(Contradiction::Repeated)))
            }
            Record::Outcome { tx, slot, decision: Decision::Commit } if self.replay.is_pending(*tx, *slot) => {
                let is_told_again = self.replay.committed(*slot).is_some();
                let is_new = is_told_again || self.commit(*tx, *slot, position);
                (Some(*tx), (!is_new).then_some(Contradiction::Repeated))
            }
            Record::Outcome { tx, decision: Decision::Commit, .. } => (Some(*tx), Some(Contradiction::Unpromised)),
            Record::Outcome { tx, slot, decision: Decision::Abort } => {
                let is_taken_back = self.replay.committed(*slot).is_some();
                (Some(*tx), is_taken_back.then_some(Contradiction::TakenBack))
            }
            _ => (None, None),
        };
        if let Some(why) = why {
            (self.see)(Audited::Contradicted { position, tx, slot, why });
        }
        // What does not fit has just been told.
        let _ = self.replay.read(self.entity, record);
    }

    /// Notes a commit, and says whether it is the first of its transaction.
    fn commit(&mut self, tx: TxId, slot: Slot, position: P) -> bool {
        self.commits.insert(slot, position);
        self.committed.insert(tx)
    }

    /// Judges what is committed, as far as its place in the order is known.
    fn advance(&mut self) {
        while let Some(prepared) = self.replay.take_head() {
            let position = self.commits.remove(&prepared.slot).expect("what is committed has a record that says so");
            if !self.is_lost {
                self.judge(position, prepared);
            }
        }
    }

    fn judge(&mut self, position: P, prepared: Prepared<M::Event>) {
        let Prepared { mut branch, slot, version, durability, .. } = prepared;
        let (model, entity, tx, at) = (self.model, self.entity, branch.tx, branch.at);
        let found = self.replay.under(model, entity, version);
        let (before, model) = match found.and_then(|before| Ok((before, known(model, entity, version)?))) {
            Ok(found) => found,
            Err(why) => {
                self.is_lost = matches!(why, RecoveryError::NotMigrated { .. });
                (self.see)(Audited::Unjudged { position, tx, slot, why });
                return;
            }
        };
        let (mut events, mut refusals) = (Vec::new(), Vec::new());
        let name = work_name(model, branch.work.events());
        // A commit in a shared journal does not say whether a timer has begun it: then less comes before it.
        branch.work.timed |= durability == Durability::Shared;
        if let Some(due) = due_before(model, entity, &branch, &before) {
            let reason = Reason::Due { event: model.event_name(&due.event).to_owned(), at: due.at };
            refusals.push(refusal(entity, &name, vec![reason]));
        }
        let mut after = before.clone();
        for action in branch.work.actions {
            match action {
                Action::Event(event) => match possible(model, entity, &event, at, &after) {
                    Ok((next, calls)) => {
                        after = next;
                        events.push(Acted { event, calls: Some(calls) });
                    }
                    Err(reasons) => {
                        refusals.push(refusal(entity, model.event_name(&event), reasons));
                        let calls = calls_of_refused(model, entity, &after, &event, at);
                        after = model.projected(entity, &after, &event, at).unwrap_or(after);
                        events.push(Acted { event, calls });
                    }
                },
                Action::Condition(condition) => {
                    if let Some(reason) = broken(model, entity, &condition, at, &after) {
                        refusals.push(refusal(entity, &condition.text, vec![reason]));
                    }
                }
                Action::Ask(_) => {}
            }
        }
        // Invariants are asked, as by admission, of the state that an allowed transaction leaves.
        if !events.is_empty() && refusals.is_empty() {
            let broken = model.broken(entity, &before, &after, at);
            if !broken.is_empty() {
                refusals.push(refusal(entity, &name, broken));
            }
        }
        let judged =
            Judged { position, tx, slot, at, version, durability, events, refusals, before: &before, after: &after };
        (self.see)(Audited::Judged(judged));
        self.replay.leave(after, version);
    }
}

fn refusal(entity: &EntityKey, event: &str, reasons: Vec<Reason>) -> Refusal {
    Refusal { entity: entity.clone(), event: event.to_owned(), reasons, callers: Vec::new() }
}

/// The names of the events, each once in a row.
fn work_name<'a, M: Model>(model: &'a M, events: impl Iterator<Item = &'a M::Event>) -> String {
    let mut names: Vec<&str> = events.map(|event| model.event_name(event)).collect();
    names.dedup();
    names.join(", ")
}

/// What an event calls that is refused in `state`, if that follows from the state or from nothing but its arguments.
fn calls_of_refused<M: Model>(
    model: &M,
    entity: &EntityKey,
    state: &M::State,
    event: &M::Event,
    at: Timestamp,
) -> Option<Vec<Call<M::Event>>> {
    [Some(state), None].into_iter().find_map(|state| match model.calls(entity, state, event, at) {
        Calls::Known(calls) => Some(calls),
        Calls::DependsOnState | Calls::Refused(_) => None,
    })
}
