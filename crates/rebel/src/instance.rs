//! Instances, calls of events, and what an event needs from other instances.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::caller::Caller;
use crate::model::{Class, Event, Param};
use crate::value::{Bindings, Id, Name, Reference, Timestamp, Value};

/// An instance of a class between two events: its state and the values of its fields.
///
/// Immutable; cheap to clone. Equal instances are those in the same state with the same values. It does not hold its
/// identity, which is the address it is found under. Serialises with the names of state and fields.
///
/// Read from a journal, it may have been written under an older specification: [`Class::verify`] tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    state: Name,
    fields: Bindings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timing: Option<Box<Timing>>,
}

/// What the timers of an instance have come to while it stays in its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Timing {
    /// The events that have happened or were refused, each with the time of the timer, as long as a timer has that time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) spent: Vec<(Name, Timestamp)>,
    /// The time of the last event, if a timer was overdue then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Timestamp>,
}

impl Timing {
    pub(crate) fn has_spent(&self, event: &Name, at: Timestamp) -> bool {
        self.spent.iter().any(|spent| spent.0 == *event && spent.1 == at)
    }
}

impl Instance {
    pub(crate) fn new(state: Name, fields: Bindings) -> Self {
        Self { state, fields, timing: None }
    }

    pub(crate) fn with_timing(self, timing: Option<Timing>) -> Self {
        Self { timing: timing.map(Box::new), ..self }
    }

    pub(crate) fn timing(&self) -> Option<&Timing> {
        self.timing.as_deref()
    }

    /// The state of the life cycle.
    #[must_use]
    pub fn state(&self) -> &Name {
        &self.state
    }

    /// About how many bytes of memory it takes. What is shared with other instances counts as its own.
    ///
    /// # Complexity
    /// O(n) in the number of values, those in sets included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let timing = self
            .timing
            .as_ref()
            .map_or(0, |timing| size_of::<Timing>() + timing.spent.capacity() * size_of::<(Name, Timestamp)>());
        size_of::<Self>() + self.fields.heap_bytes() + timing
    }

    /// The values of the fields that have one, by name.
    #[must_use]
    pub fn fields(&self) -> &Bindings {
        &self.fields
    }
}

/// An event with its arguments, and the caller of the step that it belongs to.
///
/// Immutable; a clone is one reference count. Serialises with the names of event and parameters, so that a stored call outlives
/// edits of the specification. Made by [`Event::call`]; one that was read from outside is checked by whatever uses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventCall(Arc<Called>);

/// What a call consists of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename = "EventCall", deny_unknown_fields)]
struct Called {
    event: Name,
    arguments: Bindings,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answers: Vec<Answered>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<Caller>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<Id>,
    /// What a timer makes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timer: Option<Timed>,
}

/// That an event is one of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Timed {
    /// The time of the timer.
    due: Timestamp,
    /// Whether it only notes that the event was refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
}

impl EventCall {
    pub(crate) fn new(event: Name, arguments: Bindings, caller: Option<Caller>) -> Self {
        Self(Arc::new(Called { event, arguments, answers: Vec::new(), caller, seed: None, timer: None }))
    }

    /// A call by a timer whose time is `due`.
    pub(crate) fn timed(event: Name, due: Timestamp, refused: bool) -> Self {
        Self::new(event, Bindings::default(), Some(Caller::system()))
            .with(|called| called.timer = Some(Timed { due, refused }))
    }

    /// The same call but for this change.
    fn with(mut self, change: impl FnOnce(&mut Called)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The time of the timer that makes the event happen, if one does.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.0.timer.map(|timer| timer.due)
    }

    /// Whether it only notes that the event of a timer was refused.
    #[must_use]
    pub fn is_note(&self) -> bool {
        self.0.timer.is_some_and(|timer| timer.refused)
    }

    /// The caller of the step, if one is known. One that is not has no roles.
    #[must_use]
    pub fn caller(&self) -> Option<&Caller> {
        self.0.caller.as_ref()
    }

    /// The same call by this caller, or by one that is not known.
    #[must_use]
    pub fn with_caller(self, caller: impl Into<Option<Caller>>) -> Self {
        let caller = caller.into();
        if self.0.caller == caller { self } else { self.with(|called| called.caller = caller) }
    }

    /// What the identities of fresh instances follow from, if the step needs that. Calls of an event get seeds of their own.
    #[must_use]
    pub fn seed(&self) -> Option<Id> {
        self.0.seed
    }

    /// The same call with this seed, or without one. No two steps have the same.
    #[must_use]
    pub fn with_seed(self, seed: impl Into<Option<Id>>) -> Self {
        let seed = seed.into();
        if self.0.seed == seed { self } else { self.with(|called| called.seed = seed) }
    }

    /// What other instances have answered to the questions of the event. With these answers it is decided on its own instance
    /// alone, now and in every replay.
    #[must_use]
    pub fn answers(&self) -> &[Answered] {
        &self.0.answers
    }

    /// The same call with these answers and no others.
    #[must_use]
    pub fn with_answers(self, answers: Vec<Answered>) -> Self {
        if self.0.answers == answers { self } else { self.with(|called| called.answers = answers) }
    }

    /// The answer to `question`, if there is one; the inner `None` says that what is asked for has no value.
    pub(crate) fn answer(&self, of: &Reference, question: &Question) -> Option<Option<&Value>> {
        let found = self.0.answers.iter().find(|answered| answered.of == *of && answered.question == *question)?;
        Some(found.answer.as_ref())
    }

    /// The name of the event.
    #[must_use]
    pub fn event(&self) -> &Name {
        &self.0.event
    }

    /// The arguments, by the names of the parameters.
    #[must_use]
    pub fn arguments(&self) -> &Bindings {
        &self.0.arguments
    }
}

impl fmt::Display for EventCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.event())?;
        for (index, (name, value)) in self.arguments().iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{name}: {value}")?;
        }
        f.write_str(")")
    }
}

/// A question to another instance. It changes nothing there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Question {
    /// What is in this field?
    Field(Name),
    /// Does the instance exist: is it in any state but the initial one?
    Initialized,
    /// Is the instance in one of these states?
    InState(Arc<[Name]>),
    /// Could the event happen there, as [`Class::holds`] says?
    Possible(EventCall),
    /// What does the event return, if it is possible there?
    Result(EventCall),
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Field(name) => f.pad(name),
            Question::Initialized => f.pad("is initialized"),
            Question::InState(states) => write!(f, "is {}", states.join(" or ")),
            Question::Possible(call) => write!(f, "can {call}"),
            Question::Result(call) => call.fmt(f),
        }
    }
}

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// The instance that was asked.
    pub of: Reference,
    /// What it was asked.
    pub question: Question,
    /// Its answer; nothing if the field has no value, because the instance does not exist.
    pub answer: Option<Value>,
}

/// What an event needs of another instance, in the same atomic step.
///
/// Conditions are about the other instance as it is when the event is taken up: they see what came before in the step, and
/// nothing that the event itself does or calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sync {
    /// The other instance. If it was never stored, it is in its initial state.
    pub target: Reference,
    /// What is needed.
    pub action: Action,
    /// The text of a refusal: the name of the guard, or the line as written.
    pub text: Name,
}

/// What is needed of another instance, or asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// The event happens there too.
    Do(EventCall),
    /// The event could not happen there.
    Impossible(EventCall),
    /// The instance exists: it is in any state but the initial one.
    Initialized,
    /// The instance is in one of these states.
    InState(Arc<[Name]>),
    /// The instance answers, whatever the answer is. A part of a step, never of what an event needs.
    Ask(Question),
}

/// Why arguments do not fit an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ArgumentError {
    /// A parameter got no value.
    #[error("`{event}` needs the parameter `{name}` of type {ty}")]
    Missing {
        /// The event.
        event: Name,
        /// The parameter.
        name: Name,
        /// Its type.
        ty: String,
    },
    /// There is no such parameter.
    #[error("`{event}` has no parameter `{name}`{}", parameter_list(.parameters))]
    Unknown {
        /// The event.
        event: Name,
        /// The name given.
        name: Name,
        /// The parameters there are.
        parameters: Vec<Name>,
    },
    /// A parameter got more than one value.
    #[error("`{event}` got the parameter `{name}` twice")]
    Repeated {
        /// The event.
        event: Name,
        /// The parameter.
        name: Name,
    },
    /// A value of another type.
    #[error("the parameter `{name}` of `{event}` is of type {ty}, which `{value}` is not")]
    Type {
        /// The event.
        event: Name,
        /// The parameter.
        name: Name,
        /// Its type.
        ty: String,
        /// The value given.
        value: Value,
    },
}

fn parameter_list(parameters: &[Name]) -> String {
    if parameters.is_empty() { "; it has none".to_owned() } else { format!("; it has {}", parameters.join(", ")) }
}

impl Event {
    /// A call of this event with arguments by name. A parameter without one has its default: the call carries it, so that it means
    /// the same when the default has become another one.
    ///
    /// # Errors
    /// Everything that is wrong with the arguments: parameters without a value, values without a parameter, values of
    /// another type.
    ///
    /// ```
    /// use enact_rebel::{Source, Value, check};
    /// let spec = check(vec![Source::new("counter.rebel", "
    ///     class Counter
    ///       n: Integer = 0
    ///       initial new
    ///         on Add(by: Integer): used
    ///       used
    /// ")]).unwrap();
    /// let add = spec.class("Counter").unwrap().event("Add").unwrap();
    /// assert_eq!(add.call([("by", Value::Integer(2))]).unwrap().to_string(), "Add(by: 2)");
    /// assert_eq!(add.call([("to", Value::Integer(2))]).unwrap_err().len(), 2);
    /// ```
    pub fn call<'a>(
        &self,
        arguments: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<EventCall, Vec<ArgumentError>> {
        let mut errors = Vec::new();
        let mut given: Vec<(Name, Value)> = Vec::new();
        for (name, value) in arguments {
            if given.iter().any(|(earlier, _)| **earlier == *name) {
                errors.push(ArgumentError::Repeated { event: self.name.clone(), name: name.into() });
                continue;
            }
            // The declared name is shared, so that lookups compare addresses.
            let declared = self.params.iter().find(|param| *param.name == *name);
            given.push((declared.map_or_else(|| name.into(), |param| param.name.clone()), value));
        }
        let call = EventCall::new(self.name.clone(), given.into_iter().collect(), None);
        let call = self.completed(&call).into_owned();
        errors.extend(self.argument_errors(&call));
        if errors.is_empty() { Ok(call) } else { Err(errors) }
    }

    /// The same call of this event with the defaults of the parameters that have no argument. One that was stored before it had a
    /// parameter lacks it.
    pub(crate) fn completed<'c>(&self, call: &'c EventCall) -> Cow<'c, EventCall> {
        let arguments = call.arguments();
        let is_missing =
            |param: &&Param| param.default.is_some() && arguments.get_at(param.slot, &param.name).is_none();
        if !self.params.iter().any(|param| is_missing(&param)) {
            return Cow::Borrowed(call);
        }
        let missing = self.params.iter().filter(is_missing);
        let defaults = missing.filter_map(|param| Some((param.name.clone(), param.default.clone()?)));
        let given = arguments.iter().map(|(name, value)| (name.clone(), value.clone()));
        let arguments = given.chain(defaults).collect();
        Cow::Owned(call.clone().with(|called| called.arguments = arguments))
    }

    /// What is wrong with the arguments of `call`, which is a call of this event.
    pub(crate) fn argument_errors(&self, call: &EventCall) -> Vec<ArgumentError> {
        let (event, arguments) = (&self.name, call.arguments());
        let mut errors = Vec::new();
        for param in &self.params {
            let value = arguments.get_at(param.slot, &param.name);
            if value.is_some_and(|value| value.has_type(&param.ty)) {
                continue;
            }
            let (event, name, ty) = (event.clone(), param.name.clone(), param.ty.to_string());
            errors.push(match value.cloned() {
                Some(value) => ArgumentError::Type { event, name, ty, value },
                None => ArgumentError::Missing { event, name, ty },
            });
        }
        if arguments.len() + errors.len() > self.params.len() {
            let is_known = |name: &Name| self.params.iter().any(|param| param.name == *name);
            let unknown = arguments.iter().map(|(name, _)| name).filter(|name| !is_known(name)).cloned();
            let parameters: Vec<Name> = self.params.iter().map(|param| param.name.clone()).collect();
            errors.extend(unknown.map(|name| {
                let (event, parameters) = (event.clone(), parameters.clone());
                ArgumentError::Unknown { event, name, parameters }
            }));
        }
        errors
    }
}

impl Class {
    /// The call with the defaults of the parameters of its event that have no argument.
    pub(crate) fn completed<'c>(&self, call: &'c EventCall) -> Cow<'c, EventCall> {
        let event = self.events.iter().find(|event| event.name == *call.event());
        event.map_or(Cow::Borrowed(call), |event| event.completed(call))
    }

    /// The address of the instance `key` of this class.
    #[must_use]
    pub fn reference(&self, key: crate::value::Key) -> Reference {
        Reference { class: self.name.clone(), key }
    }
}
