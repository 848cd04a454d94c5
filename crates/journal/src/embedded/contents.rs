//! What one segment holds, collected while it is written or scanned; becomes its footer when it is sealed.

use indexmap::IndexMap;

use super::format::{Address, Footer, Hash, Mark, Share};
use super::heads::{ByHead, HeadId};
use crate::record::{EntityKey, Position, Seq};

/// Bytes between two marks: a feed that starts anywhere skips at most so many, and a full segment has a thousand.
const MARK_DISTANCE: u32 = 64 << 10;

#[derive(Debug)]
pub(super) struct Contents {
    pub(super) first: Position,
    pub(super) count: u64,
    pub(super) entities: IndexMap<EntityKey, Share>,
    /// One more than the indices of entities, by the heads that they have: a key takes several times as long to look up.
    by_head: ByHead,
    pub(super) marks: Vec<Mark>,
}

impl Contents {
    pub(super) fn new(first: Position) -> Self {
        Self { first, count: 0, entities: IndexMap::new(), by_head: ByHead::default(), marks: Vec::new() }
    }

    /// The position of the next record.
    pub(super) fn next(&self) -> Position {
        Position(self.first.0 + self.count)
    }

    /// A group begins at `offset`; its records follow.
    pub(super) fn begin_group(&mut self, offset: u32) {
        self.marks.extend(mark_of_group(self.marks.last(), self.next(), offset));
    }

    /// So many records were discarded.
    pub(super) fn skip(&mut self, count: u32) {
        self.count += u64::from(count);
    }

    /// Takes up record `seq` of `entity`, which stands at `address`; before it, so many of the entity were discarded.
    pub(super) fn add(&mut self, entity: &EntityKey, seq: Seq, address: Address, skipped: u64) {
        self.count += 1;
        reach(&mut self.entities, entity, skipped + 1, seq, address.marked_offset());
    }

    /// As [`add`](Self::add) without any discarded; an entity with records in the log has one head for as long as the journal is open.
    pub(super) fn add_by_head(&mut self, head: HeadId, entity: &EntityKey, seq: Seq, address: Address) {
        let number = self.by_head.get_mut(head);
        self.count += 1;
        let offset = address.marked_offset();
        match self.entities.get_index_mut((*number as usize).wrapping_sub(1)) {
            Some((known, share)) => {
                debug_assert_eq!(known, entity);
                *share = share.grown(1, seq, offset);
            }
            None => *number = reach(&mut self.entities, entity, 1, seq, offset) as u32 + 1,
        }
    }

    /// Takes up what only the footer knows of `entity`: that its last records were discarded, so many of them.
    pub(super) fn settle(&mut self, entity: &EntityKey, share: Share, discarded: u64) {
        reach(&mut self.entities, entity, discarded, share.last, share.offset);
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

/// The mark of the group that begins with the record at `position`, at `offset`, if it has one; `last` is the mark before it.
pub(super) fn mark_of_group(last: Option<&Mark>, position: Position, offset: u32) -> Option<Mark> {
    last.is_none_or(|last| offset - last.offset >= MARK_DISTANCE).then_some(Mark { position, offset })
}

/// `entity` has so many records more, of which the last one is `last`, at the marked `offset`; its index.
fn reach(entities: &mut IndexMap<EntityKey, Share>, entity: &EntityKey, count: u64, last: Seq, offset: u32) -> usize {
    if let Some((index, _, share)) = entities.get_full_mut(entity) {
        *share = share.grown(count, last, offset);
        return index;
    }
    entities.insert_full(entity.clone(), Share { count, last, offset }).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::heads::Heads;
    use crate::embedded::scan::Tips;
    use crate::record::{Kind, NewRecord};

    #[test]
    fn contents_by_head_are_those_by_key() {
        let mut heads = Heads::new(Tips::default());
        let mut last = [Seq::NONE; 6];
        let (mut by_key, mut by_head) = (Contents::new(Position(1)), Contents::new(Position(1)));
        for n in 0..100 {
            let at = n * n % 7 % 6;
            let entity = EntityKey::new(["Account", "Answer"][at % 2], &format!("{at}")).unwrap();
            let record = NewRecord { entity, expected: last[at], kind: Kind(0), payload: vec![] };
            let head = heads.accept(&record).unwrap();
            last[at] = last[at].next();
            let (entity, seq, address) = (&record.entity, last[at], Address::new(1, 72 + 8 * n as u32));
            // What a start has found in the segment, it knows without a head.
            if n < 10 {
                by_head.add(entity, seq, address, 0);
            } else {
                by_head.add_by_head(head, entity, seq, address);
            }
            by_key.add(entity, seq, address, 0);
        }
        assert_eq!(by_head.footer([0; 32]), by_key.footer([0; 32]));
        assert_eq!(by_key.entities.len(), 4, "each of several classes");
    }
}
