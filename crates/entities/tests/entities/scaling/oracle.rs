//! Two events at one instance, played through in both orders.

use std::ops::Add;

use enact_entities::{Action, Call, Calls, EntityKey, Model as _, Question, Rebel, Timestamp, Work};
use enact_rebel::{EventCall, Instance, Value};

/// 2026-11-21T09:30:00Z, as in the tests of contracts.
pub(crate) const AT: Timestamp = Timestamp(1_795_253_400_000);

/// What was met of one pair, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub(crate) refused: u64,
    pub(crate) admitted: u64,
    pub(crate) delayed: u64,
    pub(crate) alone: u64,
    pub(crate) delayed_alone: u64,
}

impl Add for Met {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            refused: self.refused + other.refused,
            admitted: self.admitted + other.admitted,
            delayed: self.delayed + other.delayed,
            alone: self.alone + other.alone,
            delayed_alone: self.delayed_alone + other.delayed_alone,
        }
    }
}

impl Met {
    pub(crate) fn is_all(&self) -> bool {
        let Self { refused, admitted, delayed, alone, delayed_alone } = *self;
        [refused, admitted, delayed, alone, delayed_alone].iter().all(|count| *count > 0)
    }
}

/// What a client is told of an event: the state that it leads to, what it calls and what it returns.
type Told = (String, Vec<Call<EventCall>>, Option<Value>);

pub(crate) struct Oracle<'a> {
    pub(crate) model: &'a Rebel,
    pub(crate) key: &'a EntityKey,
}

/// What all orders and ends of two events say of the one that arrives second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether it is possible if the first one aborts.
    pub(crate) is_possible: bool,
    /// Whether it is told the same however the first one ends.
    pub(crate) is_certain: bool,
    /// Whether it may also come before the first one.
    pub(crate) commutes: bool,
}

impl Oracle<'_> {
    /// What an event is as the work of a transaction that its client begins.
    pub(crate) fn work(&self, call: &EventCall) -> Work<EventCall> {
        let asks = self.model.has_result(self.key, call).then(|| Action::Ask(Question::Result(call.clone())));
        Work::of(asks.into_iter().chain([Action::Event(call.clone())]))
    }

    /// Whether a timer makes something happen first.
    pub(crate) fn is_due(&self, state: &Instance) -> bool {
        self.model.due(self.key, state).is_some_and(|due| due.at <= AT)
    }

    pub(crate) fn step(&self, state: &Instance, call: &EventCall) -> Option<(Instance, Told)> {
        let next = self.model.next(self.key, state, call, AT).ok()?;
        if !self.model.broken(self.key, state, &next, AT).is_empty() {
            return None;
        }
        let Calls::Known(calls) = self.model.calls(self.key, Some(state), call, AT) else { return None };
        let result = self.model.result(self.key, state, call, AT);
        let told = (next.state().to_string(), calls, result);
        Some((next, told))
    }

    /// `open` is possible in `state`.
    pub(crate) fn verdict(&self, state: &Instance, open: &EventCall, incoming: &EventCall) -> Verdict {
        let (after, told) = self.step(state, open).expect("it was admitted");
        let (without, with) = (self.step(state, incoming), self.step(&after, incoming));
        let told_of = |step: &Option<(Instance, Told)>| step.as_ref().map(|(_, told)| told.clone());
        let is_certain = told_of(&without) == told_of(&with);
        let commutes = match (&without, &with) {
            (Some((first, _)), Some((end, _))) => {
                self.step(first, open).is_some_and(|(reverse, told_then)| reverse == *end && told_then == told)
            }
            _ => false,
        };
        Verdict { is_possible: without.is_some(), is_certain, commutes }
    }
}
