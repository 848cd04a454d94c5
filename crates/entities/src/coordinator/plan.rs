//! The plan of a transaction: what it does at which entity, as far as this can be known.
//!
//! The calls are taken up in the order of a step of Rebel ([`in_order`]), so that each entity is asked for its part in the
//! order in which it happens. What an event calls is known from its arguments, or it is learnt from the vote of its
//! entity. Until then the event counts as one that calls nothing, and what stands behind it may yet get something
//! before it: only what stands before the first such event is *certain*.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use enact_rebel::in_order;

use crate::EntityKey;
use crate::model::{Action, Call, Calls, Model, Work};
use crate::reason::{Reason, Refusal};
use crate::tx::Timestamp;

/// What is asked of the entities.
pub(super) struct Plan<E> {
    /// In the order in which they are asked.
    parts: BTreeMap<EntityKey, Part<E>>,
    /// Whether the calls of every event are known.
    is_complete: bool,
}

struct Part<E> {
    work: Work<E>,
    /// How many actions are certain.
    certain: usize,
    /// How many events there are, and whether they are the first ones of what was learnt.
    events: usize,
    is_as_learnt: bool,
}

/// What the entities have said of their events.
pub(super) type Learned<E> = BTreeMap<EntityKey, Lesson<E>>;

/// What the events of one entity call, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lesson<E> {
    pub(super) events: Vec<E>,
    /// Of the first events, or of all of them.
    pub(super) calls: Vec<Vec<Call<E>>>,
}

/// How large a plan may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) participants_max: usize,
    pub(super) events_max: usize,
    pub(super) depth_max: usize,
}

impl<E> Default for Plan<E> {
    fn default() -> Self {
        Self { parts: BTreeMap::new(), is_complete: true }
    }
}

impl<E: Eq> Plan<E> {
    /// The entities, in the order in which they are asked.
    pub(super) fn keys(&self) -> impl Iterator<Item = &EntityKey> {
        self.parts.keys()
    }

    pub(super) fn work(&self, key: &EntityKey) -> Option<&Work<E>> {
        self.parts.get(key).map(|part| &part.work)
    }

    /// Whether `key` will certainly be asked for `work` up to the action number `last`; for all of it, and nothing else, if
    /// there is no such action.
    pub(super) fn settles(&self, key: &EntityKey, work: &Work<E>, last: usize) -> bool {
        let Some(part) = self.parts.get(key) else { return false };
        if last < work.actions.len() {
            last < part.certain && part.work.actions[..=last] == work.actions[..=last]
        } else {
            self.is_complete && part.work == *work
        }
    }
}

/// The plan of `calls`.
pub(super) fn plan<M: Model>(
    model: &M,
    calls: &[Call<M::Event>],
    at: Timestamp,
    learned: &Learned<M::Event>,
    bounds: Bounds,
) -> Result<Plan<M::Event>, Refusal> {
    let mut planner = Planner { model, at, learned, bounds, events: 0, plan: Plan::default() };
    in_order(calls.to_vec(), |call, depth| planner.take(call, depth))?;
    Ok(planner.plan)
}

struct Planner<'a, M: Model> {
    model: &'a M,
    at: Timestamp,
    learned: &'a Learned<M::Event>,
    bounds: Bounds,
    events: usize,
    plan: Plan<M::Event>,
}

type Called<M> = Vec<Call<<M as Model>::Event>>;

impl<M: Model> Planner<'_, M> {
    /// Takes up one call and returns the events that it calls. Its conditions are asked before it happens.
    fn take(&mut self, call: Call<M::Event>, depth: usize) -> Result<Called<M>, Refusal> {
        if depth > self.bounds.depth_max {
            return Err(self.refusal(&call, Reason::TooDeep { limit: self.bounds.depth_max }));
        }
        let Action::Event(event) = &call.action else {
            return self.add(call).map(|()| Vec::new());
        };
        self.events += 1;
        if self.events > self.bounds.events_max {
            return Err(self.refusal(&call, Reason::TooManyEvents { limit: self.bounds.events_max }));
        }
        let called = self.called(&call, event)?;
        let is_known = called.is_some();
        let (events, conditions): (Vec<_>, Vec<_>) =
            called.unwrap_or_default().into_iter().partition(|call| matches!(call.action, Action::Event(_)));
        conditions.into_iter().try_for_each(|condition| self.add(condition))?;
        self.add(call)?;
        self.plan.is_complete &= is_known;
        Ok(events)
    }

    /// What the event calls, if that is known, as the next one of its entity.
    fn called(&mut self, call: &Call<M::Event>, event: &M::Event) -> Result<Option<Called<M>>, Refusal> {
        let learned = self.learned.get(&call.key);
        let (model, at) = (self.model, self.at);
        let part = self.part(call)?;
        let next = part.events;
        part.events += 1;
        part.is_as_learnt &= learned.is_some_and(|lesson| lesson.events.get(next) == Some(event));
        Ok(match model.calls(&call.key, None, event, at) {
            Calls::Known(calls) => Some(calls),
            _ if part.is_as_learnt => learned.and_then(|lesson| lesson.calls.get(next)).cloned(),
            Calls::DependsOnState | Calls::Refused(_) => None,
        })
    }

    fn add(&mut self, call: Call<M::Event>) -> Result<(), Refusal> {
        let is_certain = self.plan.is_complete;
        let part = self.part(&call)?;
        part.work.actions.push(call.action);
        if is_certain {
            part.certain = part.work.actions.len();
        }
        Ok(())
    }

    fn part(&mut self, call: &Call<M::Event>) -> Result<&mut Part<M::Event>, Refusal> {
        let reason = match self.plan.parts.contains_key(&call.key) {
            false if self.plan.parts.len() >= self.bounds.participants_max => {
                Some(Reason::TooManyParticipants { limit: self.bounds.participants_max })
            }
            false if self.model.initial(&call.key).is_none() => Some(Reason::NoSuchEntity),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(self.refusal(call, reason));
        }
        Ok(match self.plan.parts.entry(call.key.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let work = Work { actions: Vec::new() };
                entry.insert(Part { work, certain: 0, events: 0, is_as_learnt: true })
            }
        })
    }

    fn refusal(&self, call: &Call<M::Event>, reason: Reason) -> Refusal {
        let event = match &call.action {
            Action::Event(event) => self.model.event_name(event),
            Action::Condition(condition) => &condition.text,
        };
        Refusal { entity: call.key.clone(), event: event.to_owned(), reasons: vec![reason] }
    }
}
