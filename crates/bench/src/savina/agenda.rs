//! Work that an actor has been sent and takes up in order of urgency: a mailbox with priorities, in the actor's state.
//!
//! The actor puts what it is sent on its agenda and sends itself a message to take the most urgent item up, one item a
//! turn. What is in its mailbox by then is put on the agenda before that, and other messages are taken up at once:
//! they overtake all items.
use std::collections::BTreeMap;

/// Items by priority, the lowest number first; among equals in order of arrival.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    items: BTreeMap<(u64, u64), T>,
    arrivals: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), arrivals: 0 }
    }
}

impl<T> Agenda<T> {
    /// Adds an item; whether it is the only one, so that the actor has to be told to take it up.
    pub(super) fn add(&mut self, priority: u64, item: T) -> bool {
        self.arrivals += 1;
        self.items.insert((priority, self.arrivals), item);
        self.items.len() == 1
    }

    /// The most urgent item.
    pub(super) fn take(&mut self) -> Option<T> {
        self.items.pop_first().map(|(_, item)| item)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_by_priority_and_then_by_arrival() {
        let mut agenda = Agenda::default();
        let alone = [(3, "c"), (1, "a"), (3, "d"), (1, "b")].map(|(priority, item)| agenda.add(priority, item));
        assert_eq!(alone, [true, false, false, false]);
        let items: Vec<_> = std::iter::from_fn(|| agenda.take()).collect();
        assert_eq!(items, ["a", "b", "c", "d"]);
        assert!(agenda.is_empty());
    }
}
