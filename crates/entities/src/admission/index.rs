//! What wakes each delayed transaction: an index by what it waits for.
//!
//! A delayed one is judged again only if something has changed that stopped it. What that can be, and what wakes it then:
//!
//! | it waits for | woken when |
//! |---|---|
//! | a threshold on a sum of fields | the sum has come to the level at which the threshold is decided |
//! | the class of changes in a cell | the cell is empty: the first in line; or holds that class alone: the first of that class |
//! | room in a cell | the cell has room for it: the first in line |
//! | the turn of an earlier one | that one is settled or gone: in the order of arrival |
//! | the bound on open transactions | one is decided: the first |
//! | anything else about a cell | the cell has changed: in the order of arrival |
//!
//! A *spot* holds those that wait for one cell. One that has changed stays *stirred* until nobody waits there who would be woken,
//! so that a call that has judged enough leaves the rest to the next one.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;

use enact_rebel::Manner;

use super::cell::Doing;
use super::queue::Arrival;
use crate::model::{Field, Location, Place, Term};
use crate::tx::TxId;

/// Something that can change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A number.
    Number(Field),
    /// A place: an element of a set, or a field as a whole, which changes with each of its elements.
    Place(Place),
    /// All elements of a set, which change with the field as a whole.
    Elements(u64),
    /// The manners in which a place is changed.
    Manner(Place),
    /// Whether one in line is committed and not applied.
    Line,
    /// Anything at all.
    Any,
}

impl Key {
    pub(super) fn of(location: Location) -> Self {
        match location {
            Location::Number(field) => Self::Number(field),
            Location::Place(place) => Self::Place(place),
        }
    }

    /// Whether it is a number or a place.
    pub(super) const fn is_cell(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Place(_))
    }
}

/// A class of changes of a cell: equal ones commute, others wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Adds,
    Number(i128),
    Content(String),
    Function(u64),
    Manner(Manner),
    /// One that commutes with no other.
    Own,
}

impl Class {
    pub(super) fn of<V>(doing: &Doing<V>, value: impl Fn(&V) -> Self) -> Self {
        match doing {
            Doing::Adds(_) => Self::Adds,
            Doing::Gives(given) => value(given),
            Doing::Makes(Some(function), _) => Self::Function(*function),
            Doing::Makes(None, _) | Doing::Hides => Self::Own,
        }
    }

    pub(super) const fn of_manner(manner: Manner) -> Self {
        match manner {
            Manner::Other => Self::Own,
            manner => Self::Manner(manner),
        }
    }
}

/// What is in progress in a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Nothing,
    /// Changes of one class.
    Of(Class),
    Several,
}

/// What wakes a delayed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// A change of this.
    Change(Key),
    /// That this holds nothing, or nothing but this class.
    Class(Key, Class),
    /// That there is room in this for one of this class.
    Room(Key, Class),
    /// That a sum of fields is at one of these levels, or beyond.
    Level(Vec<Term>, Levels),
    /// That this one is settled or gone.
    Turn(TxId),
    /// That one is decided.
    Bound,
}

/// The levels of a sum at which a threshold is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels {
    /// That its low end is not below.
    pub(super) rise: Option<i128>,
    /// That its high end is not above.
    pub(super) sink: Option<i128>,
}

impl Levels {
    /// What either of the two waits for.
    pub(super) fn or(self, other: Self) -> Self {
        let nearer = |one: Option<i128>, other: Option<i128>, nearer: fn(i128, i128) -> i128| {
            one.zip(other).map(|(one, other)| nearer(one, other)).or(one).or(other)
        };
        Self { rise: nearer(self.rise, other.rise, i128::min), sink: nearer(self.sink, other.sink, i128::max) }
    }

    /// Whether one of them is reached by a sum between `low` and `high`.
    fn are_reached(self, (low, high): (i128, i128)) -> bool {
        self.rise.is_some_and(|level| level <= low) || self.sink.is_some_and(|level| level >= high)
    }
}

/// What the index asks of what is in progress.
pub(super) trait Scene {
    fn holder(&self, key: &Key) -> Holder;
    /// Whether there is room for one of this class.
    fn has_room(&self, key: &Key, class: &Class) -> bool;
    /// Between which values a sum of fields lies, if that is known.
    fn between(&self, terms: &[Term]) -> Option<(i128, i128)>;
}

/// How many of those that wait for a sum are looked at in the order of arrival before the nearest level goes first.
const LOOKED_AT_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Index {
    spots: BTreeMap<Key, Spot>,
    turns: HashMap<TxId, BTreeSet<Arrival>>,
    /// Those whose turn has come, by whom they waited for. Some may be gone, or wait for something else by now.
    freed: VecDeque<BTreeSet<Arrival>>,
    bound: BTreeSet<Arrival>,
    /// What has changed and may still wake somebody.
    stirred: BTreeSet<Key>,
}

/// Those that wait for one cell.
#[derive(Debug, Default)]
struct Spot {
    for_change: BTreeSet<Arrival>,
    round: Round,
    for_class: BTreeMap<Arrival, Class>,
    by_class: BTreeMap<Class, BTreeSet<Arrival>>,
    for_room: BTreeMap<Arrival, Class>,
    for_level: BTreeMap<Vec<Term>, Sum>,
}

/// Those that wait for one sum of fields.
#[derive(Debug, Default)]
struct Sum {
    rise: BTreeSet<(i128, Arrival)>,
    sink: BTreeSet<(i128, Arrival)>,
    line: BTreeMap<Arrival, Levels>,
}

/// A round through all that wait for the same, of which one call makes only a part.
///
/// It goes from `from` to `end`, and then from the first to `again`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    from: Arrival,
    end: Arrival,
    again: Arrival,
}

impl Default for Round {
    fn default() -> Self {
        Self { from: Arrival::FIRST, end: Arrival::FIRST, again: Arrival::FIRST }
    }
}

impl Round {
    /// Goes on until all have been met from now on.
    pub(super) fn start(&mut self) {
        *self = if self.from < self.end {
            Self { again: self.from, end: Arrival::END, ..*self }
        } else {
            Self { end: Arrival::END, ..Self::default() }
        };
    }

    /// The next one to be met, of those that `within` finds between two; none before `met` has to be met again.
    pub(super) fn next(
        &mut self,
        met: Arrival,
        within: impl Fn(Arrival, Arrival) -> Option<Arrival>,
    ) -> Option<Arrival> {
        loop {
            let from = self.from.max(met);
            if let Some(found) = (from < self.end).then(|| within(from, self.end)).flatten() {
                return Some(found);
            }
            if self.again == Arrival::FIRST {
                *self = Self::default();
                return None;
            }
            *self = Self { from: Arrival::FIRST, end: self.again, again: Arrival::FIRST };
        }
    }

    /// `arrival` has been met.
    pub(super) fn pass(&mut self, arrival: Arrival) {
        if self.from <= arrival && arrival < self.end {
            self.from = arrival.next();
        }
    }
}

impl Spot {
    fn is_empty(&self) -> bool {
        self.for_change.is_empty() && self.for_class.is_empty() && self.for_room.is_empty() && self.for_level.is_empty()
    }

    /// The first in line for its class.
    fn of_class(&self, holder: &Holder) -> Option<Arrival> {
        match holder {
            Holder::Nothing => self.for_class.keys().next().copied(),
            Holder::Of(Class::Own) | Holder::Several => None,
            Holder::Of(class) => self.by_class.get(class)?.first().copied(),
        }
    }
}

impl Sum {
    /// One whose level is reached, if there is any: of the first in line the first.
    fn at_level(&self, ends: Option<(i128, i128)>) -> Option<Arrival> {
        let Some((low, high)) = ends else { return self.line.keys().next().copied() };
        let risen = self.rise.first().filter(|(level, _)| *level <= low);
        let sunk = self.sink.last().filter(|(level, _)| *level >= high);
        let (_, nearest) = risen.or(sunk)?;
        let mut looked_at = self.line.iter().take(LOOKED_AT_MAX);
        let first = looked_at.find(|(_, levels)| levels.are_reached((low, high)));
        Some(first.map_or(*nearest, |(arrival, _)| *arrival))
    }

    fn enter(&mut self, arrival: Arrival, levels: Levels) {
        self.rise.extend(levels.rise.map(|level| (level, arrival)));
        self.sink.extend(levels.sink.map(|level| (level, arrival)));
        self.line.insert(arrival, levels);
    }

    fn leave(&mut self, arrival: Arrival, levels: Levels) {
        levels.rise.map(|level| self.rise.remove(&(level, arrival)));
        levels.sink.map(|level| self.sink.remove(&(level, arrival)));
        self.line.remove(&arrival);
    }
}

impl Index {
    pub(super) fn enter(&mut self, arrival: Arrival, watches: &[Watch]) {
        for watch in watches {
            match watch {
                Watch::Change(key) => {
                    self.spot(key).for_change.insert(arrival);
                }
                Watch::Class(key, class) => {
                    let spot = self.spot(key);
                    spot.for_class.insert(arrival, class.clone());
                    spot.by_class.entry(class.clone()).or_default().insert(arrival);
                }
                Watch::Room(key, class) => {
                    self.spot(key).for_room.insert(arrival, class.clone());
                }
                Watch::Level(terms, levels) => {
                    for term in terms {
                        let sums = &mut self.spot(&Key::Number(term.field)).for_level;
                        sums.entry(terms.clone()).or_default().enter(arrival, *levels);
                    }
                }
                Watch::Turn(tx) => {
                    self.turns.entry(*tx).or_default().insert(arrival);
                }
                Watch::Bound => {
                    self.bound.insert(arrival);
                }
            }
        }
    }

    pub(super) fn leave(&mut self, arrival: Arrival, watches: &[Watch]) {
        for watch in watches {
            match watch {
                Watch::Change(key) => self.at(key, |spot| {
                    spot.for_change.remove(&arrival);
                }),
                Watch::Class(key, class) => self.at(key, |spot| {
                    spot.for_class.remove(&arrival);
                    remove(&mut spot.by_class, class, arrival);
                }),
                Watch::Room(key, _) => self.at(key, |spot| {
                    spot.for_room.remove(&arrival);
                }),
                Watch::Level(terms, levels) => {
                    for term in terms {
                        self.at(&Key::Number(term.field), |spot| {
                            let Some(sum) = spot.for_level.get_mut(terms) else { return };
                            sum.leave(arrival, *levels);
                            if sum.line.is_empty() {
                                spot.for_level.remove(terms);
                            }
                        });
                    }
                }
                Watch::Turn(tx) => {
                    if let Some(waiting) = self.turns.get_mut(tx) {
                        waiting.remove(&arrival);
                        if waiting.is_empty() {
                            self.turns.remove(tx);
                        }
                    }
                }
                Watch::Bound => {
                    self.bound.remove(&arrival);
                }
            }
        }
    }

    fn spot(&mut self, key: &Key) -> &mut Spot {
        if !self.spots.contains_key(key) {
            self.spots.insert(key.clone(), Spot::default());
        }
        self.spots.get_mut(key).expect("it is there")
    }

    fn at(&mut self, key: &Key, leave: impl FnOnce(&mut Spot)) {
        let Some(spot) = self.spots.get_mut(key) else { return };
        leave(spot);
        if spot.is_empty() {
            self.spots.remove(key);
            self.stirred.remove(key);
        }
    }

    /// `key` has changed: those that wait for that are woken, one after the other.
    pub(super) fn stir(&mut self, key: &Key) {
        if let Some(spot) = self.spots.get_mut(key) {
            spot.round.start();
            self.stirred.insert(key.clone());
        }
    }

    /// What is stirred, `count` at most, beginning behind `last`.
    pub(super) fn stirred(&self, last: Option<&Key>, count: usize) -> Vec<Key> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.stirred.range((from, Bound::Unbounded));
        let rest = last.map(|last| self.stirred.range(..=last)).into_iter().flatten();
        behind.chain(rest).take(count).cloned().collect()
    }

    /// Nobody is woken any more by what has changed there.
    pub(super) fn calm(&mut self, key: &Key) {
        self.stirred.remove(key);
    }

    /// The first one that waits for a change of `key` and has not been asked since the last one, from `met` on.
    ///
    /// `first` asks for the first in line, asked or not.
    pub(super) fn for_change(&mut self, key: &Key, met: Arrival, first: bool) -> Option<Arrival> {
        let Spot { for_change, round, .. } = self.spots.get_mut(key)?;
        let within = |from, end| for_change.range(from..end).next().copied();
        if first { within(met, Arrival::END) } else { round.next(met, within) }
    }

    /// `arrival` has been asked because of a change of `key`.
    pub(super) fn pass(&mut self, key: &Key, arrival: Arrival) {
        if let Some(spot) = self.spots.get_mut(key) {
            spot.round.pass(arrival);
        }
    }

    /// The first in line for a class that may enter `key`.
    pub(super) fn for_class(&self, key: &Key, scene: &impl Scene) -> Option<Arrival> {
        let spot = self.spots.get(key).filter(|spot| !spot.for_class.is_empty())?;
        spot.of_class(&scene.holder(key))
    }

    /// The first in line for room in `key`, if there is any for it.
    pub(super) fn for_room(&self, key: &Key, scene: &impl Scene) -> Option<Arrival> {
        let (arrival, class) = self.spots.get(key)?.for_room.first_key_value()?;
        scene.has_room(key, class).then_some(*arrival)
    }

    /// One that waits for a sum with the number `key` in it, and whose level is reached.
    pub(super) fn for_level(&self, key: &Key, scene: &impl Scene) -> Option<Arrival> {
        let sums = &self.spots.get(key)?.for_level;
        sums.iter().filter_map(|(terms, sum)| sum.at_level(scene.between(terms))).min()
    }

    /// The first one that waits for the bound.
    pub(super) fn for_bound(&self) -> Option<Arrival> {
        self.bound.first().copied()
    }

    /// `tx` is settled or gone: it is the turn of those that wait for it.
    pub(super) fn release(&mut self, tx: TxId) {
        self.freed.extend(self.turns.remove(&tx));
    }

    /// The first one whose turn has come, of which `waits` holds.
    pub(super) fn for_turn(&mut self, waits: impl Fn(Arrival) -> bool) -> Option<Arrival> {
        while let Some(list) = self.freed.front_mut() {
            match list.first() {
                Some(&first) if waits(first) => return Some(first),
                Some(_) => {
                    list.pop_first();
                }
                None => {
                    self.freed.pop_front();
                }
            }
        }
        None
    }

    /// The first one whose turn has come is asked.
    pub(super) fn take_turn(&mut self) {
        if let Some(list) = self.freed.front_mut() {
            list.pop_first();
        }
    }

    /// The first one whose turn had come waits for `tx`, and so do those behind it that waited for the same turn.
    pub(super) fn follow(&mut self, tx: TxId) {
        let Some(mut rest) = self.freed.pop_front() else { return };
        let waiting = self.turns.entry(tx).or_default();
        if waiting.len() < rest.len() {
            std::mem::swap(waiting, &mut rest);
        }
        waiting.extend(rest);
    }

    /// Whose turn one waits for that once waited for that of `tx`.
    pub(super) fn turn_of(&self, arrival: Arrival, tx: TxId) -> TxId {
        let found = self.turns.iter().find(|(_, waiting)| waiting.contains(&arrival));
        found.map_or(tx, |(tx, _)| *tx)
    }
}

fn remove<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<Arrival>>, key: &K, arrival: Arrival) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(&arrival);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
