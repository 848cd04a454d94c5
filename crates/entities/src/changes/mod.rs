//! The changes of all entities of one journal, in the order of their effects.
//!
//! # Order
//! The record of a later slot may stand in the journal before that of an earlier one, whose transaction took longer. So a change has a
//! *place*: the position of the last record among its own and those of all changes before it at its entity. Changes come in the order
//! of their places, and those of one place, which are of one entity, in that of their slots. That is a function of the journal alone:
//! each reader finds the same order, and finds it again after any crash.
//!
//! # What is not known yet
//! A place is known when every slot before is decided. Until then nothing behind it is given: what has been given never gets another
//! predecessor.
mod cursor;
mod stretch;

use serde::{Deserialize, Serialize};

pub use self::cursor::{Cursor, ParseCursorError};
pub(crate) use self::stretch::{Stretch, last_before};
use crate::EntityKey;
use crate::model::Model;
use crate::record::{Erasure, Tombstone};
use crate::tx::{Slot, Timestamp, TxId};

/// What one transaction did to one entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityChange<E> {
    /// Where to go on behind it. No other change has the same; but two readers may have different ones for this change, which is named by
    /// its entity and its transaction.
    pub cursor: Cursor,
    /// The entity.
    pub entity: EntityKey,
    /// Its place in the history of the entity; not every number has one.
    pub slot: Slot,
    /// The transaction.
    pub tx: TxId,
    /// The time of its events.
    pub at: Timestamp,
    /// The version of the contract under which they happened.
    pub version: u32,
    /// The events, in order. Those of an entity with a tombstone are not known.
    pub events: Vec<E>,
    /// What the entity has ended as, if its records before were discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstone: Option<Box<Tombstone>>,
    /// That the personal values of the entity, and those that others have of it, were erased. Nothing happened to the entity: its place is
    /// among erasures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Box<Erasure>>,
}

/// Some of the changes of a journal, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes<E> {
    /// The changes, in order.
    pub changes: Vec<EntityChange<E>>,
    /// Where to go on. It may be further than the last change where nothing follows that is one.
    pub next: Cursor,
    /// Whether the journal has more that was not looked at. Otherwise all changes that were certain have been given.
    pub has_more: bool,
}

/// Some of the changes of the entities of a model.
pub type ChangesOf<M> = Changes<<M as Model>::Event>;
