//! Values by name.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Name, Value};

/// Values by name: the fields of an instance, the arguments of a call.
///
/// Immutable and shared: a clone is one reference count. The order is that of the names, so equal contents are equal
/// (and have equal hashes) however they were made, and a stored map keeps its meaning when a specification reorders
/// its declarations. Serialises as a map from name to value.
///
/// Names and values lie apart, so that instances that come from one another share the names and copy only the values.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bindings {
    /// In order, each once.
    names: Arc<[Name]>,
    /// One for each name.
    values: Arc<[Value]>,
}

impl Bindings {
    /// The value bound to `name`.
    ///
    /// # Complexity
    /// O(log n) in the number of names.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let slot = self.names.binary_search_by(|bound| (**bound).cmp(name)).ok()?;
        self.values.get(slot)
    }

    /// As [`Bindings::get`], looking at `slot` first.
    pub(crate) fn get_at(&self, slot: usize, name: &Name) -> Option<&Value> {
        match self.names.get(slot) {
            Some(bound) if is_same(bound, name) => self.values.get(slot),
            _ => self.get(name),
        }
    }

    /// One value for each of `names`, which are in order, each once.
    pub(crate) fn of(names: &Arc<[Name]>, values: Arc<[Value]>) -> Self {
        debug_assert!(names.is_sorted() && names.len() == values.len());
        Self { names: Arc::clone(names), values }
    }

    /// Nothing, without an allocation.
    pub(crate) fn nothing() -> &'static Self {
        static NOTHING: LazyLock<Bindings> = LazyLock::new(Bindings::default);
        &NOTHING
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &Value)> {
        self.names.iter().zip(&*self.values)
    }

    /// The bytes behind the references.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.iter().map(|(name, value)| size_of_val(name) + size_of_val(value) + value.heap_bytes()).sum()
    }

    /// How many names are bound.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no name is bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Binds all of these; each name is looked for at its slot first. Bindings that share the values keep theirs, and those that
    /// come to bind all of `declared`, in which each slot is the place of its name, share these names.
    pub(crate) fn set(&mut self, declared: &Arc<[Name]>, bindings: Vec<(usize, &Name, Value)>) {
        let is_at = |slot: usize, name: &Name| self.names.get(slot).is_some_and(|bound| is_same(bound, name));
        if bindings.iter().all(|(slot, name, _)| is_at(*slot, name)) {
            if !bindings.is_empty() {
                let values = Arc::make_mut(&mut self.values);
                bindings.into_iter().for_each(|(slot, _, value)| values[slot] = value);
            }
            return;
        }
        if let Some(values) = self.completed(declared, &bindings) {
            *self = Self { names: Arc::clone(declared), values };
            return;
        }
        let kept = self.iter().map(|(name, value)| (name.clone(), value.clone()));
        *self = kept.chain(bindings.into_iter().map(|(_, name, value)| (name.clone(), value))).collect();
    }

    /// The values of all `declared` names, once these are bound too; nothing if others are bound, or not all.
    fn completed(&self, declared: &[Name], bindings: &[(usize, &Name, Value)]) -> Option<Arc<[Value]>> {
        if self.len() + bindings.len() < declared.len() {
            return None;
        }
        let mut values = vec![None; declared.len()];
        for (name, value) in self.iter() {
            values[declared.binary_search(name).ok()?] = Some(value.clone());
        }
        for (slot, name, value) in bindings {
            declared.get(*slot).filter(|declared| is_same(declared, name))?;
            values[*slot] = Some(value.clone());
        }
        let is_complete = values.iter().all(Option::is_some);
        is_complete.then(|| values.into_iter().map(|value| value.expect("each is there")).collect())
    }
}

/// Whether two names are equal. Those that come from one specification mostly are the same, and are not read.
pub(crate) fn is_same(one: &Name, other: &Name) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// The last of several values of one name wins.
impl FromIterator<(Name, Value)> for Bindings {
    fn from_iter<I: IntoIterator<Item = (Name, Value)>>(bindings: I) -> Self {
        let mut bindings: Vec<_> = bindings.into_iter().collect();
        if !bindings.is_sorted_by(|(earlier, _), (later, _)| earlier < later) {
            bindings.sort_by(|(a, _), (b, _)| a.cmp(b));
            bindings.dedup_by(|later, earlier| {
                let is_same = later.0 == earlier.0;
                if is_same {
                    mem::swap(later, earlier);
                }
                is_same
            });
        }
        let names = bindings.iter().map(|(name, _)| name.clone()).collect();
        Self { names, values: bindings.into_iter().map(|(_, value)| value).collect() }
    }
}

impl Default for Bindings {
    fn default() -> Self {
        Self { names: Arc::from([]), values: Arc::from([]) }
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
