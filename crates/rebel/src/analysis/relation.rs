//! The static table of path-sensitive admission: which event is refused while which other one is in progress.
//!
//! # Question
//! An event `open` was accepted in some instance `s` and may yet commit (leading to `s'`) or abort (leaving `s`). Is
//! `incoming` refused in `s` and in `s'`, whatever the instance and the arguments?
//!
//! # Method
//! For every state that `open` leaves, the abstract instance `s` is everything that its guards let through (in the
//! initial state: the initial instance). `s'` is `s` with the effects of `open`, as far as the invariants let it. `incoming` is refused
//! there if the state has no such event, or a guard or invariant is false for all numbers left.
//!
//! What fails as a whole is tried again in pieces, split where the guards compare fields with constants. Whatever is
//! not shown is [`Relation::Dynamic`]; so is everything once the steps allowed for a class are used up.
//!
//! # What it assumes
//! Invariants hold in every instance but an initial one: instances come from [`Class::next`] or passed
//! [`Class::verify`].
//!
//! # Source
//! The table is one of the two of static local coordination avoidance; deriving it from the specification is ours. The other one, of
//! events with the same verdict either way, holds only up to the range of numbers, and admission shows as much for each event with
//! its arguments, by [`Class::judge`].

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::Relation;
use super::abstraction::{Abstract, Domain};
use super::interval::{Interval, pieces};
use crate::model::expr::{ExprKind, Rule};
use crate::model::{Body, Class, Event, Transition};

/// Abstract evaluation steps for the table of a class.
pub(super) const FUEL: u32 = 20_000_000;

/// Pieces that one question is split into at most.
const PIECES_MAX: usize = 256;

/// Points at which one field is split at most.
const POINTS_MAX: usize = 4;

/// The relation of every pair (open, incoming), row by row.
pub(super) fn table(class: &Class, fuel: &Cell<u32>) -> Vec<Relation> {
    let pairs = class.events.iter().flat_map(|open| class.events.iter().map(move |incoming| (open, incoming)));
    pairs.map(|(open, incoming)| Question { class, open, incoming, fuel }.relation()).collect()
}

struct Question<'a> {
    class: &'a Class,
    open: &'a Event,
    incoming: &'a Event,
    fuel: &'a Cell<u32>,
}

impl<'a> Question<'a> {
    fn relation(&self) -> Relation {
        let is_refused = self.open.transitions.iter().all(|open| self.refused_beside(open));
        if is_refused && self.fuel.get() > 0 { Relation::Never } else { Relation::Dynamic }
    }

    fn refused_beside(&self, open: &Transition) -> bool {
        if self.fuel.get() == 0 {
            return false;
        }
        let whole = base(self.class, self.open, open, self.fuel);
        let is_refused = |part: Domain<'a>| self.fuel.get() > 0 && self.refused_in_part(open, part);
        is_refused(whole.clone()) || self.split(open, whole).is_some_and(|parts| parts.into_iter().all(is_refused))
    }

    /// Whether it is refused in the instances of `before`, and in what `open` makes of them.
    fn refused_in_part(&self, open: &Transition, mut before: Domain<'a>) -> bool {
        // The domains of a part are copies of this one.
        const COPIES: usize = 8;
        if !before.burn(COPIES * before.fields.len()) {
            return false;
        }
        let is_initial = self.class.is_initial(&open.source);
        let invariants = if is_initial { &[] } else { self.class.invariants.as_slice() };
        let assumed = invariants.iter().chain(&open.body.guards);
        if !assumed.into_iter().all(|rule| before.assume(&rule.expr)) {
            return true;
        }
        let mut after = apply(&open.body, &before);
        if !self.class.invariants.iter().all(|rule| after.assume(&rule.expr)) {
            return true;
        }
        before.params = params(self.incoming);
        after.params.clone_from(&before.params);
        let refused = |state, domain| self.incoming.variants(state).all(|way| self.refused(way, domain));
        refused(&open.source, &before) && refused(&open.target, &after)
    }

    /// Whether `incoming`, or this variant of it, is refused in all instances of `domain`.
    fn refused(&self, transition: &Transition, domain: &Domain<'a>) -> bool {
        let mut domain = domain.clone();
        if !transition.body.guards.iter().all(|guard| domain.assume(&guard.expr)) {
            return true;
        }
        let mut after = apply(&transition.body, &domain);
        !self.class.invariants.iter().all(|rule| after.assume(&rule.expr))
    }

    /// `whole` in pieces, split where rules compare a field with a constant, and at zero.
    fn split(&self, open: &Transition, whole: Domain<'a>) -> Option<Vec<Domain<'a>>> {
        let incoming = self.incoming.transitions.iter().flat_map(|transition| &transition.body.guards);
        let points = points(open.body.guards.iter().chain(incoming).chain(&self.class.invariants));
        let mut parts = vec![whole];
        for (slot, points) in points {
            let Abstract::Number(all, denomination) = parts[0].fields[slot] else { continue };
            let points: Vec<i128> = points.into_iter().take(POINTS_MAX).collect();
            let pieces: Vec<Interval> = pieces(&points).into_iter().filter_map(|piece| piece.meet(all)).collect();
            if parts.len() * pieces.len() > PIECES_MAX {
                return None;
            }
            let with = |part: &Domain<'a>, piece: Interval| {
                let mut part = part.clone();
                part.fields[slot] = Abstract::Number(piece, denomination);
                part
            };
            parts = parts.iter().flat_map(|part| pieces.iter().map(move |&piece| with(part, piece))).collect();
        }
        Some(parts)
    }
}

/// Every instance in the state that the transition of an event leaves, with every argument of the event.
pub(super) fn base<'a>(class: &'a Class, event: &Event, transition: &Transition, fuel: &'a Cell<u32>) -> Domain<'a> {
    let mut fields = vec![Abstract::Any; class.fields.len()];
    let is_initial = class.is_initial(&transition.source);
    for field in &class.fields {
        fields[field.slot] = if is_initial {
            class.initial.fields().get(&field.name).map_or(Abstract::Any, Abstract::of)
        } else {
            Abstract::all(&field.ty)
        };
    }
    Domain { class, fields, params: params(event), event: None, fuel }
}

/// Every argument of an event.
fn params(event: &Event) -> Vec<Abstract> {
    let mut params: Vec<_> = event.params.iter().collect();
    params.sort_by(|a, b| a.name.cmp(&b.name));
    params.into_iter().map(|param| Abstract::all(&param.ty)).collect()
}

/// The instances after the effects.
pub(super) fn apply<'a>(body: &Body, before: &Domain<'a>) -> Domain<'a> {
    let mut after = before.clone();
    for effect in &body.effects {
        after.fields[effect.field.index] = before.value(&effect.value).0;
    }
    after
}

/// Where to split the fields that the rules read: at zero, and at the constants they are compared with.
fn points<'r>(rules: impl Iterator<Item = &'r Rule>) -> BTreeMap<usize, BTreeSet<i128>> {
    let mut points: BTreeMap<usize, BTreeSet<i128>> = BTreeMap::new();
    for rule in rules {
        rule.expr.walk(&mut |expr| match &expr.kind {
            ExprKind::Field(slot) => {
                points.entry(slot.index).or_default().insert(0);
            }
            ExprKind::Compare(_, _, left, right) => {
                for side in [(left, right), (right, left)] {
                    if let (ExprKind::Field(slot), ExprKind::Literal(value)) = (&side.0.kind, &side.1.kind) {
                        points.entry(slot.index).or_default().extend(value.number());
                    }
                }
            }
            _ => {}
        });
    }
    points
}
