//! What is known of all outcomes without looking at them: cell by cell, between which values each number lies, and what each
//! place may contain.
//!
//! The values of a number lie between *low* and *high*, which follow from the segments of its [`Cell`]. While only amounts are
//! added, low is what remains if every open subtraction commits and no open addition does, high the reverse, and both are reached. A
//! threshold then holds in all outcomes exactly if it holds at the worse end, and in none exactly if it fails at the better end:
//! escrow, taken from the contract for free. One verdict costs one look per threshold, however much is open.
//!
//! A threshold may bound a sum of fields, such as balance and overdraft limit. Its ends are the sums of the ends. They are
//! reached as long as what is open moves only one of the fields; else they are only bounds, and what they leave
//! undecided the outcomes decide.
//!
//! For the other direction (a newcomer must not make an open event impossible) each open event leaves, per threshold, the
//! least *low* or the greatest *high* that it can bear. What it can bear counts from the outcomes without itself, which is
//! why its own delta is part of that number; see [`Interval::tolerates`]. What an event relies on that is no threshold is kept by
//! place: a newcomer that changes such a place does not go before it.

use std::collections::BTreeMap;

use super::cell::{Cell, Doing, Ends, Seat, View};
use super::counted::{Counted, count};
use super::footprint::{Base, Footprint, Twins, added};
use super::index::{Class, Holder, Key};
use crate::model::{Bound, Content, Cover, Field, Linear, Location, Place, Term, Threshold};

/// A footprint in progress, with its seats in the order of its changes: numbers first.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) footprint: Footprint,
    seats: Vec<Seat>,
}

/// The cells of everything in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Interval {
    numbers: BTreeMap<Field, Cell<i128>>,
    places: BTreeMap<Place, Cell<String>>,
    /// What the open events need to find in places, each with the number of them.
    relied: BTreeMap<Place, BTreeMap<String, usize>>,
    needs: BTreeMap<Vec<Term>, Needs>,
    /// The whole fields that they depend on otherwise, with the number of those that do, by what they do.
    guarded: BTreeMap<Key, BTreeMap<Option<Twins>, usize>>,
    /// What is touched, and what is changed, by those that are in line, committed and not applied.
    closed: Counted,
    closed_by_change: Counted,
    /// How many in progress have no footprint: the cells do not describe them.
    others: usize,
}

/// What the open events need of one sum of fields.
#[derive(Clone, Debug, Default)]
struct Needs {
    /// The values that the low end must not fall below, each with the number of open events that need it.
    low: BTreeMap<i128, usize>,
    /// The values that the high end must not rise above, likewise.
    high: BTreeMap<i128, usize>,
}

/// What a newcomer waits for that is possible and does not commute with all that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Nothing.
    Nothing,
    /// Something is changed in another way.
    Class(Key, Class),
    /// That one of these changes.
    Changes(Vec<Key>),
    /// The cells cannot tell.
    Unknown,
}

/// What the thresholds of a newcomer say over all outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// They hold in every outcome.
    All,
    /// Some threshold fails in every outcome.
    None,
    /// They hold in some outcomes and fail in others.
    Mixed,
    /// The cells cannot tell.
    Unknown,
}

impl Interval {
    /// Whether the cells describe everything in progress.
    pub(super) fn is_exact(&self) -> bool {
        self.others == 0
    }

    /// Whether no open event changes a number or a content.
    pub(super) fn is_settled(&self) -> bool {
        self.numbers.values().all(Cell::is_settled) && self.places.values().all(Cell::is_settled)
    }

    /// Whether nothing in progress moves the life cycle.
    pub(super) fn is_life_cycle_at_rest(&self) -> bool {
        !self.places.contains_key(&Place::LIFE_CYCLE)
    }

    /// What of `footprint` has no room behind everything: the cell, and the class of its change there.
    pub(super) fn crowded(&self, footprint: &Footprint) -> Option<(Key, Class)> {
        let numbers = footprint.numbers().filter(|(field, _)| self.numbers.contains_key(field));
        let numbers = numbers.map(|(field, doing)| (Key::Number(field), of_number(&doing)));
        let places = footprint.places().filter(|(place, _)| self.places.contains_key(place));
        let places = places.map(|(place, doing)| (Key::Place(place.clone()), of_content(&doing)));
        numbers.chain(places).find(|(key, class)| !self.has_room(key, class))
    }

    /// Whether a change of this class has room in a number or a place.
    pub(super) fn has_room(&self, key: &Key, class: &Class) -> bool {
        match key {
            Key::Number(field) => self.numbers.get(field).is_none_or(|cell| cell.has_room(class, named_number)),
            Key::Place(place) => {
                self.places.get(place).is_none_or(|cell| cell.has_room(class, |value| named_content(value)))
            }
            Key::Elements(_) | Key::Manner(_) | Key::Line | Key::Any => true,
        }
    }

    /// Takes up an admitted event; `None` is one without a footprint.
    ///
    /// A sum that would overflow makes the event count as one without; the return value says which it is. So does a number
    /// that is assigned, or made of what was there, behind one without: that one may replace the number by one in another currency,
    /// of which these cells say nothing.
    pub(super) fn open(&mut self, footprint: Option<Footprint>) -> Option<Taken> {
        let replaces =
            |footprint: &Footprint| !footprint.linear.assigned.is_empty() || footprint.made().next().is_some();
        let keeps_currency = |footprint: &Footprint| self.is_exact() || !replaces(footprint);
        let fitting = footprint.filter(|footprint| self.fits(footprint) && keeps_currency(footprint));
        let Some(footprint) = fitting else {
            self.others += 1;
            return None;
        };
        let numbers = footprint.numbers().map(|(field, doing)| self.numbers.entry(field).or_default().open(&doing));
        let mut seats: Vec<Seat> = numbers.collect();
        for (place, doing) in footprint.places() {
            if !self.places.contains_key(place) {
                self.places.insert(place.clone(), Cell::default());
            }
            seats.push(self.places.get_mut(place).expect("it is there").open(&doing));
        }
        for Content { place, value } in &footprint.linear.holds {
            *self.relied.entry(place.clone()).or_default().entry(value.clone()).or_insert(0) += 1;
        }
        for threshold in &footprint.linear.thresholds {
            let (needs, value) = self.need(&footprint.linear, &threshold.terms, threshold.bound);
            *needs.entry(value).or_insert(0) += 1;
        }
        for read in footprint.reads() {
            count(self.guarded.entry(whole(read)).or_default(), footprint.twins(), |count| count + 1);
        }
        Some(Taken { footprint, seats })
    }

    /// A number or place that `footprint` changes in another way than what is in progress.
    fn other_class(&self, footprint: &Footprint) -> Option<Obstacle> {
        // A set as a whole and its elements are cells of their own.
        let is_alone = |place: &Place| {
            self.cells_of(place).all(|other| other == place || place.element.is_some() && other.element.is_some())
        };
        for (field, doing) in footprint.numbers() {
            let is_overlooked = cfg!(planted = "overlook_classes");
            if !is_overlooked && self.numbers.get(&field).is_some_and(|cell| !cell.is_of_class(&doing)) {
                return Some(Obstacle::Class(Key::Number(field), of_number(&doing)));
            }
        }
        for (place, doing) in footprint.places() {
            if !is_alone(place) {
                return Some(Obstacle::Changes(vec![Key::Place(place.clone()), Key::Elements(place.field)]));
            }
            if self.places.get(place).is_some_and(|cell| !cell.is_of_class(&doing)) {
                return Some(Obstacle::Class(Key::Place(place.clone()), of_content(&doing)));
            }
        }
        None
    }

    /// An open event is committed: its changes are certain now, and nothing can disturb it any more.
    pub(super) fn commit(&mut self, taken: Option<&Taken>, in_line: bool) {
        let Some(taken) = taken else { return };
        self.forget_open(&taken.footprint);
        self.seated(taken, Cell::commit, Cell::commit);
        if in_line {
            self.close(&taken.footprint, |count| count + 1);
        }
    }

    /// An open event is aborted.
    pub(super) fn abort(&mut self, taken: Option<&Taken>) {
        let Some(taken) = taken else {
            self.others -= 1;
            return;
        };
        self.forget_open(&taken.footprint);
        self.seated(taken, Cell::abort, Cell::abort);
    }

    /// A committed event is applied: it is part of the base now.
    pub(super) fn apply(&mut self, taken: Option<&Taken>, in_line: bool) {
        let Some(taken) = taken else {
            self.others -= 1;
            return;
        };
        self.seated(taken, Cell::apply, Cell::apply);
        if in_line {
            self.close(&taken.footprint, |count| count - 1);
        }
    }

    fn close(&mut self, footprint: &Footprint, change: fn(usize) -> usize) {
        footprint.touched().for_each(|touched| self.closed.count(&touched, change));
        footprint.written().for_each(|written| self.closed_by_change.count(&written, change));
    }

    /// Does something with each change in its seat.
    fn seated(
        &mut self,
        taken: &Taken,
        of_number: fn(&mut Cell<i128>, Seat, &Doing<i128>),
        of_place: fn(&mut Cell<String>, Seat, &Doing<String>),
    ) {
        let mut seats = taken.seats.iter().copied();
        for (field, doing) in taken.footprint.numbers() {
            let cell = self.numbers.get_mut(&field).expect("what is in progress has a cell");
            of_number(cell, seats.next().expect("each change has a seat"), &doing);
            if cell.is_empty() {
                self.numbers.remove(&field);
            }
        }
        for (place, doing) in taken.footprint.places() {
            let cell = self.places.get_mut(place).expect("what is in progress has a cell");
            of_place(cell, seats.next().expect("each change has a seat"), &doing);
            if cell.is_empty() {
                self.places.remove(place);
            }
        }
    }

    /// What may be in `place` behind everything; nothing if that is not known.
    pub(super) fn contents(&self, place: &Place, base: &impl Base) -> Option<Vec<String>> {
        if self.cells_of(place).any(|other| other.element.is_some() != place.element.is_some()) {
            return None;
        }
        let content = base.content(place)?;
        self.places.get(place).map_or_else(|| Some(vec![content.clone()]), |cell| cell.contents(content.clone()))
    }

    /// The places in progress that are of the same field.
    pub(super) fn cells_of(&self, place: &Place) -> impl Iterator<Item = &Place> {
        self.places.range(place.whole()..).map(|(other, _)| other).take_while(|other| other.field == place.field)
    }

    /// What is in `place` in all outcomes, if it is one content.
    pub(super) fn settled_content(&self, place: &Place, base: &impl Base) -> Option<String> {
        let mut contents = self.contents(place, base)?;
        contents.pop().filter(|_| contents.is_empty())
    }

    /// Between which values `field` lies behind everything, if its applied value is `base`.
    pub(super) fn field(&self, field: Field, base: i128) -> Option<Ends> {
        self.seen(field, base, View::End)
    }

    fn seen(&self, field: Field, base: i128, view: View) -> Option<Ends> {
        self.numbers
            .get(&field)
            .map_or(Some(Ends { low: base, high: base, reached: true }), |cell| cell.ends(base, view))
    }

    /// The places that something in progress changes.
    pub(super) fn changing(&self) -> impl Iterator<Item = &Place> {
        self.places.keys()
    }

    /// How the state behind everything may differ from the base.
    pub(super) fn cover(&self, base: &impl Base) -> Cover {
        let mut cover = Cover::default();
        for &field in self.numbers.keys() {
            match base.number(field).and_then(|number| self.field(field, number)) {
                Some(Ends { low, high, .. }) => cover.numbers.push((field, low, high)),
                None => cover.unknown.push(Location::Number(field)),
            }
        }
        for place in self.places.keys() {
            match self.contents(place, base) {
                Some(states) if *place == Place::LIFE_CYCLE => cover.states = states,
                _ => cover.unknown.push(Location::Place(place.clone())),
            }
        }
        cover
    }

    /// Between which values a sum of fields lies behind everything.
    pub(super) fn ends(&self, terms: &[Term], base: &impl Base) -> Option<Ends> {
        self.ends_in(View::End, terms, base)
    }

    fn ends_in(&self, view: View, terms: &[Term], base: &impl Base) -> Option<Ends> {
        let mut sum = Ends { low: 0, high: 0, reached: true };
        let mut moving = 0;
        for term in terms {
            let Ends { low, high, reached } = self.seen(term.field, base.number(term.field)?, view)?;
            let (low, high) = if term.negative { (high.checked_neg()?, low.checked_neg()?) } else { (low, high) };
            moving += usize::from(low != high);
            sum.low = sum.low.checked_add(low)?;
            sum.high = sum.high.checked_add(high)?;
            sum.reached &= reached;
        }
        sum.reached &= moving <= 1;
        Some(sum)
    }

    /// What the thresholds of `linear` say over all outcomes.
    ///
    /// [`Span::Mixed`] is exact: only one threshold is undecided, and both ends of its sum are reached.
    pub(super) fn span(&self, footprint: &Footprint, base: &impl Base) -> Span {
        let (mut undecided, mut reached) = (0, 0);
        let linear = &footprint.linear;
        if !footprint.is_told_in(base) {
            return Span::Unknown;
        }
        for hold in &linear.holds {
            let Some(contents) = self.contents(&hold.place, base) else { return Span::Unknown };
            match contents.iter().filter(|content| **content == hold.value).count() {
                0 => return Span::None,
                found if found == contents.len() => {}
                _ => (undecided, reached) = (undecided + 1, reached + 1),
            }
        }
        for threshold in &linear.thresholds {
            let Some(ends) = self.ends(&threshold.terms, base) else { return Span::Unknown };
            match holds_over(threshold.bound, ends.low, ends.high) {
                Span::All => {}
                Span::None => return Span::None,
                Span::Mixed | Span::Unknown if cfg!(planted = "overlook_thresholds") => {}
                Span::Mixed | Span::Unknown => {
                    undecided += 1;
                    reached += usize::from(ends.reached);
                }
            }
        }
        match (undecided, reached) {
            (0, _) => Span::All,
            (1, 1) => Span::Mixed,
            _ => Span::Unknown,
        }
    }

    /// What is in progress in a number or a place.
    pub(super) fn holder(&self, key: &Key) -> Holder {
        let holder = match key {
            Key::Number(field) => self.numbers.get(field).map(|cell| cell.holder(named_number)),
            Key::Place(place) => self.places.get(place).map(|cell| cell.holder(|value| named_content(value))),
            Key::Elements(_) | Key::Manner(_) | Key::Line | Key::Any => Some(Holder::Several),
        };
        holder.unwrap_or(Holder::Nothing)
    }

    /// Whether every open event stays possible in every outcome if `footprint` comes first, and leads to the same before it and
    /// after it; nothing if the cells cannot tell. What is in line, committed and not applied counts as what may come or not.
    ///
    /// An open event with delta `d` needs `value >= c` in every outcome of the *others*, the least of which is
    /// `low - min(0, d)`; after a newcomer with delta `e` it is `low - min(0, d) + min(0, e)`. So `low + min(0, e)` must
    /// reach `c + min(0, d)`, and only the greatest such number matters. The mirror image holds for upper bounds.
    pub(super) fn tolerates(&self, footprint: &Footprint, has_line: bool, base: &impl Base) -> Option<bool> {
        match self.obstacle(footprint, has_line, base) {
            Obstacle::Nothing => Some(true),
            Obstacle::Class(..) | Obstacle::Changes(_) => Some(false),
            Obstacle::Unknown => None,
        }
    }

    /// What keeps `footprint` from going before everything that is open.
    pub(super) fn obstacle(&self, footprint: &Footprint, has_line: bool, base: &impl Base) -> Obstacle {
        if let Some(obstacle) = self.other_class(footprint) {
            return obstacle;
        }
        if let Some(place) = self.relied_on_otherwise(footprint) {
            return Obstacle::Changes(vec![Key::Place(place.clone())]);
        }
        let twins = footprint.twins();
        let is_guarded = |written: &Location| {
            let readers = self.guarded.get(&whole(written)).into_iter().flat_map(BTreeMap::keys);
            // Of two that do the same the second is possible wherever the first one stands.
            readers.into_iter().any(|reader| reader.is_none() || *reader != twins)
        };
        let is_closed = |written: &Location| self.closed.has(written) && !cfg!(planted = "forget_the_line");
        let closed = footprint.written().find(|written| is_guarded(written) || is_closed(written));
        let closed = closed.or_else(|| footprint.touched().find(|touched| self.closed_by_change.has(touched)));
        let mixed = || footprint.reads().find(|read| self.has_cell(read)).filter(|_| footprint.mixes()).cloned();
        if let Some(location) = closed.or_else(mixed) {
            return Obstacle::Changes(vec![whole(&location)]);
        }
        let Some(needing) = self.needing(footprint, has_line, base) else { return Obstacle::Unknown };
        match needing {
            Ok(()) => Obstacle::Nothing,
            Err(terms) => {
                let numbers = terms.iter().map(|term| Key::Number(term.field));
                Obstacle::Changes(numbers.chain([Key::Line]).collect())
            }
        }
    }

    /// A place in which an open event relies on something else than what `footprint` leaves there.
    fn relied_on_otherwise<'a>(&'a self, footprint: &'a Footprint) -> Option<&'a Place> {
        let relies_on_other = |put: &&Content| {
            !cfg!(planted = "overlook_contents")
                && self.relied.get(&put.place).is_some_and(|relied| relied.keys().any(|value| *value != put.value))
        };
        let put = footprint.linear.puts.iter().find(relies_on_other).map(|put| &put.place);
        put.or_else(|| footprint.hidden().find(|hidden| self.relied.keys().any(|relied| relied.field == hidden.field)))
    }

    /// Whether something in progress changes what is there.
    fn has_cell(&self, location: &Location) -> bool {
        match location {
            Location::Number(field) => self.numbers.contains_key(field),
            Location::Place(place) => self.cells_of(&place.whole()).next().is_some(),
        }
    }

    /// The sum that an open event needs where `footprint` would not leave it; nothing if the cells cannot tell.
    fn needing(&self, footprint: &Footprint, has_line: bool, base: &impl Base) -> Option<Result<(), &[Term]>> {
        let view = if has_line { View::Anywhere } else { View::End };
        for (terms, needs) in &self.needs {
            if !footprint.moves(terms) || cfg!(planted = "overlook_needs") {
                continue;
            }
            let Ends { low, high, reached } = self.ends_in(view, terms, base)?;
            let (down, up) = self.moved(footprint, terms, base)?;
            let (low, high) = (low.checked_add(down)?, high.checked_add(up)?);
            let low_ok = needs.low.last_key_value().is_none_or(|(&need, _)| low >= need);
            let high_ok = needs.high.first_key_value().is_none_or(|(&need, _)| high <= need);
            if !(low_ok && high_ok) {
                return reached.then_some(Err(terms));
            }
        }
        Some(Ok(()))
    }

    /// Whether `first` might change, in some outcome, whether `second` is possible, or what it does.
    ///
    /// Never misses a change; sees one too many where no outcome has the value at which it would happen.
    pub(super) fn crosses(&self, first: &Footprint, second: &Footprint, base: &impl Base) -> bool {
        let moves_place = |hold: &Content| {
            first.linear.puts.iter().any(|put| put.place == hold.place && put.value != hold.value)
                || first.hidden().any(|hidden| hidden.field == hold.place.field)
        };
        let crosses = |threshold: &Threshold| {
            if !first.moves(&threshold.terms) {
                return false;
            }
            let ends = self.ends(&threshold.terms, base).zip(self.moved(first, &threshold.terms, base));
            let Some((Ends { low, high, .. }, (down, up))) = ends else { return true };
            holds_over(threshold.bound, low.saturating_add(down), high.saturating_add(up)) == Span::Mixed
        };
        let is_changed = |read: &Location| first.written().any(|written| whole(&written) == whole(read));
        second.linear.holds.iter().any(moves_place)
            || second.linear.thresholds.iter().any(crosses)
            || second.reads().any(is_changed)
    }

    /// How far `footprint` may move the ends of a sum, down and up.
    pub(super) fn moved(&self, footprint: &Footprint, terms: &[Term], base: &impl Base) -> Option<(i128, i128)> {
        let linear = &footprint.linear;
        let delta = added(linear, terms);
        let (mut down, mut up) = (delta.min(0), delta.max(0));
        for term in terms {
            let assigned = linear.assigned.iter().find(|(field, _)| *field == term.field);
            let made = footprint.made().find(|made| made.field == term.field);
            if assigned.is_none() && made.is_none() {
                continue;
            }
            let Ends { low, high, .. } = self.field(term.field, base.number(term.field)?)?;
            let (least, greatest) = match (assigned, made) {
                (Some((_, value)), _) => (*value, *value),
                (None, Some(made)) => (made.image)(low, high)?,
                (None, None) => continue,
            };
            let (lower, higher) = (least.min(low).checked_sub(low)?, greatest.max(high).checked_sub(high)?);
            let (lower, higher) = if term.negative { (-higher, -lower) } else { (lower, higher) };
            (down, up) = (down.checked_add(lower)?, up.checked_add(higher)?);
        }
        Some((down, up))
    }

    /// Whether every sum that the event can become part of fits into the numbers.
    fn fits(&self, footprint: &Footprint) -> bool {
        let numbers = footprint.numbers().all(|(field, doing)| {
            self.numbers.get(&field).map_or_else(|| Cell::default().fits(&doing), |cell| cell.fits(&doing))
        });
        let needs = footprint.linear.thresholds.iter().all(|threshold| {
            let (Bound::AtLeast(bound) | Bound::AtMost(bound)) = threshold.bound;
            let mut deltas = threshold.terms.iter().map(|term| footprint.linear.delta(term.field).unsigned_abs());
            let sum = deltas.try_fold(bound.unsigned_abs(), u128::checked_add);
            sum.is_some_and(|sum| sum <= i128::MAX.unsigned_abs())
        });
        numbers && needs
    }

    fn forget_open(&mut self, footprint: &Footprint) {
        for read in footprint.reads() {
            let key = whole(read);
            let readers = self.guarded.get_mut(&key).expect("what is read leaves as often as it came");
            count(readers, footprint.twins(), |count| count - 1);
            if readers.is_empty() {
                self.guarded.remove(&key);
            }
        }
        let linear = &footprint.linear;
        for Content { place, value } in &linear.holds {
            let relied = self.relied.get_mut(place).expect("what is relied on leaves as often as it came");
            count(relied, value.clone(), |count| count - 1);
            if relied.is_empty() {
                self.relied.remove(place);
            }
        }
        for threshold in &linear.thresholds {
            let (needs, value) = self.need(linear, &threshold.terms, threshold.bound);
            count(needs, value, |count| count - 1);
            if self.needs.get(&threshold.terms).is_some_and(|needs| needs.low.is_empty() && needs.high.is_empty()) {
                self.needs.remove(&threshold.terms);
            }
        }
    }

    /// Where and under which value the need of one threshold is counted.
    fn need(&mut self, linear: &Linear, terms: &[Term], bound: Bound) -> (&mut BTreeMap<i128, usize>, i128) {
        let delta = added(linear, terms);
        if !self.needs.contains_key(terms) {
            self.needs.insert(terms.to_vec(), Needs::default());
        }
        let needs = self.needs.get_mut(terms).expect("it is there");
        match bound {
            Bound::AtLeast(bound) => (&mut needs.low, bound + delta.min(0)),
            Bound::AtMost(bound) => (&mut needs.high, bound + delta.max(0)),
        }
    }
}

const fn named_number(value: &i128) -> Class {
    Class::Number(*value)
}

fn named_content(value: &str) -> Class {
    Class::Content(value.to_owned())
}

fn of_number(doing: &Doing<i128>) -> Class {
    Class::of(doing, named_number)
}

fn of_content(doing: &Doing<String>) -> Class {
    Class::of(doing, |value| named_content(value))
}

/// The number, or the field as a whole.
const fn whole(location: &Location) -> Key {
    match location {
        Location::Place(place) => Key::Place(place.whole()),
        Location::Number(field) => Key::Number(*field),
    }
}

/// What `bound` says over all values from `low` to `high`, if both are possible.
pub(super) fn holds_over(bound: Bound, low: i128, high: i128) -> Span {
    let (all, some) = match bound {
        Bound::AtLeast(bound) => (low >= bound, high >= bound),
        Bound::AtMost(bound) => (high <= bound, low <= bound),
    };
    match (all, some) {
        (true, _) => Span::All,
        (false, false) => Span::None,
        (false, true) => Span::Mixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same number in every field, and the same content in every place.
    struct Everywhere(i128, &'static str);

    impl Base for Everywhere {
        fn number(&self, _: Field) -> Option<i128> {
            Some(self.0)
        }

        fn content(&self, _: &Place) -> Option<String> {
            Some(self.1.to_owned())
        }
    }

    const BALANCE: Field = Field(0);

    fn withdraw(amount: i128) -> Linear {
        Linear {
            states: vec!["opened".into()],
            thresholds: vec![Threshold::of(BALANCE, Bound::AtLeast(amount))],
            deltas: vec![(BALANCE, -amount)],
            ..Linear::default()
        }
    }

    fn range(interval: &Interval, base: i128) -> Option<(i128, i128)> {
        interval.field(BALANCE, base).map(|ends| (ends.low, ends.high))
    }

    #[test]
    fn sums_return_to_nothing_when_everything_has_left() {
        let mut interval = Interval::default();
        let taken: Vec<_> = (1..=4).map(|amount| interval.open(Some(Footprint::of(withdraw(amount))))).collect();
        assert_eq!(range(&interval, 100), Some((90, 100)));
        interval.commit(taken[0].as_ref(), false);
        interval.abort(taken[1].as_ref());
        interval.commit(taken[2].as_ref(), false);
        assert_eq!(range(&interval, 100), Some((92, 96)));
        interval.apply(taken[0].as_ref(), false);
        interval.apply(taken[2].as_ref(), false);
        interval.abort(taken[3].as_ref());
        assert!(interval.numbers.is_empty() && interval.needs.is_empty() && interval.is_exact());
    }

    #[test]
    fn a_sum_that_would_overflow_makes_the_event_not_linear() {
        let mut interval = Interval::default();
        let huge = Linear { deltas: vec![(BALANCE, i128::MAX)], ..Linear::default() };
        assert!(interval.open(Some(Footprint::of(huge.clone()))).is_some());
        assert!(interval.open(Some(Footprint::of(huge))).is_none());
        assert!(!interval.is_exact());
        interval.abort(None);
        assert!(interval.is_exact());
    }

    #[test]
    fn a_deposit_under_a_ceiling_cannot_bear_a_further_deposit() {
        let mut interval = Interval::default();
        let capped = Linear {
            thresholds: vec![Threshold::of(BALANCE, Bound::AtMost(100))],
            deltas: vec![(BALANCE, 50)],
            ..Linear::default()
        };
        let free = |amount| Linear { deltas: vec![(BALANCE, amount)], ..Linear::default() };
        interval.open(Some(Footprint::of(capped)));
        assert_eq!(interval.tolerates(&Footprint::of(free(10)), false, &Everywhere(100, "")), Some(false));
        assert_eq!(interval.tolerates(&Footprint::of(free(10)), false, &Everywhere(90, "")), Some(true));
        assert_eq!(interval.tolerates(&Footprint::of(free(-10)), false, &Everywhere(100, "")), Some(true));
    }

    #[test]
    fn a_sum_of_two_moving_fields_is_undecided_where_only_its_bounds_disagree() {
        let limit = Field(1);
        let both = |bound| Threshold {
            terms: vec![Term { field: BALANCE, negative: false }, Term { field: limit, negative: false }],
            bound: Bound::AtLeast(bound),
        };
        let wants = |bound| Linear { thresholds: vec![both(bound)], ..Linear::default() };
        let base = &Everywhere(100, "");
        let mut interval = Interval::default();
        interval.open(Some(Footprint::of(withdraw(10))));
        assert_eq!(interval.span(&Footprint::of(wants(190)), base), Span::All);
        assert_eq!(interval.span(&Footprint::of(wants(191)), base), Span::Mixed);
        assert_eq!(interval.span(&Footprint::of(wants(201)), base), Span::None);
        // One open event moves ten from the limit to the balance: the sum stays 190 or 200, its bounds say 180 to 210.
        let swap = Linear { deltas: vec![(BALANCE, 10), (limit, -10)], ..Linear::default() };
        interval.open(Some(Footprint::of(swap)));
        assert_eq!(interval.span(&Footprint::of(wants(180)), base), Span::All);
        assert_eq!(interval.span(&Footprint::of(wants(185)), base), Span::Unknown);
        assert_eq!(interval.span(&Footprint::of(wants(211)), base), Span::None);
    }
}
