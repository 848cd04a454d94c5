//! What all outcomes say to a request: each subset of what is undecided, in each order that is still open.
//!
//! Events are evaluated, and nothing else: what admission knows of fields and classes of events in advance is nothing to it, and how
//! many outcomes there are is no matter. It says what a newcomer may be told at the latest then; admission may also make it wait.

use std::collections::HashSet;

use enact_entities::{
    Action, Branch, Condition, Demand, EntityKey, InProgress, Model, Question, Rebel, Timestamp, Verdict,
};
use enact_rebel::{EventCall, Instance, Value};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Judgement {
    /// It is possible whatever is decided.
    Admit,
    /// It is possible whatever is decided nowhere.
    Reject,
    /// That depends on what is decided, or it does not commute with what is in progress.
    Delay,
}

impl<E> From<&Verdict<E>> for Judgement {
    fn from(verdict: &Verdict<E>) -> Self {
        match verdict {
            Verdict::Admitted(..) => Self::Admit,
            Verdict::Rejected(_) => Self::Reject,
            _ => Self::Delay,
        }
    }
}

/// A transaction in progress.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it does.
    pub branch: Branch<EventCall>,
    /// Whether its commit is decided.
    pub is_committed: bool,
    /// Whether it stays behind all that it has found.
    pub is_in_line: bool,
}

impl From<InProgress<EventCall>> for Entry {
    fn from(entry: InProgress<EventCall>) -> Self {
        Self { branch: entry.branch, is_committed: entry.committed, is_in_line: entry.answer.in_line }
    }
}

/// Judges a request by every outcome of what is in progress at one entity.
#[derive(Debug)]
pub struct Decider<'a> {
    /// The contract.
    pub model: &'a Rebel,
    /// The entity.
    pub key: &'a EntityKey,
    /// Its applied state.
    pub base: &'a Instance,
    /// What is in progress, in the order of slots.
    pub entries: Vec<Entry>,
}

/// What a transaction is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Told {
    /// In which state of its life cycle it leaves the entity, if it has an event.
    state: Option<String>,
    answers: Vec<Option<Value>>,
}

impl Decider<'_> {
    /// What `branch` may be told. One that `has_place` need not commute with what is in progress.
    #[must_use]
    pub fn judge(&self, branch: &Branch<EventCall>, has_place: bool) -> Judgement {
        let ends = self.states(|index| self.entries[index].is_committed, |_| false);
        let told: Vec<_> = ends.iter().map(|state| self.happens(state, branch).map(|(_, told)| told)).collect();
        match told.iter().flatten().count() {
            0 => Judgement::Reject,
            possible if possible < told.len() || told.iter().any(|other| *other != told[0]) => Judgement::Delay,
            _ if has_place || self.is_free(branch) => Judgement::Admit,
            _ => Judgement::Delay,
        }
    }

    /// Whether `branch` may come before everything that may still come before or behind it.
    fn is_free(&self, branch: &Branch<EventCall>) -> bool {
        let is_past = |index: usize| self.entries[index].is_committed && !self.entries[index].is_in_line;
        let commutes = |index: usize| {
            let is_behind = |other: usize| other > index && self.entries[other].is_in_line;
            let is_before =
                |other: usize| self.entries[index].is_in_line && other < index && self.entries[other].is_committed;
            let others =
                self.states(|other| is_past(other) || is_before(other), |other| other == index || is_behind(other));
            others.iter().all(|state| self.commute_in(state, branch, &self.entries[index].branch))
        };
        self.states(is_past, |_| false).iter().all(|state| self.happens(state, branch).is_some())
            && (0..self.entries.len()).filter(|&index| !is_past(index)).all(commutes)
    }

    /// Whether two branches leave the same, and are told the same, in both orders.
    fn commute_in(&self, state: &Instance, one: &Branch<EventCall>, two: &Branch<EventCall>) -> bool {
        let in_order = |first, second| {
            let (between, told_first) = self.happens(state, first)?;
            let (after, told_second) = self.happens(&between, second)?;
            Some((after, told_first, told_second))
        };
        let (Some((forth, first, second)), Some((back, other_second, other_first))) =
            (in_order(one, two), in_order(two, one))
        else {
            return false;
        };
        forth == back && first == other_first && second == other_second
    }

    /// The states that the entries leave in the order of slots: with those of which `is_sure` holds, without those of which
    /// `is_left_out` does, and with or without each other one.
    fn states(&self, is_sure: impl Fn(usize) -> bool, is_left_out: impl Fn(usize) -> bool) -> HashSet<Instance> {
        let entries = self.entries.iter().enumerate().filter(|(index, _)| !is_left_out(*index));
        entries.fold(HashSet::from([self.base.clone()]), |states, (index, entry)| {
            let mut next: HashSet<Instance> =
                states.iter().filter_map(|state| self.applied(state, &entry.branch)).map(|(next, _)| next).collect();
            if !is_sure(index) {
                next.extend(states);
            }
            next
        })
    }

    /// What `branch` makes of `state`, and is told. What is due comes first.
    fn happens(&self, state: &Instance, branch: &Branch<EventCall>) -> Option<(Instance, Told)> {
        let due = self.model.due(self.key, state);
        if due.is_some_and(|due| due.precedes(branch.at, branch.work.timed)) {
            return None;
        }
        self.applied(state, branch)
    }

    fn applied(&self, found: &Instance, branch: &Branch<EventCall>) -> Option<(Instance, Told)> {
        let (mut state, mut answers) = (found.clone(), Vec::new());
        for action in &branch.work.actions {
            match action {
                Action::Event(event) => state = self.model.next(self.key, &state, event, branch.at).ok()?,
                Action::Condition(condition) if !self.holds(condition, &state, branch.at) => return None,
                Action::Condition(_) => {}
                Action::Ask(question) => answers.push(self.answer(question, &state, branch.at)),
            }
        }
        let has_event = branch.work.has_event();
        let is_sound = !has_event || self.model.broken(self.key, found, &state, branch.at).is_empty();
        let name = has_event.then(|| self.model.state_name(self.key, &state).to_owned());
        is_sound.then_some((state, Told { state: name, answers }))
    }

    fn holds(&self, condition: &Condition<EventCall>, state: &Instance, at: Timestamp) -> bool {
        match &condition.demand {
            Demand::Impossible(event) => !self.is_possible(event, state, at),
            Demand::Initialized => self.model.exists(self.key, state),
            Demand::InState(asked) => asked.iter().any(|name| name == self.model.state_name(self.key, state)),
        }
    }

    fn answer(&self, question: &Question<EventCall>, state: &Instance, at: Timestamp) -> Option<Value> {
        let truth = match question {
            Question::Field(name) => return self.model.value(self.key, state, name),
            Question::Result(event) => return self.model.result(self.key, state, event, at),
            Question::Initialized => self.model.exists(self.key, state),
            Question::InState(asked) => asked.iter().any(|name| name == self.model.state_name(self.key, state)),
            Question::Possible(event) => self.is_possible(event, state, at),
        };
        Some(Value::Boolean(truth))
    }

    fn is_possible(&self, event: &EventCall, state: &Instance, at: Timestamp) -> bool {
        let next = self.model.next(self.key, state, event, at);
        next.is_ok_and(|next| self.model.broken(self.key, state, &next, at).is_empty())
    }
}
