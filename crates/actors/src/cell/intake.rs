//! How messages come in.
use std::task::Poll;

use enact_stm::hooks::{self, Decision, Fate};
use enact_sync::unmodelled::Arc;

use super::ActorCell;
use crate::deadlock::Wait;
use crate::mailbox::Refusal;
use crate::mailbox::records::Record;
use crate::parker::Parker;
use crate::spec::WhenFull;
use crate::{ActorError, scheduler, tentative};

impl ActorCell {
    /// Puts a sender's message into the mailbox; one that is refused answers with the error.
    ///
    /// Inline, so that what is known of the message where it is sent is written to its place at once.
    #[inline]
    pub(crate) fn deliver<R: Record>(
        self: &Arc<Self>,
        message: R,
        dependency: Option<&Fate>,
    ) -> Result<(), Box<ActorError>> {
        if !self.scheduler.accepts(self) {
            return refuse(message, self.stopped());
        }
        match self.mailbox.push(message, dependency.cloned(), None) {
            Ok(schedule) => {
                self.schedule(schedule);
                Ok(())
            }
            Err((message, refusal)) => self.deliver_refused(message, dependency, refusal),
        }
    }

    #[cold]
    fn deliver_refused<R: Record>(
        &self,
        message: R,
        dependency: Option<&Fate>,
        refusal: Refusal,
    ) -> Result<(), Box<ActorError>> {
        match refusal {
            Refusal::Closed => refuse(message, self.stopped()),
            // What fills it may be the transaction's own.
            Refusal::Full { when_full: WhenFull::Wait, .. } if !hooks::is_in_a_transaction() => {
                self.deliver_when_room(message, dependency)
            }
            Refusal::Full { capacity, .. } => refuse(message, self.full(capacity)),
        }
    }

    fn deliver_when_room<R: Record>(&self, mut message: R, dependency: Option<&Fate>) -> Result<(), Box<ActorError>> {
        let parker = Arc::new(Parker::default());
        let waker = Arc::clone(&parker).into();
        loop {
            match self.mailbox.push(message, dependency.cloned(), Some(&waker)) {
                Ok(schedule) => {
                    self.schedule(schedule);
                    return Ok(());
                }
                Err((message, Refusal::Closed)) => return refuse(message, self.stopped()),
                Err((back, Refusal::Full { .. })) => message = back,
            }
            // The room may be that of an actor which begins, or ends, when this turn is decided.
            if tentative::poll(&waker) == Poll::Ready(Decision::Aborted) {
                let _refused = refuse(message, ActorError::Retracted);
                tentative::leave();
            }
            if let Some(error) = scheduler::block(Wait::Actor(self.id()), &parker) {
                return refuse(message, error);
            }
        }
    }

    /// Puts what the actor owes itself into the mailbox.
    pub(crate) fn deliver_own<R: Record>(&self, message: R) -> Result<(), Box<ActorError>> {
        match self.mailbox.push_own(message) {
            Ok(schedule) => {
                self.schedule(schedule);
                Ok(())
            }
            Err((message, _)) => refuse(message, self.stopped()),
        }
    }
}

#[cold]
fn refuse(message: impl Record, error: ActorError) -> Result<(), Box<ActorError>> {
    message.refuse(error.clone());
    Err(Box::new(error))
}
