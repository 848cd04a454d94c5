//! Places of instances that exist, the differences between two instances, and which touches are of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enact_rebel::footprint::{Footprint, Mode, Place, Term, Touch};
use enact_rebel::{Class, EventCall, Instance, Key, Reference, Spec, Type, Value};

use crate::universe::{Universe, World, instance};

/// A place in which two instances may differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spot {
    /// Of the life cycle.
    State,
    Field(Arc<str>),
    Element(Arc<str>, Value),
    Entry(Arc<str>, Value),
}

impl Spot {
    pub(crate) fn field(&self) -> Option<&Arc<str>> {
        match self {
            Spot::State => None,
            Spot::Field(name) | Spot::Element(name, _) | Spot::Entry(name, _) => Some(name),
        }
    }

    /// What is there, as something that can be compared.
    pub(crate) fn content(&self, of: &Instance) -> Option<Value> {
        let field = |name: &Arc<str>| of.fields().get(name);
        match self {
            Spot::State => Some(Value::String(of.state().clone())),
            Spot::Field(name) => field(name).cloned(),
            Spot::Element(name, element) => {
                let Some(Value::Set(elements)) = field(name) else { return None };
                Some(Value::Boolean(elements.contains(element)))
            }
            Spot::Entry(name, key) => {
                let Some(Value::Map(entries)) = field(name) else { return None };
                entries.get(key).cloned()
            }
        }
    }
}

/// The places in which two instances of a class differ.
pub(crate) fn differences(a: &Instance, b: &Instance) -> BTreeSet<Spot> {
    let mut spots = BTreeSet::new();
    if a.state() != b.state() {
        spots.insert(Spot::State);
    }
    let names: BTreeSet<_> = a.fields().iter().chain(b.fields().iter()).map(|(name, _)| name.clone()).collect();
    for name in names {
        match (a.fields().get(&name), b.fields().get(&name)) {
            (a, b) if a == b => {}
            (Some(Value::Set(a)), Some(Value::Set(b))) => {
                spots.extend(a.symmetric_difference(b).map(|element| Spot::Element(name.clone(), element.clone())));
            }
            (Some(Value::Map(a)), Some(Value::Map(b))) => {
                let keys: BTreeSet<_> = a.keys().chain(b.keys()).filter(|key| a.get(key) != b.get(key)).collect();
                spots.extend(keys.into_iter().map(|key| Spot::Entry(name.clone(), key.clone())));
            }
            _ => _ = spots.insert(Spot::Field(name)),
        }
    }
    spots
}

/// A way to another instance that differs in one place only.
pub(crate) enum Edit {
    Enter(Arc<str>),
    Put(Arc<str>, Value),
}

impl Edit {
    pub(crate) fn apply(&self, to: &Instance) -> Instance {
        let state = if let Edit::Enter(state) = self { state } else { to.state() };
        let fields = to.fields().iter().map(|(name, old)| {
            let value = match self {
                Edit::Put(field, value) if field == name => value,
                _ => old,
            };
            (name.clone(), value.clone())
        });
        instance(state, fields)
    }
}

/// The ways to every instance of the universe that differs from `from` in one place only.
pub(crate) fn edits(universe: &Universe<'_>, class: &Class, from: &Instance) -> Vec<Edit> {
    let mut edits = Vec::new();
    // One that is not there yet may lack values.
    if from.fields().len() == class.fields().len() {
        let others = class.states().iter().filter(|state| state.name() != from.state());
        edits.extend(others.map(|state| Edit::Enter(state.name().clone())));
    }
    for (name, value) in from.fields().iter() {
        let field = class.fields().iter().find(|field| field.name() == name).unwrap();
        let mut put = |value: Value| edits.push(Edit::Put(name.clone(), value));
        match (value, field.ty()) {
            (Value::Set(elements), Type::Set(ty)) => {
                for element in universe.values(ty) {
                    let mut other = BTreeSet::clone(elements);
                    if !other.remove(&element) {
                        other.insert(element);
                    }
                    put(Value::Set(Arc::new(other)));
                }
            }
            (Value::Map(entries), Type::Map(types)) => {
                let values = universe.values(&types.1);
                for key in universe.values(&types.0) {
                    let mut without = BTreeMap::clone(entries);
                    if without.remove(&key).is_some() {
                        put(Value::Map(Arc::new(without.clone())));
                    }
                    for value in values.iter().filter(|value| entries.get(&key) != Some(value)).take(3) {
                        let mut with = without.clone();
                        with.insert(key.clone(), value.clone());
                        put(Value::Map(Arc::new(with)));
                    }
                }
            }
            (value, ty) => universe.values(ty).into_iter().filter(|other| other != value).for_each(put),
        }
    }
    edits
}

/// What terms stand for in one step, by the values from before it.
pub(crate) struct Meaning<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) world: &'a World,
    pub(crate) root: &'a Reference,
    pub(crate) call: &'a EventCall,
}

impl Meaning<'_> {
    /// The values that a term stands for; nothing if that may be any.
    fn of(&self, term: &Term) -> Option<Vec<Value>> {
        Some(match term {
            Term::This => vec![Value::Reference(self.root.clone())],
            Term::Param(name) => self.call.arguments().get(name).cloned().into_iter().collect(),
            Term::Literal(value) => vec![value.clone()],
            Term::Caller => self.call.caller().map(|caller| Value::String(caller.id().clone())).into_iter().collect(),
            Term::Member(of, name) => {
                let of = self.of(of)?;
                of.iter().filter_map(|value| self.member(value, name)).collect()
            }
            Term::Entry(of, key) => {
                let (of, keys) = (self.of(of)?, self.of(key)?);
                let entry = |value: &Value, key: &Value| match (value, key) {
                    (Value::Map(entries), key) => entries.get(key).cloned(),
                    (Value::List(elements), Value::Integer(at)) => elements.get(usize::try_from(*at).ok()?).cloned(),
                    _ => None,
                };
                of.iter().flat_map(|value| keys.iter().filter_map(move |key| entry(value, key))).collect()
            }
            Term::Each(of) => {
                let elements = |value: &Value| match value {
                    Value::Set(elements) => elements.iter().cloned().collect(),
                    Value::List(elements) => elements.to_vec(),
                    _ => Vec::new(),
                };
                self.of(of)?.iter().flat_map(elements).collect()
            }
            Term::Identified(class, keys) => {
                let class = self.spec.class(class).unwrap();
                let mut texts = vec![String::new()];
                for key in keys {
                    let parts: Vec<String> = self.of(key)?.iter().map(ToString::to_string).collect();
                    let joined = |text: &String, part: &String| {
                        if text.is_empty() { part.clone() } else { format!("{text}:{part}") }
                    };
                    texts = texts.iter().flat_map(|text| parts.iter().map(move |part| joined(text, part))).collect();
                }
                let keys = texts.iter().filter_map(|text| class.key(text).ok());
                keys.map(|key| Value::Reference(class.reference(key))).collect()
            }
            Term::OneOf(terms) => {
                let parts: Option<Vec<_>> = terms.iter().map(|term| self.of(term)).collect();
                parts?.concat()
            }
            Term::Fresh(_) | Term::Written(_) | Term::Unknown => return None,
            _ => panic!("a new kind of term"),
        })
    }

    fn member(&self, of: &Value, name: &str) -> Option<Value> {
        match of {
            Value::Reference(reference) => {
                let class = self.spec.class(&reference.class).unwrap();
                match class.identity().iter().position(|identity| **identity == *name) {
                    Some(index) => Some(part(&reference.key, index)),
                    None => self.get(reference).fields().get(name).cloned(),
                }
            }
            Value::Record(record) => record.get(name).cloned(),
            Value::Map(entries) if name == "keys" => Some(Value::Set(Arc::new(entries.keys().cloned().collect()))),
            Value::Map(entries) if name == "values" => Some(Value::List(entries.values().cloned().collect())),
            _ => None,
        }
    }

    fn get(&self, reference: &Reference) -> Instance {
        let class = self.spec.class(&reference.class).unwrap();
        self.world.get(reference).cloned().unwrap_or_else(|| class.initial())
    }

    /// Whether a touch is of an instance.
    pub(crate) fn is_of(&self, touch: &Touch, instance: &Reference) -> bool {
        let value = Value::Reference(instance.clone());
        touch.class == instance.class && self.of(&touch.instance).is_none_or(|found| found.contains(&value))
    }

    /// The touches of a place in which two instances differ.
    pub(crate) fn touches<'f>(
        &self,
        footprint: &'f Footprint,
        instance: &Reference,
        spot: &Spot,
        (a, b): (&Instance, &Instance),
    ) -> Vec<&'f Touch> {
        let initial = self.spec.class(&instance.class).unwrap().initial();
        let is_or_may_be = |term: &Term, value: &Value| self.of(term).is_none_or(|found| found.contains(value));
        let touched = |touch: &&Touch| {
            let is_there = match (&touch.place, spot) {
                (Place::State, Spot::State) => true,
                (Place::Existence, Spot::State) => (a.state() == initial.state()) != (b.state() == initial.state()),
                (Place::Field(field), spot) => spot.field() == Some(field),
                (Place::Size(field), spot) => spot.field() == Some(field) && size(a, field) != size(b, field),
                (Place::Element(field, term), Spot::Element(other, value))
                | (Place::Entry(field, term), Spot::Entry(other, value)) => field == other && is_or_may_be(term, value),
                _ => false,
            };
            is_there && self.is_of(touch, instance)
        };
        footprint.touches().iter().filter(touched).collect()
    }

    /// Whether two touches, the other one with a meaning of its own, may be of one place; terms apart.
    pub(crate) fn may_meet(&self, touch: &Touch, other: (&Touch, &Meaning<'_>)) -> bool {
        let shares = |a: Option<Vec<Value>>, b: Option<Vec<Value>>| match (a, b) {
            (Some(a), Some(b)) => a.iter().any(|value| b.contains(value)),
            _ => true,
        };
        let (other, meaning) = other;
        touch.class == other.class
            && shares(self.of(&touch.instance), meaning.of(&other.instance))
            && match (&touch.place, &other.place) {
                (Place::Entry(_, a), Place::Entry(_, b)) | (Place::Element(_, a), Place::Element(_, b)) => {
                    shares(self.of(a), meaning.of(b))
                }
                _ => true,
            }
    }
}

/// A field of an identity.
fn part(key: &Key, index: usize) -> Value {
    match key {
        Key::Composite(parts) => part(&parts[index], 0),
        Key::String(text) => Value::String(text.clone()),
        Key::Integer(number) => Value::Integer(*number),
        Key::Iban(iban) => Value::Iban(iban.clone()),
        Key::Date(date) => Value::Date(*date),
        Key::Currency(currency) => Value::Currency(*currency),
        Key::Variant(variant) => Value::Variant((**variant).clone()),
        Key::Reference(reference) => Value::Reference((**reference).clone()),
        Key::Id(id) => Value::Id(*id),
        _ => panic!("a new kind of identity"),
    }
}

fn size(of: &Instance, field: &str) -> Option<usize> {
    match of.fields().get(field)? {
        Value::Set(elements) => Some(elements.len()),
        Value::List(elements) => Some(elements.len()),
        Value::Map(entries) => Some(entries.len()),
        _ => None,
    }
}

pub(crate) fn has(touches: &[&Touch], modes: &[Mode]) -> bool {
    touches.iter().any(|touch| modes.contains(&touch.mode))
}
