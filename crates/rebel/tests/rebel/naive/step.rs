//! Atomic steps.
//!
//! A contract is one class, whose events call later events of itself and of two other instances. The naive step copies
//! the whole world for every event and throws it away when something refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use enact_rebel::{Caller, Instance, Reference, Source, Spec, Timestamp, Value, check};

use super::expression::{E, Ty, V, random};
use crate::chance::Chance;

const STATES: [&str; 4] = ["unmade", "open", "shut", "gone"];
const ROLES: [&str; 2] = ["writer", "reader"];
/// What events read: two fields, a number that is given, and whether the caller has the first of the roles.
const READ: [(&str, Ty, usize); 4] =
    [("x", Ty::Int, 0), ("y", Ty::Int, 1), ("k", Ty::Int, 2), ("(caller has writer)", Ty::Bool, 3)];
/// What they ask of others: behind what they read, in the order of the answers.
const ASKED: [(&str, Ty, usize); 15] = [
    READ[0],
    READ[1],
    READ[2],
    READ[3],
    ("given.x", Ty::Int, 4),
    ("given.y", Ty::Int, 5),
    ("kept.x", Ty::Int, 6),
    ("kept.kept.y", Ty::Int, 7),
    ("T[\"1\"].y", Ty::Int, 8),
    ("(given is open)", Ty::Bool, 9),
    ("(kept is {open, shut})", Ty::Bool, 10),
    ("(initialized given)", Ty::Bool, 11),
    ("(finalized kept.kept)", Ty::Bool, 12),
    ("(T[\"0\"] is initialized)", Ty::Bool, 13),
    ("given.Look(k)", Ty::Int, 14),
];
/// What they name.
const NAMED: [&str; 2] = ["a0", "a1"];
/// The fields after the event, which only what it returns reads.
const AFTER: [&str; 2] = ["this.x", "this.y"];
const OF_INVARIANTS: [(&str, Ty, usize); 2] = [("x", Ty::Int, 0), ("y", Ty::Int, 1)];

#[derive(Clone, Copy, Debug)]
enum Target {
    Given,
    Kept,
    /// The instance that calls.
    This,
}

#[derive(Debug)]
enum Call {
    /// Under a condition, with a number and an instance.
    Do {
        when: Option<E>,
        target: Target,
        event: usize,
        number: E,
        hand: Target,
    },
    Not {
        target: Target,
        event: usize,
        number: E,
    },
}

#[derive(Debug)]
struct Event {
    /// One of which the caller must have, if there are any.
    roles: Vec<usize>,
    from: Vec<usize>,
    to: usize,
    /// Numbers that it names: `a0`, `a1`.
    lets: Vec<E>,
    guards: Vec<E>,
    asks: bool,
    /// That an event is possible for another instance, or not.
    can: Option<(bool, Target, usize, E)>,
    initialized: Option<Target>,
    in_state: Option<(Target, usize)>,
    x: Option<E>,
    y: Option<E>,
    calls: Vec<Call>,
    variants: Vec<Variant>,
    /// What it returns, of what it reads and of the fields after it.
    returns: Option<E>,
}

/// One way in which an event happens: the state it leads to, and what becomes of `x`.
#[derive(Debug)]
struct Variant {
    guards: Vec<E>,
    to: usize,
    x: Option<E>,
}

#[derive(Debug)]
struct Contract {
    /// Which roles the caller has.
    caller: [bool; 2],
    events: Vec<Event>,
    invariants: Vec<E>,
}

#[derive(Clone, Debug, PartialEq)]
struct Thing {
    state: usize,
    x: i128,
    y: i128,
    kept: Option<usize>,
}

type World = BTreeMap<usize, Thing>;

const UNMADE: Thing = Thing { state: 0, x: 0, y: 0, kept: None };

impl Contract {
    fn random(chance: &mut Chance) -> Self {
        let count = 2 + chance.below(4);
        let asks: Vec<bool> = (0..count).map(|_| chance.below(2) == 0).collect();
        let events = (0..count).map(|index| Event::random(chance, index, &asks)).collect();
        let invariants = (0..chance.below(3)).map(|_| random(chance, Ty::Bool, &OF_INVARIANTS, 1)).collect();
        Self { caller: [false; 2], events, invariants }
    }

    fn source(&self) -> String {
        let mut text = "roles writer, reader\nclass T\n  x: Integer = 0\n  y: Integer = 0\n  kept: T\n".to_owned();
        for invariant in &self.invariants {
            writeln!(text, "  invariant {invariant}").unwrap();
        }
        text +=
            "  initial unmade\n    on Make(k: Integer, given: T): open\n      post: this.x == k, this.kept == given\n";
        for (index, event) in self.events.iter().enumerate() {
            let states: Vec<&str> = event.from.iter().map(|&state| STATES[state]).collect();
            let target = if event.variants.is_empty() { format!(": {}", STATES[event.to]) } else { String::new() };
            let roles: Vec<&str> = event.roles.iter().map(|&role| ROLES[role]).collect();
            let by = if roles.is_empty() { String::new() } else { format!(" by {}", roles.join(", ")) };
            let result = if event.returns.is_some() { " -> Integer" } else { "" };
            writeln!(text, "  {}\n    on E{index}(k: Integer, given: T){result}{by}{target}", states.join(", "))
                .unwrap();
            for (number, value) in event.lets.iter().enumerate() {
                let section = if number == 0 { "      let: " } else { "           " };
                writeln!(text, "{section}{} = {value}", NAMED[number]).unwrap();
            }
            let mut guards: Vec<String> = event.guards.iter().map(ToString::to_string).collect();
            guards.extend(event.can.iter().map(|(is_possible, target, event, number)| {
                let not = if *is_possible { "" } else { "not " };
                format!("{not}can {}.E{event}({number}, given)", target.name())
            }));
            guards.extend(event.initialized.map(|target| format!("initialized {}", target.name())));
            guards.extend(event.in_state.map(|(target, state)| format!("{} instate {}", target.name(), STATES[state])));
            if !guards.is_empty() {
                writeln!(text, "      pre: {}", guards.join(", ")).unwrap();
            }
            let effect =
                |field: &str, value: &Option<E>| value.as_ref().map(|value| format!("this.{field} == {value}"));
            let effects: Vec<String> = effect("x", &event.x).into_iter().chain(effect("y", &event.y)).collect();
            if !effects.is_empty() {
                writeln!(text, "      post: {}", effects.join(", ")).unwrap();
            }
            if !event.calls.is_empty() {
                text += "      sync:\n";
            }
            for call in &event.calls {
                match call {
                    Call::Do { when, target, event, number, hand } => {
                        let when = when.as_ref().map_or_else(String::new, |when| format!("if {when}: "));
                        let (target, hand) = (target.name(), hand.name());
                        writeln!(text, "        {when}{target}.E{event}({number}, {hand})").unwrap();
                    }
                    Call::Not { target, event, number } => {
                        writeln!(text, "        not {}.E{event}({number}, given)", target.name()).unwrap();
                    }
                }
            }
            for (number, variant) in event.variants.iter().enumerate() {
                writeln!(text, "      variant v{number}: {}", STATES[variant.to]).unwrap();
                let guards: Vec<String> = variant.guards.iter().map(ToString::to_string).collect();
                if !guards.is_empty() {
                    writeln!(text, "        pre: {}", guards.join(", ")).unwrap();
                }
                if let Some(x) = &variant.x {
                    writeln!(text, "        post: this.x = {x}").unwrap();
                }
            }
            if let Some(value) = &event.returns {
                writeln!(text, "      return: {value}").unwrap();
            }
        }
        text + "  open, shut\n    read on Look(k: Integer) -> Integer\n      pre: x >= k\n      return: x + y\n  final gone\n"
    }
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Given => "given",
            Target::Kept => "kept",
            Target::This => "this",
        }
    }
}

impl Event {
    fn random(chance: &mut Chance, index: usize, asking: &[bool]) -> Self {
        let (count, asks) = (asking.len(), asking[index]);
        let mut known = if asks { ASKED.to_vec() } else { READ.to_vec() };
        let mut lets = Vec::new();
        for name in &NAMED[..chance.below(3)] {
            lets.push(random(chance, Ty::Int, &known, 1));
            known.push((name, Ty::Int, known.len()));
        }
        let known = &known[..];
        let alone: Vec<usize> = (index + 1..count).filter(|event| !asking[*event]).collect();
        let target = |chance: &mut Chance| chance.pick(&[Target::Given, Target::Kept]);
        let maybe = |chance: &mut Chance, percent: usize| chance.below(100) < percent;
        let number = |chance: &mut Chance| {
            let depth = chance.below(2);
            random(chance, Ty::Int, known, depth)
        };
        let mut calls = Vec::new();
        if index + 1 < count {
            let event = |chance: &mut Chance| index + 1 + chance.below(count - index - 1);
            if !alone.is_empty() && maybe(chance, 15) {
                let (target, event) = (target(chance), chance.pick(&alone));
                calls.push(Call::Not { target, event, number: number(chance) });
            }
            for _ in 0..chance.below(4) {
                let when = maybe(chance, 25).then(|| random(chance, Ty::Bool, known, 1));
                let (target, event) = (if maybe(chance, 10) { Target::This } else { target(chance) }, event(chance));
                calls.push(Call::Do { when, target, event, number: number(chance), hand: Target::Given });
                if let (Some(Call::Do { hand, .. }), true) = (calls.last_mut(), maybe(chance, 50)) {
                    *hand = Target::Kept;
                }
            }
        }
        let mut variants = Vec::new();
        if maybe(chance, 30) {
            for _ in 0..1 + chance.below(3) {
                let guards = (0..chance.below(3)).map(|_| random(chance, Ty::Bool, known, 1)).collect();
                let x = maybe(chance, 60).then(|| random(chance, Ty::Int, known, 2));
                variants.push(Variant { guards, to: 1 + chance.below(3), x });
            }
        }
        let mut guards: Vec<E> = (0..chance.below(2)).map(|_| random(chance, Ty::Bool, known, 1)).collect();
        guards.extend((asks && maybe(chance, 30)).then(|| random(chance, Ty::Bool, known, 0)));
        let from = match chance.below(4) {
            0 => vec![1],
            1 => vec![2],
            _ => vec![1, 2],
        };
        let to = if maybe(chance, 10) { 3 } else { 1 + chance.below(2) };
        let roles = match chance.below(20) {
            0 => vec![0],
            1 => vec![1],
            2 => vec![0, 1],
            _ => Vec::new(),
        };
        let mut after = known.to_vec();
        after.extend(AFTER.iter().enumerate().map(|(index, name)| (*name, Ty::Int, known.len() + index)));
        let returns = maybe(chance, 30).then(|| random(chance, Ty::Int, &after, 1));
        Self {
            roles,
            from,
            to,
            lets,
            guards,
            asks,
            can: (asks && !alone.is_empty() && maybe(chance, 20))
                .then(|| (maybe(chance, 50), target(chance), chance.pick(&alone), number(chance))),
            initialized: maybe(chance, 10).then(|| target(chance)),
            in_state: maybe(chance, 10).then(|| (target(chance), 1 + chance.below(2))),
            x: (variants.is_empty() && maybe(chance, 60)).then(|| random(chance, Ty::Int, known, 2)),
            y: maybe(chance, 60).then(|| random(chance, Ty::Int, known, 2)),
            calls,
            variants,
            returns,
        }
    }

    /// What the event makes of its own instance with the answers of others, what it has read, and what it returns: nothing if
    /// it refuses.
    fn alone(
        &self,
        caller: [bool; 2],
        thing: &Thing,
        number: i128,
        answers: Vec<V>,
    ) -> Option<(Thing, Vec<V>, Option<i128>)> {
        if !self.roles.is_empty() && !self.roles.iter().any(|&role| caller[role]) {
            return None;
        }
        let own = vec![V::Int(thing.x), V::Int(thing.y), V::Int(number), V::Bool(caller[0])];
        let mut env = [own, answers].concat();
        for value in &self.lets {
            // One without a value is a fault where it is used.
            let value = value.eval(&env).unwrap_or(V::Absent);
            env.push(value);
        }
        if !self.from.contains(&thing.state) || !self.guards.iter().all(|guard| guard.eval(&env) == Ok(V::Bool(true))) {
            return None;
        }
        let value = |expression: &Option<E>, old: i128| match expression {
            None => Some(old),
            Some(expression) => integer(expression, &env),
        };
        let (state, x) = match self.variant(&env)? {
            None => (self.to, &self.x),
            Some(variant) => (variant.to, &variant.x),
        };
        let after = Thing { state, x: value(x, thing.x)?, y: value(&self.y, thing.y)?, ..thing.clone() };
        let returned = match &self.returns {
            None => None,
            Some(value) => Some(integer(value, &[env.clone(), vec![V::Int(after.x), V::Int(after.y)]].concat())?),
        };
        Some((after, env, returned))
    }

    /// The first variant whose guards hold, if there are any; nothing if none of them happens.
    fn variant(&self, env: &[V]) -> Option<Option<&Variant>> {
        for variant in &self.variants {
            let verdicts: Vec<_> = variant.guards.iter().map(|guard| guard.eval(env)).collect();
            if verdicts.iter().any(Result::is_err) {
                return None;
            }
            if verdicts.iter().all(|verdict| *verdict == Ok(V::Bool(true))) {
                return Some(Some(variant));
            }
        }
        self.variants.is_empty().then_some(None)
    }
}

fn integer(expression: &E, env: &[V]) -> Option<i128> {
    match expression.eval(env) {
        Ok(V::Int(number)) => Some(number),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    }
}

impl Contract {
    fn get(world: &World, id: usize) -> Thing {
        world.get(&id).cloned().unwrap_or(UNMADE)
    }

    fn happen(
        &self,
        world: &World,
        touched: &mut BTreeSet<usize>,
        id: usize,
        event: usize,
        number: i128,
        given: usize,
    ) -> Option<(World, Option<i128>)> {
        let before = Self::get(world, id);
        let event = &self.events[event];
        let answers = if event.asks { Self::answers(world, &before, number, given) } else { Vec::new() };
        let (after, env, returned) = event.alone(self.caller, &before, number, answers)?;
        let resolve = |target: Target| match target {
            Target::Given => given,
            Target::This => id,
            Target::Kept => before.kept.expect("an instance with a state keeps another"),
        };
        if let Some((is_possible, target, event, number)) = &event.can {
            let asked = Self::get(world, resolve(*target));
            if self.can(&asked, &self.events[*event], integer(number, &env)?) != *is_possible {
                return None;
            }
        }
        // All that the event says is read now.
        let mut calls = Vec::new();
        for call in &event.calls {
            match call {
                Call::Do { when, target, event, number, hand } => {
                    let made = match when {
                        None => true,
                        Some(when) => match when.eval(&env) {
                            Ok(verdict) => verdict == V::Bool(true),
                            Err(_) => return None,
                        },
                    };
                    if made {
                        calls.push((resolve(*target), *event, integer(number, &env)?, resolve(*hand)));
                    }
                }
                Call::Not { target, event, number } => {
                    let id = resolve(*target);
                    let number = integer(number, &env)?;
                    if self.can(&Self::get(world, id), &self.events[*event], number) {
                        return None;
                    }
                }
            }
        }
        if event.initialized.is_some_and(|target| Self::get(world, resolve(target)).state == 0) {
            return None;
        }
        if event.in_state.is_some_and(|(target, state)| Self::get(world, resolve(target)).state != state) {
            return None;
        }
        let mut world = world.clone();
        world.insert(id, after);
        touched.insert(id);
        for (id, event, number, given) in calls {
            (world, _) = self.happen(&world, touched, id, event, number, given)?;
        }
        Some((world, returned))
    }

    /// What others answer to an instance that asks, as [`ASKED`] has it.
    fn answers(world: &World, asking: &Thing, number: i128, given: usize) -> Vec<V> {
        let kept = asking.kept.map(|id| Self::get(world, id));
        let behind = kept.as_ref().and_then(|kept| kept.kept).map(|id| Self::get(world, id));
        let (given, one, zero) = (Self::get(world, given), Self::get(world, 1), Self::get(world, 0));
        let or_absent = |value: Option<V>| value.unwrap_or(V::Absent);
        let looks = (given.state == 1 || given.state == 2) && given.x >= number;
        let sum = looks.then(|| i64::try_from(given.x + given.y).ok()).flatten();
        vec![
            V::Int(given.x),
            V::Int(given.y),
            or_absent(kept.as_ref().map(|kept| V::Int(kept.x))),
            or_absent(behind.as_ref().map(|behind| V::Int(behind.y))),
            V::Int(one.y),
            V::Bool(given.state == 1),
            or_absent(kept.as_ref().map(|kept| V::Bool(kept.state == 1 || kept.state == 2))),
            V::Bool(given.state != 0),
            or_absent(behind.as_ref().map(|behind| V::Bool(behind.state == 3))),
            V::Bool(zero.state != 0),
            or_absent(sum.map(|sum| V::Int(sum.into()))),
        ]
    }

    /// Whether one event is possible for its own instance: what it calls is not looked at, but must have values.
    fn can(&self, thing: &Thing, event: &Event, number: i128) -> bool {
        let Some((after, env, _)) = event.alone(self.caller, thing, number, Vec::new()) else { return false };
        let has_values = event.calls.iter().all(|call| match call {
            Call::Do { when, number, .. } => match when.as_ref().map(|when| when.eval(&env)) {
                Some(Err(_)) => false,
                Some(Ok(V::Bool(false))) => true,
                _ => number.eval(&env).is_ok(),
            },
            Call::Not { number, .. } => number.eval(&env).is_ok(),
        });
        has_values && self.allows(thing, &after)
    }

    /// Whether every invariant holds that reads what is not the same as before, or has just come into being.
    fn allows(&self, before: &Thing, after: &Thing) -> bool {
        let env = [V::Int(after.x), V::Int(after.y)];
        self.invariants.iter().all(|invariant| {
            let text = invariant.to_string();
            let reads = |name: &str| text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == name);
            let is_touched = reads("x") && before.x != after.x || reads("y") && before.y != after.y;
            before.state != 0 && !is_touched || invariant.eval(&env) == Ok(V::Bool(true))
        })
    }

    /// The world after one step and what the step returns, if it is accepted.
    fn step(
        &self,
        world: &World,
        id: usize,
        event: usize,
        number: i128,
        given: usize,
    ) -> Option<(World, Option<i128>)> {
        let mut touched = BTreeSet::new();
        let (after, returned) = self.happen(world, &mut touched, id, event, number, given)?;
        let is_allowed = touched.iter().all(|id| self.allows(&Self::get(world, *id), &after[id]));
        is_allowed.then_some((after, returned))
    }
}

fn reference(spec: &Spec, id: usize) -> Reference {
    let class = spec.class("T").unwrap();
    class.reference(class.key(&id.to_string()).unwrap())
}

/// An instance of the program as a naive one.
fn thing(instance: &Instance) -> Thing {
    let number = |name| match instance.fields().get(name) {
        Some(Value::Integer(number)) => i128::from(*number),
        other => panic!("{other:?}"),
    };
    let kept = match instance.fields().get("kept") {
        Some(Value::Reference(reference)) => Some(reference.key.to_string().parse().unwrap()),
        _ => None,
    };
    let state = STATES.iter().position(|name| **name == **instance.state()).unwrap();
    Thing { state, x: number("x"), y: number("y"), kept }
}

fn number_of(value: &Value) -> i128 {
    match value {
        Value::Integer(number) => (*number).into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_interpreters_agree_on_random_atomic_steps() {
    const IN_ONE_CONTRACT: u64 = 20;
    const THINGS: usize = 3;
    let (count, seed) = (super::number("ENACT_STEPS", 1_000), super::number("ENACT_SEED", 0));
    let (mut accepted, mut refused, mut composed, mut results) = (0_u64, 0_u64, 0_u64, 0_u64);
    for contract in 0..count.div_ceil(IN_ONE_CONTRACT) {
        let mut chance = Chance::new(seed.wrapping_add(contract));
        let mut naive = Contract::random(&mut chance);
        let source = naive.source();
        let spec =
            check(vec![Source::new("naive.rebel", &source)]).unwrap_or_else(|report| panic!("{report}\n{source}"));
        let class = spec.class("T").unwrap();
        let call = |event: &str, number: i128, given: usize| {
            let given = Value::Reference(reference(&spec, given));
            let number = Value::Integer(number.try_into().unwrap());
            class.event(event).unwrap().call([("k", number), ("given", given)]).unwrap()
        };
        let mut world: BTreeMap<Reference, Instance> = BTreeMap::new();
        let mut mirror = World::new();
        for id in 0..THINGS {
            let (number, given) = (i128::from(chance.next() % 9), chance.below(THINGS));
            let made = class.act(
                &reference(&spec, id).key,
                &class.initial(),
                &call("Make", number, given),
                Timestamp::from_millis(0),
            );
            // One of them may not exist, and invariants may be broken to begin with.
            if id == 0 || chance.below(5) > 0 {
                world.insert(reference(&spec, id), made.unwrap());
                mirror.insert(id, Thing { state: 1, x: number, y: 0, kept: Some(given) });
            }
        }
        for _ in 0..IN_ONE_CONTRACT {
            let (id, event, given) = (chance.below(THINGS), chance.below(naive.events.len()), chance.below(THINGS));
            let number = i128::from(chance.next() % 11) - 5;
            let target = reference(&spec, id);
            naive.caller = [chance.below(2) > 0, chance.below(2) > 0];
            let has = ROLES.iter().zip(naive.caller).filter(|(_, has)| *has).map(|(role, _)| *role);
            let caller = Caller::new("alice", has).ok().filter(|caller| !caller.roles().is_empty());
            let call = call(&format!("E{event}"), number, given).with_caller(caller);
            let found = spec.step(&world, &target, &call, Timestamp::from_millis(0));
            let expected = naive.step(&mirror, id, event, number, given);
            let told = format!("{id}.E{event}({number}, {given}) on {mirror:?} under contract {contract}:\n{source}");
            match (expected, found) {
                (Some((after, returned)), Ok(step)) => {
                    accepted += 1;
                    let result = step.result.map(|value| number_of(&value));
                    assert_eq!(result, returned, "{told}");
                    results += u64::from(returned.is_some());
                    composed += u64::from(step.work.values().any(|tasks| tasks.len() > 1));
                    world.extend(step.after);
                    mirror = after;
                    for (id, expected) in &mirror {
                        assert_eq!(thing(&world[&reference(&spec, *id)]), *expected, "{told}");
                    }
                }
                (None, Err(_)) => refused += 1,
                (expected, found) => panic!("{expected:?} {found:?} {told}"),
            }
        }
    }
    assert!(accepted > count / 20 && refused > count / 10 && composed > count / 100, "{accepted} {refused} {composed}");
    assert!(results > count / 50, "{results}");
}
