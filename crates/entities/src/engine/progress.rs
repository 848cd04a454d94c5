//! How far a command has come, for the client that stops waiting for it.
//!
//! # Problem
//! A client is answered at its deadline, whatever its command waits for. It may be told that nothing happened only if
//! nothing ever will; and a record that is on its way to the disk cannot be called back.
//!
//! # States
//! `Waiting` (nothing is submitted), first of all for the entity that is addressed, then either `Recording` (the journal has the record), and perhaps `InLine` (it is durable, and
//! others come first), or `GivenUp` (nothing will be submitted). The transaction moves on and the client gives up under one lock, so that exactly one of the last two comes
//! about: a client that hears of a timeout has had no effect, and all others hear that it is in doubt.
use std::mem;

use enact_journal::EntityKey;
use enact_sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::error::{Awaited, Doubt, SubmitError};
use super::loading::Stage;
use crate::tx::TxId;

/// The progress of one command, shared by its transaction and its client.
#[derive(Debug)]
pub(super) struct Progress {
    tx: TxId,
    /// The entity that the command addresses.
    addressed: EntityKey,
    deadline: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Nothing has been asked.
    Begun,
    Waiting(Stage),
    GivenUp(Awaited),
    Recording,
    InLine(EntityKey),
}

/// The client has given up, or the deadline has passed: nothing more may be done for the command.
#[derive(Debug)]
pub(super) struct Late;

impl Progress {
    pub(super) fn new(tx: TxId, addressed: EntityKey, deadline: Instant) -> Self {
        Self { tx, addressed, deadline, state: Mutex::new(State::Begun) }
    }

    /// The entity that the command addresses.
    pub(super) const fn addressed(&self) -> &EntityKey {
        &self.addressed
    }

    /// What the command waits for at the moment.
    pub(super) fn awaited(&self) -> Awaited {
        match &*self.state.lock() {
            State::Begun => Awaited::Entity(self.addressed.clone()),
            State::Waiting(stage) => stage.clone().awaited(),
            State::GivenUp(awaited) => awaited.clone(),
            State::Recording => Awaited::Record,
            State::InLine(entity) => Awaited::Line(entity.clone()),
        }
    }

    pub(super) const fn tx(&self) -> TxId {
        self.tx
    }

    /// The command waits for `stage` from now on.
    pub(super) fn reach(&self, stage: Stage) -> Result<(), Late> {
        let mut state = self.state.lock();
        match &*state {
            State::Begun | State::Waiting(_) => {
                *state = State::Waiting(stage);
                Ok(())
            }
            State::GivenUp(_) | State::Recording | State::InLine(_) => Err(Late),
        }
    }

    /// Waits for `future` as the present stage, until the deadline.
    pub(super) async fn wait<T>(&self, stage: Stage, future: impl Future<Output = T>) -> Result<T, Late> {
        self.reach(stage)?;
        timeout_at(self.deadline, future).await.map_err(|_| Late)
    }

    /// The record is being submitted.
    pub(super) fn record(&self) -> Result<(), Late> {
        match &mut *self.state.lock() {
            State::GivenUp(_) => Err(Late),
            state => {
                *state = State::Recording;
                Ok(())
            }
        }
    }

    /// The record is durable, and what stands before it at `entity` is not decided.
    pub(super) fn stand_in_line(&self, entity: &EntityKey) {
        *self.state.lock() = State::InLine(entity.clone());
    }

    /// Whether the command waits for an entity that tells at the deadline what it waits for itself.
    pub(super) fn is_told(&self) -> bool {
        matches!(&*self.state.lock(), State::Waiting(stage) if stage.is_told())
    }

    /// Gives the command up, if that is still possible; what its client is told.
    pub(super) fn give_up(&self) -> SubmitError {
        let mut state = self.state.lock();
        let in_doubt = |doubt| SubmitError::InDoubt { tx: self.tx, doubt, graph: Vec::new() };
        if matches!(&*state, State::InLine(_)) {
            return in_doubt(Doubt::InLine);
        }
        let awaited = match mem::replace(&mut *state, State::Recording) {
            State::Recording | State::InLine(_) => return in_doubt(Doubt::Recording),
            State::Begun => Awaited::Entity(self.addressed.clone()),
            State::Waiting(stage) => stage.awaited(),
            State::GivenUp(awaited) => awaited,
        };
        *state = State::GivenUp(awaited.clone());
        SubmitError::Timeout { tx: self.tx, awaited, waits_for: Vec::new(), graph: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress::new(TxId::from_u128(1), EntityKey::new("Account", "A").expect("a key"), Instant::now())
    }

    #[test]
    fn what_was_given_up_is_never_recorded() {
        let progress = progress();
        progress.reach(Stage::Journal).expect("nobody has given up");
        let told = progress.give_up();
        assert!(matches!(told, SubmitError::Timeout { awaited: Awaited::Journal, .. }), "{told:?}");
        assert!(progress.reach(Stage::Key).is_err());
        assert!(progress.record().is_err());
        assert_eq!(progress.give_up(), told);
    }

    #[test]
    fn what_is_being_recorded_is_in_doubt() {
        let progress = progress();
        progress.record().expect("nobody has given up");
        for _ in 0..2 {
            let told = progress.give_up();
            assert!(matches!(told, SubmitError::InDoubt { doubt: Doubt::Recording, .. }), "{told:?}");
        }
    }
}
