//! What is made of places inside of a value.
//!
//! All that is done is written down first, in the order of the text and of the elements, and is done at once afterwards: on the way into
//! the value, what goes through one entry or one field is taken together.

use std::sync::Arc;

use enact_rebel::ir::{Builtin, EffectOperator, Expr, NumberKind, Operator, Update, Way};
use enact_rebel::{RecordValue, Value};

use crate::expression::{Computed, Reading, Stop, arithmetic, list_of, map_of, set_of};
use crate::reason::Fault;
use crate::{builtin, coverage, order};

/// What is done to a place.
struct Done {
    /// What is left of the way to it.
    way: Vec<Step>,
    operator: EffectOperator,
    value: Value,
}

enum Step {
    Entry(Value),
    Member(usize),
}

impl Reading<'_> {
    /// The value with all updates.
    pub(crate) fn updated(&mut self, of: &Expr, updates: &[Update], locals: &[Value]) -> Computed {
        let old = match self.value(of, locals) {
            Err(Stop::Waits) => None,
            old => Some(old?),
        };
        let mut done = Vec::new();
        self.write_down(updates, locals, &mut done)?;
        Ok(made(Some(old.ok_or(Stop::Waits)?), done)?)
    }

    fn write_down(&mut self, updates: &[Update], locals: &[Value], done: &mut Vec<Done>) -> Result<(), Stop> {
        all(updates.iter().map(|update| {
            coverage::update(update);
            match update {
                Update::At { way, operator, value } => {
                    let operands = way.iter().filter_map(key).chain([value]);
                    let mut values = self.values(operands, locals)?.into_iter();
                    let mut next = || values.next().expect("a value of each operand");
                    let step = |way: &Way| match way {
                        Way::Entry(_) => Step::Entry(next()),
                        Way::Member(index) => Step::Member(*index),
                    };
                    let way = way.iter().map(step).collect();
                    done.push(Done { way, operator: *operator, value: next() });
                    Ok(())
                }
                Update::If(condition, accepted, otherwise) => {
                    let chosen = if self.truth(condition, locals)? { accepted } else { otherwise };
                    self.write_down(chosen, locals, done)
                }
                Update::For(domain, updates) => {
                    let elements = order::elements(&self.value(domain, locals)?);
                    all(elements
                        .into_iter()
                        .map(|element| self.write_down(updates, &[locals, &[element]].concat(), done)))
                }
                unknown => panic!("an update that is not known: {unknown:?}"),
            }
        }))
    }
}

/// Does one after the other. A fault ends it; what waits for an answer does not.
fn all(results: impl Iterator<Item = Result<(), Stop>>) -> Result<(), Stop> {
    let mut waits = false;
    for result in results {
        match result {
            Err(Stop::Waits) => waits = true,
            other => other?,
        }
    }
    if waits { Err(Stop::Waits) } else { Ok(()) }
}

fn key(way: &Way) -> Option<&Expr> {
    match way {
        Way::Entry(key) => Some(key),
        Way::Member(_) => None,
    }
}

/// All expressions in updates.
pub(crate) fn expressions(updates: &[Update]) -> Vec<&Expr> {
    updates.iter().flat_map(expressions_of).collect()
}

fn expressions_of(update: &Update) -> Vec<&Expr> {
    match update {
        Update::At { way, value, .. } => way.iter().filter_map(key).chain([value]).collect(),
        Update::If(condition, accepted, otherwise) => {
            [vec![&**condition], expressions(accepted), expressions(otherwise)].concat()
        }
        Update::For(domain, updates) => [vec![&**domain], expressions(updates)].concat(),
        unknown => panic!("an update that is not known: {unknown:?}"),
    }
}

/// What a place becomes that had the value `old`, if it had one.
///
/// It becomes one value, by one or more that are the same, or it is added to and taken from. Anything else is two values.
fn made(old: Option<Value>, done: Vec<Done>) -> Result<Value, Fault> {
    let (here, inside): (Vec<Done>, Vec<Done>) = done.into_iter().partition(|done| done.way.is_empty());
    let becomes: Vec<&Value> =
        here.iter().filter(|done| done.operator == EffectOperator::Becomes).map(|done| &done.value).collect();
    if let [first, others @ ..] = &becomes[..] {
        let is_one = inside.is_empty() && becomes.len() == here.len();
        let is_same = others.iter().all(|other| order::same(first, other));
        return if is_one && is_same { Ok(Value::clone(first)) } else { Err(Fault::TwoValues) };
    }
    match old.ok_or(Fault::NoElement)? {
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            of_map(entries, &amounts(&here, EffectOperator::Decreases), inside)
        }
        Value::Record(record) => of_record(&record, inside),
        Value::Set(elements) => of_set(
            elements.iter().cloned().collect(),
            &amounts(&here, EffectOperator::Increases),
            &amounts(&here, EffectOperator::Decreases),
        ),
        Value::List(elements) => {
            let appended = amounts(&here, EffectOperator::Increases);
            list_of(elements.iter().cloned().chain(appended).collect())
        }
        number => here.iter().try_fold(number, |number, done| changed(&number, done)),
    }
}

/// The elements of all collections that are added, or of all that are taken away.
fn amounts(done: &[Done], operator: EffectOperator) -> Vec<Value> {
    done.iter().filter(|done| done.operator == operator).flat_map(|done| order::elements(&done.value)).collect()
}

fn has(values: &[Value], value: &Value) -> bool {
    values.iter().any(|other| order::same(other, value))
}

fn of_map(old: Vec<(Value, Value)>, lost: &[Value], inside: Vec<Done>) -> Result<Value, Fault> {
    let mut groups: Vec<(Value, Vec<Done>)> = Vec::new();
    for Done { mut way, operator, value } in inside {
        let Step::Entry(key) = way.remove(0) else { panic!("a way into a map leads to an entry") };
        let done = Done { way, operator, value };
        match groups.iter_mut().find(|(other, _)| order::same(other, &key)) {
            Some((_, group)) => group.push(done),
            None => groups.push((key, vec![done])),
        }
    }
    groups.sort_by(|(a, _), (b, _)| order::canonical(a, b));
    let mut new: Vec<(Value, Value)> = Vec::new();
    for (key, group) in groups {
        if has(lost, &key) {
            return Err(Fault::TwoValues);
        }
        let old = old.iter().find(|(other, _)| order::same(other, &key)).map(|(_, value)| value.clone());
        new.push((key, made(old, group)?));
    }
    let is_kept = |key: &Value| !has(lost, key) && !new.iter().any(|(other, _)| order::same(other, key));
    let kept: Vec<(Value, Value)> = old.into_iter().filter(|(key, _)| is_kept(key)).collect();
    map_of(kept.into_iter().chain(new))
}

fn of_record(old: &RecordValue, inside: Vec<Done>) -> Result<Value, Fault> {
    let mut groups: Vec<Vec<Done>> = old.fields.iter().map(|_| Vec::new()).collect();
    for Done { mut way, operator, value } in inside {
        let Step::Member(index) = way.remove(0) else { panic!("a way into a record leads to a field") };
        groups[index].push(Done { way, operator, value });
    }
    let mut fields = Vec::new();
    for ((name, old), group) in old.fields.iter().zip(groups) {
        let new = if group.is_empty() { old.clone() } else { made(Some(old.clone()), group)? };
        fields.push((name.clone(), new));
    }
    Ok(Value::Record(Arc::new(RecordValue { of: old.of.clone(), fields })))
}

fn of_set(old: Vec<Value>, put: &[Value], taken: &[Value]) -> Result<Value, Fault> {
    if put.iter().any(|element| has(taken, element)) {
        return Err(Fault::TwoValues);
    }
    let kept = old.into_iter().filter(|element| !has(taken, element));
    set_of(kept.chain(put.iter().cloned()).collect())
}

/// A number, an amount, a day, a time or a text with one more added to it or taken away.
fn changed(old: &Value, done: &Done) -> Result<Value, Fault> {
    let (operator, other) = match done.operator {
        EffectOperator::Increases => (Operator::Add, Builtin::Add),
        EffectOperator::Decreases => (Operator::Subtract, Builtin::Subtract),
        EffectOperator::Becomes => panic!("it becomes another value"),
    };
    let kind = match (old, &done.value) {
        (Value::Integer(_), _) => NumberKind::Integer,
        (Value::Money(_), _) => NumberKind::Money,
        (Value::Percentage(_), _) => NumberKind::Percentage,
        (Value::Date(_), Value::Integer(_)) => NumberKind::Date,
        _ => return builtin::apply(&other, &[old.clone(), done.value.clone()]),
    };
    arithmetic(operator, kind, old, &done.value)
}
