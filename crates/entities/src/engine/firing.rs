//! Lets happen what is due.
//!
//! # Who asks for it
//! A transaction that has met an entity with a due event, a read of one, and the engine itself, which looks at entities when
//! their [timers](super::timers) say so. All go the same way, and who asks for what somebody else lets happen already waits for that.
//!
//! # Why it happens once
//! The event is a transaction like any other, with the time that the entity gives it, and the entity refuses it unless it is
//! what is due next. If it is refused for what it demands, a second transaction notes that at the entity, and is refused in
//! the same way if something has happened in between. A crash before, between or after them leaves an entity that says itself
//! what is due.
//!
//! # How much at once
//! The engine lets [`FIRINGS_MAX`] entities happen at a time what is due, however many are, so that requests find entities,
//! threads and the disk as before. What somebody asks for is not counted: it is a part of the request.
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use enact_journal::{EntityKey, Journal};
use enact_rebel::limits::DUE_MAX;
use enact_sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::error::SubmitError;
use super::{Command, Shared, Ticket};
use crate::model::{Due, Model};
use crate::tx::{Timestamp, TxId};

/// How many entities the engine looks at at a time.
const FIRINGS_MAX: usize = 32;

/// How long a due event may wait for others until it is tried again later.
const DEADLINE: Duration = Duration::from_secs(30);

/// After how long it is tried again.
const RETRY_AFTER: i64 = 1_000;

/// What is happening, by entity and time: how it has ended, when it has.
type Happening = watch::Receiver<Option<Result<(), SubmitError>>>;

/// The due events that are happening.
#[derive(Debug, Default)]
pub(super) struct Firings {
    happening: Mutex<HashMap<(EntityKey, Timestamp), Happening>>,
    /// The transactions in which they happen.
    transactions: Mutex<HashMap<EntityKey, TxId>>,
}

impl Firings {
    /// The transaction in which what is due at `entity` happens, if it does.
    pub(super) fn transaction(&self, entity: &EntityKey) -> Option<TxId> {
        self.transactions.lock().get(entity).copied()
    }
}

impl<M: Model, J: Journal> Shared<M, J> {
    /// Lets the next event of an entity happen that is due at `by`, or notes that it was refused. Says whether there was one.
    ///
    /// # Cancel safety
    /// What has begun takes its course.
    pub(super) async fn let_due(self: &Arc<Self>, entity: &EntityKey, by: Timestamp) -> Result<bool, SubmitError> {
        let live = self.directory.get(entity)?;
        let due = live.turn(|entity| entity.due()).await;
        self.directory.release(&live);
        match due.map_err(|cause| live.ended(&cause))?? {
            Some(due) if due.at <= by => self.happening(entity, due).await.map(|()| true),
            _ => Ok(false),
        }
    }

    async fn happening(self: &Arc<Self>, entity: &EntityKey, due: Due<M::Event>) -> Result<(), SubmitError> {
        let id = (entity.clone(), due.at);
        let mut happening = {
            let mut all = self.firings.happening.lock();
            let begin = || {
                let (ended, happening) = watch::channel(None);
                let (engine, id) = (Arc::clone(self), id.clone());
                tokio::spawn(async move {
                    let result = engine.fire(&id.0, due).await;
                    engine.firings.happening.lock().remove(&id);
                    ended.send_replace(Some(result));
                });
                happening
            };
            all.entry(id.clone()).or_insert_with(begin).clone()
        };
        let ended = happening.wait_for(Option::is_some).await.map(|ended| ended.clone());
        ended.ok().flatten().unwrap_or_else(|| {
            self.firings.happening.lock().remove(&id);
            Err(SubmitError::Failed { why: "a due event ended before it was decided".to_owned() })
        })
    }

    async fn fire(self: &Arc<Self>, entity: &EntityKey, due: Due<M::Event>) -> Result<(), SubmitError> {
        let Due { time, event, refused, .. } = due;
        match self.happen(entity, event, time).await {
            Err(SubmitError::Refused { refusal, .. }) if refusal.is_not_due() => Ok(()),
            Err(SubmitError::Refused { refusal, .. }) if !refusal.is_behind_too_many() => {
                tracing::info!(%entity, %refusal, "a due event is refused and not tried again");
                match self.happen(entity, refused, time).await {
                    Err(SubmitError::Refused { refusal, .. }) if refusal.is_not_due() => Ok(()),
                    other => other,
                }
            }
            other => other,
        }
    }

    async fn happen(self: &Arc<Self>, entity: &EntityKey, event: M::Event, at: Timestamp) -> Result<(), SubmitError> {
        let ticket = Ticket::inner(self)?;
        let command = Command { key: entity.clone(), event, then: Vec::new(), idempotency: None, deadline: DEADLINE };
        let tx = TxId::fresh();
        self.firings.transactions.lock().insert(entity.clone(), tx);
        let result = self.carry(ticket, tx, command, Some(at)).await;
        self.firings.transactions.lock().remove(entity);
        result.map(drop)
    }

    /// Looks at entities when their timers say so, for ever.
    pub(super) async fn look_in_time(self: &Arc<Self>) -> Infallible {
        while let Err(cause) = self.timers.restore::<M::Event, J>(&self.journal).await {
            if !cause.is_transient() {
                self.fail(cause.to_string());
                return std::future::pending().await;
            }
            tracing::warn!(%cause, "the timers cannot be read; what is due happens when somebody asks for it");
            self.time.reached(self.later()).await;
        }
        let slots = Arc::new(Semaphore::new(FIRINGS_MAX));
        loop {
            while !self.stopping.load(Ordering::Acquire) && self.is_sound() {
                // The slot comes first: whatever is in hand is looked at.
                let slot = Arc::clone(&slots).acquire_owned().await.expect("the slots are never closed");
                let Some(entity) = self.timers.take(self.time.time()) else { break };
                tokio::spawn(look(Arc::clone(self), entity, slot));
            }
            let takes_more = !self.stopping.load(Ordering::Acquire) && self.is_sound();
            let next = self.timers.next().filter(|_| takes_more);
            let reached = async {
                match next {
                    Some(at) => self.time.reached(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = reached => {}
                () = self.timers.changed() => {}
            }
        }
    }

    fn later(&self) -> Timestamp {
        Timestamp(self.time.time().0.saturating_add(RETRY_AFTER))
    }

    /// Keeps snapshots of the timers, those that are due or all of them.
    pub(super) async fn save_timers(&self, all: bool) {
        for image in self.timers.snapshots(all) {
            if let Err(cause) = self.journal.save_snapshot(image).await {
                // The notes are there all the same.
                tracing::warn!(%cause, "a snapshot of timers is not kept; the next start takes longer");
            }
        }
    }
}

/// Lets everything happen that is due at an entity by now.
async fn look<M: Model, J: Journal>(engine: Arc<Shared<M, J>>, entity: EntityKey, _slot: OwnedSemaphorePermit) {
    for _ in 0..DUE_MAX {
        match engine.let_due(&entity, engine.time.time()).await {
            Ok(true) => {}
            Ok(false) => return engine.timers.put_back(&entity, None),
            Err(cause) => {
                tracing::warn!(%entity, %cause, "a due event cannot happen now and is tried again");
                break;
            }
        }
    }
    engine.timers.put_back(&entity, Some(engine.later()));
}
