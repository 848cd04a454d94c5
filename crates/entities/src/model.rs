//! What the engine must know of the classes it runs: the states, the events, and what they call.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::Arc;

use enact_rebel::{Manner, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serialize as SerializeDerive};

use crate::EntityKey;
use crate::reason::Reason;
use crate::tx::Timestamp;

/// All classes of one system: guards and effects as total functions of a state, an event and its time.
///
/// Nothing here may depend on anything else (a clock, a random number, another entity): the same call gives the same
/// answer on every machine and in every replay. Admission explores states that never become real, so no call may have
/// an effect either. A panic in the turn of an entity fails that entity alone, until it has been recovered; one that a transaction meets
/// when it plans, in [`calls`](Model::calls) without a state for example, fails the engine.
///
/// # Laws
/// * An event is possible in a state exactly if `next` is `Ok` there and `calls` is [`Calls::Known`]. The work of one
///   transaction is possible if its events are, one after the other, and `broken` finds nothing in the state they leave.
/// * What follows from a state that is sound, and has nothing broken, is sound.
/// * Calls that are known without a state are the same in every state.
/// * An event with all answers that `questions` asks for is decided on its own entity alone. One that has none of them, or some,
///   is refused by `next` or by `calls`.
/// * What `linear` or `effects` tells of leaves what is `due` as it is.
/// * `relation` and `linear` claim nothing that `next` does not show. A claim that is too strong would admit what must
///   not be; it is found out when the event is applied, which then panics.
pub trait Model: Send + Sync + 'static {
    /// The state of one instance, also of one that was never created: life-cycle state and values.
    type State: Clone + Eq + Hash + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The name of an event with its arguments.
    type Event: Clone + Eq + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The classes with the names of their events, as far as they are to be counted.
    fn classes(&self) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }

    /// The state of an instance before its first event, or nothing if the class does not exist.
    fn initial(&self, key: &EntityKey) -> Option<Self::State>;

    /// The name of the life-cycle state.
    fn state_name<'a>(&'a self, key: &EntityKey, state: &'a Self::State) -> &'a str;

    /// Whether the instance has been created: it is not in its initial state. One in a final state has been.
    fn exists(&self, key: &EntityKey, state: &Self::State) -> bool;

    /// Whether the life cycle ends in this state: no event changes the instance any more.
    fn is_final(&self, key: &EntityKey, state: &Self::State) -> bool {
        let _ = (key, state);
        false
    }

    /// Whether `event` may lead to a state that [is final](Model::is_final).
    fn may_end(&self, key: &EntityKey, event: &Self::Event) -> bool {
        let _ = (key, event);
        true
    }

    /// The name of the event.
    fn event_name<'a>(&'a self, event: &'a Self::Event) -> &'a str;

    /// The state after `event`, which may be one of several that a transaction does here: what must hold when all of them
    /// have happened is for [`broken`](Self::broken) to say.
    ///
    /// # Errors
    /// Every reason why the event is refused in this state.
    fn next(
        &self,
        key: &EntityKey,
        state: &Self::State,
        event: &Self::Event,
        at: Timestamp,
    ) -> Result<Self::State, Vec<Reason>>;

    /// The state that `event` would leave if nothing refused it: for what has happened and should not have. Nothing if that cannot
    /// be told.
    fn projected(
        &self,
        key: &EntityKey,
        state: &Self::State,
        event: &Self::Event,
        at: Timestamp,
    ) -> Option<Self::State> {
        self.next(key, state, event, at).ok()
    }

    /// Whether `event` only happens when another one calls it, or by itself: no client may call it.
    fn is_internal(&self, key: &EntityKey, event: &Self::Event) -> bool {
        let _ = (key, event);
        false
    }

    /// What is wrong with the state that a transaction leaves, given the one that it found: the invariants that do not hold.
    ///
    /// One that did not hold before either counts only if the transaction changes something that it reads. So nothing that holds
    /// is ever broken, and what a stricter contract finds broken is either left as it is or mended.
    fn broken(&self, key: &EntityKey, before: &Self::State, after: &Self::State, at: Timestamp) -> Vec<Reason> {
        let _ = (key, before, after, at);
        Vec::new()
    }

    /// Whether every invariant holds of `state`, and no timer refuses every event for a fault. Of one that a stricter contract finds broken, [`linear`](Self::linear) and
    /// [`relation`](Self::relation) are not asked: they may rely on the invariants.
    fn is_sound(&self, key: &EntityKey, state: &Self::State) -> bool {
        let _ = (key, state);
        true
    }

    /// The version of the contract: what is written from now on is written under it.
    fn version(&self) -> u32 {
        1
    }

    /// The classes as they were under `version`, which is this one or one before it that is known.
    fn under(&self, version: u32) -> Option<&Self> {
        (version == self.version()).then_some(self)
    }

    /// What `state`, of the earlier version `from`, is under this one. The same state always becomes the same.
    ///
    /// # Errors
    /// Why it cannot be told, which nothing can mend but another contract.
    fn migrated(&self, key: &EntityKey, state: Self::State, from: u32) -> Result<Self::State, Vec<Reason>> {
        let _ = key;
        assert_eq!(from, self.version(), "a model without earlier versions has no states of them");
        Ok(state)
    }

    /// What `event` asks of other entities in the same transaction, one level deep.
    fn calls(
        &self,
        key: &EntityKey,
        state: Option<&Self::State>,
        event: &Self::Event,
        at: Timestamp,
    ) -> Calls<Self::Event>;

    /// What must be known of other entities before `event` is decided in `state`, and it carries no answer to; nothing if it is
    /// refused whatever the answers are. Once these are answered there may be more.
    ///
    /// # Errors
    /// Why the event is refused, if an entity that it would ask cannot be named.
    fn questions(
        &self,
        key: &EntityKey,
        state: &Self::State,
        event: &Self::Event,
        at: Timestamp,
    ) -> Result<Vec<Asked<Self::Event>>, Vec<Reason>> {
        let _ = (key, state, event, at);
        Ok(Vec::new())
    }

    /// `event` with these answers and no others.
    fn answered(&self, event: &Self::Event, answers: &[(Asked<Self::Event>, Option<Value>)]) -> Self::Event {
        let _ = answers;
        event.clone()
    }

    /// `event` as the first one of a step that has this number and no other step has, if what it does follows from one.
    fn seeded(&self, key: &EntityKey, event: Self::Event, seed: u128) -> Self::Event {
        let _ = (key, seed);
        event
    }

    /// Whether `event` has a result, which the client gets that calls it.
    fn has_result(&self, key: &EntityKey, event: &Self::Event) -> bool {
        let _ = (key, event);
        false
    }

    /// What `event` returns if it happens in `state`; nothing if it is refused, or has no result.
    fn result(&self, key: &EntityKey, state: &Self::State, event: &Self::Event, at: Timestamp) -> Option<Value> {
        let _ = (key, state, event, at);
        None
    }

    /// Whether `event` returns the same in all states in which it is possible.
    fn has_fixed_result(&self, key: &EntityKey, event: &Self::Event) -> bool {
        let _ = (key, event);
        false
    }

    /// The value of a field, if it has one.
    fn value(&self, key: &EntityKey, state: &Self::State, field: &str) -> Option<Value> {
        let _ = (key, state, field);
        None
    }

    /// Where the value of a field lies, if it has one that events change as a whole: not one element of a set after the other.
    fn location(&self, key: &EntityKey, state: &Self::State, field: &str) -> Option<Location> {
        let _ = (key, state, field);
        None
    }

    /// Whether the state after `event`, or what it calls, may depend on its time.
    fn reads_time(&self, key: &EntityKey, event: &Self::Event) -> bool {
        let _ = (key, event);
        true
    }

    /// Which places `event` may change, in whichever state, and how; nothing if that is not known. Two that change one place in
    /// different manners are taken not to commute.
    fn changes(&self, key: &EntityKey, event: &Self::Event, at: Timestamp) -> Option<Vec<Change>> {
        let _ = (key, event, at);
        None
    }

    /// What is known, for all states, about `incoming` while it is open whether `open` will have happened.
    fn relation(&self, key: &EntityKey, open: &Self::Event, incoming: &Self::Event) -> Relation {
        let _ = (key, open, incoming);
        Relation::Dynamic
    }

    /// Events that happen one after the other in one transaction, as thresholds, contents, additions and constants, if they
    /// are nothing but that together.
    fn linear(&self, key: &EntityKey, events: &[Self::Event], at: Timestamp) -> Option<Linear> {
        let _ = (key, events, at);
        None
    }

    /// What `event` does to an entity in `state`, or in any other state in which it happens; nothing if that is not known.
    /// Whether it happens is for [`judge`](Self::judge) to tell.
    fn effects(&self, key: &EntityKey, state: &Self::State, event: &Self::Event, at: Timestamp) -> Option<Effects> {
        let _ = (key, state, event, at);
        None
    }

    /// What becomes of `event` in all states that differ from `state` only as `cover` allows.
    fn judge(
        &self,
        key: &EntityKey,
        state: &Self::State,
        cover: &Cover,
        event: &Self::Event,
        at: Timestamp,
    ) -> Forecast {
        let _ = (key, state, cover, event, at);
        Forecast::Unsure
    }

    /// The numeric fields of a state, in the order in which they are shown.
    fn numbers(&self, key: &EntityKey, state: &Self::State) -> Vec<(Field, i128)> {
        let _ = (key, state);
        Vec::new()
    }

    /// The values of all fields, numbers among them, each with the place that is the whole field.
    fn fields(&self, key: &EntityKey, state: &Self::State) -> Vec<(Place, Value)> {
        let _ = (key, state);
        Vec::new()
    }

    /// What is in a place, as a value; of an element, the element itself. Nothing if the text does not tell.
    fn value_of(&self, key: &EntityKey, content: &Content) -> Option<Value> {
        let _ = (key, content);
        None
    }

    /// About how many bytes of memory `state` takes. The engine keeps as many entities in memory as fit.
    fn bytes(&self, key: &EntityKey, state: &Self::State) -> usize {
        let _ = (key, state);
        size_of::<Self::State>()
    }

    /// The value of one numeric field, or nothing if the state has no such field.
    fn number(&self, key: &EntityKey, state: &Self::State, field: Field) -> Option<i128> {
        self.numbers(key, state).into_iter().find_map(|(f, value)| (f == field).then_some(value))
    }

    /// The name of a place that is not the life cycle, such as `holder`; what is numbered as a place may be a number.
    fn place_name(&self, key: &EntityKey, place: &Place) -> String {
        let _ = key;
        match &place.element {
            None => Field(place.field).to_string(),
            Some(element) => format!("{element} in {}", Field(place.field)),
        }
    }

    /// What is in a place, or nothing if the state has no such field.
    fn content(&self, key: &EntityKey, state: &Self::State, place: &Place) -> Option<String> {
        let _ = (key, state, place);
        None
    }

    /// The event that happens to an entity in this state by itself if nothing else happens to it, with its time.
    ///
    /// A step of that time or later does not happen before it. That holds for each participant of a transaction.
    fn due(&self, key: &EntityKey, state: &Self::State) -> Option<Due<Self::Event>> {
        let _ = (key, state);
        None
    }

    /// Whether an entity of this class may ever have a [due](Model::due) event.
    fn is_timed(&self, key: &EntityKey) -> bool {
        let _ = key;
        false
    }

    /// Whether another event may be due after this one than was before, or the same at another time. An event that only makes
    /// sure that none is due need not be told.
    fn may_set_timer(&self, key: &EntityKey, event: &Self::Event) -> bool {
        let _ = (key, event);
        false
    }

    /// Whether the event is one that [`due`](Model::due) has given.
    fn is_of_timer(&self, event: &Self::Event) -> bool {
        let _ = event;
        false
    }

    /// The name of a numeric field and the text of a value of it, such as `("balance", "EUR 12.50")`.
    fn show(&self, key: &EntityKey, field: Field, value: i128) -> (String, String) {
        let _ = key;
        (field.to_string(), value.to_string())
    }
}

/// What one event asks of one other entity.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDerive, Deserialize)]
pub struct Call<E> {
    /// The entity called.
    pub key: EntityKey,
    /// What is asked of it.
    pub action: Action<E>,
}

impl<E> Call<E> {
    /// Asks for `event` on `key`.
    pub const fn event(key: EntityKey, event: E) -> Self {
        Self { key, action: Action::Event(event) }
    }

    /// Asks for `condition` on `key`.
    pub const fn condition(key: EntityKey, condition: Condition<E>) -> Self {
        Self { key, action: Action::Condition(condition) }
    }
}

/// What a call asks of an entity.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDerive, Deserialize)]
pub enum Action<E> {
    /// The event happens, in the same atomic step.
    Event(E),
    /// The condition holds at its place among the events of the transaction.
    Condition(Condition<E>),
    /// The question is answered at its place among the events of the transaction. Another event of it carries the answer.
    Ask(Question<E>),
}

/// A question to an entity. It changes nothing there.
///
/// Its answer is the same whatever becomes of the transactions that are open there, and no other transaction may change it
/// until the transaction that asked is decided.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDerive, Deserialize)]
pub enum Question<E> {
    /// The value of a field, if it has one.
    Field(String),
    /// Whether the instance has been created; one in a final state has been.
    Initialized,
    /// Whether the instance is in one of these life-cycle states.
    InState(Vec<String>),
    /// Whether the event is possible.
    Possible(E),
    /// What the event returns, if it is possible. For one that happens in the same step it is asked right before.
    Result(E),
}

/// A question with the entity that answers it.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDerive, Deserialize)]
pub struct Asked<E> {
    /// The entity.
    pub key: EntityKey,
    /// What it is asked.
    pub question: Question<E>,
    /// Whether the event that asks will change what it asks for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_change: bool,
}

/// A demand on the state of another entity that changes nothing there.
///
/// It holds whatever becomes of the transactions that are open at that entity, and no other transaction may falsify it
/// until the transaction that asked for it is decided.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDerive, Deserialize)]
pub struct Condition<E> {
    /// What is demanded.
    pub demand: Demand<E>,
    /// The demand in the words of its author: what a refusal says.
    pub text: String,
}

/// What a condition demands.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDerive, Deserialize)]
pub enum Demand<E> {
    /// The event is refused.
    Impossible(E),
    /// The instance has been created; one in a final state has been.
    Initialized,
    /// The instance is in one of these life-cycle states.
    InState(Vec<String>),
}

impl<E> Condition<E> {
    /// `event` is refused.
    pub fn impossible(event: E, text: impl Into<String>) -> Self {
        Self { demand: Demand::Impossible(event), text: text.into() }
    }

    /// The instance has been created.
    pub fn initialized(text: impl Into<String>) -> Self {
        Self { demand: Demand::Initialized, text: text.into() }
    }

    /// The instance is in one of `states`.
    pub fn in_state<S: Into<String>>(states: impl IntoIterator<Item = S>, text: impl Into<String>) -> Self {
        Self { demand: Demand::InState(states.into_iter().map(Into::into).collect()), text: text.into() }
    }
}

/// The calls of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Calls<E> {
    /// These, in the order in which they are written.
    Known(Vec<Call<E>>),
    /// They depend on the state. Only an answer to a question without one.
    DependsOnState,
    /// They cannot be told, which refuses the event. Only an answer to a question with a state.
    Refused(Vec<Reason>),
}

/// All that one transaction does at one entity, in this order: events, each of which sees what those before it did, and
/// conditions and questions on the state at their place.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDerive, Deserialize)]
pub struct Work<E> {
    /// What is done and asked.
    pub actions: Vec<Action<E>>,
    /// Whether more is to follow here, so that what must hold when all has happened is not asked for yet. Nobody commits such
    /// work: it is there for its answers, without which nobody knows what follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Whether a timer makes it happen, so that what is due at the same time or later does not come first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed: bool,
    /// Whether something is asked here to change it afterwards: two that ask the same so wait for each other from the beginning,
    /// as neither could change it while the other holds the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_change: bool,
}

impl<E> Work<E> {
    /// Nothing.
    pub(crate) fn nothing() -> Self {
        Self::of([])
    }

    /// All of these, in this order.
    pub fn of(actions: impl IntoIterator<Item = Action<E>>) -> Self {
        Self { actions: actions.into_iter().collect(), partial: false, timed: false, to_change: false }
    }

    /// Only this event.
    pub fn event(event: E) -> Self {
        Self::of([Action::Event(event)])
    }

    /// Only these events.
    pub fn of_events(events: impl IntoIterator<Item = E>) -> Self {
        Self::of(events.into_iter().map(Action::Event))
    }

    /// The events, in order.
    pub fn events(&self) -> impl Iterator<Item = &E> {
        self.actions.iter().filter_map(|action| match action {
            Action::Event(event) => Some(event),
            Action::Condition(_) | Action::Ask(_) => None,
        })
    }

    /// The events themselves, in order.
    pub(crate) fn into_events(self) -> impl Iterator<Item = E> {
        self.actions.into_iter().filter_map(|action| match action {
            Action::Event(event) => Some(event),
            Action::Condition(_) | Action::Ask(_) => None,
        })
    }

    /// The conditions, in order.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition<E>> {
        self.actions.iter().filter_map(|action| match action {
            Action::Condition(condition) => Some(condition),
            Action::Event(_) | Action::Ask(_) => None,
        })
    }

    /// The questions, in order.
    pub fn questions(&self) -> impl Iterator<Item = &Question<E>> {
        self.actions.iter().filter_map(|action| match action {
            Action::Ask(question) => Some(question),
            Action::Event(_) | Action::Condition(_) => None,
        })
    }

    /// Whether it changes anything: it has an event.
    pub fn has_event(&self) -> bool {
        self.events().next().is_some()
    }

    /// Whether it relies on the state beyond what its events do: it has a condition or a question.
    pub(crate) fn relies(&self) -> bool {
        self.actions.iter().any(|action| !matches!(action, Action::Event(_)))
    }

    /// The event, if it is nothing but one.
    pub(crate) fn only_event(&self) -> Option<&E> {
        match self.actions.as_slice() {
            [Action::Event(event)] => Some(event),
            _ => None,
        }
    }
}

/// What is known about an incoming event while another event is open, over all states in which the open one is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// The incoming event is refused, whether the open one happens or not.
    Never,
    /// The open event changes neither whether the incoming one is possible, nor its calls, nor the state it leads to.
    Invariant,
    /// It depends on the state and the arguments.
    Dynamic,
}

/// Numbers the numeric fields of a class as its [`Model`] likes; two units (currencies) of one field are two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field(pub u64);

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {}", self.0)
    }
}

/// Events that, with the arguments they have, only compare sums of numeric fields with constants, ask for the contents of
/// places, add constants to fields, and put constants into fields and places.
///
/// In the states named they are possible exactly if all thresholds hold and all places have the contents asked for; they stay
/// in the life-cycle state, and change what is said here and nothing else. In every other state they are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    /// The life-cycle states in which the event may happen.
    pub states: Vec<String>,
    /// What must hold before the events; invariants and the range of the numbers are among it.
    pub thresholds: Vec<Threshold>,
    /// What must be in some places before the events.
    pub holds: Vec<Content>,
    /// What is added to the fields, each field once.
    pub deltas: Vec<(Field, i128)>,
    /// The numbers that fields get, whatever they were: each field once, none that has a delta, and none in a threshold. It
    /// says nothing of a state that does not have the field.
    pub assigned: Vec<(Field, i128)>,
    /// What is in some places after the events, whatever was there; each place once.
    pub puts: Vec<Content>,
}

/// A place that is overwritten and not added to: a field that is no number, or one element of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The field, numbered as its [`Model`] likes.
    pub field: u64,
    /// The element, if the field is a set, in the one form in which the model writes it.
    pub element: Option<String>,
}

impl Place {
    /// The life cycle. Its content is the name of the state.
    pub const LIFE_CYCLE: Self = Self { field: u64::MAX, element: None };

    /// The field as a whole.
    pub(crate) const fn whole(&self) -> Self {
        Self { field: self.field, element: None }
    }
}

/// Between which values a number lies that a function makes of one between these two; nothing if that is not known.
pub type Image = Arc<dyn Fn(i128, i128) -> Option<(i128, i128)> + Send + Sync>;

/// What an event does in every state in which it happens, place by place: each number and place once. What is not named stays as
/// it is.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// What is added to numbers.
    pub deltas: Vec<(Field, i128)>,
    /// The numbers that fields get, whatever they were.
    pub assigned: Vec<(Field, i128)>,
    /// What is made of numbers.
    pub made: Vec<Made>,
    /// What is in some places after the event, whatever was there; of the [life cycle](Place::LIFE_CYCLE), if it moves.
    pub puts: Vec<Content>,
    /// The places that change in another way, as whole fields.
    pub hidden: Vec<Place>,
    /// Everything else that the event depends on: what decides whether it happens, and what its effects read beside the place
    /// that they change. The life cycle is always among it and need not be named.
    pub reads: Vec<Location>,
}

/// A number that a function makes of the one that was there.
#[derive(Clone)]
pub struct Made {
    /// The field.
    pub field: Field,
    /// Equal numbers are equal functions of nothing but what was there; nothing if it depends on more.
    pub function: Option<u64>,
    /// What it makes of all numbers between two.
    pub image: Image,
}

impl Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").field("field", &self.field).field("function", &self.function).finish_non_exhaustive()
    }
}

/// How other states may differ from one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// The life-cycle states, if it may be in another one.
    pub states: Vec<String>,
    /// Numbers that lie between two values.
    pub numbers: Vec<(Field, i128, i128)>,
    /// Numbers and places of which nothing is known.
    pub unknown: Vec<Location>,
}

/// What becomes of an event in many states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forecast {
    /// It happens in all of them, calls the same, returns the same, and leads to this life-cycle state.
    Happens {
        /// The name of the state.
        state: String,
    },
    /// It is refused in all of them.
    Refused,
    /// Neither is known.
    Unsure,
}

/// Where the value of a field lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// It is a number.
    Number(Field),
    /// It is something else.
    Place(Place),
}

/// A place that an event may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The place: a numeric field too, whatever its unit.
    pub place: Place,
    /// How it is changed.
    pub manner: Manner,
}

/// What is in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The place.
    pub place: Place,
    /// In the one form in which the model writes it; of an element, whether the set has it.
    pub value: String,
}

/// A comparison of a sum of numeric fields, mostly of one field, with a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The fields, each once; at least one.
    pub terms: Vec<Term>,
    /// What their sum must satisfy.
    pub bound: Bound,
}

impl Threshold {
    /// A comparison of one field.
    pub fn of(field: Field, bound: Bound) -> Self {
        Self { terms: vec![Term { field, negative: false }], bound }
    }
}

/// A field in a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The field.
    pub field: Field,
    /// Whether it is subtracted.
    pub negative: bool,
}

/// A bound on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `value >= bound`
    AtLeast(i128),
    /// `value <= bound`
    AtMost(i128),
}

/// An event that happens by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<E> {
    /// From when on it is due.
    pub at: Timestamp,
    /// The time of the event when it happens.
    pub time: Timestamp,
    /// The event. It is refused as [`Reason::NotDue`] if it is not the next that is due.
    pub event: E,
    /// The event that notes that it was refused, after which it is no longer due. It is refused in the same way.
    pub refused: E,
}

impl<E> Due<E> {
    /// Whether it comes before a step of the time `at`: before one that a timer makes happen (`timed`) only if its time is
    /// earlier, so that two that meet do not wait for each other.
    pub fn precedes(&self, at: Timestamp, timed: bool) -> bool {
        if timed { self.time < at } else { self.at <= at }
    }
}
