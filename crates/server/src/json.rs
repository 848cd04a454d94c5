//! Strict reading of a request body.
//!
//! JSON leaves open what a repeated name means and how deep a document may go; two readers that answer differently are
//! a way around a check. Here a repeated name and a document deeper than [`DEPTH_MAX`] are errors, and so is anything
//! but one object.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Greatest nesting depth of a body; the outer object is depth 1.
pub const DEPTH_MAX: usize = 32;

/// Reads `bytes` as exactly one JSON object.
///
/// # Errors
/// Says what is wrong, with line and column.
pub(crate) fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth_left: DEPTH_MAX }.deserialize(&mut reader)?;
    reader.end()?;
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(serde_json::Error::custom("the body must be a JSON object")),
    }
}

#[derive(Clone, Copy)]
struct Strict {
    depth_left: usize,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        match self.depth_left.checked_sub(1) {
            Some(depth_left) => Ok(Self { depth_left }),
            None => Err(E::custom(format_args!("nested deeper than {DEPTH_MAX} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("member {name:?} stands twice")));
            }
            object.insert(name, members.next_value_seed(inner)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}{}{}", r#"{"a":"#, "[".repeat(levels - 1), "]".repeat(levels - 1), "}")
    }

    #[test]
    fn only_one_object_without_repeated_names_is_accepted() {
        let rows: &[(&str, Option<&str>)] = &[
            (r#"{}"#, None),
            (r#" {"a": 1, "b": [true, null, "x", {"a": 2}]} "#, None),
            ("", Some("EOF")),
            ("[]", Some("must be a JSON object")),
            (r#""x""#, Some("must be a JSON object")),
            (r#"{"a":1,}"#, Some("trailing comma")),
            (r#"{"a":1} {}"#, Some("trailing characters at line 1 column 9")),
            (r#"{"a":1,"a":1}"#, Some(r#"member "a" stands twice"#)),
            (r#"{"a":{"b":1,"b":2}}"#, Some(r#"member "b" stands twice"#)),
            (r#"{"a":1e999}"#, Some("number out of range")),
        ];
        for (text, expected) in rows {
            match (parse_object(text.as_bytes()), expected) {
                (Ok(_), None) => {}
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        assert!(parse_object(nested(DEPTH_MAX).as_bytes()).is_ok());
        let error = parse_object(nested(DEPTH_MAX + 1).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("nested deeper than 32 levels"), "{error}");
        assert!(parse_object("[".repeat(60_000).as_bytes()).is_err());
    }

    #[test]
    fn invalid_utf8_is_an_error() {
        assert!(parse_object(b"{\"a\":\"\xc0\xaf\"}").is_err());
    }
}
