//! Tombstones for entities that have ended.
//!
//! # Which ones
//! The engine goes through the journal behind its end, as far behind as [`Retention::keep`] says. Where an event may lead to a final state, it
//! looks at the entity: if that is in one, by this very transaction, it gets a tombstone. How far this has come is noted in the journal, so
//! that a start goes on from there.
//!
//! # Why nothing comes after it
//! No event happens in a final state, and what only asks leaves no record. A journal that keeps tombstones takes nothing behind one.
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use enact_journal::{AppendError, EntityKey, Journal, Kind, Position, Seq, Snapshot as Image};
use tokio::time::{Instant, sleep};

use super::committer::{Append, CommitError, Tail};
use super::error::EntityError;
use super::progress::Progress;
use super::{FAR, Retention, Shared, moment};
use crate::model::Model;
use crate::record::{Record, Snapshot, Tombstone};
use crate::tx::{Timestamp, TxId};

/// The class of the entity that has the notes of how far it has come.
const CLASS: &str = ".retention";
/// How many records are read at a time.
const AT_ONCE: usize = 256;
/// How often it is noted how far it has come.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// How long it rests at the end, at least and at most.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How far it has come.
struct Sweep {
    key: EntityKey,
    tail: Arc<Tail>,
    position: Position,
    noted_at: Instant,
    /// Whether anything but notes has been passed since.
    has_news: bool,
}

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error(transparent)]
    Entity(#[from] EntityError),
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl<M: Model, J: Journal> Shared<M, J> {
    /// Gives tombstones to entities that have ended for long enough, for ever. An engine that has only some of the entities gives none.
    pub(super) async fn sweep(&self) -> Infallible {
        let Some(Retention { keep, begin_after }) = self.retention.filter(|_| self.elsewhere.is_none()) else {
            return pending().await;
        };
        sleep(begin_after).await;
        let mut sweep = None;
        loop {
            if let Err(cause) = self.sweep_on(&mut sweep, keep).await {
                tracing::warn!(%cause, "tombstones cannot be written for the moment");
            }
            sleep((keep / 8).clamp(PAUSE_MIN, PAUSE_MAX)).await;
        }
    }

    /// Goes on to where the journal is too young.
    async fn sweep_on(&self, sweep: &mut Option<Sweep>, keep: Duration) -> Result<(), SweepError> {
        let sweep = match sweep {
            Some(sweep) => sweep,
            None => sweep.insert(self.begin_sweep().await?),
        };
        let now = self.clock.certain_time(self.time.time());
        let until = Timestamp(now.0.saturating_sub(i64::try_from(keep.as_millis()).unwrap_or(i64::MAX)));
        let mut buried = 0_u64;
        loop {
            let begun = Instant::now();
            let records = self.journal.feed(sweep.position, AT_ONCE).await.map_err(EntityError::from)?;
            let mut is_over = records.is_empty();
            for stored in records {
                // One that cannot be read is said when its entity is used.
                if stored.kind.0 == Record::<M::Event>::COMMITTED
                    && let Ok(Record::Committed { tx, slot, events, at, version, .. }) =
                        Record::<M::Event>::decode(&stored.payload)
                {
                    is_over = at > until;
                    if is_over {
                        break;
                    }
                    let model = self.model.under(version);
                    let may_end = |event| model.is_none_or(|model| model.may_end(&stored.entity, event));
                    if events.iter().any(may_end)
                        && let Some(snapshot) = self.ended(&stored.entity, stored.seq).await?
                    {
                        let (version, snapshot) = (snapshot.version, snapshot.encode());
                        self.bury(&stored.entity, Tombstone { tx, slot, at, version, snapshot }).await?;
                        buried += 1;
                    }
                }
                sweep.position = stored.position;
                sweep.has_news |= stored.entity != sweep.key;
            }
            if sweep.has_news && (is_over || sweep.noted_at.elapsed() >= NOTE_EVERY) {
                self.note_sweep(sweep).await?;
            }
            if is_over {
                break;
            }
            // Others come first.
            sleep(begun.elapsed()).await;
        }
        if buried > 0 {
            tracing::info!(count = buried, "entities that had ended got tombstones");
        }
        Ok(())
    }

    async fn begin_sweep(&self) -> Result<Sweep, SweepError> {
        let key = EntityKey::new(CLASS, "swept").expect("a valid name");
        let tail = Arc::new(Tail::default());
        let loaded = self.committer.load(&key, &tail).await.map_err(EntityError::from)?;
        let last = loaded.last();
        let note = loaded.records.into_iter().next_back().map(|record| record.payload);
        let note = note.or(loaded.snapshot.map(|image| image.payload));
        let position = match note.map(|note| Record::<M::Event>::decode(&note)) {
            None => Position::START,
            Some(Ok(Record::Swept { position })) => position,
            Some(Ok(_)) => return Err(EntityError::Misplaced { entity: key, seq: last }.into()),
            Some(Err(cause)) => return Err(EntityError::undecodable(&key, last, cause).into()),
        };
        Ok(Sweep { key, tail, position, noted_at: Instant::now(), has_news: false })
    }

    async fn note_sweep(&self, sweep: &mut Sweep) -> Result<(), SweepError> {
        let Sweep { key, tail, position, .. } = &*sweep;
        let record = Record::<M::Event>::Swept { position: *position };
        let (kind, payload) = (Kind(record.kind()), record.encode());
        let append =
            Append { key: key.clone(), tail: Arc::clone(tail), kind, payload: payload.clone(), depends_on: None };
        let seqs = self.append_alone(key, append).await?;
        if let Some(&seq) = seqs.first() {
            // The next start reads this one alone.
            drop(self.journal.save_snapshot(Image { entity: key.clone(), seq, payload }));
        }
        (sweep.noted_at, sweep.has_news) = (Instant::now(), false);
        Ok(())
    }

    /// What the entity is, if it is in a final state by its record `seq`. One that cannot be used keeps all its records, and nobody else
    /// waits for it.
    async fn ended(&self, key: &EntityKey, seq: Seq) -> Result<Option<Snapshot<M::State, M::Event>>, EntityError> {
        let live = self.directory.get(key)?;
        let ended = live.turn(move |entity| entity.ended(seq)).await.map_err(|cause| live.ended(&cause));
        self.directory.release(&live);
        match ended.flatten() {
            Err(cause) if !cause.is_transient() => Ok(None),
            ended => ended,
        }
    }

    /// Makes `tombstone` the last record of the entity.
    async fn bury(&self, key: &EntityKey, tombstone: Tombstone) -> Result<(), SweepError> {
        let live = self.directory.get(key)?;
        let record = Record::<M::Event>::Tombstone(Box::new(tombstone));
        let (kind, payload, tail) = (Kind(record.kind()), record.encode(), Arc::clone(&live.tail));
        let append = Append { key: key.clone(), tail, kind, payload, depends_on: None };
        let appended = self.append_alone(key, append).await;
        if let Ok(&[seq]) = appended.as_deref() {
            live.turn(move |entity| entity.buried(seq)).await.unwrap_or_default();
        }
        self.directory.release(&live);
        appended.map(drop)
    }

    async fn append_alone(&self, key: &EntityKey, append: Append) -> Result<Vec<Seq>, SweepError> {
        let progress = Progress::new(TxId::fresh(), key.clone(), moment(FAR));
        match self.committer.append(vec![append], None, &progress, || ()).await {
            Ok((seqs, _)) => Ok(seqs),
            Err(CommitError::Append(AppendError::InDoubt { why })) => {
                self.failure.fail(format!("the journal cannot say whether a record of {key} is durable: {why}"));
                Err(CommitError::Append(AppendError::InDoubt { why }).into())
            }
            Err(cause) => Err(cause.into()),
        }
    }
}
