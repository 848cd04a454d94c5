//! Types, values and their text forms.
//!
//! # Text forms
//! Every value has one canonical text, which [`Value`]'s `Display` writes and [`Value::parse`] reads back for its type:
//!
//! | type | text |
//! |---|---|
//! | `Boolean` | `true`, `false` |
//! | `Integer` | `-42` |
//! | `Money` | `EUR 12.50`, with at most the decimals of its currency |
//! | `Percentage` | `2.5%` |
//! | `Currency` | `EUR` |
//! | `String` | the text itself; quoted inside other values |
//! | `Iban` | `NL91ABNA0417164300`, blanks allowed on input |
//! | `Date` | `2026-11-21` |
//! | `Timestamp` | `2026-11-21T09:30:00.000Z` |
//! | a class | the identity of the instance |
//! | an enum | the name of the variant |
//! | `Decimal(2)` | `12.50`; fewer decimals on input |
//! | `Time` | `18:30`, `18:30:15`, `18:30:15.250` |
//! | `Duration` | `36 hours`, `15 minutes`, `90 seconds`, `1500 milliseconds` |
//! | `Period` | `1 month`, `3 days`, `1 year 2 months 3 days` |
//! | `Id` | `0190163d-8694-739b-aea5-966c26f8ad91` |
//! | `Money(EUR)` | as `Money` |
//! | `T?` | `none`, or the text of the value |
//! | `List[T]` | `[a, b]` |
//! | `Map[K, V]` | `{k: v, l: w}` |
//! | a record | `Line(product: "pen", quantity: 2)` |
//!
//! Inside other values, `String`s are quoted, and so are identities that consist of texts or of several values: `none`
//! without quotes is never one of them. Alone, a text of type `String?` is always that text, also `none`; for any other
//! `T?`, the text `none` is none, also where `T` has a variant or an identity of that name.
//! | `Set[T]` | `{a, b}` |
//!
//! A [`Sealed`] value has a text that tells it from others, and none that it is read from.
//!
//! # Exactness
//! No operation wraps, rounds silently or panics: a result outside its type's range is [`Fault::Overflow`], and what
//! rounds does so once, by the rule that the source declares.

mod bindings;
mod clock;
mod collection_text;
mod decimal;
mod duration;
mod iban;
mod id;
mod key;
mod map_serde;
mod money;
mod percentage;
mod record;
mod rounding;
mod sealed;
pub(crate) mod text;
mod text_serde;
mod time;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::bindings::Bindings;
pub(crate) use self::bindings::is_same;
pub use self::clock::Time;
pub use self::decimal::Decimal;
pub use self::duration::{Duration, Period};
pub use self::iban::Iban;
pub use self::id::Id;
pub use self::key::{Key, KeyType};
pub use self::money::{Currency, Money};
pub use self::percentage::Percentage;
pub use self::record::{RecordType, RecordValue};
pub use self::rounding::Rounding;
pub use self::sealed::Sealed;
pub use self::time::{Date, Timestamp};
pub use self::types::{Enumeration, Type};

/// A declared name, shared by everything that mentions it.
pub type Name = Arc<str>;

/// The address of an instance: its class and its identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    /// The name of the class.
    pub class: Name,
    /// The identity within the class.
    pub key: Key,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.class, self.key)
    }
}

/// A variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Variant {
    /// The name of the enum.
    pub of: Name,
    /// The name of the variant.
    pub name: Name,
}

/// A value of the language.
///
/// The derived order serves as the canonical order of sets; what `<` means is the language's business.
/// Cheap to clone: nothing is copied but numbers and reference counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Value {
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// An exact amount of one currency.
    Money(Money),
    /// An exact percentage.
    Percentage(Percentage),
    /// A currency.
    Currency(Currency),
    /// A text.
    String(Arc<str>),
    /// A bank account number.
    Iban(Iban),
    /// A day.
    Date(Date),
    /// A point in time.
    Timestamp(Timestamp),
    /// An instance of a class.
    Reference(Reference),
    /// A variant of an enum.
    Variant(Variant),
    /// A finite set of values of one type.
    Set(Arc<BTreeSet<Value>>),
    /// An exact decimal number.
    Decimal(Decimal),
    /// A time of day.
    Time(Time),
    /// A span of time of a fixed length.
    Duration(Duration),
    /// A span of the calendar.
    Period(Period),
    /// An identity of 128 bits.
    Id(Id),
    /// No value of an optional type; one that is present is that value itself.
    None,
    /// A finite sequence of values of one type.
    List(Arc<[Value]>),
    /// Values by keys, each of one type.
    Map(#[serde(with = "map_serde")] Arc<BTreeMap<Value, Value>>),
    /// A value of a record.
    Record(Arc<RecordValue>),
    /// A personal value. Its text shows nothing of it.
    Sealed(Arc<Sealed>),
}

impl Value {
    /// The bytes behind its references, but for names, which all values share.
    pub(crate) fn heap_bytes(&self) -> usize {
        let bytes = |value: &Value| size_of_val(value) + value.heap_bytes();
        match self {
            Value::String(text) => text.len(),
            Value::Reference(reference) => reference.key.heap_bytes(),
            Value::Set(elements) => elements.iter().map(bytes).sum(),
            Value::List(elements) => elements.iter().map(bytes).sum(),
            Value::Map(entries) => entries.iter().map(|(key, value)| bytes(key) + bytes(value)).sum(),
            Value::Record(record) => record.heap_bytes(),
            Value::Sealed(sealed) => sealed.subject.key.heap_bytes() + sealed.bytes.len(),
            _ => 0,
        }
    }

    /// Reads a value of type `ty` from its text form; accepts everything that `Display` writes for that type.
    ///
    /// # Errors
    /// A [`ValueError`] that says what such a text looks like or which limit it breaks.
    ///
    /// ```
    /// use enact_rebel::{Type, Value};
    /// let limit = Value::parse(&Type::Money, "EUR 12.50")?;
    /// assert_eq!(limit.to_string(), "EUR 12.50");
    /// assert!(Value::parse(&Type::Money, "EUR 12.505").is_err());
    /// # Ok::<(), enact_rebel::ValueError>(())
    /// ```
    pub fn parse(ty: &Type, text: &str) -> Result<Self, ValueError> {
        Ok(match ty {
            Type::Boolean => match text {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                _ => return Err(ValueError::syntax("Boolean", "true", text)),
            },
            Type::Integer => Value::Integer(integer(text)?),
            Type::Money => Value::Money(text.parse()?),
            Type::Percentage => Value::Percentage(text.parse()?),
            Type::Currency => Value::Currency(text.parse()?),
            Type::String => Value::String(text.into()),
            Type::Iban => Value::Iban(text.parse()?),
            Type::Date => Value::Date(text.parse()?),
            Type::Timestamp => Value::Timestamp(text.parse()?),
            Type::Reference { class, key } => {
                Value::Reference(Reference { class: class.clone(), key: Key::parse(key, text)? })
            }
            Type::Enum(enumeration) => Value::Variant(enumeration.variant(text)?),
            Type::Set(_) | Type::List(_) | Type::Map(_) | Type::Record(_) => collection_text::parse(ty, text)?,
            Type::Decimal(decimals) => Value::Decimal(Decimal::parse(text, *decimals)?),
            Type::Time => Value::Time(text.parse()?),
            Type::Duration => Value::Duration(text.parse()?),
            Type::Period => Value::Period(text.parse()?),
            Type::Id => Value::Id(text.parse()?),
            Type::Optional(_) => match ty.present() {
                Type::String => Value::String(text.into()),
                _ if text == "none" => Value::None,
                present => Value::parse(present, text)?,
            },
            Type::MoneyOf(currency) => Value::Money(text.parse::<Money>()?.in_currency(*currency)?),
            Type::Personal(_) => return Err(ValueError::Sealed),
        })
    }

    /// Whether this is a value of type `ty`, down to the elements of collections and the fields of records.
    #[must_use]
    pub fn has_type(&self, ty: &Type) -> bool {
        match (self, ty) {
            (Value::Boolean(_), Type::Boolean)
            | (Value::Integer(_), Type::Integer)
            | (Value::Money(_), Type::Money)
            | (Value::Percentage(_), Type::Percentage)
            | (Value::Currency(_), Type::Currency)
            | (Value::String(_), Type::String)
            | (Value::Iban(_), Type::Iban)
            | (Value::Date(_), Type::Date)
            | (Value::Timestamp(_), Type::Timestamp)
            | (Value::Time(_), Type::Time)
            | (Value::Duration(_), Type::Duration)
            | (Value::Period(_), Type::Period)
            | (Value::Id(_), Type::Id)
            | (Value::Sealed(_), Type::Personal(_))
            | (Value::None, Type::Optional(_)) => true,
            (Value::Decimal(number), Type::Decimal(decimals)) => number.decimals() == *decimals,
            (Value::Reference(reference), Type::Reference { class, key }) => {
                is_same(&reference.class, class) && reference.key.has_type(key)
            }
            (Value::Variant(variant), Type::Enum(enumeration)) => {
                variant.of == enumeration.name && enumeration.variants.contains(&variant.name)
            }
            (Value::Set(elements), Type::Set(ty)) => elements.iter().all(|element| element.has_type(ty)),
            (value, Type::Optional(_)) => value.has_type(ty.present()),
            (Value::List(elements), Type::List(ty)) => elements.iter().all(|element| element.has_type(ty)),
            (Value::Map(entries), Type::Map(types)) => {
                entries.iter().all(|(key, value)| key.has_type(&types.0) && value.has_type(&types.1))
            }
            (Value::Record(record), Type::Record(ty)) => record.has_type(ty),
            (Value::Money(money), Type::MoneyOf(currency)) => money.currency() == *currency,
            (Value::None, Type::Personal(ty)) => matches!(**ty, Type::Optional(_)),
            _ => false,
        }
    }

    /// The number that interval reasoning sees, in the smallest unit of the type: minor units of the currency, 10^-16
    /// percent, days, milliseconds, the last decimal. `None` for types without an order of that kind.
    #[must_use]
    pub fn number(&self) -> Option<i128> {
        match self {
            Value::Integer(number) => Some(i128::from(*number)),
            Value::Money(money) => Some(money.minor()),
            Value::Percentage(percentage) => Some(percentage.units()),
            Value::Date(date) => Some(i128::from(date.days())),
            Value::Timestamp(time) => Some(i128::from(time.millis())),
            Value::Decimal(number) => Some(number.units()),
            Value::Time(time) => Some(i128::from(time.millis())),
            Value::Duration(duration) => Some(i128::from(duration.millis())),
            _ => None,
        }
    }

    /// The value of type `ty` with this [number](Self::number); `None` if there is none. Money needs its currency.
    #[must_use]
    pub fn of_number(ty: &Type, currency: Option<Currency>, number: i128) -> Option<Self> {
        match (ty, currency) {
            (Type::Integer, _) => i64::try_from(number).ok().map(Self::Integer),
            (Type::MoneyOf(own), currency) if currency.is_none_or(|currency| currency == *own) => {
                Money::new(*own, number).map(Self::Money)
            }
            (Type::Money, Some(currency)) => Money::new(currency, number).map(Self::Money),
            (Type::Percentage, _) => Percentage::from_units(number).map(Self::Percentage),
            (Type::Date, _) => i64::try_from(number).ok().and_then(Date::from_days).map(Self::Date),
            (Type::Timestamp, _) => {
                i64::try_from(number).ok().map(|millis| Self::Timestamp(Timestamp::from_millis(millis)))
            }
            (Type::Decimal(decimals), _) => Decimal::new(number, *decimals).map(Self::Decimal),
            (Type::Time, _) => i64::try_from(number).ok().and_then(Time::from_millis).map(Self::Time),
            (Type::Duration, _) => {
                i64::try_from(number).ok().map(|millis| Self::Duration(Duration::from_millis(millis)))
            }
            _ => None,
        }
    }

    /// The currency of an amount of money.
    #[must_use]
    pub fn currency(&self) -> Option<Currency> {
        match self {
            Value::Money(money) => Some(money.currency()),
            _ => None,
        }
    }
}

fn integer(text: &str) -> Result<i64, ValueError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ValueError::syntax("Integer", "-42", text));
    }
    i64::from_str(text).map_err(|_| ValueError::Range { ty: "Integer" })
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(truth) => truth.fmt(f),
            Value::Integer(number) => number.fmt(f),
            Value::Money(money) => money.fmt(f),
            Value::Percentage(percentage) => percentage.fmt(f),
            Value::Currency(currency) => currency.fmt(f),
            Value::String(text) => f.pad(text),
            Value::Iban(iban) => iban.fmt(f),
            Value::Date(date) => date.fmt(f),
            Value::Timestamp(time) => time.fmt(f),
            Value::Reference(reference) => reference.key.fmt(f),
            Value::Variant(variant) => f.pad(&variant.name),
            Value::Set(elements) => collection_text::print_set(elements, f),
            Value::Decimal(number) => number.fmt(f),
            Value::Time(time) => time.fmt(f),
            Value::Duration(duration) => duration.fmt(f),
            Value::Period(period) => period.fmt(f),
            Value::Id(id) => id.fmt(f),
            Value::None => f.pad("none"),
            Value::List(elements) => collection_text::print_list(elements, f),
            Value::Map(entries) => collection_text::print_map(entries, f),
            Value::Record(record) => collection_text::print_record(record, f),
            Value::Sealed(sealed) => sealed.fmt(f),
        }
    }
}

/// A text that is not a value of the wanted type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The text has not the form of the type.
    #[error("`{text}` is no {ty}; write it like `{example}`")]
    Syntax {
        /// The wanted type.
        ty: &'static str,
        /// A text of that type.
        example: &'static str,
        /// The text given, cut to a readable length.
        text: String,
    },
    /// The code is not one of ISO 4217.
    #[error("`{code}` is no currency of ISO 4217")]
    UnknownCurrency {
        /// The code given, cut to a readable length.
        code: String,
    },
    /// The amount is finer than its unit.
    #[error("{of} has at most {allowed} decimals, not {found}")]
    Decimals {
        /// The currency, or `Percentage`.
        of: String,
        /// How many decimals it has.
        allowed: u32,
        /// How many were given.
        found: u32,
    },
    /// The number is outside the range of its type.
    #[error("the number is outside the range of {ty}")]
    Range {
        /// The wanted type.
        ty: &'static str,
    },
    /// The calendar has no such day.
    #[error("`{text}` is no day of the calendar")]
    NoSuchDay {
        /// The text given.
        text: String,
    },
    /// The check digits of a bank account number are wrong.
    #[error("the check digits of `{text}` are wrong")]
    Checksum {
        /// The text given, without blanks.
        text: String,
    },
    /// An identity of several fields of which another number is given.
    #[error("an identity of type {ty} joins its fields by `:`, and this text has {found}")]
    KeyFields {
        /// The types of the fields.
        ty: String,
        /// How many fields the text has.
        found: usize,
    },
    /// The enum has no such variant.
    #[error("`{variant}` is none of the variants of {of}: {}", .variants.join(", "))]
    UnknownVariant {
        /// The name of the enum.
        of: Name,
        /// The text given, cut to a readable length.
        variant: String,
        /// The variants there are.
        variants: Vec<Name>,
    },
    /// The text has not the form of the record.
    #[error("`{text}` is no {of}; write it like `{of}({})`", in_form(.fields))]
    Record {
        /// The name of the record.
        of: Name,
        /// Its fields, all of which are given in this order.
        fields: Vec<Name>,
        /// The text given, cut to a readable length.
        text: String,
    },
    /// The amount is of another currency than its type.
    #[error("the amount is in {found}; give it in {wanted}")]
    OtherCurrency {
        /// The currency of the type.
        wanted: Currency,
        /// The currency given.
        found: Currency,
    },
    /// A map has two entries of one key.
    #[error("the key `{key}` stands twice")]
    Twice {
        /// The key, cut to a readable length.
        key: String,
    },
    /// A collection has more than [`limits::COLLECTION_MAX`](crate::limits::COLLECTION_MAX) elements.
    #[error("a collection has at most {} elements", crate::limits::COLLECTION_MAX)]
    TooManyElements,
    /// Values nest deeper than [`limits::DEPTH_MAX`](crate::limits::DEPTH_MAX).
    #[error("values nest at most {} deep", crate::limits::DEPTH_MAX)]
    TooDeep,
    /// A personal value is sealed, and no text says what is in it.
    #[error("a personal value has no text; seal a value of the type that it is of")]
    Sealed,
}

fn in_form(fields: &[Name]) -> String {
    fields.iter().map(|field| format!("{field}: ..")).collect::<Vec<_>>().join(", ")
}

impl ValueError {
    pub(crate) fn syntax(ty: &'static str, example: &'static str, text: &str) -> Self {
        Self::Syntax { ty, example, text: text.chars().take(64).collect() }
    }

    fn twice(key: &Value) -> Self {
        Self::Twice { key: key.to_string().chars().take(64).collect() }
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Fault {
    /// A result is outside the range of its type.
    #[error("the result is out of range")]
    Overflow,
    /// Amounts of different currencies were added, subtracted, or compared by order.
    #[error("currency mismatch: {left} and {right}")]
    CurrencyMismatch {
        /// The currency of the left operand.
        left: Currency,
        /// The currency of the right operand.
        right: Currency,
    },
    /// The evaluation takes more steps than [`limits::FUEL`](crate::limits::FUEL).
    #[error("the evaluation takes too many steps")]
    OutOfFuel,
    /// The stored instance lacks a value of the right type, because it was not made by this specification.
    #[error("`{name}` has no value of its declared type")]
    NoValue {
        /// The field or parameter.
        name: Name,
    },
    /// A field of an instance that has not been created is asked for, and has no default.
    #[error("`{question}` has no value: the instance does not exist")]
    Absent {
        /// What is asked for, as written.
        question: Name,
    },
    /// An instance is asked for what a read event returns, which it refuses.
    #[error("`{question}` has no value: the instance refuses it")]
    Refused {
        /// What is asked for, as written.
        question: Name,
    },
    /// A fresh instance is named in a step without a seed.
    #[error("the step has no seed for a fresh instance")]
    NoSeed,
    /// What another instance is asked has no answer yet.
    #[error("`{question}` has no answer yet")]
    Unanswered {
        /// What is asked, as written.
        question: Name,
    },
    /// A range has more than [`limits::ELEMENTS_MAX`](crate::limits::ELEMENTS_MAX) elements.
    #[error("the range has too many elements")]
    TooManyElements,
    /// Values that are the identity of nothing: an empty text, or one with `:` among several fields.
    #[error("this is no identity: an empty text, or one with `:` among several fields")]
    NoKey,
    /// A number is divided by zero, or a share is taken of nothing.
    #[error("this divides by zero")]
    DivisionByZero,
    /// An amount of money is made of a number with more decimals than its currency has, and nothing says how to round.
    #[error("the currency has no amount as fine as this number")]
    Inexact,
    /// A list has no element at a position, or a map none under a key.
    #[error("there is no element {key}")]
    NoElement {
        /// The position or the key.
        key: String,
    },
    /// `!` behind what is `none`.
    #[error("this is `none`")]
    IsNone,
    /// Two values for one place: an entry of a map, or an element that a set is to have and not to have.
    #[error("{key} is given two values")]
    TwoValues {
        /// The key of the entry, with what is behind it on the way to the place, or the element.
        key: String,
    },
    /// A position lies outside what it is a position in, or the end of a part before its beginning.
    #[error("the position is out of range")]
    OutOfRange,
    /// A text has more bytes than [`limits::TEXT_BYTES_MAX`](crate::limits::TEXT_BYTES_MAX).
    #[error("the text has too many bytes")]
    TooLong,
}

impl Fault {
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, Fault::Unanswered { .. })
    }
}
