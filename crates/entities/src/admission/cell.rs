//! What is in progress on one number or in one place.
//!
//! Changes of one *class* commute: additions, the same value, the same function. Neighbours in the order of slots that are of one
//! class share a *segment*, so that a cell has few of them however much is open, and its values follow from one end to the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

use super::index::{Class, Holder};
use crate::model::Image;

/// Segments of one cell at most: what would open one more waits.
const SEGMENTS_MAX: usize = 24;

/// Changes of one class at most, where each of them has to be followed.
const MEMBERS_MAX: usize = 32;

/// How often one look at a number evaluates functions anew whose values have become fewer.
const LOOKS_MAX: usize = 8;

/// One change of a cell.
#[derive(Clone)]
pub(super) enum Doing<V> {
    /// It adds this amount.
    Adds(i128),
    /// It puts this there, whatever was there.
    Gives(V),
    /// It makes a number of the one that was there. Equal classes make the same of the same.
    Makes(Option<u64>, Image),
    /// It leaves something that is not known.
    Hides,
}

impl<V: fmt::Debug> fmt::Debug for Doing<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adds(amount) => write!(f, "adds {amount}"),
            Self::Gives(value) => write!(f, "gives {value:?}"),
            Self::Makes(class, _) => write!(f, "makes {class:?}"),
            Self::Hides => f.write_str("hides"),
        }
    }
}

impl<V: PartialEq> Doing<V> {
    pub(super) fn is_of_class(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Adds(_), Self::Adds(_)) => true,
            (Self::Gives(a), Self::Gives(b)) => a == b,
            (Self::Makes(a, _), Self::Makes(b, _)) => a.is_some() && a == b,
            _ => false,
        }
    }
}

/// Names a segment of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat(u64);

#[derive(Clone, Debug)]
pub(super) struct Cell<V> {
    segments: Vec<Segment<V>>,
    next: u64,
    /// Of all amounts, without their signs: as long as it fits, every sum of some of them does.
    volume: u128,
}

#[derive(Clone, Debug)]
struct Segment<V> {
    seat: Seat,
    /// The first change.
    doing: Doing<V>,
    open: usize,
    committed: usize,
    sums: Sums,
    /// Where functions lead, in each [`View`].
    courses: RefCell<[Course; 2]>,
}

/// Where changes by one function lead.
#[derive(Clone, Debug, Default)]
struct Course {
    /// Between which values the number lies behind none of the changes, behind one, behind two, and so on.
    steps: VecDeque<(i128, i128)>,
    /// How many of them, the first ones, follow from what was before all changes when it was asked for last. The others follow from
    /// more than that: what was there when more was open.
    followed: usize,
}

/// Amounts by what has become of them.
#[derive(Clone, Debug, Default)]
struct Sums {
    open: Signed,
    committed: Signed,
}

#[derive(Clone, Debug, Default)]
struct Signed {
    negative: i128,
    positive: i128,
}

impl Signed {
    fn side(&mut self, amount: i128) -> &mut i128 {
        if amount < 0 { &mut self.negative } else { &mut self.positive }
    }
}

impl<V> Default for Cell<V> {
    fn default() -> Self {
        Self { segments: Vec::new(), next: 0, volume: 0 }
    }
}

impl<V: PartialEq> Cell<V> {
    /// What is in progress, if `value` names the class of a value.
    pub(super) fn holder(&self, value: impl Fn(&V) -> Class) -> Holder {
        let Some(first) = self.segments.first() else { return Holder::Nothing };
        if self.segments.len() == 1 || self.is_of_class(&first.doing) {
            Holder::Of(Class::of(&first.doing, value))
        } else {
            Holder::Several
        }
    }

    /// Whether everything in progress is of the class of `doing`.
    pub(super) fn is_of_class(&self, doing: &Doing<V>) -> bool {
        self.segments.iter().all(|segment| segment.doing.is_of_class(doing))
    }

    /// Whether a change of this class has room behind all, if `value` names the class of a value.
    pub(super) fn has_room(&self, class: &Class, value: impl Fn(&V) -> Class) -> bool {
        let joins = |last: &&Segment<V>| *class != Class::Own && Class::of(&last.doing, value) == *class;
        match self.segments.last().filter(joins) {
            Some(last) => !matches!(class, Class::Function(_)) || last.open + last.committed < MEMBERS_MAX,
            None => self.segments.len() < SEGMENTS_MAX,
        }
    }

    /// Whether no sum overflows with one more change.
    pub(super) fn fits(&self, doing: &Doing<V>) -> bool {
        let Doing::Adds(amount) = doing else { return true };
        self.volume.checked_add(amount.unsigned_abs()).is_some_and(|volume| volume <= i128::MAX.unsigned_abs())
    }

    /// Takes up a change behind all.
    pub(super) fn open(&mut self, doing: &Doing<V>) -> Seat
    where
        V: Clone,
    {
        if !self.segments.last().is_some_and(|last| last.doing.is_of_class(doing)) {
            let seat = Seat(self.next);
            self.next += 1;
            let (doing, sums, courses) = (doing.clone(), Sums::default(), RefCell::default());
            self.segments.push(Segment { seat, doing, open: 0, committed: 0, sums, courses });
        }
        let segment = self.segments.last_mut().expect("there is one");
        segment.open += 1;
        if let Doing::Adds(amount) = doing {
            self.volume += amount.unsigned_abs();
            *segment.sums.open.side(*amount) += amount;
        }
        segment.seat
    }

    /// The change at `seat` is committed.
    pub(super) fn commit(&mut self, seat: Seat, doing: &Doing<V>) {
        let segment = self.segment(seat);
        segment.open -= 1;
        segment.committed += 1;
        if let Doing::Adds(amount) = doing {
            *segment.sums.open.side(*amount) -= amount;
            *segment.sums.committed.side(*amount) += amount;
        }
    }

    /// The change at `seat` is aborted.
    pub(super) fn abort(&mut self, seat: Seat, doing: &Doing<V>) {
        let segment = self.segment(seat);
        segment.open -= 1;
        if let Doing::Adds(amount) = doing {
            *segment.sums.open.side(*amount) -= amount;
        }
        self.leave(seat, doing);
    }

    /// The committed change at `seat` is applied.
    pub(super) fn apply(&mut self, seat: Seat, doing: &Doing<V>) {
        let segment = self.segment(seat);
        segment.committed -= 1;
        if let Doing::Adds(amount) = doing {
            *segment.sums.committed.side(*amount) -= amount;
        }
        self.leave(seat, doing);
    }

    fn leave(&mut self, seat: Seat, doing: &Doing<V>) {
        if let Doing::Adds(amount) = doing {
            self.volume -= amount.unsigned_abs();
        }
        self.segments.retain(|segment| segment.seat != seat || segment.open + segment.committed > 0);
    }

    fn segment(&mut self, seat: Seat) -> &mut Segment<V> {
        self.segments.iter_mut().find(|segment| segment.seat == seat).expect("a change leaves the seat that it took")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether no change is open.
    pub(super) fn is_settled(&self) -> bool {
        self.segments.iter().all(|segment| segment.open == 0)
    }
}

/// What is taken for certain of what is committed and not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// That it happens, as what stands behind everything sees it.
    End,
    /// Nothing, as what may go before some of it sees it.
    Anywhere,
}

/// Between which values a sum of fields lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) low: i128,
    pub(super) high: i128,
    /// Whether both ends are reached.
    pub(super) reached: bool,
}

impl Cell<i128> {
    /// Between which values the number lies, if its applied value is `base`; nothing if that is not known.
    pub(super) fn ends(&self, base: i128, view: View) -> Option<Ends> {
        let mut ends = Ends { low: base, high: base, reached: true };
        let mut looks = LOOKS_MAX;
        for segment in &self.segments {
            let certain = if view == View::End { segment.committed } else { 0 };
            match &segment.doing {
                Doing::Adds(_) => {
                    let Sums { open, committed } = &segment.sums;
                    let (down, up) = match view {
                        View::End => {
                            let sum = committed.negative + committed.positive;
                            (sum.checked_add(open.negative)?, sum.checked_add(open.positive)?)
                        }
                        View::Anywhere => (committed.negative + open.negative, committed.positive + open.positive),
                    };
                    ends.low = ends.low.checked_add(down)?;
                    ends.high = ends.high.checked_add(up)?;
                }
                Doing::Gives(value) if certain > 0 => ends = Ends { low: *value, high: *value, reached: true },
                Doing::Gives(value) => {
                    ends.low = ends.low.min(*value);
                    ends.high = ends.high.max(*value);
                }
                Doing::Makes(..) if cfg!(planted = "functions_stand_still") => {}
                Doing::Makes(_, image) => {
                    let members = segment.open + segment.committed;
                    let course = &mut segment.courses.borrow_mut()[view as usize];
                    course.follow((ends.low, ends.high), members, image, &mut looks)?;
                    let to = course.between(certain, members)?;
                    ends = Ends { reached: ends.reached && to.reached, ..to };
                }
                Doing::Hides => return None,
            }
        }
        Some(ends)
    }
}

impl Course {
    /// Follows `members` changes of a number between two; nothing if it is not known where they lead.
    ///
    /// One more change costs one look at the function, and one that is applied none. Where fewer values are left than before,
    /// `looks` bounds how many steps are looked at again; the others stay true.
    fn follow(&mut self, from: (i128, i128), members: usize, image: &Image, looks: &mut usize) -> Option<()> {
        let holds_all = |&(low, high): &(i128, i128)| low <= from.0 && from.1 <= high;
        match self.steps.iter().take(self.followed).position(|step| *step == from) {
            Some(0) => {}
            // The first ones have been applied.
            Some(applied) => {
                self.steps.truncate(self.followed);
                self.steps.drain(..applied);
                self.followed -= applied;
            }
            None if self.steps.front().is_some_and(holds_all) => (self.steps[0], self.followed) = (from, 1),
            None => *self = Self { steps: VecDeque::from([from]), followed: 1 },
        }
        let after = |(low, high): (i128, i128)| image(low, high);
        while self.followed < self.steps.len().min(members + 1) && *looks > 0 {
            *looks -= 1;
            self.steps[self.followed] = after(self.steps[self.followed - 1])?;
            self.followed += 1;
        }
        while let Some(&last) = self.steps.back().filter(|_| self.steps.len() <= members) {
            self.steps.push_back(after(last)?);
            self.followed += usize::from(self.followed + 1 == self.steps.len());
        }
        Some(())
    }

    /// Between which values the number lies, if at least `certain` of `members` equal changes happen: which ones does not show.
    fn between(&self, certain: usize, members: usize) -> Option<Ends> {
        let steps = || self.steps.range(certain..=members);
        let (low, high) = (steps().map(|step| step.0).min()?, steps().map(|step| step.1).max()?);
        let reached = self.followed > members && steps().all(|(low, high)| low == high);
        Some(Ends { low, high, reached })
    }
}

impl Cell<String> {
    /// What may be in the place behind everything, if `base` is applied; nothing if that is not known.
    pub(super) fn contents(&self, base: String) -> Option<Vec<String>> {
        let mut contents = vec![base];
        for segment in &self.segments {
            match &segment.doing {
                Doing::Gives(value) if segment.committed > 0 => contents = vec![value.clone()],
                Doing::Gives(value) if !contents.contains(value) => contents.push(value.clone()),
                Doing::Gives(_) => {}
                Doing::Hides => return None,
                Doing::Adds(_) | Doing::Makes(..) => unreachable!("contents are not counted"),
            }
        }
        Some(contents)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Neither rising nor falling, and one that leaves part of what it was made of.
    fn image(kind: u8, (low, high): (i128, i128)) -> (i128, i128) {
        let ends = |f: fn(i128) -> i128| {
            let values: Vec<i128> = (low..=high).map(f).collect();
            (*values.iter().min().expect("there is one"), *values.iter().max().expect("there is one"))
        };
        match kind {
            0 => ends(|x| x / 2 + 3),
            1 => ends(|x| 5 - x),
            _ => ends(|x| x * x % 7),
        }
    }

    /// What is in progress, as the test keeps it: an amount or a function, and whether it is committed.
    type Entry = (Doing<i128>, Seat, bool);

    /// All values behind `entries`, those that are `certain` or not.
    fn values(base: i128, entries: &[Entry], is_certain: impl Fn(&Entry) -> bool) -> Vec<i128> {
        entries.iter().fold(vec![base], |mut values, entry| {
            let after = |value: &i128| match &entry.0 {
                Doing::Adds(amount) => value + amount,
                Doing::Makes(_, image) => image(*value, *value).expect("it is known").0,
                _ => unreachable!("nothing else is opened"),
            };
            let happened: Vec<i128> = values.iter().map(after).collect();
            if is_certain(entry) {
                values = happened;
            } else {
                values.extend(happened);
            }
            values.sort_unstable();
            values.dedup();
            values
        })
    }

    proptest! {
        /// However a cell came to what it holds: no value lies outside of its ends, and where they are reached they are values.
        #[test]
        fn the_ends_hold_all_values_whatever_was_asked_before(
            kind in 0..3_u8,
            steps in prop::collection::vec((0..8_u8, -2..3_i128, any::<usize>()), 1..60),
        ) {
            let function = Doing::Makes(Some(1), Arc::new(move |low, high| Some(image(kind, (low, high)))));
            let mut cell = Cell::<i128>::default();
            let mut base = 4;
            let mut entries: Vec<Entry> = Vec::new();
            for (step, amount, which) in steps {
                let open: Vec<usize> = (0..entries.len()).filter(|&index| !entries[index].2).collect();
                let chosen = open.get(which % open.len().max(1)).copied();
                match (step, chosen) {
                    (0 | 1, _) => {
                        let doing = if step == 0 { Doing::Adds(amount) } else { function.clone() };
                        let seat = cell.open(&doing);
                        entries.push((doing, seat, false));
                    }
                    (2 | 3, Some(chosen)) => {
                        cell.commit(entries[chosen].1, &entries[chosen].0);
                        entries[chosen].2 = true;
                    }
                    (4, Some(chosen)) => {
                        let (doing, seat, _) = entries.remove(chosen);
                        cell.abort(seat, &doing);
                    }
                    (5, _) if entries.first().is_some_and(|first| first.2) => {
                        base = values(base, &entries[..1], |_| true)[0];
                        let (doing, seat, _) = entries.remove(0);
                        cell.apply(seat, &doing);
                    }
                    _ => {}
                }
                let views = [View::End, View::Anywhere];
                let view = views[which % 2];
                let found = cell.ends(base, view).expect("it is known");
                let values = values(base, &entries, |entry| view == View::End && entry.2);
                let (low, high) = (values[0], values[values.len() - 1]);
                prop_assert!(found.low <= low && high <= found.high, "{found:?} of {low} to {high}");
                prop_assert!(!found.reached || (found.low, found.high) == (low, high), "{found:?} of {low} to {high}");
                // With functions alone nothing is lost.
                let is_alike = entries.iter().all(|(doing, ..)| matches!(doing, Doing::Makes(..)));
                prop_assert!(!is_alike || (found.low, found.high) == (low, high), "{found:?} of {low} to {high}");
            }
        }
    }

    #[test]
    fn a_function_is_looked_at_once_for_each_change_and_not_again_when_one_is_applied() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let doing = Doing::Makes(
            Some(1),
            Arc::new(move |low, high| {
                counted.fetch_add(1, Ordering::Relaxed);
                Some((low + 1, high + 1))
            }),
        );
        let mut cell = Cell::<i128>::default();
        let seats: Vec<Seat> = (0..MEMBERS_MAX)
            .map(|_| {
                let seat = cell.open(&doing);
                cell.ends(0, View::End).expect("it is known");
                seat
            })
            .collect();
        for (base, seat) in (1..).zip(&seats[1..]) {
            cell.commit(*seat, &doing);
            cell.apply(*seat, &doing);
            cell.ends(base, View::End).expect("it is known");
        }
        assert_eq!(looks.load(Ordering::Relaxed), MEMBERS_MAX);
    }
}
