//! Records: values of several named fields.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::{Name, Type, Value};

/// A declared record: equal to every other with the same name and fields.
#[derive(Clone, Debug)]
pub struct RecordType {
    /// Its name.
    pub name: Name,
    /// Its fields, as declared.
    pub fields: Vec<(Name, Type)>,
    /// Those of the fields, which are known when all types are.
    defaults: OnceLock<Vec<Option<Value>>>,
}

impl RecordType {
    /// A record whose fields have no defaults.
    #[must_use]
    pub fn new(name: Name, fields: Vec<(Name, Type)>) -> Self {
        Self { name, fields, defaults: OnceLock::new() }
    }

    /// What the field of this number is where nothing is said of it, if it has a default.
    #[must_use]
    pub fn default(&self, field: usize) -> Option<&Value> {
        self.defaults.get()?.get(field)?.as_ref()
    }

    /// Gives the fields their defaults, one or none for each. The first ones stay.
    pub(crate) fn set_defaults(&self, defaults: Vec<Option<Value>>) {
        self.defaults.get_or_init(|| defaults);
    }
}

impl PartialEq for RecordType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.fields == other.fields
    }
}

impl Eq for RecordType {}

impl Hash for RecordType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.fields.hash(state);
    }
}

/// A value of a record: equal to every other with equal fields.
///
/// ```
/// use std::sync::Arc;
/// use enact_rebel::{RecordType, Type, Value};
/// let fields = vec![("product".into(), Type::String), ("quantity".into(), Type::Integer)];
/// let line = Type::Record(Arc::new(RecordType::new("Line".into(), fields)));
/// let value = Value::parse(&line, r#"Line(product: "pen", quantity: 2)"#)?;
/// let Value::Record(record) = &value else { unreachable!() };
/// assert_eq!(record.get("quantity"), Some(&Value::Integer(2)));
/// # Ok::<(), enact_rebel::ValueError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordValue {
    /// The name of the record.
    pub of: Name,
    /// Its fields, in the order in which they are declared.
    pub fields: Vec<(Name, Value)>,
}

impl RecordValue {
    /// The value of a field.
    ///
    /// # Complexity
    /// O(n) in the number of fields.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| **field == *name).map(|(_, value)| value)
    }

    /// Whether this is a value of the record `ty`, down to its fields.
    pub(super) fn has_type(&self, ty: &RecordType) -> bool {
        let fits =
            |((name, value), (declared, ty)): (&(Name, Value), &(Name, Type))| name == declared && value.has_type(ty);
        self.of == ty.name && self.fields.len() == ty.fields.len() && self.fields.iter().zip(&ty.fields).all(fits)
    }

    /// The bytes behind its references, but for names.
    pub(super) fn heap_bytes(&self) -> usize {
        let fields = self.fields.iter().map(|field| size_of_val(field) + field.1.heap_bytes());
        size_of::<Self>() + fields.sum::<usize>()
    }
}
