//! A map that mostly has one entry or none, which then takes no memory of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

/// Values by key, in the order of keys.
///
/// A single entry lies in the map itself. Several lie in a tree, until the last of them is removed.
///
/// # Complexity
/// That of a [`BTreeMap`]; with one entry at most, a comparison.
pub(crate) enum SmallMap<K, V> {
    Empty,
    One(K, V),
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> SmallMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self::Empty
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(..) => 1,
            Self::Many(map) => map.len(),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (one, many) = match self {
            Self::Empty => (None, None),
            Self::One(key, value) => (Some((key, value)), None),
            Self::Many(map) => (None, Some(map.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    /// The entry with the smallest key.
    pub(crate) fn first(&self) -> Option<(&K, &V)> {
        match self {
            Self::Empty => None,
            Self::One(key, value) => Some((key, value)),
            Self::Many(map) => map.first_key_value(),
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match self {
            Self::Empty => None,
            Self::One(only, value) => (only == key).then_some(value),
            Self::Many(map) => map.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            Self::Empty => None,
            Self::One(only, value) => (only == key).then_some(value),
            Self::Many(map) => map.get_mut(key),
        }
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Enters a value, in the place of the one that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self {
            Self::Empty => *self = Self::One(key, value),
            Self::One(only, present) if *only == key => *present = value,
            Self::One(..) => {
                let Self::One(only, present) = std::mem::take(self) else { unreachable!("it has one entry") };
                *self = Self::Many(BTreeMap::from([(only, present), (key, value)]));
            }
            Self::Many(map) => {
                map.insert(key, value);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        match self {
            Self::Empty => None,
            Self::One(only, _) if only != key => None,
            Self::One(..) => {
                let Self::One(_, value) = std::mem::take(self) else { unreachable!("it has one entry") };
                Some(value)
            }
            Self::Many(map) => {
                let removed = map.remove(key);
                if map.is_empty() {
                    *self = Self::Empty;
                }
                removed
            }
        }
    }
}

impl<K: Ord, V> Index<&K> for SmallMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key has a value")
    }
}

/// That of a [`BTreeMap`], wherever the entries lie.
impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SmallMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_tree_holds_in_the_same_order(steps: Vec<(u8, u8, bool)>) {
            let (mut small, mut tree) = (SmallMap::new(), BTreeMap::new());
            for (key, value, is_entered) in steps {
                let key = key % 4;
                if is_entered {
                    small.insert(key, value);
                    tree.insert(key, value);
                } else {
                    prop_assert_eq!(small.remove(&key), tree.remove(&key));
                }
                if let (Some(here), Some(there)) = (small.get_mut(&0), tree.get_mut(&0)) {
                    (*here, *there) = (here.wrapping_add(1), there.wrapping_add(1));
                }
                prop_assert_eq!((small.len(), small.is_empty()), (tree.len(), tree.is_empty()));
                prop_assert_eq!(small.first(), tree.first_key_value());
                for key in 0..4 {
                    prop_assert_eq!((small.get(&key), small.contains_key(&key)), (tree.get(&key), tree.contains_key(&key)));
                }
                prop_assert!(small.iter().eq(tree.iter()) && small.keys().eq(tree.keys()) && small.values().eq(tree.values()));
                prop_assert_eq!(format!("{small:?}"), format!("{tree:?}"));
            }
        }
    }

    #[test]
    fn it_takes_no_tree_when_it_is_empty_again() {
        let mut map = SmallMap::new();
        map.insert(1, "one");
        map.insert(2, "two");
        assert!(matches!(map, SmallMap::Many(_)));
        map.remove(&1);
        map.remove(&2);
        assert!(matches!(map, SmallMap::Empty));
    }
}
