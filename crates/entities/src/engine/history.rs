//! What has happened to an entity, read from the journal.
//!
//! A live entity says up to which slot everything is decided, and then its records are read: those of all slots before are among
//! them. All of them are in memory meanwhile, which is why only a few histories are read at once. A reading that nobody waits for any more goes on
//! to its end, and keeps its turn until then.
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use enact_journal::{EntityKey, Journal, Record as Stored, Seq};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout_at;

use super::error::{Awaited, EntityError, ReadError};
use super::{Engine, Shared, moment, origin};
use crate::model::Model;
use crate::participant::{HistoryOf, HistoryPart, history};
use crate::record::Record;
use crate::tx::Slot;

/// How many histories of an engine are read at once.
pub(super) const READ_AT_ONCE: usize = 2;

impl<M: Model, J: Journal> Engine<M, J> {
    /// Reads what has happened to the entity `key`, up to the first transaction that is not decided. The state in which something is
    /// due is part of it, whether that has happened or not.
    ///
    /// Takes time and memory in proportion to all records of the entity. Two histories are read at once; others wait.
    ///
    /// # Errors
    /// See [`ReadError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on anything else.
    pub async fn history(
        &self,
        key: &EntityKey,
        part: HistoryPart,
        deadline: Duration,
    ) -> Result<HistoryOf<M>, ReadError> {
        let over = moment(deadline);
        let late =
            |_| ReadError::Timeout { awaited: Awaited::Load(key.clone()), waits_for: Vec::new(), graph: Vec::new() };
        let read = async { timeout_at(over, self.history_of(key, part)).await.map_err(late)? };
        let answer = match read.await {
            Ok(history) => self.shared.proven(history, over).await.map_err(ReadError::from),
            Err(cause) => Err(cause),
        };
        answer.inspect_err(|error| self.shared.counts.read(error))
    }

    async fn history_of(&self, key: &EntityKey, part: HistoryPart) -> Result<HistoryOf<M>, ReadError> {
        self.check_readable(key)?;
        let turn = Arc::clone(&self.shared.histories).acquire_owned().await.expect("never closed");
        let (shared, entity) = (Arc::clone(&self.shared), key.clone());
        let reading = origin::spawn(async move {
            let _turn = turn;
            shared.replayed(&entity, part).await
        });
        Ok(reading.await.map_err(|cause| ended(key, &cause))??)
    }

    /// Fails if nothing of the entity can be read here.
    pub(super) fn check_readable(&self, key: &EntityKey) -> Result<(), ReadError> {
        if let Some(engine) = self.engine_of(key) {
            return Err(ReadError::Elsewhere { entity: key.clone(), engine });
        }
        if let Some(why) = self.failure() {
            return Err(ReadError::Failed { why });
        }
        if self.shared.stopping.load(Ordering::Acquire) { Err(ReadError::Stopping) } else { Ok(()) }
    }
}

impl<M: Model, J: Journal> Shared<M, J> {
    async fn replayed(&self, key: &EntityKey, part: HistoryPart) -> Result<HistoryOf<M>, EntityError> {
        let end = self.first_unapplied(key).await?;
        let records = self.journal.read(key, Seq::NONE).await?;
        let (model, entity) = (Arc::clone(&self.model), key.clone());
        let replay = move || -> Result<_, EntityError> {
            let records = decoded(&entity, records)?;
            Ok(history(&*model, &entity, part, end, records)?)
        };
        let replayed = spawn_blocking(replay).await.map_err(|cause| ended(key, &cause))?;
        let erasures = self.erasing.get().map(|erasing| erasing.of(key)).unwrap_or_default();
        replayed.map(|history| HistoryOf::<M> { erasures, ..history })
    }

    /// The first slot of the entity whose transaction is not decided, or not given yet.
    async fn first_unapplied(&self, key: &EntityKey) -> Result<Slot, EntityError> {
        let live = self.directory.get(key)?;
        let answer = match live.turn(|entity| entity.first_unapplied()).await {
            Ok(slot) => slot,
            Err(cause) => Err(live.ended(&cause)),
        };
        self.directory.release(&live);
        answer
    }
}

/// The model has panicked.
fn ended(entity: &EntityKey, cause: &JoinError) -> EntityError {
    EntityError::Ended { entity: entity.clone(), why: cause.to_string() }
}

fn decoded<E: Serialize + DeserializeOwned>(
    entity: &EntityKey,
    records: Vec<Stored>,
) -> Result<Vec<Record<E>>, EntityError> {
    let decode = |record: Stored| {
        Record::decode(&record.payload).map_err(|cause| EntityError::undecodable(entity, record.seq, cause))
    };
    records.into_iter().map(decode).collect()
}
