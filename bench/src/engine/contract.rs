//! The model that the engines of benchmarks run: Rebel's, told whole or only as far as static independence goes.

use std::sync::Arc;

use enact_entities::{
    Asked, Calls, Change, Content, Cover, Due, Effects, EntityKey, Field, Forecast, Linear, Location, Model, Place,
    Reason, Rebel, Relation, Timestamp,
};
use enact_rebel::{self as rebel, EventCall, Instance, Spec, Value};

/// Rebel, of which admission is told everything, or nothing but which events are independent of each other.
pub(crate) struct Contract {
    rebel: Rebel,
    is_static: bool,
}

impl Contract {
    /// Of which everything is told.
    pub(crate) fn whole(spec: Arc<Spec>) -> Self {
        Self { rebel: Rebel::new(spec), is_static: false }
    }

    /// Of which no state and no number is told: only that two events are independent in both directions, whatever
    /// their arguments are. That holds up to the range of numbers, which amounts must stay far away from.
    pub(crate) fn of_relations(spec: Arc<Spec>) -> Self {
        Self { rebel: Rebel::new(spec), is_static: true }
    }

    /// Whether neither event decides anything about the other one.
    fn are_independent(&self, entity: &EntityKey, one: &EventCall, other: &EventCall) -> bool {
        // What is due may come first, of which the table says nothing.
        let class = self.rebel.spec().class(entity.class()).filter(|_| !self.rebel.is_timed(entity));
        let is_invariant = |open: &str, incoming: &str| {
            class?.relation(open, incoming).map(|relation| relation == rebel::Relation::Invariant)
        };
        is_invariant(one.event(), other.event()) == Some(true) && is_invariant(other.event(), one.event()) == Some(true)
    }
}

impl Model for Contract {
    type State = Instance;
    type Event = EventCall;

    fn relation(&self, key: &EntityKey, open: &EventCall, incoming: &EventCall) -> Relation {
        match self.is_static {
            false => self.rebel.relation(key, open, incoming),
            true if self.are_independent(key, open, incoming) => Relation::Invariant,
            true => Relation::Dynamic,
        }
    }

    fn classes(&self) -> Vec<(String, Vec<String>)> {
        self.rebel.classes()
    }

    fn initial(&self, key: &EntityKey) -> Option<Instance> {
        self.rebel.initial(key)
    }

    fn state_name<'a>(&'a self, key: &EntityKey, state: &'a Instance) -> &'a str {
        self.rebel.state_name(key, state)
    }

    fn exists(&self, key: &EntityKey, state: &Instance) -> bool {
        self.rebel.exists(key, state)
    }

    fn event_name<'a>(&'a self, event: &'a EventCall) -> &'a str {
        self.rebel.event_name(event)
    }

    fn next(
        &self,
        key: &EntityKey,
        state: &Instance,
        event: &EventCall,
        at: Timestamp,
    ) -> Result<Instance, Vec<Reason>> {
        self.rebel.next(key, state, event, at)
    }

    fn broken(&self, key: &EntityKey, before: &Instance, after: &Instance, at: Timestamp) -> Vec<Reason> {
        self.rebel.broken(key, before, after, at)
    }

    fn is_sound(&self, key: &EntityKey, state: &Instance) -> bool {
        self.rebel.is_sound(key, state)
    }

    fn version(&self) -> u32 {
        self.rebel.version()
    }

    fn calls(&self, key: &EntityKey, state: Option<&Instance>, event: &EventCall, at: Timestamp) -> Calls<EventCall> {
        self.rebel.calls(key, state, event, at)
    }

    fn questions(
        &self,
        key: &EntityKey,
        state: &Instance,
        event: &EventCall,
        at: Timestamp,
    ) -> Result<Vec<Asked<EventCall>>, Vec<Reason>> {
        self.rebel.questions(key, state, event, at)
    }

    fn answered(&self, event: &EventCall, answers: &[(Asked<EventCall>, Option<Value>)]) -> EventCall {
        self.rebel.answered(event, answers)
    }

    fn seeded(&self, key: &EntityKey, event: EventCall, seed: u128) -> EventCall {
        self.rebel.seeded(key, event, seed)
    }

    fn has_result(&self, key: &EntityKey, event: &EventCall) -> bool {
        self.rebel.has_result(key, event)
    }

    fn result(&self, key: &EntityKey, state: &Instance, event: &EventCall, at: Timestamp) -> Option<Value> {
        self.rebel.result(key, state, event, at)
    }

    fn has_fixed_result(&self, key: &EntityKey, event: &EventCall) -> bool {
        self.rebel.has_fixed_result(key, event)
    }

    fn value(&self, key: &EntityKey, state: &Instance, field: &str) -> Option<Value> {
        self.rebel.value(key, state, field)
    }

    fn location(&self, key: &EntityKey, state: &Instance, field: &str) -> Option<Location> {
        if self.is_static { None } else { self.rebel.location(key, state, field) }
    }

    fn reads_time(&self, key: &EntityKey, event: &EventCall) -> bool {
        self.rebel.reads_time(key, event)
    }

    fn changes(&self, key: &EntityKey, event: &EventCall, at: Timestamp) -> Option<Vec<Change>> {
        if self.is_static { None } else { self.rebel.changes(key, event, at) }
    }

    fn linear(&self, key: &EntityKey, events: &[EventCall], at: Timestamp) -> Option<Linear> {
        if self.is_static { None } else { self.rebel.linear(key, events, at) }
    }

    fn effects(&self, key: &EntityKey, state: &Instance, event: &EventCall, at: Timestamp) -> Option<Effects> {
        if self.is_static { None } else { self.rebel.effects(key, state, event, at) }
    }

    fn judge(&self, key: &EntityKey, state: &Instance, cover: &Cover, event: &EventCall, at: Timestamp) -> Forecast {
        if self.is_static { Forecast::Unsure } else { self.rebel.judge(key, state, cover, event, at) }
    }

    fn numbers(&self, key: &EntityKey, state: &Instance) -> Vec<(Field, i128)> {
        self.rebel.numbers(key, state)
    }

    fn fields(&self, key: &EntityKey, state: &Instance) -> Vec<(Place, Value)> {
        self.rebel.fields(key, state)
    }

    fn value_of(&self, key: &EntityKey, content: &Content) -> Option<Value> {
        self.rebel.value_of(key, content)
    }

    fn bytes(&self, key: &EntityKey, state: &Instance) -> usize {
        self.rebel.bytes(key, state)
    }

    fn number(&self, key: &EntityKey, state: &Instance, field: Field) -> Option<i128> {
        self.rebel.number(key, state, field)
    }

    fn place_name(&self, key: &EntityKey, place: &Place) -> String {
        self.rebel.place_name(key, place)
    }

    fn content(&self, key: &EntityKey, state: &Instance, place: &Place) -> Option<String> {
        self.rebel.content(key, state, place)
    }

    fn due(&self, key: &EntityKey, state: &Instance) -> Option<Due<EventCall>> {
        self.rebel.due(key, state)
    }

    fn is_timed(&self, key: &EntityKey) -> bool {
        self.rebel.is_timed(key)
    }

    fn may_set_timer(&self, key: &EntityKey, event: &EventCall) -> bool {
        self.rebel.may_set_timer(key, event)
    }

    fn is_of_timer(&self, event: &EventCall) -> bool {
        self.rebel.is_of_timer(event)
    }

    fn show(&self, key: &EntityKey, field: Field, value: i128) -> (String, String) {
        self.rebel.show(key, field, value)
    }
}
