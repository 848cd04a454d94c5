//! A stretch of a journal, and the places of the changes in it.
use std::collections::{BTreeMap, HashMap, HashSet};

use enact_journal::{Kind, Position, Seq};

use super::{Changes, Cursor, EntityChange};
use crate::EntityKey;
use crate::admission::Decision;
use crate::record::{Erasure, Prepared, Record, Tombstone};
use crate::tx::{Slot, Timestamp, TxId};

/// How far back an open promise is read again. What is promised longer is looked up when it is decided.
const PROMISED_WITHIN: u64 = 10_000;

/// Records of a journal that were read one after the other.
pub(crate) struct Stretch<E> {
    after: Cursor,
    /// The position of the last record.
    end: Position,
    commits: Vec<Commit<E>>,
    /// The commits of each entity, in the order of their records.
    of_entity: HashMap<EntityKey, Vec<usize>>,
    /// Promises that are not decided.
    open: HashMap<(EntityKey, Slot), Promise<E>>,
    /// What has committed. A promise may be noted to have done so more than once.
    committed: HashSet<(EntityKey, Slot)>,
    /// The last slot of each entity up to which all places are known, and its place.
    settled: HashMap<EntityKey, (Slot, Position)>,
    /// The commit whose place is looked for next.
    next: usize,
    /// The changes whose place is known and has not come.
    due: BTreeMap<(Position, Slot), usize>,
    limit: usize,
    given: Changes<E>,
}

struct Promise<E> {
    position: Position,
    prepared: Box<Prepared<E>>,
}

struct Commit<E> {
    position: Position,
    seq: Seq,
    entity: EntityKey,
    slot: Slot,
    /// The effects of all slots before stand before it in the journal.
    first_undecided: Slot,
    /// Which one of its entity.
    number: usize,
    effect: Option<Effect<E>>,
}

struct Effect<E> {
    tx: TxId,
    at: Timestamp,
    version: u32,
    events: Vec<E>,
    tombstone: Option<Box<Tombstone>>,
    erasure: Option<Box<Erasure>>,
}

/// A commit whose promise is not in the stretch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) entity: EntityKey,
    pub(crate) slot: Slot,
    pub(crate) position: Position,
    index: usize,
}

/// What the place of a commit depends on beyond the stretch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unplaced {
    pub(crate) entity: EntityKey,
    pub(crate) slot: Slot,
    /// The record of the commit.
    pub(crate) seq: Seq,
    /// Where it stands.
    pub(crate) position: Position,
}

impl<E> Stretch<E> {
    /// An empty one, to be filled with the records behind `after`. It gives at most `limit` changes.
    pub(crate) fn new(after: Cursor, limit: usize) -> Self {
        Self {
            after,
            end: after.from(),
            commits: Vec::new(),
            of_entity: HashMap::new(),
            open: HashMap::new(),
            committed: HashSet::new(),
            settled: HashMap::new(),
            next: 0,
            due: BTreeMap::new(),
            limit,
            given: Changes { changes: Vec::new(), next: after, has_more: false },
        }
    }

    /// The position behind which it goes on.
    pub(crate) const fn end(&self) -> Position {
        self.end
    }

    /// Whether records of this kind say something about changes.
    pub(crate) const fn is_told_by(kind: u8) -> bool {
        matches!(kind, 1..=3) || kind == Record::<E>::ERASED || kind == Kind::TOMBSTONE.0
    }

    /// Goes on up to `position`.
    pub(crate) fn advance(&mut self, position: Position) {
        self.end = position;
    }

    /// Takes up the record that stands at `position`.
    pub(crate) fn add(&mut self, entity: EntityKey, seq: Seq, position: Position, record: Record<E>) {
        match record {
            Record::Prepared(prepared) => {
                self.open.insert((entity, prepared.slot), Promise { position, prepared });
            }
            Record::Outcome { slot, decision: Decision::Abort, .. } => {
                self.open.remove(&(entity, slot));
            }
            Record::Outcome { slot, decision: Decision::Commit, .. } => {
                let promise = (entity.clone(), slot);
                match self.open.remove(&promise) {
                    Some(Promise { prepared, .. }) if prepared.branch.work.has_event() => {
                        let first_undecided = first_undecided(slot, prepared.overlap);
                        let effect = Some(Effect::of(*prepared));
                        self.commit(Commit { position, seq, entity, slot, first_undecided, number: 0, effect });
                    }
                    Some(_) => drop(self.committed.insert(promise)),
                    None => {
                        let (first_undecided, effect) = (Slot::FIRST, None);
                        self.commit(Commit { position, seq, entity, slot, first_undecided, number: 0, effect });
                    }
                }
            }
            Record::Committed { tx, slot, events, at, version, overlap } => {
                let effect = Some(Effect { tx, at, version, events, tombstone: None, erasure: None });
                let first_undecided = first_undecided(slot, overlap);
                self.commit(Commit { position, seq, entity, slot, first_undecided, number: 0, effect });
            }
            // A reader that has been given the transaction itself knows what the entity has ended as.
            Record::Tombstone(tombstone) => {
                let Tombstone { tx, slot, at, version, .. } = *tombstone;
                let effect = Effect { tx, at, version, events: Vec::new(), tombstone: Some(tombstone), erasure: None };
                let effect = Some(effect);
                self.commit(Commit { position, seq, entity, slot, first_undecided: slot, number: 0, effect });
            }
            // One follows the other at the entity that has them.
            Record::Erased(erasure) => {
                let (tx, at, slot) = (erasure.tx, erasure.at, Slot(seq.0));
                let effect = Effect { tx, at, version: 0, events: Vec::new(), tombstone: None, erasure: Some(erasure) };
                let effect = Some(effect);
                self.commit(Commit { position, seq, entity, slot, first_undecided: slot, number: 0, effect });
            }
            Record::Decision(_)
            | Record::Answer(_)
            | Record::End { .. }
            | Record::Timer { .. }
            | Record::Barrier
            | Record::Swept { .. } => {}
        }
    }

    fn commit(&mut self, mut commit: Commit<E>) {
        if !self.committed.insert((commit.entity.clone(), commit.slot)) {
            return;
        }
        let of_entity = self.of_entity.entry(commit.entity.clone()).or_default();
        commit.number = of_entity.len();
        of_entity.push(self.commits.len());
        self.commits.push(commit);
    }

    /// The commits whose promises are not in the stretch, for [`find`](Self::find).
    pub(crate) fn missing(&self) -> Vec<Missing> {
        let missing = self.commits.iter().enumerate().filter(|(_, commit)| commit.effect.is_none());
        let named = missing.map(|(index, Commit { entity, slot, position, .. })| Missing {
            entity: entity.clone(),
            slot: *slot,
            position: *position,
            index,
        });
        named.collect()
    }

    /// Takes up the promise of a commit, from all records of its entity: unless it has no effect, or the commit was noted before.
    pub(crate) fn find(&mut self, missing: &Missing, records: impl IntoIterator<Item = (Position, Record<E>)>) {
        let mut promise = None;
        for (_, record) in records.into_iter().take_while(|(position, _)| *position < missing.position) {
            match record {
                Record::Prepared(prepared) if prepared.slot == missing.slot => promise = Some(prepared),
                Record::Outcome { slot, decision: Decision::Commit, .. } if slot == missing.slot => promise = None,
                _ => {}
            }
        }
        let commit = &mut self.commits[missing.index];
        if let Some(prepared) = promise.filter(|prepared| prepared.branch.work.has_event()) {
            commit.first_undecided = first_undecided(prepared.slot, prepared.overlap);
            commit.effect = Some(Effect::of(*prepared));
        }
    }

    /// Leaves out what has no effect, when everything that was missing has been looked for.
    pub(crate) fn leave_out_what_is_missing(&mut self) {
        for of_entity in self.of_entity.values_mut() {
            of_entity.retain(|&index| self.commits[index].effect.is_some());
            for (number, &index) in of_entity.iter().enumerate() {
                self.commits[index].number = number;
            }
        }
    }

    /// The place of a commit, as far as the stretch tells.
    fn place_of(&self, commit: &Commit<E>) -> Option<Position> {
        let (mut place, mut first_undecided) = (commit.position, commit.first_undecided);
        let mut known_up_to = None;
        match self.settled.get(&commit.entity) {
            Some(&(slot, of_slot)) if slot < commit.slot => {
                place = place.max(of_slot);
                first_undecided = first_undecided.max(slot.next());
            }
            Some(&(_, of_later)) => known_up_to = Some(of_later),
            None => {}
        }
        if first_undecided >= commit.slot {
            return Some(place);
        }
        for &index in &self.of_entity[&commit.entity][commit.number + 1..] {
            let later = &self.commits[index];
            if known_up_to.is_some_and(|last| last < later.position) {
                return Some(place);
            }
            if later.slot < commit.slot {
                place = place.max(later.position);
            }
            if later.first_undecided >= commit.slot {
                return Some(place);
            }
        }
        known_up_to.filter(|&last| last <= self.end).map(|_| place)
    }

    /// Puts commits into their places and gives the changes whose place has come, as long as there are fewer than wanted. Returns the
    /// first commit whose place the stretch does not tell.
    pub(crate) fn give(&mut self) -> Option<Unplaced> {
        while let Some(commit) = self.commits.get(self.next).filter(|_| self.given.changes.len() < self.limit) {
            if commit.effect.is_some() {
                let Some(place) = self.place_of(commit) else {
                    let Commit { entity, slot, seq, position, .. } = commit;
                    return Some(Unplaced { entity: entity.clone(), slot: *slot, seq: *seq, position: *position });
                };
                self.place(place);
            } else {
                self.next += 1;
            }
        }
        None
    }

    /// Puts the next commit into `place`.
    pub(crate) fn place(&mut self, place: Position) {
        let commit = &self.commits[self.next];
        let (position, slot) = (commit.position, commit.slot);
        let settled = self.settled.entry(commit.entity.clone()).or_insert((slot, place));
        if settled.0 < slot {
            *settled = (slot, place);
        }
        self.due.insert((place, slot), self.next);
        self.next += 1;
        self.give_place(position);
    }

    /// What has been given. All changes up to the commit that comes next are, or as many as wanted. `is_whole` says whether the stretch
    /// went up to the end of the journal.
    pub(crate) fn finish(mut self, is_whole: bool) -> Changes<E> {
        self.given.has_more = !is_whole || self.given.changes.len() == self.limit;
        if self.given.changes.len() < self.limit {
            let place = self.commits.get(self.next).map_or(self.end, |next| before(next.position));
            if place > self.given.next.place() {
                self.given.next = Cursor::behind(self.first_needed(after(place)), place);
            }
        }
        self.given
    }

    fn give_place(&mut self, place: Position) {
        let from = self.first_needed(place);
        let mut number = 0;
        while self.given.changes.len() < self.limit
            && let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 == place)
        {
            let commit = &mut self.commits[entry.remove()];
            let effect = commit.effect.take().expect("each is given once");
            number += 1;
            if self.after.has_passed(place, number - 1) {
                continue;
            }
            let Effect { tx, at, version, events, tombstone, erasure } = effect;
            let entity = erasure.as_ref().map_or(&commit.entity, |erasure| &erasure.subject);
            let (entity, slot) = (entity.clone(), commit.slot);
            let is_last = self.due.first_key_value().is_none_or(|((next, _), _)| *next > place);
            let from = if is_last { self.first_needed(after(place)) } else { from };
            let cursor = Cursor::new(from, place, number);
            self.given.next = cursor;
            let change = EntityChange { cursor, entity, slot, tx, at, version, events, tombstone, erasure };
            self.given.changes.push(change);
        }
    }

    /// The position behind which everything stands that is needed for the places from `place` on.
    fn first_needed(&self, place: Position) -> Position {
        let due = self.due.values().map(|&index| self.commits[index].position);
        let recent = place.0.saturating_sub(PROMISED_WITHIN);
        let open = self.open.values().map(|promise| promise.position).filter(|position| position.0 >= recent);
        before(due.chain(open).min().unwrap_or(place).min(place))
    }
}

fn before(position: Position) -> Position {
    Position(position.0.saturating_sub(1))
}

fn after(position: Position) -> Position {
    Position(position.0 + 1)
}

impl<E> Effect<E> {
    fn of(prepared: Prepared<E>) -> Self {
        let Prepared { branch, version, .. } = prepared;
        let events = branch.work.into_events().collect();
        Self { tx: branch.tx, at: branch.at, version, events, tombstone: None, erasure: None }
    }
}

fn first_undecided(slot: Slot, overlap: Option<u64>) -> Slot {
    overlap.map_or(Slot::FIRST, |overlap| Slot(slot.0.saturating_sub(overlap)))
}

/// Where the last change stands that has its effect before `slot` in `records` of its entity; nothing if a commit is among them
/// whose promise is not, so that earlier ones are needed.
pub(crate) fn last_before<E>(
    slot: Slot,
    records: impl IntoIterator<Item = (Position, Record<E>)>,
) -> Option<Option<Position>> {
    let (mut promised, mut committed, mut last) = (HashMap::new(), HashSet::new(), None);
    for (position, record) in records {
        let has_effect = match &record {
            Record::Prepared(prepared) => {
                promised.insert(prepared.slot, prepared.branch.work.has_event());
                false
            }
            Record::Committed { .. } => true,
            Record::Outcome { slot, decision: Decision::Commit, .. } => *promised.get(slot)?,
            _ => false,
        };
        if let Record::Committed { slot: of, .. } | Record::Outcome { slot: of, .. } = record
            && has_effect
            && committed.insert(of)
            && of < slot
        {
            last = last.max(Some(position));
        }
    }
    Some(last)
}
