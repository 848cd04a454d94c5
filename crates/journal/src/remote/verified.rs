//! What was found of the records of a journal on servers.

use std::collections::HashMap;

use super::Place;
use crate::damage::Flaw;
use crate::record::{EntityKey, Seq};

/// What a journal on servers has, all of which can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many entities have records.
    pub entities: usize,
    /// How many records there are.
    pub records: u64,
}

/// Where entities end in a journal that is read from its beginning.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    ends: HashMap<EntityKey, Place>,
    records: u64,
}

impl Chains {
    /// Takes up the next record, which stands at `sequence`; where the one of its entity before it stands.
    pub(crate) fn follow(&mut self, entity: EntityKey, seq: Seq, sequence: u64) -> Result<u64, Flaw> {
        let end = self.ends.entry(entity.clone()).or_default();
        let expected = end.seq.next();
        if seq != expected {
            return Err(Flaw::Chain { entity, expected, found: seq });
        }
        let previous = std::mem::replace(end, Place { seq, sequence });
        self.records += 1;
        Ok(previous.sequence)
    }

    pub(crate) fn verified(&self) -> Verified {
        Verified { entities: self.ends.len(), records: self.records }
    }
}
