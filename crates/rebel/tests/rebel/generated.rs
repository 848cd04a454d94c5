//! Random specifications of a class with two integers, an amount, a flag, two states and three events, and a small domain of
//! instances and calls.

use std::fmt::Write;

use enact_rebel::{Class, EventCall, Instance};
use proptest::prelude::*;

use super::support::{call, key};

fn integer() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["a", "b"]).prop_map(str::to_owned),
        2 => Just("k".to_owned()),
        2 => (-2_i64..3).prop_map(|number| format!("({number})")),
    ];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["+", "-", "*"]), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            inner.clone().prop_map(|operand| format!("(-{operand})")),
            (inner.clone(), inner).prop_map(|(left, right)| format!("(if flag then {left} else {right})")),
        ]
    })
}

fn amount() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => Just("m".to_owned()),
        3 => Just("x".to_owned()),
        2 => prop::sample::select(vec!["EUR 0.00", "EUR 0.01", "USD 0.01"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["+", "-"]), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            (inner.clone(), integer()).prop_map(|(money, factor)| format!("({money} * {factor})")),
            inner.prop_map(|money| format!("share({money})")),
        ]
    })
}

fn condition() -> impl Strategy<Value = String> {
    let comparison = || prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        3 => (integer(), comparison(), integer()).prop_map(|(left, operator, right)| format!("{left} {operator} {right}")),
        3 => (amount(), comparison(), amount()).prop_map(|(left, operator, right)| format!("{left} {operator} {right}")),
        2 => (amount(), comparison()).prop_map(|(left, operator)| format!("{left} {operator} 0")),
        1 => Just("flag".to_owned()),
        1 => Just("m.currency == x.currency".to_owned()),
    ];
    leaf.prop_recursive(1, 3, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["and", "or"]), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            inner.prop_map(|operand| format!("(not ({operand}))")),
        ]
    })
}

/// The effect, as it is or under a condition, or several that add up.
fn branched(effect: BoxedStrategy<String>, added: Vec<&'static str>) -> impl Strategy<Value = Vec<String>> {
    let on_arguments = prop::sample::select(vec!["k > 0", "x >= 0", "k == 1"]).prop_map(str::to_owned);
    let condition = prop_oneof![2 => on_arguments, 1 => condition()];
    let domain = prop::sample::select(vec!["1 .. 2", "0 .. k", "a .. b"]);
    let sums = (condition.clone(), domain, prop::sample::select(added)).prop_map(|(condition, domain, added)| {
        vec![added.to_owned(), format!("if {condition}: {added}"), format!("for i in {domain}: if i > 0: {added}")]
    });
    prop_oneof![
        4 => effect.clone().prop_map(|effect| vec![effect]),
        2 => (condition.clone(), effect.clone()).prop_map(|(condition, effect)| vec![format!("if {condition}: {effect}")]),
        2 => (condition, effect.clone(), effect).prop_map(|(condition, first, second)| {
            vec![format!("if {condition}: {first} else: {second}")]
        }),
        2 => (sums, 1_usize..4).prop_map(|(sums, count)| sums.into_iter().take(count).collect()),
    ]
}

fn event(name: &'static str) -> impl Strategy<Value = String> {
    let integer_effect = prop_oneof![
        2 => integer().prop_map(|value| format!("+= {value}")),
        2 => Just("+= k".to_owned()),
        1 => integer().prop_map(|value| format!("== {value}")),
    ];
    let money_effect = prop_oneof![
        2 => amount().prop_map(|value| format!("+= {value}")),
        2 => Just("-= x".to_owned()),
        1 => amount().prop_map(|value| format!("== {value}")),
    ];
    let integer_effect = integer_effect.prop_map(|effect| format!("this.a {effect}"));
    let money_effect = money_effect.prop_map(|effect| format!("this.m {effect}"));
    let guards = prop::collection::vec(condition(), 0..3);
    let target = prop::sample::select(vec!["", ": s", ": t"]);
    let effects = (
        prop::option::of(branched(integer_effect.boxed(), vec!["this.a += k", "this.a -= (k * 2)", "this.a += b"])),
        prop::option::of(branched(money_effect.boxed(), vec!["this.m += x", "this.m -= (m - x)"])),
        prop::option::weighted(0.2, condition().prop_map(|effect| vec![format!("this.flag == ({effect})")])),
    );
    let sync = prop::option::weighted(0.2, integer().prop_map(|value| format!("sync: other.Poke({value})")));
    (target, guards, effects, sync).prop_map(move |(target, guards, (a, m, flag), sync)| {
        let mut text = format!("on {name}(k: Integer, x: Money){target}");
        if !guards.is_empty() {
            write!(text, " pre: {}", guards.join(", ")).unwrap();
        }
        let effects: Vec<String> = [a, m, flag].into_iter().flatten().flatten().collect();
        if !effects.is_empty() {
            write!(
                text,
                "\n                post:\n                  {}\n               ",
                effects.join("\n                  ")
            )
            .unwrap();
        }
        format!("{text} {}\n", sync.unwrap_or_default())
    })
}

/// The text of a specification, of whose class `A` the events `E`, `F` and `G` are random.
pub(crate) fn specification() -> impl Strategy<Value = String> {
    let invariant =
        prop::sample::select(vec!["", "invariant a + b >= -2", "invariant m >= 0", "invariant a <= 2 or flag"]);
    let sources = prop::sample::select(vec!["s", "s, t", "t"]);
    (invariant, sources, event("E"), event("F"), event("G")).prop_map(|(invariant, sources, e, f, g)| {
        format!(
            "fn share(of: Money): Money = of + of * 50%
            class Other initial i on Make(): made\n            made on Poke(n: Integer) pre: n == n
            class A a: Integer = 0 b: Integer = 1 m: Money = EUR 0.00 flag: Boolean = false other: Other
            {invariant}
            initial i on Begin(o: Other): s post: this.other == o
            {sources} {e}\n            s, t {f}\n            s {g}\n            t on Back(): s"
        )
    })
}

/// Every instance of the small domain that satisfies the class.
pub(crate) fn instances(class: &Class) -> Vec<Instance> {
    let mut instances = Vec::new();
    for state in ["s", "t"] {
        for (a, b) in [(-1, 0), (0, 1), (2, -2), (2, 2)] {
            for m in ["EUR -0.01", "EUR 0.00", "EUR 0.03", "USD 0.01"] {
                for flag in [false, true] {
                    let instance: Instance = serde_json::from_value(serde_json::json!({
                        "state": state,
                        "fields": {
                            "a": { "Integer": a }, "b": { "Integer": b }, "m": { "Money": m }, "flag": { "Boolean": flag },
                            "other": { "Reference": { "class": "Other", "key": { "String": "o" } } },
                        },
                    }))
                    .unwrap();
                    if class.verify(&key(class), &instance).is_ok() {
                        instances.push(instance);
                    }
                }
            }
        }
    }
    instances
}

/// Some calls of an event.
pub(crate) fn calls(class: &Class, event: &str) -> Vec<EventCall> {
    let arguments = [("-1", "EUR 0.01"), ("0", "EUR 0.00"), ("2", "EUR 0.02"), ("1", "USD 0.01"), ("0", "EUR -0.01")];
    arguments.into_iter().map(|(k, x)| call(class, event, &[k, x])).collect()
}
