//! Whether what several journals hold of one transaction agrees with its decision.

use serde::{Deserialize, Serialize};

use crate::EntityKey;
use crate::tx::Slot;

/// A decision to commit, and where the journal of its coordinator has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided<P> {
    /// Where it is recorded.
    pub position: P,
    /// The participants with other journals, each with the slot of its promise.
    pub participants: Vec<(EntityKey, Slot)>,
}

/// What the journal of a participant says of a transaction of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held<P> {
    /// Where it is recorded.
    pub position: P,
    /// The participant.
    pub entity: EntityKey,
    /// The slot that it gives the transaction.
    pub slot: Slot,
    /// What it says.
    pub holding: Holding,
}

/// What a participant has recorded of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holding {
    /// It promises to commit.
    Promised,
    /// It has learnt that it commits.
    Committed,
    /// It has learnt that it does not.
    Aborted,
}

/// What does not agree, at which participant, and the record that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement<P> {
    /// The record.
    pub position: P,
    /// The participant.
    pub entity: EntityKey,
    /// The slot that the record names.
    pub slot: Slot,
    /// What is wrong.
    pub kind: DisagreementKind,
}

/// What does not agree between a participant and the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DisagreementKind {
    /// The participant has committed what no coordinator has decided.
    #[error("commits what no coordinator has decided to commit")]
    Undecided,
    /// The participant has committed, and the decision does not name it.
    #[error("commits, and the decision does not name it")]
    Unnamed,
    /// The participant has committed under another slot than the decision names.
    #[error("commits under another slot than the decision, which names {decided}")]
    OtherSlot {
        /// The slot of the decision.
        decided: Slot,
    },
    /// The decision names a participant that has neither promised nor committed anything.
    #[error("has neither an effect nor a promise of what is decided to commit there")]
    Lost,
    /// The participant has aborted what is decided to commit.
    #[error("aborts what is decided to commit")]
    Aborted,
    /// All participants have acknowledged the commit, as their coordinator says, and this one has not committed.
    #[error("has not committed what it has acknowledged to its coordinator")]
    Unapplied,
    /// The transaction is decided for the second time.
    #[error("is named by a second decision on the transaction")]
    Redecided,
}

/// What does not agree between the `decisions` on one transaction and all that its participants with other journals have `held` of it.
/// `acknowledged` is where its coordinator notes that all have acknowledged its decision.
///
/// A prefix of each journal is enough. `is_settled` says of a record whether all that must have happened before it lies within these
/// prefixes; of other records nothing is demanded. A promise without a decision is in doubt, and agrees with everything.
///
/// # Complexity
/// O(n²) comparisons of entities in what is held and decided.
pub fn disagreements<P: Copy>(
    decisions: &[Decided<P>],
    held: &[Held<P>],
    acknowledged: Option<P>,
    is_settled: impl Fn(P) -> bool,
) -> Vec<Disagreement<P>> {
    let mut found = Vec::new();
    for Decided { position, participants } in decisions.iter().skip(1) {
        let of = |(entity, slot): &(EntityKey, Slot)| (entity.clone(), *slot);
        let named = participants.iter().map(of).map(|(entity, slot)| Disagreement {
            position: *position,
            entity,
            slot,
            kind: DisagreementKind::Redecided,
        });
        found.extend(named);
    }
    let first = decisions.first();
    for commit in held.iter().filter(|held| held.holding == Holding::Committed) {
        let Held { position, entity, slot, .. } = commit;
        let named =
            |decided: &Decided<P>| decided.participants.iter().find(|(of, _)| of == entity).map(|&(_, slot)| slot);
        let kind = match (first, first.and_then(named)) {
            (None, _) if !is_settled(*position) => continue,
            (None, _) => DisagreementKind::Undecided,
            (Some(_), None) => DisagreementKind::Unnamed,
            (Some(_), Some(decided)) if decided == *slot => continue,
            (Some(_), Some(decided)) => DisagreementKind::OtherSlot { decided },
        };
        found.push(Disagreement { position: *position, entity: entity.clone(), slot: *slot, kind });
    }
    let Some(decided) = first.filter(|decided| is_settled(decided.position)) else { return found };
    for (entity, slot) in &decided.participants {
        let of_entity = || held.iter().filter(|held| held.entity == *entity);
        let at = |holding| of_entity().find(|held| held.slot == *slot && held.holding == holding);
        let (position, kind) = if of_entity().any(|held| held.holding == Holding::Committed) {
            continue;
        } else if let Some(aborted) = at(Holding::Aborted) {
            (aborted.position, DisagreementKind::Aborted)
        } else if at(Holding::Promised).is_none() {
            (decided.position, DisagreementKind::Lost)
        } else if let Some(end) = acknowledged.filter(|end| is_settled(*end)) {
            (end, DisagreementKind::Unapplied)
        } else {
            continue;
        };
        found.push(Disagreement { position, entity: entity.clone(), slot: *slot, kind });
    }
    found
}
