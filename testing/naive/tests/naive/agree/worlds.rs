//! Random steps in random worlds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use enact_naive::{
    Call, Disagreement, Fields, Reason, Thing, Work, World, argument, compare, due, read, same_instance, step,
};
use enact_rebel::{
    Caller, Class, Event, EventCall, Id, Instance, Key, KeyType, Name, Reference, Source, Spec, StateKind, Timestamp,
    Type, Value, Violation, check,
};
use serde_json::json;

use super::chance::Chance;
use super::values::{TEXTS, Values};

/// Steps in one world.
const WORLD_STEPS: u64 = 40;

/// 2026-11-21T09:30:00Z.
const BEGIN: i64 = 1_795_253_400_000;

/// What happened in the steps of one specification.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) timed: u64,
    pub(crate) timed_and_refused: u64,
    pub(crate) read: u64,
    /// How often each event has happened.
    pub(crate) happened: BTreeMap<String, u64>,
    /// The first disagreement about each event.
    pub(crate) disagreements: BTreeMap<String, String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, refused, timed, timed_and_refused, read, happened, .. } = self;
        write!(f, "{accepted} accepted, {refused} refused, {timed} timed ({timed_and_refused} refused), {read} read")?;
        let never: Vec<_> = happened.iter().filter(|(_, count)| **count == 0).map(|(event, _)| &**event).collect();
        write!(f, "; never: {}", never.join(", "))
    }
}

/// Makes `steps` random steps under the specification.
pub(crate) fn run(name: &str, sources: Vec<Source>, steps: u64, seed: u64) -> Tally {
    let spec = check(sources).unwrap_or_else(|report| panic!("{name}: {report}"));
    let mut tally = Tally::default();
    for class in spec.classes() {
        for event in class.events() {
            tally.happened.insert(format!("{}.{}", class.name(), event.name()), 0);
        }
    }
    let first = name.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    for world in 0..steps.div_ceil(WORLD_STEPS) {
        let mut course = Course::begin(&spec, Chance::new(first.wrapping_add(world)), &mut tally);
        for _ in 0..WORLD_STEPS.min(steps - world * WORLD_STEPS) {
            if let Err(Differs { event, text }) = course.step() {
                let repeat =
                    format!("ENACT_SEED={seed} ENACT_STEPS={} cargo test -p enact-naive", (world + 1) * WORLD_STEPS);
                tally.disagreements.entry(event).or_insert_with(|| format!("{name}: {text}\nrepeat with {repeat}\n"));
                break;
            }
        }
    }
    tally
}

/// A disagreement about an event.
struct Differs {
    event: String,
    text: String,
}

struct Course<'a> {
    spec: &'a Spec,
    chance: Chance,
    tally: &'a mut Tally,
    now: Timestamp,
    real: BTreeMap<Reference, Instance>,
    naive: World,
    /// All values in fields, and what they consist of.
    known: Vec<Value>,
    roles: Vec<String>,
}

impl<'a> Course<'a> {
    fn begin(spec: &'a Spec, chance: Chance, tally: &'a mut Tally) -> Self {
        let roles = spec.classes().flat_map(|class| class.events()).flat_map(Event::roles);
        let roles: BTreeSet<String> = roles.map(ToString::to_string).filter(|role| role != "system").collect();
        let mut course = Self {
            spec,
            chance,
            tally,
            now: Timestamp::from_millis(BEGIN),
            real: BTreeMap::new(),
            naive: World::new(),
            known: Vec::new(),
            roles: roles.into_iter().collect(),
        };
        if course.chance.is(60) {
            for _ in 0..course.chance.below(8) {
                course.make();
            }
        }
        course
    }

    /// An instance in any state with any values, whether events lead there or not.
    fn make(&mut self) {
        let spec = self.spec;
        let class = self.any_class();
        let states: Vec<_> = class.states().iter().filter(|state| state.kind() != StateKind::Initial).collect();
        if states.is_empty() {
            return;
        }
        let state = self.chance.pick(&states).name().clone();
        let fields: Fields =
            class.fields().iter().map(|field| (field.name().clone(), self.value(field.ty()))).collect();
        let of = class.reference(self.values().key(class.key_type()));
        let stored = json!({ "state": state, "fields": fields });
        let instance: Instance = serde_json::from_value(stored).expect("the form of an instance");
        assert_eq!(class.verify_types(&of.key, &instance), Ok(()), "an instance of {} in {spec:p}", class.name());
        self.naive.insert(of.clone(), Thing::new(&instance));
        self.real.insert(of, instance);
        self.look_around();
    }

    fn any_class(&mut self) -> &'a Class {
        let classes: Vec<&Class> = self.spec.classes().map(|class| &**class).collect();
        self.chance.pick(&classes)
    }

    fn values(&mut self) -> Values<'_> {
        Values { chance: &mut self.chance, now: self.now, known: &self.known }
    }

    fn value(&mut self, ty: &Type) -> Value {
        self.values().value(ty)
    }

    /// Notes which values there are.
    fn look_around(&mut self) {
        self.known.clear();
        for (of, instance) in &self.real {
            self.known.push(Value::Reference(of.clone()));
            for (_, value) in instance.fields().iter() {
                take_apart(value, &mut self.known);
            }
        }
    }

    fn step(&mut self) -> Result<(), Differs> {
        let spans = [0, 0, 0, 1_000, 60_000, 600_000, 3_600_000, 86_400_000, 500_000_000];
        let span = self.chance.pick(&spans);
        self.now = Timestamp::from_millis(self.now.millis() + span);
        let (class, of, event) = match self.chance.below(200) {
            0 => self.event_of_another_class(),
            1 => self.wrong_identity(),
            _ => self.any_event(),
        };
        let arguments = self.arguments(event);
        let call = match event.call(given(&arguments)) {
            Ok(call) => call,
            // The event of another class, which may be one of this class by its name.
            Err(_) if !class.event(event.name()).is_some_and(|own| std::ptr::eq(own, event)) => return Ok(()),
            Err(errors) => {
                let naive = Call { arguments, ..Call::new(event.name(), []) };
                let errors = errors.iter().map(|error| Reason::Argument(argument(error).clone())).collect::<Vec<_>>();
                let found = step(self.spec, &World::new(), &of, &naive, self.now).result.expect_err("wrong arguments");
                let is_mistaken = matches!(found.reasons[..], [Reason::Internal | Reason::Key]);
                assert!(is_mistaken || found.reasons == errors, "{naive:?}: {errors:?} and {:?}", found.reasons);
                return Ok(());
            }
        };
        let call = call.with_caller(self.any_caller());
        let call = if self.chance.is(95) { call.with_seed(Id::from_u128(self.chance.next().into())) } else { call };
        let naive = Call { arguments, ..Call::from(&call) };
        self.compare(&of, &call, &naive).map_err(|disagreement| {
            let world: Vec<String> = self.naive.iter().map(|(of, thing)| format!("  {of}: {thing:?}")).collect();
            let caller = call.caller();
            let text = format!("{of}.{call} by {caller:?} at {}: {disagreement}\nin\n{}", self.now, world.join("\n"));
            Differs { event: format!("{}.{}", class.name(), event.name()), text }
        })?;
        self.read(class);
        Ok(())
    }

    /// Makes a step with `call` and one with `same`, which leaves out what `call` has by default.
    fn compare(&mut self, of: &Reference, call: &EventCall, same: &Call) -> Result<(), Disagreement> {
        let real = self.spec.step_in_time(&self.real, of, call, self.now);
        let naive = step(self.spec, &self.naive, of, same, self.now);
        compare(self.spec, &real, &naive)?;
        match &naive.result {
            Ok(accepted) => {
                self.tally.accepted += 1;
                for task in &accepted.tasks {
                    if let Work::Do(event) = &task.work {
                        *self.tally.happened.entry(format!("{}.{event}", task.of.class)).or_default() += 1;
                    }
                }
            }
            Err(_) => self.tally.refused += 1,
        }
        for happened in &naive.due {
            self.tally.timed += 1;
            let event = format!("{}.{}", happened.target.class, happened.due.event);
            *self.tally.happened.entry(event).or_default() += u64::from(happened.refused.is_none());
            self.tally.timed_and_refused += u64::from(happened.refused.is_some());
        }
        self.real.extend(real.after);
        self.naive.extend(naive.after);
        for (of, real) in &self.real {
            same_instance(self.spec, of, real, &self.naive[of])?;
        }
        self.look_around();
        Ok(())
    }

    /// Asks a read event of an instance, if nothing is due anywhere.
    fn read(&mut self, class: &Class) {
        let is_due = |of: &Reference, thing: &Thing| {
            due(self.spec.class(&of.class).expect("a class"), of, thing).is_some_and(|due| due.at <= self.now)
        };
        let reads: Vec<&Event> = class.events().iter().filter(|event| event.is_read()).collect();
        if reads.is_empty() || self.naive.iter().any(|(of, thing)| is_due(of, thing)) {
            return;
        }
        let event = self.chance.pick(&reads);
        let arguments = self.all_arguments(event);
        let caller = self.any_caller();
        let of = self.any_instance(class);
        let call = event.call(given(&arguments)).expect("they fit").with_caller(caller);
        let same = Call { arguments, ..Call::from(&call) };
        let naive = read(self.spec, &self.naive, &of, &same, self.now);
        let real = self.real_read(class, &of, call.clone());
        let told = format!("{of}.{call}");
        match (real, naive) {
            (Ok(real), Ok(naive)) => assert_eq!(real, naive, "{told}"),
            (Err(real), Err(naive)) => assert_eq!(real.len(), naive.reasons.len(), "{told}: {real:?} {naive:?}"),
            (real, naive) => panic!("{told}: {real:?} {naive:?}"),
        }
        self.tally.read += 1;
    }

    /// What the interpreter reads, when others have answered what it asks.
    fn real_read(&self, class: &Class, of: &Reference, mut call: EventCall) -> Result<Value, Vec<Violation>> {
        let find = |of: &Reference| {
            let class = self.spec.class(&of.class).expect("a class");
            (class, self.real.get(of).cloned().unwrap_or_else(|| class.initial()))
        };
        let (_, instance) = find(of);
        loop {
            let questions = class.questions(&of.key, &instance, &call, self.now);
            if questions.is_empty() {
                return class.read(&of.key, &instance, &call, self.now);
            }
            let mut answers = call.answers().to_vec();
            for (of, question) in questions {
                let (class, instance) = find(&of);
                let answer = class.answer(&of.key, &instance, &question, self.now);
                answers.push(enact_rebel::Answered { of, question, answer });
            }
            call = call.with_answers(answers);
        }
    }

    /// An event of an instance, most times one that its state has.
    fn any_event(&mut self) -> (&'a Class, Reference, &'a Event) {
        let class = self.any_class();
        let mut of = self.any_instance(class);
        let is_over =
            |state: &Name| !class.events().iter().any(|event| event.transitions().any(|(from, _)| from == state));
        if self.real.get(&of).is_some_and(|found| is_over(found.state())) && self.chance.is(80) {
            of = class.reference(self.values().key(class.key_type()));
        }
        let state = self.real.get(&of).map_or_else(|| class.initial().state().clone(), |found| found.state().clone());
        let is_possible = |event: &&Event| event.transitions().any(|(source, _)| *source == state);
        let is_public = |event: &&Event| !event.is_internal() && !event.is_read();
        let all: Vec<&Event> = class.events().iter().collect();
        let public: Vec<&Event> = all.iter().copied().filter(is_public).filter(is_possible).collect();
        let from = if self.chance.is(85) && !public.is_empty() { public } else { all };
        if from.is_empty() { self.any_event() } else { (class, of, self.chance.pick(&from)) }
    }

    /// An event that is called by mistake at an instance of another class.
    fn event_of_another_class(&mut self) -> (&'a Class, Reference, &'a Event) {
        let (_, _, event) = self.any_event();
        let class = self.any_class();
        (class, self.any_instance(class), event)
    }

    /// An identity that no instance of the class has.
    fn wrong_identity(&mut self) -> (&'a Class, Reference, &'a Event) {
        let (class, _, event) = self.any_event();
        let key = if *class.key_type() == KeyType::Integer { Key::String("x".into()) } else { Key::Integer(7) };
        (class, class.reference(key), event)
    }

    /// One that exists, or any other.
    fn any_instance(&mut self, class: &Class) -> Reference {
        let known: Vec<Reference> = self.real.keys().filter(|of| of.class == *class.name()).cloned().collect();
        if self.chance.is(if known.len() > 2 { 85 } else { 60 }) && !known.is_empty() {
            return self.chance.pick(&known);
        }
        class.reference(self.values().key(class.key_type()))
    }

    /// Arguments of all parameters that have no default, and of some that have one.
    fn all_arguments(&mut self, event: &Event) -> Fields {
        let mut arguments = Fields::new();
        for param in event.params() {
            if param.default().is_none() || self.chance.is(60) {
                arguments.insert(param.name().clone(), self.value(param.ty()));
            }
        }
        arguments
    }

    /// Such arguments; seldom one is missing, of another type, or too many.
    fn arguments(&mut self, event: &Event) -> Fields {
        let mut arguments = self.all_arguments(event);
        if self.chance.is(3) {
            match (self.chance.below(3), event.params()) {
                (0, [first, ..]) => _ = arguments.remove(first.name()),
                (1, params @ [_, ..]) => {
                    let param = params[self.chance.below(params.len())].name().clone();
                    let ty = if self.chance.is(50) { Type::Decimal(7) } else { Type::Money };
                    _ = arguments.insert(param, self.values().value(&ty));
                }
                _ => _ = arguments.insert("unheardOf".into(), Value::Boolean(true)),
            }
        }
        arguments
    }

    fn any_caller(&mut self) -> Option<Caller> {
        if self.chance.is(10) {
            return None;
        }
        let id = self.chance.pick(&TEXTS);
        let generous = self.chance.is(60);
        let roles: Vec<&str> = self.roles.iter().map(String::as_str).collect();
        let roles: Vec<&str> = roles.into_iter().filter(|_| generous || self.chance.is(40)).collect();
        Some(Caller::new(id, roles).expect("a caller"))
    }
}

fn given(arguments: &Fields) -> impl Iterator<Item = (&str, Value)> {
    arguments.iter().map(|(name, value)| (&**name, value.clone()))
}

/// A value and all that is in it.
fn take_apart(value: &Value, known: &mut Vec<Value>) {
    known.push(value.clone());
    match value {
        Value::Set(elements) => elements.iter().for_each(|element| take_apart(element, known)),
        Value::List(elements) => elements.iter().for_each(|element| take_apart(element, known)),
        Value::Map(entries) => {
            for (key, value) in entries.iter() {
                take_apart(key, known);
                take_apart(value, known);
            }
        }
        Value::Record(record) => record.fields.iter().for_each(|(_, value)| take_apart(value, known)),
        _ => {}
    }
}
