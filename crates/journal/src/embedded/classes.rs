//! What is known of each entity, class by class, so that a class can be forgotten as a whole.
//!
//! A forgotten class stays known by its name: its entities still have records in the log, so a new record of one of them
//! could not be told from damage.

use std::collections::HashMap;
use std::fmt;

use crate::record::EntityKey;

/// Decides by its name whether a class is forgotten.
pub(super) type IsOver<'a> = Box<dyn Fn(&str) -> bool + Send + 'a>;

/// A value for each entity of the classes that are not forgotten.
pub(super) struct Classes<'a, T> {
    by_name: HashMap<Box<str>, Class<T>>,
    is_over: IsOver<'a>,
}

enum Class<T> {
    Kept(Kept<T>),
    Forgotten,
}

/// The entities of one class.
pub(super) struct Kept<T> {
    pub(super) entities: HashMap<EntityKey, T>,
    /// While it is not zero, the class is not forgotten.
    pub(super) users: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { entities: HashMap::new(), users: 0 }
    }
}

impl<'a, T> Classes<'a, T> {
    /// No entities; a class of which `is_over` holds when its name first appears is forgotten from the beginning.
    pub(super) fn new(is_over: impl Fn(&str) -> bool + Send + 'a) -> Self {
        Self { by_name: HashMap::new(), is_over: Box::new(is_over) }
    }

    /// The value of the entity with this text, and its key.
    pub(super) fn get(&self, text: &str) -> Option<(&EntityKey, &T)> {
        let (class, _) = text.split_once('/')?;
        match self.by_name.get(class)? {
            Class::Kept(kept) => kept.entities.get_key_value(text),
            Class::Forgotten => None,
        }
    }

    /// The class of `entity`, unless it is forgotten.
    pub(super) fn class_of(&mut self, entity: &EntityKey) -> Option<&mut Kept<T>> {
        let name = entity.class();
        if !self.by_name.contains_key(name) {
            let class = if (self.is_over)(name) { Class::Forgotten } else { Class::Kept(Kept::default()) };
            self.by_name.insert(name.into(), class);
        }
        match self.by_name.get_mut(name)? {
            Class::Kept(kept) => Some(kept),
            Class::Forgotten => None,
        }
    }

    /// Forgets the classes without users of which `is_over` holds; what was known of their entities.
    pub(super) fn forget(&mut self, is_over: impl Fn(&str) -> bool) -> Vec<HashMap<EntityKey, T>> {
        let mut forgotten = Vec::new();
        for (name, class) in &mut self.by_name {
            if let Class::Kept(kept) = class
                && kept.users == 0
                && is_over(name)
            {
                forgotten.push(std::mem::take(&mut kept.entities));
                *class = Class::Forgotten;
            }
        }
        forgotten
    }

    /// The number of entities.
    pub(super) fn len(&self) -> usize {
        let count = |class: &Class<T>| match class {
            Class::Kept(kept) => kept.entities.len(),
            Class::Forgotten => 0,
        };
        self.by_name.values().map(count).sum()
    }

    /// The same entities with other values.
    pub(super) fn map<U>(self, value: impl Fn(T) -> U) -> Classes<'static, U> {
        let map = |class| match class {
            Class::Kept(Kept { entities, users }) => {
                let entities = entities.into_iter().map(|(entity, old)| (entity, value(old))).collect();
                Class::Kept(Kept { entities, users })
            }
            Class::Forgotten => Class::Forgotten,
        };
        let by_name = self.by_name.into_iter().map(|(name, class)| (name, map(class))).collect();
        Classes { by_name, is_over: Box::new(|_| false) }
    }
}

impl<T> Default for Classes<'static, T> {
    fn default() -> Self {
        Self::new(|_| false)
    }
}

impl<T> fmt::Debug for Classes<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classes").field("len", &self.len()).finish_non_exhaustive()
    }
}
