//! One transaction as its coordinator sees it.

use std::collections::{BTreeMap, BTreeSet};

use enact_rebel::Value;

use super::Begin;
use super::plan::{Bounds, Inquiries, Known, Learned, Lesson, Plan};
use crate::EntityKey;
use crate::admission::{Answer, Branch, EarlyRelease, Rejection, Request, Unanswered};
use crate::by_key::ByKey;
use crate::message::{Precommit, Prepare, Said, Vote};
use crate::model::{Action, Call, Model, Question, Work};
use crate::participant::Durability;
use crate::reason::{Reason, Refusal};
use crate::record::{AnswerRecord, DecisionRecord, Done, Idempotency, Record};
use crate::tx::{Attempt, Millis, Slot, Timestamp, TxId};

#[derive(Debug)]
pub(super) struct Transaction<E> {
    calls: Vec<Call<E>>,
    at: Timestamp,
    pub(super) deadline: Millis,
    pub(super) idempotency: Option<Idempotency>,
    pub(super) attempt: Attempt,
    plan: Plan<E>,
    /// What the entities said their events call: facts about those that voted in this attempt, guesses about the others.
    learned: Learned<E>,
    inquiries: Inquiries<E>,
    yes: ByKey<Yes<E>>,
    /// Said yes to something else than they are asked for now, and hold that until they are asked.
    outdated: ByKey<Slot>,
    /// Refused in this attempt; what they said of their events on that occasion counts as a fact.
    no: BTreeSet<EntityKey>,
    /// Told to give up their slot in this attempt, because a vote showed that they are not called after all.
    released: BTreeSet<EntityKey>,
    /// Refused in this attempt, and not asked again, what they may be asked for after all or not.
    doubted: BTreeSet<EntityKey>,
    /// Whether the plan has not been compared with the votes since it was made.
    is_new_plan: bool,
    /// Whose votes are awaited, each with the attempt that it is asked for.
    asked: ByKey<Attempt>,
    /// Whether something has been learnt that the plan does not know.
    is_news: bool,
    pub(super) phase: Phase,
    /// When it is woken, if it is.
    pub(super) wake: Millis,
    pub(super) span: Millis,
    /// Whether a timer makes it happen.
    pub(super) is_timed: bool,
    /// How often it was begun anew behind a due event.
    pub(super) due_before: usize,
    /// Whether a vote of this attempt depends on a commit that is not known to be durable.
    depends: bool,
    /// Whether no vote may.
    pub(super) certain: bool,
}

#[derive(Debug)]
struct Yes<E> {
    slot: Slot,
    /// What it has said yes to, until a new plan has been compared with it: otherwise that is what the plan asks it for.
    work: Option<Work<E>>,
    state: Option<String>,
    /// What its first event returns.
    result: Option<Box<Value>>,
    /// Whether it acknowledges a commit when that is applied, and the client is told then.
    in_line: bool,
    durability: Durability,
    early: Option<EarlyRelease>,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Not everybody has said yes.
    Voting,
    /// Everybody has; the decision is on the way to the disk.
    Deciding,
    /// Aborted until a due event has happened, which comes first.
    Early,
    /// Aborted; the answer is on the way to the disk.
    Refusing { answer: AnswerRecord },
    /// Committed; these have not acknowledged it.
    Telling { deaf: ByKey<Slot> },
}

impl<E: Clone + Eq> Transaction<E> {
    pub(super) fn new(begin: Begin<E>) -> Self {
        let Begin { calls, at, deadline, idempotency, .. } = begin;
        Self {
            calls,
            at,
            deadline,
            idempotency,
            attempt: Attempt::FIRST,
            plan: Plan::default(),
            learned: Learned::new(),
            inquiries: Inquiries::new(),
            yes: ByKey::default(),
            outdated: ByKey::default(),
            no: BTreeSet::new(),
            released: BTreeSet::new(),
            doubted: BTreeSet::new(),
            is_new_plan: false,
            asked: ByKey::default(),
            is_news: false,
            phase: Phase::Voting,
            wake: Millis::NEVER,
            span: Millis(0),
            is_timed: false,
            due_before: 0,
            depends: false,
            certain: false,
        }
    }

    /// A transaction that was decided before a crash.
    pub(super) fn decided(decision: DecisionRecord) -> Self {
        let DecisionRecord { tx, attempt, participants, answer } = decision;
        let AnswerRecord { at, idempotency, result, .. } = answer;
        let begin = Begin { tx, calls: Vec::new(), at, deadline: Millis::NEVER, idempotency };
        let Done { state, result } = result.unwrap_or_default();
        let yes = |(key, slot)| {
            let (state, result) = (state.clone(), result.clone());
            (
                key,
                Yes { slot, work: None, state, result, in_line: false, durability: Durability::TwoPhase, early: None },
            )
        };
        let yes = participants.into_iter().map(yes).collect();
        Self { attempt, yes, ..Self::new(begin) }
    }

    /// Plans with all that is known, or if guesses contradict facts, with the facts alone.
    pub(super) fn replan<M: Model<Event = E>>(&mut self, model: &M, bounds: Bounds) -> Result<(), Refusal> {
        (self.is_new_plan, self.is_news) = (true, false);
        let plan = match self.known(model, &self.learned, bounds).plan() {
            Ok(plan) => plan,
            Err(_) => {
                self.forget_guesses();
                self.known(model, &self.learned, bounds).plan()?
            }
        };
        let mut former = std::mem::replace(&mut self.plan, plan);
        for (key, yes) in self.yes.iter_mut() {
            yes.work = yes.work.take().or_else(|| former.take_work(key));
        }
        Ok(())
    }

    fn known<'a, M: Model<Event = E>>(&'a self, model: &'a M, learned: &'a Learned<E>, bounds: Bounds) -> Known<'a, M> {
        Known { model, calls: &self.calls, at: self.at, learned, inquiries: &self.inquiries, bounds }
    }

    fn forget_guesses(&mut self) {
        let (yes, outdated, no) = (&self.yes, &self.outdated, &self.no);
        self.learned.retain(|key, _| yes.has(key) || outdated.has(key) || no.contains(key));
    }

    /// An entity that was asked refuses. That ends the transaction if nothing that is unknown can change what it will be
    /// asked for up to there. Otherwise it is asked again when all others have said what they call.
    pub(super) fn refused<M: Model<Event = E>>(
        &mut self,
        model: &M,
        bounds: Bounds,
        from: EntityKey,
        rejection: Rejection<E>,
    ) -> Result<(), Refusal> {
        let Rejection { refusal, before, calls, answers } = rejection;
        self.heard(&from);
        let Some(work) = self.plan.work(&from).cloned() else { return Ok(()) };
        self.learned.insert(from.clone(), Lesson::of(&work, calls, answers));
        self.no.insert(from.clone());
        // What is held, if only for another part, is as it was told.
        let is_fact = |key: &EntityKey| self.yes.has(key) || self.outdated.has(key) || self.no.contains(key);
        let facts = self.learned.iter().filter(|(key, _)| is_fact(key));
        let facts = facts.map(|(key, lesson)| (key.clone(), lesson.clone())).collect();
        if self.known(model, &facts, bounds).plan()?.settles(&from, &work, before) {
            let callers = self.known(model, &self.learned, bounds).callers(&from, before);
            return Err(Refusal { callers, ..refusal });
        }
        self.doubted.insert(from);
        self.is_news = true;
        Ok(())
    }

    /// An entity that was asked wants to know something first.
    pub(super) fn inquire<M: Model<Event = E>>(
        &mut self,
        model: &M,
        from: EntityKey,
        unanswered: Unanswered<E>,
    ) -> Result<(), Refusal> {
        let Unanswered { position, asked } = unanswered;
        self.heard(&from);
        let Some(work) = self.plan.work(&from) else { return Ok(()) };
        let Some(Action::Event(event)) = work.actions.get(position).cloned() else { return Ok(()) };
        let number = work.actions[..position].iter().filter(|action| matches!(action, Action::Event(_))).count();
        let known = self.inquiries.entry((from.clone(), number)).or_default();
        if known.iter().any(|(known, _)| *known == event) {
            let what = "it asks for what it has been told".to_owned();
            let event = model.event_name(&event).to_owned();
            return Err(Refusal {
                entity: from,
                event,
                reasons: vec![Reason::Malformed { what }],
                callers: Vec::new(),
            });
        }
        known.push((event, asked));
        self.attempt = self.attempt.next_round();
        self.is_news = true;
        Ok(())
    }

    /// Gives up every guess, if nobody but those that have refused is left to ask, and asks those again; says whether there
    /// were any.
    ///
    /// That ends: of those that refuse the same again, the one that does so first in the order of calls has nothing
    /// unknown before it, and its refusal is final.
    pub(super) fn face_doubts<M: Model<Event = E>>(&mut self, model: &M, bounds: Bounds) -> Result<bool, Refusal> {
        if self.doubted.is_empty() || self.to_ask().next().is_some() {
            return Ok(false);
        }
        self.doubted.clear();
        self.attempt = self.attempt.next_round();
        self.forget_guesses();
        self.replan(model, bounds)?;
        Ok(true)
    }

    /// Takes the yes of an entity that was asked.
    pub(super) fn accept(
        &mut self,
        from: EntityKey,
        (slot, durability, early): (Slot, Durability, Option<EarlyRelease>),
        answer: Answer<E>,
    ) {
        self.heard(&from);
        let Some((work, is_fixed)) = self.plan.question(&from) else { return };
        let Answer { calls, answers, state, in_line } = answer;
        let result = result_of(work, &answers);
        let is_news = !answers.is_empty() || !is_fixed;
        let news = is_news.then(|| Lesson::of(work, calls, answers));
        self.depends |= early.is_some_and(|early| early.depends_on.is_some());
        self.yes.insert(from.clone(), Yes { slot, work: None, state, result, in_line, durability, early });
        self.no.remove(&from);
        if let Some(news) = news {
            self.is_news |= self.learned.insert(from, news.clone()).as_ref() != Some(&news);
        }
    }

    /// Plans anew if something has been learnt.
    pub(super) fn take_news<M: Model<Event = E>>(&mut self, model: &M, bounds: Bounds) -> Result<(), Refusal> {
        if self.is_news { self.replan(model, bounds) } else { Ok(()) }
    }

    /// Compares a new plan with the votes: those that said yes and are not called after all are taken out, and those that said yes to
    /// something else than they are asked for now are asked in a new round. Nothing if an entity would be asked again after its
    /// release.
    pub(super) fn compare(&mut self) -> Option<Vec<(EntityKey, Slot)>> {
        if !std::mem::take(&mut self.is_new_plan) {
            return Some(Vec::new());
        }
        if self.released.iter().any(|key| self.plan.work(key).is_some()) {
            return None;
        }
        let plan = &self.plan;
        let is_changed = |key: &EntityKey, yes: &Yes<E>| {
            plan.work(key).is_some_and(|work| yes.work.as_ref().is_some_and(|given| given != work))
        };
        let changed: Vec<_> = self.yes.extract_if(is_changed).map(|(key, yes)| (key, yes.slot)).collect();
        self.yes.iter_mut().for_each(|(_, yes)| yes.work = None);
        if !changed.is_empty() {
            self.attempt = self.attempt.next_round();
        }
        changed.into_iter().for_each(|(key, slot)| self.outdated.insert(key, slot));
        Some(self.release_strangers())
    }

    fn release_strangers(&mut self) -> Vec<(EntityKey, Slot)> {
        let plan = &self.plan;
        let strangers = self.yes.extract_if(|key, _| plan.work(key).is_none()).map(|(key, yes)| (key, yes.slot));
        let mut strangers: Vec<_> = strangers.collect();
        strangers.extend(self.outdated.extract_if(|key, _| plan.work(key).is_none()));
        self.released.extend(strangers.iter().map(|(key, _)| key.clone()));
        strangers
    }

    /// Asks the next entity in the order of keys, in the place of what it has said yes to before; in the first attempt, if it is far,
    /// all with it that are far and have their whole part. Returns whether there was one.
    pub(super) fn begin_to_ask(&mut self, is_far: impl Fn(&EntityKey) -> bool) -> bool {
        let Some(first) = self.to_ask().next().cloned() else { return false };
        let is_whole = |key: &EntityKey| self.plan.work(key).is_some_and(|work| !work.partial);
        let is_one_of_many = |key: &EntityKey| is_far(key) && is_whole(key);
        if self.attempt.number == Attempt::FIRST.number && is_one_of_many(&first) {
            let others: Vec<EntityKey> = self.to_ask().skip(1).filter(|key| is_one_of_many(key)).cloned().collect();
            others.into_iter().for_each(|other| self.enter_asked(other));
        }
        self.enter_asked(first);
        true
    }

    fn enter_asked(&mut self, key: EntityKey) {
        self.outdated.remove_if(&key, |_| true);
        self.asked.insert(key, self.attempt);
    }

    /// Whether the vote of `from` in this attempt is awaited. One of an earlier round answers another question.
    pub(super) fn awaits(&self, from: &EntityKey, attempt: Attempt) -> bool {
        self.asked.get(from).is_some_and(|asked| *asked <= attempt)
    }

    /// The entities whose votes are awaited.
    pub(super) fn asked(&self) -> impl Iterator<Item = &EntityKey> {
        self.asked.iter().map(|(key, _)| key)
    }

    /// The entities that owe an answer: a vote, or an acknowledgement.
    pub(super) fn debtors(&self) -> impl Iterator<Item = &EntityKey> {
        let (voters, deaf) = match &self.phase {
            Phase::Voting => (Some(self.asked()), None),
            Phase::Telling { deaf } => (None, Some(deaf.iter().map(|(key, _)| key))),
            Phase::Early | Phase::Deciding | Phase::Refusing { .. } => (None, None),
        };
        voters.into_iter().flatten().chain(deaf.into_iter().flatten())
    }

    /// Whether a vote is awaited.
    pub(super) fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// `from` has voted.
    pub(super) fn heard(&mut self, from: &EntityKey) {
        self.asked.remove_if(from, |_| true);
    }

    /// Those that have not voted and can be asked, in the order of keys.
    fn to_ask(&self) -> impl Iterator<Item = &EntityKey> {
        self.plan.ready().filter(|key| !self.yes.has(key) && !self.doubted.contains(*key))
    }

    /// Whether an event waits for an answer.
    pub(super) fn is_partial(&self) -> bool {
        self.plan.is_partial()
    }

    /// The request to an entity whose vote is awaited.
    pub(super) fn prepare(
        &self,
        tx: TxId,
        to: &EntityKey,
        coordinator: &EntityKey,
        durability: Durability,
    ) -> Option<Prepare<E>> {
        let attempt = *self.asked.get(to)?;
        // What is asked may be held by now.
        let mut last_held =
            [self.yes.last_key(), self.outdated.last_key(), self.asked.last_key()].into_iter().flatten();
        let ordered = last_held.all(|held| held <= to) || cfg!(planted = "wait_out_of_order");
        let (work, is_fixed) = self.plan.question(to)?;
        // What answers stand between is told with them.
        let calls_known = is_fixed && work.questions().next().is_none();
        let work = Work { timed: self.is_timed, ..work.clone() };
        let branch = Branch { tx, attempt, work, at: self.at };
        let (deadline, sole) = (self.deadline, self.plan.is_sole());
        let request = Request { branch, deadline, ordered, sole, certain: self.certain, calls_known };
        Some(Prepare { coordinator: coordinator.clone(), durability, request })
    }

    /// Takes all participants that may hold a slot for this attempt.
    pub(super) fn take_held(&mut self) -> Vec<(EntityKey, Option<Slot>)> {
        let voted = std::mem::take(&mut self.yes).into_iter().map(|(key, yes)| (key, Some(yes.slot)));
        let outdated = std::mem::take(&mut self.outdated).into_iter().map(|(key, slot)| (key, Some(slot)));
        let asked = std::mem::take(&mut self.asked).into_iter().map(|(key, _)| (key, None));
        voted.chain(outdated).chain(asked).collect()
    }

    /// Goes on to the next attempt with what was learnt in this one.
    pub(super) fn next_attempt<M: Model<Event = E>>(&mut self, model: &M, bounds: Bounds) -> Result<(), Refusal> {
        self.attempt = self.attempt.next();
        self.depends = false;
        self.released.clear();
        self.no.clear();
        self.doubted.clear();
        self.replan(model, bounds)
    }

    pub(super) fn slot_of(&self, key: &EntityKey) -> Option<Slot> {
        self.yes.get(key).map(|yes| yes.slot).or_else(|| self.outdated.get(key).copied())
    }

    /// Whether a refusal of this attempt may follow from what still may vanish.
    pub(super) const fn depends(&self) -> bool {
        self.depends
    }

    /// Behind whose records those of this transaction have to stand, by entity.
    pub(super) fn depends_on(&self) -> BTreeMap<EntityKey, TxId> {
        let dependency = |(key, yes): (&EntityKey, &Yes<E>)| Some((key.clone(), yes.early?.depends_on?));
        self.yes.iter().filter_map(dependency).collect()
    }

    /// Who is told when the decision has its place.
    pub(super) fn precommits(&self, tx: TxId) -> Vec<(EntityKey, Precommit)> {
        let early = self.yes.iter().filter(|(_, yes)| yes.early.is_some());
        early.map(|(key, yes)| (key.clone(), Precommit { tx, slot: yes.slot })).collect()
    }

    /// Whether the client is told of a commit only when everybody has acknowledged it.
    pub(super) fn is_in_line(&self) -> bool {
        self.yes.values().any(|yes| yes.in_line)
    }

    pub(super) fn answer(&self, tx: TxId, result: Result<Done, Refusal>) -> AnswerRecord {
        AnswerRecord { tx, at: self.at, idempotency: self.idempotency.clone(), result }
    }

    /// The participants that have said yes, in the order of keys.
    pub(super) fn participants(&self) -> impl ExactSizeIterator<Item = (EntityKey, Slot)> {
        self.yes.iter().map(|(key, yes)| (key.clone(), yes.slot))
    }

    /// How the participant keeps what it has promised, if it has.
    pub(super) fn durability_of(&self, participant: &EntityKey) -> Option<Durability> {
        Some(self.yes.get(participant)?.durability)
    }

    /// Whether a participant keeps its promise in another journal.
    pub(super) fn is_two_phase(&self) -> bool {
        self.yes.values().any(|yes| yes.durability == Durability::TwoPhase)
    }

    /// The decision to commit, with the participants that do not find it in their own records.
    pub(super) fn decision(&self, tx: TxId) -> DecisionRecord {
        let elsewhere = self.yes.iter().filter(|(_, yes)| yes.durability == Durability::TwoPhase);
        DecisionRecord {
            tx,
            attempt: self.attempt,
            participants: elsewhere.map(|(key, yes)| (key.clone(), yes.slot)).collect(),
            answer: self.answer(tx, Ok(self.done())),
        }
    }

    /// What the client is told of a commit.
    pub(super) fn done(&self) -> Done {
        let first = self.calls.first().and_then(|call| self.yes.get(&call.key)).or_else(|| self.yes.values().next());
        first.map(|yes| Done { state: yes.state.clone(), result: yes.result.clone() }).unwrap_or_default()
    }

    /// Takes the effects of those that share the journal, as each finds them there; they happen under `version` of the contract.
    pub(super) fn take_commits(&mut self, tx: TxId, version: u32) -> impl Iterator<Item = (EntityKey, Record<E>)> {
        let (at, plan) = (self.at, &mut self.plan);
        let commit = move |(key, yes): (&EntityKey, &mut Yes<E>)| {
            let events: Vec<E> = plan.take_work(key)?.into_events().collect();
            let is_written = yes.durability == Durability::Shared && !events.is_empty();
            is_written
                .then(|| (key.clone(), Record::Committed { tx, slot: yes.slot, events, at, version, overlap: None }))
        };
        self.yes.iter_mut().filter_map(commit)
    }
}

/// What the first event of `work` returns, which is asked for if the client wants it.
fn result_of<E: Eq>(work: &Work<E>, answers: &[Option<Value>]) -> Option<Box<Value>> {
    let first = work.events().next()?;
    let mut questions = work.questions().zip(answers);
    let (_, answer) = questions.find(|(question, _)| matches!(question, Question::Result(of) if of == first))?;
    answer.clone().map(Box::new)
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
