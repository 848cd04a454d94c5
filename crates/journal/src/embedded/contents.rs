//! What one segment holds, collected while it is written or scanned; becomes its footer when it is sealed.

use std::collections::HashMap;

use super::format::{Footer, Hash, Mark, Share};
use crate::record::{EntityKey, Position, Seq};

/// Bytes between two marks: a feed that starts anywhere skips at most so many, and a full segment has a thousand.
const MARK_DISTANCE: u32 = 64 << 10;

#[derive(Debug)]
pub(super) struct Contents {
    pub(super) first: Position,
    pub(super) count: u64,
    pub(super) entities: HashMap<EntityKey, Share>,
    pub(super) marks: Vec<Mark>,
}

impl Contents {
    pub(super) fn new(first: Position) -> Self {
        Self { first, count: 0, entities: HashMap::new(), marks: Vec::new() }
    }

    /// The position of the next record.
    pub(super) fn next(&self) -> Position {
        Position(self.first.0 + self.count)
    }

    /// A group begins at `offset`; its records follow.
    pub(super) fn begin_group(&mut self, offset: u32) {
        if self.marks.last().is_none_or(|mark| offset - mark.offset >= MARK_DISTANCE) {
            self.marks.push(Mark { position: self.next(), offset });
        }
    }

    /// So many records were discarded.
    pub(super) fn skip(&mut self, count: u32) {
        self.count += u64::from(count);
    }

    pub(super) fn add(&mut self, entity: &EntityKey, seq: Seq, offset: u32) {
        self.count += 1;
        if let Some(share) = self.entities.get_mut(entity) {
            *share = Share { count: share.count + 1, last: seq, offset };
        } else {
            self.entities.insert(entity.clone(), Share { count: 1, last: seq, offset });
        }
    }

    /// The footer; entities in order, so that equal contents have equal bytes.
    pub(super) fn footer(&self, hash: Hash) -> Footer {
        let mut entities: Vec<_> = self.entities.iter().map(|(entity, share)| (entity.clone(), *share)).collect();
        entities.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Footer { first: self.first, count: self.count, hash, entities, marks: self.marks.clone() }
    }
}
