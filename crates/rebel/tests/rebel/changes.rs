//! Which places a call changes, and in which manner.

use std::sync::{Arc, LazyLock};

use enact_rebel::{Change, Class, EventCall, Instance, Manner, Place, Value};
use proptest::prelude::*;

use crate::support::{NOW, call, class, key};

const GOAL: &str = "
    class Goal
      saved: Money = EUR 0.00
      limit: Money = EUR 0.00
      until: Date = 2026-01-01
      savers: Set[Integer] = {}
      score: Decimal(2) = 0.00
      initial planned
        on Start(): open
      open
        on Save(amount: Money, by: Integer)
          post: this.saved += amount, this.savers += by
        on Return(amount: Money)
          post: this.saved = EUR 1.00 + saved - amount
        on Book(amount: Money)
          let: after = saved - amount
          pre: after >= 0
          post: this.saved = after
        on Rate(points: Decimal(2))
          post: this.score += points
        on Earn(rate: Percentage)
          post: this.saved += saved * rate
        on Limit(to: Money)
          post: this.limit = to
        on Match()
          post: this.limit = saved
        on Delay()
          post: this.until = today
        on Prolong()
          post: this.until = until + (today - until)
        on Forget()
          post: this.savers = {}
        on Swap(by: Integer)
          post: this.savers = savers + by
        on Choose(amount: Money, by: Integer)
          post:
            if by > 3: this.saved += amount else: this.limit = amount
            for saver in 0 .. by: this.savers += saver
            if by == 5:
              this.saved += amount
              this.savers -= 7
        on Round(to: Money)
          post: if saved > to: this.saved = to
        on Level(to: Money)
          post: if limit > to: this.saved -= to
        on Count(upTo: Integer)
          post: for saver in savers: if saver > upTo: this.saved += limit
        on Close(): closed
      final closed";

fn goal() -> &'static Class {
    static CLASS: LazyLock<Arc<Class>> = LazyLock::new(|| class(GOAL, "Goal"));
    &CLASS
}

fn changes(event: &str, arguments: &[&str]) -> Vec<Change> {
    goal().changes(&key(goal()), &call(goal(), event, arguments), NOW).expect("it fits")
}

fn place(field: &str, element: Option<i64>) -> Place {
    Place { field: field.into(), element: element.map(Value::Integer) }
}

#[test]
fn every_effect_has_its_place_and_its_manner() {
    let saving = changes("Save", &["EUR 1.00", "7"]);
    assert_eq!(saving[0], Change { place: place("saved", None), manner: Manner::Adds });
    assert_eq!(saving[1].place, place("savers", Some(7)));
    for (event, arguments, field) in [
        ("Earn", ["1%"].as_slice(), "saved"),
        ("Limit", &["EUR 1.00"], "limit"),
        ("Delay", &[], "until"),
        ("Prolong", &[], "until"),
        ("Forget", &[], "savers"),
        ("Close", &[], ""),
    ] {
        let found = changes(event, arguments);
        assert_eq!(found.len(), 1, "{event}");
        assert_eq!(found[0].place, place(field, None), "{event}");
        assert!(matches!(found[0].manner, Manner::Makes(_)), "{event}");
    }
    // It depends on another field.
    assert_eq!(changes("Match", &[]), [Change { place: place("limit", None), manner: Manner::Other }]);
    assert_eq!(changes("Swap", &["7"]), [saving[1].clone()]);
}

#[test]
fn a_condition_on_arguments_is_looked_through() {
    let places = |amount: &str, by: &str| -> Vec<(Place, bool)> {
        let found = changes("Choose", &[amount, by]);
        found.into_iter().map(|change| (change.place, change.manner == Manner::Adds)).collect()
    };
    let savers = |all: &[i64]| all.iter().map(|saver| (place("savers", Some(*saver)), false)).collect::<Vec<_>>();
    let few = [vec![(place("limit", None), false)], savers(&[0, 1])].concat();
    assert_eq!(places("EUR 1.00", "1"), few);
    let many = [vec![(place("saved", None), true)], savers(&[0, 1, 2, 3, 4])].concat();
    assert_eq!(places("EUR 1.00", "4"), many);
    let all = [vec![(place("saved", None), true)], savers(&[0, 1, 2, 3, 4, 5, 7])].concat();
    assert_eq!(places("EUR 1.00", "5"), all);
    assert_eq!(changes("Choose", &["EUR 1.00", "5"])[1], changes("Save", &["EUR 1.00", "0"])[1]);
    // The instance decides: about its own field, about another one, and for how many elements.
    assert!(matches!(changes("Round", &["EUR 1.00"])[..], [Change { manner: Manner::Makes(_), .. }]));
    for (event, argument) in [("Level", "EUR 1.00"), ("Count", "3")] {
        assert_eq!(changes(event, &[argument]), [Change { place: place("saved", None), manner: Manner::Other }]);
    }
    // Many elements are told as a whole.
    assert_eq!(changes("Choose", &["EUR 1.00", "300"])[1].place, place("savers", None));
}

fn goal_instance() -> impl Strategy<Value = Instance> {
    let savers = prop::collection::btree_set(0_i64..9, 0..5);
    (0_i64..4, 0_i64..4, savers).prop_map(|(saved, limit, savers)| {
        let amount = |of: i64| serde_json::json!({ "Money": format!("EUR {of}.00") });
        let savers: Vec<_> = savers.into_iter().map(|saver| serde_json::json!({ "Integer": saver })).collect();
        serde_json::from_value(serde_json::json!({
            "state": "open",
            "fields": {
                "saved": amount(saved), "limit": amount(limit), "until": { "Date": "2026-01-01" },
                "savers": { "Set": savers },
            },
        }))
        .unwrap()
    })
}

fn goal_call() -> impl Strategy<Value = EventCall> {
    let one = |event: &'static str| {
        (0_i64..4).prop_map(move |amount| call(goal(), event, &[&format!("EUR {amount}.00")])).boxed()
    };
    let two = |event: &'static str| {
        (0_i64..4, 0_i64..8)
            .prop_map(move |(amount, by)| call(goal(), event, &[&format!("EUR {amount}.00"), &by.to_string()]))
            .boxed()
    };
    let number = |event: &'static str| (0_i64..8).prop_map(move |by| call(goal(), event, &[&by.to_string()])).boxed();
    let none = |event: &'static str| Just(call(goal(), event, &[])).boxed();
    prop_oneof![
        1 => two("Save"),
        4 => two("Choose"),
        1 => one("Limit"),
        1 => one("Round"),
        1 => one("Level"),
        1 => number("Count"),
        1 => number("Swap"),
        1 => none("Match"),
        1 => none("Forget"),
        1 => none("Delay"),
    ]
}

/// What a change is of: the field, or one element of it.
fn is_about(change: &Change, field: &str, element: Option<&Value>) -> bool {
    *change.place.field == *field && (change.place.element.is_none() || change.place.element.as_ref() == element)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// What is told covers what the interpreter changes, and changes of one manner make the same in both orders.
    #[test]
    fn every_change_is_told_and_those_of_one_manner_commute(
        before in goal_instance(),
        one in goal_call(),
        other in goal_call(),
    ) {
        let (class, key) = (goal(), key(goal()));
        let told = [&one, &other].map(|call| class.changes(&key, call, NOW).unwrap());
        let next = |instance: &Instance, call: &EventCall| class.next(&key, instance, call, NOW).unwrap();
        let after = next(&before, &one);
        for (name, value) in before.fields().iter() {
            let new = after.fields().get(name).unwrap();
            match (value, new) {
                (Value::Set(old), Value::Set(new)) => {
                    for element in old.symmetric_difference(new) {
                        prop_assert!(told[0].iter().any(|change| is_about(change, name, Some(element))), "{} {:?}", one, told);
                    }
                }
                (old, new) => {
                    prop_assert!(old == new || told[0].iter().any(|change| is_about(change, name, None)), "{} {:?}", one, told);
                }
            }
        }
        let is_alike = |a: &Change, b: &Change| {
            let is_apart = a.place.field != b.place.field
                || a.place.element.is_some() && b.place.element.is_some() && a.place != b.place;
            is_apart || a.place == b.place && a.manner == b.manner && a.manner != Manner::Other
        };
        let reads_nothing_else = |change: &Change| change.manner != Manner::Other;
        let all = told.iter().flatten().all(reads_nothing_else);
        if all && told[0].iter().all(|a| told[1].iter().all(|b| is_alike(a, b))) {
            prop_assert_eq!(next(&after, &other), next(&next(&before, &other), &one), "{} and {}", one, other);
        }
    }
}

#[test]
fn a_sum_adds_however_it_is_written() {
    for (event, argument, field) in
        [("Return", "EUR 1.00", "saved"), ("Book", "EUR 1.00", "saved"), ("Rate", "0.50", "score")]
    {
        assert_eq!(
            changes(event, &[argument]),
            [Change { place: place(field, None), manner: Manner::Adds }],
            "{event}"
        );
    }
}

#[test]
fn equal_changes_are_of_one_manner_and_others_are_not() {
    assert_eq!(changes("Earn", &["1%"]), changes("Earn", &["1%"]));
    for (one, other) in [
        (changes("Earn", &["1%"]), changes("Earn", &["2%"])),
        (changes("Earn", &["1%"]), changes("Save", &["EUR 1.00", "7"])),
        (changes("Limit", &["EUR 1.00"]), changes("Limit", &["USD 1.00"])),
        (changes("Delay", &[]), changes("Prolong", &[])),
    ] {
        assert_eq!(one[0].place, other[0].place);
        assert_ne!(one[0].manner, other[0].manner, "{one:?} {other:?}");
    }
    assert_ne!(changes("Save", &["EUR 1.00", "7"])[1].place, changes("Save", &["EUR 1.00", "8"])[1].place);
}
