//! The next message of an actor whose messages have priorities or guards.
use enact_sync::unmodelled::Arc;

use super::{Activation, ActorCell, Next};
use crate::mailbox::records::Front;
use crate::mailbox::selective::Choice;
use crate::turn::Panic;

/// What an actor has found for its next turn.
pub(super) enum Found {
    /// The first message of the batch.
    Message,
    /// Nothing yet: the next one was set aside, has failed, or is undecided.
    LookAgain,
    Nothing,
    /// The actor is gone.
    End,
}

impl ActorCell {
    /// Looks for the next message, among what has just arrived, too, if that can come first.
    pub(super) fn choose(self: &Arc<Self>, activation: &mut Activation) -> Found {
        let has_suspended = activation.has_suspended();
        let Activation { extras: Some(extras), batch, lender } = activation else { return Found::Message };
        let Some(selective) = &mut extras.selective else { return Found::Message };
        if selective.are_ranked() {
            self.mailbox.take_more(batch);
        }
        let waits_for = |front: Front<'_>| self.fate_before(front, has_suspended).cloned();
        match selective.choose(batch, lender, waits_for) {
            Choice::TakesUp => Found::Message,
            Choice::SetAside => Found::LookAgain,
            Choice::WaitsFor(fate) => {
                self.wait_for(activation, fate, None);
                Found::LookAgain
            }
            Choice::Fails(panic) => self.fail_front(activation, panic),
            Choice::Rests => {
                if selective.are_done() {
                    extras.selective = None;
                }
                Found::Nothing
            }
        }
    }

    /// The guard of the first message of the batch has panicked.
    fn fail_front(self: &Arc<Self>, activation: &mut Activation, panic: Panic) -> Found {
        self.mailbox.make_room();
        activation.batch.refuse_front(panic.as_error(&self.identity));
        activation.lender.put_back();
        match self.turn_ended(activation, Err(panic)) {
            Next::GoOn => Found::LookAgain,
            Next::Ended => Found::End,
        }
    }
}
