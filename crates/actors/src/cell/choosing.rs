//! The next message of an actor whose messages have priorities or guards.
use enact_sync::unmodelled::Arc;

use super::{ActorCell, Body, Next};
use crate::mailbox::lanes::Choice;
use crate::mailbox::records::Front;
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
    pub(super) fn choose(self: &Arc<Self>, body: &mut Body) -> Found {
        let has_suspended = body.has_suspended();
        let Body { extras: Some(extras), batch, lender } = body else { return Found::Message };
        let Some(lanes) = &mut extras.lanes else { return Found::Message };
        if lanes.are_ranked() {
            self.mailbox.take_more(batch);
        }
        let waits_for = |front: Front<'_>| self.fate_before(front, has_suspended).cloned();
        match lanes.choose(batch, lender, waits_for) {
            Choice::TakesUp => Found::Message,
            Choice::SetAside => Found::LookAgain,
            Choice::WaitsFor(fate) => {
                self.wait_for(body, fate, None);
                Found::LookAgain
            }
            Choice::Fails(panic) => self.fail_front(body, panic),
            Choice::Rests => {
                if lanes.are_done() {
                    extras.lanes = None;
                }
                Found::Nothing
            }
        }
    }

    /// The guard of the first message of the batch has panicked.
    fn fail_front(self: &Arc<Self>, body: &mut Body, panic: Panic) -> Found {
        self.mailbox.make_room();
        body.batch.refuse_front(panic.as_error(&self.identity));
        body.lender.put_back();
        match self.turn_ended(body, Err(panic)) {
            Next::GoOn => Found::LookAgain,
            Next::Ended => Found::End,
        }
    }
}
