//! Values by entity, in the order of keys.

use std::cmp::Ordering;
use std::vec;

use crate::EntityKey;

/// Values by entity, in one list in the order of keys: a transaction has few entities, and mostly meets them in this order.
///
/// # Complexity
/// A value is found in O(log n), and entered in O(1) if its key is the last, otherwise in O(n).
#[derive(Debug)]
pub(crate) struct ByKey<T>(Vec<(EntityKey, T)>);

impl<T> Default for ByKey<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByKey<T> {
    /// Where `key` is, or where it would be.
    fn place(&self, key: &EntityKey) -> Result<usize, usize> {
        let Some((last, _)) = self.0.last() else { return Err(0) };
        match last.cmp(key) {
            Ordering::Less => Err(self.0.len()),
            Ordering::Equal => Ok(self.0.len() - 1),
            Ordering::Greater => self.0[..self.0.len() - 1].binary_search_by(|(other, _)| other.cmp(key)),
        }
    }

    pub(crate) fn get(&self, key: &EntityKey) -> Option<&T> {
        let place = self.place(key).ok()?;
        Some(&self.0[place].1)
    }

    pub(crate) fn get_mut(&mut self, key: &EntityKey) -> Option<&mut T> {
        let place = self.place(key).ok()?;
        Some(&mut self.0[place].1)
    }

    pub(crate) fn has(&self, key: &EntityKey) -> bool {
        self.place(key).is_ok()
    }

    /// Enters a value, in the place of the one that the key had.
    pub(crate) fn insert(&mut self, key: EntityKey, value: T) {
        match self.place(&key) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (key, value)),
        }
    }

    /// Takes the value of `key` out, if it is like this.
    pub(crate) fn remove_if(&mut self, key: &EntityKey, is_meant: impl FnOnce(&T) -> bool) -> Option<T> {
        let place = self.place(key).ok()?;
        is_meant(&self.0[place].1).then(|| self.0.remove(place).1)
    }

    /// Takes all out that are like this.
    pub(crate) fn extract_if(
        &mut self,
        is_meant: impl Fn(&EntityKey, &T) -> bool,
    ) -> impl Iterator<Item = (EntityKey, T)> {
        self.0.extract_if(.., move |(key, value)| is_meant(key, value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn last_key(&self) -> Option<&EntityKey> {
        self.0.last().map(|(key, _)| key)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&EntityKey, &T)> + Clone {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&EntityKey, &mut T)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    pub(crate) fn values(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<T> FromIterator<(EntityKey, T)> for ByKey<T> {
    /// The last of several values of one key wins.
    fn from_iter<I: IntoIterator<Item = (EntityKey, T)>>(values: I) -> Self {
        let values = values.into_iter();
        let mut all = Self(Vec::with_capacity(values.size_hint().0));
        values.for_each(|(key, value)| all.insert(key, value));
        all
    }
}

impl<T> IntoIterator for ByKey<T> {
    type Item = (EntityKey, T);
    type IntoIter = vec::IntoIter<(EntityKey, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds_in_the_order_of_keys(steps: Vec<(u8, u8, bool)>) {
            let (mut by_key, mut map) = (ByKey::default(), BTreeMap::new());
            for (number, value, is_entered) in steps {
                let key = EntityKey::new("A", &(number % 8).to_string()).unwrap();
                if is_entered {
                    by_key.insert(key.clone(), value);
                    map.insert(key.clone(), value);
                } else {
                    let is_meant = |found: &u8| *found < value;
                    let removed = map.get(&key).copied().filter(is_meant);
                    prop_assert_eq!(by_key.remove_if(&key, is_meant), removed);
                    removed.map(|_| map.remove(&key));
                }
                prop_assert_eq!((by_key.get(&key), by_key.has(&key)), (map.get(&key), map.contains_key(&key)));
                if let (Some(here), Some(there)) = (by_key.get_mut(&key), map.get_mut(&key)) {
                    (*here, *there) = (here.wrapping_add(1), there.wrapping_add(1));
                }
                prop_assert_eq!((by_key.is_empty(), by_key.last_key()), (map.is_empty(), map.keys().next_back()));
                prop_assert!(by_key.iter().eq(map.iter()));
            }
        }
    }
}
