//! The plan of a transaction: what it does at which entity, as far as this can be known.
//!
//! A plan is the closure of the first calls under *calls*: what an event calls is known from its arguments, or it is
//! learnt from the vote of its entity.
//!
//! # Order
//! Calls happen depth first, in the order in which they are written, each complete with its own calls before the next. Several
//! events on one entity compose in that order: each sees the effects of those before it, and two equal events are two. Events
//! change their own entity alone, so the order among entities says nothing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::EntityKey;
use crate::model::{Action, Call, Calls, Model, Work};
use crate::reason::{Reason, Refusal};
use crate::tx::Timestamp;

/// What is asked of each entity, in the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan<E> {
    pub(super) works: BTreeMap<EntityKey, Work<E>>,
    /// The entities with an event that comes after one whose calls are not known: more may have to happen there before it.
    pub(super) incomplete: BTreeSet<EntityKey>,
}

impl<E> Default for Plan<E> {
    fn default() -> Self {
        Self { works: BTreeMap::new(), incomplete: BTreeSet::new() }
    }
}

/// The events of entities with what these have said that each calls, in the order in which they happen there.
pub(super) type Learned<E> = BTreeMap<EntityKey, Vec<(E, Vec<Call<E>>)>>;

/// How large a plan may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) participants_max: usize,
    pub(super) events_max: usize,
    pub(super) depth_max: usize,
}

/// The closure of `calls`.
pub(super) fn close<M: Model>(
    model: &M,
    calls: &[Call<M::Event>],
    at: Timestamp,
    learned: &Learned<M::Event>,
    bounds: Bounds,
) -> Result<Plan<M::Event>, Refusal> {
    let mut plan = Plan::default();
    let (mut events, mut all_known) = (0, true);
    // What happens next is at the end.
    let mut calls: Vec<(Call<M::Event>, usize)> = calls.iter().rev().map(|call| (call.clone(), 1)).collect();
    while let Some((call, depth)) = calls.pop() {
        let refused = |reason| Err(refusal(model, &call, reason));
        if depth > bounds.depth_max {
            return refused(Reason::TooDeep { limit: bounds.depth_max });
        }
        let participants = plan.works.len();
        let work = match plan.works.entry(call.key.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if participants >= bounds.participants_max => {
                return refused(Reason::TooManyParticipants { limit: bounds.participants_max });
            }
            Entry::Vacant(_) if model.initial(&call.key).is_none() => return refused(Reason::NoSuchEntity),
            Entry::Vacant(entry) => entry.insert(Work { events: Vec::new(), conditions: Vec::new() }),
        };
        match &call.action {
            Action::Condition(condition) => {
                if !work.conditions.contains(condition) {
                    work.conditions.push(condition.clone());
                }
            }
            Action::Event(event) => {
                events += 1;
                if events > bounds.events_max {
                    return refused(Reason::TooManyEvents { limit: bounds.events_max });
                }
                work.events.push(event.clone());
                if !all_known {
                    plan.incomplete.insert(call.key.clone());
                }
                match called(model, &call.key, &work.events, at, learned) {
                    Some(next) => calls.extend(next.into_iter().rev().map(|call| (call, depth + 1))),
                    None => all_known = false,
                }
            }
        }
    }
    Ok(plan)
}

/// What the last of the `events` at an entity calls, if this is known.
fn called<M: Model>(
    model: &M,
    key: &EntityKey,
    events: &[M::Event],
    at: Timestamp,
    learned: &Learned<M::Event>,
) -> Option<Vec<Call<M::Event>>> {
    if let Calls::Known(calls) = model.calls(key, None, events.last()?, at) {
        return Some(calls);
    }
    // What an event calls in a state is known only if the same events have led to that state.
    let known = learned.get(key).filter(|known| {
        known.len() >= events.len() && known.iter().zip(events).all(|((known, _), event)| known == event)
    });
    known.map(|known| known[events.len() - 1].1.clone())
}

fn refusal<M: Model>(model: &M, call: &Call<M::Event>, reason: Reason) -> Refusal {
    let event = match &call.action {
        Action::Event(event) => model.event_name(event),
        Action::Condition(condition) => &condition.text,
    };
    Refusal { entity: call.key.clone(), event: event.to_owned(), reasons: vec![reason] }
}
