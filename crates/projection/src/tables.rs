//! What the changes have made of the entities: a row for each, and the places of those that exist in the indexes of their classes.
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fs::File;
use std::ops::Bound;
use std::path::Path;

use enact_entities::{EntityChange, EntityKey, Model, Reason, Rebel, Snapshot};
use enact_rebel::{Class, EventCall, Instance, Value};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, TypeName, WriteTransaction};
use serde::{Deserialize, Serialize};

use crate::error::ProjectionError;
use crate::mark::Mark;
use crate::query::{Query, Way, value_of};
use crate::scratch::Scratch;

/// What each entity is, by its key.
const ROWS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("rows");
/// Bytes of the tables that are kept in memory.
const CACHE_BYTES: usize = 16 << 20;
/// How many objects one page looks at.
const LOOKS_MAX: usize = 10_000;
/// How many bytes the rows of a page have, but for the last one.
const PAGE_BYTES: usize = 4 << 20;

/// An object that fulfils a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its key.
    pub key: EntityKey,
    /// What it is, under the present version of the specification.
    pub instance: Instance,
}

/// Some of the objects that fulfil a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The objects: by identity, or in the order of the index that the query uses.
    pub found: Vec<Found>,
    /// Where to go on, if the query may have more. A page may have few objects, or none, and be followed by more: it looks at 10,000 at
    /// most, and ends when it has 4 MiB.
    pub next: Option<Mark>,
}

#[derive(Debug)]
pub(crate) struct Tables {
    database: Database,
}

/// What an entity is.
#[derive(Serialize, Deserialize)]
struct Row {
    /// The version of the specification whose state it is.
    version: u32,
    /// Nothing if it cannot have changed as the journal says: nobody can use it then.
    state: Option<Instance>,
}

/// A place in an index: the values of its fields, and the id of the object.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Place<'a>(Vec<Value>, Cow<'a, str>);

/// Places as the tables have them, in the order of their values.
#[derive(Debug)]
struct Indexed;

impl redb::Value for Indexed {
    type SelfType<'a> = &'a [u8];
    type AsBytes<'a> = &'a [u8];

    fn fixed_width() -> Option<usize> {
        None
    }

    fn from_bytes<'a>(data: &'a [u8]) -> &'a [u8]
    where
        Self: 'a,
    {
        data
    }

    fn as_bytes<'a, 'b: 'a>(value: &'a &'b [u8]) -> &'a [u8]
    where
        Self: 'b,
    {
        value
    }

    fn type_name() -> TypeName {
        TypeName::new("enact::Place")
    }
}

impl redb::Key for Indexed {
    fn compare(one: &[u8], other: &[u8]) -> Ordering {
        match (decode::<Place<'_>>(one), decode::<Place<'_>>(other)) {
            (Ok(one), Ok(other)) => one.cmp(&other),
            // Nothing else is written.
            _ => one.cmp(other),
        }
    }
}

impl Tables {
    /// Empty ones, in a file of `directory`.
    pub(crate) fn new(directory: Option<&Path>) -> Result<Self, ProjectionError> {
        let file: File = match directory {
            Some(directory) => tempfile::tempfile_in(directory),
            None => tempfile::tempfile(),
        }
        .map_err(ProjectionError::tables)?;
        let database = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(Scratch(file))?;
        let begun = database.begin_write()?;
        begun.open_table(ROWS)?;
        begun.commit()?;
        Ok(Self { database })
    }

    /// Takes up changes, all of them or nothing.
    pub(crate) fn apply(&self, model: &Rebel, changes: Vec<EntityChange<EventCall>>) -> Result<(), ProjectionError> {
        let begun = self.database.begin_write()?;
        for change in changes {
            apply(&begun, model, &change)?;
        }
        Ok(begun.commit()?)
    }

    /// A page of what fulfils `query`, behind `after`; at most `limit` objects.
    pub(crate) fn find(
        &self,
        model: &Rebel,
        query: &Query,
        after: Option<&Mark>,
        limit: usize,
    ) -> Result<Page, ProjectionError> {
        let mut finding =
            Finding { model, query, limit, looks: 0, bytes: 0, page: Page { found: Vec::new(), next: None } };
        let begun = self.database.begin_read()?;
        let rows = begun.open_table(ROWS)?;
        let class = query.class();
        match query.way() {
            Way::Whole => {
                let first = format!("{}/", class.name());
                let last = after.map(|mark| str::from_utf8(&mark.0)).transpose();
                let last = last.ok().filter(|last| last.is_none_or(|key| key.starts_with(&first)));
                let from = last.ok_or(ProjectionError::Mark)?.map_or(Bound::Included(&*first), Bound::Excluded);
                for entry in rows.range::<&str>((from, Bound::Unbounded))? {
                    let (key, row) = entry?;
                    if !key.value().starts_with(&first)
                        || finding.look(key.value(), row.value(), || key.value().as_bytes().to_vec())?
                    {
                        break;
                    }
                }
            }
            Way::Index { number, first, low } => {
                let fields = &class.indexes()[number];
                if !after.is_none_or(|mark| mark.is_in(fields.len(), &first)) {
                    return Err(ProjectionError::Mark);
                }
                let name = index_name(class, number);
                let index = match begun.open_table(TableDefinition::<Indexed, ()>::new(&name)) {
                    Ok(index) => index,
                    // No object has been put into it.
                    Err(TableError::TableDoesNotExist(_)) => return Ok(finding.page),
                    Err(error) => return Err(error.into()),
                };
                let begin = encode(&Place(first.iter().cloned().chain(low).collect(), "".into()))?;
                let from = after.map_or(Bound::Included(&*begin), |mark| Bound::Excluded(&*mark.0));
                let next_field = fields.get(first.len());
                for entry in index.range::<&[u8]>((from, Bound::Unbounded))? {
                    let (place, _) = entry?;
                    let Place(values, id) = decode(place.value())?;
                    let is_beyond = !values.starts_with(&first)
                        || next_field
                            .zip(values.get(first.len()))
                            .is_some_and(|(field, value)| query.is_beyond(field, value));
                    if is_beyond {
                        break;
                    }
                    let key = format!("{}/{id}", class.name());
                    let Some(row) = rows.get(&*key)? else { continue };
                    if finding.look(&key, row.value(), || place.value().to_vec())? {
                        break;
                    }
                }
            }
        }
        Ok(finding.page)
    }
}

impl Mark {
    /// Whether it is a place in an index of so many `fields`, of which the first ones have these values.
    fn is_in(&self, fields: usize, first: &[Value]) -> bool {
        decode::<Place<'_>>(&self.0).is_ok_and(|Place(values, _)| values.len() == fields && values.starts_with(first))
    }
}

/// A page that is being filled.
struct Finding<'a> {
    model: &'a Rebel,
    query: &'a Query,
    limit: usize,
    looks: usize,
    bytes: usize,
    page: Page,
}

impl Finding<'_> {
    /// Looks at an object; says whether the page ends with it, whose place is `mark`.
    fn look(&mut self, key: &str, row: &[u8], mark: impl FnOnce() -> Vec<u8>) -> Result<bool, ProjectionError> {
        self.looks += 1;
        let key: EntityKey = key.parse().map_err(ProjectionError::tables)?;
        if let Some(instance) = current(self.model, &key, &decode(row)?)
            && let Ok(identity) = self.query.class().key(key.id())
            && self.query.is_of(&identity, &instance)
        {
            self.bytes += row.len();
            self.page.found.push(Found { key, instance });
        }
        let is_full = self.page.found.len() == self.limit || self.looks == LOOKS_MAX || self.bytes >= PAGE_BYTES;
        if is_full {
            self.page.next = Some(Mark(mark()));
        }
        Ok(is_full)
    }
}

fn apply(begun: &WriteTransaction, model: &Rebel, change: &EntityChange<EventCall>) -> Result<(), ProjectionError> {
    let EntityChange { entity, version, erasure, .. } = change;
    if erasure.is_some() {
        // Rows have what is sealed, and who is shown it is shown nothing.
        return Ok(());
    }
    let mut rows = begun.open_table(ROWS)?;
    let row = rows.get(entity.as_str())?.map(|row| decode::<Row>(row.value())).transpose()?;
    let before = row.as_ref().and_then(|row| current(model, entity, row));
    let state = changed(model, change, row).unwrap_or_else(|why| {
        tracing::error!(%entity, version, why, "an entity cannot have changed as the journal says, and no query finds it");
        None
    });
    let row = Row { version: *version, state };
    rows.insert(entity.as_str(), &*encode(&row)?)?;
    drop(rows);
    let after = current(model, entity, &row);
    let Some(class) = model.spec().class(entity.class()) else { return Ok(()) };
    let Ok(key) = class.key(entity.id()) else { return Ok(()) };
    for (number, fields) in class.indexes().iter().enumerate() {
        let place = |instance: &Option<Instance>| {
            let values = fields.iter().map(|field| value_of(class, &key, instance.as_ref()?, field));
            values.collect::<Option<Vec<Value>>>()
        };
        let (from, to) = (place(&before), place(&after));
        if from == to {
            continue;
        }
        let name = index_name(class, number);
        let mut index = begun.open_table(TableDefinition::<Indexed, ()>::new(&name))?;
        if let Some(values) = from {
            index.remove(&*encode(&Place(values, entity.id().into()))?)?;
        }
        if let Some(values) = to {
            index.insert(&*encode(&Place(values, entity.id().into()))?, ())?;
        }
    }
    Ok(())
}

/// What `change` makes of an entity; nothing of one that nobody can use. Fails with the reasons if it is not possible.
fn changed(model: &Rebel, change: &EntityChange<EventCall>, row: Option<Row>) -> Result<Option<Instance>, String> {
    let EntityChange { entity, version, events, at, tombstone, .. } = change;
    if let Some(tombstone) = tombstone {
        let snapshot: Result<Snapshot<Instance, EventCall>, _> = tombstone.snapshot();
        return snapshot.map(|snapshot| Some(snapshot.base)).map_err(|cause| cause.to_string());
    }
    let in_words = |reasons: Vec<Reason>| format!("{reasons:?}");
    let then = model.under(*version).ok_or_else(|| format!("version {version} of the specification is not known"))?;
    let mut state = match row {
        None => then.initial(entity).ok_or_else(|| "there can be no such entity".to_owned())?,
        Some(Row { state: None, .. }) => return Ok(None),
        Some(Row { state: Some(state), version: earlier }) if earlier == *version => state,
        Some(Row { state: Some(state), version: earlier }) => {
            then.migrated(entity, state, earlier).map_err(in_words)?
        }
    };
    for event in events {
        state = then.next(entity, &state, event, *at).map_err(in_words)?;
    }
    Ok(Some(state))
}

/// What an entity is under the present version of the specification, if it exists and can be under it.
fn current(model: &Rebel, entity: &EntityKey, row: &Row) -> Option<Instance> {
    let Row { version, state } = row;
    let state = state.clone()?;
    if !model.under(*version)?.exists(entity, &state) {
        return None;
    }
    if *version == model.version() {
        return Some(state);
    }
    model.migrated(entity, state, *version).ok()
}

fn index_name(class: &Class, number: usize) -> String {
    format!("{}/{number}", class.name())
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, ProjectionError> {
    Ok(rmp_serde::to_vec_named(value)?)
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ProjectionError> {
    Ok(rmp_serde::from_slice(bytes)?)
}
