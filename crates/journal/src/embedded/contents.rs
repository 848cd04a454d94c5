//! What one segment holds, collected while it is written or scanned; becomes its footer when it is sealed.

use std::collections::HashMap;

use super::format::{Address, Footer, Hash, Mark, Share};
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

    /// Takes up record `seq` of `entity`, which stands at `address`; before it, so many of the entity were discarded.
    pub(super) fn add(&mut self, entity: &EntityKey, seq: Seq, address: Address, skipped: u64) {
        self.count += 1;
        self.reach(entity, skipped + 1, seq, address.marked_offset());
    }

    /// `entity` has so many records more, of which the last one is `last`, at the marked `offset`.
    fn reach(&mut self, entity: &EntityKey, count: u64, last: Seq, offset: u32) {
        if let Some(share) = self.entities.get_mut(entity) {
            *share = Share { count: share.count + count, last, offset };
        } else {
            self.entities.insert(entity.clone(), Share { count, last, offset });
        }
    }

    /// Takes up what only the footer knows of `entity`: that its last records were discarded, so many of them.
    pub(super) fn settle(&mut self, entity: &EntityKey, share: Share, discarded: u64) {
        self.reach(entity, discarded, share.last, share.offset);
    }

    /// Whether `footer` may be that of what is left here of a segment with `hash`. It counts discarded records, too; the last ones of
    /// an entity can only be among them if the segment `is_compacted`.
    pub(super) fn is_described_by(&self, footer: &Footer, hash: Hash, is_compacted: bool) -> bool {
        let left = |(entity, said): &(EntityKey, Share)| match self.entities.get(entity) {
            Some(share) if share.last == said.last => share.offset == said.offset && share.count <= said.count,
            Some(share) => is_compacted && share.last < said.last,
            None => is_compacted,
        };
        let is_known = |entity: &EntityKey| footer.entities.binary_search_by(|(known, _)| known.cmp(entity)).is_ok();
        (self.first, self.count, hash, &self.marks) == (footer.first, footer.count, footer.hash, &footer.marks)
            && self.entities.keys().all(is_known)
            && footer.entities.iter().all(left)
    }

    /// The footer; entities in order, so that equal contents have equal bytes.
    pub(super) fn footer(&self, hash: Hash) -> Footer {
        let mut entities: Vec<_> = self.entities.iter().map(|(entity, share)| (entity.clone(), *share)).collect();
        entities.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Footer { first: self.first, count: self.count, hash, entities, marks: self.marks.clone() }
    }
}
