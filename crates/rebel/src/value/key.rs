//! Identities of instances, and their types.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Currency, Date, Enumeration, Iban, Id, Name, Reference, Type, Value, ValueError, Variant, integer};

/// The type of an identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyType {
    /// Any text but the empty one.
    String,
    /// A whole number.
    Integer,
    /// A bank account number.
    Iban,
    /// A day.
    Date,
    /// A currency of ISO 4217.
    Currency,
    /// A variant of an enum.
    Enum(Arc<Enumeration>),
    /// An instance of a class, by its own identity.
    Reference {
        /// The name of the class.
        class: Name,
        /// The type of its identity.
        key: Arc<KeyType>,
    },
    /// The values of several fields, in the order in which these are declared; at least two.
    Composite(Arc<[KeyType]>),
    /// An identity of 128 bits.
    Id,
}

impl KeyType {
    /// The type of an identity of one field of type `ty`; nothing if it cannot be one.
    pub(crate) fn of(ty: &Type) -> Option<Self> {
        Some(match ty {
            Type::String => KeyType::String,
            Type::Integer => KeyType::Integer,
            Type::Iban => KeyType::Iban,
            Type::Date => KeyType::Date,
            Type::Currency => KeyType::Currency,
            Type::Id => KeyType::Id,
            Type::Enum(enumeration) => KeyType::Enum(enumeration.clone()),
            Type::Reference { class, key } => KeyType::Reference { class: class.clone(), key: key.clone().into() },
            _ => return None,
        })
    }

    /// The type of the values of an identity of one field; nothing of several.
    pub(crate) fn as_type(&self) -> Option<Type> {
        Some(match self {
            KeyType::String => Type::String,
            KeyType::Integer => Type::Integer,
            KeyType::Iban => Type::Iban,
            KeyType::Date => Type::Date,
            KeyType::Currency => Type::Currency,
            KeyType::Id => Type::Id,
            KeyType::Enum(enumeration) => Type::Enum(enumeration.clone()),
            KeyType::Reference { class, key } => Type::Reference { class: class.clone(), key: KeyType::clone(key) },
            KeyType::Composite(_) => return None,
        })
    }

    /// The types of its fields.
    pub(crate) fn fields(&self) -> Vec<Type> {
        match self {
            KeyType::Composite(parts) => parts.iter().filter_map(KeyType::as_type).collect(),
            single => single.as_type().into_iter().collect(),
        }
    }

    /// How many texts the text form joins.
    pub(crate) fn leaves(&self) -> usize {
        match self {
            KeyType::Composite(parts) => parts.iter().map(KeyType::leaves).sum(),
            KeyType::Reference { key, .. } => key.leaves(),
            _ => 1,
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyType::String => f.pad("String"),
            KeyType::Integer => f.pad("Integer"),
            KeyType::Iban => f.pad("Iban"),
            KeyType::Date => f.pad("Date"),
            KeyType::Currency => f.pad("Currency"),
            KeyType::Id => f.pad("Id"),
            KeyType::Enum(enumeration) => f.pad(&enumeration.name),
            KeyType::Reference { class, .. } => f.pad(class),
            KeyType::Composite(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if index > 0 { ":" } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

/// The identity of an instance within its class.
///
/// Its text form is that of its value; one of several fields joins theirs by `:`, which no text among them holds then.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Key {
    /// Any text but the empty one; also the key of a class without an `@identity` field.
    String(Arc<str>),
    /// A whole number.
    Integer(i64),
    /// A bank account number.
    Iban(Iban),
    /// A day.
    Date(Date),
    /// A currency.
    Currency(Currency),
    /// A variant of an enum.
    Variant(Arc<Variant>),
    /// An instance of a class.
    Reference(Arc<Reference>),
    /// The values of several fields, in the order in which these are declared.
    Composite(Arc<[Key]>),
    /// An identity of 128 bits.
    Id(Id),
}

impl Key {
    /// Whether this is an identity of type `ty`.
    #[must_use]
    pub fn has_type(&self, ty: &KeyType) -> bool {
        match (self, ty) {
            (Key::String(_), KeyType::String)
            | (Key::Integer(_), KeyType::Integer)
            | (Key::Iban(_), KeyType::Iban)
            | (Key::Date(_), KeyType::Date)
            | (Key::Currency(_), KeyType::Currency)
            | (Key::Id(_), KeyType::Id) => true,
            (Key::Variant(variant), KeyType::Enum(enumeration)) => {
                variant.of == enumeration.name && enumeration.variants.contains(&variant.name)
            }
            (Key::Reference(reference), KeyType::Reference { class, key }) => {
                reference.class == *class && reference.key.has_type(key)
            }
            (Key::Composite(parts), KeyType::Composite(types)) => {
                parts.len() == types.len() && parts.iter().zip(&**types).all(|(part, ty)| part.has_type(ty))
            }
            _ => false,
        }
    }

    /// Reads a key of type `ty` from its text form.
    ///
    /// # Errors
    /// The [`ValueError`] of that type; an empty text is no key, and neither is one of another number of fields.
    pub fn parse(ty: &KeyType, text: &str) -> Result<Self, ValueError> {
        Ok(match ty {
            KeyType::String if text.is_empty() => {
                return Err(ValueError::syntax("identity", "any text but none", text));
            }
            KeyType::String => Key::String(text.into()),
            KeyType::Integer => Key::Integer(integer(text)?),
            KeyType::Iban => Key::Iban(text.parse()?),
            KeyType::Date => Key::Date(text.parse()?),
            KeyType::Currency => Key::Currency(text.parse()?),
            KeyType::Id => Key::Id(text.parse()?),
            KeyType::Enum(enumeration) => Key::Variant(enumeration.variant(text)?.into()),
            KeyType::Reference { class, key } => {
                Key::Reference(Arc::new(Reference { class: class.clone(), key: Key::parse(key, text)? }))
            }
            KeyType::Composite(types) => {
                let texts: Vec<&str> = text.split(':').collect();
                if texts.len() != ty.leaves() {
                    return Err(ValueError::KeyFields { ty: ty.to_string(), found: texts.len() });
                }
                let mut rest = texts.as_slice();
                let part = |ty: &KeyType| {
                    let (own, others) = rest.split_at(ty.leaves());
                    rest = others;
                    Key::parse(ty, &own.join(":"))
                };
                Key::Composite(types.iter().map(part).collect::<Result<_, _>>()?)
            }
        })
    }

    /// The key that these values of its fields are; nothing if they are none.
    pub(crate) fn of(values: Vec<Value>) -> Option<Self> {
        let is_one = values.len() == 1;
        let key = |value| {
            Some(match value {
                Value::String(text) if !text.is_empty() && (is_one || !text.contains(':')) => Key::String(text),
                Value::Integer(number) => Key::Integer(number),
                Value::Iban(iban) => Key::Iban(iban),
                Value::Date(date) => Key::Date(date),
                Value::Currency(currency) => Key::Currency(currency),
                Value::Id(id) => Key::Id(id),
                Value::Variant(variant) => Key::Variant(variant.into()),
                Value::Reference(reference) if is_one || reference.key.may_be_joined() => {
                    Key::Reference(Arc::new(reference))
                }
                _ => return None,
            })
        };
        let mut keys: Vec<Key> = values.into_iter().map(key).collect::<Option<_>>()?;
        if is_one { keys.pop() } else { Some(Key::Composite(keys.into())) }
    }

    /// Whether no text in it holds the sign that joins.
    fn may_be_joined(&self) -> bool {
        match self {
            Key::String(text) => !text.contains(':'),
            Key::Reference(reference) => reference.key.may_be_joined(),
            _ => true,
        }
    }

    /// The value of the identity field number `index`, counted from 0; a class without any has one that is a text.
    #[must_use]
    pub fn field(&self, index: usize) -> Option<Value> {
        Some(match self {
            Key::Composite(parts) => return parts.get(index)?.field(0),
            Key::String(text) => Value::String(text.clone()),
            Key::Integer(number) => Value::Integer(*number),
            Key::Iban(iban) => Value::Iban(iban.clone()),
            Key::Date(date) => Value::Date(*date),
            Key::Currency(currency) => Value::Currency(*currency),
            Key::Id(id) => Value::Id(*id),
            Key::Variant(variant) => Value::Variant(Variant::clone(variant)),
            Key::Reference(reference) => Value::Reference(Reference::clone(reference)),
        })
    }

    /// The bytes behind its references, but for names.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Key::String(text) => text.len(),
            Key::Reference(reference) => size_of::<Reference>() + reference.key.heap_bytes(),
            Key::Composite(parts) => parts.iter().map(|part| size_of_val(part) + part.heap_bytes()).sum(),
            _ => 0,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::String(text) => f.pad(text),
            Key::Integer(number) => number.fmt(f),
            Key::Iban(iban) => iban.fmt(f),
            Key::Date(date) => date.fmt(f),
            Key::Currency(currency) => currency.fmt(f),
            Key::Id(id) => id.fmt(f),
            Key::Variant(variant) => f.pad(&variant.name),
            Key::Reference(reference) => reference.key.fmt(f),
            Key::Composite(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if index > 0 { ":" } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_takes_no_more_room_in_a_value_than_an_amount_does() {
        assert!(size_of::<Reference>() <= size_of::<super::super::Money>() + size_of::<u64>());
        assert_eq!(size_of::<Value>(), 48, "values are moved all the time");
    }
}
