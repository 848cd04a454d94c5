//! The plan of a transaction: what it does at which entity, as far as this can be known.
//!
//! The calls are taken up in the order of a step of Rebel ([`in_order`]), so that each entity is asked for its part in the
//! order in which it happens. What an event calls is known from its arguments, or it is learnt from the vote of its
//! entity. Until then the event counts as one that calls nothing, and what stands behind it may yet get something
//! before it: only what stands before the first such event is *certain*.
//!
//! The first event is the one that the client calls. What it returns is a question to its own entity, right before it.
//!
//! What an event asks of others is learnt from its entity too, which cannot judge it before. Each question is put to the entity
//! that answers it, at its place, and the answers go with the event. An event that waits for an answer, and what comes behind
//! it at its entity, is left out until the answer is there: the part of that entity is *partial*.

use std::collections::BTreeMap;

use enact_rebel::{Value, in_order};

use crate::EntityKey;
use crate::by_key::ByKey;
use crate::model::{Action, Asked, Call, Calls, Model, Question, Work};
use crate::reason::{Caller, Reason, Refusal};
use crate::tx::Timestamp;

/// What is asked of the entities.
#[derive(Debug)]
pub(super) struct Plan<E> {
    /// In the order in which the planner met their entities.
    parts: Vec<Part<E>>,
    /// The number of the part of each entity.
    numbers: ByKey<usize>,
    /// Whether the calls of every event are known.
    is_complete: bool,
}

#[derive(Debug)]
struct Part<E> {
    work: Work<E>,
    /// How many actions are certain.
    certain: usize,
    /// How many events there are, and whether they are the first ones of what was learnt.
    events: usize,
    is_as_learnt: bool,
    /// Whether its events call the same in every state.
    is_fixed: bool,
}

/// What the entities have said of their events.
pub(super) type Learned<E> = BTreeMap<EntityKey, Lesson<E>>;

/// What the events of one entity call, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lesson<E> {
    pub(super) events: Vec<E>,
    /// Of the first events, or of all of them.
    pub(super) calls: Vec<Vec<Call<E>>>,
    pub(super) answers: Vec<Told<E>>,
}

/// An answer of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told<E> {
    /// How many events of the transaction happen there before the question.
    pub(super) before: usize,
    pub(super) question: Question<E>,
    pub(super) answer: Option<Value>,
}

impl<E: Clone> Lesson<E> {
    /// What an entity says of `work`: what its first events call, and its answers to the first questions.
    pub(super) fn of(work: &Work<E>, calls: Vec<Vec<Call<E>>>, answers: Vec<Option<Value>>) -> Self {
        let mut events = Vec::new();
        let mut told = Vec::new();
        let mut answers = answers.into_iter();
        for action in &work.actions {
            match action {
                Action::Event(event) if events.len() < calls.len() => events.push(event.clone()),
                Action::Event(_) => break,
                Action::Ask(question) => {
                    let Some(answer) = answers.next() else { break };
                    told.push(Told { before: events.len(), question: question.clone(), answer });
                }
                Action::Condition(_) => {}
            }
        }
        Self { events, calls, answers: told }
    }

    fn answer(&self, before: usize, question: &Question<E>) -> Option<&Option<Value>>
    where
        E: PartialEq,
    {
        let told = self.answers.iter().find(|told| told.before == before && told.question == *question)?;
        Some(&told.answer)
    }
}

/// What the events ask, as their entities have said: by entity and number of the event there, each event as far as it was
/// answered, with what it asks then.
pub(super) type Inquiries<E> = BTreeMap<(EntityKey, usize), Vec<(E, Vec<Asked<E>>)>>;

/// How large a plan may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) participants_max: usize,
    pub(super) events_max: usize,
    pub(super) depth_max: usize,
}

impl<E> Default for Plan<E> {
    fn default() -> Self {
        Self { parts: Vec::new(), numbers: ByKey::default(), is_complete: true }
    }
}

impl<E: Eq> Plan<E> {
    /// The entities that can be asked now, in this order: those whose part is whole, and then those of which an answer is awaited.
    pub(super) fn ready(&self) -> impl Iterator<Item = &EntityKey> {
        let parts = self.numbers.iter().map(|(key, &number)| (key, &self.parts[number].work));
        let whole = parts.clone().filter(|(_, work)| !work.partial);
        let partial = parts.filter(|(_, work)| work.partial && work.questions().next().is_some());
        whole.chain(partial).map(|(key, _)| key)
    }

    /// Whether an event is left out until an answer to it is there.
    pub(super) fn is_partial(&self) -> bool {
        self.parts.iter().any(|part| part.work.partial)
    }

    /// Whether the transaction has one part, and will have no other.
    pub(super) fn is_sole(&self) -> bool {
        self.is_complete && !self.is_partial() && self.parts.len() == 1
    }

    fn part(&self, key: &EntityKey) -> Option<&Part<E>> {
        self.numbers.get(key).map(|&number| &self.parts[number])
    }

    pub(super) fn work(&self, key: &EntityKey) -> Option<&Work<E>> {
        self.part(key).map(|part| &part.work)
    }

    /// Takes out what `key` is asked for.
    pub(super) fn take_work(&mut self, key: &EntityKey) -> Option<Work<E>> {
        let number = *self.numbers.get(key)?;
        Some(std::mem::replace(&mut self.parts[number].work, Work::nothing()))
    }

    /// What `key` is asked for, and whether its events call the same in every state, so that its vote tells nothing of what they
    /// call.
    pub(super) fn question(&self, key: &EntityKey) -> Option<(&Work<E>, bool)> {
        self.part(key).map(|part| (&part.work, part.is_fixed))
    }

    /// Whether `key` will certainly be asked for `work` up to the action number `last`; for all of it, and nothing else, if
    /// there is no such action.
    pub(super) fn settles(&self, key: &EntityKey, work: &Work<E>, last: usize) -> bool {
        let Some(part) = self.part(key) else { return false };
        if last < work.actions.len() {
            last < part.certain && part.work.actions[..=last] == work.actions[..=last]
        } else {
            self.is_complete && part.work == *work
        }
    }
}

/// What a plan is made from.
pub(super) struct Known<'a, M: Model> {
    pub(super) model: &'a M,
    /// What the client calls.
    pub(super) calls: &'a [Call<M::Event>],
    pub(super) at: Timestamp,
    pub(super) learned: &'a Learned<M::Event>,
    pub(super) inquiries: &'a Inquiries<M::Event>,
    pub(super) bounds: Bounds,
}

impl<M: Model> Known<'_, M> {
    /// The plan of the calls.
    pub(super) fn plan(&self) -> Result<Plan<M::Event>, Refusal> {
        let mut planner = Planner { known: self, events: 0, plan: Plan::default(), trace: None };
        match planner.run() {
            Ok(()) => Ok(planner.plan),
            // Once more, to tell the way to it.
            Err(refusal) => {
                let trace = Some(Trace::default());
                Planner { known: self, events: 0, plan: Plan::default(), trace }.run().and(Err(refusal))
            }
        }
    }

    /// The events that lead to the action at `position` of `key`, from the first call on.
    pub(super) fn callers(&self, key: &EntityKey, position: usize) -> Vec<Caller> {
        let trace = Some(Trace { sought: Some((key, position)), ..Trace::default() });
        let mut planner = Planner { known: self, events: 0, plan: Plan::default(), trace };
        // What cannot be planned leads to nothing.
        let _ = planner.run();
        planner.trace.map(|trace| trace.found).unwrap_or_default()
    }
}

/// The way to a call, which is only followed when something is refused.
#[derive(Default)]
struct Trace<'a> {
    /// The events that lead to what is taken up.
    path: Vec<Caller>,
    /// The action that is looked for.
    sought: Option<(&'a EntityKey, usize)>,
    found: Vec<Caller>,
}

struct Planner<'a, M: Model> {
    known: &'a Known<'a, M>,
    events: usize,
    plan: Plan<M::Event>,
    trace: Option<Trace<'a>>,
}

type Called<M> = Vec<Call<<M as Model>::Event>>;

impl<M: Model> Planner<'_, M> {
    fn run(&mut self) -> Result<(), Refusal> {
        in_order(self.known.calls.to_vec(), |call, depth| self.take(call, depth))
    }

    /// Takes up one call and returns the events that it calls. Its conditions are asked before it happens.
    fn take(&mut self, call: Call<M::Event>, depth: usize) -> Result<Called<M>, Refusal> {
        if let Some(trace) = &mut self.trace {
            trace.path.truncate(depth - 1);
        }
        if depth > self.known.bounds.depth_max {
            return Err(self.refusal(&call, Reason::TooDeep { limit: self.known.bounds.depth_max }));
        }
        if !matches!(call.action, Action::Event(_)) {
            return self.take_up(call).map(|()| Vec::new());
        }
        self.count(&call)?;
        let is_first = self.events == 1;
        self.enter(&call);
        let number = self.part(&call)?;
        let call = self.with_answers(call, number)?;
        let called = self.called(&call, number);
        let is_known = called.is_some();
        let mut events = called.unwrap_or_default();
        let mut conditions = events.extract_if(.., |call| !matches!(call.action, Action::Event(_)));
        conditions.try_for_each(|condition| self.take_up(condition))?;
        drop(conditions);
        let entered = self.trace.as_mut().and_then(|trace| trace.path.pop());
        if let (true, Action::Event(event)) = (is_first, &call.action)
            && self.known.model.has_result(&call.key, event)
        {
            let question = Action::Ask(Question::Result(event.clone()));
            self.add(Call { key: call.key.clone(), action: question }, number);
        }
        self.add(call, number);
        if let (Some(trace), Some(caller)) = (&mut self.trace, entered) {
            trace.path.push(caller);
        }
        self.plan.is_complete &= is_known;
        Ok(events)
    }

    /// What follows is asked or called by this event.
    fn enter(&mut self, call: &Call<M::Event>) {
        if let (Some(trace), Action::Event(event)) = (&mut self.trace, &call.action) {
            let event = self.known.model.event_name(event).to_owned();
            trace.path.push(Caller { entity: call.key.clone(), event });
        }
    }

    fn count(&mut self, call: &Call<M::Event>) -> Result<(), Refusal> {
        self.events += 1;
        if self.events > self.known.bounds.events_max {
            return Err(self.refusal(call, Reason::TooManyEvents { limit: self.known.bounds.events_max }));
        }
        Ok(())
    }

    /// The event with the answers it needs, as far as it is known what it asks. If one of them is awaited, the part of its
    /// entity becomes partial.
    fn with_answers(&mut self, call: Call<M::Event>, number: usize) -> Result<Call<M::Event>, Refusal> {
        let Call { key, action: Action::Event(event) } = call else { return Ok(call) };
        let mut answers = Vec::new();
        let mut call = Call::event(key, self.known.model.answered(&event, &answers));
        let inquiries = self.known.inquiries;
        if inquiries.is_empty() {
            return Ok(call);
        }
        let part = &self.plan.parts[number];
        let known = inquiries.get(&(call.key.clone(), part.events)).filter(|_| !part.work.partial);
        let Some(known) = known else { return Ok(call) };
        while let Some((_, asked)) = known.iter().find(|(event, _)| call.action == Action::Event(event.clone())) {
            let mut is_answered = true;
            for asked in asked {
                match self.ask(asked)? {
                    Some(answer) => answers.push((asked.clone(), answer)),
                    None => is_answered = false,
                }
            }
            if !is_answered {
                let part = &mut self.plan.parts[number];
                part.work.partial = true;
                part.is_as_learnt = false;
                break;
            }
            call = Call::event(call.key, self.known.model.answered(&event, &answers));
        }
        Ok(call)
    }

    /// Puts a question to its entity, and says what the answer is, if it is known.
    fn ask(&mut self, asked: &Asked<M::Event>) -> Result<Option<Option<Value>>, Refusal> {
        let call = Call { key: asked.key.clone(), action: Action::Ask(asked.question.clone()) };
        self.count(&call)?;
        let learned = self.known.learned.get(&asked.key);
        let number = self.part(&call)?;
        let part = &self.plan.parts[number];
        let lesson = learned.filter(|_| part.is_as_learnt && !part.work.partial);
        let answer = lesson.and_then(|lesson| lesson.answer(part.events, &asked.question)).cloned();
        self.plan.parts[number].work.to_change |= asked.to_change;
        self.add(call, number);
        Ok(answer)
    }

    /// What the event calls, if that is known, as the next one of its entity.
    fn called(&mut self, call: &Call<M::Event>, number: usize) -> Option<Called<M>> {
        let Action::Event(event) = &call.action else { return None };
        let learned = self.known.learned.get(&call.key);
        let (model, at) = (self.known.model, self.known.at);
        let part = &mut self.plan.parts[number];
        let next = part.events;
        part.events += 1;
        part.is_as_learnt &= learned.is_some_and(|lesson| lesson.events.get(next) == Some(event));
        let fixed = model.calls(&call.key, None, event, at);
        part.is_fixed &= matches!(fixed, Calls::Known(_));
        match fixed {
            Calls::Known(calls) => Some(calls),
            _ if part.is_as_learnt => learned.and_then(|lesson| lesson.calls.get(next)).cloned(),
            Calls::DependsOnState | Calls::Refused(_) => None,
        }
    }

    /// Adds what is no event to the part of its entity.
    fn take_up(&mut self, call: Call<M::Event>) -> Result<(), Refusal> {
        let number = self.part(&call)?;
        self.add(call, number);
        Ok(())
    }

    /// Adds to the part with this number, which is that of the entity.
    fn add(&mut self, call: Call<M::Event>, number: usize) {
        let is_certain = self.plan.is_complete;
        let part = &mut self.plan.parts[number];
        if part.work.partial {
            return;
        }
        let position = part.work.actions.len();
        part.work.actions.push(call.action);
        if is_certain {
            part.certain = part.work.actions.len();
        }
        if let Some(trace) = &mut self.trace
            && trace.sought == Some((&call.key, position))
        {
            trace.found.clone_from(&trace.path);
        }
    }

    /// The number of the part of the entity, which has one from now on.
    fn part(&mut self, call: &Call<M::Event>) -> Result<usize, Refusal> {
        if let Some(&number) = self.plan.numbers.get(&call.key) {
            return Ok(number);
        }
        let number = self.plan.parts.len();
        let Bounds { participants_max: limit, .. } = self.known.bounds;
        if number >= limit {
            return Err(self.refusal(call, Reason::TooManyParticipants { limit }));
        }
        if self.known.model.initial(&call.key).is_none() {
            return Err(self.refusal(call, Reason::NoSuchEntity));
        }
        let work = Work::nothing();
        self.plan.parts.push(Part { work, certain: 0, events: 0, is_as_learnt: true, is_fixed: true });
        self.plan.numbers.insert(call.key.clone(), number);
        Ok(number)
    }

    fn refusal(&self, call: &Call<M::Event>, reason: Reason) -> Refusal {
        let event = match &call.action {
            Action::Event(event) => self.known.model.event_name(event),
            Action::Condition(condition) => &condition.text,
            Action::Ask(_) => "a question",
        };
        let callers = self.trace.as_ref().map(|trace| trace.path.clone()).unwrap_or_default();
        Refusal { entity: call.key.clone(), event: event.to_owned(), reasons: vec![reason], callers }
    }
}
