//! One entity as its model sees it: what a branch would do in a given state.

use std::borrow::Cow;
use std::sync::Arc;

use enact_rebel::{Manner, Value};
use serde::{Deserialize, Serialize};

use super::footprint::{Base as _, Footprint};
use super::progress::Progress;
use crate::EntityKey;
use crate::model::{
    Action, Asked, Bound, Call, Calls, Change, Condition, Content, Cover, Demand, Due, Field, Forecast, Linear,
    Location, Model, Place, Question, Relation, Threshold, Work,
};
use crate::reason::{Reason, Refusal};
use crate::tx::{Attempt, Timestamp, TxId};

/// What one transaction does at one entity: its branch there, as the standards for distributed transactions call it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch<E> {
    /// The transaction.
    pub tx: TxId,
    /// Its attempt.
    pub attempt: Attempt,
    /// What is to happen here.
    pub work: Work<E>,
    /// The time of its events.
    pub at: Timestamp,
}

/// What an admitted transaction is told: the same in every outcome of what was open when it was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer<E> {
    /// What each event asks of other entities; empty if the coordinator [knows](super::Request::calls_known).
    pub calls: Vec<Vec<Call<E>>>,
    /// The answer to each question; nothing to one for a field without a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Option<Value>>,
    /// The name of the life-cycle state after the events; nothing if there are only conditions and questions.
    pub state: Option<String>,
    /// Whether it stands in line behind everything that was in progress: its client is told of a commit when it is applied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_line: bool,
}

/// Why the work of a transaction is possible in no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection<E> {
    /// What the client is told.
    pub refusal: Refusal,
    /// How many actions come before the one that is refused; all of them if it is the state they leave. Where outcomes
    /// differ, the most.
    pub before: usize,
    /// What each event before that one asks of other entities; empty if the coordinator [knows](super::Request::calls_known).
    pub calls: Vec<Vec<Call<E>>>,
    /// The answer to each question before that one.
    pub answers: Vec<Option<Value>>,
}

/// What must be known of other entities before the work of a transaction can be judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unanswered<E> {
    /// The place, among the actions, of the event that asks.
    pub position: usize,
    /// What it asks, at least one question.
    pub asked: Vec<Asked<E>>,
}

/// The state after a branch, and what the transaction is told.
pub(super) struct Step<M: Model> {
    pub(super) state: M::State,
    pub(super) answer: Answer<M::Event>,
}

/// A branch that the interval domain can judge.
#[derive(Clone, Debug)]
pub(super) struct Shape<E> {
    pub(super) footprint: Footprint,
    pub(super) calls: Vec<Vec<Call<E>>>,
}

/// What lies there is asked for and is not the same in all outcomes.
#[derive(Clone, Debug)]
pub(super) struct Unsettled(pub(super) Location);

/// Why a branch cannot happen in one state.
pub(super) struct Stop<E> {
    pub(super) reasons: Vec<Reason>,
    /// How many actions come before the one that is refused.
    pub(super) before: usize,
    /// What each event before that one asks of other entities.
    pub(super) calls: Vec<Vec<Call<E>>>,
    /// The answer to each question before that one.
    pub(super) answers: Vec<Option<Value>>,
    /// What the event there must know first; then it is not refused, and there are no reasons.
    pub(super) wants: Vec<Asked<E>>,
}

impl<E> Stop<E> {
    /// Whether another event is due and comes first.
    pub(super) fn is_early(&self) -> bool {
        matches!(self.reasons[..], [Reason::Due { .. }])
    }
}

pub(crate) type Possible<M> = Result<(<M as Model>::State, Vec<Call<<M as Model>::Event>>), Vec<Reason>>;

pub(crate) struct Entity<M: Model> {
    pub(crate) model: Arc<M>,
    pub(crate) key: EntityKey,
}

impl<M: Model> Clone for Entity<M> {
    fn clone(&self) -> Self {
        Self { model: Arc::clone(&self.model), key: self.key.clone() }
    }
}

impl<M: Model> Entity<M> {
    pub(super) fn number(&self, state: &M::State, field: Field) -> Option<i128> {
        self.model.number(&self.key, state, field)
    }

    pub(super) fn numbers(&self, state: &M::State) -> Vec<(Field, i128)> {
        self.model.numbers(&self.key, state)
    }

    pub(super) fn show(&self, field: Field, value: i128) -> (String, String) {
        self.model.show(&self.key, field, value)
    }

    pub(super) fn content(&self, state: &M::State, place: &Place) -> Option<String> {
        self.model.content(&self.key, state, place)
    }

    pub(super) fn place_name(&self, place: &Place) -> String {
        if *place == Place::LIFE_CYCLE { "it".to_owned() } else { self.model.place_name(&self.key, place) }
    }

    pub(super) fn location(&self, state: &M::State, field: &str) -> Option<Location> {
        self.model.location(&self.key, state, field)
    }

    /// Whether what the model tells of events in advance holds of `state`.
    pub(super) fn is_sound(&self, state: &M::State) -> bool {
        self.model.is_sound(&self.key, state)
    }

    pub(super) fn exists(&self, state: &M::State) -> bool {
        self.model.exists(&self.key, state)
    }

    pub(super) fn state_name<'a>(&'a self, state: &'a M::State) -> &'a str {
        self.model.state_name(&self.key, state)
    }

    /// What `branch` does in the state that it has `found`, or every reason of the first action that cannot be.
    pub(super) fn step(&self, branch: &Branch<M::Event>, found: &M::State) -> Result<Step<M>, Stop<M::Event>> {
        self.step_telling(branch, found, true)
    }

    /// The same; what the events call is told, and asked of the model, only if `tells_calls`.
    pub(super) fn step_telling(
        &self,
        branch: &Branch<M::Event>,
        found: &M::State,
        tells_calls: bool,
    ) -> Result<Step<M>, Stop<M::Event>> {
        let actions = &branch.work.actions;
        let mut state = found.clone();
        let (mut calls, mut answers, mut wants) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(due) = self.due_before(branch, &state) {
            let reasons = vec![Reason::Due { event: self.model.event_name(&due.event).to_owned(), at: due.at }];
            return Err(Stop { reasons, before: 0, calls, answers, wants });
        }
        for (before, action) in actions.iter().enumerate() {
            let reasons = match action {
                // Conditions in a row are told together.
                Action::Condition(condition) => match self.broken(condition, branch.at, &state) {
                    None => Vec::new(),
                    Some(first) => {
                        let others = conditions_in_a_row(&actions[before + 1..]);
                        let others = others.filter_map(|condition| self.broken(condition, branch.at, &state));
                        std::iter::once(first).chain(others).collect()
                    }
                },
                Action::Ask(question) => {
                    answers.push(self.answer(question, branch.at, &state));
                    Vec::new()
                }
                Action::Event(event) => {
                    match self.model.questions(&self.key, &state, event, branch.at) {
                        Ok(asked) => wants = asked,
                        Err(reasons) => return Err(Stop { reasons, before, calls, answers, wants }),
                    }
                    if !wants.is_empty() {
                        return Err(Stop { reasons: Vec::new(), before, calls, answers, wants });
                    }
                    let next = if tells_calls {
                        self.possible(event, branch.at, &state).map(|(next, called)| {
                            calls.push(called);
                            next
                        })
                    } else {
                        self.model.next(&self.key, &state, event, branch.at)
                    };
                    match next {
                        Ok(next) => {
                            state = next;
                            Vec::new()
                        }
                        Err(reasons) => reasons,
                    }
                }
            };
            if !reasons.is_empty() {
                return Err(Stop { reasons, before, calls, answers, wants });
            }
        }
        if !branch.work.has_event() {
            return Ok(Step { state, answer: Answer { calls, answers, state: None, in_line: false } });
        }
        if !branch.work.partial {
            let reasons = self.model.broken(&self.key, found, &state, branch.at);
            if !reasons.is_empty() {
                return Err(Stop { reasons, before: actions.len(), calls, answers, wants });
            }
        }
        let name = self.state_name(&state).to_owned();
        Ok(Step { state, answer: Answer { calls, answers, state: Some(name), in_line: false } })
    }

    /// What happens by itself in `state` before `branch` may.
    pub(super) fn due_before(&self, branch: &Branch<M::Event>, state: &M::State) -> Option<Due<M::Event>> {
        due_before(&*self.model, &self.key, branch, state)
    }

    /// What becomes of `event` behind everything that is described by `cover`.
    pub(super) fn forecast(&self, event: &M::Event, at: Timestamp, base: &M::State, cover: &Cover) -> Forecast {
        self.model.judge(&self.key, base, cover, event, at)
    }

    /// The answer to `question` in `state`.
    fn answer(&self, question: &Question<M::Event>, at: Timestamp, state: &M::State) -> Option<Value> {
        let truth = match question {
            Question::Field(name) => return self.model.value(&self.key, state, name),
            Question::Initialized => self.exists(state),
            Question::InState(asked) => asked.iter().any(|name| name == self.state_name(state)),
            Question::Possible(event) => self.would_happen(event, at, state),
            Question::Result(event) => return self.model.result(&self.key, state, event, at),
        };
        Some(Value::Boolean(truth))
    }

    /// Whether `event` is possible in `state`, as the only one of its transaction.
    fn would_happen(&self, event: &M::Event, at: Timestamp, state: &M::State) -> bool {
        would_happen(&*self.model, &self.key, event, at, state)
    }

    /// The answers to the questions of `branch`, if `state` is what it finds and its events change nothing that is asked for.
    pub(super) fn settled_answers(&self, branch: &Branch<M::Event>, state: &M::State) -> Vec<Option<Value>> {
        branch.work.questions().map(|question| self.answer(question, branch.at, state)).collect()
    }

    /// The state after `event` and its calls, or every reason why it is not possible.
    fn possible(&self, event: &M::Event, at: Timestamp, state: &M::State) -> Possible<M> {
        possible(&*self.model, &self.key, event, at, state)
    }

    /// The calls of each event of a branch, if they are the same in every state.
    fn fixed_calls(&self, branch: &Branch<M::Event>) -> Option<Vec<Vec<Call<M::Event>>>> {
        let calls = branch.work.events().map(|event| match self.model.calls(&self.key, None, event, branch.at) {
            Calls::Known(calls) => Some(calls),
            Calls::DependsOnState | Calls::Refused(_) => None,
        });
        calls.collect()
    }

    /// Whether every condition of `branch` holds at its place, and every question has the answer that was given, if `state` is
    /// what it finds. An event that is not possible there says nothing of what is behind it: that counts as broken.
    pub(super) fn keeps_word(&self, branch: &Branch<M::Event>, given: &Answer<M::Event>, state: &M::State) -> bool {
        let is_event = |action: &Action<M::Event>| matches!(action, Action::Event(_));
        let last = branch.work.actions.iter().rposition(|action| !is_event(action));
        let mut answers = given.answers.iter();
        let mut state = state.clone();
        for action in branch.work.actions.iter().take(last.map_or(0, |last| last + 1)) {
            match action {
                Action::Condition(condition) if self.broken(condition, branch.at, &state).is_some() => return false,
                Action::Condition(_) => {}
                Action::Ask(question) => {
                    if answers.next() != Some(&self.answer(question, branch.at, &state)) {
                        return false;
                    }
                }
                Action::Event(event) => match self.model.next(&self.key, &state, event, branch.at) {
                    Ok(next) => state = next,
                    Err(_) => return false,
                },
            }
        }
        true
    }

    /// Whether every condition of `branch` holds of the life cycle in `state`, which its events do not move.
    pub(super) fn life_cycle_allows(&self, branch: &Branch<M::Event>, state: &M::State) -> bool {
        branch.work.conditions().all(|condition| self.broken(condition, branch.at, state).is_none())
    }

    fn broken(&self, condition: &Condition<M::Event>, at: Timestamp, state: &M::State) -> Option<Reason> {
        broken(&*self.model, &self.key, condition, at, state)
    }

    /// Applies an admitted branch.
    ///
    /// # Panics
    /// If the model refuses what admission has promised: the model broke one of its laws.
    pub(super) fn apply(&self, branch: &Branch<M::Event>, state: M::State) -> M::State {
        branch.work.events().fold(state, |state, event| match self.model.next(&self.key, &state, event, branch.at) {
            Ok(next) => next,
            Err(reasons) => panic!(
                "{} of {} was admitted at {} and is refused in {state:?}: {reasons:?}",
                self.model.event_name(event),
                branch.tx,
                self.key
            ),
        })
    }

    /// The branch as thresholds, contents, additions and constants, if it is nothing but that: its calls are the same in every
    /// state, its conditions and questions look only at the life cycle, which linear events do not move, and what it returns is
    /// the same in every state.
    ///
    /// One event alone may also do something else in `base` and in all states like it.
    pub(super) fn shape(&self, branch: &Branch<M::Event>, base: &M::State) -> Option<Shape<M::Event>> {
        let looks_further = |action: &Action<M::Event>| match action {
            Action::Event(_) => false,
            Action::Condition(condition) => matches!(condition.demand, Demand::Impossible(_)),
            Action::Ask(Question::Result(event)) => !self.model.has_fixed_result(&self.key, event),
            Action::Ask(question) => matches!(question, Question::Field(_) | Question::Possible(_)),
        };
        if branch.work.actions.iter().any(looks_further) {
            return None;
        }
        let events: Vec<M::Event> = branch.work.events().cloned().collect();
        let linear =
            if events.is_empty() { Some(Linear::default()) } else { self.model.linear(&self.key, &events, branch.at) };
        let footprint = match (linear, events.as_slice()) {
            (Some(linear), _) => Footprint::of(linear),
            (None, [event]) if !branch.work.relies() => {
                let at = self.model.reads_time(&self.key, event).then_some(branch.at);
                Footprint::of_effects(self.model.effects(&self.key, base, event, branch.at)?, at)
            }
            (None, _) => return None,
        };
        Some(Shape { footprint, calls: self.fixed_calls(branch)? })
    }

    /// Work that only asks, as what its answers rely on: the numbers and contents of fields, as they are in all outcomes. Says
    /// whether one of them is not the same in all; nothing of work that is not like that.
    pub(super) fn pin(
        &self,
        work: &Work<M::Event>,
        progress: &Progress<M>,
    ) -> Option<Result<Shape<M::Event>, Unsettled>> {
        let mut linear = Linear::default();
        let at_rest = progress.interval.is_life_cycle_at_rest();
        for action in &work.actions {
            let name = match action {
                Action::Ask(Question::Field(name)) => name,
                Action::Ask(Question::Initialized | Question::InState(_)) if at_rest => continue,
                Action::Condition(condition) if at_rest && !matches!(condition.demand, Demand::Impossible(_)) => {
                    continue;
                }
                _ => return None,
            };
            match self.model.location(&self.key, progress.base(), name)? {
                Location::Number(field) => {
                    let ends = progress.interval.field(field, progress.number(field)?)?;
                    if ends.low != ends.high {
                        return Some(Err(Unsettled(Location::Number(field))));
                    }
                    let bounds = [Bound::AtLeast(ends.low), Bound::AtMost(ends.low)];
                    linear.thresholds.extend(bounds.map(|bound| Threshold::of(field, bound)));
                }
                Location::Place(place) => match progress.interval.settled_content(&place, progress) {
                    Some(value) => linear.holds.push(Content { place, value }),
                    None => return Some(Err(Unsettled(Location::Place(place)))),
                },
            }
        }
        let held = if cfg!(planted = "hold_no_answer") { Linear::default() } else { linear };
        Some(Ok(Shape { footprint: Footprint::of(held), calls: Vec::new() }))
    }

    /// Which places `branch` may change, and how; nothing if that is not known.
    pub(super) fn changes(&self, branch: &Branch<M::Event>) -> Option<Vec<Change>> {
        let mut changes: Vec<Change> = Vec::new();
        for event in branch.work.events() {
            for change in self.model.changes(&self.key, event, branch.at)? {
                match changes.iter_mut().find(|known| known.place == change.place) {
                    Some(known) if known.manner != change.manner => known.manner = Manner::Other,
                    Some(_) => {}
                    None => changes.push(change),
                }
            }
        }
        Some(changes)
    }

    /// Whether two branches do the same in every state.
    pub(super) fn do_the_same(&self, one: &Branch<M::Event>, other: &Branch<M::Event>) -> bool {
        one.work == other.work && (one.at == other.at || !self.reads_time(&one.work))
    }

    fn reads_time(&self, work: &Work<M::Event>) -> bool {
        work.actions.iter().any(|action| match action {
            Action::Event(event)
            | Action::Condition(Condition { demand: Demand::Impossible(event), .. })
            | Action::Ask(Question::Possible(event) | Question::Result(event)) => {
                self.model.reads_time(&self.key, event)
            }
            Action::Condition(_) | Action::Ask(_) => false,
        })
    }

    /// What is known of two branches that are one event each.
    pub(super) fn relation(&self, open: &Branch<M::Event>, incoming: &Branch<M::Event>) -> Relation {
        match (open.work.only_event(), incoming.work.only_event()) {
            (Some(first), Some(second)) => self.model.relation(&self.key, first, second),
            _ => Relation::Dynamic,
        }
    }

    /// The refusal of a branch that stops there.
    pub(super) fn rejection(&self, work: &Work<M::Event>, stop: Stop<M::Event>) -> Rejection<M::Event> {
        let Stop { reasons, before, calls, answers, .. } = stop;
        let event = match work.actions.get(before) {
            Some(Action::Event(event)) => self.model.event_name(event).to_owned(),
            Some(Action::Condition(_)) => {
                let texts = conditions_in_a_row(&work.actions[before..]).map(|condition| condition.text.as_str());
                texts.collect::<Vec<_>>().join(", ")
            }
            Some(Action::Ask(_)) | None => self.work_name(work),
        };
        let refusal = Refusal { entity: self.key.clone(), event, reasons, callers: Vec::new() };
        Rejection { refusal, before, calls, answers }
    }

    fn action_name<'a>(&'a self, action: &'a Action<M::Event>) -> Cow<'a, str> {
        match action {
            Action::Event(event) => self.model.event_name(event).into(),
            Action::Condition(condition) => condition.text.as_str().into(),
            Action::Ask(Question::Field(name)) => format!("asks for {name}").into(),
            Action::Ask(Question::Initialized) => "asks whether it exists".into(),
            Action::Ask(Question::InState(states)) => format!("asks whether it is {}", states.join(" or ")).into(),
            Action::Ask(Question::Possible(event)) => {
                format!("asks whether {} is possible", self.model.event_name(event)).into()
            }
            Action::Ask(Question::Result(event)) => format!("asks for {}", self.model.event_name(event)).into(),
        }
    }

    /// The name of the first event of `work`, if it has one.
    pub(super) fn first_event<'a>(&'a self, work: &'a Work<M::Event>) -> Option<&'a str> {
        work.events().next().map(|event| self.model.event_name(event))
    }

    /// The same as [`work_name`](Self::work_name), without a copy if it is one thing.
    pub(super) fn name<'a>(&'a self, work: &'a Work<M::Event>) -> Cow<'a, str> {
        match work.actions.as_slice() {
            [only] => self.action_name(only),
            _ => self.work_name(work).into(),
        }
    }

    /// The name of what a branch does: its events, or else its conditions and questions; each once in a row.
    pub(super) fn work_name(&self, work: &Work<M::Event>) -> String {
        let has_event = work.has_event();
        let named = work.actions.iter().filter(|action| matches!(action, Action::Event(_)) == has_event);
        let mut names: Vec<Cow<'_, str>> = named.map(|action| self.action_name(action)).collect();
        names.dedup();
        names.join(", ")
    }
}

/// What happens by itself in `state` before `branch` may.
pub(crate) fn due_before<M: Model>(
    model: &M,
    key: &EntityKey,
    branch: &Branch<M::Event>,
    state: &M::State,
) -> Option<Due<M::Event>> {
    let is_first = |due: &Due<_>| due.precedes(branch.at, branch.work.timed) && !cfg!(planted = "overlook_what_is_due");
    model.due(key, state).filter(is_first)
}

/// The state after `event` and its calls, or every reason why it is not possible.
pub(crate) fn possible<M: Model>(
    model: &M,
    key: &EntityKey,
    event: &M::Event,
    at: Timestamp,
    state: &M::State,
) -> Possible<M> {
    let next = model.next(key, state, event, at)?;
    match model.calls(key, Some(state), event, at) {
        Calls::Known(calls) => Ok((next, calls)),
        Calls::Refused(reasons) => Err(reasons),
        Calls::DependsOnState => panic!(
            "the model does not know the calls of {} at {key} in {state:?}, where it is possible",
            model.event_name(event)
        ),
    }
}

/// Why `condition` does not hold in `state`; nothing if it does.
pub(crate) fn broken<M: Model>(
    model: &M,
    key: &EntityKey,
    condition: &Condition<M::Event>,
    at: Timestamp,
    state: &M::State,
) -> Option<Reason> {
    let holds = match &condition.demand {
        Demand::Impossible(event) => !would_happen(model, key, event, at, state),
        Demand::Initialized => model.exists(key, state),
        Demand::InState(asked) => asked.iter().any(|name| name == model.state_name(key, state)),
    };
    let broken = || Reason::Condition { text: condition.text.clone(), state: model.state_name(key, state).to_owned() };
    (!holds).then(broken)
}

/// Whether `event` is possible in `state`, as the only one of its transaction.
fn would_happen<M: Model>(model: &M, key: &EntityKey, event: &M::Event, at: Timestamp, state: &M::State) -> bool {
    let next = possible(model, key, event, at, state);
    next.is_ok_and(|(next, _)| model.broken(key, state, &next, at).is_empty())
}

fn conditions_in_a_row<E>(actions: &[Action<E>]) -> impl Iterator<Item = &Condition<E>> {
    actions.iter().map_while(|action| match action {
        Action::Condition(condition) => Some(condition),
        Action::Event(_) | Action::Ask(_) => None,
    })
}
