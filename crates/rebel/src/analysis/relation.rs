//! The static tables of path-sensitive admission: how one event's verdict depends on another that is in progress.
//!
//! # Question
//! An event `open` was accepted in some instance `s` and may yet commit (leading to `s'`) or abort (leaving `s`). Is
//! `incoming` accepted in `s` and in `s'` alike, whatever the instance and the arguments?
//!
//! # Method
//! For every state that `open` leaves, the abstract instance `s` is everything that its guards let through (in the
//! initial state: the initial instance). `s'` is `s` with the effects of `open`, as far as the invariants let it. Then:
//! * *refused in both* - the state has no such event, or a guard or invariant is false for all numbers left;
//! * *same verdict* - every guard, currency match, call and invariant of `incoming` is the same in `s` and `s'`, because
//!   it reads only what `open` keeps, because the numbers decide it equally, or because `incoming` preserves it.
//!
//! What fails as a whole is tried again in pieces, split where the guards compare fields with constants. Whatever is
//! not shown is [`Relation::Dynamic`]; so is everything once the steps allowed for a class are used up.
//!
//! # What it assumes
//! Invariants hold in every instance but an initial one: instances come from [`Class::next`] or passed
//! [`Class::verify`]. The range of numbers is left out: see [`Relation::Invariant`].
//!
//! # Source
//! The two tables are those of static local coordination avoidance; deriving them from the specification is ours.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Relation;
use super::abstraction::{Abstract, Domain};
use super::interval::{Interval, pieces};
use super::preservation::is_preserved;
use super::sameness::{Kept, Pair};
use crate::model::expr::{EffectOperator, Expr, ExprKind, Operator, Rule, Update};
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

/// What is shown for a part of the instances; the stronger is the smaller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Refused,
    Same,
    Nothing,
}

impl<'a> Question<'a> {
    fn relation(&self) -> Relation {
        if self.fuel.get() == 0 {
            return Relation::Dynamic;
        }
        let shown = self.open.transitions.iter().map(|open| self.transition(open)).max();
        match shown.unwrap_or(Shown::Refused) {
            _ if self.fuel.get() == 0 => Relation::Dynamic,
            Shown::Refused => Relation::Never,
            Shown::Same => Relation::Invariant,
            Shown::Nothing => Relation::Dynamic,
        }
    }

    fn transition(&self, open: &Transition) -> Shown {
        let whole = base(self.class, self.open, open, self.fuel);
        let shown = self.part(open, whole.clone());
        if shown != Shown::Nothing {
            return shown;
        }
        let Some(parts) = self.split(open, whole) else { return Shown::Nothing };
        let mut weakest = Shown::Refused;
        for part in parts {
            weakest = weakest.max(self.part(open, part));
            if weakest == Shown::Nothing || self.fuel.get() == 0 {
                return Shown::Nothing;
            }
        }
        weakest
    }

    /// What is shown for the instances of `before`.
    fn part(&self, open: &Transition, mut before: Domain<'a>) -> Shown {
        // The domains of a part are copies of this one.
        const COPIES: usize = 8;
        if !before.burn(COPIES * before.fields.len()) {
            return Shown::Nothing;
        }
        let is_initial = self.class.is_initial(&open.source);
        let invariants = if is_initial { &[] } else { self.class.invariants.as_slice() };
        let assumed = invariants.iter().chain(&open.body.guards);
        if !assumed.into_iter().all(|rule| before.assume(&rule.expr)) {
            return Shown::Refused;
        }
        let (mut after, kept) = apply(&open.body, &before);
        if !self.class.invariants.iter().all(|rule| after.assume(&rule.expr)) {
            return Shown::Refused;
        }
        before.params = params(self.incoming);
        after.params.clone_from(&before.params);
        self.shown(open, &before, &after, &kept)
    }

    fn shown(&self, open: &Transition, before: &Domain<'a>, after: &Domain<'a>, kept: &[Kept]) -> Shown {
        let refused = |state, domain| self.incoming.variants(state).all(|way| self.refused(way, domain));
        if refused(&open.source, before) && refused(&open.target, after) {
            return Shown::Refused;
        }
        // Which variant happens may be decided differently, and the time of a timer may fault.
        if self.class.is_timed() || self.incoming.has_variants(&open.source) || self.incoming.has_variants(&open.target)
        {
            return Shown::Nothing;
        }
        let in_source = self.incoming.transition(&open.source);
        let in_target = self.incoming.transition(&open.target);
        let (Some(in_source), Some(in_target)) = (in_source, in_target) else { return Shown::Nothing };
        let exists = !self.class.is_initial(&open.source);
        let is_same = Arc::ptr_eq(&in_source.body, &in_target.body)
            && self.same_verdict(&in_source.body, exists, &Pair { before, after, kept });
        if is_same { Shown::Same } else { Shown::Nothing }
    }

    /// Whether `incoming`, or this variant of it, is refused in all instances of `domain`.
    fn refused(&self, transition: &Transition, domain: &Domain<'a>) -> bool {
        let mut domain = domain.clone();
        if !transition.body.guards.iter().all(|guard| domain.assume(&guard.expr)) {
            return true;
        }
        let (mut after, _) = apply(&transition.body, &domain);
        !self.class.invariants.iter().all(|rule| after.assume(&rule.expr))
    }

    /// Whether everything that decides on an event with this body is the same before and after. The instance before
    /// satisfies the invariants if it `exists`; the one after does.
    fn same_verdict(&self, body: &Body, exists: bool, pair: &Pair<'a, '_>) -> bool {
        let is_same = |pair: &Pair<'a, '_>, expr: &Expr| pair.same(expr) && pair.same_mismatch(expr);
        if !body.guards.iter().all(|guard| is_same(pair, &guard.expr))
            || !body.effects.iter().all(|effect| pair.same_mismatch(&effect.value))
            || !body.statements.iter().all(|statement| pair.same_statement(statement))
            || !body.returned.as_ref().is_none_or(|returned| returned.is_plain())
        {
            return false;
        }
        // The invariants only decide where the guards hold, which is in both or in neither.
        let (mut before, mut after) = (pair.before.clone(), pair.after.clone());
        let holds = |domain: &mut Domain<'a>| body.guards.iter().all(|guard| domain.assume(&guard.expr));
        if !holds(&mut before) || !holds(&mut after) {
            return true;
        }
        let mut kept = pair.kept.to_vec();
        for effect in &body.effects {
            let (value, currency) = (pair.same(&effect.value), pair.same_currency(&effect.value));
            kept[effect.field.index] = Kept { value, currency };
        }
        let (result_before, result_after) = (apply(body, &before).0, apply(body, &after).0);
        let results = Pair { before: &result_before, after: &result_after, kept: &kept };
        self.class.invariants.iter().all(|rule| {
            let holds_in_both =
                exists && [&before, &after].into_iter().all(|domain| is_preserved(&rule.expr, body, domain));
            holds_in_both || is_same(&results, &rule.expr)
        })
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

/// The instances after the effects, and what they keep.
pub(super) fn apply<'a>(body: &Body, before: &Domain<'a>) -> (Domain<'a>, Vec<Kept>) {
    let mut after = before.clone();
    let mut kept = vec![Kept { value: true, currency: true }; before.fields.len()];
    for effect in &body.effects {
        let index = effect.field.index;
        let value = before.value(&effect.value).0;
        let is_itself = matches!(&effect.value.kind, ExprKind::Field(slot) if slot.index == index);
        kept[index] = Kept { value: is_itself, currency: has_currency_of(before, &effect.value, index, &[]) };
        after.fields[index] = value;
    }
    (after, kept)
}

/// Whether `expr`, where it has a value, is in the currency of the field; `locals` says it of the locals.
fn has_currency_of(domain: &Domain<'_>, expr: &Expr, slot: usize, locals: &[bool]) -> bool {
    let has = |expr: &Expr| has_currency_of(domain, expr, slot, locals);
    match &expr.kind {
        _ if !domain.burn(1) => false,
        ExprKind::Field(field) => field.index == slot,
        ExprKind::Local(index) => locals.get(*index).copied().unwrap_or(false),
        ExprKind::Arithmetic(Operator::Add | Operator::Subtract, _, left, right) => has(left) || has(right),
        ExprKind::Arithmetic(Operator::Multiply, _, amount, _)
        | ExprKind::Share(_, amount, _)
        | ExprKind::Negate(_, amount) => has(amount),
        ExprKind::If(_, accepted, otherwise) => has(accepted) && has(otherwise),
        ExprKind::Updated(of, updates) => has(of) && updates.iter().all(|update| keeps_currency(update, &has)),
        ExprKind::Let(named) => has_currency_of(domain, &named.value, slot, &[]),
        ExprKind::Call(function, arguments) => {
            let locals: Vec<bool> = arguments.iter().map(has).collect();
            has_currency_of(domain, &function.body, slot, &locals)
        }
        _ => false,
    }
}

/// Whether an amount, where it has a value after the update, is in the currency that it had, if what it becomes `has` that.
fn keeps_currency(update: &Update, has: &dyn Fn(&Expr) -> bool) -> bool {
    match update {
        Update::At { way, operator, value } => way.is_empty() && (*operator != EffectOperator::Becomes || has(value)),
        Update::If(_, accepted, otherwise) => accepted.iter().chain(otherwise).all(|inner| keeps_currency(inner, has)),
        // The elements are among the locals, of which nothing is said.
        Update::For(_, updates) => updates.iter().all(|inner| keeps_currency(inner, has)),
    }
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
