//! When to look at which entity: the timers of all of them, in memory and in the journal.
//!
//! # Problem
//! An entity says itself what is due there, from its state. But somebody has to look at it in time, whether it is in memory or
//! not, also after a crash, and without a look at every entity that there is.
//!
//! # What is kept
//! In memory, for each entity with a timer, when to look at it: as it was found in the state that is applied. In
//! the journal, *notes* and snapshots of them, under a few entities of their own, `.timers/0` and so on; the hash of an
//! entity says which is its own. A note names an entity and stands in the same record group as the effect that may have set a timer.
//! A snapshot has what memory has. So what is needed at a start is a snapshot for each of them, and the notes behind it.
//!
//! # Why none is missing
//! A transaction that may set a timer at an entity writes a note of it, unless a durable one stands behind the last
//! snapshot. A snapshot covers the notes before its position; it has a time for an entity only if every transaction that
//! was begun there has been applied, and says otherwise that it is not known, which has the entity looked at. What is
//! begun after it writes a note again. So each entity with a timer is in a snapshot with the time that its state says, or
//! without one, or in a note behind it.
//!
//! # Why one too many does no harm
//! An entity that is looked at says from its state what is due. So it does nothing that is not due next.
//!
//! # Who may touch what
//! Each shard has a lock, under which nothing is awaited. Transactions [begin](Timers::begin) before their append, and say
//! whether it was [durable](Timers::noted) before the entities hear of it; an entity says what it
//! [has applied](Timers::applied). The one who [fires](super::firing) takes an entity in hand, and puts it back.
//!
//! # Memory
//! An entity with a timer takes about 240 bytes, as measured with a million of them whose names have 20 bytes. So does one that is
//! in a note alone, until the next snapshot.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use enact_journal::{EntityKey, Journal, Kind, Seq, Snapshot as Image};
use enact_sync::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::committer::{Append, Tail};
use super::entity::DurableRecords;
use super::error::EntityError;
use crate::record::{Record, TimerSnapshot};
use crate::tx::{Timestamp, TxId};

/// How many parts there are; an entity belongs to the same one for ever.
const SHARDS: usize = 16;

/// The class of the entities that notes belong to.
const CLASS: &str = ".timers";

/// How many notes are written between two snapshots at least; as many as there are timers, if those are more.
const NOTES_BETWEEN_SNAPSHOTS: usize = 256;

/// The time of an entity that is to be looked at because nothing is known of it.
const UNKNOWN: Timestamp = Timestamp(i64::MIN);

/// The timers of an engine.
#[derive(Debug)]
pub(super) struct Timers {
    shards: Vec<Shard>,
    /// An earlier time than before may have come to be the next.
    changed: Notify,
}

#[derive(Debug)]
struct Shard {
    key: EntityKey,
    tail: Arc<Tail>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<EntityKey, Entry>,
    /// When to look at which entity that nobody has in hand.
    order: BTreeSet<(Timestamp, EntityKey)>,
    /// What was begun at an entity, may set a timer there, and has not been applied.
    under_way: BTreeMap<EntityKey, Vec<TxId>>,
    durable: DurableRecords,
    notes_since_snapshot: usize,
    /// How many entries have something due.
    pending: usize,
    /// Whether the notes of the journal have been read, so that it is known which of them are durable.
    is_restored: bool,
}

/// What is known of one entity.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// From when on something is due there, if anything.
    due: Option<Timestamp>,
    /// Not to be looked at before, because the last look was in vain.
    not_before: Option<Timestamp>,
    /// Whether a durable note stands behind the last snapshot.
    is_noted: bool,
    /// Somebody looks at it.
    is_in_hand: bool,
}

impl Entry {
    fn look(&self) -> Option<Timestamp> {
        let due = self.due.filter(|_| !self.is_in_hand)?;
        Some(self.not_before.map_or(due, |not_before| not_before.max(due)))
    }
}

/// A note that a transaction has to write.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// The entity that may have set a timer.
    pub(super) of: EntityKey,
    /// Under which key it is written, behind which records.
    pub(super) key: EntityKey,
    pub(super) tail: Arc<Tail>,
}

impl Note {
    /// What is appended for it.
    pub(super) fn append<E: Serialize + DeserializeOwned>(&self) -> Append {
        let record = Record::<E>::Timer { entity: self.of.clone() };
        let (key, tail, kind) = (self.key.clone(), Arc::clone(&self.tail), Kind(record.kind()));
        Append { key, tail, kind, payload: record.encode(), depends_on: None }
    }
}

impl Timers {
    pub(super) fn new() -> Self {
        let shard = |number| Shard { key: key(number), tail: Arc::default(), state: Mutex::default() };
        Self { shards: (0..SHARDS).map(shard).collect(), changed: Notify::new() }
    }

    fn shard(&self, entity: &EntityKey) -> &Shard {
        &self.shards[number(entity)]
    }

    /// A transaction may set a timer at `entity`; the note that it writes with its effects, if it has to.
    pub(super) fn begin(&self, entity: &EntityKey, tx: TxId) -> Option<Note> {
        let shard = self.shard(entity);
        let mut state = shard.state.lock();
        state.under_way.entry(entity.clone()).or_default().push(tx);
        let is_noted = state.entries.get(entity).is_some_and(|entry| entry.is_noted);
        (!is_noted).then(|| Note { of: entity.clone(), key: shard.key.clone(), tail: Arc::clone(&shard.tail) })
    }

    /// A note is durable, at this position of its key.
    pub(super) fn noted(&self, note: &Note, seq: Seq) {
        let mut state = self.shard(&note.of).state.lock();
        state.durable.add(seq);
        state.notes_since_snapshot += 1;
        state.change(&note.of, |entry| entry.is_noted = true);
    }

    /// What was begun will not happen.
    pub(super) fn cancelled(&self, entity: &EntityKey, tx: TxId) {
        self.shard(entity).state.lock().ended(entity, tx);
    }

    /// The entity has applied these transactions, if any, and in its state something is due from `due` on, if anything.
    pub(super) fn applied(&self, entity: &EntityKey, txs: &[TxId], due: Option<Timestamp>) {
        let mut state = self.shard(entity).state.lock();
        txs.iter().for_each(|&tx| state.ended(entity, tx));
        if state.change(entity, |entry| (entry.due, entry.not_before) = (due, None)) {
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Takes the entity in hand that is to be looked at first, if its time has come.
    pub(super) fn take(&self, now: Timestamp) -> Option<EntityKey> {
        let shard = self.shards.iter().filter_map(|shard| Some((shard.state.lock().next()?, shard)));
        let (_, shard) = shard.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at)?;
        let mut state = shard.state.lock();
        let (_, entity) = state.order.first().filter(|(at, _)| *at <= now)?.clone();
        state.change(&entity, |entry| entry.is_in_hand = true);
        Some(entity)
    }

    /// Puts an entity back that was in hand; if the look was in vain, it is not looked at again before `not_before`.
    pub(super) fn put_back(&self, entity: &EntityKey, not_before: Option<Timestamp>) {
        let mut state = self.shard(entity).state.lock();
        state.change(entity, |entry| (entry.is_in_hand, entry.not_before) = (false, not_before));
        drop(state);
        self.changed.notify_one();
    }

    /// When something is to be looked at next, if anything.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.shards.iter().filter_map(|shard| shard.state.lock().next()).min()
    }

    /// Waits until an earlier time than before may be the next. A change that comes before the wait counts.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// How many entities have a timer, as far as is known.
    pub(super) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.state.lock().pending).sum()
    }

    /// Reads what the journal has. Until then entities are noted and not looked at, but for those that were asked for meanwhile.
    pub(super) async fn restore<E, J: Journal>(&self, journal: &J) -> Result<(), EntityError>
    where
        E: Serialize + DeserializeOwned,
    {
        for shard in &self.shards {
            let loaded = journal.load(&shard.key).await?;
            let covered = loaded.snapshot.as_ref().map_or(Seq::NONE, |image| image.seq);
            let snapshot = loaded.snapshot.map(|image| TimerSnapshot::decode(&image.payload)).transpose();
            let snapshot = snapshot.map_err(|cause| EntityError::undecodable(&shard.key, covered, cause))?;
            let mut notes = Vec::new();
            for record in loaded.records {
                match Record::<E>::decode(&record.payload) {
                    Ok(Record::Timer { entity }) => notes.push((record.seq, entity)),
                    Ok(_) => return Err(EntityError::Misplaced { entity: shard.key.clone(), seq: record.seq }),
                    Err(cause) => return Err(EntityError::undecodable(&shard.key, record.seq, cause)),
                }
            }
            let known = snapshot.map_or_else(Vec::new, |snapshot| snapshot.due);
            shard.state.lock().restore(covered, known, notes);
        }
        self.changed.notify_one();
        Ok(())
    }

    /// The snapshots that are due, or all of them. What has been written since the last ones is noted anew from now on.
    pub(super) fn snapshots(&self, all: bool) -> Vec<Image> {
        let snapshot = |shard: &Shard| {
            let (seq, snapshot) = shard.state.lock().snapshot(all)?;
            Some(Image { entity: shard.key.clone(), seq, payload: snapshot.encode() })
        };
        self.shards.iter().filter_map(snapshot).collect()
    }
}

/// The key under which an entity's timers are noted, as a [`Record::Timer`](crate::Record::Timer) with the entity in it. An
/// engine that is opened after such a record was written looks at the entity.
///
/// It is for a program that gives entities timers that they did not have when their events happened: under another contract.
pub fn timer_key(entity: &EntityKey) -> EntityKey {
    key(number(entity))
}

fn key(number: usize) -> EntityKey {
    EntityKey::new(CLASS, &number.to_string()).expect("a number is a valid name")
}

/// The shard of an entity, which is the same in every version and on every machine: FNV-1a of its name.
fn number(entity: &EntityKey) -> usize {
    let hash = entity
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    usize::try_from(hash % SHARDS as u64).expect("less than the number of shards")
}

impl State {
    /// Changes what is known of an entity; says whether it is to be looked at earlier than anything else.
    fn change(&mut self, entity: &EntityKey, change: impl FnOnce(&mut Entry)) -> bool {
        let before = self.entries.get(entity).copied().unwrap_or_default();
        let mut after = before;
        change(&mut after);
        let first = self.next();
        self.pending = self.pending + usize::from(after.due.is_some()) - usize::from(before.due.is_some());
        // All share the text of one key.
        let key = self.entries.get_key_value(entity).map_or_else(|| entity.clone(), |(key, _)| key.clone());
        if before.look() != after.look() {
            if let Some(look) = before.look() {
                self.order.remove(&(look, key.clone()));
            }
            if let Some(look) = after.look() {
                self.order.insert((look, key.clone()));
            }
        }
        if after.due.is_some() || after.is_noted || after.is_in_hand {
            self.entries.insert(key, after);
        } else {
            self.entries.remove(&key);
        }
        after.look().is_some_and(|look| first.is_none_or(|first| look < first))
    }

    fn ended(&mut self, entity: &EntityKey, tx: TxId) {
        if let Some(txs) = self.under_way.get_mut(entity) {
            txs.retain(|other| *other != tx);
            if txs.is_empty() {
                self.under_way.remove(entity);
            }
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes up what was kept: the snapshot of the records up to `covered`, and the notes behind it.
    fn restore(&mut self, covered: Seq, known: Vec<(EntityKey, Option<Timestamp>)>, notes: Vec<(Seq, EntityKey)>) {
        // Of a key that had none, the first records may be durable by now.
        let complete = covered.max(self.durable.complete_up_to());
        let written_meanwhile = std::mem::replace(&mut self.durable, DurableRecords::up_to(complete));
        written_meanwhile.beyond().for_each(|seq| self.durable.add(seq));
        self.notes_since_snapshot += notes.len();
        for (entity, due) in known {
            if !self.entries.contains_key(&entity) {
                self.change(&entity, |entry| entry.due = Some(due.unwrap_or(UNKNOWN)));
            }
        }
        for (seq, entity) in notes {
            self.durable.add(seq);
            let is_new = self.entries.get(&entity).is_none_or(|entry| !entry.is_noted);
            self.change(&entity, |entry| {
                entry.is_noted = true;
                entry.due = if is_new { Some(UNKNOWN) } else { entry.due };
            });
        }
        self.is_restored = true;
    }

    fn snapshot(&mut self, now: bool) -> Option<(Seq, TimerSnapshot)> {
        let is_due = self.notes_since_snapshot > NOTES_BETWEEN_SNAPSHOTS.max(self.entries.len());
        if !self.is_restored || self.notes_since_snapshot == 0 || !(now || is_due) {
            return None;
        }
        let under_way = self.under_way.keys().map(|entity| (entity.clone(), None));
        let known =
            self.entries.iter().filter(|(entity, entry)| entry.due.is_some() && !self.under_way.contains_key(*entity));
        let known = known.map(|(entity, entry)| (entity.clone(), entry.due.filter(|due| *due != UNKNOWN)));
        let due = under_way.chain(known).collect();
        self.notes_since_snapshot = 0;
        let noted: Vec<EntityKey> =
            self.entries.iter().filter(|(_, entry)| entry.is_noted).map(|(entity, _)| entity.clone()).collect();
        for entity in noted {
            self.change(&entity, |entry| entry.is_noted = false);
        }
        Some((self.durable.complete_up_to(), TimerSnapshot { due }))
    }
}

#[cfg(test)]
mod tests {
    use enact_journal::{Kind, Memory, NewRecord};
    use enact_journal_kit::contract::block_on;
    use proptest::prelude::*;

    use super::*;
    use crate::Rebel;
    use crate::model::Model;

    type Event = <Rebel as Model>::Event;

    fn entity(number: usize) -> EntityKey {
        EntityKey::new("Ticket", &format!("t{number:012}")).expect("a valid name")
    }

    const fn tx(number: usize) -> TxId {
        TxId::from_u128(number as u128)
    }

    /// Writes a note as a transaction does, at the end of its key.
    fn write(journal: &Memory, note: &Note) -> Seq {
        let record = Record::<Event>::Timer { entity: note.of.clone() };
        let expected = block_on(journal.last(&note.key)).expect("readable");
        let (kind, payload) = (Kind(record.kind()), record.encode());
        block_on(journal.append(vec![NewRecord { entity: note.key.clone(), expected, kind, payload }]))
            .expect("durable");
        expected.next()
    }

    fn set(timers: &Timers, journal: &Memory, number: usize, due: Option<i64>) {
        let entity = entity(number);
        if let Some(note) = timers.begin(&entity, tx(number)) {
            let seq = write(journal, &note);
            timers.noted(&note, seq);
        }
        timers.applied(&entity, &[tx(number)], due.map(Timestamp));
    }

    fn restored(journal: &Memory) -> Timers {
        let timers = Timers::new();
        block_on(timers.restore::<Event, _>(journal)).expect("readable");
        timers
    }

    fn save(timers: &Timers, journal: &Memory, all: bool) -> usize {
        let images = timers.snapshots(all);
        let count = images.len();
        images.into_iter().for_each(|image| block_on(journal.save_snapshot(image)).expect("kept"));
        count
    }

    fn taken(timers: &Timers) -> Vec<EntityKey> {
        std::iter::from_fn(|| timers.take(Timestamp(i64::MAX))).collect()
    }

    #[test]
    fn a_hundred_thousand_timers_are_found_again_with_their_times_and_taken_in_their_order() {
        const COUNT: usize = 100_000;
        let (journal, timers) = (Memory::new(), Timers::new());
        block_on(timers.restore::<Event, _>(&journal)).expect("there is nothing");
        // A permutation of the times.
        let due = |number: usize| i64::try_from(number * 7_919 % COUNT).unwrap();
        let mut snapshots = 0;
        for number in 0..COUNT {
            set(&timers, &journal, number, Some(due(number)));
            if number % 1_000 == 0 {
                snapshots += save(&timers, &journal, false);
            }
        }
        assert_eq!((timers.count(), timers.next()), (COUNT, Some(Timestamp(0))));
        assert!(
            snapshots < 16 * 12,
            "a snapshot is as long as all timers: each is twice as long as the one before: {snapshots}"
        );
        let notes: usize = timers.shards.iter().map(|shard| shard.state.lock().notes_since_snapshot).sum();
        let again = restored(&journal);
        let unknown = |timers: &Timers| timers.shards.iter().map(|shard| shard.state.lock().unknown()).sum::<usize>();
        assert_eq!((again.count(), unknown(&again)), (COUNT, notes), "only what was noted since is looked at");

        save(&timers, &journal, true);
        let again = restored(&journal);
        assert_eq!((again.count(), unknown(&again), again.next()), (COUNT, 0, Some(Timestamp(0))));
        assert_eq!(again.take(Timestamp(-1)), None, "none is due yet");
        let order = taken(&again);
        assert_eq!(order.len(), COUNT);
        assert!((0..COUNT).all(|number| order[usize::try_from(due(number)).unwrap()] == entity(number)));
    }

    impl State {
        fn unknown(&self) -> usize {
            self.entries.values().filter(|entry| entry.due == Some(UNKNOWN)).count()
        }
    }

    #[test]
    fn a_snapshot_covers_the_first_notes_also_if_they_were_written_while_nothing_was_read() {
        let mut state = State::default();
        for seq in [1, 2] {
            state.durable.add(Seq(seq));
            state.notes_since_snapshot += 1;
        }
        state.restore(Seq::NONE, Vec::new(), Vec::new());
        let (covered, _) = state.snapshot(true).expect("something was noted");
        assert_eq!(covered, Seq(2));
    }

    #[test]
    fn an_entity_in_hand_is_not_taken_again_and_one_in_vain_not_before_its_time() {
        let (journal, timers) = (Memory::new(), Timers::new());
        set(&timers, &journal, 1, Some(5));
        assert_eq!(timers.take(Timestamp(4)), None);
        assert_eq!(timers.take(Timestamp(5)), Some(entity(1)));
        // It still says so of itself.
        timers.applied(&entity(1), &[], Some(Timestamp(5)));
        assert_eq!(timers.take(Timestamp(9)), None);
        timers.put_back(&entity(1), Some(Timestamp(1_005)));
        assert_eq!((timers.take(Timestamp(1_004)), timers.count()), (None, 1));
        assert_eq!(timers.take(Timestamp(1_005)), Some(entity(1)));
        timers.applied(&entity(1), &[], None);
        timers.put_back(&entity(1), None);
        assert_eq!((timers.take(Timestamp(i64::MAX)), timers.count()), (None, 0));
    }

    #[test]
    fn what_is_neither_noted_nor_due_takes_no_memory() {
        let (journal, timers) = (Memory::new(), Timers::new());
        block_on(timers.restore::<Event, _>(&journal)).expect("there is nothing");
        for number in 0..1_000 {
            set(&timers, &journal, number, Some(5));
            set(&timers, &journal, number, None);
        }
        save(&timers, &journal, true);
        let entries = timers.shards.iter().map(|shard| {
            let state = shard.state.lock();
            state.entries.len() + state.order.len() + state.under_way.len()
        });
        assert_eq!(entries.sum::<usize>(), 0);
    }

    /// What may happen, each to one of a few entities.
    #[derive(Clone, Copy, Debug)]
    enum Op {
        Begin(usize, Option<i64>),
        /// The oldest that was begun becomes durable, or not.
        Write(bool),
        /// The oldest that is durable is told so.
        Note,
        /// The oldest that was told so is applied.
        Apply,
        Save(bool),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..4_usize, prop::option::of(0..9_i64)).prop_map(|(number, due)| Op::Begin(number, due)),
            4 => prop::bool::weighted(0.8).prop_map(Op::Write),
            4 => Just(Op::Note),
            4 => Just(Op::Apply),
            1 => any::<bool>().prop_map(Op::Save),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        /// Whatever is durable when it crashes, and whichever snapshot is kept: an entity with a timer is known with its time or
        /// as one to be looked at.
        #[test]
        fn no_timer_is_missing_after_a_crash(ops in proptest::collection::vec(op(), 0..60)) {
            let (journal, timers) = (Memory::new(), Timers::new());
            block_on(timers.restore::<Event, _>(&journal)).expect("there is nothing");
            let mut truth: BTreeMap<usize, Option<i64>> = BTreeMap::new();
            let (mut begun, mut durable, mut told) = (Vec::new(), Vec::new(), Vec::new());
            for (index, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Begin(number, due) => begun.push((number, due, tx(index), timers.begin(&entity(number), tx(index)))),
                    Op::Write(true) if !begun.is_empty() => {
                        let (number, due, tx, note) = begun.remove(0);
                        let seq = note.as_ref().map(|note| write(&journal, note));
                        truth.insert(number, due);
                        durable.push((number, due, tx, note.zip(seq)));
                    }
                    Op::Write(false) if !begun.is_empty() => {
                        let (number, _, tx, _) = begun.remove(0);
                        timers.cancelled(&entity(number), tx);
                    }
                    Op::Note if !durable.is_empty() => {
                        let (number, due, tx, note) = durable.remove(0);
                        if let Some((note, seq)) = note {
                            timers.noted(&note, seq);
                        }
                        told.push((number, due, tx));
                    }
                    Op::Apply if !told.is_empty() => {
                        let (number, due, tx) = told.remove(0);
                        timers.applied(&entity(number), &[tx], due.map(Timestamp));
                    }
                    Op::Save(is_kept) => {
                        for image in timers.snapshots(true) {
                            if is_kept {
                                block_on(journal.save_snapshot(image)).expect("kept");
                            }
                        }
                    }
                    Op::Write(_) | Op::Note | Op::Apply => {}
                }
            }
            let again = restored(&journal);
            for (number, due) in truth {
                let Some(due) = due else { continue };
                let state = again.shard(&entity(number)).state.lock();
                let known = state.entries.get(&entity(number)).and_then(|entry| entry.due);
                prop_assert!(known == Some(Timestamp(due)) || known == Some(UNKNOWN), "{number} at {due}: {known:?}");
            }
        }
    }
}
