//! What is in progress on one number or in one place.
//!
//! Changes of one *class* commute: additions, the same value, the same function. Neighbours in the order of slots that are of one
//! class share a *segment*, so that a cell has few of them however much is open, and its values follow from one end to the other.

use std::{cell, fmt};

use super::index::{Class, Holder};
use crate::model::Image;

/// Segments of one cell at most: what would open one more waits.
const SEGMENTS_MAX: usize = 24;

/// Changes of one class at most, where each of them has to be followed.
const MEMBERS_MAX: usize = 32;

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
    /// What was last found out of functions.
    reach: cell::Cell<Option<Reach>>,
}

/// Where some changes by one function lead.
#[derive(Clone, Copy, Debug)]
struct Reach {
    from: (i128, i128),
    /// How many changes there are, and how many of them happen for certain.
    members: usize,
    certain: usize,
    to: (i128, i128),
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

    /// Whether there is room behind all.
    pub(super) fn has_room(&self, doing: &Doing<V>) -> bool {
        match self.segments.last().filter(|last| last.doing.is_of_class(doing)) {
            Some(last) => !matches!(doing, Doing::Makes(..)) || last.open + last.committed < MEMBERS_MAX,
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
            let (doing, sums, reach) = (doing.clone(), Sums::default(), cell::Cell::default());
            let segment = Segment { seat, doing, open: 0, committed: 0, sums, reach };
            self.segments.push(segment);
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
                Doing::Makes(_, image) => {
                    ends.reached = false;
                    (ends.low, ends.high) = segment.reached(image, (ends.low, ends.high), certain)?;
                }
                Doing::Hides => return None,
            }
        }
        Some(ends)
    }
}

impl<V> Segment<V> {
    /// Between which values a number lies behind all changes, of which the first `certain` ones happen; nothing if that is not known.
    ///
    /// One more change behind those that were looked at last costs one look at the function.
    fn reached(&self, image: &Image, from: (i128, i128), certain: usize) -> Option<(i128, i128)> {
        let members = self.open + self.committed;
        let known = self.reach.get().filter(|known| known.from == from && known.certain == certain);
        let known = known.filter(|known| known.members <= members);
        let (mut to, first) = known.map_or((from, 0), |known| (known.to, known.members));
        for member in first..members {
            let (low, high) = image(to.0, to.1)?;
            to = if member < certain { (low, high) } else { (to.0.min(low), to.1.max(high)) };
        }
        self.reach.set(Some(Reach { from, members, certain, to }));
        Some(to)
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

    use proptest::prelude::*;

    use super::*;

    fn follow((low, high): (i128, i128)) -> (i128, i128) {
        (low / 2 + 10, high / 3 + 40)
    }

    proptest! {
        /// However a cell came to what it holds, its ends are those of each change followed anew.
        #[test]
        fn where_functions_lead_does_not_depend_on_what_was_asked_before(
            steps in prop::collection::vec((0..4_u8, 0..3_i128, any::<bool>()), 1..60),
        ) {
            let doing = Doing::Makes(Some(1), Arc::new(|low, high| Some(follow((low, high)))));
            let mut cell = Cell::<i128>::default();
            let (mut open, mut committed) = (Vec::new(), Vec::new());
            for (step, base, is_end) in steps {
                match step {
                    0 => open.push(cell.open(&doing)),
                    1 => committed.extend(open.pop().inspect(|seat| cell.commit(*seat, &doing))),
                    2 => open.pop().into_iter().for_each(|seat| cell.abort(seat, &doing)),
                    _ => committed.pop().into_iter().for_each(|seat| cell.apply(seat, &doing)),
                }
                let (view, certain) = if is_end { (View::End, committed.len()) } else { (View::Anywhere, 0) };
                let expected = (0..open.len() + committed.len()).fold((base, base), |ends, member| {
                    let (low, high) = follow(ends);
                    if member < certain { (low, high) } else { (ends.0.min(low), ends.1.max(high)) }
                });
                let ends = cell.ends(base, view).expect("it is known");
                prop_assert_eq!((ends.low, ends.high), expected);
            }
        }
    }
}
