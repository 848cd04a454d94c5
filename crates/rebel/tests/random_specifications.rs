//! Random specifications: the three analyses say nothing that the interpreter does not do.
//!
//! A class with two integers, an amount, a flag, two states and three events is written at random; every instance and
//! every argument of a small domain is tried.

mod support;

use std::cell::Cell;
use std::fmt::Write;

use enact_rebel::ir::ExprKind;
use enact_rebel::{Class, EventCall, Instance, Relation, Verdict};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{NOW, call, class, key};

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

fn specification() -> impl Strategy<Value = String> {
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
fn instances(class: &Class) -> Vec<Instance> {
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

fn calls(class: &Class, event: &str) -> Vec<EventCall> {
    let arguments = [("-1", "EUR 0.01"), ("0", "EUR 0.00"), ("2", "EUR 0.02"), ("1", "USD 0.01"), ("0", "EUR -0.01")];
    arguments.into_iter().map(|(k, x)| call(class, event, &[k, x])).collect()
}

/// Whether the call happens, and what it needs of others if it does.
fn verdict(class: &Class, instance: &Instance, call: &EventCall) -> Option<String> {
    class.next(&key(class), instance, call, NOW).ok()?;
    Some(format!("{:?}", class.syncs(&key(class), instance, call, NOW).ok()?))
}

fn check_relations(class: &Class, instances: &[Instance], met: &Met) -> Result<(), TestCaseError> {
    for open in ["E", "F", "G"] {
        for incoming in ["E", "F", "G"] {
            let relation = class.relation(open, incoming).unwrap();
            match relation {
                Relation::Never => meet(&met.never),
                Relation::Invariant => meet(&met.invariant),
                Relation::Dynamic => continue,
            }
            for before in instances {
                for open in calls(class, open) {
                    let Ok(after) = class.next(&key(class), before, &open, NOW) else { continue };
                    for incoming in calls(class, incoming) {
                        let (base, later) = (verdict(class, before, &incoming), verdict(class, &after, &incoming));
                        let holds = base == later && (relation == Relation::Invariant || base.is_none());
                        prop_assert!(holds, "{:?}: {} then {} in {:?}", relation, open, incoming, before);
                    }
                }
            }
        }
    }
    Ok(())
}

fn check_calls(class: &Class, instances: &[Instance], met: &Met) -> Result<(), TestCaseError> {
    let key = key(class);
    for call in ["E", "F", "G"].into_iter().flat_map(|event| calls(class, event)) {
        let linear = class.linear(&key, std::slice::from_ref(&call), NOW);
        linear.iter().for_each(|_| meet(&met.linear));
        if linear.is_some() && has_branches(class, &call) {
            meet(&met.branched);
        }
        let verdicts: Vec<_> = instances.iter().map(|instance| verdict(class, instance, &call)).collect();
        for (instance, verdict) in instances.iter().zip(&verdicts) {
            let next = class.next(&key, instance, &call, NOW);
            if let Some(linear) = &linear {
                prop_assert_eq!(linear.happens_in(instance), next.is_ok(), "{} {:?} {:?}", call, instance, linear);
            }
            let alone = class.judge(&key, &class.outline(instance), &call, NOW).verdict;
            let is_right = match alone {
                Verdict::Accepted => verdict.is_some(),
                Verdict::Refused => next.is_err(),
                Verdict::Unsure => true,
            };
            prop_assert!(is_right, "{:?} of {} in {:?}", alone, call, instance);
        }
        for (index, window) in instances.windows(3).enumerate() {
            let outline = window.iter().map(|instance| class.outline(instance)).reduce(|a, b| a.join(&b)).unwrap();
            let judged = class.judge(&key, &outline, &call, NOW).verdict;
            let verdicts = &verdicts[index..index + 3];
            let is_right = match judged {
                Verdict::Accepted => {
                    meet(&met.accepted);
                    verdicts.iter().all(|verdict| verdict.is_some() && *verdict == verdicts[0])
                }
                Verdict::Refused => {
                    meet(&met.refused);
                    window.iter().all(|instance| class.next(&key, instance, &call, NOW).is_err())
                }
                Verdict::Unsure => true,
            };
            prop_assert!(is_right, "{:?} of {} in {:?}", judged, call, window);
        }
    }
    Ok(())
}

/// Whether the event has an effect under a condition or in a loop.
fn has_branches(class: &Class, call: &EventCall) -> bool {
    let effects = class.event(call.event()).unwrap().ways().iter().flat_map(|way| &way.body.effects);
    effects.into_iter().any(|effect| matches!(effect.value.kind(), ExprKind::If(..) | ExprKind::Updated(..)))
}

/// A run of the property also has to meet each of these, or it shows nothing.
#[derive(Debug, Default)]
struct Met {
    never: Cell<usize>,
    invariant: Cell<usize>,
    linear: Cell<usize>,
    branched: Cell<usize>,
    accepted: Cell<usize>,
    refused: Cell<usize>,
}

fn meet(mark: &Cell<usize>) {
    mark.set(mark.get() + 1);
}

#[test]
fn no_analysis_claims_what_the_interpreter_does_not_do() {
    let met = Met::default();
    let config = Config { cases: 48, source_file: Some(file!()), ..Config::default() };
    TestRunner::new(config)
        .run(&specification(), |source| {
            let class = class(&source, "A");
            let instances = instances(&class);
            check_relations(&class, &instances, &met)?;
            check_calls(&class, &instances, &met)
        })
        .unwrap();
    let Met { never, invariant, linear, branched, accepted, refused } = &met;
    assert!([never, invariant, linear, branched, accepted, refused].into_iter().all(|mark| mark.get() > 0), "{met:?}");
}
