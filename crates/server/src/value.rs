//! Values of the language in JSON.
//!
//! | type | JSON |
//! |---|---|
//! | `Boolean` | `true`, `false` |
//! | `Integer` | `42`; also taken: `"42"`; never `42.0` or `4.2e1` |
//! | `Set[T]` | an array without repetition, in any order |
//! | `List[T]` | an array |
//! | `Map[K, V]` | an object; its names are the text forms of the keys |
//! | a record | an object with a member for each field; one that is optional or has a default may be missing |
//! | `T?` | `null`, or what `T` is |
//! | `T @personal` | what `T` is; `null` if it was erased |
//! | a class | the id of an instance, as a string |
//! | any other | its text form, as a string: `"EUR 12.50"`, `"2.5%"`, `"2026-11-21"` |
//!
//! No value passes through binary floating point, in either direction.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enact_journal::EntityKey;
use enact_rebel::limits::COLLECTION_MAX;
use enact_rebel::{RecordType, RecordValue, Type, Value};
use serde_json::Value as JsonValue;

use crate::json::{Json, Members};

/// Reads a value of type `ty`; the error says what is expected.
pub(crate) fn from_json(ty: &Type, json: &Json<'_>) -> Result<Value, String> {
    match (ty, json) {
        (Type::Boolean, Json::Bool(truth)) => Ok(Value::Boolean(*truth)),
        (Type::Integer, Json::Number(number)) => match number.as_i64() {
            Some(number) => Ok(Value::Integer(number)),
            None if number.is_u64() => Err("the number is outside the range of Integer".to_owned()),
            None => Err(format!("{number} is not an integer: write it without fraction and exponent")),
        },
        (Type::Boolean, _) | (Type::Integer, Json::Array(_) | Json::Object(_) | Json::Bool(_) | Json::Null) => {
            Err(expected(ty, json))
        }
        (Type::Optional(_), Json::Null) => Ok(Value::None),
        (Type::Optional(ty), present) => from_json(ty, present),
        // In the clear: it is sealed before it is an argument.
        (Type::Personal(ty), clear) => from_json(ty, clear),
        (Type::Decimal(_), Json::Number(number)) if number.is_i64() => {
            Value::parse(ty, &number.to_string()).map_err(|error| error.to_string())
        }
        (Type::Set(element), Json::Array(items)) => set_from_json(element, items),
        (Type::List(element), Json::Array(items)) => {
            let read = |(index, item)| from_json(element, item).map_err(|error| format!("element {index}: {error}"));
            bounded(items.len())?;
            items.iter().enumerate().map(read).collect::<Result<_, _>>().map(Value::List)
        }
        (Type::Map(types), Json::Object(members)) => map_from_json(types, members),
        (Type::Record(record), Json::Object(members)) => record_from_json(record, members),
        (_, Json::String(text)) if is_text(ty) => {
            let value = Value::parse(ty, text).map_err(|error| error.to_string())?;
            match &value {
                Value::Reference(to) => {
                    EntityKey::new(&to.class, &to.key.to_string()).map(|_| value).map_err(|error| error.to_string())
                }
                _ => Ok(value),
            }
        }
        _ => Err(expected(ty, json)),
    }
}

fn set_from_json(element: &Type, items: &[Json<'_>]) -> Result<Value, String> {
    bounded(items.len())?;
    let mut elements = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let value = from_json(element, item).map_err(|error| format!("element {index}: {error}"))?;
        if !elements.insert(value) {
            return Err(format!("element {index}: {item} stands twice"));
        }
    }
    Ok(Value::Set(Arc::new(elements)))
}

fn map_from_json((key_ty, ty): &(Type, Type), members: &Members<'_>) -> Result<Value, String> {
    bounded(members.len())?;
    let mut entries = BTreeMap::new();
    for (name, member) in members {
        // A key may have several spellings.
        let key = match is_text(key_ty) {
            true => from_json(key_ty, &Json::String(Cow::Borrowed(name))),
            false => Value::parse(key_ty, name).map_err(|error| error.to_string()),
        };
        let key = key.map_err(|error| format!("key {name:?}: {error}"))?;
        let value = from_json(ty, member).map_err(|error| format!("entry {name:?}: {error}"))?;
        if entries.insert(key, value).is_some() {
            return Err(format!("key {name:?} stands twice"));
        }
    }
    Ok(Value::Map(Arc::new(entries)))
}

fn record_from_json(record: &RecordType, members: &Members<'_>) -> Result<Value, String> {
    if let Some(unknown) = members.keys().find(|name| record.fields.iter().all(|(field, _)| **field != **name)) {
        return Err(format!("{} has no field {unknown:?}", record.name));
    }
    let mut fields = Vec::with_capacity(record.fields.len());
    for (index, (name, ty)) in record.fields.iter().enumerate() {
        let value = match (members.get(&**name), record.default(index), ty) {
            (Some(member), ..) => from_json(ty, member).map_err(|error| format!("field `{name}`: {error}"))?,
            (None, Some(default), _) => default.clone(),
            (None, None, Type::Optional(_)) => Value::None,
            (None, None, _) => return Err(format!("field `{name}`: missing; it is of type {ty}")),
        };
        fields.push((name.clone(), value));
    }
    Ok(Value::Record(Arc::new(RecordValue { of: record.name.clone(), fields })))
}

fn bounded(count: usize) -> Result<(), String> {
    if count <= COLLECTION_MAX { Ok(()) } else { Err(format!("at most {COLLECTION_MAX} elements, not {count}")) }
}

/// Whether a value of this type is written as its text form.
fn is_text(ty: &Type) -> bool {
    !matches!(
        ty,
        Type::Boolean
            | Type::Set(_)
            | Type::List(_)
            | Type::Map(_)
            | Type::Record(_)
            | Type::Optional(_)
            | Type::Personal(_)
    )
}

/// Whether a value of this type may be left out.
pub(crate) fn is_optional(ty: &Type) -> bool {
    match ty {
        Type::Optional(_) => true,
        Type::Personal(ty) => is_optional(ty),
        _ => false,
    }
}

fn expected(ty: &Type, json: &Json<'_>) -> String {
    let form = match ty {
        Type::Boolean => "true or false",
        Type::Integer => "an integer",
        Type::Set(_) | Type::List(_) => "an array",
        Type::Map(_) | Type::Record(_) => "an object",
        Type::Decimal(_) => "a string such as \"12.50\"",
        Type::Money | Type::MoneyOf(_) => "a string such as \"EUR 12.50\"",
        Type::Percentage => "a string such as \"2.5%\"",
        Type::Date => "a string such as \"2026-11-21\"",
        Type::Reference { .. } => "a string, the id of an instance",
        _ => "a string",
    };
    let found = match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    };
    format!("{ty} is written as {form}, not as {found}")
}

/// The value as clients see it: what `from_json` reads back.
pub fn to_json(value: &Value) -> JsonValue {
    match value {
        Value::Boolean(truth) => JsonValue::Bool(*truth),
        Value::Integer(number) => JsonValue::from(*number),
        Value::Set(elements) => elements.iter().map(to_json).collect(),
        Value::List(elements) => elements.iter().map(to_json).collect(),
        Value::Map(entries) => entries.iter().map(|(key, value)| (key.to_string(), to_json(value))).collect(),
        Value::Record(record) => record.fields.iter().map(|(name, value)| (name.to_string(), to_json(value))).collect(),
        Value::None => JsonValue::Null,
        other => JsonValue::String(other.to_string()),
    }
}
