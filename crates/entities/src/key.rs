//! Placeholder of the journal's key.
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The class and the id of one entity; displayed as `Account/NL01`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntityKey {
    text: Arc<str>,
    class_len: u8,
}

/// Why a text is not an [`EntityKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key")]
pub struct EntityKeyError;

impl EntityKey {
    /// The key of the entity `id` of class `class`.
    ///
    /// # Errors
    /// Never, for now.
    pub fn new(class: &str, id: &str) -> Result<Self, EntityKeyError> {
        Ok(Self { text: format!("{class}/{id}").into(), class_len: class.len() as u8 })
    }
    /// The class.
    pub fn class(&self) -> &str {
        &self.text[..usize::from(self.class_len)]
    }
    /// The id within the class.
    pub fn id(&self) -> &str {
        &self.text[usize::from(self.class_len) + 1..]
    }
}
impl TryFrom<String> for EntityKey {
    type Error = EntityKeyError;
    fn try_from(text: String) -> Result<Self, EntityKeyError> {
        let (class, id) = text.split_once('/').ok_or(EntityKeyError)?;
        Self::new(class, id)
    }
}
impl From<EntityKey> for String {
    fn from(key: EntityKey) -> Self {
        key.text.to_string()
    }
}
impl fmt::Display for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}
impl fmt::Debug for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
