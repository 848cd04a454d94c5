//! Why two events of a class do not simply get along.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::changes::{Changed, Same, changes};
use super::{Concurrency, Does, Precision, Reason, life_cycle};
use crate::analysis::Relation;
use crate::analysis::abstraction::Abstract;
use crate::analysis::effect::reads;
use crate::analysis::footprint::{Commutes, Mode, Part, Parts, Place, Role, Term, Touch};
use crate::analysis::preservation::is_preserved;
use crate::analysis::relation::base;
use crate::model::expr::{EffectOperator, Expr, ExprKind, Rule, Update};
use crate::model::{Builtin, Class, Event};
use crate::source::Span;

/// One of two events, with all that is asked of it.
pub(super) struct Side<'a> {
    pub(super) event: &'a Event,
    pub(super) precision: Precision,
    parts: Vec<Part<'a>>,
    changes: Vec<Changed<'a>>,
}

impl<'a> Side<'a> {
    pub(super) fn new(parts: &Parts<'a>, class: &'a Class, event: &'a Event) -> Self {
        let parts = parts.of(class, event);
        Self { event, precision: Precision::of(class, event), changes: changes(class, &parts), parts }
    }

    /// The first comparison of a sum of which it changes several fields.
    pub(super) fn sum(&self) -> Option<Span> {
        let changes = |touch: &&Touch| self.changes.iter().any(|changed| changed.place.field() == touch.place.field());
        self.parts.iter().find_map(|part| {
            let compared = part.touches.iter().filter(|touch| touch.mode == Mode::Test).filter(changes);
            part.rule().filter(|_| compared.count() > 1).map(|rule| rule.expr.span())
        })
    }

    /// What it writes, place by place, with what that is for those who read the place.
    fn written(&self) -> impl Iterator<Item = (&Touch, Span)> {
        let effects = self.parts.iter().filter_map(|part| match part.role {
            Role::Effect(effect) => Some((effect, &part.touches)),
            _ => None,
        });
        effects.flat_map(|(effect, touches)| {
            let writes = touches.iter().filter(|touch| touch.mode.is_write());
            writes.map(|touch| (touch, effect.value.span()))
        })
    }

    /// In which way it changes a place.
    fn way(&self, write: &Touch) -> Does {
        match write.mode {
            Mode::Add => Does::Adds,
            Mode::Insert => Does::Inserts,
            Mode::Delete if matches!(write.place, Place::Element(..)) => Does::Removes,
            _ => {
                let of_field = |changed: &&Changed<'_>| changed.place.field() == write.place.field();
                let changed = self.changes.iter().find(of_field);
                changed.map_or(Does::Alters, |changed| changed.way.does(&changed.place))
            }
        }
    }

    /// What it depends on, with what for; its own field left out of what an effect makes of it.
    fn depends(&self) -> impl Iterator<Item = (&Part<'a>, &Touch, Does)> {
        let dependent = |part: &'_ Part<'a>, touch: &Touch| match (part.role, touch.mode) {
            (_, mode) if mode.is_write() => None,
            (Role::Guard(_) | Role::Invariant(_), Mode::Test) => Some(Does::Compares),
            (Role::Guard(_) | Role::Choice | Role::Invariant(_), _) => Some(Does::Needs),
            (Role::Timer, _) => Some(Does::Times),
            (Role::Call, _) => Some(Does::Calls),
            (Role::Result, _) => Some(Does::Returns),
            (Role::Effect(effect), _) if may_fault(&effect.value) => Some(Does::Needs),
            (Role::Effect(effect), _) if touch.place.field() == Some(&effect.field.name) => None,
            (Role::Effect(_), _) => Some(Does::Uses),
        };
        self.parts.iter().flat_map(move |part| {
            part.touches.iter().filter_map(move |touch| Some((part, touch, dependent(part, touch)?)))
        })
    }
}

/// The reasons, the weightiest first. They are none if the two get along in any case.
pub(super) fn reasons(class: &Class, open: &Side<'_>, incoming: &Side<'_>, fuel: &Cell<u32>) -> Vec<Reason> {
    let mut found = Vec::new();
    depend(class, open, incoming, &mut found);
    disturb(class, open, incoming, fuel, &mut found);
    differ(open, incoming, &mut found);
    moves(open, incoming, &mut found);
    found.sort_by_key(|reason| std::cmp::Reverse(reason.concurrency));
    let mut kept: Vec<Reason> = Vec::new();
    for reason in found {
        let is_known = |known: &Reason| {
            (&known.place, known.open, known.incoming, known.concurrency)
                == (&reason.place, reason.open, reason.incoming, reason.concurrency)
        };
        if !kept.iter().any(is_known) {
            kept.push(reason);
        }
    }
    kept
}

/// Where the event that arrives depends on what the open one changes.
fn depend(class: &Class, open: &Side<'_>, incoming: &Side<'_>, found: &mut Vec<Reason>) {
    let is_same_verdict = class.relation(&open.event.name, &incoming.event.name) == Some(Relation::Invariant);
    for (part, touch, does) in incoming.depends() {
        // The same verdict, and the same calls.
        let is_same = is_same_verdict && !matches!(does, Does::Returns | Does::Uses);
        if is_same || part.rule().is_some_and(|rule| reads_currency(&rule.expr, &touch.place)) {
            continue;
        }
        for (write, span) in open.written() {
            let concurrency = match meeting(touch, write) {
                None => continue,
                // Neither verdict nor answer depends on it, only what it leaves.
                Some(Concurrency::Turns) if does == Does::Uses => Concurrency::InLine,
                Some(concurrency) => concurrency,
            };
            found.push(Reason {
                concurrency,
                place: touch.place.clone(),
                open: open.way(write),
                open_span: span,
                incoming: does,
                incoming_span: place_of(touch),
                equal_together: false,
                by_precision: false,
            });
        }
    }
}

/// Where the event that arrives changes what the open one depends on.
fn disturb(class: &Class, open: &Side<'_>, incoming: &Side<'_>, fuel: &Cell<u32>, found: &mut Vec<Reason>) {
    let is_same_verdict = class.relation(&incoming.event.name, &open.event.name) == Some(Relation::Invariant);
    // Admission does not know what the open one needs, and lets nothing that it knows change what that reads.
    let is_guarded = matches!(open.precision, Precision::Conservative(..)) && incoming.precision == Precision::Exact;
    for (part, touch, does) in open.depends() {
        let survives = || match part.role {
            Role::Guard(rule) | Role::Invariant(rule) => {
                is_same_verdict
                    || reads_currency(&rule.expr, &touch.place)
                    || survives(class, rule, incoming.event, fuel)
            }
            Role::Call => is_same_verdict,
            _ => false,
        };
        let mut keeps = None;
        for (write, span) in incoming.written() {
            let Some(concurrency) = meeting(touch, write).or_else(|| is_same_field(touch, write, is_guarded)) else {
                continue;
            };
            let keeps = *keeps.get_or_insert_with(survives);
            if keeps && !is_guarded {
                continue;
            }
            let concurrency = if is_guarded { Concurrency::InLine } else { concurrency.min(Concurrency::InLine) };
            found.push(Reason {
                concurrency,
                place: write.place.clone(),
                open: does,
                open_span: place_of(touch),
                incoming: incoming.way(write),
                incoming_span: span,
                equal_together: false,
                by_precision: is_guarded && (keeps || meeting(touch, write) != Some(Concurrency::Turns)),
            });
        }
    }
}

/// That both touch one field, where that is all that admission looks at.
fn is_same_field(touch: &Touch, write: &Touch, is_guarded: bool) -> Option<Concurrency> {
    (is_guarded && touch.place.field().is_some() && touch.place.field() == write.place.field())
        .then_some(Concurrency::InLine)
}

/// Where both change one place.
fn differ(open: &Side<'_>, incoming: &Side<'_>, found: &mut Vec<Reason>) {
    for one in &open.changes {
        for other in &incoming.changes {
            if one.place.field() != other.place.field() {
                continue;
            }
            let same = one.way.same(open.event, other.way, incoming.event);
            let (concurrency, equal_together) = match (&one.place, &other.place) {
                (Place::Element(..), Place::Element(..)) => {
                    // As if one of them read what the other one writes: whether they are one place.
                    match (same, touch(one, Mode::Read).commutes(&touch(other, Mode::Insert))) {
                        (Same::Always, _) | (_, Commutes::Always) => continue,
                        (_, Commutes::IfApart) => (Concurrency::UnlessSame, false),
                        _ => (Concurrency::InLine, false),
                    }
                }
                (Place::Field(_), Place::Field(_)) => match same {
                    Same::Always => continue,
                    Same::WithArguments => (Concurrency::InLine, true),
                    Same::Never => (Concurrency::InLine, false),
                },
                _ => (Concurrency::InLine, false),
            };
            found.push(Reason {
                concurrency,
                place: other.place.clone(),
                open: one.way.does(&one.place),
                open_span: one.because,
                incoming: other.way.does(&other.place),
                incoming_span: other.because,
                equal_together,
                by_precision: false,
            });
        }
    }
}

fn moves(open: &Side<'_>, incoming: &Side<'_>, found: &mut Vec<Reason>) {
    let concurrency = life_cycle::meet(open.event, incoming.event);
    if concurrency == Concurrency::Together {
        return;
    }
    let does = |event: &Event| {
        let moves = event.transitions.iter().any(|way| way.source != way.target);
        if moves { Does::Moves } else { Does::Stays }
    };
    found.push(Reason {
        concurrency,
        place: Place::State,
        open: does(open.event),
        open_span: open.event.span,
        incoming: does(incoming.event),
        incoming_span: incoming.event.span,
        equal_together: false,
        by_precision: false,
    });
}

/// How one that depends on a place and one that changes it get along, as far as that place decides.
fn meeting(dependent: &Touch, write: &Touch) -> Option<Concurrency> {
    match dependent.commutes(write) {
        Commutes::Always => None,
        // Whatever becomes of a number, it is compared.
        _ if dependent.mode == Mode::Test => Some(Concurrency::WhileFar),
        Commutes::ByThreshold => Some(Concurrency::WhileFar),
        Commutes::IfApart => Some(Concurrency::UnlessSame),
        Commutes::No => Some(Concurrency::Turns),
    }
}

fn touch(changed: &Changed<'_>, mode: Mode) -> Touch {
    Touch { instance: Term::This, class: "".into(), place: changed.place.clone(), mode, because: vec![changed.because] }
}

fn place_of(touch: &Touch) -> Span {
    touch.because[0]
}

/// Whether a rule that holds does so whatever comes before: none of the ways of `event` leads past its bound.
fn survives(class: &Class, rule: &Rule, event: &Event, fuel: &Cell<u32>) -> bool {
    let mut seen = BTreeSet::new();
    event.transitions.iter().filter(|way| seen.insert(Arc::as_ptr(&way.body))).all(|way| {
        // Nothing is said of the fields: the rule is about instances behind another event.
        let mut domain = base(class, event, way, fuel);
        class.fields.iter().for_each(|field| domain.fields[field.slot] = Abstract::all(&field.ty));
        let of_arguments = way.body.guards.iter().filter(|guard| !reads(&guard.expr, |_| true));
        for guard in of_arguments {
            // What no arguments allow does not happen.
            if !domain.assume(&guard.expr) {
                return true;
            }
        }
        fuel.get() > 0 && is_preserved(&rule.expr, &way.body, &domain)
    })
}

/// Whether nothing but the currency of the amount is read, which is taken to stay.
fn reads_currency(expr: &Expr, place: &Place) -> bool {
    let is_meant = |expr: &Expr| matches!(&expr.kind, ExprKind::Field(slot) if place.field() == Some(&slot.name));
    let (mut amounts, mut currencies) = (0, 0);
    expr.walk(&mut |expr| {
        amounts += usize::from(is_meant(expr));
        currencies += usize::from(matches!(&expr.kind, ExprKind::CurrencyOf(amount) if is_meant(amount)));
    });
    amounts == currencies && amounts > 0
}

/// Whether the value may be missing for another reason than the range of numbers and the currencies of amounts.
fn may_fault(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Updated(_, updates) => updates_may_fault(updates),
        ExprKind::Let(named) => named.may_mismatch && !named.value.needs_one_currency(),
        ExprKind::Call(function, arguments) => may_fault(&function.body) || arguments.iter().any(may_fault),
        ExprKind::Apply(builtin, operands) => lacks_values(builtin) || operands.iter().any(may_fault),
        _ => value.is_partial() && !value.needs_one_currency() || value.operands().into_iter().any(may_fault),
    }
}

/// Whether it may lack a value for another reason than the range of numbers and the size of collections.
fn lacks_values(builtin: &Builtin) -> bool {
    use Builtin::{Add, Append, Lower, Multiply, Subtract, Upper};
    builtin.is_partial() && !matches!(builtin, Add | Subtract | Multiply(_) | Append | Upper | Lower)
}

/// One place that gets a value, or elements that all come or all go, leave nothing to fault.
fn updates_may_fault(updates: &[Update]) -> bool {
    match updates {
        [Update::At { way, operator, value }] => {
            let is_plain = way.is_empty() || way.len() == 1 && *operator == EffectOperator::Becomes;
            !is_plain || may_fault(value)
        }
        _ => true,
    }
}
