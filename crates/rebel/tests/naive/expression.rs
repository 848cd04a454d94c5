//! Expressions.

use std::collections::BTreeSet;
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
    /// What another instance is asked for and does not have.
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum F {
    Overflow,
    Mismatch,
    Absent,
    TooMany,
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
            V::Absent => panic!("it has no text"),
        }
    }
}

impl fmt::Display for E {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            E::Lit(value) => write!(f, "{value}"),
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
        V::Money(_, n) => n.abs() <= SUMS_MAX,
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
                let V::Set(set) = a.eval(env)? else { panic!("a set") };
                Ok(V::Int(set.len().try_into().unwrap()))
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
            E::Bin(symbol, a, b) => binary(symbol, a.eval(env)?, b.eval(env)?),
            E::Range(a, b, is_closed) => {
                let (V::Int(low), V::Int(high)) = (a.eval(env)?, b.eval(env)?) else { panic!("two Integers") };
                let end = if *is_closed { high + 1 } else { high };
                if end > i64::MAX.into() {
                    return Err(F::Overflow);
                }
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
    let V::Set(elements) = domain.eval(env)? else { panic!("a set") };
    let (mut count, mut set) = (0, BTreeSet::new());
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
            _ => {}
        }
    }
    Ok(match kind {
        "all" => V::Bool(true),
        "any" => V::Bool(false),
        "count" => V::Int(count),
        "set" => V::Set(set),
        _ => sum,
    })
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
    if matches!(ty, Ty::Int | Ty::Bool | Ty::Money | Ty::Rate | Ty::Set) && chance.below(8) == 0 {
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
        _ => "sum",
    };
    let has_set = vars.iter().any(|(_, ty, _)| *ty == Ty::Set);
    let domain = if has_set && chance.below(2) == 0 {
        random(chance, Ty::Set, vars, depth - 1)
    } else {
        random_range(chance, vars, 1)
    };
    let start = random(chance, ty, vars, depth - 1);
    let index = vars.iter().map(|(_, _, index)| index + 1).max().unwrap_or(0);
    let name = format!("v{index}");
    let inner: Vec<_> = vars.iter().copied().chain([(&*name, Ty::Int, index)]).collect();
    let filter = random(chance, Ty::Bool, &inner, depth - 1);
    let body = random(chance, if ty == Ty::Set { Ty::Int } else { ty }, &inner, depth - 1);
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
    }
}

const PARAMS: [(&str, Ty, usize); 8] = [
    ("i", Ty::Int, 0),
    ("j", Ty::Int, 1),
    ("m", Ty::Money, 2),
    ("n", Ty::Money, 3),
    ("r", Ty::Rate, 4),
    ("s", Ty::Set, 5),
    ("b", Ty::Bool, 6),
    ("c", Ty::Bool, 7),
];

#[test]
fn both_interpreters_agree_on_random_expressions() {
    const IN_ONE_TEXT: u64 = 50;
    let (count, seed) = (crate::number("ENACT_EXPRESSIONS", 10_000), crate::number("ENACT_SEED", 0));
    let (mut values, mut overflows, mut mismatches) = (0_u64, 0_u64, 0_u64);
    for text in 0..count.div_ceil(IN_ONE_TEXT) {
        let mut chance = Chance::new(seed.wrapping_add(text));
        let types = [Ty::Int, Ty::Bool, Ty::Bool, Ty::Money, Ty::Rate, Ty::Set, Ty::Currency];
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
