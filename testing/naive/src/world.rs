//! Instances, calls, and which values a type has.

use std::collections::BTreeMap;

use enact_rebel::{
    Caller, Class, EventCall, Id, Instance, Key, KeyType, Name, Reference, StateKind, Timestamp, Type, Value,
};

/// Values by name.
pub type Fields = BTreeMap<Name, Value>;

/// The instances that exist, by their addresses.
pub type World = BTreeMap<Reference, Thing>;

/// An instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Thing {
    /// The state of the life cycle.
    pub state: Name,
    /// The values of the fields that have one.
    pub fields: Fields,
    /// The timed events that happened or were refused in this state, each with the time of its timer, as long as a timer has it.
    pub(crate) spent: Vec<(Name, Timestamp)>,
    /// The latest time of an event since something has been due.
    pub(crate) last: Option<Timestamp>,
}

impl Thing {
    /// An instance that no event has happened to, in any state and with any values.
    #[must_use]
    pub fn new(instance: &Instance) -> Self {
        let fields = instance.fields().iter().map(|(name, value)| (name.clone(), value.clone()));
        Self { state: instance.state().clone(), fields: fields.collect(), spent: Vec::new(), last: None }
    }

    /// The instance that every instance is before its first event.
    pub(crate) fn unborn(class: &Class) -> Self {
        Self::new(&class.initial())
    }
}

/// The instance at `of`, as it is in `world`.
pub(crate) fn thing(world: &World, class: &Class, of: &Reference) -> Thing {
    world.get(of).cloned().unwrap_or_else(|| Thing::unborn(class))
}

/// Whether a state is that of instances that do not exist.
pub(crate) fn is_initial(class: &Class, state: &Name) -> bool {
    class.states().iter().any(|known| known.name() == state && known.kind() == StateKind::Initial)
}

/// A call of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The event.
    pub event: Name,
    /// The arguments by the names of the parameters.
    pub arguments: Fields,
    /// Who makes the step happen.
    pub caller: Option<Caller>,
    /// What fresh identities follow from.
    pub seed: Option<Id>,
}

impl Call {
    /// A call by nobody who is known, without a seed.
    pub fn new<'a>(event: &str, arguments: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let arguments = arguments.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Self { event: event.into(), arguments, caller: None, seed: None }
    }
}

impl From<&EventCall> for Call {
    fn from(call: &EventCall) -> Self {
        let arguments = call.arguments().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { event: call.event().clone(), arguments, caller: call.caller().cloned(), seed: call.seed() }
    }
}

/// Whether `value` is one of the type `ty`.
pub(crate) fn fits(value: &Value, ty: &Type) -> bool {
    match (ty, value) {
        (Type::Optional(_), Value::None)
        | (Type::Personal(_), Value::Sealed(_))
        | (Type::Boolean, Value::Boolean(_))
        | (Type::Integer, Value::Integer(_))
        | (Type::Money, Value::Money(_))
        | (Type::Percentage, Value::Percentage(_))
        | (Type::Currency, Value::Currency(_))
        | (Type::String, Value::String(_))
        | (Type::Iban, Value::Iban(_))
        | (Type::Date, Value::Date(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Time, Value::Time(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Period, Value::Period(_))
        | (Type::Id, Value::Id(_)) => true,
        (Type::Optional(ty), value) => fits(value, ty),
        (Type::Personal(ty), Value::None) => matches!(**ty, Type::Optional(_)),
        (Type::MoneyOf(currency), Value::Money(money)) => money.currency() == *currency,
        (Type::Decimal(decimals), Value::Decimal(number)) => number.decimals() == *decimals,
        (Type::Reference { class, key }, Value::Reference(reference)) => {
            reference.class == *class && is_key(&reference.key, key)
        }
        (Type::Enum(enumeration), Value::Variant(variant)) => {
            variant.of == enumeration.name && enumeration.variants.contains(&variant.name)
        }
        (Type::Set(ty), Value::Set(elements)) => elements.iter().all(|element| fits(element, ty)),
        (Type::List(ty), Value::List(elements)) => elements.iter().all(|element| fits(element, ty)),
        (Type::Map(types), Value::Map(entries)) => {
            entries.iter().all(|(key, value)| fits(key, &types.0) && fits(value, &types.1))
        }
        (Type::Record(record), Value::Record(value)) => {
            let names = value.fields.iter().map(|(name, _)| name).eq(record.fields.iter().map(|(name, _)| name));
            let values = value.fields.iter().map(|(_, value)| value).zip(&record.fields);
            value.of == record.name && names && values.into_iter().all(|(value, (_, ty))| fits(value, ty))
        }
        _ => false,
    }
}

/// Whether `key` is an identity of the type `ty`.
pub(crate) fn is_key(key: &Key, ty: &KeyType) -> bool {
    match (ty, key) {
        (KeyType::String, Key::String(_))
        | (KeyType::Integer, Key::Integer(_))
        | (KeyType::Iban, Key::Iban(_))
        | (KeyType::Date, Key::Date(_))
        | (KeyType::Currency, Key::Currency(_))
        | (KeyType::Id, Key::Id(_)) => true,
        (KeyType::Enum(enumeration), Key::Variant(variant)) => {
            variant.of == enumeration.name && enumeration.variants.contains(&variant.name)
        }
        (KeyType::Reference { class, key: ty }, Key::Reference(reference)) => {
            reference.class == *class && is_key(&reference.key, ty)
        }
        (KeyType::Composite(types), Key::Composite(keys)) => {
            types.len() == keys.len() && types.iter().zip(&**keys).all(|(ty, key)| is_key(key, ty))
        }
        _ => false,
    }
}

/// The value of the field number `index` of an identity.
pub(crate) fn value_of_key(key: &Key, index: usize) -> Value {
    match key {
        Key::Composite(keys) => value_of_key(&keys[index], 0),
        Key::String(text) => Value::String(text.clone()),
        Key::Integer(number) => Value::Integer(*number),
        Key::Iban(iban) => Value::Iban(iban.clone()),
        Key::Date(date) => Value::Date(*date),
        Key::Currency(currency) => Value::Currency(*currency),
        Key::Id(id) => Value::Id(*id),
        Key::Variant(variant) => Value::Variant((**variant).clone()),
        Key::Reference(reference) => Value::Reference((**reference).clone()),
        _ => panic!("an identity of a kind that is not known: {key:?}"),
    }
}

/// The identity that consists of these values; nothing if one of them is the empty text or, among several, has the sign in it that
/// joins their texts.
pub(crate) fn key_of_values(values: &[Value]) -> Option<Key> {
    let single = |value: &Value| match value {
        Value::String(text) => (!text.is_empty()).then(|| Key::String(text.clone())),
        Value::Integer(number) => Some(Key::Integer(*number)),
        Value::Iban(iban) => Some(Key::Iban(iban.clone())),
        Value::Date(date) => Some(Key::Date(*date)),
        Value::Currency(currency) => Some(Key::Currency(*currency)),
        Value::Id(id) => Some(Key::Id(*id)),
        Value::Variant(variant) => Some(Key::Variant(variant.clone().into())),
        Value::Reference(reference) => Some(Key::Reference(reference.clone().into())),
        _ => panic!("no value of an identity: {value:?}"),
    };
    match values {
        [value] => single(value),
        values => {
            let keys: Vec<Key> = values.iter().map(single).collect::<Option<_>>()?;
            let has_colon = keys.iter().any(has_colon);
            (!has_colon).then(|| Key::Composite(keys.into()))
        }
    }
}

/// Whether a text of an identity has the sign in it that joins several.
fn has_colon(key: &Key) -> bool {
    match key {
        Key::String(text) => text.contains(':'),
        Key::Reference(reference) => match &reference.key {
            Key::Composite(keys) => keys.iter().any(has_colon),
            key => has_colon(key),
        },
        _ => false,
    }
}
