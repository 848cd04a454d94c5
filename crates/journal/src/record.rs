//! What a journal holds: records of entities, and snapshots that shorten their replay.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;
use std::vec;

use serde::{Deserialize, Serialize};

/// The most bytes that the class or the id of an entity may have.
pub const NAME_BYTES_MAX: usize = 128;

/// The class and the id of one entity; displayed as `Account/NL01`.
///
/// Both parts have 1 to [`NAME_BYTES_MAX`] bytes out of `A-Z a-z 0-9 . _ : -`, so that a key can stand unescaped in a
/// URL, a log line or a chart. They are compared as bytes. `Ord` is the order of the displayed text: one total order,
/// the same on every machine, in which a transaction asks its participants for admission.
///
/// Cloning costs a reference count.
///
/// ```
/// use enact_journal::EntityKey;
///
/// let account = EntityKey::new("Account", "NL01")?;
/// assert_eq!(account.to_string(), "Account/NL01");
/// assert_eq!("Account/NL01".parse::<EntityKey>()?, account);
/// assert!(EntityKey::new("Account", "../etc").is_err());
/// # Ok::<(), enact_journal::EntityKeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntityKey {
    text: Arc<str>,
    class_len: u8,
}

impl EntityKey {
    /// The key of the entity `id` of class `class`.
    ///
    /// # Errors
    /// When a part is empty, too long, or has a byte outside the alphabet.
    ///
    /// # Panics
    /// Never.
    pub fn new(class: &str, id: &str) -> Result<Self, EntityKeyError> {
        check_name("class", class)?;
        check_name("id", id)?;
        let mut text = [0; 2 * NAME_BYTES_MAX + 1];
        let end = class.len() + 1 + id.len();
        text[..class.len()].copy_from_slice(class.as_bytes());
        text[class.len()] = b'/';
        text[class.len() + 1..end].copy_from_slice(id.as_bytes());
        let text = str::from_utf8(&text[..end]).expect("names are ASCII");
        Ok(Self { text: text.into(), class_len: class.len() as u8 })
    }

    /// The class, such as `Account`.
    pub fn class(&self) -> &str {
        &self.text[..usize::from(self.class_len)]
    }

    /// The id within the class, such as `NL01`.
    pub fn id(&self) -> &str {
        &self.text[usize::from(self.class_len) + 1..]
    }

    /// The displayed text, `class/id`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn check_name(part: &'static str, name: &str) -> Result<(), EntityKeyError> {
    if name.is_empty() {
        return Err(EntityKeyError::Empty { part });
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(EntityKeyError::TooLong { part, bytes: name.len() });
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'_' | b'-');
    match name.bytes().position(|byte| !is_allowed(byte)) {
        // All before it are ASCII, so a character begins there.
        Some(at) => Err(EntityKeyError::Character { part, character: name[at..].chars().next().expect("not the end") }),
        None => Ok(()),
    }
}

impl Ord for EntityKey {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.text, &other.text) { Ordering::Equal } else { self.text.cmp(&other.text) }
    }
}

impl PartialOrd for EntityKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

// The text alone decides equality, so a map of keys can be asked with a text.
impl Hash for EntityKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Borrow<str> for EntityKey {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl FromStr for EntityKey {
    type Err = EntityKeyError;

    fn from_str(text: &str) -> Result<Self, EntityKeyError> {
        let (class, id) = text.split_once('/').ok_or(EntityKeyError::NoSlash)?;
        Self::new(class, id)
    }
}

impl TryFrom<String> for EntityKey {
    type Error = EntityKeyError;

    fn try_from(text: String) -> Result<Self, EntityKeyError> {
        text.parse()
    }
}

impl From<EntityKey> for String {
    fn from(key: EntityKey) -> Self {
        key.as_str().to_owned()
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

/// Why a text is not an [`EntityKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntityKeyError {
    /// A part has no characters.
    #[error("the {part} of an entity key is empty")]
    Empty {
        /// `class` or `id`.
        part: &'static str,
    },
    /// A part has more than [`NAME_BYTES_MAX`] bytes.
    #[error("the {part} of an entity key has {bytes} bytes, at most {NAME_BYTES_MAX} are allowed")]
    TooLong {
        /// `class` or `id`.
        part: &'static str,
        /// The length found.
        bytes: usize,
    },
    /// A character outside the alphabet.
    #[error(
        "the {part} of an entity key contains {character:?}, allowed are letters and digits of ASCII and \". _ : -\""
    )]
    Character {
        /// `class` or `id`.
        part: &'static str,
        /// The first offending character.
        character: char,
    },
    /// The text does not have the form `class/id`.
    #[error("an entity key has the form class/id, there is no slash")]
    NoSlash,
}

/// A position within the records of one entity: its first record is 1, and [`Seq::NONE`] comes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first record: the entity has none.
    pub const NONE: Self = Self(0);

    /// The position that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position in the feed of all records: the first record is 1, [`Position::START`] comes before it, and no position
/// is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// Before the first record.
    pub const START: Self = Self(0);

    /// The position that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Records that became durable together: one batch or several, never a part of one.
///
/// It has consecutive positions. One without a record is that of a record that was discarded
/// ([`Journal::forget`](crate::Journal::forget), [`Kind::TOMBSTONE`]): it is known that there was one, and nobody asks for it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    first: Position,
    last: Position,
    records: Vec<Record>,
}

impl Group {
    /// The records at the positions from `first` to `last`.
    ///
    /// # Panics
    /// When the records do not have ascending positions from `first` to `last`.
    pub fn new(first: Position, last: Position, records: Vec<Record>) -> Self {
        let positions = records.iter().map(|record| record.position);
        let is_within = positions.clone().all(|position| first <= position && position <= last);
        assert!(first <= last && is_within && positions.is_sorted_by(|a, b| a < b), "the positions of a group ascend");
        Self { first, last, records }
    }

    /// The records of a group of which none was discarded.
    ///
    /// # Panics
    /// When there are none, or their positions do not ascend.
    pub fn of(records: Vec<Record>) -> Self {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { panic!("a group has a record") };
        Self::new(first.position, last.position, records)
    }

    /// The first position.
    pub fn first(&self) -> Position {
        self.first
    }

    /// The last position.
    pub fn last(&self) -> Position {
        self.last
    }

    /// The records, in order of their positions.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The part behind `position`, if there is one.
    #[must_use]
    pub fn after(mut self, position: Position) -> Option<Self> {
        if position >= self.last {
            return None;
        }
        self.first = self.first.max(position.next());
        self.records.retain(|record| record.position > position);
        Some(self)
    }
}

impl IntoIterator for Group {
    type Item = Record;
    type IntoIter = vec::IntoIter<Record>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.into_iter()
    }
}

/// What a record means to its writer; the journal keeps it, and knows one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kind(pub u8);

impl Kind {
    /// The kind of a *tombstone*: the last record of an entity, which says all that those before it do.
    ///
    /// A journal may leave the records before it out of whatever is read, and may discard them; it takes no further record of the
    /// entity. Such a journal says so. Any other keeps it like every record.
    pub const TOMBSTONE: Self = Self(u8::MAX);
}

/// A record that is to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// The entity it belongs to.
    pub entity: EntityKey,
    /// The record of the entity that it follows: the append is refused if another one is there.
    pub expected: Seq,
    /// Its meaning.
    pub kind: Kind,
    /// Its content.
    pub payload: Vec<u8>,
}

impl NewRecord {
    /// The bytes that count towards the limits: key and payload.
    pub(crate) fn bytes(&self) -> usize {
        self.entity.as_str().len() + self.payload.len()
    }
}

/// A record that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The entity it belongs to.
    pub entity: EntityKey,
    /// Its place among the records of the entity.
    pub seq: Seq,
    /// Its place in the feed of all records.
    pub position: Position,
    /// Its meaning.
    pub kind: Kind,
    /// Its content.
    pub payload: Vec<u8>,
}

/// What an entity had become after its record `seq`: replay may start there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The entity.
    pub entity: EntityKey,
    /// The last record that the snapshot includes.
    pub seq: Seq,
    /// Its content.
    pub payload: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_key_limits_are_inclusive() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        let longer = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(EntityKey::new(&longest, &longest).unwrap().class(), longest);
        assert_eq!(
            EntityKey::new(&longer, "1"),
            Err(EntityKeyError::TooLong { part: "class", bytes: NAME_BYTES_MAX + 1 })
        );
        assert_eq!(
            EntityKey::new("A", &longer),
            Err(EntityKeyError::TooLong { part: "id", bytes: NAME_BYTES_MAX + 1 })
        );
    }

    #[test]
    fn entity_key_refuses_what_could_be_a_path_or_an_escape() {
        for (class, id, refusal) in [
            ("", "1", EntityKeyError::Empty { part: "class" }),
            ("A", "", EntityKeyError::Empty { part: "id" }),
            ("A/B", "1", EntityKeyError::Character { part: "class", character: '/' }),
            ("A", "a/b", EntityKeyError::Character { part: "id", character: '/' }),
            ("A", "a\0", EntityKeyError::Character { part: "id", character: '\0' }),
            ("A", "a%2f", EntityKeyError::Character { part: "id", character: '%' }),
            ("A", "é", EntityKeyError::Character { part: "id", character: 'é' }),
        ] {
            assert_eq!(EntityKey::new(class, id), Err(refusal), "{class:?} {id:?}");
        }
        assert_eq!("Account".parse::<EntityKey>(), Err(EntityKeyError::NoSlash));
    }

    #[test]
    fn entity_key_survives_text_and_serde() {
        let key = EntityKey::new("bank::Account", "NL-01.a_b").unwrap();
        assert_eq!((key.class(), key.id()), ("bank::Account", "NL-01.a_b"));
        assert_eq!(key.as_str().parse::<EntityKey>().unwrap(), key);
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(json, "\"bank::Account/NL-01.a_b\"");
        assert_eq!(serde_json::from_str::<EntityKey>(&json).unwrap(), key);
        assert!(serde_json::from_str::<EntityKey>("\"Account\"").is_err());
    }
}
