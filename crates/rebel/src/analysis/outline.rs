//! The interval domain: one bounded description of every instance that open events may lead to.
//!
//! An admission keeps the outline of all outcomes of the events that are still open and judges an incoming event on
//! it once, instead of on every outcome. A verdict is given only if it holds for every instance within the outline,
//! ranges of numbers included. For additive effects and thresholds over one field the intervals are exact; for others
//! the outline holds more than the outcomes, so some verdicts are only [`Verdict::Unsure`].

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::abstraction::{Abstract, Denomination, Domain};
use super::interval::Interval;
use crate::instance::{EventCall, Instance};
use crate::limits::FUEL;
use crate::model::expr::{Expr, ExprKind, Rule, Statement};
use crate::model::{Class, Event, Transition};
use crate::value::{Key, Name, Timestamp, Value};

/// A set of instances of one class: some states, and for every field an interval, one value, or anything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outline {
    states: BTreeSet<Name>,
    /// By slot. `None` as long as the field has no value in any of the instances, which only those in the initial state
    /// lack; their events do not read it.
    fields: Vec<Option<Abstract>>,
}

impl Outline {
    /// The states, in the order of their names.
    pub fn states(&self) -> impl ExactSizeIterator<Item = &Name> {
        self.states.iter()
    }

    /// The smallest outline that holds both.
    ///
    /// After a judgement, the outcomes are those without the event and those with it: `outline.join(&after)`.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        Self {
            states: self.states.union(&other.states).cloned().collect(),
            fields: self.fields.iter().zip(&other.fields).map(|(a, b)| hull(a.as_ref(), b.as_ref())).collect(),
        }
    }
}

impl Outline {
    /// Adds states.
    pub fn add_states(&mut self, states: impl IntoIterator<Item = Name>) {
        self.states.extend(states);
    }
}

impl Class {
    /// Lets the number in a field lie between two, in the unit of its type and in the currency that it has; a field without a number is
    /// [forgotten](Class::forget).
    pub fn stretch(&self, outline: &mut Outline, field: &str, low: i128, high: i128) {
        let slot = self.fields.iter().find(|known| *known.name == *field).map(|known| known.slot);
        match slot.and_then(|slot| outline.fields.get_mut(slot)) {
            Some(Some(Abstract::Number(range, _))) => *range = Interval { low, high },
            Some(found) => *found = Some(Abstract::Any),
            None => {}
        }
    }

    /// Lets anything be in a field.
    pub fn forget(&self, outline: &mut Outline, field: &str) {
        let slot = self.fields.iter().find(|known| *known.name == *field).map(|known| known.slot);
        if let Some(found) = slot.and_then(|slot| outline.fields.get_mut(slot)) {
            *found = Some(Abstract::Any);
        }
    }

    /// The least and the greatest value of a field within the outline: what a reader may be told while events are
    /// still open. `None` if the field has no order, no value yet, or amounts of different currencies.
    #[must_use]
    pub fn range_within(&self, outline: &Outline, field: &str) -> Option<(Value, Value)> {
        let field = self.fields.iter().find(|known| *known.name == *field)?;
        let Abstract::Number(range, denomination) = outline.fields.get(field.slot)?.as_ref()? else { return None };
        let currency = match denomination {
            Denomination::Known(currency) => Some(*currency),
            _ => None,
        };
        let value = |number: i128| Value::of_number(&field.ty, currency, number);
        Some((value(range.low)?, value(range.high)?))
    }
}

/// The verdict on an event in every instance within an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// [`Class::next`] accepts it in all of them, and needs the same of the same other instances.
    Accepted,
    /// [`Class::next`] refuses it in all of them.
    Refused,
    /// Neither is shown.
    Unsure,
}

/// What [`Class::judge`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Where the accepted event leads. Without meaning for a refused one.
    pub after: Outline,
}

impl Class {
    /// The outline of one instance.
    #[must_use]
    pub fn outline(&self, instance: &Instance) -> Outline {
        let mut fields = vec![None; self.fields.len()];
        for field in &self.fields {
            let value = instance.fields().get_at(field.slot, &field.name);
            fields[field.slot] =
                value.map(|value| if value.has_type(&field.ty) { Abstract::of(value) } else { Abstract::Any });
        }
        Outline { states: BTreeSet::from([instance.state().clone()]), fields }
    }

    /// Judges `call` in every instance within `outline`.
    ///
    /// It tells of instances that are of this class ([`Class::verify`]): of one that breaks an invariant, [`Class::next`] may
    /// allow what leaves that alone.
    ///
    /// # Complexity
    /// One abstract evaluation per state of the outline, at most [`limits::FUEL`](FUEL) steps in all; after those,
    /// [`Verdict::Unsure`].
    #[must_use]
    pub fn judge(&self, key: &Key, outline: &Outline, call: &EventCall, at: Timestamp) -> Judgement {
        let refused = || Judgement { verdict: Verdict::Refused, after: outline.clone() };
        let Some(event) = self.event(call.event()) else { return refused() };
        if call.due().is_some() {
            // What a timer has come to is not in the outline.
            let transitions = event.transitions.iter();
            let states = outline.states.iter().chain(transitions.map(|transition| &transition.target)).cloned();
            let fields = self.fields.iter().map(|_| Some(Abstract::Any)).collect();
            return Judgement { verdict: Verdict::Unsure, after: Outline { states: states.collect(), fields } };
        }
        let call = &*event.completed(call);
        let is_unfit = !event.argument_errors(call).is_empty() || event.role_violation(call).is_some();
        if !key.has_type(&self.key_type) || is_unfit {
            return refused();
        }
        let fuel = Cell::new(FUEL);
        let domain = Domain {
            class: self,
            fields: outline.fields.iter().map(|field| field.clone().unwrap_or(Abstract::Any)).collect(),
            // Bindings and slots are both in the order of the names.
            params: call.arguments().iter().map(|(_, value)| Abstract::of(value)).collect(),
            event: Some((key, at)),
            fuel: &fuel,
        };
        let judgements = outline.states.iter().map(|state| match event.transition(state) {
            None => refused(),
            Some(transition) if transition.variant.is_none() => self.judge_body(event, transition, outline, &domain),
            Some(_) => self.judge_variants(event, state, outline, &domain),
        });
        let joined = judgements.reduce(|a, b| Judgement {
            verdict: if a.verdict == b.verdict { a.verdict } else { Verdict::Unsure },
            after: a.after.join(&b.after),
        });
        let bodies = outline.states.iter().filter_map(|state| event.transition(state)).map(|found| &found.body);
        let bodies: Vec<_> = bodies.collect();
        let has_one_need = bodies.windows(2).all(|pair| Arc::ptr_eq(pair[0], pair[1]))
            || bodies.iter().all(|body| body.statements.is_empty());
        match joined {
            Some(Judgement { verdict: Verdict::Accepted, after }) if !has_one_need => {
                Judgement { verdict: Verdict::Unsure, after }
            }
            Some(judgement) => judgement,
            None => refused(),
        }
    }

    /// Which variant happens is not told; that none does, is.
    fn judge_variants(&self, event: &Event, state: &Name, outline: &Outline, before: &Domain<'_>) -> Judgement {
        let judged = event.variants(state).map(|variant| self.judge_body(event, variant, outline, before));
        let joined = judged.reduce(|a, b| {
            let is_refused = a.verdict == Verdict::Refused && b.verdict == Verdict::Refused;
            let verdict = if is_refused { Verdict::Refused } else { Verdict::Unsure };
            Judgement { verdict, after: a.after.join(&b.after) }
        });
        let unsure = |judgement: Judgement| match judgement.verdict {
            Verdict::Accepted => Judgement { verdict: Verdict::Unsure, ..judgement },
            _ => judgement,
        };
        joined.map_or_else(|| Judgement { verdict: Verdict::Refused, after: outline.clone() }, unsure)
    }

    fn judge_body(&self, event: &Event, way: &Transition, outline: &Outline, before: &Domain<'_>) -> Judgement {
        let Transition { body, target, .. } = way;
        let guards = self.judge_rules(&body.guards, before);
        let mut after = Outline { states: BTreeSet::from([target.clone()]), fields: outline.fields.clone() };
        let mut result = before.clone();
        let mut is_certain = true;
        for effect in &body.effects {
            let (value, faults) = before.value(&effect.value);
            is_certain &= !faults.overflow && !faults.mismatch;
            result.fields[effect.field.index] = value.clone();
            after.fields[effect.field.index] = Some(value);
        }
        is_certain &= body.returned.as_ref().is_none_or(|returned| returned.is_plain());
        is_certain &= body.statements.iter().all(|statement| is_certain_statement(statement, before));
        let invariants = self.judge_rules(&self.invariants, &result);
        let verdict = match (guards, invariants) {
            (Verdict::Refused, _) | (Verdict::Accepted, Verdict::Refused) => Verdict::Refused,
            // Where the time of a timer changes it may fault.
            (Verdict::Accepted, Verdict::Accepted) if is_certain && self.keeps_timers(event) => Verdict::Accepted,
            _ => Verdict::Unsure,
        };
        Judgement { verdict, after }
    }

    /// Whether all rules hold for all instances, or one of them for none.
    fn judge_rules(&self, rules: &[Rule], domain: &Domain<'_>) -> Verdict {
        let mut verdict = Verdict::Accepted;
        for rule in rules {
            let (value, faults) = domain.value(&rule.expr);
            match value.as_truth() {
                Some(true) if !faults.overflow && !faults.mismatch => {}
                Some(false) => return Verdict::Refused,
                _ => verdict = Verdict::Unsure,
            }
        }
        verdict
    }
}

/// What holds both, where a field has a value in either.
fn hull(a: Option<&Abstract>, b: Option<&Abstract>) -> Option<Abstract> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.hull(b)),
        (one, other) => one.or(other).cloned(),
    }
}

/// Whether the statement needs the same in all instances, and meets no fault.
fn is_certain_statement(statement: &Statement, domain: &Domain<'_>) -> bool {
    statement.expressions().into_iter().all(|expr| {
        let (value, faults) = domain.value(expr);
        !faults.overflow && !faults.mismatch && (value.is_single() || reads_single_fields(expr, domain))
    })
}

fn reads_single_fields(expr: &Expr, domain: &Domain<'_>) -> bool {
    let mut is_single = true;
    expr.walk(&mut |expr| {
        if let ExprKind::Field(slot) = &expr.kind {
            is_single &= domain.fields.get(slot.index).is_some_and(Abstract::is_single);
        }
    });
    is_single
}
