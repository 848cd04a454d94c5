//! What updates make of a value: all that is done to it is collected first, and then done at once.
//!
//! Places that only run time tells apart, the entries of a map and the elements of a set, may turn out to be one. What is added and
//! taken away there sums up; everything else must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use super::{Evaluator, arithmetic, bounded, builtin, ill_typed, size};
use crate::model::Builtin;
use crate::model::expr::{EffectOperator, Expr, Operator, Update, Way};
use crate::value::{Fault, RecordValue, Value};

/// What is done to one place.
pub(crate) struct Done {
    pub(crate) way: Vec<Step>,
    pub(crate) operator: EffectOperator,
    pub(crate) value: Value,
}

pub(crate) enum Step {
    Entry(Value),
    Member(usize),
}

/// What is done to a value, with what is left of the way to the place.
type Doing<'d> = (&'d [Step], &'d Done);

impl Evaluator<'_> {
    /// What is asked for is met for all elements, whichever waits for an answer.
    #[inline(never)]
    pub(super) fn updated(&mut self, of: &Expr, updates: &[Update], locals: &[Value]) -> Result<Value, Fault> {
        let old = match self.value(of, locals) {
            Err(fault) if fault.is_unanswered() => return Err(self.done(updates, locals).err().unwrap_or(fault)),
            old => old?,
        };
        let done = self.done(updates, locals)?;
        let all: Vec<Doing<'_>> = done.iter().map(|done| (done.way.as_slice(), done)).collect();
        self.place(Some(old), &all, "", of)
    }

    /// What the updates do, in the order of the text and of the elements.
    pub(crate) fn done(&mut self, updates: &[Update], locals: &[Value]) -> Result<Vec<Done>, Fault> {
        let (mut done, mut waits) = (Vec::new(), None);
        self.collect_updates(updates, &mut locals.to_vec(), &mut done, &mut waits)?;
        waits.map_or(Ok(done), Err)
    }

    fn collect_updates(
        &mut self,
        updates: &[Update],
        locals: &mut Vec<Value>,
        done: &mut Vec<Done>,
        waits: &mut Option<Fault>,
    ) -> Result<(), Fault> {
        for update in updates {
            match self.collect_update(update, locals, done, waits) {
                Err(fault) if fault.is_unanswered() => _ = waits.get_or_insert(fault),
                other => other?,
            }
        }
        Ok(())
    }

    fn collect_update(
        &mut self,
        update: &Update,
        locals: &mut Vec<Value>,
        done: &mut Vec<Done>,
        waits: &mut Option<Fault>,
    ) -> Result<(), Fault> {
        match update {
            Update::At { way, operator, value } => {
                let mut steps = Vec::with_capacity(way.len());
                for way in way {
                    match way {
                        Way::Entry(key) => steps.extend(self.met(key, locals, waits)?.map(Step::Entry)),
                        Way::Member(index) => steps.push(Step::Member(*index)),
                    }
                }
                let Some(value) = self.met(value, locals, waits)? else { return Ok(()) };
                self.burn(size(&value))?;
                done.push(Done { way: steps, operator: *operator, value });
                Ok(())
            }
            Update::If(condition, accepted, otherwise) => {
                let chosen = if self.truth(condition, locals)? { accepted } else { otherwise };
                self.collect_updates(chosen, locals, done, waits)
            }
            Update::For(domain, updates) => {
                for element in self.elements(domain, locals)?.iter() {
                    self.burn(1)?;
                    locals.push(element.clone());
                    let collected = self.collect_updates(updates, locals, done, waits);
                    locals.pop();
                    collected?;
                }
                Ok(())
            }
        }
    }

    /// The value of `expr`; nothing if it waits for an answer, which is taken down.
    fn met(&mut self, expr: &Expr, locals: &[Value], waits: &mut Option<Fault>) -> Result<Option<Value>, Fault> {
        match self.value(expr, locals) {
            Ok(value) => Ok(Some(value)),
            Err(fault) if fault.is_unanswered() => {
                waits.get_or_insert(fault);
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// What a place inside of `of` becomes in which `old` was, if anything. It is called `name`.
    fn place(&mut self, old: Option<Value>, all: &[Doing<'_>], name: &str, of: &Expr) -> Result<Value, Fault> {
        let becomes = |(way, done): &&Doing<'_>| way.is_empty() && done.operator == EffectOperator::Becomes;
        if let Some((_, first)) = all.iter().find(becomes) {
            let is_same = |doing: &Doing<'_>| becomes(&doing) && doing.1.value == first.value;
            return if all.iter().all(is_same) { Ok(first.value.clone()) } else { Err(two_values(name)) };
        }
        let old = old.ok_or_else(|| Fault::NoElement { key: name.to_owned() })?;
        self.burn(size(&old))?;
        match old {
            Value::Map(entries) => self.entries(entries, all, name, of),
            Value::Record(record) => self.members(record, all, name, of),
            Value::Set(elements) => set(elements, all).unwrap_or_else(|| Err(ill_typed(of))),
            Value::List(elements) => list(&elements, all).unwrap_or_else(|| Err(ill_typed(of))),
            number => all.iter().try_fold(number, |sum, (_, done)| {
                added(done.operator, sum, &done.value).unwrap_or_else(|| Err(ill_typed(of)))
            }),
        }
    }

    fn entries(
        &mut self,
        entries: Arc<BTreeMap<Value, Value>>,
        all: &[Doing<'_>],
        name: &str,
        of: &Expr,
    ) -> Result<Value, Fault> {
        let (mut lost, mut kept): (BTreeSet<&Value>, BTreeMap<&Value, Vec<Doing<'_>>>) = Default::default();
        for (way, done) in all {
            match (way.split_first(), &done.value) {
                (Some((Step::Entry(key), rest)), _) => kept.entry(key).or_default().push((rest, done)),
                (None, Value::Set(keys)) => lost.extend(keys.iter()),
                _ => return Err(ill_typed(of)),
            }
        }
        let mut new = Vec::with_capacity(kept.len());
        for (key, all) in kept {
            let name = within(name, key);
            if lost.contains(key) {
                return Err(two_values(&name));
            }
            new.push((key.clone(), self.place(entries.get(key).cloned(), &all, &name, of)?));
        }
        let mut entries = Arc::unwrap_or_clone(entries);
        lost.into_iter().for_each(|key| _ = entries.remove(key));
        entries.extend(new);
        bounded(entries.len())?;
        Ok(Value::Map(Arc::new(entries)))
    }

    fn members(
        &mut self,
        mut record: Arc<RecordValue>,
        all: &[Doing<'_>],
        name: &str,
        of: &Expr,
    ) -> Result<Value, Fault> {
        let mut members: BTreeMap<usize, Vec<Doing<'_>>> = BTreeMap::new();
        for (way, done) in all {
            let Some((Step::Member(index), rest)) = way.split_first() else { return Err(ill_typed(of)) };
            members.entry(*index).or_default().push((rest, done));
        }
        for (index, all) in members {
            let (member, place) = Arc::make_mut(&mut record).fields.get_mut(index).ok_or_else(|| ill_typed(of))?;
            let name = within(name, member);
            let old = std::mem::replace(place, Value::None);
            *place = self.place(Some(old), &all, &name, of)?;
        }
        Ok(Value::Record(record))
    }
}

/// The set with what is put in and without what is taken out; `None` if something is no set.
fn set(elements: Arc<BTreeSet<Value>>, all: &[Doing<'_>]) -> Option<Result<Value, Fault>> {
    let (mut put, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for (_, done) in all {
        let Value::Set(elements) = &done.value else { return None };
        if done.operator == EffectOperator::Increases { &mut put } else { &mut taken }.extend(elements.iter());
    }
    if let Some(both) = put.intersection(&taken).next() {
        return Some(Err(two_values(&both.to_string())));
    }
    let mut elements = Arc::unwrap_or_clone(elements);
    elements.retain(|element| !taken.contains(element));
    elements.extend(put.into_iter().cloned());
    Some(bounded(elements.len()).map(|()| Value::Set(Arc::new(elements))))
}

/// The list with what is appended, in the order of the text; `None` if something is no list.
fn list(elements: &[Value], all: &[Doing<'_>]) -> Option<Result<Value, Fault>> {
    let mut list = elements.to_vec();
    for (_, done) in all {
        let Value::List(elements) = &done.value else { return None };
        list.extend_from_slice(elements);
    }
    Some(bounded(list.len()).map(|()| Value::List(list.into())))
}

/// The sum or the difference; `None` if there is none of such values.
fn added(operator: EffectOperator, sum: Value, by: &Value) -> Option<Result<Value, Fault>> {
    let (operator, builtin) = match operator {
        EffectOperator::Increases => (Operator::Add, Builtin::Add),
        _ => (Operator::Subtract, Builtin::Subtract),
    };
    arithmetic(operator, &sum, by).or_else(|| builtin::apply(&builtin, &[sum, by.clone()]))
}

fn two_values(name: &str) -> Fault {
    Fault::TwoValues { key: name.to_owned() }
}

/// The name of a place inside of another one.
fn within(name: &str, part: impl Display) -> String {
    if name.is_empty() { part.to_string() } else { format!("{name}.{part}") }
}
