//! What a delayed transaction waits for, so that nothing else wakes it.
//!
//! It is what stopped it first: as long as that is so, it cannot be admitted. It is woken as well once a threshold of it fails for
//! good, or the life cycle has moved, since it may be refused then. Where the cells do not tell what stops it, any change may
//! settle it.

use std::collections::BTreeMap;

use super::Strategy;
use super::entity::{Shape, Unsettled};
use super::footprint::Footprint;
use super::index::{Class, Key, Levels, Watch};
use super::interval::{Obstacle, Span, holds_over};
use super::judge::Cause;
use super::progress::Progress;
use super::queue::Delayed;
use crate::model::{Bound, Linear, Location, Model, Place, Term};

/// It is refused in most other states.
const LIFE_CYCLE: Watch = Watch::Change(Key::Place(Place::LIFE_CYCLE));

/// What wakes `waiting`, which was delayed because of its cause. `pin` says what a question relies on.
pub(super) fn watches<M: Model>(
    progress: &Progress<M>,
    strategy: Strategy,
    waiting: &Delayed<M::Event>,
    pin: impl FnOnce() -> Option<Result<Shape<M::Event>, Unsettled>>,
) -> Vec<Watch> {
    match waiting.cause {
        Cause::Bound => vec![by_room(progress, waiting).unwrap_or(Watch::Bound)],
        Cause::Turn(tx) => vec![Watch::Turn(tx)],
        Cause::Outcomes => vec![Watch::Change(Key::Any)],
        Cause::Answer if let Some(Err(Unsettled(location))) = pin() => changes(location).map(Watch::Change).collect(),
        Cause::Order => {
            let found = by_cells_in_order(progress, strategy, waiting);
            let found = found.or_else(|| by_manner(progress, strategy, waiting));
            found.unwrap_or_else(|| by_touched(progress, waiting))
        }
        Cause::Verdict => by_level(progress, waiting).unwrap_or_else(|| by_touched(progress, waiting)),
        Cause::Answer => by_touched(progress, waiting),
    }
}

/// Room for it in a cell that has none.
fn by_room<M: Model>(progress: &Progress<M>, waiting: &Delayed<M::Event>) -> Option<Watch> {
    let (key, class) = progress.interval.crowded(waiting.footprint().filter(|_| progress.is_exact())?)?;
    Some(Watch::Room(key, class))
}

/// What has changed if `location` has: of an element the element itself, and the set as a whole.
fn changes(location: Location) -> impl Iterator<Item = Key> {
    let elements = match &location {
        Location::Place(place) if place.element.is_some() => Some(Key::Elements(place.field)),
        _ => None,
    };
    std::iter::once(Key::of(location)).chain(elements)
}

/// All that it touches, if the cells describe what is in progress and what it does.
fn by_touched<M: Model>(progress: &Progress<M>, waiting: &Delayed<M::Event>) -> Vec<Watch> {
    match waiting.shape.as_ref().filter(|_| progress.is_exact()) {
        None => vec![Watch::Change(Key::Any)],
        Some(shape) => {
            let touched = shape.footprint.touched().flat_map(changes);
            let mut keys: Vec<Key> = touched.chain([Key::Line]).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.into_iter().map(Watch::Change).collect()
        }
    }
}

fn by_cells_in_order<M: Model>(
    progress: &Progress<M>,
    strategy: Strategy,
    waiting: &Delayed<M::Event>,
) -> Option<Vec<Watch>> {
    let shape = waiting.shape.as_ref().filter(|_| progress.is_exact() && strategy == Strategy::Serializable)?;
    shape.footprint.as_linear()?;
    if waiting.sole || progress.interval.span(&shape.footprint, progress) != Span::All {
        return None;
    }
    match progress.interval.obstacle(&shape.footprint, progress.has_line(), progress) {
        Obstacle::Class(key, class) => Some(vec![Watch::Class(key, class), LIFE_CYCLE]),
        Obstacle::Changes(keys) => Some(keys.into_iter().map(Watch::Change).collect()),
        Obstacle::Nothing | Obstacle::Unknown => None,
    }
}

fn by_manner<M: Model>(progress: &Progress<M>, strategy: Strategy, waiting: &Delayed<M::Event>) -> Option<Vec<Watch>> {
    let may_differ = strategy == Strategy::Serializable && !waiting.sole;
    let changes = waiting.changes.as_deref().filter(|_| may_differ)?;
    let change = progress.manners.first_different(changes)?;
    Some(vec![Watch::Class(Key::Manner(change.place.clone()), Class::of_manner(change.manner)), LIFE_CYCLE])
}

/// The level at which the first undecided threshold would hold, and all at which one would fail.
fn by_level<M: Model>(progress: &Progress<M>, waiting: &Delayed<M::Event>) -> Option<Vec<Watch>> {
    let shape = waiting.shape.as_ref().filter(|_| progress.is_exact())?;
    let linear = told_linear(&shape.footprint, progress)?;
    let interval = &progress.interval;
    let mut watches = vec![LIFE_CYCLE];
    let states = interval.contents(&Place::LIFE_CYCLE, progress)?;
    let mut is_told = states.iter().any(|state| !linear.states.contains(state));
    for hold in &linear.holds {
        is_told |= interval.settled_content(&hold.place, progress).is_none();
        watches.extend(changes(Location::Place(hold.place.clone())).map(Watch::Change));
    }
    let mut sums: BTreeMap<&[Term], Levels> = BTreeMap::new();
    for threshold in &linear.thresholds {
        let ends = interval.ends(&threshold.terms, progress)?;
        let is_undecided = holds_over(threshold.bound, ends.low, ends.high) == Span::Mixed;
        if is_undecided && !ends.reached {
            return None;
        }
        let (holds, fails) = levels(threshold.bound);
        let levels = if is_undecided && !is_told { holds.or(fails) } else { fails };
        is_told |= is_undecided;
        let known = sums.entry(&threshold.terms).or_default();
        *known = known.or(levels);
    }
    watches.extend(sums.into_iter().map(|(terms, levels)| Watch::Level(terms.to_vec(), levels)));
    is_told.then_some(watches)
}

fn told_linear<'a, M: Model>(footprint: &'a Footprint, progress: &Progress<M>) -> Option<&'a Linear> {
    footprint.as_linear().filter(|_| footprint.is_told_in(progress))
}

/// Where a sum must be for the bound to hold in all outcomes, and where for it to hold in none.
fn levels(bound: Bound) -> (Levels, Levels) {
    let rise = |level| Levels { rise: Some(level), sink: None };
    let sink = |level| Levels { rise: None, sink: Some(level) };
    match bound {
        Bound::AtLeast(bound) => (rise(bound), sink(bound.saturating_sub(1))),
        Bound::AtMost(bound) => (sink(bound), rise(bound.saturating_add(1))),
    }
}
