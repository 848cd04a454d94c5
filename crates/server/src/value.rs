//! Values of the language in JSON.
//!
//! | type | JSON |
//! |---|---|
//! | `Boolean` | `true`, `false` |
//! | `Integer` | `42`; also taken: `"42"`; never `42.0` or `4.2e1` |
//! | `Set[T]` | an array without repetition, in any order |
//! | a class | the id of an instance, as a string |
//! | any other | its text form, as a string: `"EUR 12.50"`, `"2.5%"`, `"2026-11-21"` |
//!
//! No value passes through binary floating point, in either direction.

use std::collections::BTreeSet;
use std::sync::Arc;

use enact_journal::EntityKey;
use enact_rebel::{Type, Value};
use serde_json::Value as Json;

/// Reads a value of type `ty`; the error says what is expected.
pub(crate) fn from_json(ty: &Type, json: &Json) -> Result<Value, String> {
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
        (Type::Set(element), Json::Array(items)) => set_from_json(element, items),
        (_, Json::String(text)) if !matches!(ty, Type::Set(_)) => {
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

fn set_from_json(element: &Type, items: &[Json]) -> Result<Value, String> {
    let mut elements = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let value = from_json(element, item).map_err(|error| format!("element {index}: {error}"))?;
        if !elements.insert(value) {
            return Err(format!("element {index}: {item} stands twice"));
        }
    }
    Ok(Value::Set(Arc::new(elements)))
}

fn expected(ty: &Type, json: &Json) -> String {
    let form = match ty {
        Type::Boolean => "true or false",
        Type::Integer => "an integer",
        Type::Set(_) => "an array",
        Type::Money => "a string such as \"EUR 12.50\"",
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

/// Writes `value` so that [`from_json`] reads it back.
pub(crate) fn to_json(value: &Value) -> Json {
    match value {
        Value::Boolean(truth) => Json::Bool(*truth),
        Value::Integer(number) => Json::from(*number),
        Value::Set(elements) => elements.iter().map(to_json).collect(),
        other => Json::String(other.to_string()),
    }
}
