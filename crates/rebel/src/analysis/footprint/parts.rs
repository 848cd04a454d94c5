//! What each part of one event touches at its own instance, for those who must know why.
//!
//! The invariants are taken to hold: what an effect replaces is not read by them, only what the new value is made of.

use std::collections::HashSet;
use std::sync::Arc;

use super::calls::Footprints;
use super::walk::Walk;
use super::{Mode, Touch};
use crate::analysis::effect::{Form, form, reads};
use crate::model::expr::{Effect, Expr, ExprKind, Rule};
use crate::model::{Body, Class, Event, Spec};

/// A part of an event, with what it touches.
pub(in crate::analysis) struct Part<'a> {
    pub(in crate::analysis) role: Role<'a>,
    pub(in crate::analysis) touches: Vec<Touch>,
}

/// What a part is for.
#[derive(Clone, Copy)]
pub(in crate::analysis) enum Role<'a> {
    Guard(&'a Rule),
    /// A guard of a variant, which decides what happens.
    Choice,
    /// One of those that the event may break.
    Invariant(&'a Rule),
    /// When another event is due.
    Timer,
    /// What is called, or demanded of others.
    Call,
    Result,
    Effect(&'a Effect),
}

impl<'a> Part<'a> {
    /// The guard or the invariant that it is.
    pub(in crate::analysis) fn rule(&self) -> Option<&'a Rule> {
        match self.role {
            Role::Guard(rule) | Role::Invariant(rule) => Some(rule),
            _ => None,
        }
    }
}

/// The parts of the events of one specification.
pub(in crate::analysis) struct Parts<'a>(Footprints<'a>);

impl<'a> Parts<'a> {
    pub(in crate::analysis) fn new(spec: &'a Spec) -> Self {
        Self(Footprints::new(spec))
    }

    /// Those of `event`, each once: guards and invariants first.
    pub(in crate::analysis) fn of(&self, class: &'a Class, event: &'a Event) -> Vec<Part<'a>> {
        let mut walk = Walk::new(&self.0, class, false);
        let (mut parts, mut seen) = (Vec::new(), HashSet::new());
        for way in &event.transitions {
            if seen.insert(Arc::as_ptr(&way.body)) {
                walk.parts_of(&way.body, &mut parts);
            }
            let timers = class.timers.iter().filter(|timer| timer.states.contains(&way.target));
            for timer in timers.filter(|timer| way.source != way.target || changes(&way.body, &timer.at)) {
                let touches = walk.after(&way.body, |walk| walk.read(&timer.at));
                parts.push(Part { role: Role::Timer, touches });
            }
        }
        parts
    }
}

impl<'a> Walk<'a, '_> {
    fn parts_of(&mut self, body: &'a Body, parts: &mut Vec<Part<'a>>) {
        self.effects = &body.effects;
        for (position, guard) in body.guards.iter().enumerate() {
            parts.push(if position < body.common {
                Part { role: Role::Guard(guard), touches: self.alone(|walk| walk.condition(&guard.expr)) }
            } else {
                Part { role: Role::Choice, touches: self.alone(|walk| walk.read(&guard.expr)) }
            });
        }
        for rule in self.class.invariants.iter().filter(|rule| changes(body, &rule.expr)) {
            let touches = self.after(body, |walk| walk.condition(&rule.expr));
            parts.push(Part { role: Role::Invariant(rule), touches });
        }
        for statement in &body.statements {
            let touches = self.alone(|walk| walk.statement(statement));
            parts.push(Part { role: Role::Call, touches });
        }
        if let Some(returned) = &body.returned {
            let mut touches = self.alone(|walk| walk.read(&returned.value));
            for effect in body.effects.iter().filter(|effect| is_replacement(effect)) {
                let mut is_returned = false;
                returned.value.walk(&mut |expr| {
                    is_returned |= matches!(&expr.kind, ExprKind::NewField(slot) if slot.name == effect.field.name);
                });
                if is_returned {
                    touches.extend(self.made_of(effect, Mode::Read));
                }
            }
            parts.push(Part { role: Role::Result, touches });
        }
        for effect in &body.effects {
            let touches = self.alone(|walk| walk.effect(effect));
            parts.push(Part { role: Role::Effect(effect), touches });
        }
    }

    /// What is touched by this alone.
    fn alone(&mut self, look: impl FnOnce(&mut Self)) -> Vec<Touch> {
        self.known.clear();
        look(self);
        std::mem::take(&mut self.touches).in_order()
    }

    /// What is touched by `look`, which looks at the fields after the effects of `body`: in the place of one that gets another
    /// value, what this is made of.
    fn after(&mut self, body: &'a Body, look: impl FnOnce(&mut Self)) -> Vec<Touch> {
        let is_of = |touch: &Touch, effect: &Effect| touch.place.field() == Some(&effect.field.name);
        let replacements: Vec<_> = body.effects.iter().filter(|effect| is_replacement(effect)).collect();
        let found = self.alone(look);
        let (replaced, mut touches): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|touch| replacements.iter().any(|effect| is_of(touch, effect)));
        for effect in replacements {
            let modes: Vec<Mode> =
                replaced.iter().filter(|touch| is_of(touch, effect)).map(|touch| touch.mode).collect();
            if !modes.is_empty() {
                let is_test = modes.iter().all(|mode| *mode == Mode::Test);
                touches.extend(self.made_of(effect, if is_test { Mode::Test } else { Mode::Read }));
            }
        }
        touches
    }

    /// What the new value of a field is made of.
    fn made_of(&mut self, effect: &'a Effect, mode: Mode) -> Vec<Touch> {
        let read = self.alone(|walk| walk.read(&effect.value));
        read.into_iter().map(|touch| Touch { mode, ..touch }).collect()
    }
}

fn is_replacement(effect: &Effect) -> bool {
    matches!(form(&effect.field.name, &effect.value), Form::Becomes(_))
}

fn changes(body: &Body, expr: &Expr) -> bool {
    reads(expr, |name| body.effects.iter().any(|effect| effect.field.name == *name))
}
