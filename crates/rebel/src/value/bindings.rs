//! Values by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Name, Value};

/// Values by name: the fields of an instance, the arguments of a call.
///
/// Immutable and shared: a clone is one reference count. The order is that of the names, so equal contents are equal
/// (and have equal hashes) however they were made, and a stored map keeps its meaning when a specification reorders
/// its declarations. Serialises as a map from name to value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bindings(Arc<[(Name, Value)]>);

impl Bindings {
    /// The value bound to `name`.
    ///
    /// # Complexity
    /// O(log n) in the number of names.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let index = self.0.binary_search_by(|(bound, _)| (**bound).cmp(name)).ok()?;
        Some(&self.0[index].1)
    }

    /// As [`Bindings::get`], looking at `slot` first.
    pub(crate) fn get_at(&self, slot: usize, name: &Name) -> Option<&Value> {
        match self.0.get(slot) {
            Some((bound, value)) if bound == name => Some(value),
            _ => self.get(name),
        }
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &Value)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The bytes behind the reference.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.iter().map(|binding| size_of_val(binding) + binding.1.heap_bytes()).sum()
    }

    /// How many names are bound.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no name is bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These bindings with those of `changed` in their place, each name once.
    pub(crate) fn with(&self, changed: Vec<(Name, Value)>) -> Self {
        if changed.is_empty() {
            return self.clone();
        }
        if !changed.iter().all(|(name, _)| self.get(name).is_some()) {
            return self.0.iter().cloned().chain(changed).collect();
        }
        let kept = |(name, value): &(Name, Value)| {
            let new = changed.iter().find(|(other, _)| other == name).map(|(_, new)| new);
            (name.clone(), new.unwrap_or(value).clone())
        };
        Self(self.0.iter().map(kept).collect())
    }
}

/// The last of several values of one name wins.
impl FromIterator<(Name, Value)> for Bindings {
    fn from_iter<I: IntoIterator<Item = (Name, Value)>>(bindings: I) -> Self {
        Self(bindings.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
    }
}

impl Default for Bindings {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl fmt::Debug for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Bindings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Bindings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<Name, Value>::deserialize(deserializer)?.into_iter().collect())
    }
}
