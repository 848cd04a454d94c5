//! The interval domain: what is open on each numeric field, as sums.
//!
//! While everything in progress is [`Linear`], the possible values of a field lie between *low* (every open subtraction
//! commits, no open addition does) and *high* (the reverse), and both ends are reached. A threshold therefore holds in
//! all outcomes exactly if it holds at the worse end, and in none exactly if it fails at the better end: escrow, taken
//! from the contract for free. One verdict costs one lookup per threshold, however much is open.
//!
//! For the other direction (a newcomer must not make an open event impossible) each open event leaves, per threshold, the
//! least *low* or the greatest *high* that it can bear. What it can bear counts from the outcomes without itself, which is
//! why its own delta is part of that number; see [`Interval::tolerates`].

use std::collections::BTreeMap;

use crate::model::{Bound, Field, Linear};

/// The sums over everything in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Interval {
    fields: BTreeMap<Field, Sums>,
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
    /// The values that `low` must not fall below, each with the number of open events that need it.
    low_needs: BTreeMap<i128, usize>,
    /// The values that `high` must not rise above, likewise.
    high_needs: BTreeMap<i128, usize>,
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
        self.each_need(linear, |needs, value| *needs.entry(value).or_insert(0) += 1);
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

    /// The least and the greatest value that `field` may have, if its applied value is `base`.
    pub(super) fn range(&self, field: Field, base: i128) -> Option<(i128, i128)> {
        match self.fields.get(&field) {
            None => Some((base, base)),
            Some(sums) => {
                let certain = base.checked_add(sums.certain)?;
                Some((certain.checked_add(sums.negative)?, certain.checked_add(sums.positive)?))
            }
        }
    }

    /// What the thresholds of `linear` say over all outcomes; `base` gives the applied value of a field.
    ///
    /// [`Span::Mixed`] is exact: only one threshold is undecided, and it is a half-line whose both ends are reached.
    pub(super) fn span(&self, linear: &Linear, base: impl Fn(Field) -> Option<i128>) -> Span {
        let (mut undecided, mut half_lines) = (0, 0);
        for threshold in &linear.thresholds {
            let Some((low, high)) = base(threshold.field).and_then(|base| self.range(threshold.field, base)) else {
                return Span::Unknown;
            };
            match holds_over(threshold.bound, low, high) {
                Span::All => {}
                Span::None => return Span::None,
                Span::Mixed | Span::Unknown => {
                    undecided += 1;
                    half_lines += usize::from(!matches!(threshold.bound, Bound::Equal(_)));
                }
            }
        }
        match (undecided, half_lines) {
            (0, _) => Span::All,
            (1, 1) => Span::Mixed,
            _ => Span::Unknown,
        }
    }

    /// Whether every open event stays possible in every outcome if the deltas of `linear` come first.
    ///
    /// Exact. An open event with delta `d` needs `value >= c` in every outcome of the *others*, the least of which is
    /// `low - min(0, d)`; after a newcomer with delta `e` it is `low - min(0, d) + min(0, e)`. So `low + min(0, e)` must
    /// reach `c + min(0, d)`, and only the greatest such number matters. The mirror image holds for upper bounds.
    pub(super) fn tolerates(&self, linear: &Linear, base: impl Fn(Field) -> Option<i128>) -> Option<bool> {
        for &(field, delta) in &linear.deltas {
            let Some(sums) = self.fields.get(&field) else { continue };
            let (low, high) = self.range(field, base(field)?)?;
            let (low, high) = (low.checked_add(delta.min(0))?, high.checked_add(delta.max(0))?);
            let low_ok = sums.low_needs.last_key_value().is_none_or(|(&need, _)| low >= need);
            let high_ok = sums.high_needs.first_key_value().is_none_or(|(&need, _)| high <= need);
            if !(low_ok && high_ok) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Whether the deltas of `first` might change, in some outcome, whether a threshold of `second` holds.
    ///
    /// Never misses a change; sees one too many where no outcome has the value at which it would happen.
    pub(super) fn crosses(&self, first: &Linear, second: &Linear, base: impl Fn(Field) -> Option<i128>) -> bool {
        second.thresholds.iter().any(|threshold| {
            let delta = first.delta(threshold.field);
            if delta == 0 {
                return false;
            }
            let Some((low, high)) = base(threshold.field).and_then(|base| self.range(threshold.field, base)) else {
                return true;
            };
            let (before, after) = (low.saturating_add(delta.min(0)), high.saturating_add(delta.max(0)));
            holds_over(threshold.bound, before, after) == Span::Mixed
        })
    }

    fn fits(&self, linear: &Linear) -> bool {
        let sums_fit = linear.deltas.iter().all(|&(field, delta)| {
            let volume = self.fields.get(&field).map_or(0, |sums| sums.volume);
            volume.checked_add(delta.unsigned_abs()).is_some_and(|volume| volume <= i128::MAX.unsigned_abs())
        });
        let needs_fit = linear.thresholds.iter().all(|threshold| {
            let (Bound::AtLeast(c) | Bound::AtMost(c) | Bound::Equal(c)) = threshold.bound;
            c.checked_add(linear.delta(threshold.field)).is_some()
        });
        sums_fit && needs_fit
    }

    fn forget_open(&mut self, linear: &Linear) {
        for &(field, delta) in &linear.deltas {
            *self.fields.entry(field).or_default().side(delta) -= delta;
        }
        self.each_need(linear, |needs, value| {
            let count = needs.get_mut(&value).expect("a need leaves as often as it came");
            *count -= 1;
            if *count == 0 {
                needs.remove(&value);
            }
        });
    }

    fn each_need(&mut self, linear: &Linear, act: impl Fn(&mut BTreeMap<i128, usize>, i128)) {
        for threshold in &linear.thresholds {
            let delta = linear.delta(threshold.field);
            let sums = self.fields.entry(threshold.field).or_default();
            let (low, high) = match threshold.bound {
                Bound::AtLeast(c) => (Some(c), None),
                Bound::AtMost(c) => (None, Some(c)),
                Bound::Equal(c) => (Some(c), Some(c)),
            };
            if let Some(c) = low {
                act(&mut sums.low_needs, c + delta.min(0));
            }
            if let Some(c) = high {
                act(&mut sums.high_needs, c + delta.max(0));
            }
        }
    }

    fn leave(&mut self, linear: &Linear) {
        for &(field, delta) in &linear.deltas {
            self.fields.entry(field).or_default().volume -= delta.unsigned_abs();
        }
        let touched = linear.deltas.iter().map(|&(field, _)| field);
        for field in touched.chain(linear.thresholds.iter().map(|threshold| threshold.field)) {
            if self.fields.get(&field).is_some_and(Sums::is_empty) {
                self.fields.remove(&field);
            }
        }
    }
}

impl Sums {
    fn side(&mut self, delta: i128) -> &mut i128 {
        if delta < 0 { &mut self.negative } else { &mut self.positive }
    }

    fn is_empty(&self) -> bool {
        self.volume == 0 && self.low_needs.is_empty() && self.high_needs.is_empty()
    }
}

impl Linear {
    /// What is added to `field`.
    pub(super) fn delta(&self, field: Field) -> i128 {
        self.deltas.iter().find_map(|&(f, delta)| (f == field).then_some(delta)).unwrap_or(0)
    }
}

/// What `bound` says over all values from `low` to `high`, both included and both possible.
pub(super) fn holds_over(bound: Bound, low: i128, high: i128) -> Span {
    let (all, some) = match bound {
        Bound::AtLeast(c) => (low >= c, high >= c),
        Bound::AtMost(c) => (high <= c, low <= c),
        Bound::Equal(c) => (low == c && high == c, low <= c && c <= high),
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
            thresholds: vec![Threshold { field: BALANCE, bound: Bound::AtLeast(amount) }],
            deltas: vec![(BALANCE, -amount)],
        }
    }

    #[test]
    fn sums_return_to_nothing_when_everything_has_left() {
        let mut interval = Interval::default();
        let taken: Vec<_> = (1..=4).map(|amount| interval.open(Some(withdraw(amount)))).collect();
        assert_eq!(interval.range(BALANCE, 100), Some((90, 100)));
        interval.commit(taken[0].as_ref());
        interval.abort(taken[1].as_ref());
        interval.commit(taken[2].as_ref());
        assert_eq!(interval.range(BALANCE, 100), Some((92, 96)));
        interval.apply(taken[0].as_ref());
        interval.apply(taken[2].as_ref());
        interval.abort(taken[3].as_ref());
        assert!(interval.fields.is_empty() && interval.is_exact());
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
            thresholds: vec![Threshold { field: BALANCE, bound: Bound::AtMost(100) }],
            deltas: vec![(BALANCE, 50)],
        };
        let free = |amount| Linear { states: vec![], thresholds: vec![], deltas: vec![(BALANCE, amount)] };
        interval.open(Some(capped));
        assert_eq!(interval.tolerates(&free(10), |_| Some(100)), Some(false));
        assert_eq!(interval.tolerates(&free(10), |_| Some(90)), Some(true));
        assert_eq!(interval.tolerates(&free(-10), |_| Some(100)), Some(true));
    }
}
