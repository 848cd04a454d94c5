//! What is asked of the objects of a class.
use std::cmp::Ordering;
use std::mem::discriminant;
use std::sync::Arc;

use enact_rebel::{Class, Field, Instance, Key, KeyType, Type, Value};

/// Conditions that objects of a class are to fulfil, all of them.
///
/// Written as pairs of a name and a text: `state` with the name of a state; a field with the value that it is to have; and a field with
/// `.eq`, `.ge`, `.gt`, `.le` or `.lt`, for what has an order. An amount of another currency, or no value at all, fulfils none of the
/// last four.
#[derive(Clone, Debug)]
pub struct Query {
    class: Arc<Class>,
    conditions: Vec<Condition>,
}

/// Which part of a query does not fit its class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}`: {problem}")]
pub struct QueryError {
    /// The name of the pair.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

#[derive(Clone, Debug)]
enum Condition {
    InState(Arc<str>),
    Field(Arc<str>, Test, Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Is,
    AtLeast,
    Above,
    AtMost,
    Below,
}

/// How a query goes through the objects of its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// All, by their identities.
    Whole,
    /// Those of an index whose first fields have these values, and the next one at least this, if there is one.
    Index { number: usize, first: Vec<Value>, low: Option<Value> },
}

impl Query {
    /// The query that `pairs` say.
    ///
    /// # Errors
    /// Everything that does not fit the class.
    pub fn parse<N: AsRef<str>, T: AsRef<str>>(
        class: &Arc<Class>,
        pairs: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Self, Vec<QueryError>> {
        let (mut conditions, mut unfit) = (Vec::new(), Vec::new());
        for (name, text) in pairs {
            let name = name.as_ref();
            match condition(class, name, text.as_ref()) {
                Ok(condition) => conditions.push(condition),
                Err(problem) => unfit.push(QueryError { name: name.to_owned(), problem }),
            }
        }
        if unfit.is_empty() { Ok(Self { class: Arc::clone(class), conditions }) } else { Err(unfit) }
    }

    /// The class.
    pub fn class(&self) -> &Arc<Class> {
        &self.class
    }

    /// Whether an object is one of those that are asked for.
    pub(crate) fn is_of(&self, key: &Key, instance: &Instance) -> bool {
        self.conditions.iter().all(|condition| match condition {
            Condition::InState(state) => instance.state() == state,
            Condition::Field(name, test, wanted) => {
                let value = value_of(&self.class, key, instance, name);
                value.is_some_and(|value| test.holds(&value, wanted))
            }
        })
    }

    /// The way that looks at the fewest objects, as far as the conditions tell.
    pub(crate) fn way(&self) -> Way {
        let ways = self.class.indexes().iter().enumerate().map(|(number, fields)| {
            let first: Vec<Value> = fields.iter().map_while(|field| self.wanted(field, Test::Is)).collect();
            let next = fields.get(first.len());
            let low =
                next.and_then(|field| self.wanted(field, Test::AtLeast).or_else(|| self.wanted(field, Test::Above)));
            let is_bounded = low.is_some() || next.is_some_and(|field| self.high(field).is_some());
            (2 * first.len() + usize::from(is_bounded), Way::Index { number, first, low })
        });
        // Of several that are as good, the first.
        let best = ways.filter(|(worth, _)| *worth > 0).rev().max_by_key(|(worth, _)| *worth);
        best.map_or(Way::Whole, |(_, way)| way)
    }

    /// Whether an object with `value` in this field, and all behind it in an index, are beyond what is asked for.
    pub(crate) fn is_beyond(&self, field: &str, value: &Value) -> bool {
        self.high(field).is_some_and(|(test, high)| match value.cmp(high) {
            Ordering::Less => false,
            Ordering::Equal => test == Test::Below,
            Ordering::Greater => true,
        })
    }

    fn wanted(&self, field: &str, test: Test) -> Option<Value> {
        self.conditions.iter().find_map(|condition| match condition {
            Condition::Field(name, of, value) if **name == *field && *of == test => Some(value.clone()),
            _ => None,
        })
    }

    fn high(&self, field: &str) -> Option<(Test, &Value)> {
        self.conditions.iter().find_map(|condition| match condition {
            Condition::Field(name, test @ (Test::AtMost | Test::Below), value) if **name == *field => {
                Some((*test, value))
            }
            _ => None,
        })
    }
}

impl Test {
    fn holds(self, value: &Value, wanted: &Value) -> bool {
        let order = value.cmp(wanted);
        if self == Self::Is {
            return order == Ordering::Equal;
        }
        let are_comparable = match (value, wanted) {
            (Value::Money(value), Value::Money(wanted)) => value.currency() == wanted.currency(),
            (value, wanted) => discriminant(value) == discriminant(wanted),
        };
        are_comparable
            && match self {
                Self::Is => unreachable!("it is told above"),
                Self::AtLeast => order != Ordering::Less,
                Self::Above => order == Ordering::Greater,
                Self::AtMost => order != Ordering::Greater,
                Self::Below => order == Ordering::Less,
            }
    }
}

fn condition(class: &Class, name: &str, text: &str) -> Result<Condition, String> {
    if name == "state" {
        let state = class.states().iter().find(|state| **state.name() == *text);
        let states = || class.states().iter().map(|state| format!("`{}`", state.name())).collect::<Vec<_>>().join(", ");
        let state = state.ok_or_else(|| format!("`{}` has no state `{text}`; there are {}", class.name(), states()))?;
        return Ok(Condition::InState(Arc::clone(state.name())));
    }
    let (field, test) = match name.rsplit_once('.') {
        None => (name, Test::Is),
        Some((field, "eq")) => (field, Test::Is),
        Some((field, "ge")) => (field, Test::AtLeast),
        Some((field, "gt")) => (field, Test::Above),
        Some((field, "le")) => (field, Test::AtMost),
        Some((field, "lt")) => (field, Test::Below),
        Some(_) => return Err("a field is compared by `.eq`, `.ge`, `.gt`, `.le` or `.lt`".to_owned()),
    };
    if let Some(number) = class.identity().iter().position(|identity| **identity == *field) {
        let ty = match class.key_type() {
            KeyType::Composite(parts) => &parts[number],
            whole => whole,
        };
        if test != Test::Is && !matches!(ty, KeyType::String | KeyType::Integer | KeyType::Iban | KeyType::Date) {
            return Err(unordered(field));
        }
        let value = Key::parse(ty, text).map_err(|error| error.to_string())?.field(0).ok_or("no value")?;
        return Ok(Condition::Field(field.into(), test, value));
    }
    let declared = class.fields().iter().find(|declared| **declared.name() == *field);
    let Some(declared) = declared else {
        let names = class.identity().iter().chain(class.fields().iter().map(Field::name));
        let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        return Err(format!("`{}` has no field `{field}`; there are {names}", class.name()));
    };
    if let Type::Personal(_) = declared.ty() {
        return Err(format!("`{field}` is personal: no object is found by it"));
    }
    if test != Test::Is && !is_ordered(declared.ty()) {
        return Err(unordered(field));
    }
    let value = Value::parse(declared.ty(), text).map_err(|error| error.to_string())?;
    if test != Test::Is && value == Value::None {
        return Err("nothing is larger or smaller than `none`".to_owned());
    }
    Ok(Condition::Field(Arc::clone(declared.name()), test, value))
}

fn unordered(field: &str) -> String {
    format!("values of `{field}` have no order: ask for one of them")
}

/// Whether values of the type can be asked for by `.ge`, `.gt`, `.le` and `.lt`.
pub fn is_ordered(ty: &Type) -> bool {
    match ty {
        Type::Optional(present) => is_ordered(present),
        Type::Integer
        | Type::Money
        | Type::Percentage
        | Type::String
        | Type::Iban
        | Type::Date
        | Type::Timestamp
        | Type::Decimal(_)
        | Type::Time
        | Type::Duration => true,
        _ => false,
    }
}

/// The value of a field of an object, its identity included.
pub(crate) fn value_of(class: &Class, key: &Key, instance: &Instance, field: &str) -> Option<Value> {
    match class.identity().iter().position(|identity| **identity == *field) {
        Some(number) => key.field(number),
        None => instance.fields().get(field).cloned(),
    }
}
