//! Reads, behind what is due at the entity and, if that is wanted, behind a [barrier](super::barrier).
use std::time::Duration;

use enact_journal::{EntityKey, Journal};
use enact_rebel::limits::DUE_MAX;
use tokio::time::{Instant, timeout_at};

use super::error::ReadError;
use super::{Engine, FAR, GRACE, moment, within};
use crate::model::Model;
use crate::participant::{ReadMode, View};
use crate::tx::{Timestamp, TxId};

impl<M: Model, J: Journal> Engine<M, J> {
    /// Reads the entity `key`; there is an answer at the deadline. What is due at the entity happens before, so that no state is
    /// shown that has come to its end: in any mode the read waits for that.
    ///
    /// # Errors
    /// See [`ReadError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on anything else.
    pub async fn read(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> Result<View<M::State>, ReadError> {
        let over = moment(deadline);
        let grace = over + GRACE.span();
        let answer = match self.read_in_time(key, mode, after, deadline).await {
            Ok(view) => self.shared.proven(view, over).await.map_err(ReadError::from),
            Err(cause) => Err(cause),
        };
        let answer = answer.inspect_err(|error| self.shared.counts.read(error));
        match answer {
            Err(ReadError::Timeout { awaited, waits_for, mut graph }) => {
                self.shared.trace(&awaited, &waits_for, &mut graph, grace).await;
                Err(ReadError::Timeout { awaited, waits_for, graph })
            }
            answer => answer,
        }
    }

    /// Reads behind what is due.
    async fn read_in_time(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> Result<View<M::State>, ReadError> {
        self.check_readable(key)?;
        if !self.shared.model.is_timed(key) {
            return self.read_now(key, mode, after, deadline).await;
        }
        let over = Instant::now() + deadline.min(FAR);
        let mut mode = mode;
        for _ in 0..DUE_MAX {
            let now = self.shared.time.time();
            let settled = async {
                while self.shared.let_due(key, now).await? {}
                Ok(())
            };
            let is_late = match timeout_at(over, settled).await {
                Ok(Ok(())) => false,
                Ok(Err(cause)) => return Err(ReadError::of_due(cause, key)),
                // All outcomes do not show whether something is due.
                Err(_) if mode == ReadMode::Range => return Err(ReadError::behind_due(key)),
                // The entity says what it waits for, or is in a state in which nothing is due after all.
                Err(_) => true,
            };
            let left = over.saturating_duration_since(Instant::now());
            match self.read_now(key, mode, after, left).await {
                Ok(View::One { state, .. }) if self.is_early(key, &state, now) => {}
                Err(ReadError::Timeout { waits_for, .. }) if is_late && waits_for.is_empty() => break,
                view => return view,
            }
            if is_late {
                break;
            }
            if mode == ReadMode::Applied {
                // What is due has happened, and is applied when what is open before it is decided.
                mode = ReadMode::Certain;
            }
        }
        Err(ReadError::behind_due(key))
    }

    /// Whether a read at the time `now` must not show this state, because something is due in it.
    fn is_early(&self, key: &EntityKey, state: &M::State, now: Timestamp) -> bool {
        self.shared.model.due(key, state).is_some_and(|due| due.precedes(now, false))
    }

    async fn read_now(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> Result<View<M::State>, ReadError> {
        let live = self.shared.directory.get(key)?;
        let (stage, until) = (live.stage(), self.shared.clock.after(deadline));
        let reading = live.turn(move |entity| entity.read(mode, after, until));
        let answer = match within(deadline, reading, || stage.is_told()).await {
            Some(Ok(Ok(Ok(view)))) => Ok(view),
            Some(Ok(Ok(Err(waits_for)))) => {
                Err(ReadError::Timeout { awaited: stage.awaited(), waits_for, graph: Vec::new() })
            }
            Some(Ok(Err(cause))) => Err(cause.into()),
            Some(Err(cause)) => Err(live.ended(&cause).into()),
            None => Err(ReadError::Timeout { awaited: stage.awaited(), waits_for: Vec::new(), graph: Vec::new() }),
        };
        self.shared.directory.release(&live);
        answer
    }
}
