//! Calls that only need thresholds and only add amounts, alone or several in one step.
//!
//! For such calls an admission keeps, per field, the least and the greatest sum that the open events may add, and
//! decides in constant time: a threshold holds in every outcome if it holds at the worse end, and in none if it fails
//! at the better one. For thresholds over one field this is exact, because each end is an outcome.
//!
//! # What is left out of a verdict
//! Nothing: the range of numbers is a threshold like any other, and so are the invariants, shifted by what the call
//! adds. An invariant over fields that the call does not change is left to the events that change them.

use std::mem::discriminant;

use super::interval::Interval;
use crate::evaluate::Evaluator;
use crate::instance::{EventCall, Instance};
use crate::model::expr::{Comparison, Expr, NumberKind, Operator, Rule};
use crate::model::{Body, Class};
use crate::value::{Bindings, Currency, Key, Name, Timestamp, Type, Value};

/// A call that happens exactly if the instance is in one of its states and all its thresholds hold, and then stays in
/// that state and adds its deltas.
///
/// Numbers are in the smallest unit of their type: minor units of the currency, 10^-16 percent, days, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The states that allow the event.
    pub states: Vec<Name>,
    /// What must hold before the event.
    pub thresholds: Vec<Threshold>,
    /// What the events add; each field once.
    pub deltas: Vec<Delta>,
}

/// A field that counts towards a [`Threshold`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The field.
    pub field: Name,
    /// Whether it is subtracted.
    pub is_negative: bool,
}

/// What a sum of fields must reach or not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The sum is at least this.
    AtLeast(i128),
    /// The sum is at most this.
    AtMost(i128),
}

/// A bound on the sum of some fields; mostly of one.
///
/// It holds only if the fields that are amounts of money are in one currency, and in `currency` if that is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    /// The fields, each once; at least one.
    pub terms: Vec<Term>,
    /// The bound.
    pub bound: Bound,
    /// The currency of the bound. `None` for numbers that are no money, and for comparisons with `0`.
    pub currency: Option<Currency>,
}

/// What an event adds to a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delta {
    /// The field.
    pub field: Name,
    /// The number added; never zero.
    pub amount: i128,
    /// Its currency, if it is money.
    pub currency: Option<Currency>,
}

impl Bound {
    /// The stronger of two bounds on the same side.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Bound::AtLeast(a), Bound::AtLeast(b)) => Bound::AtLeast(a.max(b)),
            (Bound::AtMost(a), Bound::AtMost(b)) => Bound::AtMost(a.min(b)),
            _ => self,
        }
    }
}

impl Linear {
    /// Whether the call happens in `instance`, as [`Class::next`] would say.
    #[must_use]
    pub fn happens_in(&self, instance: &Instance) -> bool {
        self.states.contains(instance.state()) && self.thresholds.iter().all(|threshold| threshold.holds_in(instance))
    }
}

impl Threshold {
    /// The sum of the terms in `instance`, or `None` if a currency does not fit or a field has no number.
    #[must_use]
    pub fn sum_in(&self, instance: &Instance) -> Option<i128> {
        let mut sum: i128 = 0;
        let mut currency = self.currency;
        for term in &self.terms {
            let value = instance.fields().get(&term.field)?;
            if let Some(found) = value.currency()
                && *currency.get_or_insert(found) != found
            {
                return None;
            }
            let number = value.number()?;
            sum = if term.is_negative { sum.checked_sub(number)? } else { sum.checked_add(number)? };
        }
        Some(sum)
    }

    /// Whether it holds in `instance`.
    #[must_use]
    pub fn holds_in(&self, instance: &Instance) -> bool {
        self.sum_in(instance).is_some_and(|sum| self.decide(sum, sum) == Some(true))
    }

    /// Whether it holds for every sum from `low` to `high` (true), for none (false), or for some.
    #[must_use]
    pub fn decide(&self, low: i128, high: i128) -> Option<bool> {
        let (always, never) = match self.bound {
            Bound::AtLeast(bound) => (low >= bound, high < bound),
            Bound::AtMost(bound) => (high <= bound, low > bound),
        };
        if always { Some(true) } else { never.then_some(false) }
    }
}

impl Class {
    /// The thresholds and deltas of `calls`, which happen one after the other in one step, whatever the instance, or `None`
    /// if they have another form.
    ///
    /// A call has this form if each of its guards, and each invariant over a field it changes, compares sums and
    /// differences of single fields and constants; if its effects add constants to fields; if it stays in its state;
    /// and if what it needs from other instances does not depend on fields. Arguments, the identity and the time are
    /// constants of the call. Of several calls, each must hold after what those before it add; the invariants must hold
    /// after all of them.
    ///
    /// It tells of instances that are of this class ([`Class::verify`]), as every result of [`Class::next`] is.
    #[must_use]
    pub fn linear(&self, key: &Key, calls: &[EventCall], at: Timestamp) -> Option<Linear> {
        if key.key_type() != self.key_type {
            return None;
        }
        let (first, rest) = calls.split_first()?;
        let (mut states, mut thresholds, mut deltas) = self.linear_act(key, first, at)?;
        for call in rest {
            let (more_states, mut more, added) = self.linear_act(key, call, at)?;
            states.retain(|state| more_states.contains(state));
            more.iter_mut().try_for_each(|threshold| shift(threshold, &deltas))?;
            thresholds.extend(more);
            add(&mut deltas, added)?;
        }
        deltas.retain(|delta| delta.amount != 0);
        // An invariant reads neither parameters nor the time, so any call will do to fold it.
        let mut invariants = Folding::new(self, key, first, at);
        for invariant in self.invariants.iter().filter(|invariant| reads_changed(invariant, &deltas)) {
            invariants.condition(&invariant.expr)?;
        }
        invariants.thresholds.iter_mut().try_for_each(|threshold| shift(threshold, &deltas))?;
        thresholds.extend(invariants.thresholds);
        Some(Linear { states, thresholds: strongest(&thresholds)?, deltas })
    }

    /// The states, thresholds and deltas of one call, the invariants apart.
    fn linear_act(
        &self,
        key: &Key,
        call: &EventCall,
        at: Timestamp,
    ) -> Option<(Vec<Name>, Vec<Threshold>, Vec<Delta>)> {
        let event = self.event(call.event())?;
        if !event.argument_errors(call).is_empty() {
            return None;
        }
        let mut states = Vec::new();
        let mut common: Option<(Vec<Threshold>, Vec<Delta>)> = None;
        for transition in &event.transitions {
            if transition.source != transition.target {
                return None;
            }
            let found = Folding::new(self, key, call, at).body(&transition.body)?;
            if *common.get_or_insert_with(|| found.clone()) != found {
                return None;
            }
            states.push(transition.source.clone());
        }
        let (thresholds, deltas) = common?;
        Some((states, thresholds, deltas))
    }
}

/// Adds `more` to `deltas`, unless a field would be in two currencies.
fn add(deltas: &mut Vec<Delta>, more: Vec<Delta>) -> Option<()> {
    for delta in more {
        match deltas.iter_mut().find(|known| known.field == delta.field) {
            Some(known) if known.currency != delta.currency => return None,
            Some(known) => known.amount = known.amount.checked_add(delta.amount)?,
            None => deltas.push(delta),
        }
    }
    Some(())
}

/// Fields in one sum at most, so that sums of numbers in range stay far below the end of 128 bits.
const TERMS_MAX: usize = 64;

/// A sum of fields and a constant.
struct Sum {
    kind: NumberKind,
    terms: Vec<Term>,
    constant: i128,
    currency: Option<Currency>,
}

impl Sum {
    fn negated(mut self) -> Option<Self> {
        self.terms.iter_mut().for_each(|term| term.is_negative = !term.is_negative);
        self.constant = self.constant.checked_neg()?;
        Some(self)
    }

    /// `self + other`, unless they share a field or are in different currencies.
    fn plus(mut self, other: Self, kind: NumberKind) -> Option<Self> {
        let is_shared = other.terms.iter().any(|term| self.terms.iter().any(|own| own.field == term.field));
        let currencies = (self.currency, other.currency);
        let has_too_many = self.terms.len() + other.terms.len() > TERMS_MAX;
        if is_shared || has_too_many || matches!(currencies, (Some(a), Some(b)) if a != b) {
            return None;
        }
        self.terms.extend(other.terms);
        let constant = self.constant.checked_add(other.constant)?;
        Some(Self { kind, terms: self.terms, constant, currency: self.currency.or(other.currency) })
    }
}

/// Folds one call over the expressions of its event.
struct Folding<'a> {
    class: &'a Class,
    key: &'a Key,
    call: &'a EventCall,
    at: Timestamp,
    thresholds: Vec<Threshold>,
}

impl<'a> Folding<'a> {
    fn new(class: &'a Class, key: &'a Key, call: &'a EventCall, at: Timestamp) -> Self {
        Self { class, key, call, at, thresholds: Vec::new() }
    }

    fn body(mut self, body: &Body) -> Option<(Vec<Threshold>, Vec<Delta>)> {
        let expressions = body.statements.iter().flat_map(|statement| statement.expressions());
        if expressions.into_iter().any(reads_fields) {
            return None;
        }
        for guard in &body.guards {
            self.condition(&guard.expr)?;
        }
        let mut deltas = Vec::new();
        for effect in &body.effects {
            let sum = self.sum(&effect.value)?;
            let [term] = sum.terms.as_slice() else { return None };
            if term.is_negative || term.field != effect.field.name {
                return None;
            }
            if sum.constant != 0 {
                let (field, amount) = (effect.field.name.clone(), sum.constant);
                deltas.push(Delta { field, amount, currency: sum.currency });
            }
        }
        Some((self.thresholds, deltas))
    }

    /// Adds what a condition needs.
    fn condition(&mut self, expr: &Expr) -> Option<()> {
        match expr {
            Expr::And(left, right) => {
                self.condition(left)?;
                self.condition(right)
            }
            _ if !reads_fields(expr) => matches!(self.constant(expr)?, Value::Boolean(true)).then_some(()),
            Expr::Compare(comparison, _, left, right) => {
                let (left, right) = (self.sum(left)?, self.sum(right)?);
                let kind = left.kind;
                self.comparison(*comparison, &left.plus(right.negated()?, kind)?)
            }
            Expr::CompareZero(comparison, operand) => {
                let sum = self.sum(operand)?;
                self.comparison(*comparison, &sum)
            }
            _ => None,
        }
    }

    /// Adds `sum comparison 0`.
    fn comparison(&mut self, comparison: Comparison, sum: &Sum) -> Option<()> {
        let bound = sum.constant.checked_neg()?;
        let mut require = |bound| self.require(&sum.terms, bound, sum.currency);
        match comparison {
            Comparison::Equal => {
                require(Bound::AtLeast(bound))?;
                require(Bound::AtMost(bound))
            }
            Comparison::Unequal => None,
            Comparison::Less => require(Bound::AtMost(bound.checked_sub(1)?)),
            Comparison::LessOrEqual => require(Bound::AtMost(bound)),
            Comparison::Greater => require(Bound::AtLeast(bound.checked_add(1)?)),
            Comparison::GreaterOrEqual => require(Bound::AtLeast(bound)),
        }
    }

    /// Adds a threshold, with a positive first term.
    fn require(&mut self, terms: &[Term], bound: Bound, currency: Option<Currency>) -> Option<()> {
        let mut threshold = Threshold { terms: terms.to_vec(), bound, currency };
        if terms.first()?.is_negative {
            threshold.terms.iter_mut().for_each(|term| term.is_negative = !term.is_negative);
            threshold.bound = match bound {
                Bound::AtLeast(bound) => Bound::AtMost(bound.checked_neg()?),
                Bound::AtMost(bound) => Bound::AtLeast(bound.checked_neg()?),
            };
        }
        self.thresholds.push(threshold);
        Some(())
    }

    /// The sum that `expr` is; every operation on the way adds the thresholds of its range.
    fn sum(&mut self, expr: &Expr) -> Option<Sum> {
        if !reads_fields(expr) {
            let value = self.constant(expr)?;
            let (constant, currency) = (value.number()?, value.currency());
            return Some(Sum { kind: kind_of(&value)?, terms: Vec::new(), constant, currency });
        }
        match expr {
            Expr::Field(slot) => {
                let field = self.class.fields.iter().find(|field| field.name == slot.name)?;
                let terms = vec![Term { field: slot.name.clone(), is_negative: false }];
                Some(Sum { kind: kind_of_type(&field.ty)?, terms, constant: 0, currency: None })
            }
            Expr::Arithmetic(operator @ (Operator::Add | Operator::Subtract), kind, left, right) => {
                let (left, right) = (self.sum(left)?, self.sum(right)?);
                let right = if *operator == Operator::Add { right } else { right.negated()? };
                let sum = left.plus(right, *kind)?;
                self.range(&sum)?;
                Some(sum)
            }
            Expr::Negate(_, operand) => {
                let sum = self.sum(operand)?.negated()?;
                self.range(&sum)?;
                Some(sum)
            }
            _ => None,
        }
    }

    /// Adds that `sum` lies in the range of its kind, and that its currencies match.
    fn range(&mut self, sum: &Sum) -> Option<()> {
        let Interval { low, high } = Interval::of_kind(sum.kind);
        let (low, high) = (low.checked_sub(sum.constant)?, high.checked_sub(sum.constant)?);
        // A field is in its own range already, so adding to it can only leave the range on one side.
        let is_field = matches!(sum.terms.as_slice(), [term] if !term.is_negative);
        if !is_field || sum.constant < 0 {
            self.require(&sum.terms, Bound::AtLeast(low), sum.currency)?;
        }
        if !is_field || sum.constant >= 0 {
            self.require(&sum.terms, Bound::AtMost(high), sum.currency)?;
        }
        Some(())
    }

    fn constant(&self, expr: &Expr) -> Option<Value> {
        let scope = self.class.scope(self.key, Bindings::nothing(), self.call.arguments(), self.at);
        Evaluator::new(scope).value(expr, &[]).ok()
    }
}

fn reads_fields(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| found |= matches!(expr, Expr::Field(_)));
    found
}

fn reads_changed(rule: &Rule, deltas: &[Delta]) -> bool {
    rule.reads.iter().any(|(name, _)| deltas.iter().any(|delta| delta.field == *name))
}

fn kind_of(value: &Value) -> Option<NumberKind> {
    match value {
        Value::Integer(_) | Value::Timestamp(_) => Some(NumberKind::Integer),
        Value::Money(_) => Some(NumberKind::Money),
        Value::Percentage(_) => Some(NumberKind::Percentage),
        Value::Date(_) => Some(NumberKind::Date),
        _ => None,
    }
}

fn kind_of_type(ty: &Type) -> Option<NumberKind> {
    match ty {
        Type::Integer | Type::Timestamp => Some(NumberKind::Integer),
        Type::Money => Some(NumberKind::Money),
        Type::Percentage => Some(NumberKind::Percentage),
        Type::Date => Some(NumberKind::Date),
        _ => None,
    }
}

/// Turns a threshold on the fields after the event into one on the fields before it.
fn shift(threshold: &mut Threshold, deltas: &[Delta]) -> Option<()> {
    for term in &threshold.terms {
        let Some(delta) = deltas.iter().find(|delta| delta.field == term.field) else { continue };
        let added = if term.is_negative { delta.amount.checked_neg()? } else { delta.amount };
        threshold.bound = match threshold.bound {
            Bound::AtLeast(bound) => Bound::AtLeast(bound.checked_sub(added)?),
            Bound::AtMost(bound) => Bound::AtMost(bound.checked_sub(added)?),
        };
    }
    Some(())
}

/// One threshold for every sum and side, or `None` if a sum would have to be in two currencies.
fn strongest(thresholds: &[Threshold]) -> Option<Vec<Threshold>> {
    let mut kept: Vec<Threshold> = Vec::new();
    for threshold in thresholds {
        let same_sum = thresholds.iter().filter(|other| other.terms == threshold.terms);
        let mut currencies = same_sum.filter_map(|other| other.currency);
        let currency = currencies.next();
        if currencies.any(|other| Some(other) != currency) {
            return None;
        }
        let is_same = |other: &&mut Threshold| {
            other.terms == threshold.terms && discriminant(&other.bound) == discriminant(&threshold.bound)
        };
        match kept.iter_mut().find(is_same) {
            Some(other) => other.bound = other.bound.and(threshold.bound),
            None => kept.push(Threshold { currency, ..threshold.clone() }),
        }
    }
    Some(kept)
}
