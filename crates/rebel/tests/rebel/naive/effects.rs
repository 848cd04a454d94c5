//! Effects under conditions and in loops.
//!
//! The naive event walks its tree of effects, writes down what each of them does to which place, and does all of it at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use enact_rebel::{Class, Code, EventCall, Instance, Source, Timestamp, Value, check};

use super::expression::{E, F, Ty, V, random};
use crate::chance::Chance;

/// What effects read: the fields `a m s l`, and the parameters of the event.
const READ: [(&str, Ty, usize); 9] = [
    ("a", Ty::Int, 0),
    ("m", Ty::Map, 1),
    ("s", Ty::Set, 2),
    ("l", Ty::List, 3),
    ("k", Ty::Int, 4),
    ("b", Ty::Bool, 5),
    ("c", Ty::Bool, 6),
    ("xs", Ty::List, 7),
    ("ks", Ty::Set, 8),
];
const FIELDS: [&str; 4] = ["a", "m", "s", "l"];

#[derive(Debug)]
enum Tree {
    Do(Effect),
    If(E, Vec<Tree>, Vec<Tree>),
    For(String, E, Vec<Tree>),
}

/// What is done to a field, or to the entry of the map under a key.
#[derive(Debug)]
struct Effect {
    field: usize,
    key: Option<E>,
    symbol: &'static str,
    value: E,
}

/// What an effect has turned out to do.
struct Done {
    field: usize,
    key: Option<i128>,
    symbol: &'static str,
    value: V,
}

type Vars<'a> = Vec<(&'a str, Ty, usize)>;

fn tree(chance: &mut Chance, vars: &Vars<'_>, depth: usize) -> Tree {
    let inner = |chance: &mut Chance, vars: &Vars<'_>| {
        (0..1 + chance.below(2)).map(|_| tree(chance, vars, depth - 1)).collect::<Vec<_>>()
    };
    match chance.below(if depth == 0 { 3 } else { 7 }) {
        0..=2 => Tree::Do(effect(chance, vars)),
        3 | 4 => {
            let condition = random(chance, Ty::Bool, vars, 1);
            let accepted = inner(chance, vars);
            let otherwise = if chance.below(2) == 0 { inner(chance, vars) } else { Vec::new() };
            Tree::If(condition, accepted, otherwise)
        }
        _ => {
            let index = vars.len();
            let name = format!("e{index}");
            let of = chance.pick(&[Ty::Set, Ty::List]);
            let domain = random(chance, of, vars, 0);
            let inside: Vars<'_> = vars.iter().copied().chain([(&*name, Ty::Int, index)]).collect();
            let trees = inner(chance, &inside);
            Tree::For(name, domain, trees)
        }
    }
}

fn effect(chance: &mut Chance, vars: &Vars<'_>) -> Effect {
    let number = |chance: &mut Chance| {
        let depth = chance.below(2);
        random(chance, Ty::Int, vars, depth)
    };
    let changes = chance.pick(&["+=", "-="]);
    match chance.below(8) {
        0 => Effect { field: 0, key: None, symbol: "=", value: number(chance) },
        1 | 2 => Effect { field: 0, key: None, symbol: changes, value: number(chance) },
        3 => Effect { field: 1, key: None, symbol: "-=", value: number(chance) },
        4 | 5 => {
            // Mostly a key that is there, and that of the innermost loop.
            let key = match (chance.below(3), vars.last()) {
                (0, _) => random(chance, Ty::Int, vars, 0),
                (_, Some((name, Ty::Int, index))) => E::Var((*name).to_owned(), *index),
                _ => E::Var("k".to_owned(), 4),
            };
            Effect { field: 1, key: Some(key), symbol: chance.pick(&["=", "+=", "-="]), value: number(chance) }
        }
        6 => Effect { field: 2, key: None, symbol: changes, value: number(chance) },
        _ => Effect { field: 3, key: None, symbol: "+=", value: number(chance) },
    }
}

fn print(trees: &[Tree], indent: usize, text: &mut String) {
    let blanks = " ".repeat(indent);
    for tree in trees {
        match tree {
            Tree::Do(Effect { field, key, symbol, value }) => {
                let key = key.as_ref().map_or_else(String::new, |key| format!("[{key}]"));
                writeln!(text, "{blanks}this.{}{key} {symbol} {value}", FIELDS[*field]).unwrap();
            }
            Tree::If(condition, accepted, otherwise) => {
                writeln!(text, "{blanks}if {condition}:").unwrap();
                print(accepted, indent + 2, text);
                if !otherwise.is_empty() {
                    writeln!(text, "{blanks}else:").unwrap();
                    print(otherwise, indent + 2, text);
                }
            }
            Tree::For(name, domain, trees) => {
                writeln!(text, "{blanks}for {name} in {domain}:").unwrap();
                print(trees, indent + 2, text);
            }
        }
    }
}

/// The effects of each path, which takes every loop once.
fn paths(trees: &[Tree]) -> Vec<Vec<&Effect>> {
    let mut paths: Vec<Vec<&Effect>> = vec![Vec::new()];
    for tree in trees {
        let ways = match tree {
            Tree::Do(effect) => vec![vec![effect]],
            Tree::If(_, accepted, otherwise) => [self::paths(accepted), self::paths(otherwise)].concat(),
            Tree::For(_, _, trees) => self::paths(trees),
        };
        paths = paths.iter().flat_map(|path| ways.iter().map(|way| [&path[..], &way[..]].concat())).collect();
    }
    paths
}

/// Whether a path gives a field as a whole two values, or a loop one place a value for each element.
fn gives_two_values(trees: &[Tree]) -> bool {
    let is_twice = |path: &Vec<&Effect>| {
        let is_whole = |effect: &&&Effect| effect.symbol == "=" && effect.key.is_none();
        path.iter().filter(is_whole).any(|one| path.iter().filter(|other| other.field == one.field).count() > 1)
    };
    paths(trees).iter().any(is_twice) || in_loop(trees, None)
}

fn in_loop(trees: &[Tree], variable: Option<&str>) -> bool {
    trees.iter().any(|tree| match tree {
        Tree::Do(effect) => variable.is_some_and(|variable| {
            let names_it = |key: &E| {
                let text = key.to_string();
                text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == variable)
            };
            effect.symbol == "=" && !effect.key.as_ref().is_some_and(names_it)
        }),
        Tree::If(_, accepted, otherwise) => in_loop(accepted, variable) || in_loop(otherwise, variable),
        Tree::For(name, _, trees) => in_loop(trees, Some(name)),
    })
}

fn number(expression: &E, env: &[V]) -> Result<i128, F> {
    match expression.eval(env)? {
        V::Int(number) => Ok(number),
        other => panic!("{other:?}"),
    }
}

fn walk(trees: &[Tree], env: &[V], done: &mut Vec<Done>) -> Result<(), F> {
    for tree in trees {
        match tree {
            Tree::Do(Effect { field, key, symbol, value }) => {
                let key = key.as_ref().map(|key| number(key, env)).transpose()?;
                done.push(Done { field: *field, key, symbol, value: value.eval(env)? });
            }
            Tree::If(condition, accepted, otherwise) => {
                let truth = condition.eval(env)? == V::Bool(true);
                walk(if truth { accepted } else { otherwise }, env, done)?;
            }
            Tree::For(_, domain, trees) => {
                let elements: Vec<i128> = match domain.eval(env)? {
                    V::Set(elements) => elements.into_iter().collect(),
                    V::List(elements) => elements,
                    other => panic!("{other:?}"),
                };
                for element in elements {
                    walk(trees, &[env, &[V::Int(element)]].concat(), done)?;
                }
            }
        }
    }
    Ok(())
}

fn sum(from: i128, all: &[&Done]) -> Result<i128, F> {
    let mut sum = from;
    for done in all {
        let V::Int(by) = done.value else { panic!("a number") };
        sum = if done.symbol == "+=" { sum + by } else { sum - by };
        i64::try_from(sum).map_err(|_| F::Overflow)?;
    }
    Ok(sum)
}

/// The fields after the event, or nothing if it is refused.
fn after(trees: &[Tree], env: &[V]) -> Result<[V; 4], F> {
    let mut done = Vec::new();
    walk(trees, env, &mut done)?;
    let on = |field: usize| done.iter().filter(|done| done.field == field).collect::<Vec<_>>();
    let [V::Int(a), V::Map(m), V::Set(s), V::List(l)] = &env[..4] else { panic!("the fields") };
    let a = match on(0)[..] {
        [Done { symbol: "=", value: V::Int(value), .. }] => *value,
        ref all => sum(*a, all)?,
    };
    let of = |done: &Done| match done.value {
        V::Int(value) => value,
        ref other => panic!("{other:?}"),
    };
    let mut entries = m.clone();
    let lost: BTreeSet<i128> = on(1).into_iter().filter(|done| done.key.is_none()).map(of).collect();
    let mut groups: BTreeMap<i128, Vec<&Done>> = BTreeMap::new();
    for done in on(1) {
        if let Some(key) = done.key {
            groups.entry(key).or_default().push(done);
        }
    }
    for (key, all) in groups {
        let puts = all.iter().filter(|done| done.symbol == "=").count();
        let is_same = all.iter().all(|done| done.value == all[0].value);
        if lost.contains(&key) || puts > 0 && (puts < all.len() || !is_same) {
            return Err(F::TwoValues);
        }
        let value = if puts > 0 { of(all[0]) } else { sum(*m.get(&key).ok_or(F::NoElement)?, &all)? };
        entries.insert(key, value);
    }
    entries.retain(|key, _| !lost.contains(key));
    let with = |symbol: &str| on(2).into_iter().filter(|done| done.symbol == symbol).map(of).collect::<BTreeSet<_>>();
    let (put, taken) = (with("+="), with("-="));
    if !put.is_disjoint(&taken) {
        return Err(F::TwoValues);
    }
    let set = s.union(&put).filter(|element| !taken.contains(element)).copied().collect();
    let list = l.iter().copied().chain(on(3).into_iter().map(of)).collect();
    Ok([V::Int(a), V::Map(entries), V::Set(set), V::List(list)])
}

/// What the analyses say of a call agrees with what the interpreter does.
fn analyses_agree(class: &Class, before: &Instance, call: &EventCall, next: Option<&Instance>, told: &str) -> bool {
    let (key, at) = (class.key("k").unwrap(), Timestamp::from_millis(0));
    let linear = class.linear(&key, std::slice::from_ref(call), at);
    if let Some(linear) = &linear {
        assert_eq!(linear.happens_in(before), next.is_some(), "{linear:?} {told}");
    }
    let Some(next) = next else { return linear.is_some() };
    let number = |instance: &Instance| match instance.fields().get("a") {
        Some(Value::Integer(number)) => i128::from(*number),
        other => panic!("{other:?}"),
    };
    if let Some(linear) = &linear {
        let delta: i128 = linear.deltas.iter().map(|delta| delta.amount).sum();
        let assigned = linear.assigned.iter().map(|assigned| assigned.amount).next();
        assert_eq!(number(next), assigned.unwrap_or(number(before) + delta), "{linear:?} {told}");
        assert!(
            linear.puts.iter().all(|put| put.place.content_in(next).as_ref() == Some(&put.value)),
            "{linear:?} {told}"
        );
    }
    let changes = class.changes(&key, call, at).unwrap();
    for (name, value) in before.fields().iter() {
        let new = next.fields().get(name).unwrap();
        let is_told = |element: Option<&Value>| {
            let mut own = changes.iter().filter(|change| change.place.field == *name);
            own.any(|change| change.place.element.is_none() || change.place.element.as_ref() == element)
        };
        let is_covered = match (value, new) {
            (Value::Set(old), Value::Set(new)) => old.symmetric_difference(new).all(|element| is_told(Some(element))),
            (old, new) => old == new || is_told(None),
        };
        assert!(is_covered, "{changes:?} {told}");
    }
    linear.is_some()
}

fn value(chance: &mut Chance, ty: Ty) -> V {
    let small = |chance: &mut Chance| i128::from(chance.next() % 7) - 2;
    match ty {
        Ty::Int if chance.below(40) == 0 => V::Int(i64::MAX.into()),
        Ty::Int => V::Int(small(chance)),
        Ty::Bool => V::Bool(chance.below(2) == 0),
        Ty::Set => V::Set((0..chance.below(4)).map(|_| small(chance)).collect()),
        Ty::List => V::List((0..chance.below(4)).map(|_| small(chance)).collect()),
        _ => V::Map((0..2 + chance.below(5)).map(|_| (small(chance), small(chance))).collect()),
    }
}

#[test]
fn both_interpreters_agree_on_random_effects() {
    const CALLS: u64 = 10;
    let (count, seed) = (super::number("ENACT_EFFECTS", 3_000), super::number("ENACT_SEED", 0));
    let (mut accepted, mut refused, mut linear, mut unchecked) = (0_u64, 0_u64, 0_u64, 0_u64);
    for number in 0..count.div_ceil(CALLS) {
        let mut chance = Chance::new(seed.wrapping_add(number));
        let vars: Vars<'_> = READ.to_vec();
        let trees: Vec<Tree> = (0..1 + chance.below(4)).map(|_| tree(&mut chance, &vars, 2)).collect();
        let mut effects = String::new();
        print(&trees, 8, &mut effects);
        let fields = "a: Integer\n  m: Map[Integer, Integer]\n  s: Set[Integer]\n  l: List[Integer]";
        let given = "a0: Integer, m0: Map[Integer, Integer], s0: Set[Integer], l0: List[Integer]";
        let source = format!(
            "class C\n  {fields}\n  initial none_\n    on Make({given}): made\n      post: this.a = a0, this.m = m0, this.s = s0, this.l = l0\n  \
             made\n    on Run(k: Integer, b: Boolean, c: Boolean, xs: List[Integer], ks: Set[Integer])\n      post:\n{effects}"
        );
        let told = format!("contract {number}:\n{source}");
        let spec = match check(vec![Source::new("effects.rebel", &source)]) {
            Ok(spec) => spec,
            Err(report) => {
                let is_right = report.errors().all(|found| found.code == Code::AssignedTwice);
                assert!(is_right && gives_two_values(&trees), "{report}\n{told}");
                unchecked += 1;
                continue;
            }
        };
        assert!(!gives_two_values(&trees), "{told}");
        let class = spec.class("C").unwrap();
        for _ in 0..CALLS {
            let env: Vec<V> = READ.iter().map(|(_, ty, _)| value(&mut chance, *ty)).collect();
            let call = |event: &str, values: &[V]| {
                let event = class.event(event).unwrap();
                let values = event.params().iter().zip(values);
                let values = values.map(|(param, value)| {
                    (&**param.name(), Value::parse(param.ty(), &value.to_string()).expect("a value"))
                });
                event.call(values).unwrap()
            };
            let (key, at) = (class.key("k").unwrap(), Timestamp::from_millis(0));
            let made = class.next(&key, &class.initial(), &call("Make", &env[..4]), at).unwrap();
            let run = call("Run", &env[4..]);
            let found = class.next(&key, &made, &run, at);
            let told = format!("{env:?} {told}");
            linear += u64::from(analyses_agree(class, &made, &run, found.as_ref().ok(), &told));
            match (after(&trees, &env), found) {
                (Ok(expected), Ok(found)) => {
                    accepted += 1;
                    for (field, expected) in class.fields().iter().zip(expected) {
                        let expected = Value::parse(field.ty(), &expected.to_string()).unwrap();
                        assert_eq!(found.fields().get(field.name()), Some(&expected), "{} {told}", field.name());
                    }
                }
                (Err(_), Err(_)) => refused += 1,
                (expected, found) => panic!("{expected:?} {found:?} {told}"),
            }
        }
    }
    let all = [accepted, refused, linear, unchecked * CALLS];
    assert!(all.iter().all(|met| *met > count / 50), "{all:?} of {count}");
}
