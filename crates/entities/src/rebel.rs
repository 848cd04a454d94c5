//! Rebel specifications as a [`Model`]: the engine runs what the contract says, and nothing else.
//!
//! # Ids
//! The id of an entity is the text of its identity, in the one form in which the language writes it. Another spelling of
//! the same identity is no entity, so that no two keys mean the same instance.
//!
//! # Numbers
//! A numeric field counts in the smallest unit of its type. The same field in two currencies is two [`Field`]s: a bound in one
//! currency says nothing of an amount in another.
//!
//! # Versions
//! A model knows the versions of its contract that were adopted before it, each with the migration to the next. An event is replayed
//! by the classes of the version that it was written under, and a state goes from version to version, never past one.
//!
//! # Calls known before a state is
//! An event is evaluated on an instance without fields, once per state it leaves. If that succeeds no field was read, and
//! the calls are the same whatever the fields are.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enact_rebel::{
    self as rebel, Answered, Class, Currency, Date, EventCall, Instance, Key, Migration, Money, Name, Percentage,
    Reference, Spec, StateKind, Type, Value, Violation,
};
use serde::Serialize;

use crate::EntityKey;
use crate::model::{
    Asked, Bound, Call, Calls, Change, Condition, Content, Cover, Due, Effects, Field, Forecast, Image, Linear,
    Location, Made, Model, Place, Question, Relation, Term, Threshold,
};
use crate::reason::Reason;
use crate::tx::Timestamp;

thread_local! {
    /// Entities that were met last, each with its identity: a decision asks many questions about few entities in a row.
    static LAST_MET: RefCell<Vec<Option<(EntityKey, Key)>>> = const { RefCell::new(Vec::new()) };
}

/// How many entities a thread remembers, as a power of two.
const LAST_MET_BITS: u32 = 10;

/// What is kept where an entity with this id would be.
fn with_last_met<R>(id: &str, see: impl FnOnce(&mut Option<(EntityKey, Key)>) -> R) -> R {
    // Ids differ at their ends. The golden ratio keeps those apart that are counted.
    let end = match id.as_bytes().last_chunk() {
        Some(end) => u64::from_be_bytes(*end),
        None => id.bytes().fold(0, |letters, letter| letters << 8 | u64::from(letter)),
    };
    let place = end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LAST_MET_BITS);
    LAST_MET.with_borrow_mut(|met| {
        if met.is_empty() {
            met.resize(1 << LAST_MET_BITS, None);
        }
        see(&mut met[place as usize])
    })
}

/// The classes of a specification.
///
/// ```
/// use enact_entities::{EntityKey, Model, Rebel, Timestamp};
/// use enact_rebel::{Source, Value, check};
///
/// let spec = check(vec![Source::new("tank.rebel", "
///     class Tank
///       litres: Integer = 0
///       initial empty
///         on Fill(by: Integer): filled
///           pre: \"it holds 100 litres\": litres + by <= 100
///           post: this.litres += by
///       filled
/// ")]).unwrap();
/// let fill = spec.class("Tank").unwrap().event("Fill").unwrap().call([("by", Value::Integer(101))]).unwrap();
/// let model = Rebel::new(spec.into());
///
/// let tank = EntityKey::new("Tank", "t1").unwrap();
/// let empty = model.initial(&tank).unwrap();
/// let refused = model.next(&tank, &empty, &fill, Timestamp(0)).unwrap_err();
/// assert_eq!(refused[0].to_string(), "it holds 100 litres with litres = 0, by = 101");
/// ```
#[derive(Debug)]
pub struct Rebel {
    spec: Arc<Spec>,
    /// In the order of their [ranks](rank).
    classes: Vec<Known>,
    /// Whether any class has timers.
    has_timers: bool,
    earlier: Option<Box<Earlier>>,
}

/// The version before, and how instances come from there.
#[derive(Debug)]
struct Earlier {
    model: Rebel,
    migration: Migration,
}

#[derive(Debug)]
struct Known {
    class: Arc<Class>,
    initial: Instance,
    /// An instance without fields in each state.
    blank: BTreeMap<Name, Instance>,
    /// The events that do the same at any time.
    timeless: BTreeSet<Name>,
    /// The states in which the life cycle ends.
    finals: BTreeSet<Name>,
}

/// The order in which classes are looked for: shorter names come first, so that most comparisons read no text.
const fn rank(name: &str) -> (usize, &str) {
    (name.len(), name)
}

impl Rebel {
    /// The classes of `spec`.
    pub fn new(spec: Arc<Spec>) -> Self {
        let mut classes: Vec<Known> = spec.classes().map(Known::new).collect();
        classes.sort_by(|one, other| rank(one.class.name()).cmp(&rank(other.class.name())));
        let has_timers = classes.iter().any(|known| known.class.is_timed());
        Self { classes, has_timers, spec, earlier: None }
    }

    /// The classes of `spec`, to which the instances of `earlier` come as `migration` says.
    ///
    /// # Panics
    /// If the migration is not from the version of `earlier` to that of `spec`.
    pub fn after(earlier: Self, migration: Migration, spec: Arc<Spec>) -> Self {
        assert_eq!((migration.from(), migration.to()), (earlier.spec.version(), spec.version()), "another migration");
        Self { earlier: Some(Box::new(Earlier { model: earlier, migration })), ..Self::new(spec) }
    }

    /// The instance of this version that one of the version `from` becomes; nothing if its class was dropped on the way.
    fn carried(&self, entity: &EntityKey, state: Instance, from: u32) -> Result<Option<Instance>, Vec<Reason>> {
        if from == self.spec.version() {
            return Ok(Some(state));
        }
        let Some(Earlier { model, migration }) = self.earlier.as_deref() else {
            return Err(vec![Reason::Malformed { what: format!("version {from} of the contract is not known") }]);
        };
        let Some(state) = model.carried(entity, state, from)? else { return Ok(None) };
        let (_, key) = model.class(entity)?;
        migration.instance(entity.class(), &key, &state).map_err(reasons)
    }

    /// The specification.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    fn calls_of(&self, syncs: Vec<rebel::Sync>) -> Result<Vec<Call<EventCall>>, Vec<Reason>> {
        let call = |sync: rebel::Sync| {
            let (key, text) = (target(&sync.target)?, &*sync.text);
            Ok(match sync.action {
                rebel::Action::Do(event) => Call::event(key, event),
                rebel::Action::Impossible(event) => {
                    let event = self.probed(&sync.target, event);
                    Call::condition(key, Condition::impossible(event, text))
                }
                rebel::Action::Initialized => Call::condition(key, Condition::initialized(text)),
                rebel::Action::InState(states) => Call::condition(key, Condition::in_state(texts(&states), text)),
                other => return Err(vec![Reason::Malformed { what: format!("{text}: {other:?} is not known here") }]),
            })
        };
        syncs.into_iter().map(call).collect()
    }

    fn asked(
        &self,
        (of, question): (Reference, rebel::Question),
        called: &[(Reference, Name)],
    ) -> Result<Asked<EventCall>, Vec<Reason>> {
        let event = |name: &Name| self.known(&of.class).and_then(|known| known.class.event(name));
        let changes = |(target, name): &(Reference, Name)| {
            *target == of && event(name).is_some_and(|event| event.may_change(&question))
        };
        let to_change = called.iter().any(changes);
        let question = match question {
            rebel::Question::Field(name) => Question::Field(name.to_string()),
            rebel::Question::Initialized => Question::Initialized,
            rebel::Question::InState(states) => Question::InState(texts(&states)),
            rebel::Question::Possible(event) => Question::Possible(self.probed(&of, event)),
            rebel::Question::Result(event) => Question::Result(event),
            other => return Err(vec![Reason::Malformed { what: format!("{of}: {other:?} is not known here") }]),
        };
        Ok(Asked { key: target(&of)?, question, to_change })
    }

    /// An event that is asked about, with some seed if it needs one.
    fn probed(&self, of: &Reference, event: EventCall) -> EventCall {
        match self.known(&of.class).map(|known| known.class.probed(&event)) {
            Some(Cow::Owned(probed)) => probed,
            _ => event,
        }
    }

    /// The answer of an entity in `state` to a question; nothing if it has none.
    pub fn answer(&self, asked: &Asked<EventCall>, state: &Instance, at: Timestamp) -> Option<Value> {
        let (known, key) = self.class(&asked.key).ok()?;
        known.class.answer(&key, state, &question(&asked.question), time(at))
    }

    /// What a read event returns in `state`; it carries the answers to its questions.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn read(
        &self,
        entity: &EntityKey,
        state: &Instance,
        event: &EventCall,
        at: Timestamp,
    ) -> Result<Value, Vec<Reason>> {
        let (known, key) = self.class(entity)?;
        known.class.read(&key, state, event, time(at)).map_err(reasons)
    }

    /// The class called `name`.
    fn known(&self, name: &str) -> Option<&Known> {
        let place = self.classes.binary_search_by(|known| rank(known.class.name()).cmp(&rank(name))).ok()?;
        Some(&self.classes[place])
    }

    /// The event as it is declared.
    fn event(&self, entity: &EntityKey, event: &EventCall) -> Option<&rebel::Event> {
        self.known(entity.class())?.class.event(event.event())
    }

    fn class(&self, entity: &EntityKey) -> Result<(&Known, Key), Vec<Reason>> {
        let known = self.known(entity.class()).ok_or_else(|| vec![Reason::NoSuchEntity])?;
        let key = with_last_met(entity.id(), |last| -> Result<Key, Vec<Reason>> {
            if let Some((of, key)) = last
                && of == entity
                && key.has_type(known.class.key_type())
            {
                return Ok(key.clone());
            }
            let key = known.class.key(entity.id()).map_err(|_| vec![Reason::NoSuchEntity])?;
            *last = Some((entity.clone(), key.clone()));
            Ok(key)
        })?;
        Ok((known, key))
    }
}

impl Known {
    fn new(class: &Arc<Class>) -> Self {
        let blank = class.states().iter().map(|state| (Arc::clone(state.name()), blank(state.name())));
        let finals = class.states().iter().filter(|state| state.kind() == StateKind::Final);
        let timeless = class.events().iter().filter(|event| !class.is_timed() && !class.reads_time(event));
        Self {
            class: Arc::clone(class),
            initial: class.initial(),
            blank: blank.collect(),
            timeless: timeless.map(|event| Arc::clone(event.name())).collect(),
            finals: finals.map(|state| Arc::clone(state.name())).collect(),
        }
    }

    /// The numeric fields with their indices.
    fn numeric(&self) -> impl Iterator<Item = (usize, &rebel::Field)> {
        self.class.fields().iter().enumerate().filter(|(_, field)| is_numeric(field.ty()))
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.class.fields().iter().position(|field| **field.name() == *name)
    }

    /// The field called `name`, in `currency` if it is money.
    fn field(&self, name: &str, currency: Option<Currency>) -> Option<Field> {
        let index = self.index(name)?;
        match (self.class.fields()[index].ty(), currency) {
            (Type::Money, None) => None,
            (Type::Money, currency) => Some(numbered(index, currency)),
            (Type::MoneyOf(own), Some(other)) if *own != other => None,
            (Type::MoneyOf(own), _) => Some(numbered(index, Some(*own))),
            _ => Some(numbered(index, None)),
        }
    }

    fn content(&self, content: &rebel::Content) -> Option<Content> {
        let index = self.index(&content.place.field)?;
        if matches!(self.class.fields()[index].ty(), Type::Set(ty) if !has_texts(ty)) {
            return None;
        }
        let element = content.place.element.as_ref().map(Value::to_string);
        Some(Content { place: Place { field: index as u64, element }, value: content.value.to_string() })
    }

    /// The linear form with numbers for names; nothing if some money in it has no currency.
    fn numbered(&self, linear: &rebel::Linear) -> Option<Linear> {
        let deltas: Option<Vec<_>> =
            linear.deltas.iter().map(|delta| Some((self.field(&delta.field, delta.currency)?, delta.amount))).collect();
        let threshold = |threshold: &rebel::Threshold| {
            // A comparison with zero takes the currency in which the event adds to one of the fields.
            let has = |name: &Name| threshold.terms.iter().any(|term| term.field == *name);
            let added = linear.deltas.iter().find(|delta| has(&delta.field)).and_then(|delta| delta.currency);
            let currency = threshold.currency.or(added);
            let term = |term: &rebel::Term| {
                Some(Term { field: self.field(&term.field, currency)?, negative: term.is_negative })
            };
            let terms: Option<Vec<_>> = threshold.terms.iter().map(term).collect();
            let bound = match threshold.bound {
                rebel::Bound::AtLeast(bound) => Bound::AtLeast(bound),
                rebel::Bound::AtMost(bound) => Bound::AtMost(bound),
            };
            Some(Threshold { terms: terms?, bound })
        };
        let thresholds: Option<Vec<_>> = linear.thresholds.iter().map(threshold).collect();
        let assigned =
            linear.assigned.iter().map(|field| Some((self.field(&field.field, field.currency)?, field.amount)));
        let contents = |contents: &[rebel::Content]| {
            contents.iter().map(|content| self.content(content)).collect::<Option<Vec<_>>>()
        };
        Some(Linear {
            states: texts(&linear.states),
            thresholds: thresholds?,
            holds: contents(&linear.holds)?,
            deltas: deltas?,
            assigned: assigned.collect::<Option<_>>()?,
            puts: contents(&linear.puts)?,
        })
    }
}

impl Known {
    /// Where the value of the field called `name` lies in `state`.
    fn location(&self, state: &Instance, name: &Name) -> Option<Location> {
        let index = self.index(name)?;
        Some(match state.fields().get(name).and_then(number) {
            Some((_, currency)) => Location::Number(numbered(index, currency)),
            None => Location::Place(Place { field: index as u64, element: None }),
        })
    }

    /// What a call does in `state`, with numbers for names; `image` gives what is made of a number in a currency.
    fn with_numbers(
        &self,
        effects: &rebel::Effects,
        state: &Instance,
        image: impl Fn(&Name, Option<Currency>) -> Image,
    ) -> Option<Effects> {
        let number_of = |delta: &rebel::Delta| Some((self.field(&delta.field, delta.currency)?, delta.amount));
        let made = |(name, function): &(Name, Option<u64>)| {
            let (_, currency) = number(state.fields().get(name)?)?;
            Some(Made { field: self.field(name, currency)?, function: *function, image: image(name, currency) })
        };
        let target = effects.target.iter();
        let moved = target.map(|state| Content { place: Place::LIFE_CYCLE, value: state.to_string() });
        let puts: Option<Vec<_>> = effects.puts.iter().map(|content| self.content(content)).collect();
        let hidden = |name: &Name| Some(Place { field: self.index(name)? as u64, element: None });
        let deltas = effects.deltas.iter().filter(|delta| delta.amount != 0);
        Some(Effects {
            deltas: deltas.map(number_of).collect::<Option<_>>()?,
            assigned: effects.assigned.iter().map(number_of).collect::<Option<_>>()?,
            made: effects.made.iter().map(made).collect::<Option<_>>()?,
            puts: puts?.into_iter().chain(moved).collect(),
            hidden: effects.hidden.iter().map(hidden).collect::<Option<_>>()?,
            reads: effects.reads.iter().map(|name| self.location(state, name)).collect::<Option<_>>()?,
        })
    }

    /// The instances that `cover` allows beside `state`.
    fn outline(&self, state: &Instance, cover: &Cover) -> rebel::Outline {
        let class = &self.class;
        let mut outline = class.outline(state);
        let name = |index: u64| usize::try_from(index).ok().and_then(|index| class.fields().get(index));
        for &(field, low, high) in &cover.numbers {
            name(field.0 >> 32).into_iter().for_each(|field| class.stretch(&mut outline, field.name(), low, high));
        }
        for unknown in &cover.unknown {
            let index = match unknown {
                Location::Number(field) => field.0 >> 32,
                Location::Place(place) => place.field,
            };
            name(index).into_iter().for_each(|field| class.forget(&mut outline, field.name()));
        }
        let declared = class.states().iter().map(rebel::State::name);
        let possible = declared.filter(|state| cover.states.iter().any(|possible| **possible == ***state));
        outline.add_states(possible.cloned());
        outline
    }
}

/// An instance in `state` without a value in any field.
fn blank(state: &str) -> Instance {
    #[derive(Serialize)]
    struct Blank<'a> {
        state: &'a str,
        fields: BTreeMap<&'a str, ()>,
    }
    let blank = Blank { state, fields: BTreeMap::new() };
    let bytes = rmp_serde::to_vec_named(&blank).expect("names can be encoded");
    rmp_serde::from_slice(&bytes).expect("an instance reads as its state and its fields")
}

fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Whether each value of the type has a text of its own: that of one that is absent may be that of one that is there.
const fn has_texts(ty: &Type) -> bool {
    !matches!(ty, Type::Optional(_))
}

const fn is_numeric(ty: &Type) -> bool {
    matches!(ty, Type::Integer | Type::Money | Type::MoneyOf(_) | Type::Percentage | Type::Date | Type::Timestamp)
}

/// The index of a field, and the currency as its three letters.
fn numbered(index: usize, currency: Option<Currency>) -> Field {
    let letters = currency
        .map_or(0, |currency| currency.code().bytes().fold(0, |letters, letter| letters << 8 | u64::from(letter)));
    Field((index as u64) << 32 | letters)
}

fn number(value: &Value) -> Option<(i128, Option<Currency>)> {
    match value {
        Value::Integer(number) => Some((i128::from(*number), None)),
        Value::Money(money) => Some((money.minor(), Some(money.currency()))),
        Value::Percentage(percentage) => Some((percentage.units(), None)),
        Value::Date(date) => Some((i128::from(date.days()), None)),
        Value::Timestamp(time) => Some((i128::from(time.millis()), None)),
        _ => None,
    }
}

/// The text of a number that a field of this type may have.
fn text_of(ty: &Type, letters: u64, number: i128) -> Option<String> {
    match ty {
        Type::Money | Type::MoneyOf(_) => {
            let code: String = letters.to_be_bytes()[5..].iter().map(|&letter| char::from(letter)).collect();
            let currency = code.parse().ok()?;
            Some(Money::new(currency, number)?.to_string())
        }
        Type::Percentage => Some(Percentage::from_units(number)?.to_string()),
        Type::Date => Some(Date::from_days(number.try_into().ok()?)?.to_string()),
        Type::Timestamp => Some(rebel::Timestamp::from_millis(number.try_into().ok()?).to_string()),
        _ => Some(number.to_string()),
    }
}

const fn time(at: Timestamp) -> rebel::Timestamp {
    rebel::Timestamp::from_millis(at.0)
}

/// The entity that a reference means.
fn target(reference: &Reference) -> Result<EntityKey, Vec<Reason>> {
    let (class, id) = (&*reference.class, id_of(&reference.key));
    with_last_met(&id, |last| {
        if let Some((met, _)) = last
            && met.id() == id
            && met.class() == class
        {
            return Ok(met.clone());
        }
        let entity = EntityKey::new(class, &id)
            .map_err(|error| vec![Reason::Malformed { what: format!("{reference} cannot be called: {error}") }])?;
        // A text that joins several is read anew: one that was not made of a class may hold the sign that joins them.
        if !matches!(reference.key, Key::Composite(_) | Key::Reference(_)) {
            *last = Some((entity.clone(), reference.key.clone()));
        }
        Ok(entity)
    })
}

/// The text of an identity.
fn id_of(key: &Key) -> Cow<'_, str> {
    match key {
        Key::String(text) => Cow::Borrowed(text),
        Key::Iban(iban) => Cow::Borrowed(iban.as_str()),
        key => Cow::Owned(key.to_string()),
    }
}

fn question(question: &Question<EventCall>) -> rebel::Question {
    match question {
        Question::Field(name) => rebel::Question::Field(name.as_str().into()),
        Question::Initialized => rebel::Question::Initialized,
        Question::InState(states) => {
            rebel::Question::InState(states.iter().map(|state| Name::from(state.as_str())).collect())
        }
        Question::Possible(event) => rebel::Question::Possible(event.clone().with_seed(None)),
        Question::Result(event) => rebel::Question::Result(event.clone()),
    }
}

fn reason(violation: Violation) -> Reason {
    let named = |values: Vec<(Name, Value)>| {
        values.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    match violation {
        Violation::LifeCycle { event, state, allowed } => {
            Reason::LifeCycle { event: event.to_string(), state: state.to_string(), allowed: texts(&allowed) }
        }
        Violation::Role { event, roles } => Reason::Role { event: event.to_string(), roles: texts(&roles) },
        Violation::Guard { text, values, .. } => Reason::Guard { text: text.to_string(), values: named(values) },
        Violation::Invariant { text, values, .. } => {
            Reason::Invariant { text: text.to_string(), values: named(values) }
        }
        Violation::Due { event, at } => Reason::Due { event: event.to_string(), at: Timestamp(at.millis()) },
        Violation::NotDue { event, .. } => Reason::NotDue { event: event.to_string() },
        Violation::Arithmetic { .. } => Reason::Arithmetic { what: violation.to_string() },
        other => Reason::Malformed { what: other.to_string() },
    }
}

fn reasons(violations: Vec<Violation>) -> Vec<Reason> {
    violations.into_iter().map(reason).collect()
}

impl Model for Rebel {
    type State = Instance;
    type Event = EventCall;

    fn classes(&self) -> Vec<(String, Vec<String>)> {
        let events = |class: &Class| class.events().iter().map(|event| event.name().to_string()).collect();
        self.spec.classes().map(|class| (class.name().to_string(), events(class))).collect()
    }

    fn initial(&self, entity: &EntityKey) -> Option<Instance> {
        let (known, key) = self.class(entity).ok()?;
        (id_of(&key) == entity.id()).then(|| known.initial.clone())
    }

    fn state_name<'a>(&'a self, _: &EntityKey, state: &'a Instance) -> &'a str {
        state.state()
    }

    fn exists(&self, entity: &EntityKey, state: &Instance) -> bool {
        self.known(entity.class()).is_some_and(|known| known.initial.state() != state.state())
    }

    fn is_final(&self, entity: &EntityKey, state: &Instance) -> bool {
        self.known(entity.class()).is_some_and(|known| known.finals.contains(state.state()))
    }

    fn may_end(&self, entity: &EntityKey, event: &EventCall) -> bool {
        let Some(known) = self.known(entity.class()) else { return false };
        let ends = |event: &rebel::Event| event.transitions().any(|(_, target)| known.finals.contains(target));
        known.class.event(event.event()).is_some_and(ends)
    }

    fn event_name<'a>(&'a self, event: &'a EventCall) -> &'a str {
        event.event()
    }

    fn next(
        &self,
        entity: &EntityKey,
        state: &Instance,
        event: &EventCall,
        at: Timestamp,
    ) -> Result<Instance, Vec<Reason>> {
        let (known, key) = self.class(entity)?;
        known.class.act(&key, state, event, time(at)).map_err(reasons)
    }

    fn projected(&self, entity: &EntityKey, state: &Instance, event: &EventCall, at: Timestamp) -> Option<Instance> {
        let (known, key) = self.class(entity).ok()?;
        known.class.projected(&key, state, event, time(at))
    }

    fn is_internal(&self, entity: &EntityKey, event: &EventCall) -> bool {
        event.due().is_none() && self.event(entity, event).is_some_and(rebel::Event::is_internal)
    }

    fn broken(&self, entity: &EntityKey, before: &Instance, after: &Instance, at: Timestamp) -> Vec<Reason> {
        match self.class(entity) {
            Ok((known, key)) => reasons(known.class.broken_by(&key, before, after, time(at))),
            Err(reasons) => reasons,
        }
    }

    /// An instance that does not exist yet breaks nothing: what creates it is judged by all invariants.
    fn is_sound(&self, entity: &EntityKey, state: &Instance) -> bool {
        // The time decides nothing about an invariant.
        let never = rebel::Timestamp::from_millis(0);
        let holds = |(known, key): (&Known, Key)| {
            let holds = || known.class.broken_invariants(&key, state, never).is_empty();
            known.initial.state() == state.state() || holds() && known.class.has_times(&key, state)
        };
        self.class(entity).is_ok_and(holds)
    }

    fn version(&self) -> u32 {
        self.spec.version()
    }

    fn under(&self, version: u32) -> Option<&Self> {
        if version == self.spec.version() { Some(self) } else { self.earlier.as_ref()?.model.under(version) }
    }

    /// An instance of a class that was dropped, and is there again, begins anew.
    fn migrated(&self, entity: &EntityKey, state: Instance, from: u32) -> Result<Instance, Vec<Reason>> {
        let carried = self.carried(entity, state, from)?;
        carried.or_else(|| self.initial(entity)).ok_or_else(|| vec![Reason::NoSuchEntity])
    }

    fn calls(
        &self,
        entity: &EntityKey,
        state: Option<&Instance>,
        event: &EventCall,
        at: Timestamp,
    ) -> Calls<EventCall> {
        if self.event(entity, event).is_some_and(|event| !event.needs_others()) {
            return Calls::Known(Vec::new());
        }
        let Some(state) = state else { return self.fixed_calls(entity, event, at) };
        let calls = self.class(entity).and_then(|(known, key)| {
            let syncs = known.class.syncs(&key, state, event, time(at)).map_err(reasons)?;
            self.calls_of(syncs)
        });
        calls.map_or_else(Calls::Refused, Calls::Known)
    }

    fn questions(
        &self,
        entity: &EntityKey,
        state: &Instance,
        event: &EventCall,
        at: Timestamp,
    ) -> Result<Vec<Asked<EventCall>>, Vec<Reason>> {
        if self.event(entity, event).is_none_or(|event| !event.asks()) {
            return Ok(Vec::new());
        }
        let (known, key) = self.class(entity)?;
        let questions = known.class.questions(&key, state, event, time(at));
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let called = known.class.called(&key, state, event, time(at));
        questions.into_iter().map(|asked| self.asked(asked, &called)).collect()
    }

    fn answered(&self, event: &EventCall, answers: &[(Asked<EventCall>, Option<Value>)]) -> EventCall {
        let answered = |(asked, answer): &(Asked<EventCall>, Option<Value>)| {
            let (known, key) = self.class(&asked.key).ok()?;
            let of = known.class.reference(key);
            Some(Answered { of, question: question(&asked.question), answer: answer.clone() })
        };
        event.clone().with_answers(answers.iter().filter_map(answered).collect())
    }

    fn seeded(&self, entity: &EntityKey, event: EventCall, seed: u128) -> EventCall {
        match self.event(entity, &event) {
            Some(declared) if declared.needs_seed() => event.with_seed(rebel::Id::from_u128(seed)),
            _ => event,
        }
    }

    fn has_result(&self, entity: &EntityKey, event: &EventCall) -> bool {
        self.event(entity, event).is_some_and(|event| event.result().is_some())
    }

    fn result(&self, entity: &EntityKey, state: &Instance, event: &EventCall, at: Timestamp) -> Option<Value> {
        let (known, key) = self.class(entity).ok()?;
        known.class.result(&key, state, event, time(at))
    }

    fn has_fixed_result(&self, entity: &EntityKey, event: &EventCall) -> bool {
        self.event(entity, event).is_some_and(rebel::Event::has_fixed_result)
    }

    fn value(&self, entity: &EntityKey, state: &Instance, field: &str) -> Option<Value> {
        let (known, key) = self.class(entity).ok()?;
        // The time decides nothing about a field.
        let never = rebel::Timestamp::from_millis(0);
        known.class.answer(&key, state, &rebel::Question::Field(field.into()), never)
    }

    fn location(&self, entity: &EntityKey, state: &Instance, field: &str) -> Option<Location> {
        let known = self.known(entity.class())?;
        let index = known.index(field)?;
        let value = state.fields().get(field)?;
        match (number(value), known.class.fields()[index].ty()) {
            // What is in a part of it, or that it is absent, is no content of its own.
            (_, Type::Set(_) | Type::List(_) | Type::Map(_) | Type::Record(_) | Type::Optional(_)) => None,
            (Some((_, currency)), _) => Some(Location::Number(numbered(index, currency))),
            (None, _) => Some(Location::Place(Place { field: index as u64, element: None })),
        }
    }

    fn changes(&self, entity: &EntityKey, event: &EventCall, at: Timestamp) -> Option<Vec<Change>> {
        let (known, key) = self.class(entity).ok()?;
        let change = |change: rebel::Change| {
            // The life cycle is no field.
            let field = known.index(&change.place.field).map_or(u64::MAX, |index| index as u64);
            let element = change.place.element.as_ref().map(Value::to_string);
            Change { place: Place { field, element }, manner: change.manner }
        };
        Some(known.class.changes(&key, event, time(at))?.into_iter().map(change).collect())
    }

    fn reads_time(&self, entity: &EntityKey, event: &EventCall) -> bool {
        self.known(entity.class()).is_none_or(|known| !known.timeless.contains(event.event()))
    }

    /// Only [`Relation::Never`] is taken from the table of the class. What it calls invariant holds up to the range of
    /// numbers: two additions that each fit may not fit together, and to admit both would promise what cannot be done.
    fn relation(&self, entity: &EntityKey, open: &EventCall, incoming: &EventCall) -> Relation {
        // Where something may be due first, what the event itself would be told is not all.
        let known = self.known(entity.class()).filter(|known| !known.class.is_timed());
        match known.and_then(|known| known.class.relation(open.event(), incoming.event())) {
            Some(rebel::Relation::Never) => Relation::Never,
            _ => Relation::Dynamic,
        }
    }

    fn linear(&self, entity: &EntityKey, events: &[EventCall], at: Timestamp) -> Option<Linear> {
        let (known, key) = self.class(entity).ok()?;
        known.numbered(&known.class.linear(&key, events, time(at))?)
    }

    fn effects(&self, entity: &EntityKey, state: &Instance, event: &EventCall, at: Timestamp) -> Option<Effects> {
        let (known, key) = self.class(entity).ok()?;
        let effects = known.class.effects(&key, event, time(at))?;
        known.with_numbers(&effects, state, |field, currency| {
            let (class, key, event, name) = (Arc::clone(&known.class), key.clone(), event.clone(), Arc::clone(field));
            Arc::new(move |low, high| class.image((&key, &event, time(at)), &name, (low, high), currency))
        })
    }

    fn judge(&self, entity: &EntityKey, state: &Instance, cover: &Cover, event: &EventCall, at: Timestamp) -> Forecast {
        let Ok((known, key)) = self.class(entity) else { return Forecast::Unsure };
        let judgement = known.class.judge(&key, &known.outline(state, cover), event, time(at));
        let mut states = judgement.after.states();
        match (judgement.verdict, states.next(), states.next()) {
            (rebel::Verdict::Accepted, Some(state), None) => Forecast::Happens { state: state.to_string() },
            (rebel::Verdict::Refused, ..) => Forecast::Refused,
            _ => Forecast::Unsure,
        }
    }

    fn numbers(&self, entity: &EntityKey, state: &Instance) -> Vec<(Field, i128)> {
        let Some(known) = self.known(entity.class()) else { return Vec::new() };
        let value = |(index, field): (usize, &rebel::Field)| {
            let (number, currency) = number(state.fields().get(field.name())?)?;
            Some((numbered(index, currency), number))
        };
        known.numeric().filter_map(value).collect()
    }

    fn due(&self, entity: &EntityKey, state: &Instance) -> Option<Due<EventCall>> {
        if !self.is_timed(entity) {
            return None;
        }
        let (known, key) = self.class(entity).ok()?;
        let due = known.class.due(&key, state)?;
        let (at, time) = (Timestamp(due.at.millis()), Timestamp(due.time.millis()));
        Some(Due { at, time, event: due.call(), refused: due.refused() })
    }

    fn is_timed(&self, entity: &EntityKey) -> bool {
        self.has_timers && self.known(entity.class()).is_some_and(|known| known.class.is_timed())
    }

    fn may_set_timer(&self, entity: &EntityKey, event: &EventCall) -> bool {
        self.known(entity.class()).is_some_and(|known| known.class.may_set_timer(event))
    }

    fn is_of_timer(&self, event: &EventCall) -> bool {
        event.due().is_some()
    }

    fn bytes(&self, _: &EntityKey, state: &Instance) -> usize {
        state.bytes()
    }

    fn number(&self, entity: &EntityKey, state: &Instance, field: Field) -> Option<i128> {
        let known = self.known(entity.class())?;
        let index = usize::try_from(field.0 >> 32).ok()?;
        let (number, currency) = number(state.fields().get(known.class.fields().get(index)?.name())?)?;
        (numbered(index, currency) == field).then_some(number)
    }

    fn content(&self, entity: &EntityKey, state: &Instance, place: &Place) -> Option<String> {
        let class = &self.known(entity.class())?.class;
        let field = class.fields().get(usize::try_from(place.field).ok()?)?;
        let element = match (&place.element, field.ty()) {
            (None, _) => None,
            (Some(text), Type::Set(ty)) => Some(Value::parse(ty, text).ok()?),
            (Some(_), _) => return None,
        };
        let place = rebel::Place { field: Arc::clone(field.name()), element };
        place.content_in(state).map(|value| value.to_string())
    }

    fn fields(&self, entity: &EntityKey, state: &Instance) -> Vec<(Place, Value)> {
        let Some(known) = self.known(entity.class()) else { return Vec::new() };
        let value = |(index, field): (usize, &rebel::Field)| {
            let value = state.fields().get(field.name())?.clone();
            Some((Place { field: index as u64, element: None }, value))
        };
        known.class.fields().iter().enumerate().filter_map(value).collect()
    }

    fn value_of(&self, entity: &EntityKey, Content { place, value }: &Content) -> Option<Value> {
        let class = &self.known(entity.class())?.class;
        let field = class.fields().get(usize::try_from(place.field).ok()?)?;
        match (&place.element, field.ty()) {
            (Some(element), Type::Set(ty)) if has_texts(ty) => Value::parse(ty, element).ok(),
            (None, ty) if has_texts(ty) => Value::parse(ty, value).ok(),
            _ => None,
        }
    }

    fn place_name(&self, entity: &EntityKey, place: &Place) -> String {
        let fields = self.known(entity.class()).map_or(&[][..], |known| known.class.fields());
        let declared = usize::try_from(place.field).ok().and_then(|index| fields.get(index));
        let name = declared.map_or_else(|| "it".to_owned(), |field| field.name().to_string());
        match &place.element {
            None => name,
            Some(element) => format!("{element} in {name}"),
        }
    }

    fn show(&self, entity: &EntityKey, field: Field, value: i128) -> (String, String) {
        let unknown = || (field.to_string(), value.to_string());
        let Some(known) = self.known(entity.class()) else { return unknown() };
        let declared = usize::try_from(field.0 >> 32).ok().and_then(|index| known.class.fields().get(index));
        let Some(declared) = declared else { return unknown() };
        let text = text_of(declared.ty(), field.0 & 0xffff_ffff, value).unwrap_or_else(|| value.to_string());
        (declared.name().to_string(), text)
    }
}

impl Rebel {
    fn fixed_calls(&self, entity: &EntityKey, event: &EventCall, at: Timestamp) -> Calls<EventCall> {
        let Ok((known, key)) = self.class(entity) else { return Calls::DependsOnState };
        let Some(declared) = known.class.event(event.event()) else { return Calls::DependsOnState };
        let mut common = None;
        let mut last = None;
        for way in declared.ways() {
            // States of one group have one body, and what it calls where no field has a value.
            let is_repeated = last.replace(&way.body).is_some_and(|last| Arc::ptr_eq(last, &way.body));
            if is_repeated && way.variant.is_none() {
                continue;
            }
            let Ok(syncs) = known.class.syncs(&key, &known.blank[&way.source], event, time(at)) else {
                return Calls::DependsOnState;
            };
            match &common {
                None => common = Some(syncs),
                Some(common) if *common == syncs => {}
                Some(_) => return Calls::DependsOnState,
            }
        }
        common.and_then(|syncs| self.calls_of(syncs).ok()).map_or(Calls::DependsOnState, Calls::Known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_role_is_told_with_the_roles_that_would_do() {
        for (roles, in_rebel, here) in [
            (&["teller"][..], "`Pay` needs the role `teller`, which", "Pay needs the role teller, which"),
            (
                &["office", "teller"],
                "`Pay` needs one of the roles `office`, `teller`, which",
                "Pay needs one of the roles office, teller, which",
            ),
        ] {
            let roles = roles.iter().map(|&role| Name::from(role)).collect();
            let violation = Violation::Role { event: "Pay".into(), roles };
            assert_eq!(violation.to_string(), format!("{in_rebel} the caller does not have"));
            assert_eq!(reason(violation).to_string(), format!("{here} the caller does not have"));
        }
    }
}
