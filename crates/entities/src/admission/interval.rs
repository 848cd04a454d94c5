//! The interval domain: what is open on each numeric field, as sums.
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
//! For the other direction (a newcomer must not make an open event impossible) each open event leaves, per threshold, the
//! least *low* or the greatest *high* that it can bear. What it can bear counts from the outcomes without itself, which is
//! why its own delta is part of that number; see [`Interval::tolerates`].

use std::collections::BTreeMap;

use crate::model::{Bound, Field, Linear, Term};

/// The sums over everything in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Interval {
    fields: BTreeMap<Field, Sums>,
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

impl Interval {
    /// Whether the sums describe everything in progress.
    pub(super) fn is_exact(&self) -> bool {
        self.others == 0
    }

    /// Whether no open event changes a number.
    pub(super) fn is_settled(&self) -> bool {
        self.fields.values().all(|sums| sums.negative == 0 && sums.positive == 0)
    }

    /// Takes up an admitted event; `None` is one that is not linear.
    ///
    /// A sum that would overflow makes the event count as not linear; the return value says which it is.
    pub(super) fn open(&mut self, linear: Option<Linear>) -> Option<Linear> {
        let fitting = linear.filter(|linear| self.fits(linear));
        let Some(linear) = &fitting else {
            self.others += 1;
            return None;
        };
        for &(field, delta) in &linear.deltas {
            let sums = self.fields.entry(field).or_default();
            sums.volume += delta.unsigned_abs();
            *sums.side(delta) += delta;
        }
        for threshold in &linear.thresholds {
            let (needs, value) = self.need(linear, &threshold.terms, threshold.bound);
            *needs.entry(value).or_insert(0) += 1;
        }
        fitting
    }

    /// An open event is committed: its deltas are certain now, and nothing can disturb it any more.
    pub(super) fn commit(&mut self, linear: Option<&Linear>) {
        let Some(linear) = linear else { return };
        self.forget_open(linear);
        for &(field, delta) in &linear.deltas {
            self.fields.entry(field).or_default().certain += delta;
        }
    }

    /// An open event is aborted.
    pub(super) fn abort(&mut self, linear: Option<&Linear>) {
        let Some(linear) = linear else {
            self.others -= 1;
            return;
        };
        self.forget_open(linear);
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
        self.leave(linear);
    }

    /// Between which values `field` lies, if its applied value is `base`.
    pub(super) fn field(&self, field: Field, base: i128) -> Option<Ends> {
        let Some(sums) = self.fields.get(&field) else { return Some(Ends { low: base, high: base, reached: true }) };
        let certain = base.checked_add(sums.certain)?;
        let (low, high) = (certain.checked_add(sums.negative)?, certain.checked_add(sums.positive)?);
        Some(Ends { low, high, reached: true })
    }

    /// Between which values a sum of fields lies; `base` gives the applied value of a field.
    pub(super) fn ends(&self, terms: &[Term], base: impl Fn(Field) -> Option<i128>) -> Option<Ends> {
        let mut sum = Ends { low: 0, high: 0, reached: true };
        let mut moving = 0;
        for term in terms {
            let Ends { low, high, .. } = self.field(term.field, base(term.field)?)?;
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
    pub(super) fn span(&self, linear: &Linear, base: impl Fn(Field) -> Option<i128>) -> Span {
        let (mut undecided, mut reached) = (0, 0);
        for threshold in &linear.thresholds {
            let Some(ends) = self.ends(&threshold.terms, &base) else { return Span::Unknown };
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

    /// Whether every open event stays possible in every outcome if the deltas of `linear` come first; nothing if the sums
    /// cannot tell.
    ///
    /// An open event with delta `d` needs `value >= c` in every outcome of the *others*, the least of which is
    /// `low - min(0, d)`; after a newcomer with delta `e` it is `low - min(0, d) + min(0, e)`. So `low + min(0, e)` must
    /// reach `c + min(0, d)`, and only the greatest such number matters. The mirror image holds for upper bounds.
    pub(super) fn tolerates(&self, linear: &Linear, base: impl Fn(Field) -> Option<i128>) -> Option<bool> {
        for (terms, needs) in &self.needs {
            let delta = added(linear, terms);
            if delta == 0 {
                continue;
            }
            let Ends { low, high, reached } = self.ends(terms, &base)?;
            let (low, high) = (low.checked_add(delta.min(0))?, high.checked_add(delta.max(0))?);
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
    pub(super) fn crosses(&self, first: &Linear, second: &Linear, base: impl Fn(Field) -> Option<i128>) -> bool {
        second.thresholds.iter().any(|threshold| {
            let delta = added(first, &threshold.terms);
            if delta == 0 {
                return false;
            }
            let Some(Ends { low, high, .. }) = self.ends(&threshold.terms, &base) else { return true };
            let (low, high) = (low.saturating_add(delta.min(0)), high.saturating_add(delta.max(0)));
            holds_over(threshold.bound, low, high) == Span::Mixed
        })
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
    use crate::model::Threshold;

    const BALANCE: Field = Field(0);

    fn withdraw(amount: i128) -> Linear {
        Linear {
            states: vec!["opened".into()],
            thresholds: vec![Threshold::of(BALANCE, Bound::AtLeast(amount))],
            deltas: vec![(BALANCE, -amount)],
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
        let huge = Linear { states: vec![], thresholds: vec![], deltas: vec![(BALANCE, i128::MAX)] };
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
            states: vec![],
            thresholds: vec![Threshold::of(BALANCE, Bound::AtMost(100))],
            deltas: vec![(BALANCE, 50)],
        };
        let free = |amount| Linear { states: vec![], thresholds: vec![], deltas: vec![(BALANCE, amount)] };
        interval.open(Some(capped));
        assert_eq!(interval.tolerates(&free(10), |_| Some(100)), Some(false));
        assert_eq!(interval.tolerates(&free(10), |_| Some(90)), Some(true));
        assert_eq!(interval.tolerates(&free(-10), |_| Some(100)), Some(true));
    }

    #[test]
    fn a_sum_of_two_moving_fields_is_undecided_where_only_its_bounds_disagree() {
        let limit = Field(1);
        let both = |bound| Threshold {
            terms: vec![Term { field: BALANCE, negative: false }, Term { field: limit, negative: false }],
            bound: Bound::AtLeast(bound),
        };
        let wants = |bound| Linear { states: vec![], thresholds: vec![both(bound)], deltas: vec![] };
        let base = |_| Some(100);
        let mut interval = Interval::default();
        interval.open(Some(withdraw(10)));
        assert_eq!(interval.span(&wants(190), base), Span::All);
        assert_eq!(interval.span(&wants(191), base), Span::Mixed);
        assert_eq!(interval.span(&wants(201), base), Span::None);
        // One open event moves ten from the limit to the balance: the sum stays 190 or 200, its bounds say 180 to 210.
        let swap = Linear { states: vec![], thresholds: vec![], deltas: vec![(BALANCE, 10), (limit, -10)] };
        interval.open(Some(swap));
        assert_eq!(interval.span(&wants(180), base), Span::All);
        assert_eq!(interval.span(&wants(185), base), Span::Unknown);
        assert_eq!(interval.span(&wants(211), base), Span::None);
    }
}
