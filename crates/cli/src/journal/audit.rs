//! `enact audit`: everything in a journal that a specification does not allow, or in those of all shards.
//!
//! # Passes
//! A journal may be larger than the memory, and has the records of an entity anywhere. So it is read several times:
//! * once for the contracts that are recorded in it, for its end, for its size, and for the decisions that are not acknowledged;
//! * once for each part of the entities, as many as it takes for the records of one part to fit into [`PART_BYTES`]: their events
//!   are judged ([`enact_entities::audit`](fn@enact_entities::audit)), and what is learnt of transactions is [put aside](facts);
//! * and, if the calls of some transactions do not add up, for these once more by parts, to tell what is wrong
//!   ([`enact_entities::miscalls`]).
//!
//! # Calls
//! What is kept of the calls of a transaction is the sum of a hash of each event that has happened, less that of each event that was called.
//! All but the first one are called, so the first one is left. Hashes have a random key, so that nobody can choose events by them.
//! Calls are not compared if not all of the transaction is in these journals, or something of it could not be judged.
//!
//! # Shards
//! A participant in another shard than its coordinator has promised and hears of the decision later. So what is decided is judged there as
//! soon as the decision is recorded, and what each participant holds is compared with it ([`enact_entities::disagreements`]).

pub(super) mod facts;
mod findings;
pub(super) mod store;
#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::Arc;

use enact_entities::{
    Acted, Action, Audited as Part, AuditedOf, Contradiction, Decided, Decision, Durability, EntityKey, Held, Holding,
    Judged, Model, Rebel, Record, Slot, TxId, audit, disagreements, miscalls,
};
use enact_journal::{Kind, Position, Record as Stored};
use enact_rebel::{EventCall, Instance};

use self::facts::{Fact, Facts, Known};
use self::findings::{Audited, Findings, Place};
use self::store::{At, Store};
use super::tally::decode;
use crate::contract::{self, ContractError};
use crate::failure::Failure;
use crate::{args, spec};

/// How many bytes of memory the records of one part may take, unless they are those of one entity.
const PART_BYTES: u64 = 256 << 20;
/// How many transactions are looked at closely whose calls do not add up.
const UNBALANCED_MAX: usize = 10_000;
/// The class of the entity of a coordinator that has its decisions on participants elsewhere, and their ends.
const DECISIONS: &str = ".decisions";
/// The kinds of these two.
pub(super) const DECISION: Kind = Kind(4);
pub(super) const END: Kind = Kind(6);

pub(crate) fn run(args: &args::Audit) -> Result<(), Failure> {
    let sources = spec::read(&args.spec.files)?;
    let spec = Arc::new(spec::check(sources)?);
    let mut store = Store::of(args)?;
    let survey = Survey::of(&mut store)?;
    let of_contract = |source: ContractError| Failure::Audit { place: args.place(), source };
    let model = contract::of_audit(survey.contracts(), spec).map_err(of_contract)?;
    let findings = Findings::new(io::stdout().lock(), args.json, store.all());
    let mut audit = Audit::new(&store, survey, model, findings);
    audit.run()?;
    audit.tell()
}

/// What is known of a store before it is audited.
#[derive(Default)]
struct Survey {
    /// Those that are recorded in each shard.
    contracts: BTreeMap<u16, Vec<Stored>>,
    /// Of the records of entities.
    bytes: u64,
    /// The participants elsewhere of what is decided, and not known to be acknowledged by all.
    undelivered: HashMap<TxId, Vec<(EntityKey, Slot)>>,
    /// The decisions on participants elsewhere, and their ends; and what may lack parts, if there are tombstones.
    facts: Facts,
    has_tombstones: bool,
    /// Up to where transactions of each shard may lack parts, as it was restored from a backup that had gaps.
    restored: HashMap<u16, Position>,
}

impl Survey {
    fn of(store: &mut Store<'_>) -> Result<Self, Failure> {
        let mut survey = Self::default();
        store.survey(|shard, record, lacks_some| {
            survey.has_tombstones |= record.kind == Kind::TOMBSTONE;
            if record.entity == contract::gaps() {
                survey.restored.insert(shard, record.position);
            }
            if contract::is_of_contract(&record.entity) {
                survey.contracts.entry(shard).or_default().push(record);
            } else if !contract::is_internal(&record.entity) {
                survey.bytes += (ENTRY_BYTES + record.payload.len()) as u64;
                if lacks_some && let Record::Committed { tx, .. } = decode(&record)? {
                    survey.facts.add(tx, &Fact::Discarded)?;
                }
            } else if is_of_decision(&record) {
                let at = At { shard, position: record.position };
                match decode(&record)? {
                    Record::Decision(decision) => {
                        let participants = decision.participants;
                        survey.undelivered.insert(decision.tx, participants.clone());
                        survey.facts.add(decision.tx, &Fact::Decided(Decided { position: at, participants }))?;
                    }
                    Record::End { tx } => {
                        survey.undelivered.remove(&tx);
                        survey.facts.add(tx, &Fact::Acknowledged(at))?;
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        Ok(survey)
    }

    /// Those of the shard that has most: one that is being adopted is not in all of them yet.
    fn contracts(&self) -> &[Stored] {
        self.contracts.values().max_by_key(|of_shard| of_shard.len()).map_or(&[], Vec::as_slice)
    }
}

/// Whether `record` has a decision on participants elsewhere, or its end.
fn is_of_decision(record: &Stored) -> bool {
    record.entity.class() == DECISIONS && [DECISION, END].contains(&record.kind)
}

/// A record of an entity, as it is kept until it is judged.
struct Entry {
    slot: Option<Slot>,
    at: At,
    kind: Kind,
    payload: Box<[u8]>,
}

/// About how many bytes are kept of a record, beside its payload: it may be the only one of its entity, with a key and a place among
/// all entities.
const ENTRY_BYTES: usize = 2 * size_of::<Entry>() + 100;

/// The records of entities, in the order of their slots. Two shards may have records of one entity, though none should.
type Entries = BTreeMap<(EntityKey, u16), Vec<Entry>>;

/// The events of a transaction with their entities, and the place of each.
type Happened = (Vec<Place>, Vec<(EntityKey, Acted<EventCall>)>);

struct Audit<'a, W> {
    store: &'a Store<'a>,
    /// As in the [`Survey`].
    undelivered: HashMap<TxId, Vec<(EntityKey, Slot)>>,
    parts: u64,
    model: Rebel,
    facts: Facts,
    has_tombstones: bool,
    /// As in the [`Survey`].
    restored: HashMap<u16, Position>,
    /// Of the hashes of events.
    key: RandomState,
    findings: Findings<W>,
    audited: Audited,
}

impl<'a, W: Write> Audit<'a, W> {
    fn new(store: &'a Store<'a>, survey: Survey, model: Rebel, findings: Findings<W>) -> Self {
        let parts = survey.bytes.div_ceil(PART_BYTES).max(1);
        let Survey { undelivered, facts, has_tombstones, restored, .. } = survey;
        let (key, audited) = (RandomState::new(), Audited::default());
        Self { store, undelivered, parts, model, facts, has_tombstones, restored, key, findings, audited }
    }

    fn run(&mut self) -> Result<(), Failure> {
        for part in 0..self.parts {
            let mut entries = self.entries(part)?;
            for superseded in entries.values_mut().flat_map(take_superseded) {
                if let Record::Committed { tx, .. } = decoded(&superseded.payload) {
                    self.facts.add(tx, &Fact::Discarded)?;
                }
            }
            self.put_held_aside(&entries)?;
            for ((entity, shard), entries) in entries {
                self.audited.entities += 1;
                self.check_home(&entity, shard, &entries)?;
                self.judge(&entity, entries)?;
            }
        }
        let unbalanced = self.compare()?;
        self.look_closely(&unbalanced)
    }

    /// The records of all entities of one part.
    fn entries(&self, part: u64) -> Result<Entries, Failure> {
        let mut entries = Entries::new();
        let is_of_part = |entity: &EntityKey| {
            let mut hasher = DefaultHasher::new();
            entity.hash(&mut hasher);
            hasher.finish() % self.parts == part
        };
        self.store.each_record(|shard, record| {
            // Of whichever kind: a recovery reads all records of an entity.
            if !contract::is_internal(&record.entity) && is_of_part(&record.entity) {
                let slot = decode(&record)?.slot();
                let Stored { entity, position, kind, payload, .. } = record;
                // Most entities of many have one record.
                let of_entity = entries.entry((entity, shard)).or_insert_with(|| Vec::with_capacity(1));
                of_entity.push(Entry { slot, at: At { shard, position }, kind, payload: payload.into_boxed_slice() });
            }
            Ok(())
        })?;
        entries.values_mut().for_each(|entries| entries.sort_by_key(|entry| entry.slot));
        Ok(entries)
    }

    fn put_held_aside(&mut self, entries: &Entries) -> Result<(), Failure> {
        for ((entity, _), entries) in entries {
            for Entry { at, payload, .. } in entries {
                if let Some((tx, held @ Fact::Held(_))) = Fact::over_journals(*at, entity, decoded(payload)) {
                    self.facts.add(tx, &held)?;
                }
            }
        }
        Ok(())
    }

    /// Tells of an entity that lies in a shard where nobody looks for it.
    fn check_home(&mut self, entity: &EntityKey, shard: u16, entries: &[Entry]) -> Result<(), Failure> {
        let Some(home) = self.store.other_home(entity, shard) else { return Ok(()) };
        let first = entries.iter().min_by_key(|entry| entry.at.position).expect("it has records");
        self.findings.misplaced(entity, first.at, first.slot, home)
    }

    fn judge(&mut self, entity: &EntityKey, entries: Vec<Entry>) -> Result<(), Failure> {
        let entries = with_decided(entity, entries, &self.undelivered);
        let Self { model, facts, findings, key, restored, .. } = self;
        let waiting = each_audited(model, entity, entries, |audited| match audited {
            Part::Judged(judged) => {
                if restored.get(&judged.position.shard).is_some_and(|end| judged.position.position < *end) {
                    facts.add(judged.tx, &Fact::Discarded)?;
                }
                facts.add(judged.tx, &acted(model, key, entity, &judged))?;
                findings.refused(entity, &judged)
            }
            Part::Unjudged { position, tx, slot, why } => {
                facts.add(tx, &Fact::Untold)?;
                findings.unjudged(entity, (position, tx, slot), &why)
            }
            Part::Contradicted { position, tx, slot, why } => {
                let by = if let Contradiction::SlotTaken { by } = why { Some(by) } else { None };
                tx.into_iter().chain(by).try_for_each(|tx| facts.add(tx, &Fact::Untold))?;
                findings.contradicted(entity, (position, tx, slot), why)
            }
        })?;
        waiting.iter().try_for_each(|&tx| self.facts.add(tx, &Fact::Waiting))
    }

    /// Compares what is known of each transaction; those whose calls do not add up.
    fn compare(&mut self) -> Result<HashSet<TxId>, Failure> {
        let facts = std::mem::take(&mut self.facts);
        let Self { store, findings, audited, has_tombstones, .. } = self;
        let mut unbalanced = HashSet::new();
        facts.each(|tx, known| {
            let Known { decisions, held, acknowledged, .. } = &known;
            let is_over_shards = known.is_part || !decisions.is_empty();
            if known.has_acted || known.is_untold || known.is_waiting || is_over_shards {
                audited.transactions += 1;
            }
            audited.waiting += u64::from(known.is_waiting);
            let mut is_whole = !known.is_untold && !known.is_waiting;
            if store.all().is_some() {
                let found = disagreements(decisions, held, *acknowledged, |at| store.is_settled(at));
                found.iter().try_for_each(|found| findings.disagrees(tx, found))?;
                audited.in_doubt += u64::from(is_in_doubt(&known));
                let is_decided = decisions.first().is_some_and(|decided| store.is_settled(decided.position));
                audited.begun += u64::from(is_over_shards && !is_decided && found.is_empty());
                is_whole &= found.is_empty() && (is_decided || !is_over_shards);
            } else {
                audited.elsewhere += u64::from(is_over_shards);
                is_whole &= !is_over_shards;
            }
            if is_whole && !known.adds_up() {
                if *has_tombstones && known.is_discarded {
                    audited.discarded += 1;
                } else if unbalanced.len() < UNBALANCED_MAX {
                    unbalanced.insert(tx);
                } else {
                    audited.overlooked += 1;
                }
            }
            Ok(())
        })?;
        Ok(unbalanced)
    }

    /// Tells what is wrong with these transactions.
    fn look_closely(&mut self, unbalanced: &HashSet<TxId>) -> Result<(), Failure> {
        if unbalanced.is_empty() {
            return Ok(());
        }
        let mut transactions: BTreeMap<TxId, Happened> = BTreeMap::new();
        for part in 0..self.parts {
            for ((entity, _), mut entries) in self.entries(part)? {
                take_superseded(&mut entries);
                let entries = with_decided(&entity, entries, &self.undelivered);
                each_audited(&self.model, &entity, entries, |audited| {
                    if let Part::Judged(judged) = audited
                        && unbalanced.contains(&judged.tx)
                    {
                        let (places, events) = transactions.entry(judged.tx).or_default();
                        let place = Place::of(&judged);
                        places.extend(judged.events.iter().map(|_| place));
                        events.extend(judged.events.into_iter().map(|acted| (entity.clone(), acted)));
                    }
                    Ok(())
                })?;
            }
        }
        for (places, events) in transactions.into_values() {
            let version = places.first().map_or(0, |place| place.version);
            let model = self.model.under(version).unwrap_or(&self.model);
            for miscall in miscalls(model, &events) {
                self.findings.miscalled(&places, &events, &miscall)?;
            }
        }
        Ok(())
    }

    fn tell(mut self) -> Result<(), Failure> {
        self.findings.sum_up(&self.audited)
    }
}

/// Takes out what a tombstone stands for: a part of it would be of no use.
fn take_superseded(entries: &mut Vec<Entry>) -> Vec<Entry> {
    let tombstone = entries.iter().position(|entry| entry.kind == Kind::TOMBSTONE);
    tombstone.map_or_else(Vec::new, |tombstone| entries.drain(..tombstone).collect())
}

/// The record that was decoded before, for its slot.
fn decoded(payload: &[u8]) -> Record<EventCall> {
    Record::decode(payload).expect("it was decoded before, for its slot")
}

/// `entries`, with the outcomes of promises there that are decided and that `entity` has not heard of.
fn with_decided(
    entity: &EntityKey,
    mut entries: Vec<Entry>,
    undelivered: &HashMap<TxId, Vec<(EntityKey, Slot)>>,
) -> Vec<Entry> {
    if undelivered.is_empty() {
        return entries;
    }
    let (mut promised, mut told) = (Vec::new(), HashSet::new());
    for Entry { at, payload, .. } in &entries {
        match decoded(payload) {
            Record::Prepared(prepared) => promised.push((prepared.branch.tx, prepared.slot, *at)),
            Record::Outcome { tx, slot, .. } => drop(told.insert((tx, slot))),
            _ => {}
        }
    }
    for (tx, slot, at) in promised {
        let is_decided = undelivered.get(&tx).is_some_and(|named| named.contains(&(entity.clone(), slot)));
        if is_decided && !told.contains(&(tx, slot)) {
            let outcome = Record::<EventCall>::Outcome { tx, slot, decision: Decision::Commit };
            let (kind, payload) = (Kind(outcome.kind()), outcome.encode().into_boxed_slice());
            entries.push(Entry { slot: Some(slot), at, kind, payload });
        }
    }
    entries.sort_by_key(|entry| entry.slot);
    entries
}

/// Audits an entity, up to the first failure of `see`; returns what waits there.
fn each_audited(
    model: &Rebel,
    entity: &EntityKey,
    entries: Vec<Entry>,
    mut see: impl FnMut(AuditedOf<'_, Rebel, At>) -> Result<(), Failure>,
) -> Result<Vec<TxId>, Failure> {
    let mut done = Ok(());
    let records = entries.into_iter().map(|Entry { at, payload, .. }| (at, decoded(&payload)));
    let waiting = audit(model, entity, records, |audited| {
        if done.is_ok() {
            done = see(audited);
        }
    });
    done.map(|()| waiting)
}

/// What is kept of the events that have happened at one entity.
fn acted(model: &Rebel, key: &RandomState, entity: &EntityKey, judged: &Judged<'_, Instance, EventCall, At>) -> Fact {
    // A call has no answers: the coordinator adds them.
    let hash = |entity: &EntityKey, event: &EventCall| key.hash_one((entity, event.clone().with_answers(Vec::new())));
    let model = model.under(judged.version).unwrap_or(model);
    let (mut sum, mut beginnings) = (0_u64, Vec::new());
    for Acted { event, calls } in &judged.events {
        let Some(calls) = calls else { return Fact::Untold };
        let of_event = hash(entity, event);
        sum = sum.wrapping_add(of_event);
        if !model.is_internal(entity, event) {
            beginnings.push(of_event);
        }
        for call in calls {
            if let Action::Event(event) = &call.action {
                sum = sum.wrapping_sub(hash(&call.key, event));
            }
        }
    }
    Fact::Acted { sum, beginnings, is_part: judged.durability == Durability::TwoPhase }
}

/// Whether a participant has promised, and nothing says what becomes of it.
fn is_in_doubt(known: &Known) -> bool {
    let last = |entity: &EntityKey| {
        known.held.iter().filter(|held| held.entity == *entity).max_by_key(|held| held.slot).map(|held| held.slot)
    };
    let is_told = |of: &Held<At>| {
        known
            .held
            .iter()
            .any(|held| held.entity == of.entity && held.slot == of.slot && held.holding != Holding::Promised)
    };
    let is_open =
        |held: &Held<At>| held.holding == Holding::Promised && last(&held.entity) == Some(held.slot) && !is_told(held);
    known.decisions.is_empty() && known.held.iter().any(is_open)
}
