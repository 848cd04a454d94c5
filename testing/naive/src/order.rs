//! Which of two values is less.

use std::cmp::Ordering;

use enact_rebel::{Key, Reference, Value};

use crate::number::{digits, power};
use crate::reason::Fault;

/// Which value comes first among the elements of a set and the keys of a map.
///
/// Amounts come by currency and then by number, variants of an enum by their names, references by class and identity, and what consists
/// of several values as words in a dictionary do.
pub(crate) fn canonical(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::None, Value::None) => Ordering::Equal,
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Decimal(_), Value::Decimal(_)) => numeric(left, right),
        (Value::Money(a), Value::Money(b)) => {
            a.currency().code().cmp(b.currency().code()).then(a.minor().cmp(&b.minor()))
        }
        (Value::Percentage(a), Value::Percentage(b)) => a.units().cmp(&b.units()),
        (Value::Currency(a), Value::Currency(b)) => a.code().cmp(b.code()),
        (Value::String(a), Value::String(b)) => a.chars().cmp(b.chars()),
        (Value::Iban(a), Value::Iban(b)) => a.as_str().cmp(b.as_str()),
        (Value::Date(a), Value::Date(b)) => a.days().cmp(&b.days()),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.millis().cmp(&b.millis()),
        (Value::Time(a), Value::Time(b)) => a.millis().cmp(&b.millis()),
        (Value::Duration(a), Value::Duration(b)) => a.millis().cmp(&b.millis()),
        (Value::Period(a), Value::Period(b)) => (a.months(), a.days()).cmp(&(b.months(), b.days())),
        (Value::Id(a), Value::Id(b)) => a.as_u128().cmp(&b.as_u128()),
        (Value::Variant(a), Value::Variant(b)) => a.name.cmp(&b.name),
        (Value::Reference(a), Value::Reference(b)) => by_address(a, b),
        (Value::List(a), Value::List(b)) => in_turn(a, b),
        (Value::Set(_), Value::Set(_)) => in_turn(&elements(left), &elements(right)),
        (Value::Map(a), Value::Map(b)) => {
            let one_by_one = |entries: &std::collections::BTreeMap<Value, Value>| -> Vec<Value> {
                sorted(entries.keys()).into_iter().flat_map(|key| [key.clone(), entries[&key].clone()]).collect()
            };
            in_turn(&one_by_one(a), &one_by_one(b))
        }
        (Value::Record(a), Value::Record(b)) => {
            let values = |record: &enact_rebel::RecordValue| -> Vec<Value> {
                record.fields.iter().map(|(_, value)| value.clone()).collect()
            };
            in_turn(&values(a), &values(b))
        }
        // `none` stands behind all single values, and before collections and records.
        (Value::None, other) => {
            let is_several = matches!(other, Value::List(_) | Value::Map(_) | Value::Record(_));
            if is_several { Ordering::Less } else { Ordering::Greater }
        }
        (other, Value::None) => canonical(&Value::None, other).reverse(),
        _ => panic!("values of two types: {left:?} and {right:?}"),
    }
}

/// Whether two values are the same.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::None, Value::None) => true,
        (Value::None, _) | (_, Value::None) => false,
        _ => canonical(left, right).is_eq(),
    }
}

/// What `<` and its like say of two values that have an order.
pub(crate) fn ordered(left: &Value, right: &Value) -> Result<Ordering, Fault> {
    match (left, right) {
        (Value::Money(a), Value::Money(b)) if a.currency() != b.currency() => Err(Fault::CurrencyMismatch),
        (Value::Integer(_) | Value::Decimal(_), Value::Integer(_) | Value::Decimal(_)) => Ok(numeric(left, right)),
        // The literal zero has every currency.
        (Value::Money(a), Value::Integer(0)) => Ok(a.minor().cmp(&0)),
        (Value::Percentage(a), Value::Integer(0)) => Ok(a.units().cmp(&0)),
        (Value::Money(_), Value::Money(_))
        | (Value::Percentage(_), Value::Percentage(_))
        | (Value::Date(_), Value::Date(_))
        | (Value::Timestamp(_), Value::Timestamp(_))
        | (Value::Time(_), Value::Time(_))
        | (Value::Duration(_), Value::Duration(_))
        | (Value::String(_), Value::String(_)) => Ok(canonical(left, right)),
        _ => panic!("values without an order: {left:?} and {right:?}"),
    }
}

/// The elements of a set or a list, or the keys of a map, in the order in which they are taken.
pub(crate) fn elements(collection: &Value) -> Vec<Value> {
    match collection {
        Value::Set(elements) => sorted(elements.iter()),
        Value::List(elements) => elements.to_vec(),
        Value::Map(entries) => sorted(entries.keys()),
        _ => panic!("no elements: {collection:?}"),
    }
}

fn sorted<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut values: Vec<Value> = values.cloned().collect();
    values.sort_by(canonical);
    values
}

/// The order of two numbers, with however many decimals.
fn numeric(left: &Value, right: &Value) -> Ordering {
    let ((a, p), (b, q)) = (digits(left), digits(right));
    (a * power(q)).cmp(&(b * power(p)))
}

fn in_turn(left: &[Value], right: &[Value]) -> Ordering {
    let pairs = left.iter().zip(right).map(|(a, b)| canonical(a, b));
    pairs.fold(Ordering::Equal, Ordering::then).then(left.len().cmp(&right.len()))
}

fn by_address(left: &Reference, right: &Reference) -> Ordering {
    left.class.cmp(&right.class).then_with(|| by_key(&left.key, &right.key))
}

fn by_key(left: &Key, right: &Key) -> Ordering {
    match (left, right) {
        (Key::Composite(a), Key::Composite(b)) => {
            a.iter().zip(&**b).map(|(a, b)| by_key(a, b)).fold(Ordering::Equal, Ordering::then)
        }
        _ => canonical(&crate::world::value_of_key(left, 0), &crate::world::value_of_key(right, 0)),
    }
}
