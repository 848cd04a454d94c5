//! One entity as its model sees it: what a job would do in a given state.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::EntityKey;
use crate::model::{Call, Calls, Condition, Demand, Field, Linear, Model, Relation, Work};
use crate::reason::Reason;
use crate::tx::{Attempt, Timestamp, TxId};

/// What one transaction wants of the entity.
#[derive(Clone, Debug)]
pub(crate) struct Job<E> {
    pub(crate) tx: TxId,
    pub(crate) attempt: Attempt,
    pub(crate) work: Work<E>,
    pub(crate) at: Timestamp,
}

/// What an admitted transaction is told: the same in every outcome of what was open when it was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer<E> {
    /// What each event asks of other entities.
    pub calls: Vec<Vec<Call<E>>>,
    /// The name of the life-cycle state after the events; nothing if there are only conditions.
    pub state: Option<String>,
}

/// The state after a job, and what the transaction is told.
pub(super) struct Step<M: Model> {
    pub(super) state: M::State,
    pub(super) answer: Answer<M::Event>,
}

/// A job that the interval domain can judge.
#[derive(Clone, Debug)]
pub(super) struct Shape<E> {
    pub(super) linear: Linear,
    pub(super) calls: Vec<Vec<Call<E>>>,
}

type Possible<M> = Result<(<M as Model>::State, Vec<Call<<M as Model>::Event>>), Vec<Reason>>;

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

    pub(super) fn exists(&self, state: &M::State) -> bool {
        self.model.exists(&self.key, state)
    }

    pub(super) fn state_name<'a>(&'a self, state: &'a M::State) -> &'a str {
        self.model.state_name(&self.key, state)
    }

    /// What `job` does in `state`, or every reason why it cannot.
    pub(super) fn step(&self, job: &Job<M::Event>, state: &M::State) -> Result<Step<M>, Vec<Reason>> {
        let mut reasons: Vec<_> =
            job.work.conditions.iter().filter_map(|condition| self.broken(condition, job.at, state)).collect();
        let (mut next, mut calls) = (state.clone(), Vec::with_capacity(job.work.events.len()));
        for event in &job.work.events {
            match self.possible(event, job.at, &next) {
                Ok((after, called)) => {
                    next = after;
                    calls.push(called);
                }
                Err(more) => {
                    reasons.extend(more);
                    break;
                }
            }
        }
        if !reasons.is_empty() {
            return Err(reasons);
        }
        let name = (!calls.is_empty()).then(|| self.state_name(&next).to_owned());
        Ok(Step { state: next, answer: Answer { calls, state: name } })
    }

    /// The state after `event` and its calls, or every reason why it is not possible.
    fn possible(&self, event: &M::Event, at: Timestamp, state: &M::State) -> Possible<M> {
        let next = self.model.next(&self.key, state, event, at)?;
        match self.model.calls(&self.key, Some(state), event, at) {
            Calls::Known(calls) => Ok((next, calls)),
            Calls::Refused(reasons) => Err(reasons),
            Calls::DependsOnState => panic!(
                "the model does not know the calls of {} at {} in {state:?}, where it is possible",
                self.model.event_name(event),
                self.key
            ),
        }
    }

    /// The calls of each event of a job, if they are the same in every state.
    fn fixed_calls(&self, job: &Job<M::Event>) -> Option<Vec<Vec<Call<M::Event>>>> {
        let calls = |event| match self.model.calls(&self.key, None, event, job.at) {
            Calls::Known(calls) => Some(calls),
            Calls::DependsOnState | Calls::Refused(_) => None,
        };
        job.work.events.iter().map(calls).collect()
    }

    /// Whether every condition of `job` holds in `state`.
    pub(super) fn conditions_hold(&self, job: &Job<M::Event>, state: &M::State) -> bool {
        job.work.conditions.iter().all(|condition| self.broken(condition, job.at, state).is_none())
    }

    fn broken(&self, condition: &Condition<M::Event>, at: Timestamp, state: &M::State) -> Option<Reason> {
        let holds = match &condition.demand {
            Demand::Impossible(event) => self.possible(event, at, state).is_err(),
            Demand::Initialized => self.exists(state),
            Demand::InState(asked) => asked.iter().any(|name| name == self.state_name(state)),
        };
        let broken = || Reason::Condition { text: condition.text.clone(), state: self.state_name(state).to_owned() };
        (!holds).then(broken)
    }

    /// Applies an admitted job.
    ///
    /// # Panics
    /// If the model refuses what admission has promised: the model broke one of its laws.
    pub(super) fn apply(&self, job: &Job<M::Event>, state: M::State) -> M::State {
        job.work.events.iter().fold(state, |state, event| match self.model.next(&self.key, &state, event, job.at) {
            Ok(next) => next,
            Err(reasons) => panic!(
                "{} of {} was admitted at {} and is refused in {state:?}: {reasons:?}",
                self.model.event_name(event),
                job.tx,
                self.key
            ),
        })
    }

    /// The job as thresholds and additions, if it is nothing but that: its calls are the same in every state, and its
    /// conditions look only at the life cycle, which linear events do not move.
    pub(super) fn shape(&self, job: &Job<M::Event>) -> Option<Shape<M::Event>> {
        if job.work.conditions.iter().any(|condition| matches!(condition.demand, Demand::Impossible(_))) {
            return None;
        }
        let events = job.work.events.iter();
        let linear: Option<Vec<Linear>> = events.map(|event| self.model.linear(&self.key, event, job.at)).collect();
        Some(Shape { linear: Linear::in_order(linear?)?, calls: self.fixed_calls(job)? })
    }

    /// What is known of two jobs with one event each, whatever conditions stand beside them.
    pub(super) fn relation(&self, open: &Job<M::Event>, incoming: &Job<M::Event>) -> Relation {
        match (&open.work.events[..], &incoming.work.events[..]) {
            ([first], [second]) => self.model.relation(&self.key, first, second),
            _ => Relation::Dynamic,
        }
    }

    /// The name of what a job does: its events, or else its conditions.
    pub(super) fn job_name(&self, work: &Work<M::Event>) -> String {
        let mut names: Vec<&str> = work.events.iter().map(|event| self.model.event_name(event)).collect();
        if names.is_empty() {
            names = work.conditions.iter().map(|condition| condition.text.as_str()).collect();
        }
        names.join(", ")
    }
}
