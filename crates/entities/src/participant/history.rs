//! What has happened to an entity, from its records.
//!
//! # Order
//! Transactions are shown in the order of their effects, which is that of their slots, and none is shown as long as one before it
//! is not decided: what has been shown never gets another predecessor.
//!
//! # Time
//! A transaction has the time at which its command was taken, and one that was taken earlier may have its effect later. The state at a
//! time is the one after the longest beginning of the history in which no transaction is later: a state that the entity has had, and
//! for a later time never an earlier one.

use serde::{Deserialize, Serialize};

use super::recovery::{RecoveryError, Replay};
use crate::EntityKey;
use crate::model::Model;
use crate::record::{Erasure, Prepared, Record};
use crate::tx::{Slot, Timestamp, TxId};

/// Which part of a history is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryPart {
    /// At most `limit` transactions, the first ones behind the slot `after`.
    Page {
        /// The slot of the last transaction that is known already; nothing for the first page.
        after: Option<Slot>,
        /// How many at most.
        limit: usize,
    },
    /// The last transaction of the longest beginning in which none is later than this.
    At(Timestamp),
}

impl HistoryPart {
    /// A page of half as many transactions; nothing if it is of one, or no page.
    #[must_use]
    pub const fn half(self) -> Option<Self> {
        match self {
            Self::Page { after, limit: limit @ 2.. } => Some(Self::Page { after, limit: limit / 2 }),
            Self::Page { .. } | Self::At(_) => None,
        }
    }
}

/// A part of the history of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History<S, E> {
    /// The state before the first of the transactions.
    pub before: S,
    /// The transactions, in the order of their effects.
    pub transactions: Vec<Happened<S, E>>,
    /// Whether more follow behind the last one.
    pub has_more: bool,
    /// Whether the entity has ended so long ago that its records were discarded: then only the last transaction is known, and not its
    /// events.
    #[serde(default)]
    pub is_discarded: bool,
    /// When the personal values of the entity were erased, in order.
    #[serde(default)]
    pub erasures: Vec<Erasure>,
}

/// A part of the history of an entity of a model.
pub type HistoryOf<M> = History<<M as Model>::State, <M as Model>::Event>;

/// What one transaction did to an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happened<S, E> {
    /// The place of the transaction in the history; not every number has one.
    pub slot: Slot,
    /// The transaction.
    pub tx: TxId,
    /// The time of its events.
    pub at: Timestamp,
    /// The version of the contract under which they happened.
    pub version: u32,
    /// The events, in order.
    pub events: Vec<E>,
    /// The state that they left, under that version.
    pub state: S,
}

/// The `part` of the history of `key` that lies before the slot `end`, from all `records` of the entity.
///
/// Takes time in proportion to all records.
///
/// # Errors
/// As [`Participant::recover`](super::Participant::recover).
pub(crate) fn history<M: Model>(
    model: &M,
    key: &EntityKey,
    part: HistoryPart,
    end: Slot,
    records: impl IntoIterator<Item = Record<M::Event>>,
) -> Result<HistoryOf<M>, RecoveryError> {
    let nothing = || RecoveryError::NoSuchEntity { entity: key.clone() };
    let mut chosen =
        Chosen::<M> { part, before: model.initial(key).ok_or_else(nothing)?, transactions: Vec::new(), is_over: false };
    let mut replay = Replay::read_all(key, None, records)?;
    replay.end_at(end);
    let last = replay.end();
    let is_discarded = last.is_some();
    if let Some(last) = last {
        chosen.take(last);
    }
    replay.apply_heads(model, key, |prepared, state| chosen.see(prepared, state))?;
    let Chosen { before, transactions, is_over, .. } = chosen;
    let has_more = is_over && matches!(part, HistoryPart::Page { .. });
    Ok(History { before, transactions, has_more, is_discarded, erasures: Vec::new() })
}

/// What is chosen from the transactions seen so far.
struct Chosen<M: Model> {
    part: HistoryPart,
    before: M::State,
    transactions: Vec<Happened<M::State, M::Event>>,
    is_over: bool,
}

impl<M: Model> Chosen<M> {
    /// Takes up the next transaction, which leaves `state`.
    fn see(&mut self, prepared: &Prepared<M::Event>, state: &M::State) {
        let Prepared { branch, slot, version, .. } = prepared;
        if branch.work.has_event() {
            let events = branch.work.events().cloned().collect();
            let (slot, version, state) = (*slot, *version, state.clone());
            self.take(Happened { slot, tx: branch.tx, at: branch.at, version, events, state });
        }
    }

    fn take(&mut self, happened: Happened<M::State, M::Event>) {
        if self.is_over {
            return;
        }
        match self.part {
            HistoryPart::Page { after: Some(after), .. } if happened.slot <= after => {
                self.before = happened.state;
                return;
            }
            HistoryPart::Page { limit, .. } if self.transactions.len() == limit => self.is_over = true,
            HistoryPart::At(time) if happened.at > time => self.is_over = true,
            HistoryPart::Page { .. } => {}
            HistoryPart::At(_) => {
                if let Some(earlier) = self.transactions.pop() {
                    self.before = earlier.state;
                }
            }
        }
        if !self.is_over {
            self.transactions.push(happened);
        }
    }
}
