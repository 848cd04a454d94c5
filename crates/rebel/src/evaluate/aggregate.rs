//! What is made of the elements of a collection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::builtin::{is_less, sum};
use super::{Evaluator, arithmetic, bounded, enter, ill_typed};
use crate::model::expr::{Aggregate, Fold, Operator};
use crate::value::{Fault, Value};

/// The elements of a set or a list, in their order.
pub(crate) enum Elements {
    Set(Arc<BTreeSet<Value>>),
    List(Arc<[Value]>),
}

impl Elements {
    pub(super) fn of(value: Value) -> Option<Self> {
        match value {
            Value::Set(elements) => Some(Elements::Set(elements)),
            Value::List(elements) => Some(Elements::List(elements)),
            _ => None,
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = &Value> + '_> {
        match self {
            Elements::Set(elements) => Box::new(elements.iter()),
            Elements::List(elements) => Box::new(elements.iter()),
        }
    }
}

impl Evaluator<'_> {
    /// What its elements ask for is met for all of them, whichever waits for an answer.
    #[inline(never)]
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate, locals: &[Value]) -> Result<Value, Fault> {
        let mut folding = self.folding(&aggregate.fold, locals)?;
        let elements = self.elements(&aggregate.domain, locals)?;
        let mut locals = locals.to_vec();
        let mut waits = None;
        for element in elements.iter() {
            self.burn(1)?;
            locals.push(element.clone());
            let taken = self.element(aggregate, &locals);
            locals.pop();
            match taken {
                Err(fault) if fault.is_unanswered() => waits = waits.or(Some(fault)),
                Err(fault) => return Err(fault),
                Ok(None) => {}
                Ok(Some((body, value))) => {
                    let taken = folding.take(element, body, value).ok_or_else(|| ill_typed(&aggregate.body))?;
                    if taken? && waits.is_none() {
                        break;
                    }
                }
            }
        }
        waits.map_or_else(|| folding.result(), Err)
    }

    fn folding(&mut self, fold: &Fold, locals: &[Value]) -> Result<Folding, Fault> {
        Ok(match fold {
            Fold::Quantified { is_all } => Folding::Quantified { is_all: *is_all, verdict: *is_all },
            Fold::Count => Folding::Count(0),
            Fold::Set => Folding::Set(BTreeSet::new()),
            Fold::Sum(_, start) => Folding::Sum(self.value(start, locals)?),
            Fold::Least => Folding::Extreme { is_least: true, found: None },
            Fold::Greatest => Folding::Extreme { is_least: false, found: None },
            Fold::First => Folding::First(None),
            Fold::Last => Folding::Last(None),
            Fold::List => Folding::List(Vec::new()),
            Fold::Map => Folding::Map(BTreeMap::new()),
            Fold::Sort => Folding::Sort(Vec::new()),
        })
    }

    /// The values of the body and of what stands behind it for the element that is the innermost local, if it counts.
    fn element(&mut self, aggregate: &Aggregate, locals: &[Value]) -> Result<Option<(Value, Option<Value>)>, Fault> {
        if let Some(filter) = &aggregate.filter
            && !self.truth(filter, locals)?
        {
            return Ok(None);
        }
        let body = self.value(&aggregate.body, locals)?;
        let value = aggregate.value.as_ref().map(|value| self.value(value, locals)).transpose()?;
        Ok(Some((body, value)))
    }
}

/// An aggregate on its way.
pub(super) enum Folding {
    Quantified {
        is_all: bool,
        verdict: bool,
    },
    Count(i64),
    Set(BTreeSet<Value>),
    Sum(Value),
    Extreme {
        is_least: bool,
        found: Option<Value>,
    },
    First(Option<Value>),
    Last(Option<Value>),
    List(Vec<Value>),
    Map(BTreeMap<Value, Value>),
    /// Each element behind what it is sorted by.
    Sort(Vec<(Value, Value)>),
}

impl Folding {
    /// Takes up what the body, and what stands behind it, gives for one element, and says whether those that follow decide
    /// nothing; nothing if it is of another type than declared.
    fn take(&mut self, element: &Value, body: Value, value: Option<Value>) -> Option<Result<bool, Fault>> {
        match self {
            Folding::Quantified { is_all, verdict } => {
                let Value::Boolean(truth) = body else { return None };
                let decides = truth != *is_all;
                if decides {
                    *verdict = truth;
                }
                return Some(Ok(decides));
            }
            Folding::Count(count) => *count += 1,
            Folding::Set(elements) => _ = elements.insert(body),
            Folding::Sum(so_far) => {
                let added = arithmetic(Operator::Add, so_far, &body).or_else(|| sum(so_far, &body))?;
                return Some(added.map(|result| {
                    *so_far = result;
                    false
                }));
            }
            Folding::Extreme { is_least, found } => {
                let replaces = found
                    .as_ref()
                    .map_or(Ok(true), |found| if *is_least { is_less(&body, found) } else { is_less(found, &body) });
                match replaces {
                    Ok(true) => *found = Some(body),
                    Ok(false) => {}
                    Err(fault) => return Some(Err(fault)),
                }
            }
            Folding::First(found) => {
                *found = Some(body);
                return Some(Ok(true));
            }
            Folding::Last(found) => *found = Some(body),
            Folding::List(elements) => elements.push(body),
            Folding::Map(entries) => return Some(enter(entries, body, value?).map(|()| false)),
            Folding::Sort(elements) => {
                if let Some((first, _)) = elements.first()
                    && let Err(fault) = is_less(first, &body)
                {
                    return Some(Err(fault));
                }
                elements.push((body, element.clone()));
            }
        }
        Some(Ok(false))
    }

    fn result(self) -> Result<Value, Fault> {
        Ok(match self {
            Folding::Quantified { verdict, .. } => Value::Boolean(verdict),
            Folding::Count(count) => Value::Integer(count),
            Folding::Set(elements) => Value::Set(Arc::new(elements)),
            Folding::Sum(sum) => sum,
            Folding::Extreme { found, .. } | Folding::First(found) | Folding::Last(found) => {
                found.unwrap_or(Value::None)
            }
            Folding::List(elements) => {
                bounded(elements.len())?;
                Value::List(elements.into())
            }
            Folding::Map(entries) => Value::Map(Arc::new(entries)),
            Folding::Sort(mut elements) => {
                elements.sort_by(|(a, _), (b, _)| a.cmp(b));
                Value::List(elements.into_iter().map(|(_, element)| element).collect())
            }
        })
    }
}
