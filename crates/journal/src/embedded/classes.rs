//! What is known of each class, so that a class can be forgotten as a whole.
//!
//! A forgotten class stays known by its name: its entities still have records in the log, so a new record of one of them
//! could not be told from damage.

use std::collections::HashMap;
use std::fmt;

use crate::record::EntityKey;

/// Decides by its name whether a class is forgotten.
pub(super) type IsOver<'a> = Box<dyn Fn(&str) -> bool + Send + 'a>;

/// A value for each class that is not forgotten.
pub(super) struct Classes<'a, T> {
    ids: HashMap<Box<str>, ClassId>,
    /// By id; none of a forgotten class.
    kept: Vec<Option<T>>,
    is_over: IsOver<'a>,
}

/// A class, for as long as the journal is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassId(u32);

impl ClassId {
    /// Its place among the classes.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl<'a, T> Classes<'a, T> {
    /// No classes; one of which `is_over` holds when its name first appears is forgotten from the beginning.
    pub(super) fn new(is_over: impl Fn(&str) -> bool + Send + 'a) -> Self {
        Self { ids: HashMap::new(), kept: Vec::new(), is_over: Box::new(is_over) }
    }

    /// Whether the class of this name is forgotten, or will be when it appears.
    pub(super) fn is_over(&self, name: &str) -> bool {
        self.ids.get(name).map_or_else(|| (self.is_over)(name), |class| self.kept[class.0 as usize].is_none())
    }

    /// Forgets the class of this name, whether there have been entities of it or not.
    pub(super) fn forget_named(&mut self, name: &str) {
        if let Some(class) = self.ids.get(name) {
            self.kept[class.0 as usize] = None;
            return;
        }
        let class = ClassId(u32::try_from(self.kept.len()).expect("fewer classes than fit into memory"));
        self.kept.push(None);
        self.ids.insert(name.into(), class);
    }

    /// The names of the classes that are forgotten, in order.
    pub(super) fn forgotten(&self) -> Vec<String> {
        let forgotten = self.ids.iter().filter(|(_, class)| self.kept[class.0 as usize].is_none());
        let mut names: Vec<String> = forgotten.map(|(name, _)| name.to_string()).collect();
        names.sort_unstable();
        names
    }

    /// No classes, as at the beginning.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.kept.clear();
    }

    /// The value of the class of the entity with this text, if there is one.
    pub(super) fn get(&self, text: &str) -> Option<&T> {
        let (class, _) = text.split_once('/')?;
        self.named(class)
    }

    /// The value of `class`, unless it is unknown or forgotten.
    pub(super) fn named(&self, class: &str) -> Option<&T> {
        self.kept[self.ids.get(class)?.0 as usize].as_ref()
    }

    /// The value of `class`, unless it is forgotten.
    pub(super) fn kept(&mut self, class: ClassId) -> Option<&mut T> {
        self.kept[class.0 as usize].as_mut()
    }

    /// Forgets the classes of which `is_over` holds; their values.
    pub(super) fn forget(&mut self, is_over: impl Fn(&str, &T) -> bool) -> Vec<T> {
        let mut forgotten = Vec::new();
        for (name, class) in &self.ids {
            forgotten.extend(self.kept[class.0 as usize].take_if(|kept| is_over(name, kept)));
        }
        forgotten
    }

    /// The values of all classes that are not forgotten.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().flatten()
    }

    /// The same classes with other values.
    pub(super) fn map<U>(self, value: impl Fn(T) -> U) -> Classes<'static, U> {
        let kept = self.kept.into_iter().map(|kept| kept.map(&value)).collect();
        Classes { ids: self.ids, kept, is_over: Box::new(|_| false) }
    }
}

impl<T: Default> Classes<'_, T> {
    /// The class of `entity` and its value, unless it is forgotten.
    pub(super) fn class_of(&mut self, entity: &EntityKey) -> Option<(ClassId, &mut T)> {
        let name = entity.class();
        let class = match self.ids.get(name) {
            Some(class) => *class,
            None => {
                let class = ClassId(u32::try_from(self.kept.len()).expect("fewer classes than fit into memory"));
                self.kept.push((!(self.is_over)(name)).then(T::default));
                self.ids.insert(name.into(), class);
                class
            }
        };
        self.kept(class).map(|kept| (class, kept))
    }
}

impl<T> Default for Classes<'static, T> {
    fn default() -> Self {
        Self::new(|_| false)
    }
}

impl<T> fmt::Debug for Classes<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classes").field("len", &self.ids.len()).finish_non_exhaustive()
    }
}
