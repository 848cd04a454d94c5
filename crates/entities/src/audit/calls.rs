//! Whether the events of a transaction are those that its events call, and one that nobody calls.

use super::Acted;
use crate::EntityKey;
use crate::model::{Action, Call, Model};

/// What is wrong with the calls of a transaction, by the places of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Miscall<E> {
    /// An event is called and has not happened.
    Missing {
        /// The place of the event that calls it.
        caller: usize,
        /// What it calls.
        call: Call<E>,
    },
    /// An event has happened, with other arguments than those it is called with.
    Different {
        /// The place of the event that calls it.
        caller: usize,
        /// What it calls.
        call: Call<E>,
        /// The place of what has happened.
        happened: usize,
    },
    /// An event has happened that no other one calls, beside the one that a client or a timer may have called.
    Uncalled {
        /// Its place.
        event: usize,
    },
}

/// What is wrong with the calls of a transaction, of which these are all `events` of all its entities.
///
/// A transaction begins with one event, which a client or a timer calls; all others are called by events of the same transaction,
/// each as often as it has happened. Nothing is said if the calls of some event are not known.
///
/// # Complexity
/// O(n²) comparisons of entities in the number of events.
pub fn miscalls<M: Model>(model: &M, events: &[(EntityKey, Acted<M::Event>)]) -> Vec<Miscall<M::Event>> {
    if events.iter().any(|(_, acted)| acted.calls.is_none()) {
        return Vec::new();
    }
    // A call has no answers: the coordinator adds them.
    let happened: Vec<M::Event> = events.iter().map(|(_, acted)| model.answered(&acted.event, &[])).collect();
    let mut callers: Vec<Option<usize>> = vec![None; events.len()];
    let mut missing = Vec::new();
    for (caller, (_, acted)) in events.iter().enumerate() {
        for call in acted.calls.iter().flatten() {
            let Action::Event(event) = &call.action else { continue };
            let is_it =
                |&place: &usize| callers[place].is_none() && events[place].0 == call.key && happened[place] == *event;
            match (0..events.len()).find(is_it) {
                Some(place) => callers[place] = Some(caller),
                None => missing.push((caller, call)),
            }
        }
    }
    let first = first(model, events, &callers);
    let mut uncalled: Vec<usize> =
        (0..events.len()).filter(|&place| callers[place].is_none() && Some(place) != first).collect();
    let mut found = Vec::new();
    for (caller, call) in missing {
        let Action::Event(event) = &call.action else { continue };
        let is_like_it = |&place: &usize| {
            events[place].0 == call.key && model.event_name(&happened[place]) == model.event_name(event)
        };
        let call = call.clone();
        found.push(match uncalled.iter().position(is_like_it) {
            Some(at) => Miscall::Different { caller, call, happened: uncalled.remove(at) },
            None => Miscall::Missing { caller, call },
        });
    }
    found.extend(uncalled.into_iter().map(|event| Miscall::Uncalled { event }));
    found
}

/// The event that a client or a timer has called: of those that may be it, the one that most others follow from, or that calls the
/// most.
fn first<M: Model>(model: &M, events: &[(EntityKey, Acted<M::Event>)], callers: &[Option<usize>]) -> Option<usize> {
    let is_free =
        |place: &usize| callers[*place].is_none() && !model.is_internal(&events[*place].0, &events[*place].1.event);
    let mut followers = vec![0_usize; events.len()];
    for place in 0..events.len() {
        let mut at = place;
        // Where events call each other in a circle, no way is longer than all of them.
        for _ in 0..events.len() {
            let Some(caller) = callers[at] else { break };
            at = caller;
        }
        followers[at] += 1;
    }
    let weight = |place: usize| (followers[place], events[place].1.calls.as_ref().map_or(0, Vec::len));
    (0..events.len()).rev().filter(is_free).max_by_key(|&place| weight(place))
}
