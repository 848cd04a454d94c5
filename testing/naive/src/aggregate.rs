//! What is made of the elements of a collection.

use std::cmp::Ordering;

use enact_rebel::ir::{Aggregate, Fold, NumberKind, Operator};
use enact_rebel::{Type, Value};

use crate::expression::{Computed, Reading, Stop, arithmetic, is_true, list_of, map_of, set_of};
use crate::reason::Fault;
use crate::{builtin, coverage, number, order};

/// An element that counts: itself, what the body makes of it, and what stands behind `->`.
struct Taken {
    element: Value,
    body: Value,
    value: Option<Value>,
}

impl Reading<'_> {
    /// The elements are taken in their order, and no further than it takes to decide. While an answer is missing all are looked at, so
    /// that what they ask is met in one round.
    pub(crate) fn aggregate(&mut self, aggregate: &Aggregate, locals: &[Value]) -> Computed {
        coverage::fold(&aggregate.fold);
        let start = match &aggregate.fold {
            Fold::Sum(_, start) => Some(start),
            _ => None,
        };
        let mut ends = self.values([&aggregate.domain].into_iter().chain(start), locals)?.into_iter();
        let domain = ends.next().expect("the elements");
        let mut sum = ends.next();
        let (mut taken, mut waits) = (Vec::new(), false);
        for element in order::elements(&domain) {
            match self.taken(aggregate, element, locals) {
                Err(Stop::Waits) => waits = true,
                Err(fault) => return Err(fault),
                Ok(None) => {}
                Ok(Some(one)) => {
                    if let (Fold::Sum(kind, _), Some(so_far)) = (&aggregate.fold, &mut sum) {
                        *so_far = added(*kind, so_far, &one.body)?;
                    }
                    let decides = match &aggregate.fold {
                        Fold::Quantified { is_all } => is_true(&one.body) != *is_all,
                        Fold::First => true,
                        _ => false,
                    };
                    taken.push(one);
                    no_two_values(&aggregate.fold, &taken)?;
                    if decides && !waits {
                        break;
                    }
                }
            }
        }
        if waits {
            return Err(Stop::Waits);
        }
        match aggregate.fold {
            Fold::Sort => Ok(sorted(taken, aggregate.body.ty())?),
            _ => Ok(result(&aggregate.fold, taken, sum)?),
        }
    }

    fn taken(&mut self, aggregate: &Aggregate, element: Value, locals: &[Value]) -> Result<Option<Taken>, Stop> {
        let locals = [locals, std::slice::from_ref(&element)].concat();
        if let Some(filter) = &aggregate.filter
            && !self.truth(filter, &locals)?
        {
            return Ok(None);
        }
        let mut values = self.values([&aggregate.body].into_iter().chain(&aggregate.value), &locals)?.into_iter();
        let body = values.next().expect("the body");
        Ok(Some(Taken { element, body, value: values.next() }))
    }
}

/// A fault at the element that makes it.
fn no_two_values(fold: &Fold, taken: &[Taken]) -> Result<(), Fault> {
    let Some((last, earlier)) = taken.split_last() else { return Ok(()) };
    match fold {
        Fold::Map => {
            let is_other = |one: &&Taken| order::same(&one.body, &last.body) && !same(&one.value, &last.value);
            if earlier.iter().any(|one| is_other(&one)) { Err(Fault::TwoValues) } else { Ok(()) }
        }
        Fold::Least | Fold::Greatest | Fold::Sort => match (earlier.first(), &last.body) {
            (Some(Taken { body: Value::Money(first), .. }), Value::Money(money)) => {
                if first.currency() == money.currency() { Ok(()) } else { Err(Fault::CurrencyMismatch) }
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn same(left: &Option<Value>, right: &Option<Value>) -> bool {
    left.as_ref().zip(right.as_ref()).is_some_and(|(left, right)| order::same(left, right))
}

fn added(kind: NumberKind, sum: &Value, body: &Value) -> Result<Value, Fault> {
    match sum {
        Value::Integer(_) | Value::Money(_) | Value::Percentage(_) => arithmetic(Operator::Add, kind, sum, body),
        _ => builtin::sum(sum, body),
    }
}

fn result(fold: &Fold, taken: Vec<Taken>, sum: Option<Value>) -> Result<Value, Fault> {
    let mut bodies = taken.iter().map(|one| one.body.clone());
    match fold {
        Fold::Quantified { is_all: true } => Ok(Value::Boolean(bodies.all(|body| is_true(&body)))),
        Fold::Quantified { is_all: false } => Ok(Value::Boolean(bodies.any(|body| is_true(&body)))),
        Fold::Count => number::integer(taken.len()),
        Fold::Set => set_of(bodies.collect()),
        Fold::List => list_of(bodies.collect()),
        Fold::Sum(..) => Ok(sum.expect("what it begins with")),
        Fold::Least => extreme(bodies, Ordering::Less),
        Fold::Greatest => extreme(bodies, Ordering::Greater),
        Fold::First => Ok(taken.into_iter().next().map_or(Value::None, |one| one.body)),
        Fold::Last => Ok(taken.into_iter().last().map_or(Value::None, |one| one.body)),
        Fold::Map => {
            map_of(taken.into_iter().map(|one| (one.body, one.value.expect("a map has values behind its keys"))))
        }
        unknown => panic!("an aggregate that is not known: {unknown:?}"),
    }
}

/// The elements in the order of what the body makes of them: variants as they are declared.
fn sorted(mut taken: Vec<Taken>, ty: &Type) -> Result<Value, Fault> {
    let rank = |value: &Value| match (ty, value) {
        (Type::Enum(of), Value::Variant(variant)) => of.variants.iter().position(|name| *name == variant.name),
        _ => None,
    };
    taken.sort_by(|a, b| rank(&a.body).cmp(&rank(&b.body)).then_with(|| order::canonical(&a.body, &b.body)));
    list_of(taken.into_iter().map(|one| one.element).collect())
}

/// The least or the greatest value, or `none`.
fn extreme(mut values: impl Iterator<Item = Value>, wanted: Ordering) -> Result<Value, Fault> {
    let Some(mut found) = values.next() else { return Ok(Value::None) };
    for value in values {
        if order::ordered(&value, &found)? == wanted {
            found = value;
        }
    }
    Ok(found)
}
