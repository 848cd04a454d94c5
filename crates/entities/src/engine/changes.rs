//! The changes of all entities, read from the journal.
//!
//! A stretch of the journal tells the [order](crate::Changes) of most changes in it. For one behind a slot that was not decided when it
//! was written, and that nothing later in the stretch says more about, the live entity is asked whether it is decided now, and then the
//! journal for all later records of the entity.
//!
//! # A cursor of another journal
//! A cursor stands at a record, so one behind the end is refused: a consumer that waited there would miss what is written up to it. Whether
//! its record is there is looked up where a reading comes to the end, once: a position that was found stays.
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

use enact_journal::{EntityKey, Journal, Position, Seq};
use tokio::time::{Instant, timeout_at};

use super::error::{Awaited, EntityError, ReadError};
use super::{Engine, News, Shared, moment};
use crate::changes::{ChangesOf, Cursor, Stretch, last_before};
use crate::model::Model;
use crate::record::Record;
use crate::tx::Slot;

/// How many changes are given at most.
const CHANGES_MAX: usize = 1_000;
/// How many records are read beyond those that would do if each were a change: a part of these, within bounds.
const BEYOND: RangeInclusive<usize> = 3..=256;
/// How many bytes of records are read at a time, but for the last ones.
const BYTES: usize = 4 << 20;
/// How many readings of changes go on at once.
pub(super) const READ_AT_ONCE: usize = 8;

/// The records of an entity, each with its position.
type Positioned<E> = Vec<(Position, Record<E>)>;

impl<M: Model, J: Journal> Engine<M, J> {
    /// Reads the changes of all entities behind `after`, in the order of their effects: at most `limit`, at most 1,000, and little more than
    /// 4 MiB. Eight readings go on at once; others wait.
    ///
    /// Each committed change is given once and in the same order to every reader, before and after any crash, as soon as nothing
    /// can come before it any more. Without changes in the answer there are none yet: the next ones follow its cursor, and
    /// [news](Self::news) tell when.
    ///
    /// A cursor behind the end of the journal is [refused](ReadError::Ahead). One of another journal that is no longer than this
    /// one cannot be told from its own.
    ///
    /// Takes time in proportion to the records that it reads, little more than one for a change; and for a change behind a transaction that was open when
    /// it was written, now and then in proportion to all later records of its entity.
    ///
    /// ```
    /// use std::time::Duration;
    /// use enact_entities::{Command, Cursor, Engine, EngineOptions, Rebel};
    /// use enact_journal::Memory;
    /// use enact_rebel::{Source, Value, check};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let spec = check(vec![Source::new("lamp.rebel", "class Lamp initial off on Light(): lit\nlit")])?;
    /// let light = spec.class("Lamp").and_then(|lamp| lamp.event("Light")).ok_or("it is declared")?;
    /// let light = light.call(None::<(&str, Value)>).expect("it takes nothing");
    /// let engine = Engine::new(Rebel::new(spec.into()), Memory::new(), EngineOptions::default());
    /// let deadline = Duration::from_secs(2);
    /// engine.submit(Command { key: "Lamp/l1".parse()?, event: light, then: Vec::new(), idempotency: None, deadline }).await?;
    ///
    /// // A subscriber that has kept nothing begins at the start.
    /// let mut cursor = Cursor::START;
    /// let some = engine.changes(cursor, 100, deadline).await?;
    /// for change in &some.changes {
    ///     assert_eq!((change.entity.to_string(), &**change.events[0].event()), ("Lamp/l1".to_owned(), "Light"));
    ///     cursor = change.cursor; // to be kept with what is made of the change
    /// }
    /// assert!(engine.changes(cursor, 100, deadline).await?.changes.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`ReadError`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn changes(&self, after: Cursor, limit: usize, deadline: Duration) -> Result<ChangesOf<M>, ReadError> {
        let late = |_| ReadError::Timeout { awaited: Awaited::Journal, waits_for: Vec::new(), graph: Vec::new() };
        let over = moment(deadline);
        let read = async { timeout_at(over, self.changes_behind(after, limit, over)).await.map_err(late)? };
        read.await.inspect_err(|error| self.shared.counts.read(error))
    }

    /// Tells when to look for [changes](Self::changes) again, as soon as there may be more of them. Made before the first look, so that
    /// nothing is missed between that and the first wait.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use enact_entities::{Command, Cursor, Engine, EngineOptions, Rebel};
    /// # use enact_journal::Memory;
    /// # use enact_rebel::{Source, Value, check};
    /// #
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = check(vec![Source::new("lamp.rebel", "class Lamp initial off on Light(): lit\nlit")])?;
    /// # let light = spec.class("Lamp").and_then(|lamp| lamp.event("Light")).ok_or("it is declared")?;
    /// # let light = light.call(None::<(&str, Value)>).expect("it takes nothing");
    /// # let engine = Engine::new(Rebel::new(spec.into()), Memory::new(), EngineOptions::default());
    /// # let deadline = Duration::from_secs(2);
    /// let follower = engine.clone();
    /// let follower = tokio::spawn(async move {
    ///     let (mut news, cursor) = (follower.news(), Cursor::START);
    ///     loop {
    ///         let some = follower.changes(cursor, 100, deadline).await?;
    ///         if let Some(change) = some.changes.first() {
    ///             return Ok::<_, enact_entities::ReadError>(change.entity.to_string());
    ///         }
    ///         news.wait().await;
    ///     }
    /// });
    /// engine.submit(Command { key: "Lamp/l1".parse()?, event: light, then: Vec::new(), idempotency: None, deadline }).await?;
    /// assert_eq!(follower.await??, "Lamp/l1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn news(&self) -> News {
        self.shared.announcer.news()
    }

    async fn changes_behind(&self, after: Cursor, limit: usize, over: Instant) -> Result<ChangesOf<M>, ReadError> {
        if let Some(why) = self.failure() {
            return Err(ReadError::Failed { why });
        }
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(ReadError::Stopping);
        }
        let turn = self.shared.readings.acquire().await.expect("never closed");
        let changes = self.shared.changes(after, limit.clamp(1, CHANGES_MAX)).await?;
        drop(turn);
        if changes.is_none() && (self.shared.elsewhere.is_some() || self.shared.barrier_reads) {
            // The cursor may be that of an engine that has taken the journal over.
            self.shared.prove(over).await?;
        }
        changes.ok_or(ReadError::Ahead { after })
    }
}

impl<M: Model, J: Journal> Shared<M, J> {
    /// The changes behind `after`; none if the journal ends before it.
    async fn changes(&self, after: Cursor, limit: usize) -> Result<Option<ChangesOf<M>>, EntityError> {
        let beyond = (limit / 4).clamp(*BEYOND.start(), *BEYOND.end());
        let ahead = limit + beyond;
        let mut stretch = Stretch::new(after, limit);
        let (mut is_whole, mut bytes) = (false, 0);
        // A few records at least, so that it goes on.
        let is_long = |end: Position, bytes: usize| {
            let wanted = if bytes < BYTES { ahead } else { *BEYOND.start() };
            end.0.saturating_sub(after.place().0) >= wanted as u64
        };
        while !is_whole && !is_long(stretch.end(), bytes) {
            let records = self.journal.feed(stretch.end(), ahead).await?;
            is_whole = records.is_empty();
            for stored in records {
                if is_long(stretch.end(), bytes) {
                    break;
                }
                stretch.advance(stored.position);
                bytes += stored.payload.len();
                if Stretch::<M::Event>::is_told_by(stored.kind.0) {
                    let record = Record::decode(&stored.payload);
                    let record = record.map_err(|cause| EntityError::undecodable(&stored.entity, stored.seq, cause))?;
                    stretch.add(stored.entity, stored.seq, stored.position, record);
                }
            }
        }
        if stretch.end() > after.from() {
            self.read_up_to.fetch_max(stretch.end().0, Ordering::Relaxed);
        }
        if is_whole && !self.reaches(after.place()).await? {
            return Ok(None);
        }
        for missing in stretch.missing() {
            let records = self.positioned(&missing.entity, Seq::NONE).await?;
            stretch.find(&missing, records);
        }
        stretch.leave_out_what_is_missing();
        let new = stretch.end().0.saturating_sub(after.place().0);
        while let Some(unplaced) = stretch.give() {
            // The next stretch tells more.
            let is_late = !is_whole && stretch.end().0 - unplaced.position.0 < (new / 4).min(beyond as u64 / 2);
            if is_late || !self.is_decided_before(&unplaced.entity, unplaced.slot).await {
                break;
            }
            let later = self.positioned(&unplaced.entity, unplaced.seq).await?;
            let last = match last_before(unplaced.slot, later) {
                Some(last) => last,
                None => {
                    let all = self.positioned(&unplaced.entity, Seq::NONE).await?;
                    last_before(unplaced.slot, all).flatten()
                }
            };
            stretch.place(last.map_or(unplaced.position, |last| last.max(unplaced.position)));
        }
        Ok(Some(stretch.finish(is_whole)))
    }

    /// Whether the journal has, or had, a record at `place` or behind it.
    async fn reaches(&self, place: Position) -> Result<bool, EntityError> {
        // Records at the end may have been discarded.
        let has_place = self.journal.volume().last.is_some_and(|last| place <= last);
        if has_place || place.0 <= self.read_up_to.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let found = self.journal.feed(Position(place.0 - 1), 1).await?;
        if let Some(record) = found.first() {
            self.read_up_to.fetch_max(record.position.0, Ordering::Relaxed);
        }
        Ok(!found.is_empty())
    }

    /// Whether every slot of the entity before `slot` is decided, and what has committed of them is durable.
    async fn is_decided_before(&self, entity: &EntityKey, slot: Slot) -> bool {
        // What is open in one process is in memory. What is promised to another one may be in the journal alone.
        if self.elsewhere.is_none() && !self.directory.is_live(entity) {
            return true;
        }
        let Ok(live) = self.directory.get(entity) else { return false };
        let first = match live.turn(|entity| entity.first_unrecorded()).await {
            Ok(Ok(first)) => first,
            // Nobody knows.
            Ok(Err(_)) | Err(_) => Slot::default(),
        };
        self.directory.release(&live);
        first >= slot
    }

    async fn positioned(&self, entity: &EntityKey, after: Seq) -> Result<Positioned<M::Event>, EntityError> {
        let records = self.journal.read(entity, after).await?;
        let decoded = records.into_iter().map(|stored| {
            let record = Record::decode(&stored.payload);
            let record = record.map_err(|cause| EntityError::undecodable(entity, stored.seq, cause))?;
            Ok((stored.position, record))
        });
        decoded.collect()
    }
}
