//! The interval domain: what is open on each numeric field, as sums, and in each place, as contents.
//!
//! While everything in progress is [`Linear`], the possible values of a field lie between *low* (every open subtraction
//! commits, no open addition does) and *high* (the reverse), and both ends are reached. A threshold therefore holds in
//! all outcomes exactly if it holds at the worse end, and in none exactly if it fails at the better end: escrow, taken
//! from the contract for free. One verdict costs one lookup per threshold, however much is open.
//!
//! A threshold may bound a sum of fields, such as balance and overdraft limit. Its ends are the sums of the ends. They are
//! reached as long as what is open moves only one of the fields; else they are only bounds, and what they leave
//! undecided the outcomes decide.
//!
//! A field may be given a number instead, and a place a content. What is in progress on one field or place is all of one kind:
//! additions, or one number, or one content. So there are two values at most, the one before and the one that is given, and both
//! are reached. An event of another kind waits; where a strategy admits it nevertheless, it counts as not linear.
//!
//! For the other direction (a newcomer must not make an open event impossible) each open event leaves, per threshold, the
//! least *low* or the greatest *high* that it can bear. What it can bear counts from the outcomes without itself, which is
//! why its own delta is part of that number; see [`Interval::tolerates`].

use std::collections::BTreeMap;

use crate::model::{Bound, Content, Field, Linear, Place, Term, Threshold};

/// The applied values.
pub(super) trait Base {
    /// The number in a field, if there is one.
    fn number(&self, field: Field) -> Option<i128>;
    /// What is in a place, if there is such a place.
    fn content(&self, place: &Place) -> Option<String>;
}

/// The sums over everything in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Interval {
    fields: BTreeMap<Field, Sums>,
    assigned: BTreeMap<Field, Given<i128>>,
    places: BTreeMap<Place, Given<String>>,
    /// What the open events need to find in places, each with the number of them.
    relied: BTreeMap<Place, BTreeMap<String, usize>>,
    needs: BTreeMap<Vec<Term>, Needs>,
    /// How many in progress are not linear: the sums do not describe them.
    others: usize,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    /// Of the amounts of everything in progress, without their signs: as long as it fits, every other sum does.
    volume: u128,
    /// Of the committed that are not applied yet.
    certain: i128,
    /// Of the open subtractions.
    negative: i128,
    /// Of the open additions.
    positive: i128,
}

/// The value that everything in progress gives to one field or place.
#[derive(Clone, Debug)]
struct Given<V> {
    value: V,
    open: usize,
    committed: usize,
}

/// What the open events need of one sum of fields.
#[derive(Clone, Debug, Default)]
struct Needs {
    /// The values that the low end must not fall below, each with the number of open events that need it.
    low: BTreeMap<i128, usize>,
    /// The values that the high end must not rise above, likewise.
    high: BTreeMap<i128, usize>,
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
    /// The sums cannot tell.
    Unknown,
}

/// Between which values a sum of fields lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) low: i128,
    pub(super) high: i128,
    /// Whether both ends are reached.
    pub(super) reached: bool,
}

/// What the deltas of an event add to a sum.
pub(super) fn added(linear: &Linear, terms: &[Term]) -> i128 {
    let signed = |term: &Term| {
        let delta = linear.delta(term.field);
        if term.negative { delta.saturating_neg() } else { delta }
    };
    terms.iter().map(signed).fold(0, i128::saturating_add)
}

/// Whether `linear` changes a sum.
fn moves(linear: &Linear, terms: &[Term]) -> bool {
    added(linear, terms) != 0 || terms.iter().any(|term| linear.assigned.iter().any(|(field, _)| *field == term.field))
}

/// Whether `linear` says what happens in `base`: all that it replaces is there. A number that comes in another currency than the
/// one that is there takes away what the sums are about.
pub(super) fn is_told_in(linear: &Linear, base: &impl Base) -> bool {
    linear.puts.iter().all(|put| base.content(&put.place).is_some())
        && linear.assigned.iter().all(|(field, _)| base.number(*field).is_some())
}

/// Whether the order of two events shows in what they leave.
pub(super) fn differ_by_order(first: &Linear, second: &Linear) -> bool {
    let adds = |linear: &Linear, field: Field| linear.deltas.iter().any(|(other, _)| *other == field);
    let gives_other = |first: &Linear, second: &Linear| {
        let is_other = |&(field, value): &(Field, i128)| {
            adds(second, field) || second.assigned.iter().any(|&(other, found)| other == field && found != value)
        };
        first.assigned.iter().any(is_other)
    };
    let puts_other =
        |put: &Content| second.puts.iter().any(|other| other.place == put.place && other.value != put.value);
    gives_other(first, second) || gives_other(second, first) || first.puts.iter().any(puts_other)
}

impl Interval {
    /// Whether the sums describe everything in progress.
    pub(super) fn is_exact(&self) -> bool {
        self.others == 0
    }

    /// Whether no open event changes a number or a content.
    pub(super) fn is_settled(&self) -> bool {
        self.fields.values().all(|sums| sums.negative == 0 && sums.positive == 0)
            && self.assigned.values().all(|given| given.open == 0)
            && self.places.values().all(|given| given.open == 0)
    }

    /// Takes up an admitted event; `None` is one that is not linear.
    ///
    /// A sum that would overflow, or another kind of change than what is in progress, makes the event count as not linear; the
    /// return value says which it is. So does a number that is assigned behind one that is not linear: that one may replace
    /// the number by one in another currency, of which these sums say nothing.
    pub(super) fn open(&mut self, linear: Option<Linear>) -> Option<Linear> {
        let keeps_currency = |linear: &Linear| linear.assigned.is_empty() || self.is_exact();
        let fitting =
            linear.filter(|linear| self.fits(linear) && self.is_of_one_kind_with(linear) && keeps_currency(linear));
        let Some(linear) = &fitting else {
            self.others += 1;
            return None;
        };
        for &(field, delta) in &linear.deltas {
            let sums = self.fields.entry(field).or_default();
            sums.volume += delta.unsigned_abs();
            *sums.side(delta) += delta;
        }
        for &(field, value) in &linear.assigned {
            self.assigned.entry(field).or_insert(Given { value, open: 0, committed: 0 }).open += 1;
        }
        for Content { place, value } in &linear.puts {
            let given = Given { value: value.clone(), open: 0, committed: 0 };
            self.places.entry(place.clone()).or_insert(given).open += 1;
        }
        for Content { place, value } in &linear.holds {
            *self.relied.entry(place.clone()).or_default().entry(value.clone()).or_insert(0) += 1;
        }
        for threshold in &linear.thresholds {
            let (needs, value) = self.need(linear, &threshold.terms, threshold.bound);
            *needs.entry(value).or_insert(0) += 1;
        }
        fitting
    }

    /// Whether each field and place that `linear` changes is changed in one way only, by it and by all that is in progress.
    fn is_of_one_kind_with(&self, linear: &Linear) -> bool {
        linear.deltas.iter().all(|(field, _)| !self.assigned.contains_key(field))
            && linear.assigned.iter().all(|(field, value)| {
                !self.fields.contains_key(field) && self.assigned.get(field).is_none_or(|given| given.value == *value)
            })
            && linear.puts.iter().all(|put| self.places.get(&put.place).is_none_or(|given| given.value == put.value))
    }

    /// An open event is committed: its deltas are certain now, and nothing can disturb it any more.
    pub(super) fn commit(&mut self, linear: Option<&Linear>) {
        let Some(linear) = linear else { return };
        self.forget_open(linear);
        for &(field, delta) in &linear.deltas {
            self.fields.entry(field).or_default().certain += delta;
        }
        self.given(linear, |open, committed| (open - 1, committed + 1));
    }

    /// An open event is aborted.
    pub(super) fn abort(&mut self, linear: Option<&Linear>) {
        let Some(linear) = linear else {
            self.others -= 1;
            return;
        };
        self.forget_open(linear);
        self.given(linear, |open, committed| (open - 1, committed));
        self.leave(linear);
    }

    /// A committed event is applied: it is part of the base now.
    pub(super) fn apply(&mut self, linear: Option<&Linear>) {
        let Some(linear) = linear else {
            self.others -= 1;
            return;
        };
        for &(field, delta) in &linear.deltas {
            self.fields.entry(field).or_default().certain -= delta;
        }
        self.given(linear, |open, committed| (open, committed - 1));
        self.leave(linear);
    }

    /// Counts anew who gives what `linear` gives.
    fn given(&mut self, linear: &Linear, count: fn(usize, usize) -> (usize, usize)) {
        for (field, _) in &linear.assigned {
            let given = self.assigned.get_mut(field).expect("what is given leaves as often as it came");
            (given.open, given.committed) = count(given.open, given.committed);
            if given.open + given.committed == 0 {
                self.assigned.remove(field);
            }
        }
        for Content { place, .. } in &linear.puts {
            let given = self.places.get_mut(place).expect("what is given leaves as often as it came");
            (given.open, given.committed) = count(given.open, given.committed);
            if given.open + given.committed == 0 {
                self.places.remove(place);
            }
        }
    }

    /// What is in `place` in all outcomes, if it is one content.
    pub(super) fn settled_content(&self, place: &Place, base: &impl Base) -> Option<String> {
        match self.places.get(place) {
            Some(given) if given.open > 0 && given.committed == 0 => {
                base.content(place).filter(|content| *content == given.value)
            }
            Some(given) => Some(given.value.clone()),
            None => base.content(place),
        }
    }

    /// Between which values `field` lies, if its applied value is `base`.
    pub(super) fn field(&self, field: Field, base: i128) -> Option<Ends> {
        if let Some(given) = self.assigned.get(&field) {
            let base = if given.committed > 0 { given.value } else { base };
            return Some(Ends { low: base.min(given.value), high: base.max(given.value), reached: true });
        }
        let Some(sums) = self.fields.get(&field) else { return Some(Ends { low: base, high: base, reached: true }) };
        let certain = base.checked_add(sums.certain)?;
        let (low, high) = (certain.checked_add(sums.negative)?, certain.checked_add(sums.positive)?);
        Some(Ends { low, high, reached: true })
    }

    /// Between which values a sum of fields lies.
    pub(super) fn ends(&self, terms: &[Term], base: &impl Base) -> Option<Ends> {
        let mut sum = Ends { low: 0, high: 0, reached: true };
        let mut moving = 0;
        for term in terms {
            let Ends { low, high, .. } = self.field(term.field, base.number(term.field)?)?;
            let (low, high) = if term.negative { (high.checked_neg()?, low.checked_neg()?) } else { (low, high) };
            moving += usize::from(low != high);
            sum.low = sum.low.checked_add(low)?;
            sum.high = sum.high.checked_add(high)?;
        }
        sum.reached = moving <= 1;
        Some(sum)
    }

    /// What the thresholds of `linear` say over all outcomes.
    ///
    /// [`Span::Mixed`] is exact: only one threshold is undecided, and both ends of its sum are reached.
    pub(super) fn span(&self, linear: &Linear, base: &impl Base) -> Span {
        let (mut undecided, mut reached) = (0, 0);
        if !is_told_in(linear, base) {
            return Span::Unknown;
        }
        for hold in &linear.holds {
            let Some(before) = base.content(&hold.place) else { return Span::Unknown };
            let given = self.places.get(&hold.place);
            let if_none = if given.is_some_and(|given| given.committed > 0) { None } else { Some(&before) };
            let holds = |value: &String| *value == hold.value;
            match (if_none.map(holds), given.map(|given| holds(&given.value))) {
                (Some(true) | None, Some(true) | None) => {}
                (Some(false) | None, Some(false) | None) => return Span::None,
                _ => (undecided, reached) = (undecided + 1, reached + 1),
            }
        }
        for threshold in &linear.thresholds {
            let Some(ends) = self.ends(&threshold.terms, base) else { return Span::Unknown };
            match holds_over(threshold.bound, ends.low, ends.high) {
                Span::All => {}
                Span::None => return Span::None,
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

    /// Whether every open event stays possible in every outcome if `linear` comes first, and leads to the same before it and
    /// after it; nothing if the sums cannot tell.
    ///
    /// An open event with delta `d` needs `value >= c` in every outcome of the *others*, the least of which is
    /// `low - min(0, d)`; after a newcomer with delta `e` it is `low - min(0, d) + min(0, e)`. So `low + min(0, e)` must
    /// reach `c + min(0, d)`, and only the greatest such number matters. The mirror image holds for upper bounds.
    pub(super) fn tolerates(&self, linear: &Linear, base: &impl Base) -> Option<bool> {
        let relies_on_other = |put: &Content| {
            self.relied.get(&put.place).is_some_and(|relied| relied.keys().any(|value| *value != put.value))
        };
        if !self.is_of_one_kind_with(linear) || linear.puts.iter().any(relies_on_other) {
            return Some(false);
        }
        for (terms, needs) in &self.needs {
            if !moves(linear, terms) {
                continue;
            }
            let Ends { low, high, reached } = self.ends(terms, base)?;
            let (down, up) = self.moved(linear, terms, base)?;
            let (low, high) = (low.checked_add(down)?, high.checked_add(up)?);
            let low_ok = needs.low.last_key_value().is_none_or(|(&need, _)| low >= need);
            let high_ok = needs.high.first_key_value().is_none_or(|(&need, _)| high <= need);
            if !(low_ok && high_ok) {
                return reached.then_some(false);
            }
        }
        Some(true)
    }

    /// Whether the deltas of `first` might change, in some outcome, whether a threshold of `second` holds.
    ///
    /// Never misses a change; sees one too many where no outcome has the value at which it would happen.
    pub(super) fn crosses(&self, first: &Linear, second: &Linear, base: &impl Base) -> bool {
        let moves_place =
            |hold: &Content| first.puts.iter().any(|put| put.place == hold.place && put.value != hold.value);
        let crosses = |threshold: &Threshold| {
            if !moves(first, &threshold.terms) {
                return false;
            }
            let ends = self.ends(&threshold.terms, base).zip(self.moved(first, &threshold.terms, base));
            let Some((Ends { low, high, .. }, (down, up))) = ends else { return true };
            holds_over(threshold.bound, low.saturating_add(down), high.saturating_add(up)) == Span::Mixed
        };
        second.holds.iter().any(moves_place) || second.thresholds.iter().any(crosses)
    }

    /// How far `linear` may move the ends of a sum, down and up.
    fn moved(&self, linear: &Linear, terms: &[Term], base: &impl Base) -> Option<(i128, i128)> {
        let delta = added(linear, terms);
        let (mut down, mut up) = (delta.min(0), delta.max(0));
        for term in terms {
            let Some(&(_, value)) = linear.assigned.iter().find(|(field, _)| *field == term.field) else { continue };
            let Ends { low, high, .. } = self.field(term.field, base.number(term.field)?)?;
            let (lower, higher) = (value.min(low).checked_sub(low)?, value.max(high).checked_sub(high)?);
            let (lower, higher) = if term.negative { (-higher, -lower) } else { (lower, higher) };
            (down, up) = (down.checked_add(lower)?, up.checked_add(higher)?);
        }
        Some((down, up))
    }

    /// Whether every sum that the event can become part of fits into the numbers.
    fn fits(&self, linear: &Linear) -> bool {
        let volume = |field| self.fields.get(&field).map_or(0, |sums| sums.volume);
        let fits = |volume: Option<u128>| volume.is_some_and(|volume| volume <= i128::MAX.unsigned_abs());
        let volumes = linear.deltas.iter().all(|&(field, delta)| fits(volume(field).checked_add(delta.unsigned_abs())));
        let needs = linear.thresholds.iter().all(|threshold| {
            let (Bound::AtLeast(bound) | Bound::AtMost(bound)) = threshold.bound;
            let mut deltas = threshold.terms.iter().map(|term| linear.delta(term.field).unsigned_abs());
            fits(deltas.try_fold(bound.unsigned_abs(), u128::checked_add))
        });
        volumes && needs
    }

    fn forget_open(&mut self, linear: &Linear) {
        for &(field, delta) in &linear.deltas {
            *self.fields.entry(field).or_default().side(delta) -= delta;
        }
        for Content { place, value } in &linear.holds {
            let relied = self.relied.get_mut(place).expect("what is relied on leaves as often as it came");
            let count = relied.get_mut(value).expect("what is relied on leaves as often as it came");
            *count -= 1;
            relied.retain(|_, count| *count > 0);
            if relied.is_empty() {
                self.relied.remove(place);
            }
        }
        for threshold in &linear.thresholds {
            let (needs, value) = self.need(linear, &threshold.terms, threshold.bound);
            let count = needs.get_mut(&value).expect("a need leaves as often as it came");
            *count -= 1;
            if *count == 0 {
                needs.remove(&value);
            }
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

    fn leave(&mut self, linear: &Linear) {
        for &(field, delta) in &linear.deltas {
            let sums = self.fields.entry(field).or_default();
            sums.volume -= delta.unsigned_abs();
            if sums.volume == 0 {
                self.fields.remove(&field);
            }
        }
    }
}

impl Sums {
    fn side(&mut self, delta: i128) -> &mut i128 {
        if delta < 0 { &mut self.negative } else { &mut self.positive }
    }
}

impl Linear {
    /// What is added to `field`.
    pub(super) fn delta(&self, field: Field) -> i128 {
        self.deltas.iter().find_map(|&(f, delta)| (f == field).then_some(delta)).unwrap_or(0)
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
        let taken: Vec<_> = (1..=4).map(|amount| interval.open(Some(withdraw(amount)))).collect();
        assert_eq!(range(&interval, 100), Some((90, 100)));
        interval.commit(taken[0].as_ref());
        interval.abort(taken[1].as_ref());
        interval.commit(taken[2].as_ref());
        assert_eq!(range(&interval, 100), Some((92, 96)));
        interval.apply(taken[0].as_ref());
        interval.apply(taken[2].as_ref());
        interval.abort(taken[3].as_ref());
        assert!(interval.fields.is_empty() && interval.needs.is_empty() && interval.is_exact());
    }

    #[test]
    fn a_sum_that_would_overflow_makes_the_event_not_linear() {
        let mut interval = Interval::default();
        let huge = Linear { deltas: vec![(BALANCE, i128::MAX)], ..Linear::default() };
        assert!(interval.open(Some(huge.clone())).is_some());
        assert!(interval.open(Some(huge)).is_none());
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
        interval.open(Some(capped));
        assert_eq!(interval.tolerates(&free(10), &Everywhere(100, "")), Some(false));
        assert_eq!(interval.tolerates(&free(10), &Everywhere(90, "")), Some(true));
        assert_eq!(interval.tolerates(&free(-10), &Everywhere(100, "")), Some(true));
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
        interval.open(Some(withdraw(10)));
        assert_eq!(interval.span(&wants(190), base), Span::All);
        assert_eq!(interval.span(&wants(191), base), Span::Mixed);
        assert_eq!(interval.span(&wants(201), base), Span::None);
        // One open event moves ten from the limit to the balance: the sum stays 190 or 200, its bounds say 180 to 210.
        let swap = Linear { deltas: vec![(BALANCE, 10), (limit, -10)], ..Linear::default() };
        interval.open(Some(swap));
        assert_eq!(interval.span(&wants(180), base), Span::All);
        assert_eq!(interval.span(&wants(185), base), Span::Unknown);
        assert_eq!(interval.span(&wants(211), base), Span::None);
    }
}
