//! The versions of the specification that the entities of a journal were written under.
//!
//! # Problem
//! A journal holds events, not states: what an entity is follows from its events *and* from the specification that says
//! what they do. With another specification the same journal may not replay at all, or, worse, replay to something
//! else: a bank would open in the morning with other balances than it closed with.
//!
//! # Design
//! The sources of every version are records of the journal itself, under a key that no class can have, so they are as durable
//! and as checked as what they explain. Each record says what the contract is from then on, so that the last one says what
//! it is, and those before it what the entities were written under. An event is replayed under the version that its own
//! record names.
//!
//! What becomes of other sources depends on their version:
//! * **The same, and they say the same** but for comments and layout: nothing.
//! * **The same, and they say something else**: every entity is recovered under both specifications before anything is served.
//!   The new one is recorded only if it allows everything that has happened and each entity is in the same state with the
//!   same values; if classes are all that it adds, this follows without a look at any entity. New events, states and fields with
//!   a default are therefore fine, and so are weaker guards; a guard that forbids what has happened, or an effect that would
//!   rewrite it, is not.
//! * **A later one**: its `migrate` block must say all that has to be said, and every entity is migrated once, to see that it can
//!   be. Then one record is the adoption, if the operator has asked for it. No entity is written: each comes to the new version
//!   whenever it is loaded, and its next event is recorded under it.
//! * **An earlier one**: refused. As long as no event is recorded under the last version, a rollback records the sources of the
//!   one before again.
//!
//! Each costs one replay of the journal. Before the record, every entity that has a timer under the contract to come is noted, so
//! that the engine looks at it in time; a note too many costs a look.
//!
//! An entity that gains a field under the same version is saved as a snapshot, because an older snapshot would lack the field.
//! Nothing is saved before every entity has been compared: a specification that is refused leaves the directory as it was.
//!
//! # What a crash leaves
//! An adoption and a rollback are one record each, which is there or not. Under the same version the snapshots are saved before the
//! specification is recorded. A crash in between leaves snapshots with a field that the recorded specification does not
//! have; starting with the new one again completes the change.

mod rollback;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use enact_entities::{
    DecodeError, EntityKey, Millis, Model as _, Participant, ParticipantOptions, Rebel, Record, RecoveryError, Slot,
    Strategy, timer_key,
};
use enact_journal::{
    AppendError, Journal, Kind, NewRecord, Position, ReadError, Record as Stored, Seq, Snapshot as Image, SnapshotError,
};
use enact_rebel::{EventCall, Instance, Report, Source, Spec, Timestamp, Transformed};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use self::rollback::Rollback;
#[cfg(feature = "nats")]
pub(crate) use self::rollback::version;

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
        "the specification does not allow what has happened: {}; start with the one it happened under, or give the \
         changed one a greater version and say in `migrate from` what changes",
        in_words(.0)
    )]
    NotAllowed(RecoveryError),
    #[error(
        "the specification would change {entity}: {difference}; start with the one it was written under, or give the \
         changed one a greater version and say in `migrate from` what changes"
    )]
    Different { entity: EntityKey, difference: String },
    #[error(
        "the specification is of version {given}, and the entities are of version {version}; start with that one, or \
         take the last version back with `enact contract rollback`"
    )]
    Earlier { version: u32, given: u32 },
    #[error("the specification does not say what becomes of the entities:\n{report}")]
    NotMigratable { report: String },
    #[error("{entity} cannot be taken over from version {from}: {reasons}")]
    NotMigrated { entity: EntityKey, from: u32, reasons: String },
    #[error("the entities are of version {}, and the specification is not adopted without `--adopt`; it would go\n{plan}", plan.from)]
    NotAdopted { plan: Box<Plan> },
    #[error(
        "{}",
        .version.map_or("the directory holds no entities".to_owned(), |version| format!("there is no version before {version}"))
    )]
    NoEarlier { version: Option<u32> },
    #[error(
        "version {version} stays: record {seq} of {entity} was written under it, and the one before cannot tell what it did"
    )]
    Used { entity: EntityKey, seq: Seq, version: u32 },
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
            Self::Outdated { .. }
            | Self::NotAllowed(_)
            | Self::Different { .. }
            | Self::Earlier { .. }
            | Self::NotMigratable { .. }
            | Self::NotMigrated { .. }
            | Self::NotAdopted { .. }
            | Self::NoEarlier { .. }
            | Self::Used { .. } => false,
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

/// The record of a contract: what it is from then on.
#[derive(Debug, Serialize, Deserialize)]
struct Contract {
    /// Of the encoding.
    version: u8,
    sources: Vec<(String, String)>,
    /// The version of the contract.
    #[serde(default = "first")]
    contract: u32,
}

const fn first() -> u32 {
    1
}

/// An encoding of contracts of version 1, which programs read that know no versions. They refuse the other.
const WITHOUT_VERSION: u8 = 1;
const WITH_VERSION: u8 = 2;
/// Apart from the kinds of records of entities.
pub(crate) const KIND: Kind = Kind(64);
const PAGE: usize = 4096;
/// How many of the entities that break an invariant are named.
const SHOWN_MAX: usize = 20;

/// One version that entities were written under.
struct Adopted {
    version: u32,
    sources: Vec<Source>,
    /// Of its first record; events under it come later.
    position: Position,
}

/// The versions that the journal holds, and where the next is recorded.
struct History {
    /// At least one; the last is the contract.
    adopted: Vec<Adopted>,
    seq: Seq,
}

impl History {
    /// Nothing if the journal is empty.
    async fn read<J: Journal>(journal: &J) -> Result<Option<Self>, ContractError> {
        let records = journal.read(&key(), Seq::NONE).await?;
        let Some(history) = Self::of(&records)? else {
            let is_empty = journal.feed(Position::START, 1).await?.is_empty();
            return if is_empty { Ok(None) } else { Err(ContractError::Missing) };
        };
        Ok(Some(history))
    }

    /// That of these records of contracts; nothing if there are none.
    fn of(records: &[Stored]) -> Result<Option<Self>, ContractError> {
        let Some(seq) = records.last().map(|record| record.seq) else { return Ok(None) };
        let mut adopted: Vec<Adopted> = Vec::new();
        for record in records {
            let (version, sources) = decode(record)?;
            // Recorded again, the version before is what a rollback leaves.
            while adopted.last().is_some_and(|last| last.version > version) {
                adopted.pop();
            }
            match adopted.last_mut() {
                Some(last) if last.version == version => last.sources = sources,
                _ => adopted.push(Adopted { version, sources, position: record.position }),
            }
        }
        Ok(Some(Self { adopted, seq }))
    }

    fn last(&self) -> &Adopted {
        self.adopted.last().expect("it holds at least one")
    }

    /// The model of the last version, which knows those before it.
    fn model(&self) -> Result<Rebel, ContractError> {
        let (first, later) = self.adopted.split_first().expect("it holds at least one");
        later.iter().try_fold(Rebel::new(accepted(first)?), |model, adopted| after(model, accepted(adopted)?))
    }

    /// The model of the version before the last, if there is one.
    fn model_before(&self) -> Result<Option<Rebel>, ContractError> {
        let mut before = self.adopted.iter().rev().skip(1).rev();
        let Some(first) = before.next() else { return Ok(None) };
        before.try_fold(Rebel::new(accepted(first)?), |model, adopted| after(model, accepted(adopted)?)).map(Some)
    }
}

/// The model by which events are judged that are in a journal with these records of contracts: `spec` is the contract of its
/// version, whatever is recorded, and all other versions are as they were recorded.
///
/// # Errors
/// It is of a version before the last one that is not among those recorded, or the versions do not follow on each other.
pub(crate) fn of_audit(recorded: &[Stored], spec: Arc<Spec>) -> Result<Rebel, ContractError> {
    let (version, mut specs) = (spec.version(), BTreeMap::new());
    if let Some(history) = History::of(recorded)? {
        let last = history.last().version;
        for adopted in history.adopted.iter().filter(|adopted| adopted.version != version) {
            specs.insert(adopted.version, accepted(adopted)?);
        }
        if version < last && specs.len() == history.adopted.len() {
            return Err(ContractError::Earlier { version: last, given: version });
        }
    }
    specs.insert(version, spec);
    let mut specs = specs.into_values();
    let first = Rebel::new(specs.next().expect("there is the one that is given"));
    specs.try_fold(first, |earlier, spec| {
        let refused = |report: Report| ContractError::NotMigratable { report: report.render(false) };
        let migration = spec.migration(earlier.spec()).map_err(refused)?;
        Ok(Rebel::after(earlier, migration, spec))
    })
}

/// The specification that was recorded.
fn accepted(adopted: &Adopted) -> Result<Arc<Spec>, ContractError> {
    let outdated = |report: Report| ContractError::Outdated { report: report.render(false) };
    enact_rebel::check(adopted.sources.clone()).map(Arc::new).map_err(outdated)
}

/// The recorded version that follows on that of `model`.
fn after(model: Rebel, spec: Arc<Spec>) -> Result<Rebel, ContractError> {
    let outdated = |report: Report| ContractError::Outdated { report: report.render(false) };
    let migration = spec.migration(model.spec()).map_err(outdated)?;
    Ok(Rebel::after(model, migration, spec))
}

/// What would become of the entities under other sources, and how they are served then.
pub(crate) struct Examined {
    pub(crate) change: Change,
    /// The entities under these sources.
    pub(crate) model: Rebel,
    /// Of the last record; nothing has been recorded since.
    seq: Seq,
}

/// What is to be done before entities are served.
pub(crate) enum Change {
    /// The journal is empty: these sources are its first contract.
    First,
    /// These sources are the contract, or say the same.
    None,
    /// Sources of the same version that say more than the contract, and nothing else of what there is.
    Additions,
    /// Other sources of the same version, under which all entities are what they were.
    Compatible {
        /// How many entities were compared.
        entities: usize,
        /// Those that gain a field.
        gaining: Vec<EntityKey>,
        /// Those that have a timer.
        timed: Vec<EntityKey>,
    },
    /// Sources of a later version.
    Version(Plan),
}

/// What the adoption of a later version changes.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) from: u32,
    pub(crate) to: u32,
    changes: Vec<Transformed>,
    /// How many entities each class has that is changed.
    migrating: BTreeMap<String, usize>,
    entities: usize,
    /// Entities that break an invariant, with what is broken; the first ones.
    unsound: Vec<(EntityKey, String)>,
    unsound_count: usize,
    /// Entities that have a timer in the later version.
    timed: Vec<EntityKey>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, changes, migrating, entities, unsound, unsound_count, timed: _ } = self;
        writeln!(f, "from version {from} to version {to}:")?;
        for change in changes {
            writeln!(f, "  {change}")?;
        }
        if changes.is_empty() {
            writeln!(f, "  no field and no state changes")?;
        }
        let migrating_count: usize = migrating.values().sum();
        write!(f, "entities: {entities}, of which {migrating_count} change")?;
        let classes: Vec<String> = migrating.iter().map(|(class, count)| format!("{class} {count}")).collect();
        writeln!(f, "{}", if classes.is_empty() { String::new() } else { format!(" ({})", classes.join(", ")) })?;
        write!(f, "entities that break an invariant of version {to}: {unsound_count}")?;
        for (entity, broken) in unsound {
            write!(f, "\n  {entity}: {broken}")?;
        }
        if *unsound_count > unsound.len() {
            write!(f, "\n  and {} more", unsound_count - unsound.len())?;
        }
        Ok(())
    }
}

impl Change {
    /// What is to be done with the entities of two journals.
    #[cfg(feature = "nats")]
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Version(plan), Self::Version(other)) => Self::Version(plan.and(other)),
            (
                Self::Compatible { mut entities, mut gaining, mut timed },
                Self::Compatible { entities: more, gaining: others, timed: also },
            ) => {
                entities += more;
                gaining.extend(others);
                timed.extend(also);
                Self::Compatible { entities, gaining, timed }
            }
            (one, other) if one.weight() < other.weight() => other,
            (one, _) => one,
        }
    }

    /// What is to be done for one journal is to be done for all, if it is more: entities whose specification this is count for more than
    /// a journal without any.
    #[cfg(feature = "nats")]
    fn weight(&self) -> u8 {
        match self {
            Self::First => 0,
            Self::None => 1,
            Self::Additions => 2,
            Self::Compatible { .. } => 3,
            Self::Version(_) => 4,
        }
    }
}

#[cfg(feature = "nats")]
impl Plan {
    fn and(mut self, other: Self) -> Self {
        other.migrating.into_iter().for_each(|(class, count)| *self.migrating.entry(class).or_insert(0) += count);
        self.entities += other.entities;
        self.unsound.extend(other.unsound);
        self.unsound.truncate(SHOWN_MAX);
        self.unsound_count += other.unsound_count;
        self.timed.extend(other.timed);
        self
    }
}

/// What becomes of a promise whose transaction is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// It is served with its entity, under the version that it was made under.
    Served,
    /// It is passed over, as if it came to nothing: beside a server that goes on there is always one.
    PassedOver,
}

/// Finds out what `spec`, made of `sources`, means for the entities in `journal`. Writes nothing.
///
/// # Errors
/// The entities cannot be served under it, with or without an adoption.
pub(crate) async fn examine<J: Journal>(
    journal: &J,
    sources: &[Source],
    spec: &Arc<Spec>,
    undecided: Undecided,
) -> Result<Examined, ContractError> {
    let Some(mut history) = History::read(journal).await? else {
        return Ok(Examined { change: Change::First, model: Rebel::new(Arc::clone(spec)), seq: Seq::NONE });
    };
    let (seq, version) = (history.seq, history.last().version);
    if spec.version() < version {
        return Err(ContractError::Earlier { version, given: spec.version() });
    }
    if spec.version() > version {
        let refused = |report: Report| ContractError::NotMigratable { report: report.render(false) };
        let earlier = history.model()?;
        let migration = spec.migration(earlier.spec()).map_err(refused)?;
        let changes = migration.changes();
        let model = Arc::new(Rebel::after(earlier, migration, Arc::clone(spec)));
        let plan = plan(journal, &model, version, changes, undecided).await?;
        let model = Arc::into_inner(model).expect("nothing is left of what was recovered");
        return Ok(Examined { change: Change::Version(plan), model, seq });
    }
    if enact_rebel::say_the_same(&history.last().sources, sources) {
        history.adopted.last_mut().expect("it holds at least one").sources = sources.to_vec();
        return Ok(Examined { change: Change::None, model: history.model()?, seq });
    }
    let change = enact_rebel::only_adds_classes(&history.last().sources, sources).then_some(Change::Additions);
    let earlier = Arc::new(history.model()?);
    history.adopted.last_mut().expect("it holds at least one").sources = sources.to_vec();
    let later = Arc::new(match history.model_before()? {
        None => Rebel::new(Arc::clone(spec)),
        Some(before) => {
            let refused = |report: Report| ContractError::NotMigratable { report: report.render(false) };
            let migration = spec.migration(before.spec()).map_err(refused)?;
            Rebel::after(before, migration, Arc::clone(spec))
        }
    });
    if let Some(change) = change {
        let model = Arc::into_inner(later).expect("nothing else has it yet");
        return Ok(Examined { change, model, seq });
    }
    let entities = entities(journal).await?;
    let (mut gaining, mut timed) = (Vec::new(), Vec::new());
    for entity in &entities {
        let Some(compared) = compare(journal, entity, &earlier, &later, undecided).await? else { continue };
        if compared.gains {
            gaining.push(entity.clone());
        }
        if later.due(entity, &compared.after.base).is_some() {
            timed.push(entity.clone());
        }
    }
    let model = Arc::into_inner(later).expect("nothing is left of what was recovered");
    Ok(Examined { change: Change::Compatible { entities: entities.len(), gaining, timed }, model, seq })
}

/// Records `sources`, which have been `examined`, as the contract, if they are not.
///
/// # Cancel safety
/// A dropped future has recorded the specification or has not; asking again is safe.
pub(crate) async fn adopt<J: Journal>(
    journal: &J,
    sources: &[Source],
    examined: Examined,
) -> Result<Rebel, ContractError> {
    let Examined { change, model, seq } = examined;
    match change {
        Change::None => return Ok(model),
        Change::First | Change::Additions => {}
        Change::Version(plan) => note_timers(journal, &plan.timed).await?,
        Change::Compatible { gaining, timed, .. } => {
            let history = History::read(journal).await?.ok_or(ContractError::Missing)?;
            let (earlier, later) = (Arc::new(history.model()?), Arc::new(model));
            // Recovered once more, because the images of all entities may not fit in memory.
            for entity in gaining {
                let Some(Compared { last, after, .. }) =
                    compare(journal, &entity, &earlier, &later, Undecided::Served).await?
                else {
                    continue;
                };
                let image = Image { entity: entity.clone(), seq: last, payload: after.encode() };
                let failed = |source| ContractError::Snapshot { entity: entity.clone(), source };
                journal.save_snapshot(image).await.map_err(failed)?;
            }
            note_timers(journal, &timed).await?;
            let model = Arc::into_inner(later).expect("nothing is left of what was recovered");
            record_sources(journal, sources, model.spec().version(), seq).await?;
            return Ok(model);
        }
    }
    record_sources(journal, sources, model.spec().version(), seq).await?;
    Ok(model)
}

/// The version that an event was recorded under, if the record is one of events.
fn version_of(record: &Stored) -> Result<Option<u32>, ContractError> {
    let decoded = Record::<EventCall>::decode(&record.payload);
    let undecodable = |source| ContractError::Undecodable { entity: record.entity.clone(), seq: record.seq, source };
    Ok(version_in(&decoded.map_err(undecodable)?))
}

/// The version that an event was written under, if the record is one of events.
fn version_in(record: &Record<EventCall>) -> Option<u32> {
    match record {
        Record::Committed { version, .. } => Some(*version),
        Record::Prepared(prepared) => Some(prepared.version),
        _ => None,
    }
}

/// The entity of the records of contracts.
pub(crate) fn key() -> EntityKey {
    EntityKey::new(".contract", "sources").expect("a valid name that no class can have")
}

/// Whether the records of `entity` are specifications.
pub(crate) fn is_of_contract(entity: &EntityKey) -> bool {
    *entity == key()
}

/// What tells the contract that `record` is from others, if it is one.
///
/// # Errors
/// [`Malformed`](ContractError::Malformed) when it is one that this program cannot read.
#[cfg(feature = "nats")]
pub(crate) fn digest_in(record: &Stored) -> Result<Option<String>, ContractError> {
    let is_contract = record.kind == KIND && is_of_contract(&record.entity);
    is_contract.then(|| decode(record).map(|(_, sources)| crate::spec::digest(&sources))).transpose()
}

/// The entity of the notes that stand where a journal ended when it was restored from a backup that lacked what the original had
/// discarded: up to there, transactions may lack parts.
pub(crate) fn gaps() -> EntityKey {
    EntityKey::new(".restored", "gaps").expect("a valid name")
}

/// Whether it is none of the entities that a specification declares: a transaction, a request, this contract.
pub(crate) fn is_internal(entity: &EntityKey) -> bool {
    entity.class().starts_with('.')
}

async fn record_sources<J: Journal>(
    journal: &J,
    sources: &[Source],
    contract: u32,
    expected: Seq,
) -> Result<(), AppendError> {
    let payload = encode(sources, contract);
    journal.append(vec![NewRecord { entity: key(), expected, kind: KIND, payload }]).await?;
    Ok(())
}

/// The payload of the record of a contract of that version.
pub(crate) fn encode(sources: &[Source], contract: u32) -> Vec<u8> {
    let sources = sources.iter().map(|source| (source.name.clone(), source.text.clone())).collect();
    let version = if contract == first() { WITHOUT_VERSION } else { WITH_VERSION };
    rmp_serde::to_vec_named(&Contract { version, sources, contract }).expect("texts serialise")
}

fn decode(record: &Stored) -> Result<(u32, Vec<Source>), ContractError> {
    let malformed = |why: String| ContractError::Malformed { why };
    let contract: Contract = rmp_serde::from_slice(&record.payload).map_err(|error| malformed(error.to_string()))?;
    if !(WITHOUT_VERSION..=WITH_VERSION).contains(&contract.version) {
        return Err(malformed(format!("its encoding is {}, this program reads {WITH_VERSION}", contract.version)));
    }
    let sources = contract.sources.into_iter().map(|(name, text)| Source::new(name, text)).collect();
    Ok((contract.contract, sources))
}

/// Every entity of a class in the journal.
async fn entities<J: Journal>(journal: &J) -> Result<BTreeSet<EntityKey>, ReadError> {
    let mut entities = BTreeSet::new();
    let mut position = Position::START;
    loop {
        let page = journal.feed(position, PAGE).await?;
        let Some(last) = page.last() else { return Ok(entities) };
        position = last.position;
        entities.extend(page.into_iter().map(|record| record.entity).filter(|entity| !is_internal(entity)));
    }
}

/// The records of an entity, and the number of the last; nothing if there are none.
async fn records<J: Journal>(
    journal: &J,
    entity: &EntityKey,
    undecided: Undecided,
) -> Result<Option<(Seq, Vec<Record<EventCall>>)>, ContractError> {
    let stored = journal.read(entity, Seq::NONE).await?;
    let Some(last) = stored.last().map(|record| record.seq) else { return Ok(None) };
    let mut records = Vec::with_capacity(stored.len());
    for record in &stored {
        let undecodable = |source| ContractError::Undecodable { entity: entity.clone(), seq: record.seq, source };
        records.push(Record::decode(&record.payload).map_err(undecodable)?);
    }
    if undecided == Undecided::PassedOver {
        let decided: BTreeSet<Slot> = records.iter().filter_map(decided_in).collect();
        records.retain(|record| !matches!(record, Record::Prepared(promise) if !decided.contains(&promise.slot)));
    }
    Ok(Some((last, records)))
}

/// The slot of the promise that is decided, if the record says so of one.
fn decided_in(record: &Record<EventCall>) -> Option<Slot> {
    match record {
        Record::Committed { slot, .. } | Record::Outcome { slot, .. } => Some(*slot),
        _ => None,
    }
}

/// Migrates every entity to the version of `later`, and forgets what it becomes.
async fn plan<J: Journal>(
    journal: &J,
    later: &Arc<Rebel>,
    from: u32,
    changes: Vec<Transformed>,
    undecided: Undecided,
) -> Result<Plan, ContractError> {
    let changed: BTreeSet<&str> = changes.iter().map(|change| &**change.class()).collect();
    let mut plan = Plan {
        from,
        to: later.spec().version(),
        changes: Vec::new(),
        migrating: BTreeMap::new(),
        entities: 0,
        unsound: Vec::new(),
        unsound_count: 0,
        timed: Vec::new(),
    };
    for entity in entities(journal).await? {
        let Some((_, records)) = records(journal, &entity, undecided).await? else { continue };
        let class = entity.class();
        let is_dropped = later.spec().class(class).is_none();
        // What an earlier version has dropped is not there any more.
        if is_dropped && !changed.contains(class) {
            continue;
        }
        plan.entities += 1;
        if changed.contains(class) {
            *plan.migrating.entry(class.to_owned()).or_default() += 1;
        }
        if is_dropped {
            continue;
        }
        let recovered = recover(&entity, later, records)?;
        if later.due(&entity, &recovered.base).is_some() {
            plan.timed.push(entity.clone());
        }
        if let Some(broken) = broken(later, &entity, &recovered.base) {
            plan.unsound_count += 1;
            if plan.unsound.len() < SHOWN_MAX {
                plan.unsound.push((entity, broken));
            }
        }
    }
    Ok(Plan { changes, ..plan })
}

/// The invariants that an entity breaks, in words.
fn broken(model: &Rebel, entity: &EntityKey, instance: &Instance) -> Option<String> {
    if model.is_sound(entity, instance) {
        return None;
    }
    let class = model.spec().class(entity.class())?;
    let key = class.key(entity.id()).ok()?;
    // The time decides nothing about an invariant.
    let broken = class.broken_invariants(&key, instance, Timestamp::from_millis(0));
    let words: Vec<String> = broken.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Notes the timers that entities have by now, so that the engine looks at them: their events were written without.
async fn note_timers<J: Journal>(journal: &J, timed: &[EntityKey]) -> Result<(), ContractError> {
    let mut ends: BTreeMap<EntityKey, Seq> = BTreeMap::new();
    for page in timed.chunks(PAGE) {
        let mut notes = Vec::with_capacity(page.len());
        for entity in page {
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
    /// Whether it has more by that than by the earlier one, and a snapshot may say so.
    gains: bool,
}

/// Fails unless `entity` is under `later` what it is under `earlier`, but for fields and timers that `later` adds.
async fn compare<J: Journal>(
    journal: &J,
    entity: &EntityKey,
    earlier: &Arc<Rebel>,
    later: &Arc<Rebel>,
    undecided: Undecided,
) -> Result<Option<Compared>, ContractError> {
    let Some((last, records)) = records(journal, entity, undecided).await? else { return Ok(None) };
    // Neither has what an earlier version has dropped.
    if earlier.spec().class(entity.class()).is_none() {
        return Ok(None);
    }
    let version = later.spec().version();
    let has_happened = records.iter().any(|record| version_in(record) == Some(version));
    let before = recover(entity, earlier, records.clone())?;
    let after = recover(entity, later, records)?;
    if let Some(difference) = difference(&before.base, &after.base) {
        return Err(ContractError::Different { entity: entity.clone(), difference });
    }
    // What has not happened under this version has no snapshot of it, and must not have one: the version may be taken back.
    let gains = has_happened && before.base != after.base;
    Ok(Some(Compared { last, after, gains }))
}

type Snapshot = enact_entities::Snapshot<Instance, EventCall>;

fn recover(entity: &EntityKey, model: &Arc<Rebel>, records: Vec<Record<EventCall>>) -> Result<Snapshot, ContractError> {
    let options = ParticipantOptions::new(Strategy::default());
    let recovered = Participant::recover(Arc::clone(model), entity.clone(), options, None, records, Millis(0));
    let (participant, _) = recovered.map_err(|error| match error {
        RecoveryError::NotMigrated { entity, from, reasons } => {
            let reasons = reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            ContractError::NotMigrated { entity, from, reasons }
        }
        error => ContractError::NotAllowed(error),
    })?;
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

    async fn adopt_text(journal: &Memory, text: &str) -> Result<(), ContractError> {
        let sources = [Source::new("lamp.rebel", text)];
        let spec = enact_rebel::check(sources.to_vec()).expect("a sound specification");
        let examined = examine(journal, &sources, &Arc::new(spec), Undecided::Served).await?;
        adopt(journal, &sources, examined).await.map(drop)
    }

    async fn adopt_lamp(journal: &Memory) -> Result<(), ContractError> {
        adopt_text(journal, LAMP).await
    }

    async fn append(journal: &Memory, entity: EntityKey, payload: &[u8]) {
        let record = NewRecord { entity, expected: Seq::NONE, kind: KIND, payload: payload.to_vec() };
        journal.append(vec![record]).await.expect("a good journal");
    }

    fn recorded(version: u8, text: &str) -> Vec<u8> {
        let sources = vec![("lamp.rebel".to_owned(), text.to_owned())];
        rmp_serde::to_vec_named(&Contract { version, sources, contract: 1 }).expect("texts serialise")
    }

    #[tokio::test]
    async fn the_first_specification_is_recorded_once() {
        let journal = Memory::new();
        adopt_lamp(&journal).await.expect("an empty journal");
        adopt_lamp(&journal).await.expect("the same");
        adopt_text(&journal, &format!("// The same.\n{LAMP}")).await.expect("it says the same");
        assert_eq!(journal.last(&key()).await.expect("readable"), Seq(1));
    }

    /// A record that cannot be read shows that none was.
    #[tokio::test]
    async fn added_classes_are_recorded_without_a_look_at_any_entity() {
        let journal = Memory::new();
        adopt_lamp(&journal).await.expect("an empty journal");
        append(&journal, EntityKey::new("Lamp", "l1").expect("a name"), b"nonsense").await;
        let with_door = format!("{LAMP}\nclass Door initial shut on Open(): open\nopen");
        adopt_text(&journal, &with_door).await.expect("the lamps are what they were");
        assert_eq!(journal.last(&key()).await.expect("readable"), Seq(2));
        let with_event = format!("{with_door} on Shut(): open");
        let error = adopt_text(&journal, &with_event).await.expect_err("the lamps are compared");
        assert!(matches!(error, ContractError::Undecodable { .. }), "{error}");
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
        for payload in [b"nonsense".to_vec(), recorded(WITH_VERSION + 1, LAMP)] {
            let journal = Memory::new();
            append(&journal, key(), &payload).await;
            let error = adopt_lamp(&journal).await.expect_err("not readable");
            assert!(matches!(error, ContractError::Malformed { .. }) && error.is_of_the_directory(), "{error}");
        }
    }

    #[tokio::test]
    async fn a_recorded_specification_that_is_no_longer_accepted_is_shown() {
        let journal = Memory::new();
        append(&journal, key(), &recorded(WITHOUT_VERSION, "class Lamp initial off on Light(): lost")).await;
        let error = adopt_lamp(&journal).await.expect_err("not accepted");
        assert!(matches!(error, ContractError::Outdated { .. }) && !error.is_of_the_directory(), "{error}");
        assert!(error.to_string().contains("E104"), "{error}");
    }

    #[tokio::test]
    async fn an_entity_whose_records_cannot_be_read_is_named() {
        let journal = Memory::new();
        append(&journal, key(), &recorded(WITHOUT_VERSION, "class Lamp initial off on Light(): lit\nlit\non Dim()"))
            .await;
        append(&journal, EntityKey::new("Lamp", "l1").expect("a name"), b"nonsense").await;
        let error = adopt_lamp(&journal).await.expect_err("not readable");
        assert!(matches!(error, ContractError::Undecodable { .. }) && error.is_of_the_directory(), "{error}");
        assert!(error.to_string().contains("Lamp/l1: record 1"), "{error}");
    }
}
