//! What an engine does by itself.
use std::convert::Infallible;
use std::time::Duration;

use enact_journal::{CheckError, Journal};
use tokio::time::{interval, sleep};

use super::Engine;
use super::disk::{Change, Changes};
use crate::model::Model;

impl<M: Model, J: Journal> Engine<M, J> {
    /// Looks after the engine and never ends. Takes up what an earlier run has left between this engine and others. Lets happen
    /// what is due, at 32 entities at a time; without it that happens when somebody asks for the entity. Every
    /// [`check_every`](super::EngineOptions::check_every) looks whether the journal is kept as it must be, which
    /// [`disk`](Self::disk) says. And once a second: puts entities away that nobody uses, has answers forgotten that are no longer
    /// kept, and logs one line when the disk becomes slow and one when it answers again. Writes tombstones as
    /// [`retention`](super::EngineOptions::retention) says.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// Dropping the future ends it.
    pub async fn maintain(&self) -> Infallible {
        let (looked, looked_after) = (self.shared.look_in_time(), self.look_after());
        match tokio::join!(looked, looked_after, self.check(), self.shared.resume(), self.shared.sweep()) {}
    }

    async fn look_after(&self) -> Infallible {
        let mut changes = Changes::default();
        let mut seconds = interval(Duration::from_secs(1));
        let mut tick = 0;
        loop {
            seconds.tick().await;
            self.shared.directory.sweep(tick, self.shared.idle_after.as_secs());
            tick += 1;
            self.shared.save_timers(false).await;
            self.shared.save_promises().await;
            let time = self.shared.clock.certain_time(self.shared.time.time());
            let answers = self.shared.answers;
            self.shared.journal.forget(|class| answers.are_over(class, time));
            match changes.see(&self.disk()) {
                Some(Change::Slow { since }) => {
                    tracing::warn!(millis = since.as_millis(), "the disk is slow: a record is not durable yet");
                }
                Some(Change::Answers) => tracing::info!("the disk answers again"),
                None => {}
            }
        }
    }

    /// Looks again and again whether the journal is kept as it must be.
    async fn check(&self) -> Infallible {
        loop {
            sleep(self.shared.check_every).await;
            let found = match self.shared.journal.check().await {
                Ok(()) => None,
                Err(CheckError::Unsafe { why }) => Some(why),
                Err(cause @ CheckError::Unavailable { .. }) => {
                    tracing::debug!(%cause, "the journal could not be checked");
                    continue;
                }
            };
            let before = std::mem::replace(&mut *self.shared.violation.lock(), found.clone());
            match (before, found) {
                (None, Some(why)) => tracing::error!(why, "the journal is not safe"),
                (Some(_), None) => tracing::info!("the journal is safe again"),
                _ => {}
            }
        }
    }
}
