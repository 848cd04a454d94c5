//! One transaction as its coordinator sees it.

use std::collections::{BTreeMap, BTreeSet};

use super::Begin;
use super::plan::{self, Bounds, Learned, Plan};
use crate::EntityKey;
use crate::admission::Answer;
use crate::message::{Prepare, Said, Vote};
use crate::model::{Call, Calls, Model, Work};
use crate::reason::Refusal;
use crate::record::{AnswerRecord, DecisionRecord, Done, Idempotency, Record};
use crate::tx::{Attempt, Millis, Slot, Timestamp, TxId};

pub(super) struct Transaction<E> {
    calls: Vec<Call<E>>,
    at: Timestamp,
    pub(super) deadline: Millis,
    pub(super) idempotency: Option<Idempotency>,
    pub(super) attempt: Attempt,
    plan: Plan<E>,
    /// What the entities said their events call: facts about those that voted in this attempt, guesses about the others.
    learned: Learned<E>,
    yes: BTreeMap<EntityKey, Yes<E>>,
    /// Told to give up their slot in this attempt, because a vote showed that they are not called after all.
    released: BTreeSet<EntityKey>,
    /// Refused in this attempt what they may not be asked for after all: it rests on a guess, or more may come before it.
    doubted: BTreeMap<EntityKey, Refusal>,
    /// How many had said yes when those that refused were last asked again.
    faced: Option<usize>,
    /// Whose vote is awaited.
    pub(super) asked: Option<EntityKey>,
    pub(super) phase: Phase,
    pub(super) wake: Millis,
    pub(super) span: Millis,
}

struct Yes<E> {
    slot: Slot,
    work: Work<E>,
    state: Option<String>,
}

pub(super) enum Phase {
    /// Not everybody has said yes.
    Voting,
    /// Everybody has; the decision is on the way to the disk.
    Deciding,
    /// Aborted; the answer is on the way to the disk.
    Refusing { answer: AnswerRecord },
    /// Committed; these have not acknowledged it.
    Telling { deaf: BTreeMap<EntityKey, Slot> },
}

impl<E: Clone + Eq> Transaction<E> {
    pub(super) fn new(begin: Begin<E>, now: Millis) -> Self {
        let Begin { calls, at, deadline, idempotency, .. } = begin;
        Self {
            calls,
            at,
            deadline,
            idempotency,
            attempt: Attempt::FIRST,
            plan: Plan::default(),
            learned: Learned::new(),
            yes: BTreeMap::new(),
            released: BTreeSet::new(),
            doubted: BTreeMap::new(),
            faced: None,
            asked: None,
            phase: Phase::Voting,
            wake: now,
            span: Millis(0),
        }
    }

    /// A transaction that was decided before a crash.
    pub(super) fn decided(decision: DecisionRecord) -> Self {
        let DecisionRecord { tx, attempt, participants, answer } = decision;
        let AnswerRecord { at, idempotency, result, .. } = answer;
        let begin = Begin { tx, calls: Vec::new(), at, deadline: Millis::NEVER, idempotency };
        let state = result.ok().and_then(|done| done.state);
        let work = || Work { events: Vec::new(), conditions: Vec::new() };
        let yes = |(key, slot)| (key, Yes { slot, work: work(), state: state.clone() });
        let yes = participants.into_iter().map(yes).collect();
        Self { attempt, yes, ..Self::new(begin, Millis(0)) }
    }

    /// Closes the calls with all that is known, or if guesses contradict facts, with the facts alone.
    pub(super) fn replan<M: Model<Event = E>>(&mut self, model: &M, bounds: Bounds) -> Result<(), Refusal> {
        let plan = plan::close(model, &self.calls, self.at, &self.learned, bounds);
        self.plan = match plan {
            Ok(plan) => plan,
            Err(_) => {
                self.forget_guesses();
                plan::close(model, &self.calls, self.at, &self.learned, bounds)?
            }
        };
        Ok(())
    }

    fn forget_guesses(&mut self) {
        let yes = &self.yes;
        self.learned.retain(|key, _| yes.contains_key(key));
    }

    /// The entity that was asked refuses. That ends the transaction, unless it rests on a guess what is asked of it, or an
    /// event whose calls are not known comes before: then it is asked again when all others have said what they call.
    pub(super) fn refused<M: Model<Event = E>>(
        &mut self,
        model: &M,
        bounds: Bounds,
        from: EntityKey,
        refusal: Refusal,
    ) -> Result<(), Refusal> {
        let facts = self.learned.iter().filter(|(key, _)| self.yes.contains_key(*key));
        let facts = facts.map(|(key, calls)| (key.clone(), calls.clone())).collect();
        let plan = plan::close(model, &self.calls, self.at, &facts, bounds)?;
        let is_fact = plan.works.get(&from).is_some_and(|work| work.is_same(&self.plan.works[&from]));
        if is_fact && !plan.incomplete.contains(&from) {
            return Err(refusal);
        }
        self.asked = None;
        self.doubted.insert(from, refusal);
        Ok(())
    }

    /// Gives up every guess, if nobody but those that refused is left to ask; says whether there were any. If nobody has said
    /// yes since this was last done, the first refusal is the answer.
    pub(super) fn face_doubts<M: Model<Event = E>>(&mut self, model: &M, bounds: Bounds) -> Result<bool, Refusal> {
        if self.next_to_ask().is_some() || self.doubted.is_empty() {
            return Ok(false);
        }
        let doubted = std::mem::take(&mut self.doubted);
        if self.faced.replace(self.yes.len()) == Some(self.yes.len())
            && let Some((_, refusal)) = doubted.into_iter().next()
        {
            return Err(refusal);
        }
        self.forget_guesses();
        self.replan(model, bounds)?;
        Ok(true)
    }

    /// Takes the yes of the entity that was asked.
    pub(super) fn accept<M: Model<Event = E>>(
        &mut self,
        model: &M,
        bounds: Bounds,
        from: EntityKey,
        slot: Slot,
        answer: Answer<E>,
    ) -> Result<(), Refusal> {
        self.asked = None;
        let work = self.plan.works[&from].clone();
        let depends = |event: &E| matches!(model.calls(&from, None, event, self.at), Calls::DependsOnState);
        let learnt = work.events.iter().any(depends);
        let news: Vec<_> = work.events.iter().cloned().zip(answer.calls).collect();
        self.yes.insert(from.clone(), Yes { slot, work, state: answer.state });
        if !learnt {
            return Ok(());
        }
        let known = self.learned.insert(from, news.clone());
        if known == Some(news) { Ok(()) } else { self.replan(model, bounds) }
    }

    /// Whether an entity said yes to something else than it is asked for now, or would be asked again after its release.
    pub(super) fn contradicts_votes(&self) -> bool {
        let other_work =
            |(key, yes): (&EntityKey, &Yes<E>)| self.plan.works.get(key).is_some_and(|work| !work.is_same(&yes.work));
        self.yes.iter().any(other_work) || self.released.iter().any(|key| self.plan.works.contains_key(key))
    }

    /// Takes those that said yes and are not called after all.
    pub(super) fn release_strangers(&mut self) -> Vec<(EntityKey, Slot)> {
        let plan = &self.plan.works;
        let strangers = self.yes.extract_if(.., |key, _| !plan.contains_key(key));
        let strangers: Vec<_> = strangers.map(|(key, yes)| (key, yes.slot)).collect();
        self.released.extend(strangers.iter().map(|(key, _)| key.clone()));
        strangers
    }

    /// The first in the order of keys that has not voted.
    pub(super) fn next_to_ask(&self) -> Option<EntityKey> {
        let is_left = |key: &&EntityKey| !self.yes.contains_key(*key) && !self.doubted.contains_key(*key);
        self.plan.works.keys().find(is_left).cloned()
    }

    /// The request to the entity whose vote is awaited.
    pub(super) fn prepare(&self, tx: TxId, coordinator: &EntityKey) -> Option<(EntityKey, Prepare<E>)> {
        let to = self.asked.clone()?;
        let ordered = self.yes.last_key_value().is_none_or(|(held, _)| *held < to);
        let prepare = Prepare {
            tx,
            attempt: self.attempt,
            coordinator: coordinator.clone(),
            work: self.plan.works[&to].clone(),
            at: self.at,
            deadline: self.deadline,
            ordered,
        };
        Some((to, prepare))
    }

    /// Takes everybody who may hold a slot for this attempt.
    pub(super) fn take_held(&mut self) -> Vec<(EntityKey, Option<Slot>)> {
        let voted = std::mem::take(&mut self.yes).into_iter().map(|(key, yes)| (key, Some(yes.slot)));
        voted.chain(self.asked.take().map(|key| (key, None))).collect()
    }

    /// Goes on to the next attempt with what was learnt in this one.
    pub(super) fn next_attempt<M: Model<Event = E>>(&mut self, model: &M, bounds: Bounds) -> Result<(), Refusal> {
        self.attempt = self.attempt.next();
        self.released.clear();
        self.doubted.clear();
        self.faced = None;
        self.replan(model, bounds)
    }

    pub(super) fn slot_of(&self, key: &EntityKey) -> Option<Slot> {
        self.yes.get(key).map(|yes| yes.slot)
    }

    pub(super) fn answer(&self, tx: TxId, result: Result<Done, Refusal>) -> AnswerRecord {
        AnswerRecord { tx, at: self.at, idempotency: self.idempotency.clone(), result }
    }

    /// The decision to commit.
    pub(super) fn decision(&self, tx: TxId) -> DecisionRecord {
        let first = self.calls.first().and_then(|call| self.yes.get(&call.key)).or_else(|| self.yes.values().next());
        let done = Done { state: first.and_then(|yes| yes.state.clone()) };
        DecisionRecord {
            tx,
            attempt: self.attempt,
            participants: self.yes.iter().map(|(key, yes)| (key.clone(), yes.slot)).collect(),
            answer: self.answer(tx, Ok(done)),
        }
    }

    /// The effects, as each entity finds them in a shared journal.
    pub(super) fn commits(&self, tx: TxId) -> Vec<(EntityKey, Record<E>)> {
        let commit = |(key, yes): (&EntityKey, &Yes<E>)| {
            let events = yes.work.events.clone();
            (!events.is_empty()).then(|| (key.clone(), Record::Committed { tx, slot: yes.slot, events, at: self.at }))
        };
        self.yes.iter().filter_map(commit).collect()
    }
}

impl<E> Said<E> {
    /// The slot that is spoken of.
    pub(super) const fn slot(&self) -> Option<Slot> {
        match self {
            Self::Vote(Vote::Yes { slot, .. }) | Self::Ack(slot) | Self::Ask(slot) => Some(*slot),
            Self::Vote(_) => None,
        }
    }
}
