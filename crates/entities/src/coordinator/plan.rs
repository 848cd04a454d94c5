//! The plan of a transaction: what it does at which entity, as far as this can be known.
//!
//! A plan is the closure of the first calls under *calls*: what an event calls is known from its arguments, or it is
//! learnt from the vote of its entity. Per entity there is at most one event: the same event with the same arguments on
//! two paths is one, two different ones contradict each other.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use crate::EntityKey;
use crate::model::{Action, Call, Calls, Model, Work};
use crate::reason::{Reason, Refusal};
use crate::tx::Timestamp;

/// What is asked of each entity, in the order in which they are asked.
pub(super) type Plan<E> = BTreeMap<EntityKey, Work<E>>;

/// What the entities have said that their events call.
pub(super) type Learned<E> = BTreeMap<EntityKey, (E, Vec<Call<E>>)>;

/// How large a plan may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) participants_max: usize,
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
    let mut plan = Plan::new();
    let mut queue: VecDeque<(Call<M::Event>, usize)> = calls.iter().map(|call| (call.clone(), 1)).collect();
    while let Some((call, depth)) = queue.pop_front() {
        let refused = |reason| Err(refusal(model, &call, reason));
        if depth > bounds.depth_max {
            return refused(Reason::TooDeep { limit: bounds.depth_max });
        }
        let participants = plan.len();
        let work = match plan.entry(call.key.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if participants >= bounds.participants_max => {
                return refused(Reason::TooManyParticipants { limit: bounds.participants_max });
            }
            Entry::Vacant(_) if model.initial(&call.key).is_none() => return refused(Reason::NoSuchEntity),
            Entry::Vacant(entry) => entry.insert(Work { event: None, conditions: Vec::new() }),
        };
        match (&call.action, &work.event) {
            (Action::Condition(condition), _) => {
                if !work.conditions.contains(condition) {
                    work.conditions.push(condition.clone());
                }
            }
            (Action::Event(event), None) => {
                work.event = Some(event.clone());
                let next = called(model, &call.key, event, at, learned);
                queue.extend(next.into_iter().map(|call| (call, depth + 1)));
            }
            (Action::Event(event), Some(first)) if event == first => {}
            (Action::Event(event), Some(first)) => {
                let (first, second) = (model.event_name(first).to_owned(), model.event_name(event).to_owned());
                return refused(Reason::TwoEvents { first, second });
            }
        }
    }
    Ok(plan)
}

fn called<M: Model>(
    model: &M,
    key: &EntityKey,
    event: &M::Event,
    at: Timestamp,
    learned: &Learned<M::Event>,
) -> Vec<Call<M::Event>> {
    match (model.calls(key, None, event, at), learned.get(key)) {
        (Calls::Known(calls), _) => calls,
        (Calls::DependsOnState, Some((about, calls))) if about == event => calls.clone(),
        (Calls::DependsOnState | Calls::Refused(_), _) => Vec::new(),
    }
}

fn refusal<M: Model>(model: &M, call: &Call<M::Event>, reason: Reason) -> Refusal {
    let event = match &call.action {
        Action::Event(event) => model.event_name(event),
        Action::Condition(condition) => &condition.text,
    };
    Refusal { entity: call.key.clone(), event: event.to_owned(), reasons: vec![reason] }
}
