//! The specification that the entities of a journal were written under.
//!
//! # Problem
//! A journal holds events, not states: what an entity is follows from its events *and* from the specification that says
//! what they do. With another specification the same journal may not replay at all, or, worse, replay to something
//! else: a bank would open in the morning with other balances than it closed with.
//!
//! # Design
//! The sources of the specification are a record of the journal itself, under a key that no class can have, so they are
//! as durable and as checked as what they explain. When a server starts with other sources, every entity is recovered
//! under both specifications before anything is served. The new one is adopted, by a further record, only if it allows
//! everything that has happened and each entity is in the same state with the same values. New classes, events, states
//! and fields with a default are therefore fine, and so are weaker guards; a guard that forbids what has happened, or an
//! effect that would rewrite it, is not. This costs one replay of the journal for each change.
//!
//! An entity that gains a timer is noted, so that the engine looks at it in time. One that gains a field is saved as a snapshot, because an older snapshot would lack the field. Nothing is saved
//! before every entity has been compared: a specification that is refused leaves the directory as it was.
//!
//! # Limit
//! The snapshots are saved before the specification is recorded. A crash in between leaves snapshots with a field that
//! the recorded specification does not have; starting with the new one again completes the change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enact_entities::{
    DecodeError, Durability, EntityKey, Millis, Model, Participant, ParticipantOptions, Rebel, Record, RecoveryError,
    Strategy, timer_key,
};
use enact_journal::{
    AppendError, Journal, Kind, NewRecord, Position, ReadError, Record as Stored, Seq, Snapshot as Image, SnapshotError,
};
use enact_rebel::{EventCall, Instance, Source, Spec};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How the contract was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adoption {
    /// The journal was empty.
    First,
    /// The same sources as before.
    Unchanged,
    /// Other sources, under which all entities are what they were.
    Changed {
        /// How many entities were compared.
        entities: usize,
    },
}

/// Why entities cannot be served under a specification.
#[derive(Debug, Error)]
pub(crate) enum ContractError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the specification could not be recorded")]
    Append(#[from] AppendError),
    #[error("{entity} gains a field and could not be saved with it")]
    Snapshot { entity: EntityKey, source: SnapshotError },
    #[error("the journal holds entities, but not the specification that they were written under")]
    Missing,
    #[error("the recorded specification cannot be read: {why}")]
    Malformed { why: String },
    #[error("{entity}: record {seq} of the journal cannot be read")]
    Undecodable { entity: EntityKey, seq: Seq, source: DecodeError },
    #[error(
        "this version of the program does not accept the specification that the entities were written under:\n{report}"
    )]
    Outdated { report: String },
    #[error(
        "the specification does not allow what has happened: {}; start with the one it happened under",
        in_words(.0)
    )]
    NotAllowed(RecoveryError),
    #[error("the specification would change {entity}: {difference}; start with the one it was written under")]
    Different { entity: EntityKey, difference: String },
}

impl ContractError {
    /// Whether the directory is to blame, not the specification.
    pub(crate) fn is_of_the_directory(&self) -> bool {
        match self {
            Self::Read(_)
            | Self::Append(_)
            | Self::Snapshot { .. }
            | Self::Missing
            | Self::Malformed { .. }
            | Self::Undecodable { .. } => true,
            Self::Outdated { .. } | Self::NotAllowed(_) | Self::Different { .. } => false,
        }
    }
}

fn in_words(error: &RecoveryError) -> String {
    match error {
        RecoveryError::NoSuchEntity { entity } => {
            format!("there is {entity}, but no class {} with such an id", entity.class())
        }
        RecoveryError::NotPossible { entity, tx, reasons, .. } => {
            let reasons = reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            format!("transaction {tx} at {entity}: {reasons}")
        }
        other => other.to_string(),
    }
}

/// The record of a contract.
#[derive(Debug, Serialize, Deserialize)]
struct Contract {
    version: u8,
    sources: Vec<(String, String)>,
}

const VERSION: u8 = 1;
/// Apart from the kinds of records of entities.
const KIND: Kind = Kind(64);
const PAGE: usize = 4096;

/// Takes `spec`, made of `sources`, as the contract of the entities in `journal`, if it is one for them.
///
/// # Cancel safety
/// A dropped future has recorded the specification or has not; asking again is safe.
pub(crate) async fn adopt<J: Journal>(
    journal: &J,
    sources: &[Source],
    spec: &Arc<Spec>,
) -> Result<Adoption, ContractError> {
    let Some(record) = journal.read(&key(), Seq::NONE).await?.pop() else {
        if !journal.feed(Position::START, 1).await?.is_empty() {
            return Err(ContractError::Missing);
        }
        record_sources(journal, sources, Seq::NONE).await?;
        return Ok(Adoption::First);
    };
    let earlier = decode(&record)?;
    if earlier.iter().map(|source| &source.text).eq(sources.iter().map(|source| &source.text)) {
        return Ok(Adoption::Unchanged);
    }
    let earlier =
        enact_rebel::check(earlier).map_err(|report| ContractError::Outdated { report: report.render(false) })?;
    let (earlier, later) = (Arc::new(Rebel::new(Arc::new(earlier))), Arc::new(Rebel::new(Arc::clone(spec))));
    let entities = entities(journal).await?;
    let (mut gaining, mut timed) = (Vec::new(), Vec::new());
    for entity in &entities {
        let Some(compared) = compare(journal, entity, &earlier, &later).await? else { continue };
        if compared.gains {
            gaining.push(entity);
        }
        if later.due(entity, &compared.after.base).is_some() {
            timed.push(entity);
        }
    }
    // Recovered once more, because the images of all entities may not fit in memory.
    for entity in gaining {
        let Some(Compared { last, after, .. }) = compare(journal, entity, &earlier, &later).await? else { continue };
        let image = Image { entity: entity.clone(), seq: last, payload: after.encode() };
        let failed = |source| ContractError::Snapshot { entity: entity.clone(), source };
        journal.save_snapshot(image).await.map_err(failed)?;
    }
    note_timers(journal, &timed).await?;
    record_sources(journal, sources, record.seq).await?;
    Ok(Adoption::Changed { entities: entities.len() })
}

fn key() -> EntityKey {
    EntityKey::new(".contract", "sources").expect("a valid name that no class can have")
}

async fn record_sources<J: Journal>(journal: &J, sources: &[Source], expected: Seq) -> Result<(), AppendError> {
    let sources = sources.iter().map(|source| (source.name.clone(), source.text.clone())).collect();
    let payload = rmp_serde::to_vec_named(&Contract { version: VERSION, sources }).expect("texts serialise");
    journal.append(vec![NewRecord { entity: key(), expected, kind: KIND, payload }]).await?;
    Ok(())
}

fn decode(record: &Stored) -> Result<Vec<Source>, ContractError> {
    let malformed = |why: String| ContractError::Malformed { why };
    let contract: Contract = rmp_serde::from_slice(&record.payload).map_err(|error| malformed(error.to_string()))?;
    if contract.version != VERSION {
        return Err(malformed(format!("it has version {}, this program reads version {VERSION}", contract.version)));
    }
    Ok(contract.sources.into_iter().map(|(name, text)| Source::new(name, text)).collect())
}

/// Every entity of a class in the journal.
async fn entities<J: Journal>(journal: &J) -> Result<BTreeSet<EntityKey>, ReadError> {
    let mut entities = BTreeSet::new();
    let mut position = Position::START;
    loop {
        let page = journal.feed(position, PAGE).await?;
        let Some(last) = page.last() else { return Ok(entities) };
        position = last.position;
        // Names that begin with a dot are the engine's own: transactions, requests, this contract.
        entities.extend(page.into_iter().map(|record| record.entity).filter(|entity| !entity.class().starts_with('.')));
    }
}

/// Notes the timers that entities have by now, so that the engine looks at them: their events were written without.
async fn note_timers<J: Journal>(journal: &J, timed: &[&EntityKey]) -> Result<(), ContractError> {
    let mut ends: BTreeMap<EntityKey, Seq> = BTreeMap::new();
    for page in timed.chunks(PAGE) {
        let mut notes = Vec::with_capacity(page.len());
        for &entity in page {
            let key = timer_key(entity);
            let end = match ends.get(&key) {
                Some(&end) => end,
                None => journal.last(&key).await?,
            };
            ends.insert(key.clone(), end.next());
            let record = Record::<EventCall>::Timer { entity: entity.clone() };
            let (kind, payload) = (Kind(record.kind()), record.encode());
            notes.push(NewRecord { entity: key, expected: end, kind, payload });
        }
        journal.append(notes).await?;
    }
    Ok(())
}

/// An entity under two specifications.
struct Compared {
    /// Its last record.
    last: Seq,
    /// What it is under the later one.
    after: Snapshot,
    /// Whether it has more by that than by the earlier one.
    gains: bool,
}

/// Fails unless `entity` is under `later` what it is under `earlier`, but for fields and timers that `later` adds.
async fn compare<J: Journal>(
    journal: &J,
    entity: &EntityKey,
    earlier: &Arc<Rebel>,
    later: &Arc<Rebel>,
) -> Result<Option<Compared>, ContractError> {
    let stored = journal.read(entity, Seq::NONE).await?;
    let Some(last) = stored.last().map(|record| record.seq) else { return Ok(None) };
    let mut records: Vec<Record<EventCall>> = Vec::with_capacity(stored.len());
    for record in &stored {
        let undecodable = |source| ContractError::Undecodable { entity: entity.clone(), seq: record.seq, source };
        records.push(Record::decode(&record.payload).map_err(undecodable)?);
    }
    let before = recover(entity, earlier, records.clone())?;
    let after = recover(entity, later, records)?;
    if let Some(difference) = difference(&before.base, &after.base) {
        return Err(ContractError::Different { entity: entity.clone(), difference });
    }
    let gains = before.base != after.base;
    Ok(Some(Compared { last, after, gains }))
}

type Snapshot = enact_entities::Snapshot<Instance, EventCall>;

fn recover(entity: &EntityKey, model: &Arc<Rebel>, records: Vec<Record<EventCall>>) -> Result<Snapshot, ContractError> {
    let options = ParticipantOptions::new(Strategy::default(), Durability::Shared);
    let recovered = Participant::recover(Arc::clone(model), entity.clone(), options, None, records, Millis(0));
    let (participant, _) = recovered.map_err(ContractError::NotAllowed)?;
    Ok(participant.snapshot())
}

/// The first thing that is not the same; `after` may have more fields.
fn difference(before: &Instance, after: &Instance) -> Option<String> {
    if before.state() != after.state() {
        return Some(format!("it is in state {}, and would be in state {}", before.state(), after.state()));
    }
    before.fields().iter().find_map(|(name, value)| match after.fields().get(name) {
        Some(same) if same == value => None,
        Some(other) => Some(format!("its {name} is {value}, and would be {other}")),
        None => Some(format!("its {name} is {value}, and the field would be lost")),
    })
}

#[cfg(test)]
mod tests {
    use enact_journal::Memory;

    use super::*;

    const LAMP: &str = "class Lamp initial off on Light(): lit\nlit";

    async fn adopt_lamp(journal: &Memory) -> Result<Adoption, ContractError> {
        let source = Source::new("lamp.rebel", LAMP);
        let spec = enact_rebel::check(vec![source.clone()]).expect("a sound specification");
        adopt(journal, &[source], &Arc::new(spec)).await
    }

    async fn append(journal: &Memory, entity: EntityKey, payload: &[u8]) {
        let record = NewRecord { entity, expected: Seq::NONE, kind: KIND, payload: payload.to_vec() };
        journal.append(vec![record]).await.expect("a good journal");
    }

    fn recorded(version: u8, text: &str) -> Vec<u8> {
        let sources = vec![("lamp.rebel".to_owned(), text.to_owned())];
        rmp_serde::to_vec_named(&Contract { version, sources }).expect("texts serialise")
    }

    #[tokio::test]
    async fn the_first_specification_is_recorded_once() {
        let journal = Memory::new();
        assert_eq!(adopt_lamp(&journal).await.expect("an empty journal"), Adoption::First);
        assert_eq!(adopt_lamp(&journal).await.expect("the same"), Adoption::Unchanged);
        assert_eq!(journal.last(&key()).await.expect("readable"), Seq(1));
    }

    #[tokio::test]
    async fn entities_without_their_specification_are_refused() {
        let journal = Memory::new();
        append(&journal, EntityKey::new("Lamp", "l1").expect("a name"), b"").await;
        let error = adopt_lamp(&journal).await.expect_err("nobody knows what the record means");
        assert!(matches!(error, ContractError::Missing) && error.is_of_the_directory(), "{error}");
    }

    #[tokio::test]
    async fn a_recorded_specification_that_cannot_be_read_is_refused() {
        for payload in [b"nonsense".to_vec(), recorded(VERSION + 1, LAMP)] {
            let journal = Memory::new();
            append(&journal, key(), &payload).await;
            let error = adopt_lamp(&journal).await.expect_err("not readable");
            assert!(matches!(error, ContractError::Malformed { .. }) && error.is_of_the_directory(), "{error}");
        }
    }

    #[tokio::test]
    async fn a_recorded_specification_that_is_no_longer_accepted_is_shown() {
        let journal = Memory::new();
        append(&journal, key(), &recorded(VERSION, "class Lamp initial off on Light(): lost")).await;
        let error = adopt_lamp(&journal).await.expect_err("not accepted");
        assert!(matches!(error, ContractError::Outdated { .. }) && !error.is_of_the_directory(), "{error}");
        assert!(error.to_string().contains("E104"), "{error}");
    }

    #[tokio::test]
    async fn an_entity_whose_records_cannot_be_read_is_named() {
        let journal = Memory::new();
        append(&journal, key(), &recorded(VERSION, "class Lamp initial off on Light(): lit\nlit // old")).await;
        append(&journal, EntityKey::new("Lamp", "l1").expect("a name"), b"nonsense").await;
        let error = adopt_lamp(&journal).await.expect_err("not readable");
        assert!(matches!(error, ContractError::Undecodable { .. }) && error.is_of_the_directory(), "{error}");
        assert!(error.to_string().contains("Lamp/l1: record 1"), "{error}");
    }
}
