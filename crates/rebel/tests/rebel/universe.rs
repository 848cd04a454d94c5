//! A small universe for any specification: a few values of each type, two or three instances of each class, and random worlds of these.

use std::collections::BTreeMap;
use std::sync::Arc;

use enact_rebel::{
    Caller, Class, Date, Event, EventCall, Field, Id, Instance, Key, KeyType, Param, RecordType, RecordValue,
    Reference, Sealed, Spec, Type, Value,
};

use super::chance::Chance;
use super::support::NOW;

pub(crate) type World = BTreeMap<Reference, Instance>;

/// Numbers and amounts beside those that the specification speaks of.
const NUMBERS: [i64; 5] = [-1, 0, 1, 2, 3];
const AMOUNTS: [&str; 5] = ["EUR 0.00", "EUR 1.00", "EUR -1.00", "EUR 5.00", "USD 1.00"];
/// How many numbers and amounts of the text are taken up, each with one that is a little more.
const LITERALS_MAX: usize = 4;

pub(crate) struct Universe<'s> {
    pub(crate) spec: &'s Spec,
    numbers: Vec<i64>,
    amounts: Vec<String>,
    callers: Vec<Option<Caller>>,
}

impl<'s> Universe<'s> {
    /// The universe of `spec`, whose text is `source`.
    pub(crate) fn new(spec: &'s Spec, source: &str) -> Self {
        let words: Vec<&str> = source.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.').collect();
        let literals = words.iter().filter_map(|word| word.parse::<i64>().ok()).filter(|number| *number > 3);
        let mut numbers = NUMBERS.to_vec();
        numbers.extend(literals.take(LITERALS_MAX).flat_map(|number| [number, number + 1]));
        numbers.sort_unstable();
        numbers.dedup();
        let mut amounts: Vec<String> = AMOUNTS.iter().map(ToString::to_string).collect();
        let of_text = words.windows(2).filter(|pair| pair[0] == "EUR" && pair[1].contains('.'));
        for pair in of_text.take(LITERALS_MAX) {
            amounts.push(pair.join(" "));
        }
        amounts.dedup();
        let roles = spec.classes().flat_map(|class| class.events().iter().flat_map(|event| event.roles().iter()));
        let roles: Vec<&str> = roles.map(|role| &**role).filter(|role| *role != "system").collect();
        let callers = ["a", "b"].map(|id| Some(Caller::new(id, roles.iter().copied()).unwrap()));
        let callers = callers.into_iter().chain([Some(Caller::system()), None]).collect();
        Self { spec, numbers, amounts, callers }
    }

    /// The instances of a class.
    pub(crate) fn references(&self, class: &Class) -> Vec<Reference> {
        self.keys(class.key_type()).into_iter().map(|key| class.reference(key)).collect()
    }

    fn keys(&self, ty: &KeyType) -> Vec<Key> {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let texts: Vec<String> = match ty {
            KeyType::String => owned(&["a", "b", "c"]),
            KeyType::Integer => owned(&["0", "1", "2"]),
            KeyType::Iban => owned(&["NL91ABNA0417164300", "DE89370400440532013000", "GB82WEST12345698765432"]),
            KeyType::Date => owned(&["2026-11-21", "2026-11-22"]),
            KeyType::Currency => owned(&["EUR", "USD"]),
            KeyType::Id => [1, 2, 3].map(|bits| Id::from_u128(bits).to_string()).to_vec(),
            KeyType::Enum(enumeration) => enumeration.variants.iter().map(ToString::to_string).collect(),
            KeyType::Reference { key, .. } => self.keys(key).iter().map(ToString::to_string).collect(),
            KeyType::Composite(parts) => [0, 1]
                .map(|at| {
                    // They share the last part.
                    let count = parts.len();
                    let part = |(index, part)| self.keys(part)[if index + 1 == count { 0 } else { at }].to_string();
                    parts.iter().enumerate().map(part).collect::<Vec<_>>().join(":")
                })
                .to_vec(),
            _ => panic!("a new type of keys"),
        };
        texts.iter().map(|text| Key::parse(ty, text).unwrap()).collect()
    }

    /// Some values of a type, few enough to try them all.
    pub(crate) fn values(&self, ty: &Type) -> Vec<Value> {
        let parsed = |texts: &[&str]| texts.iter().map(|text| Value::parse(ty, text).unwrap()).collect::<Vec<_>>();
        match ty {
            Type::Boolean => parsed(&["false", "true"]),
            Type::Integer => self.numbers.iter().copied().map(Value::Integer).collect(),
            Type::Money => self.amounts.iter().map(|text| Value::parse(ty, text).unwrap()).collect(),
            Type::MoneyOf(_) => self.amounts.iter().filter_map(|text| Value::parse(ty, text).ok()).collect(),
            Type::Percentage => parsed(&["-1%", "0%", "1%", "10%"]),
            Type::Currency => parsed(&["EUR", "USD"]),
            Type::String => parsed(&["a", "b", "box"]),
            Type::Iban => parsed(&["NL91ABNA0417164300", "DE89370400440532013000"]),
            Type::Date => {
                let today = NOW.date().days();
                [-40, -1, 0, 1, 30].map(|days| Value::Date(Date::from_days(today + days).unwrap())).to_vec()
            }
            Type::Timestamp => parsed(&["2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z", "2026-12-21T10:00:00Z"]),
            Type::Time => parsed(&["08:00", "09:30", "18:30"]),
            Type::Duration => parsed(&["0 minutes", "15 minutes", "36 hours"]),
            Type::Period => parsed(&["1 day", "1 month"]),
            Type::Id => [1, 2].map(|bits| Value::Id(Id::from_u128(bits))).to_vec(),
            Type::Decimal(decimals) => {
                let unit = 10_i128.pow((*decimals).into());
                let number = |units: i128| Value::of_number(ty, None, units).unwrap();
                [-unit, 0, 1, unit, 5 * unit].map(number).to_vec()
            }
            Type::Reference { class, .. } => {
                let class = self.spec.class(class).unwrap();
                self.references(class).into_iter().map(Value::Reference).collect()
            }
            Type::Enum(enumeration) => {
                let variant = |name: &Arc<str>| Value::parse(ty, name).unwrap();
                enumeration.variants.iter().map(variant).collect()
            }
            Type::Optional(inner) => [vec![Value::None], self.values(inner)].concat(),
            Type::Set(element) => {
                let elements = self.values(element);
                let of = |elements: &[Value]| Value::Set(Arc::new(elements.iter().cloned().collect()));
                elements.chunks(1).chain(elements.windows(2)).map(of).chain([of(&[])]).collect()
            }
            Type::List(element) => {
                let elements = self.values(element);
                let of = |elements: &[Value]| Value::List(elements.iter().rev().cloned().collect());
                elements.chunks(1).chain(elements.windows(2)).map(of).chain([of(&[])]).collect()
            }
            Type::Map(types) => {
                let (keys, values) = (self.values(&types.0), self.values(&types.1));
                let of = |keys: &[Value]| {
                    let entries = keys.iter().cloned().zip(values.iter().rev().cycle().cloned());
                    Value::Map(Arc::new(entries.collect()))
                };
                keys.chunks(1).chain(keys.windows(2)).map(of).chain([of(&[])]).collect()
            }
            Type::Record(record) => self.records(record),
            Type::Personal(of) => {
                let sealed = |byte| {
                    let subject = Reference { class: "Somebody".into(), key: Key::String("s".into()) };
                    Value::Sealed(Arc::new(Sealed { subject, generation: 1, bytes: vec![byte] }))
                };
                let absent = matches!(**of, Type::Optional(_)).then_some(Value::None);
                [1, 2].map(sealed).into_iter().chain(absent).collect()
            }
            _ => panic!("a new type"),
        }
    }

    /// All values of a type over few numbers, or some where that would be many.
    pub(crate) fn every(&self, ty: &Type) -> Vec<Value> {
        const KEYS: usize = 2;
        let subsets = |values: Vec<Value>| {
            let chosen = move |bits: usize| {
                values
                    .iter()
                    .enumerate()
                    .filter(move |(at, _)| bits >> at & 1 == 1)
                    .map(|(_, value)| value.clone())
                    .collect::<Vec<_>>()
            };
            (0..1 << KEYS).map(chosen).collect::<Vec<_>>()
        };
        let two = |ty| match ty {
            &Type::Integer => vec![Value::Integer(0), Value::Integer(1)],
            ty => self.values(ty).into_iter().take(KEYS).collect(),
        };
        match ty {
            Type::Integer => (-1..4).map(Value::Integer).collect(),
            Type::Set(element) => {
                subsets(two(element)).into_iter().map(|set| Value::Set(Arc::new(set.into_iter().collect()))).collect()
            }
            Type::Map(types) => {
                let mut maps = vec![BTreeMap::new()];
                for key in two(&types.0) {
                    let with = |map: &BTreeMap<Value, Value>| {
                        let entered = two(&types.1).into_iter().map(|value| {
                            let mut map = map.clone();
                            map.insert(key.clone(), value);
                            map
                        });
                        entered.chain([map.clone()]).collect::<Vec<_>>()
                    };
                    maps = maps.iter().flat_map(with).collect();
                }
                maps.into_iter().map(|map| Value::Map(Arc::new(map))).collect()
            }
            Type::Optional(inner) => vec![Value::None, two(inner).remove(1)],
            Type::Money => ["EUR 0.00", "EUR 1.00", "USD 1.00"].map(|text| Value::parse(ty, text).unwrap()).to_vec(),
            ty => two(ty),
        }
    }

    /// Every instance over these values, also those that no event leads to.
    pub(crate) fn instances(&self, class: &Class) -> Vec<Instance> {
        let column = |field: &Field| {
            let values = self.every(field.ty()).into_iter();
            values.map(|value| (field.name().clone(), value)).collect()
        };
        let fields = rows(&class.fields().iter().map(column).collect::<Vec<_>>());
        let states = class.states().iter();
        states.flat_map(|state| fields.iter().map(|fields| instance(state.name(), fields.clone()))).collect()
    }

    /// Every call of an event over these values, numbers from 0 to 2.
    pub(crate) fn calls(&self, event: &Event) -> Vec<EventCall> {
        let is_small = |value: &Value| !matches!(value, Value::Integer(number) if !(0..3).contains(number));
        let column = |param: &'_ Param| self.every(param.ty()).into_iter().filter(is_small).collect();
        let columns: Vec<Vec<Value>> = event.params().iter().map(column).collect();
        let names = || event.params().iter().map(|param| &**param.name());
        rows(&columns).into_iter().map(|arguments| event.call(names().zip(arguments)).unwrap()).collect()
    }

    fn records(&self, record: &RecordType) -> Vec<Value> {
        let fields: Vec<_> = record.fields.iter().map(|(name, ty)| (name.clone(), self.values(ty))).collect();
        let count = fields.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
        let of = |at: usize| {
            let value = |(index, (name, values)): (usize, &(Arc<str>, Vec<Value>))| {
                (name.clone(), values[(at + index * at) % values.len()].clone())
            };
            let fields = fields.iter().enumerate().map(value).collect();
            Value::Record(Arc::new(RecordValue { of: record.name.clone(), fields }))
        };
        (0..count).map(of).collect()
    }

    pub(crate) fn value(&self, chance: &mut Chance, ty: &Type) -> Value {
        let values = self.values(ty);
        values[chance.below(values.len())].clone()
    }

    /// An instance in some state.
    pub(crate) fn instance(&self, chance: &mut Chance, class: &Class) -> Instance {
        let state = &class.states()[chance.below(class.states().len())];
        self.instance_in(chance, class, state.name())
    }

    /// An instance in this state; in the initial one it has never been there.
    pub(crate) fn instance_in(&self, chance: &mut Chance, class: &Class, state: &str) -> Instance {
        if **class.initial().state() == *state {
            return class.initial();
        }
        // Most keep the invariants of their class.
        let tries = if chance.below(4) > 0 { 20 } else { 1 };
        let key = &self.references(class)[0].key;
        let mut found = None;
        for _ in 0..tries {
            let fields = class.fields().iter().map(|field| (field.name().clone(), self.value(chance, field.ty())));
            let made = instance(state, fields);
            let is_sound = class.broken_invariants(key, &made, NOW).is_empty();
            found = Some(made);
            if is_sound {
                break;
            }
        }
        found.unwrap()
    }

    /// Some of the instances, each in some state.
    pub(crate) fn world(&self, chance: &mut Chance) -> World {
        let all = self
            .spec
            .classes()
            .filter(|class| !class.is_external())
            .flat_map(|class| self.references(class).into_iter().map(move |reference| (class, reference)));
        let all: Vec<_> = all.collect();
        all.into_iter().map(|(class, reference)| (reference, self.instance(chance, class))).collect()
    }

    /// A call with some arguments by some caller.
    pub(crate) fn call(&self, chance: &mut Chance, event: &Event) -> EventCall {
        let arguments: Vec<_> =
            event.params().iter().map(|param| (&**param.name(), self.value(chance, param.ty()))).collect();
        let call = event.call(arguments).unwrap();
        // Most events are refused to those who are not known.
        let caller = self.callers[if chance.below(4) > 0 { chance.below(2) } else { chance.below(4) }].clone();
        call.with_caller(caller).with_seed(Id::from_u128(7))
    }
}

/// An instance that may be one that no event leads to.
pub(crate) fn instance(state: &str, fields: impl IntoIterator<Item = (Arc<str>, Value)>) -> Instance {
    let fields: BTreeMap<_, _> = fields.into_iter().collect();
    serde_json::from_value(serde_json::json!({ "state": state, "fields": fields })).unwrap()
}

/// Every row with one of each column.
fn rows<T: Clone>(columns: &[Vec<T>]) -> Vec<Vec<T>> {
    let Some((first, rest)) = columns.split_first() else { return vec![Vec::new()] };
    let rest = rows(rest);
    first
        .iter()
        .flat_map(|cell| rest.iter().map(move |row| [std::slice::from_ref(cell), row.as_slice()].concat()))
        .collect()
}
