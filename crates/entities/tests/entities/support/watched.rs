//! The bank written by hand, which tells of each event that it is asked for before it answers.
use enact_entities::{Calls, EntityKey, Model, Reason, Timestamp};

use super::bank::{Event, Hand, State};

/// Hears of each event at an entity before it is answered.
pub(crate) trait Watcher: Send + Sync + 'static {
    /// `key` is asked for `event`.
    fn hear(&self, key: &EntityKey, event: &Event);
}

/// The bank, and what hears of its events.
pub(crate) struct Watched<W>(pub(crate) W);

const BANK: Hand = Hand { hints: true };

impl<W: Watcher> Model for Watched<W> {
    type State = State;
    type Event = Event;

    fn initial(&self, key: &EntityKey) -> Option<State> {
        BANK.initial(key)
    }

    fn state_name<'a>(&'a self, key: &EntityKey, state: &'a State) -> &'a str {
        BANK.state_name(key, state)
    }

    fn exists(&self, key: &EntityKey, state: &State) -> bool {
        BANK.exists(key, state)
    }

    fn event_name<'a>(&'a self, event: &'a Event) -> &'a str {
        BANK.event_name(event)
    }

    fn next(&self, key: &EntityKey, state: &State, event: &Event, at: Timestamp) -> Result<State, Vec<Reason>> {
        self.0.hear(key, event);
        BANK.next(key, state, event, at)
    }

    fn calls(&self, key: &EntityKey, state: Option<&State>, event: &Event, at: Timestamp) -> Calls<Event> {
        BANK.calls(key, state, event, at)
    }
}
