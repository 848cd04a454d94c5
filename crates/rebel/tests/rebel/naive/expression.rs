//! Expressions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use enact_rebel::{Fault, Source, Timestamp, Type, Value, Violation, check};

use crate::chance::Chance;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Int,
    Bool,
    Money,
    Rate,
    Set,
    Currency,
    /// With two decimals.
    Dec,
    /// An Integer, or none.
    Opt,
    /// Of Integers.
    List,
    /// From Integers to Integers.
    Map,
    Text,
}

/// A value: numbers in their smallest unit, rates in hundredths of a percent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum V {
    Int(i128),
    Bool(bool),
    Money(&'static str, i128),
    Rate(i128),
    Set(BTreeSet<i128>),
    Currency(&'static str),
    /// In hundredths.
    Dec(i128),
    None,
    List(Vec<i128>),
    Map(BTreeMap<i128, i128>),
    Text(String),
    /// What another instance is asked for and does not have.
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum F {
    Overflow,
    Mismatch,
    Absent,
    TooMany,
    Zero,
    NoElement,
    IsNone,
    TwoValues,
    OutOfRange,
}

#[derive(Clone, Debug)]
pub(crate) enum E {
    Lit(V),
    /// A name with its index in the environment.
    Var(String, usize),
    Bin(&'static str, Box<E>, Box<E>),
    /// Money times a rate.
    Share(Box<E>, Box<E>),
    Not(Box<E>),
    Neg(Box<E>),
    If(Box<E>, Box<E>, Box<E>),
    SetOf(Vec<E>),
    Size(Box<E>),
    CurrencyOf(Box<E>),
    ListOf(Vec<E>),
    MapOf(Vec<(E, E)>),
    /// A function or a property, by how it is written: `{}` stands for each operand.
    Written(&'static str, Vec<E>),
    /// From the first to the last, or to the one before it.
    Range(Box<E>, Box<E>, bool),
    /// The kind, the variable, the domain, the filter, what is taken of each element, and what a sum begins with.
    Aggregate(&'static str, String, Box<[E; 4]>),
}

impl fmt::Display for V {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            V::Int(n) => write!(f, "{n}"),
            V::Bool(b) => write!(f, "{b}"),
            V::Money(code, n) => {
                write!(f, "{code} {}{}.{:02}", if *n < 0 { "-" } else { "" }, n.abs() / 100, n.abs() % 100)
            }
            V::Rate(n) => {
                write!(f, "{}{}.{:02}%", if *n < 0 { "-" } else { "" }, n.abs() / 100, n.abs() % 100)
            }
            V::Set(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "{{{}}}", items.join(", "))
            }
            V::Currency(code) => f.write_str(code),
            V::Dec(n) => write!(f, "{}{}.{:02}", if *n < 0 { "-" } else { "" }, n.abs() / 100, n.abs() % 100),
            V::None => f.write_str("none"),
            V::List(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            V::Map(entries) => {
                let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
            V::Text(text) => f.write_str(text),
            V::Absent => panic!("it has no text"),
        }
    }
}

impl fmt::Display for E {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            E::Lit(V::Text(text)) => write!(f, "\"{text}\""),
            E::Lit(value) => write!(f, "{value}"),
            E::ListOf(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            E::MapOf(entries) => {
                let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
            E::Written(form, operands) => {
                let mut operands = operands.iter();
                for (index, part) in form.split("{}").enumerate() {
                    if index > 0 {
                        write!(f, "{}", operands.next().expect("one for each place"))?;
                    }
                    f.write_str(part)?;
                }
                Ok(())
            }
            E::Var(name, _) => f.write_str(name),
            E::Bin(symbol, a, b) => write!(f, "({a} {symbol} {b})"),
            E::Share(a, b) => write!(f, "({a} * {b})"),
            E::Not(a) => write!(f, "(not {a})"),
            E::Neg(a) => write!(f, "(-{a})"),
            E::If(c, a, b) => write!(f, "(if {c} then {a} else {b})"),
            E::SetOf(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "{{{}}}", items.join(", "))
            }
            E::Size(a) => write!(f, "{a}.size"),
            E::CurrencyOf(a) => write!(f, "{a}.currency"),
            E::Range(a, b, is_closed) => write!(f, "({a}) {} ({b})", if *is_closed { ".." } else { "..<" }),
            E::Aggregate("count", name, parts) => {
                let [domain, filter, ..] = &**parts;
                write!(f, "count({name} in {domain} where {filter})")
            }
            E::Aggregate("sum", name, parts) => {
                let [domain, filter, body, start] = &**parts;
                write!(f, "sum({name} in {domain} where {filter}: {body}, {start})")
            }
            E::Aggregate("map", name, parts) => {
                let [domain, filter, body, value] = &**parts;
                write!(f, "map({name} in {domain} where {filter}: {body} -> {value})")
            }
            E::Aggregate(kind, name, parts) => {
                let [domain, filter, body, _] = &**parts;
                write!(f, "{kind}({name} in {domain} where {filter}: {body})")
            }
        }
    }
}

const SUMS_MAX: i128 = 10_i128.pow(36);
/// Hundredths of a percent, where the program counts 10^-16 percent.
const RATES_MAX: i128 = 10_i128.pow(22);

fn fits(value: V) -> Result<V, F> {
    let is_fine = match &value {
        V::Int(n) => i64::try_from(*n).is_ok(),
        V::Money(_, n) | V::Dec(n) => n.abs() <= SUMS_MAX,
        V::Rate(n) => n.abs() <= RATES_MAX,
        _ => true,
    };
    if is_fine { Ok(value) } else { Err(F::Overflow) }
}

impl E {
    pub(crate) fn eval(&self, env: &[V]) -> Result<V, F> {
        match self {
            E::Lit(value) => Ok(value.clone()),
            E::Var(_, index) => match &env[*index] {
                V::Absent => Err(F::Absent),
                value => Ok(value.clone()),
            },
            E::Bin("and", a, b) => {
                if a.eval(env)? == V::Bool(true) {
                    b.eval(env)
                } else {
                    Ok(V::Bool(false))
                }
            }
            E::Bin("or", a, b) => {
                if a.eval(env)? == V::Bool(true) {
                    Ok(V::Bool(true))
                } else {
                    b.eval(env)
                }
            }
            E::If(c, a, b) => {
                if c.eval(env)? == V::Bool(true) {
                    a.eval(env)
                } else {
                    b.eval(env)
                }
            }
            E::Not(a) => Ok(V::Bool(a.eval(env)? == V::Bool(false))),
            E::Neg(a) => match a.eval(env)? {
                V::Int(n) => fits(V::Int(-n)),
                V::Money(code, n) => fits(V::Money(code, -n)),
                V::Rate(n) => fits(V::Rate(-n)),
                V::Dec(n) => fits(V::Dec(-n)),
                other => panic!("-{other:?}"),
            },
            E::SetOf(items) => {
                let mut set = BTreeSet::new();
                for item in items {
                    let V::Int(n) = item.eval(env)? else { panic!("an Integer") };
                    set.insert(n);
                }
                Ok(V::Set(set))
            }
            E::Size(a) => {
                let size = match a.eval(env)? {
                    V::Set(elements) => elements.len(),
                    V::List(elements) => elements.len(),
                    V::Map(entries) => entries.len(),
                    other => panic!("{other:?}"),
                };
                Ok(V::Int(size.try_into().unwrap()))
            }
            E::CurrencyOf(a) => {
                let V::Money(code, _) = a.eval(env)? else { panic!("an amount") };
                Ok(V::Currency(code))
            }
            E::Share(a, b) => {
                let (V::Money(code, n), V::Rate(rate)) = (a.eval(env)?, b.eval(env)?) else { panic!("a share") };
                fits(V::Money(code, half_even(n.checked_mul(rate).expect("shares are of small amounts"), 10_000)))
            }
            E::Bin("in", a, range) if matches!(**range, E::Range(..)) => {
                let E::Range(low, high, is_closed) = &**range else { panic!("it is one") };
                let value = a.eval(env)?;
                if binary(">=", value.clone(), low.eval(env)?)? == V::Bool(false) {
                    return Ok(V::Bool(false));
                }
                binary(if *is_closed { "<=" } else { "<" }, value, high.eval(env)?)
            }
            E::Bin("??", a, b) => match a.eval(env)? {
                V::None => b.eval(env),
                value => Ok(value),
            },
            E::ListOf(items) => Ok(V::List(items.iter().map(|item| number(item, env)).collect::<Result<_, _>>()?)),
            E::MapOf(entries) => {
                let mut map = BTreeMap::new();
                for (key, value) in entries {
                    enter(&mut map, number(key, env)?, number(value, env)?)?;
                }
                Ok(V::Map(map))
            }
            E::Written(form, operands) => {
                let operands: Vec<V> = operands.iter().map(|operand| operand.eval(env)).collect::<Result<_, _>>()?;
                written(form, &operands)
            }
            E::Bin(symbol, a, b) => binary(symbol, a.eval(env)?, b.eval(env)?),
            E::Range(a, b, is_closed) => {
                let (V::Int(low), V::Int(high)) = (a.eval(env)?, b.eval(env)?) else { panic!("two Integers") };
                let end = if *is_closed { high + 1 } else { high };
                if end - low > 10_000 {
                    return Err(F::TooMany);
                }
                Ok(V::Set((low..end).collect()))
            }
            E::Aggregate(kind, _, parts) => aggregate(kind, parts, env),
        }
    }
}

fn aggregate(kind: &str, parts: &[E; 4], env: &[V]) -> Result<V, F> {
    let [domain, filter, body, start] = parts;
    let mut sum = if kind == "sum" { start.eval(env)? } else { V::Int(0) };
    let elements: Vec<i128> = match domain.eval(env)? {
        V::Set(elements) => elements.into_iter().collect(),
        V::List(elements) => elements,
        other => panic!("{other:?}"),
    };
    let (mut count, mut set, mut list, mut map) = (0, BTreeSet::new(), Vec::new(), BTreeMap::new());
    for element in elements {
        let env = [env, &[V::Int(element)]].concat();
        if filter.eval(&env)? == V::Bool(false) {
            continue;
        }
        count += 1;
        match (kind, if kind == "count" { V::Int(0) } else { body.eval(&env)? }) {
            ("all", V::Bool(false)) => return Ok(V::Bool(false)),
            ("any", V::Bool(true)) => return Ok(V::Bool(true)),
            ("sum", value) => sum = binary("+", sum, value)?,
            ("set", V::Int(value)) => drop(set.insert(value)),
            ("first", V::Int(value)) => return Ok(V::Int(value)),
            ("map", V::Int(key)) => enter(&mut map, key, number(start, &env)?)?,
            ("sort", V::Int(value)) => list.push((value, element)),
            (_, V::Int(value)) => list.push((value, value)),
            _ => {}
        }
    }
    Ok(match kind {
        "all" => V::Bool(true),
        "any" => V::Bool(false),
        "count" => V::Int(count),
        "set" => V::Set(set),
        "map" => V::Map(map),
        "sort" => {
            list.sort_by_key(|(value, _)| *value);
            V::List(list.into_iter().map(|(_, element)| element).collect())
        }
        "list" => V::List(list.into_iter().map(|(value, _)| value).collect()),
        "first" => V::None,
        "last" => list.last().map_or(V::None, |(value, _)| V::Int(*value)),
        "min" => list.iter().map(|(value, _)| *value).min().map_or(V::None, V::Int),
        "max" => list.iter().map(|(value, _)| *value).max().map_or(V::None, V::Int),
        _ => sum,
    })
}

fn number(expression: &E, env: &[V]) -> Result<i128, F> {
    match expression.eval(env)? {
        V::Int(number) => Ok(number),
        other => panic!("{other:?}"),
    }
}

fn enter(map: &mut BTreeMap<i128, i128>, key: i128, value: i128) -> Result<(), F> {
    match map.insert(key, value) {
        Some(other) if other != value => Err(F::TwoValues),
        _ => Ok(()),
    }
}

fn written(form: &str, operands: &[V]) -> Result<V, F> {
    let found = match (form, operands) {
        ("({}!)", [V::None]) => return Err(F::IsNone),
        ("({}!)", [value]) => value.clone(),
        ("({})[{}]", [V::List(items), V::Int(at)]) => {
            let item = usize::try_from(*at).ok().and_then(|at| items.get(at));
            V::Int(*item.ok_or(F::NoElement)?)
        }
        ("({})[{}]", [V::Map(entries), V::Int(key)]) => V::Int(*entries.get(key).ok_or(F::NoElement)?),
        ("({}).get({})", [V::Map(entries), V::Int(key)]) => entries.get(key).map_or(V::None, |value| V::Int(*value)),
        ("({}).keys", [V::Map(entries)]) => V::Set(entries.keys().copied().collect()),
        ("({}).values", [V::Map(entries)]) => V::List(entries.values().copied().collect()),
        ("min({}, {})", [V::Int(a), V::Int(b)]) => V::Int(*a.min(b)),
        ("max({}, {})", [V::Int(a), V::Int(b)]) => V::Int(*a.max(b)),
        ("clamp({}, {}, {})", [V::Int(x), V::Int(low), V::Int(high)]) => V::Int(if x < low {
            *low
        } else if x > high {
            *high
        } else {
            *x
        }),
        ("abs({})", [V::Int(x)]) => fits(V::Int(x.abs()))?,
        ("(round({}, 0) * 1.00)", [V::Dec(x)]) => fits(V::Dec(half_even(*x, 100) * 100))?,
        ("divide({}, {}, 2)", [V::Int(_), V::Int(0)]) => return Err(F::Zero),
        ("divide({}, {}, 2)", [V::Int(a), V::Int(b)]) => fits(V::Dec(half_even(a * 100 * b.signum(), b.abs())))?,
        ("({}).length", [V::Text(text)]) => V::Int(text.chars().count().try_into().unwrap()),
        ("({}).slice({}, {})", [V::Text(text), V::Int(from), V::Int(to)]) => {
            let length: i128 = text.chars().count().try_into().unwrap();
            if *from < 0 || to < from || *to > length {
                return Err(F::OutOfRange);
            }
            let (from, to): (usize, usize) = ((*from).try_into().unwrap(), (*to).try_into().unwrap());
            V::Text(text.chars().skip(from).take(to - from).collect())
        }
        ("({}).startsWith({})", [V::Text(text), V::Text(part)]) => V::Bool(text.starts_with(part.as_str())),
        (_, operands) => panic!("{form} {operands:?}"),
    };
    Ok(found)
}

/// The nearest whole number to `n / d`, of two the even one.
fn half_even(n: i128, d: i128) -> i128 {
    let (below, rest) = (n.div_euclid(d), n.rem_euclid(d));
    if 2 * rest > d || 2 * rest == d && below % 2 != 0 { below + 1 } else { below }
}

fn binary(symbol: &str, a: V, b: V) -> Result<V, F> {
    let compared = |ordering: std::cmp::Ordering| match symbol {
        "<" => ordering.is_lt(),
        "<=" => ordering.is_le(),
        ">" => ordering.is_gt(),
        ">=" => ordering.is_ge(),
        _ => panic!("{symbol}"),
    };
    match (symbol, a, b) {
        ("==", a, b) => Ok(V::Bool(if let Some(sign) = against_zero(&a, &b) { sign == 0 } else { a == b })),
        ("!=", a, b) => Ok(V::Bool(if let Some(sign) = against_zero(&a, &b) { sign != 0 } else { a != b })),
        ("in", V::Int(n), V::Set(set)) => Ok(V::Bool(set.contains(&n))),
        ("in", V::Int(n), V::List(list)) => Ok(V::Bool(list.contains(&n))),
        ("in", V::Int(n), V::Map(map)) => Ok(V::Bool(map.contains_key(&n))),
        ("+", V::Set(a), V::Set(b)) => Ok(V::Set(&a | &b)),
        ("-", V::Set(a), V::Set(b)) => Ok(V::Set(&a - &b)),
        ("+", V::List(a), V::List(b)) => Ok(V::List([a, b].concat())),
        ("+", V::Text(a), V::Text(b)) => Ok(V::Text(a + &b)),
        ("+", V::Dec(a), V::Dec(b)) => fits(V::Dec(a + b)),
        ("-", V::Dec(a), V::Dec(b)) => fits(V::Dec(a - b)),
        ("*", V::Dec(a), V::Int(b)) => fits(V::Dec(a.checked_mul(b).ok_or(F::Overflow)?)),
        ("/", V::Dec(_), V::Int(0)) | ("div" | "mod", _, V::Int(0)) => Err(F::Zero),
        ("/", V::Dec(a), V::Int(b)) => fits(V::Dec(half_even(a * b.signum(), b.abs()))),
        ("div", V::Int(a), V::Int(b)) => fits(V::Int((a * b.signum()).div_euclid(b.abs()))),
        ("mod", V::Int(a), V::Int(b)) => Ok(V::Int(a - b * (a * b.signum()).div_euclid(b.abs()))),
        (_, V::Dec(a), V::Dec(b)) => Ok(V::Bool(compared(a.cmp(&b)))),
        (_, V::Text(a), V::Text(b)) => Ok(V::Bool(compared(a.cmp(&b)))),
        ("+", V::Set(mut set), V::Int(n)) => {
            set.insert(n);
            Ok(V::Set(set))
        }
        ("-", V::Set(mut set), V::Int(n)) => {
            set.remove(&n);
            Ok(V::Set(set))
        }
        ("+" | "-" | "<" | "<=" | ">" | ">=", V::Money(x, _), V::Money(y, _)) if x != y => Err(F::Mismatch),
        ("+", V::Int(a), V::Int(b)) => fits(V::Int(a + b)),
        ("-", V::Int(a), V::Int(b)) => fits(V::Int(a - b)),
        ("*", V::Int(a), V::Int(b)) => fits(V::Int(a * b)),
        ("+", V::Money(code, a), V::Money(_, b)) => fits(V::Money(code, a + b)),
        ("-", V::Money(code, a), V::Money(_, b)) => fits(V::Money(code, a - b)),
        ("*", V::Money(code, a), V::Int(b)) => fits(V::Money(code, a.checked_mul(b).ok_or(F::Overflow)?)),
        ("+", V::Rate(a), V::Rate(b)) => fits(V::Rate(a + b)),
        ("-", V::Rate(a), V::Rate(b)) => fits(V::Rate(a - b)),
        ("*", V::Rate(a), V::Int(b)) => fits(V::Rate(a.checked_mul(b).ok_or(F::Overflow)?)),
        (_, V::Int(a), V::Int(b)) | (_, V::Rate(a), V::Rate(b)) | (_, V::Money(_, a), V::Money(_, b)) => {
            Ok(V::Bool(compared(a.cmp(&b))))
        }
        (_, V::Money(_, a) | V::Rate(a), V::Int(0)) => Ok(V::Bool(compared(a.cmp(&0)))),
        (_, a, b) => panic!("{a:?} {symbol} {b:?}"),
    }
}

fn against_zero(a: &V, b: &V) -> Option<i128> {
    match (a, b) {
        (V::Money(_, n) | V::Rate(n), V::Int(0)) => Some(n.signum()),
        _ => None,
    }
}

/// A random expression of type `ty` over `vars`, each with its index in the environment.
pub(crate) fn random(chance: &mut Chance, ty: Ty, vars: &[(&str, Ty, usize)], depth: usize) -> E {
    let known: Vec<E> =
        vars.iter().filter(|(_, of, _)| *of == ty).map(|(name, _, index)| E::Var((*name).to_owned(), *index)).collect();
    if depth == 0 || chance.below(6) == 0 {
        return if !known.is_empty() && chance.below(3) > 0 {
            known[chance.below(known.len())].clone()
        } else {
            literal(chance, ty, vars)
        };
    }
    let sub = |chance: &mut Chance, ty| Box::new(random(chance, ty, vars, depth - 1));
    if chance.below(8) == 0 {
        return E::If(sub(chance, Ty::Bool), sub(chance, ty), sub(chance, ty));
    }
    let has_collections = vars.iter().any(|(_, ty, _)| *ty == Ty::Map);
    if has_collections && chance.below(6) == 0 {
        return random_written(chance, ty, vars, depth);
    }
    if !matches!(ty, Ty::Currency | Ty::Text) && chance.below(8) == 0 {
        return random_aggregate(chance, ty, vars, depth);
    }
    match ty {
        Ty::Int => match chance.below(6) {
            0 => E::Neg(sub(chance, Ty::Int)),
            1 if vars.iter().any(|(_, ty, _)| *ty == Ty::Set) => E::Size(sub(chance, Ty::Set)),
            2 => E::Bin("*", sub(chance, Ty::Int), sub(chance, Ty::Int)),
            _ => E::Bin(chance.pick(&["+", "-"]), sub(chance, Ty::Int), sub(chance, Ty::Int)),
        },
        Ty::Money => match chance.below(6) {
            0 => E::Neg(sub(chance, Ty::Money)),
            1 => E::Bin("*", sub(chance, Ty::Money), sub(chance, Ty::Int)),
            2 => E::Share(Box::new(random(chance, Ty::Money, vars, 0)), Box::new(random(chance, Ty::Rate, vars, 0))),
            _ => E::Bin(chance.pick(&["+", "-"]), sub(chance, Ty::Money), sub(chance, Ty::Money)),
        },
        Ty::Rate => match chance.below(4) {
            0 => E::Neg(sub(chance, Ty::Rate)),
            1 => E::Bin("*", sub(chance, Ty::Rate), sub(chance, Ty::Int)),
            _ => E::Bin(chance.pick(&["+", "-"]), sub(chance, Ty::Rate), sub(chance, Ty::Rate)),
        },
        Ty::Set => match chance.below(3) {
            0 => E::SetOf((0..1 + chance.below(3)).map(|_| *sub(chance, Ty::Int)).collect()),
            _ => E::Bin(chance.pick(&["+", "-"]), sub(chance, Ty::Set), sub(chance, Ty::Int)),
        },
        Ty::Currency => E::CurrencyOf(sub(chance, Ty::Money)),
        Ty::Dec => match chance.below(4) {
            0 => E::Neg(sub(chance, Ty::Dec)),
            1 => E::Bin(chance.pick(&["*", "/"]), sub(chance, Ty::Dec), sub(chance, Ty::Int)),
            _ => E::Bin(chance.pick(&["+", "-"]), sub(chance, Ty::Dec), sub(chance, Ty::Dec)),
        },
        Ty::Opt => E::If(sub(chance, Ty::Bool), sub(chance, Ty::Opt), sub(chance, Ty::Opt)),
        Ty::List => match chance.below(2) {
            0 => E::ListOf((0..1 + chance.below(3)).map(|_| *sub(chance, Ty::Int)).collect()),
            _ => E::Bin("+", sub(chance, Ty::List), sub(chance, Ty::List)),
        },
        Ty::Map => E::MapOf((0..1 + chance.below(3)).map(|_| (*sub(chance, Ty::Int), *sub(chance, Ty::Int))).collect()),
        Ty::Text => E::Bin("+", sub(chance, Ty::Text), sub(chance, Ty::Text)),
        Ty::Bool => {
            let has = |wanted| vars.iter().any(|(_, ty, _)| *ty == wanted);
            match chance.below(9) {
                8 => {
                    let ty = chance.pick(&[Ty::Int, Ty::Int, Ty::Money, Ty::Rate]);
                    let bound = |chance: &mut Chance| match chance.below(3) {
                        0 if ty != Ty::Int => Box::new(E::Lit(V::Int(0))),
                        _ => Box::new(random(chance, ty, vars, depth - 1)),
                    };
                    let range = E::Range(bound(chance), bound(chance), chance.below(2) == 0);
                    E::Bin("in", sub(chance, ty), Box::new(range))
                }
                0 => E::Not(sub(chance, Ty::Bool)),
                1 | 2 => E::Bin(chance.pick(&["and", "or"]), sub(chance, Ty::Bool), sub(chance, Ty::Bool)),
                3 if has(Ty::Set) => E::Bin("in", sub(chance, Ty::Int), sub(chance, Ty::Set)),
                4 if has(Ty::Money) => {
                    let ty = chance.pick(&[Ty::Money, Ty::Rate]);
                    E::Bin(comparison(chance), sub(chance, ty), Box::new(E::Lit(V::Int(0))))
                }
                5 if has(Ty::Money) => {
                    let ty = chance.pick(&[Ty::Currency, Ty::Set, Ty::Bool]);
                    E::Bin(chance.pick(&["==", "!="]), sub(chance, ty), sub(chance, ty))
                }
                _ => {
                    let all = [Ty::Int, Ty::Money, Ty::Rate];
                    let ty = if has(Ty::Money) { chance.pick(&all) } else { Ty::Int };
                    E::Bin(comparison(chance), sub(chance, ty), sub(chance, ty))
                }
            }
        }
    }
}

/// What only collections, optional values, texts and numbers with decimals have.
fn random_written(chance: &mut Chance, ty: Ty, vars: &[(&str, Ty, usize)], depth: usize) -> E {
    let sub = |chance: &mut Chance, ty| random(chance, ty, vars, depth - 1);
    let both = |chance: &mut Chance, a, b| (Box::new(sub(chance, a)), Box::new(sub(chance, b)));
    match ty {
        Ty::Int => match chance.below(9) {
            0 => E::Written("({}!)", vec![sub(chance, Ty::Opt)]),
            1 => {
                let (a, b) = both(chance, Ty::Opt, Ty::Int);
                // The parentheses keep a chain of them one operand.
                E::If(Box::new(E::Lit(V::Bool(true))), Box::new(E::Bin("??", a, b)), Box::new(E::Lit(V::Int(0))))
            }
            2 => {
                let of = chance.pick(&[Ty::List, Ty::Map]);
                E::Written("({})[{}]", vec![sub(chance, of), sub(chance, Ty::Int)])
            }
            3 => E::Written(
                chance.pick(&["min({}, {})", "max({}, {})"]),
                vec![sub(chance, Ty::Int), sub(chance, Ty::Int)],
            ),
            4 => E::Written("clamp({}, {}, {})", (0..3).map(|_| sub(chance, Ty::Int)).collect()),
            5 => E::Written("abs({})", vec![sub(chance, Ty::Int)]),
            6 => E::Written("({}).length", vec![sub(chance, Ty::Text)]),
            7 => {
                let of = chance.pick(&[Ty::List, Ty::Map]);
                E::Size(Box::new(random(chance, of, vars, 0)))
            }
            _ => {
                let (a, b) = both(chance, Ty::Int, Ty::Int);
                E::Bin(chance.pick(&["div", "mod"]), a, b)
            }
        },
        Ty::Opt => E::Written("({}).get({})", vec![sub(chance, Ty::Map), sub(chance, Ty::Int)]),
        Ty::Set => match chance.below(2) {
            0 => E::Written("({}).keys", vec![sub(chance, Ty::Map)]),
            _ => {
                let (a, b) = both(chance, Ty::Set, Ty::Set);
                E::Bin(chance.pick(&["+", "-"]), a, b)
            }
        },
        Ty::List => E::Written("({}).values", vec![sub(chance, Ty::Map)]),
        Ty::Dec => match chance.below(2) {
            0 => E::Written("divide({}, {}, 2)", vec![sub(chance, Ty::Int), sub(chance, Ty::Int)]),
            _ => E::Written("(round({}, 0) * 1.00)", vec![sub(chance, Ty::Dec)]),
        },
        Ty::Text => {
            E::Written("({}).slice({}, {})", vec![sub(chance, Ty::Text), sub(chance, Ty::Int), sub(chance, Ty::Int)])
        }
        Ty::Bool => match chance.below(4) {
            3 => E::Written("({}).startsWith({})", vec![sub(chance, Ty::Text), sub(chance, Ty::Text)]),
            0 => {
                let of = chance.pick(&[Ty::List, Ty::Map]);
                let (a, b) = both(chance, Ty::Int, of);
                E::Bin("in", a, b)
            }
            1 => {
                let of = chance.pick(&[Ty::Dec, Ty::Text]);
                let (a, b) = both(chance, of, of);
                E::Bin(comparison(chance), a, b)
            }
            _ => {
                let of = chance.pick(&[Ty::List, Ty::Map, Ty::Opt, Ty::Text, Ty::Dec]);
                let (a, b) = both(chance, of, of);
                E::Bin(chance.pick(&["==", "!="]), a, b)
            }
        },
        other => random(chance, other, vars, depth - 1),
    }
}

fn random_range(chance: &mut Chance, vars: &[(&str, Ty, usize)], depth: usize) -> E {
    let low = random(chance, Ty::Int, vars, depth - 1);
    E::Range(low.into(), random(chance, Ty::Int, vars, depth - 1).into(), chance.below(2) == 0)
}

/// The variable stands behind all others in the environment.
fn random_aggregate(chance: &mut Chance, ty: Ty, vars: &[(&str, Ty, usize)], depth: usize) -> E {
    let kind = match ty {
        Ty::Bool => chance.pick(&["all", "any"]),
        Ty::Int => chance.pick(&["count", "sum"]),
        Ty::Set => "set",
        Ty::List => chance.pick(&["list", "sort"]),
        Ty::Opt => chance.pick(&["first", "last", "min", "max"]),
        Ty::Map => "map",
        _ => "sum",
    };
    let has = |wanted| vars.iter().any(|(_, ty, _)| *ty == wanted);
    let domain = if has(Ty::List) && chance.below(3) == 0 {
        random(chance, Ty::List, vars, depth - 1)
    } else if has(Ty::Set) && chance.below(2) == 0 {
        random(chance, Ty::Set, vars, depth - 1)
    } else {
        random_range(chance, vars, 1)
    };
    let index = vars.iter().map(|(_, _, index)| index + 1).max().unwrap_or(0);
    let name = format!("v{index}");
    let inner: Vec<_> = vars.iter().copied().chain([(&*name, Ty::Int, index)]).collect();
    let filter = random(chance, Ty::Bool, &inner, depth - 1);
    let of_numbers = matches!(ty, Ty::Set | Ty::List | Ty::Opt | Ty::Map);
    let body = random(chance, if of_numbers { Ty::Int } else { ty }, &inner, depth - 1);
    // The values of a map are computed of each element, what a sum begins with of none.
    let start =
        if ty == Ty::Map { random(chance, Ty::Int, &inner, depth - 1) } else { random(chance, ty, vars, depth - 1) };
    E::Aggregate(kind, name, [domain, filter, body, start].into())
}

fn comparison(chance: &mut Chance) -> &'static str {
    chance.pick(&["<", "<=", ">", ">=", "==", "!="])
}

fn literal(chance: &mut Chance, ty: Ty, vars: &[(&str, Ty, usize)]) -> E {
    match ty {
        Ty::Currency => E::CurrencyOf(Box::new(random(chance, Ty::Money, vars, 0))),
        Ty::Set => E::SetOf(vec![E::Lit(V::Int(chance.below(4).try_into().unwrap()))]),
        Ty::Int => E::Lit(V::Int(chance.below(9).try_into().unwrap())),
        Ty::Bool => E::Lit(V::Bool(chance.below(2) == 0)),
        Ty::Money => E::Lit(V::Money(chance.pick(&["EUR", "EUR", "USD"]), chance.below(500).try_into().unwrap())),
        Ty::Rate => E::Lit(V::Rate(chance.below(5_000).try_into().unwrap())),
        Ty::Dec => E::Lit(V::Dec(chance.below(500).try_into().unwrap())),
        // One that stands alone has no type.
        Ty::Opt => E::Written("({}).get({})", vec![literal(chance, Ty::Map, vars), literal(chance, Ty::Int, vars)]),
        Ty::List => E::ListOf(vec![literal(chance, Ty::Int, vars)]),
        Ty::Map => E::MapOf(vec![(literal(chance, Ty::Int, vars), literal(chance, Ty::Int, vars))]),
        Ty::Text => E::Lit(V::Text(chance.pick(&["", "a", "ab", "é€", "b b"]).to_owned())),
    }
}

fn argument(chance: &mut Chance, ty: Ty) -> V {
    let small = |chance: &mut Chance| i128::from(chance.next() % 21) - 10;
    match ty {
        Ty::Int => V::Int(match chance.below(10) {
            0 => i64::MAX.into(),
            1 => i64::MIN.into(),
            _ => small(chance),
        }),
        Ty::Money => {
            V::Money(chance.pick(&["EUR", "EUR", "EUR", "USD"]), small(chance) * 10_i128.pow(chance.pick(&[0, 1, 12])))
        }
        Ty::Rate => V::Rate(small(chance) * chance.pick(&[1, 50, 1_000])),
        Ty::Set => V::Set((0..chance.below(4)).map(|_| small(chance)).collect()),
        Ty::Bool => V::Bool(chance.below(2) == 0),
        Ty::Dec => V::Dec(small(chance) * chance.pick(&[1, 25, 10_i128.pow(12)])),
        Ty::Opt => {
            if chance.below(2) == 0 {
                V::None
            } else {
                V::Int(small(chance))
            }
        }
        Ty::List => V::List((0..chance.below(4)).map(|_| small(chance)).collect()),
        Ty::Map => V::Map((0..chance.below(4)).map(|_| (small(chance), small(chance))).collect()),
        Ty::Text => V::Text(chance.pick(&["", "a", "b c", "ßé"]).to_owned()),
        Ty::Currency => panic!("no argument is a currency"),
    }
}

fn rebel(ty: Ty) -> &'static str {
    match ty {
        Ty::Int => "Integer",
        Ty::Bool => "Boolean",
        Ty::Money => "Money",
        Ty::Rate => "Percentage",
        Ty::Set => "Set[Integer]",
        Ty::Currency => "Currency",
        Ty::Dec => "Decimal(2)",
        Ty::Opt => "Integer?",
        Ty::List => "List[Integer]",
        Ty::Map => "Map[Integer, Integer]",
        Ty::Text => "String",
    }
}

const PARAMS: [(&str, Ty, usize); 13] = [
    ("i", Ty::Int, 0),
    ("j", Ty::Int, 1),
    ("m", Ty::Money, 2),
    ("n", Ty::Money, 3),
    ("r", Ty::Rate, 4),
    ("s", Ty::Set, 5),
    ("b", Ty::Bool, 6),
    ("c", Ty::Bool, 7),
    ("d", Ty::Dec, 8),
    ("o", Ty::Opt, 9),
    ("l", Ty::List, 10),
    ("p", Ty::Map, 11),
    ("t", Ty::Text, 12),
];

#[test]
fn both_interpreters_agree_on_random_expressions() {
    const IN_ONE_TEXT: u64 = 50;
    let (count, seed) = (super::number("ENACT_EXPRESSIONS", 10_000), super::number("ENACT_SEED", 0));
    let (mut values, mut overflows, mut mismatches) = (0_u64, 0_u64, 0_u64);
    for text in 0..count.div_ceil(IN_ONE_TEXT) {
        let mut chance = Chance::new(seed.wrapping_add(text));
        let types = [
            Ty::Int,
            Ty::Bool,
            Ty::Bool,
            Ty::Money,
            Ty::Rate,
            Ty::Set,
            Ty::Currency,
            Ty::Dec,
            Ty::Opt,
            Ty::List,
            Ty::Map,
            Ty::Text,
        ];
        let expressions: Vec<(Ty, E)> = (0..IN_ONE_TEXT)
            .map(|_| {
                let (ty, depth) = (chance.pick(&types), 1 + chance.below(4));
                (ty, random(&mut chance, ty, &PARAMS, depth))
            })
            .collect();
        let params: Vec<String> = PARAMS.iter().map(|(name, ty, _)| format!("{name}: {}", rebel(*ty))).collect();
        let mut source = String::new();
        for (index, (ty, expression)) in expressions.iter().enumerate() {
            source += &format!(
                "class C{index}\n  result: {}\n  initial i_\n    on Run({}): done\n      post: this.result == {expression}\n  done\n",
                rebel(*ty),
                params.join(", ")
            );
        }
        let spec =
            check(vec![Source::new("naive.rebel", &source)]).unwrap_or_else(|report| panic!("{report}\n{source}"));
        for (index, (_, expression)) in expressions.iter().enumerate() {
            let arguments: Vec<V> = PARAMS.iter().map(|(_, ty, _)| argument(&mut chance, *ty)).collect();
            let class = spec.class(&format!("C{index}")).unwrap();
            let event = class.event("Run").unwrap();
            let values_of_params = event
                .params()
                .iter()
                .zip(&arguments)
                .map(|(param, value)| (&**param.name(), Value::parse(param.ty(), &value.to_string()).unwrap()));
            let call = event.call(values_of_params).unwrap();
            let found = class.next(&class.key("k").unwrap(), &class.initial(), &call, Timestamp::from_millis(0));
            let told = format!("{expression} with {arguments:?} in text {text}");
            match (expression.eval(&arguments), found) {
                (Ok(expected), Ok(found)) => {
                    let expected = Value::parse(result_type(class), &expected.to_string()).unwrap();
                    assert_eq!(found.fields().get("result"), Some(&expected), "{told}");
                    values += 1;
                }
                (Err(expected), Err(violations)) => {
                    let [Violation::Arithmetic { fault, .. }] = &violations[..] else {
                        panic!("{violations:?} {told}")
                    };
                    let is_same = match expected {
                        F::Overflow => matches!(fault, Fault::Overflow),
                        F::Absent => panic!("nothing is asked"),
                        F::TooMany => *fault == Fault::TooManyElements,
                        F::Zero => *fault == Fault::DivisionByZero,
                        F::NoElement => matches!(fault, Fault::NoElement { .. }),
                        F::IsNone => *fault == Fault::IsNone,
                        F::TwoValues => matches!(fault, Fault::TwoValues { .. }),
                        F::OutOfRange => *fault == Fault::OutOfRange,
                        F::Mismatch => matches!(fault, Fault::CurrencyMismatch { .. }),
                    };
                    assert!(is_same, "{expected:?} {fault:?} {told}");
                    *if expected == F::Overflow { &mut overflows } else { &mut mismatches } += 1;
                }
                (expected, found) => panic!("{expected:?} {found:?} {told}"),
            }
        }
    }
    assert!(values > count / 3 && overflows > 0 && mismatches > 0, "{values} {overflows} {mismatches}");
}

fn result_type(class: &enact_rebel::Class) -> &Type {
    class.fields()[0].ty()
}
