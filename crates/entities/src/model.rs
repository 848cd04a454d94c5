//! What the engine must know of the classes it runs: the states, the events, and what they call.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize as SerializeDerive};

use crate::EntityKey;
use crate::reason::Reason;
use crate::tx::Timestamp;

/// All classes of one system: guards and effects as total functions of a state, an event and its time.
///
/// Nothing here may depend on anything else (a clock, a random number, another entity): the same call gives the same
/// answer on every machine and in every replay. Admission explores states that never become real, so no call may have
/// an effect either. A panic in `next` fails the entity whose event it was about, until it has been recovered.
///
/// # Laws
/// * An event is possible in a state exactly if `next` is `Ok` there and `calls` is [`Calls::Known`].
/// * Calls that are known without a state are the same in every state.
/// * `relation` and `linear` claim nothing that `next` does not show. A claim that is too strong would admit what must
///   not be; it is found out when the event is applied, which then panics.
pub trait Model: Send + Sync + 'static {
    /// The state of one instance, also of one that was never created: life-cycle state and values.
    type State: Clone + Eq + Hash + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The name of an event with its arguments.
    type Event: Clone + Eq + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The state of an instance before its first event, or nothing if the class does not exist.
    fn initial(&self, key: &EntityKey) -> Option<Self::State>;

    /// The name of the life-cycle state.
    fn state_name<'a>(&'a self, key: &EntityKey, state: &'a Self::State) -> &'a str;

    /// Whether the instance has been created: it is not in its initial state. One in a final state has been.
    fn exists(&self, key: &EntityKey, state: &Self::State) -> bool;

    /// The name of the event.
    fn event_name<'a>(&'a self, event: &'a Self::Event) -> &'a str;

    /// The state after `event`.
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

    /// What `event` asks of other entities in the same transaction, one level deep.
    fn calls(
        &self,
        key: &EntityKey,
        state: Option<&Self::State>,
        event: &Self::Event,
        at: Timestamp,
    ) -> Calls<Self::Event>;

    /// What is known, for all states, about `incoming` while it is open whether `open` will have happened.
    fn relation(&self, key: &EntityKey, open: &Self::Event, incoming: &Self::Event) -> Relation {
        let _ = (key, open, incoming);
        Relation::Dynamic
    }

    /// The event as thresholds and additions on numeric fields, if it is nothing but that.
    fn linear(&self, key: &EntityKey, event: &Self::Event, at: Timestamp) -> Option<Linear> {
        let _ = (key, event, at);
        None
    }

    /// The numeric fields of a state, in the order in which they are shown.
    fn numbers(&self, key: &EntityKey, state: &Self::State) -> Vec<(Field, i128)> {
        let _ = (key, state);
        Vec::new()
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
    /// The condition holds in the state before the transaction.
    Condition(Condition<E>),
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

/// All that one transaction does at one entity: events, one after the other, and conditions on the state before them.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDerive, Deserialize)]
pub struct Work<E> {
    /// The events in the order in which they happen. Each sees the effects of those before it, in its guards, too; two equal
    /// events are two.
    pub events: Vec<E>,
    /// The conditions, without repetition.
    pub conditions: Vec<Condition<E>>,
}

impl<E> Work<E> {
    /// Only this event.
    pub fn event(event: E) -> Self {
        Self { events: vec![event], conditions: Vec::new() }
    }

    /// Only this condition.
    pub fn condition(condition: Condition<E>) -> Self {
        Self { events: Vec::new(), conditions: vec![condition] }
    }
}

impl<E: PartialEq> Work<E> {
    /// Whether both ask for the same events in the same order, and for the same conditions in whatever order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same_conditions = self.conditions.len() == other.conditions.len()
            && self.conditions.iter().all(|condition| other.conditions.contains(condition));
        self.events == other.events && same_conditions
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

/// An event that, with the arguments it has, only compares sums of numeric fields with constants and adds constants to
/// fields.
///
/// In the states named it is possible exactly if all thresholds hold; it stays in its life-cycle state, changes each
/// field by its delta and nothing else. In every other state it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The life-cycle states in which the event may happen.
    pub states: Vec<String>,
    /// What must hold before the event; invariants and the range of the numbers are among it.
    pub thresholds: Vec<Threshold>,
    /// What is added to the fields, each field once.
    pub deltas: Vec<(Field, i128)>,
}

impl Linear {
    /// What several events do one after the other, as one: each threshold is stated for the state before the first of them.
    /// Nothing if a number leaves the range of `i128`.
    ///
    /// # Complexity
    /// Linear in all thresholds and deltas: of thresholds on the same sum only the strictest is kept.
    pub fn in_order(events: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut events = events.into_iter();
        let Some(first) = events.next() else {
            return Some(Self { states: Vec::new(), thresholds: Vec::new(), deltas: Vec::new() });
        };
        let mut all = first;
        for next in events {
            all.states.retain(|state| next.states.contains(state));
            let before: BTreeMap<Field, i128> = all.deltas.iter().copied().collect();
            for mut threshold in next.thresholds {
                let mut added = 0_i128;
                for term in &threshold.terms {
                    let delta = before.get(&term.field).copied().unwrap_or(0);
                    added = if term.negative { added.checked_sub(delta)? } else { added.checked_add(delta)? };
                }
                threshold.bound = match threshold.bound {
                    Bound::AtLeast(bound) => Bound::AtLeast(bound.checked_sub(added)?),
                    Bound::AtMost(bound) => Bound::AtMost(bound.checked_sub(added)?),
                };
                all.thresholds.push(threshold);
            }
            let mut deltas = before;
            for (field, delta) in next.deltas {
                let sum = deltas.entry(field).or_default();
                *sum = sum.checked_add(delta)?;
            }
            all.deltas = deltas.into_iter().collect();
        }
        all.keep_strictest();
        Some(all)
    }

    fn keep_strictest(&mut self) {
        let mut strictest: BTreeMap<(Vec<Term>, bool), Bound> = BTreeMap::new();
        for Threshold { terms, bound } in std::mem::take(&mut self.thresholds) {
            let kept = strictest.entry((terms, matches!(bound, Bound::AtLeast(_)))).or_insert(bound);
            *kept = match (*kept, bound) {
                (Bound::AtLeast(one), Bound::AtLeast(other)) => Bound::AtLeast(one.max(other)),
                (Bound::AtMost(one), Bound::AtMost(other)) => Bound::AtMost(one.min(other)),
                (kept, _) => kept,
            };
        }
        self.thresholds = strictest.into_iter().map(|((terms, _), bound)| Threshold { terms, bound }).collect();
    }
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
