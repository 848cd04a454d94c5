//! From the instances of one version of a contract to those of a later one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::evaluate::Evaluator;
use crate::instance::Instance;
use crate::model::Class;
use crate::model::expr::Expr;
use crate::step::values_read;
use crate::value::{Bindings, Key, Name, Timestamp, Value};
use crate::violation::Violation;

/// What becomes of every instance of an earlier version of a contract; made by [`Spec::migration`](crate::Spec::migration).
///
/// Immutable, and deterministic: it reads the instance and nothing else.
#[derive(Debug)]
pub struct Migration {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// By the name of the earlier class; nothing where it is dropped.
    pub(crate) classes: BTreeMap<Name, Option<ClassMigration>>,
}

#[derive(Debug)]
pub(crate) struct ClassMigration {
    pub(crate) earlier: Arc<Class>,
    pub(crate) class: Arc<Class>,
    /// What each earlier state becomes, the initial one apart.
    pub(crate) states: BTreeMap<Name, Name>,
    /// Where each field comes from, in the order of the fields.
    pub(crate) fields: Vec<(Name, Origin)>,
    /// What is dropped.
    pub(crate) lost: Vec<Name>,
}

/// Where the value of a field comes from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The earlier field of this name.
    Field(Name),
    /// The default.
    Default(Value),
    /// An expression over the earlier instance, with its text.
    Value(Box<Expr>, Name),
}

/// One thing that a [`Migration`] changes. `Display` writes it as a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transformed {
    /// A class and its instances are gone.
    ClassDropped {
        /// The class.
        class: Name,
    },
    /// A field has another name.
    FieldRenamed {
        /// The class.
        class: Name,
        /// The earlier name.
        from: Name,
        /// The name.
        to: Name,
    },
    /// A field gets the value of an expression.
    FieldComputed {
        /// The class.
        class: Name,
        /// The field.
        field: Name,
        /// The expression, as written.
        expr: Name,
    },
    /// A field begins with its default.
    FieldDefault {
        /// The class.
        class: Name,
        /// The field.
        field: Name,
        /// The default.
        value: Value,
    },
    /// A field and its values are gone.
    FieldDropped {
        /// The class.
        class: Name,
        /// The field.
        field: Name,
    },
    /// Instances in a state come into another one.
    State {
        /// The class.
        class: Name,
        /// The earlier state.
        from: Name,
        /// The state.
        to: Name,
    },
}

impl Transformed {
    /// The class.
    #[must_use]
    pub fn class(&self) -> &Name {
        match self {
            Self::ClassDropped { class }
            | Self::FieldRenamed { class, .. }
            | Self::FieldComputed { class, .. }
            | Self::FieldDefault { class, .. }
            | Self::FieldDropped { class, .. }
            | Self::State { class, .. } => class,
        }
    }
}

impl fmt::Display for Transformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClassDropped { class } => write!(f, "{class} is dropped, with its instances"),
            Self::FieldRenamed { class, from, to } => write!(f, "{class}.{from} is renamed to {to}"),
            Self::FieldComputed { class, field, expr } => write!(f, "{class}.{field} becomes `{expr}`"),
            Self::FieldDefault { class, field, value } => write!(f, "{class}.{field} begins with {value}, its default"),
            Self::FieldDropped { class, field } => write!(f, "{class}.{field} is dropped"),
            Self::State { class, from, to } => write!(f, "{class}: instances in state {from} come into state {to}"),
        }
    }
}

impl Migration {
    /// The version that instances come from.
    #[must_use]
    pub fn from(&self) -> u32 {
        self.from
    }

    /// The version that they come to.
    #[must_use]
    pub fn to(&self) -> u32 {
        self.to
    }

    /// The instance of the later version that `earlier`, an instance of `class` with this identity, becomes; nothing if the class
    /// is dropped. It has the types of its class ([`Class::verify_types`]); of invariants nothing is said.
    ///
    /// The same instance always becomes the same.
    ///
    /// # Errors
    /// The earlier version has no such class, `earlier` is not one of its instances, or an expression has no value.
    ///
    /// # Complexity
    /// At most [`limits::FUEL`](crate::limits::FUEL) steps, and one copy of the fields.
    pub fn instance(&self, class: &str, key: &Key, earlier: &Instance) -> Result<Option<Instance>, Vec<Violation>> {
        match self.classes.get(class) {
            None => Err(vec![Violation::UnknownClass { class: class.into() }]),
            Some(None) => Ok(None),
            Some(Some(migration)) => migration.instance(key, earlier).map(Some),
        }
    }

    /// Everything that it changes, by class, in the order of states and fields.
    #[must_use]
    pub fn changes(&self) -> Vec<Transformed> {
        let mut changes = Vec::new();
        for (class, migration) in &self.classes {
            match migration {
                None => changes.push(Transformed::ClassDropped { class: class.clone() }),
                Some(migration) => migration.changes(class, &mut changes),
            }
        }
        changes
    }
}

impl ClassMigration {
    fn instance(&self, key: &Key, earlier: &Instance) -> Result<Instance, Vec<Violation>> {
        self.earlier.verify_types(key, earlier)?;
        if self.earlier.is_initial(earlier.state()) {
            return Ok(self.class.initial());
        }
        let Some(state) = self.states.get(earlier.state()) else {
            let (class, state) = (self.class.name().clone(), earlier.state().clone());
            return Err(vec![Violation::UnknownState { class, state }]);
        };
        let scope = self.earlier.scope(key, earlier.fields(), None, Timestamp::from_millis(0));
        let mut evaluator = Evaluator::new(scope);
        let mut fields = Vec::with_capacity(self.fields.len());
        let mut violations = Vec::new();
        for (name, origin) in &self.fields {
            let value = match origin {
                Origin::Default(value) => Ok(value.clone()),
                Origin::Field(from) => Ok(earlier.fields().get(from).cloned().expect("its type is verified")),
                Origin::Value(expr, text) => evaluator.value(expr, &[]).map_err(|fault| Violation::Arithmetic {
                    fault,
                    place: format!("{}.{name} = {text}", self.class.name).into(),
                    values: values_read(expr, scope),
                }),
            };
            match value {
                Ok(value) => fields.push((name.clone(), value)),
                Err(violation) => violations.push(violation),
            }
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        // What a timer has come to stays: it does not happen again because the contract has changed.
        let timing = earlier.timing().filter(|_| self.class.is_timed()).cloned();
        let instance = Instance::new(state.clone(), fields.into_iter().collect::<Bindings>()).with_timing(timing);
        self.class.verify_types(key, &instance)?;
        Ok(instance)
    }

    fn changes(&self, class: &Name, changes: &mut Vec<Transformed>) {
        let of = || class.clone();
        for (from, to) in self.states.iter().filter(|(from, to)| from != to) {
            changes.push(Transformed::State { class: of(), from: from.clone(), to: to.clone() });
        }
        for (field, origin) in &self.fields {
            let field = field.clone();
            changes.push(match origin {
                Origin::Field(from) if *from == field => continue,
                Origin::Field(from) => Transformed::FieldRenamed { class: of(), from: from.clone(), to: field },
                Origin::Default(value) => Transformed::FieldDefault { class: of(), field, value: value.clone() },
                Origin::Value(_, text) => Transformed::FieldComputed { class: of(), field, expr: text.clone() },
            });
        }
        changes.extend(self.lost.iter().map(|field| Transformed::FieldDropped { class: of(), field: field.clone() }));
    }
}
