//! The types of the language.

use std::fmt;
use std::sync::Arc;

use super::{Currency, KeyType, Name, RecordType, ValueError, Variant};

/// A declared enum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Enumeration {
    /// Its name.
    pub name: Name,
    /// Its variants, as declared.
    pub variants: Vec<Name>,
}

impl Enumeration {
    pub(super) fn variant(&self, text: &str) -> Result<Variant, ValueError> {
        let name = self.variants.iter().find(|name| ***name == *text).ok_or_else(|| ValueError::UnknownVariant {
            of: self.name.clone(),
            variant: text.chars().take(64).collect(),
            variants: self.variants.clone(),
        })?;
        Ok(Variant { of: self.name.clone(), name: name.clone() })
    }
}

/// A type of the language. `Display` writes it as in a specification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 64 bits.
    Integer,
    /// An exact amount of one currency.
    Money,
    /// An exact percentage.
    Percentage,
    /// A currency of ISO 4217.
    Currency,
    /// A text.
    String,
    /// A bank account number.
    Iban,
    /// A day.
    Date,
    /// A point in time, with milliseconds.
    Timestamp,
    /// An instance of a class.
    Reference {
        /// The name of the class.
        class: Name,
        /// The type of its identity.
        key: KeyType,
    },
    /// A variant of an enum.
    Enum(Arc<Enumeration>),
    /// A finite set of values of one type.
    Set(Box<Type>),
    /// An exact decimal number with so many decimals, 18 at most.
    Decimal(u8),
    /// A time of day, with milliseconds.
    Time,
    /// A span of time of a fixed length, with milliseconds.
    Duration,
    /// A span of the calendar: months and days.
    Period,
    /// An identity of 128 bits.
    Id,
    /// `none`, or a value of the type. What holds none twice is the same type.
    Optional(Arc<Type>),
    /// A finite sequence of values of one type.
    List(Arc<Type>),
    /// Values of the second type by those of the first.
    Map(Arc<(Type, Type)>),
    /// A declared record.
    Record(Arc<RecordType>),
    /// An exact amount of this currency.
    MoneyOf(Currency),
    /// A value of the type about a person, [sealed](super::Sealed) with that person's key. Nothing depends on it. Only fields of
    /// classes and parameters of events are of such a type.
    Personal(Arc<Type>),
}

impl Type {
    /// The names of the types that need no declaration.
    pub(crate) const BUILT_IN: [(&'static str, Type); 13] = [
        ("Boolean", Type::Boolean),
        ("Integer", Type::Integer),
        ("Money", Type::Money),
        ("Percentage", Type::Percentage),
        ("Currency", Type::Currency),
        ("String", Type::String),
        ("Iban", Type::Iban),
        ("Date", Type::Date),
        ("Timestamp", Type::Timestamp),
        ("Time", Type::Time),
        ("Duration", Type::Duration),
        ("Period", Type::Period),
        ("Id", Type::Id),
    ];

    /// The type without [`Type::Optional`] around it.
    pub(crate) fn present(&self) -> &Type {
        let mut ty = self;
        while let Type::Optional(inner) = ty {
            ty = inner;
        }
        ty
    }

    /// Whether `<` orders its values.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(
            self,
            Type::Integer
                | Type::Money
                | Type::Percentage
                | Type::Date
                | Type::Timestamp
                | Type::Decimal(_)
                | Type::Time
                | Type::Duration
                | Type::MoneyOf(_)
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Reference { class, .. } => f.pad(class),
            Type::Enum(enumeration) => f.pad(&enumeration.name),
            Type::Set(element) => write!(f, "Set[{element}]"),
            Type::Decimal(decimals) => write!(f, "Decimal({decimals})"),
            Type::Time => f.pad("Time"),
            Type::Duration => f.pad("Duration"),
            Type::Period => f.pad("Period"),
            Type::Id => f.pad("Id"),
            Type::Optional(ty) => write!(f, "{ty}?"),
            Type::List(element) => write!(f, "List[{element}]"),
            Type::Map(types) => write!(f, "Map[{}, {}]", types.0, types.1),
            Type::Record(record) => f.pad(&record.name),
            Type::MoneyOf(currency) => write!(f, "Money({currency})"),
            Type::Personal(ty) => write!(f, "{ty} @personal"),
            _ => {
                let name = Type::BUILT_IN.iter().find(|(_, ty)| ty == self).map_or("", |(name, _)| name);
                f.pad(name)
            }
        }
    }
}
