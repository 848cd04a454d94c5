//! What is in progress at one entity, and the outcomes it can have.
//!
//! `base` is the state with every applied effect. Behind it stand the entries in slot order, each open or committed; an
//! aborted one has left. An open entry doubles the outcomes (with and without its effect), a committed one does not; equal
//! outcomes are one. The outcomes after each entry are kept until a decision before it changes them, so that one more
//! entry costs one step and applying the head costs nothing.
//!
//! # Alone
//! What finds nothing in progress is judged in the one state that there is, which also gives the state after it. Only when
//! something else comes is it found out what it does place by place ([`Progress::lay_out_alone`]); mostly it has been applied by then.
//!
//! # A base that breaks an invariant
//! Under a stricter version of the contract the base may break an invariant. Then nothing that is told in advance is used, neither
//! the interval nor relations, and every verdict is one of all outcomes, each of which is judged by what it is. Events that
//! leave every invariant holding end this for good: what follows from a sound state is sound, in all outcomes.

use std::collections::VecDeque;
use std::sync::Arc;

use indexmap::IndexSet;

use super::Applied;
use super::changed::Changed;
use super::entity::{Answer, Branch, Entity};
use super::footprint::{Base, Footprint};
use super::index::{Class, Holder, Key, Scene};
use super::interval::{Interval, Taken};
use super::manners::Manners;
use super::release::Release;
use crate::model::{Change, Field, Model, Place, Term};
use crate::small_map::SmallMap;
use crate::tx::{Slot, TxId};

/// Evaluations of events that a verdict may take for each outcome that is looked at: enough for one open event beside it.
const EVALUATIONS_AN_OUTCOME: usize = 8;

/// Distinct states, in the order in which they were found: the one without any open effect comes first.
pub(super) type Outcomes<S> = Arc<IndexSet<S>>;

pub(super) struct Progress<M: Model> {
    pub(super) entity: Entity<M>,
    base: M::State,
    /// The base as the one outcome of nothing, once somebody has asked for it.
    nothing: Option<Outcomes<M::State>>,
    /// Whether every invariant holds of the base.
    is_sound: bool,
    pub(super) entries: VecDeque<Entry<M>>,
    /// How many entries, from the first one on, have outcomes that are known.
    known: usize,
    slots: SmallMap<TxId, Slot>,
    pub(super) open: usize,
    /// How many of the open ones are released.
    pub(super) released: usize,
    /// How many in line are committed and not applied.
    line: usize,
    pub(super) interval: Interval,
    pub(super) manners: Manners,
    /// Whether these two have been used since they gave their memory back.
    is_laid_out: bool,
    next_slot: Slot,
    pub(super) outcomes_max: usize,
    /// Whether there are known to be too many outcomes, until a decision changes them.
    has_too_many: bool,
    /// How many evaluations of events may still be spent on outcomes.
    credit: usize,
    changed: Changed,
}

pub(super) struct Entry<M: Model> {
    pub(super) branch: Branch<M::Event>,
    pub(super) slot: Slot,
    pub(super) answer: Answer<M::Event>,
    pub(super) committed: bool,
    pub(super) taken: Option<Taken>,
    pub(super) changes: Option<Vec<Change>>,
    /// Of one that was admitted under early release.
    pub(super) release: Option<Release<M::State>>,
    /// After this entry; those that are known are those of the first [`Progress::known`] entries.
    outcomes: Option<Outcomes<M::State>>,
    /// The state after it, as long as nothing has come beside it: then it has neither cells nor changes.
    alone: Option<M::State>,
}

impl<M: Model> Scene for Progress<M> {
    fn holder(&self, key: &Key) -> Holder {
        match key {
            Key::Manner(place) => self.manners.holder(place),
            key => self.interval.holder(key),
        }
    }

    fn has_room(&self, key: &Key, class: &Class) -> bool {
        self.interval.has_room(key, class)
    }

    fn between(&self, terms: &[Term]) -> Option<(i128, i128)> {
        self.interval.ends(terms, self).map(|ends| (ends.low, ends.high))
    }
}

impl<M: Model> Base for Progress<M> {
    fn number(&self, field: Field) -> Option<i128> {
        self.entity.number(self.base(), field)
    }

    fn content(&self, place: &Place) -> Option<String> {
        if *place == Place::LIFE_CYCLE {
            return Some(self.entity.state_name(self.base()).to_owned());
        }
        self.entity.content(self.base(), place)
    }
}

impl<M: Model> Progress<M> {
    pub(super) fn new(entity: Entity<M>, base: M::State, next_slot: Slot, outcomes_max: usize) -> Self {
        Self {
            is_sound: entity.is_sound(&base),
            entity,
            base,
            nothing: None,
            entries: VecDeque::new(),
            known: 0,
            slots: SmallMap::new(),
            open: 0,
            released: 0,
            line: 0,
            interval: Interval::default(),
            manners: Manners::default(),
            is_laid_out: false,
            next_slot,
            outcomes_max,
            has_too_many: false,
            credit: 0,
            changed: Changed::default(),
        }
    }

    pub(super) const fn base(&self) -> &M::State {
        &self.base
    }

    /// Whether every invariant holds of the base, so that what is told of events in advance holds of every outcome.
    pub(super) const fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// Whether the interval says of every field what all outcomes say.
    pub(super) fn is_exact(&self) -> bool {
        self.is_sound && self.interval.is_exact()
    }

    /// Gives the memory of empty collections back, if nothing is in progress.
    pub(super) fn rest(&mut self) {
        if self.entries.is_empty() {
            self.entries = VecDeque::new();
            if std::mem::take(&mut self.is_laid_out) {
                self.interval = Interval::default();
                self.manners = Manners::default();
            }
        }
    }

    pub(super) const fn next_slot(&self) -> Slot {
        self.next_slot
    }

    pub(super) const fn open_count(&self) -> usize {
        self.open
    }

    pub(super) const fn outcomes_max(&self) -> usize {
        self.outcomes_max
    }

    /// Whether one in line is committed and not applied. What is not in line may have to go before it in the order of all, and
    /// cannot here.
    pub(super) const fn has_line(&self) -> bool {
        self.line > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry<M>> {
        self.entries.iter()
    }

    /// Allows as many evaluations as a bounded number of verdicts needs, whatever was left.
    pub(super) fn refill(&mut self) {
        self.credit = EVALUATIONS_AN_OUTCOME * self.outcomes_max;
    }

    /// Takes `evaluations` from the credit; nothing if it does not suffice.
    pub(super) fn spend(&mut self, evaluations: usize) -> Option<()> {
        self.credit = self.credit.checked_sub(evaluations)?;
        Some(())
    }

    /// The open entries with their positions.
    pub(super) fn open(&self) -> impl Iterator<Item = (usize, &Entry<M>)> {
        self.entries.iter().enumerate().filter(|(_, entry)| !entry.committed)
    }

    pub(super) fn find(&self, tx: TxId) -> Option<&Entry<M>> {
        self.position(tx).map(|i| &self.entries[i])
    }

    pub(super) fn slot_of(&self, tx: TxId) -> Option<Slot> {
        self.slots.get(&tx).copied()
    }

    pub(super) fn position(&self, tx: TxId) -> Option<usize> {
        let slot = self.slots.get(&tx)?;
        self.entries.binary_search_by_key(slot, |entry| entry.slot).ok()
    }

    /// The state if every open entry aborts.
    pub(super) fn certain(&self) -> M::State {
        if self.is_chain() {
            return self.certain_in_chain().clone();
        }
        let mut state = self.base().clone();
        for entry in self.entries.iter().filter(|entry| entry.committed) {
            state = self.entity.apply(&entry.branch, state);
        }
        state
    }

    /// Appends an admitted entry and gives it the next slot.
    pub(super) fn push(
        &mut self,
        branch: Branch<M::Event>,
        answer: Answer<M::Event>,
        footprint: Option<Footprint>,
        changes: Option<Vec<Change>>,
        outcomes: Option<Outcomes<M::State>>,
    ) -> Slot {
        let slot = self.next_slot;
        self.restore(slot, branch, answer, footprint, changes, outcomes);
        slot
    }

    /// Appends one that has found nothing in progress, with the state after it.
    pub(super) fn push_alone(&mut self, branch: Branch<M::Event>, answer: Answer<M::Event>, after: M::State) -> Slot {
        let slot = self.next_slot;
        self.next_slot = slot.next();
        self.slots.insert(branch.tx, slot);
        self.open += 1;
        self.entries.reserve_exact(1);
        self.entries.push_back(Entry {
            branch,
            slot,
            answer,
            committed: false,
            taken: None,
            changes: None,
            release: None,
            outcomes: None,
            alone: Some(after),
        });
        slot
    }

    /// The entry that is alone, if one is.
    pub(super) fn alone(&self) -> Option<&Branch<M::Event>> {
        self.entries.front().filter(|entry| entry.alone.is_some()).map(|entry| &entry.branch)
    }

    /// Something comes beside the entry that is alone, which does this.
    pub(super) fn lay_out_alone(&mut self, footprint: Option<Footprint>, changes: Option<Vec<Change>>) {
        let taken = self.take(footprint, changes.as_deref());
        if let Some(entry) = self.entries.front_mut() {
            (entry.taken, entry.changes, entry.alone) = (taken, changes, None);
        }
    }

    /// Takes up what an entry does.
    fn take(&mut self, footprint: Option<Footprint>, changes: Option<&[Change]>) -> Option<Taken> {
        self.is_laid_out = true;
        let footprint = footprint.filter(|footprint| self.is_sound && footprint.is_told_in(self));
        self.manners.enter(changes.unwrap_or_default());
        self.interval.open(footprint)
    }

    /// Appends an entry under a slot that it was given before a restart.
    pub(super) fn restore(
        &mut self,
        slot: Slot,
        branch: Branch<M::Event>,
        answer: Answer<M::Event>,
        footprint: Option<Footprint>,
        changes: Option<Vec<Change>>,
        outcomes: Option<Outcomes<M::State>>,
    ) {
        assert!(slot >= self.next_slot, "slot {slot} is given twice at {}", self.entity.key);
        self.next_slot = slot.next();
        let outcomes = outcomes.filter(|_| self.known == self.entries.len());
        self.known += usize::from(outcomes.is_some());
        let taken = self.take(footprint, changes.as_deref());
        self.slots.insert(branch.tx, slot);
        self.open += 1;
        let (release, alone) = (None, None);
        let entry = Entry { branch, slot, answer, committed: false, taken, changes, release, outcomes, alone };
        self.entries.push_back(entry);
    }

    /// Leaves out every slot before `slot` that has not been given.
    pub(super) fn skip_to(&mut self, slot: Slot) {
        self.next_slot = self.next_slot.max(slot);
    }

    /// Notes from now on what changes, if `is_asked`.
    pub(super) fn note_changes(&mut self, is_asked: bool) {
        self.changed = Changed::begin(is_asked, is_asked && !self.is_exact());
    }

    /// What has changed since it was to be noted.
    pub(super) fn take_changes(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }

    /// Marks an open entry committed.
    pub(super) fn commit(&mut self, tx: TxId) {
        let i = self.position(tx).expect("only what is in progress is committed");
        let entry = &mut self.entries[i];
        assert!(!entry.committed, "{tx} is committed twice at {}", self.entity.key);
        entry.committed = true;
        self.open -= 1;
        self.released -= usize::from(entry.is_released());
        self.line += usize::from(entry.answer.in_line);
        if entry.alone.is_none() {
            self.interval.commit(entry.taken.as_ref(), entry.answer.in_line);
            self.changed.add_touched(entry);
            self.forget_outcomes(i);
        }
    }

    /// Removes an open entry.
    pub(super) fn abort(&mut self, tx: TxId) {
        let i = self.position(tx).expect("only what is in progress is aborted");
        let entry = self.take_out(i);
        assert!(!entry.committed, "{tx} is aborted after its commit at {}", self.entity.key);
        self.slots.remove(&tx);
        self.open -= 1;
        self.doom_behind(i, &entry);
        if entry.alone.is_none() {
            self.interval.abort(entry.taken.as_ref());
            self.changed.add_touched(&entry);
            self.manners.leave(entry.changes.as_deref().unwrap_or_default());
            self.forget_outcomes(i);
        }
    }

    /// Applies every committed entry that has no open effect before it, in slot order. One in line has nothing open before it.
    pub(super) fn drain(&mut self) -> Vec<Applied> {
        let mut applied = Vec::new();
        let mut i = 0;
        while let Some(entry) = self.entries.get(i) {
            if entry.committed && entry.answer.in_line && i > 0 {
                break;
            } else if entry.committed {
                applied.push(self.apply(i));
            } else if !entry.branch.work.has_event() || cfg!(planted = "apply_out_of_order") {
                i += 1;
            } else {
                break;
            }
        }
        applied
    }

    fn take_out(&mut self, i: usize) -> Entry<M> {
        self.known -= usize::from(i < self.known);
        self.entries.remove(i).expect("the position is valid")
    }

    fn apply(&mut self, i: usize) -> Applied {
        let entry = self.take_out(i);
        self.slots.remove(&entry.branch.tx);
        self.line -= usize::from(entry.answer.in_line);
        if entry.alone.is_none() {
            self.interval.apply(entry.taken.as_ref(), entry.answer.in_line);
            if entry.answer.in_line {
                self.changed.add_touched(&entry);
                self.changed.add(Key::Place(Place::LIFE_CYCLE));
                self.changed.add(Key::Line);
            } else {
                self.changed.add_changes(&entry);
            }
            self.manners.leave(entry.changes.as_deref().unwrap_or_default());
        }
        if entry.branch.work.has_event() {
            let known = entry.alone;
            let state = known.unwrap_or_else(|| self.entity.apply(&entry.branch, self.base.clone()));
            self.is_sound = self.is_sound || self.entity.is_sound(&state);
            (self.base, self.nothing) = (state, None);
        }
        // What follows the head has the same outcomes as before; conditions that stay before it have others.
        if i > 0 {
            self.forget_outcomes(0);
        }
        Applied { tx: entry.branch.tx, slot: entry.slot }
    }

    fn forget_outcomes(&mut self, from: usize) {
        self.has_too_many = false;
        if from < self.known {
            self.entries.range_mut(from..self.known).for_each(|entry| entry.outcomes = None);
            self.known = from;
        }
    }

    /// All outcomes of what is in progress, unless there are too many.
    pub(super) fn outcomes(&mut self) -> Option<Outcomes<M::State>> {
        if self.is_chain() {
            return self.outcomes_of_chain();
        }
        if self.has_too_many {
            return None;
        }
        self.outcomes_before(self.entries.len())
    }

    /// The outcomes of the first `count` entries.
    fn outcomes_before(&mut self, count: usize) -> Option<Outcomes<M::State>> {
        let known = self.known.min(count);
        let mut outcomes = match known {
            0 => {
                let base = || Arc::new(IndexSet::from([self.base.clone()]));
                Arc::clone(self.nothing.get_or_insert_with(base))
            }
            n => Arc::clone(self.entries[n - 1].outcomes.as_ref().expect("it was counted as known")),
        };
        for i in known..count {
            self.spend(outcomes.len())?;
            let entry = &self.entries[i];
            let Some(extended) = self.extend(&outcomes, &entry.branch, entry.committed) else {
                self.has_too_many = true;
                return None;
            };
            outcomes = extended;
            self.entries[i].outcomes = Some(Arc::clone(&outcomes));
            self.known = i + 1;
        }
        Some(outcomes)
    }

    /// The outcomes of everything in progress but the entry at `skipped`.
    pub(super) fn outcomes_without(&mut self, skipped: usize) -> Option<Outcomes<M::State>> {
        let mut outcomes = self.outcomes_before(skipped)?;
        for i in skipped + 1..self.entries.len() {
            self.spend(outcomes.len())?;
            let entry = &self.entries[i];
            outcomes = self.extend(&outcomes, &entry.branch, entry.committed)?;
        }
        Some(outcomes)
    }

    /// For every outcome of everything but the entry at `chosen`: the state with its effect, and the one without.
    pub(super) fn outcomes_with_and_without(&mut self, chosen: usize) -> Option<IndexSet<(M::State, M::State)>> {
        let before = self.outcomes_before(chosen)?;
        self.spend(before.len())?;
        let branch = &self.entries[chosen].branch;
        let mut pairs: IndexSet<_> =
            before.iter().map(|state| (self.entity.apply(branch, state.clone()), state.clone())).collect();
        for i in chosen + 1..self.entries.len() {
            self.spend(2 * pairs.len())?;
            let entry = &self.entries[i];
            let mut next = IndexSet::with_capacity(pairs.len() * 2);
            for (with, without) in pairs {
                let both =
                    (self.entity.apply(&entry.branch, with.clone()), self.entity.apply(&entry.branch, without.clone()));
                if !entry.committed {
                    next.insert((with, without));
                }
                next.insert(both);
            }
            pairs = next;
            if pairs.len() > self.outcomes_max {
                return None;
            }
        }
        Some(pairs)
    }

    /// The outcomes after one more entry, unless there would be too many.
    pub(super) fn extend(
        &self,
        outcomes: &Outcomes<M::State>,
        branch: &Branch<M::Event>,
        committed: bool,
    ) -> Option<Outcomes<M::State>> {
        if !branch.work.has_event() {
            return Some(Arc::clone(outcomes));
        }
        let mut next = if committed { IndexSet::with_capacity(outcomes.len()) } else { IndexSet::clone(outcomes) };
        for state in outcomes.iter() {
            next.insert(self.entity.apply(branch, state.clone()));
            if next.len() > self.outcomes_max {
                return None;
            }
        }
        Some(Arc::new(next))
    }
}
