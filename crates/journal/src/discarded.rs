//! What a reader of a log makes of records that were discarded.
//!
//! # Problem
//! The numbers of an entity's records ascend without a gap, which is how a lost record is found. Where records were discarded, their
//! positions are known, and not of which entity they were.
//!
//! # Rule
//! A record may leave numbers of its entity out, if no more of them are left out in all than records were discarded before it, and if
//! the entity has a [tombstone](Kind::TOMBSTONE) later, which says all that they did.

use std::collections::BTreeMap;

use crate::record::{EntityKey, Kind, Seq};

/// The discarded records before some place of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Discarded {
    /// Those of which nobody knows of which entity they were.
    unexplained: u64,
    /// The entities of which records are missing, with how many, and whose tombstone has not come.
    open: BTreeMap<EntityKey, u64>,
}

impl Discarded {
    /// Before a place with so many positions before it, of which nobody has counted those without a record.
    pub(crate) fn uncounted(positions: u64) -> Self {
        Self { unexplained: positions, open: BTreeMap::new() }
    }

    /// So many records were discarded.
    pub(crate) fn add(&mut self, count: u64) {
        self.unexplained += count;
    }

    /// Takes up that record `found` of `entity` comes where `expected` was; how many were discarded between both. Nothing if that
    /// cannot be.
    pub(crate) fn skip(&mut self, entity: &EntityKey, expected: Seq, found: Seq) -> Option<u64> {
        let skipped = found.0.checked_sub(expected.0).filter(|skipped| *skipped <= self.unexplained)?;
        if skipped > 0 {
            self.unexplained -= skipped;
            *self.open.entry(entity.clone()).or_default() += skipped;
        }
        Some(skipped)
    }

    /// Takes up a record of this kind.
    pub(crate) fn see(&mut self, entity: &EntityKey, kind: Kind) {
        if kind == Kind::TOMBSTONE {
            self.open.remove(entity);
        }
    }

    /// Whether any record is missing of which nobody knows of which entity it was.
    pub(crate) fn is_any_unexplained(&self) -> bool {
        self.unexplained > 0
    }

    /// An entity of which records are missing that nothing stands for.
    pub(crate) fn incomplete(&self) -> Option<&EntityKey> {
        self.open.keys().next()
    }

    /// The entities of which records are missing that nothing stands for, each with how many those are.
    pub(crate) fn into_incomplete(self) -> BTreeMap<EntityKey, u64> {
        self.open
    }
}
