//! From the journal back to a coordinator that stands by every decision and every answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::transaction::Transaction;
use super::{Coordinator, CoordinatorOptions, Outputs, Phase};
use crate::EntityKey;
use crate::model::Model;
use crate::record::{AnswerRecord, DecisionRecord, Record};
use crate::tx::{Millis, TxId};

/// The state of a coordinator at one point of its journal. Records before that point need not be read again; to read some of
/// them again does no harm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorSnapshot {
    /// The decisions that not everybody has acknowledged.
    pub decisions: Vec<DecisionRecord>,
    /// The answers for repeated requests, oldest first.
    pub answers: Vec<AnswerRecord>,
}

/// Why a coordinator cannot be recovered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoordinatorRecoveryError {
    /// A record of a participant.
    #[error("{coordinator}: record {index} of those read is not one of a coordinator")]
    Misplaced {
        /// The coordinator.
        coordinator: EntityKey,
        /// Which of the records read, counted from 0.
        index: usize,
    },
}

impl<M: Model> Coordinator<M> {
    /// The coordinator as its journal knows it: `snapshot`, if there is one, and every record after it.
    ///
    /// The outputs tell every undelivered commit again. A transaction without a decision is forgotten, which is an
    /// abort.
    ///
    /// # Errors
    /// If a record is not one of a coordinator.
    pub fn recover(
        model: Arc<M>,
        key: EntityKey,
        options: CoordinatorOptions,
        snapshot: Option<CoordinatorSnapshot>,
        records: impl IntoIterator<Item = Record<M::Event>>,
        now: Millis,
    ) -> Result<(Self, Outputs<M>), CoordinatorRecoveryError> {
        let mut coordinator = Self::new(model, key, options);
        let CoordinatorSnapshot { decisions, answers } = snapshot.unwrap_or_default();
        for answer in &answers {
            coordinator.answers.keep(answer);
        }
        let mut decided: BTreeMap<TxId, DecisionRecord> = BTreeMap::new();
        decided.extend(decisions.into_iter().map(|decision| (decision.tx, decision)));
        for (index, record) in records.into_iter().enumerate() {
            match record {
                Record::Decision(decision) => {
                    coordinator.answers.keep(&decision.answer);
                    if !decision.participants.is_empty() {
                        decided.insert(decision.tx, *decision);
                    }
                }
                Record::Answer(answer) => coordinator.answers.keep(&answer),
                Record::End { tx } => {
                    decided.remove(&tx);
                }
                Record::Barrier => {}
                Record::Prepared(_)
                | Record::Outcome { .. }
                | Record::Committed { .. }
                | Record::Timer { .. }
                | Record::Tombstone(_)
                | Record::Erased(_)
                | Record::Swept { .. } => {
                    return Err(CoordinatorRecoveryError::Misplaced { coordinator: coordinator.key, index });
                }
            }
        }
        let mut out = Vec::new();
        for (tx, decision) in decided {
            coordinator.transactions.insert(tx, Box::new(Transaction::decided(decision)));
            coordinator.start_telling(tx, now, &mut out);
        }
        Ok((coordinator, out))
    }

    /// What recovery needs of the present state. Store it at a position of the journal such that this coordinator has seen
    /// every earlier record.
    pub fn snapshot(&self) -> CoordinatorSnapshot {
        let telling = self.transactions.iter().filter(|(_, t)| matches!(t.phase, Phase::Telling { .. }));
        CoordinatorSnapshot {
            decisions: telling.map(|(&tx, transaction)| transaction.decision(tx)).collect(),
            answers: self.answers.all().cloned().collect(),
        }
    }
}
