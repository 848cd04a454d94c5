//! The classes of a Rebel specification as a [`Model`].
//!
//! # Numbers
//! Amounts of two currencies in one field are two numbers: the number of a field is its place in the class, joined with
//! the code of the currency. A field that holds another currency than the one asked for has no such number, and the
//! interval domain then leaves the verdict to the outcomes.
//!
//! # What is taken from the analysis
//! *Never* pairs, and the linear form of calls whose thresholds are each over one field. *Invariant* pairs are not: they
//! hold up to the range of numbers only, and amounts that add up past it must be refused, not found out when they are
//! applied.

use std::sync::Arc;

use enact_rebel::{Action as Need, Class, Currency, EventCall, Instance, Key, Spec, Sync, Type, Value, Violation};

use crate::EntityKey;
use crate::model::{Bound, Call, Calls, Condition, Field, Linear, Model, Relation, Threshold};
use crate::reason::Reason;
use crate::tx::Timestamp;

/// All classes of one specification.
///
/// ```
/// use enact_entities::{EntityKey, Model, Rebel, Timestamp};
/// use enact_rebel::{Source, Value, check};
///
/// let text = "
///   class Counter
///     n: Integer
///     initial idle
///       on Start(from: Integer): counting
///         post: this.n == from
///     counting
///       on Add(k: Integer): counting
///         pre: k > 0
///         post: this.n += k
/// ";
/// let spec = check(vec![Source { name: "counter.rebel".into(), text: text.into() }]).expect("it is a good one");
/// let start = spec.class("Counter").unwrap().event("Start").unwrap().call([("from", Value::Integer(3))]).unwrap();
/// let counters = Rebel::new(spec.into());
/// let key = EntityKey::new("Counter", "c1").unwrap();
/// let idle = counters.initial(&key).unwrap();
/// let counting = counters.next(&key, &idle, &start, Timestamp(0)).unwrap();
/// assert_eq!(counters.state_name(&key, &counting), "counting");
/// ```
#[derive(Clone, Debug)]
pub struct Rebel(Arc<Spec>);

impl Rebel {
    /// The classes of `spec`.
    pub const fn new(spec: Arc<Spec>) -> Self {
        Self(spec)
    }

    /// The specification.
    pub fn spec(&self) -> &Spec {
        &self.0
    }

    /// The class of an instance and its identity in the language; nothing if it is not written as the class writes it.
    fn instance(&self, key: &EntityKey) -> Option<(&Class, Key)> {
        let class = self.0.class(key.class())?;
        let identity = class.key(key.id()).ok()?;
        (identity.to_string() == key.id()).then_some((class, identity))
    }
}

impl Model for Rebel {
    type State = Instance;
    type Event = EventCall;

    fn initial(&self, key: &EntityKey) -> Option<Instance> {
        self.instance(key).map(|(class, _)| class.initial())
    }

    fn state_name<'a>(&'a self, _: &EntityKey, state: &'a Instance) -> &'a str {
        state.state()
    }

    fn exists(&self, key: &EntityKey, state: &Instance) -> bool {
        self.0.class(key.class()).is_some_and(|class| class.initial().state() != state.state())
    }

    fn event_name<'a>(&'a self, event: &'a EventCall) -> &'a str {
        event.event()
    }

    fn next(
        &self,
        key: &EntityKey,
        state: &Instance,
        event: &EventCall,
        at: Timestamp,
    ) -> Result<Instance, Vec<Reason>> {
        let Some((class, identity)) = self.instance(key) else { return Err(vec![Reason::UnknownClass]) };
        if let Some(text) = event.arguments().iter().find_map(|(_, value)| bad_reference(value)) {
            return Err(vec![Reason::Unfit { what: format!("`{text}` cannot be the id of an instance") }]);
        }
        class.next(&identity, state, event, time(at)).map_err(|violations| violations.iter().map(reason).collect())
    }

    fn calls(&self, key: &EntityKey, state: Option<&Instance>, event: &EventCall, at: Timestamp) -> Calls<EventCall> {
        let known = self.instance(key).and_then(|(class, identity)| {
            let syncs = match state {
                Some(state) => class.syncs(&identity, state, event, time(at)).ok()?,
                None => class.syncs_of_call(&identity, event, time(at))?,
            };
            syncs.into_iter().map(call).collect::<Option<Vec<_>>>()
        });
        match (known, state) {
            (Some(calls), _) => Calls::Known(calls),
            (None, None) => Calls::DependsOnState,
            // An event without calls to be had is one that `next` refuses.
            (None, Some(_)) => Calls::Known(Vec::new()),
        }
    }

    fn relation(&self, key: &EntityKey, open: &EventCall, incoming: &EventCall) -> Relation {
        let class = self.0.class(key.class());
        match class.and_then(|class| class.relation(open.event(), incoming.event())) {
            Some(enact_rebel::Relation::Never) => Relation::Never,
            _ => Relation::Dynamic,
        }
    }

    fn linear(&self, key: &EntityKey, event: &EventCall, at: Timestamp) -> Option<Linear> {
        let (class, identity) = self.instance(key)?;
        let found = class.linear(&identity, event, time(at))?;
        let thresholds = found.thresholds.iter().map(|threshold| {
            let [term] = threshold.terms.as_slice() else { return None };
            let field = number_of(class, &term.field, threshold.currency)?;
            let bound = match (threshold.bound, term.is_negative) {
                (enact_rebel::Bound::AtLeast(bound), false) => Bound::AtLeast(bound),
                (enact_rebel::Bound::AtMost(bound), false) => Bound::AtMost(bound),
                (enact_rebel::Bound::AtLeast(bound), true) => Bound::AtMost(bound.checked_neg()?),
                (enact_rebel::Bound::AtMost(bound), true) => Bound::AtLeast(bound.checked_neg()?),
            };
            Some(Threshold { field, bound })
        });
        let deltas = found.deltas.iter().map(|delta| {
            let field = number_of(class, &delta.field, delta.currency)?;
            Some((field, delta.amount))
        });
        Some(Linear {
            states: found.states.iter().map(ToString::to_string).collect(),
            thresholds: thresholds.collect::<Option<_>>()?,
            deltas: deltas.collect::<Option<_>>()?,
        })
    }

    fn numbers(&self, key: &EntityKey, state: &Instance) -> Vec<(Field, i128)> {
        let Some(class) = self.0.class(key.class()) else { return Vec::new() };
        let values = state
            .fields()
            .iter()
            .filter_map(|(name, value)| Some((number_of(class, name, value.currency())?, value.number()?)));
        values.collect()
    }

    fn show(&self, key: &EntityKey, field: Field, value: i128) -> (String, String) {
        let place = usize::try_from(field.0 >> CURRENCY_BITS).unwrap_or(usize::MAX);
        let declared = self.0.class(key.class()).and_then(|class| class.fields().get(place));
        let Some(declared) = declared else { return (field.to_string(), value.to_string()) };
        let shown = Value::of_number(declared.ty(), currency_of(field), value);
        (declared.name().to_string(), shown.map_or_else(|| value.to_string(), |shown| shown.to_string()))
    }
}

/// The bits of a field's number that hold a currency: three letters, or nothing.
const CURRENCY_BITS: u32 = 24;

/// The number of a field in one currency; nothing if it has none, as an amount of money without a currency.
fn number_of(class: &Class, name: &str, currency: Option<Currency>) -> Option<Field> {
    let place = class.fields().iter().position(|field| **field.name() == *name)?;
    if currency.is_none() && *class.fields()[place].ty() == Type::Money {
        return None;
    }
    let code = currency.map_or(0, |currency| currency.code().bytes().fold(0, |code, byte| code << 8 | u64::from(byte)));
    Some(Field((place as u64) << CURRENCY_BITS | code))
}

fn currency_of(field: Field) -> Option<Currency> {
    let [.., first, second, third] = field.0.to_be_bytes();
    std::str::from_utf8(&[first, second, third]).ok()?.parse().ok()
}

fn time(at: Timestamp) -> enact_rebel::Timestamp {
    enact_rebel::Timestamp::from_millis(at.0)
}

/// The call that `sync` stands for; nothing if its target is not the id of any instance, which `next` refuses.
fn call(sync: Sync) -> Option<Call<EventCall>> {
    let key = EntityKey::new(&sync.target.class, &sync.target.key.to_string()).ok()?;
    match sync.action {
        Need::Do(event) => Some(Call::event(key, event)),
        Need::Impossible(event) => Some(Call::condition(key, Condition::Impossible(event))),
        Need::Initialized => Some(Call::condition(key, Condition::Initialized)),
        Need::InState(states) => {
            Some(Call::condition(key, Condition::InState(states.iter().map(ToString::to_string).collect())))
        }
        _ => None,
    }
}

/// A reference within `value` that is not the id of any instance.
fn bad_reference(value: &Value) -> Option<String> {
    match value {
        Value::Reference(target) => {
            let id = target.key.to_string();
            EntityKey::new(&target.class, &id).is_err().then_some(id)
        }
        Value::Set(values) => values.iter().find_map(bad_reference),
        _ => None,
    }
}

fn reason(violation: &Violation) -> Reason {
    match violation {
        Violation::LifeCycle { event, state, allowed } => Reason::LifeCycle {
            event: event.to_string(),
            state: state.to_string(),
            allowed: allowed.iter().map(ToString::to_string).collect(),
        },
        Violation::Guard { text, values, .. } => Reason::Guard { text: text.to_string(), values: in_words(values) },
        Violation::Invariant { text, values, .. } => {
            Reason::Invariant { text: text.to_string(), values: in_words(values) }
        }
        Violation::Arithmetic { .. } => Reason::Arithmetic { what: violation.to_string() },
        other => Reason::Unfit { what: other.to_string() },
    }
}

fn in_words(values: &[(enact_rebel::Name, Value)]) -> Vec<(String, String)> {
    values.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}
