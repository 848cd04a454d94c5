//! Calls that are thresholds and deltas: exactly those, and exactly what the interpreter does.

use std::sync::{Arc, LazyLock};

use enact_rebel::{Bound, Class, Delta, Instance, Linear, Term, Threshold, Type, Value};
use proptest::prelude::*;

use crate::support::{self, NOW, call, class, key, run};

fn linear(class: &Class, event: &str, arguments: &[&str]) -> Option<Linear> {
    class.linear(&key(class), &[call(class, event, arguments)], NOW)
}

fn term(field: &str) -> Term {
    Term { field: field.into(), is_negative: false }
}

#[test]
fn a_withdrawal_is_one_threshold_and_one_delta() {
    let account = class(include_str!("specs/account.rebel"), "Account");
    let euro = Some("EUR".parse().unwrap());
    let withdraw = linear(&account, "Withdraw", &["EUR 30.00"]).unwrap();
    assert_eq!(
        withdraw,
        Linear {
            states: vec!["opened".into()],
            thresholds: vec![Threshold { terms: vec![term("balance")], bound: Bound::AtLeast(3000), currency: euro }],
            holds: vec![],
            deltas: vec![Delta { field: "balance".into(), amount: -3000, currency: euro }],
            assigned: vec![],
            puts: vec![],
        }
    );
    let deposit = linear(&account, "Deposit", &["EUR 5.00"]).unwrap();
    assert_eq!(deposit.thresholds.len(), 1, "only the range of numbers bounds a deposit");
    assert_eq!(deposit.deltas[0].amount, 500);
}

#[test]
fn what_is_refused_by_its_arguments_or_changes_otherwise_is_not_linear() {
    let account = class(include_str!("specs/account.rebel"), "Account");
    for (event, arguments) in [
        ("Withdraw", ["EUR 0.00"].as_slice()),
        ("Deposit", &["EUR -5.00"]),
        ("Interest", &["1%"]),
        ("Open", &["EUR 50.00"]),
        ("Close", &[]),
    ] {
        assert_eq!(linear(&account, event, arguments), None, "{event}");
    }
    // The guard is decided by the argument, and the currency of the literal by the field.
    assert_eq!(linear(&account, "Withdraw", &["USD 30.00"]), None);
}

#[test]
fn a_sum_of_fields_is_one_threshold_and_invariants_are_shifted() {
    let source = "
        class Account
          balance: Integer = 0
          limit: Integer = 0
          invariant balance + limit >= 0
          initial new on Open(): opened
          opened
            on Withdraw(sum: Integer) post: this.balance -= sum
            on Lower(by: Integer) pre: limit - by >= 0 post: this.limit -= by";
    let account = class(source, "Account");
    let both = vec![term("balance"), term("limit")];
    let withdraw = linear(&account, "Withdraw", &["30"]).unwrap();
    assert!(withdraw.thresholds.contains(&Threshold {
        terms: both.clone(),
        bound: Bound::AtLeast(30),
        currency: None
    }));
    let lower = linear(&account, "Lower", &["5"]).unwrap();
    assert!(lower.thresholds.contains(&Threshold {
        terms: vec![term("limit")],
        bound: Bound::AtLeast(5),
        currency: None
    }));
    assert!(lower.thresholds.contains(&Threshold { terms: both, bound: Bound::AtLeast(5), currency: None }));
}

#[test]
fn a_call_whose_needs_depend_on_fields_is_not_linear() {
    let source = "
        class Account initial i on Open(): s\n        s on Put(sum: Integer)
        class Goal saved: Integer = 0 initial i on Begin(): s\n        s
          on Pay(to: Account) pre: saved >= 10 post: this.saved -= 10 sync: to.Put(saved)
          on Give(to: Account, sum: Integer) pre: saved >= sum post: this.saved -= sum sync: to.Put(sum)";
    let goal = class(source, "Goal");
    assert_eq!(linear(&goal, "Pay", &["a"]), None, "other open calls change what is paid");
    assert_eq!(linear(&goal, "Give", &["a", "5"]).unwrap().deltas[0].amount, -5);
}

#[test]
fn an_interval_decides_a_threshold_if_all_of_it_is_on_one_side() {
    let threshold = |bound| Threshold { terms: vec![term("f")], bound, currency: None };
    for (bound, low, high, expected) in [
        (Bound::AtLeast(5), 5, 9, Some(true)),
        (Bound::AtLeast(5), 4, 9, None),
        (Bound::AtLeast(5), 0, 4, Some(false)),
        (Bound::AtMost(5), 0, 5, Some(true)),
        (Bound::AtMost(5), 5, 6, None),
        (Bound::AtMost(5), 6, 9, Some(false)),
    ] {
        assert_eq!(threshold(bound).decide(low, high), expected, "{bound:?} {low} {high}");
    }
}

/// A class with linear events of every kind, beside some that are not.
const MIXED: &str = "
    const cap: Integer = 100
    class Mixed
      a: Integer = 0
      b: Integer = 0
      m: Money
      n: Money
      p: Percentage = 0%
      d: Date = 2026-01-01
      flag: Boolean = false
      small: Set[Integer] = {}
      word: String = \"\"
      invariant a + b >= -50
      invariant m - n >= EUR -10.00
      invariant p <= 200% and p >= -200%
      initial new on Make(x: Money, y: Money): lit post: this.m == x, this.n == y
      lit, dark
        on Add(k: Integer) pre: k != 7, a + k <= cap, 3 - a < 100 - k post: this.a += k
        on Both(k: Integer, l: Integer) pre: a - b >= k, b - a - l <= 60 post: this.a -= k, this.b == b + l
        on Pay(x: Money) pre: x > 0, m - x >= EUR 0.00 post: this.m -= x
        on Move(x: Money) pre: m > n, n == EUR 1.00 post: this.m == m - x, this.n == x + n
        on Rate(r: Percentage) pre: -p < r + 100% post: this.p += r
        on Late(k: Integer) pre: today - d >= k, d <= today, d + k > 2026-01-05 post: this.a += 1
        on Still(x: Money) pre: m >= x
        on Odd(k: Integer) pre: a != k post: this.a += k
        on Twice() post: this.a += a
        on Either(k: Integer) pre: a > k or b > k
        on Cap(k: Integer) pre: k > 0, b + k >= 0 post: this.a == k
        on Quote(x: Money) pre: n >= EUR 0.00 post: this.m == x
        on Raise() post: this.flag == true
        on Lower() pre: flag post: this.flag == false, this.b += 1
        on Join(k: Integer) pre: not (k in small) post: this.small += k
        on Part(k: Integer) pre: k in small, flag == false post: this.small -= k
        on Name(w: String) pre: word == \"\" post: this.word == w
        on Reset(k: Integer) pre: a > 0 post: this.a == k
        on Clear() post: this.small == {}
        on Raise2(k: Integer) post: if k > 3: this.a += k else: this.word = \"x\"
        on Sum(k: Integer, x: Money)
          pre: x >= 0
          post:
            this.a += k
            if k > 3: this.a += 1
            if x > EUR 0.01:
              this.m -= x
              this.n += x
            else: this.flag = true
            this.a -= 7
        on Fill(k: Integer, l: Integer)
          pre: k in 0 .. 100, l - k < 4
          post:
            for i in k .. l:
              this.small += i
              this.b += i
            if k > 50: this.small -= k - 50
        on Hidden(k: Integer) post: if a > k: this.b += 1
        on Inner(k: Integer) post: for i in 0 .. b: this.a += k
        on Late2(k: Integer)
          post:
            for i in 1 .. 2:
              if k > i: this.a += a
      lit on Leave(): dark";

fn mixed() -> &'static Class {
    static CLASS: LazyLock<Arc<Class>> = LazyLock::new(|| class(MIXED, "Mixed"));
    &CLASS
}

fn near(points: &'static [i64]) -> impl Strategy<Value = i64> {
    (prop::sample::select(points), -3_i64..4).prop_map(|(point, by)| point.saturating_add(by))
}

fn integer() -> impl Strategy<Value = i64> {
    near(&[0, 7, -50, 50, 60, 97, 100, i64::MIN, i64::MAX, i64::MAX / 2])
}

fn amount() -> impl Strategy<Value = String> {
    let currency = prop_oneof![9 => Just("EUR"), 1 => Just("USD")];
    let near_ends = prop::sample::select(vec![0, 100, -1000, 1000, 5000, 10_i128.pow(36), -10_i128.pow(36)]);
    (currency, near_ends, -3_i128..4).prop_map(|(currency, point, by)| {
        let minor = (point + by).clamp(-10_i128.pow(36), 10_i128.pow(36));
        let (sign, size) = if minor < 0 { ("-", -minor) } else { ("", minor) };
        format!("{currency} {sign}{}.{:02}", size / 100, size % 100)
    })
}

fn text(ty: &Type) -> BoxedStrategy<String> {
    match ty {
        Type::Integer => integer().prop_map(|number| number.to_string()).boxed(),
        Type::Money => amount().boxed(),
        Type::Percentage => near(&[0, 100, 200, -200]).prop_map(|number| format!("{number}%")).boxed(),
        Type::Date => (1_u8..29).prop_map(|day| format!("2026-01-{day:02}")).boxed(),
        Type::Boolean => any::<bool>().prop_map(|truth| truth.to_string()).boxed(),
        Type::String => prop::sample::select(vec!["", "a", "b"]).prop_map(str::to_owned).boxed(),
        Type::Set(_) => prop::collection::btree_set(0_i64..3, 0..3)
            .prop_map(|set| format!("{{{}}}", set.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")))
            .boxed(),
        other => panic!("no values of {other}"),
    }
}

fn instance(class: &Class) -> impl Strategy<Value = Instance> + use<> {
    let fields: Vec<_> = class
        .fields()
        .iter()
        .map(|field| {
            let (name, ty) = (field.name().to_string(), field.ty().clone());
            text(&ty).prop_map(move |text| (name.clone(), Value::parse(&ty, &text).unwrap()))
        })
        .collect();
    let state = prop_oneof![Just("lit"), Just("dark")];
    (state, fields).prop_map(|(state, fields)| {
        let fields: std::collections::BTreeMap<_, _> = fields.into_iter().collect();
        serde_json::from_value(serde_json::json!({ "state": state, "fields": fields })).unwrap()
    })
}

fn arguments(class: &Class) -> impl Strategy<Value = (String, Vec<String>)> + use<> {
    let events: Vec<_> = class
        .events()
        .iter()
        .map(|event| {
            let texts: Vec<_> = event.params().iter().map(|param| text(param.ty())).collect();
            (Just(event.name().to_string()), texts).boxed()
        })
        .collect();
    prop::strategy::Union::new(events)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn a_linear_call_happens_and_adds_exactly_as_the_interpreter_says(
        before in instance(mixed()),
        (event, texts) in arguments(mixed()),
    ) {
        let class = mixed();
        let key = key(class);
        prop_assume!(class.verify(&key, &before).is_ok());
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let call = call(class, &event, &texts);
        let Some(linear) = class.linear(&key, std::slice::from_ref(&call), NOW) else { return Ok(()) };
        let next = class.next(&key, &before, &call, NOW);
        prop_assert_eq!(linear.happens_in(&before), next.is_ok(), "{:?} {:?} {:?}", before, linear, next);
        if let Ok(after) = next {
            prop_assert_eq!(after.state(), before.state());
            for (name, value) in before.fields().iter() {
                let number = |value: &Value| support::number(value);
                let found = after.fields().get(name).unwrap();
                let of = |deltas: &[Delta]| deltas.iter().find(|delta| delta.field == *name).map(|delta| delta.amount);
                let expected = of(&linear.assigned).unwrap_or(number(value) + of(&linear.deltas).unwrap_or(0));
                prop_assert_eq!(expected, number(found));
                let puts: Vec<_> = linear.puts.iter().filter(|put| put.place.field == *name).collect();
                for put in &puts {
                    prop_assert_eq!(put.place.content_in(&after), Some(put.value.clone()));
                }
                match (value, found) {
                    // Whatever else the set has is as it was.
                    (Value::Set(before), Value::Set(after)) => {
                        let changed = before.symmetric_difference(after);
                        let is_put = |element: &Value| puts.iter().any(|put| put.place.element.as_ref() == Some(element));
                        prop_assert!(changed.into_iter().all(is_put));
                    }
                    (Value::Boolean(_) | Value::String(_), _) => prop_assert!(!puts.is_empty() || value == found),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn a_condition_on_arguments_is_looked_through() {
    let delta = |field: &str, amount| Delta { field: field.into(), amount, currency: None };
    let (much, little) = (linear(mixed(), "Raise2", &["4"]).unwrap(), linear(mixed(), "Raise2", &["3"]).unwrap());
    assert_eq!((much.deltas, much.puts.len()), (vec![delta("a", 4)], 0));
    assert_eq!((little.deltas, little.puts.len()), (vec![], 1));
    let filled = linear(mixed(), "Fill", &["51", "53"]).unwrap();
    let puts: Vec<String> = filled.puts.iter().map(|put| format!("{:?}", (&put.place.element, &put.value))).collect();
    assert_eq!(filled.deltas, [delta("b", 51 + 52 + 53)]);
    assert_eq!(puts.len(), 4, "three elements in, another one out: {puts:?}");
}

/// The property above would hold of an analysis that finds nothing.
#[test]
fn every_event_of_the_mixed_class_that_is_linear_is_found() {
    let class = mixed();
    for (event, arguments, expected) in [
        ("Add", ["5"].as_slice(), true),
        ("Add", &["7"], false),
        ("Both", &["1", "2"], true),
        ("Pay", &["EUR 1.00"], true),
        ("Move", &["EUR 1.00"], true),
        ("Rate", &["1%"], true),
        ("Late", &["1"], true),
        ("Still", &["EUR 1.00"], true),
        ("Odd", &["1"], false),
        ("Twice", &[], false),
        ("Either", &["1"], false),
        ("Cap", &["1"], true),
        ("Quote", &["EUR 1.00"], true),
        ("Raise", &[], true),
        ("Lower", &[], true),
        ("Join", &["1"], true),
        ("Part", &["1"], true),
        ("Name", &["a"], true),
        ("Reset", &["1"], false),
        ("Clear", &[], false),
        ("Raise2", &["4"], true),
        ("Raise2", &["3"], true),
        ("Sum", &["4", "EUR 1.00"], true),
        ("Sum", &["4", "EUR 0.01"], true),
        ("Fill", &["1", "3"], true),
        ("Fill", &["3", "1"], true),
        ("Fill", &["51", "53"], true),
        ("Hidden", &["1"], false),
        ("Inner", &["1"], false),
        ("Late2", &["1"], true),
        ("Late2", &["2"], false),
        ("Leave", &[], false),
    ] {
        assert_eq!(linear(class, event, arguments).is_some(), expected, "{event}");
    }
    let made = run(class, &[("Make", &["EUR 5.00", "EUR 1.00"])]);
    assert!(linear(class, "Move", &["EUR 1.00"]).unwrap().happens_in(&made));
}
