//! Strict reading of a request body.
//!
//! JSON leaves open what a repeated name means and how deep a document may go; two readers that answer differently are
//! a way around a check. Here a repeated name and a document deeper than [`DEPTH_MAX`] are errors, and so is anything
//! but one object.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// Greatest nesting depth of a body; the outer object is depth 1.
pub const DEPTH_MAX: usize = 32;

/// What is read; texts and names without an escape stay where they stand in the body.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Vec<Self>),
    Object(Members<'a>),
}

/// The members of an object, by name.
pub(crate) type Members<'a> = BTreeMap<Cow<'a, str>, Json<'a>>;

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Reads `bytes` as exactly one JSON object.
///
/// # Errors
/// Says what is wrong, with line and column.
pub(crate) fn parse_object(bytes: &[u8]) -> Result<Members<'_>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth_left: DEPTH_MAX }.deserialize(&mut reader)?;
    reader.end()?;
    match value {
        Json::Object(members) => Ok(members),
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
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json<'de>, E> {
        Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json<'de>, A::Error> {
        let inner = self.deeper()?;
        let mut object = Members::new();
        while let Some(name) = members.next_key_seed(Name)? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("member {name:?} stands twice")));
            }
            object.insert(name, members.next_value_seed(inner)?);
        }
        Ok(Json::Object(object))
    }
}

/// The name of a member.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
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
    fn what_is_read_is_shown_as_it_could_have_been_written() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"\"\\\n\u0001é"],"b\n":{}}"#;
        let members = parse_object(text.as_bytes()).unwrap();
        assert!(matches!(members.keys().next(), Some(Cow::Borrowed("a"))));
        assert_eq!(Json::Object(members).to_string(), text);
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
